# SPDX-License-Identifier: BSD-3-Clause
"""Store a fitted feature map as a plain description and one vector, and restore it.

The description holds the name of the map, its fields, and the name, type and shape of each learned
array; the vector holds their numbers, joined. Nothing is allocated before the description has been
checked against the length of the vector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.features import FeatureMap
from pairlearn.features.restore import restored_map
from pairlearn.models.parts import decode, encode
from pairlearn.models.record import ModelFileError, reason
from pairlearn.typing import Vector

_TYPES = ("float64", "float32", "int64")


def pack_map(features: FeatureMap) -> tuple[dict[str, Any], Vector]:
    """Return the description of a fitted map and its numbers."""
    parts: list[Vector] = []
    described = _described(features.state(), parts)
    return described, np.concatenate(parts) if parts else np.empty(0)


def _described(state: Mapping[str, Any], parts: list[Vector]) -> dict[str, Any]:
    if "maps" in state:
        return {"map": state["map"], "maps": [_described(one, parts) for one in state["maps"]]}
    arrays = []
    for name, array in state["learned"].items():
        arrays.append({"name": name, "dtype": array.dtype.name, "shape": list(array.shape)})
        parts.append(array.reshape(-1).astype(np.float64))
    return {
        "map": state["map"],
        "fields": {name: encode(value, name) for name, value in state["fields"].items()},
        "n_inputs": state["n_inputs"],
        "learned": arrays,
    }


def unpack_map(description: Any, values: Vector) -> FeatureMap:
    """Return the fitted map of a `pack_map` output; raise `ModelFileError` if it is invalid."""
    rest = [0]
    try:
        state = _state(description, values, rest)
        if rest[0] != len(values):
            raise ValueError(f"{len(values)} numbers are stored, {rest[0]} are described.")
        return restored_map(state)
    except (TypeError, KeyError, AttributeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"its feature map cannot be restored: {reason(error)}") from None


def _state(description: Any, values: Vector, rest: list[int], depth: int = 0) -> dict[str, Any]:
    """Return the state of a described map; `rest[0]` counts the numbers used so far."""
    if not isinstance(description, Mapping) or depth > 8:
        raise ValueError("the description is not a mapping.")
    if "maps" in description:
        maps = [_state(one, values, rest, depth + 1) for one in description["maps"]]
        return {"map": description["map"], "maps": maps}
    learned: dict[str, Any] = {}
    for array in description["learned"]:
        shape, dtype = tuple(array["shape"]), array["dtype"]
        if dtype not in _TYPES or not all(type(side) is int and side >= 0 for side in shape):
            raise ValueError(f"an array of {dtype!r:.20} of shape {shape!r:.60} is described.")
        start, stop = rest[0], rest[0] + math.prod(shape)
        if stop > len(values):
            raise ValueError(f"{len(values)} numbers are too few for the described arrays.")
        part = values[start:stop]
        if dtype == "int64" and not (np.abs(part) < 2**53).all():
            raise ValueError("an index is too large.")
        learned[array["name"]] = part.astype(dtype).reshape(shape)
        rest[0] = stop
    return {
        "map": description["map"],
        "fields": {name: decode(value, name) for name, value in description["fields"].items()},
        "n_inputs": description["n_inputs"],
        "learned": learned,
    }


def plain_map(features: FeatureMap) -> dict[str, Any]:
    """Return a fitted map as plain values, with arrays as lists, for other languages."""
    return _plain(features.state())


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    if "maps" in state:
        return {"map": state["map"], "maps": [_plain(one) for one in state["maps"]]}
    return {
        "map": state["map"],
        "parameters": {name: encode(value, name) for name, value in state["fields"].items()},
        "n_inputs": state["n_inputs"],
        "learned": {name: array.tolist() for name, array in state["learned"].items()},
    }
