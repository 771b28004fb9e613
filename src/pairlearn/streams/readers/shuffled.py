# SPDX-License-Identifier: BSD-3-Clause
"""Deliver the rows of a reader in a random order within blocks that fit in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import Chunk, Position, Reader, ReadError
from pairlearn.validation import check_count

#: Rows in a block by default, and numbers in a dense block at most.
_AUTO_ROWS, _AUTO_NUMBERS = 65_536, 1 << 24
#: Rows in a chunk.
_CHUNK = 8192


class ShuffledReader(Reader):
    """Deliver the rows of a reader in a random order within blocks.

    Parameters
    ----------
    reader : Reader
        The source of rows.
    buffer_rows : int or "auto", default="auto"
        Rows in a block at least, which are in memory at once; a block ends with a chunk of the
        reader, whose chunks have at most so many rows.
        "auto" takes 65,536, or fewer if a dense block would have more than 2^24 numbers.
    seed : int, default=0
        The order depends on the seed, `buffer_rows` and the chunks of the reader.

    Examples
    --------
    >>> from pairlearn.streams import IteratorReader
    >>> rows = [([float(k)], k % 2) for k in range(6)]
    >>> for chunk in ShuffledReader(IteratorReader(rows, chunk_rows=2), buffer_rows=4):
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
        self._size = check_count("shuffle_buffer", buffer_rows, minimum=2)
        self._seed = check_count("seed", seed, minimum=0)
        reader.limit_chunks(self._size)
        super().__init__(strict=reader.strict)
        self.feature_names, self.n_features = reader.feature_names, reader.n_features
        self.position = self._at(reader.position, 0)

    @property
    def format(self) -> str:
        """Name of the kind of data of the wrapped reader."""
        return self._reader.format

    @property
    def encoder(self) -> Any:
        """The encoder of the columns of a table; None for other data."""
        return getattr(self._reader, "encoder", None)

    @property
    def bytes_read(self) -> int:
        """Bytes that the wrapped reader has read."""
        return self._reader.bytes_read

    def _at(self, position: Position, done: int) -> Position:
        """Return the place behind `done` rows of the block that begins at a position."""
        return replace(position, shuffled=f"{self._seed}:{self._size}:{done}")

    def restore(self, position: Position) -> None:
        """Continue after a position that a reader of the same data saved."""
        if not position.shuffled:
            raise ReadError(
                "the saved position is of rows in their own order; read without shuffle_buffer, or "
                "start again."
            )
        seed, size, _ = position.shuffled.split(":")
        if (int(seed), int(size)) != (self._seed, self._size):
            raise ReadError(
                f"the saved position is of blocks of {size} rows with seed {seed}, these are of "
                f"{self._size} with seed {self._seed}; use the same, or start again."
            )
        self._reader.restore(replace(position, shuffled=""))
        self.position = position

    def __iter__(self) -> Iterator[Chunk]:
        done = int(self.position.shuffled.split(":")[2])
        chunks, begin = iter(self._reader), self._reader.position
        block: list[Chunk] = []
        while True:
            chunk = next(chunks, None)
            if chunk is not None:
                block.append(chunk)
            if block and (chunk is None or sum(map(len, block)) >= self._size):
                yield from self._deliver(block, begin, done)
                begin, done, block = block[-1].position, 0, []
            if chunk is None:
                # refusals behind the last chunk count, too
                self.position = self._at(self._reader.position, 0)
                return

    def _deliver(self, block: list[Chunk], begin: Position, done: int) -> Iterator[Chunk]:
        """Yield the rows of a block in their random order, without the first `done`."""
        X, y, qid, lines = _joined(block)
        first = begin.row
        order = _order(len(lines), qid, np.random.default_rng([self._seed, first]))
        for start in range(done, len(order), _CHUNK):
            rows = order[start : start + _CHUNK]
            stop = start + len(rows)
            over = stop == len(order)
            self.position = self._at(block[-1].position, 0) if over else self._at(begin, stop)
            yield Chunk(
                X[rows], None if y is None else y[rows], None if qid is None else qid[rows],
                first + start, lines[rows], self.position,
            )  # fmt: skip


def _joined(block: list[Chunk]) -> tuple[Any, Any, Any, NDArray[np.int64]]:
    """Return features, labels, queries and lines of all chunks."""
    if hasattr(block[0].X, "tocsr"):
        from scipy import sparse

        X: Any = sparse.vstack([chunk.X for chunk in block], format="csr")
    else:
        X = np.concatenate([chunk.X for chunk in block])
    labels = [chunk.y for chunk in block if chunk.y is not None]
    queries = [chunk.qid for chunk in block if chunk.qid is not None]
    return (
        X,
        np.concatenate(labels) if labels else None,
        np.concatenate(queries) if queries else None,
        np.concatenate([chunk.lines for chunk in block]),
    )


def _order(n: int, qid: Any, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return a random order of rows that keeps the rows of a query together."""
    order = rng.permutation(n)
    if qid is None:
        return order
    query = np.unique(qid, return_inverse=True)[1]
    place = rng.permutation(int(query.max()) + 1)
    return np.lexsort((order, place[query]))
