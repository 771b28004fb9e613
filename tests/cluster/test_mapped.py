# SPDX-License-Identifier: BSD-3-Clause
"""Curves of features and weights of classes over partitions."""

import numpy as np
import pytest

from pairlearn import AUCClassifier, Exact, Hats, Moments, RandomFourier
from pairlearn.cluster import OnDask, fit_on, predict_on, score_on


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 2)) * [1.0, 30.0]
    y = np.where(np.abs(X[:, 0]) + 0.01 * X[:, 1] + 0.3 * rng.normal(size=900) > 1.2, "yes", "no")
    return X, y


def engine(X, y):
    parts = [(X[k::3], y[k::3]) for k in range(3)]

    def run(statistic):
        states = [statistic.partial_state(*part) for k, part in enumerate(parts)]
        # An empty partition changes nothing.
        return statistic.merge_all([*states, statistic.partial_state(X[:0], y[:0])])

    return run


@pytest.mark.parametrize("features", [Hats(n_knots=6), RandomFourier(40)])
def test_mapped_rows_are_solved_as_in_one_memory(table, features):
    X, y = table
    fitted = features.fit(X, rng=np.random.default_rng(0))
    expected = AUCClassifier(features=fitted, loss="square", solver=Moments(ridge=0.01)).fit(X, y)
    fit = fit_on(engine(X, y), AUCClassifier(loss="square", features=fitted, solver=Exact(0.01)))
    np.testing.assert_allclose(fit.coef_, expected.coef_, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        fit.decision_function(X) + fit.threshold_,
        expected.decision_function(X) + expected.threshold_,
        atol=1e-5,
    )
    assert fit.cluster_report_.n_passes == 3
    assert abs(fit.score(X, y) - fit.cluster_report_.training_auc) < 1e-3
    assert fit.solver_ == "moments"


def test_a_map_by_name_is_fitted_to_the_sample_and_is_stored(table, tmp_path):
    X, y = table
    linear = fit_on(engine(X, y), AUCClassifier(loss="square", random_state=0)).score(X, y)
    fit = fit_on(engine(X, y), AUCClassifier(loss="auto", features="hats", random_state=0))
    assert fit.score(X, y) > 0.9 > linear
    fit.save(tmp_path / "model.safetensors")
    again = AUCClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_proba(X), fit.predict_proba(X))


def test_weights_of_classes_move_probabilities_and_no_coefficient(table):
    X, y = table
    options = {"loss": "square", "solver": Exact(0.1)}
    plain = fit_on(engine(X, y), AUCClassifier(**options))
    for class_weight in ("balanced", {"yes": 3.0}):
        found = fit_on(engine(X, y), AUCClassifier(class_weight=class_weight, **options))
        np.testing.assert_array_equal(found.coef_, plain.coef_)
        alone = AUCClassifier(loss="square", solver=Exact(ridge=0.1), class_weight=class_weight)
        expected = alone.fit(X, y).predict_proba(X)
        np.testing.assert_allclose(found.predict_proba(X), expected, atol=2e-3)
        assert np.abs(found.predict_proba(X) - plain.predict_proba(X)).max() > 0.02


def test_balanced_classes_weigh_the_same_as_in_one_memory(table):
    """Rows were counted here, and weights in memory."""
    X, y = table
    weight = np.where(y == "yes", 5.0, 1.0)
    options = {"loss": "square", "solver": Exact(0.1), "class_weight": "balanced"}

    def run(statistic):
        parts = (statistic.partial_state(*part) for k, part in enumerate(halves))
        return statistic.merge_all(parts)

    halves = [(X[k::2], y[k::2], weight[k::2]) for k in range(2)]
    found = fit_on(run, AUCClassifier(**options))
    expected = AUCClassifier(**options).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=2e-3)


@pytest.mark.thorough
def test_a_map_is_chosen_as_in_one_memory(table):
    X, y = table
    noise = np.random.default_rng(6).normal(size=len(X))
    plane = np.where(X @ [1.0, 0.03] + noise > 0.3, "yes", "no")
    for labels, name in ((y, "hats"), (plane, "linear")):
        found = fit_on(engine(X, labels), AUCClassifier(features="auto", random_state=0))
        alone = AUCClassifier(features="auto", random_state=0).fit(X, labels)
        assert found.choice_.features.name == alone.choice_.features.name == name
        # The sample is all of the rows, in another order: the same maps are judged on other folds.
        judged = [[one.auc for one in model.choice_.features.judged] for model in (found, alone)]
        np.testing.assert_allclose(*judged, atol=0.02)
        assert found.score(X, labels) == pytest.approx(alone.score(X, labels), abs=0.005)


@pytest.mark.parametrize("features", ["auto", "hats"])
def test_a_map_is_fitted_to_the_weights_of_the_sample(features):
    rng = np.random.default_rng(0)
    # Whole steps of a grid: rounding is no part of it.
    X = np.round(rng.normal(size=(1500, 3)) * 32.0) / 32.0
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=1500) > 1.5).astype(int)
    weight = rng.integers(0, 4, 1500).astype(float)

    def run(statistic):
        return statistic.merge_all([statistic.partial_state(X, y, weight)])

    found = fit_on(run, AUCClassifier(features=features, random_state=0))
    alone = AUCClassifier(features=features, solver=Moments(), random_state=0)
    alone.fit(X, y, sample_weight=weight)
    assert isinstance(found.features_, Hats)
    np.testing.assert_array_equal(found.features_.transform(X), alone.features_.transform(X))


def test_what_has_no_effect_is_refused(table):
    run = engine(*table)
    with pytest.raises(ValueError, match="trains the square loss"):
        fit_on(run, AUCClassifier(loss="logistic", features="hats"))
    with pytest.raises(ValueError, match="trains the square loss"):
        fit_on(run, AUCClassifier(loss="logistic", features="auto"))
    with pytest.raises(ValueError, match="features must be"):
        fit_on(run, AUCClassifier(features="curves", loss="square"))
    with pytest.raises(ValueError, match=r"class_weight names 'maybe', the labels are"):
        fit_on(run, AUCClassifier(loss="square", class_weight={"maybe": 2.0}))
    with pytest.raises(ValueError, match='class_weight must be a dict, "balanced"'):
        fit_on(run, AUCClassifier(loss="square", class_weight="equal"))


def test_maps_on_dask_collections(table):
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    X, y = da.from_array(table[0], chunks=(300, -1)), da.from_array(table[1], chunks=300)
    estimator = AUCClassifier(features="hats", class_weight="balanced", random_state=0)
    model = fit_on(OnDask(X, y), estimator)
    assert model.cluster_report_.n_passes == 3
    assert score_on(OnDask(X, y), model).auc == model.score(*table) > 0.9
    np.testing.assert_array_equal(
        predict_on(model, X, "decision_function").compute(), model.decision_function(table[0])
    )
