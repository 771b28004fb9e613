# SPDX-License-Identifier: BSD-3-Clause
"""Which features a classifier looks at, and its fit by class moments of them.

Candidates (linear, hats, Fourier) are judged by AUC on held-out training data, each in closed form
with its own best ridge. The simplest one within one standard error of the best is taken, the error
being that of the difference of two AUCs on the same examples (DeLong): a curve must earn its keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.shared.evidence import (
    MOST_FEATURES,
    Choice,
    FeatureChoice,
    JudgedFeatures,
    best_of,
)
from pairlearn.features import MAPS, FeatureMap, Hats, Identity, RandomFourier
from pairlearn.folds import deal, members_of, n_folds_of
from pairlearn.losses import PairLoss
from pairlearn.metrics import compare_auc, roc_auc
from pairlearn.solvers.closed_form.mapped_moments import (
    MappedMoments,
    RidgeProblem,
    block_of,
    score_mapped,
)
from pairlearn.solvers.rows import Rows
from pairlearn.typing import Vector

__all__ = [
    "as_map",
    "check_named",
    "choose_features",
    "fit_map",
    "fit_moments",
    "is_linear",
    "map_rows",
    "ridges_for",
]

#: What "auto" tries, from the simplest on.
_CANDIDATES = ("linear", "hats", "fourier")
#: Ridges from strong to weak, for features of mean variance 1; in single precision not the last.
_RIDGES, _WIDE = (1.0, 0.1, 0.01, 1e-3, 1e-4), 512
#: "auto" leaves hats out where fewer knots remain.
_FEWEST_KNOTS = 4
#: With fewer examples of the rarer class all folds are held out in turn; then three; then one.
_FEW, _SOME, _SMALL = 200, 500, 3_000
#: Where the Fourier map would cost more products than this, a small one is tried first, on so many
#: examples: if it is behind by more than a standard error, the large one is not made.
_DEAR, _TRIAL_FEATURES, _TRIAL_ROWS = 1e10, 512, 10_000


def is_linear(features: Any) -> bool:
    """Whether a parameter asks for the features as they are."""
    return isinstance(features, Identity) or (isinstance(features, str) and features == "linear")


def check_named(features: Any) -> None:
    """Raise unless a parameter is a feature map or names one."""
    if not (isinstance(features, str) and features == "auto"):
        MAPS.make(features, also="auto")


def as_map(features: Any, rows: Rows, y: Vector) -> FeatureMap:
    """Return the map that a parameter names, not fitted yet, or the given one.

    Parameters
    ----------
    features : str or FeatureMap
        A name in `MAPS`, or a map.
    rows : DenseRows or CsrRows
        Training examples: how many decides about the size of a map.
    y : ndarray of shape (n,)
        Labels -1 and +1.

    Returns
    -------
    FeatureMap
        The map.
    """
    if isinstance(features, FeatureMap):
        return features
    rarer = min(int(np.count_nonzero(y > 0)), int(np.count_nonzero(y <= 0)))
    return MAPS.make(features).sized(*rows.shape, rarer)


def fit_map(
    features: FeatureMap, rows: Rows, rng: np.random.Generator, *, constrained: bool = False
) -> FeatureMap:
    """Return the map fitted to examples; one that is fitted already stays as it is.

    A map that asks for monotone functions is refused unless the caller keeps them (`constrained`).
    """
    if features.constrained and not constrained:
        raise ValueError(
            f"{features!r} asks for monotone functions, which are learned by AUCClassifier.fit "
            "from two classes with these hats alone; leave out monotone."
        )
    if not features.is_fitted:
        return features.fit(block_of(rows, 0, rows.shape[0]), rng=rng)
    if features.n_inputs != rows.shape[1]:
        raise ValueError(
            f"features were fitted to {features.n_inputs} features, X has {rows.shape[1]}; pass a "
            "map that is not fitted, or one for these features."
        )
    return features


def map_rows(features: FeatureMap, rows: Rows, max_memory: float, cure: str) -> NDArray[Any]:
    """Return all mapped rows, if they fit; `cure` says what else to do."""
    n, m = rows.shape[0], features.n_outputs
    if 8.0 * n * m > max_memory:
        raise ValueError(
            f"{n} rows of {m} mapped features take {8.0 * n * m / 2**30:.1f} GiB, "
            f"max_memory={max_memory:g} bytes; {cure}"
        )
    return features.transform(block_of(rows, 0, n))


# ------------------------------------------------------------------------- held-out examples


def _deal(y: Vector, fraction: float, rng: np.random.Generator) -> tuple[NDArray[np.int64], int]:
    """Return the fold of each example, dealt within classes, and how many are held out in turn."""
    members = members_of(y, (-1.0, 1.0))
    rarer = min(map(len, members))
    n_folds = n_folds_of(fraction, rarer)
    held = n_folds if rarer < _FEW else min(3, n_folds) if rarer < _SOME and len(y) < _SMALL else 1
    if 1 < held < n_folds:
        n_folds = held
    return deal(members, len(y), rng, n_folds=n_folds), held


class _HeldOut:
    """A map judged on held-out examples: its AUC for each ridge, and the moments of all."""

    def __init__(
        self,
        features: FeatureMap,
        rows: Rows,
        y: Vector,
        weight: Vector,
        fold: NDArray[np.int64],
        n_held: int,
        ridges: tuple[float, ...],
        signs: NDArray[np.int64] | None,
        scaled: bool = True,
    ) -> None:
        self.features, self.ridges = features, ridges
        self._rows, self._y, self._weight, self._fold = rows, y, weight, fold
        self._total: MappedMoments | None = None
        self._rest: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        n_folds = int(fold.max()) + 1
        if n_folds == 1:
            # A class of one example cannot be divided: it is both trained on and scored.
            parts = [self._of(np.arange(len(y)))]
            leave, self._total = parts, parts[0]
        elif n_held == 1:
            self._rest = np.flatnonzero(fold == 0)
            self._total = self._of(np.flatnonzero(fold != 0))
            leave = [self._total]
        else:
            parts = [self._of(np.flatnonzero(fold == k)) for k in range(n_folds)]
            self._total = MappedMoments(features)
            for part in parts:
                self._total.merge(part)
            leave = parts
        self.scores = np.full((len(ridges), len(y)), np.nan)
        aucs: list[list[float]] = [[] for _ in ridges]
        for k, part in enumerate(leave):
            moments = part if len(leave) == 1 else self._total.without(part)
            held = np.flatnonzero(fold == k)
            problem = moments.problem(scaled=scaled, rough=True)
            W = np.stack([_solved(problem, moments, ridge, signs, scaled) for ridge in ridges], 1)
            found = score_mapped(features, rows.take(held), W, dtype=np.float32).T
            for r, scores in enumerate(found):
                aucs[r].append(roc_auc(y[held], scores))
                # Ranks within a fold: scores of different models are not comparable.
                self.scores[r, held] = np.unique(scores, return_inverse=True)[1] / len(held)
        judged = best_of(({"ridge": ridge}, r, aucs[r]) for r, ridge in enumerate(ridges))
        self.tried, self.best = judged.tried, judged.model

    @property
    def auc(self) -> float:
        return self.tried[self.best].auc

    @property
    def ridge(self) -> float:
        return self.ridges[self.best]

    def _of(self, index: NDArray[np.int64]) -> MappedMoments:
        own = self._weight[index] if len(self._weight) else None
        return MappedMoments(self.features).add(
            self._rows.take(index), self._y[index], example_weight=own
        )

    def moments(self) -> MappedMoments:
        """Return the moments of all examples."""
        assert self._total is not None
        if len(self._rest):
            own = self._weight[self._rest] if len(self._weight) else None
            self._total.add(self._rows.take(self._rest), self._y[self._rest], example_weight=own)
            self._rest = self._rest[:0]
        return self._total


def _solved(
    problem: RidgeProblem, moments: MappedMoments, ridge: float, signs: Any, scaled: bool
) -> Vector:
    try:
        return np.asarray(problem.solve(ridge, signs=signs))
    except ValueError:
        # Single precision was not enough for this ridge.
        return np.asarray(moments.problem(scaled=scaled).solve(ridge, signs=signs))


def ridges_for(features: FeatureMap) -> tuple[float, ...]:
    """Return the ridges to try, from strong to weak."""
    return _RIDGES if features.n_outputs <= _WIDE else _RIDGES[:-1]


def choose_features(
    rows: Rows,
    y: Vector,
    *,
    weight: Vector,
    validation_fraction: float,
    max_memory: float,
    rng: np.random.Generator,
) -> tuple[FeatureChoice, FeatureMap, _HeldOut | None]:
    """Return linear features, hats or Fourier features by held-out AUC.

    Parameters
    ----------
    rows : DenseRows or CsrRows
        Training examples.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    weight : ndarray of shape (n,) or (0,)
        Weights of the examples.
    validation_fraction : float
        The share of a fold.
    max_memory : float
        Bytes; a map whose frequencies do not fit is not tried.
    rng : numpy.random.Generator
        Deals the folds and draws frequencies.

    Returns
    -------
    choice : FeatureChoice
        The evidence.
    features : FeatureMap
        The chosen map, fitted.
    held_out : object or None
        Its moments, for `fit_moments`; None for the linear one without a comparison.
    """
    d = rows.shape[1]
    if d > MOST_FEATURES:
        return FeatureChoice("linear"), fit_map(Identity(), rows, rng), None
    maps = {}
    for name in _CANDIDATES:
        spec = as_map(name, rows, y)
        if isinstance(spec, Hats) and spec.n_knots < _FEWEST_KNOTS:
            continue
        fitted = fit_map(spec, rows, rng)
        # Hats of indicators are the features as they are.
        if 48.0 * fitted.n_outputs**2 <= max_memory and (name != "hats" or fitted.n_outputs > d):
            maps[name] = fitted
    judge = partial(_judged, validation_fraction=validation_fraction, rng=rng)
    if "fourier" in maps and float(len(y)) * maps["fourier"].n_outputs ** 2 > _DEAR:
        part = np.concatenate(
            [
                own[: max(_TRIAL_ROWS * len(own) // len(y), _FEW)]
                for own in map(rng.permutation, members_of(y, (-1.0, 1.0)))
            ]
        )
        few = rows.take(part)
        trial = {**maps, "fourier": fit_map(RandomFourier(_TRIAL_FEATURES), few, rng)}
        judged, _ = judge(trial, few, y[part], weight[part] if len(weight) else weight)
        if judged[-1].auc < max(one.auc for one in judged) - judged[-1].standard_error:
            del maps["fourier"]
    judged, found = judge(maps, rows, y, weight)
    best = max(one.auc for one in judged)
    name = next(one.name for one in judged if one.auc >= best - one.standard_error)
    return FeatureChoice(name, tuple(judged)), maps[name], found[name]


def _judged(
    maps: Mapping[str, FeatureMap],
    rows: Rows,
    y: Vector,
    weight: Vector,
    *,
    validation_fraction: float,
    rng: np.random.Generator,
) -> tuple[list[JudgedFeatures], dict[str, _HeldOut]]:
    """Return what each map is worth on the same held-out examples."""
    fold, n_held = _deal(y, validation_fraction, rng)
    found = {
        name: _HeldOut(one, rows, y, weight, fold, n_held, ridges_for(one), None)
        for name, one in maps.items()
    }
    best = max(found.values(), key=lambda one: one.auc)
    return [
        JudgedFeatures(
            name,
            one.auc,
            0.0 if one is best else _error_of_difference(y, one, best),
            one.ridge,
            one.features.n_outputs,
        )
        for name, one in found.items()
    ], found


def _error_of_difference(y: Vector, one: _HeldOut, other: _HeldOut) -> float:
    a, b = one.scores[one.best], other.scores[other.best]
    seen = np.isfinite(a)
    error = compare_auc(y[seen], a[seen], b[seen]).standard_error
    # One example of a class says nothing about an error: then the simpler is as good.
    return float(error) if np.isfinite(error) else np.inf


def fit_moments(
    features: FeatureMap,
    rows: Rows,
    y: Vector,
    *,
    loss: PairLoss,
    ridge: float | None,
    weight: Vector,
    validation_fraction: float,
    max_memory: float,
    scaled: bool,
    rng: np.random.Generator,
    signs: NDArray[np.int64] | None = None,
    held_out: Any = None,
) -> tuple[Vector, Choice]:
    """Minimise the square loss over opposite pairs of mapped rows plus a ridge, in closed form.

    Parameters
    ----------
    features : FeatureMap
        A fitted map.
    rows : DenseRows or CsrRows
        Training examples.
    y : ndarray of shape (n,)
        Labels -1 and +1, both present.
    loss : Square
        The square loss, for its margin.
    ridge : float, optional
        The ridge; by default the best of 1, .1, ..., by AUC on held-out training data.
    weight : ndarray of shape (n,) or (0,)
        Weights of the examples.
    validation_fraction : float
        The share of a fold.
    max_memory : float
        Bytes that the tables of moments may take.
    scaled : bool
        Whether the ridge is about features of mean variance 1.
    rng : numpy.random.Generator
        Deals the folds.
    signs : ndarray of shape (m,), optional
        Signs of coefficients, for monotone functions.
    held_out : object, optional
        What `choose_features` has found already.

    Returns
    -------
    w : ndarray of shape (m,)
        Coefficients of mapped features.
    choice : Choice
        The ridge, and what was tried.
    """
    if 6 * 8.0 * features.n_outputs**2 > max_memory:
        raise ValueError(
            f"The moments of {features.n_outputs} mapped features take about "
            f"{48.0 * features.n_outputs**2 / 2**30:.1f} GiB, max_memory={max_memory:g} bytes; use "
            "a map with fewer features, or a larger max_memory."
        )
    margin = float(loss.parameter) if loss.by_moments else 1.0
    if len(weight) and not weight.all() and (held_out is None or ridge is not None):
        kept = np.flatnonzero(weight)
        rows, y, weight = rows.take(kept), y[kept], weight[kept]
    if ridge is not None:
        own = weight if len(weight) else None
        moments = MappedMoments(features).add(rows, y, example_weight=own)
        w = moments.problem(scaled=scaled).solve(ridge, signs=signs, margin=margin)
        return w, Choice(ridge=ridge)
    if held_out is None:
        fold, n_held = _deal(y, validation_fraction, rng)
        held_out = _HeldOut(
            features, rows, y, weight, fold, n_held, ridges_for(features), signs, scaled
        )
    chosen = held_out.tried[held_out.best]
    problem = held_out.moments().problem(scaled=scaled)
    w = problem.solve(held_out.ridge, signs=signs, margin=margin)
    return w, Choice(ridge=held_out.ridge, evidence=chosen, tried=held_out.tried)
