# SPDX-License-Identifier: BSD-3-Clause
"""Pair examples within queries: each example meets the previous one of its query."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.pairings.plans import (
    PAIRINGS,
    Arrival,
    Labels,
    OfflineSource,
    OnlineSource,
    Pairing,
    Plan,
)
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_names, check_one_type


def query_names(qid: ArrayLike, n: int) -> NDArray[Any]:
    """Return the names of the queries of n examples as an array; refuse missing ones."""
    names = check_names("qid", qid, "query")
    if names.shape != (n,):
        raise ValueError(
            f"qid must hold one query for each of the {n} rows of X, got shape {names.shape}."
        )
    if names.dtype.kind == "f" and not np.isfinite(names).all():
        raise ValueError("qid contains infinity; every example needs a query.")
    return names


def number_queries(qid: ArrayLike, n: int) -> NDArray[np.int64]:
    """Return the queries of n examples as numbers 0, 1, ..., sorted by name."""
    names = query_names(qid, n)
    return np.asarray(np.unique(names, return_inverse=True)[1], dtype=np.int64)


def has_pairs(query: NDArray[np.int64], grades: Vector) -> bool:
    """Return whether two examples of one query have different grades."""
    order = np.lexsort((grades, query))
    return bool(((np.diff(query[order]) == 0) & (np.diff(grades[order]) != 0)).any())


@PAIRINGS.add()
@dataclass(frozen=True, eq=False)
class PreviousOfQuery(Pairing):
    """Each example meets the previous one of the same query.

    Offline, indices i_0, i_1, ... are independent and uniform over all examples, and i_t meets the
    last index drawn from its query. Given the query, the pair is a uniform ordered pair of its
    examples. So the expected gradient is that of a risk in which a query weighs as its share of the
    examples, and all pairs of a query weigh the same. The first draw of each query has no partner;
    it meets itself, which changes nothing.

    On a stream queries may interleave. One example of each open query is remembered. If there are
    more than `max_open`, the query that was silent for longest is forgotten.

    Parameters
    ----------
    qid : array-like of shape (n,), optional
        The query of each stored example; a stream gives them with each chunk.
    max_open : int, default=10_000
        The largest number of queries that a stream remembers.

    Examples
    --------
    >>> import numpy as np
    >>> pairing = PreviousOfQuery([0, 0, 1, 1])
    >>> plan = pairing.offline(4, np.random.default_rng(0)).draw(100)
    >>> bool((plan.left // 2 == plan.right // 2).all())
    True
    """

    qid: Any = field(default=None, repr=False)
    max_open: int = 10_000

    def __post_init__(self) -> None:
        check_count("max_open", self.max_open)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PreviousOfQuery)
            and self.max_open == other.max_open
            and np.array_equal(self.qid, other.qid)
        )

    def __hash__(self) -> int:
        return hash(self.max_open)

    def offline(self, n: int, rng: np.random.Generator, y: Labels | None = None) -> OfflineSource:
        """Return a source that draws the path i_0, i_1, ..."""
        if self.qid is None:
            raise ValueError("Pairs within queries need qid; pass PreviousOfQuery(qid).")
        return _QueryPath(number_queries(self.qid, n), rng)

    def online(self, rng: np.random.Generator) -> OnlineSource:
        """Return a source that remembers one example of each open query."""
        return GroupedSource(self.max_open)


class _QueryPath:
    """An i.i.d. path; each index is paired with the last one drawn from its query."""

    def __init__(self, query: NDArray[np.int64], rng: np.random.Generator) -> None:
        self._query, self._rng = query, rng
        self._latest = np.full(int(query.max(initial=-1)) + 1, -1, dtype=np.int64)

    def draw(self, n_steps: int) -> Plan:
        from pairlearn.kernels.plan import draw_indices, meet_latest_of_group

        n = len(self._query)
        dtype: Any = np.int32 if n <= 2**31 else np.int64
        left = np.empty(n_steps, dtype=dtype)
        draw_indices(self._rng.integers(0, 2**64, dtype=np.uint64), n, left)
        right = np.empty_like(left)
        meet_latest_of_group(left, self._query, self._latest, right)
        return Plan(left, right)


class GroupedSource(OnlineSource):
    """Pairs each arriving example with the previous one of its query.

    At most `max_open` queries are remembered.
    """

    def __init__(self, max_open: int) -> None:
        self._max_open = max_open
        #: The open queries, the one that was silent for longest first.
        self._open: OrderedDict[Any, int] = OrderedDict()
        #: Number of queries that were forgotten because too many were open.
        self.n_forgotten = 0

    def state(self) -> dict[str, Any]:
        """Return the open queries and the number of forgotten ones."""
        return {"open": self._open.copy(), "n_forgotten": self.n_forgotten}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state returned by `state`."""
        self._open, self.n_forgotten = OrderedDict(state["open"]), int(state["n_forgotten"])

    def arrive(self, y: Labels) -> Arrival:
        """Refuse a chunk without queries."""
        return self.arrive_grouped(y, None)

    def arrive_grouped(self, y: Labels, qid: ArrayLike | None) -> Arrival:
        """Return the steps of arriving examples of given queries, and the examples to remember."""
        if qid is None:
            raise ValueError("Pairs within queries need qid with every chunk of a stream.")
        names = query_names(qid, len(y)).tolist()
        known = self._open
        if names and known:
            check_one_type("qid", names[0], next(reversed(known)), "queries")
        left, right = [], []
        for row, name in enumerate(names, start=len(known)):
            previous = known.pop(name, None)
            if previous is not None:
                left.append(row)
                right.append(previous)
            known[name] = row
            if len(known) > self._max_open:
                known.popitem(last=False)
                self.n_forgotten += 1
        keep = np.fromiter(known.values(), dtype=np.int64, count=len(known))
        for position, name in enumerate(known):
            known[name] = position
        plan = Plan(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64))
        return Arrival(plan, keep)
