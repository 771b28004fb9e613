# SPDX-License-Identifier: BSD-3-Clause
"""Weights of examples; the weight of a pair is the product of both."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics.auc import auc_of, roc_auc
from pairlearn.restored import LARGEST_WEIGHT
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_weights

#: The smallest allowed largest weight: products of two weights must not underflow.
_SMALLEST = 1e-100
#: The digits of a weighted AUC by which settings are compared.
_DIGITS = 12


def weigh(sample_weight: ArrayLike | None, n: int) -> tuple[NDArray[np.int64] | None, Vector]:
    """Return the examples with positive weight, and their weights divided by the mean.

    The examples are None if all have positive weight. The weights are empty if all are equal.
    """
    if sample_weight is None:
        return None, np.empty(0)
    weight = check_weights(sample_weight, n, name="sample_weight")
    keep = np.flatnonzero(weight)
    if not len(keep):
        raise ValueError(
            "sample_weight is zero for all examples; give some of them a positive weight."
        )
    # Divided by the largest first: the sum of huge weights must not overflow.
    weight = weight[keep] / weight.max()
    weight = np.empty(0) if (weight == 1.0).all() else weight / weight.mean()
    return (None if len(keep) == n else keep), weight


def chunk_weights(sample_weight: ArrayLike | None, n: int) -> Vector:
    """Return the weights of a chunk unchanged; empty if there are none."""
    if sample_weight is None:
        return np.empty(0)
    return _of_products(check_weights(sample_weight, n, name="sample_weight"), "sample_weight")


def kept_of_chunk(weight: Vector, *, begun: bool) -> NDArray[np.int64] | None:
    """Return the examples of a chunk that weigh something, None if all do.

    An example of weight zero is as good as absent. A stream that has not begun needs another one.
    """
    if not len(weight) or weight.all():
        return None
    kept = np.flatnonzero(weight)
    if not len(kept) and not begun:
        raise ValueError(
            "sample_weight is zero for all examples so far; a stream starts with an example of "
            "positive weight."
        )
    return kept


def _of_products(weight: Vector, name: str) -> Vector:
    """Return the weights; refuse them if their products would underflow or overflow."""
    largest = float(weight.max(initial=0.0))
    if largest and not _SMALLEST <= largest <= LARGEST_WEIGHT:
        raise ValueError(
            f"the largest {name} must lie between {_SMALLEST:g} and {LARGEST_WEIGHT:g}, got "
            f"{largest:g}; divide all weights by the same number."
        )
    return weight


def example_weights(
    sample_weight: ArrayLike | None, class_weight: Any, labels: NDArray[Any]
) -> Vector:
    """Return the weights of examples times those of their classes, empty if there are none.

    Balanced classes have equal sums of weights: an example of weight 2 counts as two, and one of
    weight zero as none.
    """
    if sample_weight is None and class_weight is None:
        return np.empty(0)
    given = np.ones(len(labels)) if sample_weight is None else sample_weight
    weight, name = check_weights(given, len(labels), name="sample_weight"), "sample_weight"
    if class_weight is not None:
        from sklearn.utils.class_weight import compute_sample_weight

        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(class_weight, str) and class_weight == "balanced":
                # scikit-learn counts rows here, whatever they weigh.
                weight = weight * _balance(labels, weight)
            else:
                weight = weight * compute_sample_weight(class_weight, labels)
        name = "class_weight" if sample_weight is None else "class_weight times sample_weight"
        weight = check_weights(weight, len(labels), name=name)
    return _of_products(weight, name)


def _balance(labels: NDArray[Any], weight: Vector) -> Vector:
    """Return factors of examples by which all classes that weigh anything weigh the same."""
    codes = np.unique(labels, return_inverse=True)[1].reshape(-1)
    # Divided by the largest first: the sum of huge weights must not overflow.
    masses = np.bincount(codes, weight / (weight.max(initial=0.0) or 1.0))
    weighing = masses > 0.0
    shares = masses.sum() / np.count_nonzero(weighing) / np.where(weighing, masses, 1.0)
    return np.asarray(shares[codes])


def opposite_pair_weights(weight: Vector, positive: Mask, classes: NDArray[Any]) -> Vector:
    """Return weights whose products over opposite pairs have mean 1, empty if there are none."""
    return np.asarray(weight / unit_of_pairs(weight, positive, classes))


def unit_of_pairs(weight: Vector, positive: Mask, classes: NDArray[Any]) -> float:
    """Return the root of the mean product of weights over opposite pairs; 1 without weights."""
    if not len(weight):
        return 1.0
    means = [float(weight[own].mean()) if own.any() else 0.0 for own in (~positive, positive)]
    if not min(means) > 0:
        raise ValueError(
            f"The weight of all examples of one of the classes {classes.tolist()} is zero; "
            "both classes need a positive sample_weight and class_weight."
        )
    return math.sqrt(means[0] * means[1])


def weighed_flags(y: Vector, weight: Vector) -> list[Mask]:
    """Return flags of the negatives and of the positives that have a weight."""
    flags = [y == -1.0, y == 1.0]
    return [own & (weight > 0) for own in flags] if len(weight) else flags


def weighed_members(y: Vector, weight: Vector) -> list[NDArray[np.int64]]:
    """Return the places of negatives and of positives that have a weight: only they have an AUC."""
    return [np.flatnonzero(own) for own in weighed_flags(y, weight)]


def judged_auc(y: Vector, scores: Vector, weight: Vector) -> float:
    """Return the AUC by which settings are compared; `y` holds -1 and +1, `weight` may be empty.

    With weights it is rounded, so that their rounding errors do not decide between equals.
    """
    if len(weight):
        return round(roc_auc(y, scores, sample_weight=weight), _DIGITS)
    # Labels of folds are known: looking for them takes longer than the AUC of few examples.
    positive = y > 0.0
    if 0 < np.count_nonzero(positive) < len(y) and np.isfinite(scores).all():
        return auc_of(positive, scores)
    return roc_auc(y, scores)  # it says what is wrong


def representatives(weight: Vector) -> slice | NDArray[np.int64]:
    """Return n indices, each as often as its weight demands, or a slice of all without weights.

    Quantiles and entropies of the selected values are weighted quantiles and entropies.
    """
    if not len(weight):
        return slice(None)
    n, edges = len(weight), np.cumsum(weight)
    return np.asarray(np.searchsorted(edges, (np.arange(n) + 0.5) * (edges[-1] / n)))
