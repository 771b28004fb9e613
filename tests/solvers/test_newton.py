# SPDX-License-Identifier: BSD-3-Clause
"""The squared hinge by Newton's method against all pairs and a general minimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from pairlearn.losses import Logistic, SmoothedHinge, SquaredHinge
from pairlearn.solvers import ExactSolver
from pairlearn.solvers.exact.batch import pair_mean
from pairlearn.solvers.exact.newton import SquaredHingeMean, newton


def sample(n=120, d=4, *, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] + rng.normal(size=n) > 0.5, rng.random(n) * (rng.random(n) < 0.9)


def all_pairs(w, X, positive, weight, margin, ridge):
    """Return the objective over all pairs, one by one."""
    a, b = weight[positive], weight[~positive]
    gaps = (X[positive] @ w)[:, None] - (X[~positive] @ w)[None, :]
    losses = np.maximum(margin - gaps, 0.0) ** 2
    return float(a @ losses @ b / (a.sum() * b.sum()) + ridge * w @ w)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("margin", [1.0, 0.3])
@pytest.mark.parametrize("ridge", [0.0, 0.01, 1.0])
def test_minimiser(ridge, margin, weighted):
    X, positive, weight = sample()
    given = weight if weighted else np.ones(len(X))
    settings = {"weight": weight if weighted else None, "margin": margin, "tolerance": 1e-14}
    w, n_iterations = newton(X, positive, ridge, **settings)
    assert n_iterations < 30
    arguments = (X, positive, given, margin, ridge)
    other = minimize(all_pairs, w + 0.05, args=arguments, options={"gtol": 1e-9})
    assert all_pairs(w, *arguments) <= other.fun + 1e-12
    assert np.abs(w - other.x).max() < 1e-6


def test_any_start_ends_at_the_same_place():
    X, positive, _ = sample()
    w, _ = newton(X, positive, 0.1, tolerance=1e-14)
    for start in (np.full(4, 50.0), np.full(4, -3.0)):
        assert np.abs(newton(X, positive, 0.1, start, tolerance=1e-14)[0] - w).max() < 1e-9


def test_columns_without_variance_do_not_blow_up():
    X, positive, _ = sample()
    X = np.column_stack([X, np.ones(len(X)), X[:, 0]])
    w, _ = newton(X, positive, 0.0)
    assert np.abs(w).max() < 1e3


def test_many_features_go_to_another_method_with_the_same_result():
    X, positive, weight = sample(d=40, n=200)
    y = np.where(positive, 1.0, -1.0)
    w, _ = newton(X, positive, 0.05, weight=weight, tolerance=1e-14)
    solver = ExactSolver("squared_hinge", ridge=0.05, tolerance=1e-13)
    assert np.abs(solver.solve(X, y, example_weight=weight).w - w).max() < 1e-5


@pytest.mark.parametrize("loss", [SquaredHinge(), SmoothedHinge(), Logistic()])
def test_weights_count_examples(loss):
    """A weight of 2 is the same as the example twice, one of 0 as the example left out."""
    X, positive, _ = sample(n=40)
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 3, len(X)).astype(float)
    again = np.repeat(np.arange(len(X)), weight.astype(int))
    scores = X @ rng.normal(size=4)
    value, slopes = pair_mean(loss, positive, weight)(scores)
    expected, expected_slopes = pair_mean(loss, positive[again])(scores[again])
    assert value == pytest.approx(expected, rel=1e-12)
    summed = np.bincount(again, expected_slopes, minlength=len(X))
    assert np.abs(slopes - summed).max() < 1e-12


def test_weighted_square_loss_counts_examples():
    X, positive, _ = sample(n=60)
    weight = np.random.default_rng(2).integers(0, 3, len(X)).astype(float)
    again = np.repeat(np.arange(len(X)), weight.astype(int))
    y = np.where(positive, 1.0, -1.0)
    solver = ExactSolver("square", ridge=0.1)
    found = solver.solve(X, y, example_weight=weight).w
    assert np.abs(found - solver.solve(X[again], y[again]).w).max() < 1e-10


@pytest.mark.parametrize("weighted", [False, True])
def test_the_hessian_is_the_derivative_of_the_gradient(weighted):
    rng = np.random.default_rng(7)
    X, positive = rng.normal(size=(5_003, 3)) + 3.0, rng.random(5_003) < 0.3
    mean = SquaredHingeMean(positive, 0.7, rng.random(5_003) + 0.1 if weighted else None)
    w = rng.normal(size=3)
    hessian = mean.hessian(X, *mean.sums(X @ w)[2:])
    for k, step in enumerate(1e-5 * np.eye(3)):
        up, down = (mean(X @ (w + sign * step))[1] @ X for sign in (1.0, -1.0))
        np.testing.assert_allclose(hessian[k], (up - down) / 2e-5, rtol=2e-3)
