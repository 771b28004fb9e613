# SPDX-License-Identifier: BSD-3-Clause
"""Products of small matrices, tile by tile, each tile held in registers.

Every number of a tile is a sum that keeps its order, as in a plain loop, so it has the same bits.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from pairlearn.kernels._native import everywhere

#: Numbers in a register, and so the unit of the width of a tile.
LANES = 4


def padded(n):
    """Return n, rounded up to whole registers.

    >>> padded(8), padded(9)
    (8, 12)
    """
    return -(-n // LANES) * LANES


def tile_of(height, width, sign=1):
    """Return a function that adds a product A B to a tile, or with ``sign=-1`` subtracts it.

    The tile has `height` rows and ``LANES * width`` columns. The function takes addresses and
    distances in bytes: of A, of its next row and next column; of B, whose rows are contiguous, and
    of its next row; the number of terms of each sum; of the tile, and of its next row.
    """

    def generate(context, builder, signature, arguments):
        """Emit code: load the tile, run through the terms, store the tile."""
        a, a_row, a_step, b, b_step, n, out, out_row = arguments
        size, vector = a.type, ir.VectorType(ir.DoubleType(), LANES)
        # Rounded once where the machine can, as in kernels whose loops may contract.
        together = {"flags": ["contract", "nsz"]}

        def at(begin, distance, times, column=0):
            moved = builder.add(begin, builder.mul(distance, size(times)))
            return builder.add(moved, size(8 * LANES * column))

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
                spread = everywhere(builder, number, LANES)
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
