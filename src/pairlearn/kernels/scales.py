# SPDX-License-Identifier: BSD-3-Clause
"""Measure ranges and spreads of columns, and scale rows by them.

Arrays
------
X : float64 or float32, shape (n * d,)
    Examples, row after row.
data, indices, indptr
    The arrays of a CSR matrix.
weight : float64, shape (n,)
    How often each example counts.
inverse : float64, shape (d,)
    A power of two for each column: 1, unless squares of its values would overflow or underflow.
low, high, shift, total, squares : float64, shape (d,)
    Modified in place: the extremes of each column, a typical value (`shift`), and the weighted sums
    of (value - shift) and of its square. Sums about a value of the column itself do not cancel.
atom, votes : float64, shape (d,)
    Modified in place: the value of more than half of the column, if there is one, and its lead (the
    majority vote of Boyer and Moore, with weights).
"""

import numpy as np

from pairlearn.kernels._native import as_written, kernel, part


@part
def vote(value, w, k, atom, votes):
    """Let a value of column k vote with weight w."""
    lead = votes[k] + (w if value == atom[k] else -w)
    atom[k] = value if lead < 0.0 else atom[k]
    votes[k] = abs(lead)


@as_written
def column_sums(X, n, weight, inverse, low, high, shift, total, squares):
    """Fill the sums of the columns of n dense rows, which are multiplied by `inverse` first.

    Without weights all examples count the same.
    """
    d = np.uintp(len(low))
    for k in range(d):
        low[k] = high[k] = shift[k] = np.float64(X[k]) * inverse[k]
        total[k] = squares[k] = 0.0
    for i in range(np.uintp(n)):
        w = weight[i] if len(weight) > 0 else 1.0
        for k in range(d):
            value = np.float64(X[i * d + k]) * inverse[k]
            lowest, highest = low[k], high[k]
            low[k] = value if value < lowest else lowest
            high[k] = value if value > highest else highest
            excess = value - shift[k]
            total[k] += w * excess
            squares[k] += w * excess * excess


@kernel
def column_counts(X, weight, inverse, atom, votes, count):
    """Fill `count` with the total weight of the examples that have the majority value."""
    d = np.uintp(len(atom))
    for k in range(d):
        atom[k] = np.float64(X[k]) * inverse[k]
        votes[k] = 0.0
        count[k] = 0.0
    for i in range(np.uintp(len(weight))):
        base = i * d
        w = weight[i]
        for k in range(d):
            vote(np.float64(X[base + k]) * inverse[k], w, k, atom, votes)
    for i in range(np.uintp(len(weight))):
        base = i * d
        w = weight[i]
        for k in range(d):
            count[k] += w if np.float64(X[base + k]) * inverse[k] == atom[k] else 0.0


@kernel
def csr_column_sums(data, indices, indptr, weight, inverse, stored, low, high, total, atom, votes):
    """Fill weights, extremes, sums and votes of the stored values of each column, in units.

    A zero that is stored counts as one that is not, here and in `csr_column_squares`.
    """
    for k in range(len(low)):
        stored[k] = 0.0
        total[k] = 0.0
        low[k] = np.inf
        high[k] = -np.inf
        atom[k] = 0.0
        votes[k] = 0.0
    for i in range(len(weight)):
        w = weight[i]
        for p in range(indptr[i], indptr[i + 1]):
            k = indices[p]
            value = np.float64(data[p]) * inverse[k]
            if value == 0.0:
                continue
            stored[k] += w
            low[k] = min(low[k], value)
            high[k] = max(high[k], value)
            total[k] += w * value
            vote(value, w, k, atom, votes)


@kernel
def csr_column_squares(data, indices, indptr, weight, inverse, mean, atom, squares, count):
    """Fill the sums of squared distances of stored values from the mean, and counts of the atom."""
    for k in range(len(squares)):
        squares[k] = 0.0
        count[k] = 0.0
    for i in range(len(weight)):
        w = weight[i]
        for p in range(indptr[i], indptr[i + 1]):
            k = indices[p]
            value = np.float64(data[p]) * inverse[k]
            if value == 0.0:
                continue
            squares[k] += w * (value - mean[k]) * (value - mean[k])
            count[k] += w if value == atom[k] else 0.0


@kernel
def scale_rows(X, inverse, centre, factor, scaled):
    """Fill `scaled` with (x * inverse - centre) * factor, computed in double precision."""
    d = np.uintp(len(centre))
    for i in range(np.uintp(len(X)) // d):
        base = i * d
        for k in range(d):
            scaled[base + k] = (np.float64(X[base + k]) * inverse[k] - centre[k]) * factor[k]
