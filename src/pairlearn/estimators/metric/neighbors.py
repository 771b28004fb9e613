# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of near examples, from which a metric for nearest neighbours is best learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairlearn.pairings.given import ListedPairs
from pairlearn.typing import Vector

__all__ = ["neighbor_pairs"]

Indices = NDArray[np.int64]

#: Queries whose distances are held in memory at once.
_BLOCK = 128
#: Neighbours come from at most this many examples, so that the cost grows with n, not its square.
_CANDIDATES = 20_000


def neighbor_pairs(
    X: Vector, y: Vector, n_neighbors: int, queries: Indices, rng: np.random.Generator
) -> ListedPairs:
    """Return each query with its nearest examples of its own label and of other labels.

    Nearest neighbours see near examples only, so a metric for them is best learned from near
    pairs. Each query is paired with its `n_neighbors` Euclidean neighbours of the same label and
    with as many of other labels. The nearest example of another label always counts; the next ones
    count only if they are among the 4 `n_neighbors` + 4 nearest examples of any label. The rarer
    kind of pairs is repeated, so that pairs of equal and of different labels are drawn equally
    often. With more than 20,000 examples, neighbours come from a sample of 20,000. Queries are on
    the left, their neighbours on the right.

    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> labels, rng = np.array([0.0, 0.0, 1.0, 1.0]), np.random.default_rng(0)
    >>> pairs = neighbor_pairs(X, labels, 1, np.arange(2), rng)
    >>> pairs.left, pairs.right
    (array([0, 1, 0, 1]), array([1, 0, 2, 2]))
    """
    same, other, found = _nearest(X, y, n_neighbors, queries, rng)
    kinds = []
    for members, count in zip((same, other), found.T, strict=True):
        row, place = np.nonzero(np.arange(n_neighbors) < count[:, None])
        kinds.append((queries[row], members[row, place]))
    length = max(len(row) for row, _ in kinds)
    left, right = zip(
        *((np.resize(row, length), np.resize(met, length)) for row, met in kinds if len(row)),
        strict=True,
    )
    return ListedPairs(np.concatenate(left), np.concatenate(right))


def _nearest(
    X: Vector, y: Vector, k: int, queries: Indices, rng: np.random.Generator
) -> tuple[Indices, Indices, Indices]:
    """Return the nearest examples of the same and of other labels, and how many there are."""
    from pairlearn.kernels.neighbors import nearest_of_labels

    n, m = len(y), len(queries)
    candidates = np.arange(n)
    if n > _CANDIDATES:
        candidates = rng.choice(n, _CANDIDATES, replace=False)
    candidates = candidates[np.argsort(y[candidates], kind="stable")]
    position = np.full(n, -1)
    position[candidates] = np.arange(len(candidates))
    own, labels = position[queries], y[candidates]
    first = np.searchsorted(labels, y[queries])
    last = np.searchsorted(labels, y[queries], side="right")
    # Single precision is enough to tell near from far, once the origin and the unit are sensible.
    Z = X - X.mean(axis=0)
    Z = (Z / max(float(np.abs(Z).max(initial=0.0)), np.finfo(float).tiny)).astype(np.float32)
    # ||x' - x||^2 - ||x||^2 = ||x'||^2 - 2 <x', x>, by one product of matrices.
    others = Z[candidates]
    squares = np.einsum("nd,nd->n", others, others)
    factor = np.vstack([-2.0 * others.T, squares])
    asking = np.column_stack([Z[queries], np.ones(m, dtype=np.float32)])
    same, other = np.zeros((2, m, k), dtype=np.int64)
    found = np.zeros((m, 2), dtype=np.int64)
    near = (np.empty(k, dtype=np.float32), np.empty(k, dtype=np.float32))
    for begin in range(0, m, _BLOCK):
        block = slice(begin, begin + _BLOCK)
        nearest_of_labels(
            asking[block] @ factor,
            own[block],
            first[block],
            last[block],
            4 * k + 4,
            same[block],
            other[block],
            found[block],
            near,
        )
    return candidates[same], candidates[other], found
