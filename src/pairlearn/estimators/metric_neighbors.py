# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of near examples, from which a metric for nearest neighbours is best learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairlearn.pairings.given import ListedPairs

__all__ = ["neighbor_pairs"]

Vector = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Queries whose distances are held in memory at once.
_BLOCK = 128
#: Examples that neighbours are looked for among, at most: the cost grows with n, not its square.
_CANDIDATES = 20_000


def neighbor_pairs(X: Vector, y: Vector, n_neighbors: int, rng: np.random.Generator) -> ListedPairs:
    """Return each example with its nearest ones of its own label and of other labels.

    Nearest neighbours see near examples only, so a metric for them is best learned from near
    pairs: of each example, its `n_neighbors` Euclidean neighbours of the same label, and as many of
    other labels, of which those beyond the nearest count only if they are among the
    4 `n_neighbors` + 4 nearest examples of any label. Each pair is listed once for each of its
    members that finds the other; the kind of which there are fewer is repeated, so that pairs of
    equal and of different labels are drawn equally often. With more than 20,000 examples,
    neighbours are looked for among 20,000 of them.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> pairs = neighbor_pairs(X, np.array([0.0, 0.0, 1.0, 1.0]), 1, np.random.default_rng(0))
    >>> len(pairs.left)
    8
    """
    same, other, found = _nearest(X, y, n_neighbors, rng)
    kinds = []
    for members, count in zip((same, other), found.T, strict=True):
        row, place = np.nonzero(np.arange(n_neighbors) < count[:, None])
        kinds.append((row, members[row, place]))
    length = max(len(row) for row, _ in kinds)
    kinds = [kind for kind in kinds if len(kind[0])]
    left, right = (
        np.concatenate([np.resize(kind[side], length) for kind in kinds]) for side in (0, 1)
    )
    return ListedPairs(left, right)


def _nearest(
    X: Vector, y: Vector, k: int, rng: np.random.Generator
) -> tuple[Indices, Indices, Indices]:
    """Return the nearest examples of the same and of other labels, and how many there are."""
    from pairlearn.kernels.neighbors import nearest_of_labels

    n = len(y)
    candidates = np.arange(n)
    if n > _CANDIDATES:
        candidates = rng.choice(n, _CANDIDATES, replace=False)
    candidates = candidates[np.argsort(y[candidates], kind="stable")]
    own = np.full(n, -1)
    own[candidates] = np.arange(len(candidates))
    labels = y[candidates]
    first, last = np.searchsorted(labels, y), np.searchsorted(labels, y, side="right")
    # Single precision is enough to tell near from far, once the origin and the unit are sensible.
    Z = X - X.mean(axis=0)
    Z = (Z / max(float(np.abs(Z).max(initial=0.0)), np.finfo(float).tiny)).astype(np.float32)
    others = Z[candidates]
    squares = np.einsum("nd,nd->n", others, others)
    factor = np.ascontiguousarray(-2.0 * others.T)
    same, other = np.zeros((2, n, k), dtype=np.int64)
    found = np.zeros((n, 2), dtype=np.int64)
    for begin in range(0, n, _BLOCK):
        block = slice(begin, begin + _BLOCK)
        distances = Z[block] @ factor
        distances += squares
        nearest_of_labels(
            distances,
            own[block],
            first[block],
            last[block],
            4 * k + 4,
            same[block],
            other[block],
            found[block],
        )
    return candidates[same], candidates[other], found
