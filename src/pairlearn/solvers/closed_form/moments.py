# SPDX-License-Identifier: BSD-3-Clause
r"""The square loss by moments: closed form, streaming moments, and OPAUC.

The mean over opposite pairs of (m - <w, x - x'>)^2 is

    (m - <w, u>)^2 + w' C w,   u = mean_+ - mean_-,   C = cov_+ + cov_-,

so the loss depends on class means and covariances only, and the minimiser with ridge l ||w||^2
solves (C + u u' + l I) w = m u.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.averaging import Averaging, LastIterate
from pairlearn.domains import Ball, WholeSpace
from pairlearn.restored import restored_array
from pairlearn.schedules import Constant, Schedule
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.iterates import Iterates
from pairlearn.solvers.rows import CsrRows, Rows
from pairlearn.solvers.running import Callback
from pairlearn.solvers.solution import Solution
from pairlearn.solvers.support import check_parts
from pairlearn.solvers.two_classes import (
    check_two_classes,
    dense_two_classes,
    draw_path,
    n_steps_of,
)
from pairlearn.typing import Mask, Vector
from pairlearn.validation import (
    DivergenceError,
    check_count,
    check_generator,
    check_labels,
    check_weights,
)

#: Covariances of more features than this are refused, since they would not fit in memory.
_MOST_FEATURES = 10_000
#: Number of first rows whose mean becomes the origin of the moments.
_FIRST_ROWS = 1_000


class ClassMoments:
    """Counts, means and scatter matrices of the two classes, from chunks in any order.

    Parameters
    ----------
    n_features : int
        Number of features.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([-1, -1, 1, 1])
    >>> moments = ClassMoments(1).add(X[:3], y[:3]).add(X[3:], y[3:])
    >>> moments.means[:, 0], moments.covariance
    (array([3.5, 0.5]), array([[2.5]]))
    """

    def __init__(self, n_features: int) -> None:
        d = check_count("n_features", n_features)
        if d > _MOST_FEATURES:
            raise ValueError(
                f"Covariances of {d} features need {8 * d * d / 2**30:.0f} GiB; use pairwise SGD, "
                f"or OPAUC with a sketch, for more than {_MOST_FEATURES}."
            )
        #: Counts of positives and negatives.
        self.counts = np.zeros(2)
        #: Their means, in this order.
        self.means = np.zeros((2, d))
        #: Their sums of (x - mean)(x - mean)'.
        self.scatters = np.zeros((2, d, d))

    def add(self, X: Any, y: ArrayLike, *, example_weight: ArrayLike | None = None) -> Self:
        """Add examples with labels -1 and +1; `example_weight` says how often each counts."""
        from pairlearn.solvers.rows import as_rows

        rows = as_rows(X)
        y = check_labels(y, rows.shape[0])
        if rows.shape[1] != self.means.shape[1]:
            raise ValueError(
                f"X has {rows.shape[1]} features, the moments have {self.means.shape[1]}."
            )
        if not (np.abs(y) == 1.0).all():
            raise ValueError("y must hold the labels -1 and +1.")
        if not len(y):
            return self
        weight = None if example_weight is None else check_weights(example_weight, len(y))
        with np.errstate(over="ignore", invalid="ignore"):
            found = _moments_of(rows, y > 0, weight)
        for _, _, scatter in found:
            if not np.isfinite(scatter).all():
                raise DivergenceError(
                    f"The squares of features overflow (the largest is {_largest(rows):.3g}); "
                    "scale the features (StandardScaler)."
                )
        for kind, (count, mean, scatter) in enumerate(found):
            self.add_class(kind, count, mean, scatter)
        return self

    def state(self) -> dict[str, Vector]:
        """Return the arrays from which `from_state` rebuilds the moments."""
        return {"counts": self.counts, "means": self.means, "scatters": self.scatters}

    @classmethod
    def from_state(cls, state: Mapping[str, Vector]) -> Self:
        """Return the moments of a saved `state`."""
        d = np.shape(state["means"])[-1]
        moments = cls(d)
        moments.counts = restored_array(state, "counts", (2,))
        moments.means = restored_array(state, "means", (2, d))
        moments.scatters = restored_array(state, "scatters", (2, d, d))
        return moments

    def scaled(self, weights: Vector) -> ClassMoments:
        """Return the moments of features that are multiplied by weights.

        Parameters
        ----------
        weights : ndarray of shape (d,)
            The factor of each feature.

        Returns
        -------
        ClassMoments
            The moments of the multiplied features.

        Examples
        --------
        >>> ClassMoments(1).add([[0.0], [2.0]], [-1, 1]).scaled(np.array([3.0])).means[:, 0]
        array([6., 0.])
        """
        scaled = ClassMoments(self.means.shape[1])
        scaled.counts = self.counts.copy()
        scaled.means = self.means * weights
        scaled.scatters = self.scatters * weights * weights[:, np.newaxis]
        return scaled

    def merge(self, other: ClassMoments) -> Self:
        """Add the examples of other moments."""
        for kind in range(2):
            self.add_class(kind, other.counts[kind], other.means[kind], other.scatters[kind])
        return self

    def without(self, other: ClassMoments) -> ClassMoments:
        """Return the moments without the examples of `other`, which must be among these."""
        rest = ClassMoments(self.means.shape[1])
        for kind in range(2):
            count = self.counts[kind] - other.counts[kind]
            if count <= 0:
                continue
            gap = self.means[kind] - other.means[kind]
            rest.counts[kind] = count
            rest.means[kind] = self.means[kind] + (other.counts[kind] / count) * gap
            np.subtract(self.scatters[kind], other.scatters[kind], out=rest.scatters[kind])
            share = other.counts[kind] * self.counts[kind] / count
            add_square(rest.scatters[kind], -share, gap)
        return rest

    def add_class(self, kind: int, count: float, mean: Vector, scatter: Vector) -> None:
        """Add `count` examples of one class (0: positives) with this mean and scatter matrix."""
        if count == 0:
            return
        if self.counts[kind] == 0:
            self.counts[kind], self.means[kind], self.scatters[kind] = count, mean, scatter
            return
        total = self.counts[kind] + count
        gap = mean - self.means[kind]
        self.scatters[kind] += scatter
        add_square(self.scatters[kind], self.counts[kind] * count / total, gap)
        self.means[kind] += (count / total) * gap
        self.counts[kind] = total

    @property
    def difference(self) -> Vector:
        """The mean of the positives minus the mean of the negatives, u."""
        return np.asarray(self.means[0] - self.means[1])

    @property
    def covariance(self) -> Vector:
        """The sum of the covariances of the classes, C (divided by N, not N - 1)."""
        if not self.counts.all():
            raise ValueError("Moments need examples of both classes.")
        found = self.scatters[0] / self.counts[0]
        found += self.scatters[1] / self.counts[1]
        return np.asarray(found)

    @property
    def pair_scatter(self) -> Vector:
        """The mean of v v' over the differences v of opposite pairs, C + u u'."""
        return self.covariance + np.outer(self.difference, self.difference)

    def solve(self, *, ridge: float = 0.0, margin: float = 1.0) -> Vector:
        """Return the least-norm minimiser of the mean square loss of pairs plus ridge ||w||^2."""
        from scipy import linalg

        if not ridge >= 0.0:
            raise ValueError(f"ridge must be at least 0, got {ridge!r}.")
        u, matrix = self.difference, self.covariance
        matrix.flat[:: len(u) + 1] += ridge
        # (C + u u') w = m u has the direction of C^{-1} u wherever C is regular.
        try:
            factor = linalg.cho_factor(matrix, check_finite=False)
            diagonal = np.abs(np.diag(factor[0]))
            if diagonal.min() > 1e-7 * diagonal.max():
                v = linalg.cho_solve(factor, u, check_finite=False)
                return np.asarray(v * (margin / (1.0 + float(u @ v))))
        except linalg.LinAlgError:
            pass
        w, *_ = linalg.lstsq(matrix + np.outer(u, u), margin * u)
        return np.asarray(w)


def add_square(matrix: Vector, factor: float, v: Vector) -> None:
    """Add factor times v v' to a C-contiguous symmetric matrix, in one pass and without a copy."""
    from scipy.linalg.blas import dger

    # BLAS takes columns: the transpose of the matrix, which is the matrix itself.
    found = dger(factor, v, v, a=matrix.T, overwrite_a=1)
    if not np.may_share_memory(found, matrix):  # it has worked on a copy
        matrix[...] = found


