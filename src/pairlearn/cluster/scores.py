# SPDX-License-Identifier: BSD-3-Clause
r"""Scores of all partitions: AUC with its interval, ROC curve and calibration.

`ModelScores` brings the scores themselves, 17 bytes for each row. `ScoreHistogram` has constant
memory, and an error that it knows. The order of a pair in two bins is certain. The order of a pair
in one bin is certain too, unless the ranges of the two classes overlap inside the bin; such a pair
counts one half, with an error of at most one half.

Bins are narrow about the median and ever wider in the tails. Their edges are c + b sinh(t) for
evenly spaced t, with c the median and b half the interquartile range of some scores, from the
smallest to the largest score that the ranges of the features allow. Even bins would be too wide
for the bulk as soon as one feature has a heavy tail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.cluster.rows import as_chunk, labels_of, same_width
from pairlearn.cluster.statistic import State, Statistic
from pairlearn.metrics import roc_auc
from pairlearn.metrics._inputs import which_positive
from pairlearn.metrics.delong import (
    AUCInterval,
    Facts,
    auc_interval,
    delong_spread,
    roc_auc_interval,
)
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_count

#: Scores that are left of more than the limit, to place bins.
_PLACING = 65_536


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
class ScoreBins:
    """Scores of each class (negatives first) by bin: weights, means and extremes."""

    weight: Vector
    mean: Vector
    low: Vector
    high: Vector

    def points(self) -> tuple[Vector, Mask, Vector]:
        """Return score, class (whether positive) and weight of each bin that is not empty."""
        kind, place = np.nonzero(self.weight)
        return self.mean[kind, place], kind == 1, self.weight[kind, place]


@dataclass(frozen=True, eq=False)
class HistogramAUC:
    """The AUC and the bins of a histogram of scores."""

    #: The AUC, at most `half_width` from the exact one.
    auc: float
    half_width: float
    bins: ScoreBins
    #: Inner edges.
    edges: Vector
    n_examples: int

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
        there = total > 0
        weight, mean = self.bins.weight[:, there], self.bins.mean[:, there]
        return (weight * mean).sum(axis=0) / total[there], weight[1] / total[there], total[there]

    def interval(self, confidence: float = 0.95) -> AUCInterval:
        """Return DeLong's interval of tied scores, wider by the half-width; NaN with weights."""
        negatives, positives = self.bins.weight
        if self.n_examples != self.bins.weight.sum() or (self.bins.weight % 1.0).any():
            return AUCInterval(self.auc, math.nan, math.nan, math.nan, confidence)
        below = 2.0 * np.cumsum(negatives) - negatives
        above = 2.0 * positives.sum() - 2.0 * np.cumsum(positives) + positives
        spread = delong_spread(_facts(positives, below), _facts(negatives, above))
        tied = auc_interval(self.auc, spread, confidence)
        low, high = max(tied.low - self.half_width, 0.0), min(tied.high + self.half_width, 1.0)
        return replace(tied, low=low, high=high)


def _facts(count: Vector, wins: Vector) -> Facts:
    """Return number, mean, scatter and extremes of twice the wins of examples."""
    n, there = float(count.sum()), count > 0
    mean = float(count @ wins) / n
    low, high = float(wins[there].min()), float(wins[there].max())
    return int(n), mean, float(count @ (wins - mean) ** 2), low, high


