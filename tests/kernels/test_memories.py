# SPDX-License-Identifier: BSD-3-Clause
"""The kernels of a stream with several memories, against plain NumPy."""

import numpy as np
import pytest

from pairlearn.kernels.memories import (
    add_block,
    count_wins,
    find_directions,
    longest_as_good,
    room_for_block,
    room_for_directions,
    room_for_wins,
    score_rows,
    widen_ranges,
)


def test_ranges_hold_all_rows():
    rng = np.random.default_rng(0)
    low, high = np.full(4, np.inf), np.full(4, -np.inf)
    blocks = [rng.normal(size=(n, 4)) for n in (1, 7, 30)]
    for Z in blocks:
        widen_ranges(Z, low, high)
    rows = np.concatenate(blocks)
    assert np.array_equal(low, rows.min(axis=0))
    assert np.array_equal(high, rows.max(axis=0))


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("few", [(), (2,), (1, 2)])
def test_a_longer_memory_speaks_for_one_that_knows_too_little(few, pooled):
    rng = np.random.default_rng(0)
    m, n_memories = 3, 3
    counts = np.tile([50.0, 150.0], (n_memories, 1))
    counts[list(few), 0] = 1.0
    sums = np.zeros((n_memories, 2, m + 1, m + 1))
    for k in range(n_memories):
        for c in range(2):
            z = np.column_stack([np.ones(50), rng.normal(size=(50, m)) + c])
            sums[k, c] = z.T @ z
    origin, scale, ridges = rng.normal(size=m), np.array([1.0, 2.0, 0.5]), np.full(n_memories, 0.1)
    weights, middle, sizes = np.empty((n_memories, m)), np.empty(n_memories), np.empty(n_memories)
    room = room_for_directions(len(ridges), m)
    found = weights, middle, sizes
    assert find_directions(sums, counts, 2.0, pooled, origin, scale, ridges, *room, *found)
    for k in range(n_memories):
        own = max(j for j in range(k + 1) if j == 0 or j not in few)
        means = sums[own, :, 0, 1:] / 50.0
        shares = 2.0 * counts[own] / counts[own].sum() if pooled else np.ones(2)
        C = sum(
            share * (sums[own, c, 1:, 1:] / 50.0 - np.outer(means[c], means[c]))
            for c, share in enumerate(shares)
        )
        D = np.diag(scale)
        u = D @ (means[0] - means[1])
        v = np.linalg.solve(D @ C @ D + 0.1 * np.eye(m), u)
        np.testing.assert_allclose(sizes[k], np.sqrt(u @ v), rtol=1e-12)
        np.testing.assert_allclose(weights[k], D @ v / np.sqrt(u @ v), rtol=1e-11)
        np.testing.assert_allclose(
            middle[k], weights[k] @ (means.mean(axis=0) + origin), rtol=1e-11
        )


@pytest.mark.parametrize("m", [1, 3, 4, 8, 11])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_block_adds_the_products_of_its_rows(m, weighted):
    rng = np.random.default_rng(m)
    n, kept = 37, np.array([1.0, 0.5])
    origin, sums, counts = rng.normal(size=m), np.zeros((2, 2, m + 1, m + 1)), np.zeros((2, 2))
    expected = sums.copy()
    for _ in range(3):
        Z, y = rng.normal(size=(n, m)), rng.choice([-1.0, 1.0], size=n)
        weight = rng.random(n) if weighted else np.ones(n)
        room = room_for_block(n, m)
        add_block(Z, y, weight, origin, kept, 1e-6, sums, counts, *room)
        z = np.column_stack([np.ones(n), Z - origin])
        for c, sign in enumerate((1.0, -1.0)):
            own = z[y == sign]
            new = (own * weight[y == sign][:, np.newaxis]).T @ own
            expected[:, c] = kept[:, np.newaxis, np.newaxis] * expected[:, c] + new
    np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-12)
    assert np.array_equal(sums, np.swapaxes(sums, 2, 3))
    assert counts[0].sum() == 3 * n


@pytest.mark.parametrize("n_memories", [1, 3, 4])
def test_a_row_has_the_same_score_in_any_company(n_memories):
    rng = np.random.default_rng(0)
    Z, weights = rng.normal(size=(13, 7)), rng.normal(size=(7, n_memories))
    middle, scores = rng.normal(size=n_memories), np.empty((13, n_memories))
    score_rows(Z, weights, middle, scores)
    np.testing.assert_allclose(scores, Z @ weights - middle, rtol=1e-12, atol=1e-12)
    for begin in range(0, 13, 3):
        own = np.empty((len(Z[begin : begin + 3]), n_memories))
        score_rows(Z[begin : begin + 3], weights, middle, own)
        assert np.array_equal(own, scores[begin : begin + 3])


@pytest.mark.parametrize("kind", ["apart", "tied", "close", "huge", "infinite"])
@pytest.mark.parametrize("counts", [(125, 125), (10, 97), (33, 12)])
def test_wins_are_counted_exactly(kind, counts):
    rng = np.random.default_rng(0)
    rings = rng.normal(size=(2, 3, 125))
    if kind == "tied":
        rings = rings.round(1)
    elif kind == "close":  # they differ, but not in single precision
        rings = 1.0 + 1e-12 * rings
    elif kind == "huge":
        rings *= 1e90
    elif kind == "infinite":
        rings[rings > 1.0] = np.inf
    (p, q), wins = counts, np.empty_like(rings)
    count_wins(rings, np.array([[0, p], [0, q]]), wins, *room_for_wins(125))
    a, b = rings[0, :, :p, np.newaxis], rings[1, :, np.newaxis, :q]
    won = ((a > b) + 0.5 * (a == b)) * 1.0
    assert np.array_equal(wins[0, :, :p], won.sum(axis=2))
    assert np.array_equal(wins[1, :, :q], won.sum(axis=1))


@pytest.mark.parametrize("seed", range(5))
def test_the_longest_memory_counts_as_good_up_to_its_standard_error(seed):
    rng = np.random.default_rng(seed)
    p, q = 12, 17
    rings = rng.normal(size=(2, 3, 25))
    rings[0] += np.array([0.2, 1.5, 1.0])[:, np.newaxis]
    wins, places = np.empty_like(rings), np.array([[0, p], [0, q]])
    count_wins(rings, places, wins, *room_for_wins(25))
    won = rings[0, :, :p, np.newaxis] > rings[1, :, np.newaxis, :q]
    top = int(np.argmax(won.mean(axis=(1, 2))))
    assert top > 0
    # The variance of DeLong: that of the means of positives, and that of the means of negatives.
    apart = won[top] * 1.0 - won
    spread = np.sqrt(apart.mean(axis=2).var(axis=1) / p + apart.mean(axis=1).var(axis=1) / q)
    gap = apart.mean(axis=(1, 2))
    edges = gap[:top] / spread[:top]
    for errors in [*edges * (1.0 - 1e-9), *edges * (1.0 + 1e-9), 0.0, 50.0]:
        wanted = next(k for k in range(3) if gap[k] <= errors * spread[k])
        assert longest_as_good(wins, places, errors) == wanted
