# SPDX-License-Identifier: BSD-3-Clause
r"""Pairwise SGD for the linear score with a buffer, on dense rows.

The rows of the buffer are copied to the columns of an array with one line for each feature, so
that scores and gradients of neighbouring slots are found together. A step needs the scores of the
slots that it meets, their slopes l_q, and

    sum_q l_q (x - x_q) = (sum_q l_q) x - sum_q l_q x_q:

the slopes are summed before the current row is touched, once.

If there are two labels, only opposite pairs count and a plan meets everyone in the buffer who has
the other label (all pairings here do), columns are kept by label: `by_label` with a `pivot` between
the labels. A step then looks at the columns of the other label only. Otherwise the column of slot q
is q, and a step looks at the range of its plan.

Arrays (besides those of the dense kernel)
------
first, stop, edit_offsets, edit_slots, edit_rows : int64
    The plan, as in `pairings.SlotPlan`.
buffer : real, shape (d * n_slots,)
    Modified in place: feature k of the row in column q at k * n_slots + q.
labels, weights : float64, shape (n_slots,)
    Modified in place: of the examples in the columns.
place, owner : int64, shape (n_slots,); sizes : int64, shape (2,)
    Modified in place, by label only: the column of each slot (-1: none), the slot of each column,
    and the number of columns of the lower and of the higher label.
scores, slopes : real, shape (n_slots,)
    Scratch.
counts : int64, shape (1,)
    Increased by the number of evaluated pairs.
proximal : tuple
    As in `kernels.coordinatewise`; the address is 0 where the domain has a radius only.
"""

import math

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, call_scalar, kernel
from pairlearn.kernels.coordinatewise import ended, take_proximal

#: As in the dense kernel: the address that stands for the hinge loss.
HINGE = 0
#: The number of slots is a multiple of this, so that vector loops have no remainder.
GROUP = 16


@kernel
def _move(source, target, n_slots, d, buffer, labels, weights, place, owner):
    """Move a column to another position."""
    if source != target:
        for k in range(d):
            buffer[k * n_slots + target] = buffer[k * n_slots + source]
        labels[target] = labels[source]
        weights[target] = weights[source]
        slot = owner[source]
        owner[target] = slot
        place[slot] = target


@kernel
def _position(slot, label, by_label, pivot, d, buffer, labels, weights, place, owner, sizes):
    """Return the column for an example that takes a slot: the slot itself, or one by its label.

    By label, the columns of labels below the pivot stand at the beginning and the others at the
    end, without gaps: sizes[0] and sizes[1] of them.
    """
    if not by_label:
        return np.uintp(slot)
    n_slots = np.uintp(len(labels))
    one = np.uintp(1)
    side = 1 if label > pivot else 0
    if place[slot] >= 0:
        position = np.uintp(place[slot])
        old_side = 0 if position < np.uintp(sizes[0]) else 1
        if old_side == side:
            return position
        # Fill the gap with the innermost column of that side.
        inner = n_slots - np.uintp(sizes[1])
        if old_side == 0:
            inner = np.uintp(sizes[0]) - one
        _move(inner, position, n_slots, d, buffer, labels, weights, place, owner)
        sizes[old_side] -= 1
    sizes[side] += 1
    position = np.uintp(sizes[0]) - one if side == 0 else n_slots - np.uintp(sizes[1])
    place[slot] = position
    owner[position] = slot
    return position


@kernel
def _put(
    X,
    y,
    example_weight,
    row,
    slot,
    by_label,
    pivot,
    d,
    buffer,
    labels,
    weights,
    place,
    owner,
    sizes,
):
    """Copy an example to a slot; rows -2 and -3 are zeros of label -1 and +1."""
    n_slots = np.uintp(len(labels))
    label = 1.0 if row == -3 else -1.0
    if row >= 0:
        label = y[row]
    column = _position(
        slot, label, by_label, pivot, d, buffer, labels, weights, place, owner, sizes
    )
    labels[column] = label
    if row < 0:
        for k in range(d):
            buffer[k * n_slots + column] = 0.0
        weights[column] = 1.0
        return
    base = np.uintp(row) * d
    for k in range(d):
        buffer[k * n_slots + column] = X[base + k]
    weights[column] = example_weight[row] if len(example_weight) > 0 else 1.0


@kernel
def load_slots(
    X, y, example_weight, start, by_label, pivot, d, buffer, labels, weights, place, owner, sizes
):
    """Copy the examples that stand in the slots at the start of a plan (-1: none)."""
    for slot in range(len(start)):
        if start[slot] != -1:
            _put(
                X, y, example_weight, start[slot], slot, by_label, pivot, np.uintp(d), buffer,
                labels, weights, place, owner, sizes,
            )  # fmt: skip


