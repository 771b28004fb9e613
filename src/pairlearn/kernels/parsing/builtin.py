# SPDX-License-Identifier: BSD-3-Clause
"""Machine code as a builtin function of Python, which costs as much as one written in C.

Such a function holds Python's lock for all objects from its first instruction to its last: neither
another thread nor a Ctrl-C comes in between.
"""

from __future__ import annotations

import ctypes
from functools import cached_property

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.ccallback import CFunc
from numba.extending import intrinsic

from pairlearn.kernels._native import inline, keep_on_disk

#: How Python hands over arguments: an array of them and their number, or the only one.
_MANY, _ONE = 0x80, 0x08


class _Definition(ctypes.Structure):
    """What Python calls a `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Builtin:
    """A kernel that takes and returns objects by their addresses.

    It gets the object that `bound_to` was given, then its argument; with `many`, then the address
    of the addresses of its arguments, and their number. It returns a new reference, or 0 with an
    exception set.
    """

    def __init__(self, function, *, many):
        self._function, self._many = function, many

    @cached_property
    def _definition(self):
        """The address of the definition."""
        types_of = (types.intp,) * (3 if self._many else 2)
        options = {"error_model": "numpy", "_nrt": False}
        compiled = CFunc(self._function, (types_of, types.intp), locals={}, options=options)
        keep_on_disk(compiled)
        compiled.compile()
        name = self._function.__name__.encode()
        made = _Definition(name, compiled.address, _MANY if self._many else _ONE, None)
        # Functions may outlive this module when Python ends.
        for kept in (made, compiled):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        return ctypes.addressof(made)

    def bound_to(self, holder):
        """Return the function, with an object that lives as long as it does."""
        return _new(self._definition, holder, None)


_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


def builtin(*, many=False):
    """Make a builtin function of a kernel, compiled when it is first bound."""
    return lambda function: Builtin(function, many=many)


def _of_python(name, result, *arguments):
    """Return signature and code of a call of a function of Python's stable interface."""

    def generate(context, builder, signature, values):
        kinds = [context.get_value_type(kind) for kind in (result, *arguments)]
        kind = ir.FunctionType(kinds[0], kinds[1:])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)

    return result(*arguments), generate


@intrinsic
def next_of(typing_context, example, at, name_at, value_at):
    """Go to the next item of a dict; return 0 after the last."""
    return _of_python("PyDict_Next", types.int32, *[types.intp] * 4)


@intrinsic
def whole_of(typing_context, value, overflow_at):
    """Return the value of an int, and whether it is too large."""
    return _of_python("PyLong_AsLongLongAndOverflow", types.int64, *[types.intp] * 2)


@intrinsic
def item_of(typing_context, holder, place):
    """Return an item of a tuple."""
    return _of_python("PyTuple_GetItem", *[types.intp] * 3)


@intrinsic
def length_of(typing_context, holder):
    """Return the length of a list."""
    return _of_python("PyList_Size", *[types.intp] * 2)


@intrinsic
def order_of(typing_context, text, other):
    """Return 0 if two texts are equal."""
    return _of_python("PyUnicode_Compare", types.int32, *[types.intp] * 2)


@intrinsic
def new_float(typing_context, value):
    """Return a new float."""
    return _of_python("PyFloat_FromDouble", types.intp, types.float64)


@intrinsic
def _keep(typing_context, one):
    return _of_python("Py_IncRef", types.void, types.intp)


@intrinsic
def put_integer(typing_context, address, value):
    """Write a signed integer of eight bytes to an address."""

    def generate(context, builder, signature, values):
        builder.store(values[1], builder.inttoptr(values[0], ir.IntType(64).as_pointer()))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


@inline
def kept(one):
    """Return a new reference to an object."""
    _keep(one)
    return one
