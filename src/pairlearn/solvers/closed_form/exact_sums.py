# SPDX-License-Identifier: BSD-3-Clause
r"""Exact sums over the rows of one class: of weights w, of w k and of w k k', for whole k.

Rows come in whole quanta of a grid (`solvers.closed_form.grid`). With |k| at most 2^22, the product
of 512 rows by themselves has no number above 2^53: a matrix product of floats is exact, in any
order and by any BLAS. Larger numbers, and weights, are cut into limbs for which the same holds;
rows beyond 2^52 quanta, 1e30 beside 1, are added as Python's whole numbers. All ways lead to
the same whole numbers, so it does not matter which one a row takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.closed_form.grid import FEW_NUMBERS, Grid
from pairlearn.solvers.closed_form.wide import LARGEST_FACTOR, Wide, scaled_quotient
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.typing import Mask, Vector

#: Rows of an exact product of numbers up to 2^22; `kernels.tiles` has it too, but loads numba.
_ROWS = 512
_NEAR, _MIDDLE, _EXACT = 2.0**22, 2.0**52, 2.0**53
#: Bits of a limb of a number, without weights and with them, and of a limb of a weight.
_LIMB, _LIMB_WITH_WEIGHT, _WEIGHT_LIMB = 22, 11, 22
#: Bits of a factor of wide numbers.
_FACTOR = 28
#: Rows by which a block is judged.
_FEW = 64
#: Exact products whose sum fits into 64 bits.
_PRODUCTS = 512
#: Numbers of rows that are rounded together, which stay in a cache.
_NUMBERS = 65_536
#: Up to this many columns, of all limbs, tiles are faster than a BLAS.
_TILED_COLUMNS = 128
#: Up to this many columns one call multiplies many blocks.
_FEW_COLUMNS = 32
#: Most numbers of the matrices of all classes, of which tiles need some.
_MOST_ROOM = 1 << 20
#: Rows that are added without tiles before these are tried again.
_APART = 8 * _ROWS
#: Rows for one call of machine code: of two blocks that follow each other one is half full, so that
#: exact products fit into 64 bits, even if they count twice.
_AT_ONCE = _ROWS * _PRODUCTS // 4
#: Rows of sparse products in 64 bits: 2^44 each.
_SPARSE_ROWS = 1 << 17
#: Whole numbers below this fit into 64 bits.
_SHORT = 1 << 62
#: Exponents of units whose products neither overflow nor underflow.
_USUAL = 200
#: Larger tables of places are not kept.
_KEPT_COLUMNS = 1_024
#: Larger products do not wait: a second one beside the sum would take too much memory.
_WAITING_COLUMNS = 2_048


@lru_cache(maxsize=8)
def _kept_places(n_features: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.tril_indices(n_features)


def lower_half(n_features: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of the lower half of a square matrix, its diagonal included."""
    if n_features > _KEPT_COLUMNS:
        return np.tril_indices(n_features)
    return _kept_places(n_features)


@dataclass(frozen=True, eq=False)
class CentredSums:
    """Sums of a class about whole numbers next to its means, so that nothing cancels."""

    #: The sum of weights in quanta.
    total: int
    #: Sums of w k from the point 0 of the columns, in quanta, as Python's numbers.
    sums: list[int]
    #: The scatter matrix divided by the total weight, in units of the rows.
    covariance: Vector


