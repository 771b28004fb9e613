# SPDX-License-Identifier: BSD-3-Clause
"""Features in units of their own spread."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pairlearn.features.spreads import scale_of, which_vary
from pairlearn.typing import Vector


class Standardiser(NamedTuple):
    """The centre of each column, and one over its scale: zero where it does not vary.

    The scale is the standard deviation, but at least a tenth of the range. Sparse rows have the
    same means and spreads as dense ones.
    """

    centre: Vector
    factor: Vector

    @classmethod
    def of(cls, X: Any, weight: Vector) -> Standardiser:
        """Return that of rows; `weight` is empty if all weigh 1."""
        share = weight / weight.sum() if len(weight) else np.full(X.shape[0], 1.0 / X.shape[0])
        with np.errstate(over="ignore", invalid="ignore"):
            if hasattr(X, "tocsr"):
                wide = X.astype(np.float64)
                centre = np.asarray(wide.T @ share)
                low, high = (np.asarray(wide.min(axis=0).todense()).ravel(),
                             np.asarray(wide.max(axis=0).todense()).ravel())  # fmt: skip
                # Zeros that are not stored lie at minus the centre.
                stored = wide.tocoo()
                gap = stored.data - centre[stored.col]
                there = np.bincount(stored.col, share[stored.row], minlength=X.shape[1])
                variance = (
                    np.bincount(stored.col, share[stored.row] * gap**2, minlength=X.shape[1])
                    + np.maximum(1.0 - there, 0.0) * centre**2
                )
            else:
                wide = np.asarray(X, dtype=np.float64)
                centre, low, high = share @ wide, wide.min(axis=0), wide.max(axis=0)
                variance = share @ (wide - centre) ** 2
        if not np.isfinite(variance).all():
            column = int(np.argmin(np.isfinite(variance)))
            raise ValueError(
                f"the squares of column {column} overflow (largest value "
                f"{max(abs(low[column]), abs(high[column])):g}); divide it by a power of ten."
            )
        scale = scale_of(np.sqrt(variance), low, high)
        varies = which_vary(high - low, low, high) & (scale > 0.0)
        return cls(centre, np.divide(1.0, scale, out=np.zeros_like(scale), where=varies))

    def transform(self, X: Any) -> Vector:
        """Return rows in these units, dense."""
        if hasattr(X, "tocsr"):
            rows = X.toarray().astype(np.float64, copy=False)
            rows -= self.centre
        else:
            rows = np.asarray(X, dtype=np.float64) - self.centre
        rows *= self.factor
        return np.asarray(rows)
