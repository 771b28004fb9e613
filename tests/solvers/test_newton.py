# SPDX-License-Identifier: BSD-3-Clause
"""The squared hinge by Newton's method against all pairs and a general minimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from pairlearn.losses import Logistic, SmoothedHinge, SquaredHinge
from pairlearn.solvers import ExactSolver
from pairlearn.solvers.exact import newton
from pairlearn.solvers.exact.batch import pair_mean
from pairlearn.solvers.exact.newton import SquaredHingeNewton, scatter_of_pairs


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
    search = SquaredHingeNewton(X, positive, weight=weight if weighted else None, margin=margin)
    w, n_iterations = search.minimise(ridge, tolerance=1e-14)
    assert n_iterations < 30
    arguments = (X, positive, given, margin, ridge)
    other = minimize(all_pairs, w + 0.05, args=arguments, options={"gtol": 1e-9})
    assert all_pairs(w, *arguments) <= other.fun + 1e-12
    assert np.abs(w - other.x).max() < 1e-6


def test_any_start_ends_at_the_same_place():
    X, positive, _ = sample()
    search = SquaredHingeNewton(X, positive)
    w, _ = search.minimise(0.1, tolerance=1e-14)
    for start in (np.full(4, 50.0), np.full(4, -3.0)):
        assert np.abs(search.minimise(0.1, start, tolerance=1e-14)[0] - w).max() < 1e-9


def test_columns_without_variance_do_not_blow_up():
    X, positive, _ = sample()
    X = np.column_stack([X, np.ones(len(X)), X[:, 0]])
    w, _ = SquaredHingeNewton(X, positive).minimise(0.0)
    assert np.abs(w).max() < 1e3


def test_many_features_go_to_another_method_with_the_same_result():
    X, positive, weight = sample(d=40, n=200)
    y = np.where(positive, 1.0, -1.0)
    w, _ = SquaredHingeNewton(X, positive, weight=weight).minimise(0.05, tolerance=1e-14)
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


@pytest.mark.parametrize("d", [1, 4, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_kernels_and_numpy_give_the_same_derivatives(d, weighted):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(403, d)) + 3.0
    positive = rng.random(403) < 0.3
    weight = rng.random(403) + 0.1 if weighted else None
    by_numpy = newton._Sorted(X, positive, weight, 0.7)
    by_kernels = newton._Walked(X, positive, weight, 0.7)
    w = rng.normal(size=d)
    expected = by_numpy.evaluate(by_numpy.scores(w))
    found = by_kernels.evaluate(by_kernels.scores(w))
    assert found[0] == pytest.approx(expected[0], rel=1e-12)
    for a, b in (
        (by_kernels.combine(found[1]), by_numpy.combine(expected[1])),
        (by_kernels.hessian(found[2]), by_numpy.hessian(expected[2])),
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12 * np.abs(b).max())


def test_many_examples_have_the_same_minimiser(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 6))
    positive = X[:, 0] + rng.normal(size=2_000) > 0.8
    few, _ = SquaredHingeNewton(X, positive).minimise(0.01, tolerance=1e-12)
    monkeypatch.setattr(newton, "_MANY", 0)
    many, _ = SquaredHingeNewton(X, positive).minimise(0.01, tolerance=1e-12)
    np.testing.assert_allclose(many, few, rtol=1e-9)


def test_scatter_of_pairs_is_the_sum_over_pairs(rng):
    P, N = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    a, b = rng.uniform(size=7), rng.uniform(size=5)
    pairs = rng.integers(0, 2, (7, 5)) * np.outer(a, b)
    expected = sum(
        pairs[i, j] * np.outer(P[i] - N[j], P[i] - N[j]) for i in range(7) for j in range(5)
    )
    met = [(P, pairs.sum(axis=1)), (N, pairs.sum(axis=0))]
    found = scatter_of_pairs(met, P * a[:, None], (pairs / a[:, None]) @ N)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
