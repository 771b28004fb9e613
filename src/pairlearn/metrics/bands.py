# SPDX-License-Identifier: BSD-3-Clause
r"""ROC and precision-recall curves with simultaneous confidence bands.

The ROC curve is shifted along the direction (-b_F, +b_T) and back, with b_F = 1 / sqrt(n-) and
b_T = 1 / sqrt(n+), the sizes of the errors of the two rates (Campbell's fixed-width band). In the
coordinates p = F / b_F + T / b_T and q = T / b_T - F / b_F every ROC curve is a function q(p) on
the same range, and the shift changes only q. The width is the quantile of the largest distance
max_p |q* - q| over curves q* of resampled examples. Classes are resampled separately; if examples
of one group depend on each other, whole groups are resampled.

Resampled curves say nothing if all of them are equal (a perfect score) or if a class has a single
example or group. The width is then that of the inequality of Dvoretzky, Kiefer and Wolfowitz for
both rates at half the level each: :math:`\sqrt{\log(4 / a) / 2}` times the units.

The precision-recall band is the image of the ROC band for a given share of positives, since
precision = pi T / (pi T + (1 - pi) F) is monotone in F at every recall T.

References
----------
G. Campbell, Advances in statistical methodology for the evaluation of diagnostic and laboratory
tests, Statistics in Medicine 13, 1994.
P. Massart, The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality, Annals of Probability
18, 1990.
S. Macskassy, F. Provost and S. Rosset, ROC confidence bands: an empirical evaluation, ICML 2005.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.metrics._inputs import ROUNDING, Corners, Sample, corners, is_positive
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_count, check_fraction, check_generator


@dataclass(frozen=True)
class RocBand:
    """A ROC curve with a simultaneous band.

    Parameters
    ----------
    fpr, tpr : ndarray of shape (n_points,)
        The corners of the curve, from (0, 0) to (1, 1).
    low, high : ndarray of shape (n_points,)
        The band of the true positive rate at each `fpr`.
    thresholds : ndarray of shape (n_points,)
        Scores of at least this value are accepted; infinity accepts none.
    confidence : float
        The level of the band.

    Examples
    --------
    >>> band = roc_band([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], confidence=0.9)
    >>> band.fpr, band.thresholds, band.confidence
    (array([0. , 0. , 0.5, 0.5, 1. ]), array([ inf, 0.8 , 0.4 , 0.35, 0.1 ]), 0.9)
    """

    fpr: Vector
    tpr: Vector
    low: Vector
    high: Vector
    thresholds: Vector
    confidence: float


@dataclass(frozen=True)
class PrecisionRecallBand:
    """A precision-recall curve with a simultaneous band.

    Parameters
    ----------
    recall, precision : ndarray of shape (n_points,)
        The curve, from the highest threshold down.
    low, high : ndarray of shape (n_points,)
        The band of the precision at each recall.
    thresholds : ndarray of shape (n_points,)
        Scores of at least this value are accepted.
    prevalence : float
        The share of positives that the precision refers to.
    confidence : float
        The level of the band.

    Examples
    --------
    >>> band = precision_recall_band([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> band.thresholds, band.prevalence
    (array([0.8 , 0.4 , 0.35, 0.1 ]), 0.5)
    """

    recall: Vector
    precision: Vector
    low: Vector
    high: Vector
    thresholds: Vector
    prevalence: float
    confidence: float


def roc_band(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
    n_resamples: int = 1000,
    random_state: Any = 0,
) -> RocBand:
    """Return the ROC curve with a simultaneous band.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of exactly two classes; the larger one is positive.
    scores : array-like of shape (n,)
        Finite scores of examples that were *not* used to train.
    sample_weight : array-like of shape (n,), optional
        Non-negative weights.
    groups : array-like of shape (n,), optional
        The group of each example; examples of one group may depend on each other.
    confidence : float, default=0.95
        The probability that the whole curve lies in the band.
    n_resamples : int, default=1000
        The number of resampled curves; at least 20.
    random_state : int, RandomState, Generator or None, default=0
        The source of randomness.

    Returns
    -------
    RocBand
        The curve and its band.

    Examples
    --------
    >>> band = roc_band([0, 0, 0, 1, 1, 1], [0.1, 0.5, 0.3, 0.4, 0.6, 0.7])
    >>> band.tpr.round(2)
    array([0.  , 0.33, 0.67, 0.67, 1.  , 1.  , 1.  ])
    >>> bool((band.low <= band.tpr).all() and (band.tpr <= band.high).all())
    True
    """
    found, (wide, tall), _ = _band(
        y, scores, sample_weight, groups, confidence, n_resamples, random_state
    )
    fpr, tpr = found.fpr, found.tpr
    # at a given rate, the highest point of the raised curve and the lowest of the lowered one
    high = np.interp(fpr, fpr - wide, tpr + tall)
    low = np.interp(-fpr, -(fpr + wide)[::-1], (tpr - tall)[::-1], right=0.0)
    thresholds = np.concatenate(([np.inf], found.thresholds))
    low, high = np.clip(low, 0.0, tpr), np.clip(high, tpr, 1.0)
    return RocBand(fpr, tpr, low, high, thresholds, float(confidence))


def precision_recall_band(
    y: ArrayLike,
    scores: ArrayLike,
    *,
    prevalence: float | None = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    confidence: float = 0.95,
    n_resamples: int = 1000,
    random_state: Any = 0,
) -> PrecisionRecallBand:
    """Return the precision-recall curve with a simultaneous band.

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        As in `roc_band`.
    prevalence : float, optional
        The share of positives in the intended use; by default that of the examples. It is taken as
        known: the band covers the uncertainty of the scores, not of the prevalence.
    sample_weight, groups : array-like of shape (n,), optional
        As in `roc_band`.
    confidence, n_resamples, random_state : optional
        As in `roc_band`.

    Returns
    -------
    PrecisionRecallBand
        The curve and its band.

    Examples
    --------
    >>> band = precision_recall_band([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> band.recall, band.precision.round(2)
    (array([0.5, 0.5, 1. , 1. ]), array([1.  , 0.5 , 0.67, 0.5 ]))
    """
    if prevalence is not None:
        check_fraction("prevalence", prevalence)
    found, (wide, tall), share = _band(
        y, scores, sample_weight, groups, confidence, n_resamples, random_state
    )
    fpr, tpr = found.fpr, found.tpr
    share = share if prevalence is None else float(prevalence)
    # at a given recall, the smallest and the largest false positive rate inside the band
    least = np.interp(-tpr, -(tpr + tall)[::-1], (fpr - wide)[::-1], right=0.0)
    most = np.interp(tpr, tpr - tall, fpr + wide)
    recall = tpr[1:]

    def precision_for(rate: Vector) -> Vector:
        caught = share * recall
        accepted = caught + (1.0 - share) * rate[1:]
        # if nothing is accepted, take the precision after the next positive
        return np.divide(caught, accepted, out=np.ones_like(caught), where=accepted > 0.0)

    low, high = np.clip(most, fpr, 1.0), np.clip(least, 0.0, fpr)
    precision, low, high = (precision_for(rate) for rate in (fpr, low, high))
    return PrecisionRecallBand(
        recall, precision, low, high, found.thresholds, share, float(confidence)
    )


def _band(
    y: ArrayLike,
    scores: ArrayLike,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    confidence: float,
    n_resamples: int,
    random_state: Any,
) -> tuple[Corners, tuple[float, float], float]:
    """Return the curve, the widths of its band in both directions, and the share of positives."""
    confidence = check_fraction("confidence", confidence)
    check_count("n_resamples", n_resamples, minimum=20)
    sample = Sample.of(y, {"scores": scores}, sample_weight, groups)
    positive, weight = is_positive(sample.labels), sample.weight
    classes = ~positive, positive
    found = corners(positive, sample.scores[0], weight)
    units = [math.sqrt(weight[of] @ weight[of]) / float(weight[of].sum()) for of in classes]

    def turned(fpr: Vector, tpr: Vector) -> tuple[Vector, Vector]:
        return fpr / units[0] + tpr / units[1], tpr / units[1] - fpr / units[0]

    p, q = turned(found.fpr, found.tpr)
    n_steps, distances = len(found.thresholds), []
    rng = check_generator(random_state)
    for resampled in _resamples(positive, sample, n_resamples, rng):
        rates = []
        for of in classes:
            mass = np.bincount(found.step[of], resampled[of], minlength=n_steps)
            accepted = np.concatenate(([0.0], np.cumsum(mass)))
            rates.append(accepted / accepted[-1])
        p_star, q_star = turned(*rates)
        # the largest distance of two broken lines is at a corner of one of them
        ahead = np.abs(np.interp(p, p_star, q_star) - q).max()
        distances.append(max(ahead, np.abs(np.interp(p_star, p, q) - q_star).max()))
    # half of the change of q is the multiple of the units
    width = 0.5 * float(np.quantile(distances, confidence, method="higher"))
    places = np.arange(len(weight)) if sample.groups is None else sample.groups
    if width <= ROUNDING * p[-1] or any(np.ptp(places[of]) == 0 for of in classes):
        width = math.sqrt(0.5 * math.log(4.0 / (1.0 - confidence)))
        units = [1.0 / math.sqrt(sample.n_draws(weight * of)[0]) for of in classes]
    share = float(weight[positive].sum() / weight.sum())
    return found, (width * units[0], width * units[1]), share


def _resamples(
    positive: Mask, sample: Sample, n_resamples: int, rng: np.random.Generator
) -> Iterator[Vector]:
    """Yield weights of resampled examples: within each class, or of whole groups."""
    weight, n_groups = sample.weight, sample.n_groups
    for _ in range(n_resamples):
        if sample.groups is None or n_groups is None:
            counts = np.empty(len(weight))
            for rows in (np.flatnonzero(positive), np.flatnonzero(~positive)):
                drawn = rng.integers(len(rows), size=len(rows))
                counts[rows] = np.bincount(drawn, minlength=len(rows))
            yield weight * counts
            continue
        while True:
            drawn = np.bincount(rng.integers(n_groups, size=n_groups), minlength=n_groups)
            resampled = weight * drawn[sample.groups]
            # a resample without one of the classes has no curve
            if resampled[positive].any() and resampled[~positive].any():
                break
        yield resampled
