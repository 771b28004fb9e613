# SPDX-License-Identifier: BSD-3-Clause
"""Columns that stand apart in memory, written side by side as rows."""

from __future__ import annotations

import math

import numpy as np
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

    Row by row: a line of the cache that is read from a column serves the next rows as well, while
    lines written from several sides would be fetched before they are written.
    """
    n, d = rows.shape
    finite = True
    for i in range(n):
        for k in range(d):
            value = _double_at(addresses[np.uintp(k)] + 8 * i)
            rows[np.uintp(i), np.uintp(k)] = value
            finite &= math.isfinite(value)
    return finite
