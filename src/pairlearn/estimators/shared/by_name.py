# SPDX-License-Identifier: BSD-3-Clause
"""Parts that estimators take by name or as objects: schedules, averages, pairings."""

from __future__ import annotations

import numpy as np

from pairlearn.averaging import AVERAGINGS, Averaging
from pairlearn.pairings import PAIRINGS, Pairing
from pairlearn.schedules import SCHEDULES, Schedule
from pairlearn.validation import check_count, check_positive

__all__ = ["as_averaging", "as_pairing", "as_schedule", "auto_steps", "is_scaled"]

#: Names of pairings with a buffer, whose size is a parameter of the estimator.
_SIZED = ("fifo", "reservoir", "class_reservoirs")


def is_scaled(scaling: str | None) -> bool:
    """Return whether features are scaled.

    >>> is_scaled("standard")
    Traceback (most recent call last):
        ...
    ValueError: scaling must be "auto" or None, got 'standard'.
    """
    if scaling not in ("auto", None):
        raise ValueError(f'scaling must be "auto" or None, got {scaling!r}.')
    return scaling == "auto"


def as_schedule(schedule: str | Schedule, *, default: str) -> Schedule:
    """Return a schedule given by name (with scale 1) or as an object; "auto" is the default."""
    asked = isinstance(schedule, str) and schedule == "auto"
    return SCHEDULES.make(default if asked else schedule)


def as_averaging(averaging: str | Averaging) -> Averaging:
    """Return an averaging rule given by name or as an object."""
    return AVERAGINGS.make(averaging)


def as_pairing(pairing: str | Pairing, buffer_size: int = 1) -> Pairing:
    """Return a pairing given by name or as an object.

    >>> as_pairing("fifo", 10)
    FifoBuffer(buffer_size=10)
    """
    made = PAIRINGS.make(pairing)
    if isinstance(pairing, str):
        size = check_count("buffer_size", buffer_size)
        return PAIRINGS[pairing](size) if pairing in _SIZED else made
    return made


def auto_steps(n_passes: float | str, n: int, *, budget: int, most_passes: int = 200) -> int:
    """Return the number of steps; "auto" takes `budget`, but from 1 to `most_passes` passes.

    >>> auto_steps("auto", 100, budget=50_000)
    20000
    """
    if n_passes == "auto":
        return int(np.clip(budget, n, most_passes * n))
    return max(int(np.ceil(check_positive("n_passes", n_passes) * n)), 1)  # type: ignore[arg-type]
