# SPDX-License-Identifier: BSD-3-Clause
"""Parts of a learner as estimators take them: by name, or as objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from pairlearn.averaging import (
    Averaging,
    ByStepSize,
    DelayedByStepSize,
    DelayedLinear,
    LastIterate,
    Tail,
    Uniform,
)
from pairlearn.pairings import (
    AllPrevious,
    ClassReservoirs,
    FifoBuffer,
    Pairing,
    PreviousExample,
    PreviousOpposite,
    RandomPair,
    ReservoirBuffer,
)
from pairlearn.schedules import Constant, InverseSqrt, InverseTime, Schedule
from pairlearn.validation import check_count, check_positive

__all__ = ["as_averaging", "as_pairing", "as_schedule", "auto_steps", "is_scaled", "named"]

_T = TypeVar("_T")

_SCHEDULES: dict[str, type[Schedule]] = {
    "constant": Constant,
    "inverse_sqrt": InverseSqrt,
    "inverse_time": InverseTime,
}
_AVERAGINGS: dict[str, type[Averaging]] = {
    "step_size": DelayedByStepSize,
    "linear": DelayedLinear,
    "undelayed": ByStepSize,
    "uniform": Uniform,
    "tail": Tail,
    "last": LastIterate,
}


def named(name: str, value: Any, table: Mapping[str, Callable[..., _T]]) -> Callable[..., _T]:
    """Return the entry of `table` that a parameter names.

    >>> named("kind", "list", {"list": list})()
    []
    """
    if not isinstance(value, str) or value not in table:
        raise ValueError(f"{name} must be one of {sorted(table)} or an object, got {value!r}.")
    return table[value]


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
    if isinstance(schedule, Schedule):
        return schedule
    return named("schedule", default if schedule == "auto" else schedule, _SCHEDULES)(1.0)


def as_averaging(averaging: str | Averaging) -> Averaging:
    """Return an averaging rule given by name or as an object."""
    if isinstance(averaging, Averaging):
        return averaging
    return named("averaging", averaging, _AVERAGINGS)()


def as_pairing(pairing: str | Pairing, buffer_size: int = 1) -> Pairing:
    """Return a pairing given by name or as an object.

    >>> as_pairing("fifo", 10)
    FifoBuffer(buffer_size=10)
    """
    if isinstance(pairing, Pairing):
        return pairing
    size = check_count("buffer_size", buffer_size)
    makers: dict[str, Callable[[], Pairing]] = {
        "previous": PreviousExample,
        "random": RandomPair,
        "shuffled": lambda: PreviousExample("shuffled"),
        "fifo": lambda: FifoBuffer(size),
        "opposite": PreviousOpposite,
        "reservoir": lambda: ReservoirBuffer(size),
        "class_reservoirs": lambda: ClassReservoirs(size, size),
        "all_previous": AllPrevious,
    }
    return named("pairing", pairing, makers)()


def auto_steps(n_passes: float | str, n: int, *, budget: int, most_passes: int = 200) -> int:
    """Return the number of steps; "auto" takes `budget`, but from 1 to `most_passes` passes.

    >>> auto_steps("auto", 100, budget=50_000)
    20000
    """
    if n_passes == "auto":
        return int(np.clip(budget, n, most_passes * n))
    return max(int(np.ceil(check_positive("n_passes", n_passes) * n)), 1)  # type: ignore[arg-type]
