# SPDX-License-Identifier: BSD-3-Clause
"""Record batches of Arrow as examples: numbers, labels and weights, checked column by column.

DuckDB, Polars, Parquet and Spark give Arrow, and Dask's partitions become tables of it, so that
this is the only place that says "numbers, please". Vectors of ``pyspark.ml`` are structs of type (0
is sparse, 1 is dense), size, indices and values. Narrow ones become a dense table, wide ones a
sparse matrix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.register import nearest
from pairlearn.typing import Vector

#: Vectors of at most this many features become a dense table.
_NARROW = 1_000
#: Decimals of at most so many digits are different as doubles, too.
_DIGITS = 15
#: The fields of a vector of Spark.
_VECTOR = ["type", "size", "indices", "values"]


def load_pyarrow() -> Any:
    """Import PyArrow, or say how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError("PyArrow is not installed; pip install 'pairlearn[sql]'.") from None
    return pyarrow


def is_numeric(kind: Any) -> bool:
    """Tell whether a type of Arrow holds numbers, or true and false."""
    is_ = load_pyarrow().types
    tests = (is_.is_integer, is_.is_floating, is_.is_boolean, is_.is_decimal)
    return any(test(kind) for test in tests)


@dataclass(frozen=True)
class Columns:
    """Which columns of batches are features, labels, weights and queries.

    Parameters
    ----------
    features : tuple of str
        The names of the columns of features, or of the one that holds vectors or lists.
    places : tuple of int
        Where these columns are.
    kind : {"columns", "vector", "list"}
        How features are stored.
    others : dict of str to int
        Where labels "y", "sample_weight" and "qid" are.
    names : tuple of str
        The names of all columns.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.table({"a": [1.0, 2.0], "b": [3, 4], "label": ["no", "yes"]})
    >>> Columns.of(batch.schema, "label").examples(batch)["X"]
    array([[1., 3.],
           [2., 4.]])
    """

    features: tuple[str, ...]
    places: tuple[int, ...]
    kind: str = "columns"
    others: dict[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        schema: Any,
        target: str | None = None,
        features: str | Sequence[str] | None = None,
        weight: str | None = None,
        qid: str | None = None,
    ) -> Columns:
        """Find the columns in a schema of Arrow; by default all others are features.

        One name of features is the column of vectors, or of lists of numbers.
        """
        names = list(schema.names)
        asked = {"y": target, "sample_weight": weight, "qid": qid}
        beside = {what: name for what, name in asked.items() if name is not None}
        if features is None:
            chosen = [name for name in names if name not in beside.values()]
        else:
            chosen = [features] if isinstance(features, str) else list(features)
        if not chosen:
            raise ValueError(f"there is no column of a feature beside {sorted(beside.values())}.")
        for name in (*chosen, *beside.values()):
            if name not in names:
                raise ValueError(f"there is no column {name!r}{nearest(name, names)}")
            if names.count(name) > 1:
                raise ValueError(
                    f"more than one column is named {name!r}; rename them (AS in a query)."
                )
            if [*chosen, *beside.values()].count(name) > 1:
                raise ValueError(
                    f"{name!r} is read twice, as a feature, label, weight or query; name each "
                    "column once."
                )
        kind = "columns"
        if isinstance(features, str):
            kind = _kind_of_vectors(features, schema.field(features).type)
        places = tuple(names.index(name) for name in chosen)
        others = {what: names.index(name) for what, name in beside.items()}
        found = cls(tuple(chosen), places, kind, others, tuple(names))
        found.check(schema)
        return found

    def check(self, schema: Any) -> None:
        """Refuse columns of types that cannot be learned from."""
        numbers = list(self.places) if self.kind == "columns" else []
        numbers += [self.others["sample_weight"]] if "sample_weight" in self.others else []
        wrong = [
            f"{self.names[k]!r} ({schema.types[k]})"
            for k in numbers
            if not is_numeric(schema.types[k])
        ]
        if wrong:
            raise ValueError(
                f"features and weights must be numbers, got {', '.join(wrong[:5])}"
                f"{', ...' * (len(wrong) > 5)}; encode texts, categories and dates first, or leave "
                "them out. `pairlearn train` and TableEncoder do that on one machine."
            )
        if "y" not in self.others:
            return
        kind, is_ = schema.types[self.others["y"]], load_pyarrow().types
        if is_.is_dictionary(kind):
            kind = kind.value_type
        texts = is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind)
        if not (is_numeric(kind) or texts):
            raise ValueError(
                f"the labels {self.names[self.others['y']]!r} are of type {kind}; they must be "
                "numbers, texts or true and false."
            )

    def blocks(self, batches: Iterable[Any], at_once: int = 1) -> Iterator[dict[str, Any]]:
        """Yield examples of batches in their order, joined to at least `at_once` rows."""
        waiting: list[Any] = []
        for batch in batches:
            if batch.num_rows:
                waiting.append(batch)
            if sum(one.num_rows for one in waiting) >= at_once:
                yield self.examples(_joined(waiting))
                waiting = []
        if waiting:
            yield self.examples(_joined(waiting))

    def examples(self, batch: Any) -> dict[str, Any]:
        """Return the arguments of `Statistic.partial_state` for a batch."""
        found = {"X": self.rows([batch.column(k) for k in self.places])}
        for what, k in self.others.items():
            read = self._numbers if what == "sample_weight" else self._labels
            found[what] = read(batch.column(k), self.names[k])
        return found

    def rows(self, arrays: Sequence[Any]) -> Any:
        """Return the features, from the arrays of their columns."""
        if self.kind == "columns":
            X = np.empty((len(arrays[0]), len(arrays)), order="F")
            for j, (array, name) in enumerate(zip(arrays, self.features, strict=True)):
                X[:, j] = self._numbers(array, name)
            return X
        array, name = _whole(arrays[0]), self.features[0]
        _check_present(array, name)
        return _vector_rows(array) if self.kind == "vector" else _list_rows(array)

    def _numbers(self, column: Any, name: str) -> Vector:
        column = _whole(column)
        _check_present(column, name)
        if load_pyarrow().types.is_decimal(column.type):
            values = np.array([float(value) for value in column.to_pylist()], dtype=np.float64)
        else:
            values = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        if not np.isfinite(values).all():
            raise ValueError(
                f"column {name!r} holds NaN or infinity; leave such rows out, or replace the "
                "values."
            )
        return np.asarray(values)

    def _labels(self, column: Any, name: str) -> NDArray[Any]:
        pa, column = load_pyarrow(), _whole(column)
        _check_present(column, name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_decimal(column.type):
            numbers = {value: number_of(value, name) for value in column.unique().to_pylist()}
            return np.array([numbers[value] for value in column.to_pylist()])
        if is_numeric(column.type):
            return np.asarray(column.to_numpy(zero_copy_only=False))
        return np.array(column.cast(pa.string()).to_pylist(), dtype=np.str_)


def number_of(label: Decimal, name: str) -> int | float:
    """Return a label as a number; refuse one that may be the number of another label.

    >>> number_of(Decimal("0.580"), "bought"), number_of(Decimal("3.0"), "bought")
    (0.58, 3)
    """
    if label == label.to_integral_value() and abs(label) < 2**63:
        return int(label)
    if len(label.normalize().as_tuple().digits) > _DIGITS:
        raise ValueError(
            f"{name!r} holds the label {label}: different labels of more than {_DIGITS} digits may "
            "be one number; make texts of them in the query (CAST)."
        )
    return float(label)


def _joined(batches: list[Any]) -> Any:
    pa = load_pyarrow()
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks()


def _whole(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _check_present(array: Any, name: str) -> None:
    if array.null_count:
        raise ValueError(
            f"column {name!r} is NULL in {array.null_count} of {len(array)} rows; leave them out "
            "(WHERE ... IS NOT NULL, dropna), or give them a value (COALESCE, fillna). `pairlearn "
            "train` fills gaps on one machine."
        )


def _kind_of_vectors(name: str, kind: Any) -> str:
    is_ = load_pyarrow().types
    if is_.is_struct(kind) and [kind.field(k).name for k in range(kind.num_fields)] == _VECTOR:
        return "vector"
    if (is_.is_list(kind) or is_.is_large_list(kind)) and is_numeric(kind.value_type):
        return "list"
    raise ValueError(
        f"{name!r} is of type {kind}; it must be a column of vectors or of lists of numbers "
        "(VectorAssembler makes one), or else give a list of the names of columns of numbers."
    )


def _list_rows(array: Any) -> Vector:
    width = _one_width(np.asarray(array.value_lengths().to_numpy(zero_copy_only=False)))
    numbers = array.flatten()
    if load_pyarrow().types.is_decimal(numbers.type):
        numbers = numbers.cast("float64")
    values = numbers.to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64).reshape(len(array), width)


def _vector_rows(array: Any) -> Any:
    """Return a column of vectors as a table, or as a CSR matrix if they are wide and sparse."""
    kind, size, indices, values = array.flatten()
    dense = np.asarray(kind.to_numpy(zero_copy_only=False)) == 1
    sizes = np.asarray(size.fill_null(0).to_numpy(zero_copy_only=False))
    lengths = np.asarray(values.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
    flat = np.asarray(values.flatten().to_numpy(zero_copy_only=False))
    places = np.asarray(indices.flatten().to_numpy(zero_copy_only=False))
    if len(places) != lengths[~dense].sum():
        raise ValueError("A sparse vector has not as many indices as values; build it anew.")
    n, d = len(dense), _one_width(np.where(dense, lengths, sizes))
    if dense.all():
        return flat.reshape(n, d)
    row = np.repeat(np.arange(n), lengths)
    column = np.arange(len(flat)) - (np.cumsum(lengths) - lengths)[row]
    column[~dense[row]] = places
    if ((column < 0) | (column >= d)).any():
        raise ValueError(f"A sparse vector of {d} features has an index outside of 0 to {d - 1}.")
    if d <= _NARROW:
        table = np.zeros((n, d))
        table[row, column] = flat
        return table
    import scipy.sparse

    # A copy: what Arrow holds cannot be written to.
    ends = np.concatenate([[0], np.cumsum(lengths)])
    matrix = scipy.sparse.csr_matrix((flat.copy(), column, ends), shape=(n, d))
    # Zeros of rows that are stored as dense ones are like those of the others.
    matrix.eliminate_zeros()
    return matrix


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
