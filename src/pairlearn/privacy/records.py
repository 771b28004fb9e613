# SPDX-License-Identifier: BSD-3-Clause
"""Read private examples and labels as numbers, cell by cell.

A record must not influence how another record is read, and must not raise an error. A type that
NumPy chooses for a whole column, or an error that quotes a cell, would be a release without noise.
So each cell is read by itself. A cell that is not a number becomes NaN (a learner puts NaN at the
middle of the public bounds). A label that is not public becomes "another label". Errors mention the
form of the arguments only, never the content of a cell or the number of rows.

One text cell makes NumPy or a CSV reader turn the whole column into text, such as
``np.array([1, 0, "n/a"])``. This changes no other record: the text of a number is read as that
number, and the text of a public label as that label.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Mask, Vector

_NUMERIC = "biuf"
#: Array types that can mix kinds of cells; each cell is read by itself.
_MIXED = "OUSTc"


def read_table(X: Any, *, n_features: int | None = None, name: str = "X") -> Vector:
    """Return examples as a table of numbers, with NaN for every cell that is not a number.

    `X` is an array, a sparse matrix, a data frame or a list of rows. A short row of a list is
    filled with NaN; a long one is cut. `n_features` is the public number of features, by default
    the width of an array, or the most common length in a list of rows. Errors use `name`.

    >>> read_table([[1, "2.5"], [3, object()], [4]])
    array([[1. , 2.5],
           [3. , nan],
           [4. , nan]])
    """
    if hasattr(X, "toarray"):
        X = X.toarray()
    if _is_list(X):
        plain = _numeric_or_none(X)
        table = _from_rows(X, n_features) if plain is None or plain.ndim != 2 else _numbers(plain)
    else:
        table = _numbers(_as_array(name, X))
    if table.ndim != 2 or table.shape[1] == 0:
        raise ValueError(
            f"{name} must be a table of examples by features, got an array with "
            f"{table.ndim} dimension(s)" + (" and no feature." if table.ndim == 2 else ".")
        )
    if n_features is not None and table.shape[1] != n_features:
        raise ValueError(
            f"{name} has {table.shape[1]} features, but the public arguments describe "
            f"{n_features}; give one bound for each feature."
        )
    return table


def read_numbers(name: str, values: Any, n_rows: int | None = None) -> Vector:
    """Return a column of numbers, with NaN for every cell that is not a number.

    >>> read_numbers("score", [1, None, "3"])
    array([ 1., nan,  3.])
    """
    column = _column(name, values, n_rows)
    return _numbers(column) if isinstance(column, np.ndarray) else _cells(column)


def read_labels(values: Any, public: Sequence[Any], n_rows: int | None = None) -> NDArray[np.int64]:
    """Return the index of each label among the public ones, -1 for any other.

    The public labels are all different. `n_rows` is the required number of labels.

    >>> read_labels([1, 0, "n/a", "1", 1.0, None], (0, 1)).tolist()
    [1, 0, -1, 1, 1, -1]
    """
    places = check_public_labels(public)
    column = _column("y", values, n_rows)
    codes = np.full(len(column), -1, dtype=np.int64)
    if isinstance(column, np.ndarray) and column.dtype.kind in _NUMERIC:
        for key, place in places.items():
            if not isinstance(key, str):
                codes[np.asarray(column == key, dtype=np.bool_)] = place
        return codes
    cells = column.tolist() if isinstance(column, np.ndarray) else column
    with _quietly():
        codes[:] = [_place(cell, places) for cell in cells]
    return codes


def read_users(values: Any, n_rows: int) -> NDArray[np.int64]:
    """Return the user number of each row, from 0 in order of appearance.

    >>> read_users(["ann", "bob", "ann", 7, "7"], 5).tolist()
    [0, 1, 0, 2, 2]
    """
    column = _column("groups", values, n_rows)
    cells = column.tolist() if isinstance(column, np.ndarray) else column
    numbers: dict[Any, int] = {}
    users = np.empty(len(cells), dtype=np.int64)
    with _quietly():
        for row, cell in enumerate(cells):
            try:
                users[row] = numbers.setdefault(_key(cell), len(numbers))
            except Exception:  # A name that cannot be compared is a separate user.
                users[row] = numbers.setdefault((object(),), len(numbers))
    return users


def is_label(values: Any, label: Any, n_rows: int | None = None) -> Mask:
    """Return a mask of the labels that equal a public label.

    >>> is_label([1, 0, "n/a"], 1).tolist()
    [True, False, False]
    """
    return np.asarray(read_labels(values, (label,), n_rows) == 0)


def check_public_labels(public: Sequence[Any]) -> dict[Any, int]:
    """Return the index of each public label, by the key that cells are compared with.

    >>> check_public_labels(("no", "yes"))
    {'no': 0, 'yes': 1}
    >>> check_public_labels((1, "1"))
    Traceback (most recent call last):
        ...
    ValueError: labels must be different numbers or texts, got (1, '1'); ...
    """
    places: dict[Any, int] = {}
    for place, label in enumerate(public):
        forms = {_key(label)}
        if isinstance(label, (bool, np.bool_)):
            forms.add(str(bool(label)))  # its text in an array of strings
        for form in forms:
            if form is None or form != form or form in places:
                raise ValueError(
                    f"labels must be different numbers or texts, got {tuple(public)!r}; a number "
                    "and its text are the same label."
                )
            places[form] = place
    return places


def _place(cell: Any, places: dict[Any, int]) -> int:
    try:
        return places.get(_key(cell), -1)
    except Exception:  # The hash or the comparison of a cell may fail.
        return -1


def _key(label: Any) -> Any:
    """Return the comparison key of a label: a number if it is one or its text is, else the text."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, bytes):
        label = label.decode("utf-8", "replace")
    if not isinstance(label, str):
        return label
    text = label.strip()
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return text if number != number else number
    return text


