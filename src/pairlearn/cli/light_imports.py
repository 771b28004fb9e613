# SPDX-License-Identifier: BSD-3-Clause
"""Import scikit-learn without its slow dependencies, which halves the start of a run.

Training and scoring arrays need none of them. A placeholder stands for each until one of its names
is used. pandas is hidden while scikit-learn looks for it, and can be imported later. With
``PAIRLEARN_LIGHT_IMPORTS=0`` everything is imported as usual.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_LATER = ("numpy.testing", "numpy.f2py", "scipy.stats", "scipy.special", "asyncio")
_HIDDEN = "pandas"


class _Later(ModuleType):
    """A placeholder that imports its module when one of its names is used."""

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        module = importlib.import_module(name)
        self.__dict__.update(module.__dict__)
        return getattr(module, attribute)


def import_scikit_learn() -> None:
    """Import ``sklearn.base`` without its slow dependencies, unless they are already loaded."""
    if "sklearn" in sys.modules or os.environ.get("PAIRLEARN_LIGHT_IMPORTS") == "0":
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
