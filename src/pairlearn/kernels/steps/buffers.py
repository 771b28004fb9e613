# SPDX-License-Identifier: BSD-3-Clause
r"""Pairwise SGD for the linear score with a buffer, on dense rows.

The rows of the buffer are copied to the columns of an array with one line per feature, so that
scores and gradients of neighbouring slots are computed together. A step needs the scores of the
slots that it meets, their slopes l_q, and

    sum_q l_q (x - x_q) = (sum_q l_q) x - sum_q l_q x_q:

the slopes are summed first, so the current row is used only once.

Columns are sorted by label (`by_label`, with a `pivot` between the labels) if there are two labels,
only opposite pairs count, and a plan meets every example of the other label in the buffer, as all
pairings here do. A step then reads the columns of the other label only. Otherwise the column of
slot q is q, and a step reads the range of its plan.

Arrays (besides those of the dense kernel and of `Meetings`)
------
example_weight : float64, shape (n,) or empty
    Weights of the examples.
scores, slopes : real, shape (n_slots,)
    Scratch.
counts : int64, shape (1,)
    Increased by the number of evaluated pairs.
proximal : tuple
    As in `kernels.steps.coordinatewise`; the address is 0 if the domain has a radius only.
"""

from typing import Any, NamedTuple

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, call_scalar, kernel, part
from pairlearn.kernels.arguments import Iterate, Loss, Meetings
from pairlearn.kernels.steps.coordinatewise import ended, take_proximal
from pairlearn.kernels.steps.dense import HINGE
from pairlearn.kernels.steps.pieces import copy, is_active, keep_in_ball, label_of

#: The number of slots is a multiple of this, so that vector loops have no remainder.
GROUP = 16


class Slots(NamedTuple):
    """The examples in the buffer, modified in place.

    buffer : real, shape (d * n_slots,)
        Feature k of the row in column q at k * n_slots + q.
    labels, weights : float64, shape (n_slots,)
        Labels and weights of the examples in the columns.
    place, owner : int64, shape (n_slots,); sizes : int64, shape (2,)
        Only by label: the column of each slot (-1: none), the slot of each column, and the number
        of columns of the lower and of the higher label.
    """

    by_label: Any
    pivot: Any
    buffer: Any
    labels: Any
    weights: Any
    place: Any
    owner: Any
    sizes: Any


@part
def _move(source, target, d, slots):
    """Move a column to another position."""
    n_slots = np.uintp(len(slots.labels))
    if source != target:
        for k in range(d):
            slots.buffer[k * n_slots + target] = slots.buffer[k * n_slots + source]
        slots.labels[target] = slots.labels[source]
        slots.weights[target] = slots.weights[source]
        slot = slots.owner[source]
        slots.owner[target] = slot
        slots.place[slot] = target


@part
def _position(slot, label, d, slots):
    """Return the column for an example that takes a slot: the slot itself, or one by its label.

    By label, the sizes[0] columns below the pivot stand at the beginning and the sizes[1] others at
    the end, without gaps.
    """
    if not slots.by_label:
        return np.uintp(slot)
    place, sizes = slots.place, slots.sizes
    n_slots = np.uintp(len(slots.labels))
    one = np.uintp(1)
    side = 1 if label > slots.pivot else 0
    if place[slot] >= 0:
        position = np.uintp(place[slot])
        old_side = 0 if position < np.uintp(sizes[0]) else 1
        if old_side == side:
            return position
        # Fill the gap with the innermost column of that side.
        inner = n_slots - np.uintp(sizes[1])
        if old_side == 0:
            inner = np.uintp(sizes[0]) - one
        _move(inner, position, d, slots)
        sizes[old_side] -= 1
    sizes[side] += 1
    position = np.uintp(sizes[0]) - one if side == 0 else n_slots - np.uintp(sizes[1])
    place[slot] = position
    slots.owner[position] = slot
    return position


