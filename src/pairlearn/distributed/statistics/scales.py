# SPDX-License-Identifier: BSD-3-Clause
r"""Scales of features on many machines, as `estimators.shared.scaling` finds them in one memory.

Extremes, means and squares merge. Votes (Boyer and Moore) find the majority value of a column, and
votes merge too. A summary (v, l) of n examples promises that v occurs at most (n + l)/2 times, and
any other value at most (n - l)/2 times. To merge two summaries, equal values add their leads; of
different values the one with the larger lead stays, with the difference of the leads. Both promises
then hold again. So the share of examples off the majority is at least (n - l)/2n, which is enough
to scale all data but text. For text, a second pass counts (`MajorityCounts`), and lengths of rows
are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.statistics.base import State, Statistic
from pairlearn.distributed.statistics.chunk import Chunk, as_chunk, room_for, same_width
from pairlearn.estimators.shared.scaling import Columns, Scaling, inverse_of, is_text, scaling_of
from pairlearn.solvers.rows import CsrRows, as_rows
from pairlearn.typing import Vector

#: The exponent of a column of zeros, smaller than any other.
_ANY_UNIT = -2_000
#: Squares of numbers of smaller exponents stay inside the range of floats.
_LARGE_EXPONENT = 400
#: The number of columns that are read together.
_TOGETHER = 8
#: The number of rows that are transposed at once.
_BLOCK = 4_096


@dataclass(frozen=True, eq=False)
class Scales:
    """The columns in units of 2^exponents, from one pass."""

    weight: float
    columns: Columns
    exponents: NDArray[np.int32]
    atom: Vector
    eps: float
    sparse: bool

    @property
    def needs_counts(self) -> bool:
        """Whether a second pass has to count the majorities: the data may be text."""
        return is_text(self.columns, self.dtype)

    @property
    def dtype(self) -> Any:
        """The coarsest type of the data."""
        return np.float32 if self.eps > np.finfo(np.float64).eps else np.float64

    @property
    def bounds(self) -> tuple[Vector, Vector]:
        """The smallest and the largest value of each column."""
        with np.errstate(over="ignore"):
            return (
                np.ldexp(self.columns.low, self.exponents),
                np.ldexp(self.columns.high, self.exponents),
            )

    def of_classes(self, counts: Vector, means: Vector, scatters: Vector) -> Scales:
        """Return the scales whose means and variances are those of the moments of all classes."""
        # Moments that do not depend on the partitioning make scales that do not. Columns whose
        # squares would leave the range of floats keep what they have.
        n = counts.sum()
        mean = counts @ means / n
        within = np.einsum("kjj->j", scatters)
        variance = (within + counts @ (means - mean) ** 2) / n
        inner = np.abs(self.exponents) < _LARGE_EXPONENT
        old = self.columns
        columns = replace(
            old,
            mean=np.where(inner, np.ldexp(mean, -self.exponents), old.mean),
            variance=np.where(inner, np.ldexp(variance, -2 * self.exponents), old.variance),
        )
        return replace(self, columns=columns)

    def scaling(self, counts: Vector | None = None) -> Scaling:
        """Return the scaling; `counts` come from `MajorityCounts`, where they are needed."""
        found = self.columns
        if counts is not None:
            present = np.maximum(1.0 - counts / self.weight, 0.0)
            found = Columns(found.low, found.high, found.mean, found.variance, present)
        elif self.needs_counts:
            raise ValueError(
                "Most columns have one frequent value: their scales need a second pass. Run "
                "MajorityCounts(scales) and give its result as counts."
            )
        inverse = np.ldexp(1.0, -self.exponents)
        return scaling_of(found, inverse, dtype=self.dtype, centred=not self.sparse)


class FeatureScales(Statistic):
    """Extremes, means, variances and majorities of columns, dense or sparse.

    Examples
    --------
    >>> X = np.array([[1e6, 5.0, 0.001], [3e6, 5.0, 0.003]])
    >>> statistic = FeatureScales()
    >>> a, b = statistic.partial_state(X[:1]), statistic.partial_state(X[1:])
    >>> statistic.finish(statistic.merge(a, b)).scaling().factor
    array([1.e-06, 0.e+00, 1.e+03])
    """

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the state of one chunk; `y` is ignored."""
        chunk = as_chunk(X, None, sample_weight)
        if chunk is None:
            return {}
        ones = np.ones(chunk.shape[1])
        state = _column_state(chunk, ones)
        size = np.maximum(np.abs(state["low"]), np.abs(state["high"]))
        inverse = inverse_of(size)
        if (inverse != 1.0).any():
            state = _column_state(chunk, inverse)
        # Zeros fit any unit: other partitions decide.
        state["exponents"] = np.where(size == 0.0, np.int32(_ANY_UNIT), state["exponents"])
        return state

    def combine(self, a: State, b: State) -> State:
        """Merge column by column, in the coarser units of both."""
        same_width(len(a["low"]), len(b["low"]))
        exponents = np.maximum(a["exponents"], b["exponents"]).astype(np.int32)
        a, b = _in_units(a, exponents), _in_units(b, exponents)
        n_a, n_b = float(a["weight"]), float(b["weight"])
        n = n_a + n_b
        gap = b["mean"] - a["mean"]
        same = a["atom"] == b["atom"]
        stronger = same | (a["lead"] >= b["lead"])
        return {
            "weight": np.array(n),
            "low": np.minimum(a["low"], b["low"]),
            "high": np.maximum(a["high"], b["high"]),
            "mean": a["mean"] + (n_b / n) * gap,
            "squares": a["squares"] + b["squares"] + (n_a * n_b / n) * gap**2,
            "atom": np.where(stronger, a["atom"], b["atom"]),
            "lead": np.where(same, a["lead"] + b["lead"], np.abs(a["lead"] - b["lead"])),
            "exponents": exponents,
            "eps": np.maximum(a["eps"], b["eps"]),
            "sparse": np.maximum(a["sparse"], b["sparse"]),
        }

    def finish(self, state: State) -> Scales:
        """Return the scales of all columns."""
        state = self.needs(state)
        n = float(state["weight"])
        columns = Columns(
            state["low"],
            state["high"],
            state["mean"],
            state["squares"] / n,
            np.maximum(0.5 * (1.0 - state["lead"] / n), 0.0),
        )
        return Scales(
            n,
            columns,
            np.where(columns.size == 0.0, np.int32(0), state["exponents"]),
            state["atom"],
            float(state["eps"]),
            bool(state["sparse"]),
        )


