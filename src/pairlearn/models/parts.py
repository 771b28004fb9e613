# SPDX-License-Identifier: BSD-3-Clause
"""Turn the parameters of an estimator into plain values, and back.

Numbers, texts and lists stay unchanged. A part (a loss, a schedule, ...) becomes an object
``{"part": NAME, ...fields}``. NAME is looked up in a table, so a file can name only classes that
the library knows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from pairlearn.models.record import ModelFileError, reason
from pairlearn.register import REGISTERS

__all__ = ["decode", "encode", "own_parts", "register_part"]

_KEY = "part"
_GIVEN: dict[str, type] = {}
_DTYPES = ("float32", "float64")


def _parts() -> dict[str, type]:
    from pairlearn import averaging, domains, features, losses, pairings, schedules, scores

    table: dict[str, type] = {}
    for module in (averaging, domains, features, losses, pairings, schedules, scores):
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and is_dataclass(value):
                table[name] = value
    for register in REGISTERS.values():
        table |= register.types
    return table | _GIVEN


def register_part(part: type) -> type:
    """Register your own part, a frozen dataclass, so that model files can store it.

    Register it before saving and before loading: the file holds the name and the fields, not the
    code. It can be used as a decorator.

    Parameters
    ----------
    part : type
        The class; its name must be new.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from pairlearn.schedules import Constant
    >>> @register_part
    ... @dataclass(frozen=True)
    ... class Slow(Constant):
    ...     pass
    >>> decode(encode(Slow(0.5), "schedule"), "schedule")
    Slow(step_size=0.5)
    >>> _ = _GIVEN.pop("Slow")
    """
    if not is_dataclass(part):
        raise ModelFileError(f"{part.__name__} must be a dataclass to be stored; decorate it.")
    if _parts().get(part.__name__, part) is not part:
        raise ModelFileError(f"a part named {part.__name__!r} is already known; rename yours.")
    _GIVEN[part.__name__] = part
    return part


def own_parts() -> tuple[type, ...]:
    """Return the classes registered with `register_part`."""
    return tuple(_GIVEN.values())


def encode(value: Any, where: str) -> Any:
    """Return a parameter as plain values.

    >>> from pairlearn.losses import Hinge
    >>> encode(Hinge(margin=2.0), "loss")
    {'part': 'Hinge', 'one_sided': False, 'margin': 2.0}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            raise ModelFileError(f"{where} is NaN; give it a value before saving.")
        return value if math.isfinite(value) else {_KEY: "infinity" if value > 0 else "-infinity"}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [encode(entry, f"{where}[{k}]") for k, entry in enumerate(value)]
    if isinstance(value, tuple):
        return {_KEY: "tuple", "items": encode(list(value), where)}
    if isinstance(value, Mapping):
        pairs = [[encode(k, where), encode(v, f"{where}[{k!r}]")] for k, v in value.items()]
        return {_KEY: "mapping", "items": pairs}
    name = type(value).__name__
    if is_dataclass(value) and _parts().get(name) is type(value):
        stored = {f.name: encode(getattr(value, f.name), f"{where}.{f.name}")
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
    if name in ("infinity", "-infinity") and not rest:
        return math.inf if name == "infinity" else -math.inf
    if name == "dtype" and rest.get("name") in _DTYPES:
        return np.dtype(rest["name"])
    items = rest.get("items")
    if name == "tuple" and isinstance(items, list):
        return tuple(decode(items, where))
    try:
        if name == "mapping" and isinstance(items, list):
            return {k: decode(v, where) for k, v in items}
        part = _parts().get(name) if isinstance(name, str) else None
        if part is not None:
            return part(**{k: decode(v, where) for k, v in rest.items()})
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{where} cannot be restored: {reason(error)}") from None
    raise ModelFileError(
        f"{where} names the part {str(name)[:60]!r}, which is not known here; upgrade pairlearn, "
        "or make your class known with pairlearn.models.register_part."
    )
