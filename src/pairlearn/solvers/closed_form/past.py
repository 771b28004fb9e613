# SPDX-License-Identifier: BSD-3-Clause
"""What a stream keeps of its rows: tables with several half-lives, and some rows to judge by.

With half-life h a row counts half as much once h further ones have come. Rows arrive in blocks;
those of a block count alike, and the table shrinks by 2^(-b/h) for a block of b rows. One product
of a block serves all half-lives.

The first rows of a stream are kept, or the latest if it forgets. Their folds choose the ridge: the
table without a fold is a difference, since a kept row counts 2^(-a/h) after a further rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pairlearn.features import FeatureMap
from pairlearn.folds import FEW, n_repeats_of
from pairlearn.metrics.auc import roc_auc
from pairlearn.solvers.closed_form.fisher import FISHER_BELOW
from pairlearn.solvers.closed_form.mapped_moments import ridges_for, scale_for
from pairlearn.solvers.closed_form.recent_scores import share_below
from pairlearn.solvers.closed_form.table import Directions, Table
from pairlearn.typing import Vector

#: Rows that are kept to choose by: with even classes the error of an AUC is then below .01.
HELD = 4096
#: A fold has at most one row in this many.
_EVERY = 5
#: Ridges that are tried, too, where a class is rare.
_STRONG = (100.0, 10.0)
#: A memory with fewer rows of a class than this says nothing of its own.
_LEAST = 2.0
#: The ridge of a memory that forgets is at least this share of the noise in its table,
#: m (1 / p + 1 / q) for p positives and q negatives.
_NOISE = 0.3
#: A fold is not taken from a table of which less than this share would be left.
_LEFT = 1e-9
#: The shortest half-life of a stream that chooses: this many rows, or this many a feature.
_SHORTEST, _LIVES_PER_FEATURE = 250.0, 4.0


def half_lives_for(
    n_features: int, memory: float | None = None, max_memory: float = math.inf
) -> tuple[float, ...]:
    """Return the half-lives of a stream, the longest first: the given `memory`, or several.

    Their tables take at most about `max_memory` bytes.
    """
    if memory is not None:
        return (memory,)
    shortest = max(_SHORTEST, _LIVES_PER_FEATURE * n_features)
    lives: tuple[float, ...] = (math.inf, 16.0 * shortest, 4.0 * shortest, shortest)
    size = 16.0 * (n_features + 1.0) ** 2  # of the tables of two classes
    if max_memory < math.inf:
        lives = lives[: max(1, min(len(lives), int(max_memory / size) - 1))]
    return lives


class Settings(NamedTuple):
    """How a stream learns; see `MomentStream`."""

    features: FeatureMap
    half_lives: tuple[float, ...]
    ridge: float | None
    margin: float
    scaled: bool
    free: bool


class Block(NamedTuple):
    """Rows with labels -1 and 1, weights and the scores that they had, by memory."""

    Z: Vector
    y: Vector
    weight: Vector
    scores: Vector

    @classmethod
    def none(cls, n_features: int, n_memories: int) -> Block:
        """Return no rows."""
        return cls(np.empty((0, n_features)), np.empty(0), np.empty(0), np.empty((0, n_memories)))

    @classmethod
    def joined(cls, blocks: tuple[Block, ...]) -> Block:
        """Return the rows of several blocks as one."""
        return cls(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


class Choice(NamedTuple):
    """A ridge, whether the covariance is that of all examples, and the held-out AUC."""

    ridge: float
    pooled: bool = False
    auc: float | None = None


@dataclass(frozen=True, eq=False)
class Past:
    """Tables of the rows so far, with a table for each half-life, and the rows that are kept."""

    settings: Settings
    table: Table
    #: Numbers of positives and negatives by half-life, without their weights.
    counts: Vector
    #: The point that rows are measured from, the mean of the first block; None before it.
    origin: Vector | None
    low: Vector
    high: Vector
    #: Blocks of kept rows, each with the number of rows when it had been learned.
    held: tuple[tuple[int, Block], ...] = ()
    n: int = 0

    @classmethod
    def none(cls, settings: Settings) -> Past:
        """Return the past of a stream that begins."""
        m, n_memories = settings.features.n_outputs, len(settings.half_lives)
        table = Table.none(m, side_by_side=(n_memories,))
        ends = np.full(m, np.inf), np.full(m, -np.inf)
        return cls(settings, table, np.zeros((n_memories, 2)), None, *ends)

    def plus(self, block: Block) -> Past:
        """Return the past with a block."""
        Z, y, weight, _ = block
        origin = Z.mean(axis=0) if self.origin is None else self.origin
        left = 0.5 ** (len(y) / np.array(self.settings.half_lives))
        plain = None if (weight == 1.0).all() else weight
        new = Table.of(Z - origin, y < 0, weight=plain)
        own = np.array([np.count_nonzero(y > 0), np.count_nonzero(y < 0)])
        n = self.n + len(y)
        return replace(
            self,
            table=self.table.decayed(left) + new,
            counts=self.counts * left[:, np.newaxis] + own,
            origin=origin,
            low=np.minimum(self.low, Z.min(axis=0)),
            high=np.maximum(self.high, Z.max(axis=0)),
            held=self._held_with(n, block),
            n=n,
        )

    def _held_with(self, n: int, block: Block) -> tuple[tuple[int, Block], ...]:
        """Return the kept blocks with a new one: the latest of a stream that forgets."""
        sizes = [len(own.y) for _, own in self.held]
        if self.settings.half_lives[0] == np.inf:
            return self.held if sum(sizes) >= HELD else (*self.held, (n, block))
        too_many = sum(sizes) - sizes[0] >= HELD if sizes else False
        return (*self.held[too_many:], (n, block))

    @property
    def _origin(self) -> Vector:
        assert self.origin is not None
        return self.origin

    @property
    def knows_both(self) -> bool:
        """Whether the longest memory has rows of both classes."""
        return bool((self.counts[0] > 0.0).all())

    def scale(self, table: Table) -> Vector:
        """Return the factor of each feature by a table: 1 unless features are scaled."""
        features = self.settings.features
        if not self.settings.scaled:
            return np.ones(features.n_outputs)
        means = table.means + self._origin
        return scale_for(features, table.weights, means, table.variances, self.low, self.high)

    def directions(self, choice: Choice) -> Directions:
        """Return the scores of all memories; both classes must have been seen."""
        table, counts = self.table, self.counts
        usable = counts.min(axis=1) >= _LEAST
        if not usable[1:].all():
            # The next longer memory that knows both classes speaks for one that does not.
            speaker = np.maximum.accumulate(np.where(usable, np.arange(len(usable)), 0))
            table, counts = Table(table.sums[speaker]), counts[speaker]
        ridges = np.full(len(counts), choice.ridge)
        if self.settings.ridge is None:
            noise = _NOISE * len(self.low) * (1.0 / np.maximum(self.counts, 1.0)).sum(axis=1)
            np.maximum(choice.ridge, noise[1:], out=ridges[1:])
        pooled = counts if choice.pooled else None
        return self.from_zero(table.directions(self.scale(self.table[0]), ridges, counts=pooled))

    def from_zero(self, found: Directions) -> Directions:
        """Return directions of rows as they are, not as seen from the origin."""
        return replace(found, middle=found.middle + found.weights @ self._origin)

    def rows(self) -> tuple[Block, Vector]:
        """Return the kept rows of the last 4,096, and how much each still counts."""
        if not self.held:
            return Block.none(len(self.low), len(self.counts)), np.empty(0)
        block = Block.joined(tuple(own for _, own in self.held))
        ages = np.repeat([self.n - n for n, _ in self.held], [len(own.y) for _, own in self.held])
        return block, block.weight * 0.5 ** (ages / self.settings.half_lives[0])

    def folds(self, *, repeated: bool, every: bool) -> Iterator[tuple[Table, Vector, Block]]:
        """Yield the longest memory without a fold of the kept rows: table, counts, and the fold.

        Folds are dealt within classes in order of arrival. If both classes are frequent one fold is
        enough, unless `every` one is asked for. Those of a rare class may be dealt `repeated`ly.
        """
        block, weight = self.rows()
        kinds = [np.flatnonzero(block.y == sign) for sign in (1.0, -1.0)]
        rarer = min(map(len, kinds))
        if not rarer:
            return
        share = len(block.y) / self.n if self.settings.half_lives[0] == np.inf else 1.0
        n_folds = min(math.ceil(_EVERY * share), rarer)
        n_repeats = n_repeats_of(rarer) if repeated and n_folds > 1 else 1
        taken = weight / np.where(block.weight > 0.0, block.weight, 1.0)
        for repeat in range(n_repeats):
            fold = np.empty(len(block.y), dtype=np.int64)
            for own in kinds:
                # A turn of the deal begins one fold farther in each repeat.
                turn, place = np.divmod(np.arange(len(own)), n_folds)
                fold[own] = (place + repeat * turn) % n_folds
            for k in range(n_folds if every or rarer < FISHER_BELOW else 1):
                held = Block(*(part[fold == k] for part in block))
                gone = Table.of(held.Z - self._origin, held.y < 0, weight=weight[fold == k])
                rest = self.table[0] - gone
                counts = self.counts[0] - [
                    taken[(fold == k) & (block.y == s)].sum() for s in (1, -1)
                ]
                if (rest.weights > _LEFT * self.table[0].weights).all() and (counts > _LEFT).all():
                    yield rest, counts, held

    def best_choice(self, *, repeated: bool) -> Choice | None:
        """Return the ridge, and the kind of covariance, with the best AUC on held-out rows.

        If they are free, a rare class has stronger ridges, and Fisher's discriminant, too. None if
        nothing can be held out.
        """
        ridges, kinds = ridges_for(self.settings.features), [False]
        rarer = self.counts[0].min()
        if self.settings.free:
            ridges = ridges if rarer >= FEW else (*_STRONG, *ridges)
            kinds = [False, True] if rarer < FISHER_BELOW else kinds
        worth = []
        for rest, counts, held in self.folds(repeated=repeated, every=False):
            scale = self.scale(rest)
            found = [
                rest.directions(scale, np.array(ridges), counts=counts if pooled else None).weights
                for pooled in kinds
            ]
            worth.append(_aucs(held, np.concatenate(found)))
        if not worth:
            return None
        # Rounded, so that rounding errors do not decide between equals.
        aucs = np.mean(worth, axis=0).round(12)
        if np.isnan(aucs).all():
            return None
        best = int(np.nanargmax(aucs))
        return Choice(ridges[best % len(ridges)], kinds[best // len(ridges)], float(aucs[best]))

    def widened(self, settings: Settings) -> Past:
        """Return the past of a wider map, whose new features were 0 until now."""
        more = settings.features.n_outputs - len(self.low)
        # Before the first block nothing is known of any feature.
        ends = (np.inf, -np.inf) if self.origin is None else (0.0, 0.0)
        return replace(
            self,
            settings=settings,
            table=self.table.widened(settings.features.n_outputs),
            origin=None if self.origin is None else np.pad(self.origin, (0, more)),
            low=np.pad(self.low, (0, more), constant_values=ends[0]),
            high=np.pad(self.high, (0, more), constant_values=ends[1]),
            held=tuple((n, widened_block(own, more)) for n, own in self.held),
        )

    def restarted(self, n_kept: float) -> Past:
        """Return the shortest memory alone, or as much of it as `n_kept` rows weigh."""
        share = min(1.0, n_kept / max(self.counts[-1].sum(), 1.0))
        everywhere = np.zeros(len(self.counts), dtype=np.int64) - 1
        table = Table(self.table.sums[everywhere]).decayed(share)
        return replace(self, table=table, counts=self.counts[everywhere] * share, held=(), n=0)


def widened_block(block: Block, more: int) -> Block:
    """Return a block with new features, which are 0."""
    return block._replace(Z=np.pad(block.Z, ((0, 0), (0, more))))


def _aucs(held: Block, weights: Vector) -> Vector:
    """Return the AUC of each direction on held-out rows; NaN for a direction of NaN."""
    scores, positive = weights @ held.Z.T, held.y > 0
    found = np.full(len(weights), np.nan)
    for k in np.flatnonzero(np.isfinite(scores).all(axis=1)):
        if np.ptp(held.weight):
            found[k] = roc_auc(held.y, scores[k], sample_weight=held.weight)
            continue
        below = share_below(scores[k, positive], np.sort(scores[k, ~positive]))
        found[k] = below.mean()
    return found
