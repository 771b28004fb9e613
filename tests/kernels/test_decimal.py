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
    field = scan_field(base, 44)
    scientific = scan_scientific(base, 44)
    return field[0] - base, field[1], field[2], scientific[0] - base, scientific[1], scientific[2]


def scan_plain(text, after=b",7,"):
    """Return the length and the value (None: not known) of both quick ways."""
    padded = text.encode() + after + bytes(64)
    found = _scan_plain(np.frombuffer(padded, dtype=np.uint8).copy())
    return [(found[k], found[k + 2] if found[k + 1] else None) for k in (0, 3)]


@given(
    digits=st.text("0123456789", min_size=1, max_size=19),
    dot=st.integers(0, 10),
    sign=st.sampled_from(["", "-", "+"]),
    power=st.integers(-40, 40),
    after=st.sampled_from([b",", b",5", b"\n", b"\n1.5,", b",1.5e3,"]),
)
@settings(max_examples=300, deadline=None)
def test_the_quick_ways_read_every_plain_decimal(digits, dot, sign, power, after):
    plain = sign + digits[:dot] + "." + digits[dot:]
    field, _ = scan_plain(plain, after)
    if min(dot, len(digits)) > 7:
        assert field == (len(plain), None)
        return
    assert field == (len(plain), float(plain))
    assert np.signbit(field[1]) == (sign == "-")
    text = f"{plain}e{power}"
    field, scientific = scan_plain(text, after)
    assert field == (len(text), None)
    assert scientific == (len(text), float(text))
    assert np.signbit(scientific[1]) == (sign == "-")


@pytest.mark.parametrize("text", ["1", "-12", "+1234567", "0", "-0", "1234567.25"])
def test_the_quick_ways_read_short_integers(text):
    assert scan_plain(text)[0] == (len(text), float(text))
    assert scan_plain(text + "e2")[1] == (len(text) + 2, float(text + "e2"))


@pytest.mark.parametrize(
    "text", ["12345678", "12345678.5", "1..5", "1.5.", ".1.", "..", "1.2.3", "-", "+", ".", "",
             "--1", "1-", "1 ", "1e5x", "e5", "1e", "1e-", "1e+-5", "1e1.5", "1.5.e3", "12a4",
             "1e5e5"],
)  # fmt: skip
def test_the_quick_ways_know_what_they_cannot_read(text):
    assert scan_plain(text) == [(len(text), None), (len(text), None)]


def test_powers_of_five_are_those_of_whole_numbers():
    for q, (high, low) in zip(range(-300, 291), _powers_of_five().tolist(), strict=True):
        exact = 5**q << 2000 if q >= 0 else (1 << 2000) // 5**-q
        wanted = exact >> (exact.bit_length() - 128)
        assert (high << 64) + low == wanted + (-27 <= q < 0), q
