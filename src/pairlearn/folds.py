# SPDX-License-Identifier: BSD-3-Clause
"""Folds of held-out examples: shuffle each group, deal it to folds, list training and test rows.

`deal` gives the fold of each example, `splits_of` turns folds into pairs of index arrays, and
`stratified` does both for classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Positions of the training examples, and of those that are held out.
Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


def n_folds_of(fraction: float, n_rarest: int) -> int:
    """Return the number of folds that hold out a fraction each, at most one per rarest example."""
    return max(min(max(round(1.0 / fraction), 2), n_rarest), 1)


def members_of(labels: NDArray[Any], kinds: Iterable[Any] | None = None) -> list[NDArray[np.int64]]:
    """Return the positions of each kind of label; all kinds in sorted order by default."""
    return [
        np.flatnonzero(labels == kind) for kind in (np.unique(labels) if kinds is None else kinds)
    ]


def deal(
    groups: Sequence[NDArray[np.int64]],
    n: int,
    rng: np.random.Generator | None = None,
    *,
    n_folds: int = 1,
    sizes: Sequence[int] | None = None,
    onward: bool = False,
) -> NDArray[np.int64]:
    """Return the fold of each of n examples, or -1 for one that is in no group.

    Each group (the positions of one class) is shuffled by `rng`, if given, and dealt to the folds
    in turn. With `sizes`, the first fold takes that many members of the group, the next fold the
    next. Every group begins with the first fold, or `onward` from where the one before ended, so
    that the sizes of folds differ by at most one.
    """
    fold = np.full(n, -1, dtype=np.int64)
    first = 0
    for k, group in enumerate(groups):
        places = np.arange(first, first + len(group))
        order = group if rng is None else rng.permutation(group)
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
    rng: np.random.Generator,
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
        for _ in range(n_repeats)
        for split in splits_of(deal(groups, n, rng, n_folds=n_folds), n_held)
    ]
