# SPDX-License-Identifier: BSD-3-Clause
"""A digest of everything that a reader has consumed, to see on resuming that it is the same data.

On the way the digest is noted at some places. A reader that resumes reads up to each of them
again, and the first that differs says where the data have changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import ReadError, digest

__all__ = ["Consumed", "Marks", "parse_marks"]

#: Bytes between two marks at first, and the most marks: beyond that every other one is dropped.
_SPACING, _MOST = 1 << 20, 32
#: Types of numbers that the loop of the digest can look at, with their bytes.
_LOOKED_AT = {np.dtype(np.float64): 8, np.dtype(np.float32): 4}

Marks = tuple[tuple[int, str], ...]


class Consumed:
    """The running digest of the bytes given so far, and of some beginnings of them.

    >>> a, b = Consumed(), Consumed()
    >>> a.take(np.arange(200, dtype=np.uint8))
    >>> b.take(np.arange(99, dtype=np.uint8))
    >>> b.take(np.arange(99, 200, dtype=np.uint8))
    >>> a.value() == b.value()
    True
    """

    def __init__(self) -> None:
        from pairlearn.kernels.parsing.running_digest import BLOCK, LANES, digest_bytes

        self._digest_bytes, self.block = digest_bytes, BLOCK
        #: The lanes, and behind them the bytes that do not fill a block yet.
        self._state = np.zeros(LANES + BLOCK // 8, dtype=np.uint64)
        self._state[:LANES] = np.arange(1, LANES + 1)
        self._address = self._state.ctypes.data
        self._view = memoryview(self._state).cast("B")  # type: ignore[arg-type]
        self._lanes = 8 * LANES
        self.n_bytes = 0
        self._marks: list[str] = []
        self._spacing = _SPACING
        self._marked_at = 0

    def take(self, data: NDArray[Any]) -> None:
        """Take in the bytes of a contiguous array."""
        self.take_at(data.ctypes.data, data.nbytes)

    def take_at(self, address: int, size: int, dtype: np.dtype[Any] | None = None) -> bool:
        """Take in the bytes at an address, which the caller keeps.

        Return whether these, as numbers of a type, are known to be finite. Numbers at the end are
        not looked at where they do not fill a `block` of bytes.
        """
        width = 0 if dtype is None else _LOOKED_AT.get(dtype, 0)
        held = self.n_bytes % self.block
        self.n_bytes += size
        known: bool = self._digest_bytes(address, size, self._address, held, width)
        return known

    def value(self) -> str:
        """Return the digest of all bytes so far."""
        behind = self._lanes + self.n_bytes % self.block
        lanes, rest = self._view[: self._lanes], self._view[self._lanes : behind]
        return digest(bytes(lanes), bytes(rest), self.n_bytes)[:16]

    def place(self, offset: int) -> str:
        """Return the marks so far and that of the present place, which is `offset` for the reader.

        Each is ``OFFSET:DIGEST``, with spaces between them.
        """
        here = f"{offset}:{self.value()}"
        text = " ".join((*self._marks, here))
        if self.n_bytes - self._marked_at >= self._spacing:
            self._marks.append(here)
            self._marked_at = self.n_bytes
            if len(self._marks) > _MOST:
                self._marks = self._marks[1::2]
                self._spacing *= 2
        return text

    def check(self, source: str, unit: str, mark: tuple[int, str], before: int) -> None:
        """Refuse data whose digest at a mark, which has just been reached, is another."""
        offset, value = mark
        if self.value() != value:
            raise ReadError(
                f"{source} has changed between {unit} {before} and {unit} {offset} since the "
                "checkpoint was made; restore the data, or start again without the checkpoint."
            )
        self.place(offset)


def parse_marks(text: str) -> Marks:
    """Return the marks that `Consumed.place` has written."""
    marks: list[tuple[int, str]] = []
    for entry in text.split():
        offset, _, value = entry.partition(":")
        if not offset.isdigit() or (marks and int(offset) < marks[-1][0]):
            raise ReadError("the saved position has a digest that is damaged; start again.")
        marks.append((int(offset), value))
    return tuple(marks)
