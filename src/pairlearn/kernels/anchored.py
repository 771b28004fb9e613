# SPDX-License-Identifier: BSD-3-Clause
r"""Pairwise SGD on f + (alpha / 2) ||w - c||^2: every step also pulls w to the anchor c.

    w_t = Proj(w_{t-1} - eta_t l' (x - x') - eta_t alpha (w_{t-1} - c))

Arrays (``real`` is the type of dense data; sparse rows have float64)
------
left, right : integer, shape (n_steps,)
    Who meets whom.
step_sizes, pulls, shares : float64, shape (n_steps,)
    eta_t, eta_t alpha, and the weight of w_{t-1} in the average.
anchor, w, average : real, shape (d,)
    The anchor c; the iterate and the average, modified in place.
counts : int64, shape (1,)
    Increased by the number of evaluated pairs.
"""

import math

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, call_scalar, kernel


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
    radius_squared = real(radius * radius)
    for t in range(len(left)):
        i = np.uintp(left[t])
        j = np.uintp(right[t])
        a = i * d
        b = j * d
        slope = 0.0
        if (y[i] > y[j]) or ((y[i] < y[j]) and not one_sided) or all_pairs:
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
        if not norm_squared < radius_squared:
            if not norm_squared < np.inf:
                return DIVERGED + 4 * np.int64(t)
            shrink = real(radius / math.sqrt(norm_squared))
            for k in range(d):
                w[k] *= shrink
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
    """Take all steps on CSR rows, in O(d) each: the anchor is dense; return a status."""
    d = np.uintp(len(w))
    one = np.uintp(1)
    for t in range(len(left)):
        i = np.uintp(left[t])
        j = np.uintp(right[t])
        slope = 0.0
        if (y[i] > y[j]) or ((y[i] < y[j]) and not one_sided) or all_pairs:
            score = 0.0
            for q in range(np.uintp(indptr[i]), np.uintp(indptr[i + one])):
                score += data[q] * w[np.uintp(indices[q])]
            for q in range(np.uintp(indptr[j]), np.uintp(indptr[j + one])):
                score -= data[q] * w[np.uintp(indices[q])]
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
            for q in range(np.uintp(indptr[i]), np.uintp(indptr[i + one])):
                w[np.uintp(indices[q])] -= step * data[q]
            for q in range(np.uintp(indptr[j]), np.uintp(indptr[j + one])):
                w[np.uintp(indices[q])] += step * data[q]
        norm_squared = 0.0
        for k in range(d):
            norm_squared += w[k] * w[k]
        if not norm_squared < np.inf:
            return DIVERGED + 4 * np.int64(t)
        if norm_squared > radius * radius:
            shrink = radius / math.sqrt(norm_squared)
            for k in range(d):
                w[k] *= shrink
    return np.int64(FINE)
