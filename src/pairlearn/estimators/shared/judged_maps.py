# SPDX-License-Identifier: BSD-3-Clause
"""Feature maps judged by AUC on held-out training data, each in closed form with its best ridge.

"auto" judges linear features, hats and Fourier features and takes the simplest map within one
standard error of the best. It is the error of the difference of two AUCs on the same examples
(DeLong). Judging multiplies all rows of each map, in floats; the products of the chosen map also
make its model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.shared.evidence import (
    MOST_FEATURES,
    Choice,
    FeatureChoice,
    JudgedFeatures,
    best_of,
)
from pairlearn.estimators.shared.maps import BYTES_PER_PRODUCT, as_map, fit_map
from pairlearn.estimators.shared.weights import judged_auc, weighed_members
from pairlearn.features import FeatureMap, Hats, Identity, RandomFourier
from pairlearn.folds import FEW as FEW_TO_CHOOSE
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
from pairlearn.solvers.rows import NO_WEIGHTS, Rows
from pairlearn.typing import Mask, Places, Vector

#: The maps that "auto" tries, from the simplest on.
_CANDIDATES = ("linear", "hats", "fourier")
#: "auto" does not try hats with fewer knots than this; many features leave few knots.
_FEWEST_KNOTS = 4
#: Products n m^2 of a Fourier map of m features beyond which "auto" tries a small one first: if
#: that is behind by more than a standard error, the large one is not made.
_DEAR_PRODUCTS = 2e10
#: Features of the small Fourier map.
_TRIAL_FEATURES = 512
#: Examples that the small Fourier map is tried on.
_TRIAL_ROWS = 10_000
#: Returns a ridge problem, `scaled` or not, that may be `rough`.
Problem = Callable[..., RidgeProblem | RowsProblem]
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


class JudgedMap:
    """A map judged on held-out examples by tables of moments: its AUC for each ridge.

    `features` is fitted, `y` holds -1 and +1, `weight` may be empty, and `deal_held_out` returns
    `fold` and `n_held`. `signs` are those of the coefficients of monotone functions. If `scaled`,
    the ridge refers to features of mean variance 1. `everything` holds the moments of these and of
    many other examples: models are then trained on all of them but the held-out ones. Fewer rows
    than features make their ridge problems themselves.

    All ridges are tried, but those of a wide map are dear: two are tried from the place `start` on,
    and then the next ones on the side of the better one as long as each is a gain. `scores` holds
    the ranks of held-out examples within their folds, for each ridge.
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
        everything: MappedMoments | None = None,
    ) -> None:
        self.features, self.ridges = features, ridges_for(features)
        self.scores = np.full((len(self.ridges), len(y)), np.nan)
        self._floats, self._y = FloatRows(features, rows, weight), y
        held = [np.flatnonzero(fold == k) for k in range(min(n_held, int(fold.max()) + 1))]
        # A class of one example cannot be divided: it is both trained on and scored.
        divided = fold.max() > 0
        self._dealt = np.flatnonzero(fold >= 0)
        self._whole: Table | None = None
        free = signs is None or not signs.any()
        problems: list[Problem]
        if len(y) < features.n_outputs and everything is None and free:
            own = [np.flatnonzero((fold >= 0) & (fold != k)) for k in range(len(held))]
            rest = own if divided else [self._dealt] * len(held)
            problems = [partial(RowsProblem, self._floats, y, index) for index in rest]
        else:
            tables = self._tables(fold, held, everything, divided=divided)
            problems = [partial(self._floats.problem, table) for table in tables]
        folds = [
            (index, one(scaled=scaled, rough=True), partial(one, scaled=scaled))
            for index, one in zip(held, problems, strict=True)
        ]
        self._judge(folds, weight, signs, start)

    def _judge(
        self,
        folds: Sequence[tuple[Places, RidgeProblem | RowsProblem, Problem]],
        weight: Vector,
        signs: NDArray[np.int64] | None,
        start: int,
    ) -> None:
        """Try ridges on folds: held-out examples, a problem, and how to make one in double."""
        aucs: dict[int, list[float]] = {}
        lost: set[int] = set()
        n, wide = len(self.ridges), self.features.n_outputs > WIDE
        for places in _path(n, start, aucs) if wide else [range(n)]:
            aucs.update((r, []) for r in places)
            for held, problem, again in folds:
                solved = []
                for r in places:
                    try:
                        solved.append(_solve(problem, again, self.ridges[r], signs))
                    except ValueError:
                        # The rounding of the products of the rows is as large as this ridge.
                        lost.add(r)
                        solved.append(np.zeros(self.features.n_outputs))
                found = self._floats.scores(held, np.stack(solved, 1)).T
                own = weight[held] if len(weight) else weight
                for r, scores in zip(places, found, strict=True):
                    aucs[r].append(0.0 if r in lost else judged_auc(self._y[held], scores, own))
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
        self.auc, self.ridge = judged.evidence.auc, self.ridges[self.best]

    def choice(self) -> Choice:
        """Return the best ridge and the evidence."""
        return Choice(ridge=self.ridge, evidence=self.evidence, tried=self.tried)

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
    to_end: bool = True,
) -> tuple[list[JudgedFeatures], dict[str, JudgedMap]]:
    """Return the worth of each map on the same held-out examples, and its moments.

    Unless they are judged `to_end`, a map that orders all held-out examples right is the last one:
    none is ahead of it. `starts` says from which ridge on those of a wide map are tried.
    """
    # Rows in the order of their keys: sums of floats are then the same in any order of the input.
    order = np.concatenate([keys.permutation(own) for own in weighed_members(y, weight)])
    rows, y, keys = rows.take(order), y[order], keys.take(order)
    weight = weight[order] if len(weight) else weight
    fold, n_held = deal_held_out(y, weight, validation_fraction, keys)
    found: dict[str, JudgedMap] = {}
    for name, one in maps.items():
        start = (starts or {}).get(name, 0)
        judged = JudgedMap(one, rows, y, weight, fold, n_held, start=start)
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


