# SPDX-License-Identifier: BSD-3-Clause
"""A table of the sums of z z' over the rows of each class, z = (1, x).

Nothing else has to be kept of rows to minimise the square loss over pairs of classes. Tables add,
subtract and decay. Seen through a matrix, a table is that of other features: a map that is linear
costs no pass over the rows. Several tables may stand side by side, one for each half-life.

On a `Grid` the numbers are exact. Rows come in whole quanta, cut into digits of 22 bits. The
product of 512 rows of digits by themselves has no number above 2^53, so a matrix product of floats
is exact, in any order and by any BLAS. Sums of blocks are Python's whole numbers, which have no
limit. Rows beyond 44 bits are multiplied as such numbers, which is slow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.solvers.closed_form.grid import Grid
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError

#: Bits of a digit; rows of an exact product; blocks whose sum fits into 64 bits.
_BITS, _ROWS, _BLOCKS = 22, 512, 512
_DIGIT, _EXACT = 2.0**_BITS, 2.0**44


@dataclass(frozen=True, eq=False)
class Table:
    """Sums of z z' over the rows of each class.

    Parameters
    ----------
    sums : ndarray of shape (..., K, m + 1, m + 1)
        A matrix for each class, of floats or, on a grid, of Python's whole numbers. Tables side by
        side stand in the leading axes.
    grid : Grid, optional
        The grid of exact numbers.

    Examples
    --------
    >>> table = Table.none(1).plus(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1]))
    >>> table.weights, table.means[:, 0]
    (array([2., 1.]), array([2., 5.]))
    >>> (table - table.decayed(0.5)).weights
    array([1. , 0.5])
    """

    sums: NDArray[Any]
    grid: Grid | None = None

    @classmethod
    def none(
        cls,
        n_features: int,
        n_classes: int = 2,
        *,
        side_by_side: tuple[int, ...] = (),
        grid: Grid | None = None,
    ) -> Table:
        """Return the table of no rows."""
        shape = (*side_by_side, n_classes, n_features + 1, n_features + 1)
        return cls(np.zeros(shape, dtype=np.float64 if grid is None else object), grid)

    @classmethod
    def of_sums(
        cls, grid: Grid, known: Iterable[tuple[int, Sequence[int], Sequence[int]]]
    ) -> Table:
        """Return exact sums that are known: total, sums and lower half of products by class."""
        d, sums = grid.n_features, []
        for total, linear, products in known:
            S = np.zeros((d + 1, d + 1), dtype=object)
            S[0, 0], S[0, 1:], S[1:, 0] = total, linear, linear
            S[1:, 1:] = _unfolded(products, d)
            sums.append(S)
        return cls(np.stack(sums), grid)

    def plus(self, X: Any, code: NDArray[Any], weight: Vector | None = None) -> Table:
        """Return the table with rows, dense or CSR, whose class has a code; weights count them."""
        grid = self.grid
        if grid is not None:
            if weight is None and grid.weight_exponent:
                weight = np.ones(X.shape[0])
            weight = None if weight is None else grid.weights(weight)
            weight = None if weight is None or (weight == 1.0).all() else weight
        new = []
        for k in range(self.sums.shape[-3]):
            own = np.flatnonzero(code == k)
            share = None if weight is None else weight[own]
            new.append(
                _float_sums(X[own], share) if grid is None else _exact_sums(grid, X[own], share)
            )
        return replace(self, sums=self.sums + np.stack(new))

    def __add__(self, other: Table) -> Table:
        if self.grid is None or other.grid is None or self.grid.same_as(other.grid):
            return replace(self, sums=self.sums + other.sums)
        grid = self.grid.common(other.grid)
        return Table(self.on(grid).sums + other.on(grid).sums, grid)

    def __sub__(self, other: Table) -> Table:
        # What is taken away lies on this grid, or was never in the table.
        gone = other if self.grid is None else other.on(self.grid)
        return replace(self, sums=self.sums - gone.sums)

    def __getitem__(self, place: Any) -> Table:
        """Return one or some of the tables side by side; without these, of the classes."""
        return replace(self, sums=self.sums[place])

    def on(self, grid: Grid) -> Table:
        """Return the same exact sums on a grid that holds all points of this one."""
        assert self.grid is not None
        if self.grid.same_as(grid):
            return self
        up = self.grid.exponents - grid.exponents
        heavier = self.grid.weight_exponent - grid.weight_exponent
        if min([*up.tolist(), heavier], default=0) < 0:
            raise ValueError(
                "these sums lie on a finer grid than the others, which do not hold them; add the "
                "rows anew on the grid of the others (grid=, or like= in SQL)."
            )
        # z becomes A z: k -> 2^u k + t.
        A = np.diag(np.array([1, *(1 << u for u in up.tolist())], dtype=object))
        A[1:, 0] = A.diagonal()[1:] * _whole(self.grid.origin) - _whole(grid.origin)
        return Table((A @ self.sums @ A.T) * (1 << heavier), grid)

    def decayed(self, by: ArrayLike) -> Table:
        """Return the table of rows that count less: a factor, or one for each table."""
        return replace(
            self, sums=self.sums * np.asarray(by)[..., np.newaxis, np.newaxis, np.newaxis]
        )

    def seen_through(self, A: NDArray[Any]) -> Table:
        """Return the table of z A, for A of shape (m + 1, p + 1) with first column (1, 0, ...)."""
        return Table(A.T @ self.sums @ A)

    def widened(self, n_features: int) -> Table:
        """Return the table with new features, which are 0 in all rows."""
        more = (0, n_features + 1 - self.sums.shape[-1])
        return Table(np.pad(self.sums, [(0, 0)] * (self.sums.ndim - 2) + [more, more]))

    @property
    def totals(self) -> NDArray[Any]:
        """The weight of each class, in quanta on a grid."""
        return np.asarray(self.sums[..., 0, 0])

    # ------------------------------------------------------------------ as floats

    @property
    def weights(self) -> Vector:
        """The weight of each class."""
        if self.grid is None:
            return self.totals
        return np.array([quotient(n, 1, self.grid.weight_exponent) for n in self.totals])

    @property
    def _shares(self) -> tuple[Vector, Vector]:
        """Return the means of z z' by class, 0 without rows, and the means of x."""
        weights = self.sums[..., :1, :1]
        shares = self.sums / np.where(weights > 0.0, weights, 1.0)
        return shares, shares[..., 0, 1:]

    @property
    def means(self) -> Vector:
        """The mean of each class; 0 without rows."""
        return self._shares[1]

    @property
    def means_and_covariances(self) -> tuple[Vector, Vector]:
        """The means, and the covariance matrices of the classes (divided by N, not N - 1)."""
        shares, means = self._shares
        outer = means[..., :, np.newaxis] * means[..., np.newaxis, :]
        return means, shares[..., 1:, 1:] - outer

    @property
    def variances(self) -> Vector:
        """The variances of each class, without the covariances."""
        shares, means = self._shares
        return np.asarray(np.diagonal(shares, axis1=-2, axis2=-1)[..., 1:] - means**2)

    def values(self, origin: Vector | float = 0.0) -> MomentValues:
        """Return weights, means and covariances; rows were measured from an origin."""
        if self.grid is None:
            means, covariances = self.means_and_covariances
            return MomentValues(self.weights, means + origin, covariances)
        return self._rounded

    @cached_property
    def _rounded(self) -> MomentValues:
        assert self.grid is not None
        return _rounded(self, self.grid)

    # ------------------------------------------------------------------ exact numbers

    def is_possible(self) -> bool:
        """Tell whether rows could have these sums: n >= 0, n P_jj >= s_j^2, and nothing of none."""
        for S in self.sums:
            squares, sums = np.diagonal(S)[1:], S[0, 1:]
            if (S[0, 0] <= 0 and S.any()) or S[0, 0] < 0 or (sums**2 > S[0, 0] * squares).any():
                return False
        return True

    def state(self) -> dict[str, NDArray[Any]]:
        """Return exact sums as arrays that travel: equal ones are equal."""
        assert self.grid is not None
        half = self.sums[:, *_lower_half(self.sums.shape[-1])]
        numbers = half.ravel().tolist()
        # As few bytes as the largest number needs.
        size = max((n.bit_length() for n in numbers), default=0) // 8 + 1
        taken = b"".join(n.to_bytes(size, "little", signed=True) for n in numbers)
        table = np.frombuffer(taken, dtype=np.uint8).reshape(*half.shape, size)
        return {**self.grid.state(), "table": table}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Table:
        """Return the exact sums of a `state`."""
        d, table = len(state["exponents"]), np.asarray(state["table"])
        m = d + 1
        if table.dtype != np.uint8 or table.ndim != 3 or table.shape[1] != m * (m + 1) // 2:
            raise ValueError(f"the saved sums are {table.dtype} of shape {table.shape}.")
        sums = []
        for own in table:
            numbers = [int.from_bytes(one.tobytes(), "little", signed=True) for one in own]
            sums.append(_unfolded(numbers, m))
        return cls(np.stack(sums), Grid.from_state(state, d))


