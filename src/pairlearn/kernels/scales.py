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

from pairlearn.kernels._native import (
    as_written,
    kernel,
    part,
    part_as_written,
    prefetch,
)
from pairlearn.kernels.steps.vectors import (
    BYTES,
    filled,
    greater,
    lesser,
    minus,
    plus,
    plus_product,
    read,
    read_doubles,
    read_first_doubles,
    times,
    write,
)

#: Numbers of a vector.
LANES = 8
#: Rows are prefetched this many lines of the cache ahead.
AHEAD = np.uintp(64)
#: Rows of an index are prefetched this many rows ahead.
NEXT = np.uintp(8)


@part
def vote(value, w, k, atom, votes):
    """Let a value of column k vote with weight w."""
    lead = votes[k] + (w if value == atom[k] else -w)
    atom[k] = value if lead < 0.0 else atom[k]
    votes[k] = abs(lead)


@part_as_written
def _take_four(four, w, weighted, k, inverse, sums):
    """Add a vector of columns of four rows to the sums, with their weights if there are any."""
    low, high, shift, total_, squares = sums
    unit, first = read(inverse, k), read(shift, k)
    a, b = times(four[0], unit), times(four[1], unit)
    c, d = times(four[2], unit), times(four[3], unit)
    write(low, k, lesser(lesser(lesser(a, b), lesser(c, d)), read(low, k)))
    write(high, k, greater(greater(greater(a, b), greater(c, d)), read(high, k)))
    a, b, c, d = minus(a, first), minus(b, first), minus(c, first), minus(d, first)
    if weighted:
        e, f = times(filled(w[0]), a), times(filled(w[1]), b)
        g, h = times(filled(w[2]), c), times(filled(w[3]), d)
    else:
        e, f, g, h = a, b, c, d
    write(total_, k, plus(read(total_, k), plus(plus(e, f), plus(g, h))))
    square = plus_product(plus_product(times(e, a), f, b), g, c)
    write(squares, k, plus(read(squares, k), plus_product(square, h, d)))


@as_written
def column_sums(X, n, weight, inverse, low, high, shift, total, squares):
    """Fill the sums of the columns of n dense rows, which are multiplied by `inverse` first.

    Without weights all examples count the same. Sums and `inverse` have as many entries as whole
    vectors have; the last entries belong to no column and are 0. Four rows at once load and store
    sums a quarter as often.
    """
    n = np.uintp(n)
    d = np.uintp(len(X)) // n
    lanes, line = np.uintp(LANES), np.uintp(BYTES // X.itemsize)
    one, two, three, four = np.uintp(1), np.uintp(2), np.uintp(3), np.uintp(4)
    weighted, w = len(weight) > 0, (1.0, 1.0, 1.0, 1.0)
    sums = (low, high, shift, total, squares)
    for k in range(np.uintp(len(low))):
        low[k] = high[k] = shift[k] = np.float64(X[k]) * inverse[k] if k < d else 0.0
        total[k] = squares[k] = 0.0
    whole = d - d % lanes
    for i in range(np.uintp(0), n, four):
        # The last rows are filled up by the first one, whose excess is zero.
        at = i * d
        at_1 = at + d if i + one < n else np.uintp(0)
        at_2 = at + two * d if i + two < n else np.uintp(0)
        at_3 = at + three * d if i + three < n else np.uintp(0)
        if weighted:
            last = n - one
            w = (weight[i], weight[min(i + one, last)], weight[min(i + two, last)],
                 weight[min(i + three, last)])  # fmt: skip
        for k in range(np.uintp(0), four * d, line):
            prefetch(X, at + k + AHEAD * line)
        k = np.uintp(0)
        while k < whole:
            x, z = read_doubles(X, at + k), read_doubles(X, at_1 + k)
            u, v = read_doubles(X, at_2 + k), read_doubles(X, at_3 + k)
            _take_four((x, z, u, v), w, weighted, k, inverse, sums)
            k += lanes
        if k < d:
            rest = d - k
            x = read_first_doubles(X, at + k, rest)
            z = read_first_doubles(X, at_1 + k, rest)
            u = read_first_doubles(X, at_2 + k, rest)
            v = read_first_doubles(X, at_3 + k, rest)
            _take_four((x, z, u, v), w, weighted, k, inverse, sums)


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


@kernel
def scale_taken(X, index, inverse, centre, factor, scaled):
    """Fill `scaled` with the rows of an index, each as `scale_rows` fills it."""
    d, n = np.uintp(len(centre)), np.uintp(len(index))
    line = np.uintp(BYTES // X.itemsize)
    for i in range(n):
        if i + NEXT < n:
            ahead = np.uintp(index[i + NEXT]) * d
            for k in range(np.uintp(0), d, line):
                prefetch(X, ahead + k)
            prefetch(X, ahead + d - np.uintp(1))
        base, at = np.uintp(index[i]) * d, i * d
        for k in range(d):
            scaled[at + k] = (np.float64(X[base + k]) * inverse[k] - centre[k]) * factor[k]
