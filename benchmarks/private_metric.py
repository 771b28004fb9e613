# SPDX-License-Identifier: BSD-3-Clause
"""Private metric learning for nearest neighbours: ``python -m benchmarks.private_metric``.

Accuracy of 3 nearest neighbours on the test part of random splits: the Euclidean metric in units
of the public ranges, `PrivateMetricLearner` with its defaults at several epsilon, the same without
noise worth speaking of (epsilon = 10^6), and `MetricLearner` with its defaults, which may look at
the training part as it likes. The examples among which neighbours are sought are not protected:
the figures say what the metric is worth, not what a private classifier would reach. Nothing is
tuned on these data.

The blocks have noise features beside informative ones; in "spread evenly" there is nothing to
learn. digits ships with scikit-learn, with pixels from 0 to 16; "4 x 4" are means over squares of
four pixels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from pairlearn import MetricLearner, PrivateMetricLearner

Vector = NDArray[np.float64]

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
#: Stands for no noise.
NO_NOISE = 1e6


def blocks(
    rng: np.random.Generator, n: int, d: int, n_classes: int, informative: int
) -> tuple[Vector, NDArray[np.int64], Vector]:
    """Return Gaussian classes in the first features, equal noise in the others, and bounds."""
    centres = rng.normal(size=(n_classes, informative))
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, d))
    X[:, :informative] = centres[y] + 0.45 * X[:, :informative]
    return X, y, np.tile([[-3.0], [3.0]], d)


def digits(rng: np.random.Generator, *, reduced: bool) -> tuple[Vector, NDArray[np.int64], Vector]:
    """Return digits, their labels, and bounds."""
    X, y = load_digits(return_X_y=True)
    if reduced:
        X = X.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(len(X), 16)
    return X, y, np.tile([[0.0], [16.0]], X.shape[1])


#: Name, maker, and number of training examples.
DATA: dict[str, tuple[Callable[..., tuple[Vector, NDArray[np.int64], Vector]], int]] = {
    "3 classes, 3 of 10 features": (
        partial(blocks, n=2000, d=10, n_classes=3, informative=3),
        1000,
    ),
    "the same, more examples": (partial(blocks, n=5000, d=10, n_classes=3, informative=3), 4000),
    "5 classes, 4 of 20 features": (
        partial(blocks, n=3000, d=20, n_classes=5, informative=4),
        2000,
    ),
    "spread evenly, 6 features": (partial(blocks, n=2000, d=6, n_classes=4, informative=6), 1000),
    "digits, 4 x 4": (partial(digits, reduced=True), 1200),
    "digits, 8 x 8": (partial(digits, reduced=False), 1200),
}


def accuracy(learner: BaseEstimator | None, split: tuple[Vector, Vector, Vector, Vector]) -> float:
    """Return the accuracy of neighbours in the space of a learner, or in the given one."""
    X, y, X_test, y_test = split
    if learner is not None:
        X, X_test = learner.transform(X), learner.transform(X_test)
    return float(KNeighborsClassifier(3).fit(X, y).score(X_test, y_test))


def compare(name: str, n_splits: int) -> tuple[dict[str, float], float]:
    """Return mean accuracies, and the largest standard error of a gain over the first."""
    maker, n_train = DATA[name]
    found: dict[str, list[float]] = {}
    for seed in range(n_splits):
        rng = np.random.default_rng(seed)
        X, y, (lower, upper) = maker(rng)
        order = rng.permutation(len(y))
        train, test = order[:n_train], order[n_train:]
        labels = tuple(range(int(y.max()) + 1))
        # Euclidean in units of the ranges, as the private learner starts.
        units = (upper - lower) / 2.0
        scaled = (X / units)[train], y[train], (X / units)[test], y[test]
        raw = X[train], y[train], X[test], y[test]
        contestants: dict[str, tuple[Any, Any]] = {"Euclidean": (None, scaled)}
        for epsilon in (*EPSILONS, NO_NOISE):
            private = PrivateMetricLearner(epsilon, bounds=(lower, upper), labels=labels)
            label = "no noise" if epsilon == NO_NOISE else f"{epsilon:g}"
            contestants[label] = (private.fit(X[train], y[train]), raw)
        free = MetricLearner(random_state=seed).fit(*scaled[:2])
        contestants["MetricLearner"] = (free, scaled)
        for label, (learner, split) in contestants.items():
            found.setdefault(label, []).append(accuracy(learner, split))
    plain = np.array(found["Euclidean"])
    errors = [np.std(values - plain) / np.sqrt(n_splits) for values in found.values()]
    return {label: float(np.mean(values)) for label, values in found.items()}, float(max(errors))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.private_metric")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--data", action="append", choices=list(DATA), help="repeat for several")
    options = parser.parse_args(arguments)
    heads = False
    largest = 0.0
    for name in options.data or DATA:
        means, error = compare(name, options.splits)
        largest = max(largest, error)
        if not heads:
            print("| data | n | " + " | ".join(means) + " |")
            print("| --- " * (len(means) + 2) + "|")
            heads = True
        cells = " | ".join(f"{mean:.3f}" for mean in means.values())
        print(f"| {name} | {DATA[name][1]} | {cells} |", flush=True)
    print(f"Gains have standard errors of at most {largest:.3f}; {options.splits} splits each.")


if __name__ == "__main__":
    main()
