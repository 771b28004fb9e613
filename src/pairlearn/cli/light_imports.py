# SPDX-License-Identifier: BSD-3-Clause
"""scikit-learn without what it imports and these commands rarely use: half of the start of a run.

``import sklearn.base`` imports ``scipy.stats``, ``scipy.special`` (which takes its own docstrings
apart), modules of NumPy for tests and for Fortran, by way of joblib ``asyncio`` with its sockets,
and, where it is installed, pandas. None is used to train on, or to score, arrays that the program
has made itself. The first ones are put off until somebody asks them for something; pandas is hidden
while scikit-learn looks for it, and can be imported as ever afterwards.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["import_scikit_learn"]

_LATER = ("numpy.testing", "numpy.f2py", "scipy.stats", "scipy.special", "asyncio")
_HIDDEN = "pandas"


class _Later(ModuleType):
    """Stands for a module until one of its names is asked for."""

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        module = importlib.import_module(name)
        self.__dict__.update(module.__dict__)
        return getattr(module, attribute)


def import_scikit_learn() -> None:
    """Import ``sklearn.base``, lightly if nobody has imported it or what it needs."""
    if "sklearn" in sys.modules:
        return
    for name in _LATER:
        if name not in sys.modules:
            later = _Later(name)
            later.__spec__ = ModuleSpec(name, None)
            sys.modules[name] = later
            package, _, child = name.rpartition(".")
            if package:
                setattr(importlib.import_module(package), child, later)
    hidden = _HIDDEN not in sys.modules
    if hidden:
        sys.modules[_HIDDEN] = None  # type: ignore[assignment]
    try:
        importlib.import_module("sklearn.base")
    finally:
        if hidden:
            del sys.modules[_HIDDEN]
