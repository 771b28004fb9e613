# SPDX-License-Identifier: BSD-3-Clause
"""A table of the sums of z z' over the rows of each class, z = (1, x).

Nothing else has to be kept of rows to minimise the square loss over pairs of classes. Tables add,
subtract and decay. Seen through a matrix, a table is that of other features: a map that is linear
costs no pass over the rows. Several tables may stand side by side, one for each half-life.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.closed_form.moment_values import MomentValues
from pairlearn.typing import Vector


@dataclass(frozen=True, eq=False)
class Table:
    """Sums of z z' over the rows of each class.

    Parameters
    ----------
    sums : ndarray of shape (..., K, m + 1, m + 1)
        A matrix for each class, of floats or of Python's whole numbers. Tables side by side stand
        in the leading axes.

    Examples
    --------
    >>> table = Table.of(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1]))
    >>> table.weights, table.means[:, 0]
    (array([2., 1.]), array([2., 5.]))
    >>> (table - table.decayed(0.5)).weights
    array([1. , 0.5])
    """

    sums: NDArray[Any]

    @classmethod
    def none(
        cls, n_features: int, n_classes: int = 2, *, side_by_side: tuple[int, ...] = ()
    ) -> Table:
        """Return the table of no rows."""
        m = n_features + 1
        return cls(np.zeros((*side_by_side, n_classes, m, m)))

    @classmethod
    def of(
        cls, X: Any, code: NDArray[Any], n_classes: int = 2, *, weight: Vector | None = None
    ) -> Table:
        """Return the table of rows, dense or sparse, whose class has a code; weights count them."""
        m = X.shape[1]
        sums = np.empty((n_classes, m + 1, m + 1))
        for k, own in enumerate(sums):
            members = np.flatnonzero(code == k)
            rows = X[members]
            share = np.ones(len(members)) if weight is None else weight[members]
            own[0, 0] = share.sum()
            own[0, 1:] = own[1:, 0] = share @ rows
            if hasattr(rows, "tocsr"):
                own[1:, 1:] = (rows.multiply(share[:, np.newaxis]).T @ rows).toarray()
            elif weight is None:
                own[1:, 1:] = rows.T @ rows
            else:
                own[1:, 1:] = (rows * share[:, np.newaxis]).T @ rows
        return cls(sums)

    def __add__(self, other: Table) -> Table:
        return Table(self.sums + other.sums)

    def __sub__(self, other: Table) -> Table:
        return Table(self.sums - other.sums)

    def __getitem__(self, place: int) -> Table:
        """Return one of several tables that stand side by side."""
        return Table(self.sums[place])

    def decayed(self, by: Any) -> Table:
        """Return the table of rows that count less: a factor, or one for each table."""
        return Table(self.sums * np.asarray(by)[..., np.newaxis, np.newaxis, np.newaxis])

    def seen_through(self, A: NDArray[Any]) -> Table:
        """Return the table of z A, for A of shape (m + 1, p + 1) with first column (1, 0, ...)."""
        return Table(A.T @ self.sums @ A)

    def widened(self, n_features: int) -> Table:
        """Return the table with new features, which are 0 in all rows."""
        more = (0, n_features + 1 - self.sums.shape[-1])
        return Table(np.pad(self.sums, [(0, 0)] * (self.sums.ndim - 2) + [more, more]))

    @property
    def weights(self) -> Vector:
        """The weight of each class."""
        return np.asarray(self.sums[..., 0, 0])

    @property
    def means(self) -> Vector:
        """The mean of each class; 0 without rows."""
        weights = self.weights[..., np.newaxis]
        return np.asarray(self.sums[..., 0, 1:] / np.where(weights > 0.0, weights, 1.0))

    @property
    def covariances(self) -> Vector:
        """The covariance matrix of each class (divided by N, not N - 1)."""
        weights, means = self.weights[..., np.newaxis, np.newaxis], self.means
        second = self.sums[..., 1:, 1:] / np.where(weights > 0.0, weights, 1.0)
        return np.asarray(second - means[..., :, np.newaxis] * means[..., np.newaxis, :])

    @property
    def variances(self) -> Vector:
        """The variances of each class, without the covariances."""
        weights, squares = self.weights[..., np.newaxis], np.diagonal(self.sums, axis1=-2, axis2=-1)
        return np.asarray(squares[..., 1:] / np.where(weights > 0.0, weights, 1.0) - self.means**2)

    def values(self, origin: Vector | float = 0.0) -> MomentValues:
        """Return weights, means and covariances; rows were measured from an origin."""
        return MomentValues(self.weights, self.means + origin, self.covariances)

    def directions(
        self, scale: Vector, ridges: Vector, *, counts: Vector | None = None
    ) -> Directions:
        """Return the scores w = D v with (D C D + l I) v = D u, for each ridge l.

        Parameters
        ----------
        scale : ndarray of shape (m,)
            The diagonal D: the factor that makes features comparable.
        ridges : ndarray of shape (R,)
            The ridges: one for each of several tables, or all for one table.
        counts : ndarray of shape (..., 2), optional
            Numbers of positives and negatives. With them C is twice the covariance of all examples
            within their classes, as in Fisher's discriminant; without, the sum of the covariances
            of the classes.

        Returns
        -------
        Directions
            The scores. They are NaN where rounding hides the solution.
        """
        means, covariances = self.means, self.covariances
        if counts is not None:
            shares = 2.0 * counts / counts.sum(axis=-1, keepdims=True)
            covariances = covariances * shares[..., np.newaxis, np.newaxis]
        C = covariances.sum(axis=-3) * scale * scale[:, np.newaxis]
        u = np.broadcast_to(
            (means[..., 0, :] - means[..., 1, :]) * scale, (len(ridges), len(scale))
        )
        v = _solved(C + ridges[:, np.newaxis, np.newaxis] * np.eye(len(scale)), u)
        sizes = np.sqrt(np.maximum((u * v).sum(axis=-1), 0.0))
        weights = v * scale / np.where(sizes > 0.0, sizes, 1.0)[:, np.newaxis]
        middle = (weights * means.mean(axis=-2)).sum(axis=-1)
        return Directions(weights, middle, sizes)


@dataclass(frozen=True, eq=False)
class Directions:
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


def _solved(matrices: Vector, rights: Vector) -> Vector:
    """Return the solution of each system; NaN for a matrix that is not positive definite."""
    try:
        np.linalg.cholesky(matrices)
        return np.asarray(np.linalg.solve(matrices, rights[..., np.newaxis])[..., 0])
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.full_like(rights, np.nan)
    each = zip(matrices[:, np.newaxis], rights[:, np.newaxis], strict=True)
    return np.concatenate([_solved(*system) for system in each])
