# SPDX-License-Identifier: BSD-3-Clause
"""Coordinates in the span of a few wide rows, in which alone a linear score varies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.typing import Vector

#: Up to so many dense rows have a span, if features are at least `_WIDER` times as many.
_FEW = 1_000
_WIDER = 2
#: Sparse rows have a span if there are more features than this.
_MANY = 1_000
#: So few sparse rows have a span. Its basis is dense, and takes at most as many times their memory.
_FEW_SPARSE = 32


@dataclass(frozen=True, eq=False)
class Span:
    """X' = Q R with Q' Q = I, where X has as many columns as are not all zero.

    With w = Q v the scores X w are R' v, and ||w|| = ||v||. So what depends on scores and on ||w||
    is a function of v, on the rows of R', which are as many as they are long.
    """

    #: The columns that are not zero.
    columns: slice | NDArray[np.int64]
    Q: Vector
    #: R', the rows in these coordinates.
    rows: DenseRows
    n_features: int

    @classmethod
    def of(cls, rows: Rows) -> Span | None:
        """Return the span of few rows with many features, None for other rows."""
        n, d = rows.shape
        columns: slice | NDArray[np.int64] = slice(None)
        if isinstance(rows, DenseRows):
            if not (n <= _FEW and _WIDER * n <= d):
                return None
            X = rows.X.astype(np.float64, copy=False)
        else:
            if n > _FEW_SPARSE or d <= _MANY:
                return None
            # A mask is linear in d; np.unique hashes, which costs more for each the more there are.
            found = np.zeros(d, dtype=np.bool_)
            found[rows.indices] = True
            columns = np.flatnonzero(found)
            X = rows.matrix[:, columns].toarray().astype(np.float64, copy=False)
        Q, R = np.linalg.qr(X.T)
        return cls(columns, Q, DenseRows(np.ascontiguousarray(R.T)), d)

    def inside(self, w: Vector) -> Vector:
        """Return the coordinates of the part of w that lies in the span."""
        return np.asarray(w[self.columns] @ self.Q)

    def outside(self, w: Vector) -> Vector:
        """Return the part of w that is orthogonal to all rows."""
        return w - self.to_w(self.inside(w))

    def to_w(self, v: Vector) -> Vector:
        """Return Q v."""
        w = np.zeros(self.n_features)
        w[self.columns] = self.Q @ v
        return w
