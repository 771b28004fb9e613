# SPDX-License-Identifier: BSD-3-Clause
r"""Pairs within queries: their risk and gradient add up over partitions that hold whole queries.

The objective is that of `PairwiseRanker`, up to a constant: a weighted mean of l(s_i - s_j) over
the pairs i, j of each query q with y_i > y_j. The weight of a pair is w_i w_j / n_q, with n_q the
weight of the query. Queries of equal size are handled together, in blocks of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.cluster.passes import ColumnSpreads
from pairlearn.cluster.rows import Chunk, as_chunk, comparable, same_width
from pairlearn.cluster.statistic import State, Statistic
from pairlearn.estimators.shared.scaling import Columns
from pairlearn.losses import PairLoss
from pairlearn.pairings.queries import number_queries
from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import check_names

#: The number of pairs in one block.
_BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class QueryPairs:
    """The pairs within queries, from one pass."""

    #: Extremes and moments of the columns, over the examples that have a pair.
    columns: Columns
    #: The means over pairs of v v' and of v, with v = x_i - x_j and y_i > y_j.
    scatter: Vector
    difference: Vector
    n_queries: int
    n_single: int
    n_flat: int
    n_pairs: int

    def solve(self, ridge: float, weights: Vector, margin: float = 1.0) -> Vector:
        """Return the minimiser of the square loss for columns that are multiplied by weights."""
        matrix = self.scatter * np.outer(weights, weights)
        matrix.flat[:: len(weights) + 1] += ridge
        w = np.linalg.lstsq(matrix, margin * weights * self.difference, rcond=None)[0]
        return np.asarray(w)


class QueryMoments(Statistic):
    """Scales and pair moments of graded examples in queries, and the names of the queries.

    Parameters
    ----------
    by_grade : bool, default=False
        Whether a pair weighs the difference of its grades.

    Examples
    --------
    >>> statistic = QueryMoments()
    >>> X, y, qid = np.array([[3.0], [1.0], [5.0], [4.0]]), [2, 0, 1, 0], np.array([1, 1, 2, 2])
    >>> statistic.finish(statistic.partial_state(X, y, qid=qid)).difference
    array([1.5])
    """

    def __init__(self, by_grade: bool = False) -> None:
        self.by_grade = by_grade

    def partial_state(
        self, X: Any, y: Any = None, sample_weight: Any = None, qid: Any = None
    ) -> State:
        """Return the moments of one chunk, which holds whole queries."""
        found = _queries(X, y, sample_weight, qid)
        if found is None:
            return {}
        chunk, grades, query, names = found
        d = chunk.shape[1]
        size = np.bincount(query)
        scatter, difference = np.zeros((d, d)), np.zeros(d)
        n_pairs, weight = 0, 0.0
        mixed = _mixed(grades, query)
        for members, shares in _pair_blocks(chunk, grades, query, self.by_grade):
            rows = _dense(chunk, members)
            # About one of them: squares of columns far from zero would cancel.
            rows -= rows[:, :1]
            both = shares + shares.transpose(0, 2, 1)
            # Sum over pairs of v v' = X' (D - W) X, the Laplacian of the graph of pairs.
            flat = rows.reshape(-1, d)
            degrees = both.sum(axis=2).reshape(-1, 1)
            scatter += flat.T @ (degrees * flat - (both @ rows).reshape(-1, d))
            difference += (shares.sum(axis=2) - shares.sum(axis=1)).reshape(-1) @ flat
            n_pairs += int(np.count_nonzero(shares))
            weight += float(shares.sum())
        useful = np.flatnonzero(mixed[query])
        some = chunk.rows.take(useful)
        columns = ColumnSpreads().partial_state(some, None, chunk.weight[useful])
        return {
            "names": names,
            "scatter": scatter,
            "difference": difference,
            "weight": np.array(weight),
            "counts": np.array(
                [
                    np.count_nonzero(mixed),
                    np.count_nonzero(size == 1),
                    np.count_nonzero((size > 1) & ~mixed),
                    n_pairs,
                ]
            ),
            **{f"columns/{name}": value for name, value in columns.items()},
        }

    def combine(self, a: State, b: State) -> State:
        """Add; refuse a query that both partitions have."""
        same_width(len(a["difference"]), len(b["difference"]))
        merged = {name: a[name] + b[name] for name in ("scatter", "difference", "weight", "counts")}
        merged["names"] = _joined(a["names"], b["names"])
        columns = ColumnSpreads().merge(_columns_of(a), _columns_of(b))
        return {**merged, **{f"columns/{name}": value for name, value in columns.items()}}

    def finish(self, state: State) -> QueryPairs:
        """Return the pairs; refuse queries without any."""
        state = self.needs(state)
        n_queries, n_single, n_flat, n_pairs = (int(count) for count in state["counts"])
        if not n_queries:
            raise ValueError(
                f"No query has two different grades ({n_single} of one document, {n_flat} of one "
                "grade); there is no pair to learn from. Check y and qid."
            )
        weight = float(state["weight"])
        return QueryPairs(
            ColumnSpreads().finish(_columns_of(state)),
            state["scatter"] / weight,
            state["difference"] / weight,
            n_queries,
            n_single,
            n_flat,
            n_pairs,
        )


class QueryGradient(Statistic):
    """The mean loss over the pairs of queries, and its gradient, exactly.

    Parameters
    ----------
    w : ndarray of shape (d,)
        Coefficients of the scaled columns.
    loss : PairLoss
        A loss of opposite pairs with an array form.
    weights : ndarray of shape (d,)
        What the columns are multiplied by; pairs see differences, which have no centre.
    by_grade : bool, default=False
        Whether a pair weighs the difference of its grades.

    Examples
    --------
    >>> from pairlearn import Square
    >>> statistic = QueryGradient(np.zeros(1), Square(), np.ones(1))
    >>> state = statistic.partial_state(np.array([[2.0], [1.0]]), [1, 0], qid=[7, 7])
    >>> statistic.finish(state)
    (1.0, array([-2.]))
    """

    def __init__(
        self, w: Vector, loss: PairLoss, weights: Vector, *, by_grade: bool = False
    ) -> None:
        self.w, self.loss, self.weights, self.by_grade = w, loss, weights, by_grade

    def partial_state(
        self, X: Any, y: Any = None, sample_weight: Any = None, qid: Any = None
    ) -> State:
        """Return the sums over one chunk, which holds whole queries."""
        found = _queries(X, y, sample_weight, qid)
        if found is None:
            return {}
        chunk, grades, query, _ = found
        same_width(chunk.shape[1], len(self.w))
        scores = np.asarray(chunk.table @ (self.w * self.weights), dtype=np.float64)
        slopes = np.zeros(len(scores))
        value = weight = 0.0
        for members, shares in _pair_blocks(chunk, grades, query, self.by_grade):
            margins = scores[members][:, :, None] - scores[members][:, None, :]
            counted = shares > 0
            margins = np.where(counted, margins, 0.0)
            value += float((self.loss.values(margins) * shares).sum())
            pair_slopes = np.where(counted, self.loss.slopes(margins) * shares, 0.0)
            slopes[members] = pair_slopes.sum(axis=2) - pair_slopes.sum(axis=1)
            weight += float(shares.sum())
        gradient = np.asarray(slopes @ chunk.table) * self.weights
        return {"value": np.array(value), "gradient": gradient, "weight": np.array(weight)}

    def combine(self, a: State, b: State) -> State:
        """Add."""
        return {name: a[name] + b[name] for name in a}

    def finish(self, state: State) -> tuple[float, Vector]:
        """Return the mean loss and its gradient in w."""
        state = self.needs(state)
        weight = float(state["weight"])
        return float(state["value"]) / weight, state["gradient"] / weight


def _mixed(grades: Vector, query: NDArray[np.int64]) -> Mask:
    """Return which queries have two different grades."""
    order = np.lexsort((grades, query))
    differ = (np.diff(query[order]) == 0) & (np.diff(grades[order]) != 0)
    mixed = np.zeros(int(query.max()) + 1, dtype=bool)
    mixed[query[order][1:][differ]] = True
    return mixed


def _joined(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return the names of the queries of two partitions; refuse one that both have."""
    comparable(a, b, "queries")
    both = np.intersect1d(a, b)
    if len(both):
        raise ValueError(
            f"{len(both)} queries are split across partitions ({both.tolist()[0]!r} is one); pairs "
            "are made within queries, so partition by query: set_index(qid) of a data frame, or "
            "chunks that end where a query ends."
        )
    return np.union1d(a, b)