@dataclass(frozen=True, eq=False)
class MomentValues:
    """Counts, means and covariances of classes as floats, and what follows for the first two.

    Parameters
    ----------
    counts : ndarray of shape (K,)
        The weights of the classes; of two the positive one comes first.
    means : ndarray of shape (K, d)
        Their means.
    covariances : ndarray of shape (K, d, d)
        Their covariance matrices (divided by N, not N - 1).
    gap : ndarray of shape (d,), optional
        The difference of the means, if it is known better than by subtracting them.

    Examples
    --------
    >>> values = MomentValues(np.ones(2), np.array([[2.0], [1.0]]), np.ones((2, 1, 1)))
    >>> values.difference, values.solve().round(4)
    (array([1.]), array([0.3333]))
    """

    counts: Vector
    means: Vector
    covariances: Vector
    gap: Vector | None = None

    @property
    def scatters(self) -> Vector:
        """Sums of (x - mean)(x - mean)' of the classes."""
        return np.asarray(self.covariances * self.counts[:, np.newaxis, np.newaxis])

    @property
    def variances(self) -> Vector:
        """The variances of each class, without the covariances."""
        return np.diagonal(self.covariances, axis1=1, axis2=2)

    @property
    def difference(self) -> Vector:
        """The mean of the positives minus the mean of the negatives, u."""
        return np.asarray(self.means[0] - self.means[1] if self.gap is None else self.gap)

    @property
    def covariance(self) -> Vector:
        """The sum of the covariances of the classes, C (divided by N, not N - 1)."""
        if not self.counts.all():
            raise ValueError("Moments need examples of both classes.")
        return np.asarray(self.covariances[0] + self.covariances[1])

    @property
    def pair_scatter(self) -> Vector:
        """The mean of v v' over the differences v of opposite pairs, C + u u'."""
        return self.covariance + np.outer(self.difference, self.difference)

    def scaled(self, weights: Vector) -> MomentValues:
        """Return the moments of features that are multiplied by weights."""
        outer = weights * weights[:, np.newaxis]
        return MomentValues(
            self.counts, self.means * weights, self.covariances * outer, self.difference * weights
        )

    def solve(self, *, ridge: float = 0.0, margin: float = 1.0) -> Vector:
        """Return the least-norm minimiser of the mean square loss of pairs plus ridge ||w||^2."""
        from scipy import linalg

        if not ridge >= 0.0:
            raise ValueError(f"ridge must be at least 0, got {ridge!r}.")
        u, matrix = self.difference, self.covariance
        matrix.flat[:: len(u) + 1] += ridge
        # (C + u u') w = m u has the direction of C^{-1} u wherever C is regular.
        try:
            factor = linalg.cho_factor(matrix, check_finite=False)
            diagonal = np.abs(np.diag(factor[0]))
            if diagonal.min() > 1e-7 * diagonal.max():
                v = linalg.cho_solve(factor, u, check_finite=False)
                return np.asarray(v * (margin / (1.0 + float(u @ v))))
        except linalg.LinAlgError:
            pass
        w, *_ = linalg.lstsq(matrix + np.outer(u, u), margin * u)
        return np.asarray(w)