@part
def _put(X, y, example_weight, row, slot, d, slots):
    """Copy an example to a slot; negative rows are zeros."""
    n_slots = np.uintp(len(slots.labels))
    label = label_of(row, y)
    column = _position(slot, label, d, slots)
    slots.labels[column] = label
    if row < 0:
        for k in range(d):
            slots.buffer[k * n_slots + column] = 0.0
        slots.weights[column] = 1.0
        return
    base = np.uintp(row) * d
    for k in range(d):
        slots.buffer[k * n_slots + column] = X[base + k]
    slots.weights[column] = example_weight[row] if len(example_weight) > 0 else 1.0


@kernel
def load_slots(X, y, example_weight, start, d, slots):
    """Copy the examples in the slots at the start of a plan (-1: none)."""
    for slot in range(len(start)):
        if start[slot] != -1:
            _put(X, y, example_weight, start[slot], slot, np.uintp(d), Slots(*slots))


@part
def _met(first, stop, label, slots):
    """Return the range of columns that an example meets."""
    if not slots.by_label:
        return np.uintp(first), np.uintp(stop)
    # All examples of the other label, which are adjacent.
    if label < slots.pivot:
        n_slots = np.uintp(len(slots.labels))
        return n_slots - np.uintp(slots.sizes[1]), n_slots
    return np.uintp(0), np.uintp(slots.sizes[0])


@part
def _fill_scores(X, row, w, buffer, n_slots, low, high, scores):
    """Compute the scores of the pairs of a row with the columns from `low` to `high`."""
    one, two, three, four = np.uintp(1), np.uintp(2), np.uintp(3), np.uintp(4)
    d = np.uintp(len(w))
    whole = d // four * four
    own = X.dtype.type(0.0)
    for k in range(d):
        own += w[k] * X[row + k]
    for q in range(low, high):
        scores[q] = own
    for k in range(np.uintp(0), whole, four):
        w0 = w[k]
        w1 = w[k + one]
        w2 = w[k + two]
        w3 = w[k + three]
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


@part
def _fill_hinge_slopes(y_i, labels, scores, begin, end, loss, slopes):
    """Fill the slopes; return their sum, and the numbers of active and of moving pairs."""
    real = scores.dtype.type
    margin = real(loss.parameter)
    zero = real(0.0)
    unit = real(1.0)
    both = zero if loss.one_sided else unit
    pull = real(0.0)
    # Numbers instead of booleans: the loop has no branch and becomes vector code.
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
    return pull, np.int64(n_met), np.int64(n_violated)


@part
def _fill_slopes(y_i, labels, scores, begin, end, loss, slopes):
    """Fill the slopes of any loss, by address; return -1 moving pairs if a slope is NaN."""
    real = scores.dtype.type
    pull = real(0.0)
    n_moving = np.int64(0)
    n_active = np.int64(0)
    for q in range(begin, end):
        slope = 0.0
        label = labels[q]
        if is_active(y_i, label, loss.one_sided, loss.all_pairs):
            n_active += 1
            slope = call_scalar(loss.address, np.float64(scores[q]), y_i, label, loss.parameter)
            if slope != slope:
                return pull, n_active, np.int64(-1)
            n_moving += slope != 0.0
        slopes[q] = real(slope)
        pull += real(slope)
    return pull, n_active, n_moving


@part
def _weigh(weights, begin, end, slopes):
    """Multiply the slopes by the weights of their columns; return their sum."""
    real = slopes.dtype.type
    pull = real(0.0)
    for q in range(begin, end):
        slopes[q] *= real(weights[q])
        pull += slopes[q]
    return pull


@part
def _update(X, row, k, step, pull, gradient, owed, w, weighted_sum):
    """Add the weight owed to coordinate k to the sum, and move it; return its square."""
    w_k = w[k]
    weighted_sum[k] += owed * w_k
    w_k -= step * (pull * X[row + k] - gradient)
    w[k] = w_k
    return w_k * w_k


