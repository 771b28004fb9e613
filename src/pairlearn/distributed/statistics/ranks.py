# SPDX-License-Identifier: BSD-3-Clause
r"""The exact AUC of scores on many machines, with the interval of `roc_auc_interval`.

Each score goes to one range of scores. Pairs inside a range are counted there, and all positives of
a range beat all negatives of lower ranges. The AUC is a ratio of whole numbers, so it is the same
as on one machine, bit for bit. The wins of an example differ from its wins inside its range by a
constant, so their variance merges as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pairlearn.distributed.statistics.base import State
from pairlearn.distributed.statistics.histogram import HistogramAUC
from pairlearn.metrics.delong import AUCInterval, Facts, auc_interval, delong_spread
from pairlearn.typing import Mask, Vector

#: Scores, whether positive, and weights (empty if all are one).
Scored = tuple[Vector, Mask, Vector]


def quantile_splits(quantiles: Sequence[Vector], n_ranges: int) -> Vector:
    """Return the inner ends of ranges that hold about equally many scores.

    Parameters
    ----------
    quantiles : sequence of ndarrays
        Evenly spaced quantiles of each partition.
    n_ranges : int
        Number of ranges.

    Returns
    -------
    ndarray
        At most n_ranges - 1 ends, in increasing order.

    Examples
    --------
    >>> quantile_splits([np.array([0.0, 1.0, 2.0]), np.array([3.0, 4.0, 5.0])], 2)
    array([2.5])
    """
    pooled = np.concatenate([np.empty(0), *quantiles])
    if not len(pooled) or n_ranges < 2:
        return np.empty(0)
    return np.unique(np.quantile(pooled, np.arange(1, n_ranges) / n_ranges))


def deal(scored: Scored, splits: Vector) -> list[Scored]:
    """Return the scores of a partition by range; a score equal to a split is above it.

    Parameters
    ----------
    scored : tuple of three ndarrays
        Scores, whether each is positive, and weights (empty if all are one).
    splits : ndarray
        The inner ends of the ranges, see `quantile_splits`.

    Returns
    -------
    list of tuples
        The scores of each range, in the same form.

    Examples
    --------
    >>> pieces = deal((np.array([1.0, 3.0]), np.array([False, True]), np.empty(0)), np.array([2.0]))
    >>> [piece[0].tolist() for piece in pieces]
    [[1.0], [3.0]]
    """
    scores, positive, weight = scored
    place = np.searchsorted(splits, scores, side="right")
    pieces = []
    for k in range(len(splits) + 1):
        kept = place == k
        pieces.append((scores[kept], positive[kept], weight[kept] if len(weight) else weight))
    return pieces


def range_state(pieces: Sequence[Scored]) -> State:
    """Count the pairs inside one range, from its pieces of all partitions.

    Parameters
    ----------
    pieces : sequence of tuples
        The pieces of this range, from `deal`.

    Returns
    -------
    dict of arrays
        Counts, twice the wins of positives and negatives (their sum, extremes and scatter), and the
        weighted counts.

    Examples
    --------
    >>> range_state([(np.array([1.0, 3.0]), np.array([False, True]), np.empty(0))])["counts"]
    array([1, 1])
    """
    scores = np.concatenate([np.empty(0), *(piece[0] for piece in pieces)])
    positive = np.concatenate([np.empty(0, dtype=bool), *(piece[1] for piece in pieces)])
    weighted = any(len(piece[2]) for piece in pieces)
    up = np.sort(scores[positive])
    down = np.sort(scores[~positive])
    below = np.searchsorted(down, up, "left") + np.searchsorted(down, up, "right")
    above = 2 * len(up) - np.searchsorted(up, down, "left") - np.searchsorted(up, down, "right")
    state = {"counts": np.array([len(down), len(up)])}
    for name, wins in (("negative", above), ("positive", below)):
        centred = wins - wins.mean() if len(wins) else wins
        state[name] = np.array(
            [
                float(wins.mean()) if len(wins) else 0.0,
                float(centred @ centred),
                float(wins.min(initial=np.iinfo(np.int64).max)),
                float(wins.max(initial=-1)),
            ]
        )
    state["wins"] = np.array(int(below.sum()))
    if weighted:
        weight = np.concatenate(
            [piece[2] if len(piece[2]) else np.ones(len(piece[0])) for piece in pieces]
        )
        order = np.argsort(scores[~positive], kind="stable")
        before = np.concatenate([[0.0], np.cumsum(weight[~positive][order])])
        beaten = 0.5 * (
            before[np.searchsorted(down, scores[positive], "left")]
            + before[np.searchsorted(down, scores[positive], "right")]
        )
        state["weights"] = np.array([before[-1], weight[positive].sum()])
        state["weighted_wins"] = np.array(weight[positive] @ beaten)
    return state


def exact_auc(states: Sequence[State], *, confidence: float = 0.95) -> AUCInterval:
    """Return the AUC of all ranges with its interval; no interval for weights.

    Parameters
    ----------
    states : sequence of dicts
        The states from `range_state`, lowest range first.
    confidence : float, default=0.95
        The level of the interval.

    Returns
    -------
    AUCInterval
        The result of `roc_auc_interval` for all scores in one memory.

    Examples
    --------
    >>> scores, positive = np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True])
    >>> pieces = deal((scores, positive, np.empty(0)), np.array([0.4]))
    >>> exact_auc([range_state([piece]) for piece in pieces]).auc
    0.875
    """
    n_negative, n_positive = (sum(int(s["counts"][kind]) for s in states) for kind in (0, 1))
    if not n_negative or not n_positive:
        raise ValueError(
            f"The AUC needs examples of both classes, got {n_positive} positive and {n_negative} "
            "negative ones."
        )
    if any("weights" in state for state in states):
        return _weighted(states, confidence)
    doubled, below = 0, 0
    ups, downs = _Spread(), _Spread()
    above = n_positive
    for state in states:
        negatives, positives = (int(count) for count in state["counts"])
        above -= positives
        doubled += int(state["wins"]) + 2 * positives * below
        ups.add(positives, state["positive"], 2 * below)
        downs.add(negatives, state["negative"], 2 * above)
        below += negatives
    auc = doubled / (2 * n_positive * n_negative)
    return auc_interval(auc, delong_spread(ups.facts, downs.facts), confidence)


def binned_auc(found: HistogramAUC, *, confidence: float = 0.95) -> AUCInterval:
    """Return the AUC of a histogram with an interval that also holds what the bins hide.

    Parameters
    ----------
    found : HistogramAUC
        The histogram of the scores; with weights there is no interval, as for `exact_auc`.
    confidence : float, default=0.95
        The level of the interval.

    Returns
    -------
    AUCInterval
        The AUC, and DeLong's interval for scores that are tied within their bins, wider on both
        sides by the certified half-width of the AUC.

    Examples
    --------
    >>> from pairlearn.distributed import ScoreHistogram
    >>> statistic = ScoreHistogram([1.0], [0.3, 0.6], (0, 1))
    >>> X, y = np.array([[0.1], [0.4], [0.5], [0.8]]), np.array([0, 0, 1, 1])
    >>> binned_auc(statistic.finish(statistic.partial_state(X, y))).auc
    1.0
    """
    if found.n_examples.sum() != found.bins.weight.sum() or (found.bins.weight % 1.0).any():
        return AUCInterval(found.auc, math.nan, math.nan, math.nan, confidence)
    negatives, positives = found.bins.weight.astype(np.int64)
    ups, downs = _Spread(), _Spread()
    below, above = 0, int(positives.sum())
    for n_down, n_up in zip(negatives.tolist(), positives.tolist(), strict=True):
        above -= n_up
        ups.add(n_up, np.array([n_down, 0.0, n_down, n_down]), 2 * below)
        downs.add(n_down, np.array([n_up, 0.0, n_up, n_up]), 2 * above)
        below += n_down
    tied = auc_interval(found.auc, delong_spread(ups.facts, downs.facts), confidence)
    low, high = max(tied.low - found.half_width, 0.0), min(tied.high + found.half_width, 1.0)
    return replace(tied, low=low, high=high)


class _Spread:
    """Facts about numbers of wins, range after range."""

    def __init__(self) -> None:
        self.n, self.mean, self.squares = 0, 0.0, 0.0
        self.low, self.high = math.inf, -math.inf

    def add(self, n: int, facts: Any, shift: int) -> None:
        if not n:
            return
        mean, squares, low, high = facts.tolist()
        gap = mean + shift - self.mean
        total = self.n + n
        self.squares += squares + self.n * n / total * gap**2
        self.mean += n / total * gap
        self.n = total
        self.low, self.high = min(self.low, low + shift), max(self.high, high + shift)

    @property
    def facts(self) -> Facts:
        squares = 0.0 if self.low == self.high else self.squares
        return self.n, self.mean, squares, self.low, self.high


def _weighted(states: Sequence[State], confidence: float) -> AUCInterval:
    below, total = 0.0, 0.0
    weights = np.zeros(2)
    for state in states:
        # A range of scores without weights has examples of weight 1; wins are counted twice.
        negative, positive = state.get("weights", state["counts"])
        total += float(state.get("weighted_wins", 0.5 * state["wins"])) + positive * below
        below += negative
        weights += (negative, positive)
    if not weights.all():
        raise ValueError(
            "sample_weight is 0 for every example of one class; the AUC needs weight in both."
        )
    auc = min(float(total / weights.prod()), 1.0)
    return AUCInterval(auc, math.nan, math.nan, math.nan, confidence)