class ExactSums:
    """The sums of the rows of one class, on a grid.

    Parameters
    ----------
    grid : Grid
        The grid of the rows.

    Examples
    --------
    >>> from pairlearn.solvers.rows import as_rows
    >>> sums = ExactSums(Grid.between([0.0], [4.0]))
    >>> sums.add(as_rows([[1.0], [3.0]]))
    >>> sums.total, (sums.sums.numbers() / 2.0**20).tolist()
    (2, [4.0])
    """

    def __init__(self, grid: Grid) -> None:
        d = grid.n_features
        self.grid, self.total = grid, 0
        self._sums, self._products = Wide.zeros(d), Wide.zeros(d * (d + 1) // 2)
        # Sums and products times 2^shift that wait until they are worth a carry, by their shift.
        self._waiting_sums: dict[int, NDArray[np.int64]] = {}
        self._waiting: dict[int, NDArray[np.int64]] = {}
        self._n_waiting = 0

    @classmethod
    def restored(cls, grid: Grid, total: int, sums: Wide, products: Wide) -> Self:
        """Return sums that a state holds."""
        made = cls(grid)
        made.total, made._sums, made._products = total, sums, products
        return made

    @property
    def sums(self) -> Wide:
        """Sums of w k, of shape (d,)."""
        self._carry()
        return self._sums

    @property
    def products(self) -> Wide:
        """Sums of w k k', the lower half of the matrix."""
        self._carry()
        return self._products

    def _wait(self, shift: int, products: NDArray[np.int64], n_blocks: int) -> None:
        """Keep exact products of so many blocks, times 2^shift, to be added later."""
        if self._n_waiting + n_blocks > _PRODUCTS:
            self._carry()
        before = self._waiting.get(shift)
        if before is None:
            self._waiting[shift] = products
        else:
            before += products
        self._n_waiting += n_blocks
        if len(products) > _WAITING_COLUMNS:
            self._carry()

    def _carry(self) -> None:
        """Add what waits."""
        for shift, sums in self._waiting_sums.items():
            self._sums = self._sums + Wide([sums]).shifted(shift)
        for shift, products in self._waiting.items():
            self._products = self._products + Wide([self._lower(products)]).shifted(shift)
        self._waiting_sums, self._waiting, self._n_waiting = {}, {}, 0

    def _lower(self, matrix: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(matrix[lower_half(self.grid.n_features)])

    # ------------------------------------------------------------------------------- adding

    def add(self, rows: Rows, weight: Vector | None = None) -> None:
        """Add rows; `weight` in whole quanta says how often each counts."""
        if isinstance(rows, CsrRows):
            for some, own in _blocks(rows, weight, _SPARSE_ROWS):
                self._add_sparse(some, own)
            return
        if weight is None:
            add_by_class([self], rows.X, np.zeros(rows.shape[0], dtype=np.intp))
            return
        n, d = rows.shape
        height = _height(d)
        room = np.empty((min(height, n), d))
        for start in range(0, n, height):
            X = rows.X[start : start + height]
            K = self.grid.steps(X, room[: len(X)])
            self._add_block(X.__getitem__, K, weight[start : start + height])

    def _add_found(self, found: NDArray[np.int64], parts: int, n_blocks: int) -> None:
        """Add the products of rows, cut into parts, as `whole_products` finds them."""
        d = self.grid.n_features
        self.total += int(found[-1, -1])
        for i in range(parts):
            low = slice(i * d, (i + 1) * d)
            self._wait_sums(_LIMB * i, found[low, -1])
            self._wait(2 * _LIMB * i, found[low, low].T, n_blocks)
            for j in range(i + 1, parts):
                both = found[low, j * d : (j + 1) * d]
                self._wait(_LIMB * (i + j), both + both.T, 2 * n_blocks)

    def _add_near(self, K: Vector) -> bool:
        """Add rows in quanta, if all of them are small enough; tell whether they were."""
        if not len(K) or np.abs(K[:_FEW]).max() > _NEAR:
            return False
        found = _exact_squares(K)
        if found is None:
            return False
        self.total += len(K)
        self._add_sums(K, 0)
        self._wait(0, found, -(-len(K) // _ROWS))
        return True

    def _add_sums(self, K: Vector, shift: int) -> None:
        """Add the column sums of whole numbers, times 2^shift."""
        self._wait_sums(shift, (np.ones(len(K)) @ K).astype(np.int64))

    def _wait_sums(self, shift: int, sums: NDArray[np.int64]) -> None:
        """Keep column sums, times 2^shift, to be added later."""
        before = self._waiting_sums.get(shift)
        self._waiting_sums[shift] = sums if before is None else before + sums

    def _add_block(
        self, rows_at: Callable[[Mask], NDArray[Any]], K: Vector, weight: Vector | None
    ) -> None:
        """Add rows that are K in quanta, each by the way that its size asks for.

        `rows_at` returns the rows themselves at some places.
        """
        if weight is None and self._add_near(K):
            return
        largest = max(K.max(), -K.min())
        if largest <= _MIDDLE and (weight is not None or np.abs(K[:_FEW]).max() > _NEAR):
            # Most rows are large, as on a fine grid.
            self._add_limbs(K, weight)
            return
        size = np.abs(K).max(axis=1)
        far = size > _MIDDLE
        if far.any():
            self._add_far(rows_at(far), None if weight is None else weight[far])
        near = (size <= _NEAR) & (weight is None)
        if near.any():
            self._add_near(K[near])
        middle = ~far & ~near
        if middle.any():
            self._add_limbs(K[middle], None if weight is None else weight[middle])

    def _add_limbs(self, K: Vector, weight: Vector | None) -> None:
        """Add rows of at most 2^52 quanta, cut into limbs whose products are exact."""
        if weight is None:
            self.total += len(K)
            height = _ROWS * _PRODUCTS // 4
            for start in range(0, len(K), height):
                parts = limbs_of(K[start : start + height], _LIMB)
                self._add_parts(parts, parts, _LIMB, 0)
            return
        parts = limbs_of(K, _LIMB_WITH_WEIGHT)
        for place, own in enumerate(limbs_of(weight, _WEIGHT_LIMB)):
            shift = _WEIGHT_LIMB * place
            self.total += int(own.sum()) << shift
            heavy = [part * own[:, np.newaxis] for part in parts]
            self._add_parts(heavy, parts, _LIMB_WITH_WEIGHT, shift)

    def _add_parts(self, heavy: list[Vector], parts: list[Vector], bits: int, shift: int) -> None:
        """Add rows by their limbs: `heavy` times whole weights; all times 2^shift."""
        n_blocks = -(-len(parts[0]) // _ROWS)
        for i, left in enumerate(heavy):
            self._add_sums(left, shift + bits * i)
            for j, right in enumerate(parts[: i + 1]):
                found = _exact_products(left, right)
                # A product of two limbs counts twice.
                both = found if i == j else found + found.T
                self._wait(shift + bits * (i + j), both, n_blocks * (1 + (i != j)))

    def _add_far(self, X: NDArray[Any], weight: Vector | None) -> None:
        """Add rows by Python's whole numbers; their zeros, as of sparse rows, take no products."""
        K = self.grid.exact_steps(X)
        w = np.array([1] * len(K) if weight is None else [int(v) for v in weight], dtype=object)
        left, d = K * w[:, np.newaxis], K.shape[1]
        self.total += int(w.sum())
        self._sums = self._sums + Wide.of(left.sum(axis=0))
        products = np.zeros(d * (d + 1) // 2, dtype=object)
        for one, other in zip(left, K, strict=True):
            there = np.flatnonzero(other)
            rows, columns = (there[places] for places in lower_half(len(there)))
            products[rows * (rows + 1) // 2 + columns] += one[rows] * other[columns]
        self._products = self._products + Wide.of(products)

    def _add_sparse(self, rows: CsrRows, weight: Vector | None) -> None:
        """Add sparse rows by their stored values, or dense if a zero is not 0 quanta."""
        import scipy.sparse

        near = not self.grid.is_centred
        if near:
            values = self.grid.stored_steps(rows)
            near = bool(np.abs(values).max(initial=0.0) <= _NEAR)
        if not near or weight is not None:
            height = max(_NUMBERS // rows.shape[1], 1)
            for some, own in _blocks(rows, weight, height):
                X = some.matrix.toarray()
                self._add_block(X.__getitem__, self.grid.steps(X), own)
            return
        K = scipy.sparse.csr_array(
            (values.astype(np.int64), rows.indices, rows.indptr), shape=rows.shape
        )
        self.total += rows.shape[0]
        self._sums = self._sums + Wide([np.asarray(K.sum(axis=0), dtype=np.int64).ravel()])
        table = np.asarray((K.T @ K).toarray(), dtype=np.int64)
        self._products = self._products + Wide([self._lower(table)])

    # ------------------------------------------------------------------------------ algebra

    def joined(self, other: ExactSums, sign: int = 1) -> ExactSums:
        """Return the sums of both, or with sign -1 the sums without the rows of the other."""
        if not self.grid.same_as(other.grid):
            # What is taken back lies on the grid of these sums, or was never among them.
            grid = self.grid.common(other.grid) if sign > 0 else self.grid
            return self.on(grid).joined(other.on(grid), sign)
        found = ExactSums(self.grid)
        found.total = self.total + sign * other.total
        if sign > 0:
            found._sums = self.sums + other.sums
            found._products = self.products + other.products
        else:
            found._sums = self.sums - other.sums
            found._products = self.products - other.products
        return found

    def copy(self) -> ExactSums:
        """Return sums of their own, with the same rows."""
        return ExactSums.restored(self.grid, self.total, self.sums, self.products)

    def on(self, grid: Grid) -> ExactSums:
        """Return the same sums on a grid that holds all points of this one."""
        if self.grid.same_as(grid):
            return self
        up = [int(e) for e in self.grid.exponents - grid.exponents]
        heavier = self.grid.weight_exponent - grid.weight_exponent
        if min([*up, heavier], default=0) < 0:
            raise ValueError(
                "these sums lie on a finer grid than the others, which do not hold them; add the "
                "rows anew on the grid of the others (grid=, or like= in SQL)."
            )
        # With k -> 2^u k + t, sums s and products P become 2^u s + n t and
        # 2^(u + u') P + t 2^u' s' + 2^u s t' + n t t'.
        move = [
            (int(old) << u) - int(new)
            for old, u, new in zip(self.grid.origin, up, grid.origin, strict=True)
        ]
        n, found = self.total << heavier, ExactSums(grid)
        sums = [int(s) << (u + heavier) for s, u in zip(self.sums.numbers(), up, strict=True)]
        rows, columns = lower_half(grid.n_features)
        products = np.empty(len(rows), dtype=object)
        places = zip(self.products.numbers(), rows.tolist(), columns.tolist(), strict=True)
        for place, (p, i, j) in enumerate(places):
            own = int(p) << (up[i] + up[j] + heavier)
            products[place] = own + move[i] * sums[j] + sums[i] * move[j] + n * move[i] * move[j]
        moved = [s + n * t for s, t in zip(sums, move, strict=True)]
        found.total, found._sums = n, Wide.of(np.array(moved, dtype=object))
        found._products = Wide.of(products)
        return found

    def is_possible(self) -> bool:
        """Tell whether rows could have these sums: n >= 0, n P_jj >= s_j^2, and nothing of none."""
        rows, columns = lower_half(self.grid.n_features)
        sums, squares = self.sums.numbers(), self.products[rows == columns].numbers()
        if self.total <= 0:
            nothing = not any(limb.any() for limb in self.sums.limbs)
            return self.total == 0 and nothing and not any(p.any() for p in self.products.limbs)
        n = self.total
        return all(int(s) * int(s) <= n * int(p) for s, p in zip(sums, squares, strict=True))

    # ------------------------------------------------------------------------------- values

    def centred(self) -> CentredSums:
        """Return sums about whole numbers next to the means, and the scatter matrix.

        With c the whole number nearest to s / n and r = s - n c, the sum of (k - c)(k - c)' is
        P - c s' - r c', a whole number; r r' / n, which is left, is below n / 4.
        """
        n, d = self.total, self.grid.n_features
        sums = [int(s) for s in self.sums.numbers()]
        near = [(2 * s + n) // (2 * n) for s in sums]
        rest = np.array([s - n * c for s, c in zip(sums, near, strict=True)], dtype=object)
        starts = [int(o) for o in self.grid.origin]
        about_zero = [s + n * o for s, o in zip(sums, starts, strict=True)]
        share = np.array([scaled_quotient(int(r), n, 0) for r in rest])
        if d > _FEW_COLUMNS and self._is_short(sums, near, rest):
            return CentredSums(n, about_zero, self._short_covariance(near, rest, share))
        rows, columns = lower_half(d)
        moved, wide = self.products, Wide.of(rest)
        for place, c in enumerate(_factors_of(near)):
            outer = self.sums[columns].times(c[rows]) + wide[rows].times(c[columns])
            moved = moved - outer.shifted(_FACTOR * place)
        # Divided by a power of two near n, and then by what is left of n, so that no float
        # overflows that the result does not.
        half, exponents = n.bit_length(), self.grid.exponents
        units = exponents[rows] + exponents[columns]
        with np.errstate(over="ignore", invalid="ignore"):
            found = moved.floats(units - half) / scaled_quotient(n, 1, -half)
            found -= np.ldexp(share[rows] * share[columns], units)
        covariance = np.empty((d, d))
        covariance[rows, columns] = found
        covariance[columns, rows] = found
        return CentredSums(n, about_zero, covariance)

    def _is_short(self, sums: list[int], near: list[int], rest: NDArray[Any]) -> bool:
        """Tell whether all sums about the whole numbers `near` fit into 64 bits, in usual units.

        The largest stands on the diagonal (Cauchy and Schwarz).
        """
        usual = bool((np.abs(self.grid.exponents) < _USUAL).all())
        if not usual or len(self.products.limbs) > 1 or len(self.sums.limbs) > 1:
            return False
        squares = self.products.limbs[0][_diagonal(len(sums))].tolist()
        left = zip(squares, sums, near, rest.tolist(), strict=True)
        return bool(max(p - c * s - r * c for p, s, c, r in left) < _SHORT)

    def _short_covariance(self, near: list[int], rest: NDArray[Any], share: Vector) -> Vector:
        """Return the covariance as `centred` does, in 64 bits, row by row.

        Parts of a sum may wrap around, the sum itself does not.
        """
        n, d, exponents = self.total, self.grid.n_features, self.grid.exponents
        half, products, s = n.bit_length(), self.products.limbs[0], self.sums.limbs[0]
        c, r = np.array(near, dtype=np.int64), rest.astype(np.int64)
        quotient, covariance = scaled_quotient(n, 1, -half), np.zeros((d, d))
        # Products of these powers of two are exact, and faster than adding to exponents.
        unit, smaller = np.ldexp(1.0, exponents), 2.0**-half
        for i, first in enumerate((_diagonal(d) - np.arange(d)).tolist()):
            upto = slice(i + 1)
            moved = products[first : first + i + 1] - c[i] * s[upto] - r[i] * c[upto]
            units = unit[i] * unit[upto]
            found = covariance[i, upto]
            np.multiply(moved, units * smaller, out=found)
            found /= quotient
            found -= share[i] * share[upto] * units
        for begin in range(0, d, _FEW):
            part = covariance[begin : begin + _FEW, : begin + _FEW]
            lower = np.tril(part[:, begin:], -1)
            part[:, begin:] += lower.T
            covariance[:begin, begin : begin + _FEW] = part[:, :begin].T
        return covariance


def add_by_class(
    sums: Sequence[ExactSums],
    table: NDArray[Any],
    code: NDArray[np.intp],
    *,
    finite: bool = True,
) -> None:
    """Add the rows of a table, each to the sums of its class; all sums have one grid.

    The table is of float32 or float64 and contiguous, by rows or by columns. `code` is the class of
    each row. Unless the rows are known to be `finite`, NaN and infinity are refused.
    """
    n, d = table.shape
    begin, tiled = 0, takes_tiles(n, d, len(sums))
    while begin < n:
        end = _add_tiled(sums, table, code, begin, finite=finite) if tiled else begin
        if end == begin:
            # Tiles cannot add the rows that come now. Many at once, so that products are large.
            end = min(begin + _APART, n) if tiled else n
            for kind, one in enumerate(sums):
                own = begin + np.flatnonzero(code[begin:end] == kind)
                for start in range(0, len(own), _height(d)):
                    _add_some(one, table, own[start : start + _height(d)], finite=finite)
        begin = end


def takes_tiles(n: int, d: int, n_classes: int) -> bool:
    """Tell whether machine code that multiplies tiles is worth its loading, and its memory."""
    room = n_classes * (d + 1) ** 2
    return d <= _TILED_COLUMNS and n * d > FEW_NUMBERS and room <= _MOST_ROOM


def _add_some(
    one: ExactSums, table: NDArray[Any], index: NDArray[np.intp], *, finite: bool
) -> None:
    """Add some rows of a table, each by the way that its size asks for."""
    if len(index):
        # All of them are not copied.
        X = np.ascontiguousarray(table if len(index) == len(table) else table[index])
        if not finite:
            DenseRows(X).checked()
        one._add_block(X.__getitem__, one.grid.steps(X), None)


def _add_tiled(
    sums: Sequence[ExactSums],
    table: NDArray[Any],
    code: NDArray[np.intp],
    begin: int,
    *,
    finite: bool,
) -> int:
    """Add rows from `begin` on, as long as tiles can; return where they end."""
    from pairlearn.kernels.tiles import room_for_whole, whole_products

    grid, (n, d), k = sums[0].grid, table.shape, len(sums)
    factor, second = grid.factors
    with np.errstate(invalid="ignore"):
        largest = np.abs(grid.steps(table[begin : begin + _FEW])).max()
    parts, limb = (1, 0.0) if largest <= _NEAR else (2, 2.0**_LIMB)
    if second is not None or largest > _NEAR * 2.0**_LIMB or parts * d > _TILED_COLUMNS:
        return begin
    by_columns = not table.flags.c_contiguous
    flat = (table.T if by_columns else table).reshape(-1)
    # Machine code is made for arrays that can be written, or for ones that cannot.
    flat.flags.writeable = False
    origin = grid.origin.copy()
    size, room = parts * d + 1, room_for_whole(parts * d, k)
    ends, waiting, counts = np.zeros((3, k), dtype=np.uintp)
    while begin < n:
        stop, found = min(begin + _AT_ONCE, n), np.zeros((k, size, size), dtype=np.int64)
        end = whole_products(
            flat, n, by_columns, code, begin, stop, factor, origin, limb, *room, ends, waiting,
            found, counts,
        )  # fmt: skip
        for kind in np.flatnonzero(counts).tolist():
            sums[kind]._add_found(found[kind], parts, int(counts[kind]))
        for kind in np.flatnonzero(waiting).tolist():
            left = begin + np.flatnonzero(code[begin:end] == kind)[-int(waiting[kind]) :]
            _add_some(sums[kind], table, left, finite=finite)
        begin = end
        if end < stop:
            break
    return begin


def _diagonal(d: int) -> NDArray[np.int64]:
    """Return the places of the diagonal in the lower half of a matrix."""
    place = np.arange(d, dtype=np.int64)
    return place * (place + 3) // 2


def _factors_of(numbers: list[int]) -> list[NDArray[np.int64]]:
    """Return factors small enough for `Wide.times`: numbers are their sums times 2^(28 place)."""
    found = []
    while max(map(abs, numbers), default=0) > LARGEST_FACTOR:
        found.append(np.array([n % (1 << _FACTOR) for n in numbers], dtype=np.int64))
        numbers = [n >> _FACTOR for n in numbers]
    return [*found, np.array(numbers, dtype=np.int64)]


def _height(n_features: int) -> int:
    """Return how many rows are rounded together."""
    return max(_NUMBERS // n_features // _ROWS, 1) * _ROWS


def _blocks(
    rows: CsrRows, weight: Vector | None, height: int
) -> Iterator[tuple[CsrRows, Vector | None]]:
    for start in range(0, rows.shape[0], height):
        now = slice(start, min(start + height, rows.shape[0]))
        yield rows.part(now), None if weight is None else weight[now]


def _exact_products(left: Vector, right: Vector) -> NDArray[np.int64]:
    """Return left' right, whose sums over 512 rows are at most 2^53, of at most 512 blocks."""
    n, d = left.shape
    if n <= _ROWS:
        return np.asarray((left.T @ (left if left is right else right)).astype(np.int64))
    found: NDArray[np.int64] = np.zeros((d, right.shape[1]), dtype=np.int64)
    whole = n // _ROWS * _ROWS if d <= _FEW_COLUMNS else 0
    if whole:
        # Many small products in one call.
        many, other = (rows[:whole].reshape(-1, _ROWS, d) for rows in (left, right))
        found += np.matmul(many.transpose(0, 2, 1), other).astype(np.int64).sum(axis=0)
    for start in range(whole, n, _ROWS):
        now = slice(start, start + _ROWS)
        # One array twice: NumPy then computes half of a symmetric product.
        one = left[now]
        found += (one.T @ (one if left is right else right[now])).astype(np.int64)
    return found


def _exact_squares(K: Vector) -> NDArray[np.int64] | None:
    """Return K' K, or None if the products of 512 rows may not be exact.

    They are if their diagonals stay below 2^53, as `kernels.tiles.whole_products` shows, or if no
    number is above 2^22: a column of such numbers, like a cosine near 1, may just reach 2^53.
    """
    n, d = K.shape
    found: NDArray[np.int64] = np.zeros((d, d), dtype=np.int64)
    for start in range(0, n, _ROWS):
        # One array twice: NumPy then computes half of a symmetric product.
        one = K[start : start + _ROWS]
        product = one.T @ one
        if not product.diagonal().max() < _EXACT and np.abs(one).max() > _NEAR:
            return None
        found += product.astype(np.int64)
    return found


def limbs_of(values: Vector, bits: int) -> list[Vector]:
    """Return limbs of whole numbers in floats: at most 2^bits in size, the lowest first."""
    found, size = [], 2.0**bits
    largest = max(values.max(), -values.min()) if len(values) else 0.0
    while largest > size:
        high = values * (1.0 / size)
        np.rint(high, out=high)
        low = high * -size
        low += values
        found.append(low)
        values, largest = high, np.rint(largest / size)
    return [*found, values]
