# SPDX-License-Identifier: BSD-3-Clause
"""Digest all bytes that a reader consumes, to check on resuming that the data are the same.

The digest is recorded at marks. A resumed reader reads up to each mark again; the first mark that
differs tells where the data have changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import ReadError, digest

#: Bytes between two marks at first; the spacing doubles whenever marks are dropped.
_SPACING = 1 << 20
#: Marks at most; beyond that every other one is dropped.
_MOST_MARKS = 32
#: Number types that the digest can check for finite values, with their sizes in bytes.
_LOOKED_AT = {np.dtype(np.float64): 8, np.dtype(np.float32): 4}

Marks = tuple[tuple[int, str], ...]


class Consumed:
    """The running digest of all bytes given so far, with marks on the way."""

    def __init__(self) -> None:
        from pairlearn.kernels.parsing.running_digest import BLOCK, LANES, digest_bytes

        self._digest_bytes, self.block = digest_bytes, BLOCK
        #: The lanes, followed by the bytes that do not fill a block yet.
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
        """Digest the bytes of a contiguous array."""
        self.take_at(data.ctypes.data, data.nbytes)

    def gather(self, addresses: NDArray[np.intp], rows: NDArray[Any], step: int) -> bool:
        """Write the doubles at the addresses as columns of contiguous rows, and digest the rows.

        Return whether all are finite. So many rows at a `step` are still in the cache when they are
        digested.
        """
        from pairlearn.kernels.parsing.columns import gather

        held = self.n_bytes % self.block
        self.n_bytes += rows.nbytes
        finite: bool = gather(addresses, rows, step, self._address, held)
        return finite

    def take_at(self, address: int, size: int, dtype: np.dtype[Any] | None = None) -> bool:
        """Digest the bytes at an address, which the caller keeps alive.

        Return whether all of them, as numbers of `dtype`, are known to be finite. Numbers at the
        end that do not fill a block are not checked.
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
        """Return all marks including the present place, which is `offset` for the reader.

        Marks have the form ``OFFSET:DIGEST`` and are separated by spaces.
        """
        here = f"{offset}:{self.value()}"
        text = " ".join((*self._marks, here))
        if self.n_bytes - self._marked_at >= self._spacing:
            self._marks.append(here)
            self._marked_at = self.n_bytes
            if len(self._marks) > _MOST_MARKS:
                self._marks = self._marks[1::2]
                self._spacing *= 2
        return text

    def check(self, source: str, unit: str, mark: tuple[int, str], before: int) -> None:
        """Refuse the data if the digest at the mark just reached differs."""
        offset, value = mark
        if self.value() != value:
            raise ReadError(
                f"{source} has changed between {unit} {before} and {unit} {offset} since the "
                "checkpoint was made; restore the data, or start again without the checkpoint."
            )
        self.place(offset)


def parse_marks(text: str) -> Marks:
    """Parse the output of `Consumed.place`."""
    marks: list[tuple[int, str]] = []
    for entry in text.split():
        offset, _, value = entry.partition(":")
        if not offset.isdigit() or (marks and int(offset) < marks[-1][0]):
            raise ReadError("the saved position has a digest that is damaged; start again.")
        marks.append((int(offset), value))
    return tuple(marks)
