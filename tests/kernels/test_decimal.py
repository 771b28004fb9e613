# SPDX-License-Identifier: BSD-3-Clause
"""Numbers in text: the fast way reads them itself, to their end, as Python's float does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn.kernels._native import jit
from pairlearn.kernels.parsing.decimal import (
    _powers_of_five,
    scan_field,
    scan_number,
    scan_scientific,
)


@jit(cache=False)
def _scan(text):
    stop, known, value = scan_number(text.ctypes.data)
    return stop - text.ctypes.data, known, value


def scan(text, after=b","):
    """Return how far a number was read, and its value, or None if another way must read it."""
    padded = text.encode() + after + bytes(64)
    length, known, value = _scan(np.frombuffer(padded, dtype=np.uint8).copy())
    return length, value if known else None


@pytest.mark.parametrize("after", [b",", b"\n", b" ", b"", b";"])
@pytest.mark.parametrize(
    "text",
    ["0", "7", "-7", "+7", "12.5", "-.5", "5.", "1e5", "1E5", "1e+5", "1e-5", "-2.5e10", "3e22",
     "3e-22", "123456789.123456789e3", "00012", "9007199254740992", "1.2345678", "1.23456789"],
)  # fmt: skip
def test_usual_numbers_need_no_other_way(text, after):
    assert scan(text, after) == (len(text), float(text))


@pytest.mark.parametrize(
    ("text", "length"), [("", 0), ("-", 1), (".", 1), ("abc", 0), ("1e", 2), ("1e-", 3), ("e5", 0)]
)
def test_what_is_no_number_is_not_known(text, length):
    assert scan(text) == (length, None)


@given(
    digits=st.text("0123456789", min_size=1, max_size=25),
    dot=st.integers(0, 25),
    power=st.none() | st.integers(-400, 400),
    sign=st.sampled_from(["", "-", "+"]),
)
@settings(max_examples=300, deadline=None)
def test_what_is_known_is_the_number_of_python(digits, dot, power, sign):
    text = sign + digits[:dot] + ("." + digits[dot:] if dot < len(digits) else "")
    text += "" if power is None else f"e{power}"
    length, value = scan(text)
    assert length == len(text)
    assert value is None or (value == float(text) and np.signbit(value) == (sign == "-"))


@jit(cache=False)
def _scan_plain(text):
    base = text.ctypes.data
    field = scan_field(base)
    scientific = scan_scientific(base)
    return field[0] - base, field[1], field[2], scientific[0] - base, scientific[1], scientific[2]


def scan_plain(text, after=b",7,"):
    """Return the length and the value (None: not known) of both quick ways."""
    padded = text.encode() + after + b"\n" * 64
    found = _scan_plain(np.frombuffer(padded, dtype=np.uint8).copy())
    return [(found[k], found[k + 2]) if found[k + 1] else None for k in (0, 3)]


@given(
    digits=st.text("0123456789", min_size=1, max_size=22),
    dot=st.none() | st.integers(0, 22),
    sign=st.sampled_from(["", "-"]),
    power=st.integers(-40, 40),
    after=st.sampled_from([b",", b",5", b"\n", b"\n1.5,", b"\r\n", b";", b" ,", b",1.5e3,"]),
)
@settings(max_examples=500, deadline=None)
def test_the_quick_ways_read_every_plain_decimal(digits, dot, sign, power, after):
    plain = sign + (digits if dot is None else digits[:dot] + "." + digits[dot:])
    field, _ = scan_plain(plain, after)
    n = len(digits)
    before = n if dot is None else min(dot, n)
    known = n <= 19 or (n == 20 and digits[0] == "0")
    if dot is not None and before > 16:
        assert field is None or field == (len(plain), float(plain))
    else:
        assert field == ((len(plain), float(plain)) if known else None)
    if field is None:
        return
    assert np.signbit(field[1]) == (sign == "-")
    text = f"{plain}e{power}"
    field, scientific = scan_plain(text, after)
    assert field == (len(plain), float(plain))  # the caller sees that a letter follows
    assert scientific == (len(text), float(text))
    assert np.signbit(scientific[1]) == (sign == "-")


@pytest.mark.parametrize("n_digits", [15, 16, 17, 18, 19])
def test_halfway_between_two_doubles_the_even_one_is_read(n_digits):
    rng = np.random.default_rng(n_digits)
    for places in range(5):
        # Odd multiples of half the distance of doubles, exact as decimals with few places.
        low, high = 2**53, 2**54
        for m in rng.integers(low // 2, high // 2, size=50).tolist():
            half = 2 * m + 1
            whole, rest = divmod(half * 5**places, 10**places)
            text = f"{whole}.{rest:0{places}d}" if places else str(whole)
            if len(text) <= n_digits + 1:
                found = scan_plain(text)[0]
                assert found is None or found == (len(text), float(text))


@pytest.mark.parametrize(
    "text",
    ["1", "-12", "1234567", "0", "-0", "1234567.25", "12345678", "12345678.", "12345678.5", "5.",
     ".5", "-.5", "20240131", "1234567890123456.5", "123456789012345678", "0.0012345678901234567",
     "0.0000000000000000", "-0.0000000000000000000", "9007199254740993", "9007199254740993.0",
     "4503599627370496.5", "4503599627370497.5", "0.30000000000000004", "9999999999999999999"],
)  # fmt: skip
def test_the_quick_ways_read_usual_numbers(text):
    found = scan_plain(text)[0]
    assert found == (len(text), float(text))
    assert np.signbit(found[1]) == (text[0] == "-")
    assert scan_plain(text + "e2")[1] == (len(text) + 2, float(text + "e2"))


@pytest.mark.parametrize(
    "text", ["..", "-", ".", "", "--1", "+1", "e5", "x", "12345678901234567.5",
             "18446744073709551616", "123456789012345678901", "0" * 21]
)  # fmt: skip
def test_the_quick_ways_know_what_they_cannot_read(text):
    assert scan_plain(text) == [None, None]


@pytest.mark.parametrize(("text", "length"), [("1..5", 2), (".1.", 2), ("1.2.3", 3), ("1-", 1)])
def test_a_plain_decimal_ends_where_it_is_no_longer_one(text, length):
    assert scan_plain(text) == [(length, float(text[:length])), None]


@pytest.mark.parametrize("text", ["1e", "1e-", "1e+-5", "1e12345"])
def test_a_power_of_ten_has_one_to_three_digits(text):
    assert scan_plain(text)[1] is None


def test_powers_of_five_are_those_of_whole_numbers():
    for q, (high, low, exponent, _) in zip(
        range(-300, 291), _powers_of_five().tolist(), strict=True
    ):
        exact = 5**q << 2000 if q >= 0 else (1 << 2000) // 5**-q
        wanted = exact >> (exact.bit_length() - 128)
        assert (high << 64) + low == wanted + (-27 <= q < 0), q
        # The power of two below 10**q, plus the bias of doubles and the bits behind the first.
        below = (10**q).bit_length() - 1 if q >= 0 else -(10**-q - 1).bit_length()
        assert (exponent - 1023 - 63 - below) % 2**64 == 0, q
