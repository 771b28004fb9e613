# SPDX-License-Identifier: BSD-3-Clause
"""Turn parameters, parts and fitted maps of an estimator into plain values, and back.

Numbers, texts and lists stay unchanged. A part (a loss, a schedule, ...) becomes an object
``{"part": NAME, ...fields}``. NAME is looked up in the registers, so a file can name only classes
that they know. The arrays of a map are joined into one vector, of which nothing is allocated
before their shapes have been checked against its length.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.features import FeatureMap
from pairlearn.features.restore import restored_map
from pairlearn.models.record import ModelFileError, reason
from pairlearn.register import REGISTERS, Record, find_type, register_of
from pairlearn.typing import Vector

T = TypeVar("T", bound=type)

_KEY = "part"
_DTYPES = ("float32", "float64")
#: The types of the arrays of maps.
_ARRAYS = ("float64", "float32", "int64")
#: Modules that enter parts into registers.
_ROOMS = (
    "averaging", "domains", "features", "losses", "pairings", "privacy.mechanisms.by_name",
    "schedules", "scores", "solvers.top.objectives", "theory.advice", "estimators.shared.decisions",
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


def pack_map(features: FeatureMap) -> tuple[dict[str, Any], Vector]:
    """Return a fitted map as a description with the shapes of its arrays, and their numbers."""
    parts: list[Vector] = []

    def array_of(name: str, array: NDArray[Any]) -> dict[str, Any]:
        parts.append(array.reshape(-1).astype(np.float64))
        return {"name": name, "dtype": array.dtype.name, "shape": list(array.shape)}

    def described(state: Mapping[str, Any]) -> dict[str, Any]:
        if "maps" in state:
            return {"map": state["map"], "maps": [described(one) for one in state["maps"]]}
        learned = [array_of(name, array) for name, array in state["learned"].items()]
        fields = {name: encode(value, name) for name, value in state["fields"].items()}
        return {**state, "fields": fields, "learned": learned}

    description = described(features.state())
    return description, np.concatenate(parts) if parts else np.empty(0)


def unpack_map(description: Any, values: Vector) -> FeatureMap:
    """Return the fitted map of a `pack_map` output; raise `ModelFileError` if it is invalid."""
    place = 0

    def array_of(entry: Mapping[str, Any]) -> NDArray[Any]:
        nonlocal place
        shape, dtype = tuple(entry["shape"]), entry["dtype"]
        if dtype not in _ARRAYS or not all(type(side) is int and side >= 0 for side in shape):
            raise ValueError(f"an array of {dtype!r:.20} of shape {shape!r:.60} is described.")
        begin, place = place, place + math.prod(shape)
        if place > len(values):
            raise ValueError(f"{len(values)} numbers are too few for the described arrays.")
        part = values[begin:place]
        if dtype == "int64" and not (np.abs(part) < 2**53).all():
            raise ValueError("an index is too large.")
        return np.asarray(part.astype(dtype).reshape(shape))

    def state_of(described: Any, depth: int = 0) -> dict[str, Any]:
        if not isinstance(described, Mapping) or depth > 8:
            raise ValueError("the description is not a mapping.")
        if "maps" in described:
            maps = [state_of(one, depth + 1) for one in described["maps"]]
            return {"map": described["map"], "maps": maps}
        return {
            "map": described["map"],
            "fields": {name: decode(value, name) for name, value in described["fields"].items()},
            "n_inputs": described["n_inputs"],
            "learned": {entry["name"]: array_of(entry) for entry in described["learned"]},
        }

    try:
        state = state_of(description)
        if place != len(values):
            raise ValueError(f"{len(values)} numbers are stored, {place} are described.")
        return restored_map(state)
    except (TypeError, KeyError, AttributeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"its feature map cannot be restored: {reason(error)}") from None


def plain_map(features: FeatureMap) -> dict[str, Any]:
    """Return a fitted map as plain values, with arrays as lists, for other languages."""

    def plain(state: Mapping[str, Any]) -> dict[str, Any]:
        if "maps" in state:
            return {"map": state["map"], "maps": [plain(one) for one in state["maps"]]}
        fields = {name: encode(value, name) for name, value in state["fields"].items()}
        learned = {name: array.tolist() for name, array in state["learned"].items()}
        return {"map": state["map"], "parameters": fields, "n_inputs": state["n_inputs"],
                "learned": learned}  # fmt: skip

    return plain(features.state())
