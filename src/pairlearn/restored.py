# SPDX-License-Identifier: BSD-3-Clause
"""Check values of a state that comes from an untrusted file.

Each function takes the state and the name of an entry. It returns the value only if the library
could have written it, and allocates nothing before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The largest weight of an example that a learner takes: sums of products of two must not overflow.
LARGEST_WEIGHT = 1e100
#: The largest absolute value: squares of smaller numbers, and sums of squares, stay finite.
_LARGEST = 1e150
#: Bytes that labels may take beyond the size of their texts.
_SLACK = 1 << 20


def _entry(state: Mapping[str, Any], name: str) -> Any:
    if not isinstance(state, Mapping):
        raise ValueError(f"the saved state is a {type(state).__name__}, not a mapping.")
    if name not in state:
        raise ValueError(f"the saved state has no {name}.")
    return state[name]


def restored_count(
    state: Mapping[str, Any], name: str, *, minimum: int = 0, maximum: int = 2**62
) -> int:
    """Return a whole number within bounds."""
    value = _entry(state, name)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not minimum <= value <= maximum:
        raise ValueError(
            f"the saved {name} is {value!r:.60}, it must be a whole number from {minimum} to "
            f"{maximum}."
        )
    return int(value)


def restored_number(
    state: Mapping[str, Any], name: str, *, low: float = -math.inf, high: float = math.inf
) -> float:
    """Return a number from `low` to `high`; it may be infinite only if its bound is."""
    value = _entry(state, name)
    real = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not real or not low <= value <= high:
        raise ValueError(
            f"the saved {name} is {value!r:.60}, it must be a number from {low:g} to {high:g}."
        )
    return float(value)


def restored_array(
    state: Mapping[str, Any],
    name: str,
    shape: Sequence[int | None],
    dtypes: Sequence[str] = ("float64",),
) -> NDArray[Any]:
    """Return a finite array of given type and shape; a side of None is free."""
    value = _entry(state, name)
    is_array = isinstance(value, np.ndarray)
    good = (
        is_array
        and value.dtype.name in dtypes
        and value.ndim == len(shape)
        and all(want in (None, side) for side, want in zip(value.shape, shape, strict=True))
    )
    if not good:
        got = f"array of {value.dtype} of shape {value.shape}" if is_array else repr(value)[:60]
        sides = ", ".join("any" if side is None else str(side) for side in shape)
        wanted = f"({sides},)" if len(shape) == 1 else f"({sides})"
        raise ValueError(
            f"the saved {name} is {'an ' * is_array}{got}, it must be {' or '.join(dtypes)} of "
            f"shape {wanted}."
        )
    found: NDArray[Any] = value
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ValueError(f"the saved {name} contains NaN or infinity.")
    return found


def restored_weights(
    state: Mapping[str, Any], name: str, n: int, *, optional: bool = False
) -> NDArray[Any]:
    """Return the weights of n examples, which may be absent (empty) if `optional`."""
    found = restored_array(state, name, (None,))
    if len(found) != n and not (optional and not len(found)):
        raise ValueError(f"the saved {name} is not one number for each of {n} examples.")
    if not ((found >= 0.0) & (found <= LARGEST_WEIGHT)).all():
        raise ValueError(
            f"the saved {name} holds a number that is not from 0 to {LARGEST_WEIGHT:g}."
        )
    return found


def check_as_saved(name: str, given: float | None, saved: float) -> None:
    """Refuse a number other than that of the saved stream; None takes over what was saved."""
    if given is not None and given != saved:
        raise ValueError(
            f"the saved stream has {name}={saved:g}, and this one {name}={given:g}; restore it "
            f"with {name}={saved!r}, or start a new stream."
        )


def check_sane(name: str, values: Any) -> None:
    """Refuse learned numbers whose squares would overflow; learning stops long before that."""
    # written this way round so that NaN fails
    if not (np.abs(values) <= _LARGEST).all():
        raise ValueError(f"the saved {name} is beyond {_LARGEST:g}.")


def restored_labels(values: Sequence[Any], dtype: Any) -> NDArray[Any]:
    """Return labels as an array of the named type, which must not need absurd memory."""
    try:
        if str(dtype).lstrip("<>=|").startswith("a"):
            raise TypeError  # an old name of bytes; NumPy warns about it
        kind = np.dtype(dtype)
    except (TypeError, ValueError, SyntaxError):
        raise ValueError(f"labels cannot be of type {str(dtype)[:40]!r}.") from None
    if kind.kind not in "biufUO":
        raise ValueError(f"labels cannot be of type {str(dtype)[:40]!r}.")
    if kind.kind == "U":
        if not all(isinstance(value, str) for value in values):
            raise ValueError(f"labels of type {str(dtype)[:40]!r} must be texts.")
        needed = len(values) * kind.itemsize
        if needed > _SLACK + 64 * sum(map(len, values)):
            raise ValueError(f"labels of type {str(dtype)[:40]!r} would take {needed} bytes.")
    try:
        return np.array(values, dtype=kind)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"the labels do not fit the type {str(dtype)[:40]!r}.") from None
