# SPDX-License-Identifier: BSD-3-Clause
"""Run a solver in blocks of steps, with Ctrl-C, callbacks and clocks between the blocks."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.solution import Trace
from pairlearn.typing import Vector
from pairlearn.validation import warn_caller


class State(Protocol):
    """The numbers that a solver shows between two blocks."""

    @property
    def n_steps(self) -> int:
        """Number of steps so far."""

    @property
    def n_gradients(self) -> int:
        """Number of gradients so far."""

    @property
    def w(self) -> NDArray[Any]:
        """The current iterate."""

    @property
    def average(self) -> Vector:
        """The average by the averaging rule, as if the run ended here."""


class Running:
    """A paused run between two blocks of steps, as a callback sees it.

    After `step` steps: `n_gradients` so far, `seconds` since the start of the run including
    callbacks, and `cpu_seconds` of the steps alone. The other values are computed on demand, and
    only during the callback.
    """

    def __init__(
        self, state: State, *, seconds: float, cpu_seconds: float, risk: Callable[[], float]
    ) -> None:
        self.step, self.n_gradients = state.n_steps, state.n_gradients
        self.seconds, self.cpu_seconds = seconds, cpu_seconds
        self._state, self._risk = state, risk

    @property
    def average(self) -> Vector:
        """The model so far: the average that a run of `step` steps returns."""
        return self._now().average

    @property
    def w(self) -> Vector:
        """The current iterate."""
        return self._now().w.astype(np.float64)

    @cached_property
    def risk(self) -> float:
        """An estimate of the pair loss at `w` from pairs of the last block; NaN without pairs."""
        self._now()
        return self._risk()

    def _now(self) -> State:
        if self._state.n_steps != self.step:
            raise RuntimeError(
                f"The run has gone on from step {self.step} to {self._state.n_steps}; read what "
                "you need while the callback runs, and keep that."
            )
        return self._state


#: Called between blocks of steps.
Callback = Callable[[Running], None]


@contextmanager
def _ctrl_c_between_blocks() -> Iterator[list[int]]:
    """Note Ctrl-C in a list instead of raising in the middle of a block.

    Only the main thread receives signals, and a handler of the user's own stays.
    """
    pressed: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield pressed
        return
    signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run_blocks(
    state: State,
    advance: Callable[[int], int],
    n_steps: int,
    *,
    block: int,
    callbacks: Sequence[Callback] = (),
    pauses: Sequence[int] = (),
    risk: Callable[[], float] = lambda: math.nan,
) -> Trace:
    """Take steps in blocks of at most `block` up to `n_steps`, or until Ctrl-C.

    `advance(count)` takes `count` steps and returns how often an example met itself. Callbacks run
    after each block. With `pauses` (increasing steps at which a block ends) they run only there and
    at the end, and the trace has no history, since its risks take time.
    """
    stops = (*pauses, n_steps)
    if any(b <= a for a, b in pairwise((0, *pauses))) or stops[-1] < max(stops):
        raise ValueError(
            f"pauses must be steps from 1 to {n_steps} in increasing order, got {list(pauses)[:8]}."
        )
    trace, begin, cpu_seconds = Trace(), time.perf_counter(), 0.0
    try:
        with _ctrl_c_between_blocks() as pressed:
            for stop in stops:
                while state.n_steps < stop:
                    start = time.process_time()
                    trace.n_repeats += advance(min(block, stop - state.n_steps))
                    cpu_seconds += time.process_time() - start
                    if pressed:
                        raise KeyboardInterrupt
                    if not callbacks or (pauses and state.n_steps < stop):
                        continue
                    seconds = time.perf_counter() - begin
                    running = Running(state, seconds=seconds, cpu_seconds=cpu_seconds, risk=risk)
                    if not pauses:
                        trace.history.append((running.step, seconds, running.risk))
                    for callback in callbacks:
                        callback(running)
    except KeyboardInterrupt:
        trace.interrupted = True
        warn_caller(
            f"Interrupted after {state.n_steps} of {n_steps} steps; the model is the average so "
            "far.",
            RuntimeWarning,
        )
    trace.seconds = time.perf_counter() - begin
    trace.n_steps, trace.n_gradients = state.n_steps, state.n_gradients
    return trace
