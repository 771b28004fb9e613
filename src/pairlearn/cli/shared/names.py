# SPDX-License-Identifier: BSD-3-Clause
"""Choices by the names in registers, which are imported when they are needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click


def names_in(place: str) -> tuple[str, ...]:
    """Return the names that a register knows.

    >>> names_in("losses.WINDOWS")
    ('gaussian', 'epanechnikov')
    """
    return tuple(register_at(place))


def register_at(place: str) -> Any:
    """Return the register at a place within the package, such as "losses.LOSSES"."""
    import importlib

    module, _, register = place.rpartition(".")
    return getattr(importlib.import_module(f"pairlearn.{module}"), register)


class Named(click.Choice[str]):
    """A choice among the names in registers, such as "losses.LOSSES", and the names in `also`."""

    def __init__(self, *places: str, also: Iterable[str] = ()) -> None:
        self._places, self._also = places, tuple(also)
        super().__init__(())

    @property
    def choices(self) -> Any:
        """The names, each once."""
        known = [name for place in self._places for name in names_in(place)]
        return tuple(dict.fromkeys([*self._also, *known]))

    @choices.setter
    def choices(self, _: Any) -> None:
        """Ignore what click assigns: the registers hold the names."""
