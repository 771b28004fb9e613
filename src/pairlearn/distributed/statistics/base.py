# SPDX-License-Identifier: BSD-3-Clause
"""The base of statistics that merge, with three verbs: `partial_state`, `merge` and `finish`.

A state is a dict of arrays, so any engine can measure, pickle and move it. The state of no examples
is the empty dict. `merge` is associative and commutative up to rounding, so any partition of the
rows gives the result of one pass over all of them. To get the same bits every time, merge the
states in a fixed order: use `Statistic.merge_all`, or your own tree that does not depend on which
partition answers first.
"""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.distributed.statistics.chunk import ScaledTable, same_width, table_of
from pairlearn.estimators.shared.scaling import Scaling
from pairlearn.solvers.rows import as_rows

State = dict[str, NDArray[Any]]
_T = TypeVar("_T")

#: The number of states that are merged at once, where that is quicker than by twos.
_AT_ONCE = 8


class Statistic(ABC):
    """A question about the examples: it travels to the partitions, and its states travel back.

    Your own statistic defines `partial_state`, `combine` and `finish`.

    Attributes
    ----------
    reads_cells : bool
        Whether the statistic takes the columns of a partition as they are. Others get numbers.

    Examples
    --------
    >>> class Count(Statistic):
    ...     def partial_state(self, X, y=None, sample_weight=None):
    ...         return {"n": np.array(len(X))}
    ...     def combine(self, a, b):
    ...         return {"n": a["n"] + b["n"]}
    ...     def finish(self, state):
    ...         return int(self.needs(state)["n"])
    >>> count = Count()
    >>> count.finish(count.merge_all(count.partial_state(np.eye(n)) for n in (2, 3, 4)))
    9
    """

    reads_cells: ClassVar[bool] = False

    @abstractmethod
    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the state of one chunk; it is empty if all weights are zero."""

    @abstractmethod
    def combine(self, a: State, b: State) -> State:
        """Merge two states that are not empty."""

    @abstractmethod
    def finish(self, state: State) -> Any:
        """Return the result, from the state of all examples."""

    def of_part(self, part: int) -> Statistic:
        """Return the statistic for one partition; only private ones depend on its number."""
        # An engine may give a partition in batches and merge their states. Private statistics with
        # a noise of each partition refuse that: they need all rows of a partition at once.
        return self

    def merge(self, a: State, b: State) -> State:
        """Merge two states; an empty state changes nothing."""
        if not a or not b:
            return a or b
        return self.combine(a, b)

    def merge_all(self, states: Iterable[State]) -> State:
        """Merge all states in their order, neighbours first; few of them are held at a time."""
        return in_order(self.merge, states, {})

    def needs(self, state: State) -> State:
        """Return the state itself; refuse the state of no examples."""
        if not state:
            raise ValueError(
                f"{type(self).__name__} has seen no example: all partitions are empty, or all "
                "weights are zero."
            )
        return state


def in_order(merge: Callable[[_T, _T], _T], items: Iterable[_T], nothing: _T) -> _T:
    """Merge all items in their order, neighbours first; few of them are held at a time.

    >>> in_order(lambda a, b: f"({a}{b})" if b else a, "abcde", "")
    '(((ab)(cd))e)'
    """
    waiting: list[_T] = []
    for number, item in enumerate(items, start=1):
        waiting.append(item)
        # As in a binary counter: two trees of one size become one.
        carried = number
        while carried % 2 == 0:
            later = waiting.pop()
            waiting[-1] = merge(waiting[-1], later)
            carried //= 2
    merged = nothing
    for item in reversed(waiting):
        merged = merge(item, merged)
    return merged


def blocks_of(states: Iterable[State]) -> Iterator[list[State]]:
    """Yield some states at a time, a power of two: blocks are branches of the tree of merges.

    >>> [len(block) for block in blocks_of([{}] * 11)]
    [8, 3]
    """
    rest = iter(states)
    while block := list(itertools.islice(rest, _AT_ONCE)):
        yield block


class Together(Statistic):
    """Several statistics of the same examples in one pass.

    Parameters
    ----------
    statistics : mapping of str to Statistic
        The statistics by name.

    Examples
    --------
    >>> from pairlearn.distributed import FeatureScales, LabelMoments
    >>> both = Together({"scales": FeatureScales(), "moments": LabelMoments()})
    >>> state = both.partial_state(np.array([[0.0], [2.0]]), [0, 1])
    >>> both.finish(state)["moments"].counts
    array([1., 1.])
    """

    def __init__(self, statistics: Mapping[str, Statistic]) -> None:
        self.statistics = dict(statistics)
        for name in self.statistics:
            if "/" in name:
                raise ValueError(f"a name of a statistic must not hold '/', got {name!r}.")

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the states of all, each array under the name of its statistic."""
        return self._joined(
            {name: one.partial_state(X, y, sample_weight) for name, one in self.statistics.items()}
        )

    def combine(self, a: State, b: State) -> State:
        """Merge each."""
        ours, theirs = self._parts(a), self._parts(b)
        return self._joined(
            {name: one.merge(ours[name], theirs[name]) for name, one in self.statistics.items()}
        )

    def merge_all(self, states: Iterable[State]) -> State:
        """Merge all states, some at a time as each statistic merges many."""
        return super().merge_all(map(self._merge_some, blocks_of(states)))

    def _merge_some(self, states: list[State]) -> State:
        parts = [self._parts(state) for state in states]
        return self._joined(
            {
                name: one.merge_all([part[name] for part in parts])
                for name, one in self.statistics.items()
            }
        )

    def of_part(self, part: int) -> Together:
        """Return the statistics for a partition."""
        return Together({name: one.of_part(part) for name, one in self.statistics.items()})

    def finish(self, state: State) -> dict[str, Any]:
        """Finish each."""
        parts = self._parts(state)
        return {name: one.finish(parts[name]) for name, one in self.statistics.items()}

    def _parts(self, state: State) -> dict[str, State]:
        parts: dict[str, State] = {name: {} for name in self.statistics}
        for key, value in state.items():
            name, _, field = key.partition("/")
            parts[name][field] = value
        return parts

    def _joined(self, parts: Mapping[str, State]) -> State:
        return {
            f"{name}/{field}": value
            for name, part in parts.items()
            for field, value in part.items()
        }


