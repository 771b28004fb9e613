# SPDX-License-Identifier: BSD-3-Clause
"""Read the next chunks in a thread while the last one is used.

Parsers are machine code that does not hold Python's lock. So learning from a file takes as long as
the slower of reading and learning on a machine with two processors, not as long as both. Chunks,
and so all results, are the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Semaphore, Thread

from pairlearn.streams.readers.base import Chunk, Reader

#: Chunks that are read before they are asked for: one waits, one is being read.
_AHEAD = 2


def read_ahead(reader: Reader) -> Iterator[Chunk]:
    """Yield the chunks of a reader; from the second on they are read before they are asked for.

    That takes a reader that `can_read_ahead`, a second processor, and addresses without a limit
    (``ulimit -v``); otherwise chunks are read when they are asked for.

    Meanwhile `Reader.position` may be ahead of the last chunk; `Chunk.position` is exact. If the
    caller stops early, the reader stands behind the last chunk that the caller got.

    Parameters
    ----------
    reader : Reader
        What is read, such as a `CsvReader`.

    Yields
    ------
    Chunk
        The chunks of the reader, in its order.

    Examples
    --------
    >>> from pairlearn.streams import IteratorReader
    >>> [len(chunk) for chunk in read_ahead(IteratorReader([([1.0], 0), ([2.0], 1)]))]
    [2]
    """
    chunks = iter(reader)
    alone = n_processors() < 2 or are_addresses_limited()
    if alone or not getattr(reader, "can_read_ahead", False):
        yield from chunks
        return
    chunk = next(chunks, None)
    if chunk is None:
        return
    ahead = _Ahead(chunks)
    try:
        while chunk is not None:
            place = chunk.position
            yield chunk
            chunk = ahead.next()
    finally:
        ahead.stop()
        if chunk is not None:
            reader.position = place


def n_processors() -> int:
    """Return the number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # a system without affinities
        return os.cpu_count() or 1


def are_addresses_limited() -> bool:
    """Return whether this process has a limit of addresses.

    A thread reserves some hundred megabytes of them, which the learner would miss.
    """
    try:
        import resource
    except ImportError:  # a system without limits
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


class _Ahead:
    """The chunks of an iterator that a thread advances."""

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._chunks = chunks
        self._read: SimpleQueue[Chunk | BaseException | None] = SimpleQueue()
        self._wanted = Semaphore(_AHEAD)
        self._stopped = False
        # A process that ends does not wait for chunks that nobody asks for.
        self._thread = Thread(target=self._run, name="pairlearn reader", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        found: Chunk | BaseException | None
        while True:
            self._wanted.acquire()
            if self._stopped:
                return
            try:
                found = next(self._chunks, None)
            except BaseException as error:
                found = error
            self._read.put(found)
            if not isinstance(found, Chunk):
                return

    def next(self) -> Chunk | None:
        """Return the next chunk, None at the end; raise what reading it raised."""
        found = self._read.get()
        if isinstance(found, BaseException):
            raise found
        self._wanted.release()
        return found

    def stop(self) -> None:
        """End the thread; what it has read is dropped."""
        self._stopped = True
        self._wanted.release()
        self._thread.join()
