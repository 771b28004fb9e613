# SPDX-License-Identifier: BSD-3-Clause
"""Thresholds are the best ones, probabilities are monotone and calibrated."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from pairlearn import AUCClassifier, Costs, Exact, ExpectedCost, Threshold
from pairlearn.estimators.shared.decisions import (
    THRESHOLDS,
    Isotonic,
    Sigmoid,
    choose_threshold,
    fit_isotonic,
    fit_sigmoid,
)


@st.composite
def scored(draw):
    n = draw(st.integers(2, 25))
    scores = np.array(draw(st.lists(st.integers(-5, 5), min_size=n, max_size=n)), dtype=float)
    positive = np.array([True, False, *draw(st.lists(st.booleans(), min_size=n, max_size=n))])[:n]
    weight = np.array(draw(st.lists(st.integers(1, 4), min_size=n, max_size=n)), dtype=float)
    return scores, positive, weight


def recalls(positive, predicted, weight):
    return (
        weight[~positive & ~predicted].sum() / weight[~positive].sum(),
        weight[positive & predicted].sum() / weight[positive].sum(),
    )


def criterion_value(name, positive, predicted, weight):
    if name == "accuracy":
        return weight[positive == predicted].sum() / weight.sum()
    if name == "f1":
        both = weight[positive & predicted].sum()
        return 2 * both / (weight[positive].sum() + weight[predicted].sum())
    return sum(recalls(positive, predicted, weight)) / 2


@pytest.mark.parametrize("criterion", THRESHOLDS)
@given(sample=scored())
def test_no_cut_is_better(criterion, sample):
    scores, positive, weight = sample
    found = choose_threshold(scores, positive, weight, criterion)
    cuts = np.concatenate([[-100.0], np.unique(scores)])
    best = max(criterion_value(criterion, positive, scores > cut, weight) for cut in cuts)
    assert criterion_value(criterion, positive, scores > found, weight) == pytest.approx(best)


@given(sample=scored(), importance=st.tuples(st.floats(0.01, 10), st.floats(0.01, 10)))
def test_important_classes_count_more(sample, importance):
    scores, positive, weight = sample
    found = choose_threshold(scores, positive, weight, "balanced_accuracy", importance=importance)

    def value(cut):
        negative_recall, positive_recall = recalls(positive, scores > cut, weight)
        return importance[0] * negative_recall + importance[1] * positive_recall

    cuts = np.concatenate([[-100.0], np.unique(scores)])
    assert value(found) == pytest.approx(max(value(cut) for cut in cuts))


@pytest.mark.parametrize("fit", [fit_sigmoid, fit_isotonic])
@given(sample=scored(), points=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
@example(
    sample=(
        np.array([-3.0, -3.0, 0.0, 0.0]),
        np.array([True, False, True, False]),
        np.array([2.0, 9.0, 7.0, 2.0]),
    ),
    points=[-2.225072946712137e-309, 0.0],
)
def test_probabilities_are_monotone_and_between_0_and_1(fit, sample, points):
    probability = fit(*sample)(np.sort(points))
    assert (probability >= 0).all()
    assert (probability <= 1).all()
    assert (np.diff(probability) >= 0).all()


@pytest.mark.parametrize("fit", [fit_sigmoid, fit_isotonic])
@given(sample=scored())
def test_score_of_half(fit, sample):
    calibrator = fit(*sample)
    half = calibrator.score_of_half()
    assert np.isfinite(half)
    grid = np.concatenate([np.linspace(-8, 8, 401), sample[0]])
    grid = grid[np.abs(grid - half) > 1e-9 * (1 + abs(half))]
    assert np.array_equal(grid > half, calibrator(grid) > 0.5) or isinstance(
        calibrator, Isotonic
    ), "a sigmoid crosses 1/2 once"
    assert not (calibrator(grid[grid < half]) > 0.5 + 1e-12).any()
    assert not (calibrator(grid[grid > half]) < 0.5 - 1e-12).any()


@given(sample=scored(), unit=st.sampled_from([1e-6, 1.0, 1e6]), shift=st.floats(-100, 100))
def test_sigmoid_does_not_depend_on_the_unit_of_the_scores(sample, unit, shift):
    scores, positive, weight = sample
    expected = fit_sigmoid(scores, positive, weight)(scores)
    moved = unit * (scores + shift)
    assert np.allclose(fit_sigmoid(moved, positive, weight)(moved), expected, atol=1e-6)


@given(sample=scored())
def test_isotonic_is_scikit_learn_s(sample):
    scores, positive, weight = sample
    expected = IsotonicRegression().fit_transform(scores, positive, sample_weight=weight)
    assert np.allclose(fit_isotonic(scores, positive, weight)(scores), expected)


def test_sigmoid_of_separated_and_of_constant_scores():
    positive = np.array([False, True] * 10)
    separated = fit_sigmoid(np.where(positive, 1e3, -1e3), positive, np.ones(20))
    assert separated.slope > 0
    constant = fit_sigmoid(np.zeros(20), positive, np.ones(20))
    assert constant(np.zeros(1)) == pytest.approx(0.5)
    assert np.isfinite([constant.slope, constant.intercept]).all()
    assert isinstance(constant, Sigmoid)


def test_a_sigmoid_of_scores_whose_squares_overflow():
    scores = np.array([-2.0, -1.0, 0.5, 1.0, 3.0])
    positive, weight = np.array([False, False, True, False, True]), np.ones(5)
    small, large = (fit_sigmoid(s, positive, weight) for s in (scores, 1e200 * scores))
    assert np.allclose(large(1e200 * scores), small(scores), rtol=1e-9)
    assert large.slope > 0


@pytest.mark.parametrize("costs", [(1.0, 1.0), (1.0, 10.0), (30.0, 1.0)])
def test_threshold_of_least_cost(rng, costs, tmp_path):
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + 0.7 * rng.normal(size=300) > 0.8).astype(int)
    clf = AUCClassifier(solver=Exact(ridge=0.1), decision=Costs(*costs)).fit(X, y)
    scores = X @ clf.coef_[0]

    def cost(cut):
        return ExpectedCost(*costs, threshold=cut)(y, scores)

    cuts = np.append(np.sort(scores), scores.min() - 1.0)
    assert cost(clf.threshold_) == pytest.approx(min(map(cost, cuts)), abs=1e-12)
    said = clf.predict(X) == 1
    assert cost(clf.threshold_) == pytest.approx(
        (costs[0] * (said & (y == 0)).sum() + costs[1] * (~said & (y == 1)).sum()) / 300
    )
    clf.save(tmp_path / "m")
    again = AUCClassifier.load(tmp_path / "m")
    assert (again.decision, again.threshold_) == (Costs(*costs), clf.threshold_)


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ((1.0, 0.0), "false_negative must be .*got 0.0"),
        ((float("nan"), 1.0), "false_positive must be .*got nan"),
        ((1.0, 2.0, "platt"), "calibration must be .*got 'platt'"),
    ],
)
def test_costs_that_mean_nothing(costs, message):
    with pytest.raises(ValueError, match=message):
        Costs(*costs)


def test_scores_that_differ_by_rounding_alone_have_no_scale():
    scores = 0.168 + np.array([0.0, 2.8e-17, 0.0, 2.8e-17])
    found = fit_sigmoid(scores, np.array([False, True, False, True]), np.ones(4))
    np.testing.assert_allclose(found(scores), 0.5)
    assert found.slope == pytest.approx(1.0)


@pytest.mark.parametrize("at", [True, np.True_, None, [1.0], 1j])
def test_a_threshold_is_a_number_or_a_name(at):
    with pytest.raises(TypeError, match="a threshold is a number or one of"):
        Threshold(at)
    with pytest.raises(ValueError, match='calibration must be "sigmoid" or "isotonic"'):
        Threshold(calibration=[at])


@pytest.mark.parametrize(
    ("criterion", "y"),
    [
        ("accuracy", [0, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1]),
        ("balanced_accuracy", [0, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1]),
    ],
)
def test_rounding_does_not_choose_among_equally_good_thresholds(criterion, y):
    scores, positive = np.arange(12.0), np.array(y) == 1
    plain = choose_threshold(scores, positive, np.ones(12), criterion)
    for unit in (0.1, 0.3):
        assert choose_threshold(scores, positive, np.full(12, unit), criterion) == plain


def test_a_threshold_between_huge_scores_is_finite():
    scores = np.array([-1.7e308, -1.6e308, -1.5e308, -1.4e308])
    found = choose_threshold(scores, np.arange(4) > 1, np.ones(4), "accuracy")
    assert found == pytest.approx(-1.55e308)
