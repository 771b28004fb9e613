# SPDX-License-Identifier: BSD-3-Clause
"""Momentum and variance reduction against literal loops."""

import numpy as np
import pytest

from pairlearn import (
    Ball,
    Constant,
    FifoBuffer,
    Hinge,
    InverseSqrt,
    LinearScore,
    PairwiseSGD,
    PreviousExample,
    Problem,
    RandomPair,
    SquaredHinge,
    Uniform,
    WholeSpace,
)
from pairlearn.averaging import DelayedByStepSize
from pairlearn.metrics import pair_risk
from pairlearn.reference import average_of, pair_gradient
from pairlearn.solvers import MomentumSGD, VarianceReducedSGD
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.exact.batch import ExactSolver


def sample(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    X[:, 0] += y / 2
    return X, y


@pytest.mark.parametrize("radius", [0.2, np.inf])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(one_sided=True)], ids=repr)
def test_momentum_step_by_step(loss, nesterov, radius):
    X, y = sample()
    domain, schedule, m = Ball(radius) if radius < 1 else WholeSpace(), InverseSqrt(0.05), 0.7
    plan = PreviousExample().offline(60, np.random.default_rng(1)).draw(120)
    before = w = np.zeros(4)
    iterates = [w]
    for t in range(120):
        i, j = plan.left[t], plan.right[t]
        at = w + m * (w - before) if nesterov else w
        gradient = pair_gradient(loss, at, X[i], y[i], X[j], y[j])
        eta = schedule.step_sizes(t + 1, 1)[0]
        before, w = w, domain.project(w + m * (w - before) - eta * gradient)
        iterates.append(w)
    solver = MomentumSGD(m, nesterov, PreviousExample(), schedule, domain, DelayedByStepSize())
    found = solver.solve(Problem(LinearScore(), loss), X, y, n_passes=2, rng=1)
    np.testing.assert_allclose(found.w, w, rtol=1e-10, atol=1e-12)
    wanted = average_of(iterates, schedule.step_sizes(1, 120))
    np.testing.assert_allclose(found.average, wanted, rtol=1e-10, atol=1e-12)
    assert found.trace.n_steps == 120
    assert found.trace.n_repeats == np.count_nonzero(plan.left == plan.right) > 0


def test_no_momentum_is_algorithm_1():
    X, y = sample()
    problem = Problem(LinearScore(), Hinge())
    found = MomentumSGD(0.0, schedule=Constant(0.1)).solve(problem, X, y, n_passes=3, rng=1)
    wanted = PairwiseSGD(schedule=Constant(0.1)).solve(problem, X, y, n_passes=3, rng=1)
    np.testing.assert_allclose(found.w, wanted.w, rtol=1e-12)
    np.testing.assert_allclose(found.average, wanted.average, rtol=1e-12)
    assert found.trace.n_gradients == wanted.trace.n_gradients


def test_a_run_of_several_blocks_ends_where_it_should():
    X, y = sample()
    problem, n_passes = Problem(LinearScore(), Hinge()), (BLOCK + 60) / 60
    found = MomentumSGD(0.0, schedule=Constant(0.1)).solve(problem, X, y, n_passes=n_passes, rng=1)
    wanted = PairwiseSGD(schedule=Constant(0.1)).solve(problem, X, y, n_passes=n_passes, rng=1)
    assert found.trace.n_steps == wanted.trace.n_steps
    assert found.trace.n_gradients == wanted.trace.n_gradients
    np.testing.assert_allclose(found.w, wanted.w, rtol=1e-9)
    np.testing.assert_allclose(found.average, wanted.average, rtol=1e-9)


def exact_gradient(loss, w, X, y):
    n = len(y)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    return sum(pair_gradient(loss, w, X[i], y[i], X[j], y[j]) for i, j in pairs) / (n * (n - 1))


@pytest.mark.parametrize("radius", [0.2, np.inf])
def test_variance_reduction_step_by_step(radius):
    X, y = sample(n=20)
    loss, domain = SquaredHinge(), Ball(radius) if radius < 1 else WholeSpace()
    source = RandomPair().offline(20, np.random.default_rng(1))
    w = np.zeros(4)
    for _ in range(3):
        snapshot, iterates = w, []
        full = exact_gradient(loss, snapshot, X, y)
        plan = source.draw(20)
        for i, j in zip(plan.left, plan.right, strict=True):
            pair = (X[i], y[i], X[j], y[j])
            here, there = (pair_gradient(loss, v, *pair) for v in (w, snapshot))
            w = domain.project(w - 0.05 * (here - there + full))
            iterates.append(w)
    solver = VarianceReducedSGD(0.05, domain=domain, averaging=Uniform())
    found = solver.solve(Problem(LinearScore(), loss), X, y, n_passes=3, rng=1)
    np.testing.assert_allclose(found.w, w, rtol=1e-10)
    np.testing.assert_allclose(found.average, np.mean(iterates, axis=0), rtol=1e-10)


def test_variance_reduction_finds_the_minimiser():
    """Plain SGD with a constant step stays at a distance; without noise there is none."""
    X, y = sample(n=300)
    problem = Problem(LinearScore(), SquaredHinge())
    best = pair_risk("squared_hinge", X @ ExactSolver(tolerance=1e-14).solve(X, y).w, y)
    reduced = VarianceReducedSGD(0.03).solve(problem, X, y, n_passes=60, rng=0)
    plain = PairwiseSGD(RandomPair(), Constant(0.03)).solve(problem, X, y, n_passes=60, rng=0)
    assert pair_risk("squared_hinge", X @ reduced.w, y) < best * (1 + 1e-9)
    assert pair_risk("squared_hinge", X @ plain.w, y) > best * (1 + 1e-4)


def test_bad_input():
    X, y = sample()
    with pytest.raises(ValueError, match="momentum must be at least 0 and below 1"):
        MomentumSGD(1.0)
    with pytest.raises(ValueError, match="one pair a step"):
        MomentumSGD(pairing=FifoBuffer(3))
    with pytest.raises(ValueError, match="step_size"):
        VarianceReducedSGD(0.0)
    with pytest.raises(ArithmeticError, match="smaller step_size"):
        VarianceReducedSGD(1e3).solve(
            Problem(LinearScore(), SquaredHinge()), X, y, n_passes=50, rng=0
        )
