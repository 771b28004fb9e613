# SPDX-License-Identifier: BSD-3-Clause
"""Read Parquet and Arrow (Feather) files, folders of them and queries; needs PyArrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.csv_file import Batch
from pairlearn.streams.readers.files import check_file, is_remote, open_raw, sniff
from pairlearn.streams.readers.schema import Schema, listed, short_name, shown_kind
from pairlearn.streams.readers.tabular import TabularReader
from pairlearn.typing import Vector

#: Bytes of a column read at once.
_READ = 1 << 16
#: Powers of ten up to this one are doubles, so that a quotient by them is rounded once.
_EXACT_POWER = 22
#: Rows in a batch.
_BATCH = 16_384
SUFFIXES = (".parquet", ".arrow", ".feather", ".ipc")


class ArrowFile:
    """The rows of one Parquet or Arrow file, or of a query."""

    def __init__(self, path: Any) -> None:
        self.path, self.name = path, str(path)
        self._pa = load_pyarrow()
        self._file, self.names, self.types = open_arrow(path)

    def batches(self, columns: Mapping[int, Any], skip: int = 0) -> Iterator[Batch]:
        """Yield the rows, without the first `skip`."""
        import polars

        row = skip
        try:
            for batch in self._arrow_batches(sorted(columns), skip):
                series = [
                    self._series(array, f"c{j}", columns[j] == polars.String)
                    for j, array in zip(sorted(columns), batch.columns, strict=True)
                ]
                places = np.arange(row, row + batch.num_rows)
                row += batch.num_rows
                yield Batch(polars.DataFrame(series), places + 1, places, [], row, row + 1)
        except (self._pa.ArrowException, OSError, UnicodeError) as error:
            raise damaged(self.name, error) from None

    def _arrow_batches(self, used: list[int], skip: int) -> Iterator[Any]:
        if not hasattr(self._file, "iter_batches"):
            for batch in record_batches(self._file, _BATCH, skip):
                yield batch.select(used)
            return
        names = [self.names[j] for j in used]
        groups = list(range(self._file.num_row_groups))
        while groups and skip >= (n := self._file.metadata.row_group(groups[0]).num_rows):
            skip -= n
            del groups[0]
        repeated = len(set(self.names)) < len(self.names)
        wanted = list(self.names) if repeated else names
        for batch in self._file.iter_batches(
            _BATCH, row_groups=groups, columns=wanted, use_threads=False
        ):
            left_out = min(skip, batch.num_rows)
            skip -= left_out
            if left_out < batch.num_rows:
                yield batch.select(used if repeated else names).slice(left_out)

    def _series(self, array: Any, name: str, as_texts: bool) -> Any:
        """Return a column for polars; decimals and other numbers as doubles."""
        import polars

        is_ = self._pa.types
        if is_numeric(array.type) and not as_texts:
            if not is_.is_float64(array.type) or array.null_count:
                return polars.Series(name, doubles(array))
            return polars.Series(name, array.to_numpy())
        if is_.is_dictionary(array.type):
            array.validate(full=True)
            array = array.dictionary_decode()
        if is_.is_string(array.type) or is_.is_large_string(array.type):
            return polars.Series(name, polars.from_arrow(array))
        try:
            texts = [_text(value) for value in array]
        except ArithmeticError:  # a decimal number with more digits than its type
            raise ReadError(
                f"column {short_name(self.names[int(name[1:])])} holds a value that is not of its "
                f"type {array.type}; write the file again."
            ) from None
        return polars.Series(name, texts, dtype=polars.String)


def _text(scalar: Any) -> str:
    """Return the name of a category."""
    import pyarrow

    try:
        value = scalar.as_py()
    except (OverflowError, ValueError) as error:
        if isinstance(error, (pyarrow.ArrowException, UnicodeError)):
            raise
        value = scalar.value  # a time outside Python's range of years: use its number
    return "" if value is None else str(value)


class ArrowReader(TabularReader):
    """Chunks of rows from Parquet or Arrow IPC (Feather version 2) files, or a `Queried`.

    Only the used columns are decoded, one piece of a row group at a time, so memory does not grow
    with the file. A folder stands for the Parquet and Arrow files below it, in the order of their
    paths; names that start with ``.`` or ``_`` are skipped.

    Parameters
    ----------
    sources : path or list of paths
        Files, folders or URLs.
    schema : Schema
        Which columns to take, and how. Nulls and NaN are missing values.
    chunk_rows : int, optional
        Rows in a chunk at most; by default a chunk takes about 4 MB.
    strict : bool, default False
        Stop at the first unusable row.

    Examples
    --------
    >>> import tempfile, pyarrow, pyarrow.parquet
    >>> table = pyarrow.table({"age": [20, 30], "target": [0, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pyarrow.parquet.write_table(table, folder + "/a.parquet")
    ...     [chunk] = ArrowReader(folder, Schema(label="target"))
    >>> chunk.X.ravel(), chunk.y
    (array([20., 30.]), array([0., 1.]))
    """

    format = "arrow"

    def __init__(
        self, sources: Any, schema: Schema, *, chunk_rows: int | None = None, strict: bool = False
    ) -> None:
        given = list(sources) if isinstance(sources, (list, tuple)) else [sources]
        for source in given if schema.features is None else ():
            refuse_lost_columns(source)
        files = [file for source in given for file in files_of(source)]
        super().__init__(files, schema, chunk_rows=chunk_rows, strict=strict)

    def _open(self, index: int) -> ArrowFile:
        return ArrowFile(self.files[index])

    def _check(self, file: ArrowFile) -> None:
        """Refuse columns whose type cannot become a number or a category."""
        is_ = load_pyarrow().types
        for j in self.layout.used:
            kind, name = file.types[j], short_name(self.layout.names[j])
            if j in self.layout.levels:
                content = kind.value_type if is_.is_dictionary(kind) else kind
                if is_.is_nested(content):
                    raise ReadError(
                        f"{file.name}: column {name} is {shown_kind(kind)}, which has no levels; "
                        "take its parts out into columns, or leave it out."
                    )
            elif not is_numeric(kind) and j == self.layout.label:
                raise ReadError(
                    f"{file.name}: label {name} is {shown_kind(kind)}; list its values with "
                    "classes=."
                )
            elif not is_numeric(kind):
                raise ReadError(
                    f"{file.name}: column {name} is {shown_kind(kind)}, not a number; name it in "
                    "categorical= or leave it out with features=."
                )


def load_pyarrow() -> Any:
    """Import PyArrow, or say how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise ReadError("Parquet and Arrow files need PyArrow; install pairlearn[arrow].") from None
    return pyarrow


def open_arrow(path: Any) -> tuple[Any, tuple[str, ...], list[Any]]:
    """Return the PyArrow file of a path, and the names and types of its columns."""
    if hasattr(path, "query"):
        # A query reads like a file; see `pairlearn.streams.readers.query`.
        asked = path.opened()
        return asked, asked.names, asked.types
    pa, kind = load_pyarrow(), sniff(path)
    if kind == "feather1":
        raise ReadError(f"{path} is Feather version 1; rewrite it as version 2 or Parquet.")
    if kind not in ("parquet", "arrow"):
        raise ReadError(
            f"{path} is neither a Parquet nor an Arrow file; convert it or leave it out."
        )
    try:
        if kind == "parquet":
            import pyarrow.parquet

            file: Any = pyarrow.parquet.ParquetFile(
                open_raw(path) if is_remote(path) else path, pre_buffer=False, buffer_size=_READ
            )
        else:
            file = pa.ipc.open_file(open_raw(path) if is_remote(path) else pa.OSFile(str(path)))
        schema = file.schema_arrow if kind == "parquet" else file.schema
        return file, tuple(schema.names), list(schema.types)  # names are decoded here
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise damaged(path, error) from None


def is_numeric(kind: Any) -> bool:
    """Whether `ArrowReader` reads columns of a type as numbers."""
    is_ = load_pyarrow().types
    tests = is_.is_floating, is_.is_integer, is_.is_boolean, is_.is_decimal, is_.is_null
    return any(test(kind) for test in tests)


def doubles(array: Any) -> Vector:
    """Return a column of numbers as doubles; a decimal becomes the nearest one, null NaN."""
    pa, kind = load_pyarrow(), array.type
    if pa.types.is_decimal(kind):
        # Arrow's own cast multiplies by a rounded power of ten: an eighth of prices are missed.
        digits = getattr(pa, f"decimal{kind.bit_width}")(kind.precision, 0)
        whole = pa.Array.from_buffers(digits, len(array), array.buffers(), offset=array.offset)
        tops: Vector = whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        if 0 <= kind.scale <= _EXACT_POWER and not (np.abs(tops) > 2.0**53).any():
            return np.asarray(tops / 10.0**kind.scale)
        array = array.cast(pa.string())
    found: Vector = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found


def record_batches(file: Any, size: int, skip: int = 0) -> Iterator[Any]:
    """Yield the rows of an Arrow file in parts of at most `size`, after skipping `skip` rows."""
    for k in range(file.num_record_batches):
        batch = file.get_batch(k)
        # an Arrow file is memory-mapped unchecked: offsets, indices and texts may be damaged
        batch.validate(full=True)
        taken = min(skip, batch.num_rows)
        skip -= taken
        # parts start at multiples of `size` in the batch, resumed or not
        for begin in range(taken, batch.num_rows, size):
            yield batch.slice(begin, size)


def damaged(path: str | Path, error: BaseException) -> ReadError:
    """Return the error for a file that PyArrow cannot read."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ReadError(f"{path} cannot be read: {reason.rstrip('.')}; write it again.")


def files_of(source: Any) -> list[Any]:
    """Return a file or a query to one, or the data files below a folder."""
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
        if file.suffix in SUFFIXES
        and not any(part[0] in "._" for part in file.relative_to(path).parts)
    ]
    if not found:
        raise ReadError(f"{path} has no file ending in {', '.join(SUFFIXES)}; name the files.")
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
    _, names, _ = open_arrow(files[0]) if example else (None, (), None)
    if missing := sorted(example.keys() - set(names)):
        raise ReadError(
            f"{folder}: column {listed(missing)} is in the names of folders only, such as "
            f"{short_name(example[missing[0]])}; write the rows with all columns into one file "
            "(pyarrow.parquet.read_table reads such folders), or name the files to leave it out."
        )
