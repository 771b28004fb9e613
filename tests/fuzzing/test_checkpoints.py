# SPDX-License-Identifier: BSD-3-Clause
"""Checkpoints of every kind of learner: gone on from, exchanged, older and of other data."""

from __future__ import annotations

import shutil
import warnings

import pytest
from fuzzing.learners import LEARNERS, learner_and_reader, write_rows

from pairlearn.streams import CheckpointError, CheckpointWarning, ReadError

N, CHUNK = 120, 20


def train(kind, folder, checkpoint=None, *, stop_after=None):
    """Train to the end, or for some chunks; return the bytes of the model."""
    learner, reader = learner_and_reader(kind, folder, CHUNK)
    seen = 0

    def progress(learner, chunk):
        nonlocal seen
        seen += 1
        if seen == stop_after:
            raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CheckpointWarning)
        try:
            learner.fit_stream(
                reader, checkpoint=checkpoint, every=CHUNK, n_passes=2, progress=progress
            )
        except KeyboardInterrupt:
            return None
    learner.save(folder / "model")
    return (folder / "model").read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learners")
    write_rows(folder, N)
    return folder


@pytest.fixture(scope="module")
def halfway(folder):
    """A checkpoint of each kind after three of twelve chunks, and the model at the end."""
    found = {}
    for kind in LEARNERS:
        path = folder / f"{kind}.ckpt"
        train(kind, folder, path, stop_after=3)
        found[kind] = path, train(kind, folder)
    return found


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_learner_of_each_kind_goes_on(kind, folder, tmp_path):
    """Stopped after every few chunks, in the first pass and in the second, it is the same model."""
    path = tmp_path / "a.ckpt"
    for _ in range(3):
        assert train(kind, folder, path, stop_after=3) is None
    assert train(kind, folder, path) == train(kind, folder)


@pytest.mark.parametrize("kind", LEARNERS)
def test_an_exchanged_checkpoint(kind, folder, halfway, tmp_path):
    """That of another run is refused in one line, or leads to the same model."""
    _, expected = halfway[kind]
    path = tmp_path / "a.ckpt"
    refused = []
    for other, (theirs, _) in halfway.items():
        if other == kind:
            continue
        shutil.copy(theirs, path)
        try:
            assert train(kind, folder, path) == expected, other
        except (CheckpointError, ReadError) as error:
            refused.append(str(error))
    # An alarm changes nothing of the model: its run and that without one may be exchanged.
    assert len(refused) >= len(LEARNERS) - 2
    assert all(len(text.splitlines()) == 1 for text in refused)


@pytest.mark.parametrize("kind", LEARNERS)
def test_an_older_checkpoint_and_one_of_other_data(kind, folder, halfway, tmp_path):
    theirs, expected = halfway[kind]
    path = tmp_path / "a.ckpt"
    shutil.copy(theirs, path)
    train(kind, folder, path, stop_after=4)
    shutil.copy(theirs, path)
    assert train(kind, folder, path) == expected
    write_rows(tmp_path, N, seed=8)
    shutil.copy(theirs, path)
    (tmp_path / "a.ckpt.previous").unlink()
    with pytest.raises((CheckpointError, ReadError)):
        train(kind, tmp_path, path)


@pytest.mark.parametrize("what", ["model", "data", "nothing", "folder"])
def test_something_else_in_the_place_of_a_checkpoint(what, folder, halfway, tmp_path):
    path = tmp_path / "a.ckpt"
    if what == "model":
        train("sgd", folder)
        shutil.copy(folder / "model", path)
    elif what == "data":
        shutil.copy(folder / "a.csv", path)
    elif what == "nothing":
        path.touch()
    else:
        path.mkdir()
    with pytest.raises(CheckpointError) as caught:
        train("sgd", folder, path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_checkpoint_in_the_place_of_others(halfway):
    from pairlearn import ModelFileError, load_model

    path, _ = halfway["sgd"]
    with pytest.raises(ModelFileError, match=r"not registered|checkpoint"):
        load_model(path)
