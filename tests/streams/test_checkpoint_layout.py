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

from pairlearn.cli.stream import Conversation, _resume, _save
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
    8,
    {
        "alarmed": "b4297c4959ef",
        "area of curves": "327da70ce694",
        "buffered": "d09ba1e667e7",
        "curves": "86f0b0f767d0",
        "dropping": "cfaa8e0d5fd8",
        "entropy": "6fe535d7cbf6",
        "entropy curves": "0c9d526b3d12",
        "forgetting": "b9042772f609",
        "forgetting moments": "b9341571298c",
        "late alarmed": "b4297c4959ef",
        "late area of curves": "f79f0099a9b0",
        "late buffered": "d09ba1e667e7",
        "late curves": "86f0b0f767d0",
        "late dropping": "5c40d072637b",
        "late entropy": "9d5ffd0bbba1",
        "late entropy curves": "76320cd285f6",
        "late forgetting": "b9042772f609",
        "late forgetting moments": "b9341571298c",
        "late mapped moments": "30cfdd1e40cc",
        "late metric": "9e5199d6c93e",
        "late moments": "1542ede71bb8",
        "late partial area": "54644708e1ff",
        "late precision": "54644708e1ff",
        "late push": "54644708e1ff",
        "late queries": "f77b00581cb3",
        "late ranking": "491de41cc9fc",
        "late ranking curves": "36f35be3c4a0",
        "late sgd": "cfaa8e0d5fd8",
        "late sparse": "9a5901c0735e",
        "mapped moments": "7ee0ad1c84e8",
        "metric": "7e9332f481a9",
        "moments": "fb47874b511e",
        "names, descent": "c0f5bf1d03d4",
        "names, forgetting moments": "9d976d29ff70",
        "names, moments": "950dcf3112ff",
        "names, outgrown": "d8c721e3efa4",
        "partial area": "aa836191845f",
        "precision": "aa836191845f",
        "push": "aa836191845f",
        "queries": "f77b00581cb3",
        "ranking": "491de41cc9fc",
        "ranking curves": "36f35be3c4a0",
        "sgd": "cfaa8e0d5fd8",
        "sparse": "9a5901c0735e",
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
