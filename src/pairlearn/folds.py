# SPDX-License-Identifier: BSD-3-Clause
"""Folds of held-out examples: shuffle each group, deal it to folds, list training and test rows.

`deal` gives the fold of each example, `splits_of` turns folds into pairs of index arrays, and
`stratified` does both for classes, as scikit-learn's ``StratifiedKFold(shuffle=True)`` does.
`Keys` shuffle by a seed and the places of the examples.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

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
    """A random number for each of n examples; the order of the numbers shuffles them.

    Examples
    --------
    >>> Keys(5, seed=1).permutation(np.arange(5))
    array([2, 4, 0, 3, 1])
    """

    def __init__(self, n: int, seed: int = 0) -> None:
        self.n, self.seed = n, int(seed)

    @classmethod
    def of(cls, X: Any, *, seed: int | np.random.Generator = 0) -> Self:
        """Return keys of the rows of X; `seed` may be a generator, which stays as it was."""
        return cls(X.shape[0], seed_of(seed) if isinstance(seed, np.random.Generator) else seed)

    @cached_property
    def _numbers(self) -> NDArray[np.float64]:
        return np.random.default_rng(self.seed).random(self.n)

    def take(self, index: NDArray[np.int64]) -> Keys:
        """Return the keys of some examples."""
        some = Keys(len(index), self.seed)
        some.__dict__["_numbers"] = self._numbers[index]
        return some

    def again(self, number: int) -> Keys:
        """Return other keys of the same examples, those of this number; 0 for these keys."""
        return Keys(self.n, self.seed + number) if number else self

    def of_groups(self, names: Any) -> tuple[NDArray[np.int64], Keys]:
        """Return the number of each example's group, and the keys of whole groups."""
        kinds, place = np.unique(names, return_inverse=True)
        return place, Keys(len(kinds), self.seed)

    def first(self, group: NDArray[Any], count: int) -> NDArray[np.int64]:
        """Return at most so many examples of a group, given by positions or by a flag for each."""
        members = np.flatnonzero(group) if group.dtype == bool else group
        if len(members) <= count:
            return self.permutation(members)
        keys = self._numbers[members]
        nearest = np.argpartition(keys, count)[:count]
        return np.asarray(members[nearest[np.argsort(keys[nearest])]])

    def permutation(self, group: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return some examples in the order of their keys, as a generator would shuffle them."""
        return group[np.argsort(self._numbers[group], kind="stable")]


def seed_of(rng: np.random.Generator) -> int:
    """Return the seed of the keys of a fit; the generator is as it was before."""
    return int(np.random.Generator(copy.copy(rng.bit_generator)).integers(2**63))


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
    dealt to the folds in turn. With `sizes`, the first fold takes that many members of the group,
    the next fold the next. Every group begins with the first fold, or `onward` from where the one
    before ended, so that the sizes of folds differ by at most one.
    """
    fold = np.full(n, -1, dtype=np.int64)
    first = 0
    for k, group in enumerate(groups):
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
