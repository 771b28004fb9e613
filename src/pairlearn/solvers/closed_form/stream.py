# SPDX-License-Identifier: BSD-3-Clause
"""A stream of mapped rows, learned by tables of moments in blocks (`past`).

Rows are collected in a block of 128, later 256, or of two rows a feature. When a block is full it
is learned, the scores that all memories gave its rows choose the memory, and from time to time
folds of kept rows choose the ridge. Then the coefficients of all memories are found, which score
the rows of the next block. Blocks begin at fixed places of the stream, so that neither chunks
matter, nor when somebody asks for a model. A model is made of all rows, those of the open block
included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pairlearn.features import FeatureMap
from pairlearn.restored import restored_array
from pairlearn.solvers.closed_form.mapped_moments import ridges_for
from pairlearn.solvers.closed_form.past import (
    Block,
    Choice,
    Directions,
    Past,
    RecentScores,
    Settings,
    Window,
)
from pairlearn.solvers.closed_form.table import MomentValues, Table
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError

#: The most features whose moments a stream keeps by default: with more of them the moments cost
#: too much beside steps of descent.
MOST_BY_MOMENTS = 256
#: The fewest rows of a block, twice as many once there are so many, and rows for each feature: a
#: solution costs as much as their moments.
_BLOCK, _LONG, _ROWS_PER_FEATURE = 128, 4096, 2
#: Rows after which coefficients are first found; then whenever their number has doubled.
_YOUNG = 8
#: Rows after which the memory is chosen anew, once there are four times as many; the ridge is when
#: the rows grew by this share.
_JUDGED, _GROWTH = 512, 0.5
#: Models of fewer rows than this choose their ridge when they are asked for.
_SHORT = 8192
#: What decides for a model is good until the rows grew by one in so many.
_GOOD = 16

#: Returns scores relative to that halfway between the classes, labels and weights.
Finder = Callable[[], Window]


def next_double(n: int) -> int:
    """Return the first of 8, 16, 32, ... that is above n.

    >>> next_double(0), next_double(8), next_double(100)
    (8, 16, 128)
    """
    return max(_YOUNG, 1 << n.bit_length())


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


class MomentStream:
    """The moments of mapped rows so far, and the model that follows from them.

    `half_lives` are numbers of rows after which a row counts half, the longest first. A `ridge` of
    None is the best by held-out AUC; if `scaled`, it refers to features of mean variance 1. If
    `free`, the covariance of all examples may be taken instead of the sum of those of the classes,
    which is Fisher's discriminant.

    Examples
    --------
    >>> from pairlearn.features.base import Identity
    >>> stream = MomentStream(Identity.of(1), (np.inf,), ridge=0.1, margin=1.0, scaled=False)
    >>> X, y = np.arange(20.0)[:, np.newaxis], np.where(np.arange(20) < 10, -1.0, 1.0)
    >>> stream.learn(X, y, np.ones(20))[:8], stream.n
    (array([0., 0., 0., 0., 0., 0., 0., 0.]), 20)
    >>> stream.model()[0].coef.round(4)
    array([0.0858])
    """

    def __init__(
        self,
        features: FeatureMap,
        half_lives: tuple[float, ...],
        *,
        ridge: float | None,
        margin: float,
        scaled: bool,
        free: bool = False,
    ) -> None:
        free = free and scaled and ridge is None
        settings = Settings(features, tuple(half_lives), ridge, margin, scaled, free)
        # What full blocks have taught: the past, the memory and the ridge, and since when.
        self._past = Past.none(settings)
        self._recent, self._best = RecentScores.none(len(half_lives)), 0
        self._choice = Choice(ridges_for(features)[1] if ridge is None else ridge)
        self._chosen_at = 0
        # The rows of the open block, and the directions that score the next ones.
        self._open: tuple[Block, ...] = ()
        self._directions: Directions | None = None
        self._due = _YOUNG
        # What models take from the first rows, by their number. Found when a model asks for it.
        self._for_models: tuple[int, Choice, Finder] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_for_models": None}  # A copy finds it anew.

    @property
    def features(self) -> FeatureMap:
        """The map of the rows."""
        return self._past.settings.features

    @property
    def n(self) -> int:
        """Rows since the start."""
        return self._past.n + sum(len(own.y) for own in self._open)

    @property
    def half_life(self) -> float:
        """The half-life that is chosen now."""
        return float(self._past.settings.half_lives[self._best])

    @property
    def _side(self) -> int:
        """The rows of a block, a power of two."""
        fewest = _BLOCK if self._past.n < _LONG else 2 * _BLOCK
        return 1 << (max(fewest, _ROWS_PER_FEATURE * self.features.n_outputs) - 1).bit_length()

    @property
    def until_refresh(self) -> int:
        """The number of rows until coefficients are found anew."""
        return self._due - self.n

    def learn(self, Z: Vector, y: Vector, weight: Vector) -> Vector:
        """Learn mapped rows with labels -1 and 1; return the scores that they had before.

        Rows that fail leave the stream as it was.
        """
        before, scores, at = dict(vars(self)), np.empty(len(y)), 0
        try:
            while at < len(y):
                now = slice(at, min(len(y), at + self.until_refresh))
                own = [np.array(part[now], dtype=np.float64) for part in (Z, y, weight)]
                found = np.zeros((len(own[1]), len(self._past.settings.half_lives)))
                if self._directions is not None:
                    found = self._directions.scores(own[0])
                scores[now] = found[:, self._best]
                self._open = (*self._open, Block(own[0], own[1], own[2], found))
                at = now.stop
                if self.n == self._due:
                    self._refresh()
        except BaseException:
            vars(self).update(before)
            raise
        return scores

    def _refresh(self) -> None:
        """Learn the open block if it is full, and find what scores the next rows."""
        now, block = self._now(), Block.joined(self._open)
        if len(block.y) == self._side:
            self._recent, self._past, self._open = self._recent.plus(block), now, ()
            if now.n <= 4 * _JUDGED or now.n % _JUDGED < self._side:
                self._best = self._recent.best()
            if now.settings.ridge is None and now.n >= (1.0 + _GROWTH) * self._chosen_at:
                self._chosen_at = now.n
                self._choice = now.best_choice(repeated=now.n >= _SHORT) or self._choice
        if now.knows_both:
            found = now.directions(self._choice)
            if np.isfinite(found.weights).all():  # else those of before are as good
                self._directions = found
        self._due = self._next_due()

    def _next_due(self) -> int:
        end = self._past.n + self._side
        return end if self._past.n else min(end, next_double(self.n))

    def _now(self) -> Past:
        """Return the past with the rows of the open block."""
        return self._past.plus(Block.joined(self._open)) if self._open else self._past

    def model(self) -> tuple[MomentModel, Finder] | None:
        """Return the model of all rows, and what finds scores, labels and weights to decide from.

        These scores are relative to `middle`; models that decide alike have the same finder. None
        before both classes were seen.
        """
        now = self._now()
        if not now.knows_both:
            return None
        choice, find = self._choice_for_models(now)
        found = now.directions(choice)
        if not np.isfinite(found.weights[self._best]).all():
            if now.settings.ridge is not None:
                raise ValueError(
                    f"The ridge {choice.ridge:g} is too small for the rounding of the moments; use "
                    "a larger one."
                )
            raise DivergenceError(
                "Some examples weigh so much more than others that rounding hides the others, and "
                "no ridge makes up for it; give weights that differ by less than a factor of 1e8."
            )
        coef, middle = self._coefficients(found)
        auc = self._recent.auc(self._best) if self._best else choice.auc
        return MomentModel(self.features, coef, choice.ridge, auc, middle, choice.pooled), find

    def _choice_for_models(self, now: Past) -> tuple[Choice, Finder]:
        """Return the choice of a model, and what finds the scores that it decides by.

        They are those of the first rows, up to one in 16 fewer than all, so that models which are
        asked for often take them from those before. They do not depend on who asked before.
        """
        step = 1 << max((now.n // _GOOD).bit_length() - 1, 0)
        n_first = max(now.n - now.n % step, self._past.n)
        first = self._past
        if n_first > first.n:
            first = first.plus(Block.joined(self._open).take(slice(n_first - first.n)))
        if (now.counts[0] > (1.0 + 1.5 / _GOOD) * first.counts[0]).any():
            first = now  # Most rows of a class came late.
        if self._for_models is None or self._for_models[0] != first.n:
            choice = self._choice
            if first.settings.ridge is None and first.n < _SHORT:
                choice = first.best_choice(repeated=True) or choice
            find = partial(first.window, choice, self._recent, self._best)
            self._for_models = first.n, choice, find
        return self._for_models[1:]

    def _coefficients(self, found: Directions) -> tuple[Vector, float]:
        unit = found.factor(self._best, self._past.settings.margin)
        return found.weights[self._best] * unit, float(found.middle[self._best]) * unit

    def lately(self) -> tuple[Vector, float] | None:
        """Return the coefficients that were found last, and the score halfway between the classes.

        None before both classes were seen.
        """
        return None if self._directions is None else self._coefficients(self._directions)

    def whole(self) -> MomentValues:
        """Return the moments of all rows, as the longest memory has them."""
        now = self._now()
        return now.table[0].values(0.0 if now.origin is None else now.origin)

    def widen(self, features: FeatureMap, half_lives: tuple[float, ...]) -> None:
        """Make room for new features, which were 0 until now.

        `features` is the wider map, `half_lives` are those from now on, as many as before.
        """
        more = features.n_outputs - self.features.n_outputs
        settings = self._past.settings._replace(features=features, half_lives=tuple(half_lives))
        self._past = self._past.widened(settings)
        self._open = tuple(own.widened(more) for own in self._open)
        if self._directions is not None:
            wider = np.pad(self._directions.weights, ((0, 0), (0, more)))
            self._directions = self._directions._replace(weights=wider)
        self._for_models, self._due = None, self._next_due()

    def restart(self) -> None:
        """Forget all but the latest past; blocks begin anew."""
        self._past = self._now().restarted()
        self._recent = RecentScores.none(len(self._past.settings.half_lives))
        self._choice = self._choice._replace(pooled=False)
        self._best = self._chosen_at = 0
        self._open, self._for_models, self._due = (), None, _YOUNG

    def state(self) -> dict[str, Any]:
        """Return everything that the next rows depend on, as plain values and arrays."""
        past, found = self._past, self._directions
        reach = None if past.origin is None else [past.origin, past.low, past.high]
        return {
            "n": past.n,
            "sums": past.table.sums,
            "counts": past.counts,
            "reach": reach,
            "held": [[n, *own] for n, own in past.held],
            "open": [list(own) for own in self._open],
            "recent": [self._recent.positives, self._recent.negatives],
            "best": self._best,
            "choice": list(self._choice),
            "chosen_at": self._chosen_at,
            "directions": None if found is None else list(found),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state."""
        past = Past.none(self._past.settings)
        sums = restored_array(state, "sums", past.table.sums.shape)
        origin, low, high = state["reach"] or (None, past.low, past.high)
        held = tuple((n, Block._make(own)) for n, *own in state["held"])
        counts, n = state["counts"], state["n"]
        self._past = Past(past.settings, Table(sums), counts, origin, low, high, held, n)
        self._open = tuple(Block._make(own) for own in state["open"])
        self._recent, self._best = RecentScores(*state["recent"]), state["best"]
        self._choice, self._chosen_at = Choice(*state["choice"]), state["chosen_at"]
        found = state["directions"]
        self._directions = None if found is None else Directions(*found)
        self._for_models, self._due = None, self._next_due()
