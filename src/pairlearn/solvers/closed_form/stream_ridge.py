# SPDX-License-Identifier: BSD-3-Clause
"""How a stream chooses its ridge: by AUC on folds of the rows that it kept.

The moments without a fold are a difference, so that nothing is learned twice. The same folds give
scores of rows that a model has not learned, for threshold and calibration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from pairlearn.folds import FEW, members_of, n_repeats_of
from pairlearn.metrics import roc_auc
from pairlearn.solvers.closed_form.fisher import FISHER_BELOW
from pairlearn.solvers.closed_form.memories import FORGOTTEN, LEAST, Directions, Memories
from pairlearn.typing import Mask, Vector

#: A fold is at most one example in this many, as with validation_fraction=0.2.
EVERY = 5
#: Ridges that are tried, too, if folds are dealt several times because a class is rare.
_STRONG = (100.0, 10.0)

#: Products that BLAS adds up in one thread. To wake others costs more than these rows do.
_ALONE = 1 << 18

#: Rows with their labels and weights.
Held = tuple[Vector, Vector, Vector]
#: Scores, which of them are of positive examples, and their weights.
Window = tuple[Vector, Mask, Vector]


class ChosenRidge(NamedTuple):
    """The best ridge, whether the covariance is that of all examples, and the held-out AUC."""

    ridge: float
    pooled: bool
    auc: float


def candidates(
    ridges: tuple[float, ...], rarer: float, *, free: bool
) -> tuple[tuple[float, ...], list[bool]]:
    """Return the ridges and the kinds of covariance (pooled or not) to try.

    If they are `free`, a rare class has stronger ridges, and Fisher's discriminant, too.
    """
    if not free:
        return ridges, [False]
    ridges = ridges if rarer >= FEW else (*_STRONG, *ridges)
    return ridges, [False, True] if rarer < FISHER_BELOW else [False]


def fold_aucs(
    folds: Iterable[tuple[Memories, Held]],
    scale_of: Callable[[Memories], Vector],
    ridges: tuple[float, ...],
    kinds: list[bool],
) -> list[Vector]:
    """Return the AUC of each kind and ridge on each fold."""
    worth = []
    for train, (Z, y, weight) in folds:
        scale = scale_of(train)
        solved = [train.solutions(scale, ridges, pooled=pooled) for pooled in kinds]
        worth.append(_aucs(y, Z @ np.concatenate(solved).T, weight))
    return worth


def small_fold_aucs(
    memories: Memories,
    rows: Held,
    n: int,
    find_scale: Callable[[Vector], Vector],
    ridges: tuple[float, ...],
    kinds: list[bool],
    *,
    repeated: bool,
) -> list[Vector] | None:
    """Return `fold_aucs` of `held_folds` for few features, for which calls of NumPy cost too much.

    `find_scale` takes the sums of one memory. None if weights differ, or a score is not finite.
    """
    from pairlearn.kernels.concordance import doubled_wins_of_each
    from pairlearn.kernels.memories import (
        find_for_ridges,
        room_for_block,
        room_for_directions,
        take_fold,
    )

    (Z, y, weight), origin, m = rows, memories.origin, memories.shape[0]
    if not len(y) or not weight[0] > 0.0 or weight.min() != weight.max():
        return None
    n_positive = int(np.count_nonzero(y > 0.0))
    rarer = min(n_positive, len(y) - n_positive)
    worth: list[Vector] = []
    deals = list(_deals(len(y), rarer, n, repeated=repeated))
    if not deals:
        return worth
    heavy, K = float(weight[0]), len(ridges)
    places = np.empty((2, len(y)), dtype=np.int32)
    own, tile, found = room_for_block(len(y) // deals[0][1] + 2, m, weighs=heavy != 1.0)
    room = room_for_directions(K, m)
    weights, rest = np.empty((len(kinds), K, m)), (np.empty(K), np.empty(K))
    # As wide as the rows that `take_fold` gathers, which begin with a 1.
    columns = np.zeros((len(kinds) * K, own.shape[2]))
    piece = max(1, _ALONE // columns.size)
    given = np.array(ridges)
    for repeat, n_folds, k in deals:
        p, h = take_fold(Z, y, heavy, n_folds, repeat, k, origin, places, own, tile, found)
        sums, counts = memories.sums[:1] - found, memories.counts[:1] - (p, h - p)
        if not (counts.min() > FORGOTTEN and sums[0, :, 0, 0].min() > 0.0):
            continue
        scale = find_scale(sums[0])
        for place, pooled in enumerate(kinds):
            solved = weights[place], *rest
            find_for_ridges(sums, counts, LEAST, pooled, origin, scale, given, *room, *solved)
        columns[:, 1 : m + 1] = weights.reshape(-1, m)
        scores = np.empty((len(columns), h))
        for begin in range(0, h, piece):
            now = slice(begin, min(begin + piece, h))
            np.matmul(columns, own[0, now].T, out=scores[:, now])
        scores[:, :p].sort()
        scores[:, p:].sort()
        wins = np.empty(len(columns))
        # Those of a ridge that is too small are NaN.
        if not doubled_wins_of_each(scores, p, h, wins):
            return None
        worth.append(wins / (2 * p * (h - p)))
    return worth


def best_ridge(
    worth: list[Vector], ridges: tuple[float, ...], kinds: list[bool]
) -> ChosenRidge | None:
    """Return the ridge with the best mean AUC over the folds; None if there is none."""
    if not worth:
        return None
    # With weights it is rounded, so that their rounding errors do not decide between equals.
    aucs = (np.add.reduce(worth) / len(worth)).round(12)
    known = aucs == aucs
    if not known.any():
        return None
    best = int(np.where(known, aucs, -1.0).argmax())
    kind, ridge = divmod(best, len(ridges))
    return ChosenRidge(ridges[ridge], kinds[kind], float(aucs[best]))


def held_scores(
    folds: Iterable[tuple[Memories, Held]],
    scale_of: Callable[[Memories], Vector],
    ridge: float,
    unit_of: Callable[[Directions], float],
    *,
    pooled: bool,
) -> Window | None:
    """Return scores of the folds by models that have not learned them, labels and weights.

    A score is 0 halfway between the classes. None if rows of one class have none.
    """
    parts = []
    for train, (Z, y, weight) in folds:
        try:
            found = train.directions(scale_of(train), np.array([ridge]), pooled=pooled)
        except ValueError:  # Rounding hides what is left without the fold.
            continue
        parts.append(((Z @ found.weights[0] - found.middle[0]) * unit_of(found), y > 0, weight))
    if not parts:
        return None
    scores, positive, weight = (np.concatenate(own) for own in zip(*parts, strict=True))
    return (scores, positive, weight) if 0 < positive.sum() < len(positive) else None


def held_folds(
    memories: Memories,
    apart: Memories | None,
    rows: Held,
    n: int,
    *,
    repeated: bool = False,
    every: bool = False,
) -> Iterator[tuple[Memories, Held]]:
    """Yield the memory of all n examples without a fold of the kept rows, and the fold.

    Folds are dealt within classes, in order of arrival. Those without a pair are left out. If both
    classes are frequent, one fold is enough, unless `every` fold is asked for. `apart` is the
    memory of all kept rows, if they were held out from the beginning.
    """
    Z, y, weight = rows
    members = [own[weight[own] > 0.0] for own in members_of(y, (1.0, -1.0))]
    rarer = min(map(len, members))
    if not rarer:
        return  # as after a restart
    alone = apart is not None
    for repeat, n_folds, k in _deals(len(y), rarer, n, alone=alone, repeated=repeated, every=every):
        fold = np.full(len(y), -1)
        for own in members:
            # A turn of the deal begins one fold farther in each repeat.
            turn, place = np.divmod(np.arange(len(own)), n_folds)
            fold[own] = (place + repeat * turn) % n_folds
        held = Z[fold == k], y[fold == k], weight[fold == k]
        without = apart
        if without is None:
            without = Memories(Z.shape[1], memories.half_lives[:1])
            without.origin = memories.origin
            without.add(*held)
        train = memories.without(without)
        if (train.counts[0] > FORGOTTEN).all() and (train.sums[0, :, 0, 0] > 0.0).all():
            yield train, held


def _deals(
    n_rows: int,
    rarer: int,
    n: int,
    *,
    alone: bool = False,
    repeated: bool = False,
    every: bool = False,
) -> Iterator[tuple[int, int, int]]:
    """Yield the repeat, the number of folds and the fold that is held out.

    Of n examples `n_rows` are kept, and `rarer` of the rarer class.
    """
    n_folds = min(1 if alone else -(-EVERY * n_rows // n), rarer)
    for repeat in range(n_repeats_of(rarer) if repeated and n_folds > 1 else min(n_folds, 1)):
        for k in range(n_folds if every or rarer < FISHER_BELOW else 1):
            yield repeat, n_folds, k


def _aucs(y: Vector, scores: Vector, weight: Vector) -> Vector:
    """Return the AUC of each column of scores; NaN for a column of NaN."""
    from pairlearn.kernels.concordance import doubled_wins

    positive, aucs = y > 0, np.full(scores.shape[1], np.nan)
    known = ~np.isnan(scores[0])
    columns = np.ascontiguousarray(scores[:, known].T)
    if np.ptp(weight):
        aucs[known] = [roc_auc(y, own, sample_weight=weight) for own in columns]
    elif not np.isfinite(columns).all():  # It tells so.
        aucs[known] = [roc_auc(y, own) for own in columns]
    else:
        both = np.sort(columns[:, positive]), np.sort(columns[:, ~positive])
        n_pairs = both[0].shape[1] * both[1].shape[1]
        aucs[known] = [doubled_wins(*own) / (2 * n_pairs) for own in zip(*both, strict=True)]
    return aucs
