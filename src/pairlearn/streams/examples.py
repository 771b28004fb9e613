# SPDX-License-Identifier: BSD-3-Clause
"""Examples given as dicts: which values and labels can be learned from."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import chain
from math import isfinite
from typing import Any

import numpy as np

from pairlearn.typing import Vector

__all__ = [
    "LABELS",
    "LARGEST",
    "RefusedExampleWarning",
    "as_numbers",
    "check_example",
    "check_label",
    "values_of",
]

#: Values and coefficients are at most so large: squares of scores, summed, stay finite.
LARGEST = 1e60
#: What a loss sees of each label.
LABELS: dict[Any, float] = {True: 1.0, False: -1.0, -1: -1.0}


class RefusedExampleWarning(UserWarning):
    """Examples were not learned because their values cannot be used."""


def values_of(examples: list[dict[Any, float]]) -> Vector | None:
    """Return all values one after the other; None where one cannot be learned."""
    return as_numbers(list(chain.from_iterable(map(dict.values, examples))))


def as_numbers(values: list[float]) -> Vector | None:
    """Return a list as an array; None where a value is not a number of a size that is learned."""
    try:
        memory = bytearray(8 * len(values))
        struct.pack_into(f"{len(values)}d", memory, 0, *values)
        flat = np.frombuffer(memory)
    except (struct.error, TypeError, ValueError, OverflowError):
        return None
    # with a NaN both are NaN, and no comparison holds
    usable = flat.min(initial=0.0) >= -LARGEST and flat.max(initial=0.0) <= LARGEST
    return flat if usable else None


def check_label(y: Any) -> None:
    """Refuse a label that is neither True nor False, 1 nor 0 nor -1."""
    try:
        known = y in LABELS
    except TypeError:
        known = False
    if not known:
        raise ValueError(f"the label must be True or False (1 or 0), got {y!r:.60}.")


def check_example(x: Any) -> None:
    """Refuse what is not a mapping of names to finite numbers of at most 1e60.

    >>> check_example({"age": None})
    Traceback (most recent call last):
        ...
    ValueError: feature 'age' is None; leave it out where it is missing, and write categories...
    """
    if not isinstance(x, Mapping):
        kind = type(x).__name__
        raise ValueError(f"an example must be a dict of names and numbers, got {kind}.")
    for name, value in x.items():
        try:
            good, small = isfinite(value), abs(value) <= LARGEST
        except (TypeError, ValueError, OverflowError):
            good = small = False
        if good and not small:
            raise ValueError(
                f"feature {name!r:.60} is {value!r:.60}, beyond {LARGEST:g}; give it in a larger "
                "unit."
            )
        if not good:
            raise ValueError(
                f"feature {name!r:.60} is {value!r:.60}; leave it out where it is missing, and "
                "write categories as one feature each with value 1."
            )