class MajorityCounts(Statistic):
    """How often the frequent value of each column occurs, for the scales of text.

    Parameters
    ----------
    scales : Scales
        The result of the first pass.

    Examples
    --------
    >>> X = np.array([[0.0], [0.0], [0.0], [5.0]])
    >>> scales = FeatureScales().finish(FeatureScales().partial_state(X))
    >>> MajorityCounts(scales).partial_state(X)["counts"]
    array([3.])
    """

    def __init__(self, scales: Scales) -> None:
        self.atom, self.exponents = scales.atom, scales.exponents

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the counts of one chunk."""
        chunk = as_chunk(X, None, sample_weight)
        if chunk is None:
            return {}
        rows, weight, inverse = chunk.rows, chunk.weight, np.ldexp(1.0, -self.exponents)
        same_width(rows.shape[1], len(self.atom))
        count, unused = np.empty(len(self.atom)), np.empty(len(self.atom))
        if isinstance(rows, CsrRows):
            from pairlearn.kernels.scales import csr_column_squares

            matrix = rows.data, rows.indices, rows.indptr, weight, inverse
            csr_column_squares(*matrix, np.zeros(len(self.atom)), self.atom, unused, count)
            own = np.repeat(weight, np.diff(rows.indptr)) * (rows.data != 0.0)
            stored = np.bincount(rows.indices, own, minlength=len(self.atom))
            count += np.where(self.atom == 0.0, np.maximum(weight.sum() - stored, 0.0), 0.0)
        else:
            for k, values in _columns(rows.X, inverse):
                count[k] = weight[values == self.atom[k]].sum()
        return {"counts": count}

    def combine(self, a: State, b: State) -> State:
        """Add the counts."""
        return {"counts": a["counts"] + b["counts"]}

    def finish(self, state: State) -> Vector:
        """Return the counts."""
        return self.needs(state)["counts"]


def _column_state(chunk: Chunk, inverse: Vector) -> State:
    """Return sums, ranges and counts of the columns of a chunk."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(chunk.table, CsrRows):
            rows = chunk.rows
            assert isinstance(rows, CsrRows)
            facts, dtype = _sparse_columns(rows, chunk.weight, inverse), rows.data.dtype
        else:
            table = np.asarray(chunk.table)
            facts, dtype = _dense_columns(table, chunk.weight, inverse), table.dtype
    return {
        **facts,
        "weight": np.array(float(chunk.weight.sum())),
        "exponents": (1 - np.frexp(inverse)[1]).astype(np.int32),
        "eps": np.array(float(np.finfo(dtype).eps)),
        "sparse": np.array(float(isinstance(chunk.table, CsrRows))),
    }


