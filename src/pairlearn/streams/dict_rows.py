# SPDX-License-Identifier: BSD-3-Clause
"""Examples given as dicts, read by machine code where nothing about them is unusual.

An example is usual if it is a plain dict with the expected names in the expected order, whose
values are floats or whole numbers.
"""

from __future__ import annotations

import ctypes
import platform
import sysconfig
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from pairlearn.streams.examples import LARGEST
from pairlearn.typing import Vector


class DictRows:
    """Rows of examples with these names in this order, and their labels.

    `others` is a list of examples that came later than all rows: while there are any, no row is
    added.

    Examples
    --------
    >>> rows = DictRows(("height", "weight"), others=[], size=2)
    >>> rows.open(2)
    >>> rows.put({"height": 1.5, "weight": 2}, True)
    True
    >>> print(rows.put({"weight": 2.0, "height": 1.5}, True))
    None
    >>> rows.put({"height": 1.0, "weight": 2.5}, False)
    False
    >>> rows.take()
    (array([[1.5, 2. ],
           [1. , 2.5]]), array([ 1., -1.]))
    """

    __slots__ = ("_labels", "_rows", "_state", "names", "put", "size")

    def __init__(self, names: tuple[Any, ...], *, others: list[Any], size: int) -> None:
        from pairlearn.kernels.parsing.dicts import CHANGING, put_dict, table_of

        self.names, self.size = names, size
        self._rows, self._labels = np.empty((size, len(names))), np.empty(size)
        table = table_of(
            names, others=others, rows=self._rows, labels=self._labels, largest=LARGEST
        )
        # The room, and the number of rows, where the machine code has them.
        self._state = memoryview(table)[CHANGING]
        #: Adds an example with its label. It returns True if there is room for more, False if not,
        #: and None if the example was not taken. It keeps alive whatever it uses.
        self.put: Callable[[Any, Any], bool | None] = put_dict.bound_to(
            (table, self._rows, self._labels, names, others)
        )

    def __len__(self) -> int:
        return int(self._state[1])

    def open(self, room: int) -> None:
        """Take examples until there are `room` rows, which are at most `size`."""
        self._state[0] = room

    def look(self) -> tuple[Vector, Vector]:
        """Return all rows, with their labels."""
        n = len(self)
        return self._rows[:n].copy(), self._labels[:n].copy()

    def take(self) -> tuple[Vector, Vector]:
        """Remove all rows and return them, with their labels; take no more."""
        self.open(0)  # From here on, no thread adds rows.
        found = self.look()
        self._state[1] = 0
        return found


class DictScores:
    """What scores examples with these names in this order, by any coefficients.

    Both functions take an example and an array: slope and intercept of the log-odds, the offset of
    scores, and a coefficient for each name. They return None if the example is unusual.

    Examples
    --------
    >>> scores = DictScores(("height", "weight"))
    >>> scores.score_of({"height": 1.5, "weight": 0.5}, np.array([0.0, 0.0, 0.0, 2.0, -1.0]))
    2.5
    >>> scores.chance_of({"height": 1.5, "weight": 0.5}, np.array([0.5, 0.25, 3.0, 2.0, -1.0]))
    0.5
    >>> print(scores.score_of({"weight": 0.5}, np.array([0.0, 0.0, 0.0, 2.0, -1.0])))
    None
    """

    __slots__ = ("_names", "chance_of", "score_of")

    def __init__(self, names: tuple[Any, ...]) -> None:
        from pairlearn.kernels.parsing.dicts import chance_of_dict, score_dict, table_of

        self._names = names
        holder = table_of(names), names
        #: Returns the score, or None.
        self.score_of: Callable[[Any, Vector], float | None] = score_dict.bound_to(holder)
        #: Returns the probability of the positive class, or None.
        self.chance_of: Callable[[Any, Vector], float | None] = chance_of_dict.bound_to(holder)

    def __reduce__(self) -> tuple[type[DictScores], tuple[tuple[Any, ...]]]:
        # A copy, perhaps in another process, has addresses of its own.
        return (DictScores, (self._names,))


@cache
def can_read_dicts() -> bool:
    """Tell whether this Python lays out its objects as the machine code wants it."""
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    from pairlearn.kernels.parsing.dicts import KIND_AT, NUMBER_AT

    numbers, row = (1.5, np.float64(-2.5)), np.empty(1)
    objects: tuple[Any, ...] = (*numbers, 1, True, "text", {}, row)
    return (
        all(
            ctypes.c_int64.from_address(id(one) + KIND_AT).value == id(type(one)) for one in objects
        )
        and all(ctypes.c_double.from_address(id(one) + NUMBER_AT).value == one for one in numbers)
        and ctypes.c_int64.from_address(id(row) + NUMBER_AT).value == row.ctypes.data
    )
