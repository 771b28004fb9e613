# SPDX-License-Identifier: BSD-3-Clause
"""Shuffle rows within blocks, to read sorted files in bounded memory.

A block of consecutive rows is read, permuted and delivered before the next one is read. A file of
one block is shuffled entirely. If a longer file is sorted by label, its blocks still have a single
label, and the learner warns. Rows of a query stay together, in random order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import Chunk, Position, Reader, ReadError
from pairlearn.streams.readers.consumed import Consumed
from pairlearn.typing import Vector
from pairlearn.validation import check_count

#: Rows in a block with buffer_rows="auto", ...
_AUTO_ROWS = 65_536
#: ... if a block of dense rows then has at most this number of entries; otherwise fewer rows.
_AUTO_NUMBERS = 1 << 24
#: Rows in a chunk.
_CHUNK = 8192


@dataclass(frozen=True)
class _Rows:
    """Some rows with their labels, queries and lines."""

    X: Any
    y: Vector | None
    qid: NDArray[np.int64] | None
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, which: Any) -> _Rows:
        """Return some of the rows, by a slice or by indices."""
        return _Rows(
            self.X[which],
            None if self.y is None else self.y[which],
            None if self.qid is None else self.qid[which],
            self.lines[which],
        )

    def digest(self) -> str:
        """Return a digest of the content."""
        consumed = Consumed()
        values = (self.X.data, self.X.indices, self.X.indptr) if _is_sparse(self.X) else (self.X,)
        for array in (*values, self.y, self.qid):
            if array is not None and array.size:
                consumed.take(np.ascontiguousarray(array))
        return consumed.value()


@dataclass(frozen=True)
class _Piece:
    """Rows of a chunk from row `offset` on, and the position of the reader before the chunk."""

    rows: _Rows
    before: Position
    offset: int

    @property
    def place(self) -> tuple[Position, int]:
        """The position before the chunk, and the number of rows to skip after it."""
        return self.before, self.offset

    def behind(self, count: int) -> _Piece:
        """Return the piece without its first `count` rows."""
        if not count:
            return self
        return _Piece(self.rows.take(slice(count, None)), self.before, self.offset + count)


def _is_sparse(X: Any) -> bool:
    return hasattr(X, "tocsr")


def _joined(parts: list[_Rows]) -> _Rows:
    """Concatenate rows."""
    if len(parts) == 1:
        return parts[0]
    tables: list[Any] = [part.X for part in parts]
    if _is_sparse(tables[0]):
        from scipy import sparse

        X: Any = sparse.vstack(tables, format="csr")
    else:
        X = np.concatenate(tables)
    labels = [part.y for part in parts if part.y is not None]
    queries = [part.qid for part in parts if part.qid is not None]
    return _Rows(
        X,
        np.concatenate(labels) if labels else None,
        np.concatenate(queries) if queries else None,
        np.concatenate([part.lines for part in parts]),
    )


@dataclass(frozen=True)
class _Place:
    """The place of a shuffled reader: the block starts `skip` rows after its reader's position.

    `done` rows of the block have been delivered; `digest` is the digest of the block.
    """

    seed: int
    buffer_rows: int
    skip: int = 0
    done: int = 0
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.seed}:{self.buffer_rows}:{self.skip}:{self.done}:{self.digest}"

    @classmethod
    def parse(cls, text: str) -> _Place:
        parts = text.split(":")
        if len(parts) != 5 or not all(part.isdigit() for part in parts[:4]):
            raise ReadError("the saved place in a shuffled block is damaged; start again.")
        seed, buffer_rows, skip, done = map(int, parts[:4])
        return cls(seed, buffer_rows, skip, done, parts[4])


class ShuffledReader(Reader):
    """Deliver the rows of a reader in a random order within blocks.

    Parameters
    ----------
    reader : Reader
        The source of rows.
    buffer_rows : int or "auto", default="auto"
        Rows in a block, which are in memory at once. "auto" takes 65,536, or fewer if a dense
        block would have more than 2^24 numbers.
    seed : int, default=0
        The order depends only on the seed and `buffer_rows`, not on the chunks of the reader.

    Examples
    --------
    >>> from pairlearn.streams import IteratorReader
    >>> rows = [([float(k)], k % 2) for k in range(6)]
    >>> for chunk in ShuffledReader(IteratorReader(rows), buffer_rows=4):
    ...     print(sorted(chunk.X.ravel().tolist()))
    [0.0, 1.0, 2.0, 3.0]
    [4.0, 5.0]
    """

    def __init__(self, reader: Reader, *, buffer_rows: int | str = "auto", seed: int = 0) -> None:
        self._reader = reader
        if buffer_rows == "auto":
            buffer_rows = _AUTO_ROWS
            if reader.format != "svmlight":
                buffer_rows = max(min(_AUTO_ROWS, _AUTO_NUMBERS // max(reader.n_features, 1)), 1024)
        elif isinstance(buffer_rows, str):
            raise ValueError(f'shuffle_buffer must be a number or "auto", got {buffer_rows!r}.')
        size = check_count("shuffle_buffer", buffer_rows, minimum=2)
        self._place = _Place(check_count("seed", seed, minimum=0), size)
        super().__init__(strict=reader.strict)
        self.feature_names, self.n_features = reader.feature_names, reader.n_features
        self.position = self._at(reader.position)

    @property
    def format(self) -> str:
        """Name of the kind of data of the wrapped reader."""
        return self._reader.format

    @property
    def can_read_ahead(self) -> bool:
        """Whether the wrapped reader can."""
        return self._reader.can_read_ahead

    @property
    def layout(self) -> Any:
        """The layout of the columns of a table; None for other data."""
        return getattr(self._reader, "layout", None)

    def _at(self, position: Position, skip: int = 0, done: int = 0, digest: str = "") -> Position:
        place = replace(self._place, skip=skip, done=done, digest=digest)
        return replace(position, shuffled=str(place))

    def restore(self, position: Position) -> None:
        """Continue after a position that a reader of the same data saved."""
        if not position.shuffled:
            raise ReadError(
                "the saved position is of rows in their own order; read without shuffle_buffer, or "
                "start again."
            )
        place = _Place.parse(position.shuffled)
        mine = self._place
        if (place.seed, place.buffer_rows) != (mine.seed, mine.buffer_rows):
            raise ReadError(
                f"the saved position is of blocks of {place.buffer_rows} rows with seed "
                f"{place.seed}, these are of {mine.buffer_rows} with seed {mine.seed}; use the "
                "same, or start again."
            )
        if place.done >= place.buffer_rows:
            raise ReadError("the saved place in a shuffled block is damaged; start again.")
        self._reader.restore(replace(position, shuffled=""))
        self.position = position

    def __iter__(self) -> Iterator[Chunk]:
        place = _Place.parse(self.position.shuffled)
        size, to_skip = place.buffer_rows, place.skip
        waiting: list[_Piece] = []
        chunks = self._pieces()
        is_over = False
        while not is_over:
            n = sum(len(piece.rows) for piece in waiting)
            while n < size:
                piece = next(chunks, None)
                if piece is None:
                    is_over = True
                    break
                dropped = min(to_skip, len(piece.rows))
                to_skip -= dropped
                piece = piece.behind(dropped)
                if len(piece.rows):
                    waiting.append(piece)
                    n += len(piece.rows)
            while n >= size or (is_over and n):
                begin, excess = waiting[0], max(n - size, 0)
                rest = [waiting[-1].behind(len(waiting[-1].rows) - excess)] if excess else []
                block = _joined([piece.rows for piece in waiting]).take(slice(0, n - excess))
                waiting, n = rest, excess
                end = rest[0].place if rest else (self._reader.position, 0)
                yield from self._deliver(block, begin, place, end)
                place = replace(place, done=0, digest="")

    def _pieces(self) -> Iterator[_Piece]:
        """Yield the chunks of the reader, each with the position before it."""
        chunks = iter(self._reader)
        while True:
            before = self._reader.position
            chunk = next(chunks, None)
            if chunk is None:
                return
            yield _Piece(_Rows(chunk.X, chunk.y, chunk.qid, chunk.lines), before, 0)

    def _deliver(
        self, block: _Rows, begin: _Piece, place: _Place, end: tuple[Position, int]
    ) -> Iterator[Chunk]:
        """Yield the rest of a block in its random order."""
        digest = block.digest()
        first = begin.before.row + begin.offset
        if place.digest and place.digest != digest:
            raise ReadError(
                f"the rows after row {first} have changed since the checkpoint was made; restore "
                "the data, or start again without the checkpoint."
            )
        order = _order(block, np.random.default_rng([place.seed, first]))
        n = len(order)
        for start in range(place.done, n, _CHUNK):
            stop = min(start + _CHUNK, n)
            rows = block.take(order[start:stop])
            if stop < n:
                self.position = self._at(*begin.place, stop, digest)
            else:
                self.position = self._at(*end)
            yield Chunk(rows.X, rows.y, rows.qid, first + start, rows.lines, self.position)


def _order(block: _Rows, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random order of rows that keeps the rows of a query together."""
    order = rng.permutation(len(block))
    if block.qid is None:
        return order
    query = np.unique(block.qid, return_inverse=True)[1]
    place = rng.permutation(int(query.max()) + 1)
    return np.lexsort((order, place[query]))
