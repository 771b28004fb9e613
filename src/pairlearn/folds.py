# SPDX-License-Identifier: BSD-3-Clause
"""Folds of held-out examples: shuffle each group, deal it to folds, list training and test rows.

`deal` gives the fold of each example, `splits_of` turns folds into pairs of index arrays, and
`stratified` does both for classes. `Keys` shuffle by what the examples hold, so that folds depend
on neither the order of the rows nor the machine.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pairlearn.content import MANY, STRIDE, Hashes, mixed, repeats, row_hashes, with_column

#: A group of more examples is dealt by its keys modulo the number of folds, so that no one has to
#: know all of them. A smaller group is dealt by the rank of its keys: every fold gets its share.
_MANY = 10_000

#: With fewer examples of the rarest class folds are dealt several times: one choice is noise.
FEW = 60
#: How often they are dealt then.
_REPEATS = 3

#: Positions of the training examples, and of those that are held out.
Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


def n_folds_of(fraction: float, n_rarest: int) -> int:
    """Return the number of folds that hold out a fraction each, at most one per rarest example."""
    return max(min(max(round(1.0 / fraction), 2), n_rarest), 1)


def n_repeats_of(n_rarest: int) -> int:
    """Return how often folds are dealt to choose a hyper-parameter.

    >>> n_repeats_of(8), n_repeats_of(800)
    (3, 1)
    """
    return _REPEATS if n_rarest < FEW else 1


def members_of(labels: NDArray[Any], kinds: Iterable[Any] | None = None) -> list[NDArray[np.int64]]:
    """Return the positions of each kind of label; all kinds in sorted order by default."""
    return [
        np.flatnonzero(labels == kind) for kind in (np.unique(labels) if kinds is None else kinds)
    ]


class Keys:
    """64 random bits of each example: a function of a seed and of what the example holds.

    Equal examples of a group have different keys: the second one has a key of its own. Which of
    them has it makes no difference.

    Parameters
    ----------
    hashes : ndarray of uint64 or callable
        The hash of each example, see `pairlearn.content`, or what returns all of them when they are
        needed.
    seed : int, default=0
        Another seed makes other keys.
    weight : ndarray, optional
        Of equal examples the one of less weight is the first. Weights are not part of a key: they
        say how much an example counts, in any unit.

    Examples
    --------
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> X[Keys.of(X, seed=1).permutation(np.arange(4))].ravel()
    array([3., 1., 4., 2.])
    >>> X[::-1][Keys.of(X[::-1], seed=1).permutation(np.arange(4))].ravel()
    array([3., 1., 4., 2.])
    """

    def __init__(
        self,
        hashes: Hashes | Callable[[], Hashes],
        seed: int = 0,
        weight: NDArray[np.float64] | None = None,
    ) -> None:
        self._given, self.seed = hashes, int(seed)
        self._weight = weight if weight is not None and len(weight) else None
        #: Groups as flags, how many of each were asked for, and the examples that were found.
        self._found: list[tuple[NDArray[Any], int, NDArray[np.int64]]] = []

    @classmethod
    def of(
        cls, X: Any, *columns: Any, weight: Any = None, seed: int | np.random.Generator = 0
    ) -> Self:
        """Return keys of rows and of further columns; they are computed when they are needed.

        `X` is a table, a CSR matrix, or rows that know their hashes. `seed` may be a generator, see
        `seed_of`.
        """
        if isinstance(seed, np.random.Generator):
            seed = seed_of(seed)

        def hashes() -> Hashes:
            found = X.hashes if hasattr(X, "hashes") else row_hashes(X)
            for number, column in enumerate(columns, start=1):
                found = with_column(found, column, number)
            return found

        return cls(hashes, seed, weight)

    @cached_property
    def hashes(self) -> Hashes:
        """The hash of each example."""
        return self._given() if callable(self._given) else self._given

    def take(self, index: NDArray[np.int64]) -> Keys:
        """Return the keys of some examples."""
        weight = None if self._weight is None else self._weight[index]
        return Keys(self.hashes[index], self.seed, weight)

    def again(self, number: int) -> Keys:
        """Return other keys of the same examples, those of this number; 0 for these keys."""
        if not number:
            return self
        seed = _bits_of(self.seed + number * int(STRIDE))
        return Keys(self.hashes, seed, self._weight)

    def of_groups(self, names: Any) -> tuple[NDArray[np.int64], Keys]:
        """Return the number of each example's group, and the keys of whole groups.

        The key of a group comes from what its examples hold, in whatever order they come: its hash
        is the sum of theirs, each mixed.
        """
        kinds, place = np.unique(names, return_inverse=True)
        sums = np.zeros(len(kinds), dtype=np.uint64)
        np.add.at(sums, place, mixed(self.hashes + STRIDE))
        return place, Keys(sums, self.seed)

    @cached_property
    def plain(self) -> Hashes:
        """A key of each example, the same one for all copies: that of the first copy."""
        return mixed(self.hashes, _bits_of(self.seed))

    def first(self, group: NDArray[Any], count: int) -> NDArray[np.int64]:
        """Return the examples of the smallest keys, at most so many, in the order of their keys.

        `group` holds the positions of the examples, or a flag for each one of all. What was found
        by flags is kept: fewer examples of the same group need no second search.
        """
        flags = group.dtype == bool
        if not flags:
            return self._first(group, count)
        for known, n_known, found in self._found:
            if n_known >= count and np.array_equal(known, group):
                return found[:count]
        found = self._first(group, count)
        self._found.append((group, count, found))
        return found

    def _first(self, group: NDArray[Any], count: int) -> NDArray[np.int64]:
        flags = group.dtype == bool
        size = int(np.count_nonzero(group)) if flags else len(group)
        if size > count and not self._repeats:
            # The rest need not be sorted. Keys are uniform: nearly always, enough of them are below
            # a bound that lies six standard deviations too high.
            share = (count + 6.0 * math.sqrt(count)) / size
            bound = np.uint64(min(share, 0.9) * 2.0**64)
            low = (self.plain if flags else self.plain[group]) < bound
            few = _places_of(low & group) if flags else group[low]
            if len(few) >= count:
                return self.permutation(few)[:count]
        if flags:
            group = _places_of(group)
        return self.permutation(group)[:count]

    def permutation(self, group: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return some examples in the order of their keys, as a generator would shuffle them."""
        return group[self._ranked(group)[1]]

    def remainders(self, group: NDArray[np.int64], divisor: int) -> NDArray[np.int64]:
        """Return the keys of some examples modulo a number."""
        return np.asarray((self._ranked(group)[0] % np.uint64(divisor)).astype(np.int64))

    @cached_property
    def _repeats(self) -> bool:
        """Whether there are equal examples."""
        return repeats(self.plain)

    def _ranked(self, group: NDArray[np.int64]) -> tuple[Hashes, NDArray[np.int64]]:
        """Return the keys of a group, and the places of the group in their order."""
        keys = self.plain[group]
        order = np.argsort(keys)
        ranked = keys[order]
        is_new = np.append(True, ranked[1:] != ranked[:-1])[: len(keys)]
        if is_new.all():
            return keys, order
        order = np.argsort(keys, kind="stable")
        if self._weight is not None:
            order = np.lexsort((self._weight[group], keys))
        place = np.arange(len(keys))
        copies = place - np.maximum.accumulate(np.where(is_new, place, 0))
        other = mixed(ranked + copies.astype(np.uint64) * STRIDE)
        keys[order] = np.where(is_new, ranked, other)
        return keys, np.argsort(keys, kind="stable")


