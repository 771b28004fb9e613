# SPDX-License-Identifier: BSD-3-Clause
"""The size of weights changes nothing in a fit, or is refused."""

import numpy as np
import pytest
from sklearn.base import clone

from pairlearn import (
    SGD,
    AUCClassifier,
    EntropyRegressor,
    Exact,
    MetricLearner,
    Moments,
    MulticlassAUCClassifier,
    MultilabelAUCClassifier,
    OrdinalAUCClassifier,
    PairwiseRanker,
)
from pairlearn.estimators.shared.weights import example_weights

N = 90
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] + RNG.normal(size=N) > 0.5).astype(int)
GRADES = np.digitize(X[:, 0], [-0.5, 0.5])
QUERIES = np.arange(N) // 10
WEIGHT = RNG.uniform(1, 2, N)

FITS = {
    "auto": lambda w: AUCClassifier(random_state=0).fit(X, Y, sample_weight=w),
    "sgd": lambda w: AUCClassifier(solver="sgd", random_state=0).fit(X, Y, sample_weight=w),
    "square": lambda w: AUCClassifier(loss="square", random_state=0).fit(X, Y, sample_weight=w),
    "push": lambda w: AUCClassifier(objective="push", random_state=0).fit(X, Y, sample_weight=w),
    "hats": lambda w: AUCClassifier(features="hats", random_state=0).fit(X, Y, sample_weight=w),
    "classes": lambda w: AUCClassifier(random_state=0).fit(X, GRADES, sample_weight=w),
    "ordinal": lambda w: OrdinalAUCClassifier(random_state=0).fit(X, GRADES, sample_weight=w),
    "multilabel": lambda w: MultilabelAUCClassifier(random_state=0).fit(
        X, np.column_stack([Y, X[:, 1] > 0]), sample_weight=w
    ),
    "ranker": lambda w: PairwiseRanker(random_state=0).fit(X, GRADES, qid=QUERIES, sample_weight=w),
    "metric": lambda w: MetricLearner(random_state=0).fit(X, Y, sample_weight=w),
    "entropy": lambda w: EntropyRegressor(random_state=0).fit(X, X[:, 0], sample_weight=w),
}
#: These divide weights by the largest before anything else.
ANY_SIZE = {"ranker", "metric", "entropy"}


def learned(model):
    return model.components_ if isinstance(model, MetricLearner) else model.coef_


@pytest.mark.parametrize("name", FITS)
def test_their_size_changes_nothing(name):
    model = FITS[name](WEIGHT)
    expected = learned(model)
    for size in (1e-100, 1e-9, 1e9, 5e99):
        other = FITS[name](size * WEIGHT)
        found = learned(other)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
        if hasattr(model, "predict_proba"):
            np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-3)


STREAMS = {
    "moments": (AUCClassifier(random_state=0), Y),
    "short memory": (AUCClassifier(solver=Moments(memory=40.0), random_state=0), Y),
    "ranges": (AUCClassifier(solver=Moments(ranges=(-5.0, 5.0)), random_state=0), Y),
    "classes": (AUCClassifier(random_state=0), GRADES),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_their_size_changes_no_probability_of_a_stream(name, size):
    model, labels = STREAMS[name]
    classes = np.unique(labels)
    # With ranges, weights are whole numbers.
    varied = np.rint(3.0 * WEIGHT) if name == "ranges" else WEIGHT
    size = max(size, 100.0) if name == "ranges" else size
    for weight in (np.ones(N), varied):
        expected, found = (
            clone(model).partial_fit(X, labels, classes=classes, sample_weight=unit * weight)
            for unit in (1.0, size)
        )
        np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("size", [3e-320, 1e-160, 1e160, 5e307])
@pytest.mark.parametrize("name", FITS)
def test_beyond_products_they_are_refused(name, size):
    if name in ANY_SIZE and size > 1e-300:
        assert np.isfinite(learned(FITS[name](size * WEIGHT))).all()
    elif name not in ANY_SIZE:
        with pytest.raises(ValueError, match="divide all weights by the same number"):
            FITS[name](size * WEIGHT)


@pytest.mark.parametrize("size", [1e-160, 1e160])
def test_streams_and_weights_of_classes(size):
    with pytest.raises(ValueError, match="largest sample_weight must lie between"):
        AUCClassifier().partial_fit(X, Y, classes=[0, 1], sample_weight=size * WEIGHT)
    with pytest.raises(ValueError, match="largest class_weight must lie between"):
        AUCClassifier(class_weight={0: size, 1: size}).fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({}, Y),
        ({"decision": "f1", "class_weight": "balanced"}, Y),
        ({"features": "hats"}, Y),
        ({"features": "auto"}, Y),
        ({"solver": "moments"}, Y),
        ({"solver": SGD(step_size=0.1, n_passes=5)}, Y),
        ({"objective": "push"}, Y),
        ({"features": "hats"}, GRADES),
    ],
)
def test_an_example_of_weight_zero_is_absent(settings, labels):
    some = RNG.random(N) < 0.7
    # Values far out would move knots, scales and the cut between two scores.
    table = np.where(some[:, None], X, 100.0 * X)
    weight = WEIGHT * some
    model = AUCClassifier(random_state=0, **settings).fit(table, labels, sample_weight=weight)
    expected = AUCClassifier(random_state=0, **settings)
    expected.fit(table[some], labels[some], sample_weight=weight[some])
    assert np.array_equal(model.coef_, expected.coef_)
    # Folds are dealt by place, so the choices may differ a little.
    assert np.abs(model.predict_proba(X) - expected.predict_proba(X)).mean() < 0.02
    assert np.array_equal(model.decision_function(X), expected.decision_function(X))


