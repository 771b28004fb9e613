# SPDX-License-Identifier: BSD-3-Clause
r"""Pairwise SGD for the linear score with a buffer, on dense and on CSR rows.

At step t the example ``current[t]`` meets the examples that the slots from ``first[t]`` to
``stop[t]`` hold, and w moves against the sum of their gradients. Then the entries from
``edit_offsets[t]`` to ``edit_offsets[t + 1]`` put ``edit_rows`` into ``edit_slots``.

Arrays (besides those of the dense kernel)
------
example_weight : float64, shape (n,) or (0,)
    Weights of the examples.
meetings : (current, first, stop, edit_offsets, edit_slots, edit_rows)
    The steps of a `pairings.SlotPlan`.
held : int64, shape (n_slots,)
    The row in each slot, modified in place; -2 and -3 are zero rows of label -1 and +1.
loss : (address, parameter, one_sided, all_pairs)
    The derivative of the loss, and which pairs count.
slopes : float64, shape (n_slots,)
    Scratch.
counts : int64, shape (1,)
    Increased by the number of evaluated pairs.
proximal, every_step
    As in `every_step`, and whether the domain acts at steps without a gradient too.
"""

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, kernel, part
from pairlearn.kernels.steps.every_step import DOMAIN_IS_NAN, take_proximal
from pairlearn.kernels.steps.pieces import (
    add_multiple,
    copy,
    dot,
    is_active,
    keep_in_ball,
    pay,
    slope_of,
    squared_norm,
)


@part
def _fill_slopes(rows, y, example_weight, i, begin, end, held, w, loss, slopes, counts):
    """Fill the slopes of the pairs of a row with the slots; return their number, -1 for NaN."""
    address, parameter, one_sided, all_pairs = loss
    score = dot(rows, i, w)
    n_moving = 0
    for q in range(begin, end):
        j = held[q]
        label = y[j] if j >= 0 else (1.0 if j == -3 else -1.0)
        slopes[q] = 0.0
        if is_active(y[i], label, one_sided, all_pairs):
            gap = np.float64(score - dot(rows, j, w) if j >= 0 else score)
            slope = slope_of(address, gap, y[i], label, parameter)
            if slope != slope:
                return -1
            counts[0] += 1
            n_moving += slope != 0.0
            if len(example_weight) > 0:
                slope *= example_weight[i] * (example_weight[j] if j >= 0 else 1.0)
            slopes[q] = slope
    return n_moving


@part
def _step(rows, i, begin, end, held, step, slopes, w):
    """Move w against the gradients of the pairs of a row."""
    pull = 0.0
    for q in range(begin, end):
        pull += slopes[q]
    add_multiple(rows, i, -step * pull, w)
    for q in range(begin, end):
        if slopes[q] != 0.0 and held[q] >= 0:
            add_multiple(rows, held[q], step * slopes[q], w)


@kernel
def descend_slots(
    rows, y, example_weight, meetings, step_sizes, paid, held, w, weighted_sum, left_iterate,
    radius, loss, slopes, counts, proximal, every_step,
):  # fmt: skip
    """Take the steps of a plan; return a status."""
    current, first, stop, edit_offsets, edit_slots, edit_rows = meetings
    base = 0.0
    for t in range(len(current)):
        i, begin, end = current[t], first[t], stop[t]
        n_moving = _fill_slopes(
            rows, y, example_weight, i, begin, end, held, w, loss, slopes, counts
        )
        if n_moving < 0:
            return LOSS_IS_NAN + 4 * np.int64(t)
        if t == len(current) - 1:
            copy(w, left_iterate)
        if n_moving > 0 or every_step:
            pay(w, paid[t] - base, weighted_sum)
            base = paid[t]
            _step(rows, i, begin, end, held, step_sizes[t], slopes, w)
            if not keep_in_ball(w, squared_norm(w), radius):
                return DIVERGED + 4 * np.int64(t)
            if not take_proximal(w, t, proximal):
                return DOMAIN_IS_NAN + 4 * np.int64(t)
        for e in range(edit_offsets[t], edit_offsets[t + 1]):
            held[edit_slots[e]] = edit_rows[e]
    pay(w, paid[-1] - base, weighted_sum)
    return np.int64(FINE)
