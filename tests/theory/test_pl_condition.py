# SPDX-License-Identifier: BSD-3-Clause
"""mu of the PL condition on data, against the ratio that the condition is about."""

import numpy as np
import pytest
from scipy.optimize import minimize

from pairlearn import (
    Exponential,
    Hinge,
    LinearScore,
    Logistic,
    MahalanobisScore,
    Problem,
    Square,
    SquaredHinge,
)
from pairlearn.losses import DistanceHinge, LogLink
from pairlearn.theory import pl_constant, pl_gap


def data(n=14, d=3, *, noise=1.0, scale=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(n, d))
    y = np.where(X[:, 0] + noise * scale * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def risk(loss, X, y):
    """Return F_S and its gradient, by the sum over all ordered pairs."""
    n = len(y)
    pairs = [
        (i, j) for i in range(n) for j in range(n)
        if y[i] != y[j] and not (loss.one_sided and y[i] < y[j])
    ]  # fmt: skip
    i, j = np.array(pairs).T
    V = X[i] - X[j]

    def value(w):
        return float(loss.value.many(V @ w, y[i], y[j], loss.parameter).sum()) / (n * (n - 1))

    def gradient(w):
        return loss.derivative.many(V @ w, y[i], y[j], loss.parameter) @ V / (n * (n - 1))

    return value, gradient


def least_ratio(loss, X, y, radius, *, n_points=300):
    """Return the least ratio of the PL condition over random points of the ball and its sphere."""
    value, gradient = risk(loss, X, y)
    rng = np.random.default_rng(1)
    ball = {"type": "ineq", "fun": lambda w: radius**2 - w @ w, "jac": lambda w: -2 * w}
    starts = [np.zeros(X.shape[1]), *(radius * rng.normal(size=(3, X.shape[1])))]
    least = min(
        minimize(value, w, jac=gradient, constraints=[ball], method="SLSQP").fun for w in starts
    )
    points = rng.normal(size=(n_points, X.shape[1]))
    points *= radius / np.linalg.norm(points, axis=1)[:, None]
    points[::2] *= rng.random(len(points[::2]))[:, None]
    ratios = [
        float(gradient(w) @ gradient(w)) / (2.0 * (value(w) - least))
        for w in points
        if value(w) > least + 1e-9
    ]
    return min(ratios)


@pytest.mark.parametrize("radius", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("kind", [Logistic, Square, Exponential])
def test_the_ratio_is_never_below(kind, one_sided, radius):
    X, y = data()
    loss = kind(one_sided=one_sided)
    mu = pl_constant(Problem(LinearScore(), loss), X, y, radius=radius)
    assert 0.0 < mu <= least_ratio(loss, X, y, radius)
    constants = Problem(LinearScore(), loss).constants(norm_bound=1.0, radius=radius)
    assert mu <= constants.smoothness


@pytest.mark.parametrize("seed", range(4))
def test_log_link_on_a_small_ball(seed):
    X, y = data(seed=seed)
    mu = pl_constant(Problem(LinearScore(), LogLink()), X, y, radius=0.2)
    assert 0.0 < mu <= least_ratio(LogLink(), X, y, 0.2)
    with pytest.raises(ValueError, match=r"log 2: a radius below 0\.\d+\), and the direction"):
        pl_constant(Problem(LinearScore(), LogLink()), *data(60, seed=seed), radius=20.0)


@pytest.mark.parametrize("radius", [0.5, 2.0, 5.0])
def test_log_link_where_pairs_can_be_ranked(radius):
    """Labels without noise: beyond log 2 the loss is not convex, and the second constant holds."""
    X, y = data(noise=0.0, scale=0.5)
    X[:, 0] += 0.1 * y
    problem = Problem(LinearScore(), LogLink())
    mu = pl_constant(problem, X, y, radius=radius)
    assert 0.0 < mu <= least_ratio(LogLink(), X, y, radius)
    by_hand = pl_constant(problem, X, y, radius=radius, direction=[3.0, 0.0, 0.0])
    assert 0.0 < by_hand <= least_ratio(LogLink(), X, y, radius)
    gap = pl_gap(1000, smoothness=1.0, pl_constant=mu, lipschitz=0.3)
    assert gap > 0.0


def test_one_unit_pair():
    """The largest mu of one pair is min 2 p^2 (1-p)^2 / (1 - (l/p)^2), found on a grid."""
    problem = Problem(LinearScore(), LogLink())
    for radius in (1.0, 2.0, 5.0):
        m = np.linspace(-radius, radius, 20_001)[:-1]
        p, low = 1 / (1 + np.exp(m)), 1 / (1 + np.exp(radius))
        truth = ((2 * p**2 * (1 - p)) ** 2 / (2 * (p**2 - low**2))).min()
        mu = pl_constant(problem, [[0.5], [-0.5]], [1, -1], radius=radius)
        assert 0.02 * truth < mu <= truth


def test_a_direction_without_data_does_not_count():
    """Features that never differ leave the span; lambda is the smallest positive eigenvalue."""
    X, y = data()
    wide = np.hstack([X, np.full((len(y), 2), 7.0)])
    problem = Problem(LinearScore(), Logistic())
    narrow = pl_constant(problem, X, y, radius=1.0)
    assert pl_constant(problem, wide, y, radius=1.0) == pytest.approx(narrow, rel=1e-9)


@pytest.mark.parametrize("margin_bound", [0.1, 0.6, 0.7, 1.5, 8.0])
@pytest.mark.parametrize("loss", [Logistic(), Square(), Exponential(), LogLink(), SquaredHinge()])
def test_curvature_floors(loss, margin_bound):
    m = np.linspace(-margin_bound, margin_bound, 4001)
    curvature = np.gradient(loss.slopes(m), m)[1:-1]
    floor = loss.curvature_floor(margin_bound)
    assert curvature.min() >= floor - 1e-3 * max(1.0, abs(curvature).max())
    if not isinstance(loss, SquaredHinge) or isinstance(loss, Square):
        assert curvature.min() <= floor + 1e-2 * max(1.0, abs(curvature).max())


def test_what_is_refused():
    X, y = data()
    with pytest.raises(ValueError, match="no positive curvature on margins"):
        pl_constant(Problem(LinearScore(), Hinge()), X, y, radius=1.0)
    with pytest.raises(ValueError, match="linear score and a loss of margins"):
        pl_constant(Problem(MahalanobisScore(), DistanceHinge()), X, y, radius=1.0)
    with pytest.raises(ValueError, match="radius"):
        pl_constant(Problem(LinearScore(), Logistic()), X, y, radius=0.0)
    with pytest.raises(ValueError, match="direction"):
        pl_constant(Problem(LinearScore(), LogLink()), X, y, radius=9.0, direction=[1.0])
    same = np.ones((4, 2))
    with pytest.raises(ValueError, match="no PL constant"):
        pl_constant(Problem(LinearScore(), Logistic()), same, [1, -1, 1, -1], radius=1.0)
