# SPDX-License-Identifier: BSD-3-Clause
"""Scale features by their spread, so that the units of the user do not matter.

Column k is divided by s_k = max(std_k, range_k / 10). The floor bounds the values of a rare
indicator, whose standard deviation is small. In text, where nearly all columns are rare, it would
silence rare words, and standard deviations alone would let them drown the others. With q_k the
share of examples whose value is not 0, at most 1/2, s_k is therefore
max(std_k / (2 q_k)^(.15 a), (1 - a) range_k / 10), and the power a grows from 0 to 1 as the mean of
the shares falls from 10 % to 3 %. A column that is constant up to rounding is left out. All scales
are multiplied by one number that makes the mean variance of the columns 1, so that grids of step
sizes, radii and ridges need not know the data.

A rare word has few rows, and its deviation would take up how long these are, and how often they
repeat it. So std_k of text in memory is divided by (l_k t_k)^a: l_k is the geometric mean of the
lengths of the rows that hold the word, t_k the root mean square of |x_ik| / length over its
geometric mean. The length of a row is the geometric mean of its values over those of their columns.

Dense rows are centred. Sparse rows are not: a pair sees the difference of its rows, which has no
centre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pairlearn.features.spreads import FLOOR, RARITY, TABLE, TEXT, least_spread, scale_of
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, check_squares
from pairlearn.typing import Mask, Vector
from pairlearn.validation import warn_caller

#: A feature is hidden by outliers if its inner 98 % span less than this many scales.
_HIDDEN = 1e-3
#: Rows that are looked at for outliers.
_LOOKED_AT = 1_000
#: The share of hidden features from which on a warning is given.
_WORTH_SAYING = 0.05
#: Squares of values between these neither underflow nor overflow.
_SMALLEST, _LARGEST = 1e-140, 1e140
#: A column of smaller numbers counts as constant: its coefficient would be infinite.
_NEGLIGIBLE = 1e-305
#: Dense rows are read in blocks of about this many numbers, which stay in the cache.
_NUMBERS = 1 << 16
#: The logarithm of the most by which lengths and repeats change a scale.
_LOUDEST = math.log(10.0)


def is_scaled(scaling: str | None) -> bool:
    """Return whether features are scaled."""
    if scaling not in ("auto", None):
        raise ValueError(f'scaling must be "auto" or None, got {scaling!r}.')
    return scaling == "auto"


@dataclass(frozen=True, eq=False)
class Scaling:
    """The map x -> (x * inverse - centre) * factor of each column.

    `inverse` holds powers of two, 1 except for extreme columns. `centre` is zero for sparse rows,
    and `factor` is zero for a column that does not vary.
    """

    inverse: Vector
    centre: Vector
    factor: Vector

    @property
    def weights(self) -> Vector:
        """Coefficients of scaled columns times this are those of the user's columns."""
        return self.factor * self.inverse

    @property
    def user_centre(self) -> Vector:
        """The centre in the user's units."""
        return self.centre / self.inverse

    @property
    def n_constant(self) -> int:
        """The number of columns that do not vary."""
        return int(np.count_nonzero(self.factor == 0.0))

    def apply(self, rows: Rows) -> Rows:
        """Return scaled rows in the storage and the type of the given ones."""
        # Rows that the scales were not fitted to may overflow; the caller checks them.
        with np.errstate(over="ignore"):
            if isinstance(rows, CsrRows):
                data = (rows.data * self.inverse[rows.indices]) * self.factor[rows.indices]
                return rows.with_values(data.astype(rows.data.dtype), finite=False)
            scaled = np.empty_like(rows.X)
            for now in _blocks(rows):
                values = rows.X[now].astype(np.float64) * self.inverse
                scaled[now] = (values - self.centre) * self.factor
        return DenseRows(scaled)

    def to_user(self, w: Vector) -> Vector:
        """Return coefficients of the user's columns, for one model or for several in rows."""
        return np.asarray(w * self.weights)

    def from_user(self, w: Vector) -> Vector:
        """Return coefficients of the scaled columns; those of constant columns are lost."""
        weights = np.broadcast_to(self.weights, np.shape(w))
        return np.divide(w, weights, out=np.zeros_like(w, dtype=np.float64), where=weights != 0.0)


