# SPDX-License-Identifier: BSD-3-Clause
"""64-bit hashes of what rows hold: the same in any order, in any chunks and on any machine.

The hash of a row is the sum over its columns of a(x) m, modulo 2^64. Here a turns the bits of a
number of double precision into a whole number, with a(0) = 0, and m is a fixed odd number of the
column. So float32 and float64, dense and sparse rows of equal values have equal hashes, and a
further column (a grade, a time) adds its own term. Exact moments draw the sample that chooses
their ridge by these hashes, and engines see by them whether a source gave the same rows again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

#: Numbers of a block, which stay in the cache of a processor.
_NUMBERS = 1 << 15
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
    z = z ^ np.uint64(seed)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def keys_of(hashes: Hashes, seed: int) -> Hashes:
    """Return a key of each example, a function of its hash and a seed."""
    bits = mixed(np.array([(seed + int(STRIDE)) % 2**64], dtype=np.uint64))
    return mixed(hashes, int(bits[0]))


def row_hashes(X: Any) -> Hashes:
    """Return the hash of each row of a dense table or a CSR matrix.

    >>> X = np.array([[0.0, 1.5], [-0.0, 1.5], [1.5, 0.0]])
    >>> a, b, c = row_hashes(X).tolist()
    >>> a == b, a == c, row_hashes(X.astype(np.float32)).tolist() == [a, b, c]
    (True, False, True)
    """
    if not hasattr(X, "indptr"):
        height = max(_NUMBERS // max(X.shape[1], 1), 1)
        marks = _marks(np.arange(X.shape[1]))
        blocks = [_numbers(X[k : k + height]) @ marks for k in range(0, len(X), height)]
        return np.concatenate([np.empty(0, dtype=np.uint64), *blocks])
    if not getattr(X, "has_canonical_format", True):
        X = X.copy()
        X.sum_duplicates()
    terms = _numbers(X.data) * _marks(X.indices)
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return np.asarray(sums[X.indptr[1:]] - sums[X.indptr[:-1]])


def with_column(hashes: Hashes, values: Any, number: int) -> Hashes:
    """Return hashes of rows that also hold a column beside the table.

    `number` tells such columns apart.

    >>> hashes = row_hashes(np.eye(2))
    >>> (with_column(hashes, [0.0, 2.0], 1) == hashes).tolist()
    [True, False]
    """
    return np.asarray(hashes + _numbers(values) * _marks(np.array([_BESIDE + number])))


def _marks(columns: NDArray[Any]) -> Hashes:
    """Return the odd number of each column."""
    return np.asarray(mixed((columns.astype(np.uint64) + np.uint64(1)) * STRIDE) | np.uint64(1))


def _numbers(values: Any) -> Hashes:
    """Return a whole number for each value, 0 for zero."""
    numbers = np.asarray(values, dtype=np.float64) + 0.0  # -0.0 becomes 0.0
    numbers[np.isnan(numbers)] = np.nan  # whose sign depends on the processor
    bits = numbers.view(np.uint64)
    return np.asarray(np.bitwise_xor(bits, bits >> _DOWN))
