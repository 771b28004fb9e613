# SPDX-License-Identifier: BSD-3-Clause
"""Exact sums over the rows of one class: of weights w, of w k and of w k k', for whole k.

Rows come in whole quanta of a grid (`solvers.closed_form.grid`), cut into digits of 22 bits. The
product of 512 rows of digits by themselves has no number above 2^53, so a matrix product of floats
is exact, in any order and by any BLAS. Sums of blocks are Python's whole numbers, in arrays of
objects: they have no limit. Rows beyond 44 bits are multiplied as such numbers, which is slow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.closed_form.grid import Grid
from pairlearn.solvers.rows import CsrRows, Rows
from pairlearn.typing import Vector

#: Bits of a digit; rows of an exact product; blocks whose sum fits into 64 bits.
_BITS, _ROWS, _BLOCKS = 22, 512, 512
_DIGIT, _EXACT = 2.0**_BITS, 2.0**44
#: Covariances of more features than this are refused, since they would not fit in memory.
MOST_FEATURES = 10_000
#: Whole numbers in an array of objects.
Whole = NDArray[Any]


def lower_half(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of the lower half of a square matrix, its diagonal included."""
    return np.tril_indices(n)


@dataclass(frozen=True, eq=False)
class ExactSums:
    """The sums of z z' over the rows of one class, z = (1, k): the lower half of the matrix.

    >>> from pairlearn.solvers.rows import as_rows
    >>> sums = ExactSums.none(Grid.between([0.0], [4.0])).plus(as_rows([[1.0], [3.0]]))
    >>> sums.total, (sums.sums / 2.0**20).tolist()
    (2, [4.0])
    """

    grid: Grid
    table: Whole

    @classmethod
    def none(cls, grid: Grid) -> ExactSums:
        """Return the sums of no rows."""
        m = grid.n_features + 1
        return cls(grid, np.zeros(m * (m + 1) // 2, dtype=object))

    @classmethod
    def of(cls, grid: Grid, total: int, sums: Sequence[int], products: Sequence[int]) -> ExactSums:
        """Return sums that are known: the total, sums of w k, and the lower half of w k k'."""
        made = cls.none(grid)
        is_sum = made._is_sum
        made.table[is_sum], made.table[~is_sum] = [total, *sums], list(products)
        return made

    @property
    def total(self) -> int:
        """The sum of weights, in quanta."""
        return int(self.table[0])

    @property
    def _is_sum(self) -> NDArray[np.bool_]:
        return np.asarray(lower_half(self.grid.n_features + 1)[1] == 0)

    @property
    def sums(self) -> Whole:
        """The sums of w k, of shape (d,)."""
        return self.table[self._is_sum][1:]

    @property
    def products(self) -> Whole:
        """The sums of w k k', the lower half of the matrix."""
        return self.table[~self._is_sum]

    def plus(self, rows: Rows, weight: Vector | None = None) -> ExactSums:
        """Return the sums with more rows; `weight` in whole quanta says how often each counts."""
        table, height = self.table, _ROWS * _BLOCKS
        for start in range(0, rows.shape[0], height):
            now = slice(start, start + height)
            X = _dense(rows, now)
            own = None if weight is None else weight[now].astype(np.int64)
            table = table + _sums_of(self.grid, X, own)
        return ExactSums(self.grid, table)

    def joined(self, other: ExactSums, sign: int = 1) -> ExactSums:
        """Return the sums of both, or with sign -1 the sums without the rows of the other."""
        grid = self.grid
        if not grid.same_as(other.grid) and sign > 0:
            grid = grid.common(other.grid)
        ours, theirs = self.on(grid).table, other.on(grid).table
        return ExactSums(grid, ours + theirs if sign > 0 else ours - theirs)

    def on(self, grid: Grid) -> ExactSums:
        """Return the same sums on a grid that holds all points of this one."""
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
        u = np.array([1 << int(one) for one in up], dtype=object)
        t = [
            int(a) * int(f) - int(b)
            for a, f, b in zip(self.grid.origin, u, grid.origin, strict=True)
        ]
        A = np.diag(np.concatenate([np.array([1], dtype=object), u]))
        A[1:, 0] = t
        S = self._matrix()
        return ExactSums(grid, (A @ S @ A.T)[lower_half(len(A))] * (1 << heavier))

    def _matrix(self) -> Whole:
        m = self.grid.n_features + 1
        rows, columns = lower_half(m)
        S = np.zeros((m, m), dtype=object)
        S[rows, columns] = S[columns, rows] = self.table
        return S

    def is_possible(self) -> bool:
        """Tell whether rows could have these sums: n >= 0, n P_jj >= s_j^2, and nothing of none."""
        if self.total <= 0:
            return not self.table.any()
        rows, columns = lower_half(self.grid.n_features + 1)
        squares = self.table[(rows == columns) & (rows > 0)]
        return bool((self.sums**2 <= self.total * squares).all())

    def moments(self) -> tuple[float, Whole, Vector]:
        """Return the weight, sums from 0, and the covariance, each rounded once."""
        n, d, s = self.total, self.grid.n_features, self.sums
        rows, columns = lower_half(d)
        scatter = n * self.products - s[rows] * s[columns]
        units = (self.grid.exponents[rows] + self.grid.exponents[columns]).tolist()
        found = [quotient(v, n * n, e) for v, e in zip(scatter.tolist(), units, strict=True)]
        covariance = np.empty((d, d))
        covariance[rows, columns] = covariance[columns, rows] = found
        start = np.array([int(one) for one in self.grid.origin], dtype=object)
        return quotient(n, 1, self.grid.weight_exponent), s + n * start, covariance


def _dense(rows: Rows, now: slice) -> NDArray[Any]:
    if isinstance(rows, CsrRows):
        part = rows.part(slice(now.start, min(now.stop, rows.shape[0])))
        return np.asarray(part.matrix.toarray())
    return rows.X[now]


def _sums_of(grid: Grid, X: NDArray[Any], weight: NDArray[np.int64] | None) -> Whole:
    """Return the sums of z z' over some rows, at most `_ROWS` times `_BLOCKS`."""
    if weight is not None:
        # A weight is a sum of powers of two.
        found = np.zeros((grid.n_features + 1) * (grid.n_features + 2) // 2, dtype=object)
        for bit in range(int(weight.max(initial=0)).bit_length()):
            own = (weight >> bit) & 1 == 1
            found = found + _sums_of(grid, X[own], None) * (1 << bit)
        return found
    n, d = X.shape
    far = np.zeros(n, dtype=bool)
    found = np.zeros((2 * d + 1, 2 * d + 1), dtype=np.int64)
    for start in range(0, n, _ROWS):
        now = slice(start, start + _ROWS)
        K = grid.steps(X[now])
        largest = max(K.max(), -K.min())
        if largest > _EXACT:
            far[now] = np.abs(K).max(axis=1) > _EXACT
            K = K[~far[now]]
        digits = [K]
        if largest > _DIGIT:
            high = np.rint(K / _DIGIT)
            digits = [K - _DIGIT * high, high]
        table = np.concatenate([np.ones((len(K), 1)), *digits], axis=1)
        m = table.shape[1]
        found[:m, :m] += (table.T @ table).astype(np.int64)
    # The digits of a row put together: S = B F B'.
    F = found.astype(object)
    F = np.concatenate([F[:1], F[1 : d + 1] + (F[d + 1 :] << _BITS)])
    S = np.concatenate([F[:, :1], F[:, 1 : d + 1] + (F[:, d + 1 :] << _BITS)], axis=1)
    if far.any():
        K = grid.exact_steps(X[far])
        exact = np.concatenate([np.ones((len(K), 1), dtype=object), K], axis=1)
        S = S + exact.T @ exact
    return np.asarray(S[lower_half(d + 1)])


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


def packed(numbers: Whole) -> NDArray[np.uint8]:
    """Return whole numbers as bytes, in as few as the largest one needs; equal ones are equal."""
    size = max((n.bit_length() for n in numbers.ravel().tolist()), default=0) // 8 + 1
    found = b"".join(n.to_bytes(size, "little", signed=True) for n in numbers.ravel().tolist())
    return np.frombuffer(found, dtype=np.uint8).reshape(*numbers.shape, size)


def unpacked(found: NDArray[np.uint8]) -> Whole:
    """Return the numbers whose `packed` bytes these are."""
    flat = found.reshape(-1, found.shape[-1])
    numbers = [int.from_bytes(one.tobytes(), "little", signed=True) for one in flat]
    made = np.empty(len(numbers), dtype=object)
    made[:] = numbers
    return made.reshape(found.shape[:-1])


def packed_sums(sums: Sequence[ExactSums]) -> dict[str, NDArray[Any]]:
    """Return the sums of several classes, all on one grid, as arrays that travel."""
    return {**sums[0].grid.state(), "table": packed(np.stack([one.table for one in sums]))}


def unpacked_sums(
    state: Mapping[str, Any], n_classes: int, *, checked: bool = True
) -> list[ExactSums]:
    """Return the sums of classes that a state holds, `checked` unless their origin is known."""
    d = len(np.atleast_1d(np.asarray(state["exponents"])))
    grid, table = Grid.from_state(state, d), np.asarray(state["table"])
    shape = n_classes, (d + 1) * (d + 2) // 2
    if table.dtype != np.uint8 or table.shape[:-1] != shape or not 1 <= table.shape[-1] <= 2048:
        raise ValueError(f"the saved sums are {table.dtype} of shape {table.shape}.")
    made = [ExactSums(grid, one) for one in unpacked(table)]
    if checked and not all(one.is_possible() for one in made):
        raise ValueError("the saved moments have a negative count or variance.")
    return made


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
