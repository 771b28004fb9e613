# SPDX-License-Identifier: BSD-3-Clause
"""The one door for private data: tables, columns of numbers, labels and persons.

A record must not influence how another record is read, and must not raise an error. A type that an
array library chooses for a whole column, or an error that quotes a cell, would be a release without
noise. So private data pass this door before any array library touches them. A column that has a
type (an array, a series, a column of a frame or of an Arrow table) is taken in this type
(`reading.columns`). A cell of a list or of an array of objects is read by itself (`reading.cells`).

A cell that is not a number becomes NaN (a learner puts NaN at the middle of the public bounds). A
label that is not public becomes "another label". An id that is none counts as missing, and all
missing ids are one person.

**The form of the data is public**: the kind of container, the types of its columns, the number of
features, and whether a list is what the argument asks for. Errors mention the form only, never a
cell or the number of rows. A list has no type, so its form is that of most of its cells. A list is
refused if at least two cells, and more than half, have a type that cannot be read, while no cell
has one that can; or if more than half of its rows have the same wrong length, or are no rows. One
record alone never decides this.

One text cell makes NumPy or a CSV reader turn the whole column into text, such as
``np.array([1, 0, "n/a"])``. This changes no other record: the text of a number is read as that
number, and the text of a public label as that label.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.reading.cells import (
    PLAIN,
    Form,
    all_wrong,
    digits_of,
    label_of,
    number_of,
    person_of,
    plain_cell,
)
from pairlearn.privacy.reading.columns import (
    Column,
    array_of,
    column_of,
    frame_of,
    is_a,
    is_list,
)
from pairlearn.typing import Mask, Vector

#: Types of rows whose length and cells need no further look.
_USUAL = frozenset([list, tuple])


def read_table(
    X: Any,
    *,
    n_features: int | None = None,
    name: str = "X",
    known_from: str = "the public arguments describe {}; give one bound for each feature",
) -> Vector:
    """Return examples as a table of numbers, with NaN for every cell that is not a number.

    `X` is an array, a sparse matrix, a data frame, an Arrow table or a list of rows. A short row of
    a list is filled with NaN; a long one is cut. `n_features` is the public number of features, by
    default the width of an array, or the most common length in a list of rows. Errors use `name`,
    and `known_from`, which says where the number of features is known from.

    >>> read_table([[1, "2.5"], [3, object()], [4]])
    array([[1. , 2.5],
           [3. , nan],
           [4. , nan]])
    """
    if hasattr(X, "tocsr"):
        X = _dense(name, X)
    columns = None if is_list(X) else frame_of(name, X)
    if is_list(X):
        table = _from_rows(name, X, n_features)
    elif columns is not None:
        table = _side_by_side(name, columns)
    else:
        table = _from_array(name, *array_of(name, X))
    if table.ndim != 2 or table.shape[1] == 0:
        raise ValueError(
            f"{name} must be a table of examples by features, got an array with "
            f"{table.ndim} dimension(s)"
            + (
                " and no feature; give one column or more."
                if table.ndim == 2
                else f". Reshape your data: {name}.reshape(1, -1) is one example."
            )
        )
    if n_features is not None and table.shape[1] != n_features:
        raise ValueError(
            f"{name} has {table.shape[1]} features, but {known_from.format(n_features)}."
        )
    return table


def read_numbers(name: str, values: Any, n_rows: int | None = None) -> Vector:
    """Return a column of numbers, with NaN for every cell that is not a number.

    >>> read_numbers("score", [1, None, "3"])
    array([ 1., nan,  3.])
    """
    column = _column(name, values, n_rows)
    numbers = column.numbers()
    if not column.is_numeric and np.isnan(numbers).all():
        _check_form(name, column.cells)
    return numbers


def read_labels(
    values: Any, public: Sequence[Any], n_rows: int | None = None, *, name: str = "y"
) -> NDArray[np.int64]:
    """Return the index of each label among the public ones, -1 for any other.

    The public labels are all different. `n_rows` is the required number of labels. A number equals
    its text, and a truth value ``True``, ``true`` and ``TRUE``; numbers are compared exactly,
    however large they are. Errors use `name`.

    >>> read_labels([1, 0, "n/a", "1", 1.0, None], (0, 1)).tolist()
    [1, 0, -1, 1, 1, -1]
    >>> read_labels(["true", "False", True, 0], (False, True)).tolist()
    [1, 0, 1, 0]
    >>> read_labels([2**53 + 1, 2**53, float("nan")], (2**53, 2**53 + 1)).tolist()
    [1, 0, -1]
    """
    places = check_public_labels(public)
    column = _column(name, values, n_rows)
    if column.is_numeric:
        if all(isinstance(key, str) for key in places):  # The type of a column is public.
            raise TypeError(
                f"{name} has the type {column.type}, and the labels are {tuple(public)!r}: none of "
                "them is a number. Give the labels as they are in the data; inside an estimator "
                "that numbers the labels for its members, pass numbers (labels=(0, 1))."
            )
        codes = np.full(len(column), -1, dtype=np.int64)
        for key, place in places.items():
            codes[_equal(column.cells, key)] = place
        if column.missing is not None:
            codes[column.missing] = -1
        return codes
    known: dict[str, int] = {}
    found = []
    for cell in column.cells:
        kind = type(cell)
        if kind is int or kind is float:
            found.append(places.get(cell, -1))
        elif kind is str:
            if cell not in known:
                known[cell] = places.get(label_of(cell), -1)
            found.append(known[cell])
        else:
            found.append(places.get(label_of(cell), -1))
    if max(found, default=-1) < 0:
        _check_form(name, column.cells)
    return np.array(found, dtype=np.int64)


def read_persons(values: Any, n_rows: int) -> NDArray[np.int64]:
    """Return the number of the person of each row, from 0 in order of appearance.

    A person is an exact text or an exact integer. Nothing is parsed or stripped: "007" is not "7",
    " bob" is not "bob". The integer 7 is the text "7": a reader that makes integers of one part of
    a column and texts of another, because of one cell, does not split persons. Bytes are texts of
    their own.

    A person may have several ids, such as a site and a number: a data frame, a two-dimensional
    array or an Arrow table with a column for each, or a list of tuples. Two rows then belong to the
    same person if all ids agree.

    All missing ids (None, NaN, NA, NaT, a masked or null cell) are one person. So are all rows of
    several ids of which one is missing. This is the safe side: rows that are merged are protected
    together, but the rows of one person under two names would be protected apart.

    In a list or an array of objects, a cell of any other type (a float, a truth value, a list)
    counts as missing, since an error would depend on one record. It is refused only if no cell at
    all is an id and at least two are of such a type. A column whose type is float, truth value,
    decimal or complex is refused by its type.

    >>> read_persons(["ann", "bob", "ann", 7, "7", "07", None, float("nan")], 8).tolist()
    [0, 1, 0, 2, 2, 3, 4, 4]
    >>> read_persons([("north", 1), ("south", 1), ("north", 1), ("north", None)], 4).tolist()
    [0, 1, 0, 2]
    """
    parts = [_persons(column) for column in _id_columns(values)]
    for part in parts:
        _check_length("groups", len(part), n_rows)
    if len(parts) == 1:
        return _in_order(parts[0])
    several: dict[tuple[int, ...], int] = {}
    table = np.stack(parts, axis=1)
    numbers = [several.setdefault(tuple(row), len(several)) for row in table.tolist()]
    return _in_order(np.where((table < 0).any(axis=1), -1, np.array(numbers, dtype=np.int64)))


def person_keys(values: Any, n_rows: int) -> list[Any]:
    """Return the exact key of the person of each row, None for the one whose id is missing.

    Keys of two columns or of two machines can be compared; `read_persons` says what a person is.

    >>> person_keys(["ann", 7, "07", None], 4)
    ['ann', '7', '07', None]
    """
    columns = [_keys(column) for column in _id_columns(values)]
    for keys in columns:
        _check_length("groups", len(keys), n_rows)
    if len(columns) == 1:
        return columns[0]
    rows = zip(*columns, strict=True)
    return [None if any(key is None for key in row) else ("several", *row) for row in rows]


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
        forms = {label_of(label)}
        if isinstance(label, (bool, np.bool_)):
            text = str(bool(label))  # in an array of strings; Polars and R write true and TRUE
            forms.update((text, text.lower(), text.upper()))
        for form in forms:
            if form is None or form in places:
                raise ValueError(
                    f"labels must be different numbers or texts, got {tuple(public)!r}; a number "
                    "and its text are the same label."
                )
            places[form] = place
    return places


def _equal(column: NDArray[Any], key: Any) -> Mask:
    """Return which numbers of a column equal a key exactly; NumPy would round large integers."""
    if column.dtype.kind == "f" and isinstance(key, float):
        return np.asarray(column == key)
    nowhere = np.zeros(len(column), dtype=np.bool_)
    try:
        exact = None if isinstance(key, str) else Fraction(key)
    except (TypeError, OverflowError):  # A complex number or infinity.
        return nowhere
    if exact is None:
        return nowhere
    if column.dtype.kind != "f":
        return np.asarray(column == int(exact)) if exact.denominator == 1 else nowhere
    wide = np.result_type(column.dtype, np.float64)
    try:
        near = wide.type(exact.numerator) / wide.type(exact.denominator)
    except OverflowError:
        return nowhere
    same = Fraction(*near.as_integer_ratio()) == exact
    return np.asarray(column.astype(wide) == near) if same else nowhere


def _column(name: str, values: Any, n_rows: int | None) -> Column:
    column = column_of(name, values)
    if n_rows is not None:
        _check_length(name, len(column), n_rows)
    return column


def _check_length(name: str, length: int, n_rows: int) -> None:
    if length != n_rows:
        raise ValueError(f"{name} must hold one value for each row of X; the two lengths differ.")


def _check_form(name: str, cells: Sequence[Any]) -> None:
    """Refuse cells that are neither numbers nor texts, if all of them are so."""
    if all_wrong([plain_cell(cell)[0] for cell in cells]):
        raise ValueError(
            f"{name} holds neither numbers nor texts; give one number or text for each row and "
            "column, without lists, dictionaries, dates or other objects."
        )


def _id_columns(values: Any) -> list[Column]:
    """Return the columns of ids: one, or several for ids of several parts."""
    if is_list(values):
        return [column_of("groups", values)]
    columns = frame_of("groups", values)
    if columns is None and getattr(values, "ndim", 1) == 2:
        array, missing = array_of("groups", values)
        masks = [None] * array.shape[1] if missing is None else list(missing.T)
        columns = [
            column_of("groups", ids if mask is None else np.ma.array(ids, mask=mask))
            for ids, mask in zip(array.T, masks, strict=True)
        ]
    if columns is None:
        columns = [column_of("groups", values)]
    if not columns:
        raise ValueError("groups has no column; give the id of the person of each row.")
    return columns


def _persons(column: Column) -> NDArray[np.int64]:
    """Return a number for each id of a column, -1 for a missing one."""
    if column.is_numeric and column.kind == "integer":
        numbers: NDArray[np.int64] = np.unique(column.cells, return_inverse=True)[1].reshape(-1)
        return numbers if column.missing is None else np.where(column.missing, -1, numbers)
    known: dict[Any, int] = {}
    found = [-1 if key is None else known.setdefault(key, len(known)) for key in _keys(column)]
    return np.array(found, dtype=np.int64)


def _keys(column: Column) -> list[Any]:
    """Return the exact key of each id of a column, None for a missing one."""
    if column.kind not in ("integer", "text", "bytes", "mixed"):
        raise TypeError(
            f"groups has the type {column.type}, but a person is a text or an integer. Convert the "
            "ids to texts or to integers (pandas: Int64) before a missing one makes them floats, "
            "which merges large integers."
        )
    if column.is_numeric:
        keys: list[Any] = [digits_of(number) for number in column.cells.tolist()]
        gone = [] if column.missing is None else np.flatnonzero(column.missing).tolist()
        for row in gone:
            keys[row] = None
        return keys
    keys, wrong = [], []
    for cell in column.cells:
        form, key = (Form.RIGHT, cell) if type(cell) is str else person_of(cell)
        if form is not Form.RIGHT:
            wrong.append(form)
        keys.append(key)
    if len(wrong) == len(keys) and all_wrong(wrong, of_all=False):
        raise ValueError(
            "groups holds no text and no integer, so it tells no persons apart; give texts or "
            "integers. For persons with several ids give tuples, or a data frame of several "
            "columns. Convert floats to integers or texts where they come from."
        )
    return keys


def _in_order(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers of persons as numbers from 0 in order of appearance."""
    _, first, places = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.empty(len(first), dtype=np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return order[places.reshape(-1)]


def _dense(name: str, X: Any) -> NDArray[Any]:
    """Return a sparse matrix as an array, after the check that public estimators make."""
    from pairlearn.solvers.rows import check_sparse

    sound: Any = None
    # The check of public data says where the damage is, which is a fact about one record.
    with contextlib.suppress(Exception):
        check_sparse(X)
        rows = X.tocsr()
        check_sparse(rows)  # Other formats are converted without a look at their indices.
        sound = rows
    if sound is None:
        raise ValueError(
            f"{name} is a damaged sparse matrix: its indices or their ends point outside its "
            "arrays, or its values are no numbers. Build it anew."
        )
    return np.asarray(sound.toarray())


def _from_array(name: str, array: NDArray[Any], missing: Mask | None) -> Vector:
    if array.ndim != 2 or array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            numbers = array.astype(np.float64) if array.dtype.kind in "biuf" else array
        if missing is not None and numbers is not array:
            numbers[missing] = np.nan
        return numbers
    masks = [None] * array.shape[1] if missing is None else list(missing.T)
    columns = [
        column_of(name, cells if mask is None else np.ma.array(cells, mask=mask))
        for cells, mask in zip(array.T, masks, strict=True)
    ]
    return _side_by_side(name, columns) if columns else np.empty(array.shape)


def _side_by_side(name: str, columns: Sequence[Column]) -> Vector:
    if not columns:
        return np.empty((0, 0))
    table = np.empty((len(columns[0]), len(columns)))
    for k, column in enumerate(columns):
        table[:, k] = column.numbers()
        if not column.is_numeric and np.isnan(table[:, k]).all():
            _check_form(name, column.cells)
    return table


def _from_rows(name: str, rows: Sequence[Any], n_features: int | None) -> Vector:
    usual = _USUAL.issuperset(map(type, rows))
    lengths = list(map(len if usual else _length, rows))
    width = _width(name, lengths, n_features)
    table = np.full((len(rows), width), np.nan)
    # Rows of plain numbers are converted together, each cell by itself; others follow one by one.
    is_plain = PLAIN.issuperset
    plain = np.array(
        [
            size == width and type(row) in _USUAL and is_plain(map(type, row))
            for row, size in zip(rows, lengths, strict=True)
        ],
        dtype=np.bool_,
    )
    try:
        some = rows if plain.all() else [rows[k] for k in np.flatnonzero(plain).tolist()]
        table[plain] = np.array(some, dtype=np.float64).reshape(len(some), width)
    except OverflowError:  # An integer beyond float64 is infinite.
        plain[:] = False
    with np.errstate(all="ignore"):
        for k in np.flatnonzero(~plain).tolist():
            if lengths[k]:
                table[k, : lengths[k]] = _numbers_in(rows[k], width)
    for k in np.flatnonzero(np.isnan(table).all(axis=0)).tolist():
        few = [_cells_of(row)[k : k + 1] for row, size in zip(rows, lengths, strict=True) if size]
        _check_form(name, [cell for cells in few for cell in cells])
    return table


def _numbers_in(row: Any, width: int) -> Any:
    if type(row) is np.ndarray and row.dtype.kind in "biuf":
        return row[:width]
    return [number_of(cell) for cell in _cells_of(row)[:width]]


def _width(name: str, lengths: Sequence[int | None], n_features: int | None) -> int:
    """Return the number of features of rows; None is the length of what is no row."""
    counts = Counter(lengths)
    (common, most), *_ = counts.most_common(1) or [(n_features, 0)]
    if most >= 2 and 2 * most > len(lengths):
        if common is None:
            raise ValueError(
                f"{name} must be a table of examples by features; as a list, each of its rows must "
                "be a list, a tuple or an array of numbers."
            )
        return common  # If it is not the public number, the caller refuses it.
    if n_features is not None:
        return n_features
    known = {length: count for length, count in counts.items() if length is not None}
    most = max(known.values(), default=0)
    return min((length for length, count in known.items() if count == most), default=0)


def _length(row: Any) -> int | None:
    """Return the number of cells of a row, None if it is no row."""
    kind = type(row)
    if issubclass(kind, (list, tuple)):
        return len(_cells_of(row))
    if issubclass(kind, np.ndarray) or is_a(row, "pandas", "Series"):
        return len(row) if row.ndim == 1 else None
    return None


def _cells_of(row: Any) -> list[Any]:
    # A class derived from list may have methods of its own; they are not called.
    for base in (list, tuple):
        if issubclass(type(row), base):
            return list(base.__iter__(row))
    return list(row.tolist())
