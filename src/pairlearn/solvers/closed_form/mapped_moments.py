# SPDX-License-Identifier: BSD-3-Clause
r"""The square loss on mapped features: one pass over blocks, then any ridge in closed form.

The loss depends on the class moments of mapped rows only. Those of blocks, chunks and machines add
up, and the moments without a fold are a difference. So rows are mapped once, a block at a time, for
any number of ridges and folds. With u the difference of the class means, C the sum of the class
covariances and D a diagonal that gives features the mean variance 1, the minimiser for ridge l is
w = D v,

    (D C D + D u u' D + l I) v = D u,    of the direction of (D C D + l I)^{-1} D u.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.features import FeatureMap, Identity
from pairlearn.features.base import dense, map_into
from pairlearn.features.spreads import FLOOR, scale_of, which_vary
from pairlearn.solvers.closed_form.grid import Extents, Grid
from pairlearn.solvers.closed_form.moments import check_covariances, signed, taken_away
from pairlearn.solvers.closed_form.table import MomentValues, Table
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, as_rows
from pairlearn.typing import Vector

#: Number of rows that are mapped at once.
BLOCK = 4096
#: Numbers of mapped rows that are scored or multiplied at once: a near cache holds them.
_AT_ONCE = 1 << 19
#: More features than this, of bounded norm, are computed in single precision: the ridge is much
#: larger than its rounding errors, but for the weakest one, which is skipped.
WIDE = 512
#: Ridges from strong to weak, for mapped features of mean variance 1.
_RIDGES = (1.0, 0.1, 0.01, 1e-3, 1e-4)
#: Sparse columns whose values reach so many times further than they differ are centred.
_NEAR = 8.0


def ridges_for(features: FeatureMap) -> tuple[float, ...]:
    """Return the ridges to try, from strong to weak."""
    return _RIDGES if features.n_outputs <= WIDE else _RIDGES[:-1]


def block_of(rows: Rows, start: int, stop: int) -> Any:
    """Return consecutive rows as an array, or as a CSR matrix without a dense copy."""
    if not isinstance(rows, CsrRows):
        return rows.X[start:stop]
    import scipy.sparse

    first, last = rows.indptr[start], rows.indptr[stop]
    return scipy.sparse.csr_array(
        (rows.data[first:last], rows.indices[first:last], rows.indptr[start : stop + 1] - first),
        shape=(stop - start, rows.n_features),
    )


def _height_for(features: FeatureMap) -> int:
    return min(BLOCK, max(_AT_ONCE // max(features.n_outputs, 1), 1))


def score_mapped(
    features: FeatureMap, rows: Rows, coef: NDArray[Any], *, dtype: Any = np.float64
) -> Vector:
    """Return the scores of rows, a block at a time, for one model or for several in columns.

    A score that overflows is infinite, or NaN where two infinities cancel.
    """
    n = rows.shape[0]
    scores = np.empty((n, *coef.shape[1:]))
    coef = coef.astype(dtype, copy=False)
    height = _height_for(features)
    room = np.empty((min(height, n), features.n_outputs), dtype=dtype)
    for start in range(0, n, height):
        stop = min(start + height, n)
        block = map_into(room, features, block_of(rows, start, stop))
        with np.errstate(over="ignore", invalid="ignore"):
            scores[start:stop] = block @ coef
    return scores


def type_of(features: FeatureMap) -> np.dtype[Any]:
    """Return the precision of mapped features."""
    single = features.bounds().is_finite and features.n_outputs > WIDE
    return np.dtype(np.float32 if single else np.float64)


def extents_of(features: FeatureMap, rows: Rows, weight: Vector | None = None) -> Extents:
    """Return the extents of mapped rows: the bounds of the map, or else those of the rows.

    They do not depend on the order of the rows; those of parts merge into those of all.
    """
    m, bounds = features.n_outputs, features.bounds()
    if bounds.is_finite:
        low, high = max(bounds.lower, -bounds.norm), min(bounds.upper, bounds.norm)
        none = np.zeros(m, dtype=np.int64)
        n = rows.shape[0] if weight is None else int(np.count_nonzero(weight))
        found = Extents(np.full(m, low), np.full(m, high), none, none, n_rows=n)
        return found.with_weights(weight)
    if isinstance(features, Identity):
        return Extents.of(rows, weight)
    if weight is not None and not weight.all():
        kept = np.flatnonzero(weight)
        rows, weight = rows.take(kept), weight[kept]
    blocks = (_mapped_block(features, rows, now, np.float64) for now in _blocks(rows))
    found = Extents.merge_all((Extents.of(DenseRows(Z)) for Z in blocks), m)
    return found.with_weights(weight)


def _blocks(rows: Rows) -> Iterator[slice]:
    for start in range(0, rows.shape[0], BLOCK):
        yield slice(start, min(start + BLOCK, rows.shape[0]))


def _mapped_block(features: FeatureMap, rows: Rows, now: slice, dtype: Any) -> NDArray[Any]:
    return features.transform(block_of(rows, now.start, now.stop), dtype=dtype)


def scale_for(
    features: FeatureMap,
    counts: Vector,
    means: Vector,
    variances: Vector,
    low: Vector,
    high: Vector,
    *,
    gap: Vector | None = None,
) -> Vector:
    """Return the factors that give features the mean variance 1, from facts of both classes.

    Features of bounded norm are comparable as they are; others are divided by their standard
    deviation, or a tenth of their range, and left out if they do not vary.
    """
    variance = _pooled(counts, variances, means[0] - means[1] if gap is None else gap)
    if features.bounds().is_finite:
        typical = float(variance.mean())
        return np.full(len(variance), 1.0 / np.sqrt(typical) if typical > 0.0 else 1.0)
    deviation = np.sqrt(variance)
    varies = which_vary(deviation, low, high)
    if not varies.any():
        return np.zeros(len(variance))
    size = scale_of(deviation, low, high)
    typical = float(np.sqrt(np.mean((deviation[varies] / size[varies]) ** 2)))
    found: Vector = np.divide(1.0, size * typical, out=np.zeros_like(size), where=varies)
    return found


def _pooled(counts: Vector, variances: Vector, gap: Vector) -> Vector:
    """Return the variances of the rows of both classes, whose means differ by `gap`."""
    shares = counts / counts.sum()
    found = shares[0] * variances[0] + shares[1] * variances[1] + shares[0] * shares[1] * gap**2
    return np.asarray(np.maximum(found, 0.0))


@dataclass(frozen=True, eq=False)
class MappedMoments:
    """The exact table of mapped rows, positives first, from chunks in any order.

    `low` and `high` are the smallest and largest value of each mapped feature; 0 where a map has
    bounds, and with a grid that is known without the rows: scales are then standard deviations.
    """

    features: FeatureMap
    table: Table
    low: Vector
    high: Vector
    has_given_grid: bool = False

    @classmethod
    def none(
        cls, features: FeatureMap, extents: Extents | None = None, *, grid: Grid | None = None
    ) -> MappedMoments:
        """Return the moments of no rows: with the extents of all, or on a known grid."""
        m = features.n_outputs
        low = high = np.zeros(m)
        if extents is not None and not features.bounds().is_finite:
            low, high = extents.low, extents.high
        own = grid or Grid.of(extents or Extents.none(m))
        return cls(features, Table.none(m, grid=own), low, high, grid is not None)

    @property
    def grid(self) -> Grid:
        """The grid."""
        assert self.table.grid is not None
        return self.table.grid

    @property
    def values(self) -> MomentValues:
        """The moments as floats."""
        return self.table.values()

    def alike(self) -> MappedMoments:
        """Return moments of no rows, on the same grid."""
        return self.holding(Table.none(self.features.n_outputs, grid=self.grid))

    def holding(self, table: Table) -> MappedMoments:
        """Return moments of the same map and ranges with another table."""
        return replace(self, table=table)

    def plus(self, X: Any, y: ArrayLike, weight: ArrayLike | None = None) -> MappedMoments:
        """Return the moments with rows of labels -1 and +1; a weight of 2 counts one twice."""
        rows, y, weight = signed(as_rows(X), y, weight)
        if weight is not None:
            self.grid.check_weights(weight)
        linear, table = isinstance(self.features, Identity), self.table
        if linear and len(y):
            check_covariances(rows)
        for now in [slice(None)] if linear else _blocks(rows):
            own = None if weight is None else weight[now]
            Z = rows.matrix
            if not linear:
                Z = _mapped_block(self.features, rows, now, type_of(self.features))
            table = table.plus(Z, y[now] < 0, own)
        return self.holding(table)

    def without(self, gone: MappedMoments, *, checked: bool = True) -> MappedMoments:
        """Return the moments without those of a part; the ranges stay those of all examples.

        Unless `checked`, rows that were never added are not refused: copies of an example whose
        weights are added before they are rounded may seem to be such.
        """
        if checked and gone.table.totals.any():
            return self.holding(taken_away(self.table, gone.table))
        return self.holding(self.table - gone.table)

    def too_wide(self) -> NDArray[np.int64]:
        """Return the features whose scale is that of a range which these rows cannot have.

        n values of standard deviation s lie within s sqrt(2 n): the range is that of rows which
        were taken back.
        """
        own = self.values
        deviation = np.sqrt(_pooled(own.counts, own.variances, own.difference))
        # Rounded to the grid, values may be nearer to each other than they are.
        quanta = np.ldexp(1.0, self.grid.exponents)
        widest = (deviation + quanta) * np.sqrt(2.0 * float(self.table.totals.sum()))
        width = self.high - self.low
        return np.flatnonzero(
            (deviation > 0.0) & (width > 1.01 * widest) & (FLOOR * width > deviation)
        )

    def problem(self, *, scaled: bool = True) -> RidgeProblem:
        """Return the ridge problem, to be solved for any ridge."""
        return RidgeProblem.of(self.features, self.values, self.low, self.high, scaled=scaled)


class FloatRows:
    """Mapped rows in memory, in blocks to be multiplied in floats and scored.

    Features as they are come measured from the middle of their range, so that far columns lose no
    digits. Features of a wide map of bounded norm are multiplied in single precision, and the
    products of blocks are added in double. `weight` may be empty.
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
        height = BLOCK if plain else _height_for(self.features)
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
            total = total.plus(Z, y[own] < 0, self.weight[own] if len(self.weight) else None)
        return total

    def exact_table(self, moments: MappedMoments) -> Table:
        """Return the table of exact moments, measured as these rows are."""
        own = moments.values
        z = np.insert(own.means - self.origin, 0, 1.0, axis=1)
        sums = own.counts[:, np.newaxis, np.newaxis] * z[:, :, np.newaxis] * z[:, np.newaxis]
        sums[:, 1:, 1:] += own.scatters
        return Table(sums)

    def problem(self, table: Table, *, scaled: bool = True, rough: bool = False) -> RidgeProblem:
        """Return the ridge problem of a table; `rough` allows single precision."""
        values = table.values(self.origin)
        return RidgeProblem.of(
            self.features, values, self.low, self.high, scaled=scaled, rough=rough
        )

    def scores(self, index: NDArray[np.int64], W: NDArray[Any]) -> Vector:
        """Return the scores of some examples by models in columns, up to a shift of each column."""
        W = W.astype(self.dtype, copy=False)
        return np.concatenate([np.asarray(Z @ W) for _, Z in self.blocks(index)])


