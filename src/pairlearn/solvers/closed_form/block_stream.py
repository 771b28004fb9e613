# SPDX-License-Identifier: BSD-3-Clause
"""Mapped rows of a stream, learned by their class moments in blocks.

Blocks begin at fixed places of the stream, so neither moments nor choices depend on how chunks
arrive, bit for bit. Rows of an unfinished block are kept. At the end of a block the coefficients of
all memories are found, and the next block is scored by them before it is learned; these scores
choose the memory (`recent_scores`). A block has some rows for each feature, so that the
coefficients cost no more than the moments.

What blocks have taught is in `learned`, and the model that follows from it in `stream_model`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.features import FeatureMap
from pairlearn.restored import restored_array, restored_count
from pairlearn.solvers.closed_form.held_rows import HELD
from pairlearn.solvers.closed_form.learned import Learned
from pairlearn.solvers.closed_form.memories import FORGOTTEN, LEAST, SMALL, Directions
from pairlearn.solvers.closed_form.moment_values import MomentValues
from pairlearn.solvers.closed_form.open_block import CUT, OpenBlock
from pairlearn.solvers.closed_form.recent_scores import ERRORS, FEWEST
from pairlearn.solvers.closed_form.stream_model import (
    Chosen,
    Finder,
    MomentModel,
    chosen_for_models,
    coefficients_of,
    is_ripe,
    model_of,
)
from pairlearn.typing import Vector
from pairlearn.validation import warn_caller

#: The most features whose moments a stream keeps by default: with more of them the moments cost
#: too much beside steps of descent.
MOST_BY_MOMENTS = 256
#: The fewest rows of a block, and rows for each feature: a solution costs as much as their moments.
_BLOCK, _ROWS_PER_FEATURE = 128, 2
#: Examples after which coefficients are first found; then whenever their number has doubled, until
#: a block is full.
YOUNG = 8
#: A feature that begins with a larger value has a unit of its own.
_HUGE = 1e70
#: A feature that varies less counts as constant.
_TINY = 1e-70
#: A row whose squares add up to at most this needs no other units.
_PLAIN = _HUGE**2
#: The exponent of the largest number.
_LARGEST_EXPONENT = 1024

_NONE = np.empty(0)
#: The parts of directions in a state.
_DIRECTIONS = ("weights", "middle", "sizes")


@functools.cache
def _kernels() -> Any:
    """Return the module of kernels. It imports numba, so it is imported on first use."""
    from pairlearn.kernels import memories

    return memories


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

    #: Room for `learn_rows`, which any block of this shape can use.
    _rooms: tuple[Any, ...] | None = None

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
        self._learned = Learned(
            features, half_lives, ridge=ridge, margin=margin, scaled=scaled, free=free
        )
        # Powers of two that bring features to numbers whose squares can be added up, and whether
        # they are known.
        self._exponents, self._met = np.zeros(m, dtype=np.int32), np.zeros(m, dtype=bool)
        self._has_units, self._has_warned = False, False
        # The unfinished block, and when coefficients are found next.
        self._block = OpenBlock(_side_for(m), m, len(half_lives))
        self._due = YOUNG
        # Scores and labels of rows that came one by one, until they are asked for.
        self._owed: list[tuple[Vector, Vector]] = []
        self._directions: Directions | None = None
        # Its weights, a column for each memory.
        self._columns: Vector | None = None
        # The arguments of a kernel that learns blocks, while it can, and no rows.
        self._none = np.empty((0, m))
        self._compiled: tuple[Any, ...] | None = None
        # What models take from the blocks before the open one. Found when a model asks for it.
        self._begun: Chosen | None = None

    @property
    def features(self) -> FeatureMap:
        """The map of the rows."""
        return self._learned.features

    @property
    def n(self) -> int:
        """Examples since the start."""
        return self._learned.n + self._block.n

    @property
    def half_life(self) -> float:
        """The half-life that is chosen now."""
        self.settle()
        return float(self._learned.memories.half_lives[self._learned.best])

    def __getstate__(self) -> dict[str, Any]:
        # A copy finds it anew.
        return {**vars(self), "_begun": None, "_rooms": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state if "_learned" in state else _with_learned(state))

    def _in_units(self, Z: Vector) -> Vector:
        """Return rows whose squares neither overflow nor vanish.

        The first value of a feature other than 0 sets its unit, a power of two: 1 unless that value
        is huge. Values far beyond it are cut off: their feature has no other spread anyway.
        """
        if self._learned.bounded:
            return Z
        if b"\0" in self._met.tobytes():  # as `not self._met.all()`, in a third of the time
            new = np.flatnonzero(~self._met)
            there = Z[:, new] != 0.0
            new, there = new[there.any(axis=0)], there[:, there.any(axis=0)]
            first = np.abs(Z[there.argmax(axis=0), new])
            self._met[new] = True
            self._exponents[new] = np.where(first > _HUGE, np.frexp(first)[1], 0)
            self._has_units = bool(self._exponents.any())
        if self._has_units:
            Z = np.ldexp(Z, -self._exponents)
        return np.clip(Z, -CUT, CUT) if _kernels().reach_beyond(Z, CUT) else Z

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
            scores[now] = block.scores[place, self._learned.best]
            self._find_if_due()
            at = stop
        return scores

    def _run_compiled(self, Z: Vector, y: Vector, weight: Vector, at: int, scores: Vector) -> int:
        """Learn rows from `at` on, up to a block after which scales or the ridge are found anew.

        Return where to go on. Nothing but the moments, the memory and the directions changes with
        the blocks before.
        """
        assert self._compiled is not None
        block, learned = self._block, self._learned
        place = np.array([block.n, learned.n, learned.best, learned.held.n, 0])
        at = _kernels().learn_rows(Z, y, weight, at, scores, place, *self._compiled)
        n, learned.n, learned.best, learned.held.n, stopped = place.tolist()
        block.n = block.n_scored = n
        self._due = learned.n + block.side
        if stopped:
            self._find_anew()
            self._prepare()
        return at

    def _prepare(self) -> None:
        """Note what `learn_rows` wants, if the next blocks are ordinary ones.

        They are until scales or the ridge are found anew.
        """
        learned, found, m = self._learned, self._directions, self.features.n_outputs
        scale, memories, block = learned.scale, learned.memories, self._block
        self._compiled = None
        if found is None or scale is None or m > SMALL or learned.bounded:
            return
        if learned.apart is not None:  # All of its blocks have examples to be held out.
            return
        last = learned.good_until
        learned.held.make_room(max(0, int(min(last, HELD)) - learned.n) + block.side)
        if self._rooms is None:
            self._rooms = _rooms_for(block.side, found)
        for_block, for_directions = self._rooms
        self._compiled = (
            last, *block.arrays(), self._columns, *found,
            memories.origin, memories.share_left(block.side), FORGOTTEN, memories.sums,
            memories.counts, *for_block, learned.low, learned.high,
            *learned.recent.arrays(), FEWEST, ERRORS, scale, learned.ridge_in_use, learned.noise,
            LEAST, learned.pooled, *for_directions, HELD, *learned.held.arrays(),
        )  # fmt: skip

    def put(self, x: Vector, y: float) -> int:
        """Learn one mapped row of weight 1, whose score `owed` returns.

        Return the rows that may follow before `settle` has work to do; -1 if this row was not
        taken because a value is huge, or none: `learn` it.
        """
        # The comparison is false with NaN and infinity, too.
        if not x.dot(x) <= _PLAIN or self._has_units:
            return -1
        left = self._due - self._learned.n - self._block.n
        if not left:  # An interrupt came after the last row.
            self.settle()
            left = self._due - self.n
        self._block.put(x, y)
        return left - 1

    def settle(self) -> None:
        """Score the rows that came one by one, and find coefficients if they are due."""
        block = self._block
        if block.n_scored == block.n < self._due - self._learned.n:
            return
        if block.n_scored < block.n:
            new = slice(block.n_scored, block.n)
            self._met |= (block.rows[new] != 0.0).any(axis=0)
            self._score_block()
            best = self._learned.best
            self._owed.append((block.scores[new, best].copy(), block.y[new].copy()))
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
        end = self._learned.n + self._block.side
        if self._learned.n == 0:
            end = min(end, next_double(self.n))
        return end - self.n

    def _close(self) -> None:
        """Learn the block, which is full, choose memory and ridge, and begin the next block."""
        self._learned.add(self._block)
        self._block.clear()
        self._learned.best = self._learned.recent.best()
        self._find_anew()

    def _find_anew(self) -> None:
        """Choose the ridge if it is due, and find scales and directions."""
        self._learned.choose_ridge_if_due()
        self._refresh()

    def _to_now(self) -> Learned:
        """Return what is learned, with the rows of the unfinished block."""
        if not self._block.n:
            return self._learned
        now = self._learned.copy()
        now.add(self._block)
        return now

    def _refresh(self) -> None:
        """Find the scores of all memories, if both classes have been seen."""
        now = self._to_now()
        if now.memories.knows_both:
            with contextlib.suppress(ValueError):  # Rounding: the scores of before are as good.
                self._aim(now.directions())

    def _aim(self, found: Directions | None) -> None:
        """Score rows by these directions from now on."""
        self._directions = found
        self._columns = None if found is None else np.ascontiguousarray(found.weights.T)

    def model(self) -> tuple[MomentModel, Finder] | None:
        """Return the model of all rows, and what finds scores, labels and weights to decide from.

        These scores are relative to `middle`; models that decide alike have the same finder. None
        before both classes were seen.
        """
        self.settle()
        learned, now = self._learned, self._to_now()
        if not now.memories.knows_both:
            return None
        ripe = is_ripe(learned, now, self._block.side)
        # Neither choices nor finder depend on when models are asked for.
        if ripe and (self._begun is None or self._begun.learned.n != learned.n):
            self._begun = chosen_for_models(learned)
        now = now.copy() if now is learned else now
        found, find = model_of(now, self._begun if ripe else None)
        self._warn_of_tiny(now)
        return found._replace(coef=np.ldexp(found.coef, -self._exponents)), find

    def lately(self) -> tuple[Vector, float] | None:
        """Return the coefficients that were found last, and the score halfway between the classes.

        None before both classes were seen.
        """
        if self._directions is None:
            return None
        coef, middle = coefficients_of(self._learned, self._directions)
        return np.ldexp(coef, -self._exponents) if self._has_units else coef, middle

    def whole(self) -> MomentValues:
        """Return the moments of all rows, as the longest memory has them."""
        self.settle()
        return self._to_now().memories.moments(0)

    def widen(self, features: FeatureMap, half_lives: tuple[float, ...]) -> None:
        """Make room for new features, which were 0 until now.

        `features` is the wider map, `half_lives` are those from now on, as many as before.
        """
        self.settle()
        m = features.n_outputs
        more = m - self.features.n_outputs
        self._learned.widen(features, half_lives)
        self._exponents = np.pad(self._exponents, (0, more))
        self._met = np.pad(self._met, (0, more))
        if self._directions is not None:
            wider = np.pad(self._directions.weights, ((0, 0), (0, more)))
            self._aim(self._directions._replace(weights=wider))
        self._begun = None
        self._block = self._block.widened(max(self._block.side, _side_for(m)), m)
        self._rooms = None
        self._due = self.n + self.until_refresh
        self._prepare()

    def _warn_of_tiny(self, now: Learned) -> None:
        """Say once which feature is too small for its squares to be added up."""
        size = np.maximum(np.abs(now.low), np.abs(now.high))
        tiny = np.flatnonzero((now.low < now.high) & (size < _TINY))
        if len(tiny) and not self._has_warned and now.scaled:
            self._has_warned = True
            warn_caller(
                f"feature {tiny[0]} varies by less than {_TINY:g}, too little for any scale, and "
                "counts as constant; give it in a smaller unit.",
                UserWarning,
            )

    def restart(self) -> None:
        """Forget all but the latest past; blocks begin anew."""
        self.settle()
        # A model of before may still have to be found, from what it was made of.
        self._learned = self._to_now().copy()
        self._learned.restart()
        self._block.clear()
        self._due, self._begun = YOUNG, None
        self._prepare()

    def state(self) -> dict[str, Any]:
        """Return everything that the next rows depend on, as plain values and arrays."""
        self.settle()
        found = self._directions
        return {
            "n": self.n,
            "exponents": self._exponents.copy(),
            "met": self._met.copy(),
            **self._learned.state(),
            **self._block.state(),
            "directions": None
            if found is None
            else {name: own.copy() for name, own in zip(_DIRECTIONS, found, strict=True)},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state."""
        m, K = self.features.n_outputs, len(self._learned.memories.half_lives)
        n = restored_count(state, "n")
        self._learned.restore(state, n)
        self._block.restore(state, n - self._learned.n)
        self._due, self._owed, self._begun = n + self.until_refresh, [], None
        self._exponents = restored_array(state, "exponents", (m,), ("int32",)).copy()
        self._met = restored_array(state, "met", (m,), ("bool",)).copy()
        if np.abs(self._exponents).max(initial=0) > _LARGEST_EXPONENT:
            raise ValueError("the saved units are beyond all numbers.")
        self._has_units = bool(self._exponents.any())
        found = state["directions"]
        self._aim(None)
        if found is not None:
            shapes = zip(_DIRECTIONS, ((K, m), (K,), (K,)), strict=True)
            self._aim(Directions(*(restored_array(found, name, shape) for name, shape in shapes)))
        self._prepare()


def _rooms_for(side: int, found: Directions) -> tuple[Any, ...]:
    """Return room to add a block of so many rows, and to find directions like these."""
    kernels, (K, m) = _kernels(), found.weights.shape
    for_directions = np.empty(K), *kernels.room_for_directions(K, m), *map(np.empty_like, found)
    return kernels.room_for_block(side, m), for_directions


def _side_for(n_features: int) -> int:
    """Return the rows of a block, a power of two."""
    return 1 << (max(_BLOCK, _ROWS_PER_FEATURE * n_features) - 1).bit_length()


def _with_learned(state: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of an older pickle, which had those of `Learned` among them."""
    rest, kept = dict(state), ("_margin", "_scaled", "_free")
    settings = {name.removeprefix("_"): state[name] for name in kept}
    lives = state["_memories"].half_lives
    learned = Learned(state["features"], lives, ridge=state["_given"], **settings)
    old = {"features": "features", "n": "_start"}
    for name in vars(learned):
        setattr(learned, name, rest.pop(old.get(name, f"_{name}")))
    return {**rest, "_learned": learned}
