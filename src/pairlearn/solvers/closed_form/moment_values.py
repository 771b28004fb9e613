# SPDX-License-Identifier: BSD-3-Clause
"""Class moments as floats, rounded once from exact sums, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pairlearn.solvers.closed_form.exact_sums import ExactSums, quotient
from pairlearn.solvers.rows import DenseRows
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError


@dataclass(frozen=True, eq=False)
class MomentValues:
    """Counts, means and covariances of the two classes, as floats.

    Parameters
    ----------
    counts : ndarray of shape (2,)
        Weights of positives and negatives.
    means : ndarray of shape (2, d)
        Their means, in this order.
    covariances : ndarray of shape (2, d, d)
        Their covariance matrices (divided by N, not N - 1).
    gap : ndarray of shape (d,), optional
        The difference of the means, if it is known better than by subtracting them.

    Examples
    --------
    >>> values = MomentValues(np.ones(2), np.array([[2.0], [1.0]]), np.ones((2, 1, 1)))
    >>> values.difference, values.solve().round(4)
    (array([1.]), array([0.3333]))
    """

    counts: Vector
    means: Vector
    covariances: Vector
    gap: Vector | None = None

    @classmethod
    def of(cls, rows: DenseRows, y: Vector, weight: Vector | None = None) -> MomentValues:
        """Return the moments of rows with labels -1 and +1, both present, in sums of floats."""
        counts, means, covariances = [], [], []
        for own in (y > 0, y < 0):
            X = rows.X[own].astype(np.float64, copy=False)
            count = float(len(X)) if weight is None else float(weight[own].sum())
            if not count > 0.0:
                raise ValueError("Moments need examples of both classes.")
            share = np.full(len(X), 1.0 / count) if weight is None else weight[own] / count
            mean = share @ X
            Z = (X - mean) * np.sqrt(share)[:, np.newaxis]
            counts.append(count)
            means.append(mean)
            # One array twice: NumPy then computes half of a symmetric product.
            covariances.append(Z.T @ Z)
        return cls(np.array(counts), np.stack(means), np.stack(covariances))

    @property
    def scatters(self) -> Vector:
        """Sums of (x - mean)(x - mean)' of both classes."""
        return np.asarray(self.covariances * self.counts[:, np.newaxis, np.newaxis])

    @property
    def difference(self) -> Vector:
        """The mean of the positives minus the mean of the negatives, u."""
        return np.asarray(self.means[0] - self.means[1] if self.gap is None else self.gap)

    @property
    def covariance(self) -> Vector:
        """The sum of the covariances of the classes, C (divided by N, not N - 1)."""
        if not self.counts.all():
            raise ValueError("Moments need examples of both classes.")
        return np.asarray(self.covariances[0] + self.covariances[1])

    @property
    def pair_scatter(self) -> Vector:
        """The mean of v v' over the differences v of opposite pairs, C + u u'."""
        return self.covariance + np.outer(self.difference, self.difference)

    def scaled(self, weights: Vector) -> MomentValues:
        """Return the moments of features that are multiplied by weights."""
        return MomentValues(
            self.counts,
            self.means * weights,
            self.covariances * weights * weights[:, np.newaxis],
            self.difference * weights,
        )

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


def values_of(sums: Sequence[ExactSums]) -> MomentValues:
    """Return counts, means and covariances of classes, each rounded once from whole numbers."""
    grid, d = sums[0].grid, sums[0].grid.n_features
    exponents = grid.exponents.tolist()
    counts, means, covariances = (
        np.zeros(len(sums)),
        np.zeros((len(sums), d)),
        np.zeros((len(sums), d, d)),
    )
    found = []
    for kind, one in enumerate(sums):
        if one.total > 0:
            counts[kind], s, covariances[kind] = one.moments()
            means[kind] = [quotient(v, one.total, e) for v, e in zip(s, exponents, strict=True)]
            found.append((one.total, s))
    if not np.isfinite(covariances).all():
        raise DivergenceError(
            "The squares of features overflow in their covariances; scale the features "
            "(StandardScaler)."
        )
    gap = None
    if len(found) == len(sums) == 2:
        (n, a), (m, b) = found
        both = zip(a, b, exponents, strict=True)
        gap = np.array([quotient(x * m - y * n, n * m, e) for x, y, e in both])
    return MomentValues(counts, means, covariances, gap)
