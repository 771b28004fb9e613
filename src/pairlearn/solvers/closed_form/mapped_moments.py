# SPDX-License-Identifier: BSD-3-Clause
r"""The square loss on mapped features: one pass over blocks, then any ridge in closed form.

The square loss over opposite pairs depends on the class moments of the mapped rows only
(`solvers.closed_form.moments`). Moments add up: those of blocks, chunks and machines merge, and the
moments without a fold are a difference. So rows are mapped once, a block at a time, for any number
of ridges and folds. Memory is two m x m matrices.

With u the difference of the class means, C the sum of the class covariances and D a diagonal that
gives features the mean variance 1, the minimiser for ridge l is w = D v,

    (D C D + D u u' D + l I) v = D u,    of the direction of (D C D + l I)^{-1} D u.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.features import FeatureMap, Identity
from pairlearn.features.base import map_into
from pairlearn.features.spreads import FLOOR, scale_of, which_vary
from pairlearn.restored import restored_array
from pairlearn.solvers.closed_form.grid import Extents, Grid
from pairlearn.solvers.closed_form.moment_values import MomentValues
from pairlearn.solvers.closed_form.moments import ClassMoments, same_features
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, as_rows
from pairlearn.typing import Vector
from pairlearn.validation import check_labels, check_weights

#: Number of rows that are mapped at once.
BLOCK = 4096
#: Numbers of mapped rows that are scored or multiplied at once: a near cache holds them, and their
#: memory is used again, not given back to the system and asked of it anew.
_AT_ONCE = 1 << 19
#: More features than this, of bounded norm, are computed in single precision: the ridge is much
#: larger than its rounding errors.
_SINGLE = 512
#: Ridges from strong to weak, for mapped features of mean variance 1.
_RIDGES = (1.0, 0.1, 0.01, 1e-3, 1e-4)
#: Maps of more features skip the weakest ridge: single precision does not suffice for it.
WIDE = 512


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


def height_for(features: FeatureMap) -> int:
    """Return how many rows are mapped at once, to be used and forgotten."""
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
    height = height_for(features)
    room = np.empty((min(height, n), features.n_outputs), dtype=dtype)
    for start in range(0, n, height):
        stop = min(start + height, n)
        block = map_into(room, features, block_of(rows, start, stop))
        with np.errstate(over="ignore", invalid="ignore"):
            scores[start:stop] = block @ coef
    return scores


def type_of(features: FeatureMap) -> np.dtype[Any]:
    """Return the precision of mapped features."""
    single = features.bounds().is_finite and features.n_outputs > _SINGLE
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


@dataclass(frozen=True, eq=False)
class MappedValues:
    """Class moments of mapped rows as floats, and the ridge problem that they make.

    `low` and `high` are the smallest and the largest value of each mapped feature, where the map
    does not bound it.
    """

    features: FeatureMap
    moments: MomentValues
    low: Vector
    high: Vector

    @property
    def _bounded(self) -> bool:
        return self.features.bounds().is_finite

    def problem(self, *, scaled: bool = True, rough: bool = False) -> RidgeProblem:
        """Return the ridge problem, to be solved for any ridge.

        `rough` allows single precision, which is enough for comparisons. Unless `scaled`, the ridge
        applies to the features as they are.
        """
        C, u, scale = self.moments.covariance, self.moments.difference, self.scale(scaled=scaled)
        C *= scale
        C *= scale[:, None]
        return RidgeProblem(C, scale * u, scale, rough=rough and self._bounded)

    def scale(self, *, scaled: bool = True) -> Vector:
        """Return the factor of each feature in the ridge problem: 1 unless `scaled`."""
        if not scaled:
            return np.ones(self.features.n_outputs)
        own = self.moments
        variances = np.diagonal(own.covariances, axis1=1, axis2=2)
        return scale_for(
            self.features, own.counts, own.means, variances, self.low, self.high, gap=own.gap
        )


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
    """Return the factors that give features the mean variance 1.

    Counts, means and variances are those of both classes; `gap` is the difference of the means, if
    it is known better. Features of bounded norm are comparable as they are; others are divided by
    their standard deviation, or a tenth of their range, and left out if they do not vary.
    """
    u = means[0] - means[1] if gap is None else gap
    variance = _pooled(counts, variances, u)
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


class MappedMoments:
    """Class moments of mapped rows, from chunks in any order.

    Parameters
    ----------
    features : FeatureMap
        A fitted map.
    extents : Extents, optional
        The extents of all rows, from `extents_of`: they make the grid. Then neither order nor
        chunks of the rows matter, bit for bit. By default a map that bounds its features has the
        grid of its bounds, and others that of their first chunk.
    grid : Grid, optional
        A grid that is known without the rows, instead of `extents`. Then scales, too, follow from
        the moments alone: they are standard deviations, whatever the ranges of the features.
    """

    def __init__(
        self, features: FeatureMap, extents: Extents | None = None, *, grid: Grid | None = None
    ) -> None:
        features.check_fitted()
        self.features = features
        m = features.n_outputs
        self._bounded = features.bounds().is_finite
        self._type = type_of(features)
        # Extents, or a grid, that are given stay as they are.
        self._extents, self._given = extents, grid
        if grid is None and extents is not None:
            grid = Grid.of(extents)
        self.moments = ClassMoments(m, grid)
        #: The smallest and the largest value of each mapped feature, where bounds are unknown.
        self.low, self.high = np.full(m, np.inf), np.full(m, -np.inf)
        if extents is not None and not self._bounded:
            self.low, self.high = extents.low, extents.high
        if self._given is not None:
            # Without ranges, scales are standard deviations, and all that varies counts.
            self.low = self.high = np.zeros(m)

    @property
    def has_given_grid(self) -> bool:
        """Whether the grid is known without the rows, and scales follow from the moments alone."""
        return self._given is not None

    @property
    def n_examples(self) -> float:
        """The total weight of the examples seen."""
        return float(self.moments.counts.sum())

    def add(self, X: Any, y: ArrayLike, *, example_weight: ArrayLike | None = None) -> Self:
        """Map and add a chunk of examples with labels -1 and +1; a weight of 2 counts one twice."""
        rows = as_rows(X)
        n = rows.shape[0]
        y = check_labels(y, n)
        if not (np.abs(y) == 1.0).all():
            raise ValueError("y must hold the labels -1 and +1.")
        weight = None if example_weight is None else check_weights(example_weight, n)
        if n and self._extents is None and self._given is None:
            self._prepare(rows, weight)
        if isinstance(self.features, Identity):
            self.moments.add(rows, y, example_weight=weight)
            return self
        for now in _blocks(rows):
            Z = _mapped_block(self.features, rows, now, self._type)
            self.moments.add(Z, y[now], example_weight=None if weight is None else weight[now])
        return self

    def _prepare(self, rows: Rows, weight: Vector | None) -> None:
        """Let a first chunk make the grid, and note how far rows reach."""
        if not self._bounded:
            found = extents_of(self.features, rows, weight)
            self.low = np.minimum(self.low, found.low)
            self.high = np.maximum(self.high, found.high)
        elif self.moments.grid is None:
            grid = Grid.of(extents_of(self.features, rows, weight))
            self.moments = ClassMoments(grid.n_features, grid)

    def merge(self, other: MappedMoments) -> Self:
        """Add the examples of other moments of the same map."""
        if not _same_map(self.features, other.features):
            raise ValueError(
                f"Moments of {self.features!r} and of {other.features!r} do not add up; fit one "
                "map and use it for both."
            )
        self.moments.merge(other.moments)
        self.low, self.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return self

    def alike(self) -> MappedMoments:
        """Return moments of no rows, on the same grid."""
        empty = MappedMoments(self.features, self._extents, grid=self._given)
        if self._extents is None and self._given is None:
            empty.moments = ClassMoments(self.moments.n_features, self.moments.grid)
        return empty

    def without(self, other: MappedMoments, *, checked: bool = True) -> MappedMoments:
        """Return the moments without those of a part; the ranges stay those of all examples.

        `checked` is that of `ClassMoments.without`.
        """
        rest = MappedMoments(self.features, self._extents, grid=self._given)
        rest.moments = self.moments.without(other.moments, checked=checked)
        rest.low, rest.high = self.low, self.high
        return rest

    def too_wide(self) -> NDArray[np.int64]:
        """Return the features whose scale is that of a range which these rows cannot have.

        n values of standard deviation s lie within s sqrt(2 n): the range is that of rows which
        were taken back.
        """
        own, sums = self.moments.values, self.moments.sums
        if sums is None:
            return np.empty(0, dtype=np.int64)
        # Rounded to the grid, values may be nearer to each other than they are.
        quanta = np.ldexp(1.0, sums[0].grid.exponents)
        variances = np.diagonal(own.covariances, axis1=1, axis2=2)
        deviation = np.sqrt(_pooled(own.counts, variances, own.difference))
        widest = (deviation + quanta) * np.sqrt(2.0 * sum(one.total for one in sums))
        width = self.high - self.low
        return np.flatnonzero(
            (deviation > 0.0) & (width > 1.01 * widest) & (FLOOR * width > deviation)
        )

    @property
    def values(self) -> MappedValues:
        """The moments as floats."""
        return MappedValues(self.features, self.moments.values, self.low, self.high)

    def problem(self, *, scaled: bool = True, rough: bool = False) -> RidgeProblem:
        """Return the ridge problem, see `MappedValues.problem`."""
        return self.values.problem(scaled=scaled, rough=rough)

    def solve(self, *, ridge: float) -> Vector:
        """Return the coefficients of mapped features.

        `ridge` is the weight of the squared norm, for features of mean variance 1; positive.
        """
        return self.problem().solve(ridge)

    def state(self) -> dict[str, Any]:
        """Return the map and the moments as plain values and arrays."""
        return {
            "features": self.features.state(),
            **self.moments.state(),
            "low": np.where(np.isfinite(self.low), self.low, 0.0),
            "high": np.where(np.isfinite(self.high), self.high, 0.0),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], features: FeatureMap) -> MappedMoments:
        """Return the moments of a saved `state`, for a map that was restored before."""
        made = cls(features)
        m = features.n_outputs
        made.moments = ClassMoments.from_state(state)
        same_features(m, made.moments.n_features)
        # No examples have no range, even where a grid is known.
        if not made._bounded and any(one.total for one in made.moments.sums or ()):
            made.low = restored_array(state, "low", (m,)).copy()
            made.high = restored_array(state, "high", (m,)).copy()
        return made


class RidgeProblem:
    """Scaled moments: the minimiser of the square loss for any ridge.

    `C` is the sum of the class covariances of scaled features, `u` the difference of the class
    means, `scale` the factor of each feature. If it is `rough`, single precision is enough.
    """

    def __init__(self, C: Vector, u: Vector, scale: Vector, *, rough: bool = False) -> None:
        self._C = C.astype(np.float32) if rough else C
        self._u, self._scale = u, scale

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

        table = np.vstack([L.T, self._u])
        target = np.append(np.zeros(len(L)), margin)
        lower = np.where(signs > 0, 0.0, -np.inf)
        upper = np.where(signs < 0, 0.0, np.inf)
        found = lsq_linear(table, target, (lower, upper), method="bvls", tol=1e-12)
        return np.asarray(self._scale * np.clip(found.x, lower, upper))


def _same_map(one: FeatureMap, other: FeatureMap) -> bool:
    if one is other:
        return True
    if one != other or one.n_inputs != other.n_inputs or one.n_outputs != other.n_outputs:
        return False
    return _same(one.state(), other.state())


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)
