# SPDX-License-Identifier: BSD-3-Clause
r"""The pair risk and its gradient at a given w, from bins of the scores of each class.

Examples of two partitions never meet, but for a given w only the scores of a pair matter. So a
partition sends, for each class and each bin of scores that is not empty, the number of examples and
their mean row: at most 2 B (d + 6) numbers. All pairs of these representatives give

    F_B(w) = sum_ab p_a q_b l(s_a - s_b)   and   sum_ab p_a q_b l'(s_a - s_b)(x_a - x_b),

with p and q the shares of the bins, x_a mean rows and s_a = <w, x_a>. For a convex l, F_B is at
most the risk F (Jensen), and F exceeds it by at most

    sum_ab p_a q_b min( L/2 (v_a + v_b),  chord_ab - l(s_a - s_b) ),

where L bounds l'' and v are the variances of the scores inside a bin. The chord joins the values of
l at the smallest and the largest possible difference of two scores of these bins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.distributed.statistics.cells import FACTS, Cells, Merger
from pairlearn.distributed.statistics.chunk import (
    Chunk,
    ScaledTable,
    as_chunk,
    room_for,
    same_width,
)
from pairlearn.losses import PairLoss
from pairlearn.metrics._inputs import which_positive
from pairlearn.solvers.closed_form.grid import FEW_NUMBERS
from pairlearn.solvers.exact.batch import pair_mean
from pairlearn.solvers.rows import CsrRows
from pairlearn.typing import Mask, Places, Vector

#: The approximate number of values of the rows that are summed by bin at once.
_NUMBERS = 1 << 19


@dataclass(frozen=True, eq=False)
class ScoreBins:
    """Scores of each class (negatives first) by bin: weights, means, variances and extremes."""

    weight: Vector
    mean: Vector
    variance: Vector
    low: Vector
    high: Vector

    def both_classes(self) -> None:
        """Refuse scores of one class."""
        if not (self.weight.sum(axis=1) > 0.0).all():
            raise ValueError(
                "Pairs need examples of both classes in all partitions together, got weights "
                f"{self.weight.sum(axis=1).tolist()}."
            )

    def coarser(self, factor: int) -> ScoreBins:
        """Merge neighbouring bins, `factor` at a time."""
        weight, mean, variance = (
            _grouped(values, factor, 0.0) for values in (self.weight, self.mean, self.variance)
        )
        total = weight.sum(axis=2)
        share = weight / np.where(total > 0, total, 1.0)[..., None]
        middle = (share * mean).sum(axis=2)
        spread = (share * (variance + (mean - middle[..., None]) ** 2)).sum(axis=2)
        low = _grouped(self.low, factor, np.inf).min(axis=2)
        return ScoreBins(
            total, middle, spread, low, _grouped(self.high, factor, -np.inf).max(axis=2)
        )

    def points(self) -> tuple[Vector, Mask, Vector]:
        """Return score, class (whether positive) and weight of each bin that is not empty."""
        kind, place = np.nonzero(self.weight)
        return self.mean[kind, place], kind == 1, self.weight[kind, place]

    def risk(self, loss: PairLoss) -> tuple[float, Vector]:
        """Return the mean loss of representatives over opposite pairs, and its slopes by bin."""
        self.both_classes()
        scores, positive, weight = self.points()
        value, slopes = pair_mean(loss, positive, weight)(scores)
        by_bin = np.zeros(self.weight.shape)
        by_bin[np.nonzero(self.weight)] = slopes
        return value, by_bin

    def excess(self, loss: PairLoss) -> float:
        """Bound the excess of the mean convex loss over all pairs above that of representatives."""
        if not loss.convex:
            raise ValueError(f"A bound on the binning needs a convex loss, got {loss!r}.")
        negative, positive = (np.flatnonzero(row) for row in self.weight)
        a, b = (1, positive), (0, negative)
        share = [self.weight[side] / self.weight[side].sum() for side in (a, b)]
        middle = self.mean[a][:, None] - self.mean[b]
        low = self.low[a][:, None] - self.high[b]
        high = self.high[a][:, None] - self.low[b]
        value = _values(loss, middle)
        width = np.maximum(high - low, np.finfo(float).tiny)
        part = np.clip((middle - low) / width, 0.0, 1.0)
        bound = np.maximum(
            (1.0 - part) * _values(loss, low) + part * _values(loss, high) - value, 0
        )
        curvature = loss.curvature_bound(float(max(-low.min(), high.max(), 0.0)))
        if np.isfinite(curvature):
            variance = self.variance[a][:, None] + self.variance[b]
            bound = np.minimum(bound, 0.5 * curvature * variance)
        return float(share[0] @ bound @ share[1])


@dataclass(frozen=True, eq=False)
class BinnedPairs:
    """Score bins with the mean row of each."""

    bins: ScoreBins
    rows: Vector

    def risk(self, loss: PairLoss) -> tuple[float, Vector]:
        """Return the mean loss over opposite pairs and its gradient in w."""
        value, slopes = self.bins.risk(loss)
        return value, np.tensordot(slopes, self.rows, axes=2)


class _ByScore(Statistic):
    """A question about the bins that scores fall into."""

    with_rows = False

    def __init__(self, w: Vector, edges: Vector, classes: Any) -> None:
        self.w = np.asarray(w, dtype=np.float64)
        self.edges = np.asarray(edges, dtype=np.float64)
        if np.isnan(self.edges).any() or (np.diff(self.edges) < 0).any():
            raise ValueError("edges of bins must be numbers that increase; see score_edges.")
        self.classes = np.asarray(classes)
        if len(self.classes) != 2:
            raise ValueError(f"classes must be (negative, positive), got {classes!r}.")

    def _positive(self, chunk: Chunk) -> Mask:
        """Return which examples are positive; refuse chunks that cannot be asked for scores."""
        same_width(chunk.shape[1], len(self.w))
        if chunk.labels is None:
            raise ValueError("Scores by class need labels; pass y.")
        return which_positive(chunk.labels, self.classes)

    def scored(self, chunk: Chunk) -> Iterator[tuple[slice, Any, Vector, Places]]:
        """Yield blocks of rows, their scores and their cells, bins of the negatives first."""
        positive = self._positive(chunk)
        n_bins = len(self.edges) + 1
        # Sums by cell are small beside a block. Sparse rows are summed at once.
        height = max(_NUMBERS // len(self.w), 4 * n_bins) if self.with_rows else None
        if isinstance(chunk.table, CsrRows):
            height = chunk.shape[0]
        for now, block in chunk.blocks(height):
            scores = np.asarray(block @ self.w, dtype=np.float64)
            place = np.searchsorted(self.edges, scores, side="right")
            yield now, block, scores, place + positive[now] * n_bins


class ByBin(_ByScore):
    """Scores by class and bin, and the sums of rows if `with_rows`."""

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the bins of one chunk."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        n, weight = self._n_cells, chunk.given_weight
        sums = np.zeros((n, chunk.shape[1])) if self.with_rows else None
        with room_for(chunk.shape[0]) as scores, room_for(chunk.shape[0]) as room:
            cell = room.view(np.intp)
            if self.with_rows or not self._score_at_once(chunk, scores, cell):
                for now, block, some, places in self.scored(chunk):
                    scores[now], cell[now] = some, places
                    if sums is not None:
                        sums += _sums_by_cell(block, places, chunk.weight[now], n)
            return Cells.of(scores, cell, weight, n, sums).packed()

    def combine(self, a: State, b: State) -> State:
        """Merge bin by bin."""
        return self.merge_all([a, b])

    def merge_all(self, states: Iterable[State]) -> State:
        """Merge all states, each of which is unpacked once."""
        return Merger(self._n_cells).merge_all(states)

    @property
    def _n_cells(self) -> int:
        return 2 * (len(self.edges) + 1)

    def all_bins(self, state: State) -> State:
        """Return the arrays of a state by class and bin, those of empty bins too."""
        every = Cells.unpacked(self.needs(state)).placed(np.arange(self._n_cells))
        by_bin = every.reshape(2, len(self.edges) + 1, -1)
        found = {name: by_bin[..., [k]] for k, name in enumerate(FACTS)}
        return {**found, "rows": by_bin[..., len(FACTS) :]} if self.with_rows else found

    def bins(self, state: State) -> ScoreBins:
        """Return the bins of a state."""
        every = {name: values[..., 0] for name, values in self.all_bins(state).items()}
        safe = np.where(every["weight"] > 0, every["weight"], 1.0)
        return ScoreBins(
            every["weight"], every["mean"], every["squares"] / safe, every["low"], every["high"]
        )

    def _score_at_once(self, chunk: Chunk, scores: Vector, cell: Places) -> bool:
        """Fill scores and cells of many dense rows as they are stored; tell whether it did."""
        scaled, (n, d) = chunk.table, chunk.shape
        table = scaled.table if isinstance(scaled, ScaledTable) else scaled
        if isinstance(table, CsrRows) or n * d <= FEW_NUMBERS:
            return False
        by_columns = not table.flags.c_contiguous
        if by_columns and not table.flags.f_contiguous:
            return False
        from pairlearn.kernels.steps.binned import HEIGHT, bin_scores

        units = np.ones(d), np.zeros(d), np.ones(d)
        if isinstance(scaled, ScaledTable):
            own = scaled.scaling
            units = own.inverse.copy(), own.centre.copy(), own.factor.copy()
        flat = (table.T if by_columns else table).reshape(-1)
        # Machine code is made for arrays that can be written, or for ones that cannot.
        flat.flags.writeable = False
        return bool(
            bin_scores(
                flat, by_columns, *units, self.w.copy(), self.edges.copy(), self._positive(chunk),
                np.empty(HEIGHT, np.uintp), scores, cell,
            )
        )  # fmt: skip


class BinnedScores(ByBin):
    """Weights and mean rows by class and bin of the score: all that a pair gradient needs.

    Parameters
    ----------
    w : array-like of shape (d,)
        Coefficients.
    edges : array-like of shape (n_bins - 1,)
        Inner edges of the bins, see `score_edges`.
    classes : sequence of two labels
        The negative and the positive one.

    Examples
    --------
    >>> from pairlearn import SquaredHinge
    >>> statistic = BinnedScores([1.0], [0.5], (0, 1))
    >>> state = statistic.partial_state(np.array([[0.0], [1.0]]), [0, 1])
    >>> statistic.finish(state).risk(SquaredHinge(margin=2.0))
    (1.0, array([-2.]))
    """

    with_rows = True

    def finish(self, state: State) -> BinnedPairs:
        """Return the representatives."""
        bins = self.bins(state)
        safe = np.where(bins.weight > 0, bins.weight, 1.0)
        return BinnedPairs(bins, self.all_bins(state)["rows"] / safe[..., None])


class SlopeSums(_ByScore):
    """The gradient of the pair risk once the slope of each bin is known, for many features.

    A second pass in place of the mean rows of all bins: d numbers instead of 2 B d.

    Parameters
    ----------
    w, edges, classes : see `BinnedScores`
        As of `BinnedScores`.
    slopes : ndarray of shape (2, n_bins)
        What `ScoreBins.risk` returned.
    weight : ndarray of shape (2, n_bins)
        The weights of the bins of all examples.

    Examples
    --------
    >>> from pairlearn import SquaredHinge
    >>> X, y, asked = np.array([[0.0], [1.0]]), [0, 1], ([1.0], [0.5], (0, 1))
    >>> one = BinnedScores(*asked)
    >>> bins = one.finish(one.partial_state(X, y)).bins
    >>> two = SlopeSums(*asked, bins.risk(SquaredHinge(margin=2.0))[1], bins.weight)
    >>> two.finish(two.partial_state(X, y))
    array([-2.])
    """

    def __init__(self, w: Vector, edges: Vector, classes: Any, slopes: Vector, weight: Vector):
        super().__init__(w, edges, classes)
        self.shares = (slopes / np.where(weight > 0, weight, 1.0)).ravel()

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the sum over one chunk."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        gradient = np.zeros(chunk.shape[1])
        for now, block, _, cell in self.scored(chunk):
            gradient += (chunk.weight[now] * self.shares[cell]) @ block
        return {"gradient": gradient}

    def combine(self, a: State, b: State) -> State:
        """Add."""
        return {"gradient": a["gradient"] + b["gradient"]}

    def finish(self, state: State) -> Vector:
        """Return the gradient in w."""
        return self.needs(state)["gradient"]


def _sums_by_cell(rows: Any, cell: Places, weight: Vector, n: int) -> Vector:
    """Return the weighted sums of rows by cell."""
    import scipy.sparse

    # A product with the indicators of the cells: neither dense nor sparse rows are copied.
    m = len(cell)
    indicator = scipy.sparse.csc_array((weight, cell, np.arange(m + 1)), shape=(n, m))
    if isinstance(rows, np.ndarray):
        return np.asarray(indicator @ rows)
    return np.asarray((indicator.tocsr() @ rows).toarray())


def _grouped(values: Vector, factor: int, rest: float) -> Vector:
    """Return bins in groups of neighbours; the last group is filled up."""
    n_bins = values.shape[1]
    missing = -n_bins % factor
    full = np.pad(values, ((0, 0), (0, missing)), constant_values=rest)
    return np.asarray(full.reshape(2, -1, factor))


def _values(loss: PairLoss, margins: Vector) -> Vector:
    if loss.has_array_form:
        return np.asarray(loss.values(margins))
    flat = margins.ravel()
    up = np.ones(len(flat))
    return np.asarray(loss.value.many(flat, up, -up, loss.parameter)).reshape(margins.shape)
