# SPDX-License-Identifier: BSD-3-Clause
"""A disk that is full, at every file that a command writes, early and late.

The error comes while bytes are written (a limit of the system), when they are forced to the disk,
or, as a network may do it, when the file is closed. Each time the command ends with one line that
names the file and the cure, and leaves no half of a file.
"""

from __future__ import annotations

import contextlib
import errno
import io
import math
import os
import resource
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pairlearn import AUCClassifier, PrivateAUCStream
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.models import ModelFileError

LINES = b'{"x": {"a": 1}, "y": 1}\n{"x": {"a": 2}, "y": 0}\n'
CURE = "free space or choose another folder"
PRIVATE = [
    "train", "d.csv", "--private", "--epsilon", 1, "--delta", 1e-6, "--bounds", "facts.toml",
]  # fmt: skip
COMPARE = [
    "compare", "d.csv", "--label", "y", "--methods", "logistic", "--splits", 1, "--quiet",
]  # fmt: skip
LEDGER = ["privacy", "ledger", "create", "out", "--epsilon", 2, "--delta", 1e-5]
REPRODUCE = [
    "reproduce", "table1", "--quick", "--data", "breast_cancer", "--methods", "ours", "--splits", 1,
    "--quiet",
]  # fmt: skip
#: Commands by the file that each writes first.
WRITES = {
    "train": ["train", "d.csv", "--label", "y", "-o", "out"],
    "train --fit stream": ["train", "d.csv", "--label", "y", "--fit", "stream", "-o", "out"],
    "checkpoint of train": ["train", "d.csv", "--label", "y", "--fit", "stream", "-o", "model",
                            "--set", "stream.checkpoint=out", "--set", "stream.every=10"],
    "train --private": [*PRIVATE, "-o", "out"],
    "train --ledger": [*PRIVATE, "--ledger", "old.ledger", "-o", "model"],
    "predict": ["predict", "m", "d.csv", "-o", "out"],
    "export": ["export", "m", "--to", "json", "-o", "out"],
    "evaluate --plot": ["evaluate", "m", "d.csv", "--plot", "out"],
    "evaluate --report": ["evaluate", "m", "d.csv", "--report", "out"],
    "stream": ["stream", "-o", "out"],
    "checkpoint of stream": ["stream", "--checkpoint", "out"],
    "ledger": LEDGER,
    "seal of a ledger": [*LEDGER[:3], "new", *LEDGER[4:], "--seal", "out"],
    "compare --report": [*COMPARE, "--store", "old.sqlite", "--report", "out"],
    "reproduce --report": [*REPRODUCE, "--store", "old.sqlite", "--report", "out"],
}  # fmt: skip
#: Those that compute or draw for a second or more.
SLOW = ("evaluate --plot", "evaluate --report", "compare --report",
        "reproduce --report")  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    rows = (f"{math.sin(k)},{math.cos(3 * k)},{int(math.sin(k + 0.4) > 0)}\n" for k in range(60))
    (folder / "d.csv").write_text("a,b,y\n" + "".join(rows))
    facts = 'label = "y"\nlabels = [0, 1]\n[features]\na = [-1, 1]\nb = [-1, 1]\n'
    (folder / "facts.toml").write_text(facts)
    with contextlib.chdir(folder):
        assert run(program, ["train", "d.csv", "--label", "y", "-o", "m"]) == 0
    return folder


@pytest.fixture(scope="module")
def stored(made):
    """A store that holds the results of both commands which keep one."""
    with contextlib.chdir(made):
        for command in (COMPARE, REPRODUCE):
            assert run(program, [str(a) for a in [*command, "--store", "old.sqlite"]]) == 0
    return made / "old.sqlite"


@pytest.fixture
def folder(tmp_path, made, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in filter(Path.is_file, made.iterdir()):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(LINES)))
    return tmp_path


@contextlib.contextmanager
def full(place, written="", code=errno.ENOSPC):
    """Let the system refuse bytes at one place of a write; late ones only of a file `written`."""
    if place == "write":
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
        try:
            yield os.strerror(errno.EFBIG)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        return

    true = getattr(os, place)

    def fail(handle):
        # only for files on their way to a name, and not for what Python itself closes
        path = os.readlink(f"/proc/self/fd/{handle}")
        late = path.endswith(".tmp") and written in path
        true(handle)
        if late:
            raise OSError(code, os.strerror(code))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, place, fail)
        yield os.strerror(code)


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".lock", ".sqlite")
    }


def fails(folder, capsys, command, place, written=""):
    """Run a command whose disk is full; return the one line that it ends with."""
    before = contents(folder)
    with full(place, written) as reason:
        assert run(program, [str(a) for a in command]) == 1
    *before_it, line = capsys.readouterr().err.splitlines()
    assert not [one for one in before_it if "error" in one]
    assert contents(folder) == before
    assert not list(folder.rglob("*.tmp*"))
    return line, reason


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="faults are put in by /proc")
@pytest.mark.parametrize("place", ["write", "fsync", "close"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.thorough] * (name in SLOW)) for name in WRITES],
)
def test_a_full_disk(folder, request, capsys, name, place):
    written = {"train --ledger": "old.ledger"}.get(name, "out")
    if name == "train --ledger":
        assert run(program, [str(a) for a in [*LEDGER[:3], "old.ledger", *LEDGER[4:]]]) == 0
    elif "old.sqlite" in WRITES[name]:
        if place == "write":
            pytest.skip("the store is written first, see below")
        shutil.copy(request.getfixturevalue("stored"), folder)
    line, reason = fails(folder, capsys, WRITES[name], place, written)
    assert written in line
    assert reason in line
    assert CURE in line
    # the same command succeeds once there is space
    sys.stdin.buffer = io.BytesIO(LINES)
    assert run(program, [str(a) for a in WRITES[name]]) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("command", [COMPARE, REPRODUCE], ids=lambda command: command[0])
@pytest.mark.parametrize("store", ["new.sqlite", "old.sqlite"])
def test_a_full_disk_under_a_store(folder, stored, capsys, command, store):
    shutil.copy(stored, folder)
    line, _ = fails(folder, capsys, [*command, "--store", store], "write")
    assert f"{store} cannot be written" in line
    assert "free space" in line


@pytest.mark.parametrize("place", ["write", "fsync", "close"])
def test_a_model_and_a_checkpoint_from_python(folder, place):
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    model = AUCClassifier(random_state=0).fit(X, y)
    stream = PrivateAUCStream(20, 1.0, 1e-3, bounds=(-3.0, 3.0)).partial_fit(X[:4], y[:4])
    with full(place), pytest.raises(ModelFileError, match=rf"m\.new cannot be written.*{CURE}"):
        model.save("m.new")
    with full(place), pytest.raises(OSError, match="state") as refused:
        stream.save_checkpoint("state", holds_raw_example=True)
    assert refused.value.filename == "state"
    assert not list(folder.glob("*m.new*")) + list(folder.glob("*state*"))
