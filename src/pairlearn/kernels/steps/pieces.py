# SPDX-License-Identifier: BSD-3-Clause
"""Pieces that several step kernels share.

`rows` is a table, or the tuple (data, indices, indptr) of CSR rows, no index twice in a row.
"""

import math

import numpy as np
from numba import types
from numba.extending import overload

from pairlearn.kernels._native import FASTMATH, call_scalar, part

#: The address that stands for the hinge loss with margin `parameter`, which is built in.
HINGE = 0
_OPTIONS = {"fastmath": set(FASTMATH), "error_model": "numpy", "forceinline": True, "_nrt": False}


@part
def slope_of(address, score, y, y_partner, parameter):
    """Return the slope of the loss of a pair at its score."""
    if address != HINGE:
        return call_scalar(address, score, y, y_partner, parameter)
    sign = 1.0 if y > y_partner else -1.0
    return -sign if sign * score < parameter else 0.0


@part
def copy(source, target):
    """Copy a vector."""
    for k in range(len(target)):
        target[k] = source[k]


@part
def pay(w, owed, weighted_sum):
    """Add the iterate with the weight that it is owed to the weighted sum."""
    real = w.dtype.type
    for k in range(len(w)):
        weighted_sum[k] += real(owed) * w[k]


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
    for k in range(len(w)):
        w[k] *= shrink
    return True


@part
def squared_norm(w):
    """Return ||w||^2."""
    total = w.dtype.type(0.0)
    for k in range(len(w)):
        total += w[k] * w[k]
    return total


def dot(rows, i, w):
    """Return <w, x_i>."""
    raise NotImplementedError("numba takes the version for the type of the rows")


def add_multiple(rows, i, factor, w):
    """Add a multiple of row i to w."""
    raise NotImplementedError("numba takes the version for the type of the rows")


def _dense_dot(rows, i, w):
    x = rows[np.uintp(i)]
    total = w.dtype.type(0.0)
    for k in range(np.uintp(len(w))):
        total += w[k] * x[k]
    return total


def _sparse_dot(rows, i, w):
    data, indices, indptr = rows
    total = 0.0
    for q in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
        total += data[q] * w[np.uintp(indices[q])]
    return total


def _dense_add_multiple(rows, i, factor, w):
    x = rows[np.uintp(i)]
    factor = w.dtype.type(factor)
    for k in range(np.uintp(len(w))):
        w[k] += factor * x[k]


def _sparse_add_multiple(rows, i, factor, w):
    data, indices, indptr = rows
    for q in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
        w[np.uintp(indices[q])] += factor * data[q]


@overload(dot, jit_options=_OPTIONS)
def _choose_dot(rows, i, w):
    return _dense_dot if isinstance(rows, types.Array) else _sparse_dot


@overload(add_multiple, jit_options=_OPTIONS)
def _choose_add_multiple(rows, i, factor, w):
    return _dense_add_multiple if isinstance(rows, types.Array) else _sparse_add_multiple
