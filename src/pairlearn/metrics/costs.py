# SPDX-License-Identifier: BSD-3-Clause
"""The expected cost of decisions, and the threshold that minimises it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.metrics._inputs import ROUNDING, Sample, corners, is_positive
from pairlearn.metrics.metric import Measured, TwoClassMetric
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_number, check_positive


@dataclass(frozen=True)
class ExpectedCost(TwoClassMetric):
    """The mean cost of an example if scores above the threshold are classified as positive.

    Parameters
    ----------
    false_positive, false_negative : float, default=1.0
        The cost of a negative classified as positive, and of a missed positive. If both are 1,
        the result is the error rate.
    threshold : float, default=0.0
        The threshold; `cheapest_threshold` finds the best one, on other examples than these.

    Examples
    --------
    >>> ExpectedCost(false_negative=5.0, threshold=0.5)([0, 0, 1, 1], [0.1, 0.7, 0.2, 0.9])
    1.5
    """

    false_positive: float = 1.0
    false_negative: float = 1.0
    threshold: float = 0.0

    larger_is_better = False

    def __post_init__(self) -> None:
        for name in ("false_positive", "false_negative"):
            object.__setattr__(self, name, check_positive(name, getattr(self, name)))
        object.__setattr__(self, "threshold", check_number("threshold", self.threshold))
        if not math.isfinite(self.threshold):
            raise ValueError(f"threshold must be a finite number, got {self.threshold!r}.")

    def measure_classes(self, positive: Mask, scores: Vector, weight: Vector) -> Measured:
        """Return the mean cost and its influences."""
        accepted = scores > self.threshold
        cost = np.where(positive, self.false_negative * ~accepted, self.false_positive * accepted)
        total = float(weight.sum())
        value = float(weight @ cost) / total
        return Measured(
            value,
            weight * (cost - value) / total,
            len(cost),
            ceiling=max(self.false_positive, self.false_negative),
        )


def cheapest_threshold(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    false_positive: float = 1.0,
    false_negative: float = 1.0,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the threshold that minimises the cost of decisions.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of exactly two classes; the larger one is positive.
    scores : array-like of shape (n,)
        Finite scores.
    false_positive, false_negative : float, default=1.0
        The costs of the two errors.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights; an example of weight zero counts as absent.

    Returns
    -------
    float
        The middle between two neighbouring scores; the largest score if it is best to accept none;
        a number just below the smallest if it is best to accept all. On ties, the largest.

    Notes
    -----
    The cost on the examples that chose the threshold is too low: measure it on others.

    Examples
    --------
    >>> cheapest_threshold([0, 0, 1, 0, 1], [0.0, 1.0, 2.0, 3.0, 4.0])
    3.5
    >>> cheapest_threshold([0, 0, 1, 0, 1], [0.0, 1.0, 2.0, 3.0, 4.0], false_negative=3.0)
    1.5
    """
    unit = max(
        check_positive("false_positive", false_positive),
        check_positive("false_negative", false_negative),
    )
    sample = Sample.of(y, {"scores": scores}, sample_weight)
    positive, weight = is_positive(sample.labels), sample.weight
    found = corners(positive, sample.scores[0], weight)
    # summed from the other end: a difference of sums would lose few positives among many
    masses = np.bincount(found.step, np.where(positive, weight, 0.0))
    missed = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    cost = (float(false_positive) / unit) * found.accepted_negative
    cost += (float(false_negative) / unit) * missed
    # the first of equals: what is cheaper by rounding is not cheaper
    best = int(np.argmax(cost <= cost.min() * (1.0 + ROUNDING)))
    steps = found.thresholds
    if best == 0:
        return float(steps[0])
    if best == len(steps):
        return float(np.nextafter(steps[-1], -math.inf))
    above, below = float(steps[best - 1]), float(steps[best])
    middle = 0.5 * above + 0.5 * below  # their sum may overflow
    return middle if middle < above else below
