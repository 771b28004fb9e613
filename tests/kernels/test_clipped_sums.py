# SPDX-License-Identifier: BSD-3-Clause
"""Sums of clipped pair gradients, against one pair after the other in NumPy."""

import itertools

import numpy as np
import pytest

from pairlearn.kernels.clipped_sums import add_clipped_differences, add_clipped_squares
from pairlearn.losses import DistanceHinge, Logistic, PairLoss, scalar

CUTS = np.array([0, 7, 8, 20], dtype=np.int64)


def table(seed):
    """Return rows at all distances from each other, with labels 0 to 2; two are not there."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 3)) * np.geomspace(0.01, 3.0, 20)[:, None]
    y = rng.integers(0, 3, size=20).astype(np.float64)
    y[[4, 11]] = np.nan
    return X, y


def pairs(y):
    """Yield the pairs of a cell, the larger label first."""
    for begin, stop in itertools.pairwise(CUTS):
        for i in range(begin, stop):
            for j in range(begin, i):
                if y[i] >= y[j]:
                    yield i, j
                elif y[j] > y[i]:
                    yield j, i


def clipped(gradient, clip):
    return gradient * min(1.0, clip / np.linalg.norm(gradient))


def slope_of(loss, score, a, b):
    return loss.derivative(float(score), a, b, loss.parameter)


@pytest.mark.parametrize("all_pairs", [False, True])
@pytest.mark.parametrize("clip", [0.05, 0.5, 100.0])
def test_differences_are_clipped_pair_by_pair(clip, all_pairs):
    X, y = table(0)
    w, loss = np.array([0.5, -1.0, 0.2]), Logistic()
    total = np.ones(3)
    add_clipped_differences(
        X.ravel(), y, CUTS, w, clip, loss.derivative.address, loss.parameter, all_pairs,
        np.empty(3), total,
    )  # fmt: skip
    wanted = np.ones(3)
    for i, j in pairs(y):
        if all_pairs or y[i] > y[j]:
            v = X[i] - X[j]
            wanted += clipped(slope_of(loss, w @ v, y[i], y[j]) * v, clip)
    np.testing.assert_allclose(total, wanted, rtol=1e-12)


@pytest.mark.parametrize("clip", [0.01, 0.5, 100.0])
def test_squares_are_clipped_pair_by_pair(clip):
    X, y = table(1)
    loss, W = DistanceHinge(), np.array([[1.0, 0.3, 0.0], [0.1, 0.5, 0.2], [0.0, 0.0, 0.7]])
    total = np.ones(9)
    add_clipped_squares(
        X.ravel(), y, CUTS, W.ravel(), clip, loss.derivative.address, loss.parameter, 2.5,
        np.empty(9), total,
    )  # fmt: skip
    wanted = np.ones((3, 3))
    for i, j in pairs(y):
        v = X[i] - X[j]
        slope = slope_of(loss, v @ W @ v, y[i], y[j]) * (2.5 if y[i] > y[j] else 1.0)
        if slope:
            wanted += clipped(slope * np.outer(v, v), clip)
    np.testing.assert_allclose(total.reshape(3, 3), wanted, rtol=1e-12)


def test_a_slope_that_is_no_number_counts_nothing():
    X, y = np.array([100.0, 100.0, 0.0, 0.0]), np.array([1.0, 0.0])
    w, total, loss = np.array([1e308, -1e308]), np.zeros(2), Logistic()
    add_clipped_differences(
        X, y, np.array([0, 2]), w, 1.0, loss.derivative.address, loss.parameter,
        False, np.empty(2), total,
    )  # fmt: skip
    assert total.tolist() == [0.0, 0.0]


class Steep(PairLoss):
    """A slope that nothing bounds."""

    @scalar
    def value(score, y, y_partner, _):  # noqa: N805
        return 1e300 * score

    @scalar
    def derivative(score, y, y_partner, _):  # noqa: N805
        return 1e300


@pytest.mark.parametrize("apart", [1.0, 1e-154, 1e-160, 1e-170, 1e-250, 0.0])
def test_no_gradient_is_longer_than_allowed_however_near_the_rows_are(apart):
    X, y, cuts, loss = (
        np.array([apart, 0.0, 0.0, 0.0]),
        np.array([1.0, 0.0]),
        np.array([0, 2]),
        Steep(),
    )
    w, total = np.zeros(2), np.zeros(2)
    add_clipped_differences(
        X, y, cuts, w, 0.5, loss.derivative.address, loss.parameter, False, np.empty(2), total
    )
    assert np.abs(total).max() <= 0.5 * (1.0 + 1e-9)
    W, total = np.zeros(4), np.zeros(4)
    add_clipped_squares(
        X, y, cuts, W, 1e-9, loss.derivative.address, loss.parameter, 1.0, np.empty(4), total
    )
    assert np.abs(total).max() <= 1e-9 * (1.0 + 1e-9)
