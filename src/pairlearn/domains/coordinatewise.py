# SPDX-License-Identifier: BSD-3-Clause
r"""Domains that act on each coordinate separately: boxes, and proximal steps of penalties.

A domain is one scalar function of a coordinate v and a step size eta. For a set it is the
projection. For a penalty r, which is added to the risk, it is the proximal step

    argmin over u of  (u - v)^2 / 2 + eta r(u),

taken after every gradient step, even if the pair of the step costs nothing.
"""

# ruff: noqa: N805

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pairlearn.register import Part
from pairlearn.scalars import Scalar, scalar
from pairlearn.typing import Vector


@dataclass(frozen=True)
class CoordinatewiseDomain(Part):
    """Base class of domains that act on each coordinate separately.

    Notes
    -----
    A subclass defines one function decorated with `scalar`, `proximal`, of ``(value, step_size,
    first, second)``; the last two are its `parameters`. If the step depends on the step size, or
    moves a point a second time, set ``is_projection = False``; such a domain needs dense rows.
    `check_domain` checks a domain.

    Examples
    --------
    >>> from pairlearn import scalar
    >>> class Clipped(CoordinatewiseDomain):
    ...     @scalar
    ...     def proximal(value, step_size, first, second):
    ...         return min(max(value, -1.0), 1.0)
    >>> Clipped().project(np.array([-3.0, 0.5]))
    array([-1. ,  0.5])
    """

    #: Whether `proximal` neither depends on the step size nor moves a point twice.
    is_projection: ClassVar[bool] = True

    proximal: ClassVar[Scalar]

    @property
    def parameters(self) -> tuple[float, float]:
        """The two numbers that `proximal` gets as its last arguments."""
        return (0.0, 0.0)

    @property
    def radius(self) -> float:
        """Infinity."""
        return math.inf

    @property
    def diameter(self) -> float:
        """Infinity."""
        return math.inf

    def step(self, w: Vector, step_size: float) -> Vector:
        """Return the proximal step from `w`, coordinate by coordinate in plain Python."""
        taken = [self.proximal(float(v), step_size, *self.parameters) for v in np.ravel(w)]
        return np.array(taken, dtype=np.float64).reshape(np.shape(w))

    def project(self, w: Vector) -> Vector:
        """Return the step of size zero: the closest point of a set, or `w` itself for a penalty."""
        return self.step(w, 0.0)


@dataclass(frozen=True)
class Box(CoordinatewiseDomain):
    """Coordinates between two bounds.

    Parameters
    ----------
    lower, upper : float
        The bounds of every coordinate; one of them may be infinite.

    Examples
    --------
    >>> Box(-1.0, 2.0).project(np.array([-3.0, 0.5, 3.0]))
    array([-1. ,  0.5,  2. ])
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        if not self.lower < self.upper or (math.isinf(self.lower) and math.isinf(self.upper)):
            raise ValueError(
                f"Box needs lower < upper, one of them finite, got {self.lower!r} and "
                f"{self.upper!r}; use WholeSpace() for no bound."
            )

    @property
    def parameters(self) -> tuple[float, float]:
        """The bounds."""
        return (self.lower, self.upper)

    @scalar
    def proximal(value: float, step_size: float, lower: float, upper: float) -> float:
        """Return the closest point between the bounds."""
        return min(max(value, lower), upper)


@dataclass(frozen=True)
class NonNegative(CoordinatewiseDomain):
    """Coordinates of at least zero.

    Examples
    --------
    >>> NonNegative().project(np.array([-3.0, 0.5]))
    array([0. , 0.5])
    """

    @scalar
    def proximal(value: float, step_size: float, first: float, second: float) -> float:
        """Return the value, or zero if it is negative."""
        return max(value, 0.0)


@dataclass(frozen=True)
class ElasticNet(CoordinatewiseDomain):
    r"""The penalty l1 \|w\|_1 + (l2 / 2) \|w\|^2, by its proximal step: for sparse models.

    After each gradient step w becomes sign(w) max(\|w\| - eta l1, 0) / (1 + eta l2).

    Parameters
    ----------
    l1 : float
        Weight of the sum of the absolute coordinates; it makes coordinates zero.
    l2 : float, default=0.0
        Weight of half the squared norm.

    Notes
    -----
    The last iterate (`LastIterate`) has zeros; an average of iterates has hardly any. A single
    gradient can move a coordinate away from zero again; a buffer makes gradients steadier. Every
    step moves every coordinate, so rows must be dense.

    Examples
    --------
    >>> ElasticNet(1.0, 1.0).step(np.array([-3.0, 0.5, 2.0]), 1.0)
    array([-1. ,  0. ,  0.5])
    """

    l1: float
    l2: float = 0.0
    is_projection: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("l1", "l2"):
            object.__setattr__(self, name, _number(name, getattr(self, name)))
        if not (min(self.l1, self.l2) >= 0.0 and 0.0 < self.l1 + self.l2 < math.inf):
            raise ValueError(
                f"ElasticNet needs finite l1 and l2 of at least 0, one of them positive, got "
                f"{self.l1!r} and {self.l2!r}; use WholeSpace() for no penalty."
            )

    @property
    def parameters(self) -> tuple[float, float]:
        """The weights l1 and l2."""
        return (self.l1, self.l2)

    @scalar
    def proximal(value: float, step_size: float, l1: float, l2: float) -> float:
        """Return the value pulled towards zero."""
        threshold = step_size * l1
        # The value minus its part within the threshold: without a branch it becomes vector code.
        return (value - min(max(value, -threshold), threshold)) * (1.0 / (1.0 + step_size * l2))


def _number(name: str, value: Any) -> float:
    if np.ndim(value):
        raise TypeError(
            f"{name} must be one number for all coordinates, got {value!r}: a kernel receives two "
            "numbers of a domain. Scale the features so that one bound suits them all."
        )
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}.") from None
