# SPDX-License-Identifier: BSD-3-Clause
"""One cell of private data: as a number, as a label, as a person.

Each function looks at one cell and at nothing else. It runs no code of the cell: only types of
Python and NumPy are read, by their own methods, so no cell can raise, warn or print. What has
another type is no number, no label and no person.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np

#: Types whose cells NumPy converts to float64 one by one, None to NaN.
PLAIN = frozenset(
    [float, int, bool, type(None), np.bool_, np.float16, np.float32, np.float64]
    + [np.dtype(f"{sign}{size}").type for sign in "iu" for size in (1, 2, 4, 8)]
)
#: The types of NumPy's cells.
_OF_NUMPY = frozenset(np.sctypeDict.values())
#: The types of Python that they are read as.
_PYTHON: dict[Any, Any] = {
    np.bool_: bool, np.integer: int, np.floating: float, np.complexfloating: complex,
    np.str_: str, np.bytes_: bytes,
}  # fmt: skip
#: How cells of a type of Python, or derived from it, become one of that type.
_METHODS: dict[type, Any] = {
    int: int.__int__, float: float.__float__, str: str.__str__,
    bytes: lambda cell: bytes.__getitem__(cell, slice(None)), complex: complex.__complex__,
    Decimal: Decimal,
}  # fmt: skip
#: A text of a number with more digits before its point than this is not read as a number.
_MOST_DIGITS = 400
#: An integer of more bits is not written out.
_MOST_BITS = 2048


class Form(Enum):
    """Whether a cell has a type that can be read."""

    RIGHT = "right"
    MISSING = "missing"
    WRONG = "wrong"


def plain_cell(cell: Any) -> tuple[Form, Any]:
    """Return the form of a cell, and its value as a type of Python if it has the right form.

    The value is a bool, int, float, complex, Decimal, Fraction, str or bytes.
    """
    kind = type(cell)
    if cell is None or cell is np.ma.masked or _is_missing_type(kind):
        return Form.MISSING, None
    if kind is bool or kind is Fraction:
        return Form.RIGHT, cell
    if issubclass(kind, np.generic):
        if issubclass(kind, (np.datetime64, np.timedelta64)) and kind in _OF_NUMPY:
            # A span of time counts as an integer to NumPy.
            return (Form.MISSING if np.isnat(cell) else Form.WRONG), None
        mine = next((one for theirs, one in _PYTHON.items() if issubclass(kind, theirs)), None)
        if mine is None or kind not in _OF_NUMPY:  # or a class derived from one of them
            return Form.WRONG, None
        with np.errstate(all="ignore"):
            return Form.RIGHT, mine(cell)
    # A class derived from a number or a text may have methods of its own; they are not called.
    for base, plain in _METHODS.items():
        if issubclass(kind, base):
            return Form.RIGHT, plain(cell)
    return Form.WRONG, None


def _is_missing_type(kind: type) -> bool:
    """Tell the types of pandas' NA and NaT without importing pandas."""
    # By identity: what a type says of itself may be code of whoever made it.
    pandas = sys.modules.get("pandas")
    return any(kind is type(getattr(pandas, name, None)) for name in ("NA", "NaT"))


def number_of(cell: Any) -> float:
    """Return a cell as a number, NaN if it is none; a number beyond float64 is infinite.

    >>> [number_of(cell) for cell in (3, " 2.5", b"1e3", -(10**400), 2 + 0j, None, [1])]
    [3.0, 2.5, 1000.0, -inf, 2.0, nan, nan]
    """
    kind = type(cell)
    if kind is not str and kind is not int and kind is not float:
        cell = plain_cell(cell)[1]
        if type(cell) is complex:
            cell = cell.real if cell.imag == 0 else None
    try:
        return math.nan if cell is None else float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf
    except ValueError:
        return math.nan


def label_of(cell: Any) -> Any:
    """Return what a cell is compared with public labels by, None if it is no label.

    This is a number if the cell is one or its text is, else the text. Numbers are exact.

    >>> [label_of(cell) for cell in (1, "1", " 1.0", b"yes", "nan", None, [1])]
    [1, 1, 1, 'yes', 'nan', None, None]
    >>> label_of(2**53 + 1) == label_of(float(2**53)), label_of(str(2**53 + 1)) == 2**53 + 1
    (False, True)
    """
    form, value = plain_cell(cell)
    if form is not Form.RIGHT:
        return None
    if type(value) is bytes:
        value = value.decode("utf-8", "replace")
    if type(value) is str:
        return _number_in(value.strip())
    if type(value) is Decimal and not value.is_finite():
        value = math.nan if value.is_nan() else float(value)
    return None if value != value else value


def _number_in(text: str) -> Any:
    """Return the exact number that a text writes, or the text."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        near = float(text)
        if abs(near) < 2.0**53 or text.strip("+-").lower() in ("inf", "infinity"):
            return int(near) if near.is_integer() else near
        exact = Decimal(text)
        whole = exact.is_finite() and exact.adjusted() <= _MOST_DIGITS
        return int(exact) if whole and exact == exact.to_integral_value() else text
    except (ValueError, ArithmeticError):
        return text


def person_of(cell: Any) -> tuple[Form, Any]:
    """Return the form of an id, and the exact key of a person if it is one.

    A text is an id, as it is: nothing is stripped or parsed. So is an integer, which is its text in
    digits. A tuple of ids is one too, unless one of them is missing or no id. A truth value, a
    float other than NaN and every other type have the wrong form.

    >>> [person_of(cell)[1] for cell in (7, "7", " 7", ("a", 7), ("a", None))]
    ['7', '7', ' 7', ('several', 'a', '7'), None]
    """
    kind = type(cell)
    if kind is str:
        return Form.RIGHT, cell
    if issubclass(kind, tuple):
        parts = [_simple_person(part) for part in tuple.__iter__(cell)]
        forms = [form for form, _ in parts]
        if Form.WRONG in forms:
            return Form.WRONG, None
        if Form.MISSING in forms or not parts:
            return Form.MISSING, None
        return Form.RIGHT, ("several", *(key for _, key in parts))
    return _simple_person(cell)


def _simple_person(cell: Any) -> tuple[Form, Any]:
    form, value = plain_cell(cell)
    if form is not Form.RIGHT or type(value) is str:
        return form, value
    if type(value) is int:
        return form, digits_of(value)
    if type(value) is bytes:
        # Not the bytes themselves: Python may warn when it compares them with a text.
        return form, ("bytes", value.decode("latin-1"))
    is_nan = type(value) is float and value != value
    is_nan = is_nan or (type(value) is Decimal and value.is_nan())
    return Form.MISSING if is_nan else Form.WRONG, None


def digits_of(number: int) -> str | int:
    """Return the key of an integer: its text, so that 7 and "7" are the same person.

    A reader may make integers of one part of a column and texts of another, because of one cell.

    >>> digits_of(-12)
    '-12'
    """
    # Python may refuse to write out a longer one, which no file holds as an integer.
    return str(number) if number.bit_length() <= _MOST_BITS else number


def all_wrong(forms: Sequence[Form]) -> bool:
    """Tell whether a whole column has the wrong form: a mistake of the caller, not of a record.

    No cell has the right form and at least two have the wrong one.

    >>> wrong, missing, right = Form.WRONG, Form.MISSING, Form.RIGHT
    >>> [all_wrong(forms) for forms in ([wrong, wrong], [wrong, missing], [wrong] * 9 + [right])]
    [True, False, False]
    """
    return Form.RIGHT not in forms and forms.count(Form.WRONG) >= 2
