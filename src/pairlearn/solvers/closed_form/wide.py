# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of whole numbers without a limit, in limbs of 32 bits.

A number is the sum of ``limbs[l] * 2**(32 * l)``. All limbs but the last lie between 0 and
2^32 - 1; the last one has the sign and may be larger. There are as many limbs as the largest number
needs. Every operation is exact and takes time linear in the number of limbs.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.typing import Vector

#: Bits of a limb, and the numbers that it holds.
_BITS, _MASK = 32, (1 << 32) - 1
#: A last limb beyond this size is split before more is added to it.
_ROOM = 1 << 61
#: The largest factor of `times`: its product with a limb, and a carry, fit into 64 bits.
LARGEST_FACTOR = 1 << 29
#: Numbers of more limbs than this may lie beyond the range of a float.
_MOST_AS_FLOATS = 24

Whole = NDArray[np.int64]


class Wide:
    """An array of whole numbers of any size.

    Parameters
    ----------
    limbs : list of ndarray of int64
        The limbs, the lowest first, all of one shape; they are carried here.

    Examples
    --------
    >>> big = Wide.of([1 << 100, -3])
    >>> (big + big).numbers().tolist() == [1 << 101, -6]
    True
    """

    def __init__(self, limbs: list[Whole]) -> None:
        for low in range(len(limbs) - 1):
            limbs[low + 1] = limbs[low + 1] + (limbs[low] >> _BITS)
            limbs[low] = limbs[low] & _MASK
        last = limbs[-1]
        if last.size and max(int(last.max()), -int(last.min())) >= _ROOM:
            limbs = [*limbs[:-1], last & _MASK, last >> _BITS]
        self.limbs = limbs

    @classmethod
    def zeros(cls, shape: int | tuple[int, ...]) -> Self:
        """Return zeros."""
        return cls([np.zeros(shape, dtype=np.int64)])

    @classmethod
    def of(cls, numbers: ArrayLike) -> Self:
        """Return the numbers of an array of int64 or of Python's whole numbers."""
        values = np.asarray(numbers)
        if values.dtype != object:
            return cls([values.astype(np.int64)])
        low, high = (int(end(values, initial=0)) for end in (np.min, np.max))
        limbs: list[Whole] = []
        while max(-low, high) >= _ROOM:
            limbs.append((values & _MASK).astype(np.int64))
            values, low, high = values >> _BITS, low >> _BITS, high >> _BITS
        return cls([*limbs, values.astype(np.int64)])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.limbs[0].shape

    def numbers(self) -> NDArray[Any]:
        """Return Python's whole numbers, in an array of objects."""
        found = self.limbs[-1].astype(object)
        for limb in self.limbs[-2::-1]:
            found = (found << _BITS) + limb.astype(object)
        return np.asarray(found, dtype=object)

    def __add__(self, other: Wide) -> Wide:
        return self._joined(other, 1)

    def __sub__(self, other: Wide) -> Wide:
        return self._joined(other, -1)

    def _joined(self, other: Wide, sign: int) -> Wide:
        a, b = self.limbs, other.limbs
        longer = max(len(a), len(b))
        if len(a) != len(b):
            a, b = self._stretched(longer), other._stretched(longer)
        return Wide([x + y if sign > 0 else x - y for x, y in zip(a, b, strict=True)])

    def _stretched(self, length: int) -> list[Whole]:
        """Return so many limbs of the same numbers."""
        limbs = list(self.limbs)
        while len(limbs) < length:
            limbs = [*limbs[:-1], limbs[-1] & _MASK, limbs[-1] >> _BITS]
        return limbs

    def _split(self) -> list[Whole]:
        """Return limbs of which the last one, too, is below 2^31 in size."""
        return self._stretched(len(self.limbs) + 1)

    def times(self, factor: Whole) -> Wide:
        """Return the products with whole numbers of at most `LARGEST_FACTOR` in size."""
        return Wide([limb * factor for limb in self._split()])

    def shifted(self, bits: int) -> Wide:
        """Return the numbers times 2^bits."""
        if not bits:
            return self
        whole, rest = divmod(bits, 16)
        limbs = [np.zeros(self.shape, dtype=np.int64)] * (whole // 2) + self._split()
        if whole % 2:
            limbs = Wide([limb << 16 for limb in limbs])._split()
        return Wide([limb << rest for limb in limbs])

    def __getitem__(self, places: Any) -> Wide:
        return Wide([limb[places] for limb in self.limbs])

    def floats(self, exponents: NDArray[np.int64] | int = 0) -> Vector:
        """Return the nearest floats, or ones next to them, of the numbers times 2^exponents."""
        if len(self.limbs) > _MOST_AS_FLOATS:
            pairs = np.broadcast(self.numbers(), exponents)
            found = np.array([scaled_quotient(n, 1, int(e)) for n, e in pairs], dtype=np.float64)
            return np.asarray(found.reshape(self.shape))
        # The size first: limbs below a negative one would cancel.
        negative = self.limbs[-1] < 0
        sign = np.where(negative, np.int64(-1), np.int64(1))
        size = Wide([limb * sign for limb in self._split()])._split()
        total = np.zeros(self.shape)
        for place, limb in enumerate(size):
            total = total + limb.astype(np.float64) * 2.0 ** (_BITS * place)
        with np.errstate(over="ignore"):
            return np.asarray(np.ldexp(np.where(negative, -total, total), exponents))

    def packed(self) -> NDArray[np.uint8]:
        """Return the numbers as bytes, the lowest first, in as few as the largest one needs.

        Equal numbers have equal bytes, whatever happened before. Negative ones are complements.
        """
        limbs = self._split()
        # A limb that only goes on with the sign of the one below says nothing.
        limbs[-1] = limbs[-1] & _MASK
        while len(limbs) > 1 and np.array_equal(limbs[-1], -(limbs[-2] >> (_BITS - 1)) & _MASK):
            limbs = limbs[:-1]
        last = limbs[-1].astype(np.uint32).view(np.int32)
        size = max(int(last.max()), ~int(last.min())) if last.size else 0
        width = 4 * (len(limbs) - 1) + size.bit_length() // 8 + 1
        found = np.empty((*self.shape, len(limbs)), dtype="<u4")
        for place, limb in enumerate(limbs):
            found[..., place] = limb.astype(np.uint32)
        return np.ascontiguousarray(found.view(np.uint8)[..., :width])

    @classmethod
    def unpacked(cls, found: NDArray[np.uint8]) -> Self:
        """Return the numbers whose `packed` bytes these are."""
        width = found.shape[-1]
        length = -(-width // 4)
        filled = np.empty((*found.shape[:-1], 4 * length), dtype=np.uint8)
        filled[..., :width] = found
        filled[..., width:] = np.where(found[..., -1:] & 0x80, 0xFF, 0)
        limbs = filled.view("<u4").astype(np.int64)
        made = [np.ascontiguousarray(limbs[..., k]) for k in range(length)]
        made[-1] = made[-1].astype(np.uint32).view(np.int32).astype(np.int64)
        return cls(made)


def scaled_quotient(number: int, divisor: int, exponent: int) -> float:
    """Return number / divisor * 2^exponent for a positive divisor, rounded once.

    >>> scaled_quotient(1, 3, 1), scaled_quotient(-(1 << 2000), 1, 0)
    (0.6666666666666666, -inf)
    """
    if exponent >= 0:
        number <<= exponent
    else:
        divisor <<= -exponent
    try:
        return number / divisor
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
