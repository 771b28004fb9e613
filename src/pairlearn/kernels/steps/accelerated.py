# SPDX-License-Identifier: BSD-3-Clause
r"""Pairwise SGD with momentum or variance reduction on dense rows.

Arrays are those of the dense kernel; `shares` holds the weight of w_{t-1} in the average. Every
step moves w, whether its pair is active or not.
"""

import math

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, call_scalar, kernel
from pairlearn.kernels.steps.pieces import is_active


@kernel
def descend_accelerated(
    X,
    y,
    left,
    right,
    step_sizes,
    shares,
    w,
    velocity,
    average,
    momentum,
    ahead,
    snapshot_scores,
    full_gradient,
    radius,
    slope_address,
    parameter,
    one_sided,
    all_pairs,
    counts,
):
    """Take all steps w_t = Proj(w_{t-1} + m v - eta g), v = w_{t-1} - w_{t-2}; return a status.

    The gradient g is taken at w_{t-1} + ahead v: ahead is 0 for the heavy ball, m for Nesterov.
    Given scores of a snapshot, the pair's slope there is subtracted and the full gradient added.
    """
    d = np.uintp(len(w))
    reduced = len(snapshot_scores) > 0
    for t in range(len(left)):
        i = np.uintp(left[t])
        j = np.uintp(right[t])
        a = i * d
        b = j * d
        slope = 0.0
        if is_active(y[i], y[j], one_sided, all_pairs):
            score = 0.0
            for k in range(d):
                score += (w[k] + ahead * velocity[k]) * (X[a + k] - X[b + k])
            slope = call_scalar(slope_address, score, y[i], y[j], parameter)
            counts[0] += 1
            if reduced:
                score = snapshot_scores[i] - snapshot_scores[j]
                slope -= call_scalar(slope_address, score, y[i], y[j], parameter)
                counts[0] += 1
            if slope != slope:
                return LOSS_IS_NAN + 4 * np.int64(t)
        eta = step_sizes[t]
        step = eta * slope
        share = shares[t]
        norm_squared = 0.0
        for k in range(d):
            average[k] += share * w[k]
            move = momentum * velocity[k] - step * (X[a + k] - X[b + k]) - eta * full_gradient[k]
            velocity[k] = move
            w_k = w[k] + move
            w[k] = w_k
            norm_squared += w_k * w_k
        if not norm_squared < np.inf:
            return DIVERGED + 4 * np.int64(t)
        if norm_squared > radius * radius:
            # The velocity is the actual move of w.
            shrink = radius / math.sqrt(norm_squared)
            for k in range(d):
                velocity[k] += (shrink - 1.0) * w[k]
                w[k] *= shrink
    return np.int64(FINE)
