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
    6,
    {
        "alarmed": "6a8c9bfd208d",
        "area of curves": "c471d43d14dd",
        "buffered": "c020fcd75c1e",
        "curves": "0f1aea3d844a",
        "dropping": "21c6da9a45d3",
        "entropy": "6fe535d7cbf6",
        "entropy curves": "0c9d526b3d12",
        "forgetting": "0164d7264cc1",
        "forgetting moments": "b9341571298c",
        "late alarmed": "6a8c9bfd208d",
        "late area of curves": "bf48b88a9032",
        "late buffered": "c020fcd75c1e",
        "late curves": "0f1aea3d844a",
        "late dropping": "cfa25213a36f",
        "late entropy": "95e893e9052c",
        "late entropy curves": "ed63f0eb88eb",
        "late forgetting": "0164d7264cc1",
        "late forgetting moments": "b9341571298c",
        "late mapped moments": "30cfdd1e40cc",
        "late metric": "ce1f1aaf17c6",
        "late moments": "1542ede71bb8",
        "late partial area": "b0b6881d25ae",
        "late precision": "b0b6881d25ae",
        "late push": "b0b6881d25ae",
        "late queries": "bfa8e5bbdc7e",
        "late ranking": "fc877a07ff45",
        "late ranking curves": "02916d27bbac",
        "late sgd": "21c6da9a45d3",
        "late sparse": "1b3bba59c276",
        "mapped moments": "7ee0ad1c84e8",
        "metric": "7e9332f481a9",
        "moments": "fb47874b511e",
        "names, descent": "ae58b8179b98",
        "names, forgetting moments": "9d976d29ff70",
        "names, moments": "950dcf3112ff",
        "names, outgrown": "f6ef58528472",
        "partial area": "9faf6383f2c8",
        "precision": "9faf6383f2c8",
        "push": "9faf6383f2c8",
        "queries": "bfa8e5bbdc7e",
        "ranking": "fc877a07ff45",
        "ranking curves": "02916d27bbac",
        "sgd": "21c6da9a45d3",
        "sparse": "1b3bba59c276",
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