def scaled_rows(
    scaling: str | None, rows: Rows, weight: Vector | None = None, *, mapped: bool = False
) -> tuple[Scaling | None, Rows]:
    """Return the scaling that a parameter asks for, or None, and the finite scaled rows.

    `mapped` features give no warning about outliers, since the user cannot clip them.
    """
    if not is_scaled(scaling):
        return None, check_squares(rows, whole=True)
    fitted = fit_scaling(rows, weight, mapped=mapped)
    if weight is not None and np.any(weight == 0.0):
        return fitted, fitted.apply(rows)
    # A column that varies does so by 1e-10 of its largest value at least, and its scale is no less
    # than its deviation: no value that was counted leaves 1e-30 to 1e30.
    return fitted, fitted.apply(rows).known_finite()


def fit_scaling(rows: Rows, weight: Vector | None = None, *, mapped: bool = False) -> Scaling:
    """Return the scaling of all rows.

    The rows are known to be finite afterwards; NaN and infinity raise a ValueError. A warning says
    if no column varies, or if outliers hide other values. `weight` says how often each example
    counts; empty if all count the same.
    """
    if weight is None or not len(weight):
        weight = np.ones(rows.shape[0])
    elif (weight == 0.0).any():
        kept = np.flatnonzero(weight)
        rows, weight = rows.checked().take(kept), weight[kept]
    columns = _columns(rows, weight, np.ones(rows.shape[1]))
    # NaN and infinity stay in a sum; if one overflows, the values are looked at.
    rows.known_finite() if np.isfinite(columns.mean).all() else rows.checked()
    inverse = inverse_of(columns.size)
    if (inverse != 1.0).any():
        columns = _columns(rows, weight, inverse)
    dense = isinstance(rows, DenseRows)
    dtype = rows.X.dtype if isinstance(rows, DenseRows) else rows.data.dtype
    words = None if mapped else (rows, weight)
    scaling = scaling_of(columns, inverse, dtype=dtype, centred=dense, words=words)
    if isinstance(rows, DenseRows) and not mapped:
        warn_of_outliers(rows, scaling)
    return scaling


