# SPDX-License-Identifier: BSD-3-Clause
"""Checked examples of one partition, which are looked at block by block.

A partition is read from a file for every pass, so that a copy of it is a good part of the pass, and
more on a worker of Dask, whose allocator returns every large array to the system: pages of a new
one are cleared first. So tables stay in the order in which they came (those of data frames are
stored column by column), and are scaled and turned into rows in one small array, again and again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.shared.scaling import Scaling
from pairlearn.solvers.closed_form.mapped_moments import block_of
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, as_rows
from pairlearn.typing import Vector
from pairlearn.validation import check_names, check_weights, is_missing, refuse_masked

#: Numbers of a block, which stay in the cache of a processor while they are scaled or turned.
_NUMBERS = 65_536
#: Numbers of all rooms that a thread keeps.
_MOST_KEPT = 1 << 20
_FREE = threading.local()
#: A block has at least this many rows.
_FEWEST_ROWS = 16


@dataclass(frozen=True, eq=False)
class ScaledTable:
    """A table that is scaled when it is looked at, in double precision."""

    table: NDArray[Any]
    scaling: Scaling

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return (self.table.shape[0], self.table.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all rows, scaled."""
        values = self.write(slice(None), np.empty(self.shape))
        return values if dtype is None else values.astype(dtype, copy=False)

    def __getitem__(self, rows: Any) -> ScaledTable:
        """Return some of the rows."""
        return ScaledTable(self.table[rows], self.scaling)

    def write(self, rows: slice, out: Vector) -> Vector:
        """Write some rows, scaled, without numba: workers need not load a compiler."""
        np.multiply(self.table[rows], self.scaling.inverse, out=out)
        out -= self.scaling.centre
        out *= self.scaling.factor
        return out


