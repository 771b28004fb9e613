# SPDX-License-Identifier: BSD-3-Clause
"""Products of small matrices, tile by tile, each tile held in registers.

Every number of a tile is a sum that keeps its order, as in a plain loop, so it has the same bits.
"""

from __future__ import annotations

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from pairlearn.kernels._native import elementwise, elementwise_part, everywhere, prefetch_second

#: Numbers in a register, and so the unit of the width of a tile.
LANES = 4
#: Rows of a product that is exact if its diagonal says so, and the bound of the diagonal.
TERMS, EXACT = 512, 2.0**53
#: Bytes of rows that stay in the nearest cache, beside a matrix, while all tiles read them.
_NEAREST = 16_384
#: Rows and columns of a tile that is transposed in registers.
_TURNED = 4


def padded(n):
    """Return n, rounded up to whole registers.

    >>> padded(8), padded(9)
    (8, 12)
    """
    return -(-n // LANES) * LANES


def tile_of(height, width, sign=1, lanes=LANES):
    """Return a function that adds a product A B to a tile, or with ``sign=-1`` subtracts it.

    The tile has `height` rows and ``lanes * width`` columns. The function takes addresses and
    distances in bytes: of A, of its next row and next column; of B, whose rows are contiguous, and
    of its next row; the number of terms of each sum; of the tile, and of its next row.
    """

    def generate(context, builder, signature, arguments):
        """Emit code: load the tile, run through the terms, store the tile."""
        a, a_row, a_step, b, b_step, n, out, out_row = arguments
        size, vector = a.type, ir.VectorType(ir.DoubleType(), lanes)
        # Rounded once where the machine can, as in kernels whose loops may contract.
        together = {"flags": ["contract", "nsz"]}

        def at(begin, distance, times, column=0):
            moved = builder.add(begin, builder.mul(distance, size(times)))
            return builder.add(moved, size(8 * lanes * column))

        def place(row, column):
            return builder.inttoptr(at(out, out_row, row, column), vector.as_pointer())

        spots = [(row, column) for row in range(height) for column in range(width)]
        totals = {
            spot: cgutils.alloca_once_value(builder, builder.load(place(*spot), align=8))
            for spot in spots
        }
        with cgutils.for_range(builder, n) as terms:
            own = builder.add(a, builder.mul(a_step, terms.index))
            other = builder.add(b, builder.mul(b_step, terms.index))
            values = [
                builder.load(
                    builder.inttoptr(at(other, b_step, 0, column), vector.as_pointer()), align=8
                )
                for column in range(width)
            ]
            for row in range(height):
                number = builder.load(
                    builder.inttoptr(at(own, a_row, row), ir.DoubleType().as_pointer())
                )
                spread = everywhere(builder, number, lanes)
                for column in range(width):
                    product = builder.fmul(spread, values[column], **together)
                    change = builder.fadd if sign > 0 else builder.fsub
                    total = totals[row, column]
                    builder.store(change(builder.load(total), product, **together), total)
        for spot in spots:
            builder.store(builder.load(totals[spot]), place(*spot), align=8)
        return context.get_dummy_value()

    @intrinsic
    def add_product(typing_context, a, a_row, a_step, b, b_step, n, out, out_row):
        return types.void(*[types.intp] * 8), generate

    return add_product


_add_wide, _add_narrow = tile_of(LANES, 2), tile_of(LANES, 1)


@elementwise_part
def clear(tile):
    """Fill a matrix with 0 where `add_products` adds."""
    width, lanes = np.uintp(len(tile)), np.uintp(LANES)
    for a in range(width):
        for b in range(a - a % lanes, width):
            tile[a, b] = 0.0


@elementwise_part
def add_products(rows, weighted, tile):
    """Add the sums of products of rows to a matrix, on and above its diagonal."""
    n, width = rows.shape
    row_bytes, own, heavy = 8 * width, rows.ctypes.data, weighted.ctypes.data
    for a in range(0, width, LANES):
        out = tile.ctypes.data + row_bytes * a
        for b in range(a, width - 2 * LANES + 1, 2 * LANES):
            _add_wide(
                own + 8 * a, 8, row_bytes, heavy + 8 * b, row_bytes, n, out + 8 * b, row_bytes
            )
        if (width - a) % (2 * LANES):
            b = width - LANES
            _add_narrow(
                own + 8 * a, 8, row_bytes, heavy + 8 * b, row_bytes, n, out + 8 * b, row_bytes
            )


def _has_long_registers():
    """Tell whether a register of this processor holds eight numbers, and whether there are 32."""
    try:
        return bool(binding.get_host_cpu_features().get("avx512f"))
    except RuntimeError:  # where nobody can tell
        return False


#: Numbers in a register where whole numbers are multiplied: what numba keeps is for one kind of
#: processor, and exact sums are the same for all.
_LONG = 2 * LANES
if _has_long_registers():
    _add_long, _add_short = tile_of(_LONG, 2, lanes=_LONG), tile_of(_LONG, 1, lanes=_LONG)

    @elementwise_part
    def _add_squares(rows, tile):
        """Add the products of whole rows by themselves, on and above the diagonal."""
        n, width = rows.shape
        row_bytes, own = 8 * width, rows.ctypes.data
        for a in range(0, width, _LONG):
            out = tile.ctypes.data + row_bytes * a
            for b in range(a, width - 2 * _LONG + 1, 2 * _LONG):
                _add_long(
                    own + 8 * a, 8, row_bytes, own + 8 * b, row_bytes, n, out + 8 * b, row_bytes
                )
            if (width - a) % (2 * _LONG):
                b = width - _LONG
                _add_short(
                    own + 8 * a, 8, row_bytes, own + 8 * b, row_bytes, n, out + 8 * b, row_bytes
                )

else:

    @elementwise_part
    def _add_squares(rows, tile):
        """Add the products of whole rows by themselves, on and above the diagonal."""
        add_products(rows, rows, tile)


def _turn_of(split):
    """Return a function that writes a tile of columns as rows, in whole quanta.

    It takes X, the place of the first number, the distance of columns, `factor`, `origin` and
    `limb` as `whole_products` has them, the first column, the rows, the places of the rows, and
    which place is the first. With `split`, low limbs stand before high ones.
    """
    one = ir.VectorType(ir.IntType(32), _TURNED)

    def turned(builder, columns):
        """Transpose by halves: pairs of neighbours, then pairs of pairs."""
        step = 1
        while step < _TURNED:
            upper = [k for k in range(_TURNED) if not k & step]
            first = [_TURNED + k - step if k & step else k for k in range(_TURNED)]
            second = [_TURNED + k if k & step else k + step for k in range(_TURNED)]
            for k in upper:
                both = columns[k], columns[k + step]
                columns[k] = builder.shuffle_vector(*both, ir.Constant(one, first))
                columns[k + step] = builder.shuffle_vector(*both, ir.Constant(one, second))
            step *= 2
        return columns

    def generate(context, builder, signature, arguments):
        """Emit code: load four columns, round them, transpose them, and store them as rows."""
        X, place, step, factor, origin, limb, column, rows, row_bytes, d, places, first = arguments
        kinds, size = signature.args, place.type
        X, factor, origin, places = (
            context.make_array(kinds[k])(context, builder, arguments[k]).data for k in (0, 3, 4, 10)
        )
        single = kinds[0].dtype == types.float32
        read = ir.VectorType(ir.FloatType() if single else ir.DoubleType(), _TURNED)
        wide = ir.VectorType(ir.DoubleType(), _TURNED)
        rint = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(wide, [wide]), f"llvm.rint.v{_TURNED}f64"
        )

        def everywhere_of(array, at):
            return everywhere(builder, builder.load(builder.gep(array, [at])), _TURNED)

        low, high = [], []
        for k in range(_TURNED):
            at = builder.add(place, builder.mul(step, size(k)))
            address = builder.bitcast(builder.gep(X, [at]), read.as_pointer())
            value = builder.load(address, align=kinds[0].dtype.bitwidth // 8)
            if single:
                value = builder.fpext(value, wide)
            at = builder.add(column, size(k))
            value = builder.call(rint, [builder.fmul(value, everywhere_of(factor, at))])
            value = builder.fsub(value, everywhere_of(origin, at))
            if split:
                unit = everywhere(builder, limb, _TURNED)
                high.append(builder.call(rint, [builder.fdiv(value, unit)]))
                value = builder.fsub(value, builder.fmul(high[-1], unit))
            low.append(value)
        for part, columns in enumerate((low, high) if split else (low,)):
            begin = builder.add(column, builder.mul(d, size(part)))
            begin = builder.add(rows, builder.mul(begin, size(8)))
            for k, row in enumerate(turned(builder, columns)):
                own = builder.load(builder.gep(places, [builder.add(first, size(k))]))
                address = builder.add(begin, builder.mul(own, row_bytes))
                builder.store(row, builder.inttoptr(address, wide.as_pointer()), align=8)
        return context.get_dummy_value()

    @intrinsic
    def turn(
        typing_context, X, place, step, factor, origin, limb, column, rows, row_bytes, d, places,
        first,
    ):  # fmt: skip
        u = types.uintp
        numbers = (X, u, u, factor, origin, types.float64)
        return types.void(*numbers, u, u, u, u, places, u), generate

    return turn


_turn, _turn_split = _turn_of(split=False), _turn_of(split=True)


@elementwise_part
def _round_some(X, at, step, factor, origin, limb, own):
    """Fill a row with whole quanta of numbers that are `step` apart."""
    d = np.uintp(len(factor))
    for k in range(d):
        own[k] = np.rint(np.float64(X[at + k * step]) * factor[k]) - origin[k]
    if limb > 0.0:
        for k in range(d):
            high = np.rint(own[k] / limb)
            own[d + k] = high
            own[k] -= limb * high


@elementwise_part
def _round_columns(X, at, n, factor, origin, limb, rows, places, m):
    """Fill rows at some places with m rows of a table of n rows that is stored by columns."""
    d, side, zero, one = np.uintp(len(factor)), np.uintp(_TURNED), np.uintp(0), np.uintp(1)
    own, row_bytes = np.uintp(rows.ctypes.data), np.uintp(8 * rows.shape[1])
    ahead, line = np.uintp(len(rows)), np.uintp(_LONG)
    i = zero
    while d >= side and i + side <= m:
        k = zero
        while k < d:
            # The last tile may hold columns of the one before.
            k = min(k, d - side)
            place = at + i + k * n
            if i % line == zero:
                # As many columns as a table has are too many for the processor to foresee.
                for c in range(side):
                    prefetch_second(X, place + ahead + c * n)
            if limb > 0.0:
                _turn_split(
                    X, place, n, factor, origin, limb, k, own, row_bytes, d, places, i
                )  # fmt: skip
            else:
                _turn(X, place, n, factor, origin, limb, k, own, row_bytes, d, places, i)
            k += side
        i += side
    while i < m:
        _round_some(X, at + i, n, factor, origin, limb, rows[places[i]])
        i += one


def room_for_whole(n_columns, n_classes):
    """Return room to multiply rows of whole numbers: some rows that end with a 1, and matrices."""
    width = -(-(n_columns + 1) // _LONG) * _LONG
    height = TERMS
    # Of each class there should be some rows.
    while height > LANES * n_classes and height > LANES and 8 * width * height > _NEAREST:
        height //= 2
    # What is beyond the columns stays 0.
    rows = np.zeros((height, width))
    rows[:, n_columns] = 1.0
    return rows, np.empty(height, dtype=np.uintp), np.empty((n_classes, width, width))


@elementwise_part
def _clear_squares(tile):
    """Fill a matrix with 0 where `_add_squares` adds."""
    width, lanes = np.uintp(len(tile)), np.uintp(_LONG)
    for a in range(width):
        for b in range(a - a % lanes, width):
            tile[a, b] = 0.0


@elementwise_part
def _add_exact(tile, found, counts, c):
    """Add products to the found ones of class c and clear them, if they are exact."""
    size = np.uintp(len(found))
    for a in range(size):
        if not tile[a, a] < EXACT:
            return False
    for a in range(size):
        for b in range(a, size):
            found[a, b] += np.int64(tile[a, b])
    _clear_squares(tile)
    counts[c] += np.uintp(1)
    return True


@elementwise
def whole_products(
    X, n, by_columns, code, begin, stop, factor, origin, limb, rows, places, tiles, ends, waiting,
    found, counts,
):  # fmt: skip
    """Add the products of rows in whole quanta to those of their classes, while they are exact.

    X holds n rows, one after the other or column after column. Those from `begin` to `stop` are
    added; x becomes the whole number next to x `factor`, less `origin`. With a `limb` above 0 it is
    cut into two: k = low + limb high, and a row holds all low ones before all high ones. `code` is
    the class of each row. `found` of int64 gets the products of columns of each class on and above
    the diagonal; a last column of ones gives the sums. `counts` gets, for each class, how often
    products were added to it. `rows`, `places` and `tiles` are room, see `room_for_whole`, and
    `ends` is room for a number of each class.

    Returned is the first row that was not looked at. Of each class, the last `waiting` rows before
    it were not added, as their products may not be exact.

    Products of up to 512 rows are exact if the diagonal stays below 2^53. A sum of squares that
    were larger would not round to less, since rounding keeps the order. The other sums are no
    larger, nor are parts of them, by the inequality of Cauchy and Schwarz.
    """
    zero, one = np.uintp(0), np.uintp(1)
    d, height, k = np.uintp(len(factor)), np.uintp(len(rows)), np.uintp(len(ends))
    most = np.uintp(TERMS)
    for c in range(k):
        _clear_squares(tiles[c])
        waiting[c] = zero
        counts[c] = zero
    first, last = np.uintp(begin), np.uintp(stop)
    for now in range(first, last, height):
        m = min(height, last - now)
        for c in range(k):
            ends[c] = zero
        for i in range(m):
            ends[np.uintp(code[now + i])] += one
        at = zero
        for c in range(k):
            if waiting[c] + ends[c] > most:
                if not _add_exact(tiles[c], found[c], counts, c):
                    return now
                waiting[c] = zero
            own = ends[c]
            ends[c] = at
            at += own
        for i in range(m):
            c = np.uintp(code[now + i])
            places[i] = ends[c]
            ends[c] += one
        if by_columns:
            _round_columns(X, now, np.uintp(n), factor, origin, limb, rows, places, m)
        else:
            for i in range(m):
                _round_some(X, (now + i) * d, one, factor, origin, limb, rows[places[i]])
        at = zero
        for c in range(k):
            if at < ends[c]:
                _add_squares(rows[at : ends[c]], tiles[c])
            waiting[c] += ends[c] - at
            at = ends[c]
    for c in range(k):
        if waiting[c] and _add_exact(tiles[c], found[c], counts, c):
            waiting[c] = zero
    return last
