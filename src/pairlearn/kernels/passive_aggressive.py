# SPDX-License-Identifier: BSD-3-Clause
"""Passive-aggressive updates with the examples of a buffer, one after the other (OAM_seq).

Arrays are those of the buffer kernel; `held` (int64, one for each slot) holds the rows in the slots
and is modified in place, `shares` the weight of w_{t-1} in the average.
"""

import math

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, kernel


@kernel
def descend_sequential(
    X,
    y,
    current,
    first,
    stop,
    edit_offsets,
    edit_slots,
    edit_rows,
    caps,
    shares,
    held,
    w,
    average,
    radius,
    counts,
):
    """Take the steps of a plan; return a status.

    With D = y (x - x_q), a violated margin <w, D> < 1 moves w by min(cap, loss / ||D||^2) D.
    """
    d = np.uintp(len(w))
    for t in range(len(current)):
        i = np.uintp(current[t])
        a = i * d
        share = shares[t]
        for k in range(d):
            average[k] += share * w[k]
        for q in range(first[t], stop[t]):
            j = np.uintp(held[q])
            if y[i] == y[j]:
                continue
            b = j * d
            score = 0.0
            square = 0.0
            for k in range(d):
                difference = X[a + k] - X[b + k]
                score += w[k] * difference
                square += difference * difference
            counts[0] += 1
            sign = 1.0 if y[i] > y[j] else -1.0
            loss = 1.0 - sign * score
            if loss > 0.0 and square > 0.0:
                step = sign * min(caps[t], loss / square)
                for k in range(d):
                    w[k] += step * (X[a + k] - X[b + k])
        norm_squared = 0.0
        for k in range(d):
            norm_squared += w[k] * w[k]
        if not norm_squared < np.inf:
            return DIVERGED + 4 * np.int64(t)
        if norm_squared > radius * radius:
            shrink = radius / math.sqrt(norm_squared)
            for k in range(d):
                w[k] *= shrink
        for e in range(edit_offsets[t], edit_offsets[t + 1]):
            held[edit_slots[e]] = edit_rows[e]
    return np.int64(FINE)
