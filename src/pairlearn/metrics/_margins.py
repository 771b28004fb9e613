# SPDX-License-Identifier: BSD-3-Clause
"""The built-in losses as NumPy functions of a whole array of margins.

They are the twins of the scalar functions in `pairlearn.losses`; each returns l(m) and l'(m).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pairlearn.losses import (
    Exponential,
    Hinge,
    Logistic,
    LogLink,
    SmoothedHinge,
    Square,
    SquaredHinge,
)
from pairlearn.metrics._inputs import Vector

__all__ = ["FORMS", "Form", "logistic", "loglink"]

Form = Callable[[Vector, float], tuple[Vector, Vector]]


def hinge(m: Vector, margin: float) -> tuple[Vector, Vector]:
    """Return (margin - m)_+ and its derivative."""
    return np.maximum(margin - m, 0.0), -(m < margin).astype(np.float64)


def squared_hinge(m: Vector, margin: float) -> tuple[Vector, Vector]:
    """Return (margin - m)_+^2 and its derivative."""
    gap = np.maximum(margin - m, 0.0)
    return gap * gap, -2.0 * gap


def square(m: Vector, margin: float) -> tuple[Vector, Vector]:
    """Return (margin - m)^2 and its derivative."""
    gap = margin - m
    return gap * gap, -2.0 * gap


def smoothed_hinge(m: Vector, width: float) -> tuple[Vector, Vector]:
    """Return the Huberised hinge and its derivative."""
    gap = np.maximum(1.0 - m, 0.0)
    near = np.minimum(gap, width)
    return near * near / (2.0 * width) + (gap - near), -near / width


def logistic(m: Vector, _: float) -> tuple[Vector, Vector]:
    """Return log(1 + exp(-m)) and its derivative, -(1 - sigmoid(m))."""
    e = np.exp(-np.abs(m))
    miss = np.where(m > 0.0, e, 1.0) / (1.0 + e)
    return np.log1p(e) + np.maximum(-m, 0.0), -miss


def exponential(m: Vector, _: float) -> tuple[Vector, Vector]:
    """Return exp(-m), the exponent cut at 700 as in the scalar function, and its derivative."""
    value = np.exp(np.minimum(-m, 700.0))
    return value, -value


def loglink(m: Vector, _: float) -> tuple[Vector, Vector]:
    """Return (1 - sigmoid(m))^2 and its derivative."""
    e = np.exp(-np.abs(m))
    miss = np.where(m > 0.0, e, 1.0) / (1.0 + e)
    hit = np.where(m > 0.0, 1.0, e) / (1.0 + e)
    return miss * miss, -2.0 * miss * miss * hit


#: Keyed by the pair of scalar functions, so that a subclass that replaces one is not mistaken.
FORMS: dict[tuple[object, object], Form] = {
    (Hinge.value, Hinge.derivative): hinge,
    (SquaredHinge.value, SquaredHinge.derivative): squared_hinge,
    (Square.value, Square.derivative): square,
    (SmoothedHinge.value, SmoothedHinge.derivative): smoothed_hinge,
    (Logistic.value, Logistic.derivative): logistic,
    (Exponential.value, Exponential.derivative): exponential,
    (LogLink.value, LogLink.derivative): loglink,
}
