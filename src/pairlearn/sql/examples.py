# SPDX-License-Identifier: BSD-3-Clause
"""Record batches of Arrow as examples: numbers, labels and weights, checked column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.arrow import doubles, is_numeric, load_pyarrow
from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.schema import listed, short_name, shown_kind
from pairlearn.tables.rows import no_column
from pairlearn.typing import Vector

#: What messages call the rows.
_RESULT = "the result of the query"
#: Decimals of at most so many digits are different as doubles, too.
_DIGITS = 15


@dataclass(frozen=True)
class Columns:
    """Which columns of a result are features, labels and weights.

    Parameters
    ----------
    features : tuple of str
        The columns of numbers, in this order.
    target : str
        The column of labels.
    weight : str or None
        The column of weights.
    """

    features: tuple[str, ...]
    target: str
    weight: str | None = None

    @classmethod
    def of(
        cls, schema: Any, target: str, features: Sequence[str] | None, weight: str | None
    ) -> Columns:
        """Find the columns in a schema of Arrow; by default all others are features."""
        names = schema.names
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ReadError(
                f"{_RESULT} has more than one column named {listed(repeated)}; rename them with AS."
            )
        beside = [target] if weight is None else [target, weight]
        if len(set(beside)) < len(beside):
            raise ReadError(f"target and weight are one column, {target!r}; name two.")
        if features is None:
            features = [name for name in names if name not in beside]
        elif isinstance(features, str):
            raise TypeError(f"columns must be a list of names, got {features!r}.")
        for name in features:
            if name in beside:
                raise ReadError(f"{name!r} is a feature and target or weight; leave it out of one.")
        if len(set(features)) < len(features):
            raise ReadError("columns names a column twice; name each once.")
        for name, what in [
            (target, "target"),
            *([] if weight is None else [(weight, "weight")]),
            *((name, "feature") for name in features),
        ]:
            if name not in names:
                raise no_column(name, names, _RESULT, what)
        if not features:
            raise ReadError(f"{_RESULT} has no column of a feature beside {listed(beside)}.")
        found = cls(tuple(features), target, weight)
        found.check(schema)
        return found

    def check(self, schema: Any) -> None:
        """Refuse columns of other types than numbers."""
        wrong = [
            f"{short_name(name)} ({shown_kind(schema.field(name).type)})"
            for name in (*self.features, *([] if self.weight is None else [self.weight]))
            if not is_numeric(schema.field(name).type)
        ]
        if wrong:
            raise ReadError(
                f"features and weights must be numbers, got {', '.join(wrong[:5])}; make numbers "
                "of them in the query (CASE, EXTRACT), or leave them out. `pairlearn train` and "
                "TableEncoder encode texts and dates."
            )
        kind, is_ = schema.field(self.target).type, load_pyarrow().types
        if is_.is_dictionary(kind):
            kind = kind.value_type
        tests = (is_.is_nested, is_.is_temporal, is_.is_null, is_.is_binary, is_.is_large_binary,
                 is_.is_fixed_size_binary, is_.is_binary_view)  # fmt: skip
        if any(test(kind) for test in tests):
            raise ReadError(
                f"the target {short_name(self.target)} is {shown_kind(kind)}; labels are whole "
                "numbers, texts or true and false."
            )

    def examples(self, batch: Any) -> tuple[Vector, NDArray[Any], Vector | None]:
        """Return rows, labels and weights of a record batch."""
        # Column by column, as Arrow has them.
        X = np.empty((batch.num_rows, len(self.features)), order="F")
        for j, name in enumerate(self.features):
            X[:, j] = self._numbers(batch, name)
        weight = None if self.weight is None else self._numbers(batch, self.weight)
        return X, self._labels(batch), weight

    def _numbers(self, batch: Any, name: str) -> Vector:
        pa, column = load_pyarrow(), _present(batch, name)
        if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
            values = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        else:
            values = doubles(column)
        if not np.isfinite(values).all():
            raise ReadError(
                f"column {short_name(name)} of {_RESULT} holds NaN or infinity; leave such rows "
                "out (WHERE), or replace the values."
            )
        return np.asarray(values)

    def _labels(self, batch: Any) -> NDArray[Any]:
        pa, column = load_pyarrow(), _present(batch, self.target)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_decimal(column.type) and column.type.scale <= 0:
            try:
                # DuckDB gives whole numbers of 128 bits, as all its sums are, as decimals.
                return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False))
            except pa.ArrowInvalid:
                raise ReadError(
                    f"the target {short_name(self.target)} holds a whole number beyond 64 bits; "
                    "make a text of it in the query (CAST)."
                ) from None
        if pa.types.is_decimal(column.type):
            for label in column.unique().to_pylist():
                double_of(label, self.target)
            return doubles(column)
        if is_numeric(column.type):
            return np.asarray(column.to_numpy(zero_copy_only=False))
        return np.array(column.cast(pa.string()).to_pylist(), dtype=np.str_)


def double_of(label: Decimal, target: str) -> float:
    """Return a label as a double; refuse one that may be the double of another label.

    >>> double_of(Decimal("0.580"), "bought")
    0.58
    """
    if len(label.normalize().as_tuple().digits) > _DIGITS:
        raise ReadError(
            f"the target {short_name(target)} holds the label {label}: different labels of more "
            f"than {_DIGITS} digits may be one number; make texts of them in the query (CAST)."
        )
    return float(label)


def _present(batch: Any, name: str) -> Any:
    """Return a column; refuse NULL."""
    column = batch.column(name)
    if column.null_count:
        raise ReadError(
            f"column {short_name(name)} of {_RESULT} is NULL in {column.null_count} of "
            f"{batch.num_rows} rows; leave them out (WHERE ... IS NOT NULL), or give them a value "
            "(COALESCE). `pairlearn train` fills gaps."
        )
    return column
