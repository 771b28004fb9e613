# SPDX-License-Identifier: BSD-3-Clause
r"""AUC, ROC curve and calibration from a histogram of scores, with a bound on the error.

The order of a pair in two bins is certain. The order of a pair in one bin is certain too, unless
the ranges of the two classes overlap inside the bin; such a pair counts one half, with an error of
at most one half. The mean AUC of the partitions does not estimate the AUC: partitions may differ,
and most pairs lie across partitions.

Bins are narrow about the median and ever wider in the tails. Their edges are c + b sinh(t) for
evenly spaced t, with c the median and b half the interquartile range of some scores, from the
smallest to the largest score that the ranges of the features allow. Even bins would be too wide
for the bulk as soon as one feature has a heavy tail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.statistics.base import State
from pairlearn.distributed.statistics.binned import ByBin, ScoreBins
from pairlearn.typing import Vector
from pairlearn.validation import check_count


def score_range(w: Vector, low: Vector, high: Vector) -> tuple[float, float]:
    """Return the smallest and largest <w, x> with low <= x <= high.

    Parameters
    ----------
    w : ndarray of shape (d,)
        Coefficients.
    low, high : ndarray of shape (d,)
        The range of each feature.

    Returns
    -------
    tuple of float
        Both.

    Examples
    --------
    >>> score_range(np.array([1.0, -2.0]), np.zeros(2), np.ones(2))
    (-2.0, 1.0)
    """
    ends = w * low, w * high
    return float(np.minimum(*ends).sum()), float(np.maximum(*ends).sum())


def score_edges(scores: Vector, low: float, high: float, n_bins: int) -> Vector:
    """Return the n_bins - 1 inner edges of the bins, in increasing order.

    Parameters
    ----------
    scores : ndarray of shape (m,)
        Some scores, which show where most of them lie.
    low, high : float
        The bounds of all scores.
    n_bins : int
        Number of bins, at least 2.

    Returns
    -------
    ndarray of shape (n_bins - 1,)
        The edges.

    Examples
    --------
    >>> edges = score_edges(np.arange(5.0), -1e6, 1e6, 8)
    >>> edges.round(1)
    array([-2.65895e+04, -7.05100e+02, -1.68000e+01,  2.00000e+00,
            2.08000e+01,  7.09100e+02,  2.65934e+04])
    """
    n_bins = check_count("n_bins", n_bins, minimum=2)
    first, centre, last = np.quantile(scores, [0.25, 0.5, 0.75])
    spread = 0.5 * float(last - first) or float(scores.std()) or 1.0
    t = np.linspace(
        np.arcsinh((low - centre) / spread), np.arcsinh((high - centre) / spread), n_bins + 1
    )
    return np.asarray(centre + spread * np.sinh(t[1:-1]))


@dataclass(frozen=True, eq=False)
class HistogramAUC:
    """The AUC and the bins of a histogram of scores."""

    #: The AUC, at most `half_width` from the exact one.
    auc: float
    half_width: float
    bins: ScoreBins
    #: Inner edges.
    edges: Vector
    n_examples: NDArray[np.int64]

    def roc(self) -> tuple[Vector, Vector, Vector]:
        """Return false and true positive rates of ``score >= threshold``, and the thresholds."""
        rates = self.bins.weight / self.bins.weight.sum(axis=1, keepdims=True)
        below = np.cumsum(rates[:, :-1], axis=1)
        above = np.concatenate([np.zeros((2, 1)), 1.0 - below[:, ::-1], np.ones((2, 1))], axis=1)
        thresholds = np.concatenate([[np.inf], self.edges[::-1], [-np.inf]])
        return above[0], above[1], thresholds

    def calibration(self) -> tuple[Vector, Vector, Vector]:
        """Return mean score, share of positives and weight of each bin that is not empty."""
        total = self.bins.weight.sum(axis=0)
        kept = total > 0
        weight, mean = self.bins.weight[:, kept], self.bins.mean[:, kept]
        return (weight * mean).sum(axis=0) / total[kept], weight[1] / total[kept], total[kept]


class ScoreHistogram(ByBin):
    """Scores by class and bin: AUC with a certified half-width, ROC curve, calibration.

    Parameters
    ----------
    w : array-like of shape (d,)
        Coefficients. For scores that are already computed, use ``[1.0]`` and X of one column.
    edges : array-like of shape (n_bins - 1,)
        Inner edges of the bins, see `score_edges`.
    classes : sequence of two labels
        The negative and the positive label.

    Examples
    --------
    >>> statistic = ScoreHistogram([1.0], [0.5], ("no", "yes"))
    >>> X, y = np.array([[0.1], [0.4], [0.4], [0.8]]), np.array(["no", "no", "yes", "yes"])
    >>> found = statistic.finish(statistic.partial_state(X, y))
    >>> found.auc, round(found.half_width, 12)
    (0.75, 0.25)
    """

    def finish(self, state: State) -> HistogramAUC:
        """Return AUC, curve and calibration."""
        bins = self.bins(state)
        bins.both_classes()
        negative, positive = bins.weight / bins.weight.sum(axis=1, keepdims=True)
        below = np.cumsum(negative) - negative
        low, high = bins.low, bins.high
        both = (negative > 0) & (positive > 0)
        wins, loses = both & (low[1] > high[0]), both & (high[1] < low[0])
        tied = both & (low[0] == high[1]) & (low[1] == high[0]) & (low[0] == low[1])
        share = positive * negative
        unknown = float(share[both & ~wins & ~loses & ~tied].sum())
        auc = float(positive @ below) + float(share[wins].sum()) + 0.5 * float(share[tied].sum())
        # Sums over the bins are rounded.
        doubt = 0.5 * unknown + len(share) * float(np.finfo(float).eps)
        return HistogramAUC(auc + 0.5 * unknown, doubt, bins, self.edges, state["n_examples"])
