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

A step is one pass over the features. It moves w by its pair, and in the same pass it reads the next
pair, whose score and squared length need the moved w alone. The squared length D^2 = ||x - x'||^2
tells the norm of the moved iterate before the pass, so that the projection is part of it:

    ||w - a D||^2 = ||w||^2 - 2 a <w, D> + a^2 D^2.

||w||^2 itself is summed anew in every pass, so that rounding does not add up. All sums have a fixed
order, the same in each of the passes: how steps are cut into calls does not change a bit.
"""

import math

import numpy as np

from pairlearn.kernels._native import (
    DIVERGED,
    FINE,
    LOSS_IS_NAN,
    as_written,
    call_scalar,
    kernel,
    part,
    part_as_written,
    prefetch,
    prefetch_second,
    stay_apart,
)
from pairlearn.kernels.steps.pieces import copy, is_active, keep_in_ball
from pairlearn.kernels.steps.vectors import (
    BYTES,
    chosen,
    difference_in_units,
    filled,
    first_in_units,
    joined,
    minus,
    multiple,
    plus_multiple,
    plus_product,
    read,
    read_first,
    times,
    total,
    write,
    write_first,
)

#: The address that stands for the hinge loss with margin `parameter`. The kernel has it built in,
#: since a call would cost a fifth of a step on short rows.
HINGE = 0
#: Short rows are prefetched this many pairs ahead.
AHEAD = 6
#: Examples of fewer bytes than this stay in the second-level cache and are not prefetched.
NEAR = 1 << 20
#: Longer rows, in bytes, are prefetched to the second-level cache: the first one holds seven (four
#: of examples; iterate, sum and difference).
LONG = 4_608
#: The squared norm, in squared radii, beyond which an iterate is projected once more.
OUTSIDE = 1.0001

#: Values that learning one example returns instead of the status of a step: the example holds NaN
#: or infinity, or it makes no active pair.
NOT_FINITE, INACTIVE = -1, -2


@part_as_written
def _ask(X, ahead, k, level):
    """Prefetch feature k of the pair of rows that begin at `ahead`, into a level of the cache."""
    if level == 1:
        prefetch(X, ahead[0] + k)
        prefetch(X, ahead[1] + k)
    elif level == 2:
        prefetch_second(X, ahead[0] + k)
        prefetch_second(X, ahead[1] + k)


@part_as_written
def _take_vector(
    X, unit, pair, moves, looks, factors, w, weighted_sum, difference, k, n_done, sums
):
    """Move a vector of features, and look at it in the next pair; return the sums with it.

    The first `n_done` lanes are done already: they belong to the vector before.
    """
    score, square, norm = sums
    owed, shrink, back = factors
    w_k = read(w, k)
    if moves:
        sum_k = read(weighted_sum, k)
        paid = plus_product(sum_k, owed, w_k)
        moved = plus_product(times(shrink, w_k), back, read(difference, k))
        if n_done > 0:
            paid = joined(n_done, sum_k, paid)
            moved = joined(n_done, w_k, moved)
        write(weighted_sum, k, paid)
        write(w, k, moved)
        w_k = moved
    if n_done > 0:
        w_k = joined(n_done, filled(w.dtype.type(0.0)), w_k)
    norm = plus_product(norm, w_k, w_k)
    if looks:
        if len(unit) > 0:
            x = difference_in_units(X, pair[0] + k, pair[1] + k, unit, k)
        else:
            x = minus(read(X, pair[0] + k), read(X, pair[1] + k))
        write(difference, k, x)
        if n_done > 0:
            x = joined(n_done, filled(w.dtype.type(0.0)), x)
        score = plus_product(score, w_k, x)
        square = plus_product(square, x, x)
    return score, square, norm


@part_as_written
def _pass(X, unit, pair, ahead, level, moves, looks, factors, w, weighted_sum, difference):
    """Pass over the features; return score and square of the next pair, and ||w||^2.

    If it `moves`, w is paid and becomes shrink w + back D, with owed, shrink and back in `factors`.
    If it `looks`, D becomes the difference of the next pair, the rows that begin at `pair`.
    """
    d = np.uintp(len(w))
    lanes = np.uintp(BYTES // w.itemsize)
    zero = w.dtype.type(0.0)
    wide = (filled(factors[0]), filled(factors[1]), filled(factors[2]))
    part = (X, unit, pair, moves, looks)
    arrays = (w, weighted_sum, difference)
    # A row that starts inside a cache line ends in one more.
    _ask(X, ahead, d - np.uintp(1), level)
    k = np.uintp(0)
    # Neighbouring vectors have sums of their own, since an addition takes four cycles.
    even = odd = (filled(zero), filled(zero), filled(zero))
    none = np.uintp(0)
    while k + lanes + lanes <= d:
        _ask(X, ahead, k, level)
        even = _take_vector(*part, wide, *arrays, k, none, even)
        k += lanes
        _ask(X, ahead, k, level)
        odd = _take_vector(*part, wide, *arrays, k, none, odd)
        k += lanes
    if k + lanes <= d:
        _ask(X, ahead, k, level)
        even = _take_vector(*part, wide, *arrays, k, none, even)
        k += lanes
    if k < d:
        # The last vector ends where the row ends.
        odd = _take_vector(*part, wide, *arrays, d - lanes, k + lanes - d, odd)
    sums = (
        total(even[0]) + total(odd[0]),
        total(even[1]) + total(odd[1]),
        total(even[2]) + total(odd[2]),
    )
    return np.float64(sums[0]), np.float64(sums[1]), np.float64(sums[2])


@part_as_written
def _pair_at(p, active, left, right, d):
    """Return where the rows of the active pair p begin."""
    t = np.uintp(active[p])
    return np.uintp(left[t]) * d, np.uintp(right[t]) * d


@part_as_written
def _descend_narrow(
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
    state,
    radius,
    slope_address,
    parameter,
    parts,
):
    """Do what `descend` does for rows shorter than a vector: iterate and sum stay in registers.

    Whether a pair moves the iterate is hard to foretell, and a wrong guess costs as much as a step.
    So every pair makes its move, and the slope chooses whether it is kept. The move by the hinge
    does not wait for the score.
    """
    real = X.dtype.type
    d = np.uintp(len(w))
    start = np.uintp(0)
    far = X.nbytes > NEAR
    base = state[0]
    radius_squared = radius * radius
    iterate = read_first(w, start, d, parts)
    paid_sum = read_first(weighted_sum, start, d, parts)
    for p in range(n_active):
        t = np.uintp(active[p])
        i = np.uintp(left[t])
        j = np.uintp(right[t])
        if far and p + AHEAD < n_active:
            a, b = _pair_at(p + AHEAD, active, left, right, d)
            prefetch(X, a)
            prefetch(X, b)
            # A row that starts inside a cache line may end in the next.
            prefetch(X, a + d - np.uintp(1))
            prefetch(X, b + d - np.uintp(1))
        if p == n_active - 1:
            write_first(left_iterate, d, iterate)
        if len(unit) > 0:
            x = first_in_units(X, i * d, j * d, unit, d, parts)
        else:
            x = minus(read_first(X, i * d, d, parts), read_first(X, j * d, d, parts))
        score = np.float64(total(times(iterate, x)))
        if slope_address == HINGE:
            ahead = y[i] > y[j]
            pull = step_sizes[t] if ahead else -step_sizes[t]
            moves = (score if ahead else -score) < parameter
        else:
            slope = call_scalar(slope_address, score, y[i], y[j], parameter)
            if slope != slope:
                return LOSS_IS_NAN + 4 * np.int64(t)
            pull = -step_sizes[t] * slope
            moves = slope != 0.0
        paid_sum = plus_multiple(paid_sum, real(paid[t] - base), iterate)
        base = paid[t]
        moved = plus_multiple(iterate, real(pull), x)
        iterate = chosen(moves, moved, iterate)
        norm_squared = np.float64(total(times(iterate, iterate)))
        # Rounding may leave a projected iterate outside, so it is projected only after a move.
        if not norm_squared < radius_squared and moves:
            if not norm_squared < np.inf:
                write_first(w, d, iterate)
                return DIVERGED + 4 * np.int64(t)
            iterate = multiple(real(radius / math.sqrt(norm_squared)), iterate)
    write_first(w, d, iterate)
    write_first(weighted_sum, d, paid_sum)
    state[0] = base
    return np.int64(FINE)


@as_written
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
    if w.nbytes < BYTES:
        # The fewer lanes, the sooner they are summed: a quarter of a vector, a half, or all of it.
        narrow = (
            X, unit, y, left, right, step_sizes, paid, active, n_active, w, weighted_sum,
            left_iterate, state, radius, slope_address, parameter,
        )  # fmt: skip
        if 4 * w.nbytes <= BYTES:
            return _descend_narrow(*narrow, (0, 0, 0, 0))
        if 2 * w.nbytes <= BYTES:
            return _descend_narrow(*narrow, (0, 0))
        return _descend_narrow(*narrow, (0,))
    level = 0
    if X.nbytes > NEAR:
        level = 1 if w.nbytes <= LONG else 2
    plan = (active, left, right, d)
    factors = (real(0.0), real(0.0), real(0.0))
    arrays = (w, weighted_sum, difference)
    base = state[0]
    radius_squared = radius * radius
    score, square, norm_squared = 0.0, 0.0, 0.0
    for p in range(-1, n_active):
        moves = False
        if p == n_active - 1:
            copy(w, left_iterate)
        t = np.uintp(0)
        if p >= 0:
            t = np.uintp(active[p])
            i = np.uintp(left[t])
            j = np.uintp(right[t])
            if slope_address == HINGE:
                slope = 0.0
                if y[i] > y[j]:
                    if score < parameter:
                        slope = -1.0
                elif -score < parameter:
                    slope = 1.0
            else:
                slope = call_scalar(slope_address, score, y[i], y[j], parameter)
            if slope != slope:
                return LOSS_IS_NAN + 4 * np.int64(t)
            if slope != 0.0:
                moves = True
                step = step_sizes[t] * slope
                expected = norm_squared + step * (step * square - 2.0 * score)
                shrink = 1.0
                if radius_squared < expected < np.inf:
                    shrink = radius / math.sqrt(expected)
                factors = (real(paid[t] - base), real(shrink), real(-step * shrink))
                base = paid[t]
        if p + 1 < n_active:
            pair = _pair_at(p + 1, *plan)
            ahead = pair
            if p + level + 1 < n_active:
                ahead = _pair_at(p + level + 1, *plan)
            if moves:
                score, square, norm_squared = _pass(
                    X, unit, pair, ahead, level, True, True, factors, *arrays
                )
            else:
                score, square, norm_squared = _pass(
                    X, unit, pair, ahead, level, False, True, factors, *arrays
                )
        elif moves:
            pair = (np.uintp(0), np.uintp(0))
            _, _, norm_squared = _pass(X, unit, pair, pair, 0, True, False, factors, *arrays)
        # The norm was not as expected: lengths have overflowed, or vanished in rounding.
        if moves and not norm_squared < OUTSIDE * radius_squared:
            if not keep_in_ball(w, norm_squared, radius):
                return DIVERGED + 4 * np.int64(t)
            if p + 1 < n_active:
                score, square, norm_squared = _pass(
                    X, unit, pair, pair, 0, False, True, factors, *arrays
                )
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