class RidgeProblem:
    """Scaled moments: the minimiser of the square loss for any ridge.

    `C` is the sum of the class covariances of scaled features, `u` the difference of the class
    means, `scale` the factor of each feature. If it is `rough`, single precision is enough.
    """

    def __init__(self, C: Vector, u: Vector, scale: Vector, *, rough: bool = False) -> None:
        self._C = C.astype(np.float32) if rough else C
        self._u, self._scale = u, scale

    @classmethod
    def of(
        cls,
        features: FeatureMap,
        values: MomentValues,
        low: Vector,
        high: Vector,
        *,
        scaled: bool = True,
        rough: bool = False,
    ) -> RidgeProblem:
        """Return the problem of moments; unless `scaled`, ridges apply to features as they are."""
        C, u, scale = values.covariance, values.difference, np.ones(features.n_outputs)
        if scaled:
            own = (values.counts, values.means, values.variances)
            scale = scale_for(features, *own, low, high, gap=values.gap)
        C *= scale
        C *= scale[:, None]
        return cls(C, scale * u, scale, rough=rough and features.bounds().is_finite)

    def solve(
        self, ridge: float, *, signs: NDArray[np.int64] | None = None, margin: float = 1.0
    ) -> Vector:
        """Return the coefficients for a ridge, in units of the mapped features.

        `signs` is 1 or -1 for coefficients that must not be negative or positive, 0 for others.
        """
        from scipy import linalg

        if not ridge > 0.0:
            raise ValueError(f"ridge must be positive, got {ridge!r}.")
        matrix = self._C.copy()
        np.fill_diagonal(matrix, matrix.diagonal() + matrix.dtype.type(ridge))
        try:
            factor = linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            raise ValueError(
                f"The ridge {ridge:g} is too small for the rounding of the moments; use a larger "
                "one."
            ) from None
        if signs is not None and signs.any():
            return self._constrained(np.tril(factor[0]).astype(np.float64), signs, margin)
        u = self._u.astype(matrix.dtype)
        v = linalg.cho_solve(factor, u, check_finite=False).astype(np.float64)
        return np.asarray(self._scale * v * (margin / (1.0 + float(self._u @ v))))

    def _constrained(self, L: Vector, signs: NDArray[np.int64], margin: float) -> Vector:
        """Return the minimiser with signs, a least squares problem within bounds.

        v' (L L' + u u') v - 2 m u' v is, up to a constant, the squared length of (L', u')' v minus
        (0, m).
        """
        from scipy.optimize import lsq_linear

        table, target = np.vstack([L.T, self._u]), np.append(np.zeros(len(L)), margin)
        lower, upper = np.where(signs > 0, 0.0, -np.inf), np.where(signs < 0, 0.0, np.inf)
        found = lsq_linear(table, target, (lower, upper), method="bvls", tol=1e-12)
        return np.asarray(self._scale * np.clip(found.x, lower, upper))


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
        Z = np.concatenate([dense(Z, np.dtype(np.float64)).copy() for _, Z in rows.blocks(index)])
        weight = rows.weight[index] if len(rows.weight) else np.ones(len(index))
        B, means, variances, counts = [], [], [], []
        for own in (y[index] > 0, y[index] < 0):
            counts.append(weight[own].sum())
            if not counts[-1] > 0.0:
                raise ValueError("Moments need examples of both classes.")
            share = weight[own] / counts[-1]
            means.append(share @ Z[own])
            B.append((Z[own] - means[-1]) * np.sqrt(share)[:, np.newaxis])
            variances.append((B[-1] ** 2).sum(axis=0))
        self._scale = np.ones(Z.shape[1])
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
