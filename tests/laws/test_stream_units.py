# SPDX-License-Identifier: BSD-3-Clause
"""Units do not matter on streams: not in any estimator, dense or sparse, in any chunking."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.preprocessing import StandardScaler

from pairlearn import (
    AUCClassifier,
    Moments,
    OnlineLearner,
    PairwiseRanker,
    roc_auc,
)
from pairlearn.streams.named import NamedLearner

#: What a change of units may move the measure by.
LAW = 0.002
N, D = 2400, 5
NAMES = [f"f{k}" for k in range(D + 1)]


def sample(seed=0):
    """Return features of uneven scales, among them a rare indicator, and a noisy target."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * [1.0, 30.0, 0.01, 1.0, 1.0]
    X[:, 4] = rng.random(N) < 0.02
    return X, X[:, 0] + X[:, 1] / 30.0 + 2.0 * X[:, 4] + rng.normal(size=N) - 0.3


def changed(X):
    """Return the same features in other units."""
    return {
        **{f"times 1e{k}": X * 10.0**k for k in (-6, 6)},
        "each its own": X * 10.0 ** np.array([-6, 6, 3, 0, -2]),
        "shifted": X + np.array([1e4, -1e5, 7.0, 0.0, 3.0]),
        "scaled": StandardScaler().fit_transform(X),
        "with a constant": np.column_stack([X, np.full(len(X), 1e7)]),
    }


TRAIN, TEST = slice(0, N // 2), slice(N // 2, N)


def by_chunks(model, X, y, *, size=97, **options):
    for begin in range(0, N // 2, size):
        part = slice(begin, min(begin + size, N // 2))
        extra = {name: value[part] for name, value in options.items()}
        model.partial_fit(X[part], y[part], **extra)
    return model


def auc_by_partial_fit(X, target):
    y = (target > 0).astype(int)
    model = AUCClassifier().partial_fit(X[:1], y[:1], classes=[0, 1])
    return roc_auc(y[TEST], by_chunks(model, X, y).decision_function(X[TEST]))


def auc_of_learner(X, target):
    y = (target > 0).astype(int)
    learner = OnlineLearner(classes=[0, 1]).learn_many(X[TRAIN], y[TRAIN])
    return roc_auc(y[TEST], learner.score_many(X[TEST]))


def auc_after_fit(X, target):
    y = (target > 0).astype(int)
    model = AUCClassifier(random_state=0).fit(X[:200], y[:200])
    return roc_auc(y[TEST], by_chunks(model, X, y).decision_function(X[TEST]))


def auc_of_names(X, target):
    learner = NamedLearner()
    examples = [dict(zip(NAMES, row, strict=False)) for row in X.tolist()]
    for x, label in zip(examples[TRAIN], (target > 0)[TRAIN].tolist(), strict=True):
        learner.learn_one(x, label)
    return roc_auc((target > 0)[TEST], np.array([learner.score_one(x) for x in examples[TEST]]))


def accuracy_of_ranking(X, target):
    qid = np.arange(N) // 12
    grades = np.clip(np.round(target) + 2.0, 0.0, 4.0)
    model = by_chunks(PairwiseRanker(), X, grades, qid=qid)
    return model.score(X[TEST], grades[TEST], qid=qid[TEST])


PATHS = {
    "partial_fit": auc_by_partial_fit,
    "OnlineLearner": auc_of_learner,
    "partial_fit after fit": auc_after_fit,
    "NamedLearner": auc_of_names,
    "PairwiseRanker": accuracy_of_ranking,
}


@pytest.mark.parametrize("path", PATHS)
def test_law_of_units_on_streams(path):
    X, target = sample()
    expected = PATHS[path](X, target)
    for name, Z in changed(X).items():
        assert abs(PATHS[path](Z, target) - expected) < LAW, name


@pytest.mark.parametrize("path", ["partial_fit", "OnlineLearner", "PairwiseRanker"])
def test_law_of_units_on_sparse_streams(path):
    X, target = sample()
    X[np.abs(X) < 0.3] = 0.0
    expected = PATHS[path](X, target)
    for factor in (1.0, 10.0 ** np.array([-6, 6, 3, 0, -2])):
        found = PATHS[path](scipy.sparse.csr_array(X * factor), target)
        assert abs(found - expected) < LAW


@pytest.mark.parametrize("kind", ["default", "ranges", "sgd", "top"])
def test_progressive_scores_compare_wherever_features_lie(kind):
    X, target = sample()
    X, target = X[:600, :4], target[:600]
    y = (target > 0).astype(int)
    make = {
        "default": AUCClassifier,
        "ranges": lambda: AUCClassifier(solver=Moments(0.1, ranges=(-1e4, 1e4))),
        "sgd": lambda: AUCClassifier(solver="sgd"),
        "top": lambda: AUCClassifier("partial_auc", random_state=0),
    }[kind]
    found = []
    for shift in (0.0, np.array([0.0, 100.0, -1000.0, 1000.0])):
        learner = OnlineLearner(make(), classes=[0, 1])
        for begin in range(0, 600, 20):
            learner.learn_many(X[begin : begin + 20] + shift, y[begin : begin + 20])
        found.append(learner.auc)
    assert found[0] > 0.65
    assert abs(found[1] - found[0]) < LAW


@pytest.mark.parametrize("store", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("scaling", ["auto", None])
@pytest.mark.parametrize("options", [{}, {"solver": "sgd"}, {"objective": "partial_auc"}])
def test_probabilities_of_streams_hold_wherever_features_lie(options, scaling, store):
    X, target = sample()
    X, y = X[:600, [0, 3]], (target[:600] > 0).astype(int)
    found = []
    for shift in (np.zeros(2), np.array([30.0, 1000.0])):
        Z, model = store(X + shift), AUCClassifier(scaling=scaling, random_state=0, **options)
        for begin in range(0, 600, 20):
            model.partial_fit(Z[begin : begin + 20], y[begin : begin + 20], classes=[0, 1])
        found.append(model.predict_proba(Z))
    np.testing.assert_allclose(found[0], found[1], atol=0.02)


MODELS = {
    "AUCClassifier": lambda **options: AUCClassifier(**options),
    "PairwiseRanker": lambda **options: PairwiseRanker(**options),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("size", [1, 7, 300])
@pytest.mark.thorough
def test_chunks_and_copies_agree_up_to_rounding(kind, size):
    X, target = sample()
    X, y = X[:420], (target > 0).astype(int)
    first = {"classes": [0, 1]} if kind == "AUCClassifier" else {}
    whole = MODELS[kind]().partial_fit(X, y[:420], **first)
    model = MODELS[kind]()
    for begin in range(0, 420, size):
        part = slice(begin, min(begin + size, 420))
        model.partial_fit(X[part], y[part], **first)
        if begin % 3 == 0:
            model = pickle.loads(pickle.dumps(model))
        if begin % 5 == 0:
            state, model = model.stream_state(), MODELS[kind]()
            model.restore_stream(state)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-8)


@pytest.mark.parametrize("kind", MODELS)
def test_other_scalings_are_refused(kind):
    X, target = sample()
    first = {"classes": [0, 1]} if kind == "AUCClassifier" else {}
    with pytest.raises(ValueError, match="scaling must be"):
        MODELS[kind](scaling="standard").partial_fit(X, (target > 0).astype(int), **first)
