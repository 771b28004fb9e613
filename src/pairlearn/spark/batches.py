# SPDX-License-Identifier: BSD-3-Clause
"""Arrow batches of a Spark frame as examples: rows, labels and weights, or private cells.

A frame is selected first (`frames`): its first columns hold the features, the next ones label,
weight and ids of persons. Vectors of ``pyspark.ml`` travel as structs of type (0 is sparse, 1 is
dense), size, indices and values. Which rows of a column are stored as sparse vectors is an accident
of storage, so vectors of few features always become a dense table. Wide ones become a sparse
matrix wherever a row is sparse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Vector

#: Vectors of at most this many features become a dense table.
_NARROW = 1_000
#: The type of a dense vector in a struct.
_DENSE = 1


@dataclass(frozen=True)
class Layout:
    """What the columns of a selected frame hold, in their order.

    Parameters
    ----------
    kind : {"columns", "vector", "array"}
        How features are stored: a column each, or all of them in one.
    n_features : int
        The number of columns that hold features.
    weighted : bool, default=False
        Whether a weight follows the label.
    n_groups : int, default=0
        The number of columns at the end that say whose row it is.
    width : int, optional
        The public number of features of private vectors.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.table({"a": [1.0, None], "b": [3, 4], "label": [0, 1]})
    >>> Layout("columns", 2).examples(batch)["X"]
    array([[ 1.,  3.],
           [nan,  4.]])
    """

    kind: str
    n_features: int
    weighted: bool = False
    n_groups: int = 0
    width: int | None = None

    def rows(self, columns: list[Any]) -> Any:
        """Return the features of a batch, from the Arrow arrays of its first columns."""
        if self.kind == "columns":
            return table_of_columns(columns)
        rows = vector_rows if self.kind == "vector" else array_rows
        return rows(_whole(columns[0]))

    def examples(self, batch: Any) -> dict[str, Any]:
        """Return the arguments of `Statistic.partial_state` for a batch: numbers."""
        first = self.n_features
        found = {"X": self.rows(batch.columns[:first]), "y": numbers_of(batch.columns[first])}
        if self.weighted:
            found["sample_weight"] = numbers_of(batch.columns[first + 1])
        return found

    def cells(self, table: Any) -> dict[str, Any]:
        """Return the arguments of a statistic of private rows: cells as they are.

        No row can raise an error here, or change how another is read.
        """
        first = self.n_features
        found: dict[str, Any] = {"y": table.columns[first]}
        if self.kind == "columns":
            found["X"] = table.select(list(range(first)))
        else:
            assert self.width is not None
            found["X"] = private_rows(_whole(table.columns[0]), self.width, self.kind == "vector")
        if self.n_groups:
            ids = table.select(list(range(table.num_columns - self.n_groups, table.num_columns)))
            found["groups"] = ids if self.n_groups > 1 else ids.columns[0]
        return found


def chunks_of(batches: Iterable[Any], at_once: int) -> Iterator[Any]:
    """Yield tables of at least `at_once` rows, the last one of fewer, from batches in their order.

    A batch of Spark has ten thousand rows, and the state of a chunk costs what a thousand rows do.
    """
    import pyarrow as pa

    waiting: list[Any] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= at_once:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def numbers_of(column: Any) -> NDArray[Any]:
    """Return an Arrow column as an array of its own type; missing numbers are NaN."""
    whole = _whole(column)
    return np.asarray(whole.to_numpy(zero_copy_only=False))


def table_of_columns(columns: list[Any]) -> Vector:
    """Return columns of numbers side by side, stored column by column.

    The table is of float32 if all columns are. Missing numbers are NaN.
    """
    arrays = [numbers_of(column) for column in columns]
    single = all(array.dtype == np.float32 for array in arrays)
    table = np.empty((len(arrays), len(arrays[0])), np.float32 if single else np.float64)
    for place, array in zip(table, arrays, strict=True):
        place[:] = array
    return table.T


def array_rows(array: Any) -> Vector:
    """Return a column of arrays of numbers as a table; missing numbers in an array are NaN."""
    _check_present(array)
    lengths = np.asarray(array.value_lengths().to_numpy(zero_copy_only=False))
    d = _one_width(lengths)
    values = np.asarray(array.flatten().to_numpy(zero_copy_only=False))
    if values.dtype != np.float32:
        values = values.astype(np.float64, copy=False)
    return values.reshape(len(lengths), d)


def vector_rows(array: Any) -> Any:
    """Return a column of vectors as a table, or as a CSR matrix if they are wide and sparse."""
    _check_present(array)
    dense, sizes, indices, values, lengths = _fields(array)
    n, d = len(dense), _one_width(np.where(dense, lengths, sizes))
    if dense.all():
        return values.reshape(n, d)
    row = np.repeat(np.arange(n), lengths)
    column = np.arange(len(values)) - (np.cumsum(lengths) - lengths)[row]
    column[~dense[row]] = indices
    if ((column < 0) | (column >= d)).any():
        raise ValueError(f"A sparse vector of {d} features has an index outside of 0 to {d - 1}.")
    if d <= _NARROW:
        table = np.zeros((n, d))
        table[row, column] = values
        return table
    import scipy.sparse

    ends = np.concatenate([[0], np.cumsum(lengths)])
    # A copy: what Arrow holds cannot be written to.
    matrix = scipy.sparse.csr_matrix((values.copy(), column, ends), shape=(n, d))
    # Zeros of rows that are stored as dense ones are like those of the others.
    matrix.eliminate_zeros()
    return matrix


def private_rows(array: Any, width: int, is_vector: bool) -> Vector:
    """Return a column of private vectors or arrays as a table of `width` features.

    A row that is missing, of another length or damaged holds NaN, whatever the other rows hold.
    """
    table = np.full((len(array), width), np.nan)
    for place, row in zip(table, array.to_pylist(), strict=True):
        values = row["values"] if is_vector and row is not None else row
        if values is None:
            continue
        numbers = np.array([np.nan if value is None else value for value in values], np.float64)
        if not is_vector or row["type"] == _DENSE:
            if len(numbers) == width:
                place[:] = numbers
        elif row["size"] == width and len(row["indices"] or ()) == len(numbers):
            column = np.array([-1 if k is None else k for k in row["indices"] or ()], np.int64)
            if ((column >= 0) & (column < width)).all():
                place[:] = 0.0
                place[column] = numbers
    return table


def _fields(array: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return the parts of a column of vectors: kinds, sizes, indices, values and their numbers."""
    kind, size, indices, values = array.flatten()
    dense = np.asarray(kind.to_numpy(zero_copy_only=False)) == _DENSE
    sizes = np.asarray(size.fill_null(0).to_numpy(zero_copy_only=False))
    lengths = np.asarray(values.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
    flat = np.asarray(values.flatten().to_numpy(zero_copy_only=False))
    places = np.asarray(indices.flatten().to_numpy(zero_copy_only=False))
    if len(places) != lengths[~dense].sum():
        raise ValueError("A sparse vector has not as many indices as values; build it anew.")
    return dense, sizes, places, flat, lengths


def _whole(column: Any) -> Any:
    """Return a column as one Arrow array."""
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _check_present(array: Any) -> None:
    if array.null_count:
        raise ValueError(
            f"The column of features lacks {array.null_count} rows in one batch (NULL); remove "
            "them with frame.dropna(subset=[...]), or fill them."
        )


def _one_width(lengths: NDArray[Any]) -> int:
    """Return the common number of features; refuse rows of different lengths."""
    if not len(lengths):
        return 0
    low, high = int(lengths.min()), int(lengths.max())
    if low != high:
        raise ValueError(
            f"One row has {low} features, another {high}; all rows need the same features."
        )
    return low
