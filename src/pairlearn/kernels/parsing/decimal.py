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
#: Fields are scanned this many bytes at a time, so memory must extend this far past the text.
LOOK_AHEAD = 32

_ZEROS = np.uint64(0x3030303030303030)
_BIAS = np.uint64(0x7676767676767676)
_HIGH = np.uint64(0x8080808080808080)
_PAIRS = np.uint64(0x000000FF000000FF)
_FIRST = np.uint64(100 + (1000000 << 32))
_SECOND = np.uint64(1 + (10000 << 32))

_SMALLEST_POWER, _LARGEST_POWER = -300, 290  # beyond, Python decides (subnormal, overflow)


def _powers_of_five() -> np.ndarray:
    """128 leading bits of 5**q, truncated; for -27 <= q < 0 they are rounded up."""
    table = np.empty((_LARGEST_POWER - _SMALLEST_POWER + 1, 2), dtype=np.uint64)
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
        table[q - _SMALLEST_POWER] = (bits >> 64, bits & (2**64 - 1))
    return table


_FIVES = _powers_of_five()
_TENS = np.array([10**k for k in range(20)], dtype=np.uint64)
_ROOM = np.array([10 ** (19 - k) for k in range(9)], dtype=np.uint64)
_SIGNS = np.array([1.0, -1.0])
_MANY_DIGITS = np.uint64(10**17)
_EXACT_TENS = np.array([10.0**k for k in range(23)], dtype=np.float64)


