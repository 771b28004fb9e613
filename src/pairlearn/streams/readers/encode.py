# SPDX-License-Identifier: BSD-3-Clause
"""Turn the columns of a polars frame into features, labels and queries, by a `Layout`.

Each column is read whole; a row that cannot be used gets a reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.schema import Layout, bucket_of, short_name
from pairlearn.typing import Vector

#: Characters of a text in a message.
_SHOWN = 40
#: Queries below this are exact as floats.
_LARGEST_QID = 2.0**53
#: A query in a text: 01 and +1 are other ids; 1.0 is how a column with gaps was written.
_QUERY = r"^(0|[1-9][0-9]*)(\.0)?$"
MISSING, UNKNOWN = -1, -2


@dataclass(frozen=True)
class Encoded:
    """The usable rows of a frame; `kept` says which they are, `reasons` why not the others."""

    X: Any
    y: Vector | None
    qid: NDArray[np.int64] | None
    kept: NDArray[np.bool_]
    reasons: dict[int, str]


def shown(text: str) -> str:
    """Return a text for a message, cut after forty characters."""
    return repr(text) if len(text) <= _SHOWN else repr(text[:_SHOWN]) + "..."


def unexpected_label(value: str, classes: Any) -> str:
    """Return the reason for refusing a label."""
    return f"label {value} is not among the classes {classes!r}; add it to classes= if it is right"


def column_types(layout: Layout) -> dict[int, Any]:
    """Return the type by which each column of a text is read first."""
    import polars

    schema = layout.schema
    numeric = any(re.fullmatch(r"[\d.eE+-]+", token) for token in schema.missing_tokens)
    number = polars.String if numeric else polars.Float64
    types = {j: polars.String if j in layout.levels else number for j in layout.used}
    if layout.qid is not None:
        types[layout.qid] = polars.String
    return types


def encode(layout: Layout, frame: Any) -> Encoded:
    """Return features, labels and queries of a frame with the columns ``c0``, ``c1``, ..."""
    reasons: dict[int, str] = {}
    schema = layout.schema
    values = _numbers(layout, frame, reasons)
    codes = np.empty((frame.height, len(layout.categories)), dtype=np.int64)
    for k, j in enumerate(layout.categories):
        codes[:, k] = _codes(layout, frame[f"c{j}"], j, reasons)
    blame = _refused_missing(layout, values, codes)
    for row in np.flatnonzero(blame >= 0).tolist():
        reasons.setdefault(
            row, f"column {short_name(layout.names[blame[row]])}: the value is missing (missing=0 "
            "or missing='indicator' accepts it)",
        )  # fmt: skip
    y = None if layout.label is None else _labels(layout, frame[f"c{layout.label}"], reasons)
    qid = None if layout.qid is None else _queries(layout, frame[f"c{layout.qid}"], reasons)
    kept = np.ones(frame.height, dtype=np.bool_)
    if reasons:
        kept[list(reasons)] = False
        values, codes = values[kept], codes[kept]
        y = None if y is None else y[kept]
        qid = None if qid is None else qid[kept]
    if np.isnan(values).any():
        for k, j in enumerate(layout.numbers):
            policy = layout.missing[j]
            if not isinstance(policy, str):
                values[np.isnan(values[:, k]), k] = policy
    if layout.sparse:
        X = _sparse(layout, values, codes)
    elif layout.categories or layout.indicator:
        X = _dense(layout, values, codes)
    else:
        X = np.ascontiguousarray(values, dtype=schema.dtype)
    return Encoded(X, y, qid, kept, reasons)


def _numbers(layout: Layout, frame: Any, reasons: dict[int, str]) -> NDArray[np.float64]:
    """Return the columns of numbers; NaN is missing."""
    import polars

    names = [f"c{j}" for j in layout.numbers]
    picked = frame.select(names)
    values: NDArray[np.float64]
    if names and all(kind == polars.Float64 for kind in picked.dtypes):
        values = picked.to_numpy()  # a null becomes NaN
        if not values.flags.writeable:
            values = values.copy()
    else:
        values = np.empty((frame.height, len(names)))
        for k, j in enumerate(layout.numbers):
            values[:, k] = column_numbers(
                frame[names[k]], layout.schema.missing_tokens, reasons,
                f"column {short_name(layout.names[j])}: ",
            )  # fmt: skip
    if layout.schema.dtype == "float64" and np.isfinite(values).all():
        return values
    limit = np.inf if layout.schema.dtype == "float64" else float(np.finfo(np.float32).max)
    with np.errstate(invalid="ignore"):
        large = np.abs(values) >= np.nextafter(limit, np.inf)
    if large.any():
        what = "infinite or too large" if np.isinf(limit) else "too large for float32"
        for row, k in np.argwhere(large).tolist():
            name = short_name(layout.names[layout.numbers[k]])
            reasons.setdefault(row, f"column {name}: the value is {what}")
    return values


def column_numbers(
    column: Any, tokens: tuple[str, ...], reasons: dict[int, str], where: str
) -> NDArray[np.float64]:
    """Return a column of texts or numbers as doubles; NaN is missing."""
    import polars

    if column.dtype != polars.String:
        numbers: NDArray[np.float64] = column.cast(polars.Float64).to_numpy()
        return numbers
    text = column.str.strip_chars(" \t").fill_null("")
    found = text.cast(polars.Float64, strict=False)
    missing = text.is_in(["", *tokens])
    wrong = (found.is_null() & ~missing) | found.is_infinite().fill_null(False)
    for row in wrong.arg_true().to_list():
        flaw = "is not a number" if found[row] is None else "is infinite"
        reasons.setdefault(row, f"{where}{shown(text[row])} {flaw}")
    values: NDArray[np.float64] = found.to_numpy().copy()
    values[missing.to_numpy()] = np.nan
    values[wrong.to_numpy()] = 0.0
    return values


def _texts(column: Any) -> Any:
    """Return a column as texts: a number or date as Python writes it."""
    import polars

    if column.dtype in (polars.Categorical, polars.Enum):
        return column.cast(polars.String)
    if column.dtype == polars.String:
        return column
    known = column.unique().drop_nulls()
    texts = [str(value) for value in known.to_list()]
    return column.replace_strict(known, texts, default=None, return_dtype=polars.String)


def _codes(layout: Layout, column: Any, j: int, reasons: dict[int, str]) -> NDArray[np.int64]:
    """Return the level or bucket of each row."""
    import polars

    texts, levels = _texts(column), layout.levels[j]
    known = [text for text in texts.unique().to_list() if text]
    if isinstance(levels, int):
        table = {text: bucket_of(text, levels) for text in known}
    else:
        places = {level: k for k, level in enumerate(levels)}
        table = {text: places.get(text, UNKNOWN) for text in known}
    found = texts.replace_strict(
        list(table), list(table.values()), default=MISSING, return_dtype=polars.Int64
    )
    codes: NDArray[np.int64] = found.to_numpy()
    if j == layout.label or layout.schema.unknown == "refuse":
        for row in np.flatnonzero(codes == UNKNOWN).tolist():
            if j == layout.label:
                reason = unexpected_label(shown(texts[row]), layout.schema.classes)
            else:
                reason = (
                    f"{shown(texts[row])} is not among its levels (unknown='ignore' accepts it)"
                )
            reasons.setdefault(row, f"column {short_name(layout.names[j])}: {reason}")
    return codes


def _refused_missing(layout: Layout, values: Any, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each row the first column that refuses its missing value, or -1."""
    blame = np.full(len(values), -1, dtype=np.int64)
    gaps = np.isnan(values)
    if not gaps.any() and not (codes == MISSING).any():
        return blame
    absent = [(j, gaps[:, k]) for k, j in enumerate(layout.numbers)]
    absent += [(j, codes[:, k] == MISSING) for k, j in enumerate(layout.categories)]
    for j, rows in absent:
        if layout.missing[j] == "refuse":
            blame[rows & (blame < 0)] = j
    return blame


