# SPDX-License-Identifier: BSD-3-Clause
"""How good are private probabilities? ``python -m benchmarks.private_probabilities [--data DIR]``.

The tasks, bounds and splits are those of `benchmarks.private_auc`, with the default of
`PrivateAUCClassifier` and its default delta. Printed for each task are the log loss on test rows
minus that of the share of positives among them, the same with the slope and offset of the log odds
that suit these test rows best, the mean probability minus the share, and the accuracy in a class,
averaged over both classes, of the threshold halfway between the class means. The last line has the
means over tasks, with the mean size of the third column.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.league import Task, read_folders, shipped
from benchmarks.private_auc import MOST_FEATURES, Vector, rounded_bounds


def loss(odds: Vector, y: Vector) -> float:
    """Return the mean log loss of log odds for labels 0 and 1."""
    return float(np.mean(np.logaddexp(0.0, np.where(y == 1, -odds, odds))))


def best_loss(odds: Vector, y: Vector) -> float:
    """Return the least log loss of a line in the log odds."""
    from scipy.optimize import minimize

    unit = max(float(np.std(odds)), 1e-12)
    found = minimize(lambda line: loss(line[0] * odds / unit + line[1], y), [unit, 0.0])
    return float(found.fun)


def one_task(task: Task, epsilon: float, n_splits: int, n_rows: int) -> Any:
    """Return the four columns, means over splits."""
    from sklearn.model_selection import train_test_split

    from pairlearn import PrivateAUCClassifier

    X = np.asarray(task.X, dtype=np.float64)
    y = np.where(task.y == 1, 1, 0)
    rows = []
    for split in range(n_splits):
        train, test = train_test_split(
            np.arange(len(y)),
            train_size=min(int(0.7 * len(y)), n_rows),
            stratify=y,
            random_state=split,
        )
        model = PrivateAUCClassifier(epsilon, bounds=rounded_bounds(X), random_state=split).fit(
            X[train], y[train]
        )
        test = test[:20_000]
        slope, offset = model.log_odds_
        odds = slope * model.decision_function(X[test]) + offset
        share = float(np.mean(y[test]))
        alone = loss(np.full(len(test), np.log(share / (1.0 - share))), y[test])
        right = model.predict(X[test]) == y[test]
        rows.append(
            (
                loss(odds, y[test]) - alone,
                best_loss(odds, y[test]) - alone,
                float(np.mean(model.predict_proba(X[test])[:, 1])) - share,
                0.5 * float(np.mean(right[y[test] == 1]) + np.mean(right[y[test] == 0])),
            )
        )
    return np.mean(rows, axis=0)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, action="append", help="a folder; may be repeated")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1000, help="most training rows")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'':34s}     loss     best  mean p  both classes")
    rows = []
    for task in shipped() if chosen.data is None else read_folders(chosen.data, sparse=False):
        if task.X.shape[1] > MOST_FEATURES:
            continue
        rows.append(one_task(task, chosen.epsilon, chosen.splits, chosen.rows))
        print(f"{task.name[:34]:34s} {rows[-1][0]:+8.3f} {rows[-1][1]:+8.3f} {rows[-1][2]:+7.3f} "
              f"{rows[-1][3]:8.3f}", flush=True)  # fmt: skip
    if rows:
        table = np.array(rows)
        means = table.mean(axis=0)
        size = np.abs(table[:, 2]).mean()
        print(f"{f'mean of {len(rows)}':34s} {means[0]:+8.3f} {means[1]:+8.3f} {size:7.3f} "
              f"{means[3]:8.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