@intrinsic
def _word(typing_context, address):
    """Eight bytes at any address, as a little-endian word."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(types.intp), generate


def _bytes_at(builder, address):
    vector = ir.VectorType(ir.IntType(8), LOOK_AHEAD)
    return builder.load(builder.inttoptr(address, vector.as_pointer()), align=1)


def _as_bits(builder, flags):
    return builder.zext(builder.bitcast(flags, ir.IntType(LOOK_AHEAD)), ir.IntType(64))


@intrinsic
def _equal(typing_context, address, byte):
    """Which of the bytes at an address equal `byte`: one bit each, the lowest for the first."""

    def generate(context, builder, signature, arguments):
        wanted = everywhere(builder, builder.trunc(arguments[1], ir.IntType(8)), LOOK_AHEAD)
        flags = builder.icmp_unsigned("==", _bytes_at(builder, arguments[0]), wanted)
        return _as_bits(builder, flags)

    return types.uint64(types.intp, types.intp), generate


@intrinsic
def _digits(typing_context, address):
    """Which of the bytes at an address are digits."""

    def generate(context, builder, signature, arguments):
        zero, ten = (everywhere(builder, ir.IntType(8)(k), LOOK_AHEAD) for k in (_ZERO, 10))
        shifted = builder.sub(_bytes_at(builder, arguments[0]), zero)
        return _as_bits(builder, builder.icmp_unsigned("<", shifted, ten))

    return types.uint64(types.intp), generate


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
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

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
def _as_double(typing_context, bits):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), generate


@inline
def _rounded(w, q):
    """Return the double nearest to w * 10**q, w > 0, and what tells whether it is.

    These are the exponent of its bits, and the lower part of the product.
    """
    zeros = _leading_zeros(w)
    w_given, w = w, w << zeros
    k = np.uint64(q - _SMALLEST_POWER)
    high = _high_product(w, _FIVES[k, 0])
    low = w * _FIVES[k, 0]
    # Numbers with many digits skip the test of bits, whose branch would be unpredictable.
    if w_given >= _MANY_DIGITS or (high & np.uint64(0x1FF)) == np.uint64(0x1FF):
        carry = _high_product(w, _FIVES[k, 1])
        low += carry
        high += np.uint64(carry > low)
    upper = high >> np.uint64(63)
    shift = upper + np.uint64(9)
    mantissa = high >> shift
    exponent = ((217706 * q) >> 16) + 63 + np.int64(upper) - np.int64(zeros) + 1023
    if (
        low <= np.uint64(1)
        and q >= -4
        and q <= 23
        and (mantissa & np.uint64(3)) == np.uint64(1)
        and (mantissa << shift) == high
    ):
        mantissa = mantissa & ~np.uint64(1)  # a tie: round to even
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    # A mantissa of 2**53 carries into the exponent: its own bits are then all 0.
    bits = (np.uint64(exponent - 1) << np.uint64(52)) + mantissa
    return _as_double(bits), exponent, low


@jit(cache=False)
def _nearest_double(w, q):
    """Return the double nearest to w * 10**q, w > 0; (False, 0.0) if it cannot decide."""
    if q < _SMALLEST_POWER or q > _LARGEST_POWER:
        return False, 0.0
    value, exponent, low = _rounded(w, q)
    if low == np.uint64(0xFFFFFFFFFFFFFFFF) and (q < -27 or q > 55):
        return False, 0.0
    if exponent <= 0 or exponent >= 2046:
        return False, 0.0
    return True, value


@inline
def _eight_digits(x):
    """Return the number of eight digits, given minus the character 0, first in the lowest byte."""
    x = x * np.uint64(10) + (x >> np.uint64(8))
    return ((x & _PAIRS) * _FIRST + ((x >> np.uint64(16)) & _PAIRS) * _SECOND) >> np.uint64(32)


@inline
def _digits_of(p, n, point):
    """Return the number of n <= 19 digits at p, with a point after the first `point`."""
    before = (np.uint64(1) << (np.uint64(8) * point)) - np.uint64(1)
    x = ((_word(p) & before) | (_word(p + 1) & ~before)) ^ _ZEROS
    if n <= np.uint64(8):
        w = _eight_digits(x << (np.uint64(64) - np.uint64(8) * n))
    else:
        # A shift in two halves, since shifting by all 64 bits is undefined.
        second = min(n - np.uint64(8), np.uint64(8))
        third = n - np.uint64(8) - second
        w = _eight_digits(x) * _TENS[second]
        x = (_word(p + 9) ^ _ZEROS) << (np.uint64(64) - np.uint64(8) * second)
        w = (w + _eight_digits(x)) * _TENS[third]
        half = np.uint64(32) - np.uint64(4) * third
        w += _eight_digits(((_word(p + 17) ^ _ZEROS) << half) << half)
    return w


@inline
def _look_at(p, size):
    """Return whether `size` bytes at p are a plain decimal; its sign, number of digits, and point.

    A plain decimal, the usual case, has an optional sign, at most 7 digits, then a point, and up to
    19 digits in all. All bytes are examined at once.
    """
    one = np.uint64(1)
    c = byte_at(p)
    negative = c == _MINUS
    sign = np.uint64(negative) | np.uint64(c == _PLUS)
    field = ((one << size) - one) & ~sign
    dots = _equal(p, _DOT) & field
    point = _trailing_zeros(dots | (one << size)) - sign
    n = size - sign - np.uint64(dots != np.uint64(0))
    plain = not (
        ((_digits(p) & field) | dots) != field
        or (dots & (dots - one)) != np.uint64(0)
        or n - one > np.uint64(18)
        or point > np.uint64(7)
        or size == np.uint64(LOOK_AHEAD)
    )
    return plain, negative, np.int64(sign), n, point


@inline
def _first(flags):
    """Return the position of the first flag, or LOOK_AHEAD."""
    return _trailing_zeros(flags | (np.uint64(1) << np.uint64(LOOK_AHEAD)))


@inline
def scan_field(p, delimiter):
    """Read a plain decimal that fills the field at p; return its end, whether it is one, its value.

    The end is known before the conversion, so the next field need not wait for it. Other numbers
    are left to `scan_scientific` and `scan_number`.
    """
    size = _first(_equal(p, delimiter) | _equal(p, _NEWLINE))
    stop = p + np.int64(size)
    plain, negative, sign, n, point = _look_at(p, size)
    if not plain:
        return stop, False, 0.0
    w = _digits_of(p + sign, n, point)
    if n <= np.uint64(15):
        value = np.float64(w) / _EXACT_TENS[n - point]
    elif w != np.uint64(0):
        # So small a power of ten never leaves the nearest double undecided.
        value, _, _ = _rounded(w, np.int64(point) - np.int64(n))
    else:
        value = 0.0
    return stop, True, value * _SIGNS[np.uint64(negative)]


@jit(cache=False)
def scan_scientific(p, delimiter):
    """Read a plain decimal and a power of ten, such as 1.5e-05, as `scan_field` reads decimals."""
    stop = p + np.int64(_first(_equal(p, delimiter) | _equal(p, _NEWLINE)))
    size = _first(_equal(p, _LETTER) | _equal(p, _CAPITAL))
    plain, negative, sign, n, point = _look_at(p, size)
    q = p + np.int64(size) + 1
    c = byte_at(q)
    down = c == _MINUS
    q += np.int64(down) | np.int64(c == _PLUS)
    if not plain or q >= stop or stop - q > 3:
        return stop, False, 0.0
    power = 0
    while q < stop:
        digit = byte_at(q) - _ZERO
        if digit < 0 or digit > 9:
            return stop, False, 0.0
        power = power * 10 + digit
        q += 1
    power = np.int64(point) - np.int64(n) + (-power if down else power)
    w = _digits_of(p + sign, n, point)
    known, value = True, 0.0
    if n <= np.uint64(15) and power <= 0 and power >= -22:
        value = np.float64(w) / _EXACT_TENS[np.uint64(-power)]
    elif w != np.uint64(0):
        known, value = _nearest_double(w, power)
    return stop, known, value * _SIGNS[np.uint64(negative)]


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
