# SPDX-License-Identifier: BSD-3-Clause
"""Steps with the moments of the other class: sketched, and against all pairs in NumPy."""

import numpy as np
import pytest

from pairlearn.kernels.steps.moments import descend_moments, descend_sketch

N, D, RIDGE = 24, 3, 0.1


def problem():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(N) < 0.4, 1.0, -1.0)
    X = rng.normal(size=(N, D)) + 0.5 * y[:, None] + 1.0
    return X, y, rng.permutation(N), np.full(N, 0.05) / np.sqrt(np.arange(1, N + 1))


def by_hand(X, y, path, step_sizes, shares, radius):
    """Return the last iterate and the average, each step against all earlier rows."""
    w, average = np.zeros(D), np.zeros(D)
    for t, row in enumerate(path):
        average += shares[t] * w
        earlier = path[:t]
        others = X[earlier[y[earlier] != y[row]]]
        if len(others):
            v = y[row] * (X[row] - others)
            w = w - step_sizes[t] * (-((1.0 - v @ w) @ v) / len(v) + RIDGE * w)
            w = w * min(1.0, radius / np.linalg.norm(w))
    return w, average


@pytest.mark.parametrize("radius", [np.inf, 0.2])
@pytest.mark.parametrize("way", ["moments", "sketch"])
def test_steps_are_those_of_all_earlier_pairs(way, radius):
    X, y, path, step_sizes = problem()
    shares = np.arange(N) / 100.0
    w, average = np.zeros(D), np.zeros(D)
    given = X.ravel(), y, path, step_sizes, shares, RIDGE, np.zeros((2, D)), np.zeros(2)
    if way == "moments":
        room = np.zeros((2, D, D)), w, average, radius, np.empty(D)
        status = descend_moments(*given, *room)
    else:
        # With orthonormal rows in the place of random numbers, the sketch is exact.
        sketch = np.zeros((2, D, N)), np.zeros((2, N)), np.eye(N)
        status = descend_sketch(*given, *sketch, w, average, radius, np.empty(N))
    assert status == 0
    wanted, mean = by_hand(X, y, path, step_sizes, shares, radius)
    np.testing.assert_allclose(w, wanted, rtol=1e-9)
    np.testing.assert_allclose(average, mean, rtol=1e-9)
