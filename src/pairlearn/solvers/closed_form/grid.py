# SPDX-License-Identifier: BSD-3-Clause
r"""The grid of exact moments: every column has a quantum, a power of two.

A value x of a column with quantum 2^e becomes the whole number nearest to x / 2^e (ties to even),
less the origin of the column. Sums of whole numbers are exact, so that neither order nor partition
of the rows matters.

Extents are what a grid is made from, and do not depend on the order of the rows either. A column
gets 2^22 quanta (`COARSE`) from its origin to its furthest value, or 2^44 (`FINE`) if rows are few.
If the furthest value is more than 2^10 times the typical size of values, it gets as many quanta to
2^10 times that size. Values further out are as exact; they only take longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pairlearn.restored import restored_array
from pairlearn.solvers.rows import CsrRows, DenseRows, as_rows
from pairlearn.typing import Vector

#: Bits of a value: products of two of them, and the sum of 512 products, are exact in a float.
COARSE = 22
#: Bits of a value where the time of products does not matter, and the largest such number of rows
#: times squared columns: rounding errors of more rows cancel.
FINE, _FEW_PRODUCTS = 44, 1 << 28
#: The furthest value from the origin, in powers of two of the typical size of a column.
_FAR = 10
#: Bits of the largest weight, if not all weights are whole numbers.
_WEIGHT_BITS = 40
#: The largest whole weight that counts as one: above, floats skip whole numbers.
_LARGEST_WEIGHT = 2.0**53
#: Exponents of floats: the smallest of a quantum, and the largest of a factor in one step.
_SMALLEST, _ONE_STEP = -1074, 1000
#: The middle of smaller values may not be a float.
_TINY = 1e-290
#: Rows that are looked at together: a near cache holds them.
_AT_ONCE = 1_024

#: Smallest and largest values, sums of exponents and numbers of values.
_Facts = tuple[Vector, Vector, NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Extents:
    """How far the values of columns reach, in any order of the rows.

    Parameters
    ----------
    low, high : ndarray of shape (d,)
        The smallest and the largest value of each column; infinity and minus infinity for none.
    exponents, n_values : ndarray of shape (d,) of int64
        The sum of the exponents of values other than 0, as `numpy.frexp` has them; their number.
    largest_weight, whole_weights, n_rows : float, bool, int
        The largest weight, whether all are whole numbers, and the number of rows.

    Examples
    --------
    >>> one, other = (Extents.of([[value]]) for value in (3.0, -1.0))
    >>> one.merge(other).low, one.merge(other).high
    (array([-1.]), array([3.]))
    """

    low: Vector
    high: Vector
    exponents: NDArray[np.int64]
    n_values: NDArray[np.int64]
    largest_weight: float = 1.0
    whole_weights: bool = True
    n_rows: int = 0

    @classmethod
    def none(cls, n_features: int) -> Self:
        """Return the extents of no rows."""
        whole = np.zeros(n_features, dtype=np.int64)
        empty = np.full(n_features, np.inf)
        return cls(empty, -empty, whole, whole, 0.0)

    @classmethod
    def of(cls, X: Any, weight: Vector | None = None) -> Extents:
        """Return the extents of rows, dense or sparse, of those whose weight is not 0."""
        rows = as_rows(X)
        if weight is not None and not weight.all():
            kept = np.flatnonzero(weight)
            rows, weight = rows.take(kept), weight[kept]
        n, d = rows.shape
        if n == 0:
            return cls.none(d)
        facts = _sparse_facts(rows) if isinstance(rows, CsrRows) else _dense_facts(rows)
        low, high, exponents, n_values = facts
        return cls(low, high, exponents, n_values, n_rows=n).with_weights(weight)

    def with_weights(self, weight: Vector | None) -> Extents:
        """Return the extents of the same rows with these weights."""
        if weight is None or not len(weight):
            return self
        largest = float(weight.max())
        whole = largest <= _LARGEST_WEIGHT and bool((np.rint(weight) == weight).all())
        return replace(self, largest_weight=largest, whole_weights=whole)

    def merge(self, other: Extents) -> Extents:
        """Return the extents of the rows of both."""
        return Extents(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.exponents + other.exponents,
            self.n_values + other.n_values,
            max(self.largest_weight, other.largest_weight),
            self.whole_weights and other.whole_weights,
            self.n_rows + other.n_rows,
        )

    @classmethod
    def merge_all(cls, found: Iterable[Extents], n_features: int) -> Extents:
        """Return the extents of the rows of all."""
        total: Extents = cls.none(n_features)
        for one in found:
            total = total.merge(one)
        return total


def _dense_facts(rows: DenseRows) -> _Facts:
    n, d = rows.shape
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    fields, n_values = np.zeros((2, d), dtype=np.int64)
    for start in range(0, n, _AT_ONCE):
        X = rows.X[start : start + _AT_ONCE].astype(np.float64, copy=False)
        low, high = np.minimum(low, X.min(axis=0)), np.maximum(high, X.max(axis=0))
        field = (np.ascontiguousarray(X).view(np.int64) >> 52) & 0x7FF
        fields, n_values = fields + field.sum(axis=0), n_values + np.count_nonzero(field, axis=0)
    # -0 is 0: which of them comes first must not matter.
    return low + 0.0, high + 0.0, fields - 1022 * n_values, n_values


def _sparse_facts(rows: CsrRows) -> _Facts:
    n, d = rows.shape
    values = rows.data.astype(np.float64, copy=False)
    stored = np.bincount(rows.indices, minlength=d)
    low = np.where(stored < n, 0.0, np.inf)
    high = np.where(stored < n, 0.0, -np.inf)
    np.minimum.at(low, rows.indices, values)
    np.maximum.at(high, rows.indices, values)
    field = (values.view(np.int64) >> 52) & 0x7FF
    there = field > 0
    n_values = np.bincount(rows.indices[there], minlength=d)
    # Whole numbers below 2^53: their sum as floats is exact.
    sums = np.bincount(rows.indices[there], field[there], minlength=d).astype(np.int64)
    return low + 0.0, high + 0.0, sums - 1022 * n_values, n_values


@dataclass(frozen=True, eq=False)
class Grid:
    """A quantum and an origin for each column, and a quantum for weights.

    Parameters
    ----------
    exponents, origin : ndarray of shape (d,)
        The quantum of a column is 2 to this power, and its origin a whole number of quanta.
    weight_exponent : int, default=0
        The quantum of weights is 2 to this power.

    Examples
    --------
    >>> grid = Grid.between([-1.0], [1.0])
    >>> grid.exponents, grid.steps(np.array([[0.5]]))
    (array([-22]), array([[2097152.]]))
    """

    exponents: NDArray[np.int64]
    origin: Vector
    weight_exponent: int = 0

    @classmethod
    def of(cls, found: Extents, *, bits: int | None = None) -> Grid:
        """Return the grid of extents, with 2^bits quanta; the number of rows decides by default."""
        if bits is None:
            products = found.n_rows * len(found.low) ** 2
            bits = FINE if 0 < products <= _FEW_PRODUCTS else COARSE
        known = found.low <= found.high
        low, high = np.where(known, found.low, 0.0), np.where(known, found.high, 0.0)
        furthest = np.maximum(np.abs(low), np.abs(high))
        reach = _reach(furthest)
        typical = found.exponents // np.maximum(found.n_values, 1) + _FAR
        heavy = (found.n_values > 0) & (typical < reach)
        reach = np.where(heavy, typical, reach)
        # A range that does not hold 0 has its origin in the middle.
        apart = ((low > 0.0) | (high < 0.0)) & ~heavy & (low < high) & (furthest > _TINY)
        middle = 0.5 * low + 0.5 * high
        half = np.where(apart, 0.5 * high - 0.5 * low, 0.0)
        # Rounding of the middle may move a value by one quantum.
        reach = np.where(apart, _reach(1.0625 * half), reach)
        exponents = np.maximum(reach - bits, _SMALLEST)
        origin = np.rint(np.ldexp(np.where(apart, middle, 0.0), -exponents)) + 0.0
        weight = 0
        if not found.whole_weights:
            weight = min(int(np.frexp(found.largest_weight)[1]) - _WEIGHT_BITS, 0)
        return cls(exponents, origin, max(weight, _SMALLEST))

    @classmethod
    def between(cls, low: Any, high: Any, *, bits: int | None = None) -> Grid:
        """Return the grid of columns whose values lie between bounds; `bits` as in `of`."""
        low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        none = np.zeros(len(low), dtype=np.int64)
        return cls.of(Extents(low, high, none, none), bits=bits)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.exponents)

    def same_as(self, other: Grid) -> bool:
        """Tell whether two grids are equal."""
        return (
            np.array_equal(self.exponents, other.exponents)
            and np.array_equal(self.origin, other.origin)
            and self.weight_exponent == other.weight_exponent
        )

    def common(self, other: Grid) -> Grid:
        """Return the grid that holds the points of both: of two quanta the smaller one."""
        return Grid(
            np.minimum(self.exponents, other.exponents),
            np.zeros(self.n_features),
            min(self.weight_exponent, other.weight_exponent),
        )

    @cached_property
    def factors(self) -> tuple[Vector, Vector | None]:
        """The factors that bring values to quanta: a second one where one would overflow."""
        first = np.minimum(-self.exponents, _ONE_STEP)
        rest = -self.exponents - first
        return np.ldexp(1.0, first), np.ldexp(1.0, rest) if rest.any() else None

    def steps(self, X: NDArray[Any]) -> Vector:
        """Return dense rows in whole quanta from the origin, exact up to 2^53 of them."""
        factor, second = self.factors
        with np.errstate(over="ignore"):
            found: Vector = np.multiply(X, factor, dtype=np.float64)
            if second is not None:
                found *= second
        np.rint(found, out=found)
        if self.origin.any():
            found -= self.origin
        return found

    def exact_steps(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return dense rows in whole quanta from the origin, as Python's whole numbers."""
        found = np.empty(X.shape, dtype=object)
        for column, (exponent, origin) in enumerate(zip(self.exponents, self.origin, strict=True)):
            per_quantum, start = Fraction(2) ** -int(exponent), int(origin)
            for row, value in enumerate(X[:, column].tolist()):
                found[row, column] = round(Fraction(value) * per_quantum) - start  # ties to even
        return found

    def weights(self, weight: Vector) -> Vector:
        """Return weights in whole quanta, rounded once."""
        if self.weight_exponent == 0:
            return np.rint(weight)
        return np.asarray(np.rint(np.ldexp(weight, -self.weight_exponent)))

    def check_weights(self, weight: Vector) -> None:
        """Refuse weights that this grid would round too much: the grid was made without them."""
        whole = bool((np.rint(weight) == weight).all())
        if whole or (self.weight_exponent and self.weights(weight).all()):
            return
        if self.weight_exponent:
            raise ValueError(
                f"A weight is less than 2^-{_WEIGHT_BITS} of the largest one, and would be rounded "
                "to 0; raise it, or give 0, which leaves its example out."
            )
        raise ValueError(
            f"The grid has weights in units of 2^{self.weight_exponent}, got "
            f"{float(weight.min()):g}; give whole weights, or make the grid from the extents of "
            "rows with their weights: Grid.of(Extents.of(X, weight))."
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `from_state` makes the grid again."""
        return {name: np.asarray(value) for name, value in vars(self).items() if name in _STATE}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_features: int) -> Self:
        """Return the grid of a saved state."""
        exponents = restored_array(state, "exponents", (n_features,), ("int64",))
        origin = restored_array(state, "origin", (n_features,))
        return cls(exponents.copy(), origin.copy(), int(state["weight_exponent"]))


#: What makes a grid.
_STATE = ("exponents", "origin", "weight_exponent")


def _reach(sizes: Vector) -> NDArray[np.int64]:
    """Return the exponents of the smallest powers of two that are not below the sizes."""
    mantissa, exponent = np.frexp(sizes)
    return np.asarray(exponent - (mantissa == 0.5), dtype=np.int64)
