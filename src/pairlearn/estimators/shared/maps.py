# SPDX-License-Identifier: BSD-3-Clause
"""The features of a classifier: maps by name, the choice of "auto", and the fit by class moments.

"auto" judges linear features, hats and Fourier features by AUC on held-out training data and takes
the simplest map within one standard error of the best. It is the error of the difference of two
AUCs on the same examples (DeLong). Judging multiplies all rows of each map, in floats; the products
of the chosen map also make its model.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.shared.evidence import MOST_FEATURES, FeatureChoice
from pairlearn.estimators.shared.weights import weighed_members
from pairlearn.features import MAPS, FeatureMap, Hats, Identity, RandomFourier
from pairlearn.features.columns import SAMPLE_ROWS
from pairlearn.folds import FEW, Keys
from pairlearn.solvers.closed_form.mapped_moments import block_of
from pairlearn.solvers.rows import Rows
from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.estimators.shared.judged_maps import JudgedMap

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
#: Bytes of the tables of moments, for each pair of mapped features: six tables of float64.
BYTES_PER_PRODUCT = 48.0
#: Weights of examples that all count alike.
_ALIKE: Vector = np.empty(0)


def is_linear(features: Any) -> bool:
    """Whether a parameter asks for linear features."""
    return isinstance(features, Identity) or (isinstance(features, str) and features == "linear")


def check_named(features: Any) -> None:
    """Raise unless a parameter is a feature map or names one."""
    if not (isinstance(features, str) and features == "auto"):
        MAPS.make(features, also="auto")


def as_map(features: Any, rows: Rows, y: Vector) -> FeatureMap:
    """Return the map that a parameter names, not fitted yet, or the given one.

    The number of rows sets the size of a map.
    """
    if isinstance(features, FeatureMap):
        return features
    rarer = min(int(np.count_nonzero(y > 0)), int(np.count_nonzero(y <= 0)))
    return MAPS.make(features).sized(*rows.shape, rarer)


def fit_map(
    features: FeatureMap,
    rows: Rows,
    rng: np.random.Generator,
    keys: Keys | None = None,
    *,
    counts: Vector = _ALIKE,
    constrained: bool = False,
) -> FeatureMap:
    """Return the map fitted to examples; one that is fitted already stays as it is.

    A map that looks at some of the examples takes those of the smallest keys. `counts` says how
    often each example counts, to a map that takes weights; they may be empty. A map that asks for
    monotone functions is refused unless the caller keeps them (`constrained`).
    """
    if features.constrained and not constrained:
        raise ValueError(
            f"{features!r} asks for monotone functions, which are learned by AUCClassifier.fit "
            "from two classes with these hats alone; leave out monotone."
        )
    if not features.is_fitted:
        keys = Keys.of(rows, seed=rng) if keys is None else keys
        seen = keys.first(np.arange(rows.shape[0]), SAMPLE_ROWS)
        rows = rows.take(seen)
        weighs = features.takes_weights and len(counts)
        given = {"sample_weight": counts[seen]} if weighs else {}
        return features.fit(block_of(rows, 0, rows.shape[0]), rng=rng, **given)
    if features.n_inputs != rows.shape[1]:
        raise ValueError(
            f"features were fitted to {features.n_inputs} features, X has {rows.shape[1]}; pass a "
            "map that is not fitted, or one for these features."
        )
    return features


def map_rows(features: FeatureMap, rows: Rows, max_memory: float, cure: str) -> NDArray[Any]:
    """Return all mapped rows; refuse them with the advice `cure` if they do not fit in memory."""
    n, m = rows.shape[0], features.n_outputs
    if 8.0 * n * m > max_memory:
        raise ValueError(
            f"{n} rows of {m} mapped features take {8.0 * n * m / 2**30:.1f} GiB, "
            f"max_memory={max_memory:g} bytes; {cure}"
        )
    return features.transform(block_of(rows, 0, n))


def choose_features(
    rows: Rows,
    y: Vector,
    weight: Vector,
    rng: np.random.Generator,
    keys: Keys,
    validation_fraction: float,
    max_memory: float,
    counts: Vector = _ALIKE,
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
    from pairlearn.estimators.shared.judged_maps import judge_maps

    judge, starts = partial(judge_maps, validation_fraction=validation_fraction), {}
    if "fourier" in maps and float(len(y)) * maps["fourier"].n_outputs ** 2 > _DEAR_PRODUCTS:
        part = np.concatenate(
            [
                keys.first(own, max(_TRIAL_ROWS * len(own) // len(y), FEW))
                for own in weighed_members(y, weight)
            ]
        )
        few = rows.take(part)
        some = keys.take(part)
        small = fit_map(RandomFourier(_TRIAL_FEATURES), few, rng, some)
        trial, own = {**maps, "fourier": small}, weight[part] if len(weight) else weight
        # Single precision tells how good it is, and which ridge suits it.
        single = {"fourier": np.float32}
        judged, found = judge(trial, few, y[part], own, keys=some, types=single)
        # More features fit more, and often ask for a stronger ridge.
        starts["fourier"] = max(found["fourier"].best - 1, 0)
        if judged[-1].auc < max(one.auc for one in judged) - judged[-1].standard_error:
            del maps["fourier"]
    judged, found = judge(maps, rows, y, weight, keys=keys, starts=starts, to_end=False)
    best = max(one.auc for one in judged)
    name = next(one.name for one in judged if one.auc >= best - one.standard_error)
    return FeatureChoice(name, tuple(judged)), maps[name], None if name == "linear" else found[name]


def features_for(
    features: Any,
    rows: Rows,
    y: Vector,
    weight: Vector,
    rng: np.random.Generator,
    keys: Keys,
    validation_fraction: float,
    max_memory: float,
    counts: Vector,
) -> tuple[FeatureMap, tuple[FeatureChoice, Any] | None]:
    """Return the fitted map of a parameter; for "auto" also the evidence and its moments."""
    if is_linear(features):
        return Identity.of(rows.shape[1]), None
    rows.checked()  # linear features are checked by the scaling, which reads every value
    # A copy of the generator, so that the choice of a map does not change the fit.
    draws = copy.deepcopy(rng)
    if isinstance(features, str) and features == "auto":
        limits = validation_fraction, max_memory
        chosen = choose_features(rows, y, weight, draws, keys, *limits, counts)
        return chosen[1], (chosen[0], chosen[2])
    found = as_map(features, rows, y)
    fitted = fit_map(found, rows, draws, keys, counts=counts, constrained=isinstance(found, Hats))
    return fitted, None