@kernel
def descend_slots(
    X,
    y,
    current,
    first,
    stop,
    edit_offsets,
    edit_slots,
    edit_rows,
    step_sizes,
    paid,
    example_weight,
    by_label,
    pivot,
    buffer,
    labels,
    weights,
    place,
    owner,
    sizes,
    w,
    weighted_sum,
    left_iterate,
    state,
    radius,
    slope_address,
    parameter,
    one_sided,
    all_pairs,
    scores,
    slopes,
    counts,
    proximal,
):
    """Take the steps of a plan; return a status."""
    real = X.dtype.type
    one = np.uintp(1)
    four = np.uintp(4)
    group = np.uintp(GROUP)
    d = np.uintp(len(w))
    whole = d // four * four
    n_slots = np.uintp(len(labels))
    weighted = len(example_weight) > 0
    radius_squared = real(radius * radius)
    margin = real(parameter)
    zero = real(0.0)
    unit = real(1.0)
    both = zero if one_sided else unit
    base = state[0]
    n_steps = len(current)
    for t in range(n_steps):
        i = np.uintp(current[t])
        row = i * d
        if t == n_steps - 1:
            for k in range(d):
                left_iterate[k] = w[k]
        begin = np.uintp(first[t])
        end = np.uintp(stop[t])
        if by_label:
            # Everyone of the other label, which stands together.
            begin = np.uintp(0)
            end = np.uintp(sizes[0])
            if y[i] < pivot:
                begin = n_slots - np.uintp(sizes[1])
                end = n_slots
        # Whole groups of slots; those outside the range get slope zero.
        low = begin // group * group
        high = (end + group - one) // group * group
        y_i = y[i]
        own = real(0.0)
        for k in range(d):
            own += w[k] * X[row + k]
        for q in range(low, high):
            scores[q] = own
        for k in range(np.uintp(0), whole, four):
            w0 = w[k]
            w1 = w[k + one]
            w2 = w[k + np.uintp(2)]
            w3 = w[k + np.uintp(3)]
            line0 = k * n_slots
            line1 = line0 + n_slots
            line2 = line1 + n_slots
            line3 = line2 + n_slots
            for q in range(low, high):
                scores[q] -= (w0 * buffer[line0 + q] + w1 * buffer[line1 + q]) + (
                    w2 * buffer[line2 + q] + w3 * buffer[line3 + q]
                )
        for k in range(whole, d):
            w0 = w[k]
            line0 = k * n_slots
            for q in range(low, high):
                scores[q] -= w0 * buffer[line0 + q]
        pull = real(0.0)
        n_moving = 0
        n_active = 0
        if slope_address == HINGE:
            # Numbers instead of truth values: the loop has no branch and becomes vector code.
            n_met = real(0.0)
            n_violated = real(0.0)
            for q in range(begin, end):
                above = unit if labels[q] < y_i else zero
                below = both if labels[q] > y_i else zero
                n_met += above + below
                above = above if scores[q] < margin else zero
                below = below if -scores[q] < margin else zero
                n_violated += above + below
                slopes[q] = below - above
                pull += below - above
            n_active = np.int64(n_met)
            n_moving = np.int64(n_violated)
        else:
            for q in range(begin, end):
                slope = 0.0
                label = labels[q]
                if (y_i > label) or ((y_i < label) and not one_sided) or all_pairs:
                    n_active += 1
                    slope = call_scalar(slope_address, np.float64(scores[q]), y_i, label, parameter)
                    if slope != slope:
                        return LOSS_IS_NAN + 4 * np.int64(t)
                    n_moving += slope != 0.0
                slopes[q] = real(slope)
                pull += real(slope)
        counts[0] += n_active
        if n_moving > 0:
            for q in range(low, begin):
                slopes[q] = real(0.0)
            for q in range(end, high):
                slopes[q] = real(0.0)
            step = real(step_sizes[t])
            if weighted:
                pull = real(0.0)
                for q in range(begin, end):
                    slopes[q] *= real(weights[q])
                    pull += slopes[q]
                step *= real(example_weight[i])
            owed = real(paid[t] - base)
            base = paid[t]
            norm_squared = real(0.0)
            for k in range(np.uintp(0), whole, four):
                line0 = k * n_slots
                line1 = line0 + n_slots
                line2 = line1 + n_slots
                line3 = line2 + n_slots
                g0 = real(0.0)
                g1 = real(0.0)
                g2 = real(0.0)
                g3 = real(0.0)
                for q in range(low, high):
                    slope_q = slopes[q]
                    g0 += slope_q * buffer[line0 + q]
                    g1 += slope_q * buffer[line1 + q]
                    g2 += slope_q * buffer[line2 + q]
                    g3 += slope_q * buffer[line3 + q]
                for j in range(four):
                    g = g0 if j == 0 else g1 if j == 1 else g2 if j == 2 else g3
                    w_k = w[k + j]
                    weighted_sum[k + j] += owed * w_k
                    w_k -= step * (pull * X[row + k + j] - g)
                    w[k + j] = w_k
                    norm_squared += w_k * w_k
            for k in range(whole, d):
                line0 = k * n_slots
                g0 = real(0.0)
                for q in range(low, high):
                    g0 += slopes[q] * buffer[line0 + q]
                w_k = w[k]
                weighted_sum[k] += owed * w_k
                w_k -= step * (pull * X[row + k] - g0)
                w[k] = w_k
                norm_squared += w_k * w_k
            if not norm_squared < radius_squared:
                if not norm_squared < np.inf:
                    return DIVERGED + 4 * np.int64(t)
                shrink = real(radius / math.sqrt(norm_squared))
                for k in range(d):
                    w[k] *= shrink
        elif proximal[4]:
            for k in range(d):
                weighted_sum[k] += real(paid[t] - base) * w[k]
            base = paid[t]
        if proximal[1] != 0 and (n_moving > 0 or proximal[4]):
            take_proximal(w, t, proximal)
        for e in range(edit_offsets[t], edit_offsets[t + 1]):
            _put(
                X, y, example_weight, edit_rows[e], edit_slots[e], by_label, pivot, d, buffer,
                labels, weights, place, owner, sizes,
            )  # fmt: skip
    state[0] = base
    return ended(w, n_steps - 1) if proximal[1] != 0 else np.int64(FINE)
