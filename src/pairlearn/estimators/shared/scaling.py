# SPDX-License-Identifier: BSD-3-Clause
r"""Scale features by their spread, so that the units of the user do not matter.

Column k is centred and divided by s_k = max(std_k / (2 q_k)^(.15 a), (1 - a) range_k / 10). The
floor bounds the values of a rare indicator, whose standard deviation is small. q_k is the share of
examples whose value is not that of the majority, 1/2 if there is no majority. The power a grows
from 0 to 1 as the mean of these shares falls from 10 % to 3 %: in text nearly all columns are rare.
With standard deviations alone thousands of rare words would outweigh the frequent ones, and the
floor would silence them. A column that is constant up to rounding is left out. All scales are
multiplied by one number that makes the mean variance of the columns 1, so that grids of step sizes,
radii and ridges need not know the data. A change of units, a shift, or a scaler in front leaves the
scaled rows as they are.

Rows of text differ in length: tf-idf divides a row by its norm, and a long text has more of each
word. A rare word has few rows, and its deviation would take up their lengths: words of long texts
would count more than words of short ones. A word that is repeated where it occurs says what a text
is about. So std_k of text is divided by (l_k^.75 t_k^.25)^a, with l_k the geometric mean of the
lengths of the rows that hold the word, and t_k the root mean square of |x_ik| / (length of row i)
over the least one. Sizes of columns and lengths of rows are those whose products are nearest to
|x_ik| off the majority, by squares of logarithms: no unit of a column changes l_k or t_k. Streams
and clusters leave both out, which take several passes.

A classifier may try other scales and let folds decide (`other_scales`): the spread alone, where
these scales keep many columns of a table small, and those of presence, for text.

Sparse rows are scaled without centring: a pair sees the difference of its rows, which has no
centre.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pairlearn.features.spreads import FLOOR, least_spread, scale_of
from pairlearn.folds import FEW
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows, check_squares
from pairlearn.solvers.streams.running_scales import RARITY, TABLE, TEXT
from pairlearn.typing import Mask, Vector
from pairlearn.validation import warn_caller

#: A feature is hidden by outliers if its inner 98 % span less than this many scales.
_HIDDEN = 1e-3
#: Rows that are looked at for outliers, and for columns with a majority value.
_LOOKED_AT = 1_000
#: The share of hidden features from which on a warning is given.
_WORTH_SAYING = 0.05
#: Squares of larger values do not underflow.
_SMALLEST = 1e-140
#: Squares of smaller values, and sums of them, do not overflow.
_LARGEST = 1e140
#: A column of smaller numbers counts as constant: its coefficient would be infinite.
_NEGLIGIBLE = 1e-305
#: The most dense numbers for which NumPy is faster than loading the compiled kernels.
_SMALL = 200_000
#: Sizes of columns and lengths of rows are fitted by so many turns.
_TURNS = 6
#: A row that is longer or shorter than others by more than this factor is so by this factor.
_LONGEST = 10.0
#: Words of text vary with these powers of the lengths of their rows and of their repeats.
_LENGTH, _REPEATS = 0.75, 0.25
#: A word that is repeated more often counts as repeated so often.
_MOST_REPEATS = 30.0
#: The sample of `_sorted_sample`, once it is known.
_SAMPLE = "_sorted_sample"

#: Other scales are tried for rows of at least and at most so many columns.
_FEWEST_TRIED, _MOST_TRIED = 20, 100_000
#: They are tried for at most this many numbers of dense rows, or stored numbers of sparse ones.
_MOST_DENSE, _MOST_STORED = 20_000_000, 4_000_000
#: The spread alone is tried where at least this share of the columns is smaller than this share of
#: the widest.
_WORTH_A_TRIAL, _SMALL_SPREAD = 0.25, 0.5


def is_scaled(scaling: str | None) -> bool:
    """Return whether features are scaled."""
    if scaling not in ("auto", None):
        raise ValueError(f'scaling must be "auto" or None, got {scaling!r}.')
    return scaling == "auto"


@dataclass(frozen=True, eq=False)
class Scaling:
    """The map x -> (x * inverse - centre) * factor of each column.

    `inverse` holds powers of two, 1 except for extreme columns. `centre` is zero for sparse rows,
    and `factor` is zero for a column that does not vary. `spread` holds the standard deviations of
    scaled columns, up to rounding, and `rarity` the powers of their shares that divided them, if
    they are known. `is_text` says that the rows are wholly text.
    """

    inverse: Vector
    centre: Vector
    factor: Vector
    spread: Vector | None = None
    rarity: Vector | None = None
    is_text: bool = False

    @property
    def _arrays(self) -> tuple[Vector, Vector, Vector]:
        return self.inverse, self.centre, self.factor

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
            if rows.X.size <= _SMALL:
                values = (rows.X.astype(np.float64) * self.inverse - self.centre) * self.factor
                return DenseRows(values.astype(rows.X.dtype, copy=False))
        from pairlearn.kernels.scales import scale_rows

        scaled = np.empty_like(rows.X)
        scale_rows(rows.flat, *self._arrays, scaled.reshape(-1))
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
    counts; empty if all count the same. `mapped` columns come from a feature map: then outliers are
    not looked for.
    """
    if weight is None:
        weight = np.empty(0)
    if (weight == 0.0).any():
        kept = np.flatnonzero(weight)
        rows, weight = rows.checked().take(kept), weight[kept]
    columns = _columns(rows, weight, np.ones(rows.shape[1]))
    # NaN and infinity stay in a sum; if one overflows, the values are looked at.
    rows.known_finite() if np.isfinite(columns.mean).all() else rows.checked()
    inverse = inverse_of(columns.size)
    if (inverse != 1.0).any():
        columns = _columns(rows, weight, inverse)
    dtype = rows.data.dtype if isinstance(rows, CsrRows) else rows.X.dtype
    voice = None
    if columns.atom is not None and is_text(columns, dtype):
        rare = (columns.present < 0.5) & _varies(columns, dtype, inverse)
        voice = _voices(_off_majority(rows, columns.atom, rare, inverse), _all(weight, rows))
    centred = isinstance(rows, DenseRows)
    scaling = scaling_of(columns, inverse, dtype=dtype, centred=centred, voice=voice)
    if isinstance(rows, DenseRows) and not mapped:
        warn_of_outliers(rows, scaling)
    return scaling


