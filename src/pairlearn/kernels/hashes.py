# SPDX-License-Identifier: BSD-3-Clause
"""Hashes of rows, as `pairlearn.content` defines them, without a copy of the values.

Arrays
------
X : float64 or float32, shape (n * d,)
    Examples, row after row.
data, indices, indptr
    The arrays of a CSR matrix.
marks : uint64, shape (d,)
    The odd number of each column.
down : uint64
    By how much bits come down to the last ones.
hashes : uint64, shape (n,)
    Filled.

Hashes come with the bits of the largest absolute value, which is returned. Bits above those of
infinity mean that there is a NaN, whose sign depends on the processor; hashes of such rows are not
to be used.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pairlearn.kernels._native import as_written, jit
from pairlearn.kernels.splitmix import STRIDE, mixed

#: All bits but the sign.
_SIZE = np.uint64(0x7FFFFFFFFFFFFFFF)


@intrinsic
def _bits(typingctx, value):
    """Return the bits of a number of double precision."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), codegen


@jit(cache=False, forceinline=True)
def _number(value, down):
    """Return the whole number of a value; adding 0.0 turns -0.0 into 0.0."""
    bits = _bits(np.float64(value) + 0.0)
    return bits ^ (bits >> down), bits & _SIZE


@as_written
def dense_hashes(X, marks, down, hashes):
    """Fill the hashes of dense rows, two at once."""
    d = np.uintp(len(marks))
    n = np.uintp(len(hashes))
    largest = np.uint64(0)
    whole = n - n % np.uintp(2)
    for i in range(np.uintp(0), whole, np.uintp(2)):
        first, second = np.uint64(0), np.uint64(0)
        at = i * d
        for k in range(d):
            number_0, size_0 = _number(X[at + k], down)
            number_1, size_1 = _number(X[at + d + k], down)
            size = size_0 if size_0 > size_1 else size_1
            largest = size if size > largest else largest
            first += number_0 * marks[k]
            second += number_1 * marks[k]
        hashes[i], hashes[i + np.uintp(1)] = first, second
    for i in range(whole, n):
        total = np.uint64(0)
        for k in range(d):
            number, size = _number(X[i * d + k], down)
            largest = size if size > largest else largest
            total += number * marks[k]
        hashes[i] = total
    return largest


@as_written
def csr_hashes(data, indices, indptr, down, hashes):
    """Fill the hashes of sparse rows without repeated entries; it reads nothing outside `data`."""
    largest = np.uint64(0)
    for i in range(len(hashes)):
        total = np.uint64(0)
        for p in range(max(indptr[i], 0), min(indptr[i + 1], len(data))):
            number, size = _number(data[p], down)
            largest = size if size > largest else largest
            column = np.uint64(indices[p]) + np.uint64(1)
            total += number * (mixed(column * STRIDE) | np.uint64(1))
        hashes[i] = total
    return largest


@as_written
def mix(z, out):
    """Fill `out` with the random bits of each number."""
    for k in range(len(z)):
        out[k] = mixed(z[k])
