# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise SGD for the linear score with a buffer, on CSR rows.

A step costs the non-zeros of the rows that it meets, and O(d) when it moves w, for the projection
and the average. Arrays are those of the other kernels; `held` (int64) holds the row in each slot
and is modified in place, -2 and -3 standing for zero rows of label -1 and +1.
"""

import math

import numpy as np

from pairlearn.kernels._native import DIVERGED, FINE, LOSS_IS_NAN, call_scalar, kernel
from pairlearn.kernels.coordinatewise import ended, take_proximal


@kernel
def _score(data, indices, indptr, row, w):
    """Return <x, w> of a row."""
    total = 0.0
    for q in range(np.uintp(indptr[row]), np.uintp(indptr[row + 1])):
        total += data[q] * w[np.uintp(indices[q])]
    return total


@kernel
def _add(data, indices, indptr, row, factor, w):
    """Add a multiple of a row to w."""
    for q in range(np.uintp(indptr[row]), np.uintp(indptr[row + 1])):
        w[np.uintp(indices[q])] += factor * data[q]


@kernel
def descend_slots_csr(
    data,
    indices,
    indptr,
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
    held,
    w,
    weighted_sum,
    left_iterate,
    state,
    radius,
    slope_address,
    parameter,
    one_sided,
    all_pairs,
    slopes,
    counts,
    proximal,
):
    """Take the steps of a plan; return a status."""
    d = len(w)
    weighted = len(example_weight) > 0
    base = state[0]
    n_steps = len(current)
    for t in range(n_steps):
        i = current[t]
        if t == n_steps - 1:
            for k in range(d):
                left_iterate[k] = w[k]
        own = _score(data, indices, indptr, i, w)
        pull = 0.0
        n_moving = 0
        for q in range(first[t], stop[t]):
            j = held[q]
            label = 1.0 if j == -3 else -1.0
            if j >= 0:
                label = y[j]
            slope = 0.0
            if (y[i] > label) or ((y[i] < label) and not one_sided) or all_pairs:
                score = own
                if j >= 0:
                    score -= _score(data, indices, indptr, j, w)
                slope = call_scalar(slope_address, score, y[i], label, parameter)
                if slope != slope:
                    return LOSS_IS_NAN + 4 * np.int64(t)
                counts[0] += 1
                n_moving += slope != 0.0
                slope *= step_sizes[t]
                if weighted:
                    slope *= example_weight[i]
                    if j >= 0:
                        slope *= example_weight[j]
            slopes[q] = slope
            pull += slope
        if n_moving > 0:
            owed = paid[t] - base
            base = paid[t]
            for k in range(d):
                weighted_sum[k] += owed * w[k]
            _add(data, indices, indptr, i, -pull, w)
            for q in range(first[t], stop[t]):
                if slopes[q] != 0.0 and held[q] >= 0:
                    _add(data, indices, indptr, held[q], slopes[q], w)
            norm_squared = 0.0
            for k in range(d):
                norm_squared += w[k] * w[k]
            if not norm_squared < np.inf:
                return DIVERGED + 4 * np.int64(t)
            if norm_squared > radius * radius:
                shrink = radius / math.sqrt(norm_squared)
                for k in range(d):
                    w[k] *= shrink
            if proximal[1] != 0:
                take_proximal(w, t, proximal)
        for e in range(edit_offsets[t], edit_offsets[t + 1]):
            held[edit_slots[e]] = edit_rows[e]
    state[0] = base
    return ended(w, n_steps - 1) if proximal[1] != 0 else np.int64(FINE)
