# SPDX-License-Identifier: BSD-3-Clause
"""Read blocks of rows from Parquet, Arrow and queries, and open a table of any format."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pairlearn.streams.readers.base import ReadError, listed, short_name, shown_kind
from pairlearn.streams.readers.files import check_file, is_remote, open_raw, sniff
from pairlearn.tables.series import plain_series
from pairlearn.tables.text import BLOCK_ROWS, Block, TextTable, is_number, repeated_names

if TYPE_CHECKING:
    from polars import Series

#: Bytes of a column read at once.
_READ = 1 << 16
_SUFFIXES = (".parquet", ".arrow", ".feather", ".ipc")


def load_pyarrow() -> Any:
    """Import PyArrow, or say how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise ReadError("Parquet and Arrow files need PyArrow; install pairlearn[arrow].") from None
    return pyarrow


class ArrowTable:
    """Rows of a Parquet or Arrow (Feather) file, or of a query.

    Parameters
    ----------
    path : path or Queried
        The file.
    leave_out : sequence of str
        Columns to skip.
    """

    notes: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    delimiter = ","

    def __init__(self, path: Any, *, leave_out: Sequence[str] = ()) -> None:
        self._pa, self.name = load_pyarrow(), str(path)
        self._file, schema = self._opened(path)
        if repeated := repeated_names(schema.names):
            raise ReadError(f"{path} has more than one column named {listed(repeated)}; rename "
                            "the columns.")  # fmt: skip
        #: The columns that are not read.
        self.left_out: Collection[str] = set(leave_out).intersection(schema.names)
        self.names = tuple(name for name in schema.names if name not in self.left_out)
        is_ = self._pa.types
        #: The columns whose types say that they hold categories.
        self.declared: Collection[str] = _pandas_categories(schema) | {
            one.name for one in schema if is_.is_dictionary(one.type)
        }
        self._schema, self._used = schema, self.names

    def only(self, names: Collection[str]) -> None:
        """Read only some columns; refuse those whose type has no use."""
        is_, wanted = self._pa.types, set(names)
        self._used = tuple(name for name in self.names if name in wanted)
        for one in self._schema:
            kind = one.type.value_type if is_.is_dictionary(one.type) else one.type
            if one.name not in wanted or not (is_.is_nested(kind) or is_.is_interval(kind)):
                continue
            said, cure = f"is {shown_kind(one.type)}", "take its parts out into columns"
            if is_.is_interval(kind):  # it may hold months, which have no fixed length
                said, cure = "is an interval of calendar time", "make it a number of hours"
            raise ReadError(
                f"{self.name}: column {short_name(one.name)} {said}; {cure}, or leave it out with "
                f"--exclude {one.name!r}."
            )

    def _opened(self, path: Any) -> tuple[Any, Any]:
        """Return the file of a path, and its schema."""
        if hasattr(path, "query"):
            asked = path.opened()
            return asked, asked.schema
        pa, kind = self._pa, sniff(path)
        if kind == "feather1":
            raise ReadError(f"{path} is Feather version 1; rewrite it as version 2 or Parquet.")
        if kind not in ("parquet", "arrow"):
            raise ReadError(
                f"{path} is neither a Parquet nor an Arrow file; convert it or leave it out."
            )
        try:
            if kind == "parquet":
                import pyarrow.parquet

                source = open_raw(path) if is_remote(path) else path
                file: Any = pyarrow.parquet.ParquetFile(source, pre_buffer=False, buffer_size=_READ)
            else:
                file = pa.ipc.open_file(open_raw(path) if is_remote(path) else pa.OSFile(str(path)))
            schema = file.schema_arrow if kind == "parquet" else file.schema
            _ = schema.names  # names are decoded here
            return file, schema
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: BaseException) -> ReadError:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return ReadError(f"{self.name} cannot be read: {reason.rstrip('.')}; write it again.")

    def _batches(self, size: int) -> Iterator[Any]:
        if hasattr(self._file, "iter_batches"):
            yield from self._file.iter_batches(size, columns=list(self._used), use_threads=False)
            return
        for k in range(self._file.num_record_batches):
            batch = self._file.get_batch(k)
            # an Arrow file is memory-mapped unchecked: offsets, indices and texts may be damaged
            batch.validate(full=True)
            for begin in range(0, batch.num_rows, size):
                yield batch.select(list(self._used)).slice(begin, size)

    def blocks(self, *, skip: int = 1, size: int = BLOCK_ROWS) -> Iterator[Block]:
        """Yield the rows from number `skip` on in blocks of at most `size` rows."""
        import polars

        first = 1
        self.only(self._used)
        try:
            for batch in self._batches(size):
                end = first + batch.num_rows
                if end > skip:
                    pairs = zip(self._used, batch.columns, strict=True)
                    frame = polars.DataFrame([arrow_series(name, array) for name, array in pairs])
                    block = Block(self.name, frame, np.arange(first, end), end)
                    yield from block.parts(size, skip)
                first = end
        except (self._pa.ArrowException, OSError, UnicodeError) as error:
            raise self._damaged(error) from None


