# SPDX-License-Identifier: BSD-3-Clause
"""Write the state of a running learner as named arrays and JSON values, and read it bit for bit.

A value that JSON cannot hold becomes an object with one key that starts with ``$``.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.restored import restored_labels
from pairlearn.solvers.rows import CsrRows, DenseRows

#: Types stored as arrays; other arrays, such as labels, are written as lists.
_TENSORS = ("float64", "float32", "int64", "int32", "uint8", "bool")


class StateError(ValueError):
    """A state cannot be written or read."""


def pack(value: Any) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Return plain JSON values, and the arrays that they refer to."""
    arrays: dict[str, NDArray[Any]] = {}
    return _pack(value, "", arrays), arrays


def _pack(value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the JSON form of a value; put its arrays into `arrays` under the name `place`."""

    def inner(name: object) -> str:
        return f"{place}.{name}" if place else str(name)

    if isinstance(value, np.ndarray) and value.dtype.name not in _TENSORS:
        return {"$listed": [_pack(value.tolist(), place, arrays), value.dtype.str]}
    if isinstance(value, np.ndarray):
        name = place or "value"
        arrays[name] = value
        return {"$array": name}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.random.Generator):
        return {"$generator": _pack(value.bit_generator.state, inner("generator"), arrays)}
    if isinstance(value, DenseRows):
        return {"$dense": _pack(value.X, inner("X"), arrays)}
    if isinstance(value, CsrRows):
        parts = {name: getattr(value, name) for name in ("data", "indices", "indptr")}
        return {"$csr": [_pack(parts, place, arrays), value.n_features]}
    if isinstance(value, (list, tuple)):
        found = [_pack(entry, inner(k), arrays) for k, entry in enumerate(value)]
        return {"$tuple": found} if isinstance(value, tuple) else found
    if isinstance(value, Mapping):
        if all(isinstance(k, str) and not k.startswith("$") for k in value) and not isinstance(
            value, OrderedDict
        ):
            return {k: _pack(v, inner(k), arrays) for k, v in value.items()}
        pairs = [[_pack(k, inner(f"{n}.key"), arrays), _pack(v, inner(n), arrays)]
                 for n, (k, v) in enumerate(value.items())]  # fmt: skip
        return {"$ordered" if isinstance(value, OrderedDict) else "$pairs": pairs}
    raise StateError(f"{place} is a {type(value).__name__}, which a checkpoint cannot hold.")


def unpack(plain: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the value given to `pack`, with fresh copies of its arrays."""
    # each array may be named once, so a damaged file cannot make many copies
    return _unpack(plain, dict(arrays))


def _unpack(plain: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the value of a JSON form; take its arrays out of `arrays`."""
    if isinstance(plain, list):
        return [_unpack(entry, arrays) for entry in plain]
    if not isinstance(plain, Mapping):
        return plain
    if len(plain) != 1 or not next(iter(plain)).startswith("$"):
        return {k: _unpack(v, arrays) for k, v in plain.items()}
    ((kind, content),) = plain.items()
    try:
        if kind == "$array":
            return arrays.pop(content).copy()
        if kind == "$listed":
            return _listed(_unpack(content[0], arrays), content[1])
        if kind == "$float":
            return float(content)
        if kind == "$generator":
            return _generator(_unpack(content, arrays))
        if kind == "$dense":
            return DenseRows(_unpack(content, arrays))
        if kind == "$csr":
            return CsrRows(**_unpack(content[0], arrays), n_features=content[1])
        if kind == "$tuple":
            return tuple(_unpack(content, arrays))
        if kind in ("$pairs", "$ordered"):
            found = [(_unpack(k, arrays), _unpack(v, arrays)) for k, v in content]
            return OrderedDict(found) if kind == "$ordered" else dict(found)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise StateError(f"the state is damaged at {kind[:20]} ({str(error)[:200]}).") from None
    raise StateError(f"the state holds {kind[:60]!r}, which this version does not know.")


def _listed(values: Any, dtype: str) -> NDArray[Any]:
    if not isinstance(values, list):
        raise ValueError(f"an array is written as {type(values).__name__}")
    return restored_labels(values, dtype)


def _generator(state: dict[str, Any]) -> np.random.Generator:
    # this table keeps the file from naming any other attribute
    kinds = {kind.__name__: kind for kind in (np.random.PCG64, np.random.PCG64DXSM,
                                               np.random.Philox, np.random.SFC64,
                                               np.random.MT19937)}  # fmt: skip
    bits: Any = kinds[state["bit_generator"]](0)
    bits.state = state
    return np.random.Generator(bits)