def test_balanced_classes_do_not_count_an_example_of_weight_zero():
    """Balanced weights counted rows, and most rows of weight zero here are of two grades."""
    some = np.random.default_rng(3).random(N) < np.where(GRADES == 1, 0.9, 0.4)
    weight = WEIGHT * some
    model, expected = (
        MulticlassAUCClassifier(class_weight="balanced", random_state=0) for _ in range(2)
    )
    model.fit(X, GRADES, sample_weight=weight)
    expected.fit(X[some], GRADES[some], sample_weight=weight[some])
    assert np.array_equal(model.predict_proba(X), expected.predict_proba(X))


def test_balanced_classes_count_a_weight_as_so_many_examples():
    count = np.random.default_rng(4).integers(0, 4, N)
    rows = np.repeat(np.arange(N), count)
    found = example_weights(count, "balanced", GRADES)
    expected = example_weights(None, "balanced", GRADES[rows])
    np.testing.assert_allclose(found[rows], count[rows] * expected, rtol=1e-14)
    huge = example_weights(1e90 * count, "balanced", GRADES)
    np.testing.assert_allclose(huge, 1e90 * found, rtol=1e-14)


REPEATED = {
    "moments": lambda *given: AUCClassifier(
        features="hats", solver=Moments(ridge=0.1), random_state=0
    ).fit(*given),
    "exact": lambda *given: AUCClassifier(
        features="hats", solver=Exact(ridge=0.1), random_state=0
    ).fit(*given),
    "ranker": lambda X, y, w=None: PairwiseRanker(features="hats", random_state=0).fit(
        X, y, sample_weight=w
    ),
    "metric": lambda *given: MetricLearner(features="hats", random_state=0).fit(*given),
    "entropy": lambda *given: EntropyRegressor(features="hats", random_state=0).fit(*given),
    "classes": lambda X, y, w=None: AUCClassifier(features="hats", random_state=0).fit(
        X, y + (X[:, 1] > 1), w
    ),
}


@pytest.mark.parametrize("name", REPEATED)
def test_knots_are_those_of_repeated_rows(name):
    """Knots were at quantiles of the rows, whatever they weigh."""
    count = np.random.default_rng(1).integers(1, 4, N)
    rows = np.repeat(np.arange(N), count)
    found, twice = REPEATED[name](X, Y, count), REPEATED[name](X[rows], Y[rows])
    knots = twice.features_.learned["knots"]
    np.testing.assert_array_equal(found.features_.learned["knots"], knots)
    if name in ("moments", "exact"):
        np.testing.assert_allclose(found.coef_, twice.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"solver": Moments()}, {"solver": Moments(0.1)}, {"features": "hats"},
        {"solver": SGD(0.05, n_passes=3)}, {"loss": "hinge"},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 10.0}])
def test_class_weights_move_the_decision_and_no_coefficient(settings, class_weight):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (rng.random(2000) < 0.05).astype(int)
    X[y == 1] *= [1.0, 8.0, 1.0]  # pooled variances of classes that weigh otherwise differ
    X[y == 1] += [1.0, 2.0, 0.0]

    def made(class_weight, by_chunks):
        model = AUCClassifier(**settings, class_weight=class_weight, random_state=0)
        if not by_chunks:
            return model.fit(X, y)
        for k in range(0, 2000, 100):
            model.partial_fit(X[k : k + 100], y[k : k + 100], classes=[0, 1])
        return model

    streams = isinstance(class_weight, dict) and "features" not in settings
    for by_chunks in (False, True) if streams else (False,):
        plain, weighed = made(None, by_chunks), made(class_weight, by_chunks)
        np.testing.assert_allclose(weighed.coef_, plain.coef_, rtol=1e-9, atol=1e-12)
        assert weighed.predict_proba(X)[:, 1].mean() > 2.0 * plain.predict_proba(X)[:, 1].mean()


@pytest.mark.parametrize("solver", ["auto", "sgd"])
def test_a_chunk_may_lack_the_class_that_has_a_weight(solver):
    model = AUCClassifier(solver=solver, class_weight={1: 10.0}, random_state=0)
    model.partial_fit(X[Y == 0], Y[Y == 0], classes=[0, 1]).partial_fit(X, Y)
    assert model.score(X, Y) > 0.6
    wrong = AUCClassifier(solver=solver, class_weight={"yes": 10.0})
    with pytest.raises(ValueError, match=r"class_weight names 'yes', the labels are \[0, 1\]"):
        wrong.partial_fit(X, Y, classes=[0, 1])
    nothing = AUCClassifier(solver=solver, class_weight={0: 0.0, 1: 1.0})
    with pytest.raises(ValueError, match="class_weight of 0 is 0, and both classes"):
        nothing.partial_fit(X, Y, classes=[0, 1])
