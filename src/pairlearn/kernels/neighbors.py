# SPDX-License-Identifier: BSD-3-Clause
"""Nearest examples of the same label and of other labels, from blocks of squared distances.

Candidates are sorted by label, so candidates of one label are adjacent in memory. Most are too far
to matter: a band of them is compared with the limit at once, and inspected one by one only if some
are near enough.

Arrays
------
distances : float32, shape (m, n)
    Squared distances of m queries to n candidates, up to a constant per query. The distance of a
    query to itself is infinite.
own, first, last : int64, shape (m,)
    The candidate that is the query itself, or -1, and the range of candidates of its label.
same, other, found : int64, shape (m, k), (m, k) and (m, 2)
    Receive the nearest candidates of the query's label and of other labels, nearest first, and
    their numbers.
near : two of float32, shape (k,)
    Scratch: the squared distances of the nearest candidates.
"""

import numpy as np

from pairlearn.kernels._native import kernel, part

_BAND = 32


@part
def _put(distance, candidate, values, members):
    """Insert a candidate into a full sorted list, replacing its last entry."""
    place = len(values) - 1
    while place > 0 and values[place - 1] > distance:
        values[place] = values[place - 1]
        members[place] = members[place - 1]
        place -= 1
    values[place] = distance
    members[place] = candidate


@part
def _scan(row, begin, end, values, members):
    """Put the candidates from `begin` to `end` into a sorted list."""
    for band in range(begin, end, _BAND):
        stop = min(band + _BAND, end)
        limit = values[-1]
        n_near = 0
        for j in range(band, stop):
            n_near += row[j] < limit
        if n_near == 0:
            continue
        for j in range(band, stop):
            if row[j] < values[-1]:
                _put(row[j], j, values, members)


@kernel
def nearest_of_labels(distances, own, first, last, n_near, same, other, found, near):
    """Find each query's k nearest of its label, and up to k nearest of other labels.

    The nearest candidate of other labels always counts. A further one counts if fewer than `n_near`
    candidates of any label are nearer.
    """
    m, n = distances.shape
    k = same.shape[1]
    near_same, near_other = near
    for i in range(m):
        row = distances[i]
        if own[i] >= 0:
            row[own[i]] = np.inf
        near_same[:] = np.inf
        near_other[:] = np.inf
        _scan(row, first[i], last[i], near_same, same[i])
        _scan(row, 0, first[i], near_other, other[i])
        _scan(row, last[i], n, near_other, other[i])
        found[i, 0] = 0
        found[i, 1] = 0
        for place in range(k):
            found[i, 0] += near_same[place] < np.inf
            limit = near_other[place]
            before = place
            for j in range(first[i], last[i]):
                before += row[j] <= limit
            found[i, 1] += limit < np.inf and (place == 0 or before < n_near)
