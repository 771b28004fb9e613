# SPDX-License-Identifier: BSD-3-Clause
"""The plain loops: alike wherever arrays lie in memory, and steps of the reference."""

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
from pairlearn.kernels._native import DIVERGED, LOSS_IS_NAN
from pairlearn.kernels.steps.dense import descend
from pairlearn.kernels.steps.pieces import HINGE
from pairlearn.kernels.steps.sparse import descend_csr
from pairlearn.reference import pairwise_sgd
from pairlearn.scalars import scalar

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
    plan = (np.arange(1, N), np.arange(N - 1), steps, np.cumsum(steps), np.arange(N - 1))
    y = np.tile([1.0, -1.0], N // 2)
    assert descend(X.reshape(N, d), y, *plan, *written, 0.8, *SQUARE) == 0
    return np.concatenate(written[:3])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 3, 5, 8, 22, 40])
def test_neighbours_in_memory_do_not_change_a_bit(d, dtype):
    """Compiled for arrays that may overlap, close ones take a loop that rounds differently."""
    memory = np.zeros(N * d + 4 * (d + 200) + 200, dtype=dtype)
    apart = descend_in(memory, 200, d)
    for gap in (0, 1, 3, 8, 16, 31):
        assert np.array_equal(descend_in(memory, gap, d), apart), gap


def run(kernel, X, y, steps, pairs, radius, loss, dtype=np.float64):
    """Return status, iterate, weighted sum and left iterate after a pass in order."""
    d = X.shape[1]
    written = [np.zeros(d, dtype) for _ in range(3)]
    rows, room = X, [np.zeros(d, dtype)]
    if kernel is descend_csr:
        csr = scipy.sparse.csr_array(X)
        rows, room = (csr.data, csr.indices, csr.indptr), []
    plan = (np.arange(1, len(X)), np.arange(len(X) - 1), steps, np.cumsum(steps), pairs)
    return kernel(rows, y, *plan, *written, *room, radius, *loss), *written


@pytest.mark.parametrize("loss", [(HINGE, 0.7), SQUARE], ids=["hinge", "square"])
@pytest.mark.parametrize(
    ("kernel", "dtype", "tolerance"),
    [(descend, np.float64, 1e-12), (descend, np.float32, 1e-4), (descend_csr, np.float64, 1e-12)],
)
@pytest.mark.parametrize("d", [1, 2, 3, 7, 8, 9, 16, 40])
def test_steps_are_those_of_the_reference(d, kernel, dtype, tolerance, loss):
    rng = np.random.default_rng(d)
    X = (rng.normal(size=(80, d)) * (rng.random((80, d)) < 0.7)).astype(dtype)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0, 1.0, -1.0)
    pairs = np.flatnonzero(y[1:] != y[:-1])
    steps = np.full(len(X) - 1, 0.01)
    owed = np.diff(np.cumsum(steps)[pairs], prepend=0.0)
    for radius in (0.02, 0.1, np.inf):
        status, w, total, before = run(kernel, X, y, steps, pairs, radius, loss, dtype)
        iterates = pairwise_sgd(
            Hinge(margin=0.7) if loss[0] == HINGE else Square(),
            X.astype(np.float64),
            y,
            partners=[(int(t) + 1, [int(t)]) for t in pairs],
            step_sizes=steps[pairs],
            project=lambda v, r=radius: v * min(1.0, r / max(np.linalg.norm(v), 1e-300)),
            w_start=np.zeros(d),
        )
        wanted = owed @ np.array(iterates[:-1]) + (steps.sum() - owed.sum()) * iterates[-1]
        near = {"rtol": tolerance, "atol": tolerance}
        assert status == 0
        np.testing.assert_allclose(w, iterates[-1], **near)
        np.testing.assert_allclose(before, iterates[-2], **near)
        np.testing.assert_allclose(total, wanted, **near)


@pytest.mark.parametrize("kernel", [descend, descend_csr])
def test_the_first_step_that_fails_is_named(kernel):
    X, y, steps = np.ones((9, 2)), np.tile([1.0, -1.0], 5)[:9], np.ones(8)
    X[5] = 1e200
    how = (kernel, X, y, steps, np.array([1, 3, 4, 6]), np.inf)
    assert run(*how, SQUARE)[0] == DIVERGED + 4 * 4

    @scalar
    def strange(score, y, y_partner, parameter):
        return np.nan if score > 1e100 or score < -1e100 else 0.0

    X[0] = -1e200
    assert run(*how, (strange.address, 0.0))[0] == 0
    X[1] = 3.0
    w = run(kernel, X, y, steps, np.array([1, 4, 6]), 1.0, (HINGE, 1.0))[1]
    assert np.linalg.norm(w) <= 1.0 + 1e-12
    never = scalar(lambda score, y, y_partner, parameter: np.nan)
    assert run(*how, (never.address, 0.0))[0] == LOSS_IS_NAN + 4 * 1


@pytest.mark.parametrize("storage", ["float64", "float32", "csr"])
@pytest.mark.parametrize("pairing", [PreviousExample(), FifoBuffer(3)], ids=repr)
@pytest.mark.parametrize("d", [3, 71])
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
