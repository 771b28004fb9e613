# SPDX-License-Identifier: BSD-3-Clause
"""Step sizes and averaging weights of a block of steps, as arrays that kernels read.

A run is cut into blocks of `BLOCK` steps. The arrays of a block depend on the step counter alone,
never on how a stream was cut into chunks.
"""

from __future__ import annotations

import numpy as np

from pairlearn.averaging import Averaging, StepSizes
from pairlearn.schedules import Schedule
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError

#: Steps per block.
BLOCK = 32768
#: The arrays of a block grow by this many steps at a time. Many streams end early (those of a grid
#: do), and short arrays stay in the cache.
_AT_ONCE = 4096

_NOTHING = np.empty(0)


class BlockSizes:
    """The step sizes of a block of steps, and the weights of the average, as arrays.

    `block` is the number of the block, -1 before the first. `step_sizes` holds eta_t for the first
    steps of the block, `paid` the cumulated weights of the average, and `lowered` the step sizes
    that were computed last. The horizon is the last step, if it is known. Who remembers past
    iterates takes back what they were paid too early, so their weights do not end at the horizon.
    """

    def __init__(self, schedule: Schedule, averaging: Averaging, horizon: int | None) -> None:
        self._schedule, self._averaging, self._horizon = schedule, averaging, horizon
        self.block = -1
        self.step_sizes: Vector = _NOTHING
        self.paid: Vector = _NOTHING
        self.lowered: StepSizes = schedule
        self._room: tuple[Vector, Vector] = (_NOTHING, _NOTHING)

    def open(self, block: int, stop: int) -> None:
        """Make the arrays of a block, at least up to its step `stop`."""
        known = len(self.paid) if block == self.block else 0
        if known >= stop:
            return
        first = block * BLOCK + 1
        count = BLOCK if self._horizon is None else min(BLOCK, self._horizon - first + 1)
        if known == count:
            return
        # A constant schedule and a rule that follows it give the same arrays in every block but
        # the first, whose first weight may be another one, and the last.
        same = self._schedule.is_constant and self._averaging.follows_schedule
        if same and block > 0 and len(self.paid) == count and (block > 1 or self._begins_as(first)):
            self.block = block
            return
        end = min(-(-stop // _AT_ONCE) * _AT_ONCE, count)
        with np.errstate(over="ignore", invalid="ignore"):
            self._fill(block, first, known, end, count)
        if not np.isfinite(self.paid[-1]):
            raise DivergenceError(
                f"Step sizes of about {self.step_sizes[-1]:.3g} have an infinite sum, so there "
                "is no average; take a smaller step_size."
            )

    def _begins_as(self, first: int) -> bool:
        """Tell whether the block of the step `first` begins with the weight of the known block."""
        owed = self._averaging.owed(self._schedule, first, 1, horizon=self._horizon)
        return float(owed[0]) == float(self.paid[0])

    def _fill(self, block: int, first: int, known: int, end: int, count: int) -> None:
        """Make the arrays of a block from the step after `known` to `end`."""
        steps = (first + known, end - known)
        self.lowered = lowered = _Lowered(self._schedule, *steps)
        sizes = lowered.step_sizes(*steps)
        horizon = None if self._averaging.remembers else self._horizon
        owed = self._averaging.owed(lowered, *steps, horizon=horizon)
        self.block = block
        if end - known == count:
            self.step_sizes, self.paid = sizes, np.add.accumulate(owed)
            return
        if known == 0 and len(self._room[0]) < count:
            self._room = (np.empty(count), np.empty(count))
        all_sizes, paid = self._room
        all_sizes[known:end], paid[known:end] = sizes, owed
        if known:
            paid[known] += paid[known - 1]
        np.add.accumulate(paid[known:end], out=paid[known:end])
        self.step_sizes, self.paid = all_sizes[:end], paid[:end]


class _Lowered:
    """The step sizes of some steps, computed once, for rules that weigh iterates by step size."""

    def __init__(self, schedule: Schedule, first: int, count: int) -> None:
        self._schedule, self._first = schedule, first
        self._sizes = schedule.step_sizes(first, count + 1)

    def step_sizes(self, first: int, count: int) -> Vector:
        """Return eta_t for t = first, ..., first + count - 1."""
        skipped = first - self._first
        if skipped < 0 or skipped + count > len(self._sizes):
            return self._schedule.step_sizes(first, count)
        return self._sizes[skipped : skipped + count]
