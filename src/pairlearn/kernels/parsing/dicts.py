# SPDX-License-Identifier: BSD-3-Clause
"""Read examples that are Python dicts, without a step of the interpreter for each value.

What these functions call returns borrowed references, runs no code of a user, and raises nothing
for the types that it gets here.
"""

from __future__ import annotations

import math

import numpy as np

from pairlearn.kernels._native import inline
from pairlearn.kernels.parsing.builtin import (
    builtin,
    item_of,
    kept,
    length_of,
    new_float,
    next_of,
    order_of,
    put_integer,
    whole_of,
)
from pairlearn.kernels.parsing.decimal import double_at, integer_at, put_double

#: Where CPython's floats have their number, and NumPy's arrays the address of theirs: behind what
#: all objects begin with. The address of the type ends that.
NUMBER_AT = object.__basicsize__
KIND_AT = NUMBER_AT - 8

# Words of a table, in bytes from its begin. It begins with room for a place in a dict, a name and a
# value. The addresses of the objects of `table_of` follow, then what differs from table to table.
(
    _PLACE, _NAME, _VALUE,
    _FLOAT, _DOUBLE, _INT, _BOOL, _TEXT, _DICT, _NONE, _TRUE, _FALSE,
    _WIDTH, _OTHERS, _ROOM, _COUNT, _ROWS, _LABELS, _LARGEST, _NAMES,
) = range(0, 8 * 20, 8)  # fmt: skip
#: The words of a table that change: the room for rows, and the number of rows.
CHANGING = slice(_ROOM // 8, _COUNT // 8 + 1)


def table_of(names, *, others=None, rows=None, labels=None, largest=np.inf):
    """Return the table that tells a function here what to expect.

    Parameters
    ----------
    names : tuple
        The expected names, which must live as long as the table.
    others : list, optional
        Examples that came after all rows.
    rows : float64, shape (n, m), optional
        What `put_dict` fills.
    labels : float64, shape (n,), optional
        The labels of these rows.
    largest : float, default=inf
        The largest absolute value that is taken.
    """
    objects = float, np.float64, int, bool, str, dict, None, True, False
    begin = _NAMES // 8
    table = np.zeros(begin + len(names), dtype=np.int64)
    table[_FLOAT // 8 : _WIDTH // 8] = list(map(id, objects))
    table[_WIDTH // 8] = len(names)
    if rows is not None:
        table[_OTHERS // 8] = id(others)
        table[_ROWS // 8], table[_LABELS // 8] = rows.ctypes.data, labels.ctypes.data
    table[_LARGEST // 8 : begin].view(np.float64)[:] = largest
    table[begin:] = list(map(id, names))
    return table


@inline
def _kind(one):
    return integer_at(one + KIND_AT)


@inline
def _go_on(at, example):
    """Go to the next item; return 0 after the last."""
    return next_of(example, at + _PLACE, at + _NAME, at + _VALUE)


@inline
def _is_expected(at, name):
    """Tell whether the name of an item is this one. Names from parsers are equal, not the same."""
    found = integer_at(at + _NAME)
    if found == name:
        return True
    text = integer_at(at + _TEXT)
    return _kind(found) == text and _kind(name) == text and order_of(found, name) == 0


@inline
def _number(at):
    """Return the value of an item as a number; NaN if it is not a float or a whole number."""
    value = integer_at(at + _VALUE)
    kind = _kind(value)
    if kind == integer_at(at + _FLOAT) or kind == integer_at(at + _DOUBLE):
        return double_at(value + NUMBER_AT)
    if kind == integer_at(at + _INT) or kind == integer_at(at + _BOOL):
        whole = whole_of(value, at + _NAME)
        if integer_at(at + _NAME) & 0xFFFFFFFF == 0:
            return float(whole)
    return np.nan


@inline
def _sign(at, y):
    """Return the sign of a label that is True, False, 1.0 or -1.0; else 0."""
    if y == integer_at(at + _TRUE):
        return 1.0
    if y == integer_at(at + _FALSE):
        return -1.0
    if _kind(y) == integer_at(at + _FLOAT):
        value = double_at(y + NUMBER_AT)
        if abs(value) == 1.0:
            return value
    return 0.0


@inline
def _read(at, x, place):
    """Write the values of an example to an address; tell whether it is as expected."""
    if _kind(x) != integer_at(at + _DICT):
        return False
    largest, kind = double_at(at + _LARGEST), integer_at(at + _FLOAT)
    put_integer(at + _PLACE, 0)
    for j in range(integer_at(at + _WIDTH)):
        if not (_go_on(at, x) and _is_expected(at, integer_at(at + _NAMES + 8 * j))):
            return False
        value = integer_at(at + _VALUE)
        number = double_at(value + NUMBER_AT) if _kind(value) == kind else _number(at)
        if not abs(number) <= largest:
            return False
        put_double(place + 8 * j, number)
    return _go_on(at, x) == 0


@builtin(many=True)
def put_dict(holder, arguments, count):
    """Put an example and its label, the arguments, into the next row.

    Return True if more rows may come, False if this one was the last, and None if nothing was done
    because the example or its label is unusual, there is no room, or there are others already.

    The holder is a tuple that begins with the table. A usual example is a dict with the expected
    names in this order, whose values are floats or whole numbers.
    """
    at = integer_at(item_of(holder, 0) + NUMBER_AT)
    found = integer_at(at + _NONE)
    n, room = integer_at(at + _COUNT), integer_at(at + _ROOM)
    if count == 2 and n < room and length_of(integer_at(at + _OTHERS)) == 0:
        label = _sign(at, integer_at(arguments + 8))
        place = integer_at(at + _ROWS) + 8 * n * integer_at(at + _WIDTH)
        if label != 0.0 and _read(at, integer_at(arguments), place):
            put_double(integer_at(at + _LABELS) + 8 * n, label)
            put_integer(at + _COUNT, n + 1)
            found = integer_at(at + (_TRUE if n + 1 < room else _FALSE))
    return kept(found)


@inline
def _score(at, x, coef):
    """Return the sum of the products of values and coefficients, in order; NaN if unusual."""
    if _kind(x) != integer_at(at + _DICT):
        return np.nan
    m, total = integer_at(at + _WIDTH), 0.0
    put_integer(at + _PLACE, 0)
    for j in range(m):
        if not (_go_on(at, x) and _is_expected(at, integer_at(at + _NAMES + 8 * j))):
            return np.nan
        total += double_at(coef + 8 * j) * _number(at)
    return np.nan if _go_on(at, x) else total


@inline
def _or_none(at, number):
    """Return a new float, or None in place of NaN."""
    return new_float(number) if number == number else kept(integer_at(at + _NONE))


@builtin(many=True)
def score_dict(holder, arguments, count):
    """Return the score of an example; None if it is unusual, or the score is not a number.

    The arguments are the example and an array: slope, intercept, offset, and the coefficients.
    """
    at = integer_at(item_of(holder, 0) + NUMBER_AT)
    numbers = integer_at(integer_at(arguments + 8) + NUMBER_AT)
    return _or_none(at, _score(at, integer_at(arguments), numbers + 24))


@builtin(many=True)
def chance_of_dict(holder, arguments, count):
    """Return the probability of the positive class; arguments and None are as in `score_dict`.

    The logarithm of the odds is slope (score - offset) + intercept, within 700 of 0.
    """
    at = integer_at(item_of(holder, 0) + NUMBER_AT)
    numbers = integer_at(integer_at(arguments + 8) + NUMBER_AT)
    score = _score(at, integer_at(arguments), numbers + 24)
    odds = double_at(numbers) * (score - double_at(numbers + 16)) + double_at(numbers + 8)
    if odds < -700.0:
        odds = -700.0
    if odds > 700.0:
        odds = 700.0
    return _or_none(at, 1.0 / (1.0 + math.exp(-odds)))
