# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise SGD for the linear score on dense rows.

Arrays (``real`` is float64 or float32, the type of the data)
------
X : real, shape (n * d,)
    Examples, row after row.
unit : float64, shape (d,) or (0,)
    The factors of the difference of two rows, if rows are stored in other units.
y : float64, shape (n,)
    Labels.
left, right, step_sizes, paid : shape (n_steps,)
    The plan: the paired examples, eta_t (times the weights of the pair), and the cumulated
    averaging weights up to and including step t.
active : int32
    The positions of the steps to take.
w, weighted_sum, left_iterate : real, shape (d,)
    Modified in place: the iterate, the weighted sum of earlier iterates, and the iterate before the
    last pair of the call.
difference : real, shape (d,)
    Scratch: x - x' of the current pair.
state : float64, shape (1,)
    Modified in place: the value of `paid` up to which the sum holds the current iterate.

w stands still between updates. So the average is lazy: only when w is about to change is it added
to the sum, with all the weight that it is owed (`paid` minus `state`).
"""

import numpy as np

from pairlearn.kernels._native import (
    DIVERGED,
    FINE,
    LOSS_IS_NAN,
    call_scalar,
    kernel,
    part,
    prefetch,
    stay_apart,
)
from pairlearn.kernels.steps.pieces import copy, is_active, keep_in_ball

#: The address that stands for the hinge loss with margin `parameter`. The kernel has it built in,
#: since a call would cost a fifth of a step on short rows.
HINGE = 0
#: Rows are prefetched this many pairs ahead.
AHEAD = 6
#: Examples of fewer bytes than this stay in the second-level cache and are not prefetched.
NEAR = 1 << 20

#: Values that learning one example returns instead of the status of a step: the example holds NaN
#: or infinity, or it makes no active pair.
NOT_FINITE, INACTIVE = -1, -2


@part
def ask_for_row(X, start, d):
    """Prefetch up to eight lines of the row that begins at `start`."""
    line = np.uintp(64 // X.itemsize)
    prefetched = min(d, np.uintp(8) * line)
    for k in range(np.uintp(0), prefetched, line):
        prefetch(X, start + k)
    # A row that starts inside a cache line ends in one more.
    prefetch(X, start + prefetched - np.uintp(1))


@kernel
def descend(
    X,
    unit,
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
    stay_apart()
    real = X.dtype.type
    d = np.uintp(len(w))
    far = X.nbytes > NEAR
    in_units = len(unit) > 0
    base = state[0]
    p = 0
    # The last pair is taken separately: the iterate before it is kept.
    for last in range(2):
        stop = n_active - 1 + last
        if last:
            copy(w, left_iterate)
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
            if in_units:
                for k in range(d):
                    x_k = real((np.float64(X[a + k]) - np.float64(X[b + k])) * unit[k])
                    difference[k] = x_k
                    score += w[k] * x_k
            else:
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
                if not keep_in_ball(w, norm_squared, radius):
                    return DIVERGED + 4 * np.int64(t)
    state[0] = base
    return np.int64(FINE)


@part
def take_in(x, label, turn, rows, labels, pair, one_sided, all_pairs, left_iterate, kept):
    """Write an example over the row `turn` of two; return FINE if it makes an active pair.

    `pair` becomes the plan that pairs it with the other row. The step overwrites `left_iterate`, so
    it is copied to the beginning of `kept`.
    """
    d = np.uintp(len(x))
    place = np.uintp(turn) * d
    finite = abs(label) < np.inf
    for k in range(d):
        rows[place + k] = x[k]
        finite = finite and abs(x[k]) < np.inf
    if not finite:
        return np.int64(NOT_FINITE)
    labels[turn] = label
    pair[0] = turn
    pair[1] = 1 - turn
    if not is_active(label, labels[1 - turn], one_sided, all_pairs):
        return np.int64(INACTIVE)
    for k in range(d):
        kept[k] = left_iterate[k]
    return np.int64(FINE)


@part
def step_of(pair, step_sizes, paid, position):
    """Return a plan of one step: left, right, active, step size and owed weight.

    The number of steps is the length of an array: a literal would compile another kernel.
    """
    now = slice(position, position + 1)
    return pair[0:1], pair[1:2], pair[2:3], step_sizes[now], paid[now]


@part
def undo(w, left_iterate, kept):
    """Undo a failed step, except for the weighted sum."""
    for k in range(np.uintp(len(w))):
        w[k] = left_iterate[k]
        left_iterate[k] = kept[k]


@kernel
def meet_previous(
    x,
    label,
    turn,
    rows,
    labels,
    pair,
    step_sizes,
    paid,
    position,
    w,
    weighted_sum,
    left_iterate,
    difference,
    state,
    kept,
    radius,
    slope_address,
    parameter,
    one_sided,
    all_pairs,
):
    """Learn one example, paired with the previous one; return a status, or why there is no step.

    Two rows take turns: `rows`, shape (2 * d,), holds the previous example in the other row, and
    `labels` its label. `pair`, int32, shape (3,), and `kept`, shape (2 * d,), are scratch; the last
    entry of `pair` is 0. If the example is not learned, nothing else changes.
    """
    status = take_in(x, label, turn, rows, labels, pair, one_sided, all_pairs, left_iterate, kept)
    if status != FINE:
        return status
    d = np.uintp(len(w))
    for k in range(d):
        kept[d + k] = weighted_sum[k]
    left, right, active, eta, owed = step_of(pair, step_sizes, paid, position)
    status = descend(
        rows, step_sizes[:0], labels, left, right, eta, owed, active, len(active), w, weighted_sum,
        left_iterate, difference, state, radius, slope_address, parameter,
    )  # fmt: skip
    if status != FINE:
        undo(w, left_iterate, kept)
        for k in range(d):
            weighted_sum[k] = kept[d + k]
    return status
