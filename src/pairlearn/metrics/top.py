# SPDX-License-Identifier: BSD-3-Clause
r"""Metrics of the top of the list: precision and recall among k, enrichment, average precision.

The top k of n examples is the top share alpha = k / n. Examples that tie at the cut all count by
the same fraction, the expectation over all orders of the ties. With weights, the top share of the
weight counts.

If example i gains weight, the cut moves so that the share stays alpha: examples at the cut enter or
leave, and these are positive with probability p_c. So the caught weight S = sum v_i u_i y_i has the
derivative u_i y_i - p_c (u_i - alpha), where u_i is the accepted part of i. The estimate of p_c is
the share of positives among the m^(2/3) examples next to the cut, with m twice the number of
positives and of examples in the top together; ties count by the same fraction here, too.

The average precision is AP = sum over positives i of (v_i / V+) P(s_i), where P(s) is the share of
positives in the weight of the examples with scores of at least s. This is scikit-learn's step-wise
sum, without interpolation. Let t and f be the weights of positives and negatives with at least that
score. Then dP/dt = f / (t + f)^2 and dP/df = -t / (t + f)^2; sorted sums turn them into the
influence of every example. Each positive counts itself in its precision, which makes the value too
high where positives are few and rare: the lower limit of the interval starts at AP - (1 - AP) (AP -
AP'), where AP' is the value if no positive counts itself. Unlike the AUC it depends on the share of
positives: the interval is for examples that are drawn together, not for fixed class sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairlearn.metrics._inputs import ROUNDING, corners
from pairlearn.metrics.metric import Measured, TwoClassMetric
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_count, check_number


def _top(
    positive: Mask, scores: Vector, weight: Vector, share: float
) -> tuple[float, Vector, Vector, float]:
    """Return the positives caught in the top share, the slopes of that, and what is at the cut.

    They are the weight of the positives in the top, its derivative by the weight of each example,
    the weight of each example in the top, and the share of positives among those at the cut.
    """
    found = corners(positive, scores, weight)
    accepted = found.accepted_positive + found.accepted_negative
    total = float(accepted[-1])
    # the cut divides the step that leads to corner `cut`; a corner is met up to rounding
    size = share * total
    cut = min(int(np.searchsorted(accepted, size * (1.0 - ROUNDING))), len(accepted) - 1)
    part = 1.0
    if size < accepted[cut] * (1.0 - ROUNDING):
        part = (size - accepted[cut - 1]) / (accepted[cut] - accepted[cut - 1])
    step = cut - 1
    inside = np.where(found.step < step, 1.0, np.where(found.step == step, part, 0.0))
    gained = found.accepted_positive[cut] - found.accepted_positive[step]
    caught = float(found.accepted_positive[cut] - (1.0 - part) * gained)
    near = int(np.count_nonzero(inside == 1.0))
    width = math.ceil(0.5 * min(len(scores), 2 * (near + int(positive.sum()))) ** (2.0 / 3.0))
    # the part of each step next to the cut: examples that tie count alike here, too
    counts = np.bincount(found.step)
    last = np.cumsum(counts)
    reached = np.minimum(last, near + width) - np.maximum(last - counts, near - width)
    beside = np.maximum(reached, 0) / counts
    at_cut = float(beside @ np.diff(found.accepted_positive) / (beside @ np.diff(accepted)))
    slope = inside * positive - at_cut * (inside - share)
    return caught, slope, weight * inside, at_cut


@dataclass(frozen=True)
class PrecisionAt(TwoClassMetric):
    """The share of positives among the k highest scores.

    Its interval is Wilson's, widened by the variance of the cut. As the value has few steps, the
    coverage of any interval oscillates with the true precision (Brown, Cai and DasGupta 2001), for
    k = 10 by several percent; its mean over true precisions is near the nominal level.

    Parameters
    ----------
    k : int
        The number of top examples, at most all.

    References
    ----------
    L. Brown, T. Cai and A. DasGupta, Interval estimation for a binomial proportion, Statistical
    Science 16, 2001.

    Examples
    --------
    >>> PrecisionAt(2)([0, 1, 0, 1], [0.1, 0.35, 0.4, 0.8])
    0.5
    >>> PrecisionAt(2)([0, 1, 0, 1], [1.0, 1.0, 1.0, 1.0])
    0.5
    """

    k: int

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def measure_classes(self, positive: Mask, scores: Vector, weight: Vector) -> Measured:
        """Return the precision and its influences."""
        share = _share_of(self.k, len(scores))
        caught, slope, inside, _ = _top(positive, scores, weight, share)
        size = share * float(weight.sum())
        value = min(caught / size, 1.0)
        influence = weight * (slope - value * share) / size
        return Measured(value, influence, self.k, draws=inside)


@dataclass(frozen=True)
class RecallAt(TwoClassMetric):
    """The share of all positives among the k highest scores.

    Parameters
    ----------
    k : int
        The number of top examples, at most all.

    Examples
    --------
    >>> RecallAt(3)([0, 1, 0, 1], [0.1, 0.35, 0.4, 0.8])
    1.0
    """

    k: int

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def measure_classes(self, positive: Mask, scores: Vector, weight: Vector) -> Measured:
        """Return the recall and its influences."""
        return _recall(positive, scores, weight, _share_of(self.k, len(scores)))


@dataclass(frozen=True)
class EnrichmentFactor(TwoClassMetric):
    """The ratio of positives in the top share to those in a random part of that size.

    It is the recall divided by the share, and its interval that of the recall (`recall_limits` in
    `pairlearn.metrics.limits`). If the top holds only positives, it depends only on how rare
    positives are, and `PrecisionAt` says more.

    Parameters
    ----------
    share : float, default=0.01
        The share of examples at the top, in (0, 1].

    Examples
    --------
    >>> EnrichmentFactor(0.25)([0, 1, 0, 0], [0.1, 0.9, 0.4, 0.8])
    4.0
    """

    share: float = 0.01

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", check_number("share", self.share))
        if not 0.0 < self.share <= 1.0:
            raise ValueError(f"share must lie in (0, 1], got {self.share!r}.")

    def measure_classes(self, positive: Mask, scores: Vector, weight: Vector) -> Measured:
        """Return the enrichment and its influences."""
        found = _recall(positive, scores, weight, self.share)
        return Measured(
            found.value / self.share,
            found.influence / self.share,
            found.n_terms,
            ceiling=1.0 / self.share,
            crowding=found.crowding,
        )


def _recall(positive: Mask, scores: Vector, weight: Vector, share: float) -> Measured:
    caught, slope, _, at_cut = _top(positive, scores, weight, share)
    total = float(weight[positive].sum())
    value = min(caught / total, 1.0)
    influence = weight * (slope - value * positive) / total
    return Measured(value, influence, int(np.count_nonzero(positive)), crowding=at_cut)


def _share_of(k: int, n: int) -> float:
    if k > n:
        raise ValueError(f"k must be at most the number of examples, got {k} for {n} examples.")
    return k / n


@dataclass(frozen=True)
class AveragePrecision(TwoClassMetric):
    """The mean precision over the positives, as scikit-learn's `average_precision_score`.

    Examples
    --------
    >>> AveragePrecision()([0, 1, 0, 1], [0.1, 0.35, 0.4, 0.8])
    0.8333333333333333
    """

    def measure_classes(self, positive: Mask, scores: Vector, weight: Vector) -> Measured:
        """Return the average precision and its influences."""
        found = corners(positive, scores, weight)
        true, false = found.accepted_positive[1:], found.accepted_negative[1:]
        share = np.diff(found.accepted_positive) / true[-1]
        accepted = true + false
        precision = true / accepted
        value = float(share @ precision)
        # an example counts at its own score and below
        gain = _from_here(share * false / accepted**2)
        loss = _from_here(share * true / accepted**2)
        influence = np.where(
            positive,
            (precision[found.step] - value) / true[-1] + gain[found.step],
            -loss[found.step],
        )
        value, n_positive = min(value, 1.0), int(np.count_nonzero(positive))
        # A negative above all lowers the precision at the t-th positive by 1 / (t + 1). Few stand
        # there: on simulated scores half of it gives the right width.
        first = 0.5 * float((1.0 / np.arange(1.0, n_positive + 1.0)).mean())
        # precision among the other positives: none of them counts itself
        spare = true - true[-1] / n_positive
        spare[spare <= ROUNDING * true] = 0.0  # rounding would pass for another positive
        others = spare * n_positive / max(n_positive - 1, 1)
        alone = others + false
        without = float(share @ np.divide(others, alone, out=np.zeros_like(alone), where=alone > 0))
        return Measured(
            value,
            weight * influence,
            n_positive,
            reach=(first * (len(positive) - n_positive), 1.0),
            cautious=value - (1.0 - value) * max(value - without, 0.0),
        )


def _from_here(values: Vector) -> Vector:
    return np.cumsum(values[::-1])[::-1]
