# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise SGD for the linear score on dense rows.

Arrays (``real`` is float64 or float32, the type of the data)
------
X : real, shape (n * d,)
    Examples, row after row.
y : float64, shape (n,)
    Labels.
left, right, step_sizes, paid : shape (n_steps,)
    The plan: who meets whom, eta_t (times the weights of the pair), and the running sum of the
    averaging weights owed up to and including step t.
active : int32
    The positions of the steps to take.
w, weighted_sum, left_iterate : real, shape (d,)
    Modified in place: the iterate, the weighted sum of the iterates that were left, and the
    iterate before the last pair of the call.
difference : real, shape (d,)
    Scratch: x - x' of the current pair.
state : float64, shape (1,)
    Modified in place: the value of `paid` up to which the current iterate has been paid.

`paid` and `state` make the owed-weight average: w stands still between updates, so the sum is
touched only when w is about to change, with everything that w is owed since it was reached.
"""

import math

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, call_scalar, kernel, prefetch

#: The address that stands for the hinge loss with `parameter` as its margin, which is written out
#: in the kernel: the call would cost a fifth of a step on short rows.
HINGE = 0
#: How many pairs ahead rows are asked for.
AHEAD = 6
#: Examples of fewer bytes than this stay in the second-level cache, with room for the rest: nothing
#: is asked for.
NEAR = 1 << 20


@kernel
def ask_for_row(X, start, d):
    """Prefetch up to eight lines of the row that begins at `start`."""
    line = np.uintp(64 // X.itemsize)
    prefetched = min(d, np.uintp(8) * line)
    for k in range(np.uintp(0), prefetched, line):
        prefetch(X, start + k)
    # A row that starts within a line ends in one more.
    prefetch(X, start + prefetched - np.uintp(1))


@kernel
def descend(
    X,
    y,
    left,
    right,
    step_sizes,
    paid,
    active,
    n_active,
    w,
    weighted_sum,
    left_iterate,
    difference,
    state,
    radius,
    slope_address,
    parameter,
):
    """Take the active steps of a plan with one pair each; return a status."""
    real = X.dtype.type
    d = np.uintp(len(w))
    far = X.nbytes > NEAR
    radius_squared = real(radius * radius)
    base = state[0]
    p = 0
    # The last pair comes apart from the others: the iterate before it is kept.
    for last in range(2):
        stop = n_active - 1 + last
        if last:
            for k in range(d):
                left_iterate[k] = w[k]
        while p < stop:
            t = np.uintp(active[p])
            i = np.uintp(left[t])
            j = np.uintp(right[t])
            a = i * d
            b = j * d
            if far and p + AHEAD < n_active:
                ahead = np.uintp(active[p + AHEAD])
                ask_for_row(X, np.uintp(left[ahead]) * d, d)
                ask_for_row(X, np.uintp(right[ahead]) * d, d)
            p += 1
            score = real(0.0)
            for k in range(d):
                x_k = X[a + k] - X[b + k]
                difference[k] = x_k
                score += w[k] * x_k
            if slope_address == HINGE:
                slope = 0.0
                if y[i] > y[j]:
                    if score < parameter:
                        slope = -1.0
                elif -score < parameter:
                    slope = 1.0
            else:
                slope = call_scalar(slope_address, np.float64(score), y[i], y[j], parameter)
            if slope != 0.0:
                if slope != slope:
                    return LOSS_IS_NAN + 4 * np.int64(t)
                step = real(step_sizes[t] * slope)
                owed = real(paid[t] - base)
                base = paid[t]
                norm_squared = real(0.0)
                for k in range(d):
                    w_k = w[k]
                    weighted_sum[k] += owed * w_k
                    w_k -= step * difference[k]
                    w[k] = w_k
                    norm_squared += w_k * w_k
                if not norm_squared < radius_squared:
                    if not norm_squared < np.inf:
                        return DIVERGED + 4 * np.int64(t)
                    shrink = real(radius / math.sqrt(norm_squared))
                    for k in range(d):
                        w[k] *= shrink
    state[0] = base
    return np.int64(FINE)