def _labels(layout: Layout, column: Any, reasons: dict[int, str]) -> Vector:
    schema, j = layout.schema, layout.label
    assert j is not None
    y: Vector
    if schema.text_labels:
        y = _codes(layout, column, j, reasons).astype(np.float64)
        absent = y == MISSING
        bad = absent
    else:
        where = f"column {short_name(layout.names[j])}: "
        y = column_numbers(column, schema.missing_tokens, reasons, where)
        absent = np.isnan(y)
        bad = absent | np.isinf(y)
        if schema.classes is not None:
            bad = ~np.isin(y, np.array(schema.classes, dtype=np.float64))
    for row in np.flatnonzero(bad).tolist():
        value = repr(float(y[row]))
        said = f"label {value} is infinite"
        if schema.classes is not None:
            said = unexpected_label(value, schema.classes)
        reasons.setdefault(row, "the label is missing" if absent[row] else said)
    return y


def _queries(layout: Layout, column: Any, reasons: dict[int, str]) -> NDArray[np.int64]:
    import polars

    assert layout.qid is not None
    where = f"column {short_name(layout.names[layout.qid])}: "
    numbers = column_numbers(column, layout.schema.missing_tokens, reasons, where)
    if column.dtype == polars.String:
        plain = column.str.strip_chars(" \t").str.contains(_QUERY).fill_null(False).to_numpy()
        for row in np.flatnonzero(~plain & (numbers >= 0)).tolist():
            reasons.setdefault(
                row, f"{where}{shown(column[row] or '')} is no query: write a whole number from 0, "
                "without sign and leading zeros",
            )  # fmt: skip
    numbers = np.where(np.isfinite(numbers), numbers, -1.0)
    whole = (numbers >= 0) & (numbers < _LARGEST_QID) & (numbers == np.floor(numbers))
    for row in np.flatnonzero(~whole).tolist():
        reasons.setdefault(row, "the query must be a whole number from 0")
    return np.where(whole, numbers, 0).astype(np.int64)


