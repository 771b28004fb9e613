# SPDX-License-Identifier: BSD-3-Clause
"""Doors: packages that export names of their modules and load a module on first use."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def without_collections() -> Iterator[None]:
    """Import many modules without looking for garbage among what they make.

    Modules stay, so there is none. Each look takes longer than loading a dozen modules.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def door(
    package: str, names: Mapping[str, str], *, own: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package that loads its names lazily.

    `names` maps each module, relative to the package, to its names, separated by spaces. `own` are
    names that the package defines itself.

    >>> load, _, names = door("pairlearn.metrics", {"auc": "roc_auc"})
    >>> names, load("roc_auc").__name__
    (['roc_auc'], 'roc_auc')
    """
    homes = {name: module for module, line in names.items() for name in line.split()}
    public = sorted([*homes, *own])

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with without_collections():
            value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: public, public