@dataclass(frozen=True, eq=False)
class Chunk:
    """Checked examples of positive weight."""

    #: Dense in any order and either precision, perhaps to be scaled; or CSR.
    table: NDArray[Any] | ScaledTable | CsrRows
    #: As they came, or None.
    labels: NDArray[Any] | None
    #: None if all weights are 1.
    given_weight: Vector | None

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return (self.table.shape[0], self.table.shape[1])

    @cached_property
    def weight(self) -> Vector:
        """The weight of each example."""
        return np.ones(self.shape[0]) if self.given_weight is None else self.given_weight

    @cached_property
    def rows(self) -> Rows:
        """All rows, for a kernel: those of a table that is stored by columns are copied."""
        return as_rows(self.table)

    @cached_property
    def coded(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The labels that occur, sorted, and the place of each example's label among them."""
        assert self.labels is not None
        first = self.labels[0]
        others = self.labels != first
        if not others.any():
            return self.labels[:1].copy(), others.astype(np.intp)
        second = self.labels[int(others.argmax())]
        if not (others == (self.labels == second)).all():
            return np.unique(self.labels, return_inverse=True)
        # Two labels need no sorting, which takes longer than the moments.
        own = others if first < second else ~others
        return np.unique(np.array([first, second], self.labels.dtype)), own.astype(np.intp)

    @property
    def matrix(self) -> Any:
        """The rows as something to multiply, dense ones in float64."""
        rows = self.rows
        if isinstance(rows, DenseRows):
            return rows.X.astype(np.float64, copy=False)
        return rows.matrix

    def blocks(self, height: int | None = None) -> Iterator[tuple[slice, Any]]:
        """Yield consecutive rows as things to multiply: which they are, dense ones in float64.

        A block is gone when the next one comes. `height` is the number of its rows, by default as
        many as stay in the cache.
        """
        n, d = self.shape
        table = self.table
        at_once = max(_NUMBERS // d, _FEWEST_ROWS)
        height = min(at_once if height is None else height, n)
        ready = (
            isinstance(table, np.ndarray)
            and table.dtype == np.float64
            and bool(table.flags.c_contiguous)
        )
        copied = not ready and not isinstance(table, CsrRows)
        with room_for(height * d if copied else 0) as room:
            for start in range(0, n, height):
                now = slice(start, min(start + height, n))
                if isinstance(table, CsrRows):
                    yield now, block_of(self.rows, now.start, now.stop)
                    continue
                if not copied:
                    assert isinstance(table, np.ndarray)
                    block = table[now]
                else:
                    block = room[: (now.stop - start) * d].reshape(-1, d)
                    for first in range(start, now.stop, at_once):
                        some = slice(first, min(first + at_once, now.stop))
                        _write(table, some, block[first - start : some.stop - start])
                yield now, DenseRows(block).checked().X

    def part(self, index: NDArray[Any]) -> Chunk:
        """Return some of the examples."""
        table = self.table.take(index) if isinstance(self.table, CsrRows) else self.table[index]
        labels = None if self.labels is None else self.labels[index]
        weight = None if self.given_weight is None else self.given_weight[index]
        return Chunk(table, labels, weight)

    def dense(self, index: NDArray[Any]) -> Vector:
        """Return some of the rows, dense and in float64."""
        matrix = self.part(index).matrix
        return np.asarray(matrix if isinstance(matrix, np.ndarray) else matrix.toarray())


def _write(table: NDArray[Any] | ScaledTable, rows: slice, out: Vector) -> None:
    if isinstance(table, ScaledTable):
        table.write(rows, out)
    else:
        out[...] = table[rows]


def as_chunk(X: Any, y: Any = None, sample_weight: Any = None) -> Chunk | None:
    """Return the examples that count, None if there are none.

    Values are looked at by those who read them: `Chunk.rows` and `Chunk.blocks` refuse NaN.
    """
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    refuse_masked("y", y)
    labels = None if y is None else np.asarray(y)
    if labels is not None:
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.shape != (n,):
            raise ValueError(
                f"X has {n} rows and y has shape {labels.shape} in one partition: both must be "
                "partitioned alike, one label for each row."
            )
    if not n:
        return None
    table = table_of(X)
    if labels is not None:
        _check_present(labels)
    if sample_weight is None:
        return Chunk(table, labels, None)
    refuse_masked("sample_weight", sample_weight)
    weight = check_weights(np.asarray(sample_weight), n, name="sample_weight")
    kept = np.flatnonzero(weight)
    if not len(kept):
        return None
    chunk = Chunk(table, labels, None if (weight == 1.0).all() else weight)
    return chunk if len(kept) == n else chunk.part(kept)


@contextlib.contextmanager
def room_for(n: int) -> Iterator[Vector]:
    """Lend n numbers of any values, which nobody may keep.

    A thread keeps them for its next partition: pages of a new array are cleared first, on a worker
    of Dask for each one.
    """
    free: list[Vector] = _FREE.__dict__.setdefault("rooms", [])
    # The smallest that is large enough; they are kept in the order of their sizes.
    place = next((k for k, one in enumerate(free) if len(one) >= n), None)
    room = np.empty(n) if place is None else free.pop(place)
    try:
        yield room[:n]
    finally:
        free.append(room)
        free.sort(key=len)
        while sum(map(len, free)) > _MOST_KEPT:
            free.pop(0)


def table_of(X: Any) -> NDArray[Any] | ScaledTable | CsrRows:
    """Return a table as it is stored, dense ones of float32 or float64 in any order."""
    if isinstance(X, ScaledTable):
        return X
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in (np.float32, np.float64):
        refuse_masked("X", X)
        return X
    rows = as_rows(X, finite=None)
    return rows if isinstance(rows, CsrRows) else rows.X


def _check_present(labels: NDArray[Any]) -> None:
    if labels.dtype.kind == "O":
        if {type(label) for label in labels} == {str}:
            return
        # A missing value of pandas is not comparable to itself.
        missing = np.array([is_missing(label) for label in labels])
    else:
        missing = labels != labels
    if np.any(missing):
        raise ValueError(
            f"y lacks {int(np.count_nonzero(missing))} labels in one partition (NaN or None); "
            "remove or correct these examples."
        )
    check_names("y", labels, "label")


def same_width(a: int, b: int) -> None:
    """Refuse states of different numbers of features."""
    if a != b:
        raise ValueError(
            f"One partition has {a} features, another {b}; all partitions need the same columns."
        )
