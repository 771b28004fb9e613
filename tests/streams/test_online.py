# SPDX-License-Identifier: BSD-3-Clause
"""The online learner: progressive AUC, forgetting, and checkpoints that resume exactly."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import signal
from collections import OrderedDict
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse

from pairlearn import SGD, AUCClassifier, OnlineLearner, PairwiseRanker, open_reader, roc_auc
from pairlearn.atomic import previous_of
from pairlearn.models import load_model
from pairlearn.models.file import dump_model, read_model
from pairlearn.models.record import ModelRecord
from pairlearn.pairings import FifoBuffer
from pairlearn.streams import CheckpointError, CheckpointWarning, IteratorReader, ReadError, Schema
from pairlearn.streams.checkpoint import CHECKPOINT_VERSION, read_checkpoint
from pairlearn.streams.driving import Driver
from pairlearn.streams.state import StateError, pack, unpack


class StopHereError(Exception):
    pass


def stop_after(count):
    left = [count]

    def progress(learner, chunk):
        left[0] -= 1
        if left[0] < 0:
            raise StopHereError

    return progress


@pytest.fixture
def data(rng):
    X = rng.normal(size=(2000, 4))
    return X, (X[:, 0] + rng.normal(size=2000) > 0).astype(np.int64)


@pytest.fixture
def table(data, tmp_path):
    X, y = data
    path = tmp_path / "a.csv"
    rows = (
        ",".join(map(repr, [*row, label]))
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    )
    path.write_text("a,b,c,d,y\n" + "\n".join(rows) + "\n")
    return path


def reader_of(table, **options):
    return open_reader(table, Schema(label="y"), chunk_rows=130, **options)


# --------------------------------------------------------------------------------- learning


def test_it_is_partial_fit_with_a_watch(data):
    X, y = data
    learner, plain = (
        OnlineLearner(AUCClassifier(solver="sgd"), window=10_000), AUCClassifier(solver="sgd")
    )  # fmt: skip
    scores = []
    for begin, stop in pairwise([0, 128, 256, 512, 1024, 2000]):
        part = slice(begin, stop)
        scores.append((X[part] - X[0]) @ plain.coef_[0] if begin else np.zeros(stop))
        assert learner.learn_many(X[part], y[part]) is learner
        plain.partial_fit(X[part], y[part], classes=[0, 1])
    assert learner.model.coef_.tobytes() == plain.coef_.tobytes()
    assert learner.auc == pytest.approx(roc_auc(y, np.concatenate(scores)), abs=1e-12)
    assert learner.n_seen == 2000
    assert learner.predict_many(X).tolist() == plain.predict(X).tolist()
    assert learner.predict_one(X[0]) == plain.predict(X[:1])[0]
    assert learner.predict_proba_many(X).tobytes() == plain.predict_proba(X).tobytes()
    assert sum(learner.predict_proba_one(X[0]).values()) == pytest.approx(1.0)
    assert learner.score_one(X[0]) == plain.decision_function(X[:1])[0]


def test_one_by_one(data):
    X, y = data
    one = OnlineLearner(AUCClassifier(solver=SGD(step_size=0.1)), classes=[0, 1])
    many = OnlineLearner(AUCClassifier(solver=SGD(step_size=0.1)), classes=[0, 1])
    for x, label in zip(X[:300], y[:300], strict=True):
        one.learn_one(x, label)
    many.learn_many(X[:300], y[:300])
    np.testing.assert_allclose(one.model.coef_, many.model.coef_, rtol=1e-9)


def test_sparse_chunks(data):
    X, y = data
    learner = OnlineLearner(AUCClassifier(solver=SGD(step_size=0.1)))
    learner.learn_many(scipy.sparse.coo_matrix(X), y)
    learner.learn_many(scipy.sparse.csc_array(X), y)
    assert learner.auc > 0.75


@pytest.mark.thorough
def test_restarts_do_not_depend_on_chunks(data):
    X, y = data

    def train(size):
        learner = OnlineLearner(
            AUCClassifier(solver=SGD(step_size=0.5)), classes=[0, 1], forget=300
        )
        for begin in range(0, 2000, size):
            learner.learn_many(X[begin : begin + size], y[begin : begin + size])
        return learner

    one_by_one = train(1)
    assert one_by_one.n_restarts == 6
    for size in (90, 100, 700, 2000):
        learner = train(size)
        assert learner.n_restarts == 6, size
        np.testing.assert_allclose(learner.model.coef_, one_by_one.model.coef_, rtol=1e-12)


@pytest.mark.parametrize("forget", [1000, "drop"])
def test_forgetting_follows_a_drift(forget, rng):
    """After the classes changed places a learner that forgets is right again, another is not."""
    X = rng.normal(size=(20_000, 3))
    sign = np.where(np.arange(20_000) < 10_000, 1.0, -1.0)
    y = (sign * X[:, 0] + 0.5 * rng.normal(size=20_000) > 0).astype(int)
    found = {}
    for choice in (None, forget):
        learner = OnlineLearner(
            AUCClassifier(solver=SGD(step_size=0.3)), classes=[0, 1], window=1000, forget=choice
        )
        for begin in range(0, 20_000, 500):
            learner.learn_many(X[begin : begin + 500], y[begin : begin + 500])
        found[choice] = learner
    assert found[forget].auc > 0.9
    assert found[forget].n_restarts >= 1
    assert found[forget].auc > found[None].auc


def test_no_false_alarms_without_drift(rng):
    """Twenty windows of 2000: an AUC has a standard error of 0.01, a drop of 0.1 is 7 of them."""
    X = rng.normal(size=(40_000, 3))
    y = (X[:, 0] + rng.normal(size=40_000) > 0).astype(int)
    learner = OnlineLearner(
        AUCClassifier(solver=SGD(step_size=0.1)),
        classes=[0, 1],
        window=2000,
        forget="drop",
        drop=0.1,
    )
    for begin in range(0, 40_000, 1000):
        learner.learn_many(X[begin : begin + 1000], y[begin : begin + 1000])
    assert learner.n_restarts == 0


@pytest.mark.parametrize("store", [np.asarray, scipy.sparse.csr_array])
def test_scores_before_and_after_a_restart_compare(store):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=1200) > 0).astype(int)
    learner = OnlineLearner(AUCClassifier(solver="sgd"), classes=[0, 1], forget=150)
    scores = learner.learn_many(store(X + 10.0), y).state()["progressive"]["scores"]
    # The AUC between restarts, and that of all of them together.
    alone = np.mean([roc_auc(y[k : k + 150], scores[k : k + 150]) for k in range(600, 1200, 150)])
    assert alone - roc_auc(y[600:], scores[600:]) < 0.03


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: OnlineLearner(forget="sometimes"), '"drop" or None'),
        (lambda: OnlineLearner(forget=1), "forget"),
        (lambda: OnlineLearner(drop=2.0), "drop"),
        (lambda: OnlineLearner().learn_many(np.ones((2, 1)), [1, 1]), "classes="),
        (lambda: OnlineLearner().learn_many(np.ones((2, 1)), [1]), "must have shape"),
        (lambda: OnlineLearner(classes=[0, 1]).learn_many(np.ones((2, 1)), [0, 7]), "not in class"),
        (lambda: OnlineLearner(classes=[0, 1, 2]), r"two different labels, got \[0, 1, 2\]"),
        (lambda: OnlineLearner(classes=[1, 1]), r"two different labels, got \[1\]"),
        (
            lambda: OnlineLearner(PairwiseRanker(), classes=[0, 1]),
            "Ranker does not; leave class",
        ),
        (
            lambda: OnlineLearner().learn_many(np.ones((2, 1)), [0, 1], qid=[1, 1]),
            "which AUCClassifier does not; leave qid",
        ),
    ],
)
def test_wrong_use(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_what_it_cannot_drive():
    from sklearn.linear_model import SGDClassifier

    message = "SGDClassifier, which has no stream_state and no restore_stream; take AUCClassifier"
    with pytest.raises(TypeError, match=message):
        OnlineLearner(SGDClassifier())


# ------------------------------------------------------------------------------ checkpoints


LEARNERS = {
    "auto": lambda: OnlineLearner(AUCClassifier(), window=300),
    "fixed": lambda: OnlineLearner(
        AUCClassifier(solver=SGD(step_size=0.1, radius=1.0)), window=300
    ),
    "float32": lambda: OnlineLearner(AUCClassifier(solver=SGD(step_size=0.1))),
    "fifo": lambda: OnlineLearner(AUCClassifier(solver=SGD(step_size=0.1, pairing=FifoBuffer(3)))),
    "past_buffer": lambda: OnlineLearner(
        AUCClassifier(solver=SGD(step_size=0.1, averaging="past_buffer", pairing=FifoBuffer(3)))
    ),
    "last": lambda: OnlineLearner(AUCClassifier(solver=SGD(step_size=0.1, averaging="last"))),
    "forget": lambda: OnlineLearner(AUCClassifier(solver=SGD(step_size=0.1)), forget=260),
    "drop": lambda: OnlineLearner(
        AUCClassifier(solver=SGD(step_size=0.1)), window=200, forget="drop", drop=0.01
    ),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_resuming_is_exact(name, table, tmp_path):
    make, n_passes = LEARNERS[name], 2
    whole = make().fit_stream(reader_of(table), n_passes=n_passes)
    path = tmp_path / "state.ckpt"
    for _ in range(100):
        learner = make()
        try:
            learner.fit_stream(
                reader_of(table),
                checkpoint=path,
                every=1,
                n_passes=n_passes,
                progress=stop_after(4),
            )
            break
        except StopHereError:
            continue
    assert learner.n_seen == whole.n_seen == 2000 * n_passes
    assert learner.auc == whole.auc
    assert learner.n_restarts == whole.n_restarts
    whole.save(tmp_path / "a")
    learner.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("kind", ["svm", "gz", "iterator"])
def test_resuming_from_other_sources(kind, data, table, tmp_path):
    import gzip

    X, y = data
    examples = list(zip(X.tolist(), y.tolist(), strict=True))
    if kind == "svm":
        rows = (
            f"{label} " + " ".join(f"{j}:{v!r}" for j, v in enumerate(x, 1) if v > 0)
            for x, label in examples
        )
        (tmp_path / "a.svm").write_text("\n".join(rows))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(table.read_bytes()))

    def read():
        if kind == "svm":
            return open_reader(tmp_path / "a.svm", chunk_rows=130)
        if kind == "gz":
            return reader_of(tmp_path / "a.csv.gz")
        return IteratorReader(lambda: iter(examples), chunk_rows=130)

    make = LEARNERS["fixed"]
    whole = make().fit_stream(read())
    first = make()
    with pytest.raises(StopHereError):
        first.fit_stream(read(), checkpoint=tmp_path / "c", every=1, progress=stop_after(5))
    second = make().fit_stream(read(), checkpoint=tmp_path / "c")
    assert second.model.coef_.tobytes() == whole.model.coef_.tobytes()


def interrupted(table, path, *, chunks=6, **options):
    learner = LEARNERS["fixed"]()
    with pytest.raises(StopHereError):
        learner.fit_stream(
            reader_of(table), checkpoint=path, every=1, progress=stop_after(chunks), **options
        )


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "model", "version", "format"])
def test_a_bad_newest_checkpoint_gives_way_to_the_one_before(damage, table, tmp_path):
    path = tmp_path / "state.ckpt"
    interrupted(table, path)
    good = path.read_bytes()
    record = ModelRecord("Other", {"coef": np.ones(1)})
    later = ModelRecord("OnlineLearner checkpoint", {}, parameters={"checkpoint_version": 99})
    path.write_bytes(
        {
            "cut": good[:-100],
            "empty": b"",
            "flipped": good[:-9] + bytes([good[-9] ^ 1]) + good[-8:],
            "model": dump_model(record),
            "version": dump_model(later),
            "format": good.replace(b'format_version\\":2', b'format_version\\":7'),
        }[damage]
    )
    if damage == "version":
        named = "checkpoint of version 99"
    else:
        named = "format version 7" if damage == "format" else "cannot be used"
    with pytest.warns(CheckpointWarning, match=named):
        learner = LEARNERS["fixed"]().fit_stream(reader_of(table), checkpoint=path)
    whole = LEARNERS["fixed"]().fit_stream(reader_of(table))
    assert learner.model.coef_.tobytes() == whole.model.coef_.tobytes()


def test_two_bad_checkpoints_are_an_error(table, tmp_path):
    path = tmp_path / "state.ckpt"
    interrupted(table, path)
    path.write_bytes(path.read_bytes()[:-100])
    previous_of(path).write_bytes(b"")
    with pytest.raises(CheckpointError, match="damaged"):
        LEARNERS["fixed"]().fit_stream(reader_of(table), checkpoint=path)
    assert LEARNERS["fixed"]().fit_stream(reader_of(table), checkpoint=path, resume=False).n_seen
    path.unlink()
    assert read_checkpoint(path) is None


def test_a_checkpoint_of_the_first_version_is_refused(table, tmp_path):
    path = tmp_path / "state.ckpt"
    interrupted(table, path)
    previous_of(path).unlink()
    record = read_model(path, allow_unregistered=True)
    old = {**record.parameters, "checkpoint_version": 1}
    path.write_bytes(dump_model(dataclasses.replace(record, parameters=old)))
    message = (
        f"checkpoint of version 1 .* this library reads version {CHECKPOINT_VERSION}; use that "
        "library, or delete"
    )
    with pytest.raises(CheckpointError, match=message):
        LEARNERS["fixed"]().fit_stream(reader_of(table), checkpoint=path)


def test_a_checkpoint_of_other_settings_or_data(table, tmp_path):
    path = tmp_path / "state.ckpt"
    interrupted(table, path)
    for learner, named in [
        (
            OnlineLearner(AUCClassifier(solver=SGD(step_size=0.2, radius=1.0)), window=300),
            "step_size=0.1",
        ),
        (OnlineLearner(AUCClassifier(solver=SGD(step_size=0.1, radius=1.0))), "window=300"),
    ]:
        with pytest.raises(CheckpointError, match=named):
            learner.fit_stream(reader_of(table), checkpoint=path)
    with pytest.raises(ReadError, match="other data or other reading options"):
        LEARNERS["fixed"]().fit_stream(
            open_reader(table, Schema(label="y", missing=0.0)), checkpoint=path
        )
    unlabelled = open_reader(table, Schema(features=("a", "b")))
    with pytest.raises(ReadError, match="no labels"):
        LEARNERS["fixed"]().fit_stream(unlabelled)


def test_a_full_disk_leaves_the_checkpoint_before(table, tmp_path):
    path = tmp_path / "state.ckpt"
    interrupted(table, path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
    try:
        with pytest.raises(CheckpointError, match="cannot be written: File too large"):
            LEARNERS["fixed"]().fit_stream(reader_of(table), checkpoint=path, every=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".*tmp*"))
    whole = LEARNERS["fixed"]().fit_stream(reader_of(table))
    learner = LEARNERS["fixed"]().fit_stream(reader_of(table), checkpoint=path)
    assert learner.model.coef_.tobytes() == whole.model.coef_.tobytes()


def test_ctrl_c_leaves_a_checkpoint(table, tmp_path):
    path = tmp_path / "state.ckpt"
    left = [5]

    def press(learner, chunk):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        LEARNERS["auto"]().fit_stream(reader_of(table), checkpoint=path, progress=press)
    found = read_checkpoint(path)
    assert found.state["n_seen"] >= 5 * 130
    learner = LEARNERS["auto"]().fit_stream(reader_of(table), checkpoint=path)
    whole = LEARNERS["auto"]().fit_stream(reader_of(table))
    assert learner.model.coef_.tobytes() == whole.model.coef_.tobytes()


def test_provenance_of_a_stream(table, tmp_path):
    learner = LEARNERS["fixed"]().fit_stream(reader_of(table))
    learner.save(tmp_path / "m")
    known = load_model(tmp_path / "m").provenance_
    assert known["rows_seen"] == 2000
    assert known["progressive_auc"] == learner.auc
    assert known["data_fingerprint"] == reader_of(table).position.stamp.split(":")[2]


# ------------------------------------------------------------------------------------ state


def test_states_survive():
    rng = np.random.default_rng(3)
    rng.random(5)
    state = {
        "a": [1, (2.5, None)],
        "odd": float("nan"),
        "far": -float("inf"),
        "rng": rng,
        "open": OrderedDict([(7, 0), ("x", 1)]),
        "numbers": {1: np.arange(3)},
        "flag": True,
    }
    plain, arrays = pack(state)
    back = unpack(json.loads(json.dumps(plain)), arrays)
    assert back["rng"].random() == rng.random()
    assert list(back["open"].items()) == [(7, 0), ("x", 1)]
    assert back["numbers"][1].tolist() == [0, 1, 2]
    assert np.isnan(back["odd"])
    assert back["far"] == -np.inf
    assert back["a"] == [1, (2.5, None)]


@pytest.mark.parametrize(
    "plain",
    [{"$array": "no"}, {"$generator": {"bit_generator": "os"}}, {"$code": "x"}, {"$csr": [1, 2]}],
)
def test_damaged_states(plain):
    with pytest.raises(StateError):
        unpack(plain, {})
    with pytest.raises(StateError, match="cannot hold"):
        pack({"f": print})


def test_a_driver_before_the_start():
    driver = Driver(AUCClassifier())
    assert driver.model.stream_state() == {}
    driver.model.restore_stream({})
    assert not hasattr(driver.model, "coef_")


def test_a_learner_says_which_label_is_positive_and_which_rows_it_has_learned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.where(X[:, 0] + rng.normal(size=400) > 0, "fraud", "okay")
    with pytest.raises(ValueError, match="the later one in sorted order is the positive one"):
        OnlineLearner().learn_many(X[:3], ["okay"] * 3)
    for classes in (["okay", "fraud"], ["fraud", "okay"]):
        learner = OnlineLearner(classes=classes).learn_many(X, y)
        assert learner.score_one([-3.0, 0.0, 0.0]) > 0.0  # okay
    # The rows of a chunk after those that n_seen counts can be sent again.
    learner, spoilt = OnlineLearner(classes=classes), X.copy()
    spoilt[300] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        learner.learn_many(spoilt, y)
    done = learner.n_seen
    learner.learn_many(X[done:], y[done:])
    whole = OnlineLearner(classes=classes).learn_many(X, y)
    assert np.array_equal(learner.model.coef_, whole.model.coef_)
    assert learner.auc == whole.auc
