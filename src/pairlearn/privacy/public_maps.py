# SPDX-License-Identifier: BSD-3-Clause
"""Build feature maps from public numbers only, for private learners.

A map that works row by row and uses public numbers only leaves every proof intact. Anything a map
learns from examples (knots at quantiles, landmarks, a bandwidth from distances) would be a release
without noise. Noise grows with the root of the number of mapped features, so the maps are small.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.features import MAPS, FeatureMap, Hats, Identity, RandomFourier, Union
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.typing import Vector

#: Names of maps that are made of the public bounds.
_OF_BOUNDS = ("hats", "fourier")
#: Knots of each feature in the map "hats".
_KNOTS = 5
#: Frequencies of the map "fourier"; each gives a sine and a cosine.
_FREQUENCIES = 32
#: Frequencies need not be secret, so the seed is fixed.
_SEED = 20211206
#: A ramp is taken to spread like a code of 2 levels: it is mostly 0 or 1.
_LEVELS_OF_A_RAMP = 2
#: Other mapped features are taken to spread like a code of 5 levels: the standard deviation of a
#: sine is 0.7 of its half-range.
_LEVELS_OF_OTHERS = 5


def check_public_map(features: Any) -> None:
    """Refuse a map that has learned, or would have to learn, from examples."""
    if isinstance(features, str) and features in _OF_BOUNDS:
        return
    features = MAPS.make(features)
    if isinstance(features, Union):
        for one in features.maps:
            check_public_map(one)
    elif isinstance(features, Hats):
        if features.knots is None:
            raise ValueError(
                "these hats take their knots from quantiles of examples, which would be a release "
                'without noise; use features="hats", or Hats.between(lower, upper, n_knots=...).'
            )
    elif isinstance(features, RandomFourier):
        chosen = features.kind == "gaussian" and "auto" not in (features.gamma, features.n_features)
        if features.is_fitted or not chosen:
            raise ValueError(
                "this map takes its scales, distances or distribution functions from examples, "
                'which would be a release without noise; use features="fourier", or an unfitted '
                'RandomFourier(64, "gaussian", gamma=0.1), which works in units of the public '
                "bounds."
            )
    elif type(features).learn is not FeatureMap.learn:
        raise ValueError(
            f"{type(features).__name__} learns from examples, which would be a release without "
            'noise; use features="hats", "fourier" or a map that learns nothing.'
        )


def map_publicly(features: Any, setting: PublicSetting) -> FeatureMap:
    """Return the map that `features` asks for, fitted to public numbers.

    `features` is a name in `MAPS` or a map that `check_public_map` accepts; the setting has the
    bounds.
    """
    check_public_map(features)
    d = setting.n_features
    if isinstance(features, str):
        features = _named(features, setting)
    if isinstance(features, Union):
        return Union(*(map_publicly(one, setting) for one in features.maps)).fit(np.zeros((1, d)))
    if isinstance(features, RandomFourier):
        h, gamma = int(features.n_features) // 2, float(features.gamma)
        rng = np.random.default_rng(_SEED)
        learned = {
            "centre": setting.middle,
            "factor": 1.0 / setting.unit,
            "frequencies": rng.standard_normal((d, h)) * np.sqrt(2.0 * gamma),
        }
        state = Identity.of(d).state()
        values = {"n_features": 2 * h, "kind": "gaussian", "gamma": gamma}
        return RandomFourier.from_state(
            {**state, "map": "RandomFourier", "fields": values, "learned": learned}
        )
    made: FeatureMap = features if features.is_fitted else features.fit(np.zeros((1, d)))
    if made.n_inputs != d:
        raise ValueError(
            f"the map was made for {made.n_inputs} features, but there are {d}; make one for {d}."
        )
    return made


def mapped_setting(features: FeatureMap, setting: PublicSetting) -> PublicSetting:
    """Return the setting of mapped rows: the same guarantee, with their bounds."""
    if isinstance(features, Identity):
        return setting
    lower, upper, levels = _bounds(features, setting)
    centre = None
    if setting.centre is not None:
        centre = features.transform(setting.centre[None, :])[0]
    made = PublicSetting.make(
        setting.n_examples, lower=lower, upper=upper, epsilon=setting.epsilon,
        delta=setting.delta, levels=levels, neighbours=setting.neighbours, centre=centre,
    )  # fmt: skip
    return replace(made, budget=setting.budget)


def _named(name: str, setting: PublicSetting) -> FeatureMap:
    """Return the map of a name; hats and frequencies are made of the public bounds."""
    if name == "hats":
        return Hats(knots=_even_knots(setting))
    if name == "fourier":
        # Two examples of standard units lie about 2 d apart, squared.
        return RandomFourier(2 * _FREQUENCIES, "gaussian", gamma=0.5 / setting.n_features)
    return MAPS.make(name)


def _even_knots(setting: PublicSetting) -> tuple[tuple[float, ...], ...]:
    counts = np.where(setting.levels > 0, np.minimum(setting.levels, _KNOTS), _KNOTS)
    ends = zip(setting.lower, setting.upper, counts, strict=True)
    # In halves, since the width of bounds may be beyond float64.
    knots = (2.0 * np.linspace(0.5 * a, 0.5 * b, int(k)) for a, b, k in ends)
    return tuple(tuple(one.tolist()) for one in knots)


def _bounds(
    features: FeatureMap, setting: PublicSetting
) -> tuple[Vector, Vector, NDArray[np.int64]]:
    """Return lower bound, upper bound and assumed number of levels of each mapped feature."""
    if isinstance(features, Identity):
        return setting.lower, setting.upper, setting.levels
    if isinstance(features, Union):
        parts = [_bounds(one, setting) for one in features.maps]
        lower, upper, levels = (np.concatenate(part) for part in zip(*parts, strict=True))
        return lower, upper, levels
    known = features.bounds()
    if not (np.isfinite(known.lower) and np.isfinite(known.upper)):
        raise ValueError(
            f"{type(features).__name__} does not know the bounds of its mapped features, which the "
            "sensitivity needs; let its method bounds() return finite ones."
        )
    is_ramp = isinstance(features, Hats) and features.cumulative
    level = _LEVELS_OF_A_RAMP if is_ramp else _LEVELS_OF_OTHERS
    size = features.n_outputs
    return (
        np.full(size, known.lower),
        np.full(size, known.upper),
        np.full(size, level, dtype=np.int64),
    )
