# SPDX-License-Identifier: BSD-3-Clause
"""What the blocks of a stream have taught: moments, the memory, the ridge and the scales.

The first examples are kept, and their folds choose the ridge: the moments without a fold are a
difference. A stream that always forgets holds out one example in five instead. From the moments of
all examples follow the directions by which the next rows are scored.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.features import FeatureMap
from pairlearn.features.spreads import FLOOR, least_spread
from pairlearn.restored import restored_array, restored_count, restored_number
from pairlearn.solvers.closed_form.held_rows import HELD, HeldRows
from pairlearn.solvers.closed_form.mapped_moments import ridges_for, scale_for
from pairlearn.solvers.closed_form.memories import SMALL, Directions, Memories, spreads_of
from pairlearn.solvers.closed_form.open_block import OpenBlock, restored_values
from pairlearn.solvers.closed_form.recent_scores import RecentScores
from pairlearn.solvers.closed_form.stream_ridge import (
    EVERY,
    best_ridge,
    candidates,
    fold_aucs,
    held_folds,
    small_fold_aucs,
)
from pairlearn.typing import Vector

#: Scales, and the ridge, are found anew when the examples grew by these shares.
_GROWTH, _RIDGE_GROWTH = 0.125, 0.5
#: The ridge of a memory that forgets is at least this share of the noise in its moments,
#: d (1 / p + 1 / q) for p positives and q negatives.
_NOISE = 0.3
#: What a stream that starts anew keeps of its past: the weight of this many examples.
_KEPT = 250.0


class Learned:
    """Moments of rows that came in blocks, and what is chosen by them.

    The settings are those of `BlockStream`.
    """

    def __init__(
        self,
        features: FeatureMap,
        half_lives: tuple[float, ...],
        *,
        ridge: float | None,
        margin: float,
        scaled: bool,
        free: bool,
    ) -> None:
        m = features.n_outputs
        self.features, self.margin, self.scaled, self.given = features, margin, scaled, ridge
        self.free = free and scaled and ridge is None
        self.bounded = features.bounds().is_finite
        #: Examples since the start.
        self.n = 0
        self.memories = Memories(m, half_lives)
        #: Of the examples that a stream holds out because it always forgets, as in its memory.
        self.apart = Memories(m, half_lives[:1]) if half_lives[0] < np.inf else None
        self.low, self.high = np.full(m, np.inf), np.full(m, -np.inf)
        self.held = HeldRows(m)
        self.recent = RecentScores(len(half_lives))
        #: The memory that is chosen.
        self.best = 0
        self.ridge, self.ridge_at = ridges_for(features)[1], 0
        self.ridge_auc: float | None = None
        #: Whether the covariance is that of all examples.
        self.pooled = False
        #: The factors of features, and the number of examples that they were found from.
        self.scale: Vector | None = None
        self.scale_at = 0

    def add(self, block: OpenBlock) -> None:
        """Learn the rows of a block, all of which must be scored."""
        from pairlearn.kernels.memories import widen_ranges

        Z, y, weight = block.rows, block.y, block.weight
        self.memories.add(Z, y, weight)
        if not self.bounded:
            widen_ranges(Z, self.low, self.high)
        if self.apart is not None:
            held = slice((EVERY - 1 - self.n) % EVERY, None, EVERY)
            own = np.ascontiguousarray(Z[held]), y[held].copy(), weight[held].copy()
            self.apart.origin = self.memories.origin
            self.apart.add(*own, n_passed=len(y))
            self.held.add(*own)
        elif self.n < HELD:
            self.held.add(Z, y, weight)
        self.recent.add(block.scores, y)
        self.n += block.n

    def copy(self) -> Learned:
        """Return the same, which does not change with this one."""
        twin = copy.copy(self)
        twin.memories, twin.recent = self.memories.copy(), self.recent.copy()
        twin.apart = None if self.apart is None else self.apart.copy()
        twin.held = self.held.twin()
        twin.low, twin.high = self.low.copy(), self.high.copy()
        return twin

    @property
    def ridge_in_use(self) -> float:
        """The ridge that was given, else the one that is chosen."""
        return self.ridge if self.given is None else self.given

    @property
    def noise(self) -> float:
        """The least ridge of a memory that forgets, for one positive or one negative example."""
        return _NOISE * self.features.n_outputs if self.given is None else 0.0

    @property
    def good_until(self) -> float:
        """The number of examples with which scales, or the ridge, are found anew."""
        last = (1.0 + _GROWTH) * self.scale_at
        return last if self.given is not None else min(last, (1.0 + _RIDGE_GROWTH) * self.ridge_at)

    def directions(self) -> Directions:
        """Return the scores of all memories; both classes must have been seen."""
        counts, ridge = self.memories.counts, self.ridge_in_use
        ridges = np.full(len(counts), ridge)
        if self.given is None and len(counts) > 1:
            shares = 1.0 / np.maximum(counts, 1.0)
            noise = self.noise * (shares[:, 0] + shares[:, 1])
            np.maximum(ridge, noise[1:], out=ridges[1:])
        scale = self.scale
        if (
            scale is None
            or self.n >= (1.0 + _GROWTH) * self.scale_at
            # A feature that was constant until now must not wait.
            or (not scale.all() and ((scale == 0.0) & (self.low < self.high)).any())
        ):
            self.scale = scale = self._new_scale()
            self.scale_at = self.n
        return self.memories.directions(scale, ridges, pooled=self.pooled)

    def _new_scale(self) -> Vector:
        """Return the factor of each feature, as `MappedValues.scale` does from all moments."""
        return self._scale_for(self.memories.sums[0])

    def scale_of(self, train: Memories) -> Vector:
        """Return the factor of each feature for a part of the examples."""
        return self._scale_for(train.sums[0])

    def _scale_for(self, sums: Vector) -> Vector:
        m, origin = self.features.n_outputs, self.memories.origin
        if not self.scaled:
            return np.ones(m)
        assert origin is not None
        if self.bounded or m > SMALL:
            return scale_for(self.features, *spreads_of(sums, origin), self.low, self.high)
        from pairlearn.kernels.memories import find_scale

        scale = np.empty(m)
        extents = origin, self.low, self.high
        find_scale(sums, *extents, FLOOR, least_spread(np.float64), np.empty(m), scale)
        return scale

    def choose_ridge_if_due(self, *, always: int = 0, repeated: bool = False) -> None:
        """Take the ridge, and the kind of covariance, with the best AUC on held-out examples.

        It is due if none is given and the examples have grown enough, or are fewer than `always`.
        Folds of a rare class are dealt once, or `repeated`.
        """
        grown = self.n >= (1.0 + _RIDGE_GROWTH) * self.ridge_at
        if self.given is not None or not (self.n < always or grown):
            return
        self.ridge_at = self.n
        rarer = min(self.memories.counts[0])
        tried = candidates(ridges_for(self.features), rarer, free=self.free)
        rows = self.held.latest()
        worth = None
        if self.apart is None and self.features.n_outputs <= SMALL:
            given = self.memories, rows, self.n, self._scale_for
            worth = small_fold_aucs(*given, *tried, repeated=repeated)
        if worth is None:
            folds = held_folds(self.memories, self.apart, rows, self.n, repeated=repeated)
            worth = fold_aucs(folds, self.scale_of, *tried)
        found = best_ridge(worth, *tried)
        if found is not None:
            self.ridge, self.pooled, self.ridge_auc = found

    def widen(self, features: FeatureMap, half_lives: tuple[float, ...]) -> None:
        """Make room for the new features of a wider map, which were 0 until now."""
        m = features.n_outputs
        more = m - self.features.n_outputs
        # Before the first block is learned nothing is known of any feature.
        low, high = (np.inf, -np.inf) if self.memories.origin is None else (0.0, 0.0)
        self.low = np.pad(self.low, (0, more), constant_values=low)
        self.high = np.pad(self.high, (0, more), constant_values=high)
        self.memories.widen(m, half_lives)
        if self.apart is not None:
            self.apart.widen(m, half_lives[:1])
        self.held.widen(more)
        if self.scale is not None:
            self.scale = np.pad(self.scale, (0, more))
        self.features = features

    def restart(self) -> None:
        """Forget all but the latest past."""
        self.memories.restart(_KEPT)
        lives, m = self.memories.half_lives, self.features.n_outputs
        self.apart = None if self.apart is None else Memories(m, lives[:1])
        self.held = HeldRows(m)
        self.recent = RecentScores(len(lives))
        self.n, self.best, self.ridge_at, self.pooled = 0, 0, 0, False
        self.scale, self.scale_at = None, 0

    def state(self) -> dict[str, Any]:
        """Return everything that the next rows depend on, as plain values and arrays."""
        seen = np.isfinite(self.low)
        return {
            "start": self.n,
            "scale": self.scale,
            "scale_at": self.scale_at,
            "memories": self.memories.state(),
            "apart": None if self.apart is None else self.apart.state(),
            "low": np.where(seen, self.low, 0.0),
            "high": np.where(seen, self.high, 0.0),
            "held": self.held.state(),
            "recent": self.recent.state(),
            "pooled": int(self.pooled),
            "ridge": self.ridge,
            "ridge_auc": self.ridge_auc,
            "ridge_at": self.ridge_at,
            "best": self.best,
        }

    def restore(self, state: Mapping[str, Any], n: int) -> None:
        """Go back to a state of a stream of n examples."""
        m, lives = self.features.n_outputs, self.memories.half_lives
        self.memories = Memories.from_state(state["memories"], m, lives)
        if self.apart is not None:
            self.apart = Memories.from_state(state["apart"], m, lives[:1])
        for memories in (self.memories, self.apart):
            if memories is not None and memories.origin is not None:
                restored_values({"origin": memories.origin}, "origin", (m,))
        if not self.bounded and self.memories.origin is not None:
            self.low = restored_values(state, "low", (m,)).copy()
            self.high = restored_values(state, "high", (m,)).copy()
        self.n = restored_count(state, "start", maximum=n)
        self.scale_at = restored_count(state, "scale_at", maximum=n)
        self.scale = None if state["scale"] is None else restored_array(state, "scale", (m,))
        self.held.restore(state["held"])
        self.recent.restore(state["recent"])
        self.ridge = restored_number(state, "ridge", low=0.0)
        self.pooled = bool(restored_count(state, "pooled", maximum=1))
        self.ridge_auc = None
        if state["ridge_auc"] is not None:
            self.ridge_auc = restored_number(state, "ridge_auc", low=0.0, high=1.0)
        self.ridge_at = restored_count(state, "ridge_at", maximum=n)
        self.best = restored_count(state, "best", maximum=len(lives) - 1)
