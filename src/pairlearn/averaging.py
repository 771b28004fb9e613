# SPDX-License-Identifier: BSD-3-Clause
"""Averaging rules: the returned model is a weighted average of the iterates.

A rule states the weight that each iterate w_0, w_1, ... is *owed*. Between two updates w does not
change, so a kernel keeps one scalar, the weight owed to the current w, and touches the weighted sum
only when w is about to change.

The paper's rules are *delayed*: step j adds a multiple of w_{j-2}, the newest iterate that is
independent of the pair (z_{i_j}, z_{i_{j-1}}). After T steps the last two iterates have no weight
yet; w_{T-1} receives its own at step T + 1. The kernel pays w_{T-1} when it leaves it, one step
early, and `paid_early` says how much to take back when the average is read at T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from pairlearn.register import Part, Register
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction

__all__ = [
    "AVERAGINGS",
    "Averaging",
    "ByStepSize",
    "DelayedByStepSize",
    "DelayedLinear",
    "DelayedPastBuffer",
    "LastIterate",
    "Tail",
    "Uniform",
]


class StepSizes(Protocol):
    """The step sizes of a schedule."""

    def step_sizes(self, first: int, count: int) -> Vector:
        """Return eta_t for t = first, ..., first + count - 1."""


@dataclass(frozen=True)
class Averaging(Part):
    """Base class of averaging rules."""

    #: Whether a weighted sum of iterates is kept.
    keeps_sum: ClassVar[bool] = True
    #: Whether the rule must know the number of steps beforehand.
    needs_horizon: ClassVar[bool] = False
    #: Whether a constant schedule makes all owed weights but the first constant.
    follows_schedule: ClassVar[bool] = False

    @property
    def remembers(self) -> int:
        """Number s of past iterates w_{T-s}, ..., w_{T-1} that reading the average at T needs."""
        return 0

    def at_start(self, schedule: StepSizes) -> float:
        """Return the weight that w_0 is owed before the first step."""
        return 0.0

    def owed(
        self, schedule: StepSizes, first: int, count: int, *, horizon: int | None = None
    ) -> Vector:
        """Return the weight owed to w_{t-1}, the iterate left at step t = first, ..."""
        raise TypeError(f"{type(self).__name__} must define owed(schedule, first, count).")

    def paid_early(self, schedule: StepSizes, n_steps: int) -> float:
        """Return the part of the weight of w_{T-1} that does not belong to the average at T."""
        return 0.0

    def taken_back(self, schedule: StepSizes, n_steps: int) -> Vector:
        """Return the weights of the remembered iterates that do not belong to the average at T."""
        return np.zeros(self.remembers)

    def owed_to_last(self, n_steps: int) -> float:
        """Return the weight of w_T in the average at T."""
        return 0.0


AVERAGINGS: Register[Averaging] = Register("averaging", Averaging)


@AVERAGINGS.add("step_size")
@dataclass(frozen=True)
class DelayedByStepSize(Averaging):
    """The paper's average, sum_j eta_j w_{j-2} / sum_j eta_j (Algorithms 1 and 2).

    Examples
    --------
    >>> from pairlearn.schedules import InverseTime
    >>> DelayedByStepSize().owed(InverseTime(1.0), 1, 2)
    array([0.5       , 0.33333333])
    """

    follows_schedule: ClassVar[bool] = True

    def at_start(self, schedule: StepSizes) -> float:
        """Return eta_1, since w_{-1} = w_0."""
        return float(schedule.step_sizes(1, 1)[0])

    def owed(
        self, schedule: StepSizes, first: int, count: int, *, horizon: int | None = None
    ) -> Vector:
        """Return eta_{t+1} for the iterate w_{t-1}."""
        return schedule.step_sizes(first + 1, count)

    def paid_early(self, schedule: StepSizes, n_steps: int) -> float:
        """Return eta_{T+1}."""
        return float(schedule.step_sizes(n_steps + 1, 1)[0])


@AVERAGINGS.add("past_buffer")
@dataclass(frozen=True)
class DelayedPastBuffer(Averaging):
    """The average sum_j eta_j w_{j-s-1} / sum_j eta_j, with w_i = w_0 for i < 0.

    With a buffer of the last s examples w_{j-s-1} is the newest iterate that is independent of all
    pairs of step j; the bound of `theory.convex_gap` for a buffer is for this average. For s = 1 it
    is `DelayedByStepSize`. The last s iterates have no weight yet. A run keeps them, so that the
    average can be read after any step: s vectors of the length of w.

    Parameters
    ----------
    buffer_size : int, optional
        The size s. The solver takes that of its pairing by default. It refuses a size that is too
        small for the pairing, and pairings whose examples can stay for ever.

    Examples
    --------
    >>> from pairlearn.schedules import InverseTime
    >>> DelayedPastBuffer(2).owed(InverseTime(6.0), 1, 4, horizon=4)
    array([2. , 1.5, 0. , 0. ])
    """

    buffer_size: int | None = None

    def __post_init__(self) -> None:
        if self.buffer_size is not None:
            check_count("buffer_size", self.buffer_size)

    @property
    def remembers(self) -> int:
        """The size s."""
        if self.buffer_size is None:
            raise ValueError(
                "DelayedPastBuffer() takes its size from a pairing, and there is none here; give "
                "buffer_size."
            )
        return self.buffer_size

    def at_start(self, schedule: StepSizes) -> float:
        """Return eta_1 + ... + eta_s, since w_{-1}, ..., w_{-s} are w_0."""
        return float(schedule.step_sizes(1, self.remembers).sum())

    def owed(
        self, schedule: StepSizes, first: int, count: int, *, horizon: int | None = None
    ) -> Vector:
        """Return eta_{t+s} for the iterate w_{t-1}, and nothing beyond the last step if known."""
        ahead = first + self.remembers
        weights = schedule.step_sizes(ahead, count)
        if horizon is None:
            return weights
        return np.where(np.arange(ahead, ahead + count) <= horizon, weights, 0.0)

    def taken_back(self, schedule: StepSizes, n_steps: int) -> Vector:
        """Return eta_{T+1}, ..., eta_{T+s}, paid to w_{T-s}, ..., w_{T-1} (w_0 for T < s)."""
        return schedule.step_sizes(n_steps + 1, self.remembers)


@AVERAGINGS.add("undelayed")
@dataclass(frozen=True)
class ByStepSize(Averaging):
    """The average sum_j eta_j w_{j-1} / sum_j eta_j of the iterates that steps start from.

    Methods with one example per step, such as SOLAM, use it; their proofs need no delay.

    Examples
    --------
    >>> from pairlearn.schedules import InverseTime
    >>> ByStepSize().owed(InverseTime(1.0), 1, 2)
    array([1. , 0.5])
    """

    follows_schedule: ClassVar[bool] = True

    def owed(
        self, schedule: StepSizes, first: int, count: int, *, horizon: int | None = None
    ) -> Vector:
        """Return eta_t for the iterate w_{t-1}."""
        return schedule.step_sizes(first, count)


@AVERAGINGS.add("linear")
@dataclass(frozen=True)
class DelayedLinear(Averaging):
    """The average sum_j j w_{j-2} / sum_j j, which the strongly convex rates need (Theorem 7b).

    Examples
    --------
    >>> from pairlearn.schedules import Constant
    >>> DelayedLinear().owed(Constant(1.0), 1, 2)
    array([2., 3.])
    """

    def at_start(self, schedule: StepSizes) -> float:
        """Return 1, since w_{-1} = w_0."""
        return 1.0

    def owed(
        self, schedule: StepSizes, first: int, count: int, *, horizon: int | None = None
    ) -> Vector:
        """Return t + 1 for the iterate w_{t-1}."""
        return np.arange(first + 1, first + 1 + count, dtype=np.float64)

    def paid_early(self, schedule: StepSizes, n_steps: int) -> float:
        """Return T + 1."""
        return float(n_steps + 1)


@AVERAGINGS.add("uniform")
@dataclass(frozen=True)
class Uniform(Averaging):
    """The plain mean of w_1, ..., w_T.

    Examples
    --------
    >>> from pairlearn.schedules import Constant
    >>> Uniform().owed(Constant(1.0), 1, 3)
    array([0., 1., 1.])
    """

    follows_schedule: ClassVar[bool] = True

    def owed(
        self, schedule: StepSizes, first: int, count: int, *, horizon: int | None = None
    ) -> Vector:
        """Return 1 for every iterate but w_0."""
        weights = np.ones(count)
        if first == 1 and count:
            weights[0] = 0.0
        return weights

    def owed_to_last(self, n_steps: int) -> float:
        """Return 1."""
        return 1.0


@AVERAGINGS.add("tail")
@dataclass(frozen=True)
class Tail(Averaging):
    """The plain mean of the last iterates, w_t for t > (1 - fraction) T.

    Parameters
    ----------
    fraction : float, default=0.5
        The share of the steps that counts. The number of steps must be known: the rule does not
        work on a stream.

    Examples
    --------
    >>> from pairlearn.schedules import Constant
    >>> Tail(0.5).owed(Constant(1.0), 1, 4, horizon=4)
    array([0., 0., 0., 1.])
    """

    fraction: float = 0.5
    needs_horizon: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction("fraction", self.fraction)

    def owed(
        self, schedule: StepSizes, first: int, count: int, *, horizon: int | None = None
    ) -> Vector:
        """Return 1 for the iterates of the tail."""
        if horizon is None:
            raise ValueError(
                "Tail averaging needs the number of steps; for a stream use DelayedByStepSize()."
            )
        left = np.arange(first - 1, first - 1 + count)
        return (left > math.floor((1.0 - self.fraction) * horizon)).astype(np.float64)

    def owed_to_last(self, n_steps: int) -> float:
        """Return 1."""
        return 1.0


@AVERAGINGS.add("last")
@dataclass(frozen=True)
class LastIterate(Averaging):
    """No average: w_T itself.

    Examples
    --------
    >>> LastIterate().keeps_sum
    False
    """

    keeps_sum: ClassVar[bool] = False
    follows_schedule: ClassVar[bool] = True

    def owed(
        self, schedule: StepSizes, first: int, count: int, *, horizon: int | None = None
    ) -> Vector:
        """Return zeros."""
        return np.zeros(count)

    def owed_to_last(self, n_steps: int) -> float:
        """Return 1."""
        return 1.0
