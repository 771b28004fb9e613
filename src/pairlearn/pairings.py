# SPDX-License-Identifier: BSD-3-Clause
"""Who meets whom: pairings, lowered to index arrays before a kernel runs.

A pairing answers twice. Offline, `offline(n, rng)` returns a source that draws the next steps from
n stored examples (Algorithm 1 and its rivals). Online, `online(rng)` returns a source that is told
of each arriving chunk and says whom its examples meet and which examples to remember (Algorithm 2
and its rivals). Neither ever looks at the parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pairlearn.validation import check_count

__all__ = [
    "Arrival",
    "FifoBuffer",
    "OfflineSource",
    "OnlineSource",
    "Pairing",
    "Plan",
    "PreviousExample",
    "RandomPair",
]

Indices = NDArray[np.int32] | NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """The pairs of some consecutive steps.

    With `offsets` None, step t meets the one pair (left[t], right[t]). Otherwise it meets
    (left[t], q) for every q in right[offsets[t]:offsets[t + 1]], and the gradient is their mean.
    """

    left: Indices
    right: Indices
    offsets: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.left)

    @property
    def n_repeats(self) -> int:
        """Number of steps at which an example meets itself, which changes nothing."""
        if self.offsets is not None:
            return 0
        return int(np.count_nonzero(self.left == self.right))


@dataclass(frozen=True)
class Arrival:
    """What an online pairing says of a chunk of m examples that follows a buffer of b.

    Indices below b are rows of the buffer, the others rows b, ..., b + m - 1 of the chunk. `keep`
    lists the rows that form the next buffer.
    """

    plan: Plan
    keep: NDArray[np.int64]


class OfflineSource(Protocol):
    """Draws pairs from stored examples."""

    def draw(self, n_steps: int) -> Plan:
        """Return the next `n_steps` steps."""


class OnlineSource(Protocol):
    """Pairs arriving examples with remembered ones."""

    def arrive(self, y: NDArray[np.float64]) -> Arrival:
        """Return the steps that examples with labels `y` cause, and whom to remember."""


@dataclass(frozen=True)
class Pairing:
    """Base class of pairings."""

    #: Whether the pairing can serve a stream.
    has_online_form: ClassVar[bool] = True

    def offline(self, n: int, rng: np.random.Generator) -> OfflineSource:
        """Return a source of pairs of `n` stored examples."""
        raise TypeError(f"{type(self).__name__} has no offline form.")

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source of pairs of arriving examples."""
        raise ValueError(
            f"{type(self).__name__} needs all examples at once; for a stream use PreviousExample()."
        )


def _draw(n: int, count: int, rng: np.random.Generator) -> Indices:
    from pairlearn.kernels.plan import draw_indices

    dtype: Any = np.int32 if n <= 2**31 else np.int64
    out: Indices = np.empty(count, dtype=dtype)
    draw_indices(rng.integers(0, 2**64, dtype=np.uint64), n, out)
    return out


@dataclass(frozen=True)
class PreviousExample(Pairing):
    """Each example meets the previous one (Algorithms 1 and 2).

    Offline, the indices i_0, i_1, ... are independent and uniform and step t meets
    (i_t, i_{t-1}). An index may follow itself; such a pair changes nothing and is counted.

    Examples
    --------
    >>> source = PreviousExample().offline(5, np.random.default_rng(0))
    >>> plan = source.draw(4)
    >>> bool((plan.left[:-1] == plan.right[1:]).all())
    True
    """

    def offline(self, n: int, rng: np.random.Generator) -> OfflineSource:
        """Return a source that draws the path i_0, i_1, ..."""
        return _FifoPath(n, rng, 1)

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source that remembers one example."""
        return _Arrivals(1)


@dataclass(frozen=True)
class FifoBuffer(Pairing):
    """Each example meets the last s ones, their gradients averaged (remark after Theorem 6).

    Parameters
    ----------
    buffer_size : int
        The number s of remembered examples. One is the previous example.

    Examples
    --------
    >>> FifoBuffer(2).online(np.random.default_rng(0)).arrive(np.zeros(4)).plan.offsets
    array([0, 1, 3, 5])
    """

    buffer_size: int

    def __post_init__(self) -> None:
        check_count("buffer_size", self.buffer_size)

    def offline(self, n: int, rng: np.random.Generator) -> OfflineSource:
        """Return a source that draws the path i_0, i_1, ..."""
        return _FifoPath(n, rng, self.buffer_size)

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source that remembers the last s examples."""
        return _Arrivals(self.buffer_size)


@dataclass(frozen=True)
class RandomPair(Pairing):
    """Each step meets a uniformly drawn pair of distinct examples (SGD_pair, Lei et al. 2020).

    Examples
    --------
    >>> plan = RandomPair().offline(3, np.random.default_rng(0)).draw(100)
    >>> plan.n_repeats
    0
    """

    has_online_form: ClassVar[bool] = False

    def offline(self, n: int, rng: np.random.Generator) -> OfflineSource:
        """Return a source of distinct pairs."""
        return _RandomPairs(n, rng)


class _FifoPath:
    """An i.i.d. path of indices, each paired with the `size` before it."""

    def __init__(self, n: int, rng: np.random.Generator, size: int) -> None:
        self._n, self._rng, self._size = n, rng, size
        self._recent = _draw(n, 1, rng)

    def draw(self, n_steps: int) -> Plan:
        path = np.concatenate([self._recent, _draw(self._n, n_steps, self._rng)])
        plan = _meet_recent(path, len(self._recent), self._size)
        self._recent = path[-self._size :]
        return plan


class _Arrivals:
    """Arrival order, each example paired with the `size` before it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._n_buffered = 0

    def arrive(self, y: NDArray[np.float64]) -> Arrival:
        rows = np.arange(self._n_buffered + len(y))
        plan = _meet_recent(rows, max(self._n_buffered, 1), self._size)
        keep = rows[-self._size :]
        self._n_buffered = len(keep)
        return Arrival(plan, keep)


def _meet_recent(path: Indices, n_known: int, size: int) -> Plan:
    """Pair each entry of `path` from position `n_known` on with the `size` entries before it."""
    if size == 1:
        return Plan(path[n_known:], path[n_known - 1 : -1])
    position = np.arange(n_known, len(path))
    counts = np.minimum(position, size)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    back = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    return Plan(path[n_known:], path[np.repeat(position, counts) - 1 - back], offsets)


class _RandomPairs:
    """Uniform pairs of distinct indices; a cost that does not grow with n."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self._n, self._rng = n, rng

    def draw(self, n_steps: int) -> Plan:
        from pairlearn.kernels.plan import skip_own_index

        left = _draw(self._n, n_steps, self._rng)
        right = _draw(self._n - 1, n_steps, self._rng)
        skip_own_index(left, right)
        return Plan(left, right)