def _float_sums(rows: Any, weight: Vector | None) -> Vector:
    S = np.empty((rows.shape[1] + 1, rows.shape[1] + 1))
    share = np.ones(rows.shape[0]) if weight is None else weight
    S[0, 0] = share.sum()
    S[0, 1:] = S[1:, 0] = share @ rows
    if hasattr(rows, "tocsr"):
        S[1:, 1:] = (rows.multiply(share[:, np.newaxis]).T @ rows).toarray()
    else:
        S[1:, 1:] = (rows if weight is None else rows * share[:, np.newaxis]).T @ rows
    return S


def _exact_sums(grid: Grid, X: Any, weight: Vector | None) -> NDArray[Any]:
    """Return the sums of z z' over some rows, whose weights are whole quanta."""
    found = np.zeros((grid.n_features + 1, grid.n_features + 1), dtype=object)
    for start in range(0, X.shape[0], _ROWS * _BLOCKS):
        now = slice(start, start + _ROWS * _BLOCKS)
        rows = X[now].toarray() if hasattr(X, "toarray") else X[now]
        if weight is None:
            found += _sums_of_ones(grid, rows)
            continue
        # A weight is a sum of powers of two.
        count = weight[now].astype(np.int64)
        for bit in range(int(count.max(initial=0)).bit_length()):
            found += _sums_of_ones(grid, rows[(count >> bit) & 1 == 1]) * (1 << bit)
    return found


