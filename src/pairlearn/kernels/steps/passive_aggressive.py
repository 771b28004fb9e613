# SPDX-License-Identifier: BSD-3-Clause
"""Passive-aggressive updates with the examples of a buffer, one after the other (OAM_seq).

Arrays are those of the buffer kernel. `held` (int64, one per slot) holds the rows in the slots and
is modified in place; `shares` is the weight of w_{t-1} in the average.
"""

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, kernel, part
from pairlearn.kernels.arguments import Meetings
from pairlearn.kernels.steps.pieces import keep_in_ball, squared_norm


@part
def _meet(X, a, b, sign, cap, w):
    """Pair x with x': with D = sign (x - x'), <w, D> < 1 moves w by min(cap, loss / ||D||^2) D."""
    d = np.uintp(len(w))
    score = 0.0
    square = 0.0
    for k in range(d):
        difference = X[a + k] - X[b + k]
        score += w[k] * difference
        square += difference * difference
    loss = 1.0 - sign * score
    if loss > 0.0 and square > 0.0:
        step = sign * min(cap, loss / square)
        for k in range(d):
            w[k] += step * (X[a + k] - X[b + k])


@kernel
def descend_sequential(
    X,
    y,
    meetings,
    caps,
    shares,
    held,
    w,
    average,
    radius,
    counts,
):
    """Take the steps of a plan; return a status."""
    meetings = Meetings(*meetings)
    d = np.uintp(len(w))
    for t in range(len(meetings.current)):
        i = np.uintp(meetings.current[t])
        share = shares[t]
        for k in range(d):
            average[k] += share * w[k]
        for q in range(meetings.first[t], meetings.stop[t]):
            j = np.uintp(held[q])
            if y[i] != y[j]:
                _meet(X, i * d, j * d, 1.0 if y[i] > y[j] else -1.0, caps[t], w)
                counts[0] += 1
        if not keep_in_ball(w, squared_norm(w), radius):
            return DIVERGED + 4 * np.int64(t)
        for e in range(meetings.edit_offsets[t], meetings.edit_offsets[t + 1]):
            held[meetings.edit_slots[e]] = meetings.edit_rows[e]
    return np.int64(FINE)
