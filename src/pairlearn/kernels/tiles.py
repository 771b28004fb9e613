# SPDX-License-Identifier: BSD-3-Clause
"""Products of small matrices, tile by tile, each tile held in registers.

Every number of a tile is a sum that keeps its order, as in a plain loop, so it has the same bits.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from pairlearn.kernels._native import elementwise_part, everywhere

#: Numbers in a register, and so the unit of the width of a tile.
LANES = 4


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
