# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning for nearest neighbours: ``python -m benchmarks.metric_learning``.

Accuracy of 3 nearest neighbours on a test set: the Euclidean metric, `MetricLearner` and
scikit-learn's `NeighborhoodComponentsAnalysis`, both with default settings and nothing tuned; and
`MetricLearner` with the paper's pairing, whose step size is chosen by validation inside the
training part. "CPU s" is the whole fit, that choice included. Nothing looks at the test set. Means
over seeds, each with a split of its own.

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
    """Return accuracy and CPU seconds for each metric."""
    from sklearn.model_selection import train_test_split
    from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

    from pairlearn.estimators import MetricLearner, MetricSGD

    total: dict[str, list[float]] = {}

    def add(name: str, transform: Callable[[Vector], Vector], seconds: float) -> None:
        model = KNeighborsClassifier(3).fit(transform(train), y_train)
        before = total.get(name, [0.0, 0.0])
        values = (float(model.score(transform(test), y_test)), seconds)
        total[name] = [a + b / n_seeds for a, b in zip(before, values, strict=True)]

    def fit(name: str, model: Any, part: slice | NDArray[np.int64]) -> None:
        begin = time.process_time()
        model.fit(train[part], y_train[part])
        add(name, model.transform, time.process_time() - begin)

    # Compilation is outside the clock.
    MetricLearner(solver=MetricSGD(n_passes=0.1), random_state=0).fit(X[:500], y[:500])
    for seed in range(n_seeds):
        train, test, y_train, y_test = train_test_split(
            X, y, test_size=test_size, random_state=seed, stratify=y
        )
        n = len(y_train)
        add("Euclidean", lambda Z: Z, 0.0)
        fit("MetricLearner", MetricLearner(random_state=seed), slice(n))
        previous = MetricLearner(solver=MetricSGD(pairing="previous"), random_state=seed)
        fit("MetricLearner (previous)", previous, slice(n))
        part = np.random.default_rng(seed).permutation(n)[:NCA_EXAMPLES]
        name = "NCA" if len(part) == n else f"NCA ({len(part)} examples)"
        fit(name, NeighborhoodComponentsAnalysis(random_state=seed), part)
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 0."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.metric_learning", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="one seed")
    options = parser.parse_args(arguments)
    n_seeds = 1 if options.quick else 10

    from rich.console import Console
    from rich.table import Table
    from threadpoolctl import threadpool_limits

    console = Console(width=None if sys.stdout.isatty() else 120)
    shown = Table(title=f"3 nearest neighbours, mean of {n_seeds} seeds (letter: 1), one thread")
    for heading in ("data", "metric", "accuracy", "CPU s", "NCA / ours"):
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
            for metric, (accuracy, seconds) in table.items():
                ratio = f"{rival / seconds:.1f}" if metric.startswith("MetricLearner") else ""
                shown.add_row(name, metric, f"{accuracy:.4f}", f"{seconds:.3f}", ratio)
            shown.add_section()
    console.print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
