# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning for nearest neighbours: ``python -m benchmarks.metric_learning``.

Accuracy of 3 nearest neighbours on a test set: the Euclidean metric, `MetricLearner` and
scikit-learn's `NeighborhoodComponentsAnalysis` with default settings. `MetricLearner` pairs with
the previous example or with near ones; its bias and step size are chosen by validation inside the
training part. "CPU s" is one fit with them given, "with choice" the whole, validation included.
Nothing looks at the test set. Means over seeds.

digits ships with scikit-learn (pixels divided by 16); segment-like is generated (7 classes, 19
features of different scales, several of them noise, standardised); letter is read from a file in
LIBSVM format in the folder named by PAIRLEARN_DATA, if it is there. There NCA is trained on 2000 of
the 15,000 training examples, since its cost grows with their square, and one seed is used.
"""

from __future__ import annotations

import argparse
import lzma
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

#: Biases of the hinge loss to choose from for each pairing; equal scores go to the first.
BIASES = {"previous": (10.0, 4.0, 1.0), "neighbors": (4.0, 2.0)}
#: Training examples that NCA gets at most.
NCA_EXAMPLES = 2000


def digits() -> tuple[Vector, Vector] | None:
    """Return the digits of scikit-learn."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def segment_like() -> tuple[Vector, Vector] | None:
    """Return 2310 examples of 7 classes with 19 features, 8 of them noise."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(7), 330)
    centres = rng.normal(size=(7, 11))
    informative = centres[y] + 0.7 * rng.normal(size=(len(y), 11)) @ rng.normal(size=(11, 11)) / 2
    X = np.column_stack([informative, rng.normal(size=(len(y), 8))])
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def letter() -> tuple[Vector, Vector] | None:
    """Return the letters of the Statlog collection, or None where the file is not."""
    from sklearn.datasets import load_svmlight_file

    folder = os.environ.get("PAIRLEARN_DATA", "")
    path = Path(folder) / "letter.scale.libsvm.xz"
    if not folder or not path.exists():
        return None
    with lzma.open(path) as file:
        X, y = load_svmlight_file(file)
    return X.toarray(), y


def measure(X: Vector, y: Vector, *, test_size: Any, n_seeds: int) -> dict[str, list[float]]:
    """Return accuracy, CPU seconds and CPU seconds with the choice for each metric."""
    from sklearn.base import clone
    from sklearn.model_selection import train_test_split
    from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

    from pairlearn import DistanceHinge, MetricLearner

    total: dict[str, list[float]] = {}

    def add(name: str, *values: float) -> None:
        before = total.get(name, [0.0] * len(values))
        total[name] = [a + b / n_seeds for a, b in zip(before, values, strict=True)]

    def accuracy(transform: Callable[[Vector], Vector], data: Sequence[Vector]) -> float:
        train, test, y_train, y_test = data
        model = KNeighborsClassifier(3).fit(transform(train), y_train)
        return float(model.score(transform(test), y_test))

    # Compilation is outside the clock.
    MetricLearner(n_passes=0.1, random_state=0).fit(X[:500], y[:500])
    for seed in range(n_seeds):
        data = train_test_split(X, y, test_size=test_size, random_state=seed, stratify=y)
        train, _, labels, _ = data
        add("Euclidean", accuracy(lambda Z: Z, data), 0.0, 0.0)
        for pairing, biases in BIASES.items():
            begin = time.process_time()
            models = [
                MetricLearner(DistanceHinge(bias=b), pairing=pairing, random_state=seed)
                for b in biases
            ]
            learner = max(
                (model.fit(train, labels) for model in models),
                key=lambda model: model.held_out_score_,
            )
            whole = time.process_time() - begin
            # Where the Euclidean metric was judged best, any step size stands for the time.
            given = clone(learner).set_params(step_size=learner.step_size_ or 1e-3)
            begin = time.process_time()
            given.fit(train, labels)
            alone = time.process_time() - begin
            add(f"MetricLearner ({pairing})", accuracy(learner.transform, data), alone, whole)
        part = np.random.default_rng(seed).permutation(len(labels))[:NCA_EXAMPLES]
        begin = time.process_time()
        rival = NeighborhoodComponentsAnalysis(random_state=seed).fit(train[part], labels[part])
        seconds = time.process_time() - begin
        name = "NCA" if len(part) == len(labels) else f"NCA ({len(part)} examples)"
        add(name, accuracy(rival.transform, data), seconds, seconds)
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.metric_learning", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="one seed")
    options = parser.parse_args(arguments)
    n_seeds = 1 if options.quick else 3

    from rich.console import Console
    from rich.table import Table
    from threadpoolctl import threadpool_limits

    console = Console(width=None if sys.stdout.isatty() else 120)
    shown = Table(title=f"3 nearest neighbours, mean of {n_seeds} seeds (letter: 1), one thread")
    for heading in ("data", "metric", "accuracy", "CPU s", "with choice", "NCA / ours"):
        shown.add_column(heading, justify="left" if heading in ("data", "metric") else "right")
    with threadpool_limits(1):
        for name, load, test_size, seeds in (
            ("digits", digits, 0.3, n_seeds),
            ("segment-like", segment_like, 0.3, n_seeds),
            ("letter", letter, 5000, 1),
        ):
            found = load()
            if found is None:
                console.print(f"{name}: no file; set PAIRLEARN_DATA to the folder of data sets.")
                continue
            table = measure(*found, test_size=test_size, n_seeds=seeds)
            rival = next(row[1] for key, row in table.items() if key.startswith("NCA"))
            for metric, (accuracy, alone, whole) in table.items():
                ratio = f"{rival / alone:.1f}" if metric.startswith("MetricLearner") else ""
                shown.add_row(
                    name, metric, f"{accuracy:.4f}", f"{alone:.3f}", f"{whole:.3f}", ratio
                )
            shown.add_section()
    console.print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
