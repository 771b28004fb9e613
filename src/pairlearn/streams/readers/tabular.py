# SPDX-License-Identifier: BSD-3-Clause
"""The reader of files of named columns: batches of any file in, chunks of features out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pairlearn.streams.readers.base import Chunk, Position, Reader, ReadError, digest
from pairlearn.streams.readers.csv_file import Batch
from pairlearn.streams.readers.encode import Encoded, column_types, encode
from pairlearn.streams.readers.files import is_path, stamp_of
from pairlearn.streams.readers.schema import Layout, Schema, listed
from pairlearn.validation import check_count


def chunk_rows_for(chunk_rows: int | None, n_features: int) -> int:
    """Return the rows in a chunk: as given, or for about 4 MB and at most 16384."""
    if chunk_rows is not None:
        return check_count("chunk_rows", chunk_rows)
    return min(16384, max(1, (1 << 19) // max(1, n_features)))


class TabularReader(Reader):
    """Chunks of rows from several files of one shape.

    A subclass says how a file is opened: `_open` returns an object with `name`, `names` and
    ``batches(columns, skip)``, which yields `Batch`.
    """

    def __init__(
        self, files: Sequence[Any], schema: Schema, *, chunk_rows: int | None, strict: bool
    ) -> None:
        super().__init__(strict=strict)
        if not files:
            raise ReadError("there is no file to read; name at least one.")
        self.files, self.schema = list(files), schema
        self._file = self._open(0)
        self._names = self._file.names
        self.layout: Layout = schema.layout(self._names, self._file.name)
        self.feature_names = self.layout.feature_names
        self.n_features = self.layout.n_features
        self.chunk_rows = chunk_rows_for(chunk_rows, self.n_features)
        self._check(self._file)
        self.position = self._start_of(0, Position(self.format, fingerprint=self._fingerprint()))

    @abstractmethod
    def _open(self, index: int) -> Any:
        """Return a file."""

    def _check(self, file: Any) -> None:
        """Refuse a file whose columns have types that cannot be used."""

    def _fingerprint(self) -> str:
        return digest(self.schema.key(), self._names)

    def _start_of(self, index: int, before: Position) -> Position:
        stamp = stamp_of(self.files[index])
        return replace(before, file=index, offset=0, line=1, stamp=stamp)

    def restore(self, position: Position) -> None:
        """Continue after a position that a reader of the same files saved."""
        if not 0 <= position.file < len(self.files):
            raise ReadError("the saved position names a file that is not among the sources.")
        self._check_position(position, self._fingerprint(), stamp_of(self.files[position.file]))
        fresh = position.file == self.position.file and self.position.offset == 0
        if not fresh or is_path(self.files[position.file]):
            self._file = self._open_like_first(position.file)
        self.position = position

    def _open_like_first(self, index: int) -> Any:
        file = self._open(index)
        if file.names and file.names != self._names:
            raise ReadError(
                f"{file.name} has other columns than the first file ({listed(file.names)} "
                f"instead of {listed(self._names)}); read files of one shape together."
            )
        self._check(file)
        return file

    def __iter__(self) -> Iterator[Chunk]:
        for index in range(self.position.file, len(self.files)):
            if index != self.position.file:
                self._file = self._open_like_first(index)
                self.position = self._start_of(index, self.position)
            for batch in self._file.batches(column_types(self.layout), self.position.offset):
                yield from self._chunks(batch)
        if self.position.row == 0:
            raise self._nothing_read(str(self._file.name))

    def _chunks(self, batch: Batch) -> Iterator[Chunk]:
        """Yield the rows of a batch in chunks; the position is behind each."""
        n, refused, begin = batch.frame.height, batch.refused, 0
        while begin < n or refused:
            stop = min(begin + self.chunk_rows, n)
            last = stop == n
            found = encode(self.layout, batch.frame[begin:stop])
            lines = batch.lines[begin:stop]
            end = (batch.stop, batch.line)
            if not last:
                end = (int(batch.places[stop]), int(batch.lines[stop]))
            now = [pair for pair in refused if last or pair[0] < end[1]]
            refused = refused[len(now) :]
            chunk = self._chunk(found, lines, now, end)
            begin = stop
            if len(chunk):
                yield chunk

    def _chunk(
        self, found: Encoded, lines: Any, refused: list[tuple[int, str]], end: tuple[int, int]
    ) -> Chunk:
        refusals = self.position.refusals
        reasons = [(int(lines[row]), reason) for row, reason in found.reasons.items()]
        for line, reason in sorted(refused + reasons):
            refusals = self.refuse(refusals, self._file.name, line, reason)
        first_row, n = self.position.row, int(found.kept.sum())
        self.position = replace(
            self.position, offset=end[0], line=end[1], row=first_row + n, refusals=refusals
        )
        return Chunk(found.X, found.y, found.qid, first_row, lines[found.kept], self.position)
