# SPDX-License-Identifier: BSD-3-Clause
r"""Features in units of their own spread, so that the units of the user do not matter.

Column k is centred and divided by s_k = max(std_k, range_k / 10). The floor keeps a rare indicator,
whose standard deviation is small and whose largest value would become huge, from being blown up. A
column that is constant up to rounding is left out. All scales are multiplied by one number that
makes the mean variance of the columns 1, so that grids of step sizes, radii and ridges need not
know the data. A change of units, a shift, or a scaler in front leaves the scaled rows as they are.

Sparse rows are scaled without centring: a pair sees the difference of its rows, which has no
centre.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.rows import CsrRows, DenseRows, Rows

__all__ = ["Scaling", "fit_scaling"]

Vector = NDArray[np.float64]

#: The share of the range of a column that its scale is at least.
_FLOOR = 0.1
#: A column varies if its standard deviation exceeds this share of its largest value (and a few
#: units in the last place of the type of the data).
_CONSTANT = 1e-10
#: Squares of values within these bounds are numbers, and so are sums of them.
_SMALLEST, _LARGEST = 1e-140, 1e140
#: Up to so many dense numbers NumPy is done before the kernels would be loaded.
_SMALL = 200_000


@dataclass(frozen=True, eq=False)
class Scaling:
    """The map x -> (x * inverse - centre) * factor of each column.

    Parameters
    ----------
    inverse : ndarray of shape (d,)
        Powers of two, 1 for all but extreme columns.
    centre : ndarray of shape (d,)
        Zero for sparse rows.
    factor : ndarray of shape (d,)
        One over the scale; zero for a column that does not vary.
    """

    inverse: Vector
    centre: Vector
    factor: Vector

    @property
    def weights(self) -> Vector:
        """Coefficients of scaled columns times this are those of the user's columns."""
        return self.factor * self.inverse

    @property
    def n_constant(self) -> int:
        """The number of columns that do not vary."""
        return int(np.count_nonzero(self.factor == 0.0))

    def apply(self, rows: Rows) -> Rows:
        """Return scaled rows in the storage and the type of the given ones."""
        if isinstance(rows, CsrRows):
            data = (rows.data * self.inverse[rows.indices]) * self.factor[rows.indices]
            return CsrRows(data.astype(rows.data.dtype), rows.indices, rows.indptr, rows.n_features)
        if rows.X.size <= _SMALL:
            values = (rows.X.astype(np.float64) * self.inverse - self.centre) * self.factor
            return DenseRows(values.astype(rows.X.dtype, copy=False))
        from pairlearn.kernels.scales import scale_rows

        scaled = np.empty_like(rows.X)
        scale_rows(rows.flat, self.inverse, self.centre, self.factor, scaled.reshape(-1))
        return DenseRows(scaled)

    def to_user(self, w: Vector) -> Vector:
        """Return coefficients of the user's columns, for one model or for several in rows."""
        return np.asarray(w * self.weights)

    def from_user(self, w: Vector) -> Vector:
        """Return coefficients of the scaled columns; those of constant columns are lost."""
        weights = self.weights
        return np.divide(w, weights, out=np.zeros_like(w, dtype=np.float64), where=weights != 0.0)


def fit_scaling(rows: Rows) -> Scaling:
    """Return the scaling of all rows.

    Parameters
    ----------
    rows : DenseRows or CsrRows
        Examples, finite.

    Returns
    -------
    Scaling
        Centres and scales.

    Warns
    -----
    UserWarning
        If no column varies: every score is then the same.

    Examples
    --------
    >>> rows = DenseRows(np.array([[1e6, 5.0, 0.001], [3e6, 5.0, 0.003]]))
    >>> fit_scaling(rows).apply(rows).X
    array([[-1.,  0., -1.],
           [ 1.,  0.,  1.]])
    """
    inverse = np.ones(rows.shape[1])
    low, high, mean, variance = _moments(rows, inverse)
    size = np.maximum(np.abs(low), np.abs(high))
    extreme = (size > _LARGEST) | ((size < _SMALLEST) & (size > 0.0))
    if extreme.any():
        # Powers of two change no digit. The smallest numbers have no inverse: 2^-1022 has.
        exponents = np.maximum(np.frexp(size[extreme])[1], -1021)
        inverse[extreme] = np.ldexp(1.0, -exponents)
        low, high, mean, variance = _moments(rows, inverse)
        size = np.maximum(np.abs(low), np.abs(high))
    deviation = np.sqrt(variance)
    dtype = rows.data.dtype if isinstance(rows, CsrRows) else rows.X.dtype
    threshold = max(_CONSTANT, 8.0 * float(np.finfo(dtype).eps))
    varies = deviation > threshold * size
    factor = np.zeros(len(inverse))
    if not varies.any():
        warnings.warn(
            f"None of the {len(inverse)} features varies: every score is the same and the AUC is "
            "1/2. Check the columns of X.",
            UserWarning,
            stacklevel=3,
        )
        return Scaling(inverse, mean * 0.0, factor)
    deviation, scale = deviation[varies], np.maximum(deviation, _FLOOR * (high - low))[varies]
    factor[varies] = 1.0 / (scale * np.sqrt(np.mean((deviation / scale) ** 2)))
    centre = np.zeros_like(mean) if isinstance(rows, CsrRows) else mean
    return Scaling(inverse, centre, factor)


def _moments(rows: Rows, inverse: Vector) -> tuple[Vector, Vector, Vector, Vector]:
    """Return smallest and largest value, mean and variance of each column, in units."""
    n, d = rows.shape
    if isinstance(rows, DenseRows) and rows.X.size <= _SMALL:
        with np.errstate(over="ignore", invalid="ignore"):
            values = rows.X.astype(np.float64) * inverse
            excess = values - values[0]
            about = excess.mean(axis=0)
            spread = np.maximum((excess**2).mean(axis=0) - about**2, 0.0)
        return values.min(axis=0), values.max(axis=0), values[0] + about, spread
    from pairlearn.kernels.scales import column_sums, csr_column_squares, csr_column_sums

    low, high, total, squares = (np.empty(d) for _ in range(4))
    if isinstance(rows, CsrRows):
        counts = np.empty(d, dtype=np.int64)
        csr_column_sums(rows.data, rows.indices, inverse, counts, low, high, total)
        absent = counts < n
        low, high = (
            np.where(absent, np.minimum(low, 0.0), low),
            np.where(absent, np.maximum(high, 0.0), high),
        )
        mean = total / n
        csr_column_squares(rows.data, rows.indices, inverse, mean, squares)
        return low, high, mean, (squares + (n - counts) * mean**2) / n
    shift = np.empty(d)
    with np.errstate(over="ignore", invalid="ignore"):
        column_sums(rows.flat, inverse, low, high, shift, total, squares)
        mean = total / n
        variance = np.maximum(squares / n - mean**2, 0.0)
    return low, high, shift + mean, variance
