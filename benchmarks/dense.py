# SPDX-License-Identifier: BSD-3-Clause
"""Dense rows: our time for a step against SGDClassifier's marginal time for a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import samples
from benchmarks.contestants import rival, solver
from benchmarks.report import Effort, Row
from benchmarks.timing import marginal

#: Features -> bar and goal per step, float64.
PER_STEP = {8: (6.0, 8.0), 22: (9.0, 10.0), 256: (4.8, 5.5), 780: (4.5, 6.0)}
PER_PAIR = (1.6, 2.0)
PER_STEP_FLOAT32 = (12.0, 14.0)


def run(effort: Effort) -> list[Row]:
    """Compare at every size of `samples.DENSE`; float32 where it pays, from 256 features."""
    rows = []
    for d, bars in PER_STEP.items():
        step, sample, share = _times(d, np.float64, effort)
        unit = "ns"
        rows.append(Row(f"dense d={d}, per step", step, sample, unit, *bars))
        rows.append(Row(f"dense d={d}, per evaluated pair", step / share, sample, unit, *PER_PAIR))
    for d in (256, 780):
        step, sample, _ = _times(d, np.float32, effort)
        rows.append(Row(f"dense float32 d={d}, per step", step, sample, "ns", *PER_STEP_FLOAT32))
    return rows


def _times(d: int, dtype: Any, effort: Effort) -> tuple[float, float, float]:
    """Return ns per step, ns per sample of the rival, and the share of steps with a pair."""
    from pairlearn import Hinge, LinearScore, Problem

    n = 20_000 if d < 256 else 5_000
    X, y = samples.dense(n, d, positives=samples.DENSE[d], dtype=dtype)
    problem, ours = Problem(LinearScore(), Hinge()), solver(step_size=0.1, radius=10.0)
    # About 0.05 s of the rival's time (0.2 s in a full run) between the short and the long run.
    epochs = max(2, round(effort.pick(50, 200) * 1e-3 / (n * (40 + 5 * d) * 1e-9)))
    per_unit = marginal(
        {
            "ours": (
                lambda units: ours.solve(problem, X, y, n_steps=units * n, rng=0),
                epochs,
                5 * epochs,
            ),
            "rival": (lambda units: rival(n_epochs=units).fit(X, y), 1, 1 + epochs),
        },
        seconds=effort.seconds,
    )
    trace = ours.solve(problem, X, y, n_steps=10 * n, rng=0).trace
    nanoseconds = 1e9 / n
    return (
        per_unit["ours"] * nanoseconds,
        per_unit["rival"] * nanoseconds,
        trace.n_gradients / trace.n_steps,
    )
