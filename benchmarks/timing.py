# SPDX-License-Identifier: BSD-3-Clause
"""Fair clocks: CPU time, best of several, competitors taking turns."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

__all__ = ["best_of", "marginal"]

Contestants = Mapping[str, Callable[[], object]]


def best_of(
    contestants: Contestants,
    *,
    seconds: float,
    min_rounds: int = 3,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Return the least time of each contestant over rounds in which all take their turn.

    Every contestant runs once outside the clock (compilation, caches, page faults). Every other
    round goes backward, so that nobody always follows the same neighbour. Rounds end when the
    clock has seen `seconds`, but not before `min_rounds`.
    """
    for run in contestants.values():
        run()
    best = dict.fromkeys(contestants, float("inf"))
    spent, rounds = 0.0, 0
    names = list(contestants)
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        while rounds < min_rounds or spent < seconds:
            for name in names:
                begin = clock()
                contestants[name]()
                took = clock() - begin
                best[name] = min(best[name], took)
                spent += took
            names.reverse()
            rounds += 1
    finally:
        if collecting:
            gc.enable()
    return best


def marginal(
    contestants: Mapping[str, tuple[Callable[[int], object], int, int]],
    *,
    seconds: float,
    min_rounds: int = 3,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Return the time of one more unit of work, from a short and a long run of each contestant.

    A contestant is (run, short, long): ``run(units)`` does that much work. The difference of
    the two best times leaves out what a call costs however little it does.
    """
    runs: dict[str, Callable[[], object]] = {}
    for name, (run, short, long) in contestants.items():
        if not short < long:
            raise ValueError(f"{name}: the short run must be shorter, got {short} and {long}.")
        runs[f"{name} short"] = lambda run=run, short=short: run(short)  # type: ignore[misc]
        runs[f"{name} long"] = lambda run=run, long=long: run(long)  # type: ignore[misc]
    best = best_of(runs, seconds=seconds, min_rounds=min_rounds, clock=clock)
    return {
        name: (best[f"{name} long"] - best[f"{name} short"]) / (long - short)
        for name, (_, short, long) in contestants.items()
    }
