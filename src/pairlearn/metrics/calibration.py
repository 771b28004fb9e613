# SPDX-License-Identifier: BSD-3-Clause
"""Measure whether probabilities are right: the Brier score and the calibration curve."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.metrics._inputs import ROUNDING, is_positive
from pairlearn.metrics.limits import share_limits, spread_of
from pairlearn.metrics.metric import Measured, TwoClassMetric
from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import check_count, check_fraction


@dataclass(frozen=True)
class BrierScore(TwoClassMetric):
    """The mean squared difference between probability and outcome.

    Examples
    --------
    >>> BrierScore()([0, 1], [0.5, 1.0])
    0.125
    """

    larger_is_better = False
    of_probabilities = True

    def measure_classes(self, positive: Mask, scores: Vector, weight: Vector) -> Measured:
        """Return the score and its influences."""
        squares, total = (scores - positive) ** 2, float(weight.sum())
        value = float(weight @ squares) / total
        return Measured(value, weight * (squares - value) / total, len(squares))


@dataclass(frozen=True)
class CalibrationError(TwoClassMetric):
    """The mean, over bins of examples, of abs(mean probability - share of positives).

    Also known as expected calibration error. For a perfectly calibrated model chance alone makes it
    about sqrt(n_bins / n) / 3. So use it for comparisons at equal n, or for errors well above that
    size, where its interval is valid. Compare models by `BrierScore` too.

    Parameters
    ----------
    n_bins : int, default=10
        The number of bins, at most.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal numbers of examples (equal probabilities stay together), or of equal width.

    Examples
    --------
    >>> CalibrationError(2)([0, 0, 1, 1], [0.1, 0.1, 0.6, 0.6])
    0.25
    """

    n_bins: int = 10
    strategy: str = "quantile"

    larger_is_better = False
    of_probabilities = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_bins", check_count("n_bins", self.n_bins))
        if self.strategy not in ("quantile", "uniform"):
            raise ValueError(f'strategy must be "quantile" or "uniform", got {self.strategy!r}.')

    def bins(self, scores: Vector, weight: Vector) -> Places:
        """Return the bin of each example, numbered from 0 without gaps."""
        if self.strategy == "uniform":
            edges = np.linspace(0.0, 1.0, self.n_bins + 1)[1:-1]
            place = np.searchsorted(edges, scores)
        else:
            step = np.unique(scores, return_inverse=True)[1]
            mass = np.bincount(step, weight)
            # the share of the weight below the middle of all examples of that probability
            middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
            # a middle meets the edge of a bin up to rounding
            first = self.n_bins * middle * (1.0 + ROUNDING)
            place = np.minimum(first, self.n_bins - 1).astype(np.intp)[step]
        return np.asarray(np.unique(place, return_inverse=True)[1])

    def measure_classes(self, positive: Mask, scores: Vector, weight: Vector) -> Measured:
        """Return the error and its influences, for fixed bins."""
        gap = scores - positive
        place = self.bins(scores, weight)
        total = float(weight.sum())
        sums = np.bincount(place, weight * gap)
        sums[np.abs(sums) <= 1e-12 * np.bincount(place, weight)] = 0.0  # rounding has no sign
        value = float(np.abs(sums).sum()) / total
        return Measured(value, weight * (np.sign(sums)[place] * gap - value) / total, len(gap))


@dataclass(frozen=True)
class CalibrationCurve:
    """Mean probability and share of positives of each bin.

    Parameters
    ----------
    predicted, observed : ndarray of shape (n_bins,)
        Mean probability and share of positives.
    low, high : ndarray of shape (n_bins,)
        Limits of the share of positives, for all bins at once.
    weight : ndarray of shape (n_bins,)
        The share of the examples in each bin.
    error : float
        The calibration error: the weighted mean of abs(predicted - observed).
    confidence : float
        The level at which all limits hold together.

    Examples
    --------
    >>> curve = calibration_curve([0, 0, 1, 1], [0.1, 0.1, 0.6, 0.6], n_bins=2)
    >>> curve.weight, curve.error
    (array([0.5, 0.5]), 0.25)
    """

    predicted: Vector
    observed: Vector
    low: Vector
    high: Vector
    weight: Vector
    error: float
    confidence: float


def calibration_curve(
    y: ArrayLike,
    probabilities: ArrayLike,
    *,
    n_bins: int = 10,
    strategy: str = "quantile",
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
) -> CalibrationCurve:
    """Return mean probability and share of positives, bin by bin.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of exactly two classes; the larger one is positive.
    probabilities : array-like of shape (n,)
        Probabilities of the positive class.
    n_bins : int, default=10
        The number of bins, at most; empty ones are left out.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal numbers of examples, or of equal width.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights.
    groups : array-like of shape (n,), optional
        The group of each example; examples of one group may depend on each other.
    confidence : float, default=0.95
        The level of all limits together.

    Returns
    -------
    CalibrationCurve
        The curve, its limits and the calibration error.

    Notes
    -----
    The limits are Wilson's score interval, at the level 1 - (1 - confidence) / n_bins in each bin
    (Bonferroni). Its size is the number of equal and independent examples with the same variance,
    which is smaller with uneven weights or with groups (see `spread_of` in
    `pairlearn.metrics.limits`).

    Examples
    --------
    >>> curve = calibration_curve([0, 0, 1, 1], [0.1, 0.1, 0.6, 0.6], n_bins=2)
    >>> curve.predicted, curve.observed
    (array([0.1, 0.6]), array([0., 1.]))
    """
    confidence = check_fraction("confidence", confidence)
    metric = CalibrationError(n_bins, strategy)
    given = {"probabilities": probabilities}
    sample, (found,) = metric.measured(y, given, sample_weight, groups)
    positive, scores, weight = is_positive(sample.labels), sample.scores[0], sample.weight
    place = metric.bins(scores, weight)
    mass = np.bincount(place, weight)
    predicted = np.bincount(place, weight * scores) / mass
    observed = np.bincount(place, weight * positive) / mass
    z = NormalDist().inv_cdf(1.0 - 0.5 * (1.0 - confidence) / len(mass))
    limits = np.empty((2, len(mass)))
    for k, share in enumerate(observed.tolist()):
        rows = np.flatnonzero(place == k)
        v = weight[rows]
        codes = None
        if sample.groups is not None:
            codes = np.unique(sample.groups[rows], return_inverse=True)[1]
        # the number of independent examples with the same variance of the share
        one_class = np.zeros(len(rows), dtype=np.intp)
        spread = spread_of(one_class, v * (positive[rows] - share) / v.sum(), v, codes, 1.0)
        size = 1.0 if spread is None else spread.parts[0].size
        limits[:, k] = share_limits(share, 0.0, (size, size), z)
    return CalibrationCurve(
        predicted, observed, limits[0], limits[1], mass / mass.sum(), found.value, confidence
    )