def _largest(rows: Rows) -> float:
    return float(np.abs(rows.data if isinstance(rows, CsrRows) else rows.X).max())


def _moments_of(
    rows: Rows, positive: Mask, weight: Vector | None
) -> list[tuple[float, Vector, Vector]]:
    """Return number, mean and scatter of the positives and of the negatives.

    The products are taken about a point near the mean, so subtracting the mean later loses no
    precision. They are computed for one class only; the other class is the rest.
    """
    n, d = rows.shape
    rarer = 0 if 2 * int(np.count_nonzero(positive)) <= n else 1
    index = np.flatnonzero(positive if rarer == 0 else ~positive)
    w = np.ones(n) if weight is None else weight
    if isinstance(rows, CsrRows):
        import scipy.sparse

        Z, origin = rows.matrix.astype(np.float64), np.zeros(d)
        if weight is not None:
            root = scipy.sparse.dia_array((np.sqrt(weight)[None], [0]), shape=(n, n)).tocsr()
            rooted = root @ Z
        else:
            rooted = Z
        part = rooted[index]
        products = [(part.T @ part).toarray(), (rooted.T @ rooted).toarray()]
    else:
        origin = rows.X[:_FIRST_ROWS].mean(axis=0, dtype=np.float64)
        Z = np.subtract(rows.X, origin, dtype=np.float64)
        rooted = Z if weight is None else Z * np.sqrt(weight)[:, None]
        part = rooted[index]
        products = [part.T @ part, rooted.T @ rooted]
    sums = [w[index] @ (part if weight is None else Z[index]), w @ Z]
    counts = [float(w[index].sum()), float(w.sum() - w[index].sum())]
    found: list[tuple[float, Vector, Vector]] = [(0.0, origin, np.zeros((d, d)))] * 2
    for kind, count, total, product in (
        (rarer, counts[0], sums[0], products[0]),
        (1 - rarer, counts[1], sums[1] - sums[0], products[1] - products[0]),
    ):
        if count > 0.0:
            mean = np.asarray(total) / count
            found[kind] = (count, origin + mean, product - count * np.outer(mean, mean))
    return found


