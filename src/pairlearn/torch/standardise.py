# SPDX-License-Identifier: BSD-3-Clause
"""Features in units of their own spread, found at once or on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Standardiser"]

Vector = NDArray[np.float64]

#: The least scale of a column as a share of its range: a rare indicator is not blown up.
_FLOOR = 0.1
#: A column varies if its range exceeds this share of its largest value.
_CONSTANT = 1e-10


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Means, spreads and ranges of columns, which `seen_with` brings up to date.

    A column is centred and divided by its standard deviation, but at least by a tenth of its range;
    one that does not vary is left out.

    Examples
    --------
    >>> scaler = Standardiser.none(1).seen_with(np.array([[1.0]])).seen_with(np.array([[3.0]]))
    >>> scaler.transform(np.array([[3.0]]))
    array([[1.]])
    """

    n_seen: int
    centre: Vector
    #: Sums of squared deviations from the centre.
    squares: Vector
    low: Vector
    high: Vector

    @classmethod
    def none(cls, n_features: int) -> Standardiser:
        """Return one that has seen nothing."""
        zero = np.zeros(n_features)
        return cls(0, zero, zero, zero + np.inf, zero - np.inf)

    def seen_with(self, X: Any) -> Standardiser:
        """Return the standardiser that has seen these rows as well."""
        X = np.asarray(X, dtype=np.float64)
        if not len(X):
            return self
        n, m = self.n_seen, len(X)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = X.mean(axis=0)
            squares = ((X - mean) ** 2).sum(axis=0)
            # Two parts together, as Chan, Golub and LeVeque (1983) put them.
            gap = mean - self.centre
            centre = self.centre + gap * (m / (n + m))
            squares = self.squares + squares + gap**2 * (n * m / (n + m))
        if not np.isfinite(squares).all():
            column = int(np.argmin(np.isfinite(squares)))
            raise ValueError(
                f"the squares of column {column} overflow (largest value "
                f"{np.abs(X[:, column]).max():g}); divide it by a power of ten."
            )
        low, high = np.minimum(self.low, X.min(axis=0)), np.maximum(self.high, X.max(axis=0))
        return Standardiser(n + m, centre, squares, low, high)

    @property
    def factor(self) -> Vector:
        """One over the scale of each column, zero where it does not vary."""
        width = np.maximum(self.high - self.low, 0.0)
        varies = width > _CONSTANT * np.maximum(np.abs(self.low), np.abs(self.high))
        scale = np.maximum(np.sqrt(self.squares / max(self.n_seen, 1)), _FLOOR * width)
        return np.divide(1.0, scale, out=np.zeros_like(scale), where=varies & (scale > 0.0))

    def transform(self, X: Any) -> Vector:
        """Return rows in these units."""
        return np.asarray((np.asarray(X, dtype=np.float64) - self.centre) * self.factor)
