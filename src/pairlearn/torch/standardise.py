# SPDX-License-Identifier: BSD-3-Clause
"""Features in units of their own spread, found at once or on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.features.spreads import scale_of, which_vary
from pairlearn.solvers.rows import is_sparse
from pairlearn.typing import Vector


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Means, spreads and ranges of columns, which `seen_with` brings up to date.

    A column is centred and divided by its standard deviation, but at least by a tenth of its range;
    one that does not vary is left out. Sparse rows have the same means and spreads as dense ones;
    `transform` makes those that it is given dense.
    """

    #: What all rows so far weigh: their number, if they have no weights.
    n_seen: float
    centre: Vector
    #: Sums of squared deviations from the centre.
    squares: Vector
    low: Vector
    high: Vector

    @classmethod
    def none(cls, n_features: int) -> Standardiser:
        """Return one that has seen nothing."""
        zero = np.zeros(n_features)
        return cls(0.0, zero, zero, zero + np.inf, zero - np.inf)

    def seen_with(self, X: Any, weight: Vector | None = None) -> Standardiser:
        """Return the standardiser that has seen these rows as well, with weights above zero."""
        if not X.shape[0]:
            return self
        if weight is not None and not len(weight):
            weight = None
        n, m = self.n_seen, float(X.shape[0]) if weight is None else float(weight.sum())
        with np.errstate(over="ignore", invalid="ignore"):
            look = _sparse_columns if is_sparse(X) else _columns
            mean, squares, least, most = look(X, weight)
            # Two parts together, as Chan, Golub and LeVeque (1983) put them.
            gap = mean - self.centre
            centre = self.centre + gap * (m / (n + m))
            squares = self.squares + squares + gap**2 * (n * m / (n + m))
        if not np.isfinite(squares).all():
            column = int(np.argmin(np.isfinite(squares)))
            raise ValueError(
                f"the squares of column {column} overflow (largest value "
                f"{max(abs(least[column]), abs(most[column])):g}); divide it by a power of ten."
            )
        low, high = np.minimum(self.low, least), np.maximum(self.high, most)
        return Standardiser(n + m, centre, squares, low, high)

    @property
    def factor(self) -> Vector:
        """One over the scale of each column, zero where it does not vary."""
        width = np.maximum(self.high - self.low, 0.0)
        scale = scale_of(np.sqrt(self.squares / (self.n_seen or 1.0)), self.low, self.high)
        varies = which_vary(width, self.low, self.high) & (scale > 0.0)
        return np.divide(1.0, scale, out=np.zeros_like(scale), where=varies)

    def transform(self, X: Any) -> Vector:
        """Return rows in these units, dense."""
        if is_sparse(X):
            rows = X.toarray().astype(np.float64, copy=False)
            rows -= self.centre
        else:
            rows = np.asarray(X, dtype=np.float64) - self.centre
        rows *= self.factor
        return np.asarray(rows)


def _columns(X: Any, weight: Vector | None) -> tuple[Vector, Vector, Vector, Vector]:
    """Return weighted means, sums of squared deviations, smallest and largest values."""
    X = np.asarray(X, dtype=np.float64)
    if weight is None:
        mean = X.mean(axis=0)
        squares = ((X - mean) ** 2).sum(axis=0)
    else:
        mean = (weight / weight.sum()) @ X
        squares = weight @ (X - mean) ** 2
    return mean, squares, X.min(axis=0), X.max(axis=0)


def _sparse_columns(X: Any, weight: Vector | None) -> tuple[Vector, Vector, Vector, Vector]:
    """Return the same from the values that are stored, and the zeros that are not."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    n, d = X.shape
    values, column = X.data.astype(np.float64), X.indices
    weight = np.ones(n) if weight is None else weight
    own, total = np.repeat(weight, np.diff(X.indptr)), weight.sum()

    def sums(terms: Vector) -> Vector:
        return np.asarray(np.bincount(column, terms, minlength=d))

    mean = sums(own * values) / total
    zeros = np.maximum(total - sums(own), 0.0)
    squares = sums(own * (values - mean[column]) ** 2) + zeros * mean**2
    full = np.bincount(column, minlength=d) == n
    least, most = np.where(full, np.inf, 0.0), np.where(full, -np.inf, 0.0)
    np.minimum.at(least, column, values)
    np.maximum.at(most, column, values)
    return mean, squares, least, most