@dataclass(frozen=True, eq=False)
class Columns:
    """Extremes and moments of columns, and the share of examples off the majority value.

    Columns are multiplied by `Scaling.inverse` first. `atom` is the majority value of those that
    have one, where the rows are in memory.
    """

    low: Vector
    high: Vector
    mean: Vector
    variance: Vector
    present: Vector
    atom: Vector | None = None

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


def is_text(columns: Columns, dtype: Any) -> bool:
    """Tell whether most of the columns that vary may be rare.

    Their shares off the majority may be lower bounds; where the answer is no, the scales do not
    depend on them.
    """
    varies = _varies(columns, dtype)
    return bool(varies.any()) and float(np.minimum(columns.present[varies], 0.5).mean()) < TABLE


def _varies(columns: Columns, dtype: Any, inverse: Vector | None = None) -> Mask:
    varies = np.sqrt(columns.variance) > least_spread(dtype) * columns.size
    if inverse is not None:
        # Coefficients of smaller numbers would be infinite in the units of the user.
        varies &= columns.size > _NEGLIGIBLE * inverse
    return np.asarray(varies)


def scaling_of(
    columns: Columns, inverse: Vector, *, dtype: Any, centred: bool, voice: Vector | None = None
) -> Scaling:
    """Return the scaling of columns from their extremes and moments.

    `inverse` holds the powers of two that the columns have been multiplied by. `dtype` is that of
    the data, which sets the size of rounding errors. Sparse rows are not `centred`. `voice` holds
    the logarithm of how much louder each column of text is than its share says, if it is known.
    """
    deviation = np.sqrt(columns.variance)
    varies = _varies(columns, dtype, inverse)
    factor = np.zeros(len(inverse))
    if not varies.any():
        warn_of_constants(len(inverse))
        return Scaling(inverse, np.zeros_like(inverse), factor)
    # Beside weights of 1e16 times their own, values off the majority leave a share of 0.
    present = np.clip(columns.present[varies], np.finfo(np.float64).eps, 0.5)
    power = np.clip(math.log(TABLE / float(present.mean())) / math.log(TABLE / TEXT), 0.0, 1.0)
    rarity = np.ones(len(inverse))
    rarity[varies] = (2.0 * present) ** (RARITY * power)
    spread = deviation[varies] / rarity[varies]
    if voice is not None:
        spread = spread / np.exp(power * voice[varies])
    scale = scale_of(spread, columns.low[varies], columns.high[varies], floor=(1.0 - power) * FLOOR)
    factor[varies] = 1.0 / (scale * np.sqrt(np.mean((deviation[varies] / scale) ** 2)))
    centre = columns.mean if centred else np.zeros_like(inverse)
    return Scaling(inverse, centre, factor, deviation * factor, rarity, bool(power == 1.0))


