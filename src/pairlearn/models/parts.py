# SPDX-License-Identifier: BSD-3-Clause
"""Turn the parameters of an estimator into plain values, and back.

Numbers, texts and lists stay unchanged. A part (a loss, a schedule, ...) becomes an object
``{"part": NAME, ...fields}``. NAME is looked up in the registers, so a file can name only classes
that they know.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from pairlearn.models.record import ModelFileError, reason
from pairlearn.register import REGISTERS, Record, find_type, register_of

T = TypeVar("T", bound=type)

_KEY = "part"
_DTYPES = ("float32", "float64")
#: Modules that enter parts into registers.
_ROOMS = (
    "averaging", "domains", "features", "losses", "pairings", "privacy.mechanisms.by_name",
    "schedules", "scores", "solvers.top.objectives", "theory.advice", "estimators.shared.rules",
    "estimators.shared.solvers",
)  # fmt: skip


def _import_rooms() -> None:
    for room in _ROOMS:
        importlib.import_module(f"pairlearn.{room}")


def _known(name: str) -> type | None:
    """Return the class of that name in one of the registers."""
    if find_type(name) is None:
        _import_rooms()
    return find_type(name)


def register_part(part: T, name: str | None = None) -> T:
    """Enter a part of your own, a frozen dataclass, into the register of its base class.

    Estimators and the program then take it by `name`, and model files hold it under the name of
    its class. Call it before saving and before loading: the file holds the name and the fields,
    not the code. It can be used as a decorator.

    Parameters
    ----------
    part : type
        The class; its name must be new.
    name : str, optional
        A short name, which must be new too.

    Returns
    -------
    type
        The class.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from pairlearn.schedules import SCHEDULES, Constant
    >>> @register_part
    ... @dataclass(frozen=True)
    ... class Slow(Constant):
    ...     pass
    >>> decode(encode(Slow(0.5), "schedule"), "schedule")
    Slow(step_size=0.5)
    >>> SCHEDULES.discard(Slow)
    """
    _import_rooms()
    register = register_of(part)
    if register is None:
        raise ModelFileError(
            f"{part.__name__} is no part; derive it from the base class of one: "
            f"{', '.join(REGISTERS)}."
        )
    try:
        return register.add(name)(part)
    except (TypeError, ValueError) as error:
        raise ModelFileError(str(error)) from None


def encode(value: Any, where: str, *, nan: bool = False) -> Any:
    """Return a parameter as plain values; a `Record` of a fit may hold NaN."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            if nan:
                return {_KEY: "nan"}
            raise ModelFileError(f"{where} is NaN; give it a value before saving.")
        return value if math.isfinite(value) else {_KEY: "infinity" if value > 0 else "-infinity"}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [encode(entry, f"{where}[{k}]", nan=nan) for k, entry in enumerate(value)]
    if isinstance(value, tuple):
        return {_KEY: "tuple", "items": encode(list(value), where, nan=nan)}
    if isinstance(value, Mapping):
        pairs = [
            [encode(k, where), encode(v, f"{where}[{k!r}]", nan=nan)] for k, v in value.items()
        ]
        return {_KEY: "mapping", "items": pairs}
    name = type(value).__name__
    if is_dataclass(value) and _known(name) is type(value):
        nan = nan or isinstance(value, Record)
        stored = {f.name: encode(getattr(value, f.name), f"{where}.{f.name}", nan=nan)
                  for f in fields(value)}  # fmt: skip
        return {_KEY: name, **stored}
    try:
        dtype = np.dtype(value).name
    except TypeError:
        dtype = ""
    if dtype in _DTYPES:
        return {_KEY: "dtype", "name": dtype}
    raise ModelFileError(
        f"{where} is a {name}, which a model file cannot hold; use a name or a part of the "
        "library, or make your class known with pairlearn.models.register_part."
    )


def decode(value: Any, where: str) -> Any:
    """Return the parameter of an `encode` output."""
    if isinstance(value, list):
        return [decode(entry, where) for entry in value]
    if not isinstance(value, Mapping):
        return value
    name = value.get(_KEY)
    rest = {k: v for k, v in value.items() if k != _KEY}
    if name in ("infinity", "-infinity", "nan") and not rest:
        return float(name)
    if name == "dtype" and rest.get("name") in _DTYPES:
        return np.dtype(rest["name"])
    items = rest.get("items")
    if name == "tuple" and isinstance(items, list):
        return tuple(decode(items, where))
    try:
        if name == "mapping" and isinstance(items, list):
            return {k: decode(v, where) for k, v in items}
        part = _known(name) if isinstance(name, str) else None
        if part is not None:
            return part(**{k: decode(v, where) for k, v in rest.items()})
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{where} cannot be restored: {reason(error)}") from None
    raise ModelFileError(
        f"{where} names the part {str(name)[:60]!r}, which is not known here; upgrade pairlearn, "
        "or make your class known with pairlearn.models.register_part."
    )
