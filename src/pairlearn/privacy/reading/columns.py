# SPDX-License-Identifier: BSD-3-Clause
"""Columns of private data, taken from any container without a change of type.

Array libraries convert a column as a whole: one missing cell makes integers floats, and two
integers above 2^53 the same number. So a column is taken in the type that its container says it
has. A column of numbers becomes an array and a mask of missing cells; any other becomes a list of
cells. The type of a column is public: a type that cannot be read is refused by its name.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.reading.cells import PLAIN, number_of
from pairlearn.typing import Mask, Vector

#: Kinds of columns by the letter of NumPy's type.
_KINDS = {
    "b": "truth", "i": "integer", "u": "integer", "f": "float", "c": "complex", "U": "text",
    "T": "text", "S": "bytes", "O": "mixed",
}  # fmt: skip
_NUMERIC = ("truth", "integer", "float")


@dataclass(frozen=True, eq=False)
class Column:
    """One column: its kind, the name of its type, and its cells.

    The kind is "truth", "integer" or "float" (`cells` is an array, and `missing` says which of them
    are missing) or "complex", "text", "bytes", "decimal" or "mixed" (`cells` is a list, with None
    for a missing cell).
    """

    kind: str
    type: str
    cells: Any
    missing: Mask | None = None

    @property
    def is_numeric(self) -> bool:
        """Whether the cells are an array of numbers."""
        return self.kind in _NUMERIC

    def numbers(self) -> Vector:
        """Return the cells as numbers, NaN for what is none."""
        if not self.is_numeric:
            return numbers_of(self.cells)
        with np.errstate(all="ignore"):
            values: Vector = self.cells.astype(np.float64)
        if self.missing is not None:
            values[self.missing] = np.nan
        return values

    def __len__(self) -> int:
        return len(self.cells)


def numbers_of(cells: list[Any]) -> Vector:
    """Return cells of any type as numbers, each by itself, NaN for what is none."""
    if PLAIN.issuperset(map(type, cells)):
        try:
            return np.array(cells, dtype=np.float64)
        except OverflowError:  # An integer beyond float64; read one by one, it is infinite.
            pass
    return np.array([number_of(cell) for cell in cells], dtype=np.float64)


def is_list(values: Any) -> bool:
    """Tell whether a container is a list or a tuple, whose cells may have any type."""
    return isinstance(values, (list, tuple))


def frame_of(name: str, values: Any) -> list[Column] | None:
    """Return the columns of a data frame or of an Arrow table; None if it is neither."""
    if not _is_frame(values):
        return None
    if is_a(values, "pandas", "DataFrame"):
        found = {(k, label): values.iloc[:, k] for k, label in enumerate(values.columns)}
    elif is_a(values, "polars", "DataFrame"):
        found = {(k, one.name): one for k, one in enumerate(values.get_columns())}
    else:
        labels = enumerate(values.schema.names)
        found = dict(zip(labels, values.columns, strict=True))
    return [column_of(f"{name}[{label!r}]", one) for (_, label), one in found.items()]


def _is_frame(values: Any) -> bool:
    arrow = is_a(values, "pyarrow", "Table", "RecordBatch")
    return arrow or is_a(values, "pandas", "DataFrame") or is_a(values, "polars", "DataFrame")


def column_of(name: str, values: Any) -> Column:
    """Return a list, array, series or column as a `Column`; `name` is the argument, for errors."""
    if is_list(values):
        return Column("mixed", type(values).__name__, list(values))
    if is_a(values, "pandas", "Series", "Index", "api.extensions.ExtensionArray"):
        return _from_pandas(name, values)
    if is_a(values, "polars", "Series"):
        return _from_polars(name, values)
    if is_a(values, "pyarrow", "Array", "ChunkedArray"):
        return _from_arrow(name, values)
    n_dimensions = 2
    if not _is_frame(values):
        array, missing = array_of(name, values)
        if array.ndim == 1:
            return _from_array(name, array, missing)
        n_dimensions = array.ndim
    raise ValueError(
        f"{name} must hold one value for each row, got an array with {n_dimensions} dimension(s)."
    )


def array_of(name: str, values: Any) -> tuple[NDArray[Any], Mask | None]:
    """Return an array-like as an array of a type that can be read, and a mask of missing cells."""
    missing = None
    if isinstance(values, np.ma.MaskedArray):
        values, missing = np.ma.getdata(values), np.ma.getmaskarray(values)
    elif not hasattr(values, "__array__"):
        raise TypeError(
            f"{name} must be an array, a data frame, an Arrow table or a list, got {type(values)}."
        )
    array: Any = None
    with contextlib.suppress(
        Exception
    ):  # A container of somebody else; its error may quote a cell.
        array = np.asarray(values)
    if array is None:
        raise TypeError(f"{type(values)} cannot be converted to an array; give {name} as an array.")
    if array.dtype.kind not in _KINDS:
        raise refused_type(name, str(array.dtype))
    return array, missing


def refused_type(name: str, kind: str) -> TypeError:
    """Return the error for a column of a type that is neither numbers nor texts."""
    return TypeError(
        f"{name} has the type {kind}, which is not numeric; convert features to numbers with "
        "public bounds, labels and ids to texts or integers."
    )


def is_a(values: Any, library: str, *names: str) -> bool:
    """Tell whether `values` has a type of a library, without importing the library."""
    module = sys.modules.get(library)
    for name in names if module is not None else ():
        kind: Any = module
        for part in name.split("."):
            kind = getattr(kind, part, None)
        if isinstance(kind, type) and issubclass(type(values), kind):
            return True
    return False


def _from_array(name: str, array: NDArray[Any], missing: Mask | None = None) -> Column:
    kind = _KINDS.get(array.dtype.kind)
    if kind is None:
        raise refused_type(name, str(array.dtype))
    if kind in _NUMERIC:
        return Column(kind, str(array.dtype), array, missing)
    cells = array.tolist()
    if missing is not None:
        cells = [None if gone else cell for cell, gone in zip(cells, missing.tolist(), strict=True)]
    return Column(kind, str(array.dtype), cells)


def _from_pandas(name: str, values: Any) -> Column:
    import pandas as pd

    if isinstance(values, pd.MultiIndex):
        raise TypeError(f"{name} is an index of several levels; give {name}.to_frame(index=False).")
    dtype, values = values.dtype, getattr(values, "array", values)
    if isinstance(dtype, np.dtype):
        return _from_array(name, values.to_numpy())
    if isinstance(dtype, pd.CategoricalDtype):
        return _taken(column_of(name, dtype.categories), np.asarray(values.codes, dtype=np.int64))
    if isinstance(dtype, pd.SparseDtype):
        return _from_array(name, np.asarray(values))
    if isinstance(dtype, pd.ArrowDtype):
        return _from_arrow(name, values.__arrow_array__())
    if isinstance(dtype, pd.StringDtype):
        if dtype.storage != "python":  # Arrow's texts, which pandas cannot decode if one is no text
            return replace(_from_arrow(name, values.__arrow_array__()), type=str(dtype))
        return Column("text", str(dtype), values.tolist())
    kind = getattr(dtype, "numpy_dtype", None)
    if not isinstance(kind, np.dtype) or _KINDS.get(kind.kind) not in _NUMERIC:
        raise refused_type(name, str(dtype))
    filled = values.to_numpy(dtype=kind, na_value=kind.type(0))
    return Column(_KINDS[kind.kind], str(dtype), filled, np.asarray(values.isna()))


def _taken(known: Column, codes: NDArray[np.int64]) -> Column:
    """Return the column of codes into known cells; a negative code is missing."""
    if not len(known):  # The type of no category at all says nothing.
        return Column("mixed", known.type, [None] * len(codes))
    if not known.is_numeric:
        cells = [None if code < 0 else known.cells[code] for code in codes.tolist()]
        return Column(known.kind, known.type, cells)
    missing = codes < 0
    return Column(known.kind, known.type, known.cells[codes], missing)


def _from_polars(name: str, values: Any) -> Column:
    import polars as pl

    dtype = values.dtype
    kind = {pl.Boolean: "truth", pl.Binary: "bytes", pl.Null: "mixed", pl.Object: "mixed"}
    if dtype in (pl.Categorical, pl.Enum):
        values, dtype = values.cast(pl.String), pl.String()
    if dtype == pl.String:
        return Column("text", str(dtype), values.to_list())
    if dtype.is_decimal():
        return Column("decimal", str(dtype), values.to_list())
    if dtype.is_integer() and dtype in (pl.Int128, getattr(pl, "UInt128", pl.Int128)):
        return Column("mixed", str(dtype), values.to_list())  # NumPy has no such type.
    if dtype.is_numeric() or dtype == pl.Boolean:
        number = "integer" if dtype.is_integer() else kind.get(type(dtype), "float")
        filled = values.fill_null(False if number == "truth" else 0).to_numpy()
        return Column(number, str(dtype), filled, values.is_null().to_numpy())
    if type(dtype) not in kind:
        raise refused_type(name, str(dtype))
    return Column(kind[type(dtype)], str(dtype), values.to_list())


def _from_arrow(name: str, values: Any) -> Column:
    import pyarrow as pa

    is_, dtype = pa.types, values.type
    if is_.is_dictionary(dtype):
        return _from_arrow(name, values.cast(dtype.value_type))
    if is_.is_boolean(dtype) or is_.is_integer(dtype) or is_.is_floating(dtype):
        kind = "truth" if is_.is_boolean(dtype) else "integer"
        kind = "float" if is_.is_floating(dtype) else kind
        missing = values.is_null().to_numpy(**_copying(values))
        zero = pa.scalar(False if kind == "truth" else 0, type=dtype)
        return Column(
            kind, str(dtype), values.fill_null(zero).to_numpy(**_copying(values)), missing
        )
    if is_.is_string(dtype) or is_.is_large_string(dtype) or is_.is_string_view(dtype):
        # Bytes first: Arrow does not check texts, and decoding an invalid one would raise.
        wide = pa.binary_view() if is_.is_string_view(dtype) else pa.large_binary()
        cells = values.cast(wide).to_pylist()
        texts = [
            None if cell is None else cell.decode("utf-8", "surrogateescape") for cell in cells
        ]
        return Column("text", str(dtype), texts)
    if is_.is_null(dtype):
        return Column("mixed", str(dtype), values.to_pylist())
    if is_.is_decimal(dtype):
        return Column("decimal", str(dtype), values.to_pylist())
    if is_.is_binary(dtype) or is_.is_large_binary(dtype) or is_.is_binary_view(dtype):
        return Column("bytes", str(dtype), values.to_pylist())
    raise refused_type(name, str(dtype))


def _copying(values: Any) -> dict[str, bool]:
    """Return the option by which an array may be copied; a chunked one always is."""
    return {} if is_a(values, "pyarrow", "ChunkedArray") else {"zero_copy_only": False}
