# SPDX-License-Identifier: BSD-3-Clause
"""The one door for private data: tables, columns of numbers, labels and persons.

A record must not influence how another record is read. A type that an array library chooses for a
whole column, or an error that quotes a cell, would be a release without noise. So private data pass
this door before any array library touches them. A column of numbers is taken in the type that its
container says it has; of any other column each cell is read by itself (`privacy.cells`).

A cell that is not a number becomes NaN (a learner puts NaN at the middle of the public bounds). A
label that is not public becomes "another label". A row whose person has no id counts nowhere.

**The form of the data is public**: the kind of container, the types of its columns, the number of
features, and whether a list is what the argument asks for. Errors mention the form only, never a
cell or the number of rows. A list has no type, so its form is that of its cells: it is refused only
if no cell has a type that can be read and at least two have another. Among records of the right
form, one record decides nothing.

One text cell makes NumPy or a CSV reader turn the whole column into text, such as
``np.array([1, 0, "n/a"])``. This changes no other record: the text of a number is read as that
number, and the text of a public label as that label.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.cells import (
    PLAIN,
    all_wrong,
    digits_of,
    label_of,
    number_of,
    person_of,
    plain_cell,
)
from pairlearn.typing import Mask, Vector

#: Kinds of columns by the letter of NumPy's type.
_KINDS = {
    "b": "truth", "i": "integer", "u": "integer", "f": "float", "c": "complex", "U": "text",
    "T": "text", "S": "bytes", "O": "mixed",
}  # fmt: skip


_NUMERIC = ("truth", "integer", "float")


@dataclass(frozen=True, eq=False)
class Column:
    """One column: its kind, the name of its type, and its cells: a list, or an array of numbers."""

    kind: str
    type: str
    cells: Any

    @property
    def is_array(self) -> bool:
        """Whether the cells are an array of numbers."""
        return isinstance(self.cells, np.ndarray)

    @property
    def is_numeric(self) -> bool:
        """Whether the type of the column is one of numbers."""
        return self.kind in _NUMERIC

    def numbers(self) -> Vector:
        """Return the cells as numbers, each by itself, NaN for what is none."""
        if not self.is_array and not PLAIN.issuperset(map(type, self.cells)):
            return np.array([number_of(cell) for cell in self.cells], dtype=np.float64)
        try:
            with np.errstate(all="ignore"):
                return np.array(self.cells, dtype=np.float64)
        except OverflowError:  # An integer beyond float64; read one by one, it is infinite.
            return np.array([number_of(cell) for cell in self.cells], dtype=np.float64)

    def check_form(self, name: str) -> None:
        """Refuse cells that are neither numbers nor texts, if all of them are so."""
        if not self.is_numeric and all_wrong([plain_cell(cell)[0] for cell in self.cells]):
            raise ValueError(
                f"{name} holds neither numbers nor texts; give one number or text for each row and "
                "column, without lists, dictionaries, dates or other objects."
            )


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
    columns = _columns_of_frame(name, X)
    if _is_list(X):
        table = _from_rows(name, X, n_features)
    elif columns is not None:
        table = _side_by_side(name, columns)
    else:
        table, missing = _array_of(name, X)
        if table.dtype.kind in "biuf":
            with np.errstate(all="ignore"):
                table = table.astype(np.float64)
            if missing is not None:
                table[missing] = np.nan
        elif table.ndim == 2:
            table = _side_by_side(name, _columns_of_array(name, table, missing))
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
    if np.isnan(numbers).all():
        column.check_form(name)
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
    if column.is_numeric and all(isinstance(key, str) for key in places):
        # The type of a column is public.
        raise TypeError(
            f"{name} has the type {column.type}, and the labels are {tuple(public)!r}: none of "
            "them is a number. Give the labels as they are in the data; inside an estimator "
            "that numbers the labels for its members, pass numbers (labels=(0, 1))."
        )
    if column.is_array:
        different, where = np.unique(column.cells, return_inverse=True)
        if column.kind == "float":  # 0.1 of 32 bits is the public 0.1
            kind = column.cells.dtype.type
            places |= {float(kind(k)): v for k, v in places.items() if isinstance(k, float)}
        codes = [places.get(label_of(value), -1) for value in different.tolist()]
        return np.array(codes, dtype=np.int64)[where.reshape(-1)]
    found = [places.get(label_of(cell), -1) for cell in column.cells]
    if max(found, default=-1) < 0:
        column.check_form(name)
    return np.array(found, dtype=np.int64)


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


def read_persons(values: Any, n_rows: int) -> NDArray[np.int64]:
    """Return the number of the person of each row, from 0 in order of appearance, -1 for none.

    A person is an exact text or an exact integer. Nothing is parsed or stripped: "007" is not "7",
    " bob" is not "bob". The integer 7 is the text "7": a reader that makes integers of one part of
    a column and texts of another, because of one cell, does not split persons. Bytes are texts of
    their own.

    A person may have several ids, such as a site and a number: a data frame, a two-dimensional
    array or an Arrow table with a column for each, or a list of tuples. Two rows then belong to the
    same person if all ids agree.

    A row with a missing id (None, NaN, NA, NaT, a masked or null cell), or with several ids of
    which one is missing, belongs to nobody, and must count nowhere. If such rows were one person,
    he or she would be replaced by another whenever one of them came or went.

    In a list or an array of objects, a cell of any other type (a float, a truth value, a list)
    counts as missing, since an error would depend on one record. It is refused only if no cell at
    all is an id and at least two are of such a type. A column whose type is float, truth value,
    decimal or complex is refused by its type.

    >>> read_persons(["ann", "bob", "ann", 7, "7", "07", None, float("nan")], 8).tolist()
    [0, 1, 0, 2, 2, 3, -1, -1]
    >>> read_persons([("north", 1), ("south", 1), ("north", 1), ("north", None)], 4).tolist()
    [0, 1, 0, -1]
    """
    known: dict[Any, int] = {None: -1}
    keys = person_keys(values, n_rows)
    found = [known.setdefault(key, len(known) - 1) for key in keys]
    return np.array(found, dtype=np.int64)


def person_keys(values: Any, n_rows: int) -> list[Any]:
    """Return the exact key of the person of each row, None for one whose id is missing.

    Keys of two columns or of two machines can be compared; `read_persons` says what a person is.

    >>> person_keys(["ann", 7, "07", None], 4)
    ['ann', '7', '07', None]
    """
    columns = None if _is_list(values) else _columns_of_frame("groups", values)
    if columns is None and getattr(values, "ndim", 1) == 2:
        columns = _columns_of_array("groups", *_array_of("groups", values))
    if columns is None:
        columns = [column_of("groups", values)]
    if not columns:
        raise ValueError("groups has no column; give the id of the person of each row.")
    found = [_keys(column) for column in columns]
    for keys in found:
        _check_length("groups", len(keys), n_rows)
    if len(found) == 1:
        return found[0]
    rows = zip(*found, strict=True)
    return [None if any(key is None for key in row) else ("several", *row) for row in rows]


def _keys(column: Column) -> list[Any]:
    """Return the exact key of each id of a column, None for a missing one."""
    if column.kind not in ("integer", "text", "bytes", "mixed"):
        raise TypeError(
            f"groups has the type {column.type}, but a person is a text or an integer. Convert the "
            "ids to texts or to integers (pandas: Int64) before a missing one makes them floats, "
            "which merges large integers."
        )
    if column.is_array:
        return [digits_of(number) for number in column.cells.tolist()]
    found = [person_of(cell) for cell in column.cells]
    if all_wrong([form for form, _ in found]):
        raise ValueError(
            "groups holds no text and no integer, so it tells no persons apart; give texts or "
            "integers. For persons with several ids give tuples, or a data frame of several "
            "columns. Convert floats to integers or texts where they come from."
        )
    return [key for _, key in found]


def _column(name: str, values: Any, n_rows: int | None) -> Column:
    column = column_of(name, values)
    if n_rows is not None:
        _check_length(name, len(column.cells), n_rows)
    return column


def _check_length(name: str, length: int, n_rows: int) -> None:
    if length != n_rows:
        raise ValueError(f"{name} must hold one value for each row of X; the two lengths differ.")


def _dense(name: str, X: Any) -> NDArray[Any]:
    """Return a sparse matrix as an array, after the check that public estimators make."""
    from pairlearn.solvers.rows import check_sparse

    # The check of public data says where the damage is, which is a fact about one record.
    with contextlib.suppress(Exception):
        check_sparse(X)
        rows = X.tocsr()
        check_sparse(rows)  # Other formats are converted without a look at their indices.
        return np.asarray(rows.toarray())
    raise ValueError(
        f"{name} is a damaged sparse matrix: its indices or their ends point outside its "
        "arrays, or its values are no numbers. Build it anew."
    )


# ----------------------------------------------------------------------------- lists of rows


def _is_list(values: Any) -> bool:
    return isinstance(values, (list, tuple))


def _from_rows(name: str, rows: Sequence[Any], n_features: int | None) -> Vector:
    cells = [_cells_of(row) for row in rows]
    width = _width(name, [None if row is None else len(row) for row in cells], n_features)
    table = np.full((len(rows), width), np.nan)
    for k in range(width):
        there = [i for i, row in enumerate(cells) if row is not None and k < len(row)]
        column = Column("mixed", "list", [cells[i][k] for i in there])  # type: ignore[index]
        table[there, k] = column.numbers()
        if np.isnan(table[:, k]).all():
            column.check_form(name)
    return table


def _width(name: str, lengths: Sequence[int | None], n_features: int | None) -> int:
    """Return the number of features of rows; None is the length of what is no row."""
    counts = Counter(lengths)
    if n_features is not None and (n_features in counts or len(lengths) < 2):
        return n_features
    known = {length: count for length, count in counts.items() if length is not None}
    if not known and len(lengths) >= 2:
        raise ValueError(
            f"{name} must be a table of examples by features; as a list, each of its rows must "
            "be a list, a tuple or an array of numbers."
        )
    most = max(known.values(), default=0)
    return min((length for length, count in known.items() if count == most), default=0)


def _cells_of(row: Any) -> list[Any] | None:
    """Return the cells of a row, None if it is no row."""
    # A class derived from list may have methods of its own; they are not called.
    for base in (list, tuple):
        if issubclass(type(row), base):
            return list(base.__iter__(row))
    if issubclass(type(row), np.ndarray) or _is_a(row, "pandas", "Series"):
        return list(row.tolist()) if row.ndim == 1 else None
    return None


def _side_by_side(name: str, columns: Sequence[Column]) -> Vector:
    if not columns:
        return np.empty((0, 0))
    table = np.stack([column.numbers() for column in columns], axis=1)
    for k in np.flatnonzero(np.isnan(table).all(axis=0)).tolist():
        columns[k].check_form(name)
    return table


# --------------------------------------------------------------------- arrays, frames and series


def _is_a(values: Any, library: str, *names: str) -> bool:
    """Tell whether `values` has a type of a library, without importing the library."""
    module = sys.modules.get(library)
    for name in names if module is not None else ():
        kind: Any = module
        for part in name.split("."):
            kind = getattr(kind, part, None)
        if isinstance(kind, type) and issubclass(type(values), kind):
            return True
    return False


def _columns_of_frame(name: str, values: Any) -> list[Column] | None:
    """Return the columns of a data frame or of an Arrow table; None if it is neither."""
    if _is_a(values, "pandas", "DataFrame"):
        found = [(label, values.iloc[:, k]) for k, label in enumerate(values.columns)]
    elif _is_a(values, "polars", "DataFrame"):
        found = [(one.name, one) for one in values.get_columns()]
    elif _is_a(values, "pyarrow", "Table", "RecordBatch"):
        found = list(zip(values.schema.names, values.columns, strict=True))
    else:
        return None
    return [column_of(f"{name}[{label!r}]", one) for label, one in found]


def _columns_of_array(name: str, array: NDArray[Any], missing: Mask | None) -> list[Column]:
    masks = [None] * array.shape[1] if missing is None else list(missing.T)
    return [_from_array(name, cells, mask) for cells, mask in zip(array.T, masks, strict=True)]


def column_of(name: str, values: Any) -> Column:
    """Return a list, array, series or column as a `Column`; `name` is the argument, for errors."""
    if _is_list(values):
        return Column("mixed", type(values).__name__, list(values))
    if _is_a(values, "pandas", "Series", "Index", "api.extensions.ExtensionArray"):
        return _from_pandas(name, values)
    if _is_a(values, "polars", "Series"):
        return _from_polars(name, values)
    if _is_a(values, "pyarrow", "Array", "ChunkedArray"):
        return _from_arrow(name, values)
    n_dimensions = 2
    if _columns_of_frame(name, values) is None:
        array, missing = _array_of(name, values)
        if array.ndim == 1:
            return _from_array(name, array, missing)
        n_dimensions = array.ndim
    raise ValueError(
        f"{name} must hold one value for each row, got an array with {n_dimensions} dimension(s)."
    )


def _array_of(name: str, values: Any) -> tuple[NDArray[Any], Mask | None]:
    """Return an array-like as an array of a type that can be read, and a mask of missing cells."""
    missing = None
    if isinstance(values, np.ma.MaskedArray):
        values, missing = np.ma.getdata(values), np.ma.getmaskarray(values)
    elif not hasattr(values, "__array__"):
        raise TypeError(
            f"{name} must be an array, a data frame, an Arrow table or a list, got {type(values)}."
        )
    array: Any = None
    # A container of somebody else; its error may quote a cell.
    with contextlib.suppress(Exception):
        array = np.asarray(values)
    if array is None:
        raise TypeError(f"{type(values)} cannot be converted to an array; give {name} as an array.")
    _made(name, _KINDS.get(array.dtype.kind), array.dtype, None)
    return array, missing


def _made(name: str, kind: str | None, type_: Any, cells: Any) -> Column:
    """Return a column of a kind; refuse a type that is neither numbers nor texts."""
    if kind is None:
        raise TypeError(
            f"{name} has the type {type_}, which is not numeric; convert features to numbers with "
            "public bounds, labels and ids to texts or integers."
        )
    return Column(kind, str(type_), cells() if callable(cells) else cells)


def _from_array(name: str, array: NDArray[Any], missing: Mask | None = None) -> Column:
    kind, cells = _KINDS.get(array.dtype.kind), array
    if missing is not None or kind not in _NUMERIC:
        gone = np.zeros(len(array), dtype=bool) if missing is None else missing
        both = zip(array.tolist(), gone.tolist(), strict=True)
        cells = [None if is_gone else cell for cell, is_gone in both]  # type: ignore[assignment]
    return _made(name, kind, array.dtype, cells)


def _from_pandas(name: str, values: Any) -> Column:
    import pandas as pd

    if isinstance(values, pd.MultiIndex):
        raise TypeError(f"{name} is an index of several levels; give {name}.to_frame(index=False).")
    dtype, values = values.dtype, getattr(values, "array", values)
    if isinstance(dtype, np.dtype):
        return _from_array(name, values.to_numpy())
    if isinstance(dtype, pd.SparseDtype):
        return _from_array(name, np.asarray(values))
    if isinstance(dtype, pd.CategoricalDtype):
        known = column_of(name, dtype.categories)
        cells = list(known.cells.tolist() if known.is_array else known.cells)
        kind = known.kind if cells else "mixed"  # The type of no category at all says nothing.
        taken = [None if code < 0 else cells[code] for code in values.codes.tolist()]
        return Column(kind, known.type, taken)
    if isinstance(dtype, pd.ArrowDtype):
        return _from_arrow(name, values.__arrow_array__())
    if isinstance(dtype, pd.StringDtype):
        if dtype.storage != "python":  # Arrow's texts, which pandas cannot decode if one is no text
            return _from_arrow(name, values.__arrow_array__())
        return Column("text", str(dtype), values.tolist())
    number = getattr(dtype, "numpy_dtype", None)
    known_kind = _KINDS.get(number.kind) if isinstance(number, np.dtype) else None
    return _made(name, known_kind if known_kind in _NUMERIC else None, dtype, values.tolist)


def _from_polars(name: str, values: Any) -> Column:
    import polars as pl

    dtype = values.dtype
    kinds = {
        "truth": dtype == pl.Boolean, "integer": dtype.is_integer(), "float": dtype.is_float(),
        "decimal": dtype.is_decimal(), "text": dtype in (pl.String, pl.Categorical, pl.Enum),
        "bytes": dtype == pl.Binary, "mixed": dtype in (pl.Null, pl.Object),
    }  # fmt: skip
    kind = next((kind for kind, is_kind in kinds.items() if is_kind), None)
    return _made(name, kind, dtype, values.to_list)


def _from_arrow(name: str, values: Any) -> Column:
    import pyarrow as pa

    is_, dtype = pa.types, values.type
    if is_.is_dictionary(dtype):
        return _from_arrow(name, values.cast(dtype.value_type))
    if is_.is_string(dtype) or is_.is_large_string(dtype) or is_.is_string_view(dtype):
        # Bytes first: Arrow does not check texts, and decoding an invalid one would raise.
        wide = pa.binary_view() if is_.is_string_view(dtype) else pa.large_binary()
        cells = values.cast(wide).to_pylist()
        texts = [
            None if cell is None else cell.decode("utf-8", "surrogateescape") for cell in cells
        ]
        return Column("text", str(dtype), texts)
    kinds = {
        "truth": (is_.is_boolean,), "integer": (is_.is_integer,), "float": (is_.is_floating,),
        "mixed": (is_.is_null,), "decimal": (is_.is_decimal,),
        "bytes": (is_.is_binary, is_.is_large_binary, is_.is_binary_view),
    }  # fmt: skip
    kind = next((kind for kind, tests in kinds.items() if any(one(dtype) for one in tests)), None)
    return _made(name, kind, dtype, values.to_pylist)