def _dense_columns(table: NDArray[Any], weight: Vector, inverse: Vector) -> State:
    """Return the facts of dense columns, without numba: workers need not load a compiler."""
    n, (n_rows, d) = float(weight.sum()), table.shape
    alike = bool((weight == weight[0]).all())
    low, high, mean, squares, atom, lead = facts = np.empty((6, d))
    for k, values in _columns(table, inverse):
        low[k], high[k] = values.min(), values.max()
        if not np.isfinite(high[k] - low[k]):
            as_rows(table[:, k : k + 1])
        # The value that more than half of a column has is its median.
        if alike:
            values.partition(n_rows // 2)
            atom[k] = values[n_rows // 2]
            share = weight[0] * np.count_nonzero(values == atom[k])
        else:
            order = np.argsort(values)
            place = int(np.searchsorted(np.cumsum(weight[order]), 0.5 * n))
            atom[k] = values[order[min(place, n_rows - 1)]]
            share = weight[values == atom[k]].sum()
        lead[k] = max(2.0 * float(share) - n, 0.0)
        # About a value of the column itself: squares of columns far from zero would cancel.
        values -= atom[k]
        offset = float(weight @ values) / n
        mean[k] = atom[k] + offset
        values -= offset
        values *= values
        squares[k] = weight @ values
    return dict(zip(("low", "high", "mean", "squares", "atom", "lead"), facts, strict=True))


def _columns(table: NDArray[Any], inverse: Vector) -> Iterator[tuple[int, Vector]]:
    """Yield each column in its unit; the caller may write over it, and the next ones reuse it."""
    n, d = table.shape
    # Neighbours in a row share a cache line, unless the table is stored by columns.
    width = 1 if table.flags.f_contiguous else _TOGETHER
    with room_for(min(width, d) * n) as room:
        for first in range(0, d, width):
            some = slice(first, min(first + width, d))
            columns = room[: (some.stop - first) * n].reshape(-1, n)
            for start in range(0, n, _BLOCK):
                now = slice(start, start + _BLOCK)
                np.multiply(table[now, some].T, inverse[some, None], out=columns[:, now])
            yield from enumerate(columns, first)


def _sparse_columns(rows: CsrRows, weight: Vector, inverse: Vector) -> State:
    """Return the state of the columns of sparse rows."""
    from pairlearn.kernels.scales import csr_column_squares, csr_column_sums

    n, d = float(weight.sum()), rows.shape[1]
    low, high, total, squares, atom, lead, count, stored = np.empty((8, d))
    matrix = rows.data, rows.indices, rows.indptr, weight, inverse
    csr_column_sums(*matrix, stored, low, high, total, atom, lead)
    mean = total / n
    csr_column_squares(*matrix, mean, atom, squares, count)
    absent = np.maximum(n - stored, 0.0)
    zero = absent > 0.0
    # The zeros that are not stored vote for zero.
    same, stronger = atom == 0.0, lead >= absent
    return {
        "low": np.where(zero, np.minimum(low, 0.0), low),
        "high": np.where(zero, np.maximum(high, 0.0), high),
        "mean": mean,
        "squares": squares + absent * mean**2,
        "atom": np.where(same | ~stronger, 0.0, atom),
        "lead": np.where(same, lead + absent, np.abs(lead - absent)),
    }


def _in_units(state: State, exponents: NDArray[np.int32]) -> State:
    """Convert a state to other powers of two, without rounding."""
    shift = state["exponents"] - exponents
    if not shift.any():
        return state
    changed = {name: np.ldexp(state[name], shift) for name in ("low", "high", "mean", "atom")}
    return {**state, **changed, "squares": np.ldexp(state["squares"], 2 * shift)}
