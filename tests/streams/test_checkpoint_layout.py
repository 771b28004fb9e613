# SPDX-License-Identifier: BSD-3-Clause
"""The version of checkpoints says what a state is made of: another state has another version.

Without this a checkpoint of an earlier library is read as one of today. At best it is refused with
the name of a field that nobody knows.
"""

from __future__ import annotations

import hashlib
import pprint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing.learners import (
    LEARNERS,
    NAMED,
    learner_and_reader,
    named_learner,
    spoken,
    write_rows,
)

from pairlearn.cli.streaming.stream import Conversation, _resume, _save
from pairlearn.models.file import dump_model, read_model
from pairlearn.streams import ProgressiveAUC
from pairlearn.streams.checkpoint import (
    CHECKPOINT_VERSION,
    CheckpointError,
    read_checkpoint,
    reason_of,
)

#: What the states of each kind are made of, for one version. If a kind differs, raise
#: CHECKPOINT_VERSION, and write here the version and the figures that the failing test prints.
LAYOUT: tuple[int, dict[str, str]] = (
    5,
    {
        "alarmed": "81c1b14d9db3",
        "area of curves": "53e0c94a1d3c",
        "buffered": "742b36f635cb",
        "curves": "7db97683e25f",
        "dropping": "7db97683e25f",
        "entropy": "3b002c12d740",
        "entropy curves": "3b002c12d740",
        "forgetting": "73b75d51b418",
        "forgetting moments": "e9874a112e2e",
        "late alarmed": "81c1b14d9db3",
        "late area of curves": "305e67af3602",
        "late buffered": "742b36f635cb",
        "late curves": "7db97683e25f",
        "late dropping": "d875a9fa3b3a",
        "late entropy": "3be5fc51a7c9",
        "late entropy curves": "3be5fc51a7c9",
        "late forgetting": "73b75d51b418",
        "late forgetting moments": "e9874a112e2e",
        "late mapped moments": "12f5b1809c3e",
        "late metric": "b48169450875",
        "late moments": "67666f7d1702",
        "late partial area": "305e67af3602",
        "late precision": "305e67af3602",
        "late push": "305e67af3602",
        "late queries": "07345a5e91d4",
        "late ranking": "e4e7d0807491",
        "late ranking curves": "e4e7d0807491",
        "late sgd": "7db97683e25f",
        "late sparse": "3fa6b4c8c183",
        "mapped moments": "247261aedb1a",
        "metric": "01cfb180c24b",
        "moments": "9bd2ed8940f7",
        "names, descent": "7b64d3d2e40e",
        "names, forgetting moments": "9d976d29ff70",
        "names, moments": "950dcf3112ff",
        "names, outgrown": "cded4fb2b62a",
        "partial area": "53e0c94a1d3c",
        "precision": "53e0c94a1d3c",
        "push": "53e0c94a1d3c",
        "queries": "07345a5e91d4",
        "ranking": "e4e7d0807491",
        "ranking curves": "e4e7d0807491",
        "sgd": "7db97683e25f",
        "sparse": "3fa6b4c8c183",
    },
)


def entries(value: Any, place: str = "") -> list[str]:
    """Return names, types and dimensions of everything in a state, none of its values."""
    if isinstance(value, np.ndarray):
        return [f"{place}:{value.dtype.kind}{value.ndim}"]
    if isinstance(value, dict):
        # labels and names are values, not parts of the layout
        known = {name if isinstance(name, str) else "" for name in value}
        return [
            one for name in sorted(known) for one in entries(value.get(name), f"{place}.{name}")
        ]
    if isinstance(value, (list, tuple)):
        return sorted({one for part in value for one in entries(part, f"{place}[]")})
    return [f"{place}:{type(value).__name__}"]


def digest(state: Any) -> str:
    return hashlib.sha256("\n".join(entries(state)).encode()).hexdigest()[:12]


@pytest.fixture(scope="module")
def states(tmp_path_factory) -> dict[str, Any]:
    """A checkpoint of every kind of learner, early and when everything is collected and chosen."""
    folder: Path = tmp_path_factory.mktemp("layout")
    found = {}
    for stage, n in (("", 60), ("late ", 4600)):
        write_rows(folder, n)
        for kind in LEARNERS:
            learner, reader = learner_and_reader(kind, folder, n // 2)
            learner.fit_stream(reader, checkpoint=folder / "a.ckpt", every=n)
            found[f"{stage}{kind}"] = read_checkpoint(folder / "a.ckpt")
            (folder / "a.ckpt").unlink()
    for kind in NAMED:
        talk = Conversation(named_learner(kind), ProgressiveAUC(20), 5)
        for line in spoken(kind, 60):
            talk.answer(line)
            talk.n_lines += 1
        _save(talk, str(folder / "a.ckpt"))
        found[f"names, {kind}"] = read_checkpoint(folder / "a.ckpt")
    return found


@pytest.mark.thorough
def test_another_state_has_another_version(states):
    found = {kind: digest(one.state) for kind, one in states.items()}
    assert (CHECKPOINT_VERSION, found) == LAYOUT, pprint.pformat((CHECKPOINT_VERSION, found))


def test_a_layout_is_names_and_types():
    state = {"a": np.zeros(3), "b": [{"c": 1}, {"c": 2}], "n": {"x": 1.5}}
    other = {"a": np.ones(5), "b": [{"c": 7}], "n": {"x": 2.5}}
    assert entries(state) == [".a:f1", ".b[].c:int", ".n.x:float"]
    assert digest(state) == digest(other)
    for change in ({"a": np.zeros((3, 1))}, {"b": [{"d": 1}]}, {"n": {}}, {"m": 1}):
        assert digest({**state, **change}) != digest(state)


@pytest.mark.parametrize("version", range(1, CHECKPOINT_VERSION))
@pytest.mark.parametrize("kind", ["moments", "names, moments"])
def test_an_earlier_version_is_refused_in_one_line(kind, version, tmp_path):
    path = tmp_path / "a.ckpt"
    write_rows(tmp_path, 60)
    talk = Conversation(named_learner("moments"), ProgressiveAUC(20), 5)
    if kind == "moments":
        learner, reader = learner_and_reader(kind, tmp_path, 20)
        learner.fit_stream(reader, checkpoint=path, every=20)
    else:
        _save(talk, str(path))
    record = read_model(path, allow_unregistered=True)
    record.parameters["checkpoint_version"] = version
    path.write_bytes(dump_model(record))
    (tmp_path / "a.ckpt.previous").unlink(missing_ok=True)
    learner, reader = learner_and_reader("moments", tmp_path, 20)
    attempt = {
        "moments": lambda: learner.fit_stream(reader, checkpoint=path, every=20),
        "names, moments": lambda: _resume(talk, str(path), False),
    }[kind]
    with pytest.raises(CheckpointError, match=f"checkpoint of version {version} .* delete") as told:
        attempt()
    assert len(str(told.value).splitlines()) == 1


def test_the_reason_names_what_is_missing():
    assert reason_of(KeyError("blocks")) == "the saved state has no 'blocks'"
    assert reason_of(ValueError("two\nlines")) == "two lines"
