# SPDX-License-Identifier: BSD-3-Clause
r"""Confidence intervals and tests of an AUC: DeLong's variance from ranks, in O(n log n).

Each positive has a *placement* V_i, the share of negatives that it beats, and each negative V_j,
the share of positives that beat it; the AUC is the mean of either. DeLong's variance is S+ / n+ +
S- / n-, with S+ and S- the sample variances of the placements. These are the influences of
`PartialAUC()`, whose interval and test these are, with exact values.

Two scores that rank alike have a difference without variance. A bound for every sample size then
replaces the test: cut the sample into k = min(n+, n-) disjoint pairs; the AUC is an average, over
all such cuts, of means of k independent terms, so Hoeffding's inequality holds with k terms.

References
----------
E. DeLong, D. DeLong and D. Clarke-Pearson, Comparing the areas under two or more correlated
receiver operating characteristic curves, Biometrics 44, 1988.
W. Hoeffding, Probability inequalities for sums of bounded random variables, JASA 58, 1963, 5b.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from numpy.typing import ArrayLike

from pairlearn.metrics._inputs import is_positive
from pairlearn.metrics.auc import auc_of
from pairlearn.metrics.limits import Part, Spread, score_limits
from pairlearn.metrics.metric import Comparison, Interval
from pairlearn.metrics.partial import PartialAUC
from pairlearn.validation import check_fraction

#: Number of examples, mean of their wins, sum of squared deviations, least and most wins.
Facts = tuple[int, float, float, float, float]


@dataclass(frozen=True, eq=False)
class AUCInterval(Interval):
    """An AUC and what is known about it; the standard error is DeLong's.

    Parameters
    ----------
    value, low, high : float
        The estimate and the ends of its interval.
    standard_error : float
        DeLong's standard error.
    confidence : float
        The level of the interval.
    spread : Spread, optional
        The parts of the variance, for `mean_auc_interval`.
    """

    spread: Spread | None = field(default=None, repr=False, compare=False)

    @property
    def auc(self) -> float:
        """The estimate."""
        return self.value


class AUCComparison(Comparison):
    """Two AUCs of the same examples, and what is known about their difference."""

    @property
    def auc_a(self) -> float:
        """The estimate of the first scores."""
        return self.value_a

    @property
    def auc_b(self) -> float:
        """The estimate of the second scores."""
        return self.value_b


def roc_auc_interval(y: ArrayLike, scores: ArrayLike, *, confidence: float = 0.95) -> AUCInterval:
    r"""Return the AUC with DeLong's standard error and a confidence interval.

    The interval allows for the few examples that carry the variance of a good score; it is not
    symmetric, and stays inside [0, 1]. `PartialAUC().interval` takes weights and groups too.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of exactly two classes; the larger one is positive.
    scores : array-like of shape (n,)
        Finite scores of examples that were *not* used to train.
    confidence : float, default=0.95
        The level of the interval.

    Returns
    -------
    AUCInterval
        Estimate, interval and standard error.

    Notes
    -----
    Let a be the AUC. The limits are the ends of {t : (a - t)^2 <= z^2 V(t)}, where V(t) has
    Newcombe's shape and the size of DeLong's variance, corrected where few examples matter;
    `pairlearn.metrics.limits` has the formulas. On normal scores it holds the truth in .935 to .975
    of all samples from 10 positives on, for AUC from .5 to .995. If positives spread twice as
    widely as negatives it is .90: no interval can know of rare bad positives that are not in the
    sample. See the guide for the table.

    A perfect score, constant scores (standard error 0) and a class of one example (NaN) have an
    interval by the same formulas, with Newcombe's variance alone.

    Examples
    --------
    >>> found = roc_auc_interval([0, 0, 0, 1, 1, 1], [0.1, 0.5, 0.3, 0.4, 0.6, 0.7])
    >>> round(found.auc, 3), round(found.low, 3), round(found.high, 3)
    (0.889, 0.335, 0.989)
    """
    confidence, metric = check_fraction("confidence", confidence), PartialAUC()
    sample, (found,) = metric.measured(y, {"scores": scores})
    spread = metric.spread_of(found.influence, sample, 1.0)
    assert spread is not None
    return auc_interval(auc_of(is_positive(sample.labels), sample.scores[0]), spread, confidence)


def auc_interval(auc: float, spread: Spread, confidence: float) -> AUCInterval:
    """Return the interval of an AUC with this spread."""
    low, high = score_limits(auc, spread, (1.0, 1.0), confidence)
    low, high = min(low, auc), max(high, auc)
    return AUCInterval(auc, low, high, spread.error, float(confidence), spread)


def mean_auc_interval(parts: Sequence[AUCInterval]) -> AUCInterval:
    r"""Return the mean of AUCs of disjoint parts of the data, with its interval.

    The models are taken as fixed, so the parts are independent: the standard error is the root of
    the sum of squared standard errors, divided by their number.

    Parameters
    ----------
    parts : sequence of AUCInterval
        At least one, each from `roc_auc_interval`; all must have the same confidence.

    Returns
    -------
    AUCInterval
        For a single part, that part. Variances of a class are added, and so are the numbers of its
        examples that matter (see `pairlearn.metrics.limits`).

    Examples
    --------
    >>> part = roc_auc_interval([0, 0, 0, 1, 1, 1], [0.1, 0.5, 0.3, 0.4, 0.6, 0.7])
    >>> found = mean_auc_interval([part] * 4)
    >>> round(found.auc, 3), found.standard_error == part.standard_error / 2
    (0.889, True)
    """
    n = len(parts)
    spreads = [part.spread for part in parts if isinstance(part, AUCInterval) and part.spread]
    if not n:
        raise ValueError("mean_auc_interval needs at least one part, got none.")
    if len(spreads) < n:
        raise ValueError(
            "a part of mean_auc_interval has no spread; make every part by roc_auc_interval."
        )
    levels = sorted({part.confidence for part in parts})
    if len(levels) > 1:
        raise ValueError(
            f"the parts of mean_auc_interval must have one confidence, got {levels}; give all of "
            "them the same to roc_auc_interval."
        )
    if n == 1:
        return parts[0]
    auc = math.fsum(part.auc for part in parts) / n
    error = math.sqrt(math.fsum(one.error**2 for one in spreads)) / n
    classes = (
        Part(
            math.fsum(one.variance for one in same) / n**2,
            math.fsum(one.effective for one in same),
            math.fsum(one.size for one in same),
        )
        for same in zip(*(one.parts for one in spreads), strict=True)
    )
    return auc_interval(auc, Spread(error, tuple(classes)), parts[0].confidence)


def compare_auc(
    y: ArrayLike, scores_a: ArrayLike, scores_b: ArrayLike, *, confidence: float = 0.95
) -> AUCComparison:
    r"""Test whether two scores of the same examples have equal AUC (paired DeLong test).

    It is Student's test with the degrees of freedom of the examples on which the scores differ (see
    `pairlearn.metrics.limits`). The variance is that of the differences of placements. It includes
    the covariance of the two AUCs without subtracting large numbers.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of exactly two classes; the larger one is positive.
    scores_a, scores_b : array-like of shape (n,)
        Finite scores of the same examples by two models; only their ranks matter.
    confidence : float, default=0.95
        The level of the interval of the difference.

    Returns
    -------
    AUCComparison
        Difference, standard error, z, two-sided p-value and interval.

    Notes
    -----
    If a class has one example, or if all differences of placements are equal (both scores rank
    alike, or one is perfect and the other perfectly wrong), z does not exist. With
    k = min(n+, n-) the p-value is then Hoeffding's min(1, 2 exp(-k difference^2 / 2)) and the
    interval is difference +- sqrt(2 log(2/a) / k), cut to [-1, 1].

    Examples
    --------
    >>> y = [0, 0, 0, 0, 1, 1, 1, 1]
    >>> a = [1, 2, 3, 5, 4, 6, 7, 8]
    >>> b = [1, 6, 3, 7, 4, 2, 5, 8]
    >>> found = compare_auc(y, a, b)
    >>> round(found.difference, 3), round(found.z, 3), round(found.p_value, 3)
    (0.375, 1.643, 0.16)
    """
    found = PartialAUC().compare(y, scores_a, scores_b, confidence=confidence)
    return AUCComparison(**vars(found))


def delong_spread(up: Facts, down: Facts) -> Spread:
    """Return the spread of an AUC, from facts about twice the wins of each class.

    The wins of a negative are the positives that beat it.
    """
    parts = []
    for (n, mean, squares, low, high), n_others in ((down, up[0]), (up, down[0])):
        variance = squares / (n - 1) / n / (2 * n_others) ** 2 if n > 1 else 0.0
        effective = 0.0
        if high > low and squares > 0.0:
            effective = min(n * d * d / (squares / n + d * d) for d in (high - mean, mean - low))
        parts.append(Part(variance, effective, float(n)))
    error = math.nan
    if min(up[0], down[0]) > 1:
        error = math.sqrt(parts[0].variance + parts[1].variance)
    return Spread(error, tuple(parts))
