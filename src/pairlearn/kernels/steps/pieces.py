# SPDX-License-Identifier: BSD-3-Clause
"""Pieces that several step kernels share."""

import math

import numpy as np

from pairlearn.kernels._native import part


@part
def copy(source, target):
    """Copy a vector."""
    for k in range(np.uintp(len(target))):
        target[k] = source[k]


@part
def is_active(y, y_partner, one_sided, all_pairs):
    """Return whether a pair counts: its labels differ, or the left one is larger, or always."""
    return (y > y_partner) or ((y < y_partner) and not one_sided) or all_pairs


@part
def keep_in_ball(w, norm_squared, radius):
    """Project w onto the ball; return whether it is finite."""
    real = w.dtype.type
    if norm_squared < real(radius * radius):
        return True
    if not norm_squared < np.inf:
        return False
    shrink = real(radius / math.sqrt(norm_squared))
    for k in range(np.uintp(len(w))):
        w[k] *= shrink
    return True


@part
def squared_norm(w):
    """Return ||w||^2."""
    total = w.dtype.type(0.0)
    for k in range(np.uintp(len(w))):
        total += w[k] * w[k]
    return total


@part
def bounds(rows, i):
    """Return the begin and the end of a CSR row."""
    i = np.uintp(i)
    return np.uintp(rows.indptr[i]), np.uintp(rows.indptr[i + np.uintp(1)])


@part
def dot(rows, i, v):
    """Return <x, v> of a CSR row."""
    total = 0.0
    first, last = bounds(rows, i)
    for q in range(first, last):
        total += rows.data[q] * v[np.uintp(rows.indices[q])]
    return total


@part
def add_multiple(rows, i, factor, v):
    """Add a multiple of a CSR row to v."""
    first, last = bounds(rows, i)
    for q in range(first, last):
        v[np.uintp(rows.indices[q])] += factor * rows.data[q]


@part
def label_of(row, y):
    """Return the label of a row in a slot; rows -2 and -3 are zeros of label -1 and +1."""
    if row >= 0:
        return y[row]
    return 1.0 if row == -3 else -1.0