def _voices(values: Any, weight: Vector) -> Vector | None:
    """Return the logarithm of l_k^.75 t_k^.25 for each column; None if nothing is rare.

    `values` are those of `_off_majority`. A column without any has the mean length of all rows and
    the mean repeats of all words.
    """
    counted = values.data != 0.0
    logs = np.log(np.abs(values.data), out=np.zeros(len(counted)), where=counted)
    logs, there = (
        sparse.csr_array((data, values.indices, values.indptr), values.shape)
        for data in (logs, counted.astype(np.float64))
    )
    number, total = there.sum(axis=1), there.T @ weight
    of_row, of_column = logs.sum(axis=1), logs.T @ weight
    # A row or a column without such values has sums of zero, whatever they are divided by.
    n_values, n_rows = np.where(number > 0.0, number, 1.0), np.where(total > 0.0, total, 1.0)
    length = np.zeros(len(weight))
    for _ in range(_TURNS):
        size = (of_column - there.T @ (weight * length)) / n_rows
        length = (of_row - there @ size) / n_values
    held = np.where(number > 0.0, weight, 0.0)
    if not held.sum() > 0.0:
        return None
    length -= np.average(length, weights=held)
    np.clip(length, -math.log(_LONGEST), math.log(_LONGEST), out=length)
    of_holders = there.T @ (weight * length) / n_rows
    # Values of the usual length, over the least of their column.
    logs.data -= np.repeat(length, np.diff(logs.indptr))
    least = np.full(len(total), math.inf)
    np.minimum.at(least, logs.indices[counted], logs.data[counted])
    excess = np.where(counted, logs.data - least[logs.indices], 0.0)
    there.data *= np.exp(2.0 * np.minimum(excess, math.log(_MOST_REPEATS)))
    known = total > 0.0
    repeats = 0.5 * np.log(there.T @ weight / n_rows, out=np.zeros(len(total)), where=known)
    usual = np.average(length, weights=held), np.average(repeats, weights=total)
    voice = _LENGTH * of_holders + _REPEATS * repeats
    return np.asarray(np.where(known, voice, _LENGTH * usual[0] + _REPEATS * usual[1]))


