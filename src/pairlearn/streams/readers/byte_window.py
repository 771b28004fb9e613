# SPDX-License-Identifier: BSD-3-Clause
"""A sliding window over the bytes of a source, in the form that the text parsers need."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import Chunk, Position, Reader, ReadError
from pairlearn.streams.readers.byte_source import ByteSource
from pairlearn.streams.readers.consumed import Consumed, parse_marks
from pairlearn.streams.readers.row_buffer import RowChecker
from pairlearn.streams.readers.schema import Layout
from pairlearn.validation import check_count

MAX_LINE_BYTES = 1 << 25
#: Bytes that a parser may look ahead.
GUARD = 64
#: Bytes read at once. They are still in the processor's cache when they are digested; smaller
#: blocks would cost more calls, some thirty microseconds each.
BLOCK = 1 << 20
#: The system copies whole pages to the beginning of a cache line in a tenth less time.
_PAGE, _LINE = 4096, 64
NEWLINE = 10
#: Failed attempts to parse an incomplete line before it must grow by a quarter.
PATIENCE = 8


def too_long(limit: int) -> str:
    """Return the reason for refusing a line of more than `limit` bytes."""
    return f"the line is longer than {limit} bytes; check the line ends, or raise max_line_bytes"


class Blocks:
    """The bytes ``buffer[start:end]`` of a source that are not yet parsed.

    Newlines follow `end`, so a parser may look some bytes ahead. The buffer grows to hold the line
    being parsed; the parser refuses a line of more than `max_line_bytes`. `scanned` counts the
    bytes that the parser has looked at.
    """

    def __init__(self, source: ByteSource, max_line_bytes: int) -> None:
        self.source = source
        self.max_line_bytes = max_line_bytes
        self.start = 0
        self.end = 0
        self.final = False
        self.scanned = 0
        self._vain, self._refilled_at = 0, -1
        self._consumed = Consumed()
        #: The bytes of the buffer before this index are in the digest.
        self._digested = 0
        self._allocate(BLOCK)

    def _allocate(self, size: int) -> None:
        old = self.buffer[self.start : self.end] if self.end else None
        self.buffer: NDArray[np.uint8] = np.empty(size + GUARD, dtype=np.uint8)
        self.address = self.buffer.ctypes.data
        self._view = memoryview(cast(Any, self.buffer))
        if old is not None:
            self.buffer[: len(old)] = old
        self.start, self.end = 0, 0 if old is None else len(old)
        self._digested = 0
        self.buffer[self.end : self.end + GUARD] = NEWLINE

    @property
    def offset(self) -> int:
        """Offset in the source of the next byte to parse."""
        return self.source.offset - (self.end - self.start)

    def _digest(self) -> None:
        """Add the parsed bytes to the digest."""
        if self.start > self._digested:
            self._consumed.take_at(self.address + self._digested, self.start - self._digested)
            self._digested = self.start

    def consumed(self) -> str:
        """Return the digest of all parsed bytes, for a position."""
        self._digest()
        return self._consumed.place(self.offset)

    @property
    def too_long(self) -> bool:
        """Whether the unparsed bytes are more than a line may have."""
        return self.end - self.start > self.max_line_bytes

    def refill(self) -> None:
        """Move unparsed bytes to the front and read until there is more to parse or no room.

        A line can be complete only after a line end. If a slow pipe delivers a line in small
        pieces and parsing has failed several times, wait until the line has grown by a quarter: the
        total work then stays proportional to its length.
        """
        kept = self.end - self.start
        self._vain = self._vain + 1 if self.offset == self._refilled_at else 0
        self._refilled_at = self.offset
        wanted = kept // 4 if self._vain > PATIENCE else 0
        self._digest()
        if kept * 2 > len(self.buffer) - GUARD:
            self._allocate(2 * (len(self.buffer) - GUARD))
        elif self.start >= (line := _LINE if len(self.buffer) > _PAGE else 1):
            begin = -(self.address + kept) % line
            self.buffer[begin : begin + kept] = self.buffer[self.start : self.end].copy()
            self.start, self.end = begin, begin + kept
            self._digested = begin
        ended = False
        while self.end < len(self.buffer) - GUARD:
            room = len(self.buffer) - GUARD - self.end
            if room >= 2 * _PAGE:
                room -= (self.source.offset + room) % _PAGE
            size = self.source.readinto(self._view[self.end : self.end + room])
            ended = ended or self._newline(self.end, self.end + size) >= 0
            self.end += size
            self.final = size == 0
            if self.final or (ended and self.end - self.start - kept >= wanted):
                break
        self.buffer[self.end : self.end + GUARD] = NEWLINE

    def take(self, begin: int, stop: int) -> str:
        """Return bytes of the buffer as text; bytes that are not UTF-8 become surrogates."""
        return bytes(self._view[begin:stop]).decode("utf-8", "surrogateescape")

    def _newline(self, begin: int, stop: int) -> int:
        """Return the index of the first newline of ``buffer[begin:stop]``, or -1."""
        # start with short steps: most lines are short, and each step is copied before the search
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

        Return it without its line end, its size in bytes and its first line number; it is empty at
        the end of the data.
        """
        line, seen, quotes = 1, 0, 0
        while True:
            begin = self.start + seen
            place = self._newline(begin, self.end)
            stop = self.end if place < 0 else place + 1
            quotes += bytes(self._view[begin:stop]).count(b'"')
            seen = stop - self.start
            complete = (place >= 0 and quotes % 2 == 0) or (place < 0 and self.final)
            text = self.take(self.start, stop).rstrip("\r\n") if complete else ""
            # a complete record excludes its line end; an incomplete one may still contain it
            size = seen - 2 if not complete else len(text.encode("utf-8", "surrogateescape"))
            if size <= self.max_line_bytes and complete:
                self.start = stop
                if text or not seen:
                    return text, seen, line
                line, seen, quotes = line + 1, 0, 0
                continue
            if size > self.max_line_bytes:
                raise ReadError(
                    f"{self.source.name}:{line}: the first line is longer than "
                    f"{self.max_line_bytes} bytes; check its line ends and quotes, or raise "
                    "max_line_bytes."
                )
            if place < 0:
                self.refill()

    def skip_to(self, offset: int, consumed: str) -> None:
        """Continue at `offset`, after checking the bytes before it against a position."""
        if offset < self.offset:
            raise ReadError(
                f"{self.source.name} cannot be read again from byte {offset}, it is at byte "
                f"{self.offset}; a pipe goes forward only: write it to a file."
            )
        before = self.offset
        for mark in parse_marks(consumed):
            if mark[0] >= self.offset:
                self._consume(mark[0])
                self._consumed.check(self.source.name, "byte", mark, before)
                before = mark[0]
        if self.offset != offset:
            self._consume(offset)
            raise ReadError("the saved position has no digest of its place; start again.")

    def _consume(self, offset: int) -> None:
        """Go forward to `offset` without parsing."""
        while True:
            self.start += min(offset - self.offset, self.end - self.start)
            if self.offset == offset:
                break
            self.refill()
            if self.final:
                raise ReadError(
                    f"{self.source.name} ends at byte {self.offset}, the checkpoint was made at "
                    f"byte {offset}; it was cut or replaced, start again without the checkpoint."
                )
        self._digest()

    def is_at_end(self) -> bool:
        """Whether everything is parsed."""
        if self.start == self.end and not self.final:
            self.refill()
        return self.start == self.end


