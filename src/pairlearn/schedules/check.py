# SPDX-License-Identifier: BSD-3-Clause
"""Check a schedule before training: positive steps that do not depend on how they are asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairlearn.schedules.shapes import Schedule
from pairlearn.typing import Vector
from pairlearn.validation import check_count


@dataclass(frozen=True)
class ScheduleCheck:
    """The findings of `check_schedule` for a schedule that passed."""

    #: Steps that were tried.
    n_steps: int
    #: The largest and the smallest step size among them.
    largest: float
    smallest: float
    #: Whether no step is longer than the one before it.
    non_increasing: bool


def check_schedule(schedule: Schedule, *, n_steps: int = 100_000) -> ScheduleCheck:
    """Check a schedule before training.

    Step sizes must be positive finite float64 numbers. They must be the same in one go, in pieces
    and out of order, twice as large in ``scaled(2.0)``, and all equal if `is_constant`.

    Parameters
    ----------
    schedule : Schedule
        The schedule.
    n_steps : int, default=100_000
        Number of steps to try; use the length of your run.

    Returns
    -------
    ScheduleCheck
        The findings.

    Raises
    ------
    ValueError
        If the schedule fails; the message names the step.

    Examples
    --------
    >>> from pairlearn import InverseSqrt
    >>> from pairlearn.schedules import check_schedule
    >>> check_schedule(InverseSqrt(1.0), n_steps=10_000).smallest
    0.01
    """
    if not isinstance(schedule, Schedule):
        raise TypeError(
            f"check_schedule needs a Schedule (an instance, not a class), got {schedule!r}."
        )
    n_steps, name = check_count("n_steps", n_steps), type(schedule).__name__
    sizes = _piece(schedule, 1, n_steps)
    wrong = np.flatnonzero(~(np.isfinite(sizes) & (sizes > 0.0)))
    if len(wrong):
        raise ValueError(
            f"{name} steps by {float(sizes[wrong[0]])!r} at step {wrong[0] + 1}; step sizes must "
            "be positive and finite."
        )
    # Pieces out of order, from one step to a third of the run.
    for begin, end in ((n_steps // 3, n_steps), (n_steps - 1, n_steps), (0, n_steps // 3), (0, 1)):
        _compare(
            _piece(schedule, begin + 1, end - begin),
            sizes[begin:end],
            begin,
            f"{name}.step_sizes({begin + 1}, {end - begin}) and step_sizes(1, {n_steps}) differ "
            "at step {}: {!r} and {!r}; let shape(steps) depend on the steps alone.",
        )
    double = schedule.scaled(2.0)
    if type(double) is not type(schedule):
        raise ValueError(f"{name}.scaled(2.0) is a {type(double).__name__}; return a {name}.")
    _compare(
        _piece(double, 1, n_steps),
        2.0 * sizes,
        0,
        f"{name}.scaled(2.0) does not double step {{}}: {{!r}} instead of {{!r}}; step sizes must "
        "be step_size times shape(steps).",
    )
    if schedule.is_constant:
        message = f"{name}.is_constant, but step {{}} is {{!r}} and the first is {{!r}}."
        _compare(sizes, np.full(n_steps, sizes[0]), 0, message)
    return ScheduleCheck(
        n_steps, float(sizes.max()), float(sizes.min()), bool((np.diff(sizes) <= 0.0).all())
    )


def _piece(schedule: Schedule, first: int, count: int) -> Vector:
    """Return `count` step sizes; refuse anything but `count` float64 numbers."""
    sizes = schedule.step_sizes(first, count)
    if not isinstance(sizes, np.ndarray) or sizes.dtype != np.float64 or sizes.shape != (count,):
        found = f"{getattr(sizes, 'dtype', type(sizes))} of shape {np.shape(sizes)}"
        raise ValueError(
            f"{type(schedule).__name__}.step_sizes({first}, {count}) is {found}; shape(steps) must "
            "return one float64 number for each step."
        )
    return sizes


def _compare(found: Vector, expected: Vector, before: int, message: str) -> None:
    """Raise for the first step, counted after `before` others, that is not as expected."""
    wrong = np.flatnonzero(~np.isclose(found, expected, rtol=1e-12, atol=0.0))
    if len(wrong):
        at = wrong[0]
        raise ValueError(message.format(before + at + 1, float(found[at]), float(expected[at])))