class ScoreHistogram(Statistic):
    """Scores by class and bin: AUC with a certified half-width, ROC curve, calibration.

    Parameters
    ----------
    score : array-like of shape (d,), or callable
        Coefficients, or a function from rows to scores.
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

    def __init__(
        self, score: ArrayLike | Callable[[Any], Vector], edges: ArrayLike, classes: Any
    ) -> None:
        self.score: Any = score if callable(score) else np.asarray(score, dtype=np.float64)
        self.edges = np.asarray(edges, dtype=np.float64)
        if np.isnan(self.edges).any() or (np.diff(self.edges) < 0).any():
            raise ValueError("edges of bins must be numbers that increase; see score_edges.")
        self.classes = np.asarray(classes)
        if len(self.classes) != 2:
            raise ValueError(f"classes must be (negative, positive), got {classes!r}.")

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the bins of one chunk."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        if not callable(self.score):
            same_width(chunk.shape[1], len(self.score))
        positive = which_positive(labels_of(chunk, "A histogram by class"), self.classes)
        scores = np.empty(chunk.shape[0])
        for now, block in chunk.blocks():
            scores[now] = self.score(block) if callable(self.score) else block @ self.score
        n_bins = len(self.edges) + 1
        cell = np.searchsorted(self.edges, scores, side="right") + positive * n_bins
        low, high = np.full(2 * n_bins, np.inf), np.full(2 * n_bins, -np.inf)
        np.minimum.at(low, cell, scores)
        np.maximum.at(high, cell, scores)
        return {
            "weight": np.bincount(cell, chunk.weight, 2 * n_bins),
            "total": np.bincount(cell, chunk.weight * scores, 2 * n_bins),
            "low": low,
            "high": high,
            "n_examples": np.array(len(scores)),
        }

    def combine(self, a: State, b: State) -> State:
        """Merge bin by bin."""
        ends = {"low": np.minimum(a["low"], b["low"]), "high": np.maximum(a["high"], b["high"])}
        return {name: a[name] + b[name] for name in ("weight", "total", "n_examples")} | ends

    def finish(self, state: State) -> HistogramAUC:
        """Return AUC, curve and calibration."""
        state = self.needs(state)
        weight, total, low, high = (
            state[name].reshape(2, -1) for name in ("weight", "total", "low", "high")
        )
        sums = weight.sum(axis=1, keepdims=True)
        if not (sums > 0.0).all():
            raise ValueError(
                "Pairs need examples of both classes in all partitions together, got weights "
                f"{sums[:, 0].tolist()}."
            )
        mean = total / np.where(weight > 0.0, weight, 1.0)
        negative, positive = weight / sums
        below = np.cumsum(negative) - negative
        both = (negative > 0) & (positive > 0)
        wins, loses = both & (low[1] > high[0]), both & (high[1] < low[0])
        tied = both & (low[0] == high[1]) & (low[1] == high[0]) & (low[0] == low[1])
        share = positive * negative
        unknown = float(share[both & ~wins & ~loses & ~tied].sum())
        auc = float(positive @ below) + float(share[wins].sum()) + 0.5 * float(share[tied].sum())
        # Sums over the bins are rounded.
        doubt = 0.5 * unknown + len(share) * float(np.finfo(float).eps)
        bins = ScoreBins(weight, mean, low, high)
        return HistogramAUC(auc + 0.5 * unknown, doubt, bins, self.edges, int(state["n_examples"]))


class ModelScores(Statistic):
    """The scores of a model: the AUC of one machine with its interval, for up to `limit` rows.

    Parameters
    ----------
    model : estimator
        A fitted classifier of two classes with `decision_function`.
    limit : int, default=10_000_000
        The most scores that are brought; of more rows, `finish` returns some scores to place bins.
    confidence : float, default=0.95
        The level of the interval.

    Examples
    --------
    >>> from pairlearn import AUCClassifier
    >>> X, y = np.arange(8.0)[:, None], np.array([0, 0, 1, 0, 1, 0, 1, 1])
    >>> statistic = ModelScores(AUCClassifier(random_state=0).fit(X, y))
    >>> states = [statistic.partial_state(X[k::2], y[k::2]) for k in (0, 1)]
    >>> statistic.finish(statistic.merge(*states)).auc
    0.8125
    """

    def __init__(self, model: Any, limit: int = 10_000_000, *, confidence: float = 0.95) -> None:
        self.model, self.limit = model, check_count("limit", limit)
        self.confidence = confidence

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the scores of one chunk."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        labels = labels_of(chunk, "The AUC")
        return {
            "scores": self.model.decision_function(chunk.table),
            "positive": which_positive(labels, self.model.classes_),
            "weight": chunk.weight,
            "n": np.array(len(labels)),
            "weighed": np.array(chunk.given_weight is not None),
        }

    def combine(self, a: State, b: State) -> State:
        """Append the scores of the second state, or thin out those of both."""
        facts = {"n": a["n"] + b["n"], "weighed": a["weighed"] | b["weighed"]}
        names = ("scores", "positive", "weight")
        both = {name: np.concatenate([a[name], b[name]]) for name in names}
        if facts["n"] > self.limit:
            step = -(-len(both["scores"]) // _PLACING)
            order = np.argsort(both["scores"], kind="stable")[::step]
            both = {name: values[order] for name, values in both.items()}
        return facts | both

    def finish(self, state: State) -> AUCInterval | Vector:
        """Return the AUC with its interval (NaN with weights), or some of too many scores."""
        state = self.needs(state)
        scores, positive, weight = (state[name] for name in ("scores", "positive", "weight"))
        if state["n"] > self.limit:
            return scores
        if not state["weighed"]:
            return roc_auc_interval(positive, scores, confidence=self.confidence)
        auc = roc_auc(positive, scores, sample_weight=weight)
        return AUCInterval(auc, math.nan, math.nan, math.nan, self.confidence)
