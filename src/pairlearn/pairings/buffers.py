# SPDX-License-Identifier: BSD-3-Clause
"""Pairings with a buffer: the last s examples, all of them, or a random sample of the past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.pairings.pairs import PreviousExample
from pairlearn.pairings.plans import (
    EMPTY,
    PAIRINGS,
    ZERO_NEGATIVE,
    ZERO_POSITIVE,
    Arrival,
    Indices,
    Labels,
    OfflineSource,
    OnlineSource,
    Pairing,
    SlotPlan,
    draw_uniform,
    known_labels,
)
from pairlearn.validation import check_count, check_flag

Rows = NDArray[np.int64]

_NOTHING = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class _Buffer(Pairing):
    """Base class: a source is a policy that follows the examples one by one."""

    one_pair_a_step: ClassVar[bool] = False

    def _policy(self, rng: np.random.Generator) -> _Policy:
        raise TypeError(f"{type(self).__name__} must define _policy(rng).")

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source that draws the path i_0, i_1, ... and feeds the buffer with it."""
        return _SlotPath(self._policy(rng), n, rng, y)

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source that remembers the buffer."""
        return self._policy(rng)


@PAIRINGS.add("fifo")
@dataclass(frozen=True)
class FifoBuffer(_Buffer):
    """Each example meets the last s ones, their gradients averaged (remark after Theorem 6).

    Parameters
    ----------
    buffer_size : int, default=1
        The number s of remembered examples. One is the previous example.

    Examples
    --------
    >>> FifoBuffer(2).online(np.random.default_rng(0)).arrive(np.zeros(4)).plan.offsets
    array([0, 1, 3, 5])
    """

    buffer_size: int = 1

    def __post_init__(self) -> None:
        check_count("buffer_size", self.buffer_size)

    @property
    def reach(self) -> int:
        """The size s of the buffer."""
        return self.buffer_size

    def _policy(self, rng: np.random.Generator) -> _Policy:
        return _Fifo(self.buffer_size)

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source that draws the path i_0, i_1, ..."""
        if self.buffer_size == 1:
            return PreviousExample().offline(n, rng, y)
        return super().offline(n, rng, y)

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source that remembers the last s examples."""
        return PreviousExample().online(rng) if self.buffer_size == 1 else super().online(rng)


@PAIRINGS.add("all_previous")
@dataclass(frozen=True)
class AllPrevious(_Buffer):
    """Each example meets all earlier ones, their gradients averaged (Wang et al. 2012).

    Step t costs O(t), and memory grows with the number of steps: for small data only.

    Examples
    --------
    >>> AllPrevious().online(np.random.default_rng(0)).arrive(np.zeros(4)).plan.offsets
    array([0, 1, 3, 6])
    """

    def _policy(self, rng: np.random.Generator) -> _Policy:
        return _Fifo(None)


@PAIRINGS.add("reservoir", make=lambda size=1: ReservoirBuffer(size))
@dataclass(frozen=True)
class ReservoirBuffer(_Buffer):
    """Each example meets s draws, with replacement, from all earlier ones (RS-x, Kar et al. 2013).

    The first s examples fill the buffer. The next one renews every slot by a uniform draw from
    these s + 1 examples. From then on the t-th example takes each slot, independently, with
    probability 1/t. So at any time the slots are independent uniform draws from the past.

    Parameters
    ----------
    buffer_size : int, default=200
        The number s of slots; the authors of OLP recommend 200.

    References
    ----------
    Kar, Sriperumbudur, Jain, Karnick. On the generalization ability of online learning algorithms
    for pairwise loss functions. ICML 2013.

    Examples
    --------
    >>> plan = ReservoirBuffer(3).offline(10, np.random.default_rng(0)).draw(5)
    >>> plan.offsets
    array([ 0,  1,  3,  6,  9, 12])
    """

    buffer_size: int = 200

    def __post_init__(self) -> None:
        check_count("buffer_size", self.buffer_size)

    def _policy(self, rng: np.random.Generator) -> _Policy:
        return _Reservoir(self.buffer_size, rng)


@PAIRINGS.add("class_reservoirs", make=lambda size=1: ClassReservoirs(size, size))
@dataclass(frozen=True)
class ClassReservoirs(_Buffer):
    """Each example meets a sample, without replacement, of the other class (OAM, Zhao et al. 2011).

    Two reservoirs hold uniform samples of the positive and the negative examples so far. An example
    meets the reservoir of the other class, then enters its own with probability s/N, where N is the
    number of examples of its class so far. Steps change nothing until the other class has arrived.
    Labels must be -1 and +1.

    Parameters
    ----------
    n_positive, n_negative : int, default=100
        The sizes of the reservoirs.
    weighting : {"mean", "oam"}, default="mean"
        "mean" averages the gradients of a step, as all other pairings do. "oam" adds them and
        multiplies by max(1, N/s), where N is the number of examples of the other class so far and s
        the size of its reservoir. The sum then stands for all N examples, and grows with N.
    zero_filled : bool, default=False
        Whether unused slots count as examples at the origin, as in the code released with the
        paper. Until the reservoirs are full, it trains against examples that do not exist.

    References
    ----------
    Zhao, Hoi, Jin, Yang. Online AUC maximization. ICML 2011.

    Examples
    --------
    >>> y = np.array([1.0, -1.0, -1.0, 1.0])
    >>> plan = ClassReservoirs(2, 2).online(np.random.default_rng(0)).arrive(y).plan
    >>> plan.right, plan.offsets
    (array([0, 0, 1, 2]), array([0, 1, 2, 4]))
    """

    n_positive: int = 100
    n_negative: int = 100
    weighting: str = "mean"
    zero_filled: bool = False

    def __post_init__(self) -> None:
        check_count("n_positive", self.n_positive)
        check_count("n_negative", self.n_negative)
        check_flag("zero_filled", self.zero_filled)
        if self.weighting not in ("mean", "oam"):
            raise ValueError(f'weighting must be "mean" or "oam", got {self.weighting!r}.')

    def _policy(self, rng: np.random.Generator) -> _Policy:
        return _TwoReservoirs(self, rng)

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source that draws the path i_0, i_1, ... and feeds the reservoirs with it."""
        return super().offline(n, rng, _check_signs(known_labels(self, y)))


