# SPDX-License-Identifier: BSD-3-Clause
"""Order statistics and scales of columns, dense or sparse."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.features.spreads import scale_of, which_vary
from pairlearn.typing import Vector

#: Order statistics come from a sample of at most this many rows.
SAMPLE_ROWS = 20_000
#: Digits after the point of sums of weights, in units of the smallest weight.
_DIGITS = 6
#: Squares of larger powers of two than this, and sums of them, may overflow; those of smaller ones
#: than its negative have few digits.
_EXPONENT = 400


class Column:
    """The sorted numbers of a column. Zeros of a sparse column are counted, not stored."""

    def __init__(self, values: NDArray[Any], n_zero: int) -> None:
        self._values = np.sort(values.astype(np.float64))
        self._below = int(np.searchsorted(self._values, 0.0)) if n_zero else 0
        self._n_zero = n_zero
        self.n = len(values) + n_zero

    def at(self, ranks: NDArray[np.int64]) -> Vector:
        """Return the order statistics at the given ranks, from 0 to n - 1."""
        if not self._n_zero:
            return np.asarray(self._values[ranks])
        above = ranks - self._n_zero
        is_zero = (ranks >= self._below) & (above < self._below)
        place = np.where(ranks < self._below, ranks, above)
        return np.where(is_zero, 0.0, np.append(self._values, 0.0)[np.where(is_zero, -1, place)])

    def levels(self, most: int) -> Vector | None:
        """Return the distinct numbers, increasing; None if there are more than `most`."""
        found = np.unique(self._values)
        if self._n_zero:
            found = np.union1d(found, [0.0])
        return found if len(found) <= most else None

    def knots(self, count: int) -> Vector:
        """Return the levels if there are at most `count`, else `count` quantiles without ties."""
        levels = self.levels(count)
        if levels is not None:
            return levels
        return np.unique(self.at(np.rint(np.linspace(0, self.n - 1, count)).astype(np.int64)))

    def middle_ranks(self, knots: Vector) -> Vector:
        """Return for each knot the share of numbers below it, plus half the share equal to it."""
        found = np.zeros(len(knots))
        found += np.searchsorted(self._values, knots, side="left")
        found += np.searchsorted(self._values, knots, side="right")
        found += self._n_zero * (1.0 * (knots > 0.0) + 1.0 * (knots >= 0.0))
        return np.asarray(found / (2.0 * self.n))


def weighed_columns(X: Any, weight: Vector) -> Iterator[tuple[Vector, Vector]]:
    """Yield the numbers of each column and their weights; zeros of a sparse column are one."""
    if not hasattr(X, "tocsc"):
        yield from ((X[:, k], weight) for k in range(X.shape[1]))
        return
    by_column, total = X.tocsc(), float(weight.sum())
    for begin, end in itertools.pairwise(by_column.indptr):
        values, own = by_column.data[begin:end], weight[by_column.indices[begin:end]]
        if len(own) < len(weight):
            values, own = np.append(values, 0.0), np.append(own, total - float(own.sum()))
        yield values, own


def weighed_knots(values: Vector, weight: Vector, count: int) -> Vector:
    """Return the knots of numbers that occur as often as they weigh, at least once each.

    >>> weighed_knots(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 4.0]), 2)
    array([1., 3.])
    """
    values = values.astype(np.float64)
    levels = np.unique(values)
    if len(levels) <= count:
        return levels
    mass = np.bincount(np.searchsorted(levels, values), weight)
    # Rounded, so that whole numbers in another unit are the same whole numbers.
    ends = np.round(np.cumsum(mass), _DIGITS)
    ranks = np.rint(np.linspace(0.0, ends[-1] - 1.0, count))
    places = np.searchsorted(ends, ranks, side="right")
    places[-1] = len(levels) - 1  # a fraction may have rounded it down
    return np.asarray(np.unique(levels[places]))


def sample_of(X: Any, rng: np.random.Generator) -> Any:
    """Return all rows, or a sample of 20,000 rows."""
    n = X.shape[0]
    return X if n <= SAMPLE_ROWS else X[np.sort(rng.choice(n, SAMPLE_ROWS, replace=False))]


def columns_of(X: Any) -> list[Column]:
    """Return the columns of a dense or sparse block."""
    n, d = X.shape
    if not hasattr(X, "tocsc"):
        return [Column(X[:, k], 0) for k in range(d)]
    by_column = X.tocsc()
    ends = by_column.indptr
    parts = (by_column.data[ends[k] : ends[k + 1]] for k in range(d))
    return [Column(part, n - len(part)) for part in parts]


def spreads_of(X: Any) -> tuple[Vector, Vector]:
    """Return centre and one over the scale of each column; zero for one that does not vary."""
    sparse = hasattr(X, "tocsc")
    low, high = (_extreme(X, name).astype(np.float64) for name in ("min", "max"))
    unit = _unit_of(np.maximum(np.abs(low), np.abs(high)))
    if (unit != 1.0).any():
        if sparse:
            X = X.copy()
            X.data = X.data / unit[X.indices]
        else:
            X = X / unit
        centre, factor = spreads_of(X)
        with np.errstate(over="ignore"):
            return centre * unit, np.minimum(factor / unit, np.finfo(np.float64).max)
    if sparse:
        n = X.shape[0]
        wide = X.astype(np.float64)
        # As dense vectors: SciPy's result is a dense or sparse matrix or array, by version.
        mean = np.asarray(wide.sum(axis=0), dtype=np.float64).reshape(-1) / n
        square = wide.multiply(wide)
        variance = np.asarray(square.sum(axis=0), dtype=np.float64).reshape(-1) / n - mean**2
    else:
        mean = X.mean(axis=0, dtype=np.float64)
        variance = np.zeros(X.shape[1])
        for start in range(0, len(X), 4096):
            variance += ((X[start : start + 4096] - mean) ** 2).sum(axis=0)
        variance /= len(X)
    deviation = np.sqrt(np.maximum(variance, 0.0))
    scale, varies = scale_of(deviation, low, high), which_vary(deviation, low, high, X.dtype)
    return mean, np.divide(1.0, scale, out=np.zeros_like(scale), where=varies)


def _unit_of(largest: Vector) -> Vector:
    """Return a power of two for each column whose squares overflow or vanish; 1 for the others."""
    exponent = np.frexp(largest)[1] - 1
    extreme = (np.abs(exponent) > _EXPONENT) & (largest > 0.0)
    return np.ldexp(1.0, np.where(extreme, exponent, 0))


def _extreme(X: Any, name: str) -> Vector:
    found = getattr(X, name)(axis=0)
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found).reshape(-1)
