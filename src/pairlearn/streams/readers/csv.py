# SPDX-License-Identifier: BSD-3-Clause
"""Read CSV and other delimited text in chunks with a compiled parser."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import Chunk, Position, ReadError, digest
from pairlearn.streams.readers.byte_window import MAX_LINE_BYTES, Blocks, TextReader, too_long
from pairlearn.streams.readers.row_buffer import (
    RefusedFieldError,
    RowBuffer,
    RowChecker,
    chunk_rows_for,
    keep_freed_memory,
    parse_number,
)
from pairlearn.streams.readers.schema import Layout, Schema, listed, short_name

_NOT_CLOSED = "a quote is opened and never closed"


class CsvReader(TextReader):
    r"""Chunks of rows from delimited text: plain, gzip, xz, bzip2 or zstd; files or a pipe.

    Quotes, doubled quotes and line breaks inside quotes follow RFC 4180; lines may end with
    ``\n`` or ``\r\n``; blank lines are skipped. A number is the double nearest to the decimal
    in the file, as ``float()`` gives it. An unusable row (wrong number of fields, not a number,
    infinite, a missing value under ``missing="refuse"``, an unexpected label) is refused, counted
    and reported; with `strict`, reading stops there.

    Parameters
    ----------
    sources : path, "-", binary file object, or list of these
        Files to read one after the other; ``"-"`` is standard input.
    schema : Schema
        Which columns to take, and how.
    header : bool, default True
        Whether the first line names the columns. Without it they are ``"0"``, ``"1"``, ...
    names : sequence of str, optional
        Names that replace those in the file.
    delimiter : str, default ","
        One character between fields.
    chunk_rows : int, optional
        Rows in a chunk; by default a chunk takes about 4 MB.
    strict : bool, default False
        Stop at the first unusable row.
    max_line_bytes : int, default 32 MiB
        Longer lines are refused, and so is a line with a quote that is not closed within about
        this number of bytes.

    Examples
    --------
    >>> import io
    >>> text = io.BytesIO(b"age,income,target\n20,1.5,0\n30,2.5,1\n40,x,1\n")
    >>> reader = CsvReader(text, Schema(label="target"))
    >>> [chunk] = reader
    >>> chunk.X, chunk.y
    (array([[20. ,  1.5], [30. ,  2.5]]), array([0., 1.]))
    >>> print(reader.refusals)
    1 row refused; first: BytesIO:4: column 'income': 'x' is not a number
    """

    format = "csv"

    def __init__(
        self,
        sources: Any,
        schema: Schema,
        *,
        header: bool = True,
        names: Sequence[str] | None = None,
        delimiter: str = ",",
        chunk_rows: int | None = None,
        strict: bool = False,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        if len(delimiter.encode()) != 1 or delimiter in '"\r\n .+-eE0123456789\0':
            raise ReadError(
                f"delimiter must be one ASCII character such as ',' or ';' that cannot be part "
                f"of a number, got {delimiter!r}."
            )
        super().__init__(sources, strict=strict, max_line_bytes=max_line_bytes)
        self.schema = schema
        self.header = header
        self.delimiter = delimiter
        self._given_names = None if names is None else tuple(names)
        self._open_file(0)
        source = self._blocks.source
        try:
            if source.is_empty:
                raise ReadError(f"{source.name} is empty; check that it was written completely.")
            self.layout: Layout = schema.layout(self._names, source.name)
        except ReadError:
            source.close()
            raise
        self.feature_names = self.layout.feature_names
        self.n_features = self.layout.n_features
        self.chunk_rows = chunk_rows_for(chunk_rows, self.n_features)
        keep_freed_memory()
        self.position = self._place(Position(self.format))

    def _open_file(self, index: int) -> None:
        """Open a file and read its header."""
        super()._open_file(index)
        blocks = self._blocks
        if bytes(blocks.buffer[:3]) == b"\xef\xbb\xbf":
            blocks.start = 3
        record, size, self._line = blocks.first_record()
        name = blocks.source.name
        found = self._split(record, name, self._line) if record else []
        if not self.header:
            blocks.start -= size
            found = [str(j) for j in range(len(found))]
        else:
            self._line += 1 + record.count("\n")
            if found and all(_is_number(text) for text in found):
                raise ReadError(
                    f"{name}: the first line holds numbers ({listed(found)}), not names; "
                    "pass header=False if the file has no header."
                )
        names = tuple(found) if self._given_names is None else self._given_names
        if record and len(names) != len(found):
            raise ReadError(
                f"names has {len(names)} entries and {name} has {len(found)} columns; "
                "give one name for each."
            )
        if index == 0:
            self._names = names
        elif record and names != self._names:
            raise ReadError(
                f"{name} has other columns than the first file ({listed(names)} instead of "
                f"{listed(self._names)}); read files of one shape together."
            )

    def _split(self, record: str, name: str, line: int) -> list[str]:
        try:
            return next(csv.reader([record], delimiter=self.delimiter, strict=True), [])
        except csv.Error as error:
            raise ReadError(
                f"{name}:{line}: the first line cannot be split into fields ({error}); "
                "check its quotes."
            ) from None

    def _fingerprint(self) -> str:
        options = (self.schema.key(), self.header, self._given_names, self.delimiter)
        return digest(options, self.chunk_rows, self.max_line_bytes)

    def _nothing_read(self, name: str) -> ReadError:
        if self.refusals.count or not self.header:
            return super()._nothing_read(name)
        return ReadError(f"{name} has a header and no rows; check that it was written fully.")

    def _file_chunks(self) -> Iterator[Chunk]:
        parser = _Parser(self.layout, self.delimiter, self.chunk_rows)
        for rows, first_row in self._parsed(parser, self.layout):
            X, y, qid = rows.finish(self.layout)
            yield Chunk(X, y, qid, first_row, rows.lines[: rows.count], self.position)


def _is_number(text: str) -> bool:
    try:
        parse_number(text, ())
    except RefusedFieldError:
        return False
    return bool(text.strip())


class _Parser:
    """Run the compiled parser over the blocks of one source until a chunk is full."""

    def __init__(self, layout: Layout, delimiter: str, chunk_rows: int) -> None:
        from pairlearn.kernels.parsing import csv, records

        self._csv, self._records = csv, records
        self._layout = layout
        self._delimiter = ord(delimiter)
        self._chunk_rows = chunk_rows
        self.line = 1
        self._open_until = 0
        n = len(layout.names)
        self._kinds = np.zeros(n, dtype=np.int64)
        self._slots = np.zeros(n, dtype=np.int64)
        self._levels = np.zeros((n, 2), dtype=np.int64)
        self._deferred = np.empty((max(4096, 2 * n), records.DEFERRED_WIDTH), dtype=np.int64)
        self._problems = np.empty((256, records.PROBLEM_WIDTH), dtype=np.int64)
        for slot, j in enumerate(layout.numbers):
            self._kinds[j], self._slots[j] = csv.NUMBER, slot
        roles = ((layout.label, csv.EXTRA), (layout.qid, csv.QUERY))
        for slot, (column, role) in enumerate(roles):
            if column is not None:
                self._kinds[column], self._slots[column] = role, slot
        for slot, j in enumerate(layout.categories):
            self._kinds[j], self._slots[j] = csv.HASHED, slot
        if layout.label is not None and layout.label in layout.levels:
            self._slots[layout.label] = len(layout.categories)
        self._index_levels()
        self._chosen = tuple(np.flatnonzero(self._kinds == k) for k in (csv.NUMBER, csv.EXTRA))
        #: `_places` without the addresses of the arrays.
        self._offsets: NDArray[np.int64] | None = None

    def _index_levels(self) -> None:
        """Put the levels of all columns into arrays, sorted by hash within each column."""
        from pairlearn.streams.readers.schema import bucket_of

        entries: list[tuple[int, int, int, int]] = []
        data = bytearray()
        for j, levels in self._layout.levels.items():
            if isinstance(levels, int):
                self._levels[j] = (levels, 0)
                continue
            self._kinds[j] = self._csv.LEVELS
            first = len(entries)
            ordered = sorted((bucket_of(level, 1 << 64), k) for k, level in enumerate(levels))
            for h, k in ordered:
                begin = len(data)
                data += levels[k].encode("utf-8", "surrogateescape")
                entries.append((h, begin, len(data), k))
            self._levels[j] = (first, len(entries))
        self._columns = (
            self._kinds,
            self._slots,
            self._levels,
            np.array([e[0] for e in entries], dtype=np.uint64),
            np.array([e[1:3] for e in entries], dtype=np.int64).reshape(-1, 2),
            np.array([e[3] for e in entries], dtype=np.int64),
            np.frombuffer(bytes(data) or b"\0", dtype=np.uint8),
        )

    def _places(self, rows: RowBuffer) -> NDArray[np.int64]:
        """Return the address of the first row's number for each column, and the row's size."""
        arrays = (rows.values, rows.extra)
        if self._offsets is None:
            self._offsets = np.zeros((len(self._kinds), 2), dtype=np.int64)
            for chosen, array in zip(self._chosen, arrays, strict=True):
                single = int(array.itemsize == 4)
                self._offsets[chosen, 0] = array.itemsize * self._slots[chosen] + single
                self._offsets[chosen, 1] = array.strides[0]
        places = self._offsets.copy()
        for chosen, array in zip(self._chosen, arrays, strict=True):
            places[chosen, 0] += array.ctypes.data
        return places

    def fill(self, blocks: Blocks, line: int, checker: RowChecker) -> RowBuffer:
        """Parse until the chunk is full or the source ends."""
        records = self._records
        rows = RowBuffer(self._layout, self._chunk_rows)
        places = self._places(rows)
        arrays = (rows.values, rows.extra, rows.codes, rows.lines, rows.has_missing)
        state = np.zeros(records.STATE_SIZE, dtype=np.int64)
        log = self._deferred, self._problems, state
        state[records.LINE], state[records.OPEN_UNTIL] = line, self._open_until
        while rows.count < self._chunk_rows:
            state[records.POSITION] = blocks.start
            state[records.ROW] = rows.count
            state[records.N_DEFERRED : records.N_MISSING + 1] = 0
            self._csv.parse_csv(
                blocks.address, blocks.end, blocks.final, blocks.offset - blocks.start,
                blocks.max_line_bytes, self._delimiter, places.ctypes.data, self._columns, arrays,
                self._chunk_rows, log,
            )  # fmt: skip
            blocks.start = int(state[records.POSITION])
            self._collect(blocks, state, rows, checker)
            status = state[records.STATUS]
            if status in (records.OPEN_QUOTE, records.LONG_LINE):
                limit = blocks.max_line_bytes
                flaw = _NOT_CLOSED if status == records.OPEN_QUOTE else too_long(limit)
                checker.refuse(int(state[records.LINE]), flaw)
                blocks.skip_line()
                state[records.LINE] += 1
            elif status == records.DONE:
                # deliver a full chunk before waiting for more of a slow pipe
                if blocks.final or rows.count == self._chunk_rows:
                    break
                blocks.refill()
            checker.flush()
        checker.flush()
        self.line, self._open_until = int(state[records.LINE]), int(state[records.OPEN_UNTIL])
        blocks.scanned += int(state[records.SCANNED])
        return rows

    def _collect(
        self, blocks: Blocks, state: NDArray[np.int64], rows: RowBuffer, checker: RowChecker
    ) -> None:
        """Parse the fields that the kernel left open and drop unusable rows."""
        records = self._records
        for line, reason, detail, _ in self._problems[: state[records.N_PROBLEMS]].tolist():
            if reason == records.NOT_CLOSED:
                checker.refuse(line, _NOT_CLOSED)
            elif reason == records.TOO_LONG:
                checker.refuse(line, too_long(blocks.max_line_bytes))
            elif reason == records.RAGGED:
                checker.refuse(
                    line, f"it has {detail} fields where {len(self._kinds)} are expected"
                )
            else:
                name = self._layout.names[detail] if detail < len(self._kinds) else "?"
                checker.refuse(line, f"column {short_name(name)}: text follows a closing quote")
        any_missing = bool(state[records.N_MISSING])
        for row, j, begin, stop, quoted in self._deferred[: state[records.N_DEFERRED]].tolist():
            value = blocks.take(begin, stop)
            if quoted:
                value = value.replace('""', '"')
            try:
                any_missing |= rows.settle(self._layout, row, j, value)
            except RefusedFieldError as error:
                checker.mark(row, f"column {short_name(self._layout.names[j])}: {error}")
        rows.take_in(int(state[records.ROW]), any_missing, self._layout, checker)
