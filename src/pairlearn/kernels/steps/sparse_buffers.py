# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise SGD for the linear score with a buffer, on CSR rows.

A step costs the non-zeros of the rows that it meets, and O(d) when it moves w, for the projection
and the average. Arrays are those of the other kernels. `held` (int64) holds the row in each slot
and is modified in place; -2 and -3 are zero rows of label -1 and +1.
"""

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, call_scalar, kernel, part
from pairlearn.kernels.arguments import Csr, Iterate, Loss, Meetings
from pairlearn.kernels.steps.coordinatewise import ended, take_proximal
from pairlearn.kernels.steps.pieces import (
    add_multiple,
    copy,
    dot,
    is_active,
    keep_in_ball,
    label_of,
    squared_norm,
)


@part
def _fill_slopes(rows, y, example_weight, i, begin, end, held, w, step_size, loss, slopes, counts):
    """Fill the moves of w by the slots from `begin` to `end`; return if w moves, -1 for NaN."""
    own = dot(rows, i, w)
    n_moving = np.int64(0)
    for q in range(begin, end):
        j = held[q]
        label = label_of(j, y)
        slopes[q] = 0.0
        if is_active(y[i], label, loss.one_sided, loss.all_pairs):
            score = own - dot(rows, j, w) if j >= 0 else own
            slope = call_scalar(loss.address, score, y[i], label, loss.parameter)
            if slope != slope:
                return np.int64(-1)
            counts[0] += 1
            n_moving += slope != 0.0
            slope *= step_size
            if len(example_weight) > 0:
                slope *= example_weight[i]
                if j >= 0:
                    slope *= example_weight[j]
            slopes[q] = slope
    return n_moving


@part
def _step(rows, i, begin, end, held, slopes, w):
    """Move w along the pairs of a row."""
    pull = 0.0
    for q in range(begin, end):
        pull += slopes[q]
    add_multiple(rows, i, -pull, w)
    for q in range(begin, end):
        if slopes[q] != 0.0 and held[q] >= 0:
            add_multiple(rows, held[q], slopes[q], w)


@kernel
def descend_slots_csr(
    rows,
    y,
    example_weight,
    meetings,
    step_sizes,
    paid,
    held,
    iterate,
    radius,
    loss,
    slopes,
    counts,
    proximal,
):
    """Take the steps of a plan; return a status."""
    rows, meetings, iterate, loss = Csr(*rows), Meetings(*meetings), Iterate(*iterate), Loss(*loss)
    w = iterate.w
    base = iterate.state[0]
    n_steps = len(meetings.current)
    for t in range(n_steps):
        i = meetings.current[t]
        begin, end = meetings.first[t], meetings.stop[t]
        if t == n_steps - 1:
            copy(w, iterate.left_iterate)
        n_moving = _fill_slopes(
            rows, y, example_weight, i, begin, end, held, w, step_sizes[t], loss, slopes, counts
        )
        if n_moving < 0:
            return LOSS_IS_NAN + 4 * np.int64(t)
        if n_moving > 0:
            owed = paid[t] - base
            base = paid[t]
            for k in range(len(w)):
                iterate.weighted_sum[k] += owed * w[k]
            _step(rows, i, begin, end, held, slopes, w)
            if not keep_in_ball(w, squared_norm(w), radius):
                return DIVERGED + 4 * np.int64(t)
            if proximal[1] != 0:
                take_proximal(w, t, proximal)
        for e in range(meetings.edit_offsets[t], meetings.edit_offsets[t + 1]):
            held[meetings.edit_slots[e]] = meetings.edit_rows[e]
    iterate.state[0] = base
    return ended(w, n_steps - 1) if proximal[1] != 0 else np.int64(FINE)
