# SPDX-License-Identifier: BSD-3-Clause
"""64-bit hashes of what rows hold: the same in any order, in any memory and on any machine.

The hash of a row is the sum over its columns of a(x) m, modulo 2^64. Here a turns the bits of a
number of double precision into a whole number, with a(0) = 0, and m is a fixed odd number of the
column. So float32 and float64, dense and sparse rows of equal values have equal hashes, and a
further column (a grade, a time) adds its own term. Sums of products leave structure, which
`mixed` takes away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

#: Numbers of a block, which stay in the cache of a processor.
_NUMBERS = 1 << 15
#: Up to this many numbers, NumPy finishes before a kernel would be loaded.
_FEW = 200_000
#: So many rows hold so many numbers that kernels are loaded already.
MANY = 100_000
#: The bits of infinity; those of NaN without their sign are larger.
_INFINITY = 0x7FF0000000000000
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
#: The difference of successive numbers of the sequence of SplitMix64.
STRIDE = np.uint64(0x9E3779B97F4A7C15)
#: The exponent and the first bits of the fraction come down to the last bits: those of short
#: numbers are zero, and the last bits of a product depend on the last bits of its factors alone.
_DOWN = np.uint64(43)
#: Columns beside the rows are counted from here.
_BESIDE = 1 << 40


def mixed(z: Hashes, seed: int = 0) -> Hashes:
    """Return 64 random bits of each number xor the seed (the end of SplitMix64).

    >>> mixed(np.array([0, 1], dtype=np.uint64)).tolist()
    [0, 6238072747940578789]
    """
    if z.size > MANY and z.flags.c_contiguous:
        from pairlearn.kernels.hashes import mix

        found = np.empty_like(z)
        mix(z.reshape(-1), np.uint64(seed), found.reshape(-1))
        return found
    z = z ^ np.uint64(seed)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def repeats(keys: Hashes) -> bool:
    """Tell whether a key, 64 random bits, occurs twice.

    >>> repeats(np.array([3, 1, 3], dtype=np.uint64)), repeats(np.arange(3, dtype=np.uint64))
    (True, False)
    """
    if len(keys) > MANY and keys.flags.c_contiguous:
        from pairlearn.kernels.hashes import find_suspects

        # With sixteen bits for each key, one in thirty finds a bit of another one by chance. These
        # are few enough for fewer bits, which stay in the nearest cache; then one in ten is a
        # suspect.
        n_bits = (16 * len(keys)).bit_length()
        seen = np.zeros((1 << n_bits) // 64, dtype=np.uint64)
        again = np.zeros((1 << (n_bits - 5)) // 64, dtype=np.uint64)
        suspects = np.empty(len(keys) // 4, dtype=np.uint64)
        down = np.uint64(64 - n_bits), np.uint64(64 - n_bits + 5)
        count = int(find_suspects(keys, *down, seen, again, suspects))
        if count < len(suspects):
            keys = suspects[:count]
    ranked = np.sort(keys)
    return bool((ranked[1:] == ranked[:-1]).any())


def row_hashes(X: Any) -> Hashes:
    """Return the hash of each row of a dense table or a CSR matrix.

    >>> X = np.array([[0.0, 1.5], [-0.0, 1.5], [1.5, 0.0]])
    >>> a, b, c = row_hashes(X).tolist()
    >>> a == b, a == c, row_hashes(X.astype(np.float32)).tolist() == [a, b, c]
    (True, False, True)
    """
    return hashes_and_sums(X)[0]


#: Of each column: lowest and highest value, first value, and the sums of what the values exceed
#: the first one by, and of its square.
Sums = tuple[NDArray[np.float64], ...]


def hashes_and_sums(X: Any) -> tuple[Hashes, float | None, Sums | None]:
    """Return the hash of each row, and what the same loop can tell of finite values.

    Of many values it can tell the largest absolute one, and if rows are dense and stored one after
    the other, sums of columns.

    >>> hashes_and_sums(np.eye(2))[1:], hashes_and_sums(3.0 * np.eye(500))[1]
    ((None, None), 3.0)
    """
    sparse = hasattr(X, "indptr")
    if sparse and not getattr(X, "has_canonical_format", True):
        X = X.copy()
        X.sum_duplicates()
    values = X.data if sparse else X
    if values.size > _FEW and values.dtype in _FLOATS and (sparse or X.flags.forc):
        if sparse:
            found, bits, sums = _many_sparse(X)
        else:
            found, bits, sums = (_many_dense if X.flags.c_contiguous else _many_in_columns)(X)
        if bits < _INFINITY:
            return found, float(np.uint64(bits).view(np.float64)), sums
        if bits == _INFINITY:
            return found, None, None
    return (_sparse_hashes if sparse else _dense_hashes)(X), None, None


def _many_dense(X: NDArray[Any]) -> tuple[Hashes, int, Sums]:
    """Return the hashes of many rows, the bits of the largest absolute value, and sums."""
    from pairlearn.kernels.hashes import LANES, hashed_sums

    n, d = X.shape
    found, room = np.empty(n, dtype=np.uint64), -(-d // LANES) * LANES
    marks = np.zeros(room, dtype=np.uint64)
    marks[:d] = _marks(np.arange(d))
    sums = np.zeros((5, room))
    bits = int(hashed_sums(_read_only(X), marks, _DOWN, found, *sums))
    return found, bits, tuple(sums[:, :d])


def _many_in_columns(X: NDArray[Any]) -> tuple[Hashes, int, None]:
    """Return the hashes of many rows of a table by columns, and the bits of the largest value."""
    from pairlearn.kernels.hashes import column_hashes

    found, marks = np.empty(len(X), dtype=np.uint64), _marks(np.arange(X.shape[1]))
    return found, int(column_hashes(_read_only(X.T), marks, _DOWN, found)), None


def _many_sparse(X: Any) -> tuple[Hashes, int, None]:
    """Return the hashes of many rows, and the bits of the largest absolute value."""
    from pairlearn.kernels.hashes import csr_hashes

    found = np.empty(X.shape[0], dtype=np.uint64)
    index = X.indices.astype(np.int32 if X.shape[1] <= 2**31 else np.int64, copy=False)
    ends = X.indptr.astype(np.int64, copy=False)
    bits = int(csr_hashes(*map(_read_only, (X.data, index, ends)), _DOWN, found))
    return found, bits, None


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers in one row, read-only, so that kernels see one type of array."""
    flat = np.asarray(values).reshape(-1)
    flat.flags.writeable = False
    return flat


