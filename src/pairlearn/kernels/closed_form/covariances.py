# SPDX-License-Identifier: BSD-3-Clause
r"""Sums of columns, and scaled covariances from products, each in one pass over memory.

Arrays
------
X : float64 or float32, shape (n * m,)
    Rows, one after the other.
weight : float64, shape (n,)
    How often each row counts; empty if all count once.
sums : float64, shape (m,)
    Modified in place.
products : float64 or float32, shape (m * m,)
    Sums of products of columns, row after row of the table, on and above its diagonal.
mean, scale : float64, shape (m,)
    The means of the columns, and their factors.
C : float64 or float32, shape (m * m,)
    Modified in place, on and above the diagonal.
"""

import numpy as np

from pairlearn.kernels._native import elementwise


@elementwise
def add_columns(X, weight, sums):
    """Add rows, times their weights, to the sums of columns."""
    m = np.uintp(len(sums))
    for i in range(np.uintp(len(X) // len(sums))):
        place = i * m
        w = weight[i] if len(weight) else 1.0
        for k in range(m):
            sums[k] += w * np.float64(X[place + k])


@elementwise
def add_covariance(products, share, mean, scale, C, is_first):
    """Add the covariance of scaled columns, share * products - mean mean', of one class.

    The first one is written over what C holds, be it no number.
    """
    m = np.uintp(len(mean))
    for i in range(m):
        place = i * m
        own = mean[i]
        factor = scale[i]
        for k in range(i, m):
            value = share * np.float64(products[place + k]) - own * mean[k]
            before = np.float64(0.0) if is_first else np.float64(C[place + k])
            C[place + k] = before + factor * scale[k] * value
