# SPDX-License-Identifier: BSD-3-Clause
"""Steps of the saddle-point methods, against their formulas in NumPy."""

import numpy as np
import pytest

from pairlearn.kernels.steps.saddle import descend_solam, descend_spauc

N, D = 40, 3


def problem():
    rng = np.random.default_rng(1)
    y = np.where(rng.random(N) < 0.4, 1.0, -1.0)
    X = rng.normal(size=(N, D)) + 0.5 * y[:, None] + 0.3
    return X, y, rng.permutation(N), 0.4 / np.sqrt(np.arange(1, N + 1)), np.arange(N) / 100.0


def in_ball(w, radius):
    return w * min(1.0, radius / max(np.linalg.norm(w), 1e-300))


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("radius", [np.inf, 0.3])
@pytest.mark.parametrize("bound", [np.inf, 0.2, 0.05])
def test_solam_descends_in_w_a_b_and_ascends_in_alpha(bound, radius, online):
    X, y, path, step_sizes, shares = problem()
    counts = np.zeros(2) if online else np.array([16.0, 24.0])
    w, average, others = np.zeros(D), np.zeros(D), np.array([0.0, 0.0, 0.0, 7.0])
    given = X.ravel(), y, path, step_sizes, shares, counts.copy(), online
    assert descend_solam(*given, w, average, others, radius, bound) == 0
    v, mean, a, b, alpha = np.zeros(D), np.zeros(D), 0.0, 0.0, 0.0
    for t, i in enumerate(path):
        mean += shares[t] * v
        share = (y[path[: t + 1]] > 0).mean() if online else 0.4
        s, rest, step = v @ X[i], 1.0 - share, step_sizes[t]
        # The derivatives of the function by s, a, b and alpha.
        if y[i] > 0:
            by_s = 2 * rest * (s - a) - 2 * (1 + alpha) * rest
            by_a, by_b, by_alpha = -2 * rest * (s - a), 0.0, -2 * rest * s
        else:
            by_s = 2 * share * (s - b) + 2 * (1 + alpha) * share
            by_a, by_b, by_alpha = 0.0, -2 * share * (s - b), 2 * share * s
        by_alpha -= 2 * share * rest * alpha
        v = in_ball(v - step * by_s * X[i], radius)
        a, b = np.clip([a - step * by_a, b - step * by_b], -bound, bound)
        alpha = np.clip(alpha + step * by_alpha, -2.0 * bound, 2.0 * bound)
    np.testing.assert_allclose(w, v, rtol=1e-9)
    np.testing.assert_allclose(average, mean, rtol=1e-9)
    np.testing.assert_allclose(others, [a, b, alpha, 7.0], rtol=1e-9)


@pytest.mark.parametrize("online", [False, True])
@pytest.mark.parametrize("radius", [np.inf, 0.2])
def test_spauc_descends_on_half_of_its_function(radius, online):
    X, y, path, step_sizes, shares = problem()
    means, counts = np.zeros((2, D)), np.zeros(2)
    if not online:
        means = np.array([X[y > 0].mean(axis=0), X[y < 0].mean(axis=0)])
        counts = np.array([(y > 0).sum(), (y < 0).sum()], dtype=np.float64)
    w, average = np.zeros(D), np.zeros(D)
    given = X.ravel(), y, path, step_sizes, shares, means.copy(), counts.copy()
    assert descend_spauc(*given, online, w, average, radius) == 0
    v, mean = np.zeros(D), np.zeros(D)
    for t, i in enumerate(path):
        mean += shares[t] * v
        rows = path[: t + 1] if online else path
        ahead, behind = X[rows][y[rows] > 0], X[rows][y[rows] < 0]
        if len(ahead) and len(behind):
            p = len(ahead) / len(rows)
            u = behind.mean(axis=0) - ahead.mean(axis=0)
            x, factor = (
                X[i] - (ahead if y[i] > 0 else behind).mean(axis=0),
                1 - p if y[i] > 0 else p,
            )
            gradient = factor * (v @ x) * x + p * (1 - p) * (1 + v @ u) * u
            v = in_ball(v - step_sizes[t] * gradient, radius)
    np.testing.assert_allclose(w, v, rtol=1e-9)
    np.testing.assert_allclose(average, mean, rtol=1e-9)
