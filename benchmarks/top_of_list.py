# SPDX-License-Identifier: BSD-3-Clause
"""Objectives for the top of the list: ``python -m benchmarks.top_of_list [--data DIR]``.

Sets are those of ``benchmarks.league`` with two classes (or their rarest class against the others)
and a rarer class of at least 20 and at most 30 % of the examples; ``--sets`` names some of them.
Each split is 70 % / 30 %, stratified, the same for all. Printed are means over splits of average
precision, partial AUC for false positive rates up to .05 (standardised) and CPU seconds of `fit`;
then the mean differences to logistic regression on scaled features, and on how many sets they
exceed .003 either way.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pairlearn.experiments.league import Task, read_folders, shipped

CLEAR = 0.003
MAX_FPR = 0.05


def methods() -> dict[str, Callable[[], Any]]:
    """Return logistic regression, plain and tuned, and the objectives."""
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pairlearn import AUCClassifier

    def ours(objective: str, **settings: Any) -> Callable[[], Any]:
        return lambda: AUCClassifier(
            objective=objective, solver="exact", random_state=0, **settings
        )

    return {
        "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "logistic cv": lambda: make_pipeline(
            StandardScaler(), LogisticRegressionCV(max_iter=1000, scoring="average_precision")
        ),
        "auc": ours("auc"),
        "push": ours("push"),
        "partial": ours("partial_auc", max_fpr=MAX_FPR),
        "precision": ours("average_precision"),
    }


def is_rare(task: Task) -> bool:
    """Whether positives are few, but not too few to be ranked."""
    n_positive = int(task.y.sum())
    return n_positive >= 20 and n_positive <= 0.3 * len(task.y) and not task.name.endswith(" half")


def run(task: Task, n_splits: int, which: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Return, for each method, average precision, partial AUC and CPU seconds of each split."""
    from sklearn.model_selection import train_test_split

    from pairlearn import AveragePrecision, PartialAUC

    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in which}
    for split in range(n_splits):
        A, B, a, b = train_test_split(
            task.X, task.y, test_size=0.3, stratify=task.y, random_state=split
        )
        for name, make in which.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                begin = time.process_time()
                model = make().fit(A, a)
                cpu = time.process_time() - begin
            scores = model.decision_function(B)
            found[name].append((AveragePrecision()(b, scores), PartialAUC(MAX_FPR)(b, scores), cpu))
    return {name: np.mean(values, axis=0) for name, values in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--sets", default="", help="names, separated by commas")
    parser.add_argument("--splits", type=int, default=5)
    asked = parser.parse_args(arguments)
    folders = asked.data
    if not folders and "PAIRLEARN_DATA" in os.environ:
        folders = [Path(os.environ["PAIRLEARN_DATA"]) / "league"]
    tasks = read_folders(folders, sparse=False) if folders else shipped()
    wanted = [name for name in asked.sets.split(",") if name]
    which = methods()
    print(f"{'average precision / partial AUC / CPU s':40}", *(f"{name:>18}" for name in which))
    results = []
    for task in tasks:
        if not is_rare(task) or (wanted and task.name.split()[0] not in wanted):
            continue
        found = run(task, asked.splits, which)
        results.append(found)
        title = f"{task.name} ({int(task.y.sum())} of {len(task.y)})"
        cells = (f"{a:.3f}/{p:.3f}/{s:5.2f}".rjust(18) for a, p, s in found.values())
        print(f"{title:40}", *cells, flush=True)
    for column, metric in enumerate(("average precision", "partial AUC")):
        for name in which:
            gaps = np.array([one[name][column] - one["logistic"][column] for one in results])
            wins, losses = int((gaps > CLEAR).sum()), int((gaps < -CLEAR).sum())
            print(
                f"{metric}, {name} over logistic: {gaps.mean():+.4f} ({wins} wins, {losses} losses)"
            )
    for name in which:
        ratio = sum(one[name][2] for one in results) / sum(one["logistic cv"][2] for one in results)
        print(f"CPU of {name}: {ratio:.2f} of logistic cv")


if __name__ == "__main__":
    main()
