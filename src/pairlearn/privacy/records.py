# SPDX-License-Identifier: BSD-3-Clause
"""Private examples and labels as numbers, read cell by cell.

What one record holds must decide nothing about any other record, and must raise nothing: a type
that NumPy chooses for a whole column, or an error with a cell in its text, would be a release
without noise. So each cell is read by itself. One that is no number becomes NaN (which a learner
puts at the middle of its public bounds), and one that is no public label becomes "another label".
Errors speak of the form of the arguments only, never of what a cell holds or how many rows came.

Containers that turn every cell into text because of one of them (``np.array([1, 0, "n/a"])``, a
column of a CSV file) change nobody's record either: the text of a number is read as that number,
and the text of a public label as that label.
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

__all__ = ["check_public_labels", "is_label", "read_labels", "read_numbers", "read_table",
           "read_users"]  # fmt: skip

_NUMERIC = "biuf"
#: Types of NumPy whose cells are not of one kind: each is looked at.
_MIXED = "OUSTc"


def read_table(X: Any, *, n_features: int | None = None, name: str = "X") -> Vector:
    """Return examples as a table of numbers, NaN for every cell that is not one.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Examples: an array, a sparse matrix, a data frame or a list of rows. A row of a list that is
        too short is filled with NaN, one that is too long is cut.
    n_features : int, optional
        The public number of features. Where it is not given, arrays say it by their shape, and of a
        list of rows it is the most common length.
    name : str, default="X"
        What errors call it.

    Returns
    -------
    ndarray of shape (n, d)
        The numbers.

    Examples
    --------
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
            f"{name} has {table.shape[1]} features, but the public arguments are about "
            f"{n_features}; give one bound for each feature."
        )
    return table


def read_numbers(name: str, values: Any, n_rows: int | None = None) -> Vector:
    """Return a column of numbers, one for each row, NaN for every cell that is not one.

    Examples
    --------
    >>> read_numbers("score", [1, None, "3"])
    array([ 1., nan,  3.])
    """
    column = _column(name, values, n_rows)
    return _numbers(column) if isinstance(column, np.ndarray) else _cells(column)


def read_labels(values: Any, public: Sequence[Any], n_rows: int | None = None) -> NDArray[np.int64]:
    """Return the place of each label among the public ones, -1 for any other.

    Parameters
    ----------
    values : array-like of shape (n,)
        Labels, one for each row.
    public : sequence
        The public labels, which must be different.
    n_rows : int, optional
        How many there must be.

    Returns
    -------
    ndarray of shape (n,)
        Places, from 0.

    Examples
    --------
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
    """Return the number of the user that each row belongs to, from 0 in the order they come.

    Examples
    --------
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
            except Exception:  # A name that cannot be compared is a user of its own.
                users[row] = numbers.setdefault((object(),), len(numbers))
    return users


def is_label(values: Any, label: Any, n_rows: int | None = None) -> Mask:
    """Return which labels are the given public one.

    Examples
    --------
    >>> is_label([1, 0, "n/a"], 1).tolist()
    [True, False, False]
    """
    return np.asarray(read_labels(values, (label,), n_rows) == 0)


def check_public_labels(public: Sequence[Any]) -> dict[Any, int]:
    """Return the place of each public label by what a cell is compared with.

    Examples
    --------
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
            forms.add(str(bool(label)))  # what an array of texts makes of it
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
    except Exception:  # A cell of any type, with a hash or a comparison that fails.
        return -1


def _key(label: Any) -> Any:
    """Return what labels are compared by: a number, also of a text that holds one, or a text."""
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
    """Return something that is an array already, with holes where it is masked."""
    if isinstance(values, np.ma.MaskedArray):
        # Through objects, so that a hole is no number whatever the type.
        values = np.ma.asarray(values.astype(object)).filled(None)
    elif not hasattr(values, "__array__"):
        raise TypeError(f"{name} must be an array, a data frame or a list, got {type(values)}.")
    array = np.asarray(values)
    if array.dtype.kind not in _NUMERIC + _MIXED:
        raise TypeError(
            f"{name} has the type {array.dtype}, which is no number; turn it into numbers whose "
            "bounds are public."
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
    """Return a list as an array where all of it is numbers, None where it is not."""
    try:
        array = np.asarray(values)
    except Exception:  # Rows of unequal lengths, cells of any type.
        return None
    return array if array.dtype.kind in _NUMERIC else None


def _numbers(array: NDArray[Any]) -> Vector:
    # Not `_quietly`, which is not for several threads at once: numbers give no other warnings.
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
    except Exception:  # Whatever a cell is, it concerns its own record only.
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
    except Exception:  # Not a row: nothing is known of its features.
        return []


@contextmanager
def _quietly() -> Iterator[None]:
    """Let no warning depend on a cell."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
