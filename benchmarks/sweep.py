# SPDX-License-Identifier: BSD-3-Clause
"""Forty-nine models on one sample path against forty-nine separate fits."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import samples
from benchmarks.contestants import solver
from benchmarks.report import Effort, Row
from benchmarks.timing import best_of

STEP_SIZES = np.geomspace(1e-3, 1.0, 7)
RADII = np.geomspace(0.1, 100.0, 7)


def train_grid(problem: Any, X: Any, y: Any, n_steps: int) -> Any:
    """Train every (step size, radius) of the grid on one path: the one place that knows the API."""
    from pairlearn.solvers import Sweep

    grid = [(float(step), float(radius)) for step in STEP_SIZES for radius in RADII]
    sweep = Sweep(tuple(step for step, _ in grid), tuple(radius for _, radius in grid))
    return sweep.solve(problem, X, y, n_steps=n_steps, rng=0)


def train_one_by_one(problem: Any, X: Any, y: Any, n_steps: int) -> Any:
    """Train the models of the grid one after the other."""
    return [
        solver(step_size=float(step_size), radius=float(radius)).solve(
            problem, X, y, n_steps=n_steps, rng=0
        )
        for step_size in STEP_SIZES
        for radius in RADII
    ]


def run(effort: Effort) -> list[Row]:
    """Compare at every size of `samples.DENSE`."""
    from pairlearn import Hinge, LinearScore, Problem

    problem = Problem(LinearScore(), Hinge())
    rows = []
    for d, positives in samples.DENSE.items():
        n = 20_000 if d < 256 else 5_000
        X, y = samples.dense(n, d, positives=positives)
        n_steps = effort.pick(1, 4) * (40_000 if d < 256 else 5_000)
        best = best_of(
            {
                "sweep": lambda X=X, y=y, t=n_steps: train_grid(problem, X, y, t),
                "separate": lambda X=X, y=y, t=n_steps: train_one_by_one(problem, X, y, t),
            },
            seconds=effort.seconds,
        )
        to_ns = 1e9 / (n_steps * len(STEP_SIZES) * len(RADII))
        rows.append(
            Row(
                f"sweep of 49 models d={d}, per step and model",
                best["sweep"] * to_ns,
                best["separate"] * to_ns,
                "ns",
                2,
                4,
            )
        )
    return rows