def _columns_of(state: State) -> State:
    return {name[8:]: value for name, value in state.items() if name.startswith("columns/")}


def _queries(
    X: Any, y: Any, sample_weight: Any, qid: Any
) -> tuple[Chunk, Vector, NDArray[np.int64], NDArray[Any]] | None:
    """Return the examples, their grades, the numbers of their queries, and the names of these."""
    n = X.shape[0]
    if qid is None:
        raise ValueError("Ranking on many machines needs queries; pass qid.")
    names = check_names("qid", qid, "query")
    if names.shape != (n,):
        raise ValueError(f"X has {n} rows and qid has shape {names.shape} in one partition.")
    if sample_weight is not None:
        names = names[np.asarray(sample_weight) != 0]
    chunk = as_chunk(X, y, sample_weight)
    if chunk is None:
        return None
    if chunk.labels is None or chunk.labels.dtype.kind not in "biuf":
        raise ValueError("y must hold grades: numbers, larger for better examples.")
    query = number_queries(names, len(names))
    return chunk, chunk.labels.astype(np.float64), query, np.unique(names)


def _pair_blocks(
    chunk: Chunk, grades: Vector, query: NDArray[np.int64], by_grade: bool
) -> Iterator[tuple[Places, Vector]]:
    """Yield members of queries of one size, shape (k, m), and the weight of pairs, (k, m, m).

    The weight of (i, j) is w_i w_j / n_q where the grade of i is larger, and 0 elsewhere.
    """
    order = np.argsort(query, kind="stable")
    size = np.bincount(query)
    begin = np.cumsum(size) - size
    for m in np.unique(size[size > 1]).tolist():
        alike = begin[size == m]
        height = max(1, _BLOCK // m**2)
        for start in range(0, len(alike), height):
            members = order[alike[start : start + height, None] + np.arange(m)]
            y, w = grades[members], chunk.weight[members]
            gap = y[:, :, None] - y[:, None, :]
            shares = w[:, :, None] * w[:, None, :] * (gap > 0)
            shares *= np.maximum(gap, 0.0) if by_grade else 1.0
            yield members, shares / w.sum(axis=1)[:, None, None]


def _dense(chunk: Chunk, members: Places) -> Vector:
    rows = chunk.table[members.ravel()]
    rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return np.asarray(rows, dtype=np.float64).reshape(*members.shape, -1)
