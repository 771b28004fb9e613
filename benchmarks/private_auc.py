# SPDX-License-Identifier: BSD-3-Clause
"""Private AUC on many data sets: ``python -m benchmarks.private_auc [--data DIR]``.

The tasks are those of `benchmarks.league_table` with 60 features or fewer. Public are the
bounds of each feature, for which its smallest and largest value in the whole set stand, rounded
outwards to two digits, as a documented range would be; nothing else. A split has 70 % of the rows
for training, at most ``--rows`` of them, stratified; delta = 1/n, one example replaced. Printed are
mean test AUC over splits and seeds for each epsilon, for the default of `PrivateAUCClassifier`, the
same with the bounds as they are given, with `PrivateBounds` inside them, and without its belief
about rare classes, and two rivals with the same bounds and the same accounting: one noisy sum of
label times row, and noisy gradient descent on the logistic loss of single examples (20 steps); both
clip rows. Sets with fewer than 10 % of one class are averaged apart from the others.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.league import Task, read_folders, shipped

Vector = NDArray[np.float64]

EPSILONS = (0.2, 1.0, 2.0)
RARE = 0.1
MOST_FEATURES = 60


def rounded_bounds(X: Vector) -> tuple[Vector, Vector]:
    """Return the range of each feature, rounded outwards to two digits."""
    low, high = X.min(axis=0), X.max(axis=0)
    high = np.where(high > low, high, low + 1.0)
    digit = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(low), np.abs(high)))) - 1.0)
    return np.floor(low / digit) * digit, np.ceil(high / digit) * digit


def noisy_logistic(
    X: Vector, y: Vector, bounds: Any, epsilon: float, delta: float, rng: Any
) -> Vector:
    """Return the weights of DP gradient descent on single examples: 20 steps, clipped rows."""
    from pairlearn.privacy import mu_of

    lower, upper = bounds
    Z = 2.0 * (np.clip(X, lower, upper) - lower) / (upper - lower) - 1.0
    Z = np.column_stack([Z, np.ones(len(Z))])
    length = 0.5 * np.sqrt(Z.shape[1])
    Z = Z * np.minimum(1.0, length / np.linalg.norm(Z, axis=1))[:, None]
    n_steps, w = 20, np.zeros(Z.shape[1])
    scale = 2.0 * length / (len(Z) * mu_of(epsilon, delta) / np.sqrt(n_steps))
    for _ in range(n_steps):
        slope = -y / (1.0 + np.exp(y * (Z @ w)))
        gradient = slope @ Z / len(Z) + scale * rng.standard_normal(len(w))
        w = w - 4.0 / length**2 * gradient
    return w[:-1] / (upper - lower)


def one_sum(X: Vector, y: Vector, bounds: Any, epsilon: float, delta: float, rng: Any) -> Vector:
    """Return one noisy sum of label times clipped row, about the middle of the bounds."""
    from pairlearn.privacy import mu_of

    lower, upper = bounds
    Z = 2.0 * (np.clip(X, lower, upper) - lower) / (upper - lower) - 1.0
    length = 0.5 * np.sqrt(Z.shape[1])
    Z = Z * np.minimum(1.0, length / np.maximum(np.linalg.norm(Z, axis=1), 1e-300))[:, None]
    w = y @ Z + 2.0 * length / mu_of(epsilon, delta) * rng.standard_normal(Z.shape[1])
    return w / (upper - lower)


def methods() -> dict[str, Callable[..., Any]]:
    """Return, by name, what gives a model, or a direction in the units of X."""
    from pairlearn import PrivateAUCClassifier, PrivateBounds
    from pairlearn.privacy import CentredStatistics

    def ours(mechanism: Any, *, search: bool = False) -> Callable[..., Any]:
        def fit(X: Vector, y: Vector, bounds: Any, epsilon: float, delta: float, rng: Any) -> Any:
            within = PrivateBounds(*bounds) if search else bounds
            model = PrivateAUCClassifier(
                epsilon, delta, bounds=within, labels=(-1.0, 1.0), mechanism=mechanism,
                random_state=int(rng.integers(2**31)),
            )  # fmt: skip
            return model.fit(X, y)

        return fit

    return {
        "default": ours("statistics"),
        "bounds as given": ours(CentredStatistics(narrow_bounds=False)),
        "PrivateBounds": ours("statistics", search=True),
        "no belief": ours(CentredStatistics(rare_class_belief=False)),
        "one sum": one_sum,
        "logistic descent": noisy_logistic,
    }


def one_task(task: Task, known: dict[str, Any], n_splits: int, n_rows: int) -> dict[str, Vector]:
    """Return mean test AUC of each known method, one for each epsilon."""
    from sklearn.model_selection import train_test_split

    from pairlearn.metrics import roc_auc

    X = np.asarray(task.X.toarray() if hasattr(task.X, "toarray") else task.X, dtype=np.float64)
    y = np.where(task.y == 1, 1.0, -1.0)
    lower, upper = rounded_bounds(X)
    found = {name: np.zeros((n_splits, len(EPSILONS))) for name in known}
    for split in range(n_splits):
        n_train = min(int(0.7 * len(y)), n_rows)
        train, test = train_test_split(
            np.arange(len(y)), train_size=n_train, stratify=y, random_state=split
        )
        test = test[:20_000]
        for column, epsilon in enumerate(EPSILONS):
            for name, fit in known.items():
                # The same noise for all methods, so that differences are clearer, and other noise
                # for each data set, so that luck averages out.
                rng = np.random.default_rng([split, column, zlib.crc32(task.name.encode())])
                model = fit(X[train], y[train], (lower, upper), epsilon, 1.0 / n_train, rng)
                scores = (
                    np.clip(X[test], lower, upper) @ model
                    if isinstance(model, np.ndarray)
                    else model.decision_function(X[test])
                )
                found[name][split, column] = roc_auc(y[test], scores)
    return {name: values.mean(axis=0) for name, values in found.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, action="append", help="a folder; may be repeated")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1000, help="most training rows")
    parser.add_argument("--methods", nargs="+", default=list(methods()), choices=list(methods()))
    chosen = parser.parse_args()
    known = {name: fit for name, fit in methods().items() if name in chosen.methods}
    names = list(known)
    print(f"{'':34s} share  " + "".join(f"{name:>20s}" for name in names))
    groups: dict[str, list[dict[str, Vector]]] = {"rare": [], "other": []}
    for task in shipped() if chosen.data is None else read_folders(chosen.data, sparse=False):
        share = float(np.mean(task.y == 1))
        if task.X.shape[1] > MOST_FEATURES:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = one_task(task, known, chosen.splits, chosen.rows)
        groups["rare" if min(share, 1 - share) < RARE else "other"].append(row)
        print_row(task.name, f"{share:.3f}", row)
    for kind, rows in groups.items():
        if rows:
            print_row(f"mean of {len(rows)} {kind}", "", {
                name: np.mean([row[name] for row in rows], axis=0) for name in names
            })  # fmt: skip


def print_row(name: str, share: str, row: dict[str, Vector]) -> None:
    """Print AUC at each epsilon for each method."""
    cells = ["  ".join(f"{value:.3f}" for value in values) for values in row.values()]
    print(f"{name[:34]:34s} {share:5s}" + "".join(f"{cell:>20s}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