class Places:
    """Draws examples by their places and not by what they hold: nobody looks at all of them.

    It stands for `Keys` where the result follows the order of the rows anyway.

    Examples
    --------
    >>> drawn = Places(seed=1).first(np.arange(9) % 3 > 0, 4)
    >>> len(set(drawn.tolist())), set(drawn.tolist()) <= {1, 2, 4, 5, 7, 8}
    (4, True)
    """

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def first(self, group: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
        """Return examples of a group, at most so many; `group` is a flag for each one of all."""
        size = int(np.count_nonzero(group))
        if 2 * size > len(group) and size > count:
            # Of a large group, places are drawn until enough are members: nobody lists all of them.
            share = (count + 6.0 * math.sqrt(count)) / size
            some = self._rng.choice(len(group), int(min(share, 1.0) * len(group)), replace=False)
            some = some[group[some]]
            if len(some) >= count:
                return some[:count]
        members = _places_of(group)
        if size <= count:
            return members
        return members[self._rng.choice(len(members), count, replace=False, shuffle=False)]


def _places_of(flags: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the positions of the flags that are set."""
    if len(flags) <= MANY:
        return np.flatnonzero(flags)
    # NumPy takes four times as long where one flag in ten is set: it looks for them one by one.
    from pairlearn.kernels.plan import find_flags

    places = np.empty(int(np.count_nonzero(flags)) + 1, dtype=np.int64)
    find_flags(flags, places)
    return places[:-1]


def seed_of(rng: np.random.Generator) -> int:
    """Return the seed of the keys of a fit; the generator is as it was before."""
    # A copy of the bits alone is made in half the time that a copy of the generator takes.
    return int(np.random.Generator(copy.copy(rng.bit_generator)).integers(2**63))


def _bits_of(seed: int) -> int:
    """Return 64 random bits of a seed."""
    return int(mixed(np.array([(seed + int(STRIDE)) % 2**64], dtype=np.uint64))[0])


def deal(
    groups: Sequence[NDArray[np.int64]],
    n: int,
    by: np.random.Generator | Keys | None = None,
    *,
    n_folds: int = 1,
    sizes: Sequence[int] | None = None,
    onward: bool = False,
) -> NDArray[np.int64]:
    """Return the fold of each of n examples, or -1 for one that is in no group.

    Each group (the positions of one class) is shuffled by a generator or by keys, if given, and
    dealt to the folds in turn. By keys, the fold of a member of a large group is its key modulo
    the number of folds. With `sizes`, the first fold takes that many members of the group, the next
    fold the next. Every group begins with the first fold, or `onward` from where the one before
    ended, so that the sizes of folds differ by at most one.
    """
    fold = np.full(n, -1, dtype=np.int64)
    first = 0
    for k, group in enumerate(groups):
        if isinstance(by, Keys) and sizes is None and len(group) > _MANY:
            fold[group] = by.remainders(group, n_folds)
            continue
        places = np.arange(first, first + len(group))
        order = group if by is None else by.permutation(group)
        fold[order] = places % n_folds if sizes is None else places // sizes[k]
        first += len(group) if onward else 0
    return fold


def splits_of(
    fold: NDArray[np.int64], n_held: int | None = None, among: NDArray[np.int64] | None = None
) -> list[Fold]:
    """Return training and held-out positions, for each fold or only for the first `n_held`.

    Positions are sorted, or in the order of `among`. A single fold cannot be divided: it is both
    trained on and held out.
    """
    if among is None:
        among = np.flatnonzero(fold >= 0)
    of = fold[among]
    n_folds = int(of.max()) + 1
    if n_folds == 1:
        return [(among, among)]
    return [
        (among[of != k], among[of == k])
        for k in range(n_folds if n_held is None else min(n_held, n_folds))
    ]


def stratified(
    groups: Sequence[NDArray[np.int64]],
    n_folds: int,
    keys: Keys,
    *,
    n_held: int | None = None,
    n_repeats: int = 1,
) -> list[Fold]:
    """Return training and held-out positions, with each class (group) spread over all folds.

    Only the first `n_held` folds of each deal are held out, and `n_repeats` is the number of deals.
    With one fold all examples are both trained on and held out.
    """
    everything = np.concatenate(groups)
    if n_folds == 1:
        return [(everything, everything)]
    n = int(everything.max()) + 1
    return [
        split
        for repeat in range(n_repeats)
        for split in splits_of(deal(groups, n, keys.again(repeat), n_folds=n_folds), n_held)
    ]
