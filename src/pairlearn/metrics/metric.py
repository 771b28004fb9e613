# SPDX-License-Identifier: BSD-3-Clause
r"""The base of all metrics, with standard errors, intervals and paired tests.

Let f(v) be the value of a metric if example i has weight v_i. Every metric here is unchanged if all
weights are multiplied by the same number, hence sum_i v_i df/dv_i = 0, and

    psi_i = v_i df/dv_i

is the *influence* of example i. The variance of the value is estimated by the sum of psi_i^2 (the
infinitesimal jackknife); for examples in groups, by the sum over groups of the squared sum. Two
scores of the same examples are compared by the differences of their influences, which include the
covariance. For the AUC the influences are DeLong's placements, and the factor n_c / (n_c - 1) for
each class c makes the variance DeLong's; with groups it is Obuchowski's (see `spread_of`).

The intervals of areas and of average precision are those of `pairlearn.metrics.limits`, which hold
where few examples carry the variance. Others are symmetric on the logit scale of the range of the
metric. If nothing varies there, bounds for a mean of k independent terms are used, where the metric
states k: at the end of the range [(a/2)^(1/k), 1] or its mirror image, elsewhere Hoeffding's.

References
----------
B. Efron, Nonparametric standard errors and confidence intervals, Canadian Journal of Statistics 9,
1981.
N. Obuchowski, Nonparametric analysis of clustered ROC curve data, Biometrics 53, 1997.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics._inputs import Sample, check_scores, is_positive
from pairlearn.metrics.limits import (
    Spread,
    count_limit,
    logit_limits,
    recall_limits,
    score_limits,
    share_limits,
    spread_of,
    student_quantile,
)
from pairlearn.register import EqualFields
from pairlearn.shown import Shown, Table, number
from pairlearn.typing import Mask, Vector
from pairlearn.validation import AssumptionWarning, check_fraction, warn_caller


@dataclass(frozen=True, eq=False)
class Interval(EqualFields, Shown):
    """The value of a metric with its confidence interval.

    Parameters
    ----------
    value : float
        The estimate.
    low, high : float
        The confidence interval, within the range of the metric.
    standard_error : float
        NaN if a class has a single example, or if there is a single group.
    confidence : float
        The level of the interval.

    Examples
    --------
    >>> from pairlearn.metrics import BrierScore
    >>> found = BrierScore().interval([0, 0, 1, 1], [0.1, 0.4, 0.6, 0.8])
    >>> round(found.value, 4), found.low < found.value < found.high
    (0.0925, True)
    >>> print(found)
    0.0925 (0.03194 to 0.2395 with confidence 0.95)
    """

    value: float
    low: float
    high: float
    standard_error: float
    confidence: float

    def __str__(self) -> str:
        ends = f"{number(self.low)} to {number(self.high)}"
        return f"{number(self.value)} ({ends} with confidence {number(self.confidence)})"

    def shown_table(self) -> Table:
        """Return the value, its interval and its standard error."""
        cells = (self.value, self.low, self.high, self.standard_error, self.confidence)
        head = ("value", "low", "high", "standard error", "confidence")
        return head, [[number(cell) for cell in cells]]


@dataclass(frozen=True, eq=False)
class Comparison(EqualFields, Shown):
    """The values of two scores on the same examples, with a test of their difference.

    Parameters
    ----------
    value_a, value_b : float
        The two estimates.
    difference : float
        The difference value_a - value_b.
    standard_error : float
        Standard error of the difference; NaN if a class has a single example.
    z : float
        The ratio difference / standard_error; NaN without a positive standard error.
    p_value : float
        Two-sided p-value of equal values.
    low, high : float
        Confidence interval of the difference.
    confidence : float
        The level of the interval.

    Examples
    --------
    >>> from pairlearn.metrics import BrierScore
    >>> y = [0, 0, 1, 1]
    >>> found = BrierScore().compare(y, [0.1, 0.4, 0.6, 0.8], [0.3, 0.5, 0.4, 0.9])
    >>> round(found.difference, 4), found.low < found.difference < found.high
    (-0.085, True)
    """

    value_a: float
    value_b: float
    difference: float
    standard_error: float
    z: float
    p_value: float
    low: float
    high: float
    confidence: float

    def shown_table(self) -> Table:
        """Return the two values, and their difference with its interval and p-value."""
        head = ("", "value", "low", "high", "standard error", "p-value")
        apart = (self.difference, self.low, self.high, self.standard_error, self.p_value)
        return head, [
            ["a", number(self.value_a), "", "", "", ""],
            ["b", number(self.value_b), "", "", "", ""],
            ["a - b", *(number(cell) for cell in apart)],
        ]


@dataclass(frozen=True)
class Measured:
    """A value with the influence of each example.

    Parameters
    ----------
    value : float
        The value of the metric.
    influence : ndarray of shape (n,)
        The weight of each example times the derivative of the value by it.
    n_terms : int
        The number of independent terms in the value, for bounds if nothing varies.
    floor, ceiling : float
        The range of the metric on this sample.
    reach, all_or_nothing : sequence of float, optional
        For each class, in the order of the labels: how much one of n examples of it can change the
        value at most, in units of (ceiling - base) / n, and how much an example of it counts all or
        nothing. With `reach`, which is 1 for the AUC, the interval is that of
        `pairlearn.metrics.limits`, which holds with few examples too.
    base : float, optional
        The value at which nothing varies any more, if it lies below the floor.
    cautious : float, optional
        The value without its bias upwards; the lower limit is that of this value.
    few : bool, default=False
        Whether a small value may be the doing of few examples, as the area under a part of a curve
        is; the lower limit is then at most `count_limit`.
    draws : ndarray of shape (n,), optional
        If the value is a share of some examples: the weight of each of these examples. The interval
        is then that of a share, see `share_limits`.
    crowding : float, optional
        If the value is the share of a class in the top: the share of this class among the examples
        at the cut. The interval is then that of `recall_limits`.
    caution : str, optional
        Why an interval of this sample may not hold; `interval` warns with it.

    Examples
    --------
    >>> from pairlearn.metrics import BrierScore
    >>> found = BrierScore().measure(np.array([0, 1]), np.array([0.5, 1.0]), np.ones(2))
    >>> found.value, found.influence
    (0.125, array([ 0.0625, -0.0625]))
    """

    value: float
    influence: Vector
    n_terms: int
    floor: float = 0.0
    ceiling: float = 1.0
    reach: Sequence[float] | None = None
    all_or_nothing: Sequence[float] | None = None
    base: float | None = None
    cautious: float | None = None
    few: bool = False
    draws: Vector | None = None
    crowding: float | None = None
    caution: str | None = None


class Metric(ABC):
    """The base class of metrics, with interval and paired test.

    Your own metric defines `measure`; `__call__`, `interval` and `compare` follow. A metric is a
    small frozen dataclass whose fields are its settings.

    Examples
    --------
    The mean distance of scores between 0 and 2 from the grades 0, 1 and 2:

    >>> @dataclass(frozen=True)
    ... class MeanDistance(Metric):
    ...     larger_is_better = False
    ...
    ...     def measure(self, labels, scores, weight):
    ...         distance, total = np.abs(scores - labels), float(weight.sum())
    ...         value = float(weight @ distance) / total
    ...         influence = weight * (distance - value) / total
    ...         return Measured(value, influence, len(labels), ceiling=2.0)
    >>> MeanDistance()([0, 1, 2, 2], [0.5, 1.0, 1.0, 1.5])
    0.5
    """

    #: Whether a larger value is better.
    larger_is_better = True
    #: Whether scores must be probabilities.
    of_probabilities = False

    @abstractmethod
    def measure(self, labels: NDArray[Any], scores: Vector, weight: Vector) -> Measured:
        """Return the value and its influences, given finite scores and positive weights."""

    def check_scores(self, name: str, scores: ArrayLike, n: int) -> Vector:
        """Return scores as an array, or refuse them; `name` is their name in a message."""
        values = check_scores(name, scores, n)
        if self.of_probabilities and not (values.min() >= 0.0 and values.max() <= 1.0):
            raise ValueError(
                f"{name} must be probabilities between 0 and 1 for {type(self).__name__}, got "
                f"values from {values.min():.4g} to {values.max():.4g}; pass "
                "predict_proba(X)[:, 1]."
            )
        return values

    def _labels(self, y: ArrayLike) -> ArrayLike:
        return y

    def _members(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        # the class of each example, for variances
        return np.unique(labels, return_inverse=True)[1]

    def __call__(
        self, y: ArrayLike, scores: ArrayLike, *, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the value; `y`, `scores` and `sample_weight` are those of `interval`."""
        return self.measured(y, {"scores": scores}, sample_weight)[1][0].value

    def interval(
        self,
        y: ArrayLike,
        scores: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        confidence: float = 0.95,
    ) -> Interval:
        """Return the value with a standard error and a confidence interval.

        Parameters
        ----------
        y : array-like of shape (n,)
            Labels; of two, the larger one is positive.
        scores : array-like
            Finite scores of examples that were *not* used to train.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights.
        groups : array-like of shape (n,), optional
            The group (patient, user, query) of each example. Examples of one group may depend on
            each other; groups are independent. By default each example is its own group.
        confidence : float, default=0.95
            The level of the interval.

        Returns
        -------
        Interval
            Estimate, interval and standard error.
        """
        confidence = check_fraction("confidence", confidence)
        sample, (found,) = self.measured(y, {"scores": scores}, sample_weight, groups)
        return self._interval_of(found, sample, confidence)

    def compare(
        self,
        y: ArrayLike,
        scores_a: ArrayLike,
        scores_b: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        confidence: float = 0.95,
    ) -> Comparison:
        """Test whether two scores of the same examples have equal values (a paired test).

        Parameters
        ----------
        y : array-like of shape (n,)
            Labels; of two, the larger one is positive.
        scores_a, scores_b : array-like
            Finite scores of the same examples by two models.
        sample_weight, groups : array-like of shape (n,), optional
            As in `interval`.
        confidence : float, default=0.95
            The level of the interval of the difference.

        Returns
        -------
        Comparison
            Difference, standard error, z, two-sided p-value and interval.
        """
        confidence = check_fraction("confidence", confidence)
        given = {"scores_a": scores_a, "scores_b": scores_b}
        sample, (a, b) = self.measured(y, given, sample_weight, groups)
        width = max(a.ceiling, b.ceiling) - min(a.floor, b.floor)
        influence = a.influence - b.influence
        # equal up to rounding is equal: the ratio of two rounding errors would be a false p-value
        noise = 1e-12 * (np.abs(a.influence).max() + np.abs(b.influence).max())
        influence = np.where(np.abs(influence) <= noise, 0.0, influence)
        return comparison_of(
            (self._interval_of(a, sample, confidence), self._interval_of(b, sample, confidence)),
            a.value - b.value,
            self.spread_of(influence, sample, width),
            min(a.n_terms, b.n_terms, sample.n_groups or math.inf),
            width=width,
        )

    def measured(
        self,
        y: ArrayLike,
        scores: Mapping[str, ArrayLike],
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> tuple[Sample, tuple[Measured, ...]]:
        """Return the checked sample, and what each array of scores gives."""
        sample = Sample.of(self._labels(y), scores, sample_weight, groups, self.check_scores)
        measure = self.measure
        return sample, tuple(measure(sample.labels, s, sample.weight) for s in sample.scores)

    def spread_of(self, influence: Vector, sample: Sample, width: float) -> Spread | None:
        """Return how uncertain a mean of influences is."""
        members = self._members(sample.labels)
        return spread_of(members, influence, sample.weight, sample.groups, width)

    def _interval_of(self, found: Measured, sample: Sample, confidence: float) -> Interval:
        if found.caution is not None:
            warn_caller(found.caution, AssumptionWarning)
        spread = self.spread_of(found.influence, sample, found.ceiling - found.floor)
        return limits_of(found, spread, sample, confidence)


class TwoClassMetric(Metric):
    """A metric of two classes; the larger label is positive.

    A subclass defines `measure_classes`.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Accuracy(TwoClassMetric):
    ...     def measure_classes(self, positive, scores, weight):
    ...         right, total = (scores > 0.0) == positive, float(weight.sum())
    ...         value = float(weight @ right) / total
    ...         return Measured(value, weight * (right - value) / total, len(scores))
    >>> Accuracy()([0, 0, 1, 1], [-1.0, 2.0, 1.0, 3.0])
    0.75
    """

    def _members(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        return is_positive(labels).astype(np.intp)

    def measure(self, labels: NDArray[Any], scores: Vector, weight: Vector) -> Measured:
        """Return the value and the influences."""
        return self.measure_classes(is_positive(labels), scores, weight)

    @abstractmethod
    def measure_classes(self, positive: Mask, scores: Vector, weight: Vector) -> Measured:
        """Return the value and the influences, given the mask of positive examples."""


def limits_of(
    found: Measured, spread: Spread | None, sample: Sample, confidence: float
) -> Interval:
    """Return the interval of a measured value with this spread.

    A metric that states its reach has `score_limits`, with `count_limit` below it if `few`. A share
    of examples has `share_limits`, and the share of a class in the top has `recall_limits`. Others
    have limits that are symmetric on the logit scale, or bounds for k independent terms if nothing
    varies. With groups, a share has Student's quantile with one degree of freedom less than groups,
    and the others have it with those of the spread: the number of groups that matter.
    """
    value, floor, width = found.value, found.floor, found.ceiling - found.floor
    share, n_groups = (value - floor) / width, sample.n_groups
    k = min(found.n_terms, n_groups or math.inf)
    miss, inside = 1.0 - confidence, 0.0 < share < 1.0
    error = math.nan if spread is None else spread.error
    level = 0.5 + 0.5 * confidence
    degrees = math.inf if n_groups is None or spread is None else spread.degrees
    if spread is not None and found.reach is not None:
        low, high = _of_areas(found, spread, degrees, confidence)
    elif found.draws is not None and error >= 0.0:
        quantile = student_quantile(level, math.inf if n_groups is None else n_groups - 1.0)
        low, high = share_limits(share, error / width, sample.n_draws(found.draws), quantile)
    elif found.crowding is not None and spread is not None and inside and error > 0.0:
        low, high = recall_limits(share, error / width, found.crowding, k, confidence, degrees)
    elif spread is not None and inside and error > 0.0:
        low, high = logit_limits(share, student_quantile(level, degrees) * error / width)
    elif inside:
        half = math.sqrt(math.log(2.0 / miss) / (2.0 * k))
        low, high = max(share - half, 0.0), min(share + half, 1.0)
    else:
        limit = (0.5 * miss) ** (1.0 / k)
        low, high = (limit, 1.0) if share >= 1.0 else (0.0, 1.0 - limit)
    # Rounding must not push the estimate out of its interval.
    low, high = min(floor + width * low, value), max(floor + width * high, value)
    return Interval(value, low, high, error, float(confidence))


def _of_areas(
    found: Measured, spread: Spread, degrees: float, confidence: float
) -> tuple[float, float]:
    """Return the limits of an area, as shares of the range."""
    assert found.reach is not None
    floor, width = found.floor, found.ceiling - found.floor
    base = floor if found.base is None else found.base
    whole = found.ceiling - base
    starts = {found.value, found.value if found.cautious is None else found.cautious}
    shares, scaled = [(one - base) / whole for one in sorted(starts)], spread.scaled(1.0 / whole)
    ends = [
        score_limits(one, scaled, found.reach, confidence, found.all_or_nothing) for one in shares
    ]
    low, high = ((base + whole * end - floor) / width for end in (ends[0][0], ends[-1][1]))
    low = max(low, 0.0)
    if found.few and shares[0] < 0.5 and spread.error > 0.0:
        count = count_limit(max(shares[0], 0.0), spread.error / whole, confidence, degrees)
        # fading out, so that no limit jumps at 1/2
        count = (base + whole * count - floor) / width
        low = max(low + (1.0 - 2.0 * shares[0]) * min(count - low, 0.0), 0.0)
    return low, high


def comparison_of(
    both: tuple[Interval, Interval],
    difference: float,
    spread: Spread | None,
    k: float,
    *,
    width: float = 1.0,
) -> Comparison:
    r"""Return a paired test of two values, given with the spread of their difference.

    It is Student's test with the degrees of freedom of the spread, or where nothing varies
    Hoeffding's bound for k terms. The end of the interval on the side of 0 belongs to the test: it
    is 0 if the p-value is 1 - confidence. The other end, or both for a difference of 0, takes over
    how skewed the intervals of both values are: for a difference a - b > 0 its distance is at least

    .. math:: s \sqrt{\frac{(u_a - a)^2 + (b - l_b)^2}{s_a^2 + s_b^2}},

    with s, s_a and s_b the standard errors of the difference and of both values. So a value that is
    too high because its losses are rare does not make the difference too sure. For independent
    values this is the interval of Zou and Donner.

    References
    ----------
    G. Zou and A. Donner, Construction of confidence limits about effect measures: a general
    approach, Statistics in Medicine 27, 2008.
    """
    a, b = both
    confidence = a.confidence
    error = math.nan if spread is None else spread.error
    if spread is not None and error > 0.0:
        from scipy.special import stdtr

        z = difference / error
        p_value = 2.0 * float(stdtr(spread.degrees, -abs(z)))
        half = student_quantile(0.5 + 0.5 * confidence, spread.degrees) * error
        alone = math.hypot(a.standard_error, b.standard_error)
        below = above = half
        if difference >= 0.0:
            above = max(half, error * math.hypot(a.high - a.value, b.value - b.low) / alone)
        if difference <= 0.0:
            below = max(half, error * math.hypot(a.value - a.low, b.high - b.value) / alone)
    else:
        z = math.nan
        p_value = min(1.0, 2.0 * math.exp(-0.5 * k * (difference / width) ** 2))
        below = above = width * math.sqrt(2.0 * math.log(2.0 / (1.0 - confidence)) / k)
    low, high = max(difference - below, -width), min(difference + above, width)
    return Comparison(a.value, b.value, difference, error, z, p_value, low, high, confidence)
