# SPDX-License-Identifier: BSD-3-Clause
r"""The concordance index of scores on many machines, or of a stream, in a sketch that merges.

`ConcordanceSketch` has constant memory, and an error that it knows. Whether a pair can be compared
depends on times, and whether it is in order on scores. So a table of time bins by score bins knows
all pairs that differ in both. One table with 2^(L/2) bins of each kind leaves 2^(-L/2) of the pairs
open. Here are L tables, of 2^l time bins by :math:`2^{L - l}` score bins for l = 1, ..., L, each
with 2^L cells. A pair is looked up in one of them: that where its times are in the two halves of
one bin of the table before. It is open only if its scores share a bin there. The share of pairs
that are parted by table l is about 2^-l, so that about

.. math:: \sum_{l=1}^L 2^{-l} \, 2^{-(L - l)} + 2^{-L} = (L + 1) \, 2^{-L}

of the pairs are open: 2.6e-4 for L = 16, in 12 megabytes. An open pair counts one half. A bin that
holds a single value leaves nothing open; edges may repeat, so that a value that many examples have
gets a bin of its own and tables stay balanced. A table holds the events of first halves and all
examples of second halves, since others are never asked for. Its entries are sums of weights.
Without weights they are whole numbers, so that no order of merging changes a bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.cluster.statistic import State, Statistic
from pairlearn.metrics._inputs import check_scores
from pairlearn.metrics.concordance import ConcordanceIndex, survival_times
from pairlearn.typing import Vector
from pairlearn.validation import check_weights


@dataclass(frozen=True)
class MergedConcordance:
    """The concordance index of merged states.

    Parameters
    ----------
    value : float
        The index, at most `half_width` from that of all rows in one memory.
    half_width : float
        A certified bound, which holds for these rows.
    n_examples, n_events : int
        The rows of positive weight, and the events before tau among them.

    Examples
    --------
    >>> MergedConcordance(0.75, 1e-4, n_examples=1000, n_events=400).value
    0.75
    """

    value: float
    half_width: float
    n_examples: int
    n_events: int


def _checked(X: Any, y: Any, sample_weight: Any) -> tuple[Vector, NDArray[Any], Vector]:
    """Return scores, events with times, and weights (empty for none) of rows that weigh."""
    labels = survival_times(y)
    scores = np.asarray(X)
    scores = scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores
    scores, weight = check_scores("scores", scores, len(labels)), np.empty(0)
    if sample_weight is not None:
        weight = check_weights(sample_weight, len(labels), name="sample_weight")
        kept = weight > 0.0
        scores, labels, weight = scores[kept], labels[kept], weight[kept]
    return scores, labels, weight


class ConcordanceSketch(Statistic):
    """Harrell's index from tables of time bins by score bins, with a certified half-width.

    Parameters
    ----------
    time_edges, score_edges : array-like
        Inner edges of the bins, such as quantiles of some rows, repeated ones too; a value equal to
        an edge lies above it. With 65,535 of each, about 3e-4 of the pairs stay open. The time of
        an example without an event is looked up as the next larger number, see `place_of_times`.
    metric : ConcordanceIndex, optional
        Harrell's index, with or without `tau`. The weights of Uno's index need all rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> time, left, risk = rng.exponential(size=(3, 9000))
    >>> y = np.column_stack((time < left, np.minimum(time, left)))
    >>> edges = np.quantile(y[:1000, 1], np.arange(1, 1024) / 1024)
    >>> statistic = ConcordanceSketch(edges, np.quantile(risk[:1000], np.arange(1, 1024) / 1024))
    >>> states = (statistic.partial_state(risk[k::3], y[k::3]) for k in range(3))
    >>> found = statistic.finish(statistic.merge_all(states))
    >>> abs(found.value - ConcordanceIndex()(y, risk)) <= found.half_width < 0.01
    True
    """

    def __init__(
        self,
        time_edges: ArrayLike,
        score_edges: ArrayLike,
        metric: ConcordanceIndex | None = None,
    ) -> None:
        self.metric = ConcordanceIndex() if metric is None else metric
        if self.metric.ipcw:
            raise ValueError(
                f"{self.metric!r} weighs pairs by the censoring of all rows, which bins do not "
                "know; use ConcordanceIndex(tau=...) without ipcw, or gather the scores."
            )
        self.time_edges = _edges("time_edges", time_edges)
        self.score_edges = _edges("score_edges", score_edges)
        #: L, see the top of the module.
        self.n_tables = max(1, *(len(e).bit_length() for e in (self.time_edges, self.score_edges)))

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the tables; `X` holds scores, `y` events and times as in `ConcordanceIndex`."""
        scores, labels, weight = _checked(X, y, sample_weight)
        if not len(scores):
            return {}
        weight = weight if len(weight) else np.ones(len(scores))
        event, n, n_tables = _early(labels, self.metric.tau), 1 << self.n_tables, self.n_tables
        when = np.searchsorted(self.time_edges, place_of_times(labels, event), side="right")
        place = np.searchsorted(self.score_edges, scores, side="right")
        of_events = weight * event
        tables = np.empty((n_tables, n))
        for k in range(n_tables):
            rest = n_tables - k - 1
            bin_of = when >> rest
            cell = (bin_of << rest) | (place >> (k + 1))
            tables[k] = np.bincount(cell, np.where(bin_of & 1, weight, of_events), n)
        return {
            "tables": tables,
            "times": np.stack(
                [np.bincount(when, v, n) for v in (of_events, weight, of_events * of_events)]
            ),
            "time_ends": _ends(when, labels["time"], n),
            "score_ends": _ends(place, scores, n),
            "counts": np.array([len(scores), np.count_nonzero(event)]),
        }

    def combine(self, a: State, b: State) -> State:
        """Add weights, and join the ranges of bins."""
        ends = {name: np.maximum(a[name], b[name]) for name in ("time_ends", "score_ends")}
        return {name: a[name] + b[name] for name in ("tables", "times", "counts")} | ends

    def finish(self, state: State) -> MergedConcordance:
        """Return the index and its half-width."""
        state = self.needs(state)
        won = pairs = unknown = 0.0
        low, high = -state["score_ends"][0], state["score_ends"][1]
        for k, table in enumerate(state["tables"]):
            # a score bin of this table is 2^(k + 1) of the narrowest ones
            bins = low.reshape(-1, 2 << k).min(axis=1), high.reshape(-1, 2 << k).max(axis=1)
            halves = table.reshape(1 << k, 2, -1)
            early, late = halves[:, 0], halves[:, 1]
            pairs += float(early.sum(axis=1) @ late.sum(axis=1))
            won += float(np.vdot(early, np.cumsum(late, axis=1) - 0.5 * late))
            same = np.einsum("ij,ij->j", early, late)
            unknown += float(same[bins[0] < bins[1]].sum())
        # pairs of one time bin: at one time, events are compared with those that outlive them
        events, everyone, squares = state["times"]
        others = events * (everyone - events)
        one_time = -state["time_ends"][0] >= state["time_ends"][1]
        outlived = float(others[one_time].sum())
        pairs, won, unknown = pairs + outlived, won + 0.5 * outlived, unknown + outlived
        if pairs <= 0.0:
            raise ValueError(
                f"no pair can be compared for certain: {state['counts'][1]} of "
                f"{state['counts'][0]} examples have an event, and none is followed by an example "
                "in a later bin of time; give more time_edges."
            )
        at_most = float((0.5 * (events * events - squares) + others)[~one_time].sum())
        whole = pairs + at_most
        least, most = (won - 0.5 * unknown) / whole, (won + 0.5 * unknown + at_most) / whole
        # Sums over the cells are rounded.
        doubt = 0.5 * (most - least) + state["tables"].shape[1] * float(np.finfo(float).eps)
        n_examples, n_events = (int(count) for count in state["counts"])
        return MergedConcordance(0.5 * (least + most), doubt, n_examples, n_events)


def place_of_times(labels: NDArray[Any], event: NDArray[np.bool_]) -> Vector:
    """Return the times of events, and the next larger number where there is none.

    An example without an event has outlived the events at its time.
    """
    return np.where(event, labels["time"], np.nextafter(labels["time"], np.inf))


def _early(labels: NDArray[Any], tau: float | None) -> NDArray[np.bool_]:
    """Return which examples have an event that counts."""
    event: NDArray[np.bool_] = labels["event"]
    return event if tau is None else event & (labels["time"] < tau)


def _edges(name: str, edges: ArrayLike) -> Vector:
    """Return inner edges, in the order of their values."""
    found = check_scores(name, edges)
    if (np.diff(found) < 0.0).any():
        raise ValueError(f"{name} must not fall; pass np.sort({name}).")
    return found


def _ends(place: NDArray[np.int64], values: Vector, n: int) -> Vector:
    """Return minus the smallest and the largest value of each bin, -infinity if it is empty."""
    ends = np.full((2, n), -np.inf)
    np.maximum.at(ends[0], place, -values)
    np.maximum.at(ends[1], place, values)
    return ends
