# SPDX-License-Identifier: BSD-3-Clause
"""Check the values and labels of examples given as dicts."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from pairlearn.typing import Vector

#: The largest absolute value or coefficient; sums of squared scores then stay finite.
LARGEST = 1e60
#: The sign of each label in the loss.
LABELS: dict[Any, float] = {True: 1.0, False: -1.0, -1: -1.0}


class RefusedExampleWarning(UserWarning):
    """Examples were skipped because their values are unusable."""


def as_numbers(values: list[float]) -> Vector | None:
    """Return a list as an array, or None if a value is not a number within the limits."""
    try:
        memory = bytearray(8 * len(values))
        struct.pack_into(f"{len(values)}d", memory, 0, *values)
        flat = np.frombuffer(memory)
    except (struct.error, TypeError, ValueError, OverflowError):
        return None
    # with a NaN, min and max are NaN and both comparisons fail
    usable = flat.min(initial=0.0) >= -LARGEST and flat.max(initial=0.0) <= LARGEST
    return flat if usable else None


def check_label(y: Any) -> None:
    """Refuse a label other than True, False, 1, 0 and -1."""
    try:
        known = y in LABELS
    except TypeError:
        known = False
    if not known:
        raise ValueError(f"the label must be True or False (1 or 0), got {y!r:.60}.")


def check_example(x: Any) -> None:
    """Refuse an example that is not a mapping of names to finite numbers of at most 1e60."""
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
