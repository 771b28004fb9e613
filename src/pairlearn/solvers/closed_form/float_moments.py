# SPDX-License-Identifier: BSD-3-Clause
"""The table of mapped rows in memory, in floats, and the ridge problems that follow from it.

Features as they are come measured from the middle of their range, so that far columns lose no
digits. Features of a wide map of bounded norm are multiplied in single precision, and the products
of blocks are added in double.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.features import FeatureMap, Identity
from pairlearn.features.base import dense, map_into
from pairlearn.solvers.closed_form.mapped_moments import (
    BLOCK,
    MappedMoments,
    MappedValues,
    RidgeProblem,
    block_of,
    extents_of,
    height_for,
    scale_for,
    type_of,
)
from pairlearn.solvers.closed_form.moments import check_covariances
from pairlearn.solvers.closed_form.table import Table
from pairlearn.solvers.rows import CsrRows, Rows
from pairlearn.typing import Vector

#: Sparse columns whose values reach so many times further than they differ are centred.
_NEAR = 8.0


class FloatRows:
    """Mapped rows in blocks, to be multiplied and scored.

    Parameters
    ----------
    features : FeatureMap
        A fitted map.
    rows : Rows
        All examples.
    weight : ndarray
        Their weights, or an empty array.
    dtype : dtype, optional
        The precision of mapped features: by default what suffices for a model that stays.
    """

    def __init__(self, features: FeatureMap, rows: Rows, weight: Vector, dtype: Any = None) -> None:
        self.features, self.rows, self.weight = features, rows, weight
        self.dtype = type_of(features) if dtype is None else np.dtype(dtype)
        found = extents_of(features, rows, weight if len(weight) else None)
        self.low, self.high = found.low, found.high
        self.origin, self._sparse = np.zeros(features.n_outputs), False
        if isinstance(features, Identity):
            check_covariances(rows)
            self.dtype = np.dtype(np.float64)
            width, reach = self.high - self.low, np.maximum(np.abs(self.low), np.abs(self.high))
            near = (width > 0.0) & (reach > _NEAR * width)
            self._sparse = isinstance(rows, CsrRows) and not near.any()
            if not self._sparse and rows.shape[0]:
                self.origin = 0.5 * self.low + 0.5 * self.high

    def blocks(self, index: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Yield the mapped examples of an index, some at a time, and which they are.

        The next block may be written over the last one.
        """
        plain = isinstance(self.features, Identity)
        height = BLOCK if plain else height_for(self.features)
        room = np.empty((min(height, len(index)), self.features.n_outputs), dtype=self.dtype)
        for start in range(0, len(index), height):
            own = index[start : start + height]
            block = block_of(self.rows.take(own), 0, len(own))
            if self._sparse:
                yield own, block.astype(np.float64)
            elif plain:
                yield own, dense(block, self.dtype) - self.origin
            else:
                yield own, map_into(room, self.features, block)

    def table(self, y: Vector, index: NDArray[np.int64]) -> Table:
        """Return the table of some examples by their labels -1 and 1, positives first."""
        total = Table.none(self.features.n_outputs)
        for own, Z in self.blocks(index):
            weight = self.weight[own] if len(self.weight) else None
            total = total + Table.of(Z, y[own] < 0, weight=weight)
        return total

    def exact_table(self, moments: MappedMoments) -> Table:
        """Return the table of exact moments, measured as these rows are."""
        own = moments.moments.values
        sums = np.empty((2, *np.add(own.covariances.shape[1:], 1)))
        for kind, count in enumerate(own.counts):
            z = np.concatenate([[1.0], own.means[kind] - self.origin])
            sums[kind] = count * np.outer(z, z)
            sums[kind, 1:, 1:] += count * own.covariances[kind]
        return Table(sums)

    def problem(self, table: Table, *, scaled: bool = True, rough: bool = False) -> RidgeProblem:
        """Return the ridge problem of a table; `rough` allows single precision."""
        values = table.values(self.origin)
        if not values.counts.all():
            raise ValueError("Moments need examples of both classes.")
        own = MappedValues(self.features, values, self.low, self.high)
        return own.problem(scaled=scaled, rough=rough)

    def scores(self, index: NDArray[np.int64], W: NDArray[Any]) -> Vector:
        """Return the scores of some examples by models in columns, up to a shift of each column."""
        W = W.astype(self.dtype, copy=False)
        return np.concatenate([np.asarray(Z @ W) for _, Z in self.blocks(index)])


class RowsProblem:
    """The ridge problem of fewer mapped rows than features, whose minimiser is a sum of rows.

    B holds the rows less the means of their classes, each times the root of its share of the class,
    and below them the difference u of the means. Then C + u u' = B' B, and for ridge l the
    minimiser B' (B B' + l I)^{-1} e, e the place of u: a system of rows, not of features.
    """

    def __init__(
        self,
        rows: FloatRows,
        y: Vector,
        index: NDArray[np.int64],
        *,
        scaled: bool = True,
        rough: bool = False,
    ) -> None:
        table = np.concatenate(
            [dense(Z, np.dtype(np.float64)).copy() for _, Z in rows.blocks(index)]
        )
        weight = rows.weight[index] if len(rows.weight) else np.ones(len(index))
        B, means, variances, counts = [], [], [], []
        for own in (y[index] > 0, y[index] < 0):
            counts.append(weight[own].sum())
            if not counts[-1] > 0.0:
                raise ValueError("Moments need examples of both classes.")
            share = weight[own] / counts[-1]
            means.append(share @ table[own])
            B.append((table[own] - means[-1]) * np.sqrt(share)[:, np.newaxis])
            variances.append((B[-1] ** 2).sum(axis=0))
        self._scale = np.ones(table.shape[1])
        if scaled:
            known = (np.array(counts), np.stack(means) + rows.origin, np.stack(variances))
            self._scale = scale_for(rows.features, *known, rows.low, rows.high)
        self._rows = np.concatenate([*B, (means[0] - means[1])[np.newaxis]]) * self._scale
        self._products = self._rows @ self._rows.T

    def solve(
        self, ridge: float, *, signs: NDArray[np.int64] | None = None, margin: float = 1.0
    ) -> Vector:
        """Return the coefficients for a ridge, as `RidgeProblem.solve` does, without signs."""
        from scipy import linalg

        if signs is not None and signs.any():
            raise ValueError("signs of coefficients need moments, of fewer features than rows.")
        place = np.zeros(len(self._products))
        place[-1] = margin
        try:
            found = linalg.solve(self._products + ridge * np.eye(len(place)), place, assume_a="pos")
        except linalg.LinAlgError:
            raise ValueError(
                f"The ridge {ridge:g} is too small for the rounding of the rows; use a larger one."
            ) from None
        return np.asarray(self._scale * (found @ self._rows))