def arrow_series(name: str, array: Any) -> Series:
    """Return an Arrow array for polars, of a type that is read."""
    import polars
    import pyarrow

    is_ = pyarrow.types
    if is_.is_dictionary(array.type):
        array.validate(full=True)
        array = array.dictionary_decode()
    if is_.is_decimal(array.type):  # its digits: a cast multiplies by a rounded power of ten
        digits = polars.Series(name, polars.from_arrow(array.cast(pyarrow.string())))
        try:
            return digits.cast(polars.Float64)
        except polars.exceptions.PolarsError:
            raise ReadError(
                f"column {short_name(name)} holds a value that is not of its type {array.type}; "
                "write the file again."
            ) from None
    try:
        return plain_series(polars.Series(name, polars.from_arrow(array)))
    except polars.exceptions.PolarsError:
        texts = array.cast(pyarrow.string(), safe=False)
        return polars.Series(name, polars.from_arrow(texts))


def _pandas_categories(schema: Any) -> set[str]:
    """Return the columns that were categories in pandas, as the file remembers.

    Parquet keeps a dictionary of texts only: of one of numbers, nothing but this note is left.
    """
    try:
        noted = schema.pandas_metadata["columns"]
        return {one["field_name"] for one in noted if one["pandas_type"] == "categorical"}
    except (AttributeError, KeyError, TypeError, ValueError):
        return set()  # no note of pandas, or one of another shape


def files_of(source: Any) -> list[Any]:
    """Return a file or a query to one, or the data files below a folder, in order of their paths.

    Names that start with ``.`` or ``_`` are skipped.
    """
    if not isinstance(source, (str, os.PathLike)):
        raise ReadError(f"Parquet and Arrow are read from paths, got {type(source).__name__}.")
    if hasattr(source, "query") or is_remote(source):
        return [source]
    path = Path(source)
    if not path.is_dir():
        return [check_file(path)]
    found = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix in _SUFFIXES
        and not any(part[0] in "._" for part in file.relative_to(path).parts)
    ]
    if not found:
        raise ReadError(f"{path} has no file ending in {', '.join(_SUFFIXES)}; name the files.")
    return found


def refuse_lost_columns(source: Any) -> None:
    """Refuse a folder with a column that is in the names of folders only.

    Its values would be lost where all columns are taken.
    """
    if not isinstance(source, (str, Path)) or is_remote(source) or not Path(source).is_dir():
        return
    folder, files = Path(source), files_of(source)
    parts = [part for file in files for part in file.relative_to(folder).parts[:-1]]
    example = {name: part for part in parts for name, sign, _ in [part.partition("=")] if sign}
    names = ArrowTable(files[0]).names if example else ()
    if missing := sorted(example.keys() - set(names)):
        raise ReadError(
            f"{folder}: column {listed(missing)} is in the names of folders only, such as "
            f"{short_name(example[missing[0]])}; write the rows with all columns into one file "
            "(pyarrow.parquet.read_table reads such folders), or name the files to leave it out."
        )


def open_table(
    target: Any,
    kind: str,
    *,
    header: bool = True,
    delimiter: str | None = None,
    leave_out: Sequence[str] = (),
) -> TextTable | ArrowTable:
    """Open a file of the format csv, tsv, parquet, arrow or duckdb as a table of rows."""
    if kind in ("parquet", "arrow", "duckdb"):
        return ArrowTable(target, leave_out=leave_out)
    if kind not in ("csv", "tsv"):
        raise ReadError(f"{target} is {kind}, which has no named columns.")
    return TextTable(
        target, header=header, delimiter=delimiter or ("\t" if kind == "tsv" else None)
    )


def refuse_repeated(table: Any, used: Collection[str]) -> None:
    """Refuse a table with several columns of a name that is used."""
    if repeated := sorted(set(used).intersection(table.repeated)):
        raise ReadError(
            f"{table.name} has more than one column named {listed(repeated)}; rename all but the "
            "one to use."
        )


def no_column(name: str, names: Sequence[str], source: str, what: str) -> ReadError:
    """Return the error for a missing column, with the most similar name."""
    import difflib

    wanted, known = name.strip().casefold(), {one.casefold(): one for one in reversed(names)}
    close = difflib.get_close_matches(wanted, known, n=1)
    if not close and len(wanted) > 2:
        close = [one for one in known if wanted in one]
    hint = f" (did you mean {known[close[0]]!r}?)" if close else ""
    said = f"{source} has no {what} column {name!r}{hint}; its columns: {listed(names)}"
    if name.lstrip("-").isdigit() and not any(map(is_number, names)):
        said += "; numbers are for files without a header, here give a name"
    if any(map(is_number, names)):
        said += (
            "; if the first line holds no names, pass --set reading.header=false and a number for "
            "each column"
        )
    return ReadError(f"{said}.")
