# SPDX-License-Identifier: BSD-3-Clause
"""Additive models drawn and explained."""

import numpy as np
import pytest

from pairlearn import (
    SGD,
    AUCClassifier,
    AUCStack,
    Hats,
    MetricLearner,
    PairwiseRanker,
    PrivateAUCClassifier,
    PrivateEntropyRegressor,
    explain,
    plot_shapes,
)

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(500, 3)), columns=["age", "dose", "noise"])
Y = np.where(X["age"] ** 2 + X["dose"] + 0.3 * RNG.normal(size=500) > 1, 1, 0)


@pytest.mark.parametrize("cumulative", [True, False])
def test_contributions_add_up_to_the_decision(cumulative):
    model = AUCClassifier(features=Hats(8, cumulative=cumulative), random_state=0).fit(X, Y)
    decisions = model.decision_function(X)
    for k in range(5):
        found = model.explain(X.to_numpy()[k])
        assert found.total == pytest.approx(decisions[k], abs=1e-9)
        assert found.total == pytest.approx(found.base + sum(found.contributions.values()))
        assert set(found.contributions) == {"age", "dose", "noise"}


def test_a_linear_model_is_explained_by_products():
    model = AUCClassifier(random_state=0).fit(X, Y)
    found = explain(model, [1.0, 2.0, 3.0])
    assert found.contributions["dose"] == pytest.approx(2.0 * model.coef_[0, 1])
    assert found.base == pytest.approx(model.intercept_[0])


def test_the_drawing_shows_the_functions():
    model = AUCClassifier(features="hats", random_state=0).fit(X, Y)
    for table in (None, X):
        figure = plot_shapes(model, table)
        panels = [a for a in figure.axes if a.get_xlabel()]
        # The features that vary most come first.
        assert {panels[0].get_xlabel(), panels[1].get_xlabel()} == {"age", "dose"}
        k = ["age", "dose", "noise"].index(panels[0].get_xlabel())
        drawn = panels[0].get_lines()[1].get_xydata()
        expected = model.features_.shape_of(k, model.coef_[0])
        np.testing.assert_allclose(drawn[:, 0], model.features_.knots_of(k))
        np.testing.assert_allclose(drawn[:, 1], expected - expected.mean())
    one = plot_shapes(model, features=["noise"])
    assert [a.get_xlabel() for a in one.axes] == ["noise"]


def test_what_is_no_sum_is_refused():
    waves = AUCClassifier(features="fourier", random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match='fit with features="hats"'):
        explain(waves, [0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match='fit with features="hats"'):
        plot_shapes(waves)
    linear = AUCClassifier(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="needs X for a linear model"):
        plot_shapes(linear)
    with pytest.raises(ValueError, match="x has 2 features"):
        explain(linear, [0.0, 0.0])
    with pytest.raises(ValueError, match="no feature 'weight'"):
        plot_shapes(linear, X, features=["weight"])


@pytest.mark.parametrize("learns", ["classes", "target"])
def test_a_private_model_is_explained_with_its_bounds(learns):
    """Values beyond the bounds were not clipped, and the sum was another score."""
    rows = X.to_numpy()
    if learns == "classes":
        model = PrivateAUCClassifier(bounds=(-1.0, 1.0), labels=(0, 1)).fit(rows, Y)
        score = model.decision_function
    else:
        limits = {"bounds": (-1.0, 1.0), "target_bounds": (-3.0, 3.0)}
        model = PrivateEntropyRegressor(**limits).fit(rows, rows[:, 0])
        score = model.predict
    for x in ([0.5, -0.5, 0.0], [4.0, -9.0, 0.5]):
        assert explain(model, x).total == pytest.approx(score([x])[0])
    panel = plot_shapes(model, rows, features=[0]).axes[0]
    at, added = panel.lines[-1].get_data()
    far, edge, end = (np.array([[k, 0.0, 0.0]]) for k in (at[-1], 1.0, 0.0))
    assert at[-1] > 1.0
    assert np.interp(1.0, at, added) == pytest.approx(added[-1])
    assert added[-1] - np.interp(0.0, at, added) == pytest.approx(
        (score(far) - score(end))[0], abs=1e-9
    )
    assert score(edge)[0] == score(far)[0]


@pytest.mark.parametrize("model", [AUCStack(random_state=0), MetricLearner(random_state=0)])
def test_a_fitted_model_without_coefficients_is_not_called_unfitted(model):
    model.fit(X.to_numpy()[:80], Y[:80])
    with pytest.raises(ValueError, match="has no coefficients of features; explain a classifier"):
        explain(model, [0.0, 0.0, 0.0])


@pytest.mark.thorough
def test_a_ranking_is_explained_too():
    ranker = PairwiseRanker(random_state=0, solver=SGD(n_passes=5)).fit(X.to_numpy(), X["age"])
    found = explain(ranker, [1.0, 0.0, 0.0])
    assert found.total == pytest.approx(ranker.predict([[1.0, 0.0, 0.0]])[0])


@pytest.mark.parametrize("features", ["linear", Hats(8)])
def test_an_example_has_the_features_of_the_model(features):
    model = AUCClassifier(features=features, random_state=0).fit(X, Y)
    expected = model.decision_function(X.iloc[[0]])[0]
    for row in (X.iloc[0], X.iloc[[0]], X.iloc[0].reset_index(drop=True)):
        assert explain(model, row).total == pytest.approx(expected, abs=1e-9)
    turned = X[["dose", "age", "noise"]]
    for row in (turned.iloc[0], turned.iloc[[0]]):
        with pytest.raises(ValueError, match=r"pass x\[model.feature_names_in_\]"):
            explain(model, row)
    with pytest.raises(ValueError, match="x contains NaN or infinity"):
        explain(model, [np.nan, 0.0, 0.0])
    with pytest.raises(ValueError, match="x must be one example"):
        explain(model, [[0.0], [0.0], [0.0]])


def test_a_plot_has_the_columns_of_the_model():
    """Ranges and densities of other columns would stand below the functions."""
    model = AUCClassifier(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="feature names should match"):
        plot_shapes(model, X[["dose", "age", "noise"]])
