# SPDX-License-Identifier: BSD-3-Clause
"""Where the parameter may live: the set W and the projection onto it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.validation import check_positive

__all__ = ["Ball", "WholeSpace"]


@dataclass(frozen=True)
class WholeSpace:
    """No constraint.

    Examples
    --------
    >>> WholeSpace().radius
    inf
    """

    @property
    def radius(self) -> float:
        """Infinity."""
        return math.inf

    @property
    def diameter(self) -> float:
        """Infinity."""
        return math.inf

    def project(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return `w` itself."""
        return w


@dataclass(frozen=True)
class Ball:
    """Euclidean ball about the origin, ||w|| <= radius.

    Parameters
    ----------
    radius : float
        The radius; the paper's diameter D is twice as large.

    Examples
    --------
    >>> Ball(1.0).project(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """

    radius: float

    def __post_init__(self) -> None:
        check_positive("radius", self.radius)

    @property
    def diameter(self) -> float:
        """Twice the radius."""
        return 2.0 * self.radius

    def project(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the closest point of the ball, w min(1, radius / ||w||)."""
        norm = math.sqrt(float(np.dot(w, w)))
        return w if norm <= self.radius else w * (self.radius / norm)