def _dense_hashes(X: NDArray[Any]) -> Hashes:
    """Return the hashes of rows of a table, block by block."""
    n, d = X.shape
    found = np.empty(n, dtype=np.uint64)
    marks = _marks(np.arange(d))
    height = max(min(_NUMBERS // max(d, 1), n), 1)
    room = np.empty((height, d))
    down = np.empty((height, d), dtype=np.uint64)
    for start in range(0, n, height):
        stop = min(start + height, n)
        block = room[: stop - start]
        numbers = _numbers(X[start:stop], block, down[: stop - start])
        np.einsum("ij,j->i", numbers, marks, out=found[start:stop])
    return found


def with_column(hashes: Hashes, values: Any, number: int) -> Hashes:
    """Return hashes of rows that also hold a column beside the table.

    `number` tells such columns apart.

    >>> hashes = row_hashes(np.eye(2))
    >>> (with_column(hashes, [0.0, 2.0], 1) == hashes).tolist()
    [True, False]
    """
    column = np.asarray(values, dtype=np.float64)
    terms = _numbers(column, np.empty_like(column), np.empty(column.shape, dtype=np.uint64))
    return np.asarray(hashes + terms * _marks(np.array([_BESIDE + number])))


def _marks(columns: NDArray[Any]) -> Hashes:
    """Return the odd number of each column."""
    return np.asarray(mixed((columns.astype(np.uint64) + np.uint64(1)) * STRIDE) | np.uint64(1))


def _numbers(values: NDArray[Any], room: NDArray[np.float64], down: Hashes) -> Hashes:
    """Return a whole number for each value, 0 for zero; both arrays are written over."""
    # Adding 0.0 turns -0.0 into 0.0.
    np.add(values, 0.0, out=room)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(room.sum())
    if not finite:
        # The sign of a NaN depends on the processor.
        room[np.isnan(room)] = np.nan
    bits = room.view(np.uint64)
    np.right_shift(bits, _DOWN, out=down)
    return np.bitwise_xor(bits, down, out=bits)


def _sparse_hashes(X: Any) -> Hashes:
    """Return the hashes of rows of a CSR matrix without repeated entries."""
    sums = np.zeros(len(X.data) + 1, dtype=np.uint64)
    numbers = np.empty(min(_NUMBERS, len(X.data)))
    down = np.empty(len(numbers), dtype=np.uint64)
    for start in range(0, len(X.data), _NUMBERS):
        values = X.data[start : start + _NUMBERS]
        own = _numbers(values, numbers[: len(values)], down[: len(values)])
        np.multiply(own, _marks(X.indices[start : start + len(values)]), out=own)
        sums[start + 1 : start + 1 + len(values)] = own
    np.cumsum(sums, out=sums)
    return np.asarray(sums[X.indptr[1:]] - sums[X.indptr[:-1]])
