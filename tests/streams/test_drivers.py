# SPDX-License-Identifier: BSD-3-Clause
"""The online learner drives every estimator that learns from streams, and resumes each exactly."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from pairlearn import (
    AUCClassifier,
    ConcordanceIndex,
    EntropyRegressor,
    MetricLearner,
    OnlineLearner,
    PairwiseRanker,
    SurvivalRanker,
    open_reader,
)
from pairlearn.streams import DriftAlarm, IteratorReader, Schema
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
    "entropy": (EntropyRegressor, "target", None),
    "metric": (lambda: MetricLearner(random_state=0), "grade", None),
    "metric of low rank": (
        lambda: MetricLearner(parameterization="low_rank", rank=2, random_state=0),
        "grade",
        None,
    ),
    "metric diagonal": (
        lambda: MetricLearner(parameterization="diagonal", random_state=0),
        "grade",
        None,
    ),
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


def survival_stream(n=900):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 3))
    died, left = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2.0, size=n)
    return X, np.column_stack((died <= left, np.minimum(died, left)))


def survival_learner(**settings):
    return OnlineLearner(SurvivalRanker(solver="sgd", random_state=0), **settings)


def test_survival_times_have_a_progressive_concordance():
    X, y = survival_stream()
    learner, model = survival_learner(window=300), SurvivalRanker(solver="sgd", random_state=0)
    assert learner.concordance is None
    scores = np.zeros(900)
    learner.learn_one(X[0], y[0])
    model.partial_fit(X[:1], y[:1])
    ends = [1, 50, 100, 128, 200, 256, 500, 512, 900]  # also where young models are judged
    for begin, end in itertools.pairwise(ends):
        scores[begin:end] = model.predict(X[begin:end])
        model.partial_fit(X[begin:end], y[begin:end])
    for begin, end in zip([1, 50, 100, 200, 500], [50, 100, 200, 500, 900], strict=True):
        learner.learn_many(X[begin:end], y[begin:end])
    assert np.array_equal(learner.model.coef_, model.coef_)
    # exactly the metric in memory of the last examples
    assert learner.concordance == ConcordanceIndex()(y[-300:], scores[-300:]) > 0.65
    late = ConcordanceIndex(ipcw=True, tau=1.0)
    assert learner.measure(late) == late(y[-300:], scores[-300:])
    assert learner.auc is None
    assert learner.provenance() == {
        "rows_seen": 900,
        "progressive_concordance": learner.concordance,
    }


def test_a_survival_stream_goes_on_from_its_state():
    X, y = survival_stream()
    whole = survival_learner(window=200).learn_many(X, y)
    first = survival_learner(window=200).learn_many(X[:512], y[:512])
    second = survival_learner(window=200)
    second.restore(unpack(*pack(first.state())))
    assert second.concordance == first.concordance
    second.learn_many(X[512:], y[512:])
    assert np.array_equal(second.model.coef_, whole.model.coef_)
    assert second.concordance == whole.concordance
    with pytest.raises(ValueError, match="window"):
        survival_learner(window=100).restore(first.state())
    assert survival_learner().learn_many(X[:1], y[:1]).concordance is None  # nothing to compare


def test_what_survival_streams_refuse():
    X, y = survival_stream(20)
    with pytest.raises(TypeError, match=r"no partial_fit; take .*solver='sgd'"):
        OnlineLearner(SurvivalRanker())
    with pytest.raises(ValueError, match="leave forget at None"):
        survival_learner(forget=10)
    with pytest.raises(ValueError, match="leave alarm at None"):
        survival_learner(alarm=DriftAlarm())
    with pytest.raises(ValueError, match="two columns, the event"):
        survival_learner().learn_many(X, y[:, 1])
    with pytest.raises(ValueError, match="shape"):
        survival_learner().learn_many(X, y[:5])
    with pytest.raises(ValueError, match="ipcw"):
        OnlineLearner(SurvivalRanker(solver="sgd", ipcw=True)).learn_many(X, y)