class Parser(Protocol):
    """What makes rows of the blocks of a file."""

    #: The line of the next row.
    line: int

    def fill(self, blocks: Blocks, line: int, checker: RowChecker) -> Any:
        """Return a chunk of parsed rows, which has a `count`: 0 at the end of the file."""


class TextReader(Reader):
    """The base of text readers: several files in turn, each read through `Blocks`."""

    def __init__(self, sources: Any, *, strict: bool, max_line_bytes: int) -> None:
        super().__init__(strict=strict)
        self.sources = list(sources) if isinstance(sources, (list, tuple)) else [sources]
        if not self.sources:
            raise ReadError("there is no file to read; name at least one.")
        self.max_line_bytes = check_count("max_line_bytes", max_line_bytes, minimum=16)

    @property
    def can_read_ahead(self) -> bool:
        """Whether all sources are files on disk; a pipe may keep a thread waiting for ever."""
        return all(
            isinstance(source, (str, os.PathLike)) and os.path.isfile(source)
            for source in self.sources
        )

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

    def _parsed(self, parser: Parser, layout: Layout | None = None) -> Iterator[tuple[Any, int]]:
        """Yield the rows of each chunk of the open file, and the number of rows before them.

        The position is then that after the chunk.
        """
        while True:
            checker = RowChecker(self, layout, self._blocks.source.name)
            rows = parser.fill(self._blocks, self._line, checker)
            self._line = parser.line
            first_row = self.position.row
            end = replace(self.position, row=first_row + rows.count, refusals=checker.refusals)
            self.position = self._place(end)
            if rows.count == 0:
                return
            yield rows, first_row

    def _place(self, before: Position) -> Position:
        """Return the place of the next row, with the counts of `before`."""
        return replace(
            before,
            file=self._file,
            offset=self._blocks.offset,
            line=self._line,
            fingerprint=f"{self._options}:{self._blocks.source.fingerprint()}",
            consumed=self._blocks.consumed(),
        )

    def restore(self, position: Position) -> None:
        """Continue after a position that a reader of the same data saved.

        The bytes before it are read again, without parsing, and must be unchanged.
        """
        if not 0 <= position.file < len(self.sources):
            raise ReadError("the saved position names a file that is not among the sources.")
        if self._blocks.source.can_reopen or position.file != self._file:
            self._open_file(position.file)
        options, _, head = position.fingerprint.partition(":")
        matches = options == self._options and self._blocks.source.matches(head)
        self._check_position(position, position.fingerprint if matches else "")
        _check_earlier(self.sources[: position.file], position.earlier)
        self._blocks.skip_to(position.offset, position.consumed)
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
                earlier = (*self.position.earlier, self.position.consumed)
                self._open_file(self._file + 1)
                self.position = self._place(replace(self.position, earlier=earlier))
        finally:
            self._blocks.source.close()
        if self.position.row == 0:
            raise self._nothing_read(self._blocks.source.name)


def _check_earlier(sources: Sequence[Any], earlier: Sequence[str]) -> None:
    """Refuse earlier files whose content has changed since they were read."""
    for target, consumed in zip(sources, earlier, strict=False):
        source = ByteSource(target) if isinstance(target, (str, os.PathLike)) else None
        if source is None or not source.can_reopen:
            continue  # a finished pipe cannot be checked again
        try:
            blocks = Blocks(source, BLOCK)
            marks = parse_marks(consumed)
            blocks.skip_to(marks[-1][0] if marks else 0, consumed)
            if not blocks.is_at_end():
                raise ReadError(
                    f"{source.name} has grown behind byte {blocks.offset} since it was read to "
                    "its end; cut it there, or start again without the checkpoint."
                )
        finally:
            source.close()
