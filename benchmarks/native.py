# SPDX-License-Identifier: BSD-3-Clause
"""Our dense kernel against the same loop in C, on the same plan."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import samples
from benchmarks.c_loop import Steps, compiled, hinge_steps
from benchmarks.report import Effort, Row
from benchmarks.timing import best_of

BAR, GOAL = 1.15, 1.05
STEP_SIZE, RADIUS, MARGIN = 0.1, 10.0, 1.0


def run(effort: Effort) -> list[Row]:
    """Compare at every size; the C side is the faster of the loop with and without prefetching."""
    sizes = [(d, np.float64) for d in samples.DENSE] + [(256, np.float32), (780, np.float32)]
    return [_compare(d, dtype, effort) for d, dtype in sizes]


def kernel_call(steps: Steps) -> Any:
    """Return a function that runs our kernel over the plan."""
    from pairlearn.kernels.steps.dense import descend
    from pairlearn.kernels.steps.pieces import HINGE

    before, room = np.zeros_like(steps.w), np.zeros_like(steps.w)
    plan = (steps.y, steps.left, steps.right, steps.step_sizes, steps.paid, steps.active)
    iterates = (steps.w, steps.weighted_sum, before, room)

    def call() -> None:
        status = descend(steps.X, *plan, *iterates, RADIUS, HINGE, MARGIN)
        if status:
            raise RuntimeError(f"The kernel stopped with status {status}.")

    return call


def _compare(d: int, dtype: Any, effort: Effort) -> Row:
    n = 20_000 if d < 256 else 5_000
    X, y = samples.dense(n, d, positives=samples.DENSE[d], dtype=dtype)
    n_steps = max(n, round(effort.pick(10, 50) * 1e6 / (10 + d)))
    path = np.random.default_rng(1).integers(n, size=n_steps + 1)
    name = np.dtype(dtype).name

    def c_call(ahead: int) -> Any:
        steps, descend = hinge_steps(X, y, path, STEP_SIZE), compiled(name, ahead)
        return lambda: (_reset(steps), descend(steps, RADIUS, MARGIN))

    own = hinge_steps(X, y, path, STEP_SIZE)
    kernel = kernel_call(own)
    best = best_of(
        {
            "ours": lambda: (_reset(own), kernel()),
            "C": c_call(0),
            "C, prefetching": c_call(6),
        },
        seconds=effort.seconds,
        min_rounds=5,
    )
    to_ns = 1e9 / n_steps
    return Row(
        f"kernel / C, {name} d={d}, per step",
        best["ours"] * to_ns,
        min(best["C"], best["C, prefetching"]) * to_ns,
        "ns",
        BAR,
        GOAL,
        at_most=True,
    )


def _reset(steps: Steps) -> None:
    steps.w[:] = 0.0
    steps.weighted_sum[:] = 0.0
    steps.state[0] = -STEP_SIZE