def _dense(layout: Layout, numbers: NDArray[Any], codes: NDArray[np.int64]) -> NDArray[Any]:
    X = np.zeros((len(numbers), layout.n_features), dtype=layout.schema.dtype)
    for k, j in enumerate(layout.numbers):
        column = X[:, layout.first[j]]
        column[:] = numbers[:, k]
        if j in layout.indicator:
            absent = np.isnan(column)
            column[absent] = 0.0
            X[absent, layout.indicator[j]] = 1.0
    for k, j in enumerate(layout.categories):
        known = np.flatnonzero(codes[:, k] >= 0)
        X[known, layout.first[j] + codes[known, k]] = 1.0
        if j in layout.indicator:
            X[codes[:, k] == MISSING, layout.indicator[j]] = 1.0
    return X


def _sparse(layout: Layout, numbers: NDArray[Any], codes: NDArray[np.int64]) -> Any:
    from scipy.sparse import coo_matrix

    rows: list[Any] = []
    places: list[Any] = []
    entries: list[Any] = []

    def put(which: Any, place: Any, values: Any) -> None:
        rows.append(which)
        places.append(np.broadcast_to(place, which.shape))
        entries.append(np.broadcast_to(values, which.shape))

    for k, j in enumerate(layout.numbers):
        column = numbers[:, k]
        absent = np.isnan(column)
        some = np.flatnonzero((column != 0.0) & ~absent)
        put(some, layout.first[j], column[some])
        if j in layout.indicator:
            put(np.flatnonzero(absent), layout.indicator[j], 1.0)
    for k, j in enumerate(layout.categories):
        some = np.flatnonzero(codes[:, k] >= 0)
        put(some, layout.first[j] + codes[some, k], 1.0)
        if j in layout.indicator:
            put(np.flatnonzero(codes[:, k] == MISSING), layout.indicator[j], 1.0)
    values = np.concatenate(entries).astype(layout.schema.dtype)
    at = (np.concatenate(rows), np.concatenate(places))
    X = coo_matrix((values, at), shape=(len(numbers), layout.n_features)).tocsr()
    X.sort_indices()
    return X
