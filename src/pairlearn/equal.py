# SPDX-License-Identifier: BSD-3-Clause
"""Results that equal their copies, even where a number is not known."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class EqualFields:
    """A mixin for frozen dataclasses with ``eq=False``: fields are equal, and NaN equals NaN.

    A dataclass compares NaN by ``==``, or by identity first, which depends on the version of
    Python. So a result without a standard error would not equal its own copy from a pickle.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False)
    ... class Found(EqualFields):
    ...     value: float
    ...     error: float
    >>> Found(0.5, float("nan")) == Found(0.5, float("nan"))
    True
    >>> Found(0.5, float("nan")) == Found(0.5, 0.0)
    False
    """

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))


def _values(record: Any) -> tuple[Any, ...]:
    """Return the fields that are compared, with one object in the place of every NaN."""
    values = (getattr(record, field.name) for field in fields(record) if field.compare)
    return tuple(_NAN if isinstance(value, float) and value != value else value for value in values)


_NAN = object()
