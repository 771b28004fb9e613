# SPDX-License-Identifier: BSD-3-Clause
"""Sum a window function over all pairs of errors, after sharing the errors between bins.

Arrays
------
u : float64, shape (n,)
    Errors from small to large, in units of a bin.
bins, counts : float64, shape (2 n,)
    Modified in place: the positions of the non-empty bins, increasing, and their contents.
weights : float64, shape (r,)
    The window at distance 0, 1, ... bins; it is zero from r on.
"""

import numpy as np

from pairlearn.kernels._native import as_written, kernel


@as_written
def share_among_bins(u, bins, counts):
    """Share each error between the bins below and above it; return the number of bins in use."""
    n = 0
    for i in range(len(u)):
        lower = np.floor(u[i])
        # The last bin is the upper one of the previous error, which is not larger.
        if n == 0 or bins[n - 1] < lower:
            bins[n] = lower
            counts[n] = 0.0
            n += 1
        if bins[n - 1] == lower:
            bins[n] = lower + 1.0
            counts[n] = 0.0
            n += 1
        counts[n - 2] += 1.0 - (u[i] - lower)
        counts[n - 1] += u[i] - lower
    return n


@kernel
def sum_near_bins(bins, counts, weights):
    """Return the sum of counts[i] counts[j] weights[|bins[i] - bins[j]|] over all i and j."""
    reach = float(len(weights))
    total = 0.0
    for i in range(len(bins)):
        near = 0.0
        j = i + 1
        while j < len(bins) and bins[j] - bins[i] < reach:
            near += counts[j] * weights[int(bins[j] - bins[i])]
            j += 1
        total += counts[i] * (weights[0] * counts[i] + 2.0 * near)
    return total


@kernel
def sum_near_places(counts, weights, n):
    """Return the same sum for consecutive bins 0, ..., n - 1, empty ones included.

    After the bins, `counts` has one zero per weight, so the loop needs no bounds check.
    """
    total = 0.0
    for i in range(np.uintp(n)):
        if counts[i] != 0.0:
            near = 0.0
            for k in range(np.uintp(1), np.uintp(len(weights))):
                near += counts[i + k] * weights[k]
            total += counts[i] * (weights[0] * counts[i] + 2.0 * near)
    return total
