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
#: So often a line may be read again in vain before it waits for more.
PATIENCE = 8


class Blocks:
    """The bytes ``buffer[start:end]`` of a source that are not yet parsed.

    Newlines follow `end`, so that a parser which looks some bytes ahead stays inside.
    The buffer grows as far as the line needs that is being parsed: whoever parses gives up a line
    of more than `max_line_bytes`. `scanned` counts the bytes that the parser has looked at.
    """

    def __init__(self, source: ByteSource, max_line_bytes: int) -> None:
        self.source = source
        self.max_line_bytes = max_line_bytes
        self.start = 0
        self.end = 0
        self.final = False
        self.scanned = 0
        self._vain, self._refilled_at = 0, -1
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

    @property
    def too_long(self) -> bool:
        """Whether what is not yet parsed is longer than a line may be."""
        return self.end - self.start > self.max_line_bytes

    def refill(self) -> None:
        """Move what is left to the front and read on, until there is more to parse or no room.

        A line can be complete only after a line end has come. One that was read again in vain
        several times, since a slow pipe brings it in small pieces, waits until it has grown by a
        quarter: so it is read again in proportion to its length.
        """
        kept = self.end - self.start
        self._vain = self._vain + 1 if self.offset == self._refilled_at else 0
        self._refilled_at = self.offset
        wanted = kept // 4 if self._vain > PATIENCE else 0
        if kept * 2 > len(self.buffer) - GUARD:
            self._allocate(2 * (len(self.buffer) - GUARD))
        elif self.start:
            self.buffer[:kept] = self.buffer[self.start : self.end].copy()
            self.start, self.end = 0, kept
        ended = False
        while self.end < len(self.buffer) - GUARD:
            size = self.source.readinto(self._view[self.end : len(self.buffer) - GUARD])
            ended = ended or self._newline(self.end, self.end + size) >= 0
            self.end += size
            self.final = size == 0
            if self.final or (ended and self.end - kept >= wanted):
                break
        self.buffer[self.end : self.end + GUARD] = NEWLINE

    def take(self, begin: int, stop: int) -> str:
        """Return bytes of the buffer as text; what is not UTF-8 survives as surrogates."""
        return bytes(self._view[begin:stop]).decode("utf-8", "surrogateescape")

    def _newline(self, begin: int, stop: int) -> int:
        """Return the index of the first newline of ``buffer[begin:stop]``, or -1."""
        # Short steps first: most lines are, and a step is copied before it is searched.
        step = 256
        while begin < stop:
            found = bytes(self._view[begin : min(begin + step, stop)]).find(b"\n")
            if found >= 0:
                return begin + found
            begin, step = begin + step, min(2 * step, BLOCK)
        return -1

    def skip_line(self) -> None:
        """Drop everything up to the next newline."""
        while (place := self._newline(self.start, self.end)) < 0:
            self.start = self.end
            if self.final:
                return
            self.refill()
        self.start = place + 1

    def first_record(self) -> tuple[str, int, int]:
        """Consume the first record that is not blank.

        Returns it without its line end, the bytes that it takes and its first line; it is empty at
        the end of the data.
        """
        line, seen, quotes = 1, 0, 0
        while True:
            begin = self.start + seen
            place = self._newline(begin, self.end)
            stop = self.end if place < 0 else place + 1
            quotes += bytes(self._view[begin:stop]).count(b'"')
            seen = stop - self.start
            if (place >= 0 and quotes % 2 == 0) or (place < 0 and self.final):
                text = self.take(self.start, stop).rstrip("\r\n")
                self.start = stop
                if text or not seen:
                    return text, seen, line
                line, seen, quotes = line + 1, 0, 0
                continue
            if seen > self.max_line_bytes:
                raise ReadError(
                    f"{self.source.name}:{line}: the first line is longer than "
                    f"{self.max_line_bytes} bytes; check its line ends and quotes, or raise "
                    "max_line_bytes."
                )
            if place < 0:
                self.refill()

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
