# SPDX-License-Identifier: BSD-3-Clause
"""The online learner drives every estimator that learns from streams, and resumes each exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from pairlearn import (
    AUCClassifier,
    OnlineLearner,
    PairwiseRanker,
    open_reader,
)
from pairlearn.streams import IteratorReader, Schema
from pairlearn.streams.state import pack, unpack


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
def table(rng, tmp_path):
    X = rng.normal(size=(900, 3))
    grade = np.digitize(X[:, 0] + 0.3 * rng.normal(size=900), [-0.5, 0.5])
    query = rng.integers(0, 40, size=900)
    target = X @ [1.0, -2.0, 0.0] + rng.standard_t(2, size=900)
    rows = ["a,b,c,grade,query,target"]
    for x, g, q, t in zip(X.tolist(), grade, query, target.tolist(), strict=True):
        rows.append(",".join(map(repr, x)) + f",{g},{q},{t!r}")
    path = tmp_path / "a.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


CASES = {
    "ranker": (PairwiseRanker, "grade", None),
    "ranker in queries": (PairwiseRanker, "grade", "query"),
}


@pytest.mark.parametrize("name", CASES)
def test_resuming_is_exact(name, table, tmp_path):
    make, label, qid = CASES[name]
    schema = Schema(label=label, qid=qid, features=("a", "b", "c"))

    def read():
        return open_reader(table, schema, chunk_rows=100)

    whole = OnlineLearner(make()).fit_stream(read(), n_passes=2)
    assert whole.auc is None
    for _ in range(50):
        learner = OnlineLearner(make())
        try:
            learner.fit_stream(read(), checkpoint=tmp_path / "c", every=1, n_passes=2,
                               progress=stop_after(1))  # fmt: skip
            break
        except StopHereError:
            continue
    assert learner.n_seen == whole.n_seen == 1800
    for one in (whole, learner):
        one.save(tmp_path / f"{one is whole}")
    assert (tmp_path / "True").read_bytes() == (tmp_path / "False").read_bytes()


class Centroids(BaseEstimator):
    """An estimator of one's own: the score is the place between the means of the classes."""

    def score_and_learn(self, X, y, *, classes, finite):
        if classes is not None:
            self.classes_, self.sums_, self.counts_ = classes, np.zeros((2, X.shape[1])), [1, 1]
        means = self.sums_ / np.reshape(self.counts_, (2, 1))
        for k, label in enumerate(self.classes_):
            self.sums_[k] += X[y == label].sum(axis=0)
            self.counts_[k] += int((y == label).sum())
        return X @ (means[1] - means[0])

    def stream_state(self):
        return {k: v for k, v in vars(self).items() if k.endswith("_")}

    def restore_stream(self, state):
        vars(self).update(state)


@pytest.fixture
def examples(rng):
    X = rng.normal(size=(900, 3))
    return X, (X[:, 0] + rng.normal(size=900) > 0).astype(int)


def test_an_estimator_of_ones_own(examples, tmp_path):
    X, y = examples

    def read():
        return IteratorReader(lambda: zip(X.tolist(), y.tolist(), strict=True), chunk_rows=100)

    whole = OnlineLearner(Centroids(), classes=[0, 1], window=500).fit_stream(read())
    for _ in range(20):
        learner = OnlineLearner(Centroids(), classes=[0, 1], window=500)
        try:
            learner.fit_stream(read(), checkpoint=tmp_path / "c", every=1, progress=stop_after(1))
            break
        except StopHereError:
            continue
    assert learner.n_seen == 900
    assert learner.auc == whole.auc > 0.7
    assert learner.model.sums_.tobytes() == whole.model.sums_.tobytes()
    with pytest.raises(ValueError, match="Centroids does not; leave forget at None"):
        OnlineLearner(Centroids(), forget=100)


@pytest.mark.parametrize("names", [np.array(["no", "yes"]), np.array([3, 7], dtype=np.int8),
                                   np.array(["no", "yes"], dtype=object)])  # fmt: skip
@pytest.mark.parametrize("make", [Centroids, AUCClassifier])
def test_labels_of_any_type_come_back(make, names, examples):
    X, y = examples
    one = OnlineLearner(make(), window=500).learn_many(X[:500], names[y[:500]])
    plain, arrays = pack(one.state())
    other = OnlineLearner(make(), window=500)
    other.restore(unpack(json.loads(json.dumps(plain)), arrays))
    for learner in (one, other):
        learner.learn_many(X[500:], names[y[500:]])
        assert learner.model.classes_.dtype == names.dtype
    assert other.auc == one.auc


def test_restarts_need_coefficients_to_start_from():
    with pytest.raises(ValueError, match="PairwiseRanker does not; leave forget at None"):
        OnlineLearner(PairwiseRanker(), forget=100)
