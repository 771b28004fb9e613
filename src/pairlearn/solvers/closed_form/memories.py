# SPDX-License-Identifier: BSD-3-Clause
r"""Class moments that forget at several speeds, side by side.

With half-life h, an example counts half as much once h further ones have come. Rows arrive in
blocks; those of a block count alike, and the past shrinks by 2^(-b/h) for a block of b rows,

    S_h <- 2^(-b/h) S_h + sum over the block of z z',    z = (1, x - origin).

One product of the block serves all half-lives, so that several cost hardly more than one. States
of two streams add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.restored import restored_array
from pairlearn.solvers.closed_form.moment_values import MomentValues
from pairlearn.typing import Vector

#: A class of fewer examples than this is forgotten altogether, before its sums lose their digits.
FORGOTTEN = 1e-6
#: For so few features compiled loops are faster than BLAS and LAPACK.
SMALL = 48
_TOO_SMALL = "The ridge {:g} is too small for the rounding of the moments; use a larger one."
#: What sums may exceed their bound by: a share for rounding, and what is left of underflow.
_ROUNDING, _TINY = 1e-6, 1e-140
#: A memory with fewer examples of a class than this says nothing of its own.
LEAST = 2.0
#: The shortest half-life of a stream that chooses: this many examples, or this many a feature.
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
    # Two classes, and the examples held out, have a table each.
    size = 16.0 * (n_features + 1.0) ** 2
    if max_memory < math.inf:
        lives = lives[: max(1, min(len(lives), int(max_memory / size) - 1))]
    return lives


class Directions(NamedTuple):
    """Linear scores of several memories, in units of their own spread.

    The score of x by memory k is ``weights[k] @ x - middle[k]``: 0 halfway between the classes.
    ``sizes[k]`` is the length of the gap between the class means in these units.
    """

    weights: Vector
    middle: Vector
    sizes: Vector


class Memories:
    """Second moments of two classes, remembered with several half-lives.

    Parameters
    ----------
    n_features : int
        Number of (mapped) features.
    half_lives : array-like of shape (K,)
        Numbers of examples after which an example counts half; infinity for no forgetting.

    Examples
    --------
    >>> memories = Memories(1, [np.inf, 2.0])
    >>> memories.add(np.array([[1.0], [3.0]]), np.array([1.0, -1.0]))
    >>> memories.add(np.array([[5.0], [3.0]]), np.array([1.0, -1.0]))
    >>> memories.moments(0).means[:, 0], memories.moments(1).means[:, 0].round(2)
    (array([3., 3.]), array([3.67, 3.  ]))
    """

    def __init__(self, n_features: int, half_lives: ArrayLike) -> None:
        self.half_lives: Vector = np.asarray(half_lives, dtype=np.float64)
        n_memories, size = len(self.half_lives), n_features + 1
        #: Sums of z z' of positives and negatives, for each half-life.
        self.sums = np.zeros((n_memories, 2, size, size))
        #: Numbers of positives and negatives, without their weights.
        self.counts = np.zeros((n_memories, 2))
        #: The point that sums are about: the mean of the first block. None before it.
        self.origin: Vector | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The number of features, and that of memories."""
        return self.sums.shape[-1] - 1, len(self.half_lives)

    @property
    def knows_both(self) -> bool:
        """Whether the longest memory has examples of both classes."""
        positives, negatives = self.counts[0].tolist()
        return bool(positives and negatives)

    def copy(self) -> Memories:
        """Return independent memories with the same past."""
        twin = Memories(self.sums.shape[-1] - 1, self.half_lives)
        twin.sums, twin.counts, twin.origin = self.sums.copy(), self.counts.copy(), self.origin
        return twin

    def add(
        self, Z: Vector, y: Vector, weight: Vector | None = None, *, n_passed: int | None = None
    ) -> None:
        """Add a block of rows with labels -1 and +1.

        The past is older by `n_passed` examples, by default the number of rows.
        """
        if self.origin is None:
            self.origin = Z.mean(axis=0)
        kept = self.share_left(len(y) if n_passed is None else n_passed)
        _add_products(Z, y, weight, self.origin, kept, self.sums, self.counts)

    def share_left(self, n_passed: int) -> Vector:
        """Return what is left of an example after so many others, for each half-life."""
        left: Vector = 0.5 ** (n_passed / self.half_lives)
        return left

    def widen(self, n_features: int, half_lives: ArrayLike) -> None:
        """Make room for new features, which were 0 until now, and forget at these speeds."""
        more = n_features + 1 - self.sums.shape[-1]
        self.sums = np.pad(self.sums, ((0, 0), (0, 0), (0, more), (0, more)))
        if self.origin is not None:
            self.origin = np.pad(self.origin, (0, more))
        self.half_lives = np.asarray(half_lives, dtype=np.float64)

    def moments(self, memory: int) -> MomentValues:
        """Return counts (by weight), means and covariances under one half-life."""
        assert self.origin is not None
        return moments_of(self.sums[memory], self.origin)

    def directions(self, scale: Vector, ridges: Vector, *, pooled: bool = False) -> Directions:
        """Return the scores w = D v with (D C D + l I) v = D u, for each half-life.

        Parameters
        ----------
        scale : ndarray of shape (d,)
            The diagonal D: the factor that makes features comparable.
        ridges : ndarray of shape (K,)
            The ridge l of each half-life.
        pooled : bool, default=False
            Whether C is twice the covariance of all examples within their classes, as in Fisher's
            discriminant, and not the sum of the covariances of the classes.

        Returns
        -------
        Directions
            The weights of all memories. Both classes must have been seen.
        """
        assert self.origin is not None
        if len(scale) <= SMALL:
            return self._small_directions(scale, ridges, pooled)
        sums, counts = self.sums, self.counts
        usable = self.counts.min(axis=1) >= LEAST
        if not usable[1:].all():
            # The next longer memory that knows both classes speaks for one that does not.
            spoken = np.maximum.accumulate(np.where(usable, np.arange(len(usable)), 0))
            sums, counts = sums[spoken], counts[spoken]
        count = sums[:, :, 0, 0]
        means = sums[:, :, 0, 1:] / count[:, :, np.newaxis]
        shares = shares_of(counts) if pooled else np.ones_like(counts)
        C = (sums[:, :, 1:, 1:] / (count / shares)[:, :, np.newaxis, np.newaxis]).sum(axis=1)
        C -= np.swapaxes(means, 1, 2) @ (means * shares[:, :, np.newaxis])
        C *= scale
        C *= scale[:, np.newaxis]
        u = (means[:, 0] - means[:, 1]) * scale
        v = np.empty_like(u)
        for k, ridge in enumerate(ridges):
            v[k] = _solved(C[k], u[k], ridge)
        sizes = np.sqrt(np.maximum((u * v).sum(axis=1), 0.0))
        weights = v * scale / np.where(sizes > 0.0, sizes, 1.0)[:, np.newaxis]
        middle = (weights * (means.mean(axis=1) + self.origin)).sum(axis=1)
        return Directions(weights, middle, sizes)

    def _small_directions(self, scale: Vector, ridges: Vector, pooled: bool) -> Directions:
        """Return the directions for few features, for which LAPACK's calls cost too much."""
        from pairlearn.kernels.memories import find_directions, room_for_directions

        m, n_memories = len(scale), len(ridges)
        found = Directions(np.empty((n_memories, m)), np.empty(n_memories), np.empty(n_memories))
        given = self.sums, self.counts, LEAST, pooled, self.origin, scale, ridges
        if not find_directions(*given, *room_for_directions(n_memories, m), *found):
            raise ValueError(_TOO_SMALL.format(float(ridges.min())))
        return found

    def without(self, other: Memories) -> Memories:
        """Return the longest memory without that of some of its examples."""
        rest = Memories(self.sums.shape[-1] - 1, self.half_lives[:1])
        rest.sums, rest.counts = self.sums[:1] - other.sums[:1], self.counts[:1] - other.counts[:1]
        rest.origin = self.origin
        return rest

    def solutions(self, scale: Vector, ridges: Sequence[float], *, pooled: bool = False) -> Vector:
        """Return weights as in `directions` of one memory for several ridges, in rows.

        They are NaN for a ridge that is too small for the rounding of the sums.
        """
        alike = Memories(len(scale), np.repeat(self.half_lives, len(ridges)))
        alike.sums, alike.counts = (
            np.repeat(own, len(ridges), axis=0) for own in (self.sums, self.counts)
        )
        alike.origin = self.origin
        try:
            return alike.directions(scale, np.array(ridges), pooled=pooled).weights
        except ValueError:
            if len(ridges) == 1:
                return np.full((1, len(scale)), np.nan)
        each = [self.solutions(scale, (ridge,), pooled=pooled) for ridge in ridges]
        return np.concatenate(each)

    def restart(self, n_kept: float) -> None:
        """Forget all but the shortest memory, or all but the weight of `n_kept` examples."""
        self.sums[:], self.counts[:] = self.sums[-1].copy(), self.counts[-1].copy()
        total = self.counts[0].sum()
        if total > n_kept:
            self.sums *= n_kept / total
            self.counts *= n_kept / total

    def state(self) -> dict[str, Any]:
        """Return the arrays from which `from_state` rebuilds the memories."""
        return {
            "rates": 1.0 / self.half_lives,
            "sums": self.sums.copy(),
            "counts": self.counts.copy(),
            "origin": self.origin,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_features: int, half_lives: ArrayLike) -> Self:
        """Return the memories of a saved state, which must have these half-lives."""
        made = cls(n_features, half_lives)
        saved = restored_array(state, "rates", (len(made.half_lives),))
        if not np.array_equal(saved, 1.0 / made.half_lives):
            raise ValueError("the saved moments have other half-lives.")
        made.sums = restored_array(state, "sums", made.sums.shape).copy()
        made.counts = restored_array(state, "counts", made.counts.shape).copy()
        if (made.counts < 0.0).any() or (made.sums[:, :, 0, 0] < 0.0).any():
            raise ValueError("the saved counts are negative.")
        if not _are_of_rows(made.sums):
            raise ValueError("the saved sums are not those of any rows.")
        if state["origin"] is not None:
            made.origin = restored_array(state, "origin", (n_features,)).copy()
        elif made.counts.any():
            raise ValueError("the saved moments have no origin.")
        return made


