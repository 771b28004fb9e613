# SPDX-License-Identifier: BSD-3-Clause
"""The base of all readers: chunks, refused rows, and positions that can be saved."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Vector
from pairlearn.validation import check_count

MAX_LISTED = 12
#: Characters of a name in a message.
_LONGEST_NAME = 40
_MASK = (1 << 64) - 1


class ReadError(ValueError):
    """Data cannot be read; the one-line message names the cure."""


@dataclass(frozen=True)
class Refusal:
    """One refused row: its place and the reason.

    Examples
    --------
    >>> print(Refusal("a.csv", 7, "it has 2 fields, expected 3"))
    a.csv:7: it has 2 fields, expected 3
    """

    source: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.reason}"


@dataclass(frozen=True)
class Refusals:
    """The number of refused rows, and the first few of them.

    Examples
    --------
    >>> print(Refusals().add(Refusal("a.csv", 7, "it has 2 fields, expected 3")))
    1 row refused; first: a.csv:7: it has 2 fields, expected 3
    """

    count: int = 0
    first: tuple[Refusal, ...] = ()

    KEPT = 5

    def add(self, refusal: Refusal, *, strict: bool = False) -> Refusals:
        """Return a copy with one more refused row; if `strict`, stop at it."""
        if strict:
            raise ReadError(f"{refusal} (strict: stopped at the first row that cannot be used)")
        kept = (*self.first, refusal) if len(self.first) < self.KEPT else self.first
        return Refusals(self.count + 1, kept)

    def __str__(self) -> str:
        if not self.count:
            return "no rows refused"
        rows = "1 row" if self.count == 1 else f"{self.count} rows"
        return f"{rows} refused; first: {self.first[0]}"


@dataclass(frozen=True)
class Position:
    """A place between two rows from which a reader of the same data can continue exactly.

    Parameters
    ----------
    format : str
        Kind of reader that made the position.
    file : int
        Index of the file among those being read.
    line : int
        Number of the next line of a text, or of the next row.
    row : int
        Number of rows delivered so far.
    refusals : Refusals
        Rows refused so far.
    fingerprint : str
        Digest of the reader's options.
    stamp : str
        Size, modification time, and digest of head and tail of the file; empty for a pipe.
    width : int
        Number of features if the reader had to search the data for it; otherwise 0.
    shuffled : str
        The place in a block of rows in random order, see
        `pairlearn.streams.readers.shuffled`; empty for rows in their own order.
    odd : tuple of (str, int, str)
        Fields taken as missing so far, by a reader that does so: for each column its name, their
        number and the first of them in words.

    Examples
    --------
    >>> position = Position("table", line=124, row=118)
    >>> Position.from_dict(position.to_dict()) == position
    True
    """

    format: str
    file: int = 0
    line: int = 1
    row: int = 0
    refusals: Refusals = field(default_factory=Refusals)
    fingerprint: str = ""
    stamp: str = ""
    width: int = 0
    shuffled: str = ""
    odd: tuple[tuple[str, int, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Position:
        """Return the position written by `to_dict`."""
        try:
            refusals = values["refusals"]
            first = tuple(Refusal(**entry) for entry in refusals["first"])
            odd = tuple((column, count, case) for column, count, case in values["odd"])
            changed = {"refusals": Refusals(refusals["count"], first), "odd": odd}
            return cls(**{**values, **changed})
        except (KeyError, TypeError, ValueError) as error:
            text = str(error)[:100]
            raise ReadError(f"the saved position is incomplete ({text}); start again.") from None


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_matrix of shape (n, d)
        Features, all finite.
    y : ndarray of shape (n,) or None
        Labels, None if the data have none.
    qid : ndarray of shape (n,) or None
        Query of each row.
    first_row : int
        Number of rows delivered before this chunk.
    lines : ndarray of shape (n,)
        Line (text) or row number in the file, for messages.
    position : Position
        The place after the last row: resume from here.
    """

    X: Any
    y: Vector | None
    qid: NDArray[np.int64] | None
    first_row: int
    lines: NDArray[np.int64]
    position: Position

    def __len__(self) -> int:
        return int(self.X.shape[0])


def digest(*parts: Any) -> str:
    """Return a short stable fingerprint of plain values and bytes."""
    state = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()[:32]


