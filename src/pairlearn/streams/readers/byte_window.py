# SPDX-License-Identifier: BSD-3-Clause
"""A window of bytes that slides over a source, in the form the text parsers need."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import Chunk, Position, Reader, ReadError
from pairlearn.streams.readers.byte_source import ByteSource
from pairlearn.validation import check_count

__all__ = ["MAX_LINE_BYTES", "Blocks", "TextReader"]

MAX_LINE_BYTES = 1 << 25
GUARD = 32
BLOCK = 1 << 18
NEWLINE = 10


class Blocks:
    """The bytes ``buffer[start:end]`` of a source that are not yet parsed.

    Newlines follow `end`, so that a parser which looks some bytes ahead stays inside.
    The buffer grows only as far as one line of `max_line_bytes` needs.
    """

    def __init__(self, source: ByteSource, max_line_bytes: int) -> None:
        self.source = source
        self.max_line_bytes = max_line_bytes
        self.start = 0
        self.end = 0
        self.final = False
        self._allocate(BLOCK)

    def _allocate(self, size: int) -> None:
        old = self.buffer[self.start : self.end] if self.end else None
        self.buffer: NDArray[np.uint8] = np.empty(size + GUARD, dtype=np.uint8)
        self.address = self.buffer.ctypes.data
        self._view = memoryview(cast(Any, self.buffer))
        if old is not None:
            self.buffer[: len(old)] = old
        self.start, self.end = 0, 0 if old is None else len(old)
        self.buffer[self.end : self.end + GUARD] = NEWLINE

    @property
    def offset(self) -> int:
        """Bytes of the source before the next one to be parsed."""
        return self.source.offset - (self.end - self.start)

    def refill(self) -> bool:
        """Move what is left to the front and read on; False where the line is too long."""
        kept = self.end - self.start
        if kept > self.max_line_bytes:
            return False
        if kept * 2 > len(self.buffer) - GUARD:
            self._allocate(2 * (len(self.buffer) - GUARD))
        elif self.start:
            self.buffer[:kept] = self.buffer[self.start : self.end].copy()
            self.start, self.end = 0, kept
        size = self.source.readinto(self._view[self.end : len(self.buffer) - GUARD])
        self.end += size
        self.final = size == 0
        self.buffer[self.end : self.end + GUARD] = NEWLINE
        return True

    def take(self, begin: int, stop: int) -> str:
        """Return bytes of the buffer as text; what is not UTF-8 survives as surrogates."""
        return bytes(self._view[begin:stop]).decode("utf-8", "surrogateescape")

    def find_newline(self) -> int:
        """Return the index of the first newline not yet parsed, or -1."""
        step = 1 << 16
        for begin in range(self.start, self.end, step):
            found = np.flatnonzero(self.buffer[begin : min(begin + step, self.end)] == NEWLINE)
            if len(found):
                return begin + int(found[0])
        return -1

    def skip_line(self) -> bool:
        """Drop everything up to the next newline; False where the line was longer than allowed."""
        short = True
        while (place := self.find_newline()) < 0:
            if self.final:
                self.start = self.end
                return short
            short = short and self.end - self.start <= self.max_line_bytes
            self.start = self.end
            self.refill()
        self.start = place + 1
        return short

    def first_record(self) -> str | None:
        """Consume and return the first record that is not blank; None at the end of the data."""
        while True:
            data = bytes(self._view[self.start : self.end])
            place, quotes = -1, 0
            while (found := data.find(b"\n", place + 1)) >= 0:
                quotes += data.count(b'"', place + 1, found)
                place = found
                if quotes % 2 == 0:
                    break
            if place >= 0 and quotes % 2 == 0:
                stop = place + 1
            elif self.final:
                stop = len(data)
            elif self.refill():
                continue
            else:
                raise ReadError(
                    f"{self.source.name}:1: the first line is longer than "
                    f"{self.max_line_bytes} bytes; check its line ends and quotes, or raise "
                    "max_line_bytes."
                )
            self.start += stop
            text = data[:stop].decode("utf-8", "surrogateescape").rstrip("\r\n")
            if text or not stop:
                return text or None

    def skip_to(self, offset: int) -> None:
        """Continue at `offset`, at or after the present one."""
        ahead = offset - self.offset
        if 0 <= ahead <= self.end - self.start:
            self.start += ahead
            return
        self.start = self.end
        self.source.skip_to(offset)


class TextReader(Reader):
    """What readers of text share: files one after the other, each seen through `Blocks`."""

    def __init__(self, sources: Any, *, strict: bool, max_line_bytes: int) -> None:
        super().__init__(strict=strict)
        self.sources = list(sources) if isinstance(sources, (list, tuple)) else [sources]
        if not self.sources:
            raise ReadError("there is no file to read; name at least one.")
        self.max_line_bytes = check_count("max_line_bytes", max_line_bytes, minimum=16)

    def _open_file(self, index: int) -> None:
        self._blocks = Blocks(ByteSource(self.sources[index]), self.max_line_bytes)
        self._blocks.refill()
        self._file = index
        self._line = 1

    @abstractmethod
    def _fingerprint(self) -> str:
        """Return a digest of the options."""

    @cached_property
    def _options(self) -> str:
        return self._fingerprint()

    @abstractmethod
    def _file_chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of the open file."""

    def _place(self, before: Position) -> Position:
        """Return the place of the next row, with the counts of `before`."""
        return replace(
            before,
            file=self._file,
            offset=self._blocks.offset,
            line=self._line,
            fingerprint=f"{self._options}:{self._blocks.source.fingerprint()}",
        )

    def restore(self, position: Position) -> None:
        """Continue after `position`, which a reader of the same data has saved.

        Plain files are entered at the byte; compressed files and pipes are read again up to it.
        """
        if not 0 <= position.file < len(self.sources):
            raise ReadError("the saved position names a file that is not among the sources.")
        if self._blocks.source.can_reopen or position.file != self._file:
            self._open_file(position.file)
        options, _, head = position.fingerprint.partition(":")
        matches = options == self._options and self._blocks.source.matches(head)
        self._check_position(position, position.fingerprint if matches else "")
        self._blocks.skip_to(position.offset)
        self._line = position.line
        self.position = position

    def __iter__(self) -> Iterator[Chunk]:
        if self._blocks.source.closed:
            self.restore(self.position)
        try:
            while True:
                yield from self._file_chunks()
                if self._file + 1 == len(self.sources):
                    break
                self._open_file(self._file + 1)
                self.position = self._place(self.position)
        finally:
            self._blocks.source.close()
        if self.position.row == 0:
            raise self._nothing_read(self._blocks.source.name)
