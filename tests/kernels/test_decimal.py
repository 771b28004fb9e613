# SPDX-License-Identifier: BSD-3-Clause
"""Numbers in text: the fast way reads them itself, to their end, as Python's float does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn.kernels._native import jit
from pairlearn.kernels.parsing.decimal import scan_number


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
