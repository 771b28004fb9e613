# SPDX-License-Identifier: BSD-3-Clause
"""Average the iterates of solvers that move at every step and know their number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pairlearn.averaging import Averaging
from pairlearn.schedules import Schedule
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.running import Callback, run_blocks
from pairlearn.solvers.solution import Solution
from pairlearn.solvers.two_classes import check_finished
from pairlearn.typing import Vector


def iterate_weights(averaging: Averaging, schedule: Schedule, n_steps: int) -> Vector:
    """Return the weights of w_0, ..., w_T in the average, T = `n_steps`; they add up to 1.

    >>> from pairlearn.averaging import DelayedLinear
    >>> from pairlearn.schedules import Constant
    >>> iterate_weights(DelayedLinear(), Constant(1.0), 3) * 6
    array([3., 3., 0., 0.])
    """
    weights = np.zeros(n_steps + 1)
    if n_steps:
        weights[:-1] = averaging.owed(schedule, 1, n_steps, horizon=n_steps)
        weights[0] += averaging.at_start(schedule)
        weights[-2] -= averaging.paid_early(schedule, n_steps)
    weights[-1] = averaging.owed_to_last(n_steps)
    total = weights.sum()
    if total > 0.0:
        return np.asarray(weights / total)
    weights[-1] = 1.0
    return weights


class Iterates:
    """The iterate of a run and its average so far; kernels change `w` and `weighted_sum`.

    `n_steps` is the number T of steps of the run. A kernel may count its gradients in `counts`, an
    array of one number; by default each step counts as one gradient.
    """

    def __init__(
        self,
        averaging: Averaging,
        schedule: Schedule,
        n_steps: int,
        n_features: int,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        if averaging.remembers:
            raise ValueError(
                f"{averaging!r} is for a buffer, which this solver has not; use "
                "DelayedByStepSize(), or PairwiseSGD with a FifoBuffer."
            )
        self.w, self.weighted_sum = np.zeros(n_features), np.zeros(n_features)
        #: The weights of w_0, ..., w_T.
        self.shares = iterate_weights(averaging, schedule, n_steps)
        #: Number of steps so far.
        self.n_steps = 0
        self._rule, self._horizon, self._counts = (averaging, schedule), n_steps, counts
        self._before = self.w
        self._delayed = averaging.paid_early(schedule, n_steps) != 0.0

    def run(
        self,
        take: Callable[[slice, Vector], int],
        *,
        callbacks: Sequence[Callback] = (),
        pauses: Sequence[int] = (),
        block: int = BLOCK,
    ) -> Solution:
        """Take all steps; `take(steps, step_sizes)` takes some of them and returns a status."""

        def advance(count: int) -> int:
            first, step_sizes = self.n_steps, self._rule[1].step_sizes(self.n_steps + 1, count)
            self.advance(count, lambda a, b: take(slice(first + a, first + b), step_sizes[a:b]))
            return 0

        trace = run_blocks(
            self, advance, self._horizon, block=block, callbacks=callbacks, pauses=pauses
        )
        return Solution(self.average, self.w, trace)

    def advance(self, count: int, take: Callable[[int, int], int]) -> None:
        """Take a block of steps; `take(first, stop)` takes a part of it and returns a status."""
        # A delayed averaging rule needs the iterate before the last one.
        for first, stop in ((0, count - 1), (count - 1, count)) if self._delayed else ((0, count),):
            if self._delayed and stop == count:
                self._before = self.w.copy()
            check_finished(take(first, stop), first=self.n_steps)
            self.n_steps += stop - first

    @property
    def n_gradients(self) -> int:
        """Number of gradients so far."""
        return self.n_steps if self._counts is None else int(self._counts[0])

    @property
    def average(self) -> Vector:
        """The average by the rule, as if the run ended here."""
        if self.n_steps == self._horizon:
            return np.asarray(self.weighted_sum + self.shares[-1] * self.w)
        (averaging, schedule), t = self._rule, self.n_steps
        total = self._total(t)
        if not total > 0.0:
            return self.w.copy()
        found = self._total(self._horizon) * self.weighted_sum
        found += averaging.owed_to_last(t) * self.w
        found -= averaging.paid_early(schedule, t) * self._before
        return np.asarray(found / total)

    def _total(self, t: int) -> float:
        """Return the sum of the weights of w_0, ..., w_t in the average at t."""
        if t == 0:
            return 0.0
        averaging, schedule = self._rule
        owed = averaging.owed(schedule, 1, t, horizon=self._horizon)
        ends = averaging.at_start(schedule) + averaging.owed_to_last(t)
        return float(owed.sum() + ends - averaging.paid_early(schedule, t))
