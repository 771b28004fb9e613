# SPDX-License-Identifier: BSD-3-Clause
"""A sample of each class that depends on what the examples hold, and on nothing else.

The key of an example is a hash of its row and of a seed (`content.keys_of`). The sample has the
different examples with the smallest keys of each class, and how much all copies of each of them
weigh. So neither order nor chunks of the examples matter, and samples of parts make the sample of
all. A class of few different examples is in the sample as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pairlearn.content import Hashes, keys_of, row_hashes
from pairlearn.folds import Keys
from pairlearn.solvers.rows import CsrRows, Rows
from pairlearn.typing import Places, Vector
from pairlearn.validation import check_count

#: The number of examples of each class, by default.
SIZE = 2_500
#: The limit on the numbers of a sample, for each class.
_MOST_NUMBERS = 4_000_000
#: No key is above this one.
_LAST = np.uint64(2**64 - 1)
#: The labels, in the order of the sample.
_SIGNS = (-1.0, 1.0)


class Drawn(NamedTuple):
    """The examples of a sample, class by class and in the order of their keys."""

    X: Vector
    y: Vector
    #: The weight of all copies of an example; empty if all are one.
    weight: Vector
    #: Deal folds of the sample.
    keys: Keys


def cap_of(size: int, n_features: int) -> int:
    """Return the number of examples of a class: `size`, or less for very many features.

    >>> cap_of(2_500, 30), cap_of(2_500, 4_000)
    (2500, 1000)
    """
    return max(min(size, _MOST_NUMBERS // n_features), 1)


def different(
    index: Places, keys: Hashes, cap: int, weight: Vector, copies: Places
) -> tuple[Places, Vector, Places]:
    """Return one of each of the first `cap` different examples, with the sums over its copies."""
    _, first, place = np.unique(keys[index], return_index=True, return_inverse=True)
    weights = np.zeros(len(first))
    np.add.at(weights, place, weight[index])
    counts = np.zeros(len(first), dtype=np.int64)
    np.add.at(counts, place, copies[index])
    return index[first[:cap]], weights[:cap], counts[:cap]


def candidates(index: Places, keys: Hashes, cap: int) -> Places:
    """Return the examples with the smallest keys, all copies of at least `cap` different ones."""
    own, looked_at = keys[index], cap
    while looked_at < len(own):
        # The rest need not be sorted.
        smallest = np.unique(np.partition(own, looked_at - 1)[:looked_at])
        if len(smallest) >= cap:
            return np.asarray(index[own <= smallest[cap - 1]])
        looked_at *= 4
    return index


def with_copies(
    labels: NDArray[Any], weight: Vector, copies: Places, cap: int
) -> tuple[Places, Vector]:
    """Return which examples a sample lists, one as often as it has copies, and their weights.

    Copies are listed where all of their class have room: that class is then as in a table in
    memory. Elsewhere an example is listed once and weighs as much as its copies. No weights are
    returned if all are one.
    """
    again = np.ones(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        own = labels == label
        if copies[own].sum() <= cap and (weight[own] == copies[own]).all():
            again[own] = copies[own]
    kept = np.repeat(np.arange(len(labels)), again)
    weight = (weight / again)[kept]
    return kept, np.empty(0) if (weight == 1.0).all() else weight


def drawn_from(rows: Rows, y: Vector, weight: Vector, seed: int) -> Drawn:
    """Return the sample that `ContentSample` draws from chunks, of all examples at once.

    `weight` is positive, or empty.

    >>> from pairlearn.solvers.rows import as_rows
    >>> X, y = np.repeat(np.arange(9000.0), 2)[:, None], np.tile([-1.0, 1.0], 9000)
    >>> drawn = drawn_from(as_rows(X), y, np.empty(0), 3)
    >>> other = ContentSample(1, seed=3).add(as_rows(X), y).drawn()
    >>> all(np.array_equal(a, b) for a, b in zip(drawn[:3], other[:3], strict=True))
    True
    """
    keys = keys_of(row_hashes(rows.matrix), seed)
    own, ones = weight if len(weight) else np.ones(len(y)), np.ones(len(y), dtype=np.int64)
    cap, found = cap_of(SIZE, rows.shape[1]), []
    for sign in _SIGNS:
        index = candidates(np.flatnonzero(y == sign), keys, cap)
        found.append(different(index, keys, cap, own, ones))
    kept, weights, copies = (np.concatenate(parts) for parts in zip(*found, strict=True))
    listed, weights = with_copies(y[kept], weights, copies, cap)
    index = kept[listed]
    return Drawn(_dense(rows.take(index)), y[index], weights, Keys(len(index), seed))


class _Examples(NamedTuple):
    """Dense rows with labels -1 and 1, weights, numbers of copies and hashes."""

    X: Vector
    y: Vector
    weight: Vector
    copies: Places
    hashes: Hashes

    def take(self, index: Any) -> _Examples:
        return _Examples(*(column[index] for column in self))

    def names(self) -> list[tuple[int, float]]:
        """Return what tells different examples apart."""
        return list(zip(self.hashes.tolist(), self.y.tolist(), strict=True))


class ContentSample:
    """A uniform sample of the different examples of two classes, from chunks in any order.

    It holds all examples whose keys are at most a limit. A class that has more than twice `size` of
    them lowers its limit. Those that are not drawn take the place of examples that are taken back.

    Parameters
    ----------
    n_features : int
        Number of features.
    seed : int
        The seed of the keys.
    size : int, default=2500
        The number of examples of each class; it is smaller for more than 1,600 features.

    Examples
    --------
    >>> from pairlearn.solvers.rows import as_rows
    >>> X, y = np.arange(10.0)[:, None], np.tile([-1.0, 1.0], 5)
    >>> whole = ContentSample(1, seed=0, size=2).add(as_rows(X), y)
    >>> parts = ContentSample(1, seed=0, size=2)
    >>> for k in (2, 0, 1):
    ...     parts = parts.add(as_rows(X[k::3]), y[k::3])
    >>> bool((parts.drawn().X == whole.drawn().X).all()), whole.drawn().y
    (True, array([-1., -1.,  1.,  1.]))
    """

    def __init__(self, n_features: int, *, seed: int, size: int = SIZE) -> None:
        self.n_features, self.seed = n_features, seed
        self._cap = cap_of(check_count("size", size), n_features)
        self._room = 2 * self._cap
        self._limits = np.full(2, _LAST)
        none = np.empty(0)
        self._found = _Examples(
            np.empty((0, n_features)), none, none, none.astype(np.int64), none.astype(np.uint64)
        )
        # What came since they were sorted.
        self._new: list[_Examples] = []

    def copy(self) -> ContentSample:
        """Return a sample of its own with the same examples."""
        twin = ContentSample(self.n_features, seed=self.seed)
        twin._cap, twin._room, twin._limits = self._cap, self._room, self._limits.copy()
        twin._found = self._found
        twin._new = list(self._new)
        return twin

    def add(self, rows: Rows, y: Vector, weight: Vector | None = None) -> ContentSample:
        """Add examples with labels -1 and 1; `weight` may be None or empty."""
        hashes = row_hashes(rows.matrix)
        keys = self._keys(hashes)
        own = np.ones(len(y)) if weight is None or not len(weight) else weight
        chosen = []
        for kind, sign in enumerate(_SIGNS):
            index = np.flatnonzero((y == sign) & (own > 0.0) & (keys <= self._limits[kind]))
            some = candidates(index, keys, self._room)
            if len(some) < len(index):
                self._limits[kind] = keys[some].max()
            chosen.append(some)
        kept = np.concatenate(chosen)
        if len(kept):
            ones = np.ones(len(kept), dtype=np.int64)
            new = _Examples(_dense(rows.take(kept)), y[kept], own[kept], ones, hashes[kept])
            self._new.append(new)
        if sum(len(new.y) for new in self._new) > self._cap:
            self._sort()
        return self

    def _keys(self, hashes: Hashes) -> Hashes:
        return keys_of(hashes, self.seed)

    def _sort(self) -> None:
        """Join copies, and leave out what is beyond the limits."""
        if not self._new:
            return
        every = _Examples(*map(np.concatenate, zip(self._found, *self._new, strict=True)))
        keys = self._keys(every.hashes)
        limits, parts = self._limits.copy(), []
        for kind, sign in enumerate(_SIGNS):
            index = np.flatnonzero((every.y == sign) & (keys <= limits[kind]))
            first, weight, copies = different(
                index, keys, self._room + 1, every.weight, every.copies
            )
            if len(first) > self._room:
                first, weight, copies = first[:-1], weight[:-1], copies[:-1]
                limits[kind] = keys[first[-1]]
            parts.append(every.take(first)._replace(weight=weight, copies=copies))
        self._found = _Examples(*map(np.concatenate, zip(*parts, strict=True)))
        self._limits, self._new = limits, []

    def without(self, rows: Rows, y: Vector, weight: Vector | None = None) -> ContentSample:
        """Return the sample without some examples; the limits stay.

        Examples beyond the limits are in no sample; of the others each must have been added.
        """
        rest = self.copy()
        rest._sort()
        gone = ContentSample(self.n_features, seed=self.seed)
        gone._room, gone._limits = rows.shape[0] or 1, rest._limits.copy()
        gone.add(rows, y, weight)._sort()
        taken, found = gone._found, rest._found
        places = {name: k for k, name in enumerate(found.names())}
        left_weight, left = found.weight.copy(), found.copies.copy()
        for k, name in enumerate(taken.names()):
            place = places.get(name)
            there = place is not None
            if place is not None:
                left_weight[place] -= taken.weight[k]
                left[place] -= taken.copies[k]
                there = bool(left[place] >= 0 and left_weight[place] >= 0.0)
                there = there and (left_weight[place] == 0.0) == (left[place] == 0)
            if not there:
                raise ValueError(
                    "These examples are not all among those that were learned; take back only "
                    "examples that were added, with their labels and weights."
                )
        rest._found = found._replace(weight=left_weight, copies=left).take(left > 0)
        return rest

    def drawn(self) -> Drawn:
        """Return the examples of the sample."""
        self._sort()
        places = [np.flatnonzero(self._found.y == sign)[: self._cap] for sign in _SIGNS]
        found = self._found.take(np.concatenate(places))
        kept, weight = with_copies(found.y, found.weight, found.copies, self._cap)
        return Drawn(found.X[kept], found.y[kept], weight, Keys(len(kept), self.seed))

    def state(self) -> dict[str, Any]:
        """Return the arrays from which `from_state` makes the sample again."""
        self._sort()
        found = self._found
        return {
            "seed": self.seed,
            "cap": self._cap,
            "limits": self._limits.view(np.int64),
            "rows": found.X,
            "y": found.y,
            "weight": found.weight,
            "copies": found.copies,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_features: int) -> ContentSample:
        """Return the sample of a saved state."""
        made = cls(n_features, seed=int(state["seed"]))
        made._cap = int(state["cap"])
        made._room = 2 * made._cap
        made._limits = state["limits"].view(np.uint64).copy()
        X = state["rows"]
        made._new = [_Examples(X, state["y"], state["weight"], state["copies"], row_hashes(X))]
        made._sort()
        return made


def _dense(rows: Rows) -> Vector:
    """Return rows as a table of float64; repeated entries of a sparse row add up."""
    if isinstance(rows, CsrRows):
        return np.asarray(rows.matrix.toarray(), dtype=np.float64)
    return np.asarray(rows.X, dtype=np.float64)
