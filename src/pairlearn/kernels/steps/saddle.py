# SPDX-License-Identifier: BSD-3-Clause
r"""AUC with the square loss as a saddle-point problem: one example a step, O(d) each.

Arrays
------
X : real, shape (n * d,); y : float64, shape (n,)
    Examples and labels.
path : integer, shape (n_steps,)
    The example of each step.
step_sizes, shares : float64, shape (n_steps,)
    eta_t, and the weight of w_{t-1} in the average.
means : float64, shape (2, d); counts : float64, shape (2,)
    The means and counts of positives and negatives: given, or, if `online`, of the steps so far and
    modified in place.
w, average : float64, shape (d,)
    Modified in place.
"""

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, kernel
from pairlearn.kernels.steps.pieces import keep_in_ball


@kernel
def descend_spauc(X, y, path, step_sizes, shares, means, counts, online, w, average, radius):
    r"""Take the steps of SPAUC (Lei and Ying 2021); return a status.

    With p the share of positives and u = mean_- - mean_+, a step moves along minus half the
    gradient of (1 - p) <w, x - mean_+>^2 (y = 1) or p <w, x - mean_->^2 (y = -1), plus
    p (1 - p) (1 + <w, u>)^2.
    """
    d = np.uintp(len(w))
    for t in range(len(path)):
        row = np.uintp(path[t])
        own = 0 if y[row] > 0.0 else 1
        base = row * d
        if online:
            counts[own] += 1.0
            rate = 1.0 / counts[own]
            for k in range(d):
                means[own, k] += rate * (X[base + k] - means[own, k])
        share = shares[t]
        if counts[0] == 0.0 or counts[1] == 0.0:
            for k in range(d):
                average[k] += share * w[k]
            continue
        p = counts[0] / (counts[0] + counts[1])
        score = 0.0
        gap = 1.0
        for k in range(d):
            score += w[k] * (X[base + k] - means[own, k])
            gap += w[k] * (means[1, k] - means[0, k])
        near = step_sizes[t] * (1.0 - p if own == 0 else p) * score
        far = step_sizes[t] * p * (1.0 - p) * gap
        norm_squared = 0.0
        for k in range(d):
            w_k = w[k]
            average[k] += share * w_k
            w_k -= near * (X[base + k] - means[own, k]) + far * (means[1, k] - means[0, k])
            w[k] = w_k
            norm_squared += w_k * w_k
        if not keep_in_ball(w, norm_squared, radius):
            return DIVERGED + 4 * np.int64(t)
    return np.int64(FINE)


@kernel
def descend_solam(
    X, y, path, step_sizes, shares, counts, online, w, average, others, radius, bound
):
    r"""Take the steps of SOLAM (Ying, Wen and Lyu 2016); return a status.

    `others` holds a, b and alpha, modified in place; a and b stay within `bound`, alpha within
    twice that. With s = <w, x>, the function is (1 - p)(s - a)^2 - 2 (1 + alpha)(1 - p) s for y =
    1, p (s - b)^2 + 2 (1 + alpha) p s for y = -1, minus p (1 - p) alpha^2: descent in w, a, b and
    ascent in alpha.
    """
    d = np.uintp(len(w))
    for t in range(len(path)):
        row = np.uintp(path[t])
        own = 0 if y[row] > 0.0 else 1
        base = row * d
        if online:
            counts[own] += 1.0
        p = counts[0] / (counts[0] + counts[1])
        score = 0.0
        for k in range(d):
            score += w[k] * X[base + k]
        factor = 1.0 - p if own == 0 else p
        sign = -1.0 if own == 0 else 1.0
        gap = score - others[own]
        step = step_sizes[t]
        push = 2.0 * step * factor * (gap + sign * (1.0 + others[2]))
        rise = 2.0 * step * (sign * factor * score - p * (1.0 - p) * others[2])
        others[own] += 2.0 * step * factor * gap
        others[2] += rise
        if bound < np.inf:
            others[own] = min(max(others[own], -bound), bound)
            others[2] = min(max(others[2], -2.0 * bound), 2.0 * bound)
        share = shares[t]
        norm_squared = 0.0
        for k in range(d):
            w_k = w[k]
            average[k] += share * w_k
            w_k -= push * X[base + k]
            w[k] = w_k
            norm_squared += w_k * w_k
        if not keep_in_ball(w, norm_squared, radius):
            return DIVERGED + 4 * np.int64(t)
    return np.int64(FINE)
