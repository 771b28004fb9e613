# SPDX-License-Identifier: BSD-3-Clause
"""A window of bytes that slides over a source, in the form the text parsers need."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.byte_source import ByteSource
from pairlearn.streams.readers.consumed import Consumed, parse_marks

__all__ = ["Blocks", "check_earlier"]

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
        self._consumed = Consumed()
        #: The bytes of the buffer before this one are in the digest.
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
        """Bytes of the source before the next one to be parsed."""
        return self.source.offset - (self.end - self.start)

    def _digest(self) -> None:
        """Take what has been parsed into the digest."""
        if self.start > self._digested:
            self._consumed.take(self.buffer[self._digested : self.start])
            self._digested = self.start

    def consumed(self) -> str:
        """Return the digest of everything that has been parsed, for a position."""
        self._digest()
        return self._consumed.place(self.offset)

    def refill(self) -> bool:
        """Move what is left to the front and read on; False where the line is too long."""
        kept = self.end - self.start
        if kept > self.max_line_bytes:
            return False
        self._digest()
        if kept * 2 > len(self.buffer) - GUARD:
            self._allocate(2 * (len(self.buffer) - GUARD))
        elif self.start:
            self.buffer[:kept] = self.buffer[self.start : self.end].copy()
            self.start, self.end = 0, kept
            self._digested = 0
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

    def skip_to(self, offset: int, consumed: str) -> None:
        """Continue at `offset`, after seeing that the bytes before it are those of a position."""
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
        """Go forward to `offset`, unparsed."""
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
        """Whether nothing is left to be parsed."""
        if self.start == self.end and not self.final:
            self.refill()
        return self.start == self.end


def check_earlier(sources: Sequence[Any], earlier: Sequence[str]) -> None:
    """Refuse files before the present one that are not those that were consumed."""
    for target, consumed in zip(sources, earlier, strict=False):
        source = ByteSource(target) if isinstance(target, (str, os.PathLike)) else None
        if source is None or not source.can_reopen:
            continue  # a pipe that has ended cannot be looked at again
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
