# SPDX-License-Identifier: BSD-3-Clause
"""A sweep finds the same models as separate runs on the same path."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    Ball,
    Constant,
    FifoBuffer,
    InverseSqrt,
    LastIterate,
    LinearScore,
    PairwiseSGD,
    PreviousExample,
    Problem,
    RandomPair,
    Tail,
    Uniform,
    WholeSpace,
)
from pairlearn.averaging import DelayedByStepSize, DelayedLinear
from pairlearn.losses import LOSSES, Hinge, Logistic, Square
from pairlearn.solvers.descent.sweep import Sweep

STEP_SIZES = (0.01, 0.05, 0.2, 0.2, 0.2)
RADII = (np.inf, 0.2, np.inf, 5.0, 0.1)


def sample(n, d, dtype=np.float64):
    rng = np.random.default_rng(d)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) / np.sqrt(d)).astype(dtype)
    direction = rng.normal(size=d)
    return X, np.where(X @ direction + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)


def separate(loss, X, y, *, n_steps, rng, step_size, radius, schedule, averaging, pairing, weight):
    solver = PairwiseSGD(
        pairing,
        schedule.scaled(step_size),
        WholeSpace() if np.isinf(radius) else Ball(radius),
        averaging,
    )
    return solver.solve(
        Problem(LinearScore(), loss), X, y, n_steps=n_steps, rng=rng, example_weight=weight
    )


def compare(
    loss,
    X,
    y,
    *,
    n_steps=150,
    schedule=None,
    averaging=None,
    pairing=None,
    weight=None,
    tolerance=1e-12,
    grid=(STEP_SIZES, RADII),
):
    schedule = schedule or Constant(1.0)
    averaging = averaging or DelayedByStepSize()
    pairing = pairing or PreviousExample()
    options = {} if weight is None else {"example_weight": weight}
    found = Sweep(*grid, pairing, schedule, averaging).solve(
        Problem(LinearScore(), loss), X, y, n_steps=n_steps, rng=11, **options
    )
    assert not found.diverged.any()
    for m, (step_size, radius) in enumerate(zip(*grid, strict=True)):
        expected = separate(
            loss,
            X,
            y,
            n_steps=n_steps,
            rng=11,
            step_size=step_size,
            radius=radius,
            schedule=schedule,
            averaging=averaging,
            pairing=pairing,
            weight=weight,
        )
        assert found.n_gradients == expected.trace.n_gradients
        scale = np.abs(expected.average).max()
        assert scale > 0
        assert np.abs(found.averages[m] - expected.average).max() <= tolerance * scale, m
        scale = np.abs(expected.w).max()
        assert np.abs(found.w[m] - expected.w).max() <= tolerance * scale, m


@pytest.mark.parametrize("d", [1, 5, 63, 64, 130])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss(loss, d):
    compare(LOSSES[loss](), *sample(80, d))


@pytest.mark.parametrize("n_steps", [7, 400, 3_000])
@pytest.mark.parametrize("d", [3, 70])
def test_models_of_one_step_size_part_at_their_balls(block_steps, d, n_steps):
    block_steps(64)
    # Radii that are reached at once, later, twice and never, in no order.
    grid = (
        (0.5, 0.02, 0.5, 0.5, 0.02, 0.5, 3.0, 0.02),
        (1.0, np.inf, 0.3, np.inf, 0.3, 0.3, 0.05, 50.0),
    )
    compare(Hinge(), *sample(80, d), n_steps=n_steps, grid=grid)


@pytest.mark.parametrize("n_steps", [7, 40, 400])
@pytest.mark.parametrize("d", [3, 70])
def test_balls_that_shrink_an_iterate_below_any_number(block_steps, d, n_steps):
    block_steps(64)
    grid = ((1e30, 1e60, 1e9, 0.5, 1e45), (0.5, 0.2, 0.3, 0.3, np.inf))
    compare(Hinge(), *sample(80, d), n_steps=n_steps, grid=grid)


@pytest.mark.parametrize("d", [5, 80])
@pytest.mark.parametrize(
    "averaging", [DelayedByStepSize(), DelayedLinear(), Uniform(), Tail(0.4), LastIterate()]
)
@pytest.mark.parametrize("schedule", [Constant(0.5), InverseSqrt(2.0)])
@pytest.mark.parametrize("n_steps", [1, 2, 149])
def test_every_average(d, averaging, schedule, n_steps):
    X, y = sample(80, d)
    # With one or two steps the average may be zero: then start from a path that moves.
    if n_steps < 3:
        pairing = RandomPair()
        X, y = X[:2], np.array([1.0, -1.0])
        X[1] = -X[0]
        n_steps_of = {"DelayedByStepSize": 3, "DelayedLinear": 3}
        n_steps = max(n_steps, n_steps_of.get(type(averaging).__name__, 0))
    else:
        pairing = PreviousExample()
    compare(
        Logistic(), X, y, n_steps=n_steps, schedule=schedule, averaging=averaging, pairing=pairing
    )


@pytest.mark.parametrize("d", [5, 80])
@pytest.mark.parametrize("pairing", [PreviousExample(), RandomPair()])
def test_weights(d, pairing):
    X, y = sample(80, d)
    weight = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 1.5], 80)
    compare(Hinge(), X, y, pairing=pairing, weight=weight)
    compare(Square(one_sided=True), X, y, pairing=pairing, weight=weight)


@pytest.mark.parametrize("d", [5, 80])
def test_sparse_rows(d):
    X, y = sample(80, d)
    weight = np.random.default_rng(1).choice([0.5, 1.0, 1.5], 80)
    compare(Hinge(), scipy.sparse.csr_array(X), y)
    compare(Logistic(), scipy.sparse.csr_array(X), y, weight=weight)


def test_sparse_rows_take_the_path_of_dense_ones_and_leave_the_generator_where_they_do():
    X, y = sample(80, 5)
    found = []
    for rows in (X, scipy.sparse.csr_array(X)):
        rng = np.random.default_rng(3)
        sweep = Sweep((0.1, 1e300), (np.inf, np.inf))  # the second model diverges
        solution = sweep.solve(Problem(LinearScore(), Square()), rows, y, n_steps=300, rng=rng)
        found.append((solution.averages[0], solution.diverged.tolist(), rng.random()))
    assert np.abs(found[0][0] - found[1][0]).max() <= 1e-12
    assert found[0][1:] == found[1][1:]


@pytest.mark.parametrize("d", [5, 80])
def test_float32(d):
    X, y = sample(80, d, np.float32)
    compare(Logistic(), X, y, tolerance=1e-4)


@pytest.mark.parametrize("d", [5, 80])
@pytest.mark.parametrize("averaging", [DelayedByStepSize(), DelayedLinear(), Tail(0.4)])
@pytest.mark.parametrize("n_steps", [32, 100, 161])
def test_many_blocks(block_steps, d, averaging, n_steps):
    block_steps(32)
    compare(Logistic(), *sample(80, d), averaging=averaging, n_steps=n_steps)


@pytest.mark.parametrize("d", [5, 80])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_model_that_diverges_does_not_disturb_the_others(d, sparse):
    X, y = sample(80, d)
    X = 10.0 * X
    if sparse:
        X = scipy.sparse.csr_array(X)
    problem = Problem(LinearScore(), Square())
    options = {"n_steps": 2000, "rng": 2}
    calm = Sweep((1e-3, 1e-2), (np.inf, 1.0)).solve(problem, X, y, **options)
    wild = Sweep((1e-3, 1e3, 1e-2, 1e10), (np.inf, np.inf, 1.0, np.inf)).solve(
        problem, X, y, **options
    )
    assert wild.diverged.tolist() == [False, True, False, True]
    assert np.isnan(wild.averages[[1, 3]]).all()
    assert np.allclose(wild.averages[[0, 2]], calm.averages, rtol=1e-11)


def test_refusals():
    X, y = sample(20, 3)
    problem = Problem(LinearScore(), Hinge())
    with pytest.raises(ValueError, match="got 2 step sizes and 1 radii"):
        Sweep((0.1, 0.2), (1.0,))
    with pytest.raises(ValueError, match="at least one: got 0 step sizes"):
        Sweep((), ())
    for step, radius in [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (np.nan, 1.0), (np.inf, 1.0)]:
        with pytest.raises(ValueError, match=r"(step_size|radius) must be a positive number"):
            Sweep((step,), (radius,))
    one = Sweep((0.1,), (np.inf,))
    with pytest.raises(ValueError, match=r"one pair at a step; use PreviousExample\(\)"):
        Sweep((0.1,), (np.inf,), FifoBuffer(3)).solve(problem, X, y, n_steps=10, rng=0)
    with pytest.raises(ValueError, match="n_steps must be at least 1, got 0"):
        one.solve(problem, X, y, n_steps=0)
    for n in (0, 1):
        with pytest.raises(ValueError, match=f"Pairs need at least 2 examples, got {n}"):
            one.solve(problem, X[:n], y[:n], n_steps=5)
    with pytest.raises(ValueError, match=r"example_weight must have shape \(20,\), got \(3,\)"):
        one.solve(problem, X, y, n_steps=5, example_weight=np.ones(3))
    with pytest.raises(ValueError, match="finite numbers of at least 0"):
        one.solve(problem, X, y, n_steps=5, example_weight=-np.ones(20))
    with pytest.raises(ValueError, match="X contains NaN or infinity"):
        one.solve(problem, np.full((20, 3), np.nan), y, n_steps=5)


def test_grids_come_in_any_sequence():
    X, y = np.arange(12.0).reshape(6, 2) % 5, np.array([1.0, -1.0] * 3)
    problem, steps, radii = Problem(LinearScore(), Hinge()), (0.5, 0.25), (1.0, np.inf)
    expected = Sweep(steps, radii).solve(problem, X, y, n_steps=9, rng=0).averages
    for kind in (list, np.array, np.float32):
        found = Sweep(kind(steps), kind(radii))
        assert (found.step_sizes, found.radii) == (steps, radii)
        other = found.solve(problem, X, y, n_steps=9, rng=0, example_weight=None)
        assert np.array_equal(other.averages, expected)
    with pytest.raises(TypeError, match=r"step_size must be a number, got '0\.1'"):
        Sweep("0.1", [1.0])
