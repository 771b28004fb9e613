# SPDX-License-Identifier: BSD-3-Clause
"""Mapped rows of a stream, learned by their class moments in blocks.

Blocks begin at fixed places of the stream, so neither moments nor choices depend on how chunks
arrive, bit for bit. Rows of an unfinished block are kept. At the end of a block the coefficients of
all memories are found, and the next block is scored by them before it is learned; these scores
choose the memory (`recent_scores`). Some examples are held out to choose the ridge; the moments of
all of them make the model. A block has some rows for each feature, so that the coefficients cost no
more than the moments.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pairlearn.features import FeatureMap
from pairlearn.metrics import roc_auc
from pairlearn.restored import restored_array, restored_count, restored_number, restored_weights
from pairlearn.solvers.closed_form.mapped_moments import MappedValues, ridges_for
from pairlearn.solvers.closed_form.memories import Directions, Memories, moments_of
from pairlearn.solvers.closed_form.moment_values import MomentValues
from pairlearn.solvers.closed_form.recent_scores import RecentScores
from pairlearn.typing import Mask, Vector
from pairlearn.validation import DivergenceError, warn_caller

#: The most features whose moments a stream keeps by default: with more of them the moments cost
#: too much beside steps of descent.
MOST_BY_MOMENTS = 256
#: One example in this many is held out, as with validation_fraction=0.2.
EVERY = 5
#: The most examples that are held out, the first of a stream or, if it forgets, the latest: with
#: even classes the error of an AUC is then below .01.
HELD = 4096
#: The fewest rows of a block, and rows for each feature: a solution costs as much as their moments.
_BLOCK, _ROWS_PER_FEATURE = 128, 2
#: Examples after which coefficients are first found; then whenever their number has doubled, until
#: a block is full.
YOUNG = 8
#: Scales, and the ridge, are found anew when the examples grew by these shares.
_GROWTH, _RIDGE_GROWTH = 0.125, 0.5
#: A model of fewer examples than this, when it is asked for, always chooses its ridge.
_SHORT = 8192
#: The ridge of a memory that forgets is at least this share of the noise in its moments,
#: d (1 / p + 1 / q) for p positives and q negatives.
_NOISE = 0.3
#: A feature that begins with a larger value has a unit of its own.
_HUGE = 1e70
#: A feature that varies less counts as constant.
_TINY = 1e-70
#: Larger values, in these units, are cut off.
_CUT = 1e100
_HIDDEN = (
    "Some examples weigh so much more than others that rounding hides the others, and no ridge "
    "makes up for it; give weights that differ by less than a factor of 1e8."
)
#: The exponent of the largest number.
_LARGEST_EXPONENT = 1024
#: What a stream that starts anew keeps of its past: the weight of this many examples.
_KEPT = 250.0


#: The parts of directions in a state.
_DIRECTIONS = ("weights", "middle", "sizes")


class MomentModel(NamedTuple):
    """Coefficients, the map that they belong to, and how the ridge was chosen."""

    features: FeatureMap
    coef: Vector
    ridge: float | None
    auc: float | None
    #: The score halfway between the classes.
    middle: float = 0.0


def next_double(n: int) -> int:
    """Return the first of 8, 16, 32, ... that is above n.

    >>> next_double(0), next_double(8), next_double(100)
    (8, 16, 128)
    """
    return max(YOUNG, 1 << n.bit_length())


class BlockStream:
    """The moments of mapped rows so far, and the model that follows from them.

    Without a `ridge` the best by held-out AUC is taken; if `scaled`, it refers to features of mean
    variance 1. `margin` is that of the square loss.
    """

    def __init__(
        self,
        features: FeatureMap,
        half_lives: tuple[float, ...],
        *,
        ridge: float | None,
        margin: float,
        scaled: bool,
    ) -> None:
        m = features.n_outputs
        self.features, self._margin, self._scaled, self._given = features, margin, scaled, ridge
        self._bounded = features.bounds().is_finite
        #: Examples since the start.
        self.n = 0
        self._memories = Memories(m, half_lives)
        # Of the held-out examples alone, as in the first memory.
        self._apart = Memories(m, half_lives[:1])
        self._low, self._high = np.full(m, np.inf), np.full(m, -np.inf)
        # Powers of two that bring features to numbers whose squares can be added up, and whether
        # they are known.
        self._exponents, self._met = np.zeros(m, dtype=np.int32), np.zeros(m, dtype=bool)
        # The unfinished block: where it starts; rows, labels, weights and scores by every
        # memory.
        self._side = _side_for(m)
        self._start = 0
        self._Z, self._y = np.zeros((self._side, m)), np.zeros(self._side)
        self._w = np.zeros(self._side)
        self._scores = np.zeros((self._side, len(half_lives)))
        self._held: list[tuple[Vector, Vector, Vector]] = []
        self._recent = RecentScores(len(half_lives))
        self._directions: Directions | None = None
        self._ridge, self._ridge_at = ridges_for(features)[1], 0
        self._ridge_auc: float | None = None
        # The factors of features, and the number of examples that they were found from.
        self._scale: Vector | None = None
        self._scale_at = 0
        self._best, self._has_warned = 0, False

    @property
    def half_life(self) -> float:
        """The half-life that is chosen now."""
        return float(self._memories.half_lives[self._best])

    def _in_units(self, Z: Vector) -> Vector:
        """Return rows whose squares neither overflow nor vanish.

        The first value of a feature other than 0 sets its unit, a power of two: 1 unless that value
        is huge. Values far beyond it are cut off: their feature has no other spread anyway.
        """
        if self.features.bounds().is_finite:
            return Z
        if not self._met.all():
            new = np.flatnonzero(~self._met)
            there = Z[:, new] != 0.0
            new, there = new[there.any(axis=0)], there[:, there.any(axis=0)]
            first = np.abs(Z[there.argmax(axis=0), new])
            self._met[new] = True
            self._exponents[new] = np.where(first > _HUGE, np.frexp(first)[1], 0)
        if self._exponents.any():
            Z = np.ldexp(Z, -self._exponents)
        return Z if np.abs(Z).max(initial=0.0) <= _CUT else np.clip(Z, -_CUT, _CUT)

    def learn(self, Z: Vector, y: Vector, weight: Vector) -> Vector:
        """Learn mapped rows; return the scores that they had before."""
        Z = self._in_units(Z)
        scores, at = np.zeros(len(y)), 0
        while at < len(y):
            left = self.until_refresh
            stop = min(len(y), at + left)
            now, place = slice(at, stop), slice(self._filled, self._filled + stop - at)
            self._Z[place], self._y[place], self._w[place] = Z[now], y[now], weight[now]
            own = self._scores[place]
            own[:] = 0.0 if self._directions is None else self._directions.scores(self._Z[place])
            scores[now] = own[:, self._best]
            self.n += stop - at
            if self._filled == self._side:
                self._close()
            elif stop - at == left:
                self._refresh()
            at = stop
        return scores

    @property
    def until_refresh(self) -> int:
        """The number of examples until coefficients are found anew."""
        end = self._start + self._side
        if self._start == 0:
            end = min(end, next_double(self.n))
        return end - self.n

    @property
    def _filled(self) -> int:
        """The number of rows of the unfinished block."""
        return self.n - self._start

    def _close(self) -> None:
        """Learn the block, which is full, choose memory and ridge, and begin the next block."""
        self._learn_open_block()
        self._best = self._recent.best()
        if self._given is None and self._ridge_is_due():
            self._choose_ridge()
        self._refresh()

    def _learn_open_block(self) -> None:
        """Add the rows of the unfinished block to moments and scores; the next starts after it."""
        now = slice(self._filled)
        self._learn_block(self._Z[now], self._y[now], self._w[now])
        self._recent.add(self._scores[now], self._y[now])
        self._start = self.n

    def _learn_block(self, Z: Vector, y: Vector, weight: Vector) -> None:
        """Add rows to the moments, and those held out to the moments apart."""
        self._memories.add(Z, y, weight)
        if not self._bounded:
            self._low = np.minimum(self._low, Z.min(axis=0))
            self._high = np.maximum(self._high, Z.max(axis=0))
        if self._memories.half_lives[0] == np.inf and self._start >= EVERY * HELD:
            return
        held = slice((EVERY - 1 - self._start) % EVERY, None, EVERY)
        own = Z[held].copy(), y[held].copy(), weight[held].copy()
        self._apart.origin = self._memories.origin
        self._apart.add(*own, n_passed=len(y))
        self._held = [*self._held, own]

    def _to_now(self) -> BlockStream:
        """Return this stream with the rows of the unfinished block learned."""
        if not self._filled:
            return self
        twin = copy.copy(self)
        twin._memories, twin._recent = self._memories.copy(), self._recent.copy()
        twin._apart = self._apart.copy()
        twin._learn_open_block()
        return twin

    def _refresh(self) -> None:
        """Find the scores of all memories, if both classes have been seen."""
        now = self._to_now()
        if now._memories.counts[0].all():
            with contextlib.suppress(ValueError):  # Rounding: the scores of before are as good.
                self._directions = now._all_directions()

    def _moments(self, sums: Vector) -> MappedValues:
        """Return sums about the origin as moments of the map."""
        assert self._memories.origin is not None
        found = moments_of(sums, self._memories.origin)
        return MappedValues(self.features, found, self._low, self._high)

    def _all_directions(self) -> Directions:
        counts = np.maximum(self._memories.counts, 1.0)
        ridges = np.full(len(counts), self._ridge if self._given is None else self._given)
        if self._given is None:
            noise = _NOISE * self.features.n_outputs * (1.0 / counts).sum(axis=1)
            ridges[1:] = np.maximum(ridges, noise)[1:]
        scale = self._scale
        if (
            scale is None
            or self.n >= (1.0 + _GROWTH) * self._scale_at
            # A feature that was constant until now must not wait.
            or ((scale == 0.0) & (self._low < self._high)).any()
        ):
            total = self._moments(self._memories.sums[0])
            self._scale = scale = total.scale(scaled=self._scaled)
            self._scale_at = self.n
        return self._memories.directions(scale, ridges)

    def _ridge_is_due(self, always: int = 0) -> bool:
        """Tell whether the examples have grown enough, or are fewer than `always`."""
        return self.n < always or self.n >= (1.0 + _RIDGE_GROWTH) * self._ridge_at

    def _choose_ridge(self) -> None:
        """Take the ridge with the best AUC on held-out examples."""
        self._ridge_at = self.n
        train = self._moments(self._memories.sums[0] - self._apart.sums[0])
        Z, y, weight = self._held_rows()
        seen = y[weight > 0.0]
        if not train.moments.counts.all() or not (seen > 0).any() or not (seen < 0).any():
            return
        ridges = ridges_for(self.features)
        problem = train.problem(scaled=self._scaled)
        solved: dict[float, Vector] = {}
        for ridge in ridges:
            with contextlib.suppress(ValueError):  # Rounding: a ridge that is too small has lost.
                solved[ridge] = problem.solve(ridge)
        if not solved:
            return
        ridges, scores = tuple(solved), Z @ np.stack(list(solved.values()), axis=1)
        # With weights it is rounded, so that their rounding errors do not decide between equals.
        given = {"sample_weight": weight} if np.ptp(weight) else {}
        aucs = [round(roc_auc(y, scores[:, k], **given), 12) for k in range(len(ridges))]
        best = int(np.argmax(aucs))
        self._ridge, self._ridge_auc = ridges[best], float(aucs[best])

    def _held_rows(self) -> tuple[Vector, Vector, Vector]:
        if len(self._held) > 1:
            # A memory that forgets judges by the latest examples.
            Z, y, weight = (
                np.concatenate(parts)[-HELD:] for parts in zip(*self._held, strict=True)
            )
            self._held = [(Z, y, weight)]
        if not self._held:
            return np.empty((0, self.features.n_outputs)), np.empty(0), np.empty(0)
        return self._held[0]

    def model(self) -> tuple[MomentModel, tuple[Vector, Mask, Vector]] | None:
        """Return the model of all rows, and scores, labels and weights to decide from.

        None before both classes were seen.
        """
        now = self._to_now()
        if not now._memories.counts[0].all():
            return None
        if now is self:
            now = copy.copy(self)
        now._scale = None
        if self._given is None and self.n > self._ridge_at and now._ridge_is_due(_SHORT):
            now._choose_ridge()
        try:
            best, found = self._best, now._all_directions()
        except ValueError:
            if self._given is not None:
                raise
            raise DivergenceError(_HIDDEN) from None
        unit = self._unit(found, best)
        coef, middle = found.weights[best] * unit, float(found.middle[best]) * unit
        ridge, auc = (now._ridge, now._ridge_auc) if self._given is None else (self._given, None)
        if best == 0:
            Z, y, weight = now._held_rows()
            window = Z @ coef, y > 0, weight
        else:
            scores, positive = now._recent.of(best)
            counts = now._memories.counts[best]
            shares = [counts[0] / max(positive.sum(), 1), counts[1] / max((~positive).sum(), 1)]
            window = (scores + found.middle[best]) * unit, positive, np.where(positive, *shares)
            auc = now._recent.auc(best)
        coef = np.ldexp(coef, -self._exponents)
        self._warn_of_tiny(now)
        return MomentModel(self.features, coef, ridge, auc, middle), window

    def _unit(self, found: Directions, memory: int) -> float:
        """Return the factor that makes coefficients of a direction."""
        size = float(found.sizes[memory])
        return size * self._margin / (1.0 + size**2)

    def lately(self) -> tuple[Vector, float] | None:
        """Return the coefficients that were found last, and the score halfway between the classes.

        None before both classes were seen.
        """
        found, best = self._directions, self._best
        if found is None:
            return None
        unit = self._unit(found, best)
        coef = np.ldexp(found.weights[best] * unit, -self._exponents)
        return coef, float(found.middle[best]) * unit

    def whole(self) -> MomentValues:
        """Return the moments of all rows, as the longest memory has them."""
        return self._to_now()._memories.moments(0)

    def widen(self, features: FeatureMap, half_lives: tuple[float, ...]) -> None:
        """Make room for new features, which were 0 until now.

        `features` is the wider map, `half_lives` are those from now on, as many as before.
        """
        m, filled = features.n_outputs, self._filled
        more = m - self.features.n_outputs
        # Before the first block is learned nothing is known of any feature.
        low, high = (np.inf, -np.inf) if self._memories.origin is None else (0.0, 0.0)
        self._low = np.pad(self._low, (0, more), constant_values=low)
        self._high = np.pad(self._high, (0, more), constant_values=high)
        self._exponents = np.pad(self._exponents, (0, more))
        self._met = np.pad(self._met, (0, more))
        self._memories.widen(m, half_lives)
        self._apart.widen(m, half_lives[:1])
        self._held = [(np.pad(Z, ((0, 0), (0, more))), y, weight) for Z, y, weight in self._held]
        if self._scale is not None:
            self._scale = np.pad(self._scale, (0, more))
        if self._directions is not None:
            wider = np.pad(self._directions.weights, ((0, 0), (0, more)))
            self._directions = self._directions._replace(weights=wider)
        self.features, self._side = features, max(self._side, _side_for(m))
        room = self._side - filled
        self._Z = np.pad(self._Z[:filled], ((0, room), (0, more)))
        self._y, self._w = (np.pad(own[:filled], (0, room)) for own in (self._y, self._w))
        self._scores = np.pad(self._scores[:filled], ((0, room), (0, 0)))

    def _warn_of_tiny(self, now: BlockStream) -> None:
        """Say once which feature is too small for its squares to be added up."""
        size = np.maximum(np.abs(now._low), np.abs(now._high))
        tiny = np.flatnonzero((now._low < now._high) & (size < _TINY))
        if len(tiny) and not self._has_warned and self._scaled:
            self._has_warned = True
            warn_caller(
                f"feature {tiny[0]} varies by less than {_TINY:g}, too little for any scale, and "
                "counts as constant; give it in a smaller unit.",
                UserWarning,
            )

    def restart(self) -> None:
        """Forget all but the latest past; blocks begin anew."""
        now = self._to_now()
        self._memories = now._memories
        self._memories.restart(_KEPT)
        lives = self._memories.half_lives
        self._apart, self._held = Memories(self.features.n_outputs, lives[:1]), []
        self._recent = RecentScores(len(lives))
        self.n, self._best, self._ridge_at = 0, 0, 0
        self._start = 0
        self._scale, self._scale_at = None, 0

    def state(self) -> dict[str, Any]:
        """Return everything that the next rows depend on, as plain values and arrays."""
        now, (Z, y, weight) = slice(self._filled), self._held_rows()
        seen, found = np.isfinite(self._low), self._directions
        return {
            "n": self.n,
            "start": self._start,
            "exponents": self._exponents.copy(),
            "met": self._met.copy(),
            "scale": self._scale,
            "scale_at": self._scale_at,
            "memories": self._memories.state(),
            "apart": self._apart.state(),
            "low": np.where(seen, self._low, 0.0),
            "high": np.where(seen, self._high, 0.0),
            "Z": self._Z[now].copy(),
            "y": self._y[now].copy(),
            "weight": self._w[now].copy(),
            "scores": self._scores[now].copy(),
            "held": {"Z": Z, "y": y, "weight": weight},
            "recent": self._recent.state(),
            "directions": None if found is None else dict(zip(_DIRECTIONS, found, strict=True)),
            "ridge": self._ridge,
            "ridge_auc": self._ridge_auc,
            "ridge_at": self._ridge_at,
            "best": self._best,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state."""
        m, K = self.features.n_outputs, len(self._memories.half_lives)
        self.n = restored_count(state, "n")
        self._memories = Memories.from_state(state["memories"], m, self._memories.half_lives)
        self._apart = Memories.from_state(state["apart"], m, self._memories.half_lives[:1])
        for memories in (self._memories, self._apart):
            if memories.origin is not None:
                _values({"origin": memories.origin}, "origin", (m,))
        if not self._bounded and self._memories.origin is not None:
            self._low = _values(state, "low", (m,)).copy()
            self._high = _values(state, "high", (m,)).copy()
        self._start = restored_count(state, "start", maximum=self.n)
        if self._filled >= self._side:
            raise ValueError("the saved block is too long.")
        self._exponents = restored_array(state, "exponents", (m,), ("int32",)).copy()
        self._met = restored_array(state, "met", (m,), ("bool",)).copy()
        if np.abs(self._exponents).max(initial=0) > _LARGEST_EXPONENT:
            raise ValueError("the saved units are beyond all numbers.")
        self._scale_at = restored_count(state, "scale_at", maximum=self.n)
        self._scale = None if state["scale"] is None else restored_array(state, "scale", (m,))
        filled = self._filled
        now = slice(filled)
        self._Z[now] = _values(state, "Z", (filled, m))
        self._y[now] = _signs(restored_array(state, "y", (filled,)))
        self._w[now] = restored_weights(state, "weight", filled)
        self._scores[now] = restored_array(state, "scores", (filled, K))
        held = state["held"]
        y = _signs(restored_array(held, "y", (None,)))
        if len(y) > HELD:
            raise ValueError(f"more than {HELD} held-out examples are saved.")
        kept = _values(held, "Z", (len(y), m)), y, restored_weights(held, "weight", len(y))
        self._held = [kept] if len(y) else []
        self._recent.restore(state["recent"])
        found = state["directions"]
        self._directions = None
        if found is not None:
            shapes = zip(_DIRECTIONS, ((K, m), (K,), (K,)), strict=True)
            self._directions = Directions(
                *(restored_array(found, name, shape) for name, shape in shapes)
            )
        self._ridge = restored_number(state, "ridge", low=0.0)
        self._ridge_auc = None
        if state["ridge_auc"] is not None:
            self._ridge_auc = restored_number(state, "ridge_auc", low=0.0, high=1.0)
        self._ridge_at = restored_count(state, "ridge_at", maximum=self.n)
        self._best = restored_count(state, "best", maximum=K - 1)


def _side_for(n_features: int) -> int:
    """Return the rows of a block, a power of two."""
    return 1 << (max(_BLOCK, _ROWS_PER_FEATURE * n_features) - 1).bit_length()


def _values(state: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Vector:
    """Return saved values of mapped rows, which `_in_units` has cut off."""
    found = restored_array(state, name, shape)
    if np.abs(found).max(initial=0.0) > _CUT:
        raise ValueError(f"the saved {name} has values beyond {_CUT:g}.")
    return found


def _signs(y: Vector) -> Vector:
    if not (np.abs(y) == 1.0).all():
        raise ValueError("the saved labels are not -1 and 1.")
    return y
