# SPDX-License-Identifier: BSD-3-Clause
"""Read Parquet and Arrow (Feather) files and folders of them in chunks; needs PyArrow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import Chunk, Position, Reader, ReadError, digest
from pairlearn.streams.readers.byte_source import HEAD, check_file, check_same, sniff
from pairlearn.streams.readers.consumed import Consumed, Marks, parse_marks
from pairlearn.streams.readers.row_buffer import (
    RefusedFieldError,
    RowBuffer,
    RowChecker,
    chunk_rows_for,
    keep_freed_memory,
)
from pairlearn.streams.readers.schema import Layout, Schema, listed, short_name, shown_kind
from pairlearn.typing import Vector

#: Bytes of numbers gathered at once; they stay in the processor's cache.
_PIECE = 1 << 18
#: Bytes at the end of a file that go into its fingerprint.
_FOOTER = 1 << 16
#: Bytes of a column read at once. Otherwise a column of a row group is read whole, and has left
#: the processor's cache when it is decoded.
_READ = 1 << 16
#: Powers of ten up to this one are doubles, so that a quotient by them is rounded once.
_EXACT_POWER = 22
SUFFIXES = (".parquet", ".arrow", ".feather", ".ipc")


class ArrowReader(Reader):
    """Chunks of rows from Parquet or Arrow IPC (Feather version 2) files.

    Only the used columns are decoded, one piece of a row group at a time, so memory does not grow
    with the file. A folder stands for the Parquet and Arrow files below it, in the order of their
    paths; names that start with ``.`` or ``_`` are skipped.

    Parameters
    ----------
    sources : path or list of paths
        Files or folders.
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
        super().__init__(strict=strict)
        self._pa = load_pyarrow()
        given = list(sources) if isinstance(sources, (list, tuple)) else [sources]
        self.files = [file for source in given for file in files_of(source)]
        for source in given if schema.features is None else ():
            refuse_lost_columns(source)
        if not self.files:
            raise ReadError("there is no file to read; name at least one.")
        self.schema = schema
        _, names, types = open_arrow(self.files[0])
        self._names = names
        self.layout: Layout = schema.layout(names, str(self.files[0]))
        self._check_types(types)
        self.feature_names = self.layout.feature_names
        self.n_features = self.layout.n_features
        self.chunk_rows = chunk_rows_for(chunk_rows, self.n_features)
        wanted = {*self.layout.numbers, *self.layout.categories}
        wanted |= {j for j in (self.layout.label, self.layout.qid) if j is not None}
        self._used = sorted(wanted)
        self._wanted = [names[j] for j in self._used]
        keep_freed_memory()
        self.position = self._start_of(0, Position(self.format))

    @property
    def can_read_ahead(self) -> bool:
        """Always: files of Arrow are on disk."""
        return True

    def _check_types(self, types: list[Any], index: int = 0) -> None:
        """Refuse columns whose type cannot become a number or a category."""
        is_ = self._pa.types
        for j, kind in enumerate(types):
            numeric = is_numeric(kind)
            name = self.layout.names[j]
            if j in self.layout.levels:
                content = kind.value_type if is_.is_dictionary(kind) else kind
                if is_.is_nested(content):
                    raise ReadError(
                        f"{self.files[index]}: column {short_name(name)} is {shown_kind(kind)}, "
                        "which has no levels; take its parts out into columns, or leave it out."
                    )
                continue
            if not numeric and j == self.layout.label:
                raise ReadError(
                    f"{self.files[index]}: label {short_name(name)} is {shown_kind(kind)}; list "
                    "its values with classes=."
                )
            if not numeric and (j in self.layout.numbers or j == self.layout.qid):
                raise ReadError(
                    f"{self.files[index]}: column {short_name(name)} is {shown_kind(kind)}, not a "
                    "number; name it in categorical= or leave it out with features=."
                )

    def _fingerprint(self, index: int) -> str:
        path = self.files[index]
        size = path.stat().st_size
        with open(path, "rb") as file:
            head = file.read(HEAD)
            # Such files cannot grow. Their footer says where each column lies; in Parquet it also
            # holds each column's minimum and maximum.
            file.seek(max(0, size - _FOOTER))
            foot = file.read(_FOOTER)
        query = getattr(path, "query", "")
        return digest(self.schema.key(), self.chunk_rows, size, head, foot, *filter(None, [query]))

    def _start_of(self, index: int, before: Position) -> Position:
        """Return the place before the first row of a file, with the counts of `before`."""
        self._file, self._consumed = index, Consumed()
        return replace(
            before,
            file=index,
            offset=0,
            line=1,
            fingerprint=self._fingerprint(index),
            consumed=self._consumed.place(0),
        )

    def restore(self, position: Position) -> None:
        """Continue after a position that a reader of the same files saved.

        The rows before it are decoded again and must be unchanged.
        """
        if not 0 <= position.file < len(self.files):
            raise ReadError("the saved position names a file that is not among the sources.")
        self._check_position(position, self._fingerprint(position.file))
        consumed = (*position.earlier, position.consumed)
        if len(consumed) != position.file + 1:
            raise ReadError("the saved position has no digest of every file; start again.")
        for index, marks in enumerate(consumed):
            self._check_columns(index)
            self._file, self._consumed = index, Consumed()
            at = self._read_again(index, parse_marks(marks), whole=index < position.file)
        if at != position.offset:
            raise ReadError("the saved position has no digest of its place; start again.")
        self.position = position

    def _read_again(self, index: int, marks: Marks, whole: bool) -> int:
        """Digest the rows of a file up to its last mark again; return their number."""
        path, at = self.files[index], 0
        batches, checker = self._batches(index, 0), RowChecker(self, self.layout, str(path))
        for mark in marks:
            before = at
            while at < mark[0]:
                found = self._next_rows(batches, at, checker)
                if found is None:
                    raise ReadError(
                        f"{path} ends at row {at}, before row {mark[0]} of the checkpoint; restore "
                        "the data, or start again without the checkpoint."
                    )
                at += len(found[0].lines)
            self._consumed.check(str(path), "row", mark, before)
        if whole and self._next_rows(batches, at, checker) is not None:
            raise ReadError(
                f"{path} has grown behind row {at} since it was read to its end; restore it, or "
                "start again without the checkpoint."
            )
        return at

    def _check_columns(self, index: int) -> None:
        """Refuse a file whose columns differ from those of the first."""
        _, names, types = open_arrow(self.files[index])
        if names != self._names:
            raise ReadError(
                f"{self.files[index]} has other columns than the first file ({listed(names)} "
                f"instead of {listed(self._names)}); read files of one shape together."
            )
        self._check_types(types, index)

    def __iter__(self) -> Iterator[Chunk]:
        for index in range(self._file, len(self.files)):
            if index != self.position.file:
                self._check_columns(index)
                earlier = (*self.position.earlier, self.position.consumed)
                self.position = self._start_of(index, replace(self.position, earlier=earlier))
            yield from self._file_chunks(index)
        if self.position.row == 0:
            raise self._nothing_read(str(self.files[-1]))

    def _batches(self, index: int, skip: int) -> Iterator[Any]:
        """Yield record batches of at most `chunk_rows` rows, after skipping `skip` rows."""
        path = self.files[index]
        before = path.stat()
        yield from self._batches_of(path, skip)
        with contextlib.suppress(FileNotFoundError):
            now = path.stat()
            # A file that has lost its name was read to its end.
            if now.st_ino == before.st_ino:
                check_same(path, before, now)

    def _batches_of(self, path: Path, skip: int) -> Iterator[Any]:
        file, _, _ = open_arrow(path)
        if hasattr(file, "iter_batches"):
            group = 0
            while group < file.num_row_groups:
                n_rows = file.metadata.row_group(group).num_rows
                if skip < n_rows:
                    break
                skip -= n_rows
                group += 1
            batches = file.iter_batches(
                self.chunk_rows,
                row_groups=list(range(group, file.num_row_groups)),
                columns=self._wanted,
                use_threads=False,
            )
            yield from self._cut(batches, skip)
            return
        yield from record_batches(file, self.chunk_rows, skip)

    def _cut(self, batches: Iterator[Any], skip: int) -> Iterator[Any]:
        """Yield batches of `chunk_rows` rows (the last may be shorter), after skipping `skip` rows.

        Batches end at multiples of `chunk_rows` in the file, resumed or not; PyArrow cuts at the
        borders of row groups and pages of texts.
        """
        parts: list[Any] = []
        size = 0
        for batch in batches:
            begin = min(skip, batch.num_rows)
            skip -= begin
            while begin < batch.num_rows:
                part = batch.slice(begin, self.chunk_rows - size)
                parts.append(part)
                begin += part.num_rows
                size += part.num_rows
                if size == self.chunk_rows:
                    yield self._joined(parts)
                    parts, size = [], 0
        if parts:
            yield self._joined(parts)

    def _joined(self, parts: list[Any]) -> Any:
        if len(parts) == 1:
            return parts[0]
        [batch] = self._pa.Table.from_batches(parts).combine_chunks().to_batches()
        return batch

    def _file_chunks(self, index: int) -> Iterator[Chunk]:
        """Yield the chunks of one file from the present position on."""
        path = self.files[index]
        batches = self._batches(index, self.position.offset)
        while True:
            offset = self.position.offset
            checker = RowChecker(self, self.layout, str(path))
            found = self._next_rows(batches, offset, checker)
            if found is None:
                return
            rows, finite = found
            stop, first_row = offset + len(rows.lines), self.position.row
            self._check(rows, finite, checker)
            self.position = replace(
                self.position,
                offset=stop,
                line=stop + 1,
                row=first_row + rows.count,
                refusals=checker.refusals,
                consumed=self._consumed.place(stop),
            )
            if rows.count:
                X, y, qid = rows.finish(self.layout)
                yield Chunk(X, y, qid, first_row, rows.lines[: rows.count], self.position)

    def _next_rows(
        self, batches: Iterator[Any], offset: int, checker: RowChecker
    ) -> tuple[RowBuffer, bool] | None:
        """Digest the next batch and return its raw rows, and whether all numbers are finite.

        Return None at the end.
        """
        try:
            batch = next(batches, None)
            if batch is None:
                return None
            with np.errstate(over="ignore", invalid="ignore"):  # such values are refused later
                return self._rows_of(batch, offset, checker)
        except (self._pa.ArrowException, OSError, UnicodeError) as error:
            raise damaged(self.files[self._file], error) from None

    def _rows_of(self, batch: Any, offset: int, checker: RowChecker) -> tuple[RowBuffer, bool]:
        """Convert and digest a batch; return its rows, and whether all numbers are finite."""
        layout, n = self.layout, batch.num_rows
        rows = RowBuffer(layout, n)
        rows.lines[:] = np.arange(offset + 1, offset + n + 1)
        by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
        arrays = {j: by_name[layout.names[j]] for j in self._used}
        found = [self._doubles(arrays[j]) for j in layout.numbers]
        addresses = np.array([address for address, _ in found], dtype=np.intp)
        step = max(1, _PIECE // max(1, rows.values.strides[0]))
        finite = self._consumed.gather(addresses, rows.values, step)
        extra = []
        for slot, j in enumerate((layout.label, layout.qid)):
            if j is not None and j not in layout.levels:
                rows.extra[:, slot] = self._numbers(arrays[j])
                extra.append(rows.extra[:, slot].copy())
        for k, j in enumerate(layout.categories):
            rows.codes[:, k] = self._codes(arrays[j], j, checker)
        if layout.label is not None and layout.label in layout.levels:
            rows.codes[:, -1] = self._codes(arrays[layout.label], layout.label, checker)
        for array in (rows.codes, *extra):
            self._consumed.take(array)
        return rows, finite

    def _check(self, rows: RowBuffer, finite: bool, checker: RowChecker) -> None:
        """Refuse unusable rows; `finite` promises that no number is NaN or infinite."""
        layout = self.layout
        any_missing = bool((rows.codes == -1).any())
        if not finite or layout.schema.dtype == "float32":
            any_missing |= not finite
            rows.has_missing |= np.isnan(rows.values).any(axis=1)
            for row, k in np.argwhere(np.isinf(rows.values)).tolist():
                name = layout.names[layout.numbers[k]]
                checker.mark(row, f"column {short_name(name)}: the value is infinite or too large")
        rows.take_in(len(rows.lines), any_missing, layout, checker)
        checker.flush()

    def _doubles(self, array: Any) -> tuple[int, Any]:
        """Return the address of a column's numbers, and an object that keeps it valid."""
        if array.type == self._pa.float64() and not array.null_count:
            return array.buffers()[1].address + 8 * array.offset, array
        numbers = np.ascontiguousarray(self._numbers(array), dtype=np.float64)
        return numbers.ctypes.data, numbers

    def _numbers(self, array: Any) -> NDArray[Any]:
        is_ = self._pa.types
        plain = is_.is_integer(array.type) and not array.null_count
        if not plain and (not is_.is_floating(array.type) or array.type.bit_width < 32):
            return doubles(array)
        values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return values

    def _codes(self, array: Any, j: int, checker: RowChecker) -> NDArray[np.int64]:
        """Return the category codes of a column: -1 is missing, -2 unknown."""
        if not self._pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        try:
            texts = [self._text(value) for value in array.dictionary]
        except ArithmeticError:  # a decimal number with more digits than its type
            raise ReadError(
                f"column {short_name(self.layout.names[j])} holds a value that is not of its type "
                f"{array.type.value_type}; write the file again."
            ) from None
        known = [self.layout.code_of(j, text) if text else -1 for text in texts]
        table = np.array([*known, -1], dtype=np.int64)
        is_null = array.indices.is_null().to_numpy(zero_copy_only=False)
        indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        if ((indices < 0) | (indices >= len(texts)))[~is_null].any():
            raise ReadError(
                f"column {short_name(self.layout.names[j])} refers to a category that its file "
                "does not have; write the file again."
            )
        indices = np.where(is_null, len(texts), indices)
        codes: NDArray[np.int64] = table[indices]
        for row in np.flatnonzero(codes == -2).tolist():
            try:
                RowBuffer.unknown(self.layout, j, texts[indices[row]])
            except RefusedFieldError as error:
                checker.mark(row, f"column {short_name(self.layout.names[j])}: {error}")
        return codes

    def _text(self, scalar: Any) -> str:
        """Return the name of a category."""
        try:
            value = scalar.as_py()
        except (OverflowError, ValueError) as error:
            if isinstance(error, (self._pa.ArrowException, UnicodeError)):
                raise
            value = scalar.value  # a time outside Python's range of years: use its number
        return "" if value is None else str(value)


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

            file: Any = pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=_READ)
        else:
            file = pa.ipc.open_file(pa.OSFile(str(path)))
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
    if hasattr(source, "query"):
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
    if hasattr(source, "query") or not Path(source).is_dir():
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
