# SPDX-License-Identifier: BSD-3-Clause
"""The kernel of nearest examples against a search that looks at all of them."""

import numpy as np
import pytest

from pairlearn.kernels.neighbors import nearest_of_labels


def by_sorting(row, own, first, last, k, n_near):
    """Return the nearest of the label and of other labels, as the docstring of the kernel says."""
    members = [j for j in np.argsort(row) if j != own]
    same = [j for j in members if first <= j < last][:k]
    other = [j for j in members if not first <= j < last][:k]
    counted = [j for j in other if members.index(j) < n_near or j == other[0]]
    return same, counted


@pytest.mark.parametrize("n", [7, 33, 150])
@pytest.mark.parametrize("n_near", [1, 6, 1000])
def test_equals_a_search_over_all(n, n_near):
    rng = np.random.default_rng(n)
    k, sizes = 3, (n // 3, n // 7, n - n // 3 - n // 7)
    labels = np.repeat(np.arange(3), sizes)
    distances = np.array([rng.permutation(n) for _ in range(2 * n)], dtype=np.float32)
    # the first half are candidates themselves, the others are not
    own = np.concatenate([np.arange(n), np.full(n, -1)])
    first = np.searchsorted(labels, np.tile(labels, 2))
    last = np.searchsorted(labels, np.tile(labels, 2), side="right")
    same, other = np.zeros((2, 2 * n, k), dtype=np.int64)
    found = np.zeros((2 * n, 2), dtype=np.int64)
    near = (np.empty(k, dtype=np.float32), np.empty(k, dtype=np.float32))
    rows = distances.copy()
    nearest_of_labels(distances, own, first, last, n_near, same, other, found, near)
    for i, row in enumerate(rows):
        expected = by_sorting(row, own[i], first[i], last[i], k, n_near)
        assert same[i, : found[i, 0]].tolist() == expected[0]
        assert other[i, : found[i, 1]].tolist() == expected[1]
