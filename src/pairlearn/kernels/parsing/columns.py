# SPDX-License-Identifier: BSD-3-Clause
"""Gather columns from separate places in memory into rows, and digest them on the way."""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pairlearn.kernels._native import inline, jit
from pairlearn.kernels.parsing.decimal import double_at
from pairlearn.kernels.parsing.running_digest import BLOCK, digest_bytes

#: Rows and columns of a tile, which is transposed in registers.
_TILE = 4


@intrinsic
def _turn_tile(typing_context, columns, place, row_bytes):
    """Write four doubles at each of four addresses as columns of a tile; 0 if all are finite.

    `columns` holds the addresses. The tile begins at the address `place`, and its rows are
    `row_bytes` apart.
    """

    def generate(context, builder, signature, arguments):
        """Emit code: load four vectors, transpose them by shuffles, and store them as rows."""
        addresses, place, row_bytes = arguments
        vector = ir.VectorType(ir.DoubleType(), _TILE)
        lanes = ir.VectorType(ir.IntType(32), _TILE)

        def shuffled(a, b, order):
            return builder.shuffle_vector(a, b, ir.Constant(lanes, order))

        read = []
        for k in range(_TILE):
            address = builder.extract_value(addresses, k)
            read.append(builder.load(builder.inttoptr(address, vector.as_pointer()), align=1))
        # x - x is 0 if x is finite and NaN otherwise; the sum stays NaN.
        checks = [builder.fsub(column, column) for column in read]
        check = builder.fadd(builder.fadd(*checks[:2]), builder.fadd(*checks[2:]))
        a, b, c, d = read
        low = shuffled(a, b, [0, 4, 2, 6]), shuffled(c, d, [0, 4, 2, 6])
        high = shuffled(a, b, [1, 5, 3, 7]), shuffled(c, d, [1, 5, 3, 7])
        for order in ([0, 1, 4, 5], [2, 3, 6, 7]):
            for both in (low, high):
                row = shuffled(*both, order)
                builder.store(row, builder.inttoptr(place, vector.as_pointer()), align=8)
                place = builder.add(place, row_bytes)
        flags = builder.bitcast(builder.fcmp_unordered("uno", check, check), ir.IntType(_TILE))
        return builder.zext(flags, ir.IntType(64))

    return types.intp(types.UniTuple(types.intp, _TILE), types.intp, types.intp), generate


@jit
def _gather_tiles(addresses, first, place, n, d):
    """Write whole tiles to the rows from `place` on; return 0 if all are finite."""
    flaws = 0
    tile = np.uintp(_TILE)
    for i in range(0, n - _TILE + 1, _TILE):
        begin = 8 * (first + i)
        for k in range(np.uintp(0), np.uintp(d) // tile * tile, tile):
            columns = (
                addresses[k] + begin,
                addresses[k + np.uintp(1)] + begin,
                addresses[k + np.uintp(2)] + begin,
                addresses[k + np.uintp(3)] + begin,
            )
            flaws |= _turn_tile(columns, place + 8 * (i * d + np.int64(k)), 8 * d)
    return flaws


@inline
def _gather(addresses, first, rows):
    """Write the doubles from number `first` on at each address into a column of `rows`."""
    n, d = rows.shape
    whole_rows = whole_columns = flaws = 0
    if rows.itemsize == 8:
        whole_rows, whole_columns = n // _TILE * _TILE, d // _TILE * _TILE
        flaws = _gather_tiles(addresses, first, rows.ctypes.data, n, d)
    finite = flaws == 0
    for i in range(n):
        for k in range(whole_columns if i < whole_rows else 0, d):
            value = double_at(addresses[np.uintp(k)] + 8 * (first + i))
            rows[np.uintp(i), np.uintp(k)] = value
            finite &= math.isfinite(value)
    return finite


@jit
def gather(addresses, rows, step, state, held):
    """Write the doubles at each address into a column of `rows`; return whether all are finite.

    It works row by row: a cache line read from a column serves the next rows too, and writing
    columns would fetch each line of `rows` several times. Tiles of four rows and four columns are
    transposed in registers. Pieces of `step` rows are added to a digest while they are in the
    cache; see `digest_bytes` for its `state` and `held`.
    """
    finite = True
    for first in range(0, len(rows), step):
        piece = rows[first : first + step]
        finite &= _gather(addresses, first, piece)
        size = piece.size * piece.itemsize
        digest_bytes(piece.ctypes.data, size, state, held, 0)
        held = (held + size) % BLOCK
    return finite
