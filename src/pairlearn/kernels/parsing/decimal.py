# SPDX-License-Identifier: BSD-3-Clause
"""Decimal text to the nearest double, in machine code.

Numbers are read eight digits at a time. A decimal ``w * 10**q`` with ``w <= 2**53`` and
``|q| <= 22`` is one exact operation (Clinger, 1990); other values with at most 19 digits use a
128-bit product (Lemire, "Number parsing at a gigabyte per second", 2021); both give the double
nearest to the decimal, ties to even, as ``float()`` does. Undecided cases are reported.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pairlearn.kernels._native import everywhere, inline, jit

_NEWLINE, _PLUS, _MINUS, _DOT, _ZERO = 10, 43, 45, 46, 48
_LETTER, _CAPITAL = 101, 69  # e, E
#: The bytes of a number that are looked at together.
_TOGETHER = 32
#: Memory must extend this far past the text.
LOOK_AHEAD = 2 * _TOGETHER

_ZEROS = np.uint64(0x3030303030303030)
_BIAS = np.uint64(0x7676767676767676)
_HIGH = np.uint64(0x8080808080808080)
_PAIRS = np.uint64(0x000000FF000000FF)
_FIRST = np.uint64(100 + (1000000 << 32))
_SECOND = np.uint64(1 + (10000 << 32))

_SMALLEST_POWER, _LARGEST_POWER = -300, 290  # beyond, Python decides (subnormal, overflow)


def _powers_of_five() -> np.ndarray:
    """128 leading bits of 5**q, truncated; for -27 <= q < 0 they are rounded up.

    Behind them is the exponent of 10**q, plus what `_rounded` adds to every exponent; the rest of a
    row brings its size to a power of two.
    """
    table = np.zeros((_LARGEST_POWER - _SMALLEST_POWER + 1, 4), dtype=np.uint64)
    for q in range(_SMALLEST_POWER, _LARGEST_POWER + 1):
        if q >= 0:
            power = 5**q
            shift = power.bit_length() - 128
            bits = power >> shift if shift > 0 else power << -shift
        else:
            power = 5**-q
            z = (power - 1).bit_length()
            bits = (1 << (z + 127 if q >= -27 else 2 * z + 128)) // power + 1
            bits >>= max(0, bits.bit_length() - 128)
        exponent = (217706 * q >> 16) + 63 + 1023
        table[q - _SMALLEST_POWER, :3] = (bits >> 64, bits & (2**64 - 1), exponent % 2**64)
    return table


_FIVES = _powers_of_five()
_TENS = np.array([10**k for k in range(20)], dtype=np.uint64)
_ROOM = np.array([10 ** (19 - k) for k in range(9)], dtype=np.uint64)
_SIGNS = np.array([1.0, -1.0])
_EXACT_TENS = np.array([10.0**k for k in range(23)], dtype=np.float64)


@intrinsic
def _word(typing_context, address):
    """Eight bytes at any address, as a little-endian word."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(types.intp), generate


