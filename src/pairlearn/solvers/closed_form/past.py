# SPDX-License-Identifier: BSD-3-Clause
r"""What a stream keeps of its rows: tables with several half-lives, and some rows to judge by.

With half-life h a row counts half as much once h further ones have come. Rows arrive in blocks; the
tables shrink by 2^(-b/h) for a block of b rows, and one product of the block is added to all. Folds
of kept rows choose the ridge: the table without a fold is a difference.

The memory is the longest whose AUC over the latest scores of each class, all made before learning,
is below the best by at most one and a half standard errors. Comparisons are paired: the squared
error of the difference of memories a and b is

    Var_i(V_a(x_i+) - V_b(x_i+)) / p + Var_j(V_a(x_j-) - V_b(x_j-)) / q,

where V(x+) is the share of negatives below a positive, and V(x-) that of positives above a
negative (DeLong et al. 1988).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pairlearn.features import FeatureMap
from pairlearn.folds import FEW, n_repeats_of
from pairlearn.metrics.auc import roc_auc
from pairlearn.solvers.closed_form.fisher import FISHER_BELOW
from pairlearn.solvers.closed_form.mapped_moments import ridges_for, scale_for
from pairlearn.solvers.closed_form.table import Table
from pairlearn.typing import Mask, Vector
from pairlearn.validation import as_counts

#: What a stream that starts anew keeps of its past: the weight of this many rows.
_KEPT = 250.0
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
#: The latest scores of each class that a memory is judged by; fewer than ten tell nothing.
RECENT, _FEWEST = 125, 10
#: The longest memory within this many standard errors of the best is taken.
_ERRORS = 1.5

#: Scores, which of them are of positive examples, and their weights.
Window = tuple[Vector, Mask, Vector]


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
    def joined(cls, blocks: tuple[Block, ...]) -> Block:
        """Return the rows of several blocks as one."""
        return cls(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))

    def take(self, index: Any) -> Block:
        """Return some of the rows."""
        return Block(*(part[index] for part in self))

    def widened(self, more: int) -> Block:
        """Return the rows with new features, which are 0."""
        return self._replace(Z=np.pad(self.Z, ((0, 0), (0, more))))


class Choice(NamedTuple):
    """A ridge, whether the covariance is that of all examples, and the held-out AUC."""

    ridge: float
    pooled: bool = False
    auc: float | None = None


class Directions(NamedTuple):
    """Linear scores in units of their own spread, one for each ridge or table.

    The score of x is ``weights[k] @ x - middle[k]``: 0 halfway between the classes. ``sizes[k]`` is
    the distance of the class means in these units.
    """

    weights: Vector
    middle: Vector
    sizes: Vector

    def scores(self, X: Vector) -> Vector:
        """Return the scores of rows, a column for each direction."""
        return np.asarray(X @ self.weights.T - self.middle)

    def factor(self, place: int, margin: float) -> float:
        """Return what makes of a direction the coefficients of the square loss."""
        size = float(self.sizes[place])
        return size * margin / (1.0 + size**2)


def directions(
    table: Table, scale: Vector, ridges: Vector, *, counts: Vector | None = None
) -> Directions:
    """Return the scores w = D v with (D C D + l I) v = D u, for each ridge l.

    There is one ridge for each of several tables, or all are for one. `scale` is the diagonal D.
    With the numbers of positives and negatives C is twice the covariance of all examples within
    their classes, as in Fisher's discriminant; without, the sum of the covariances of the classes.
    Where rounding hides the solution the scores are NaN.
    """
    means, covariances = table.means_and_covariances
    if counts is not None:
        shares = 2.0 * counts / counts.sum(axis=-1, keepdims=True)
        covariances = covariances * shares[..., np.newaxis, np.newaxis]
    C = covariances.sum(axis=-3) * scale * scale[:, np.newaxis]
    u = (means[..., 0, :] - means[..., 1, :]) * scale
    u = np.broadcast_to(u, (len(ridges), len(scale)))
    v = _solved(C + ridges[:, np.newaxis, np.newaxis] * np.eye(len(scale)), u)
    sizes = np.sqrt(np.maximum((u * v).sum(axis=-1), 0.0))
    weights = v * scale / np.where(sizes > 0.0, sizes, 1.0)[:, np.newaxis]
    return Directions(weights, (weights * means.mean(axis=-2)).sum(axis=-1), sizes)


def _solved(matrices: Vector, rights: Vector) -> Vector:
    """Return the solution of each system; NaN for a matrix that is not positive definite."""
    from scipy.linalg import lapack

    found = np.empty(rights.shape)
    for place, (matrix, right) in enumerate(zip(matrices, rights, strict=True)):
        _, solution, info = lapack.dposv(matrix, right, lower=1)
        found[place] = np.nan if info else solution
    return found


@dataclass(frozen=True, eq=False)
class RecentScores:
    """The latest scores of each class, the oldest first, with a column for each memory."""

    positives: Vector
    negatives: Vector

    @classmethod
    def none(cls, n_memories: int) -> RecentScores:
        """Return no scores."""
        return cls(np.empty((0, n_memories)), np.empty((0, n_memories)))

    def plus(self, block: Block) -> RecentScores:
        """Return the latest scores with those of more rows."""
        return RecentScores(
            np.concatenate([self.positives, block.scores[block.y > 0]])[-RECENT:],
            np.concatenate([self.negatives, block.scores[block.y < 0]])[-RECENT:],
        )

    def _placements(self) -> tuple[Vector, Vector]:
        """Return the share of the other class on the right side of each score."""
        pairs = list(zip(self.positives.T, self.negatives.T, strict=True))
        ahead = [_share_below(p, np.sort(q)) for p, q in pairs]
        behind = [1.0 - _share_below(q, np.sort(p)) for p, q in pairs]
        return np.stack(ahead, axis=1), np.stack(behind, axis=1)

    def best(self) -> int:
        """Return the place of the longest memory that is as good as the best."""
        p, q = len(self.positives), len(self.negatives)
        if self.positives.shape[1] == 1 or min(p, q) < _FEWEST:
            return 0
        placements = self._placements()
        top = placements[0].mean(axis=0).argmax()
        above, below = (V[:, [top]] - V for V in placements)
        errors = np.sqrt(above.var(axis=0) / p + below.var(axis=0) / q)
        # Rounding must not make equals differ.
        return int((above.mean(axis=0) <= _ERRORS * errors + 1e-12).argmax())

    def auc(self, memory: int) -> float | None:
        """Return the AUC of the latest scores of one memory."""
        if not len(self.positives) or not len(self.negatives):
            return None
        return float(self._placements()[0][:, memory].mean())

    def of(self, memory: int) -> tuple[Vector, Mask]:
        """Return the latest scores of one memory, and which of them are of positives."""
        scores = np.concatenate([self.positives[:, memory], self.negatives[:, memory]])
        return scores, np.arange(len(scores)) < len(self.positives)


def _share_below(scores: Vector, others: Vector) -> Vector:
    """Return the share of sorted others below each score; equal ones count half."""
    sides = others.searchsorted(scores, "left") + others.searchsorted(scores, "right")
    return np.asarray(sides / (2.0 * len(others)))


@dataclass(frozen=True, eq=False)
class Past:
    """Tables of the rows so far, one for each half-life, and the rows that are kept.

    The first rows of a stream are kept, or the latest if it forgets.
    """

    settings: Settings
    table: Table
    #: Numbers of positives and negatives by half-life, without their weights.
    counts: Vector
    #: The point that rows are measured from, the mean of the first block; None before it.
    origin: Any
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
        n, positive = self.n + len(y), int(np.count_nonzero(y > 0))
        return replace(
            self,
            table=self.table.decayed(left).plus(
                Z - origin, y < 0, None if (weight == 1.0).all() else weight
            ),
            counts=self.counts * left[:, np.newaxis] + [positive, len(y) - positive],
            origin=origin,
            low=np.minimum(self.low, Z.min(axis=0)),
            high=np.maximum(self.high, Z.max(axis=0)),
            held=self._held_with(n, block),
            n=n,
        )

    def _held_with(self, n: int, block: Block) -> tuple[tuple[int, Block], ...]:
        sizes = [len(own.y) for _, own in self.held]
        if self.settings.half_lives[0] == np.inf:
            return self.held if sum(sizes) >= HELD else (*self.held, (n, block))
        return (*self.held[sum(sizes[1:]) >= HELD :], (n, block))

    @property
    def knows_both(self) -> bool:
        """Whether the longest memory has rows of both classes."""
        return bool((self.counts[0] > 0.0).all())

    def scale(self, table: Table) -> Vector:
        """Return the factor of each feature by a table: 1 unless features are scaled."""
        features = self.settings.features
        if not self.settings.scaled:
            return np.ones(features.n_outputs)
        means = table.means + self.origin
        return scale_for(features, table.weights, means, table.variances, self.low, self.high)

    def directions(self, choice: Choice) -> Directions:
        """Return the scores of all memories; both classes must have been seen."""
        table, counts = self.table, self.counts
        usable = counts.min(axis=1) >= _LEAST
        if not usable[1:].all():
            # The next longer memory that knows both classes speaks for one that does not.
            speaker = np.maximum.accumulate(np.where(usable, np.arange(len(usable)), 0))
            table, counts = table[speaker], counts[speaker]
        ridges = np.full(len(counts), choice.ridge)
        if self.settings.ridge is None:
            noise = _NOISE * len(self.low) * (1.0 / np.maximum(self.counts, 1.0)).sum(axis=1)
            np.maximum(choice.ridge, noise[1:], out=ridges[1:])
        pooled = counts if choice.pooled else None
        return self._from_zero(directions(table, self.scale(self.table[0]), ridges, counts=pooled))

    def _from_zero(self, found: Directions) -> Directions:
        """Return directions of rows as they are, not as seen from the origin."""
        return found._replace(middle=found.middle + found.weights @ self.origin)

    def folds(self, *, repeated: bool, every: bool) -> Iterator[tuple[Table, Vector, Block]]:
        """Yield the longest memory without a fold of the kept rows: table, counts, and the fold.

        If both classes are frequent one fold is enough, unless `every` one is asked for. Those of a
        rare class may be dealt `repeated`ly.
        """
        if not self.held:
            return
        life = self.settings.half_lives[0]
        block = Block.joined(tuple(own for _, own in self.held))
        ages = np.repeat([self.n - n for n, _ in self.held], [len(own.y) for _, own in self.held])
        left = 0.5 ** (ages / life)  # how much a row still counts
        kinds = [np.flatnonzero(block.y == sign) for sign in (1.0, -1.0)]
        rarer = min(map(len, kinds))
        share = len(block.y) / self.n if life == np.inf else 1.0
        n_folds = min(math.ceil(_EVERY * share), rarer)
        n_repeats = n_repeats_of(rarer) if repeated and n_folds > 1 else 1
        for repeat in range(n_repeats):
            fold = np.empty(len(block.y), dtype=np.int64)
            for own in kinds if rarer else ():
                # A turn of the deal begins one fold farther in each repeat.
                turn, place = np.divmod(np.arange(len(own)), n_folds)
                fold[own] = (place + repeat * turn) % n_folds
            for k in range(n_folds if every or rarer < FISHER_BELOW else min(n_folds, 1)):
                held, own = block.take(fold == k), left[fold == k]
                gone = Table.none(len(self.low)).plus(
                    held.Z - self.origin, held.y < 0, held.weight * own
                )
                rest = self.table[0] - gone
                counts = self.counts[0] - [own[held.y == sign].sum() for sign in (1, -1)]
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
            tried = [
                directions(rest, scale, np.array(ridges), counts=counts if pooled else None)
                for pooled in kinds
            ]
            scores = np.concatenate([one.weights for one in tried]) @ held.Z.T
            weight = held.weight if np.ptp(held.weight) else None
            worth.append([
                roc_auc(held.y, own, sample_weight=weight) if np.isfinite(own).all() else np.nan
                for own in scores
            ])  # fmt: skip
        # Rounded, so that rounding errors do not decide between equals.
        aucs = np.mean(worth, axis=0).round(12) if worth else np.array([np.nan])
        if np.isnan(aucs).all():
            return None
        best = int(np.nanargmax(aucs))
        return Choice(ridges[best % len(ridges)], kinds[best // len(ridges)], float(aucs[best]))

    def window(self, choice: Choice, recent: RecentScores, memory: int) -> Window:
        """Return scores relative to that halfway between the classes, labels and weights.

        No score is of an example that its model had learned, but for one that is alone in its
        class: they are those of folds of the kept rows, or of recent examples if memory is short.
        """
        margin = self.settings.margin
        if memory:
            scores, positive = recent.of(memory)
            shares = self.counts[memory] / np.maximum([positive.sum(), (~positive).sum()], 1)
            unit = self.directions(choice).factor(memory, margin)
            return scores * unit, positive, np.where(positive, *shares)
        ridges, parts = np.array([choice.ridge]), []
        for rest, counts, held in self.folds(repeated=False, every=True):
            pooled = counts if choice.pooled else None
            found = self._from_zero(directions(rest, self.scale(rest), ridges, counts=pooled))
            scores = found.scores(held.Z)[:, 0] * found.factor(0, margin)
            if np.isfinite(scores).all():  # Rounding may hide what is left without the fold.
                parts.append((scores, held.y > 0, held.weight))
        if parts:
            scores, positive, weight = (np.concatenate(own) for own in zip(*parts, strict=True))
            if 0 < positive.sum() < len(positive):
                return scores, positive, as_counts(weight)
        if not self.held:  # after a restart
            nothing = np.empty(0)
            return nothing, nothing > 0.0, nothing
        found, rows = self.directions(choice), Block.joined(tuple(own for _, own in self.held))
        scores = found.scores(rows.Z)[:, 0] * found.factor(0, margin)
        return scores, rows.y > 0, as_counts(rows.weight)

    def widened(self, settings: Settings) -> Past:
        """Return the past of a wider map, whose new features were 0 until now."""
        more = settings.features.n_outputs - len(self.low)
        if self.origin is None:
            return Past.none(settings)
        return replace(
            self,
            settings=settings,
            table=self.table.widened(settings.features.n_outputs),
            origin=np.pad(self.origin, (0, more)),
            low=np.pad(self.low, (0, more)),
            high=np.pad(self.high, (0, more)),
            held=tuple((n, own.widened(more)) for n, own in self.held),
        )

    def restarted(self) -> Past:
        """Return the shortest memory alone, or as much of it as `_KEPT` rows weigh."""
        share = min(1.0, _KEPT / max(self.counts[-1].sum(), 1.0))
        everywhere = np.zeros(len(self.counts), dtype=np.int64) - 1
        table = self.table[everywhere].decayed(share)
        return replace(self, table=table, counts=self.counts[everywhere] * share, held=(), n=0)
