# SPDX-License-Identifier: BSD-3-Clause
"""Examples given as dicts, read by machine code where nothing about them is unusual."""

from __future__ import annotations

import ctypes
import platform
import sysconfig
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.examples import LARGEST
from pairlearn.typing import Vector

#: Where CPython's floats have their number: behind what all objects begin with. The address of the
#: type ends that.
_NUMBER_AT = object.__basicsize__
_KIND_AT = _NUMBER_AT - ctypes.sizeof(ctypes.c_void_p)
_KINDS = (float, np.float64, int, bool, str)


class DictRows:
    """What reads examples with these names in this order.

    Examples
    --------
    >>> reader = DictRows(("height", "weight"))
    >>> reader.read([({"height": 1.5, "weight": 2}, 1.0)])
    (array([1.5, 2. ]), array([1.]))
    >>> reader.read([({"weight": 2.0, "height": 1.5}, 1.0)]) is None
    True
    """

    def __init__(self, names: tuple[Any, ...]) -> None:
        # Their addresses are good as long as they live.
        self._names = names
        self._addresses = np.array(list(map(id, names)), dtype=np.int64)
        self._room = np.empty(3, dtype=np.int64)

    def read(self, pairs: list[tuple[dict[Any, float], float]]) -> tuple[Vector, Vector] | None:
        """Return all values, one example after the other, and the labels.

        None if an example is unusual: it has other names, or in another order, or a value that is
        no plain number within the limits. Nobody else may change the list or its dicts.
        """
        from pairlearn.kernels.parsing.dicts import read_dicts

        m = len(self._names)
        flat, y = np.empty(len(pairs) * m), np.empty(len(pairs))
        given = id(pairs), self._addresses, *_interface(), _KIND_AT, _NUMBER_AT, LARGEST
        return (flat, y) if read_dicts(*given, flat, y, self._room) == len(pairs) else None

    def __reduce__(self) -> tuple[type[DictRows], tuple[tuple[Any, ...]]]:
        # A copy, perhaps in another process, has addresses of its own.
        return (DictRows, (self._names,))


class DictScore:
    """What scores examples with these names in this order, whose values are floats.

    Examples
    --------
    >>> score = DictScore(("height", "weight"), np.array([2.0, -1.0]))
    >>> score.of({"height": 1.5, "weight": 0.5})
    2.5
    >>> score.of({"weight": 0.5, "height": 1.5})
    nan
    """

    def __init__(self, names: tuple[Any, ...], coef: Vector) -> None:
        from pairlearn.kernels.parsing.dicts import table_of

        # Their addresses are good as long as they live.
        addresses = np.array(list(map(id, names)), dtype=np.int64)
        self._set(names, table_of(*_interface(), _KIND_AT, _NUMBER_AT, addresses), coef)

    def _set(self, names: tuple[Any, ...], table: NDArray[np.int64], coef: Vector) -> None:
        from pairlearn.kernels.parsing.dicts import score_dict

        self._names, self._table = names, table
        table[len(table) - len(names) :] = coef.view(np.int64)
        #: What scores an example, given by its address, with the table at this one.
        self.run, self.at = score_dict, table.ctypes.data

    def with_coef(self, coef: Vector) -> DictScore:
        """Return what scores with other coefficients."""
        twin = DictScore.__new__(DictScore)
        twin._set(self._names, self._table.copy(), coef)
        return twin

    def of(self, x: dict[Any, float]) -> float:
        """Return the score of an example; NaN if it is unusual, or the score is no number."""
        return self.run(id(x), self.at)  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[type[DictScore], tuple[tuple[Any, ...], Vector]]:
        # A copy, perhaps in another process, has addresses of its own.
        coef = self._table[len(self._table) - len(self._names) :].view(np.float64)
        return (DictScore, (self._names, coef.copy()))


@cache
def can_read_dicts() -> bool:
    """Tell whether this Python lays out its objects as the machine code wants it."""
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    numbers = 1.5, np.float64(-2.5)
    return all(
        ctypes.c_int64.from_address(id(one) + _KIND_AT).value == id(type(one))
        for one in (*numbers, 1, True, "text")
    ) and all(ctypes.c_double.from_address(id(one) + _NUMBER_AT).value == one for one in numbers)


@cache
def _interface() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the addresses of the functions, and of the types, that `read_dicts` wants."""
    from pairlearn.kernels.parsing.dicts import FUNCTIONS

    found = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p) for name in FUNCTIONS]
    return np.array([own.value for own in found]), np.array(list(map(id, _KINDS)))