def shares_of(counts: Vector) -> Vector:
    """Return the factors that make of two covariances twice that of all examples.

    >>> shares_of(np.array([1.0, 3.0]))
    array([0.5, 1.5])
    """
    return np.asarray(2.0 * counts / counts.sum(axis=-1, keepdims=True))


def _are_of_rows(sums: Vector) -> bool:
    """Tell whether sums of z z' obey |S_ij| <= sqrt(S_ii S_jj), as those of rows do (Cauchy).

    Then products of two means do not overflow: count |m_i m_j| is at most that root, too.
    """
    diagonal = np.diagonal(sums, axis1=-2, axis2=-1)
    if (diagonal < 0.0).any() or not np.isfinite(sums).all():
        return False
    root = np.sqrt(diagonal)
    most = root[..., :, np.newaxis] * root[..., np.newaxis, :]
    # Squares of tiny values vanish while their products with others do not. The slack shrinks the
    # left side, since the right one may be the largest float.
    return bool((np.abs(sums) / (1.0 + _ROUNDING) <= most + _TINY).all())


def _add_products(
    Z: Vector,
    y: Vector,
    weight: Vector | None,
    origin: Vector,
    kept: Vector,
    sums: Vector,
    counts: Vector,
) -> None:
    """Let the past of each memory shrink to a share, and add the sums of z z' of a block.

    z = (1, x - origin); `sums` and `counts` have an entry for each memory and class.
    """
    size = Z.shape[1] + 1
    if size <= SMALL + 1:
        from pairlearn.kernels.memories import add_block, room_for_block

        each = np.ones(len(y)) if weight is None else weight
        add_block(
            Z, y, each, origin, kept, FORGOTTEN, sums, counts, *room_for_block(len(y), size - 1)
        )
        return
    sums *= kept[:, np.newaxis, np.newaxis, np.newaxis]
    counts *= kept[:, np.newaxis]
    gone = counts < FORGOTTEN
    sums[gone], counts[gone] = 0.0, 0.0
    rows = np.empty((len(Z), size))
    rows[:, 0] = 1.0
    np.subtract(Z, origin, out=rows[:, 1:])
    positive = y > 0
    for kind, own in enumerate((positive, ~positive)):
        part = rows[own]
        other = part if weight is None else part * weight[own][:, np.newaxis]
        sums[:, kind] += other.T @ part
        counts[:, kind] += len(part)


