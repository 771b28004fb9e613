# SPDX-License-Identifier: BSD-3-Clause
"""Encode a table of texts as features, the same way in training and in prediction.

`TableEncoding` only joins its columns; `tables.column` says how each kind is encoded.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.schema import Schema
from pairlearn.tables.column import ColumnEncoder, saved_flag
from pairlearn.tables.columns import restored_column
from pairlearn.tables.labels import LabelRule
from pairlearn.tables.number_columns import NumberColumn, fit_full
from pairlearn.tables.rows import Block, different
from pairlearn.tables.values import plain_rows, together
from pairlearn.typing import Mask

#: Version 2 adds units, numbers that mean "missing", and frequent words.
VERSION = 2
#: Rows are stored sparse if they have more features than this; most are then zero.
MOST_DENSE_FEATURES = 300


def _each(value: Any, n: int) -> Any:
    """Return one value for each of n rows, given as an array or once."""
    return value if isinstance(value, np.ndarray) else np.full(n, value)


def _is_plain(column: ColumnEncoder) -> bool:
    return type(column) is NumberColumn and column.is_plain


class TableEncoding:
    """Encode all columns of a table that give features, in order.

    Parameters
    ----------
    columns : sequence of ColumnEncoder
        The columns.
    label : LabelRule, optional
        How labels become numbers.
    qid : str, optional
        The column of the query.
    dtype : {"float64", "float32"}
        The type of the features.
    compiled : bool
        Whether compiled readers deliver the rows, see `as_schema`. They refuse a row with an
        unreadable field.
    ids : sequence of str
        Columns that name the rows. They give no features, and predictions carry them along.

    Examples
    --------
    >>> from pairlearn.tables.word_columns import CategoryColumn
    >>> age, plan = NumberColumn("age"), CategoryColumn("plan")
    >>> block = Block("a.csv", {"plan": ("pro", "free"), "age": ("31", "")},
    ...               np.array([2, 3]), 0, 4)
    >>> encoder = TableEncoding([age, plan])
    >>> encoder.fit([encoder.read(block)])
    >>> encoder.feature_names
    ('age', 'plan=free', 'plan=pro', 'plan=(other)')
    >>> encoder.encode(encoder.read(block))
    array([[31.,  0.,  1.,  0.],
           [31.,  1.,  0.,  0.]])
    """

    def __init__(
        self,
        columns: Sequence[ColumnEncoder],
        *,
        label: LabelRule | None = None,
        qid: str | None = None,
        dtype: str = "float64",
        compiled: bool = False,
        ids: Sequence[str] = (),
    ) -> None:
        self.columns = tuple(columns)
        self.ids = tuple(ids)
        #: Neighbours that are plain numbers, or others: which, the first place and their number.
        self._runs: list[tuple[bool, int, int]] = []
        begin = 0
        for plain, group in itertools.groupby(self.columns, key=_is_plain):
            size = sum(1 for _ in group)
            self._runs.append((plain, begin, size))
            begin += size
        self.label = label
        self.qid = qid
        self.dtype = dtype
        self.compiled = compiled

    def read(self, block: Block, odd: Callable[[str, int, str], None] | None = None) -> list[Any]:
        """Return the compact values of a block; `odd` is called for each unreadable field."""
        found: list[Any] = []
        for columns, places in self._together(len(block)):
            numbers = None
            if len(columns) > 1:
                numbers = plain_rows([block.columns[column.name] for column in columns])
            if numbers is None:
                found += self._read_each(places, block, odd)
            else:
                found += map(NumberColumn.without_nothing, columns, numbers)
        return found

    def _together(self, n: int) -> Iterator[tuple[Sequence[NumberColumn], slice]]:
        """Yield the columns in order: several neighbours that are plain numbers, or others.

        Each time these are the columns to be handled together (none for others) and their places.
        """
        for plain, begin, size in self._runs:
            for few in together(size, n) if plain else [slice(0, size)]:
                places = slice(begin + few.start, begin + few.stop)
                yield cast("Sequence[NumberColumn]", self.columns[places] if plain else ()), places

    def _read_each(
        self, places: slice, block: Block, odd: Callable[[str, int, str], None] | None
    ) -> list[Any]:
        """Return the compact values of some columns of a block."""
        found = []
        for column in self.columns[places]:
            name = column.name

            def report(k: int, reason: str, name: str = name) -> None:
                if odd is not None:
                    odd(name, int(block.lines[k]), reason)

            found.append(column.read(block.columns[name], report))
        return found

    def fit(self, parts: Sequence[list[Any]], *, whole: bool = False) -> None:
        """Learn medians and levels from the compact values of rows.

        If `whole`, the parts are the whole table, and rare words of texts get no feature.
        """
        n = sum(len(part[0]) for part in parts if part)
        for columns, places in self._together(n):
            if len(columns) > 1:
                values = np.concatenate(
                    [
                        np.reshape(np.concatenate(part[places]), (len(columns), -1))
                        for part in parts
                    ],
                    axis=1,
                )
                if n and not np.isnan(values).any():
                    fit_full(columns, values)
                    continue
            for k in range(places.start, places.stop):
                column = self.columns[k]
                column.fit([part[k] for part in parts])
                if whole:
                    column.narrow()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of all features, each once: a level may be called "(other)"."""
        return different([name for column in self.columns for name in column.feature_names])

    @property
    def n_features(self) -> int:
        """The number of features."""
        return sum(len(column.feature_names) for column in self.columns)

    @property
    def sparse(self) -> bool:
        """Whether rows are stored sparse."""
        hashed = any(column.is_sparse for column in self.columns)
        return hashed or self.n_features > MOST_DENSE_FEATURES

    @property
    def spans(self) -> dict[str, slice]:
        """The range of features of each column."""
        found, begin = {}, 0
        for column in self.columns:
            width = len(column.feature_names)
            found[column.name] = slice(begin, begin + width)
            begin += width
        return found

    def refused(self, part: list[Any]) -> NDArray[np.int64]:
        """Return for each row the first column that refuses its missing value, or -1."""
        n = len(part[0]) if part else 0
        blame = np.full(n, -1, dtype=np.int64)
        for k, column in enumerate(self.columns):
            if column.missing == "refuse":
                blame[column.absent(part[k]) & (blame < 0)] = k
        return blame

    def take(self, part: list[Any], kept: Mask) -> list[Any]:
        """Return the compact values of some rows."""
        return [
            values[kept]
            if isinstance(values, np.ndarray)
            else [value for value, keep in zip(values, kept, strict=True) if keep]
            for values in part
        ]

    def as_schema(self) -> Schema | None:
        """Return a schema with which the compiled readers give the same features, or None.

        A schema exists if all columns are plain numbers without indicators, and the label has a
        single spelling for each class.
        """
        plain = all(
            type(c) is NumberColumn
            and (c.style, c.unit, c.nothing, c.indicator) == ("plain", "", None, False)
            for c in self.columns
        )
        if not plain:
            return None
        label, values = self.label, None
        if label is not None:
            if label.kind == "groups" or label.style != "plain":
                return None
            if label.kind == "classes":
                texts = isinstance(label.values[0], str)
                if texts and (label.codes is None or len(label.codes) != 2):
                    return None
                values = label.values if texts else tuple(float(v) for v in label.values)
        return Schema(
            label=None if label is None else label.column,
            qid=self.qid,
            features=tuple(c.name for c in self.columns),
            missing={
                c.name: "refuse" if c.missing == "refuse" else c.median
                for c in self.columns
                if isinstance(c, NumberColumn)
            },
            classes=values,
            dtype="float32" if self.dtype == "float32" else "float64",
        )

    def encode(self, part: list[Any]) -> Any:
        """Encode compact values as an array or a CSR matrix."""
        n = len(part[0]) if part else 0
        return self._sparse(part, n) if self.sparse else self._dense(part, n)

    def _dense(self, part: list[Any], n: int) -> NDArray[Any]:
        X = np.zeros((n, self.n_features), dtype=self.dtype)
        begin = 0
        for column, values in zip(self.columns, part, strict=True):
            width = len(column.feature_names)
            window = X[:, begin : begin + width]

            def put(rows: Any, place: Any, entries: Any, window: Any = window) -> None:
                window[rows, place] = entries

            column.write(values, put)
            begin += width
        return X

    def _sparse(self, part: list[Any], n: int) -> Any:
        """Return the features as CSR."""
        from scipy.sparse import coo_matrix

        rows: list[Any] = []
        places: list[Any] = []
        entries: list[Any] = []
        begin = 0

        def put(row: Any, place: Any, entry: Any) -> None:
            rows.append(row)
            places.append(_each(place + begin, len(row)))
            entries.append(_each(entry, len(row)))

        for columns, few in self._together(n):
            size = len(columns)
            if size > 1 and not any(column.indicator for column in columns):
                values = np.concatenate(part[few])
                medians = np.repeat([column.median for column in columns], n)
                put(np.tile(np.arange(n), size), np.repeat(np.arange(size), n),
                    np.where(np.isnan(values), medians, values))  # fmt: skip
                begin += size
                continue
            for column, values in zip(self.columns[few], part[few], strict=True):
                column.write(values, put)
                begin += len(column.feature_names)
        shape = (n, self.n_features)
        if not rows:
            return coo_matrix(shape, dtype=self.dtype).tocsr()
        place = (np.concatenate(rows), np.concatenate(places))
        values = np.concatenate(entries).astype(self.dtype)
        X = coo_matrix((values, place), shape=shape).tocsr()
        X.eliminate_zeros()
        return X

    def state(self) -> dict[str, Any]:
        """Return the encoder as plain values for a model file."""
        return {
            "version": VERSION,
            "columns": [
                {"name": c.name, "kind": c.kind, "missing": c.missing, **c.state()}
                for c in self.columns
            ],
            "label": None if self.label is None else self.label.state(),
            "qid": self.qid,
            "dtype": self.dtype,
            **({"compiled": True} if self.compiled else {}),
            **({"ids": list(self.ids)} if self.ids else {}),
        }

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Check the output of `state` and return its encoder.

        >>> TableEncoding.from_state({"version": 7})
        Traceback (most recent call last):
            ...
        ValueError: the saved table has version 7, this library reads 1 to 2; upgrade pairlearn.
        """
        if not isinstance(state, Mapping):
            raise ValueError("the saved table is not a mapping.")
        if state.get("version") not in (1, VERSION):
            raise ValueError(
                f"the saved table has version {state.get('version')!r:.20}, this library reads "
                f"1 to {VERSION}; upgrade pairlearn."
            )
        given, qid, dtype = state.get("columns"), state.get("qid"), state.get("dtype")
        if not isinstance(given, list) or not given:
            raise ValueError("the saved table has no columns.")
        if not (qid is None or isinstance(qid, str)) or dtype not in ("float64", "float32"):
            raise ValueError("the saved table has a wrong type or query.")
        columns = [restored_column(entry) for entry in given]
        if len({column.name for column in columns}) != len(columns):
            raise ValueError("the saved table has a column twice.")
        label = None if state.get("label") is None else LabelRule.from_state(state["label"])
        compiled = "compiled" in state and saved_flag(state, "compiled")
        ids = state.get("ids", [])
        if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
            raise ValueError("the saved table has ids that are not names of columns.")
        return cls(columns, label=label, qid=qid, dtype=dtype, compiled=compiled, ids=ids)
