# SPDX-License-Identifier: BSD-3-Clause
"""The area under the ROC curve, from ranks: exact with ties, in O(n log n)."""

from __future__ import annotations

from operator import mul
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics._inputs import Sample, check_scores, is_positive
from pairlearn.typing import Mask, Vector


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
    beaten = doubled_below(values[positive], values[~positive], weight[~positive])
    # Whole numbers of Python, which do not overflow.
    return sum(map(mul, weight[positive].tolist(), beaten.tolist()))


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

    Examples
    --------
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8])
    0.875
    """
    if sample_weight is None:
        positive = is_positive(y)
        return auc_of(positive, check_scores("scores", scores, len(positive)))
    sample = Sample.of(y, {"scores": scores}, sample_weight)
    positive, (values,) = is_positive(sample.labels), sample.scores
    own, other = sample.weight[positive], sample.weight[~positive]
    beaten = doubled_below(values[positive], values[~positive], other / other.sum())
    return min(0.5 * float(own / own.sum() @ beaten), 1.0)


def doubled_below(values: Vector, others: Vector, weight: NDArray[Any]) -> NDArray[Any]:
    """Return twice the weight of the others below each value, and once that of its equals."""
    order = np.argsort(others)
    ordered, sums = others[order], np.concatenate(([0], np.cumsum(weight[order])))
    return sums[np.searchsorted(ordered, values)] + sums[np.searchsorted(ordered, values, "right")]