def _vector(bits, size):
    return ir.VectorType(ir.IntType(bits), size // bits)


def _bytes_at(builder, address, n):
    pointer = builder.inttoptr(address, _vector(8, 8 * n).as_pointer())
    return builder.load(pointer, align=1)


def _as_flags(builder, flags):
    return builder.zext(builder.bitcast(flags, ir.IntType(_TOGETHER)), ir.IntType(64))


@intrinsic
def _others(typing_context, address):
    """Which of the bytes at an address are no digits: the lowest bit for the first."""

    def generate(context, builder, signature, arguments):
        zero, nine = (everywhere(builder, ir.IntType(8)(k), _TOGETHER) for k in (_ZERO, 9))
        shifted = builder.sub(_bytes_at(builder, arguments[0], _TOGETHER), zero)
        return _as_flags(builder, builder.icmp_unsigned(">", shifted, nine))

    return types.uint64(types.intp), generate


@intrinsic
def _points(typing_context, address):
    """Which of the bytes at an address are points: the lowest bit for the first."""

    def generate(context, builder, signature, arguments):
        point = everywhere(builder, ir.IntType(8)(_DOT), _TOGETHER)
        text = _bytes_at(builder, arguments[0], _TOGETHER)
        return _as_flags(builder, builder.icmp_unsigned("==", text, point))

    return types.uint64(types.intp), generate


@intrinsic
def _sixteen_digits(typing_context, address, skipped, point, n):
    """Return the number of n digits at an address, filled up with zeros to sixteen digits.

    `skipped` bytes behind the first `point` digits are left out. More than sixteen digits are cut.
    """

    def generate(context, builder, signature, arguments):
        """Emit code: join two loads, and add up neighbours in lanes of 16, 32 and 64 bits."""
        address, skipped, point, n = arguments
        places = ir.Constant(_vector(8, 128), list(range(16)))

        def same(bits, value):
            return ir.Constant(_vector(bits, 128), [value] * (128 // bits))

        def first(count):
            edge = everywhere(builder, builder.trunc(count, ir.IntType(8)), 16)
            return builder.icmp_unsigned("<", places, edge)

        whole = _bytes_at(builder, address, 16)
        fraction = _bytes_at(builder, builder.add(address, skipped), 16)
        digits = builder.sub(builder.select(first(point), whole, fraction), same(8, _ZERO))
        lanes = builder.bitcast(builder.select(first(n), digits, same(8, 0)), _vector(16, 128))
        # Bytes a and b: the upper byte of (a + 256 b) (1 + 2560) is 10 a + b.
        lanes = builder.lshr(builder.mul(lanes, same(16, 2561)), same(16, 8))
        for bits, factor in ((32, 100), (64, 10000)):
            half = bits // 2
            lanes = builder.bitcast(lanes, _vector(bits, 128))
            upper = builder.lshr(lanes, same(bits, half))
            lower = builder.and_(lanes, same(bits, (1 << half) - 1))
            lanes = builder.add(builder.mul(lower, same(bits, factor)), upper)
        high, low = (builder.extract_element(lanes, ir.IntType(32)(k)) for k in range(2))
        return builder.add(builder.mul(high, high.type(10**8)), low)

    return types.uint64(types.intp, types.intp, types.uint64, types.uint64), generate


@intrinsic
def byte_at(typing_context, address):
    """One byte at an address, as a signed integer."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer, align=1), ir.IntType(64))

    return types.intp(types.intp), generate


@intrinsic
def integer_at(typing_context, address):
    """Return a signed integer of eight bytes at an address."""

    def generate(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))

    return types.intp(types.intp), generate


@intrinsic
def double_at(typing_context, address):
    """Return a double at an address."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.DoubleType().as_pointer())
        return builder.load(pointer, align=1)

    return types.float64(types.intp), generate


@intrinsic
def put_double(typing_context, address, value):
    """Write a double to an address."""

    def generate(context, builder, signature, arguments):
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.DoubleType().as_pointer()))
        return context.get_dummy_value()

    return types.void(types.intp, types.float64), generate


@intrinsic
def put_single(typing_context, address, value):
    """Round a double to single precision and write it to an address."""

    def generate(context, builder, signature, arguments):
        single = builder.fptrunc(arguments[1], ir.FloatType())
        builder.store(single, builder.inttoptr(arguments[0], ir.FloatType().as_pointer()))
        return context.get_dummy_value()

    return types.void(types.intp, types.float64), generate


@intrinsic
def _trailing_zeros(typing_context, value):
    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def _leading_zeros(typing_context, value):
    def generate(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@intrinsic
def _high_product(typing_context, a, b):
    """Upper 64 bits of the 128-bit product."""

    def generate(context, builder, signature, arguments):
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def _as_bits(typing_context, value):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.uint64(types.float64), generate


@intrinsic
def _as_double(typing_context, bits):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), generate


@inline
def _rounded(w, q):
    """Return the bits of the double nearest to w * 10**q, and what tells whether it is.

    These are the exponent of its bits, and the lower part of the product.
    """
    zeros = _leading_zeros(w | np.uint64(1))
    k = np.uint64(q - _SMALLEST_POWER)
    w = w << zeros
    high, low = _high_product(w, _FIVES[k, 0]), w * _FIVES[k, 0]
    # The second product seldom matters; a branch that finds out costs as much.
    carry = _high_product(w, _FIVES[k, 1])
    low += carry
    high += np.uint64(carry > low)
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    mantissa = high >> shift
    exponent = np.int64(_FIVES[k, 2] + upper - zeros)
    if low <= np.uint64(1):
        if w == np.uint64(0):
            return w, 1, low
        if (
            q >= -4
            and q <= 23
            and (mantissa & np.uint64(3)) == np.uint64(1)
            and (mantissa << shift) == high
        ):
            mantissa = mantissa & ~np.uint64(1)  # a tie: round to even
    mantissa = (mantissa + np.uint64(1)) >> np.uint64(1)
    # A mantissa of 2**53 carries into the exponent: its own bits are then all 0.
    bits = (np.uint64(exponent - 1) << np.uint64(52)) + mantissa
    return bits, exponent, low


@jit(cache=False)
def _nearest_double(w, q):
    """Return the double nearest to w * 10**q, w > 0; (False, 0.0) if it cannot decide."""
    if q < _SMALLEST_POWER or q > _LARGEST_POWER:
        return False, 0.0
    bits, exponent, low = _rounded(w, q)
    if low == np.uint64(0xFFFFFFFFFFFFFFFF) and (q < -27 or q > 55):
        return False, 0.0
    if exponent <= 0 or exponent >= 2046:
        return False, 0.0
    return True, _as_double(bits)


@inline
def _eight_digits(x):
    """Return the number of eight digits, given minus the character 0, first in the lowest byte."""
    x = x * np.uint64(10) + (x >> np.uint64(8))
    return ((x & _PAIRS) * _FIRST + ((x >> np.uint64(16)) & _PAIRS) * _SECOND) >> np.uint64(32)


@inline
def _few_digits(p, n, point, dotted):
    """Return the number of n <= 7 digits at p, as `_sixteen_digits` does without zeros behind."""
    # Without a point, both words are the same.
    before = (np.uint64(1) << (np.uint64(8) * (point))) - np.uint64(1)
    x = ((_word(p) & before) | (_word(p + dotted) & ~before)) ^ _ZEROS
    return _eight_digits(x << (np.uint64(64) - np.uint64(8) * n))


@inline
def _digits_of(p, n, point, dotted):
    """Return the number of n digits at p, with a point behind the first `point` if `dotted`.

    There are 16 to 20 digits, at most 16 of them before the point, and the number is less than
    2**64.
    """
    more = n - np.uint64(16)
    # Up to four digits, with zeros before them, whose neighbours are added up.
    x = (_word(p + 16 + dotted) ^ _ZEROS) << (np.uint64(32) - np.uint64(8) * more)
    x = (x & np.uint64(0xFFFFFFFF)) * np.uint64(2561) >> np.uint64(8)
    x = (x & np.uint64(0x00FF00FF)) * np.uint64(6553601) >> np.uint64(16)
    first = _sixteen_digits(p, dotted, point, np.uint64(16))
    return first * _TENS[more] + (x & np.uint64(0xFFFF))


@inline
def _look_at(p):
    """Return the end of the plain decimal at p, and whether it is one that the quick ways read.

    It has up to 20 digits, less than 2**64, with a minus or a point or both or neither. All bytes
    are examined at once. Also returned are whether it is negative (0 or 1), the number of digits,
    how many of them stand before the point, and whether there is a point (0 or 1).
    """
    negative = np.uint64(byte_at(p) == _MINUS)
    others = _others(p) & ~negative
    # The first other byte is the point, and the second one ends the number; or there is no point.
    dot = _points(p) & others & -others
    dotted = np.uint64(dot != np.uint64(0))
    place, size = _trailing_zeros(others), _trailing_zeros(others ^ dot)
    n = size - negative - dotted
    point = place - negative
    plain = n - np.uint64(1) <= np.uint64(18)
    if not plain:
        plain = n == np.uint64(20) and byte_at(p + np.int64(negative)) == _ZERO
    return p + np.int64(size), plain, negative, n, point, dotted


@inline
def scan_field(p):
    """Read a plain decimal at p; return where it ends, whether it is one, and its value.

    The end is known before the conversion, so the next field need not wait for it. Other numbers
    are left to `scan_scientific` and `scan_number`.
    """
    stop, plain, negative, n, point, dotted = _look_at(p)
    if not plain:
        return stop, False, 0.0
    begin, dot = p + np.int64(negative), np.int64(dotted)
    if n > np.uint64(15):
        if point > np.uint64(16) and dot:
            return stop, False, 0.0
        w = _digits_of(begin, n, point, dot)
        # So small a power of ten never leaves the nearest double undecided.
        bits, _, _ = _rounded(w, np.int64(point) - np.int64(n))
    elif n > np.uint64(7):
        # Zeros behind the number make it 2**k w, with w <= 2**53: this is exact, too.
        w = _sixteen_digits(begin, dot, point, n)
        bits = _as_bits(np.float64(w) / _EXACT_TENS[np.uint64(16) - point])
    else:
        w = _few_digits(begin, n, point, dot)
        bits = _as_bits(np.float64(w) / _EXACT_TENS[n - point])
    return stop, True, _as_double(bits | (negative << np.uint64(63)))


@jit(cache=False)
def scan_scientific(p):
    """Read a plain decimal and a power of ten, such as 1.5e-05, as `scan_field` reads decimals."""
    q, plain, negative, n, point, dotted = _look_at(p)
    c = byte_at(q)
    if not plain or (c != _LETTER and c != _CAPITAL):
        return q, False, 0.0
    q += 1
    c = byte_at(q)
    down = c == _MINUS
    q += np.int64(down) | np.int64(c == _PLUS)
    power, first = 0, q
    digit = byte_at(q) - _ZERO
    while digit >= 0 and digit <= 9 and q < first + 4:
        power = power * 10 + digit
        q += 1
        digit = byte_at(q) - _ZERO
    if q == first or q == first + 4:
        return q, False, 0.0
    if down:
        power = -power
    begin, dot = p + np.int64(negative), np.int64(dotted)
    known, value = True, 0.0
    if n <= np.uint64(15):
        w, power = _sixteen_digits(begin, dot, point, n), power + np.int64(point) - 16
        if power <= 0 and power >= -22:
            value = np.float64(w) / _EXACT_TENS[np.uint64(-power)]
            return q, True, value * _SIGNS[negative]
    elif point > np.uint64(16) and dot:
        return q, False, 0.0
    else:
        w, power = _digits_of(begin, n, point, dot), power + np.int64(point) - np.int64(n)
    if w != np.uint64(0):
        known, value = _nearest_double(w, power)
    return q, known, value * _SIGNS[negative]


@inline
def scan_number(p):
    """Read a decimal at p; return where it stopped, whether `value` is valid, and `value`."""
    c = byte_at(p)
    negative = c == _MINUS
    p += np.int64(negative) | np.int64(c == _PLUS)  # no branch, since signs are unpredictable
    w = np.uint64(0)
    begin = p
    digit = byte_at(p) - _ZERO
    while digit >= 0 and digit <= 9:
        w = w * np.uint64(10) + np.uint64(digit)
        p += 1
        digit = byte_at(p) - _ZERO
    n_digits = p - begin
    known = n_digits <= 19
    q = 0
    if digit == _DOT - _ZERO:
        p += 1
        begin = p
        while True:
            x = _word(p) ^ _ZEROS
            other = ((x + _BIAS) | x) & _HIGH
            n = np.uint64(8)
            if other != np.uint64(0):
                n = _trailing_zeros(other) >> np.uint64(3)
                if n == np.uint64(0):
                    break
                x = x << (np.uint64(64) - np.uint64(8) * n)
            if w >= _ROOM[n]:
                known = False
            w = w * _TENS[n] + _eight_digits(x)
            p += np.int64(n)
            if n != np.uint64(8):
                break
        q = begin - p
        n_digits -= q
    if n_digits == 0:
        return p, False, 0.0
    c = byte_at(p)
    if c == _LETTER or c == _CAPITAL:
        p += 1
        c = byte_at(p)
        down = c == _MINUS
        if down or c == _PLUS:
            p += 1
        power = 0
        begin = p
        digit = byte_at(p) - _ZERO
        while digit >= 0 and digit <= 9:
            if power < 100000:
                power = power * 10 + digit
            p += 1
            digit = byte_at(p) - _ZERO
        if power >= 100000:
            known = False
        if p == begin:
            return p, False, 0.0
        q += -power if down else power
    value = 0.0
    if known and w <= np.uint64(1 << 53) and q >= -22 and q <= 22:
        value = np.float64(w)
        if q < 0:
            value = value / _EXACT_TENS[np.uint64(-q)]
        else:
            value = value * _EXACT_TENS[np.uint64(q)]
    elif w != np.uint64(0) and known:
        known, value = _nearest_double(w, q)
    return p, known, value * _SIGNS[np.uint64(negative)]
