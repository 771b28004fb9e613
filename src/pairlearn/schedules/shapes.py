# SPDX-License-Identifier: BSD-3-Clause
"""Shapes of step-size schedules: eta_t for t = 1, 2, ..."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from pairlearn.register import Part, Register
from pairlearn.typing import Vector
from pairlearn.validation import check_positive


@dataclass(frozen=True)
class Schedule(Part):
    """Base class of step-size schedules: the scale eta, `step_size`, times a `shape`."""

    step_size: float = 1.0

    #: Whether every step size is the same.
    is_constant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)

    def step_sizes(self, first: int, count: int) -> Vector:
        """Return eta_t for the steps t = first, ..., first + count - 1 (the first step is 1)."""
        return self.step_size * self.shape(np.arange(first, first + count, dtype=np.float64))

    def scaled(self, factor: float) -> Self:
        """Return the schedule with every step size multiplied by `factor`."""
        return replace(self, step_size=self.step_size * factor)

    def shape(self, steps: Vector) -> Vector:
        """Return eta_t / eta for the given steps t = 1, 2, ...; a subclass must define it."""
        raise TypeError(f"{type(self).__name__} must define shape(steps).")


SCHEDULES: Register[Schedule] = Register("schedule", Schedule)


@SCHEDULES.add("constant")
@dataclass(frozen=True)
class Constant(Schedule):
    """Constant steps, eta_t = eta (Theorems 1, 2 and 6a, with eta of order 1/sqrt(T)).

    Parameters
    ----------
    step_size : float, default=1.0
        The step size eta.

    Examples
    --------
    >>> Constant(0.5).step_sizes(1, 3)
    array([0.5, 0.5, 0.5])
    """

    is_constant: ClassVar[bool] = True

    def step_sizes(self, first: int, count: int) -> Vector:
        """Return `count` times eta."""
        return np.full(count, float(self.step_size))

    def shape(self, steps: Vector) -> Vector:
        """Return ones."""
        return np.ones_like(steps)


@SCHEDULES.add("inverse_sqrt")
@dataclass(frozen=True)
class InverseSqrt(Schedule):
    """Steps eta_t = eta / sqrt(t), for an unknown number of steps.

    Parameters
    ----------
    step_size : float, default=1.0
        The first step size, eta.

    Examples
    --------
    >>> InverseSqrt(1.0).step_sizes(4, 1)
    array([0.5])
    """

    def shape(self, steps: Vector) -> Vector:
        """Return 1 / sqrt(t)."""
        return 1.0 / np.sqrt(steps)


@SCHEDULES.add("inverse_time")
@dataclass(frozen=True)
class InverseTime(Schedule):
    """Steps eta_t = eta / (t + offset).

    Parameters
    ----------
    step_size : float, default=1.0
        The scale eta.
    offset : float, default=0.0
        Delays the decrease: Theorem 9 needs 2 / (mu (t + offset)) with offset >= 4 L / mu.

    Examples
    --------
    >>> InverseTime(1.0, offset=1.0).step_sizes(1, 2)
    array([0.5       , 0.33333333])
    """

    offset: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.offset >= 0.0:
            raise ValueError(f"offset must be at least 0, got {self.offset!r}.")

    def shape(self, steps: Vector) -> Vector:
        """Return 1 / (t + offset)."""
        return 1.0 / (steps + self.offset)


@SCHEDULES.add()
@dataclass(frozen=True)
class StronglyConvex(Schedule):
    """Steps eta_t = 2 / (alpha (t + 1)) of Theorem 6b, for alpha-strongly convex risks.

    Combine it with `DelayedLinear` averaging, which the proof needs.

    Parameters
    ----------
    step_size : float, default=1.0
        The reciprocal of the strong-convexity constant, 1 / alpha.

    Examples
    --------
    >>> StronglyConvex.of(alpha=2.0).step_sizes(1, 2)
    array([0.5       , 0.33333333])
    """

    @classmethod
    def of(cls, alpha: float) -> Self:
        """Return the schedule for the strong-convexity constant `alpha`."""
        return cls(1.0 / check_positive("alpha", alpha))

    def shape(self, steps: Vector) -> Vector:
        """Return 2 / (t + 1)."""
        return 2.0 / (steps + 1.0)