class OfOthers(Statistic):
    """Base class of statistics that ask another one, `statistic`, about changed examples."""

    statistic: Statistic

    def of_part(self, part: int) -> Self:
        """Return the statistic for a partition."""
        own = copy.copy(self)
        own.statistic = self.statistic.of_part(part)
        return own

    def combine(self, a: State, b: State) -> State:
        """Merge."""
        return self.statistic.combine(a, b)

    def merge_all(self, states: Iterable[State]) -> State:
        """Merge all."""
        return self.statistic.merge_all(states)

    def finish(self, state: State) -> Any:
        """Finish."""
        return self.statistic.finish(state)


class Scaled(OfOthers):
    """A statistic of rows that are scaled first.

    Parameters
    ----------
    statistic : Statistic
        The statistic of the scaled rows.
    scaling : Scaling
        Centres and scales, the same for all partitions.

    Examples
    --------
    >>> from pairlearn.distributed import FeatureScales
    >>> half = Scaling(np.ones(1), np.zeros(1), np.array([0.5]))
    >>> float(Scaled(FeatureScales(), half).partial_state(np.array([[4.0]]))["high"][0])
    2.0
    """

    def __init__(self, statistic: Statistic, scaling: Scaling) -> None:
        self.statistic, self.scaling = statistic, scaling

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the state of one chunk, scaled."""
        if not X.shape[0]:
            return {}
        table = table_of(X)
        same_width(table.shape[1], len(self.scaling.factor))
        if isinstance(table, np.ndarray):
            scaled: Any = ScaledTable(table, self.scaling)
        else:
            scaled = self.scaling.apply(as_rows(table))
        return self.statistic.partial_state(scaled, y, sample_weight)
