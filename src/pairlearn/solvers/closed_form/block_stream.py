# SPDX-License-Identifier: BSD-3-Clause
"""Mapped rows of a stream, learned by their class moments in blocks.

Blocks begin at fixed places of the stream, so neither moments nor choices depend on how chunks
arrive, bit for bit. Rows of an unfinished block are kept. At the end of a block the coefficients of
all memories are found, and the next block is scored by them before it is learned; these scores
choose the memory (`recent_scores`). A block has some rows for each feature, so that the
coefficients cost no more than the moments.

The first examples are kept, and their folds choose the ridge: the moments without a fold are a
difference. A stream that always forgets holds out one example in five instead. The moments of all
examples make the model.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pairlearn.features import FeatureMap
from pairlearn.restored import restored_array, restored_count, restored_number
from pairlearn.solvers.closed_form.held_rows import HELD, HeldRows
from pairlearn.solvers.closed_form.mapped_moments import MappedValues, ridges_for, scale_for
from pairlearn.solvers.closed_form.memories import (
    FORGOTTEN,
    LEAST,
    SMALL,
    Directions,
    Memories,
    moments_of,
    spreads_of,
)
from pairlearn.solvers.closed_form.moment_values import MomentValues
from pairlearn.solvers.closed_form.open_block import (
    CUT,
    OpenBlock,
    restored_values,
)
from pairlearn.solvers.closed_form.recent_scores import ERRORS, FEWEST, RecentScores
from pairlearn.solvers.closed_form.stream_ridge import (
    EVERY,
    Window,
    best_ridge,
    candidates,
    held_folds,
    held_scores,
)
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, warn_caller

#: The most features whose moments a stream keeps by default: with more of them the moments cost
#: too much beside steps of descent.
MOST_BY_MOMENTS = 256
#: The fewest rows of a block, and rows for each feature: a solution costs as much as their moments.
_BLOCK, _ROWS_PER_FEATURE = 128, 2
#: Examples after which coefficients are first found; then whenever their number has doubled, until
#: a block is full.
YOUNG = 8
#: Scales, and the ridge, are found anew when the examples grew by these shares.
_GROWTH, _RIDGE_GROWTH = 0.125, 0.5
#: A model of fewer examples than this, when it is asked for, always chooses its ridge.
_SHORT = 8192
#: After so many blocks a model takes what is chosen from those before the open one, while that one
#: adds at most a block in so many to each class: a prediction after each example would choose anew
#: each time.
_BLOCKS = 16
#: The ridge of a memory that forgets is at least this share of the noise in its moments,
#: d (1 / p + 1 / q) for p positives and q negatives.
_NOISE = 0.3
#: A feature that begins with a larger value has a unit of its own.
_HUGE = 1e70
#: A feature that varies less counts as constant.
_TINY = 1e-70
#: A row whose squares add up to at most this needs no other units.
_PLAIN = _HUGE**2
_HIDDEN = (
    "Some examples weigh so much more than others that rounding hides the others, and no ridge "
    "makes up for it; give weights that differ by less than a factor of 1e8."
)
#: The exponent of the largest number.
_LARGEST_EXPONENT = 1024
#: What a stream that starts anew keeps of its past: the weight of this many examples.
_KEPT = 250.0


_NONE = np.empty(0)
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
    #: Whether it is Fisher's discriminant.
    pooled: bool = False


def next_double(n: int) -> int:
    """Return the first of 8, 16, 32, ... that is above n.

    >>> next_double(0), next_double(8), next_double(100)
    (8, 16, 128)
    """
    return max(YOUNG, 1 << n.bit_length())


class BlockStream:
    """The moments of mapped rows so far, and the model that follows from them.

    Without a `ridge` the best by held-out AUC is taken; if `scaled`, it refers to features of mean
    variance 1. `margin` is that of the square loss. If it is `free`, it may take the covariance of
    all examples instead of the sum of those of the classes, which is Fisher's discriminant.
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
        m = features.n_outputs
        self.features, self._margin, self._scaled, self._given = features, margin, scaled, ridge
        self._free = free and scaled and ridge is None
        self._bounded = features.bounds().is_finite
        self._memories = Memories(m, half_lives)
        # Of the examples that a stream holds out because it always forgets, as in its memory.
        self._apart = Memories(m, half_lives[:1]) if half_lives[0] < np.inf else None
        self._low, self._high = np.full(m, np.inf), np.full(m, -np.inf)
        # Powers of two that bring features to numbers whose squares can be added up, and whether
        # they are known.
        self._exponents, self._met = np.zeros(m, dtype=np.int32), np.zeros(m, dtype=bool)
        self._has_units = False
        # The unfinished block, where it starts, and when coefficients are found next.
        self._block = OpenBlock(_side_for(m), m, len(half_lives))
        self._start, self._due = 0, YOUNG
        # Scores and labels of rows that came one by one, until they are asked for.
        self._owed: list[tuple[Vector, Vector]] = []
        self._held = HeldRows(m)
        self._recent = RecentScores(len(half_lives))
        self._directions: Directions | None = None
        # Its weights, a column for each memory.
        self._columns: Vector | None = None
        # The arguments of a kernel that learns blocks, while it can, and no rows.
        self._none = np.empty((0, m))
        self._compiled: tuple[Any, ...] | None = None
        self._ridge, self._ridge_at = ridges_for(features)[1], 0
        self._ridge_auc: float | None = None
        # Whether the covariance is that of all examples.
        self._pooled = False
        # The factors of features, and the number of examples that they were found from.
        self._scale: Vector | None = None
        self._scale_at = 0
        self._best, self._has_warned = 0, False
        # The stream as it was when the open block began, with the ridge of its models, and what
        # finds scores to decide from. Found when a model asks for it.
        self._begun: tuple[BlockStream, Callable[[], Window]] | None = None

    @property
    def n(self) -> int:
        """Examples since the start."""
        return self._start + self._block.n

    @property
    def half_life(self) -> float:
        """The half-life that is chosen now."""
        self.settle()
        return float(self._memories.half_lives[self._best])

    def __getstate__(self) -> dict[str, Any]:
        # A copy finds it anew.
        return {**vars(self), "_begun": None}

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
            self._has_units = bool(self._exponents.any())
        if self._has_units:
            Z = np.ldexp(Z, -self._exponents)
        flat = Z.ravel()
        with np.errstate(over="ignore"):
            # Most rows are far from it, which one product tells.
            if flat.dot(flat) <= _PLAIN or np.abs(Z).max(initial=0.0) <= CUT:
                return Z
        return np.clip(Z, -CUT, CUT)

    def learn(self, Z: Vector, y: Vector, weight: Vector) -> Vector:
        """Learn mapped rows, each with some weight; return the scores that they had before."""
        self.settle()
        Z = self._in_units(Z)
        block, scores, at = self._block, np.empty(len(y)), 0
        while at < len(y):
            if self._compiled is not None:
                at = self._run_compiled(Z, y, weight, at, scores)
                continue
            stop = min(len(y), at + self._due - self.n)
            now, place = slice(at, stop), slice(block.n, None)
            block.take(Z[now], y[now], weight[now])
            self._score_block()
            scores[now] = block.scores[place, self._best]
            self._find_if_due()
            at = stop
        return scores

    def _run_compiled(self, Z: Vector, y: Vector, weight: Vector, at: int, scores: Vector) -> int:
        """Learn rows from `at` on, up to a block after which scales or the ridge are found anew.

        Return where to go on. Nothing but the moments, the memory and the directions changes with
        the blocks before.
        """
        from pairlearn.kernels.memories import learn_rows

        assert self._compiled is not None
        block = self._block
        place = np.array([block.n, self._start, self._best, self._held.n, 0])
        at = learn_rows(Z, y, weight, at, scores, place, *self._compiled)
        n, self._start, self._best, self._held.n, stopped = place.tolist()
        block.n = block.n_scored = n
        self._due = self._start + block.side
        if stopped:
            self._find_anew()
            self._prepare()
        return at

    def _prepare(self) -> None:
        """Note what `learn_rows` wants, if the next blocks are ordinary ones.

        They are until scales or the ridge are found anew.
        """
        from pairlearn.kernels.memories import room_for_block, room_for_directions

        scale, found, m = self._scale, self._directions, self.features.n_outputs
        self._compiled = None
        if found is None or scale is None or m > SMALL or self._bounded:
            return
        memories, block = self._memories, self._block
        if self._apart is not None:  # All of its blocks have examples to be held out.
            return
        ridge, last = self._given, (1.0 + _GROWTH) * self._scale_at
        noise = 0.0
        if ridge is None:
            ridge, noise = self._ridge, _NOISE * m
            last = min(last, (1.0 + _RIDGE_GROWTH) * self._ridge_at)
        self._held.make_room(max(0, int(min(last, HELD)) - self._start) + block.side)
        self._compiled = (
            last, *block.arrays(), self._columns, *found,
            memories.origin, memories.share_left(block.side), FORGOTTEN, memories.sums,
            memories.counts, *room_for_block(block.side, m), self._low, self._high,
            *self._recent.arrays(), FEWEST, ERRORS, scale, ridge, noise, LEAST, self._pooled,
            np.empty(len(found.sizes)), *room_for_directions(m), *map(np.empty_like, found),
            HELD, *self._held.arrays(),
        )  # fmt: skip

    @property
    def _holds_out(self) -> bool:
        """Whether examples of the open block are kept to choose the ridge."""
        return self._apart is not None or self._start < HELD

    def put(self, x: Vector, y: float) -> int:
        """Learn one mapped row of weight 1, whose score `owed` returns.

        Return the rows that may follow before `settle` has work to do; -1 if this row was not
        taken because a value is huge, or none: `learn` it.
        """
        # The comparison is false with NaN and infinity, too.
        if not x.dot(x) <= _PLAIN or self._has_units:
            return -1
        left = self._due - self._start - self._block.n
        if not left:  # An interrupt came after the last row.
            self.settle()
            left = self._due - self.n
        self._block.put(x, y)
        return left - 1

    def settle(self) -> None:
        """Score the rows that came one by one, and find coefficients if they are due."""
        block = self._block
        if block.n_scored < block.n:
            new = slice(block.n_scored, block.n)
            self._met |= (block.rows[new] != 0.0).any(axis=0)
            self._score_block()
            self._owed.append((block.scores[new, self._best].copy(), block.y[new].copy()))
        self._find_if_due()

    @property
    def n_owed(self) -> int:
        """The number of scores that `owed` would return."""
        return self._block.n - self._block.n_scored + sum(len(y) for _, y in self._owed)

    def owed(self) -> tuple[Vector, Vector]:
        """Return scores before learning, and labels, of rows that were put since the last call."""
        self.settle()
        found, self._owed = [(np.empty(0), np.empty(0)), *self._owed], []
        scores, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return scores, labels

    def _score_block(self) -> None:
        found = self._directions
        self._block.score(self._columns, None if found is None else found.middle)

    def _find_if_due(self) -> None:
        if self.n < self._due:
            return
        if self._compiled is not None:
            # A full block, since all others are due before there is a kernel for them.
            self._run_compiled(self._none, _NONE, _NONE, 0, _NONE)
            return
        if self._block.n == self._block.side:
            self._close()
        else:
            self._refresh()
        self._due = self.n + self.until_refresh
        self._prepare()

    @property
    def until_refresh(self) -> int:
        """The number of examples until coefficients are found anew."""
        end = self._start + self._block.side
        if self._start == 0:
            end = min(end, next_double(self.n))
        return end - self.n

    def _close(self) -> None:
        """Learn the block, which is full, choose memory and ridge, and begin the next block."""
        self._learn_open_block()
        self._start = self.n
        self._block.clear()
        self._best = self._recent.best()
        self._find_anew()

    def _find_anew(self) -> None:
        """Choose the ridge if it is due, and find scales and directions."""
        if self._given is None and self._ridge_is_due():
            self._choose_ridge()
        self._refresh()

    def _learn_open_block(self) -> None:
        """Add the rows of the unfinished block to moments and scores."""
        block = self._block
        self._learn_block(block.rows, block.y, block.weight)
        self._recent.add(block.scores, block.y)

    def _learn_block(self, Z: Vector, y: Vector, weight: Vector) -> None:
        """Add rows to the moments, and keep those that choose the ridge."""
        from pairlearn.kernels.memories import widen_ranges

        self._memories.add(Z, y, weight)
        if not self._bounded:
            widen_ranges(Z, self._low, self._high)
        if not self._holds_out:
            return
        if self._apart is None:
            self._held.add(Z, y, weight)
            return
        held = slice((EVERY - 1 - self._start) % EVERY, None, EVERY)
        own = np.ascontiguousarray(Z[held]), y[held].copy(), weight[held].copy()
        self._apart.origin = self._memories.origin
        self._apart.add(*own, n_passed=len(y))
        self._held.add(*own)

    def _to_now(self) -> BlockStream:
        """Return this stream with the rows of the unfinished block learned."""
        if not self._block.n:
            return self
        twin = self._twin()
        twin._learn_open_block()
        twin._start, twin._block = self.n, OpenBlock(0, *self._memories.shape)
        return twin

    def _twin(self) -> BlockStream:
        """Return an equal stream, which does not change with this one."""
        twin = copy.copy(self)
        twin._memories, twin._recent = self._memories.copy(), self._recent.copy()
        twin._apart = None if self._apart is None else self._apart.copy()
        twin._held = self._held.twin()
        twin._low, twin._high = self._low.copy(), self._high.copy()
        return twin

    def _refresh(self) -> None:
        """Find the scores of all memories, if both classes have been seen."""
        now = self._to_now()
        if now._memories.knows_both:
            with contextlib.suppress(ValueError):  # Rounding: the scores of before are as good.
                self._aim(now._all_directions())

    def _aim(self, found: Directions | None) -> None:
        """Score rows by these directions from now on."""
        self._directions = found
        self._columns = None if found is None else np.ascontiguousarray(found.weights.T)

    def _moments(self, sums: Vector) -> MappedValues:
        """Return sums about the origin as moments of the map."""
        assert self._memories.origin is not None
        found = moments_of(sums, self._memories.origin)
        return MappedValues(self.features, found, self._low, self._high)

    def _all_directions(self) -> Directions:
        counts, ridge = self._memories.counts, self._ridge if self._given is None else self._given
        ridges = np.full(len(counts), ridge)
        if self._given is None and len(counts) > 1:
            shares = 1.0 / np.maximum(counts, 1.0)
            noise = _NOISE * self.features.n_outputs * (shares[:, 0] + shares[:, 1])
            np.maximum(ridge, noise[1:], out=ridges[1:])
        scale = self._scale
        if (
            scale is None
            or self.n >= (1.0 + _GROWTH) * self._scale_at
            # A feature that was constant until now must not wait.
            or (not scale.all() and ((scale == 0.0) & (self._low < self._high)).any())
        ):
            self._scale = scale = self._new_scale()
            self._scale_at = self.n
        return self._memories.directions(scale, ridges, pooled=self._pooled)

    def _new_scale(self) -> Vector:
        """Return the factor of each feature, as `MappedValues.scale` does from all moments."""
        if not self._scaled:
            return np.ones(self.features.n_outputs)
        assert self._memories.origin is not None
        found = spreads_of(self._memories.sums[0], self._memories.origin)
        return scale_for(self.features, *found, self._low, self._high)

    def _scale_of(self, train: Memories) -> Vector:
        """Return the factor of each feature for a part of the examples."""
        return self._moments(train.sums[0]).scale(scaled=self._scaled)

    def _ridge_is_due(self, always: int = 0) -> bool:
        """Tell whether the examples have grown enough, or are fewer than `always`."""
        return self.n < always or self.n >= (1.0 + _RIDGE_GROWTH) * self._ridge_at

    def _choose_ridge(self, *, repeated: bool = False) -> None:
        """Take the ridge, and the kind of covariance, with the best AUC on held-out examples.

        Folds of a rare class are dealt once, or `repeated`.
        """
        self._ridge_at = self.n
        rarer = min(self._memories.counts[0])
        tried = candidates(ridges_for(self.features), rarer, free=self._free)
        rows = self._held.latest()
        folds = held_folds(self._memories, self._apart, rows, self.n, repeated=repeated)
        found = best_ridge(folds, self._scale_of, *tried)
        if found is not None:
            self._ridge, self._pooled, self._ridge_auc = found

    def model(self) -> tuple[MomentModel, Callable[[], Window]] | None:
        """Return the model of all rows, and what finds scores, labels and weights to decide from.

        These scores are relative to `middle`; models that decide alike have the same finder. None
        before both classes were seen.
        """
        self.settle()
        now = self._to_now()
        if not now._memories.knows_both:
            return None
        if now is self:
            now = self._twin()
        now._scale, find = None, now._window
        if self._is_ripe(now._memories.counts[0]):
            chosen, find = self._as_begun()
            now._ridge, now._pooled = chosen._ridge, chosen._pooled
            now._ridge_auc = chosen._ridge_auc
        elif self.n > self._ridge_at:
            now._choose_for_model()
        try:
            best, found = self._best, now._all_directions()
        except ValueError:
            if self._given is not None:
                raise
            raise DivergenceError(_HIDDEN) from None
        unit = self._unit(found, best)
        coef, middle = found.weights[best] * unit, float(found.middle[best]) * unit
        ridge, auc = (now._ridge, now._ridge_auc) if self._given is None else (self._given, None)
        if best:
            auc = now._recent.auc(best)
        coef = np.ldexp(coef, -self._exponents)
        self._warn_of_tiny(now)
        return MomentModel(self.features, coef, ridge, auc, middle, now._pooled), find

    def _is_ripe(self, counts: Vector) -> bool:
        """Tell whether the blocks before the open one have most of these examples of each class."""
        most = (1.0 + 1.0 / _BLOCKS) * self._memories.counts[0]
        return self._start >= _BLOCKS * self._block.side and bool((counts <= most).all())

    def _choose_for_model(self) -> None:
        """Choose the ridge of a model, if it is due or the examples are few."""
        if self._given is None and self._ridge_is_due(_SHORT):
            self._choose_ridge(repeated=True)

    def _as_begun(self) -> tuple[BlockStream, Callable[[], Window]]:
        """Return the stream of the blocks before the open one, and what finds its scores.

        Neither depends on when models are asked for.
        """
        if self._begun is None or self._begun[0].n != self._start:
            twin = self._twin()
            twin._block = OpenBlock(0, *self._memories.shape)
            twin._choose_for_model()
            self._begun = twin, twin._window
        return self._begun

    def _window(self) -> Window:
        """Return scores relative to that halfway between the classes, labels and weights.

        No score is of an example that its model had learned: in-sample scores are too sure, most of
        all with many features and few rows. While everything is remembered, they are those of folds
        of the kept rows, else those of recent examples before they were learned. Only an example
        that is alone in its class cannot be held out.
        """
        best = self._best
        if best:
            scores, positive = self._recent.of(best)
            counts = self._memories.counts[best]
            shares = [counts[0] / max(positive.sum(), 1), counts[1] / max((~positive).sum(), 1)]
            unit = self._unit(self._all_directions(), best)
            return scores * unit, positive, np.where(positive, *shares)
        ridge = self._ridge if self._given is None else self._given
        rows = self._held.latest()
        folds = held_folds(self._memories, self._apart, rows, self.n, every=True)
        kept = held_scores(folds, self._scale_of, ridge, self._unit, pooled=self._pooled)
        if kept is not None:
            return kept
        found, (Z, y, weight) = self._all_directions(), rows
        return (Z @ found.weights[0] - found.middle[0]) * self._unit(found), y > 0, weight

    def _unit(self, found: Directions, memory: int = 0) -> float:
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
        self.settle()
        return self._to_now()._memories.moments(0)

    def widen(self, features: FeatureMap, half_lives: tuple[float, ...]) -> None:
        """Make room for new features, which were 0 until now.

        `features` is the wider map, `half_lives` are those from now on, as many as before.
        """
        self.settle()
        m = features.n_outputs
        more = m - self.features.n_outputs
        # Before the first block is learned nothing is known of any feature.
        low, high = (np.inf, -np.inf) if self._memories.origin is None else (0.0, 0.0)
        self._low = np.pad(self._low, (0, more), constant_values=low)
        self._high = np.pad(self._high, (0, more), constant_values=high)
        self._exponents = np.pad(self._exponents, (0, more))
        self._met = np.pad(self._met, (0, more))
        self._memories.widen(m, half_lives)
        if self._apart is not None:
            self._apart.widen(m, half_lives[:1])
        self._held.widen(more)
        if self._scale is not None:
            self._scale = np.pad(self._scale, (0, more))
        if self._directions is not None:
            wider = np.pad(self._directions.weights, ((0, 0), (0, more)))
            self._aim(self._directions._replace(weights=wider))
        self.features, self._begun = features, None
        self._block = self._block.widened(max(self._block.side, _side_for(m)), m)
        self._due = self.n + self.until_refresh
        self._prepare()

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
        self.settle()
        now = self._to_now()
        self._memories = now._memories
        self._memories.restart(_KEPT)
        lives = self._memories.half_lives
        m = self.features.n_outputs
        self._apart = None if self._apart is None else Memories(m, lives[:1])
        self._held = HeldRows(m)
        self._recent = RecentScores(len(lives))
        self._best, self._ridge_at, self._pooled, self._begun = 0, 0, False, None
        self._block.clear()
        self._start, self._due = 0, YOUNG
        self._scale, self._scale_at = None, 0
        self._prepare()

    def state(self) -> dict[str, Any]:
        """Return everything that the next rows depend on, as plain values and arrays."""
        self.settle()
        seen, found = np.isfinite(self._low), self._directions
        return {
            "n": self.n,
            "start": self._start,
            "exponents": self._exponents.copy(),
            "met": self._met.copy(),
            "scale": self._scale,
            "scale_at": self._scale_at,
            "memories": self._memories.state(),
            "apart": None if self._apart is None else self._apart.state(),
            "low": np.where(seen, self._low, 0.0),
            "high": np.where(seen, self._high, 0.0),
            **self._block.state(),
            "held": self._held.state(),
            "recent": self._recent.state(),
            "pooled": int(self._pooled),
            "directions": None
            if found is None
            else {name: own.copy() for name, own in zip(_DIRECTIONS, found, strict=True)},
            "ridge": self._ridge,
            "ridge_auc": self._ridge_auc,
            "ridge_at": self._ridge_at,
            "best": self._best,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state."""
        m, K = self.features.n_outputs, len(self._memories.half_lives)
        n = restored_count(state, "n")
        self._memories = Memories.from_state(state["memories"], m, self._memories.half_lives)
        if self._apart is not None:
            self._apart = Memories.from_state(state["apart"], m, self._memories.half_lives[:1])
        for memories in (self._memories, self._apart):
            if memories is not None and memories.origin is not None:
                restored_values({"origin": memories.origin}, "origin", (m,))
        if not self._bounded and self._memories.origin is not None:
            self._low = restored_values(state, "low", (m,)).copy()
            self._high = restored_values(state, "high", (m,)).copy()
        self._start = restored_count(state, "start", maximum=n)
        self._block.restore(state, n - self._start)
        self._due, self._owed, self._begun = n + self.until_refresh, [], None
        self._exponents = restored_array(state, "exponents", (m,), ("int32",)).copy()
        self._met = restored_array(state, "met", (m,), ("bool",)).copy()
        if np.abs(self._exponents).max(initial=0) > _LARGEST_EXPONENT:
            raise ValueError("the saved units are beyond all numbers.")
        self._scale_at = restored_count(state, "scale_at", maximum=n)
        self._scale = None if state["scale"] is None else restored_array(state, "scale", (m,))
        self._has_units = bool(self._exponents.any())
        self._held.restore(state["held"])
        self._recent.restore(state["recent"])
        found = state["directions"]
        self._aim(None)
        if found is not None:
            shapes = zip(_DIRECTIONS, ((K, m), (K,), (K,)), strict=True)
            self._aim(Directions(*(restored_array(found, name, shape) for name, shape in shapes)))
        self._ridge = restored_number(state, "ridge", low=0.0)
        self._pooled = bool(restored_count(state, "pooled", maximum=1))
        self._ridge_auc = None
        if state["ridge_auc"] is not None:
            self._ridge_auc = restored_number(state, "ridge_auc", low=0.0, high=1.0)
        self._ridge_at = restored_count(state, "ridge_at", maximum=n)
        self._best = restored_count(state, "best", maximum=K - 1)
        self._prepare()


def _side_for(n_features: int) -> int:
    """Return the rows of a block, a power of two."""
    return 1 << (max(_BLOCK, _ROWS_PER_FEATURE * n_features) - 1).bit_length()
