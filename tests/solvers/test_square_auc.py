# SPDX-License-Identifier: BSD-3-Clause
"""The closed form of the square loss, and the stochastic methods that should find it."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn import Ball, Constant, InverseSqrt, InverseTime, Tail, Uniform
from pairlearn.averaging import DelayedByStepSize
from pairlearn.metrics import pair_risk, pair_risk_gradient
from pairlearn.solvers.closed_form.moments import ClassMoments, solve_square_auc
from pairlearn.solvers.closed_form.opauc import OPAUC
from pairlearn.solvers.descent.saddle import SOLAM, SPAUC


def sample(n=400, d=4, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / np.sqrt(d) + shift
    X[:, 0] += y
    return X, y


def brute_force(X, y, ridge=0.0, margin=1.0):
    """Least squares over all pairs."""
    D = (X[y > 0][:, None] - X[y < 0][None]).reshape(-1, X.shape[1])
    A = D.T @ D / len(D) + ridge * np.eye(X.shape[1])
    return np.linalg.solve(A, margin * D.mean(axis=0))


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("margin", [1.0, 2.5])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_closed_form_equals_least_squares_over_pairs(ridge, margin, shift):
    X, y = sample(n=80, shift=shift)
    found = solve_square_auc(X, y, ridge=ridge, margin=margin)
    np.testing.assert_allclose(found, brute_force(X, y, ridge, margin), rtol=1e-8)
    sparse = solve_square_auc(scipy.sparse.csr_array(X), y, ridge=ridge, margin=margin)
    np.testing.assert_allclose(sparse, found, rtol=1e-7)


def test_closed_form_has_no_gradient():
    X, y = sample()
    w = solve_square_auc(X, y)
    slopes = X.T @ pair_risk_gradient("square", X @ w, y)
    np.testing.assert_allclose(slopes, 0.0, atol=1e-12)


def test_closed_form_with_a_constant_and_a_repeated_feature():
    X, y = sample()
    X = np.column_stack([X, np.ones(len(y)), X[:, 0]])
    w = solve_square_auc(X, y)
    best = pair_risk("square", X[:, :4] @ solve_square_auc(X[:, :4], y), y)
    np.testing.assert_allclose(pair_risk("square", X @ w, y), best, rtol=1e-10)
    np.testing.assert_allclose(w[4], 0.0, atol=1e-8)
    np.testing.assert_allclose(w[0], w[5], rtol=1e-6)


def test_moments_of_chunks():
    X, y = sample(shift=3.0)
    whole = ClassMoments(4).add(X, y)
    parts = ClassMoments(4)
    for begin, end in ((0, 1), (1, 50), (50, 50), (50, 400)):
        parts.add(X[begin:end], y[begin:end])
    halves = ClassMoments(4).add(X[:150], y[:150])
    halves.merge(ClassMoments(4).add(X[150:], y[150:]))
    for moments in (whole, parts, halves):
        for kind, label in enumerate((1.0, -1.0)):
            members = X[y == label]
            assert moments.counts[kind] == len(members)
            np.testing.assert_allclose(moments.means[kind], members.mean(axis=0), rtol=1e-12)
            np.testing.assert_allclose(
                moments.scatters[kind] / len(members),
                np.cov(members.T, bias=True),
                rtol=1e-10,
                atol=1e-12,
            )


def distance(w, X, y):
    best = solve_square_auc(X, y)
    return np.linalg.norm(w - best) / np.linalg.norm(best)


METHODS = {
    "spauc online": SPAUC(InverseSqrt(1.0), averaging=Tail(0.5)),
    "spauc known": SPAUC(InverseSqrt(1.0), averaging=Tail(0.5), moments="known"),
    "solam online": SOLAM(InverseSqrt(1.0), averaging=Tail(0.5)),
    "solam known": SOLAM(InverseSqrt(1.0), averaging=Tail(0.5), moments="known"),
    "opauc": OPAUC(InverseTime(5.0, offset=100.0), averaging=Tail(0.5)),
    "opauc sketch": OPAUC(InverseTime(5.0, offset=100.0), averaging=Tail(0.5), rank=50),
}


@pytest.mark.parametrize("name", METHODS)
def test_stochastic_methods_find_the_closed_form(name):
    """Fixed seed; the distances are 3 to 10 times smaller than asked for."""
    X, y = sample()
    solution = METHODS[name].solve(X, y, n_passes=500, rng=0)
    assert distance(solution.average, X, y) < (0.1 if "sketch" in name else 0.05)


# -------------------------------------------------------------------- literal transcriptions


def averaged(iterates, averaging, schedule, n_steps):
    from pairlearn.solvers.iterates import iterate_weights

    return iterate_weights(averaging, schedule, n_steps) @ np.array(iterates)


def project(w, radius):
    norm = np.linalg.norm(w)
    return w if norm <= radius else w * radius / norm


def path_of(n, n_steps, seed, *, order):
    from pairlearn.solvers.two_classes import draw_path

    return draw_path(n, n_steps, np.random.default_rng(seed), order=order)


@pytest.mark.parametrize("moments", ["online", "known"])
@pytest.mark.parametrize("averaging", [Uniform(), DelayedByStepSize(), Tail(0.3)], ids=repr)
def test_spauc_step_by_step(moments, averaging):
    X, y = sample(n=60)
    schedule, radius = InverseSqrt(0.5), 0.4
    w, iterates, seen = np.zeros(4), [np.zeros(4)], []
    for t, i in enumerate(path_of(60, 120, 3, order="uniform"), start=1):
        seen.append(i)
        known = np.array(seen) if moments == "online" else np.arange(60)
        labels = y[known]
        if (labels > 0).any() and (labels < 0).any():
            p = (labels > 0).mean()
            up, down = X[known][labels > 0].mean(axis=0), X[known][labels < 0].mean(axis=0)
            mean, factor = (up, 1 - p) if y[i] > 0 else (down, p)
            gradient = factor * (w @ (X[i] - mean)) * (X[i] - mean)
            gradient += p * (1 - p) * (1 + w @ (down - up)) * (down - up)
            w = project(w - schedule.step_sizes(t, 1)[0] * gradient, radius)
        iterates.append(w)
    found = SPAUC(schedule, Ball(radius), averaging, moments).solve(X, y, n_passes=2, rng=3)
    np.testing.assert_allclose(found.w, w, rtol=1e-10)
    wanted = averaged(iterates, averaging, schedule, 120)
    np.testing.assert_allclose(found.average, wanted, rtol=1e-10)


@pytest.mark.parametrize("moments", ["online", "known"])
def test_solam_step_by_step(moments):
    X, y = sample(n=60)
    schedule, radius = InverseSqrt(0.5), 0.4
    bound = radius * np.linalg.norm(X, axis=1).max()
    w, a, b, alpha, iterates, seen = np.zeros(4), 0.0, 0.0, 0.0, [np.zeros(4)], []
    for t, i in enumerate(path_of(60, 120, 3, order="uniform"), start=1):
        seen.append(i)
        p = (y[seen if moments == "online" else slice(None)] > 0).mean()
        eta, score = schedule.step_sizes(t, 1)[0], w @ X[i]
        if y[i] > 0:
            w_slope = 2 * (1 - p) * (score - a) * X[i] - 2 * (1 + alpha) * (1 - p) * X[i]
            a_new, b_new = a + eta * 2 * (1 - p) * (score - a), b
            alpha_slope = -2 * (1 - p) * score - 2 * p * (1 - p) * alpha
        else:
            w_slope = 2 * p * (score - b) * X[i] + 2 * (1 + alpha) * p * X[i]
            a_new, b_new = a, b + eta * 2 * p * (score - b)
            alpha_slope = 2 * p * score - 2 * p * (1 - p) * alpha
        w = project(w - eta * w_slope, radius)
        a, b = np.clip([a_new, b_new], -bound, bound)
        alpha = np.clip(alpha + eta * alpha_slope, -2 * bound, 2 * bound)
        iterates.append(w)
    found = SOLAM(schedule, Ball(radius), moments=moments).solve(X, y, n_passes=2, rng=3)
    np.testing.assert_allclose(found.w, w, rtol=1e-10)
    # As in the original: the iterate that step t starts from, weighed by eta_t.
    wanted = np.average(iterates[:-1], axis=0, weights=schedule.step_sizes(1, 120))
    np.testing.assert_allclose(found.average, wanted, rtol=1e-10)


@pytest.mark.parametrize("rank", [None, 7])
def test_opauc_step_by_step(rank):
    X, y = sample(n=60)
    rng = np.random.default_rng(3)
    path = rng.permutation(60)
    normals = rng.standard_normal((60, 7)) / np.sqrt(7)
    w, seen = np.zeros(4), []
    for t, i in enumerate(path):
        seen.append(t)
        others = [s for s in seen if y[path[s]] != y[i]]
        if others:
            met = X[path[others]]
            centred = met - met.mean(axis=0)
            if rank is None:
                covariance = centred.T @ centred / len(met)
            else:
                sketch = centred.T @ normals[others]
                covariance = sketch @ sketch.T / len(met)
            gap = X[i] - met.mean(axis=0)
            gradient = 0.1 * w - y[i] * gap + gap * (gap @ w) + covariance @ w
            w = project(w - 0.02 * gradient, 5.0)
    found = OPAUC(Constant(0.02), 0.1, rank, Ball(5.0)).solve(X, y, rng=3)
    np.testing.assert_allclose(found.w, w, rtol=1e-10)
    np.testing.assert_allclose(found.average, w, rtol=1e-10)


# ------------------------------------------------------------------------------------- bad input


def test_bad_input():
    X, y = sample()
    with pytest.raises(ValueError, match="both of them"):
        solve_square_auc(X, np.ones(400))
    with pytest.raises(ValueError, match="labels -1 and \\+1"):
        solve_square_auc(X, (y > 0).astype(float))
    with pytest.raises(ValueError, match="ridge must be at least 0"):
        solve_square_auc(X, y, ridge=-1.0)
    with pytest.raises(ValueError, match="dense rows"):
        SPAUC().solve(scipy.sparse.csr_array(X), y)
    with pytest.raises(ValueError, match='"online" or "known"'):
        SOLAM(moments="guess")
    with pytest.raises(ValueError, match="both classes"):
        _ = ClassMoments(4).covariance
    with pytest.raises(ValueError, match="GiB"):
        ClassMoments(100_000)
    with pytest.raises(ValueError, match="has 4 features"):
        ClassMoments(3).add(X, y)
    with pytest.raises(ValueError, match="rank must be at least 1"):
        OPAUC(rank=0)
    with pytest.raises(ArithmeticError, match="smaller step_size"):
        OPAUC(Constant(1e6)).solve(X, y, n_passes=10, rng=0)
