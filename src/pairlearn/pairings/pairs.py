# SPDX-License-Identifier: BSD-3-Clause
"""Pairings with one pair a step: the previous example, an earlier one, a random or a given pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.pairings.plans import (
    PAIRINGS,
    Arrival,
    Indices,
    Labels,
    OfflineSource,
    OnlineSource,
    Pairing,
    Plan,
    draw_uniform,
    known_labels,
)
from pairlearn.pairings.sound import check_rows
from pairlearn.typing import Vector

#: Up to this many examples, 64 random bits are enough for both indices of a pair.
_ONE_NUMBER = 2**20


@PAIRINGS.add("shuffled", make=lambda: PreviousExample("shuffled"))
@PAIRINGS.add("previous")
@dataclass(frozen=True)
class PreviousExample(Pairing):
    """Each example meets the previous one (Algorithms 1 and 2).

    Offline, step t meets (i_t, i_{t-1}). An index may follow itself; such a pair changes nothing
    and is counted.

    Parameters
    ----------
    order : {"uniform", "shuffled"}, default="uniform"
        The source of the indices i_0, i_1, ...: independent and uniform, as in Algorithm 1, or a
        new random order for each pass, so that every example has its turn. One shuffled pass over
        independent examples is Algorithm 2, and has the smaller bound (see `theory.advise`). A
        stream keeps its order of arrival.

    Examples
    --------
    >>> source = PreviousExample().offline(5, np.random.default_rng(0))
    >>> plan = source.draw(4)
    >>> bool((plan.left[:-1] == plan.right[1:]).all())
    True
    """

    order: str = "uniform"

    def __post_init__(self) -> None:
        if self.order not in ("uniform", "shuffled"):
            raise ValueError(f'order must be "uniform" or "shuffled", got {self.order!r}.')

    @property
    def has_online_form(self) -> bool:
        """Whether the pairing can serve a stream, which cannot be shuffled."""
        return self.order == "uniform"

    @property
    def reach(self) -> int:
        """One step."""
        return 1

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source that draws the path i_0, i_1, ..."""
        return _Path(n, rng) if self.order == "uniform" else _ShuffledPath(n, rng)

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source that remembers one example."""
        if self.order == "shuffled":
            raise ValueError(
                'PreviousExample("shuffled") needs all examples at once; a stream has its own '
                "order: use PreviousExample()."
            )
        return _Arrivals()


@PAIRINGS.add()
@dataclass(frozen=True)
class FrozenExample(Pairing):
    """Each example meets the first one, always.

    The paper's proofs need a previous example that changes. Here the partner's label and features
    never average out, and examples with the partner's label never contribute. It shows what the
    choice of the *previous* example is worth.

    Examples
    --------
    >>> plan = FrozenExample().offline(5, np.random.default_rng(0)).draw(4)
    >>> len(np.unique(plan.right))
    1
    """

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source that draws the path and pairs with i_0."""
        return _FrozenPath(n, rng)

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source that remembers the first example."""
        return _FrozenArrivals()


@PAIRINGS.add()
@dataclass(frozen=True)
class RandomEarlier(Pairing):
    """Step t meets (i_t, i_r) with r uniform among 0, ..., t - 1.

    All earlier indices are stored, so there is no online form. `ReservoirBuffer(1)` has the same
    law at each step with one stored example, but keeps that example for many steps.

    Examples
    --------
    >>> plan = RandomEarlier().offline(50, np.random.default_rng(0)).draw(3)
    >>> bool(plan.right[1] in plan.left[:1] or plan.right[1] == plan.right[0])
    True
    """

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source that remembers the whole path."""
        return _EarlierPath(n, rng)


@PAIRINGS.add("opposite")
@dataclass(frozen=True)
class PreviousOpposite(Pairing):
    """Each example meets the latest one with a different label, so no step is lost.

    Two remembered examples are enough, whatever the labels. Until two labels have been seen, an
    example meets itself, which changes nothing. The pairs depend on the labels: the risk weighs
    opposite pairs as before, but each example of the rarer class is met many times in a row.

    Examples
    --------
    >>> y = np.array([1.0, -1.0, 1.0])
    >>> plan = PreviousOpposite().online(np.random.default_rng(0)).arrive(y[[0, 1, 1]]).plan
    >>> plan.left, plan.right
    (array([1, 2]), array([0, 0]))
    """

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source that draws the path i_0, i_1, ..."""
        return _OppositePath(n, rng, known_labels(self, y))

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source that remembers two examples."""
        return _OppositeArrivals()


