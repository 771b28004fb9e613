# SPDX-License-Identifier: BSD-3-Clause
"""Ranges and spreads of columns, and rows in units of them.

Arrays
------
X : float64 or float32, shape (n * d,)
    Examples, row after row.
data, indices, indptr
    The arrays of a CSR matrix.
inverse : float64, shape (d,)
    A power of two for each column, 1 unless its values are so large or small that their squares
    are not numbers.
low, high, shift, total, squares : float64, shape (d,)
    Modified in place: the extremes of each column, a value near which it lies, and the sums of
    what exceeds that value and of its square. Sums about a value of the column itself do not
    cancel, however far from zero the column lies.
"""

import numpy as np

from pairlearn.kernels._native import kernel


@kernel
def column_sums(X, inverse, low, high, shift, total, squares):
    """Fill the sums of dense columns in one pass; values are multiplied by `inverse` first."""
    d = len(low)
    n = len(X) // d
    for k in range(d):
        value = np.float64(X[k]) * inverse[k]
        shift[k] = value
        low[k] = value
        high[k] = value
        total[k] = 0.0
        squares[k] = 0.0
    for i in range(1, n):
        base = i * d
        for k in range(d):
            value = np.float64(X[base + k]) * inverse[k]
            low[k] = min(low[k], value)
            high[k] = max(high[k], value)
            excess = value - shift[k]
            total[k] += excess
            squares[k] += excess * excess


@kernel
def csr_column_sums(data, indices, inverse, counts, low, high, total):
    """Fill counts, extremes and sums of the stored values of each column, in units."""
    for k in range(len(low)):
        counts[k] = 0
        total[k] = 0.0
        low[k] = np.inf
        high[k] = -np.inf
    for p in range(len(data)):
        k = indices[p]
        value = np.float64(data[p]) * inverse[k]
        counts[k] += 1
        low[k] = min(low[k], value)
        high[k] = max(high[k], value)
        total[k] += value


@kernel
def csr_column_squares(data, indices, inverse, mean, squares):
    """Fill the sums of squared distances of the stored values from the mean of their column."""
    for k in range(len(squares)):
        squares[k] = 0.0
    for p in range(len(data)):
        k = indices[p]
        excess = np.float64(data[p]) * inverse[k] - mean[k]
        squares[k] += excess * excess


@kernel
def scale_rows(X, inverse, centre, factor, scaled):
    """Fill `scaled` with (x * inverse - centre) * factor, computed in double precision."""
    d = len(centre)
    for i in range(len(X) // d):
        base = i * d
        for k in range(d):
            scaled[base + k] = (np.float64(X[base + k]) * inverse[k] - centre[k]) * factor[k]