def _off_majority(rows: Rows, atom: Vector, rare: Mask, inverse: Vector) -> Any:
    """Return the differences of values from the majority of rare columns, as a CSR matrix."""
    n, d = rows.shape
    if isinstance(rows, CsrRows):
        unit = np.where(rare & (atom == 0.0), inverse, 0.0)
        found = sparse.csr_array(
            (rows.data * unit[rows.indices], rows.indices, rows.indptr), (n, d)
        )
        # Where most values are stored, those that are not are off the majority.
        odd = np.flatnonzero(rare & (atom != 0.0))
        if not len(odd):
            return found
        other = sparse.csr_array(rows.matrix[:, odd].toarray() * inverse[odd] - atom[odd])
        return found + sparse.csr_array((other.data, odd[other.indices], other.indptr), (n, d))
    step = max(1, _SMALL // d)
    return sparse.vstack(
        [
            sparse.csr_array((rows.X[k : k + step].astype(np.float64) * inverse - atom) * rare)
            for k in range(0, n, step)
        ],
        format="csr",
    )


def other_scales(
    scaling: Scaling, rows: Rows, weight: Vector, n_rarest: int
) -> Iterator[tuple[Scaling, Rows]]:
    """Yield other scales of scaled `rows` that folds may prefer, and the rows by them.

    Nothing comes where rows are too many or too wide to be tried again. `weight` says how often
    each example counts; empty if all count the same. `n_rarest` is the number of examples of the
    rarer class.
    """
    n, d = rows.shape
    if not _FEWEST_TRIED <= d <= _MOST_TRIED:
        return
    if len(rows.data) > _MOST_STORED if isinstance(rows, CsrRows) else n * d > _MOST_DENSE:
        return
    # With few examples of a class folds choose between alike ones by chance.
    for find in (by_presence, by_spread) if n_rarest >= FEW else (by_spread,):
        change = find(scaling, rows, weight)
        if change is not None:
            factor = scaling.factor * change
            yield Scaling(scaling.inverse, scaling.centre, factor), _changed(rows, change)


def by_presence(scaling: Scaling, rows: Rows, weight: Vector) -> Vector | None:
    """Return the changes by which a column of text varies as the root of twice its share.

    That is nearly how presence varies: rare words speak softly, which is right where they matter no
    more than frequent ones. Folds can tell. Returns None where rows are no sparse text.
    """
    varies = scaling.factor > 0.0
    if not isinstance(rows, CsrRows) or scaling.spread is None or scaling.rarity is None:
        return None
    # Neither zeros that are stored count, as those of constant columns, nor rows without weight.
    own = _all(weight, rows)
    present = float(np.repeat(own, np.diff(rows.indptr)) @ (rows.data != 0.0))
    if not 0.0 < present < TABLE * float(own.sum()) * np.count_nonzero(varies):
        return None
    # The usual deviation is the share to the power `RARITY`, times l_k^.75 t_k^.25.
    change = np.where(varies, scaling.rarity, 0.0) ** (0.5 / RARITY - 1.0)
    wanted = scaling.spread[varies] * change[varies]
    return np.asarray(change / np.sqrt(np.mean(wanted**2)))


def by_spread(scaling: Scaling, rows: Rows, weight: Vector) -> Vector | None:
    """Return the changes of scaled columns that give each of them the variance 1.

    A floor and the power of text keep rare indicators small, which is right where they matter as
    much as others, and wrong where rare ones matter more. Folds can tell. Returns None where both
    scales are much alike, and for text: there folds err more often than they help.
    """
    if scaling.is_text:
        return None
    if scaling.spread is not None:
        # Reading all rows again is as dear as a fold: deviations that are known often spare it.
        known = scaling.spread[scaling.factor > 0.0]
        if np.mean(known < 1.001 * _SMALL_SPREAD * known.max(initial=0.0)) < _WORTH_A_TRIAL:
            return None
    share = _all(weight, rows) / _all(weight, rows).sum()
    matrix = rows.matrix
    mean = np.asarray(share @ matrix).ravel()
    square = matrix.multiply(matrix) if isinstance(rows, CsrRows) else matrix**2
    variance = np.maximum(np.asarray(share @ square).ravel() - mean**2, 0.0)
    varies = scaling.factor > 0.0
    deviation = np.sqrt(variance[varies])
    if not len(deviation) or not deviation.min() > 0.0:
        return None
    if np.mean(deviation < _SMALL_SPREAD * deviation.max()) < _WORTH_A_TRIAL:
        return None
    change = np.ones(len(varies))
    change[varies] = 1.0 / deviation
    return change


def _changed(rows: Rows, change: Vector) -> Rows:
    """Return finite rows whose columns are multiplied by these numbers."""
    if isinstance(rows, CsrRows):
        return rows.with_values(rows.data * change[rows.indices], finite=True)
    return DenseRows(rows.matrix * change).known_finite()


def warn_of_constants(n_features: int) -> None:
    """Warn that nothing can be learned from features of which none varies."""
    warn_caller(
        f"None of the {n_features} features varies: every example gets the same score. Check the "
        "columns of X.",
        UserWarning,
    )


def warn_of_outliers(rows: DenseRows, scaling: Scaling) -> None:
    """Warn if a few values are so extreme that all others become equal after scaling."""
    sample = _sorted_sample(rows)
    # Scales keep the order: the first and the last percentile are scaled, not all of the sample.
    place = 0.01 * (len(sample) - 1)
    inner = [int(place), min(int(place) + 1, len(sample) - 1)]
    ends = scaling.apply(DenseRows(sample[[*inner, *(len(sample) - 1 - k for k in inner)]]))
    assert isinstance(ends, DenseRows)
    share = place - int(place)
    lower, upper = (1.0 - share) * ends.X[::2] + share * ends.X[1::2]
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
    if isinstance(rows, DenseRows) and rows.X.size <= _SMALL:
        return _few_columns(rows, weight, inverse)
    from pairlearn.kernels.scales import (
        column_counts,
        column_sums,
        csr_column_squares,
        csr_column_sums,
    )

    n, d = float(weight.sum()) if len(weight) else float(rows.shape[0]), rows.shape[1]
    low, high, total, squares, atom, votes, count = (np.zeros(d) for _ in range(7))
    if isinstance(rows, CsrRows):
        weight, stored = _all(weight, rows), np.empty(d)
        matrix = (rows.data, rows.indices, rows.indptr, weight, inverse)
        csr_column_sums(*matrix, stored, low, high, total, atom, votes)
        mean = total / n
        csr_column_squares(*matrix, mean, atom, squares, count)
        absent = np.maximum(n - stored, 0.0)
        zero = absent > 0.0
        low, high = (
            np.where(zero, np.minimum(low, 0.0), low),
            np.where(zero, np.maximum(high, 0.0), high),
        )
        count = np.where(atom == 0.0, count + absent, count)
        atom, count = np.where(absent > count, 0.0, atom), np.maximum(count, absent)
        with np.errstate(over="ignore", invalid="ignore"):
            variance = (squares + absent * mean**2) / n
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            low, high, shift, total, squares = sums = tuple(np.zeros((5, d)))
            column_sums(rows.flat, rows.shape[0], weight, inverse, *sums)
            if _may_be_text(rows):
                column_counts(rows.flat, _all(weight, rows), inverse, atom, votes, count)
            else:
                count += 0.5 * n
            offset = total / n
            variance = np.maximum(squares / n - offset**2, 0.0)
            mean = shift + offset
    return Columns(low, high, mean, variance, np.maximum(1.0 - count / n, 0.0), atom)


def _all(weight: Vector, rows: Rows) -> Vector:
    return weight if len(weight) else np.ones(rows.shape[0])


def _may_be_text(rows: DenseRows) -> bool:
    """Tell by a sample of rows whether many columns may have a majority value.

    Only then do scales depend on the shares off the majority, which are slow to count. The bound is
    twice the share of a table, far more than the error of the sample.
    """
    sample = _sorted_sample(rows)
    equal = sample == sample[len(sample) // 2]
    share = np.count_nonzero(equal, axis=0) / len(sample)
    return float(np.minimum(1.0 - share, 0.5).mean()) < 2.0 * TABLE


def _sorted_sample(rows: DenseRows) -> NDArray[Any]:
    """Return the values of each column in some rows, in order; they are looked at twice."""
    known: NDArray[Any] | None = vars(rows).get(_SAMPLE)
    if known is None:
        sample = rows.X[:: -(-rows.shape[0] // _LOOKED_AT)]
        # Columns that are stored one after the other are sorted sooner.
        columns = np.sort(np.ascontiguousarray(sample.T), axis=1)
        known = vars(rows)[_SAMPLE] = columns.T
    return known


def _few_columns(rows: DenseRows, weight: Vector, inverse: Vector) -> Columns:
    """Return the same as `_columns`, by NumPy."""
    given, weight = weight, _all(weight, rows)
    n = float(weight.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        values = rows.X.astype(np.float64) * inverse
        excess = values - values[0]
        offset = weight @ excess / n
        variance = np.maximum(weight @ excess**2 / n - offset**2, 0.0)
    # The value that more than half of a column has is its (weighted) median.
    if len(given):
        order = np.argsort(values, axis=0)
        below = np.cumsum(weight[order], axis=0) < 0.5 * n
        middle = np.minimum(below.sum(axis=0), len(values) - 1)
        columns = np.arange(values.shape[1])
        medians = values[order[middle, columns], columns]
    else:
        middle = (len(values) - 1) // 2
        medians = np.partition(values, middle, axis=0)[middle]
    count = weight @ (values == medians)
    present = np.maximum(1.0 - count / n, 0.0)
    extremes = values.min(axis=0), values.max(axis=0)
    return Columns(*extremes, values[0] + offset, variance, present, medians)