class _SlotPath:
    """An i.i.d. path of indices that a policy follows; the first index only fills the buffer."""

    def __init__(self, policy: _Policy, n: int, rng: np.random.Generator, y: Labels | None) -> None:
        self._policy, self._n, self._rng, self._y = policy, n, rng, y
        self._follow(draw_uniform(n, 1, rng))

    def _follow(self, path: Indices) -> SlotPlan:
        labels = np.empty(0) if self._y is None else self._y[path]
        return self._policy.follow(path.astype(np.int64), labels)

    def draw(self, n_steps: int) -> SlotPlan:
        return self._follow(draw_uniform(self._n, n_steps, self._rng))


class _Policy(OnlineSource):
    """The content of the slots, and how arriving examples change it."""

    def __init__(self, slots: Rows) -> None:
        self.slots = slots
        self._started = False

    def arrive(self, y: Labels) -> Arrival:
        n_buffered = self._renumber()
        rows = np.arange(n_buffered, n_buffered + len(y))
        if not self._started and len(y):
            self.follow(rows[:1], y[:1])
            rows, y, self._started = rows[1:], y[1:], True
        plan = self.follow(rows, y)
        return Arrival(plan, self.slots[self.slots >= 0])

    def follow(self, rows: Rows, labels: Labels) -> SlotPlan:
        """Return the steps of the next examples."""
        raise TypeError(f"{type(self).__name__} must define follow(rows, labels).")

    def _renumber(self) -> int:
        """Renumber the rows in the slots to 0, 1, ... in their order; return their number."""
        used = self.slots >= 0
        count = int(np.count_nonzero(used))
        self.slots[used] = np.arange(count)
        return count


