# SPDX-License-Identifier: BSD-3-Clause
"""Read delimited text in blocks of bytes; polars splits them into fields.

A block that holds nothing unusual is parsed once, straight to numbers. Otherwise its records are
counted by quotes and line ends, so that each refused line is named, and its fields are read as
texts. If polars and this count disagree (a quote that is never closed), Python's own parser reads
the block line by line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.files import TextSource
from pairlearn.streams.readers.schema import listed

#: Bytes read at once.
BLOCK = 1 << 22
#: Bytes of a line at most; within so many bytes a quote must be closed.
MAX_LINE_BYTES = 1 << 25
_NEVER_CLOSED = "a quote is opened and never closed"
_BAD_MARKS = '"\r\n .+-eE0123456789\0'


@dataclass(frozen=True)
class Batch:
    """Rows of one file as a polars frame with the columns ``c0``, ``c1``, ... of the file.

    `lines` and `places` hold the line and the number of each row, `refused` lines that are no rows
    with the reason; `stop` rows of the file, up to `line`, are used up.
    """

    frame: Any
    lines: NDArray[np.int64]
    places: NDArray[np.int64]
    refused: list[tuple[int, str]]
    stop: int
    line: int

    def behind(self, skip: int) -> Batch:
        """Return the rows from number `skip` on."""
        first = int(np.searchsorted(self.places, skip))
        if not first:
            return self
        from_line = int(self.lines[first]) if first < len(self.lines) else self.line
        return Batch(
            self.frame[first:], self.lines[first:], self.places[first:],
            [pair for pair in self.refused if pair[0] >= from_line], self.stop, self.line,
        )  # fmt: skip


class CsvFile:
    """The rows of one delimited text; `names` are the names of its columns."""

    def __init__(
        self,
        target: Any,
        *,
        header: bool = True,
        delimiter: str = ",",
    ) -> None:
        if len(delimiter.encode()) != 1 or delimiter in _BAD_MARKS:
            raise ReadError(
                f"delimiter must be one ASCII character such as ',' or ';' that cannot be part "
                f"of a number, got {delimiter!r}."
            )
        self._source, self._delimiter = TextSource(target), delimiter
        self.name = self._source.name
        if self._source.is_empty:
            self._source.close()
            raise ReadError(f"{self.name} is empty; check that it was written completely.")
        self._rest, self._ended, self._line = b"", False, 1
        self.names: tuple[str, ...] = self._read_names(header)

    @property
    def bytes_read(self) -> int:
        """Bytes of text read so far."""
        return self._source.offset

    def _more(self) -> None:
        size = len(self._rest) + BLOCK
        parts = [self._rest]
        while not self._ended and sum(map(len, parts)) < size:
            parts.append(self._source.read(BLOCK))
            self._ended = not parts[-1]
            if self._source.is_live:
                break
        self._rest = b"".join(parts)
        if self._ended:
            self._source.close()
            if self._rest and not self._rest.endswith(b"\n"):
                self._rest += b"\n"

    def _cut(self) -> tuple[bytes, bool]:
        """Take the complete records that are read; return them, and whether quotes are balanced."""
        data = self._rest
        at = data.rfind(b"\n") + 1
        odd = data.count(b'"', 0, at) % 2 == 1
        if odd:
            ends = record_ends(np.frombuffer(data, dtype=np.uint8))
            at = int(ends[-1]) + 1 if len(ends) else 0
            if self._ended or len(data) > MAX_LINE_BYTES:
                # The quote is never closed: lines end where lines end.
                at, odd = data.rfind(b"\n") + 1, True
            else:
                odd = False
        self._rest = data[at:]
        return data[:at], not odd

    def _blocks(self) -> Iterator[tuple[bytes, bool]]:
        """Yield complete records, and whether their quotes are balanced."""
        while True:
            block, balanced = self._cut()
            if block:
                yield block, balanced
            elif self._ended:
                return
            elif len(self._rest) > MAX_LINE_BYTES:
                raise ReadError(
                    f"{self.name}: line {self._line} is longer than {MAX_LINE_BYTES} bytes; check "
                    "the line ends."
                )
            if not self._ended and (not block or len(self._rest) < BLOCK):
                self._more()

    def _read_names(self, header: bool) -> tuple[str, ...]:
        record = b""
        while not record.strip():
            while b"\n" not in self._rest and not self._ended:
                self._more()
            self._rest = self._rest.removeprefix(b"\xef\xbb\xbf") if self._line == 1 else self._rest
            end = self._rest.find(b"\n") + 1
            while self._rest[:end].count(b'"') % 2 and (self._rest.find(b"\n", end) >= 0):
                end = self._rest.find(b"\n", end) + 1
            record = self._rest[:end]
            if not record:
                return ()
            if record.strip() and not header:
                break
            self._rest = self._rest[end:]
            self._line += record.count(b"\n")
        text = record.decode("utf-8", "replace").strip("\r\n")
        try:
            found = next(csv.reader(io.StringIO(text), delimiter=self._delimiter, strict=True), [])
        except csv.Error as error:
            raise ReadError(
                f"{self.name}:{self._line - 1}: the first line cannot be split into fields "
                f"({error}); check its quotes."
            ) from None
        if not header:
            return tuple(str(j) for j in range(len(found)))
        if found and all(_is_number(text) for text in found):
            raise ReadError(
                f"{self.name}: the first line holds numbers ({listed(found)}), not names; "
                "pass header=False if the file has no header."
            )
        return tuple(found)

    def batches(self, columns: Mapping[int, Any], skip: int = 0) -> Iterator[Batch]:
        """Yield the rows, without the first `skip`; `columns` maps column numbers to types."""
        n = 0
        try:
            for block, balanced in self._blocks():
                n_lines = block.count(b"\n")
                if n + n_lines <= skip and b'"' not in block:
                    n, self._line = n + n_lines, self._line + n_lines
                    continue
                batch = self._quick(block, columns, n, n_lines) if balanced else None
                if batch is None:
                    batch = self._careful(block, columns, n)
                n, self._line = batch.stop, batch.line
                if n > skip:
                    yield batch.behind(skip)
        finally:
            self._source.close()

    def _parse(self, block: bytes, types: Mapping[int, Any]) -> Any:
        import polars

        width = len(self.names)
        schema = {f"c{j}": types.get(j, polars.String) for j in range(width + 1)}
        first = self._delimiter.join(schema).encode() + b"\n"
        used = [f"c{j}" for j in sorted({*types, width - 1, width})]
        return polars.read_csv(
            first + block, schema=schema, columns=used, separator=self._delimiter,
            truncate_ragged_lines=True, ignore_errors=True,
        )  # fmt: skip

    def _quick(
        self, block: bytes, columns: Mapping[int, Any], n: int, n_lines: int
    ) -> Batch | None:
        """Return the rows if there is one for each line and every field is as it should be."""
        import polars

        try:
            frame = self._parse(block, columns)
        except polars.exceptions.PolarsError:
            return None
        width = len(self.names)
        if frame.height != n_lines or frame[f"c{width}"].null_count() < n_lines:
            return None
        nulls = frame.null_count().row(0)
        if any(count for name, count in zip(frame.columns, nulls, strict=True)
               if name != f"c{width}"):  # fmt: skip
            return None
        places = np.arange(n, n + n_lines)
        lines = places + (self._line - n)
        return Batch(frame, lines, places, [], n + n_lines, self._line + n_lines)

    def _careful(self, block: bytes, columns: Mapping[int, Any], n: int) -> Batch:
        """Return the rows with texts as fields, and the lines that are none."""
        import polars

        raw = np.frombuffer(block, dtype=np.uint8)
        ends = record_ends(raw)
        if not len(ends) or ends[-1] + 1 != len(block):
            return self._by_lines(block, columns, n)
        starts = np.concatenate([[0], ends[:-1] + 1])
        try:
            frame = self._parse(block, dict.fromkeys(columns, polars.String))
        except polars.exceptions.PolarsError:
            return self._by_lines(block, columns, n)
        if frame.height != len(ends):
            return self._by_lines(block, columns, n)
        outside = np.cumsum(raw == 34) % 2 == 0
        marks = np.cumsum((raw == ord(self._delimiter)) & outside)
        n_fields = np.diff(marks[ends], prepend=0) + 1
        newlines = np.cumsum(raw == 10)
        lines = self._line + newlines[starts] - (raw[starts] == 10)
        size = ends - starts
        blank = (size == 0) | ((size == 1) & (raw[starts] == 13))
        good = (n_fields == len(self.names)) & ~blank
        refused = [
            (int(lines[k]), self._ragged(int(n_fields[k]))) for k in np.flatnonzero(~good & ~blank)
        ]
        places = np.flatnonzero(good)
        frame = frame.select(f"c{j}" for j in columns).fill_null("")[places]
        return Batch(
            frame, lines[places], n + places, sorted(refused), n + len(ends),
            self._line + int(newlines[-1]),
        )  # fmt: skip

    def _ragged(self, n_fields: int) -> str:
        return f"it has {n_fields} fields where {len(self.names)} are expected"

    def _by_lines(self, block: bytes, columns: Mapping[int, Any], n: int) -> Batch:
        """Return the rows as Python's parser finds them."""
        import polars

        try:
            text = block.decode("utf-8")
        except UnicodeDecodeError:
            text = block.decode("cp1252", "replace")
        rows: list[Sequence[str]] = []
        lines: list[int] = []
        refused: list[tuple[int, str]] = []
        for line, row, flaw in split_records(text.split("\n")[:-1], self._delimiter):
            if flaw or len(row) != len(self.names):
                refused.append((self._line + line, flaw or self._ragged(len(row))))
            else:
                rows.append(row)
                lines.append(self._line + line)
        frame = polars.DataFrame(
            {f"c{j}": [row[j] for row in rows] for j in columns},
            schema=dict.fromkeys((f"c{j}" for j in columns), polars.String),
        )
        # Each line counts as a row here: a place must only be found again.
        n_lines = block.count(b"\n")
        at = np.array(lines, dtype=np.int64)
        return Batch(frame, at, n + at - self._line, refused, n + n_lines, self._line + n_lines)


def record_ends(raw: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the places of the line ends that stand outside of quotes."""
    ends = np.flatnonzero(raw == 10)
    quotes = np.flatnonzero(raw == 34)
    if not len(quotes):
        return ends
    outside: NDArray[np.int64] = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return outside


def split_records(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str], str]]:
    """Yield the number of the first line, the fields, and what is wrong, of each record.

    A quote that is never closed spoils its own line only.

    >>> list(split_records(['1,2', '3,"4', '5,6'], ","))
    [(0, ['1', '2'], ''), (1, [], 'a quote is opened and never closed'), (2, ['5', '6'], '')]
    """
    at = 0
    while at < len(lines):
        rest = (lines[k] + "\n" for k in range(at, len(lines)))
        reader, begin = csv.reader(rest, delimiter=delimiter, strict=True), at
        try:
            for row in reader:
                start, at = at, begin + reader.line_num
                if row:
                    yield start, row, ""
        except csv.Error as error:
            spans = begin + reader.line_num - at > 1 or "unexpected end" in str(error)
            flaw = _NEVER_CLOSED if spans else f"it cannot be split into fields ({error})"
            yield at, [], flaw
            at += 1


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return bool(text.strip())