@part
def _step(X, row, step, pull, owed, w, weighted_sum, buffer, n_slots, low, high, slopes):
    """Add the weight owed to w to the sum, and move w along a row's pairs; return ||w||^2."""
    real = X.dtype.type
    one, two, three, four = np.uintp(1), np.uintp(2), np.uintp(3), np.uintp(4)
    d = np.uintp(len(w))
    whole = d // four * four
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
            slope = slopes[q]
            g0 += slope * buffer[line0 + q]
            g1 += slope * buffer[line1 + q]
            g2 += slope * buffer[line2 + q]
            g3 += slope * buffer[line3 + q]
        norm_squared += _update(X, row, k, step, pull, g0, owed, w, weighted_sum)
        norm_squared += _update(X, row, k + one, step, pull, g1, owed, w, weighted_sum)
        norm_squared += _update(X, row, k + two, step, pull, g2, owed, w, weighted_sum)
        norm_squared += _update(X, row, k + three, step, pull, g3, owed, w, weighted_sum)
    for k in range(whole, d):
        g0 = real(0.0)
        for q in range(low, high):
            g0 += slopes[q] * buffer[k * n_slots + q]
        norm_squared += _update(X, row, k, step, pull, g0, owed, w, weighted_sum)
    return norm_squared


@kernel
def descend_slots(
    X,
    y,
    example_weight,
    meetings,
    step_sizes,
    paid,
    slots,
    iterate,
    radius,
    loss,
    scores,
    slopes,
    counts,
    proximal,
):
    """Take the steps of a plan; return a status."""
    meetings, slots = Meetings(*meetings), Slots(*slots)
    iterate, loss = Iterate(*iterate), Loss(*loss)
    real = X.dtype.type
    one = np.uintp(1)
    group = np.uintp(GROUP)
    w = iterate.w
    d = np.uintp(len(w))
    n_slots = np.uintp(len(slots.labels))
    base = iterate.state[0]
    n_steps = len(meetings.current)
    for t in range(n_steps):
        i = np.uintp(meetings.current[t])
        row = i * d
        if t == n_steps - 1:
            copy(w, iterate.left_iterate)
        begin, end = _met(meetings.first[t], meetings.stop[t], y[i], slots)
        # Whole groups of slots; slots outside the range get slope zero.
        low = begin // group * group
        high = (end + group - one) // group * group
        _fill_scores(X, row, w, slots.buffer, n_slots, low, high, scores)
        if loss.address == HINGE:
            pull, n_active, n_moving = _fill_hinge_slopes(
                y[i], slots.labels, scores, begin, end, loss, slopes
            )
        else:
            pull, n_active, n_moving = _fill_slopes(
                y[i], slots.labels, scores, begin, end, loss, slopes
            )
            if n_moving < 0:
                return LOSS_IS_NAN + 4 * np.int64(t)
        counts[0] += n_active
        if n_moving > 0:
            slopes[low:begin] = real(0.0)
            slopes[end:high] = real(0.0)
            step = real(step_sizes[t])
            if len(example_weight) > 0:
                pull = _weigh(slots.weights, begin, end, slopes)
                step *= real(example_weight[i])
            owed = real(paid[t] - base)
            base = paid[t]
            norm_squared = _step(
                X, row, step, pull, owed, w, iterate.weighted_sum, slots.buffer, n_slots, low,
                high, slopes,
            )  # fmt: skip
            if not keep_in_ball(w, norm_squared, radius):
                return DIVERGED + 4 * np.int64(t)
        elif proximal[4]:
            owed = real(paid[t] - base)
            base = paid[t]
            for k in range(d):
                iterate.weighted_sum[k] += owed * w[k]
        if proximal[1] != 0 and (n_moving > 0 or proximal[4]):
            take_proximal(w, t, proximal)
        for e in range(meetings.edit_offsets[t], meetings.edit_offsets[t + 1]):
            _put(X, y, example_weight, meetings.edit_rows[e], meetings.edit_slots[e], d, slots)
    iterate.state[0] = base
    return ended(w, n_steps - 1) if proximal[1] != 0 else np.int64(FINE)