def solve_square_auc(X: Any, y: ArrayLike, *, ridge: float = 0.0, margin: float = 1.0) -> Vector:
    r"""Return the minimiser of the square loss over opposite pairs, in closed form.

    Minimises 1/(n+ n-) sum over opposite pairs of (m - <w, x+ - x->)^2 + ridge ||w||^2 in O(n d^2)
    operations, without visiting pairs.

    Parameters
    ----------
    X : array-like or sparse container of shape (n, d)
        Examples.
    y : array-like of shape (n,)
        Labels -1 and +1.
    ridge : float, default=0.0
        The weight of ||w||^2.
    margin : float, default=1.0
        The margin m.

    Returns
    -------
    ndarray of shape (d,)
        The minimiser.

    Examples
    --------
    >>> solve_square_auc([[0.0], [1.0], [2.0], [3.0]], [-1, -1, 1, 1]).round(4)
    array([0.4444])
    """
    rows, y = check_two_classes(X, y)
    return ClassMoments(rows.shape[1]).add(rows, y).solve(ridge=ridge, margin=margin)


@dataclass(frozen=True)
class OPAUC:
    """One-pass AUC optimisation by first and second moments of the two classes.

    Parameters
    ----------
    schedule : Schedule, default=Constant(0.01)
        The step sizes.
    ridge : float, default=0.0
        The weight l of (l / 2) ||w||^2.
    rank : int, optional
        Sketch the covariances with this many random directions: O(d rank) time and memory instead
        of O(d^2), for many features. The estimate is unbiased; its error falls as 1/sqrt(rank).
    domain : WholeSpace or Ball, default=WholeSpace()
        Where w may live; the original has no constraint.
    averaging : Averaging, default=LastIterate()
        The original returns the last iterate.

    References
    ----------
    Gao, Jin, Zhu, Zhou. One-pass AUC optimization. ICML 2013.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> w = OPAUC(Constant(0.05)).solve(X, y, rng=0).w
    >>> bool(w[0] > 5 * abs(w[1]))
    True
    """

    schedule: Schedule = field(default_factory=lambda: Constant(0.01))
    ridge: float = 0.0
    rank: int | None = None
    domain: WholeSpace | Ball = field(default_factory=WholeSpace)
    averaging: Averaging = field(default_factory=LastIterate)

    def __post_init__(self) -> None:
        if not self.ridge >= 0.0:
            raise ValueError(f"ridge must be at least 0, got {self.ridge!r}.")
        if self.rank is not None:
            check_count("rank", self.rank)

    def solve(
        self,
        X: Any,
        y: ArrayLike,
        *,
        n_passes: float = 1.0,
        rng: Any = None,
        callbacks: Sequence[Callback] = (),
        pauses: Sequence[int] = (),
    ) -> Solution:
        """Run over the examples in random order.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Examples.
        y : array-like of shape (n,)
            Labels -1 and +1.
        n_passes : float, default=1.0
            Number of passes; each is in a new order.
        rng : int or numpy.random.Generator, optional
            Source of the orders and of the sketch.
        callbacks, pauses : sequence
            As in `SPAUC.solve`.

        Returns
        -------
        Solution
            Average, last iterate and trace. Gradients are counted per example, not per pair. Ctrl-C
            ends the run early, with a warning.
        """
        from pairlearn.kernels.steps.moments import descend_moments, descend_sketch

        check_parts("OPAUC", domain=self.domain)
        rows, y = dense_two_classes(X, y, "OPAUC")
        n, d = rows.shape
        if self.rank is None and d > _MOST_FEATURES:
            raise ValueError(f"{d} features need too much memory for covariances; give a rank.")
        generator = check_generator(rng)
        n_steps = n_steps_of(n_passes, n)
        path = draw_path(n, n_steps, generator, order="shuffled")
        run = Iterates(self.averaging, self.schedule, n_steps, d)
        counts, means = np.zeros(2), np.zeros((2, d))
        rank, radius = self.rank, self.domain.radius
        kept = np.zeros((2, d, d if rank is None else rank))
        sums, room = np.zeros((2, rank or 0)), np.empty(rank or d)

        def take(now: slice, step_sizes: Vector) -> int:
            shared = (rows.flat, y, path[now], step_sizes, run.shares[now], self.ridge)
            ends = (run.w, run.weighted_sum, radius, room)
            if rank is None:
                return descend_moments(*shared, means, counts, kept, *ends)  # type: ignore[no-any-return]
            normals = generator.standard_normal((now.stop - now.start, rank)) / np.sqrt(rank)
            return descend_sketch(*shared, means, counts, kept, sums, normals, *ends)  # type: ignore[no-any-return]

        # Short blocks keep the random directions of a sketch in the cache.
        block = BLOCK if rank is None else _FIRST_ROWS
        return run.run(take, callbacks=callbacks, pauses=pauses, block=block)