class Reader(ABC):
    """Iterate over chunks; `position` is the place after the last delivered chunk.

    Iterating consumes a reader. `restore` moves it to a saved position, and the same chunks follow
    as in an uninterrupted run.

    Attributes
    ----------
    feature_names : tuple of str or None
        Names of the columns of `Chunk.X`.
    n_features : int
        Number of columns of `Chunk.X`.
    position : Position
        Where the next chunk starts.
    """

    feature_names: tuple[str, ...] | None
    n_features: int
    strict: bool
    chunk_rows: int

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.chunk_rows = 16_384
        self.position = Position(self.format)

    @property
    @abstractmethod
    def format(self) -> str:
        """Name of the kind of data, part of each position."""

    @abstractmethod
    def __iter__(self) -> Iterator[Chunk]: ...

    @abstractmethod
    def restore(self, position: Position) -> None:
        """Continue after a position that a reader of the same data saved."""

    def limit_chunks(self, most: int) -> None:
        """Deliver chunks of at most so many rows."""
        self.chunk_rows = min(self.chunk_rows, most)

    @property
    def bytes_read(self) -> int:
        """Bytes of the present text read so far, for a progress bar; rows of other data."""
        return self.position.line - 1

    @property
    def refusals(self) -> Refusals:
        """Rows refused up to the last chunk delivered."""
        return self.position.refusals

    def _advance(
        self, source: str, line: int, n: int, refused: Iterable[tuple[int, str]], **more: Any
    ) -> int:
        """Move the position behind n more rows and some refused ones; return the first row."""
        refusals, first_row = self.position.refusals, self.position.row
        for at, reason in refused:  # if the reader is strict, it stops at the first
            refusals = refusals.add(Refusal(source, int(at), reason), strict=self.strict)
        self.position = replace(
            self.position, line=line, row=first_row + n, refusals=refusals, **more
        )
        return first_row

    def _check_position(self, position: Position, fingerprint: str, stamp: str = "") -> None:
        """Refuse a position of another format, order or data."""
        if position.format != self.format:
            raise ReadError(
                f"the saved position belongs to a {position.format:.40} reader, this is "
                f"{self.format}; open the data it was made from, or start again."
            )
        if position.shuffled:
            raise ReadError(
                "the saved position is of shuffled rows; read with the same shuffle_buffer, or "
                "start again without the checkpoint."
            )
        if position.fingerprint != fingerprint or position.stamp != stamp:
            raise ReadError(
                "the saved position was made from other data or other reading options, or the "
                "file has changed; restore them, or start again without the checkpoint."
            )

    def _nothing_read(self, name: str) -> ReadError:
        """Return the error for a source without a single usable row."""
        if self.refusals.count:
            return ReadError(f"{name} has no usable row: {self.refusals}")
        return ReadError(f"{name} has no rows of data; check that it was written completely.")


def bucket_of(value: str, width: int) -> int:
    """Return the hash bucket of a category: FNV-1a with MurmurHash3's finaliser, modulo width.

    The function never changes, because a model's coefficients depend on it.
    """
    h = 0xCBF29CE484222325
    for byte in value.encode("utf-8", "surrogateescape"):
        h = ((h ^ byte) * 0x100000001B3) & _MASK
    h = ((h ^ (h >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
    h = ((h ^ (h >> 33)) * 0xC4CEB9FE1A85EC53) & _MASK
    return (h ^ (h >> 33)) % width


def shown_kind(kind: Any) -> str:
    r"""Return the type of a column for a message; control characters are escaped."""
    return ascii(str(kind))[1:-1][:60]


def short_name(name: str) -> str:
    """Return the name of a column in quotes, shortened: a file may have one of megabytes."""
    return repr(name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "...")


def listed(names: Sequence[str]) -> str:
    """Return the first column names for a message, each shortened."""
    shown = ", ".join(map(short_name, names[:MAX_LISTED]))
    return shown + (f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else "")


def chunk_rows_for(chunk_rows: int | None, n_features: int) -> int:
    """Return the rows in a chunk: as given, or for about 4 MB and at most 16384."""
    if chunk_rows is not None:
        return check_count("chunk_rows", chunk_rows)
    return min(16384, max(1, (1 << 19) // max(1, n_features)))
