# SPDX-License-Identifier: BSD-3-Clause
"""Columns that stand apart in memory, written side by side as rows."""

from __future__ import annotations

import math

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pairlearn.kernels.decimal import jit


@intrinsic
def _double_at(typing_context, address):
    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.DoubleType().as_pointer())
        return builder.load(pointer, align=1)

    return types.float64(types.intp), generate


@jit
def gather(addresses, rows):
    """Write the doubles at each address into a column of `rows`; return whether all are finite.

    Rows are written in bands, so that a band stays in the cache while all columns pass.
    """
    n, d = rows.shape
    band = 64
    finite = True
    for begin in range(0, n, band):
        stop = min(n, begin + band)
        for k in range(d):
            for i in range(begin, stop):
                value = _double_at(addresses[k] + 8 * i)
                rows[i, k] = value
                finite &= math.isfinite(value)
    return finite