def _error_of_difference(y: Vector, weight: Vector, one: JudgedMap, other: JudgedMap) -> float:
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


def choose_features(
    rows: Rows,
    y: Vector,
    weight: Vector,
    rng: np.random.Generator,
    keys: Keys,
    validation_fraction: float,
    max_memory: float,
    counts: Vector = NO_WEIGHTS,
) -> tuple[FeatureChoice, FeatureMap, JudgedMap | None]:
    """Return linear features, hats or Fourier features by held-out AUC.

    Returns the evidence, the fitted map, and its moments, or None if there was no comparison. A
    map whose frequencies do not fit into `max_memory` bytes is not tried. `counts` are the weights
    without those of classes.
    """
    d = rows.shape[1]
    if d > MOST_FEATURES:
        return FeatureChoice("linear"), fit_map(Identity(), rows, rng, keys), None
    maps = {}
    for name in _CANDIDATES:
        spec = as_map(name, rows, y)
        if isinstance(spec, Hats) and spec.n_knots < _FEWEST_KNOTS:
            continue
        fitted = fit_map(spec, rows, rng, keys, counts=counts)
        fits = BYTES_PER_PRODUCT * fitted.n_outputs**2 <= max_memory
        # Hats of indicators are the features as they are.
        if fits and (name != "hats" or fitted.n_outputs > d):
            maps[name] = fitted
    judge, starts = partial(judge_maps, validation_fraction=validation_fraction), {}
    if "fourier" in maps and float(len(y)) * maps["fourier"].n_outputs ** 2 > _DEAR_PRODUCTS:
        part = np.concatenate(
            [
                keys.first(own, max(_TRIAL_ROWS * len(own) // len(y), FEW_TO_CHOOSE))
                for own in weighed_members(y, weight)
            ]
        )
        few = rows.take(part)
        some = keys.take(part)
        small = fit_map(RandomFourier(_TRIAL_FEATURES), few, rng, some)
        trial, own = {**maps, "fourier": small}, weight[part] if len(weight) else weight
        judged, found = judge(trial, few, y[part], own, keys=some)
        # More features fit more, and often ask for a stronger ridge.
        starts["fourier"] = max(found["fourier"].best - 1, 0)
        if judged[-1].auc < max(one.auc for one in judged) - judged[-1].standard_error:
            del maps["fourier"]
    judged, found = judge(maps, rows, y, weight, keys=keys, starts=starts, to_end=False)
    best = max(one.auc for one in judged)
    name = next(one.name for one in judged if one.auc >= best - one.standard_error)
    return FeatureChoice(name, tuple(judged)), maps[name], None if name == "linear" else found[name]
