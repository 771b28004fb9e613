# SPDX-License-Identifier: BSD-3-Clause
"""Public bounds that are too wide beside private ones: ``python -m benchmarks.private_bounds``.

Data sets of the folder named by ``--data`` (or PAIRLEARN_DATA), and Gaussian classes without it.
Bounds are the range of each feature, rounded outwards to two digits, made 1, 3, 10 and 100 times as
wide about a point that is not their middle. Printed is the mean test AUC over splits, with these
bounds and the default, with the bounds as they are given (``narrow_bounds=False``), with
`PrivateBounds` inside them, and with ``bounds="private"``, which knows no range; delta = 1/n, one
example replaced. ``--tails 1.5`` turns each feature of ten values or more into exp(1.5 z), z its
standard score: a long tail, as of incomes, inside honest bounds.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.private_auc import rounded_bounds

Vector = NDArray[np.float64]

WIDTHS = (1, 3, 10, 100)
KINDS = ("default", "given", "found", "private")


def gaussian(seed: int = 0) -> tuple[Vector, Vector]:
    """Return 4,000 examples of two Gaussian classes in eight features of unequal size."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(4000) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(4000, 8)) + np.outer(y, 0.2 * rng.normal(size=8))
    return 10.0 ** rng.integers(-2, 4, 8) * (X + rng.normal(size=8)), y


def long_tails(X: Vector, length: float) -> Vector:
    """Return exp(length z) of each feature of ten values or more, z its score within 4."""
    X = X.copy()
    for column in X.T:
        if len(np.unique(column)) >= 10:
            z = (column - column.mean()) / column.std()
            column[:] = np.exp(length * np.clip(z, -4.0, 4.0))
    return X


def mean_auc(
    X: Vector, y: Vector, n: int, epsilon: float, width: float, kind: str, n_splits: int
) -> float:
    """Return the mean test AUC with bounds of one kind; see `KINDS`."""
    from pairlearn import PrivateAUCClassifier, PrivateBounds
    from pairlearn.metrics import roc_auc
    from pairlearn.privacy import CentredStatistics

    low, high = rounded_bounds(X)
    total = 0.0
    for split in range(n_splits):
        rng = np.random.default_rng([split, 7])
        order = rng.permutation(len(y))
        train, test = order[:n], order[n : n + 5000]
        half = 0.5 * (high - low)
        off = (width - 1) * half * rng.uniform(-0.5, 0.5, len(low))
        wide = (
            np.minimum(low, low - (width - 1) * half + off),
            np.maximum(high, high + (width - 1) * half + off),
        )
        bounds: Any = {"found": PrivateBounds(*wide), "private": "private"}.get(kind, wide)
        model = PrivateAUCClassifier(
            epsilon, 1.0 / n, bounds=bounds, labels=(-1.0, 1.0),
            mechanism=CentredStatistics(narrow_bounds=kind != "given"),
            random_state=int(rng.integers(2**31)),
        ).fit(X[train], y[train])  # fmt: skip
        total += roc_auc(y[test], model.decision_function(X[test]))
    return total / n_splits


def main() -> None:
    """Print the table."""
    from benchmarks.league import read_folders

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("PAIRLEARN_DATA"))
    usual = "diabetes,magic_scale,phoneme_scale"
    parser.add_argument("--only", help=f"data sets of the folder; {usual} by default")
    parser.add_argument("--rows", type=int, default=256, help="training rows")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 1.0, 2.0])
    parser.add_argument("--splits", type=int, default=60)
    parser.add_argument("--tails", type=float, default=0.0, help="length of the tails; 0: as is")
    chosen = parser.parse_args()
    names = (chosen.only or usual).split(",")
    tasks = [("Gaussian", *gaussian())]
    if chosen.data is not None:
        folders = [Path(chosen.data), Path(chosen.data, "league")]
        tasks += [
            (task.name, np.asarray(task.X, dtype=np.float64), np.where(task.y == 1, 1.0, -1.0))
            for task in read_folders([folder for folder in folders if folder.is_dir()])
            if task.name in names
        ]
    absent = sorted(set(names) - {task[0] for task in tasks})
    if chosen.only and absent:
        parser.error(f"no {', '.join(absent)}; name a folder that holds it with --data DIR.")
    if chosen.tails:
        tasks = [(name, long_tails(X, chosen.tails), y) for name, X, y in tasks]
    warnings.simplefilter("ignore")
    print(f"{'':14s} n     epsilon bounds    " + "".join(f"{width:>7d}" for width in WIDTHS))
    for name, X, y in tasks:
        for epsilon in chosen.epsilon:
            for kind in KINDS:
                widths = WIDTHS if kind != "private" else (1,)
                row = [
                    mean_auc(X, y, chosen.rows, epsilon, width, kind, chosen.splits)
                    for width in widths
                ]
                cells = "".join(f"{value:7.3f}" for value in row)
                print(f"{name:14s} {chosen.rows:<5d} {epsilon:<7g} {kind:8s} {cells}", flush=True)


if __name__ == "__main__":
    main()