@PAIRINGS.add("random")
@dataclass(frozen=True)
class RandomPair(Pairing):
    """Each step takes a uniformly drawn pair of distinct examples (SGD_pair, Lei et al. 2020).

    Examples
    --------
    >>> plan = RandomPair().offline(3, np.random.default_rng(0)).draw(100)
    >>> plan.n_repeats
    0
    """

    @property
    def reach(self) -> int:
        """One step; both examples are drawn anew."""
        return 1

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source of distinct pairs."""
        return _RandomPairs(n, rng)


class _Path:
    """An i.i.d. path of indices, each paired with the one before it."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self._n, self._rng = n, rng
        self._last = draw_uniform(n, 1, rng)

    def draw(self, n_steps: int) -> Plan:
        path = draw_uniform(self._n, n_steps, self._rng, after=self._last)
        self._last = path[-1:]
        return Plan(path[1:], path[:-1])


class _ShuffledPath:
    """A new random order for each pass; the last example of a pass meets the next pass's first."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self._n, self._rng = n, rng
        self._waiting = self._shuffled()
        self._last, self._waiting = self._waiting[:1], self._waiting[1:]

    def _shuffled(self) -> Indices:
        order: Indices = self._rng.permutation(self._n)
        return order.astype(np.int32) if self._n <= 2**31 else order

    def draw(self, n_steps: int) -> Plan:
        parts, known = [self._last, self._waiting], len(self._waiting)
        while known < n_steps:
            parts.append(self._shuffled())
            known += self._n
        path: Any = np.concatenate(parts)
        self._last, self._waiting = path[n_steps : n_steps + 1], path[n_steps + 1 :]
        return Plan(path[1 : n_steps + 1], path[:n_steps])


class _Arrivals(OnlineSource):
    """Pairs each arriving example with the one before it."""

    def __init__(self) -> None:
        self._n_buffered = 0

    def arrive(self, y: Labels) -> Arrival:
        rows = np.arange(self._n_buffered + len(y))
        self._n_buffered = min(len(rows), 1)
        return Arrival(Plan(rows[1:], rows[:-1]), rows[-1:])


class _FrozenPath:
    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self._n, self._rng = n, rng
        self._frozen = draw_uniform(n, 1, rng)

    def draw(self, n_steps: int) -> Plan:
        left = draw_uniform(self._n, n_steps, self._rng)
        return Plan(left, np.full_like(left, self._frozen[0]))


class _FrozenArrivals(_Arrivals):
    def arrive(self, y: Labels) -> Arrival:
        left = np.arange(1, self._n_buffered + len(y))
        self._n_buffered = min(self._n_buffered + len(y), 1)
        return Arrival(Plan(left, np.zeros_like(left)), np.arange(self._n_buffered))


class _EarlierPath:
    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self._n, self._rng = n, rng
        self._path = draw_uniform(n, 1, rng)
        self._length = 1

    def draw(self, n_steps: int) -> Plan:
        known = self._length
        if known + n_steps > len(self._path):
            # The array doubles when full, so that many short draws stay linear.
            grown = np.empty(max(2 * len(self._path), known + n_steps), dtype=self._path.dtype)
            grown[:known] = self._path[:known]
            self._path = grown
        left = draw_uniform(self._n, n_steps, self._rng)
        self._path[known : known + n_steps] = left
        self._length = known + n_steps
        earlier = self._rng.integers(0, np.arange(known, self._length))
        return Plan(left, self._path[earlier])


class _OppositePath:
    def __init__(self, n: int, rng: np.random.Generator, y: Labels) -> None:
        self._n, self._rng, self._y = n, rng, y
        self._known = draw_uniform(n, 1, rng)

    def draw(self, n_steps: int) -> Plan:
        path = draw_uniform(self._n, n_steps, self._rng, after=self._known)
        partner = _latest_different(self._y[path])
        plan = Plan(path[len(self._known) :], path[partner[len(self._known) :]])
        self._known = path[_two_of(partner)]
        return plan


class _OppositeArrivals(OnlineSource):
    def __init__(self) -> None:
        self._known_y: Labels = np.empty(0)

    def arrive(self, y: Labels) -> Arrival:
        labels = np.concatenate([self._known_y, y])
        first = max(len(self._known_y), 1)
        partner = _latest_different(labels)
        keep = _two_of(partner)
        self._known_y = labels[keep]
        return Arrival(Plan(np.arange(first, len(labels)), partner[first:]), keep)


def _latest_different(labels: Labels) -> NDArray[np.int64]:
    """Return for each position the latest earlier one with another label, or the position."""
    position = np.arange(len(labels))
    changed = np.concatenate([[False], labels[1:] != labels[:-1]])
    latest = np.maximum.accumulate(np.where(changed, position - 1, -1))
    return np.where(latest >= 0, latest, position)


def _two_of(partner: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the last position, preceded by the latest one with another label if there is one."""
    last = len(partner) - 1
    return np.array([partner[last], last] if partner[last] != last else [last])