@dataclass(frozen=True, eq=False)
class Columns:
    """Extremes and moments of columns, and the share of examples whose value is not 0.

    Columns are multiplied by `Scaling.inverse` first.
    """

    low: Vector
    high: Vector
    mean: Vector
    variance: Vector
    present: Vector

    @property
    def size(self) -> Vector:
        """The largest absolute value of each."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


def inverse_of(size: Vector) -> Vector:
    """Return powers of two that bring the largest value of extreme columns near one."""
    inverse = np.ones(len(size))
    extreme = (size > _LARGEST) | ((size < _SMALLEST) & (size > 0.0))
    # Powers of two change no digit. The smallest numbers have no inverse: 2^-1022 has.
    exponents = np.maximum(np.frexp(size[extreme])[1], -1021)
    inverse[extreme] = np.ldexp(1.0, -exponents)
    return inverse


def scaling_of(
    columns: Columns,
    inverse: Vector,
    *,
    dtype: Any,
    centred: bool,
    words: tuple[Rows, Vector] | None = None,
) -> Scaling:
    """Return the scaling of columns from their extremes and moments.

    `inverse` holds the powers of two that the columns have been multiplied by. `dtype` is that of
    the data, which sets the size of rounding errors. Sparse rows are not `centred`. `words` are
    the rows and their weights, if they are in memory and no map made them.
    """
    deviation = np.sqrt(columns.variance)
    varies: Mask = deviation > least_spread(dtype) * columns.size
    # Coefficients of smaller numbers would be infinite in the units of the user.
    varies &= columns.size > _NEGLIGIBLE * inverse
    factor = np.zeros(len(inverse))
    if not varies.any():
        warn_of_constants(len(inverse))
        return Scaling(inverse, np.zeros_like(inverse), factor)
    # Beside weights of 1e16 times their own, values that are not 0 leave a share of 0.
    present = np.clip(columns.present[varies], np.finfo(np.float64).eps, 0.5)
    power = np.clip(math.log(TABLE / float(present.mean())) / math.log(TABLE / TEXT), 0.0, 1.0)
    spread = deviation[varies] / (2.0 * present) ** (RARITY * power)
    if words is not None and power > 0.0:
        spread /= np.exp(power * _loudness(*words, inverse, columns.present < 0.5)[varies])
    scale = scale_of(spread, columns.low[varies], columns.high[varies], floor=(1.0 - power) * FLOOR)
    factor[varies] = 1.0 / (scale * np.sqrt(np.mean((deviation[varies] / scale) ** 2)))
    return Scaling(inverse, columns.mean if centred else np.zeros_like(inverse), factor)


def _loudness(rows: Rows, weight: Vector, inverse: Vector, rare: Mask) -> Vector:
    """Return log(l_k t_k) of rare columns about the mean of all their values, and 0 of others."""
    if isinstance(rows, CsrRows):
        entries = rows.matrix.tocoo()
    else:
        blocks = [sparse.csr_array(rows.X[now]) for now in _blocks(rows)]
        entries = sparse.vstack(blocks).tocoo()
    kept = (entries.data != 0.0) & rare[entries.col]
    row, column = entries.row[kept], entries.col[kept]
    size, own = np.log(np.abs(entries.data[kept] * inverse[column])), weight[row]

    def mean(values: Vector, place: Any) -> Vector:
        total = np.maximum(np.bincount(place, own), np.finfo(np.float64).tiny)
        return np.asarray((np.bincount(place, own * values) / total)[place])

    length = mean(size - mean(size, column), row)
    even = size - length
    squares = np.exp(np.minimum(2.0 * (even - mean(even, column)), 100.0))
    loud = mean(length, column) + 0.5 * np.log(mean(squares, column))
    found = np.zeros(len(rare))
    found[column] = np.clip(loud - np.average(loud, weights=own), -_LOUDEST, _LOUDEST)
    return found


def warn_of_constants(n_features: int) -> None:
    """Warn that nothing can be learned from features of which none varies."""
    warn_caller(
        f"None of the {n_features} features varies: every example gets the same score. Check the "
        "columns of X.",
        UserWarning,
    )


def warn_of_outliers(rows: DenseRows, scaling: Scaling) -> None:
    """Warn if a few values are so extreme that all others become equal after scaling."""
    sample = scaling.apply(DenseRows(rows.X[:: -(-rows.shape[0] // _LOOKED_AT)])).matrix
    lower, upper = np.percentile(sample, (1.0, 99.0), axis=0)
    hidden = np.flatnonzero((upper > lower) & (upper - lower < _HIDDEN))
    if len(hidden) > _WORTH_SAYING * len(lower):
        named = ", ".join(map(str, hidden[:5])) + (", ..." if len(hidden) > 5 else "")
        warn_caller(
            f"A few values of feature(s) {named} (counted from 0) are more than "
            f"{1.0 / _HIDDEN:,.0f} times farther out than nearly all others: scaling cannot help, "
            "and little can be learned from what is not extreme. Clip these features or take "
            "their logarithm.",
            UserWarning,
        )


def _columns(rows: Rows, weight: Vector, inverse: Vector) -> Columns:
    """Return extremes and moments of all columns, multiplied by `inverse`."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(rows, CsrRows):
            return _sparse_columns(rows, weight, inverse)
        # Sums about a value of the column itself do not cancel.
        n, shift = float(weight.sum()), rows.X[0] * inverse
        low, high = np.full((2, len(inverse)), [[math.inf], [-math.inf]])
        total, squares, present = np.zeros((3, len(inverse)))
        for now in _blocks(rows):
            values, own = rows.X[now].astype(np.float64) * inverse, weight[now]
            low, high = np.minimum(low, values.min(axis=0)), np.maximum(high, values.max(axis=0))
            present += own @ (values != 0.0)
            values -= shift
            total += own @ values
            squares += own @ np.square(values, out=values)
        offset = total / n
        variance = np.maximum(squares / n - offset**2, 0.0)
    return Columns(low, high, shift + offset, variance, present / n)


def _sparse_columns(rows: CsrRows, weight: Vector, inverse: Vector) -> Columns:
    """Return the same of rows whose absent values are 0; zeros that are stored count as absent."""
    d, n, places = rows.shape[1], float(weight.sum()), rows.indices
    values = rows.data * inverse[places]
    own = np.repeat(weight, np.diff(rows.indptr)) * (values != 0.0)
    stored, total = np.bincount(places, own, d), np.bincount(places, own * values, d)
    mean, absent = total / n, np.maximum(n - stored, 0.0)
    # Of a column without absent values 0 is none.
    low, high = np.where(absent > 0.0, 0.0, np.array([[math.inf], [-math.inf]]))
    np.minimum.at(low, places, values)
    np.maximum.at(high, places, values)
    squares = np.bincount(places, own * (values - mean[places]) ** 2, d)
    return Columns(low, high, mean, (squares + absent * mean**2) / n, stored / n)


def _blocks(rows: DenseRows) -> list[slice]:
    n, d = rows.shape
    height = max(_NUMBERS // max(d, 1), 1)
    return [slice(k, k + height) for k in range(0, n, height)]
