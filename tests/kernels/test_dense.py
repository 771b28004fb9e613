# SPDX-License-Identifier: BSD-3-Clause
"""The dense kernels: alike wherever arrays lie in memory, and alike to each other."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn import (
    Ball,
    Constant,
    FifoBuffer,
    Hinge,
    LinearScore,
    PairwiseSGD,
    PreviousExample,
    Problem,
    Square,
)
from pairlearn.domains import WholeSpace
from pairlearn.kernels._native import DIVERGED
from pairlearn.kernels.steps.dense import HINGE, descend
from pairlearn.kernels.steps.short_rows import LANES, LONGEST, SHORTEST, descend_short
from pairlearn.reference import pairwise_sgd

N = 2_000
#: Address and parameter of the square loss.
SQUARE = (Square().derivative.address, 1.0)


def descend_in(memory, gap, d):
    """Run over a stream with all written arrays `gap` numbers apart, directly behind the rows."""
    rng = np.random.default_rng(0)
    X = memory[: N * d]
    X[:] = rng.normal(size=N * d)
    written, begin = [], N * d + gap
    for _ in range(4):
        written.append(memory[begin : begin + d])
        written[-1][:] = 0.0
        begin += d + gap
    steps = np.full(N - 1, 0.02)
    status = descend(
        X,
        np.empty(0),
        np.tile([1.0, -1.0], N // 2),
        np.arange(1, N),
        np.arange(N - 1),
        steps,
        np.cumsum(steps),
        np.arange(N - 1, dtype=np.int32),
        N - 1,
        *written,
        np.zeros(1),
        0.8,
        Square().derivative.address,
        1.0,
    )
    assert status == 0
    w, weighted_sum, left_iterate, _ = written
    return np.concatenate([w, weighted_sum, left_iterate])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 3, 5, 8, 22, 40])
def test_neighbours_in_memory_do_not_change_a_bit(d, dtype):
    """Compiled for arrays that may overlap, close ones take a loop that rounds differently."""
    memory = np.zeros(N * d + 4 * (d + 200) + 200, dtype=dtype)
    apart = descend_in(memory, 200, d)
    for gap in (0, 1, 3, 8, 16, 31):
        assert np.array_equal(descend_in(memory, gap, d), apart), gap


def in_calls(X, y, step_size, radius, length, loss=SQUARE):
    """Return iterate, sum and left iterate after a pass in calls of so many steps."""
    n, d = X.shape
    steps = np.full(n - 1, step_size)
    active = np.arange(n - 1, dtype=np.int32)
    written = [np.zeros(d, X.dtype) for _ in range(4)]
    state = np.zeros(1)
    for begin in range(0, n - 1, length):
        some = active[begin : begin + length]
        plan = (np.arange(1, n), np.arange(n - 1), steps, np.cumsum(steps), some, len(some))
        how = (radius, *loss)
        assert descend(X.reshape(-1), np.empty(0), y, *plan, *written, state, *how) == 0
    return np.array(written[:3])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 7, 8, 15, 16, 23, 33, 80])
def test_calls_of_any_length_give_the_same_bits(d, dtype):
    """A step reads the next pair while it moves; the last step of a call has no next pair."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(60, d)).astype(dtype)
    y = np.tile([1.0, -1.0], 30)
    for radius in (0.4, np.inf):
        whole = in_calls(X, y, 0.02 / d, radius, 59)
        for length in (1, 2, 7):
            assert np.array_equal(in_calls(X, y, 0.02 / d, radius, length), whole)


@pytest.mark.parametrize("loss", [(HINGE, 0.7), SQUARE], ids=["hinge", "square"])
@pytest.mark.parametrize("in_units", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-4)])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16])
def test_steps_are_those_of_the_reference(d, dtype, tolerance, in_units, loss):
    """Rows of each number of lanes: a quarter of a vector, a half, all of it, and more."""
    rng = np.random.default_rng(d)
    unit = 2.0 ** rng.integers(-2, 3, d) if in_units else np.empty(0)
    X = rng.normal(size=(80, d)).astype(dtype)
    X /= unit if in_units else 1.0
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0, 1.0, -1.0)
    pairs = np.flatnonzero(y[1:] != y[:-1]).astype(np.int32)
    steps = np.full(len(X) - 1, 0.05)
    wholes = np.cumsum(steps)
    for radius in (0.2, np.inf):
        w, total, before, _ = written = [np.zeros(d, dtype) for _ in range(4)]
        state = np.zeros(1)
        plan = (np.arange(1, len(X)), np.arange(len(X) - 1), steps, wholes, pairs, len(pairs))
        assert descend(X.reshape(-1), unit, y, *plan, *written, state, radius, *loss) == 0
        rows = X.astype(np.float64) * (unit if in_units else 1.0)
        iterates = pairwise_sgd(
            Hinge(margin=0.7) if loss[0] == HINGE else Square(),
            rows,
            y,
            partners=[(int(t) + 1, [int(t)]) for t in pairs],
            step_sizes=steps[pairs],
            project=lambda v, r=radius: v * min(1.0, r / max(np.linalg.norm(v), 1e-300)),
            w_start=np.zeros(d),
        )
        owed = np.diff(wholes[pairs], prepend=0.0) @ np.array(iterates[:-1])
        near = {"rtol": tolerance, "atol": tolerance}
        np.testing.assert_allclose(w, iterates[-1], **near)
        np.testing.assert_allclose(before, iterates[-2], **near)
        sums = total + (wholes[pairs[-1]] - state[0]) * w
        np.testing.assert_allclose(sums, owed, **near)


