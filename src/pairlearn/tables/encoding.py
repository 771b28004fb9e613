# SPDX-License-Identifier: BSD-3-Clause
"""Encode a table as features, the same way in training and in prediction.

`TableEncoding` only joins its columns; `tables.columns` says how each kind is encoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pairlearn.tables.columns import ColumnEncoder, NumberColumn, restored_column
from pairlearn.tables.labels import LabelRule
from pairlearn.tables.text import different
from pairlearn.typing import Mask

if TYPE_CHECKING:
    from polars import DataFrame

VERSION = 3
#: Rows are stored sparse if they have more features than this; most are then zero.
MOST_DENSE_FEATURES = 300
_SINGLE = float(np.finfo(np.float32).max)


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
    ids : sequence of str
        Columns that name the rows. They give no features, and predictions carry them along.

    Examples
    --------
    >>> import polars
    >>> from pairlearn.tables.columns import CategoryColumn, NumberColumn
    >>> frame = polars.DataFrame({"plan": ["pro", "free"], "age": ["31", ""]})
    >>> encoder = TableEncoding([NumberColumn("age"), CategoryColumn("plan")])
    >>> values, wrong = encoder.read(frame)
    >>> encoder.fit([values])
    >>> encoder.feature_names
    ('age', 'plan=free', 'plan=pro', 'plan=(other)')
    >>> encoder.encode(values)
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
        ids: Sequence[str] = (),
    ) -> None:
        self.columns, self.ids = tuple(columns), tuple(ids)
        self.label, self.qid, self.dtype = label, qid, dtype

    def read(self, frame: DataFrame) -> tuple[list[Any], list[Mask]]:
        """Return the compact values of each column, and which of them cannot be read."""
        import polars

        # plain numbers are cast together; a column with anything else is read by itself
        plain = [c.name for c in self.columns if (c.kind, c.form, c.unit) == ("number", "plain", "")
                 and frame[c.name].dtype == polars.String]  # fmt: skip
        cast = frame.select(polars.col(plain).str.strip_chars().cast(polars.Float64, strict=False))
        whole = {one.name: one for one in cast if not one.null_count()}
        pairs = [self._read(c, whole.get(c.name, frame[c.name])) for c in self.columns]
        return [values for values, _ in pairs], [wrong for _, wrong in pairs]

    def _read(self, column: ColumnEncoder, series: Any) -> tuple[Any, Mask]:
        values, wrong = column.read(series)
        if self.dtype == "float32" and isinstance(column, NumberColumn):
            large = np.abs(values) > _SINGLE
            values[large] = np.nan
            wrong = wrong | large
        return values, wrong

    def fit(self, parts: Sequence[list[Any]], *, whole: bool = False) -> None:
        """Learn medians and levels from the compact values of rows.

        If `whole`, the parts are the whole table, and rare words of texts get no feature.
        """
        for k, column in enumerate(self.columns):
            column.fit(_joined([part[k] for part in parts]))
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
        ends = np.cumsum([0, *(len(column.feature_names) for column in self.columns)]).tolist()
        return {
            column.name: slice(begin, end)
            for column, begin, end in zip(self.columns, ends[:-1], ends[1:], strict=True)
        }

    def refused(self, part: list[Any]) -> NDArray[np.int64]:
        """Return for each row the first column that refuses its missing value, or -1."""
        blame = np.full(len(part[0]) if part else 0, -1, dtype=np.int64)
        for k, column in enumerate(self.columns):
            if column.missing == "refuse":
                blame[column.absent(part[k]) & (blame < 0)] = k
        return blame

    def encode(self, part: list[Any]) -> Any:
        """Encode compact values as an array or a CSR matrix."""
        n, sparse = len(part[0]) if part else 0, self.sparse
        X = None if sparse else np.zeros((n, self.n_features), dtype=self.dtype)
        rows: list[Any] = [np.empty(0, np.int64)]
        places: list[Any] = [np.empty(0, np.int64)]
        entries: list[Any] = [np.empty(0)]
        begin = 0
        for column, values in zip(self.columns, part, strict=True):
            for at, place, entry in column.entries(values):
                if X is not None:
                    X[at, begin + place] = entry
                    continue
                rows.append(at)
                places.append(np.broadcast_to(begin + place, at.shape))
                entries.append(np.broadcast_to(entry, at.shape))
            begin += len(column.feature_names)
        if X is not None:
            return X
        from scipy.sparse import coo_matrix

        where = (np.concatenate(rows), np.concatenate(places))
        found = np.concatenate(entries).astype(self.dtype)
        S = coo_matrix((found, where), shape=(n, self.n_features)).tocsr()
        S.eliminate_zeros()
        return S

    def state(self) -> dict[str, Any]:
        """Return the encoder as plain values for a model file."""
        return {
            "version": VERSION,
            "columns": [
                {"name": c.name, "kind": c.kind, "missing": c.missing, **c.state(),
                 **({"strict": True} if c.strict else {})}
                for c in self.columns
            ],
            "label": None if self.label is None else self.label.state(),
            "qid": self.qid,
            "dtype": self.dtype,
            "ids": list(self.ids),
        }  # fmt: skip

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """Check the output of `state` and return its encoder.

        >>> TableEncoding.from_state({"version": 7})
        Traceback (most recent call last):
            ...
        ValueError: the saved table has version 7, this library reads 3; train the model again.
        """
        if not isinstance(state, Mapping):
            raise ValueError("the saved table is not a mapping.")
        if state.get("version") != VERSION:
            raise ValueError(
                f"the saved table has version {state.get('version')!r:.20}, this library reads "
                f"{VERSION}; train the model again."
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
        ids = state.get("ids")
        if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
            raise ValueError("the saved table has ids that are not names of columns.")
        return cls(columns, label=label, qid=qid, dtype=dtype, ids=ids)


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import polars

    return polars.concat(parts)


def taken(part: list[Any], kept: Mask) -> list[Any]:
    """Return the compact values of some rows."""
    import polars

    mask = polars.Series(kept)
    return [
        values[kept] if isinstance(values, np.ndarray) else values.filter(mask) for values in part
    ]