class _Fifo(_Policy):
    """A ring of slots, or one slot per example if there is no size."""

    def __init__(self, size: int | None) -> None:
        super().__init__(np.full(size or 0, EMPTY, dtype=np.int64))
        self._size, self._seen = size, 0

    def follow(self, rows: Rows, labels: Labels) -> SlotPlan:
        count = len(rows)
        position = np.arange(self._seen, self._seen + count)
        if self._size is None:
            self.slots = np.concatenate([self.slots, np.full(count, EMPTY, dtype=np.int64)])
            taken, stop = position, position
        else:
            taken, stop = position % self._size, np.minimum(position, self._size)
        first, scale = np.zeros(count, dtype=np.int64), 1.0 / np.maximum(stop, 1)
        edges = np.arange(count + 1)
        plan = SlotPlan(rows, self.slots.copy(), first, stop, edges, taken, rows, scale)
        # If several examples take the same slot, the last one stays.
        self.slots[taken] = rows
        self._seen += count
        return plan


class _Reservoir(_Policy):
    def __init__(self, size: int, rng: np.random.Generator) -> None:
        super().__init__(np.full(size, EMPTY, dtype=np.int64))
        self._random = rng.integers(0, 2**64, size=1, dtype=np.uint64)
        self._seen = 0

    def follow(self, rows: Rows, labels: Labels) -> SlotPlan:
        from pairlearn.kernels.reservoirs import fill_with_replacement

        count, start = len(rows), self.slots.copy()
        offsets = np.zeros(count + 1, dtype=np.int64)
        # The number of edits is random: a first run counts them, a second run writes them.
        scratch = np.empty_like(start)
        before, room = (self._random.copy(), start.copy()), (scratch, offsets)
        n_edits = fill_with_replacement(rows, self._seen, *before, *room, _NOTHING, _NOTHING)
        edits = np.empty((2, n_edits), dtype=np.int64)
        fill_with_replacement(rows, self._seen, self._random, self.slots, *room, *edits)
        stop = np.minimum(np.arange(self._seen, self._seen + count), len(start))
        self._seen += count
        first, scale = np.zeros(count, dtype=np.int64), 1.0 / np.maximum(stop, 1)
        return SlotPlan(rows, start, first, stop, offsets, edits[0], edits[1], scale)


class _TwoReservoirs(_Policy):
    """Positives in the first slots, negatives in the others."""

    def __init__(self, pairing: ClassReservoirs, rng: np.random.Generator) -> None:
        sizes = (pairing.n_positive, pairing.n_negative)
        empty = (ZERO_POSITIVE, ZERO_NEGATIVE) if pairing.zero_filled else (EMPTY, EMPTY)
        super().__init__(np.repeat(np.array(empty, dtype=np.int64), sizes))
        self._sizes = np.array(sizes, dtype=np.int64)
        self._seen = np.zeros(2, dtype=np.int64)
        self._random = rng.integers(0, 2**64, size=1, dtype=np.uint64)
        self._sums = pairing.weighting == "oam"
        self._zero_filled = pairing.zero_filled

    def follow(self, rows: Rows, labels: Labels) -> SlotPlan:
        from pairlearn.kernels.reservoirs import fill_by_class

        _check_signs(labels)
        count, start = len(rows), self.slots.copy()
        first, stop = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
        offsets, scale = np.zeros(count + 1, dtype=np.int64), np.empty(count)
        edits = np.empty((2, count), dtype=np.int64)
        buffer = (self._sizes, self._seen, self._random, self.slots)
        ranges = (first, stop, offsets)
        rule = (self._zero_filled, self._sums)
        n_edits = fill_by_class(rows, labels, *buffer, *rule, *ranges, *edits, scale)
        return SlotPlan(rows, start, *ranges, edits[0, :n_edits], edits[1, :n_edits], scale)


def _check_signs(y: Labels) -> Labels:
    if not (np.abs(y) == 1.0).all():
        wrong = np.unique(y[np.abs(y) != 1.0])[:3]
        raise ValueError(
            f"ClassReservoirs needs labels -1 and +1, got {wrong.tolist()}; "
            "use np.where(y == positive, 1, -1)."
        )
    return y
