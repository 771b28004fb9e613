# SPDX-License-Identifier: BSD-3-Clause
"""Hashes of rows, as `pairlearn.content` defines them, without a copy of the values.

Arrays
------
X : float64 or float32, shape (n * d,)
    Examples, row after row, or their columns.
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

from pairlearn.kernels._native import as_written, double_bits, jit, part_as_written, prefetch
from pairlearn.kernels.scales import AHEAD, LANES
from pairlearn.kernels.splitmix import STRIDE, mixed
from pairlearn.kernels.steps.vectors import (
    BYTES,
    bits_of,
    folded,
    greater,
    largest_of,
    lesser,
    masked,
    minus,
    plus,
    plus_product,
    plus_whole_product,
    read,
    read_doubles,
    read_first_doubles,
    total,
    write,
)

#: Rows whose hashes stay in the nearest cache while all columns are added to them.
_HEIGHT = 512
#: All bits but the sign.
_SIZE = np.uint64(0x7FFFFFFFFFFFFFFF)


@jit(cache=False, forceinline=True)
def _number(value, down):
    """Return the whole number of a value; adding 0.0 turns -0.0 into 0.0."""
    bits = double_bits(np.float64(value) + 0.0)
    return bits ^ (bits >> down), bits & _SIZE


@part_as_written
def _take_two(x, z, k, marks, down, found, sums):
    """Add eight columns of two rows to the sums of columns; return what is `found` with them."""
    first, second, largest = found
    low, high, shift, total_, squares = sums
    for_x, for_z, mark = bits_of(x), bits_of(z), read(marks, k)
    first = plus_whole_product(first, folded(for_x, down), mark)
    second = plus_whole_product(second, folded(for_z, down), mark)
    largest = greater(masked(for_x, _SIZE), greater(masked(for_z, _SIZE), largest))
    write(low, k, lesser(lesser(x, z), read(low, k)))
    write(high, k, greater(greater(x, z), read(high, k)))
    typical = read(shift, k)
    x, z = minus(x, typical), minus(z, typical)
    write(total_, k, plus(read(total_, k), plus(x, z)))
    write(squares, k, plus_product(plus_product(read(squares, k), x, x), z, z))
    return first, second, largest


@as_written
def hashed_sums(X, marks, down, hashes, low, high, shift, total_, squares):
    """Fill the hashes of dense rows and the sums of their columns, two rows at once.

    Sums are those of `pairlearn.kernels.scales`. They and `marks` have as many entries as whole
    vectors have; the last entries belong to no column and are 0.
    """
    n = np.uintp(len(hashes))
    d = np.uintp(len(X)) // n
    lanes, one, line = np.uintp(LANES), np.uintp(1), np.uintp(BYTES // X.itemsize)
    sums = (low, high, shift, total_, squares)
    for k in range(d):
        low[k] = high[k] = shift[k] = np.float64(X[k])
    whole = d - d % lanes
    largest = read(marks, np.uintp(0))
    largest = masked(largest, np.uint64(0))
    nothing = largest
    for i in range(np.uintp(0), n, np.uintp(2)):
        at = i * d
        # The last row of an odd number is paired with the first one, whose excess is zero.
        other = at + d if i + one < n else np.uintp(0)
        for k in range(np.uintp(0), d + d, line):
            prefetch(X, at + k + AHEAD * line)
        found = (nothing, nothing, largest)
        k = np.uintp(0)
        while k < whole:
            x, z = read_doubles(X, at + k), read_doubles(X, other + k)
            found = _take_two(x, z, k, marks, down, found, sums)
            k += lanes
        if k < d:
            x = read_first_doubles(X, at + k, d - k)
            z = read_first_doubles(X, other + k, d - k)
            found = _take_two(x, z, k, marks, down, found, sums)
        hashes[i] = total(found[0])
        if i + one < n:
            hashes[i + one] = total(found[1])
        largest = found[2]
    return largest_of(largest)


@as_written
def column_hashes(X, marks, down, hashes):
    """Fill the hashes of the rows of a table that is stored column after column."""
    n, d, height = np.uintp(len(hashes)), np.uintp(len(marks)), np.uintp(_HEIGHT)
    largest = np.uint64(0)
    for begin in range(np.uintp(0), n, height):
        stop = min(begin + height, n)
        for i in range(begin, stop):
            hashes[i] = np.uint64(0)
        for k in range(d):
            at, mark = k * n, marks[k]
            for i in range(begin, stop):
                number, size = _number(X[at + i], down)
                hashes[i] += number * mark
                largest = size if size > largest else largest
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
def mix(z, seed, out):
    """Fill `out` with the random bits of each number xor the seed."""
    for k in range(len(z)):
        out[k] = mixed(z[k] ^ seed)


@as_written
def find_suspects(keys, down, further, seen, again, suspects):
    """Fill `suspects` with keys that may occur twice; return how many there are.

    `seen` holds a bit for each value of the first bits of a key, those that are left when the key
    is shifted `down`, and `again` for those that are left when it is shifted `further`. A key that
    finds its bit set in `seen` sets one in `again`, and all keys of that bit are suspects. If they
    do not fit, their number is that of the array.
    """
    one, low = np.uint64(1), np.uint64(63)
    for k in range(np.uintp(len(keys))):
        place = keys[k] >> down
        word, bit = place >> np.uint64(6), one << (place & low)
        held = seen[word]
        seen[word] = held | bit
        if held & bit:
            place = keys[k] >> further
            again[place >> np.uint64(6)] |= one << (place & low)
    count = np.uintp(0)
    for k in range(np.uintp(len(keys))):
        place = keys[k] >> further
        if (again[place >> np.uint64(6)] >> (place & low)) & one:
            if count == np.uintp(len(suspects)):
                break
            suspects[count] = keys[k]
            count += np.uintp(1)
    return count
