# SPDX-License-Identifier: BSD-3-Clause
"""Weights of examples as `fit` takes them: a pair weighs the product of both."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.validation import check_weights

__all__ = ["chunk_weights", "representatives", "weigh"]


def weigh(
    sample_weight: ArrayLike | None, n: int
) -> tuple[NDArray[np.int64] | None, NDArray[np.float64]]:
    """Return which examples have a weight at all, and these weights divided by their mean.

    The examples are None for all of them: one of weight zero is as good as absent. The weights are
    empty where all are equal, since then they change nothing.

    >>> weigh([2.0, 0.0, 6.0], 3)
    (array([0, 2]), array([0.5, 1.5]))
    >>> weigh([2.0, 2.0], 2)
    (None, array([], dtype=float64))
    """
    weight = chunk_weights(sample_weight, n)
    if not len(weight):
        return None, weight
    keep = np.flatnonzero(weight)
    if not len(keep):
        raise ValueError(
            "sample_weight is zero for all examples; give some of them a positive weight."
        )
    # Divided by the largest first: the sum of huge weights must not overflow.
    weight = weight[keep] / weight.max()
    weight = np.empty(0) if (weight == 1.0).all() else weight / weight.mean()
    return (None if len(keep) == n else keep), weight


def chunk_weights(sample_weight: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Return the weights of a chunk as they are, empty if there are none."""
    if sample_weight is None:
        return np.empty(0)
    return check_weights(sample_weight, n, name="sample_weight")


def representatives(weight: NDArray[np.float64]) -> slice | NDArray[np.int64]:
    """Return as many indices as there are weights, each as often as its weight says, or all.

    Quantiles and entropies of what they select are weighted ones.

    >>> representatives(np.array([1.0, 3.0, 0.0, 0.0]))
    array([0, 1, 1, 1])
    """
    if not len(weight):
        return slice(None)
    n, edges = len(weight), np.cumsum(weight)
    return np.asarray(np.searchsorted(edges, (np.arange(n) + 0.5) * (edges[-1] / n)))
