# SPDX-License-Identifier: BSD-3-Clause
"""The model that follows from what a stream has learned, and the scores that it decides by.

A model is made of all rows. It chooses its ridge more carefully than the stream does for its own
scores, since models are asked for less often. After many blocks it takes what is chosen from the
blocks before the open one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from pairlearn.features import FeatureMap
from pairlearn.solvers.closed_form.learned import Learned
from pairlearn.solvers.closed_form.memories import Directions
from pairlearn.solvers.closed_form.stream_ridge import Window, held_folds, held_scores
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, as_counts

#: A model of fewer examples than this, when it is asked for, always chooses its ridge.
_SHORT = 8192
#: After so many blocks a model takes what is chosen from those before the open one, while that one
#: adds at most a block in so many to each class: a prediction after each example would choose anew
#: each time.
_BLOCKS = 16
_HIDDEN = (
    "Some examples weigh so much more than others that rounding hides the others, and no ridge "
    "makes up for it; give weights that differ by less than a factor of 1e8."
)

#: Returns scores relative to that halfway between the classes, labels and weights.
Finder = Callable[[], Window]


class MomentModel(NamedTuple):
    """Coefficients, the map that they belong to, and how the ridge was chosen."""

    features: FeatureMap
    coef: Vector
    ridge: float | None
    auc: float | None
    #: The score halfway between the classes.
    middle: float = 0.0
    #: Whether it is Fisher's discriminant.
    pooled: bool = False


class Chosen(NamedTuple):
    """What was learned until a block began, with the ridge of its models and their finder."""

    learned: Learned
    find: Finder


def chosen_for_models(learned: Learned) -> Chosen:
    """Return what models take as long as `is_ripe`; `learned` itself is not changed."""
    twin = learned.copy()
    twin.choose_ridge_if_due(always=_SHORT, repeated=True)
    return Chosen(twin, partial(_window, twin))


def is_ripe(before: Learned, now: Learned, side: int) -> bool:
    """Tell whether the blocks before the open one, of `side` rows, have most of each class."""
    most = (1.0 + 1.0 / _BLOCKS) * before.memories.counts[0]
    return before.n >= _BLOCKS * side and bool((now.memories.counts[0] <= most).all())


def model_of(now: Learned, chosen: Chosen | None) -> tuple[MomentModel, Finder]:
    """Return the model of all rows, and what finds the scores that it decides by.

    What is `chosen` already is taken from there. Both classes must have been seen; `now` is the
    model's own from here on.
    """
    now.scale = None
    if chosen is not None:
        before, find = chosen
        now.ridge, now.pooled, now.ridge_auc = before.ridge, before.pooled, before.ridge_auc
    else:
        find = partial(_window, now)
        if now.n > now.ridge_at:
            now.choose_ridge_if_due(always=_SHORT, repeated=True)
    try:
        found = now.directions()
    except ValueError:
        if now.given is not None:
            raise
        raise DivergenceError(_HIDDEN) from None
    coef, middle = coefficients_of(now, found)
    auc = now.ridge_auc if now.given is None else None
    if now.best:
        auc = now.recent.auc(now.best)
    return MomentModel(now.features, coef, now.ridge_in_use, auc, middle, now.pooled), find


def coefficients_of(learned: Learned, found: Directions) -> tuple[Vector, float]:
    """Return the coefficients of the chosen memory, and the score halfway between the classes."""
    best = learned.best
    unit = _unit(learned, found, best)
    return found.weights[best] * unit, float(found.middle[best]) * unit


def _unit(learned: Learned, found: Directions, memory: int = 0) -> float:
    """Return the factor that makes coefficients of a direction."""
    size = float(found.sizes[memory])
    return size * learned.margin / (1.0 + size**2)


def _window(learned: Learned) -> Window:
    """Return scores relative to that halfway between the classes, labels and weights.

    No score is of an example that its model had learned: in-sample scores are too sure, most of all
    with many features and few rows. While everything is remembered, they are those of folds of the
    kept rows, else those of recent examples before they were learned. Only an example that is alone
    in its class cannot be held out.
    """
    best = learned.best
    if best:
        scores, positive = learned.recent.of(best)
        counts = learned.memories.counts[best]
        shares = [counts[0] / max(positive.sum(), 1), counts[1] / max((~positive).sum(), 1)]
        unit = _unit(learned, learned.directions(), best)
        return scores * unit, positive, np.where(positive, *shares)
    rows = learned.held.latest()
    folds = held_folds(learned.memories, learned.apart, rows, learned.n, every=True)
    ridge, unit_of = learned.ridge_in_use, partial(_unit, learned)
    kept = held_scores(folds, learned.scale_of, ridge, unit_of, pooled=learned.pooled)
    if kept is None:
        found, (Z, y, weight) = learned.directions(), rows
        kept = (Z @ found.weights[0] - found.middle[0]) * _unit(learned, found), y > 0, weight
    return *kept[:2], as_counts(kept[2])
