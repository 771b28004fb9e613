# SPDX-License-Identifier: BSD-3-Clause
r"""OPAUC (Gao et al. 2013): the square loss against the whole other class by its moments.

For a positive example x, with c and Gamma the mean and the covariance of the negatives so far, the
mean over them of the half square loss (1 - <w, x - x'>)^2 / 2 has the gradient
(x - c) (<w, x - c> - 1) + Gamma w; a negative example has both signs changed.

Arrays
------
X, y, path, step_sizes, shares, w, average
    As in the saddle kernels.
means : float64, shape (2, d); counts : float64, shape (2,)
    Means and counts of positives and negatives so far, modified in place.
scatters : float64, shape (2, d, d)
    Sums of (x - mean)(x - mean)' so far, modified in place.
sketches : float64, shape (2, d, r); sums : float64, shape (2, r); normals : shape (n_steps, r)
    Sums of x g' and of g over the examples so far, where g is a row of independent normal numbers
    of variance 1/r. (Z - c h')(Z - c h')' estimates the scatter without bias, in O(d r).
"""

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, kernel
from pairlearn.kernels.steps.pieces import keep_in_ball


@kernel
def descend_moments(
    X, y, path, step_sizes, shares, ridge, means, counts, scatters, w, average, radius, product
):
    """Take the steps with full covariances, O(d^2) each; return a status."""
    d = np.uintp(len(w))
    for t in range(len(path)):
        row = np.uintp(path[t])
        own = 0 if y[row] > 0.0 else 1
        other = 1 - own
        base = row * d
        counts[own] += 1.0
        rate = 1.0 / counts[own]
        # After the mean has moved, x - old mean = (x - new mean) N / (N - 1).
        for k in range(d):
            product[k] = X[base + k] - means[own, k]
            means[own, k] += rate * product[k]
        for k in range(d):
            factor = product[k] * (1.0 - rate)
            for m in range(d):
                scatters[own, k, m] += factor * product[m]
        share = shares[t]
        if counts[other] == 0.0:
            for k in range(d):
                average[k] += share * w[k]
            continue
        scale = 1.0 / counts[other]
        score = 0.0
        for k in range(d):
            score += w[k] * (X[base + k] - means[other, k])
            total = 0.0
            for m in range(d):
                total += scatters[other, k, m] * w[m]
            product[k] = scale * total
        sign = 1.0 if own == 0 else -1.0
        norm_squared = 0.0
        for k in range(d):
            w_k = w[k]
            average[k] += share * w_k
            gradient = (score - sign) * (X[base + k] - means[other, k]) + product[k] + ridge * w_k
            w_k -= step_sizes[t] * gradient
            w[k] = w_k
            norm_squared += w_k * w_k
        if not keep_in_ball(w, norm_squared, radius):
            return DIVERGED + 4 * np.int64(t)
    return np.int64(FINE)


@kernel
def descend_sketch(
    X,
    y,
    path,
    step_sizes,
    shares,
    ridge,
    means,
    counts,
    sketches,
    sums,
    normals,
    w,
    average,
    radius,
    small,
):
    """Take the steps with sketched covariances, O(d r) each; `small` (r,) is scratch."""
    d = np.uintp(len(w))
    rank = np.uintp(len(small))
    for t in range(len(path)):
        row = np.uintp(path[t])
        own = 0 if y[row] > 0.0 else 1
        other = 1 - own
        base = row * d
        counts[own] += 1.0
        rate = 1.0 / counts[own]
        for m in range(rank):
            sums[own, m] += normals[t, m]
        for k in range(d):
            means[own, k] += rate * (X[base + k] - means[own, k])
            for m in range(rank):
                sketches[own, k, m] += X[base + k] * normals[t, m]
        share = shares[t]
        if counts[other] == 0.0:
            for k in range(d):
                average[k] += share * w[k]
            continue
        score = 0.0
        centre = 0.0
        for m in range(rank):
            small[m] = 0.0
        for k in range(d):
            score += w[k] * (X[base + k] - means[other, k])
            centre += w[k] * means[other, k]
            for m in range(rank):
                small[m] += sketches[other, k, m] * w[k]
        met = 0.0
        for m in range(rank):
            small[m] -= sums[other, m] * centre
            met += sums[other, m] * small[m]
        scale = 1.0 / counts[other]
        sign = 1.0 if own == 0 else -1.0
        norm_squared = 0.0
        for k in range(d):
            total = -met * means[other, k]
            for m in range(rank):
                total += sketches[other, k, m] * small[m]
            w_k = w[k]
            average[k] += share * w_k
            gradient = (score - sign) * (X[base + k] - means[other, k]) + scale * total
            w_k -= step_sizes[t] * (gradient + ridge * w_k)
            w[k] = w_k
            norm_squared += w_k * w_k
        if not keep_in_ball(w, norm_squared, radius):
            return DIVERGED + 4 * np.int64(t)
    return np.int64(FINE)
