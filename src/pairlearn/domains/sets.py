# SPDX-License-Identifier: BSD-3-Clause
"""The whole space, balls and sets of positive semi-definite matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from pairlearn.register import Part
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_positive


@dataclass(frozen=True)
class WholeSpace(Part):
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

    def project(self, w: Vector) -> Vector:
        """Return `w` itself."""
        return w


@dataclass(frozen=True)
class Ball(Part):
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

    def project(self, w: Vector) -> Vector:
        """Return the closest point of the ball, w min(1, radius / ||w||)."""
        norm = math.sqrt(float(np.dot(w, w)))
        return w if norm <= self.radius else w * (self.radius / norm)


@dataclass(frozen=True)
class PsdSet(Part):
    """Base class of sets of positive semi-definite matrices.

    `projection` ("exact" or "every") and `period` say when a solver projects; see `PsdCone`.
    """

    projection: str = field(default="exact", kw_only=True)
    period: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        if self.projection not in ("exact", "every"):
            raise ValueError(f'projection must be "exact" or "every", got {self.projection!r}.')
        check_count("period", self.period)
        if self.projection == "exact" and self.period != 1:
            raise ValueError(
                f'period={self.period} needs projection="every"; exact projection has no period.'
            )

    def project(self, w: Vector) -> Vector:
        """Return the closest PSD matrix in the shape of `w`: a square matrix, or its flat rows."""
        side = math.isqrt(w.size)
        if side * side != w.size:
            raise ValueError(f"A square matrix is needed, got {w.size} numbers.")
        W = w.reshape(side, side)
        values, vectors = np.linalg.eigh(0.5 * (W + W.T))
        if values[0] >= 0.0:
            # The set holds symmetric matrices only.
            return w if bool((W == W.T).all()) else np.asarray(0.5 * (W + W.T)).reshape(w.shape)
        projected = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return np.asarray(0.5 * (projected + projected.T)).reshape(w.shape)


@dataclass(frozen=True)
class PsdCone(PsdSet):
    """Positive semi-definite matrices.

    Parameters
    ----------
    projection : {"exact", "every"}, default="exact"
        When a solver projects. "exact" projects at each step that can leave the cone: it removes
        the one negative eigenvalue that a step can cause, without a full eigendecomposition.
        "every" projects every `period` steps by a full eigendecomposition; in between W may have
        negative eigenvalues.
    period : int, default=1
        The number of steps between two projections with ``projection="every"``.

    Examples
    --------
    >>> PsdCone().project(np.array([[1.0, 0.0], [0.0, -1.0]]))
    array([[1., 0.],
           [0., 0.]])
    """

    @property
    def radius(self) -> float:
        """Infinity."""
        return math.inf

    @property
    def diameter(self) -> float:
        """Infinity."""
        return math.inf


@dataclass(frozen=True)
class PsdBall(PsdSet):
    """Positive semi-definite matrices of Frobenius norm at most `radius`.

    The projection is the projection onto the cone, then a scaling, since the ball is centred at the
    apex of the cone.

    Parameters
    ----------
    radius : float
        The radius.
    projection : {"exact", "every"}, default="exact"
        As in `PsdCone`. The scaling happens at every step; with "every" it comes before the cone.
    period : int, default=1
        As in `PsdCone`.

    Examples
    --------
    >>> PsdBall(1.0).project(np.diag([3.0, 4.0]))
    array([[0.6, 0. ],
           [0. , 0.8]])
    """

    radius: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("radius", self.radius)

    @property
    def diameter(self) -> float:
        """The radius times sqrt(2): two PSD matrices have a non-negative inner product."""
        return math.sqrt(2.0) * self.radius

    def project(self, w: Vector) -> Vector:
        """Return the closest point, in the shape of `w`."""
        inside = super().project(w)
        norm = float(np.linalg.norm(inside))
        return inside if norm <= self.radius else inside * (self.radius / norm)


def ball_or_whole(radius: float) -> WholeSpace | Ball:
    """Return the ball of a radius, or the whole space if the radius is infinite."""
    check_positive("radius", radius, allow_infinite=True)
    return WholeSpace() if math.isinf(radius) else Ball(radius)