@pytest.mark.parametrize("size", [1e-170, 1e170])
@pytest.mark.parametrize("d", [3, 9, 24])
def test_the_ball_holds_where_squared_lengths_vanish_or_overflow(d, size):
    """The norm is foretold from the squared length of a difference, which is no number there."""
    rng = np.random.default_rng(0)
    X = size * rng.normal(size=(20, d))
    y = np.tile([1.0, -1.0], 10)
    # The hinge has bounded slopes: every move is about as long as a row of ordinary size.
    w, total, before = in_calls(X, y, 1.0 / size, 0.5, 19, (HINGE, 1e300))
    assert np.isfinite(total).all()
    for iterate in (w, before):
        assert np.linalg.norm(iterate) == pytest.approx(0.5, rel=1e-12)


def both_kernels(X, y, step_size, radius, unit=()):
    """Return status, iterate, left iterate and sum of each kernel after a pass in order.

    The sum is with what the iterate is owed at the end: the kernels differ in when they pay.
    """
    n, d = X.shape
    steps = np.full(n - 1, step_size)
    found = []
    for kernel, room in ((descend, np.empty(d)), (descend_short, (0,) * -(-d // LANES))):
        # The iterate starts inside the ball, as a solver sees to it.
        written = [np.full(d, value) for value in (0.5 / d, -1.0, 7.0)]
        state = np.array([0.5])
        status = kernel(
            X.reshape(-1),
            np.asarray(unit, dtype=np.float64),
            y,
            np.arange(1, n),
            np.arange(n - 1),
            steps,
            np.cumsum(steps),
            np.flatnonzero(y[1:] != y[:-1]).astype(np.int32),
            np.count_nonzero(y[1:] != y[:-1]),
            *written,
            room,
            state,
            radius,
            HINGE,
            0.7,
        )
        w, weighted_sum, left_iterate = written
        owed = steps.sum() - state[0]
        found.append((status, w, left_iterate, weighted_sum + owed * w))
    return found


@pytest.mark.parametrize("radius", [0.6, 50.0, np.inf])
@pytest.mark.parametrize("d", range(SHORTEST, LONGEST + 1))
def test_rows_in_registers_agree_with_rows_in_memory(d, radius):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(300, d))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0, 1.0, -1.0)
    memory, registers = both_kernels(X, y, 0.1, radius)
    assert memory[0] == registers[0] == 0
    for a, b in zip(memory[1:], registers[1:], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("d", [8, 22, 64])
def test_differences_in_units_are_those_of_rows_in_units(d):
    rng = np.random.default_rng(d)
    unit = 10.0 ** rng.uniform(-3.0, 3.0, d)
    X = rng.normal(size=(300, d))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0, 1.0, -1.0)
    given = both_kernels(X / unit, y, 0.1, 3.0, unit)
    scaled = both_kernels(X, y, 0.1, 3.0)
    for one, other in zip(given, scaled, strict=True):
        assert one[0] == other[0] == 0
        for a, b in zip(one[1:], other[1:], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("d", [8, 22, 64])
def test_rows_in_registers_notice_divergence_at_the_same_step(d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, d))
    # One of the two is on the wrong side, whatever the iterate is.
    X[20], X[30] = 1e200, -1e200
    y = np.tile([1.0, -1.0], 25)
    memory, registers = both_kernels(X, y, 1.0, np.inf)
    assert memory[0] == registers[0]
    assert registers[0] % 4 == DIVERGED


@pytest.mark.parametrize("storage", ["float64", "float32", "csr"])
@pytest.mark.parametrize("pairing", [PreviousExample(), FifoBuffer(3)], ids=repr)
@pytest.mark.parametrize("d", [3, LONGEST, LONGEST + 7])
def test_a_margin_that_is_just_reached_costs_nothing(d, pairing, storage):
    # Every opposite pair has the margin 1 exactly: the hinge has the slope 0 there, in each kernel.
    rng = np.random.default_rng(0)
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    X = rng.integers(-3, 4, size=(40, d)).astype(float)
    X[:, 0] = 0.5 * y
    start = np.eye(d)[0]
    rows = scipy.sparse.csr_array(X) if storage == "csr" else X.astype(storage)
    problem = Problem(LinearScore(), Hinge())
    for domain in (Ball(10.0), WholeSpace()):
        solver = PairwiseSGD(pairing, Constant(0.1), domain)
        found = solver.solve(problem, rows, y, n_steps=100, rng=0, w_start=start)
        np.testing.assert_array_equal(found.w, start)
        # a little less than the margin, and every pair counts
        moved = solver.solve(problem, rows, y, n_steps=100, rng=0, w_start=0.875 * start)
        assert abs(moved.w - 0.875 * start).max() > 0.01
