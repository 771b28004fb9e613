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

from pairlearn.kernels._native import as_written, double_bits, kernel, part


@part
def vote(value, w, k, atom, votes):
    """Let a value of column k vote with weight w."""
    lead = votes[k] + (w if value == atom[k] else -w)
    atom[k] = value if lead < 0.0 else atom[k]
    votes[k] = abs(lead)


@kernel
def column_sums(X, weight, inverse, low, high, shift, total, squares):
    """Fill the sums of dense columns in one pass; values are multiplied by `inverse` first.

    Without weights all examples count the same. It takes four rows at once, so that sums are loaded
    and stored a quarter as often.
    """
    d = np.uintp(len(low))
    n = np.uintp(len(X)) // d
    weighted = len(weight) > 0
    w_0 = w_1 = w_2 = w_3 = 1.0
    for k in range(d):
        value = np.float64(X[k]) * inverse[k]
        shift[k] = value
        low[k] = value
        high[k] = value
        total[k] = 0.0
        squares[k] = 0.0
    whole = n - n % np.uintp(4)
    for i in range(np.uintp(0), whole, np.uintp(4)):
        at_0 = i * d
        at_1, at_2, at_3 = at_0 + d, at_0 + np.uintp(2) * d, at_0 + np.uintp(3) * d
        if weighted:
            w_0, w_1 = weight[i], weight[i + np.uintp(1)]
            w_2, w_3 = weight[i + np.uintp(2)], weight[i + np.uintp(3)]
        for k in range(d):
            unit, first = inverse[k], shift[k]
            x_0, x_1 = np.float64(X[at_0 + k]) * unit, np.float64(X[at_1 + k]) * unit
            x_2, x_3 = np.float64(X[at_2 + k]) * unit, np.float64(X[at_3 + k]) * unit
            low_01, low_23 = x_0 if x_0 < x_1 else x_1, x_2 if x_2 < x_3 else x_3
            lowest, least = low[k], low_01 if low_01 < low_23 else low_23
            low[k] = least if least < lowest else lowest
            high_01, high_23 = x_0 if x_0 > x_1 else x_1, x_2 if x_2 > x_3 else x_3
            highest, most = high[k], high_01 if high_01 > high_23 else high_23
            high[k] = most if most > highest else highest
            e_0, e_1, e_2, e_3 = x_0 - first, x_1 - first, x_2 - first, x_3 - first
            total[k] += (w_0 * e_0 + w_1 * e_1) + (w_2 * e_2 + w_3 * e_3)
            squares[k] += w_0 * e_0 * e_0 + w_1 * e_1 * e_1 + (w_2 * e_2 * e_2 + w_3 * e_3 * e_3)
    for i in range(whole, n):
        base = i * d
        w = weight[i] if weighted else 1.0
        for k in range(d):
            value = np.float64(X[base + k]) * inverse[k]
            lowest, highest = low[k], high[k]
            low[k] = value if value < lowest else lowest
            high[k] = value if value > highest else highest
            excess = value - shift[k]
            total[k] += w * excess
            squares[k] += w * excess * excess


@as_written
def column_extents(X, low, high, exponents, n_values):
    """Widen the extremes of columns, and add up and count the exponents of values.

    `exponents` and `n_values` are of int64, shape (d,). An exponent counts as the bits of a double
    hold it; that of 0 and of subnormal numbers is 0 and does not count.
    """
    d = np.uintp(len(low))
    below, bits = np.uint64(52), np.uint64(0x7FF)
    for i in range(np.uintp(len(X)) // d):
        base = i * d
        for k in range(d):
            value = np.float64(X[base + k])
            lowest, highest = low[k], high[k]
            low[k] = value if value < lowest else lowest
            high[k] = value if value > highest else highest
            exponent = np.int64((double_bits(value) >> below) & bits)
            exponents[k] += exponent
            n_values[k] += np.int64(exponent != 0)


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
    """Fill weights, extremes, sums and votes of the stored values of each column, in units."""
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
