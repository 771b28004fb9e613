# SPDX-License-Identifier: BSD-3-Clause
"""Defaults on many data sets: ``python -m benchmarks.league [--data DIR]``.

Every data set of the given folders (see `benchmarks.league_table`) takes part; where none is
given, those of the folder named by PAIRLEARN_DATA and of its folder ``league``, or else sets that
ship with scikit-learn.

Printed are means over splits of test AUC, then differences of ours to each rival: mean AUC with the
standard error over data sets, wins and losses that exceed .003 and two standard errors over the
splits, average precision, log loss, and the ratio of CPU seconds of `fit`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.league_table import (
    Result,
    Task,
    auc_line,
    draw,
    head_line,
    methods,
    play,
    read_folders,
    summary,
    tasks_of,
)
from pairlearn import AUCClassifier


class OnePass:
    """An estimator that sees the training examples once, in chunks, as a stream would come."""

    def __init__(self, model: Any, chunk: int = 256) -> None:
        self.model, self.chunk = model, chunk

    def fit(self, X: Any, y: NDArray[Any]) -> OnePass:
        """Learn one chunk after the other."""
        for begin in range(0, len(y), self.chunk):
            part = slice(begin, begin + self.chunk)
            self.model.partial_fit(X[part], y[part], classes=[0, 1])
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores."""
        return np.asarray(self.model.decision_function(X))


def streams() -> dict[str, Callable[[], Any]]:
    """Return what learns in one pass: ours, ours without scales, and logistic regression."""
    from sklearn.linear_model import SGDClassifier

    return {
        "ours": lambda: OnePass(AUCClassifier(random_state=0)),
        "bare": lambda: OnePass(AUCClassifier(random_state=0, scaling=None)),
        "sgd": lambda: OnePass(SGDClassifier(loss="log_loss", average=True, random_state=0)),
    }


def shipped() -> Iterator[Task]:
    """Yield what ships with scikit-learn."""
    from sklearn import datasets

    for name in ("breast_cancer", "wine", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield from tasks_of(name, X, y)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the league and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.league", description=__doc__)
    parser.add_argument("--data", type=Path, action="append", help="a folder; may be repeated")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", action="append", help="tasks whose name contains this")
    parser.add_argument("--methods", help="names, separated by commas")
    parser.add_argument("--scaled", action="store_true", help="after StandardScaler")
    parser.add_argument("--streams", action="store_true", help="in one pass, as streams")
    parser.add_argument("--sparse", action="store_true", help="as sparse rows")
    parser.add_argument("--json", type=Path, help="also write all results")
    parser.add_argument("--figure", type=Path, help="draw the differences to 'logistic cv'")
    options = parser.parse_args(arguments)
    which = streams() if options.streams else methods()
    if options.methods:
        which = {name: which[name] for name in options.methods.split(",")}
    elif options.sparse:
        which.pop("boosting", None)  # it takes no sparse rows
    folders = options.data
    if folders is None and os.environ.get("PAIRLEARN_DATA"):
        base = Path(os.environ["PAIRLEARN_DATA"])
        folders = [base, *(path for path in [base / "league"] if path.is_dir())]
    tasks = shipped() if folders is None else read_folders(folders, sparse=options.sparse)
    if options.only:
        tasks = (task for task in tasks if any(part in task.name for part in options.only))
    results: list[Result] = []
    print(head_line(list(which)), flush=True)
    played = play(
        tasks, which, n_splits=options.splits, scaled=options.scaled, sparse=options.sparse
    )
    for task, done in played:
        results += done
        print(auc_line(task, done, list(which)), flush=True)
    if len(which) > 1 and results:
        print("\n" + "\n".join(summary(results, next(iter(which)))))
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results]))
    if options.figure:
        draw(results, next(iter(which)), "logistic cv", options.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
