# SPDX-License-Identifier: BSD-3-Clause
"""Objectives for the top of the list: ``python -m benchmarks.top_of_list [--data DIR]``.

Sets are those of ``benchmarks.league`` and of the folder above it with two classes (or their rarest
class against the others), positives of at least 20 and at most 30 % of the examples, and at most
ten million numbers; ``--sets`` names some of them, ``--methods`` some of the columns. Each split is
70 % / 30 %, stratified, the same for all. Printed are means over splits of average precision,
partial AUC for false positive rates up to .05 (standardised) and CPU seconds of `fit`; then the
mean differences to logistic regression on scaled features and on features as they are, and on how
many sets they exceed .003 either way, for all sets and for those with more than 50 positives; then
CPU time in units of `LogisticRegressionCV`, in all and at worst.
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

from benchmarks.league import Task, read_folders, shipped

CLEAR = 0.003
MAX_FPR = 0.05
#: Sets with more numbers are left out.
MOST_NUMBERS = 10_000_000
#: Average precision is asked for where there are more positives than this.
MANY_POSITIVES = 50


def methods() -> dict[str, Callable[[], Any]]:
    """Return logistic regression, raw, scaled and tuned, the objectives, and mapped features."""
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pairlearn import AUCClassifier, PartialArea

    def ours(objective: Any, **settings: Any) -> Callable[[], Any]:
        return lambda: AUCClassifier(objective, random_state=0, **settings)

    return {
        "raw": lambda: LogisticRegression(max_iter=1000),
        "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "logistic cv": lambda: make_pipeline(
            StandardScaler(), LogisticRegressionCV(max_iter=1000, scoring="average_precision")
        ),
        "auc": ours("auc"),
        "push": ours("push"),
        "partial": ours(PartialArea(MAX_FPR)),
        "precision": ours("average_precision"),
        "auc mapped": ours("auc", features="auto"),
        "precision mapped": ours("average_precision", features="auto"),
    }


def is_rare(task: Task) -> bool:
    """Whether positives are few, but not too few to be ranked."""
    n_positive = int(task.y.sum())
    few = 20 <= n_positive <= 0.3 * len(task.y)
    return few and not task.name.endswith(" half") and task.X.size <= MOST_NUMBERS


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


def summary(results: Sequence[tuple[str, int, dict[str, Any]]]) -> list[str]:
    """Return the lines that compare: results are names of sets, their positives, the methods'."""
    lines = []
    names = list(results[0][2])
    rivals = [name for name in ("logistic", "raw") if name in names]
    groups = {
        "all sets": [found for _, _, found in results],
        f"more than {MANY_POSITIVES} positives": [
            found for _, n_positive, found in results if n_positive > MANY_POSITIVES
        ],
    }
    for column, metric in enumerate(("average precision", "partial AUC")):
        for title, group in groups.items():
            for name in names:
                told = []
                for rival in rivals:
                    gaps = np.array([one[name][column] - one[rival][column] for one in group])
                    wins, losses = int((gaps > CLEAR).sum()), int((gaps < -CLEAR).sum())
                    if len(gaps) and name != rival:
                        told.append(f"over {rival} {gaps.mean():+.4f} ({wins} : {losses})")
                if told:
                    lines.append(f"{metric}, {title} ({len(group)}), {name}: {', '.join(told)}")
    for name in names if "logistic cv" in names else []:
        ours, theirs = (
            np.array([found[key][2] for _, _, found in results]) for key in (name, "logistic cv")
        )
        worst = int(np.argmax(ours / theirs))
        lines.append(
            f"CPU of {name}: {ours.sum() / theirs.sum():.2f} of logistic cv, at worst "
            f"{ours[worst] / theirs[worst]:.1f} ({results[worst][0]})"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--sets", default="", help="names, separated by commas")
    parser.add_argument("--methods", default="", help="columns, separated by commas")
    parser.add_argument("--splits", type=int, default=5)
    asked = parser.parse_args(arguments)
    folders = asked.data
    if not folders and "PAIRLEARN_DATA" in os.environ:
        home = Path(os.environ["PAIRLEARN_DATA"])
        folders = [home, home / "league"]
    tasks = read_folders(folders, sparse=False) if folders else shipped()
    wanted = {name for name in asked.sets.split(",") if name}
    which = methods()
    unknown = sorted(set(asked.methods.split(",")) - {*which, ""})
    if unknown:
        parser.error(f"--methods must be among {', '.join(which)}, got {unknown[0]!r}.")
    if asked.methods:
        which = {name: which[name] for name in asked.methods.split(",")}
    print(f"{'average precision / partial AUC / CPU s':40}", *(f"{name:>18}" for name in which))
    results: list[tuple[str, int, dict[str, Any]]] = []
    for task in tasks:
        if not is_rare(task) or (wanted and task.name.split()[0] not in wanted):
            continue
        found = run(task, asked.splits, which)
        results.append((task.name, int(task.y.sum()), found))
        title = f"{task.name} ({int(task.y.sum())} of {len(task.y)})"
        cells = (f"{a:.3f}/{p:.3f}/{s:5.2f}".rjust(18) for a, p, s in found.values())
        print(f"{title:40}", *cells, flush=True)
    if not results:
        parser.error("no set is left: see the rules above, and the names of --sets.")
    print(*summary(results), sep="\n")


if __name__ == "__main__":
    main()
