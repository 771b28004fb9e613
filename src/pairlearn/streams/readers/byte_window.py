# SPDX-License-Identifier: BSD-3-Clause
"""A window of bytes that slides over a source, in the form the text parsers need."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.byte_source import ByteSource

__all__ = ["Blocks"]

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
