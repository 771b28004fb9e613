# SPDX-License-Identifier: BSD-3-Clause
"""Algorithm 1: our step against a NumPy loop in the manner of the code released with the paper."""

from __future__ import annotations

from benchmarks import samples
from benchmarks.contestants import solver
from benchmarks.numpy_loops import previous_loop
from benchmarks.report import Effort, Row
from benchmarks.timing import marginal

#: Name -> examples, features, share of positives, bar and goal.
SHAPES = {
    "diabetes": (768, 8, 0.35, 100.0, 200.0),
    "german": (1_000, 24, 0.30, 100.0, 200.0),
    "ijcnn1": (49_990, 22, 0.097, 100.0, 200.0),
    "mnist": (20_000, 780, 0.5, 8.0, 20.0),
}
STEP_SIZE, RADIUS = 0.1, 10.0


def run(effort: Effort) -> list[Row]:
    """Compare the time of a step, sampling, projection and averaging included."""
    from pairlearn import Hinge, LinearScore, Problem

    problem = Problem(LinearScore(), Hinge())
    ours = solver(step_size=STEP_SIZE, radius=RADIUS)
    rows = []
    for name, (n, d, positives, bar, goal) in SHAPES.items():
        X, y = samples.dense(n, d, positives=positives)
        few = effort.pick(2_000, 10_000)
        per_step = marginal(
            {
                "ours": (
                    lambda units, X=X, y=y: ours.solve(problem, X, y, n_steps=units, rng=0),
                    100_000,
                    100_000 + 100 * few,
                ),
                "loop": (
                    lambda units, X=X, y=y: previous_loop(
                        X, y, n_steps=units, step_size=STEP_SIZE, radius=RADIUS
                    ),
                    few // 10,
                    few // 10 + few,
                ),
            },
            seconds=effort.seconds,
        )
        label = f"NumPy loop, {name}-like d={d}, per step"
        rows.append(Row(label, 1e9 * per_step["ours"], 1e9 * per_step["loop"], "ns", bar, goal))
    return rows
