# SPDX-License-Identifier: BSD-3-Clause
"""The rule of scale: the unit of a column is its standard deviation, at least a tenth of its range.

The floor keeps a rare indicator, whose standard deviation is small, from being blown up.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from pairlearn.typing import Mask, Vector

#: The least scale of a column, as a share of its range.
FLOOR = 0.1
#: Rows with a larger mean share of values that are not zero are scaled as a table.
TABLE = 0.1
#: Rows with a smaller share are scaled as text; between the two, the scales are mixed.
TEXT = 0.03
#: In text, the standard deviation of a scaled column is this power of twice its share of values.
RARITY = 0.15


def scale_of(deviation: Vector, low: Vector, high: Vector, *, floor: float = FLOOR) -> Vector:
    """Return the scale of columns from their standard deviations and extremes."""
    return np.maximum(deviation, floor * (high - low))


@functools.cache
def least_spread(dtype: Any) -> float:
    """Return the least spread of a column that varies, as a share of its largest value.

    It is a few units in the last place of the type, and 1e-10 for double precision.
    """
    return max(1e-10, 8.0 * float(np.finfo(dtype).eps))


def which_vary(spread: Vector, low: Vector, high: Vector, dtype: Any = np.float64) -> Mask:
    """Return which columns vary beyond rounding."""
    return np.asarray(spread > least_spread(dtype) * np.maximum(np.abs(low), np.abs(high)))
