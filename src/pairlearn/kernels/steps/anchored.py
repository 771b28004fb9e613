# SPDX-License-Identifier: BSD-3-Clause
r"""Pairwise SGD on f + (alpha / 2) ||w - c||^2: every step also pulls w to the anchor c.

    w_t = Proj(w_{t-1} - eta_t l' (x - x') - eta_t alpha (w_{t-1} - c))

Arrays (``real`` is the type of dense data; sparse rows have float64)
------
left, right : integer, shape (n_steps,)
    The examples that are paired at each step.
step_sizes, pulls, shares : float64, shape (n_steps,)
    eta_t, eta_t alpha, and the weight of w_{t-1} in the average.
anchor, w, average : real, shape (d,)
    The anchor c; the iterate and the average, modified in place.
counts : int64, shape (1,)
    Increased by the number of evaluated pairs.
"""

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, call_scalar, kernel
from pairlearn.kernels.arguments import Csr
from pairlearn.kernels.steps.pieces import add_multiple, dot, is_active, keep_in_ball, squared_norm


@kernel
def descend_anchored(
    X,
    y,
    left,
    right,
    step_sizes,
    pulls,
    shares,
    anchor,
    w,
    average,
    radius,
    slope_address,
    parameter,
    one_sided,
    all_pairs,
    counts,
):
    """Take all steps on dense rows; return a status."""
    real = X.dtype.type
    d = np.uintp(len(w))
    for t in range(len(left)):
        i = np.uintp(left[t])
        j = np.uintp(right[t])
        a = i * d
        b = j * d
        slope = 0.0
        if is_active(y[i], y[j], one_sided, all_pairs):
            score = real(0.0)
            for k in range(d):
                score += w[k] * (X[a + k] - X[b + k])
            slope = call_scalar(slope_address, np.float64(score), y[i], y[j], parameter)
            if slope != slope:
                return LOSS_IS_NAN + 4 * np.int64(t)
            counts[0] += 1
        step = real(step_sizes[t] * slope)
        pull = real(pulls[t])
        share = real(shares[t])
        norm_squared = real(0.0)
        for k in range(d):
            w_k = w[k]
            average[k] += share * w_k
            w_k -= step * (X[a + k] - X[b + k]) + pull * (w_k - anchor[k])
            w[k] = w_k
            norm_squared += w_k * w_k
        if not keep_in_ball(w, norm_squared, radius):
            return DIVERGED + 4 * np.int64(t)
    return np.int64(FINE)


@kernel
def descend_anchored_csr(
    data,
    indices,
    indptr,
    y,
    left,
    right,
    step_sizes,
    pulls,
    shares,
    anchor,
    w,
    average,
    radius,
    slope_address,
    parameter,
    one_sided,
    all_pairs,
    counts,
):
    """Take all steps on CSR rows, in O(d) each since the anchor is dense; return a status."""
    d = np.uintp(len(w))
    rows = Csr(data, indices, indptr)
    for t in range(len(left)):
        i = np.uintp(left[t])
        j = np.uintp(right[t])
        slope = 0.0
        if is_active(y[i], y[j], one_sided, all_pairs):
            score = dot(rows, i, w) - dot(rows, j, w)
            slope = call_scalar(slope_address, score, y[i], y[j], parameter)
            if slope != slope:
                return LOSS_IS_NAN + 4 * np.int64(t)
            counts[0] += 1
        pull = pulls[t]
        share = shares[t]
        for k in range(d):
            w_k = w[k]
            average[k] += share * w_k
            w[k] = w_k - pull * (w_k - anchor[k])
        if slope != 0.0:
            step = step_sizes[t] * slope
            add_multiple(rows, i, -step, w)
            add_multiple(rows, j, step, w)
        if not keep_in_ball(w, squared_norm(w), radius):
            return DIVERGED + 4 * np.int64(t)
    return np.int64(FINE)
