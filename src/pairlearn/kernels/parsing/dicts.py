# SPDX-License-Identifier: BSD-3-Clause
"""Read examples that are Python dicts, without a step of the interpreter for each value.

The kernel calls functions of Python's stable interface by their addresses. They return borrowed
references, run no code of a user, and raise nothing for the types that they get here. A thread that
calls the kernel must hold Python's lock for all objects, so the kernel does not release it.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from pairlearn.kernels._native import jit

#: Functions of Python whose addresses `read_dicts` wants, in this order.
FUNCTIONS = (
    "PyDict_Next",
    "PyLong_AsLongLongAndOverflow",
    "PyList_GetItem",
    "PyTuple_GetItem",
    "PyUnicode_Compare",
)


def _calling(result, *arguments):
    """Return signature and code of a call of a C function: its address, then its arguments."""

    def generate(context, builder, signature, values):
        kinds = [context.get_value_type(kind) for kind in (result, *arguments)]
        kind = ir.FunctionType(kinds[0], kinds[1:]).as_pointer()
        return builder.call(builder.inttoptr(values[0], kind), values[1:])

    return result(types.intp, *arguments), generate


@intrinsic
def _next_of(typing_context, function, example, at, name_at, value_at):
    return _calling(types.int32, *[types.intp] * 4)


@intrinsic
def _whole_of(typing_context, function, value, overflow_at):
    return _calling(types.int64, *[types.intp] * 2)


@intrinsic
def _item_of(typing_context, function, holder, place):
    return _calling(types.intp, *[types.intp] * 2)


@intrinsic
def _order_of(typing_context, function, text, other):
    return _calling(types.int32, *[types.intp] * 2)


@intrinsic
def _word(typing_context, address):
    """Return the word at an address."""

    def generate(context, builder, signature, values):
        return builder.load(builder.inttoptr(values[0], values[0].type.as_pointer()))

    return types.intp(types.intp), generate


@intrinsic
def _set_word(typing_context, address, value):
    """Write a word at an address."""

    def generate(context, builder, signature, values):
        builder.store(values[1], builder.inttoptr(values[0], values[1].type.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


@intrinsic
def _double(typing_context, address):
    """Return the number at an address."""

    def generate(context, builder, signature, values):
        return builder.load(builder.inttoptr(values[0], ir.DoubleType().as_pointer()))

    return types.float64(types.intp), generate


@jit(nogil=False)
def read_dicts(pairs, names, functions, kinds, kind_at, number_at, largest, flat, y, room):
    """Read pairs of an example and its label up to one that is unusual; return how many.

    A usual example is a dict with these names in this order. Its values are floats or whole
    numbers of at most `largest`.

    Parameters
    ----------
    pairs : int
        The address of a list of tuples (dict, float), as long as `y`.
    names : int64, shape (m,)
        The addresses of the names.
    functions : int64
        The addresses of `FUNCTIONS`.
    kinds : int64, shape (5,)
        The addresses of the types float, numpy.float64, int, bool and str.
    kind_at, number_at : int
        Where an object has the address of its type, and a float its number.
    flat, y : float64, shape (n * m,) and (n,)
        The results.
    room : int64, shape (3,)
        Room for a place in a dict, a key and a value.
    """
    m, at = len(names), room.ctypes.data
    for i in range(len(y)):
        pair = _item_of(functions[2], pairs, i)
        example = _item_of(functions[3], pair, 0)
        label = _item_of(functions[3], pair, 1)
        if _word(label + kind_at) != kinds[0]:
            return i
        y[i] = _double(label + number_at)
        room[0] = 0
        place = i * m
        for j in range(m):
            if not _next_of(functions[0], example, at, at + 8, at + 16):
                return i
            name, value = room[1], room[2]
            # Names that are equal but not the same come from parsers.
            if name != names[j] and (
                _word(name + kind_at) != kinds[4]
                or _word(names[j] + kind_at) != kinds[4]
                or _order_of(functions[4], name, names[j])
            ):
                return i
            kind = _word(value + kind_at)
            if kind == kinds[0] or kind == kinds[1]:
                number = _double(value + number_at)
            elif kind == kinds[2] or kind == kinds[3]:
                whole = _whole_of(functions[1], value, at + 8)
                if room[1] & 0xFFFFFFFF:
                    return i
                number = float(whole)
            else:
                return i
            if not abs(number) <= largest:
                return i
            flat[place + j] = number
        if _next_of(functions[0], example, at, at + 8, at + 16):
            return i
    return len(y)


@jit(nogil=False, fastmath=False)
def score_dict(example, table):
    """Return the sum of the products of a dict's values and coefficients, in order.

    NaN if it is unusual: other names, or in another order, or a value that is no float. The address
    `table` is that of what `table_of` returns.
    """
    at = table
    next_of, kind, other_kind = _word(at + 24), _word(at + 32), _word(at + 40)
    kind_at, number_at, m = _word(at + 48), _word(at + 56), _word(at + 64)
    names, total = at + 72, 0.0
    coef = names + 8 * m
    _set_word(at, 0)
    for j in range(m):
        if not _next_of(next_of, example, at, at + 8, at + 16):
            return np.nan
        value = _word(at + 16)
        own = _word(value + kind_at)
        if _word(at + 8) != _word(names + 8 * j) or (own != kind and own != other_kind):
            return np.nan
        total += _double(coef + 8 * j) * _double(value + number_at)
    return np.nan if _next_of(next_of, example, at, at + 8, at + 16) else total


def table_of(functions, kinds, kind_at, number_at, names):
    """Return what `score_dict` reads, with room for a place in a dict, a key and a value.

    The coefficients are at its end; the other arguments are those of `read_dicts`.
    """
    m = len(names)
    table = np.zeros(9 + 2 * m, dtype=np.int64)
    table[3:9] = functions[0], kinds[0], kinds[1], kind_at, number_at, m
    table[9 : 9 + m] = names
    return table