def _solved(C: Vector, u: Vector, ridge: float) -> Vector:
    """Return (C + ridge I)^{-1} u; `C` is overwritten."""
    from scipy.linalg.lapack import dposv

    C.flat[:: len(u) + 1] += ridge
    _, found, info = dposv(C, u, lower=1, overwrite_a=1)
    if info:
        raise ValueError(_TOO_SMALL.format(ridge))
    return np.asarray(found)


def moments_of(sums: Vector, origin: Vector) -> MomentValues:
    """Return counts, means and covariances of both classes from sums about an origin."""
    d = len(origin)
    counts, means, covariances = np.zeros(2), np.zeros((2, d)), np.zeros((2, d, d))
    for kind in range(2):
        count = float(sums[kind, 0, 0])
        if count > 0.0:
            mean = sums[kind, 0, 1:] / count
            counts[kind], means[kind] = count, origin + mean
            covariances[kind] = sums[kind, 1:, 1:] / count - np.outer(mean, mean)
    return MomentValues(counts, means, covariances)


def spreads_of(sums: Vector, origin: Vector) -> tuple[Vector, Vector, Vector]:
    """Return counts, means and variances, as `moments_of` has them, without the covariances."""
    counts, means = sums[:, 0, 0].copy(), np.zeros((2, len(origin)))
    variances = np.zeros_like(means)
    for kind, count in enumerate(counts.tolist()):
        if count > 0.0:
            mean = sums[kind, 0, 1:] / count
            means[kind] = origin + mean
            variances[kind] = sums[kind].diagonal()[1:] / count - mean * mean
    return counts, means, variances