def _is_list(values: Any) -> bool:
    return isinstance(values, (list, tuple))


def _as_array(name: str, values: Any) -> NDArray[Any]:
    """Convert array-likes, except lists, to an array; masked cells become None."""
    if isinstance(values, np.ma.MaskedArray):
        # As objects, so that None fits every type.
        values = np.ma.asarray(values.astype(object)).filled(None)
    elif not hasattr(values, "__array__"):
        raise TypeError(f"{name} must be an array, a data frame or a list, got {type(values)}.")
    array = np.asarray(values)
    if array.dtype.kind not in _NUMERIC + _MIXED:
        raise TypeError(
            f"{name} has the type {array.dtype}, which is not numeric; convert it to numbers with "
            "public bounds."
        )
    return array


def _column(name: str, values: Any, n_rows: int | None) -> Any:
    """Return one cell for each row, as an array or as a list."""
    column: Any
    if _is_list(values):
        plain = _numeric_or_none(values)
        column = list(values) if plain is None or plain.ndim != 1 else plain
    else:
        column = _as_array(name, values)
        if column.ndim != 1:
            raise ValueError(
                f"{name} must hold one value for each row, got an array with {column.ndim} "
                "dimension(s)."
            )
    if n_rows is not None and len(column) != n_rows:
        raise ValueError(f"{name} must hold one value for each row of X; the two lengths differ.")
    return column


def _numeric_or_none(values: Any) -> NDArray[Any] | None:
    """Return a list as an array if all of it is numeric, else None."""
    try:
        array = np.asarray(values)
    except Exception:  # Rows may differ in length, and cells may be of any type.
        return None
    return array if array.dtype.kind in _NUMERIC else None


def _numbers(array: NDArray[Any]) -> Vector:
    # Not `_quietly`, which is not safe across threads; numeric arrays give no other warnings.
    with np.errstate(all="ignore"):
        if array.dtype.kind in _NUMERIC:
            return array.astype(np.float64)
        if array.dtype.kind == "c":
            return np.where(array.imag == 0, array.real, np.nan).astype(np.float64)
    return _cells(array.ravel().tolist()).reshape(array.shape)


def _cells(cells: Sequence[Any]) -> Vector:
    with _quietly():
        return np.array([_number(cell) for cell in cells], dtype=np.float64)


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except Exception:  # No cell may raise: an error would reveal it.
        return np.nan


def _from_rows(rows: Sequence[Any], n_features: int | None) -> Vector:
    cells = [_cells_of(row) for row in rows]
    if n_features is None:
        lengths = Counter(len(row) for row in cells)
        most = max(lengths.values(), default=0)
        n_features = min((length for length, k in lengths.items() if k == most), default=0)
    table = np.full((len(cells), n_features), np.nan)
    for row, values in zip(table, cells, strict=True):
        few = values[:n_features]
        row[: len(few)] = _cells(few)
    return table


def _cells_of(row: Any) -> list[Any]:
    try:
        return [] if isinstance(row, (str, bytes)) else list(row)
    except Exception:  # Not a row: all its features are missing.
        return []


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress all warnings, since a warning could reveal a cell."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