def _sums_of_ones(grid: Grid, X: NDArray[Any]) -> NDArray[Any]:
    """Return the sums of z z' over some rows, at most `_ROWS` times `_BLOCKS`, of weight 1."""
    n, d = X.shape
    far = np.zeros(n, dtype=bool)
    low, cross, high = np.zeros((3, d + 1, d + 1), dtype=np.int64)
    for start in range(0, n, _ROWS):
        now = slice(start, start + _ROWS)
        K = grid.steps(X[now])
        largest = max(K.max(), -K.min())
        if largest > _EXACT:
            far[now] = np.abs(K).max(axis=1) > _EXACT
            K = K[~far[now]]
        z = np.concatenate([np.ones((len(K), 1)), K], axis=1)
        if largest <= _DIGIT:
            low += _squared(z)
            continue
        # z = a + 2^22 b, and a b' + b a' = (a + b) (a + b)' - a a' - b b'.
        b = np.rint(z / _DIGIT)
        a = z - _DIGIT * b
        c, aa, bb = a + b, _squared(a), _squared(b)
        third = _ROWS // 3 + 1  # numbers of c have half a bit more
        cc = sum(_squared(c[k : k + third]) for k in range(0, len(c), third))
        low, cross, high = low + aa, cross + (cc - aa - bb), high + bb
    low, cross, high = (part.astype(object) for part in (low, cross, high))
    S = low + (cross << _BITS) + (high << 2 * _BITS) if high.any() else low
    if far.any():
        K = grid.exact_steps(X[far])
        exact = np.concatenate([np.ones((len(K), 1), dtype=object), K], axis=1)
        S = S + exact.T @ exact
    return np.asarray(S)


def _squared(z: Vector) -> NDArray[np.int64]:
    """Return z' z, of whole numbers below 2^53."""
    return (z.T @ z).astype(np.int64)


def _rounded(table: Table, grid: Grid) -> MomentValues:
    """Return weights, means and covariances of exact sums, each rounded once."""
    k, d = len(table.sums), grid.n_features
    exponents, start = grid.exponents.tolist(), _whole(grid.origin)
    rows, columns = _lower_half(d)
    units = (grid.exponents[rows] + grid.exponents[columns]).tolist()
    means, covariances, known = np.zeros((k, d)), np.zeros((k, d, d)), []
    for S, mean, covariance in zip(table.sums, means, covariances, strict=True):
        n, s = S[0, 0], S[0, 1:]
        if n > 0:
            scatter = n * S[1:, 1:][rows, columns] - s[rows] * s[columns]
            half = [quotient(v, n * n, e) for v, e in zip(scatter.tolist(), units, strict=True)]
            covariance[rows, columns] = covariance[columns, rows] = half
            s = s + n * start
            mean[:] = [quotient(v, n, e) for v, e in zip(s, exponents, strict=True)]
            known.append((n, s))
    if not np.isfinite(covariances).all():
        raise DivergenceError(
            "The squares of features overflow in their covariances; scale the features "
            "(StandardScaler)."
        )
    gap = None
    if len(known) == k == 2:
        (n, a), (m, b) = known
        both = zip(a * m - b * n, exponents, strict=True)
        gap = np.array([quotient(v, n * m, e) for v, e in both])
    return MomentValues(table.weights, means, covariances, gap)


def quotient(number: int, divisor: int, exponent: int) -> float:
    """Return number / divisor * 2^exponent for a positive divisor, rounded once.

    >>> quotient(1, 3, 1), quotient(-(1 << 2000), 1, 0)
    (0.6666666666666666, -inf)
    """
    if exponent >= 0:
        number <<= exponent
    else:
        divisor <<= -exponent
    try:
        return number / divisor
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _whole(values: Vector) -> NDArray[Any]:
    return np.array([int(value) for value in values], dtype=object)


def _lower_half(m: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.tril_indices(m)


def _unfolded(half: Sequence[int], m: int) -> NDArray[Any]:
    rows, columns = _lower_half(m)
    S = np.zeros((m, m), dtype=object)
    S[rows, columns] = S[columns, rows] = half
    return S


def digest_of(state: Mapping[str, NDArray[Any]]) -> str:
    """Return a digest of named arrays."""
    taken = hashlib.sha256()
    for name in sorted(state):
        array = np.asarray(state[name])
        if array.dtype == object:
            array = np.array([f"{type(label).__name__} {label!r}" for label in array.ravel()])
        taken.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        taken.update(np.ascontiguousarray(array).tobytes())
    return taken.hexdigest()
