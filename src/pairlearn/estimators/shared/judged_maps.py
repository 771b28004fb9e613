# SPDX-License-Identifier: BSD-3-Clause
"""Feature maps judged by AUC on held-out training data, each in closed form with its best ridge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.shared.evidence import Choice, JudgedFeatures, Tried, best_of
from pairlearn.estimators.shared.weights import judged_auc, weighed_members
from pairlearn.features import FeatureMap
from pairlearn.folds import Keys, deal, n_folds_of
from pairlearn.metrics.delong import compare_auc
from pairlearn.solvers.closed_form.mapped_moments import (
    WIDE,
    FloatRows,
    MappedMoments,
    RidgeProblem,
    RowsProblem,
    ridges_for,
)
from pairlearn.solvers.closed_form.table import Table
from pairlearn.solvers.rows import Rows
from pairlearn.typing import Mask, Places, Vector

#: Returns a ridge problem, `scaled` or not, that may be `rough`.
Problem = Callable[..., RidgeProblem | RowsProblem]
#: Returns the scores of a fold by models in columns.
Score = Callable[[int, NDArray[Any]], Vector]

#: With fewer examples of the rarer class all folds are held out in turn.
FEW = 200
#: With fewer examples of the rarer class, and fewer than `_SMALL` in all, three folds are.
_SOME = 500
#: From this many examples on one fold is enough.
_SMALL = 3_000


def deal_held_out(
    y: Vector, weight: Vector, fraction: float, keys: Keys, *, n_folds: int | None = None
) -> tuple[NDArray[np.int64], int]:
    """Return the fold of each example, dealt within classes, and the number of held-out folds.

    If their number is given, each fold is held out in turn. An example of weight zero is in no
    fold (-1).
    """
    members = weighed_members(y, weight)
    rarer = min(map(len, members))
    if n_folds is not None:
        return deal(members, len(y), keys, n_folds=max(min(n_folds, rarer), 1)), n_folds
    n_folds = n_folds_of(fraction, rarer)
    held = n_folds if rarer < FEW else min(3, n_folds) if rarer < _SOME and len(y) < _SMALL else 1
    if 1 < held < n_folds:
        n_folds = held
    return deal(members, len(y), keys, n_folds=n_folds), held


class Judged:
    """A map judged on held-out examples: its AUC for each ridge.

    All ridges are tried, but those of a wide map are dear: two are tried, and then the next ones on
    the side of the better one as long as each is a gain. `scores` holds the ranks of held-out
    examples within their folds, for each ridge, and `best` is the place of the best ridge.
    """

    def __init__(self, features: FeatureMap, n: int) -> None:
        self.features, self.ridges = features, ridges_for(features)
        self.scores = np.full((len(self.ridges), n), np.nan)
        self.tried: tuple[Tried, ...] = ()
        self.evidence: Tried | None = None
        self.best = 0

    def _judge(
        self,
        folds: Sequence[tuple[Places, RidgeProblem | RowsProblem, Problem]],
        score: Score,
        y: Vector,
        weight: Vector,
        signs: NDArray[np.int64] | None = None,
        start: int = 0,
    ) -> None:
        """Try ridges on folds: held-out examples, a problem, and how to make one in double.

        `score` returns the scores of a fold by the models in columns. `start` is the place of the
        ridge that is tried first, if not all are.
        """
        aucs: dict[int, list[float]] = {}
        lost: set[int] = set()
        wide = self.features.n_outputs > WIDE
        for places in _path(len(self.ridges), start, aucs) if wide else [range(len(self.ridges))]:
            aucs.update((r, []) for r in places)
            for k, (held, problem, again) in enumerate(folds):
                solved = []
                for r in places:
                    try:
                        solved.append(_solve(problem, again, self.ridges[r], signs))
                    except ValueError:
                        # The rounding of the products of the rows is as large as this ridge.
                        lost.add(r)
                        solved.append(np.zeros(self.features.n_outputs))
                found = score(k, np.stack(solved, 1)).T
                for r, scores in zip(places, found, strict=True):
                    own = weight[held] if len(weight) else weight
                    aucs[r].append(0.0 if r in lost else judged_auc(y[held], scores, own))
                    # Ranks within a fold: scores of different models are not comparable.
                    self.scores[r, held] = np.unique(scores, return_inverse=True)[1] / len(held)
        # From strong to weak: of equals the strongest wins.
        tried = sorted(set(aucs) - lost)
        if not tried:
            raise ValueError(
                f"{self.features!r} has no model: the rounding of its products is as large as "
                "every ridge; use another map, or scale the features."
            )
        judged = best_of(({"ridge": self.ridges[r]}, r, aucs[r]) for r in tried)
        self.tried, self.evidence, self.best = judged.tried, judged.evidence, judged.model

    @property
    def auc(self) -> float:
        """The held-out AUC with the best ridge."""
        assert self.evidence is not None
        return self.evidence.auc

    @property
    def ridge(self) -> float:
        """The best ridge."""
        return self.ridges[self.best]

    def choice(self) -> Choice:
        """Return the best ridge and the evidence."""
        return Choice(ridge=self.ridge, evidence=self.evidence, tried=self.tried)


class JudgedMap(Judged):
    """A map judged on held-out examples by tables of moments, and the moments of all.

    `features` is fitted, `y` holds -1 and +1, `weight` may be empty, and `deal_held_out` returns
    `fold` and `n_held`. `signs` are those of the coefficients of monotone functions. If `scaled`,
    the ridge refers to features of mean variance 1. `start` is the place of the ridge from which on
    those of a wide map are tried, and `dtype` the precision of the features. `everything` holds the
    moments of these and of many other examples: models are then trained on all of them but the
    held-out ones. Fewer rows than features make their ridge problems themselves.
    """

    def __init__(
        self,
        features: FeatureMap,
        rows: Rows,
        y: Vector,
        weight: Vector,
        fold: NDArray[np.int64],
        n_held: int,
        *,
        signs: NDArray[np.int64] | None = None,
        scaled: bool = True,
        start: int = 0,
        dtype: Any = None,
        everything: MappedMoments | None = None,
    ) -> None:
        super().__init__(features, len(y))
        self._floats, self._y = FloatRows(features, rows, weight, dtype), y
        held = [np.flatnonzero(fold == k) for k in range(min(n_held, int(fold.max()) + 1))]
        # A class of one example cannot be divided: it is both trained on and scored.
        divided = fold.max() > 0
        self._dealt = np.flatnonzero(fold >= 0)
        free = signs is None or not signs.any()
        few = len(y) < features.n_outputs and everything is None and free
        self._whole: Table | None = None
        problems: list[Problem]
        if few:
            problems = [
                partial(
                    RowsProblem,
                    self._floats,
                    y,
                    np.flatnonzero((fold >= 0) & (fold != k)) if divided else self._dealt,
                )
                for k in range(len(held))
            ]
        else:
            tables = self._tables(fold, held, everything, divided=divided)
            problems = [partial(self._floats.problem, table) for table in tables]
        folds = [
            (own, one(scaled=scaled, rough=True), partial(one, scaled=scaled))
            for own, one in zip(held, problems, strict=True)
        ]
        self._judge(folds, lambda k, W: self._floats.scores(held[k], W), y, weight, signs, start)

    def _tables(
        self,
        fold: NDArray[np.int64],
        held: Sequence[Places],
        everything: MappedMoments | None,
        *,
        divided: bool,
    ) -> list[Table]:
        """Return the table to train on for each held-out fold, and note that of all examples."""
        if everything is not None:
            # Whole numbers: nothing is lost where a fold has most of the weight.
            floats, left = self._floats, []
            for own in held:
                weight = floats.weight[own] if len(floats.weight) else None
                gone = everything.alike().plus(floats.rows.take(own), self._y[own], weight)
                # Copies of an example are one in a sample: a class may seem to have nothing left.
                remaining = everything.without(gone, checked=False)
                some = remaining.table.weights > 1e-9 * everything.table.weights
                left.append(floats.exact_table(remaining if some.all() else everything))
            return left
        parts = [self._floats.table(self._y, own) for own in held]
        if not divided:
            self._whole = parts[0]
            return parts
        rest = self._floats.table(self._y, np.flatnonzero(fold >= len(held)))
        self._whole = sum(parts, rest)
        # Sums of the other parts, not a difference: little may be left without a fold.
        return [sum(parts[:k] + parts[k + 1 :], rest) for k in range(len(parts))]

    def problem(self, *, scaled: bool = True) -> RidgeProblem | RowsProblem:
        """Return the ridge problem of all examples."""
        if self._whole is None:
            return RowsProblem(self._floats, self._y, self._dealt, scaled=scaled)
        return self._floats.problem(self._whole, scaled=scaled)


def _solve(
    problem: RidgeProblem | RowsProblem,
    again: Problem,
    ridge: float,
    signs: NDArray[np.int64] | None,
) -> Vector:
    """Return the model of a ridge, in double precision if single is not enough for it."""
    try:
        return problem.solve(ridge, signs=signs)
    except ValueError:
        return again().solve(ridge, signs=signs)


def _path(n: int, start: int, aucs: Mapping[int, Sequence[float]]) -> Iterator[list[int]]:
    """Yield places of ridges to try next; `aucs` holds what those before were worth."""
    start = min(start, n - 2)
    yield [start, start + 1]
    first, second = np.mean(aucs[start]), np.mean(aucs[start + 1])
    best, step = (second, 1) if second > first else (first, -1)
    place = start + 2 if step > 0 else start - 1
    while 0 <= place < n:
        yield [place]
        if np.mean(aucs[place]) <= best:
            return
        best, place = np.mean(aucs[place]), place + step


def judge_maps(
    maps: Mapping[str, FeatureMap],
    rows: Rows,
    y: Vector,
    weight: Vector,
    *,
    validation_fraction: float,
    keys: Keys,
    starts: Mapping[str, int] | None = None,
    types: Mapping[str, Any] | None = None,
    to_end: bool = True,
) -> tuple[list[JudgedFeatures], dict[str, JudgedMap]]:
    """Return the worth of each map on the same held-out examples, and its moments.

    Unless they are judged `to_end`, a map that orders all held-out examples right is the last one:
    none is ahead of it. `starts` says from which ridge on those of a wide map are tried, the
    strongest by default, and `types` the precision of a map whose model nobody keeps.
    """
    # Rows in the order of their keys: sums of floats are then the same in any order of the input.
    order = np.concatenate([keys.permutation(own) for own in weighed_members(y, weight)])
    rows, y, keys = rows.take(order), y[order], keys.take(order)
    weight = weight[order] if len(weight) else weight
    fold, n_held = deal_held_out(y, weight, validation_fraction, keys)
    found: dict[str, JudgedMap] = {}
    for name, one in maps.items():
        start, dtype = (starts or {}).get(name, 0), (types or {}).get(name)
        judged = JudgedMap(one, rows, y, weight, fold, n_held, start=start, dtype=dtype)
        found[name] = judged
        if judged.auc == 1.0 and not to_end:
            break
    best = max(found.values(), key=lambda one: one.auc)
    return [
        JudgedFeatures(
            name,
            one.auc,
            0.0 if one is best else _error_of_difference(y, weight, one, best),
            one.ridge,
            one.features.n_outputs,
        )
        for name, one in found.items()
    ], found


def _error_of_difference(y: Vector, weight: Vector, one: Judged, other: Judged) -> float:
    a, b = one.scores[one.best], other.scores[other.best]
    seen = np.isfinite(a)
    if len(weight):
        error = weighted_error(y[seen] > 0, weight[seen], a[seen], b[seen])
    else:
        error = compare_auc(y[seen], a[seen], b[seen]).standard_error
    # One example of a class tells nothing about the error: then the simpler map is as good.
    return float(error) if np.isfinite(error) else np.inf


def weighted_error(positive: Mask, weight: Vector, a: Vector, b: Vector) -> float:
    """Return DeLong's standard error of the difference of two weighted AUCs.

    With p the weights of a class divided by their sum, and D the difference of the placements of
    its examples by both scores (the weighted share of the other class that an example beats, or
    that beats it), the class adds n / (n - 1) sum p^2 (D - sum p D)^2. With equal weights this is
    the error of `compare_auc`.
    """
    variance = 0.0
    for own in (positive, ~positive):
        n = int(np.count_nonzero(own))
        if n < 2:
            return np.nan
        p = weight[own] / weight[own].sum()
        gain = _placements(own, weight, a) - _placements(own, weight, b)
        variance += n / (n - 1) * float((p**2 * (gain - p @ gain) ** 2).sum())
    return float(np.sqrt(variance))


def _placements(own: Mask, weight: Vector, scores: Vector) -> Vector:
    """Return the weighted share of the others below each own score; half of those equal to it."""
    values, places = np.unique(scores, return_inverse=True)
    mass = np.bincount(places[~own], weight[~own], len(values))
    below = np.cumsum(mass) - 0.5 * mass
    return np.asarray(below[places[own]] / mass.sum())
