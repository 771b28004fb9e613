# SPDX-License-Identifier: BSD-3-Clause
"""Objectives for the top of the list beside the reference, and their gradients."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn import Exponential, Logistic, SmoothedHinge, Square, SquaredHinge
from pairlearn.estimators.auc.ways.exact import _ridges
from pairlearn.reference import p_norm_push, partial_area, soft_average_precision
from pairlearn.solvers.exact.batch import PairObjective
from pairlearn.solvers.rows import DenseRows, as_rows
from pairlearn.solvers.top.objectives import (
    PartialArea,
    Push,
    SmoothPrecision,
    TopObjective,
    worst_share,
)

LOSSES = [SquaredHinge(), SquaredHinge(margin=0.4), SmoothedHinge(), Exponential(), Logistic()]
OBJECTIVES = [
    Push(),
    Push(1.0),
    Push(2.5),
    PartialArea(0.3),
    PartialArea(1.0),
    PartialArea(0.3, 0.4),
    SmoothPrecision(),
]


def sample(n=40, seed=0):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    return positive, rng.normal(size=n) + positive, rng.uniform(0.3, 2.0, n)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_values_are_those_of_the_reference(loss):
    positive, scores, _ = sample()
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    for power in (1.0, 3.0, 8.0):
        found = Push(power).of_scores(loss, positive, None)(scores)[0]
        assert found == pytest.approx(p_norm_push(loss, scores, positive, power), rel=1e-12)
    # A sharper edge would be the difference of nearly equal sums.
    sharp = 1e-6
    for few in (1, 5, n_negative):
        found = PartialArea(few / n_negative, softness=sharp).of_scores(loss, positive, None)
        wanted = partial_area(loss, scores, positive, n_positive=n_positive, n_negative=few)
        assert found(scores)[0] == pytest.approx(wanted, rel=1e-5)
    two_way = PartialArea(5 / n_negative, 1.0 - 6 / n_positive, softness=sharp)
    wanted = partial_area(loss, scores, positive, n_positive=6, n_negative=5)
    assert two_way.of_scores(loss, positive, None)(scores)[0] == pytest.approx(wanted, rel=1e-5)


def test_soft_average_precision_is_that_of_the_reference_and_sharpens():
    positive, scores, _ = sample()
    found = SmoothPrecision().of_scores(SquaredHinge(), positive, None)
    wanted = soft_average_precision(scores, positive)
    assert 1.0 - found(scores)[0] == pytest.approx(wanted, rel=1e-12)
    from sklearn.metrics import average_precision_score

    # Far apart, soft counts are counts.
    ranks = 3.0 * np.argsort(np.argsort(scores))
    wanted = average_precision_score(positive, ranks)
    assert 1.0 - found(ranks)[0] == pytest.approx(wanted, rel=1e-9)


def test_soft_counts_keep_their_digits_and_their_ties():
    positive, scores, weight = sample()
    function = SmoothPrecision().of_scores(SquaredHinge(), positive, weight)
    value, gradient = function(scores)
    # An outlier, or a common offset, does not round the others away.
    far, slopes = function(scores + 2.0**30)
    assert far == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(slopes, gradient, atol=1e-6)
    scores[~positive & (scores == scores[~positive].min())] = -1e12
    assert function(scores)[0] == pytest.approx(value, rel=1e-3)
    plain = SmoothPrecision().of_scores(SquaredHinge(), positive, None)
    # Steps of 1 that are lost in rounding, whole numbers at the ends of cells, and ties.
    ranks = 1e17 * np.argsort(np.argsort(scores)).astype(float)
    for some in (ranks, np.round(scores), np.zeros(len(scores))):
        wanted = soft_average_precision(some, positive)
        assert 1.0 - plain(some)[0] == pytest.approx(wanted, rel=1e-9)


def test_soft_precision_has_the_same_minimum_from_another_start():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 3))
    y = np.where(X[:, 0] + rng.normal(size=150) > 0.8, 1.0, -1.0)
    objective = TopObjective(DenseRows(X), y, SquaredHinge(), None, SmoothPrecision())
    settings = {"tolerance": 1e-13, "max_iterations": 2000}
    w, _ = objective.minimise(0.01, **settings)
    for start in (np.zeros(3), np.array([0.5, 1.0, -1.0]), 3.0 * w):
        np.testing.assert_allclose(objective.minimise(0.01, start, **settings)[0], w, atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_gradients_are_finite_differences(objective, loss):
    positive, scores, weight = sample()
    function = objective.of_scores(loss, positive, weight)
    gradient = function(scores)[1]
    for i in range(len(scores)):
        step = np.zeros(len(scores))
        step[i] = 1e-6
        slope = (function(scores + step)[0] - function(scores - step)[0]) / 2e-6
        assert gradient[i] == pytest.approx(slope, abs=1e-6)
    # Shifting all scores changes nothing.
    assert gradient.sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_whole_weights_are_copies(objective):
    positive, scores, _ = sample()
    times = np.arange(len(scores)) % 3 + 1
    once = objective.of_scores(SquaredHinge(), positive, times.astype(float))(scores)[0]
    copied = objective.of_scores(SquaredHinge(), np.repeat(positive, times), None)
    if isinstance(objective, SmoothPrecision):
        # Copies tie, and a tie counts half.
        assert once == pytest.approx(copied(np.repeat(scores, times))[0], abs=0.05)
    else:
        assert once == pytest.approx(copied(np.repeat(scores, times))[0], rel=1e-10)


def test_worst_share_is_exact_and_soft():
    rng = np.random.default_rng(1)
    for k in range(60):
        n = 30 if k < 50 else 5
        costs, weights = rng.exponential(size=n).round(1), rng.dirichlet(np.ones(n))
        share = rng.uniform(0.01, 0.99) if k < 50 else 0.995
        u = worst_share(costs, weights, share, 0.1)
        assert weights @ u == pytest.approx(share, abs=1e-12)
        # Costlier examples count no less; equal ones count the same.
        assert (np.diff(u[np.argsort(costs, kind="stable")]) >= 0.0).all()
    assert worst_share(np.ones(4), np.full(4, 0.25), 0.5, 0.1) == pytest.approx([0.5] * 4)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_minimisers_are_stationary_dense_and_sparse(objective):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 3))
    y = np.where(X[:, 0] + rng.normal(size=150) > 0.8, 1.0, -1.0)
    objective_of = TopObjective(DenseRows(X), y, SquaredHinge(), None, objective)
    w, _ = objective_of.minimise(0.01, tolerance=1e-13, max_iterations=2000)
    value, slopes = objective.of_scores(SquaredHinge(), y > 0, None)(X @ w)
    assert np.abs(slopes @ X + 0.02 * w).max() < 2e-4
    # Better than where it started from.
    start = PairObjective(DenseRows(X), y, SquaredHinge()).minimise(0.01)[0]
    begin = objective.of_scores(SquaredHinge(), y > 0, None)(X @ start)[0]
    assert value + 0.01 * w @ w <= begin + 0.01 * start @ start + 1e-9
    rows = as_rows(scipy.sparse.csr_array(X))
    sparse, _ = TopObjective(rows, y, SquaredHinge(), None, objective).minimise(
        0.01, tolerance=1e-13, max_iterations=2000
    )
    np.testing.assert_allclose(sparse, w, atol=2e-3)


def test_a_ridge_about_an_anchor():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 3))
    y = np.where(X[:, 0] + rng.normal(size=150) > 0.8, 1.0, -1.0)
    start = PairObjective(DenseRows(X), y, SquaredHinge()).minimise(0.01)[0]
    objective = TopObjective(DenseRows(X), y, SquaredHinge(), None, SmoothPrecision(), start)
    assert (X @ objective.anchor).std() == pytest.approx(4.0)
    np.testing.assert_allclose(objective.anchor / start, (objective.anchor / start)[0])
    for ridge in (0.01, 100.0):
        w, _ = objective.minimise(ridge, tolerance=1e-13, max_iterations=2000)
        _, slopes = SmoothPrecision().of_scores(SquaredHinge(), y > 0, None)(X @ w)
        assert np.abs(slopes @ X + 2.0 * ridge * (w - objective.anchor)).max() < 2e-4
        # The value that is searched is that of the distance to the anchor.
        found, _ = objective._risk(w, ridge)
        mean = SmoothPrecision().of_scores(SquaredHinge(), y > 0, None)(X @ w)[0]
        away = w - objective.anchor
        assert found + ridge * w @ w == pytest.approx(mean + ridge * away @ away)


def test_separable_data_cost_nothing():
    positive = np.array([True, True, False])
    value, gradient = Push().of_scores(SquaredHinge(), positive, None)(np.array([5.0, 6.0, 0.0]))
    assert value == 0.0
    assert not gradient.any()


def test_the_ends_of_a_range_belong_to_it():
    assert [Push(power).power for power in (1.0, 64.0)] == [1.0, 64.0]
    assert PartialArea(1.0, 0.0) == PartialArea(max_fpr=1.0, min_tpr=0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Push(0.5), r"power must lie in \[1, 64\] or be .auto., got 0.5"),
        (lambda: Push(64.5), r"power must lie in \[1, 64\] or be .auto., got 64.5"),
        (lambda: PartialArea(0.0), r"max_fpr must lie in \(0, 1\], got 0.0"),
        (lambda: PartialArea(0.1, 1.0), r"min_tpr must lie in \[0, 1\), got 1.0"),
        (lambda: PartialArea(0.1, softness=0.0), "softness must be a positive number"),
        (lambda: Push().check_loss(Square()), "needs a smooth loss that never increases"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_ridges_of_average_precision_begin_at_one():
    assert _ridges(20, SmoothPrecision.strongest_ridge)[0] == 1.0
    assert _ridges(20, Push.strongest_ridge)[0] == 100.0


@pytest.mark.parametrize("size", [1e20, 1e100, 1e300])
def test_of_huge_costs_the_worst_counts(size):
    """The softness is lost in rounding, and somebody must count all the same."""
    costs = size * np.array([1.0, 3.0, 2.0, 3.0])
    counted = worst_share(costs, np.full(4, 0.25), 0.3, 0.1)
    assert counted.dtype == np.float64
    assert (counted[[1, 3]] > 0.0).all()
    assert counted[0] == 0.0
