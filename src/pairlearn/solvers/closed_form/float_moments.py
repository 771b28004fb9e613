# SPDX-License-Identifier: BSD-3-Clause
"""Class moments of mapped rows in floats, for rows in an order that does not depend on chance.

Exact sums (`solvers.closed_form.mapped_moments`) are the same in any order and any chunks, and cost
several times a plain product of matrices. Where all rows are at hand and in the order of their
keys, a plain product of the same table gives the same bits as well. Features of a wide map of
bounded norm are multiplied in single precision, and the products of blocks are added in double.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pairlearn.features import FeatureMap, Identity
from pairlearn.features.base import dense, map_into, read_only
from pairlearn.solvers.closed_form.mapped_moments import (
    BLOCK,
    RidgeProblem,
    block_of,
    extents_of,
    height_for,
    scale_for,
    type_of,
)
from pairlearn.solvers.closed_form.moments import check_covariances
from pairlearn.solvers.rows import CsrRows, Rows
from pairlearn.typing import Mask, Vector

#: Bytes of mapped rows that are kept for a second use, of all folds together.
_KEPT_BYTES = 1 << 26
#: Products of so many rows are added up in the precision of the rows, and those sums in double.
_IN_PART = 1 << 14
#: Rows of a matrix that are made together, in a near cache.
_PART = 16

#: Columns whose values reach so many times further than they differ are centred.
_NEAR = 8.0

#: Mapped examples, some at a time, and which they are.
Blocks = list[tuple[NDArray[np.int64], Any]]


class FloatRows:
    """Mapped rows in blocks, to be multiplied and scored.

    Columns of the features as they are come centred between their extremes and divided by a power
    of two near their range, so that neither units nor offsets matter. The ridge problem and the
    scores of such rows are in these units.

    Parameters
    ----------
    features : FeatureMap
        A fitted map.
    rows : Rows
        All examples, in an order that is a function of what they hold.
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
        self._centre: Vector | None = None
        if isinstance(features, Identity):
            check_covariances(rows)
            width, reach = self.high - self.low, np.maximum(np.abs(self.low), np.abs(self.high))
            # Sparse rows are not centred, unless their numbers hardly differ: sums would cancel.
            near = (width > 0.0) & (reach > _NEAR * width)
            self._sparse = isinstance(rows, CsrRows) and not near.any()
            middle = 0.5 * self.low + 0.5 * self.high
            self._centre = np.zeros_like(middle) if self._sparse else middle
            # A power of two, whose products round nothing; a constant column becomes zero.
            size = np.frexp(reach if self._sparse else self.high - middle)[1]
            self._factor = np.ldexp((width > 0.0) * 1.0, -np.clip(size, -1000, 1000))
            self.low, self.high = self.low * self._factor, self.high * self._factor

    def blocks(
        self, index: NDArray[np.int64], *, keep: bool = False
    ) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Yield the mapped examples of an index, some at a time, and which they are.

        Unless all are to be kept, the next block may be written over the last one: memory that the
        system gives anew costs more than the numbers that are written to it.
        """
        if self._centre is not None:
            for own in _cut(index, BLOCK):
                block = block_of(self.rows.take(own), 0, len(own))
                if self._sparse:
                    yield own, block.astype(np.float64).multiply(self._factor).tocsr()
                else:
                    yield own, (dense(block, np.dtype(np.float64)) - self._centre) * self._factor
            return
        height = height_for(self.features)
        n = len(index) if keep else min(height, len(index))
        room = np.empty((n, self.features.n_outputs), dtype=self.dtype)
        for own in _cut(index, height):
            yield own, map_into(room, self.features, block_of(self.rows.take(own), 0, len(own)))
            room = room[len(own) :] if keep else room

    def table(self) -> NDArray[Any]:
        """Return all mapped examples in double precision."""
        found = [block for _, block in self.blocks(np.arange(self.rows.shape[0]), keep=True)]
        return np.concatenate([dense(block, np.dtype(np.float64)) for block in found])

    def kept(self, parts: Sequence[NDArray[np.int64]]) -> list[Blocks | None]:
        """Return the blocks of each index, or None for each if all are too large to be kept."""
        size = sum(map(len, parts)) * self.features.n_outputs * self.dtype.itemsize
        fits = size <= _KEPT_BYTES
        return [list(self.blocks(own, keep=True)) if fits else None for own in parts]


def _cut(index: NDArray[np.int64], height: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, len(index), height):
        yield index[start : start + height]


class _Products:
    """The products of rows by themselves, on and above the diagonal, of all blocks together.

    Those of `_IN_PART` rows are added up in the precision of the rows, and such sums in double.
    """

    def __init__(self, m: int, dtype: np.dtype[Any]) -> None:
        self._m, self._dtype = m, dtype
        self._part: NDArray[Any] | None = None
        self._total: NDArray[Any] | None = None
        self._n = 0

    def add(self, Z: Any) -> None:
        """Add the products of a block of rows."""
        from scipy.linalg.blas import dsyrk, ssyrk

        if hasattr(Z, "tocsr"):
            self.add_up((Z.T @ Z).toarray())
            return
        if self._dtype == np.float32 and self._n + len(Z) > _IN_PART:
            self._close()
        if self._part is None:
            self._part = np.zeros((self._m, self._m), dtype=self._dtype)
        # NumPy would copy one half to the other, a number at a time. To BLAS rows are columns.
        multiply = ssyrk if self._dtype == np.float32 else dsyrk
        more = 1.0 if self._n else 0.0
        self._part = multiply(1.0, Z.T, beta=more, c=self._part.T, lower=1, overwrite_c=1).T
        self._n += len(Z)

    def _close(self) -> None:
        """Go on with an empty part, in the same memory."""
        if self._n:
            assert self._part is not None
            self.add_up(self._part)
            self._n = 0

    def add_up(self, table: NDArray[Any]) -> None:
        """Add products, in double precision."""
        if self._total is None:
            self._total = np.zeros((self._m, self._m))
        for start in range(0, self._m, _PART):
            part, on = slice(start, start + _PART), slice(start, None)
            self._total[part, on] += table[part, on]

    def total(self) -> NDArray[Any]:
        """Return the sum, in single precision if it is that of few rows."""
        if self._total is not None:
            self._close()
            return self._total
        if self._part is None:
            self._part = np.zeros((self._m, self._m), dtype=self._dtype)
        return self._part

    def narrow(self) -> None:
        """Keep the sum in the precision of the rows, to be read only."""
        self._part, self._total = self.total().astype(self._dtype, copy=False), None


class FloatMoments:
    """Weights, sums and products of mapped rows of the two classes, positives first.

    Of the products, which are symmetric, the lower half is not filled.

    Parameters
    ----------
    rows : FloatRows
        Mapped rows.
    y : ndarray
        Their labels -1 and +1.
    index : ndarray of int64
        The examples whose moments these are.
    kept : list, optional
        The blocks of these examples, if they are known.
    """

    def __init__(
        self, rows: FloatRows, y: Vector, index: NDArray[np.int64], kept: Blocks | None = None
    ) -> None:
        m = rows.features.n_outputs
        self.rows, self.counts, self.sums = rows, np.zeros(2), np.zeros((2, m))
        self._products = [_Products(m, rows.dtype) for _ in range(2)]
        self.add(y, index, kept)

    def add(self, y: Vector, index: NDArray[np.int64], kept: Blocks | None = None) -> Self:
        """Add other examples; the parameters are those of the class."""
        for kind, is_own in enumerate((y > 0, y < 0)):
            if kept is None:
                blocks = self.rows.blocks(index[is_own[index]])
            else:
                blocks = (_some_of(own, Z, is_own[own]) for own, Z in kept)
            for own, Z in blocks:
                if len(own):
                    self._products[kind].add(self._weighed(kind, own, Z))
        return self

    @property
    def products(self) -> list[NDArray[Any]]:
        """The products of each class; they change when examples are added."""
        return [own.total() for own in self._products]

    def _weighed(self, kind: int, own: NDArray[np.int64], Z: Any) -> Any:
        """Add weights and sums of mapped examples of a class; return them times their roots."""
        weight = self.rows.weight[own] if len(self.rows.weight) else self.rows.weight
        self.counts[kind] += weight.sum() if len(weight) else len(own)
        # In double precision: what sums lose is the same for all products with their column.
        if hasattr(Z, "tocsr"):
            self.sums[kind] += weight @ Z if len(weight) else Z.sum(axis=0)
        else:
            from pairlearn.kernels.closed_form.covariances import add_columns

            add_columns(read_only(Z), weight, self.sums[kind])
        if len(weight):
            root = np.sqrt(weight).astype(self.rows.dtype)[:, np.newaxis]
            Z = Z.multiply(root).tocsr() if hasattr(Z, "tocsr") else Z * root
        return Z

    def narrowed(self) -> FloatMoments:
        """Return these moments, from now on with products in the precision of the rows."""
        for own in self._products:
            own.narrow()
        return self

    @classmethod
    def joined(cls, parts: Sequence[FloatMoments]) -> FloatMoments:
        """Return the moments of several parts."""
        made = cls(parts[0].rows, np.empty(0), np.empty(0, dtype=np.int64), [])
        made.counts = np.sum([one.counts for one in parts], axis=0)
        made.sums = np.sum([one.sums for one in parts], axis=0)
        for one in parts:
            for own, table in zip(made._products, one.products, strict=True):
                own.add_up(table)
        return made


def _some_of(own: NDArray[np.int64], Z: Any, chosen: Mask) -> tuple[NDArray[np.int64], Any]:
    """Return the chosen examples of a block; those that stand together are not copied."""
    places = np.flatnonzero(chosen)
    some = slice(0, 0) if not len(places) else slice(int(places[0]), int(places[-1]) + 1)
    together = some.stop - some.start == len(places)
    return (own[some], Z[some]) if together else (own[places], Z[places])


def ridge_problem(
    moments: FloatMoments,
    *,
    without: FloatMoments | None = None,
    scaled: bool = True,
    rough: bool = False,
    memory: Vector | None = None,
) -> RidgeProblem:
    """Return the ridge problem of moments, as `MappedValues.problem` does.

    Those of some examples may be taken away (`without`). `rough` allows single precision. In
    `memory`, m^2 numbers, may stand a problem that nobody solves any more.
    """
    from pairlearn.kernels.closed_form.covariances import add_covariance

    counts, sums, products = moments.counts, moments.sums, moments.products
    if without is not None:
        counts, sums = counts - without.counts, sums - without.sums
        products = [a - b for a, b in zip(products, without.products, strict=True)]
    if not counts.all():
        raise ValueError("Moments need examples of both classes.")
    shares = 1.0 / counts
    means = sums * shares[:, np.newaxis]
    squares = np.stack([np.diagonal(own).astype(np.float64) for own in products])
    variances = np.maximum(squares * shares[:, np.newaxis] - means**2, 0.0)
    features, m = moments.rows.features, len(means[0])
    low, high, scale = moments.rows.low, moments.rows.high, np.ones(m)
    if scaled:
        scale = scale_for(features, counts, means, variances, low, high)
    rough = rough and features.bounds().is_finite
    # In single precision there is room for a factor beside the matrix.
    memory = np.empty(m * m) if memory is None else memory
    numbers: NDArray[Any] = memory.view(np.float32 if rough else np.float64)
    C, room = numbers[: m * m], numbers[m * m :].reshape(-1, m)
    # Above the diagonal only: LAPACK does not read the other half.
    for k, own in enumerate(products):
        add_covariance(read_only(own), shares[k], means[k], scale, C, k == 0)
    # A symmetric matrix is its transpose, whose columns are contiguous.
    return RidgeProblem(
        C.reshape(m, m).T,
        scale * (means[0] - means[1]),
        scale,
        rough=rough,
        room=room.T if len(room) else None,
    )


class RowsProblem:
    """The ridge problem of fewer mapped rows than features, whose minimiser is a sum of rows.

    B holds the rows less the means of their classes, each times the root of its share of the class,
    and below them the difference u of the means. Then C + u u' = B' B, and for ridge l the
    minimiser B' (B B' + l I)^{-1} e, e the place of u: a system of rows, not of features.

    Parameters
    ----------
    rows : FloatRows
        Mapped rows.
    table : ndarray
        All of them, from `FloatRows.table`.
    y : ndarray
        Their labels -1 and +1.
    index : ndarray of int64
        The examples to learn from.
    scaled : bool, default=True
        Whether the ridge refers to features of mean variance 1.
    """

    def __init__(
        self,
        rows: FloatRows,
        table: NDArray[Any],
        y: Vector,
        index: NDArray[np.int64],
        *,
        scaled: bool = True,
    ) -> None:
        parts = [index[y[index] > 0], index[y[index] < 0]]
        if not all(map(len, parts)):
            raise ValueError("Moments need examples of both classes.")
        weights = [rows.weight[own] if len(rows.weight) else np.ones(len(own)) for own in parts]
        counts = np.array([own.sum() for own in weights])
        shares = [own / count for own, count in zip(weights, counts, strict=True)]
        means = np.stack([p @ table[own] for p, own in zip(shares, parts, strict=True)])
        B = np.concatenate([table[own] - mean for own, mean in zip(parts, means, strict=True)])
        B *= np.sqrt(np.concatenate(shares))[:, np.newaxis]
        self._scale = np.ones(B.shape[1])
        if scaled:
            n = len(parts[0])
            variances = np.stack([np.einsum("ij,ij->j", own, own) for own in (B[:n], B[n:])])
            self._scale = scale_for(rows.features, counts, means, variances, rows.low, rows.high)
        self._rows = np.concatenate([B, (means[0] - means[1])[np.newaxis]]) * self._scale
        self._products = self._rows @ self._rows.T

    def solve(
        self,
        ridge: float,
        *,
        signs: NDArray[np.int64] | None = None,
        margin: float = 1.0,
        last: bool = False,
    ) -> Vector:
        """Return the coefficients for a ridge, as `RidgeProblem.solve` does, without signs."""
        from scipy.linalg.lapack import dposv

        if signs is not None and signs.any():
            raise ValueError("signs of coefficients need moments: use ridge_problem.")
        matrix, place = self._products.copy(), np.zeros(len(self._products))
        np.fill_diagonal(matrix, matrix.diagonal() + ridge)
        place[-1] = margin
        # A symmetric matrix is its transpose, which LAPACK factors in place.
        _, found, info = dposv(matrix.T, place, lower=1, overwrite_a=1)
        if info:
            raise ValueError(
                f"The ridge {ridge:g} is too small for the rounding of the rows; use a larger one."
            )
        return np.asarray(self._scale * (found @ self._rows))