class _RandomPairs:
    """Uniform pairs of distinct indices, at a cost that does not grow with n."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self._n, self._rng = n, rng

    def draw(self, n_steps: int) -> Plan:
        from pairlearn.kernels.plan import draw_pairs, skip_own_index

        n = self._n
        if n <= _ONE_NUMBER:
            both = np.empty((2, n_steps), dtype=np.int32)
            draw_pairs(self._rng.integers(0, 2**64, dtype=np.uint64), n, both[0], both[1])
            return Plan(both[0], both[1], distinct=True)
        left = draw_uniform(n, n_steps, self._rng)
        right = draw_uniform(n - 1, n_steps, self._rng)
        skip_own_index(left, right)
        return Plan(left, right, distinct=True)


@PAIRINGS.add()
@dataclass(frozen=True)
class GivenPairs(Pairing):
    """Each step takes one of the given pairs, the rows (2k, 2k + 1) for some k.

    Offline, k is drawn uniformly and independently at each step. On a stream the pairs come in
    order and nothing is remembered.

    Examples
    --------
    >>> import numpy as np
    >>> plan = GivenPairs().offline(10, np.random.default_rng(0)).draw(20)
    >>> bool((plan.right == plan.left + 1).all())
    True
    """

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source of given pairs."""
        return _Drawn(_n_pairs(n), rng)

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source that takes the pairs as they come."""
        return _AsTheyCome()


@PAIRINGS.add()
@dataclass(frozen=True, eq=False)
class ListedPairs(Pairing):
    """Each step takes a pair drawn uniformly from a list of pairs of rows."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]

    def __post_init__(self) -> None:
        if self.left.shape != self.right.shape or self.left.ndim != 1 or not len(self.left):
            raise ValueError(
                f"A list of pairs needs as many left as right rows, at least one; got shapes "
                f"{self.left.shape} and {self.right.shape}."
            )

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source of listed pairs."""
        for side in ("left", "right"):
            check_rows(f"ListedPairs: {side}", getattr(self, side), 0, n)
        return _Listed(self.left, self.right, rng)


def as_rows_of_pairs(pairs: Vector, y: ArrayLike) -> tuple[Vector, Vector]:
    """Return pairs (n, 2, d) as 2 n rows; the labels of a pair are equal if it is similar."""
    signs = np.asarray(y, dtype=np.float64)
    labels = np.column_stack([np.ones(len(signs)), signs]).ravel()
    return np.ascontiguousarray(pairs.reshape(-1, pairs.shape[2])), labels


def _n_pairs(n: int) -> int:
    if n % 2:
        raise ValueError(f"Given pairs need an even number of rows, got {n}.")
    return n // 2


class _Drawn:
    def __init__(self, n_pairs: int, rng: np.random.Generator) -> None:
        self._n_pairs, self._rng = n_pairs, rng

    def draw(self, n_steps: int) -> Plan:
        left = 2 * self._rng.integers(0, self._n_pairs, n_steps)
        return Plan(left, left + 1)


class _Listed:
    def __init__(
        self, left: NDArray[np.int64], right: NDArray[np.int64], rng: np.random.Generator
    ) -> None:
        self._left, self._right, self._rng = left, right, rng

    def draw(self, n_steps: int) -> Plan:
        chosen = self._rng.integers(0, len(self._left), n_steps)
        return Plan(self._left[chosen], self._right[chosen])


class _AsTheyCome(OnlineSource):
    def arrive(self, y: Vector) -> Arrival:
        left = 2 * np.arange(_n_pairs(len(y)))
        return Arrival(Plan(left, left + 1), np.empty(0, dtype=np.int64))
