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
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
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
from pairlearn import SGD, AUCClassifier, Moments


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

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities that the stream itself found, as those of "fit" are its own."""
        return np.asarray(self.model.predict_proba(X))


class _Scaled:
    """A classifier of scikit-learn for streams, whose features are scaled as they come."""

    def __init__(self, model: Any) -> None:
        from sklearn.preprocessing import StandardScaler

        self.model, self.scaler = model, StandardScaler()

    def partial_fit(self, X: Any, y: NDArray[Any], classes: Sequence[int]) -> None:
        """Learn a chunk, scaled by everything so far."""
        self.model.partial_fit(self.scaler.partial_fit(X).transform(X), y, classes=classes)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores."""
        return np.asarray(self.model.decision_function(self.scaler.transform(X)))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities."""
        return np.asarray(self.model.predict_proba(self.scaler.transform(X)))


class _River:
    """River's logistic regression on scaled features, one example at a time."""

    def __init__(self) -> None:
        from river import linear_model, preprocessing

        self.model = preprocessing.StandardScaler() | linear_model.LogisticRegression()

    def partial_fit(self, X: Any, y: NDArray[Any], classes: Sequence[int]) -> None:
        """Learn a chunk."""
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), label)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the positive class."""
        found = (self.model.predict_proba_one(dict(enumerate(row))) for row in X.tolist())
        return np.array([one.get(1, 0.0) for one in found])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities."""
        positive = self.decision_function(X)
        return np.column_stack([1.0 - positive, positive])


def streams() -> dict[str, Callable[[], Any]]:
    """Return what learns in one pass: ours in several ways, and logistic regression.

    "fit" sees all rows at once, to tell what one pass costs.
    """
    from sklearn.linear_model import SGDClassifier

    rivals: dict[str, Callable[[], Any]] = {
        "ours": lambda: AUCClassifier(random_state=0),
        "never forgets": lambda: AUCClassifier(solver=Moments(memory=np.inf), random_state=0),
        "opposite": lambda: AUCClassifier(solver=SGD(pairing="opposite"), random_state=0),
        "previous": lambda: AUCClassifier(solver="sgd", random_state=0),
        "sgd": lambda: _Scaled(SGDClassifier(loss="log_loss", average=True, random_state=0)),
    }
    if importlib.util.find_spec("river"):
        rivals["river"] = _River
    passes = {name: partial(_one_pass, make) for name, make in rivals.items()}
    return {**passes, "fit": lambda: AUCClassifier(random_state=0)}


def _one_pass(make: Callable[[], Any]) -> OnePass:
    return OnePass(make())


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
    parser.add_argument("--positives", type=int, help="train on so many, and 1,100 others, at most")
    parser.add_argument("--json", type=Path, help="also write all results")
    parser.add_argument("--figure", type=Path, help="draw the differences to 'logistic cv'")
    options = parser.parse_args(arguments)
    which = streams() if options.streams else methods()
    if options.methods:
        which = {name: which[name] for name in options.methods.split(",")}
    elif options.sparse:
        for name in ("boosting", "stack"):  # they take no sparse rows
            which.pop(name, None)
    folders = options.data
    if folders is None and os.environ.get("PAIRLEARN_DATA"):
        base = Path(os.environ["PAIRLEARN_DATA"])
        folders = [base, *(path for path in [base / "league"] if path.is_dir())]
    tasks = shipped() if folders is None else read_folders(folders, sparse=options.sparse)
    if options.only:
        tasks = (task for task in tasks if any(part in task.name for part in options.only))
    results: list[Result] = []
    print(head_line(list(which)), flush=True)
    if options.positives is not None and options.positives < 2:
        parser.error(f"--positives must be at least 2, got {options.positives}; give a larger one.")
    played = play(
        tasks,
        which,
        n_splits=options.splits,
        scaled=options.scaled,
        sparse=options.sparse,
        positives=options.positives,
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
