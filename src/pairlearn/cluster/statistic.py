# SPDX-License-Identifier: BSD-3-Clause
"""Statistics that merge, with three verbs: `partial_state`, `merge` and `finish`.

A state is a dict of arrays, so any engine can measure, pickle and move it. The state of no examples
is the empty dict. `merge` is associative and commutative up to rounding. For the same bits every
time, merge states in a fixed order: `Statistic.merge_all` is the one tree of merges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.cluster.rows import as_chunk, mark_of, same_width
from pairlearn.content import mixed, row_hashes, with_column
from pairlearn.features import FeatureMap
from pairlearn.solvers.rows import CsrRows, as_rows

State = dict[str, NDArray[Any]]
#: Rows that are mapped at once.
_BLOCK = 4096


class Statistic(ABC):
    """A question about the examples: it travels to the partitions, and its states travel back.

    Your own statistic defines `partial_state`, `combine` and `finish`.

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

    @abstractmethod
    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the state of one chunk; it is empty if all weights are zero."""

    @abstractmethod
    def combine(self, a: State, b: State) -> State:
        """Merge two states that are not empty."""

    @abstractmethod
    def finish(self, state: State) -> Any:
        """Return the result, from the state of all examples."""

    def merge(self, a: State, b: State) -> State:
        """Merge two states; an empty state changes nothing."""
        if not a or not b:
            return a or b
        return self.combine(a, b)

    def merge_all(self, states: Iterable[State]) -> State:
        """Merge all states in their order, neighbours first; few of them are held at a time."""
        waiting: list[State] = []
        for number, state in enumerate(states, start=1):
            waiting.append(state)
            # As in a binary counter: two trees of one size become one.
            carried = number
            while carried % 2 == 0:
                later = waiting.pop()
                waiting[-1] = self.merge(waiting[-1], later)
                carried //= 2
        merged: State = {}
        for state in reversed(waiting):
            merged = self.merge(state, merged)
        return merged

    def needs(self, state: State) -> State:
        """Return the state itself; refuse the state of no examples."""
        if not state:
            raise ValueError(
                f"{type(self).__name__} has seen no example: all partitions are empty, or all "
                "weights are zero."
            )
        return state


class Together(Statistic):
    """Several statistics of the same examples in one pass.

    Parameters
    ----------
    statistics : mapping of str to Statistic
        The statistics by name.

    Examples
    --------
    >>> from pairlearn.cluster import ColumnExtents, LabelMoments
    >>> both = Together({"extents": ColumnExtents(), "moments": LabelMoments()})
    >>> state = both.partial_state(np.array([[0.0], [2.0]]), [0, 1])
    >>> both.finish(state)["extents"].high
    array([2.])
    """

    def __init__(self, statistics: Mapping[str, Statistic]) -> None:
        self.statistics = dict(statistics)
        for name in self.statistics:
            if "/" in name:
                raise ValueError(f"a name of a statistic must not hold '/', got {name!r}.")

    def partial_state(
        self, X: Any, y: Any = None, sample_weight: Any = None, **others: Any
    ) -> State:
        """Return the states of all, each array under the name of its statistic."""
        asked = self.statistics.items()
        return _joined(
            {name: one.partial_state(X, y, sample_weight, **others) for name, one in asked}
        )

    def combine(self, a: State, b: State) -> State:
        """Merge each."""
        ours, theirs = self.parts(a), self.parts(b)
        return _joined(
            {name: one.merge(ours[name], theirs[name]) for name, one in self.statistics.items()}
        )

    def finish(self, state: State) -> dict[str, Any]:
        """Finish each."""
        parts = self.parts(state)
        return {name: one.finish(parts[name]) for name, one in self.statistics.items()}

    def parts(self, state: State) -> dict[str, State]:
        """Return the state of each."""
        parts: dict[str, State] = {name: {} for name in self.statistics}
        for key, value in state.items():
            name, _, field = key.partition("/")
            parts[name][field] = value
        return parts


def _joined(parts: Mapping[str, State]) -> State:
    return {f"{name}/{field}": v for name, part in parts.items() for field, v in part.items()}


class Mapped(Statistic):
    """A statistic of rows that a feature map has mapped, block by block.

    Parameters
    ----------
    statistic : Statistic
        The statistic of the mapped rows.
    features : FeatureMap
        A fitted map, the same for all partitions.

    Examples
    --------
    >>> from pairlearn.cluster import ColumnExtents
    >>> from pairlearn.features import Hats
    >>> X = np.arange(6.0)[:, None]
    >>> statistic = Mapped(ColumnExtents(), Hats(n_knots=2).fit(X))
    >>> statistic.finish(statistic.partial_state(X)).high
    array([1.])
    """

    def __init__(self, statistic: Statistic, features: FeatureMap) -> None:
        self.statistic, self.features = statistic, features

    def partial_state(self, X: Any, y: Any = None, sample_weight: Any = None) -> State:
        """Return the state of one chunk, mapped."""
        chunk = as_chunk(X, y, sample_weight)
        if chunk is None:
            return {}
        same_width(chunk.shape[1], int(self.features.n_inputs or 0))
        states = []
        for now, block in chunk.blocks(_BLOCK):
            labels = None if chunk.labels is None else chunk.labels[now]
            mapped = self.features.transform(block)
            states.append(self.statistic.partial_state(mapped, labels, chunk.weight[now]))
        return self.statistic.merge_all(states)

    def combine(self, a: State, b: State) -> State:
        """Merge."""
        return self.statistic.combine(a, b)

    def finish(self, state: State) -> Any:
        """Finish."""
        return self.statistic.finish(state)


class RowContent(Statistic):
    """The number of rows and a sum of hashes of all that they hold, the same in any order.

    Examples
    --------
    >>> X, y = np.arange(6.0)[:, None], np.array(["a", "b", "a", "b", "b", "a"])
    >>> content = RowContent()
    >>> whole = content.partial_state(X, y)
    >>> halves = content.merge(*(content.partial_state(X[k::2], y[k::2]) for k in (1, 0)))
    >>> content.finish(whole) == content.finish(halves), content.finish(whole)[0]
    (True, 6)
    """

    def partial_state(
        self, X: Any, y: Any = None, sample_weight: Any = None, **others: Any
    ) -> State:
        """Return the facts of one chunk."""
        if not X.shape[0]:
            return {}
        table = as_rows(X, finite=None)
        hashes = row_hashes(table if isinstance(table, CsrRows) else table.X)
        for number, column in enumerate((y, sample_weight, *others.values())):
            if column is not None:
                hashes = with_column(hashes, _as_numbers(column), number)
        return {
            "total": np.array([mixed(hashes).sum(dtype=np.uint64)]),
            "n_rows": np.array(X.shape[0]),
        }

    def combine(self, a: State, b: State) -> State:
        """Add."""
        return {name: a[name] + b[name] for name in a}

    def finish(self, state: State) -> tuple[int, int]:
        """Return the number of rows, and the sum of their hashes."""
        return (int(state["n_rows"]), int(state["total"][0])) if state else (0, 0)


def _as_numbers(column: Any) -> NDArray[np.float64]:
    """Return a column as numbers; those of texts are hashes of them."""
    values = np.asarray(column).reshape(-1)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    names, code = np.unique(values.astype(str), return_inverse=True)
    marks = np.array([float(mark_of(name) >> 11) for name in names.tolist()])
    return np.asarray(marks[code])
