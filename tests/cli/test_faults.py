# SPDX-License-Identifier: BSD-3-Clause
"""A full disk, a network that fails, files that change: one line, and nothing half-written."""

from __future__ import annotations

import errno
import gzip
import io
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from pairlearn import atomic
from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.streams.readers import files
from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.files import TextSource

LINES = b'{"x": {"a": 1}, "y": 1}\n{"x": {"a": 2}, "y": 0}\n'
WRITES = {
    "train": ["train", "d.csv", "--label", "y", "-o", "out"],
    "stream training": ["train", "d.csv", "--label", "y", "--fit", "stream", "-o", "out"],
    "predict": ["predict", "m", "d.csv", "-o", "out"],
    "export": ["export", "m", "--to", "json", "-o", "out"],
    "stream": ["stream", "-o", "out"],
    "checkpoint": ["stream", "--checkpoint", "out"],
}
CURES = {
    errno.ENOSPC: "free space or choose another folder",
    errno.EDQUOT: "free space or choose another folder",
    errno.EFBIG: "free space or choose another folder",
    errno.EROFS: "choose another folder, or change its permissions",
    errno.EACCES: "choose another folder, or change its permissions",
    errno.EIO: "look whether the disk or the network is in order",
    errno.ESTALE: "look whether the disk or the network is in order",
}


@pytest.fixture
def folder(tmp_path, made, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("d.csv", "m"):
        (tmp_path / name).write_bytes((made / name).read_bytes())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(LINES)))
    return tmp_path


def failing(monkeypatch, place, code):
    """Let the system refuse at one place of a write."""

    def fail(*arguments, **options):
        raise OSError(code, os.strerror(code))

    owner, name = {
        "fsync": (atomic.os, "fsync"),
        "rename": (atomic.os, "replace"),
    }[place]
    monkeypatch.setattr(owner, name, fail)


@pytest.mark.parametrize("code", CURES)
@pytest.mark.parametrize("place", ["fsync", "rename"])
@pytest.mark.parametrize("command", ["predict", "export", "stream", "checkpoint"])
def test_a_write_that_fails(folder, monkeypatch, capsys, command, place, code):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with monkeypatch.context() as patched:
        failing(patched, place, code)
        assert run(program, WRITES[command]) == 1
    [line] = [x for x in capsys.readouterr().err.splitlines() if "error:" in x]
    assert "out" in line
    assert os.strerror(code) in line
    assert CURES[code] in line
    files = [path for path in folder.iterdir() if path.suffix != ".lock"]
    assert {path.name: path.read_bytes() for path in files} == before


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["train", "stream training"])
def test_a_model_that_cannot_be_written(folder, monkeypatch, capsys, command):
    with monkeypatch.context() as patched:
        failing(patched, "rename", errno.ENOSPC)
        assert run(program, WRITES[command]) == 1
    assert "No space left on device; free space" in capsys.readouterr().err
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]
    assert not (folder / "out").exists()
    assert run(program, WRITES[command]) == 0


def test_a_file_that_is_too_large(folder, capsys):
    """The limit of the system, in the middle of a file (Python ignores its signal)."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    (folder / "out").write_text("line,score\n1,0.5\n")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, before[1]))
        status = run(program, WRITES["predict"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert status == 1
    assert "error: out: File too large; free space or choose" in capsys.readouterr().err
    assert (folder / "out").read_text() == "line,score\n1,0.5\n"
    assert sorted(path.name for path in folder.iterdir()) == ["d.csv", "m", "out"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_a_read_that_fails(folder, monkeypatch, capsys, code):
    """A network may fail after the first bytes; nothing is written then."""
    true_open = files.open_raw

    class Failing(io.RawIOBase):
        def __init__(self, file):
            self.file, self.left = file, 100

        def fileno(self):
            return self.file.fileno()

        def seek(self, *where):
            return self.file.seek(*where)

        def read(self, size=-1):
            if self.left <= 0:
                raise OSError(code, os.strerror(code))
            self.left -= size
            return self.file.read(size)

        def readinto(self, view):
            raise OSError(code, os.strerror(code))

        def close(self):
            self.file.close()
            super().close()

    monkeypatch.setattr(files, "open_raw", lambda path: Failing(true_open(path)))
    assert run(program, WRITES["predict"]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"{os.strerror(code)}; look whether the disk" in err
    assert sorted(path.name for path in folder.iterdir()) == ["d.csv", "m"]


def read_all(source, meanwhile):
    """Read a source to its end; something happens after the first bytes."""
    total = len(source.read(10))
    meanwhile()
    while part := source.read(1000):
        total += len(part)
    return total


@pytest.mark.parametrize("packed", [False, True])
def test_a_text_that_changes(tmp_path, packed):
    text = np.random.default_rng(0).bytes(300_000).hex().encode()
    data = gzip.compress(text) if packed else text
    path = tmp_path / "d"

    def source():
        path.write_bytes(data)
        os.utime(path, (1, 1))
        return TextSource(path)

    assert read_all(source(), lambda: None) == len(text)
    for meanwhile in (lambda: os.truncate(path, 200_000), lambda: os.utime(path, (2, 2))):
        with pytest.raises(ReadError, match=r"changed while it was read|damaged or cut short"):
            read_all(source(), meanwhile)
    assert read_all(source(), path.unlink) == len(text)  # an open file stays readable

    def grow():
        with path.open("ab") as file:
            file.write(data)

    assert read_all(source(), grow) == 2 * len(text)


def test_a_kill_between_two_renames(folder):
    """A checkpoint and the one before it are one file then; the next run goes on all the same."""
    arguments = ["stream", "--checkpoint", "kept", "-o", "out"]
    assert run(program, arguments) == 0
    os.link(folder / "kept", folder / "kept.previous")
    sys.stdin = SimpleNamespace(buffer=io.BytesIO(LINES))  # the fixture sets the true one again
    assert run(program, arguments) == 0
    assert (folder / "kept").stat().st_ino != (folder / "kept.previous").stat().st_ino
