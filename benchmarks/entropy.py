# SPDX-License-Identifier: BSD-3-Clause
"""Regression under skewed, bimodal and contaminated noise: ``python -m benchmarks.entropy``.

`EntropyRegressor` against `Ridge` and `HuberRegressor`, with default settings, on a linear
synthetic task and on one shaped like the California housing data (skewed and correlated features
of different kinds, a target that is not quite linear in them). Features are standardised for all.
Test targets carry the same noise as training targets, except that gross outliers are removed from
the test set: nobody can predict them. Numbers are means over seeds.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

NOISES = ("normal", "skewed", "bimodal", "20 % outliers")


def linear(n: int, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Return ten normal features and a linear signal."""
    X = rng.normal(size=(n, 10))
    return X, X @ np.linspace(-1.0, 1.0, 10)


def housing_like(n: int, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Return eight features like those of California housing and a mildly nonlinear signal."""
    income = rng.lognormal(1.2, 0.45, n)
    age = rng.uniform(1.0, 52.0, n)
    rooms = rng.lognormal(1.65, 0.25, n) * (income / income.mean()) ** 0.2
    bedrooms = 0.2 * rooms * rng.lognormal(0.0, 0.1, n)
    population = rng.lognormal(7.0, 0.7, n)
    occupancy = rng.lognormal(1.05, 0.3, n)
    north = rng.random(n) < 0.4
    latitude = np.where(north, 37.7, 34.0) + 0.7 * rng.normal(size=n)
    longitude = -119.5 - 0.8 * (latitude - 35.6) + 0.6 * rng.normal(size=n)
    signal = 1.2 * np.log(income) + 0.01 * age - 0.25 * np.log(occupancy) + 0.8 * bedrooms / rooms
    signal += -0.25 * (latitude - 35.6) - 0.3 * (longitude + 119.5)
    columns = (income, age, rooms, bedrooms, population, occupancy, latitude, longitude)
    return np.column_stack(columns), signal / signal.std()


def noise(kind: str, n: int, rng: np.random.Generator) -> tuple[Vector, NDArray[np.bool_]]:
    """Return noise and which of it is a gross outlier."""
    gross = np.zeros(n, dtype=bool)
    if kind == "normal":
        return 0.5 * rng.normal(size=n), gross
    if kind == "skewed":
        return rng.exponential(1.0, n), gross
    if kind == "bimodal":
        return np.where(rng.random(n) < 0.65, 0.0, 4.0) + 0.4 * rng.normal(size=n), gross
    gross = rng.random(n) < 0.2
    return np.where(gross, 15.0 + 10.0 * rng.normal(size=n), 0.5 * rng.normal(size=n)), gross


def contestants() -> dict[str, Any]:
    """Return the models by name."""
    from sklearn.linear_model import HuberRegressor, Ridge

    from pairlearn import EntropyRegressor

    return {
        "Ridge": Ridge(),
        "HuberRegressor": HuberRegressor(max_iter=1000),
        "EntropyRegressor": EntropyRegressor(random_state=0),
        "EntropyRegressor (mode)": EntropyRegressor(intercept="mode", random_state=0),
    }


def measure(
    task: Callable[[int, np.random.Generator], tuple[Vector, Vector]],
    kind: str,
    *,
    n: int,
    n_seeds: int,
) -> dict[str, Vector]:
    """Return (slope error, test MAE, test median error, CPU seconds) of each model."""
    from sklearn.preprocessing import StandardScaler

    total: dict[str, Vector] = {}
    for seed in range(n_seeds):
        rng = np.random.default_rng(seed)
        X, signal = task(2 * n, rng)
        added, gross = noise(kind, 2 * n, rng)
        y = signal + added
        X = StandardScaler().fit(X[:n]).transform(X)
        # The best linear predictor of the signal itself: what a noise-free fit would find.
        design = np.column_stack([X[:n], np.ones(n)])
        ideal = X[n:] @ np.linalg.lstsq(design, signal[:n], rcond=None)[0][:-1]
        kept = ~gross[n:]
        for name, model in contestants().items():
            begin = time.process_time()
            model.fit(X[:n], y[:n])
            seconds = time.process_time() - begin
            prediction = model.predict(X[n:])
            error = np.abs(prediction - y[n:])[kept]
            gap = prediction - ideal
            row = (gap.std(), error.mean(), np.median(error), seconds)
            total[name] = total.get(name, np.zeros(4)) + np.array(row) / n_seeds
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one table per task; return 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.entropy", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed and fewer examples")
    options = parser.parse_args(arguments)
    n, n_seeds = (500, 1) if options.quick else (2000, 5)

    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 120)
    for title, task in (("linear", linear), ("housing-like", housing_like)):
        shown = Table(title=f"{title}: {n} training examples, mean of {n_seeds} seeds")
        for heading in ("noise", "model", "slope error", "test MAE", "median error", "CPU s"):
            shown.add_column(heading, justify="left" if heading in ("noise", "model") else "right")
        for kind in NOISES:
            for name, row in measure(task, kind, n=n, n_seeds=n_seeds).items():
                shown.add_row(kind, name, *(f"{value:.4f}" for value in row))
            shown.add_section()
        console.print(shown)
    console.print(
        "slope error: standard deviation of the prediction around the best linear predictor of "
        "the noise-free\nsignal, whatever the intercept. Lower is better everywhere."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
