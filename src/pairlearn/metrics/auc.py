# SPDX-License-Identifier: BSD-3-Clause
"""The area under the ROC curve, from ranks: exact with ties, in O(n log n)."""

from __future__ import annotations

from operator import mul

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics._inputs import check_scores, is_positive, weighed_classes
from pairlearn.typing import Mask, Vector


def doubled_wins_of_each(values: Vector, positive: Mask) -> NDArray[np.int64]:
    """Return twice the pairs in the right order that each example takes part in; a tie counts half.

    Whole numbers, so their sums are exact.

    >>> doubled_wins_of_each(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))
    array([4, 3, 3, 4])
    """
    # Equal scores count as one place, so the order among them does not matter.
    order = np.argsort(values)
    first, last = _ties(values[order])
    ahead = positive[order]
    below = np.concatenate(([0], np.cumsum(ahead)))
    positives = below[first] + below[last + 1]
    wins = np.empty(len(values), dtype=np.int64)
    wins[order] = np.where(ahead, first + last + 1 - positives, 2 * below[-1] - positives)
    return wins


def doubled_wins(positive: Vector, negative: Vector) -> int:
    """Return twice the number of (positive, negative) pairs in the right order; a tie counts half.

    The scores of each class must be sorted.
    """
    if not len(negative):
        return 0
    below = np.searchsorted(negative, positive, side="left")
    if (negative.take(below, mode="clip") == positive).any():
        not_above = np.searchsorted(negative, positive, side="right")
        return int(below.sum() + not_above.sum())
    return 2 * int(below.sum())


def auc_of(positive: Mask, values: Vector) -> float:
    """Return the AUC of finite scores, of which those of a mask are positive; both classes occur.

    >>> auc_of(np.array([False, True, False]), np.array([1.0, 2.0, 3.0]))
    0.5
    """
    return auc_of_classes(values[positive], values[~positive])


def auc_of_classes(positive: Vector, negative: Vector) -> float:
    """Return the AUC of the finite scores of both classes; neither is empty.

    >>> auc_of_classes(np.array([2.0]), np.array([1.0, 3.0]))
    0.5
    """
    winners, losers = np.sort(positive), np.sort(negative)
    return doubled_wins(winners, losers) / (2 * len(winners) * len(losers))


def doubled_wins_weighted(values: Vector, positive: Mask, weight: NDArray[np.int64]) -> int:
    """Return `doubled_wins` where a pair counts the product of its examples' whole weights."""
    order = np.argsort(values)
    first, last = _ties(values[order])
    below = np.concatenate(([0], np.cumsum(np.where(positive, 0, weight)[order])))
    ahead = positive[order]
    beaten = (below[first] + below[last + 1])[ahead].tolist()
    # Whole numbers of Python, which do not overflow.
    return sum(map(mul, weight[order][ahead].tolist(), beaten))


def roc_auc(y: ArrayLike, scores: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    r"""Return the share of (positive, negative) pairs that the scores put in the right order.

    AUC = 1/(n+ n-) sum over i positive and j negative of 1[s_i > s_j] + 1[s_i = s_j]/2.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of exactly two classes; the larger one is positive.
    scores : array-like of shape (n,)
        Finite scores, larger for examples that look positive.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights; the weight of a pair is the product of its examples' weights. An
        example of weight zero counts as absent.

    Returns
    -------
    float
        The AUC. Without weights it is a ratio of two whole numbers, rounded once.

    Raises
    ------
    ValueError
        If y does not hold exactly two classes, or if a class has no weight: there is no pair
        to compare.

    Examples
    --------
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8])
    0.875
    """
    if sample_weight is not None:
        return _weighted_auc(*weighed_classes(y, scores, sample_weight))
    positive = is_positive(y)
    values = check_scores("scores", scores, len(positive))
    return auc_of(positive, values)


def _weighted_auc(positive: Mask, values: Vector, weight: Vector) -> float:
    total_positive = float(weight[positive].sum())
    total_negative = float(weight[~positive].sum())
    order = np.argsort(values, kind="stable")
    first, last = _ties(values[order])
    negative_weight = np.where(positive, 0.0, weight / total_negative)[order]
    below = np.concatenate(([0.0], np.cumsum(negative_weight)))
    beaten = 0.5 * (below[first] + below[last + 1])
    share = np.where(positive, weight / total_positive, 0.0)[order]
    return min(float(share @ beaten), 1.0)


def _ties(ordered: Vector) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and last position of the equals of each entry of a sorted vector."""
    n = len(ordered)
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(np.concatenate((starts, [n])))
    return np.repeat(starts, counts), np.repeat(starts + counts - 1, counts)
