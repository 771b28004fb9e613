# SPDX-License-Identifier: BSD-3-Clause
r"""The paper's Algorithm 1 for the linear score on dense rows.

    w_t = Proj(w_{t-1} - eta_t l'(<w_{t-1}, x - x'>; y, y') (x - x'))

Arrays (``real`` is float64 or float32, the type of the data)
------
X : real, shape (n, d)
    Examples.
y : float64, shape (n,)
    Labels.
left, right, step_sizes, paid : shape (n_steps,)
    The plan: the paired examples, eta_t (times the weights of the pair), and the cumulated
    averaging weights up to and including step t.
active : integer
    The positions of the steps to take.
w, weighted_sum, left_iterate : real, shape (d,)
    Modified in place: the iterate, the weighted sum of iterates, and the iterate before the last
    active pair of the call.
difference : real, shape (d,)
    Scratch: x - x' of the current pair.

The average is lazy: only when w is about to change, and at the end, is it added to the sum, with
all the weight that it is owed (`paid` minus `base`).
"""

import math

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, kernel, prefetch
from pairlearn.kernels.steps.pieces import copy, pay, slope_of

#: Rows are prefetched this many pairs ahead.
_AHEAD = 2


@kernel
def descend(
    X, y, left, right, step_sizes, paid, active, w, weighted_sum, left_iterate, difference, radius,
    slope_address, parameter,
):  # fmt: skip
    """Take the active steps of a plan; return a status."""
    d, real = np.uintp(len(w)), X.dtype.type
    base = 0.0
    for p in range(len(active)):
        t = np.uintp(active[p])
        i, j = np.uintp(left[t]), np.uintp(right[t])
        if p + _AHEAD < len(active):
            ahead = np.uintp(active[p + _AHEAD])
            for k in range(np.uintp(0), d, np.uintp(8)):
                prefetch(X, np.uintp(left[ahead]) * d + k)
                prefetch(X, np.uintp(right[ahead]) * d + k)
        if p == len(active) - 1:
            copy(w, left_iterate)
        x, x_partner = X[i], X[j]
        score = real(0.0)
        for k in range(d):
            difference[k] = x[k] - x_partner[k]
            score += w[k] * difference[k]
        slope = slope_of(slope_address, np.float64(score), y[i], y[j], parameter)
        if slope != slope:
            return LOSS_IS_NAN + 4 * np.int64(t)
        if slope == 0.0:
            continue
        owed, step, base = real(paid[t] - base), real(step_sizes[t] * slope), paid[t]
        square = real(0.0)
        for k in range(d):
            weighted_sum[k] += owed * w[k]
            w[k] -= step * difference[k]
            square += w[k] * w[k]
        if not square < np.inf:
            return DIVERGED + 4 * np.int64(t)
        if square > radius * radius:
            shrink = real(radius / math.sqrt(np.float64(square)))
            for k in range(d):
                w[k] *= shrink
    pay(w, paid[-1] - base, weighted_sum)
    return np.int64(FINE)
