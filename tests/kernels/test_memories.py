# SPDX-License-Identifier: BSD-3-Clause
"""The kernels of a stream with several memories, against plain NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.kernels.memories import doubled_wins, find_directions, widen_ranges

SMALL = st.lists(st.integers(-3, 3), min_size=1)


@given(SMALL, SMALL)
def test_sorted_scores_are_counted_in_one_walk(winners, losers):
    found = doubled_wins(*(np.sort(np.array(own, dtype=np.float64)) for own in (winners, losers)))
    assert found == sum((one > other) + (one >= other) for one in winners for other in losers)


def test_ranges_hold_all_rows():
    rng = np.random.default_rng(0)
    low, high = np.full(4, np.inf), np.full(4, -np.inf)
    blocks = [rng.normal(size=(n, 4)) for n in (1, 7, 30)]
    for Z in blocks:
        widen_ranges(Z, low, high)
    rows = np.concatenate(blocks)
    assert np.array_equal(low, rows.min(axis=0))
    assert np.array_equal(high, rows.max(axis=0))


@pytest.mark.parametrize("few", [(), (2,), (1, 2)])
def test_a_longer_memory_speaks_for_one_that_knows_too_little(few):
    rng = np.random.default_rng(0)
    m, n_memories = 3, 3
    counts = np.full((n_memories, 2), 50.0)
    counts[list(few), 0] = 1.0
    sums = np.zeros((n_memories, 2, m + 1, m + 1))
    for k in range(n_memories):
        for c in range(2):
            z = np.column_stack([np.ones(50), rng.normal(size=(50, m)) + c])
            sums[k, c] = z.T @ z
    origin, scale, ridges = rng.normal(size=m), np.array([1.0, 2.0, 0.5]), np.full(n_memories, 0.1)
    weights, middle, sizes = np.empty((n_memories, m)), np.empty(n_memories), np.empty(n_memories)
    room = np.empty((2, m)), np.empty((m, m))
    found = weights, middle, sizes
    assert find_directions(sums, counts, 2.0, origin, scale, ridges, *room, *found)
    for k in range(n_memories):
        own = max(j for j in range(k + 1) if j == 0 or j not in few)
        means = sums[own, :, 0, 1:] / 50.0
        C = sum(sums[own, c, 1:, 1:] / 50.0 - np.outer(means[c], means[c]) for c in range(2))
        D = np.diag(scale)
        u = D @ (means[0] - means[1])
        v = np.linalg.solve(D @ C @ D + 0.1 * np.eye(m), u)
        np.testing.assert_allclose(sizes[k], np.sqrt(u @ v), rtol=1e-12)
        np.testing.assert_allclose(weights[k], D @ v / np.sqrt(u @ v), rtol=1e-11)
        np.testing.assert_allclose(
            middle[k], weights[k] @ (means.mean(axis=0) + origin), rtol=1e-11
        )
