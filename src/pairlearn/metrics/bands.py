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
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics._curve import ROUNDING, Corners, corners
from pairlearn.metrics._inputs import is_positive
from pairlearn.metrics.partial import PartialAUC
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
    moved = _moved(y, scores, sample_weight, groups, confidence, n_resamples, random_state)
    found = moved.found
    fpr, tpr = found.fpr, found.tpr
    # at a given rate, the highest point of the raised curve and the lowest of the lowered one
    high = np.interp(fpr, fpr - moved.width_fpr, tpr + moved.width_tpr)
    low = np.interp(-fpr, -(fpr + moved.width_fpr)[::-1], (tpr - moved.width_tpr)[::-1], right=0.0)
    return RocBand(
        fpr,
        tpr,
        np.clip(low, 0.0, tpr),
        np.clip(high, tpr, 1.0),
        np.concatenate(([np.inf], found.thresholds)),
        float(confidence),
    )


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
    moved = _moved(y, scores, sample_weight, groups, confidence, n_resamples, random_state)
    found = moved.found
    fpr, tpr = found.fpr, found.tpr
    share = moved.prevalence if prevalence is None else float(prevalence)
    # at a given recall, the smallest and the largest false positive rate inside the band
    least = np.interp(
        -tpr, -(tpr + moved.width_tpr)[::-1], (fpr - moved.width_fpr)[::-1], right=0.0
    )
    most = np.interp(tpr, tpr - moved.width_tpr, fpr + moved.width_fpr)
    recall = tpr[1:]

    def precision_for(rate: Vector) -> Vector:
        caught = share * recall
        accepted = caught + (1.0 - share) * rate
        # if nothing is accepted, take the precision after the next positive
        return np.divide(caught, accepted, out=np.ones_like(caught), where=accepted > 0.0)

    return PrecisionRecallBand(
        recall,
        precision_for(fpr[1:]),
        precision_for(np.clip(most[1:], fpr[1:], 1.0)),
        precision_for(np.clip(least[1:], 0.0, fpr[1:])),
        found.thresholds,
        share,
        float(confidence),
    )


@dataclass(frozen=True)
class _Moved:
    """A curve and the widths of its band."""

    found: Corners
    width_fpr: float
    width_tpr: float
    prevalence: float


def _moved(
    y: ArrayLike,
    scores: ArrayLike,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    confidence: float,
    n_resamples: int,
    random_state: Any,
) -> _Moved:
    """Return the curve, the widths of its band in both directions, and the share of positives."""
    confidence = check_fraction("confidence", confidence)
    check_count("n_resamples", n_resamples, minimum=20)
    sample = PartialAUC().checked_sample(y, {"scores": scores}, sample_weight, groups)
    positive, weight = is_positive(sample.labels), sample.weight
    found = corners(positive, sample.scores[0], weight)
    unit_tpr, unit_fpr = (
        float(np.sqrt((weight[members] ** 2).sum()) / weight[members].sum())
        for members in (positive, ~positive)
    )
    p, q = _turned(found.fpr, found.tpr, unit_fpr, unit_tpr)
    n_steps = len(found.thresholds)
    distances = []
    rng = check_generator(random_state)
    for resampled in _resamples(positive, weight, sample.groups, n_resamples, rng):
        rates = []
        for members in (~positive, positive):
            mass = np.bincount(found.step[members], resampled[members], minlength=n_steps)
            accepted = np.concatenate(([0.0], np.cumsum(mass)))
            rates.append(accepted / accepted[-1])
        p_star, q_star = _turned(rates[0], rates[1], unit_fpr, unit_tpr)
        # the largest distance of two broken lines is at a corner of one of them
        distances.append(
            max(
                float(np.abs(np.interp(p, p_star, q_star) - q).max()),
                float(np.abs(np.interp(p_star, p, q) - q_star).max()),
            )
        )
    # half of the change of q is the multiple of the units
    width = 0.5 * float(np.quantile(distances, confidence, method="higher"))
    places = np.arange(len(weight)) if sample.groups is None else sample.groups
    if width <= ROUNDING * p[-1] or any(np.ptp(places[of]) == 0 for of in (positive, ~positive)):
        width = math.sqrt(0.5 * math.log(4.0 / (1.0 - confidence)))
        unit_tpr, unit_fpr = (
            1.0 / math.sqrt(sample.n_draws(weight * members)[0])
            for members in (positive, ~positive)
        )
    return _Moved(
        found, width * unit_fpr, width * unit_tpr, float(weight[positive].sum() / weight.sum())
    )


def _turned(fpr: Vector, tpr: Vector, unit_fpr: float, unit_tpr: float) -> tuple[Vector, Vector]:
    return fpr / unit_fpr + tpr / unit_tpr, tpr / unit_tpr - fpr / unit_fpr


def _resamples(
    positive: Mask,
    weight: Vector,
    groups: NDArray[np.int64] | None,
    n_resamples: int,
    rng: np.random.Generator,
) -> Iterator[Vector]:
    """Yield weights of resampled examples: within each class, or of whole groups."""
    if groups is None:
        classes = [np.flatnonzero(positive), np.flatnonzero(~positive)]
        for _ in range(n_resamples):
            counts = np.empty(len(weight))
            for rows in classes:
                counts[rows] = np.bincount(
                    rng.integers(len(rows), size=len(rows)), minlength=len(rows)
                )
            yield weight * counts
        return
    n_groups = int(groups.max()) + 1
    for _ in range(n_resamples):
        while True:
            drawn = np.bincount(rng.integers(n_groups, size=n_groups), minlength=n_groups)
            resampled = weight * drawn[groups]
            # a resample without one of the classes has no curve
            if resampled[positive].any() and resampled[~positive].any():
                break
        yield resampled
