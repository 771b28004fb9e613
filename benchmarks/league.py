# SPDX-License-Identifier: BSD-3-Clause
"""Defaults on many data sets: ``python -m benchmarks.league [--data DIR]``.

Every file ``*.libsvm``, plain or compressed, of the given folders is a data set; where none is
given, the folder named by PAIRLEARN_DATA and its folder ``league`` are read, or else sets that
ship with scikit-learn. Data come as they are, nothing is scaled and nothing is tuned by hand. A
set with several classes gives two tasks, its rarest class and the first half of its classes
against the others; sets of real targets are left out. Test files (``*.t``) and scaled twins of a
raw set are left out.

Each split is 70 % / 30 %, stratified, the same for all. Printed are means over splits of test AUC,
average precision, log loss, and CPU seconds of `fit`; then differences of ours to each rival, with
the standard error over data sets, and where they exceed .003 and two standard errors over the
splits.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

#: A training set has at most so many numbers; longer ones are thinned out, for all methods alike.
MOST_NUMBERS = 4_000_000
#: A difference of AUC below this is nothing.
CLEAR = 0.003
#: Targets with more distinct values than this are not classes.
MOST_CLASSES = 26


@dataclass(frozen=True)
class Task:
    """Two classes of a data set."""

    name: str
    X: Any
    y: NDArray[np.int64]


@dataclass(frozen=True)
class Result:
    """One method on one split of one task."""

    task: str
    method: str
    split: int
    auc: float
    average_precision: float
    log_loss: float
    cpu_seconds: float


def methods() -> dict[str, Callable[[], Any]]:
    """Return ours and the rivals, as they come; LightGBM if it is installed."""
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
    from sklearn.svm import LinearSVC

    from pairlearn import AUCClassifier

    found: dict[str, Callable[[], Any]] = {
        "ours": lambda: AUCClassifier(random_state=0),
        "logistic": lambda: LogisticRegression(max_iter=1000),
        "logistic cv": lambda: LogisticRegressionCV(max_iter=1000, scoring="roc_auc"),
        "balanced": lambda: LogisticRegression(max_iter=1000, class_weight="balanced"),
        "svc": lambda: LinearSVC(class_weight="balanced", random_state=0),
        "sgd": lambda: SGDClassifier(loss="log_loss", average=True, random_state=0),
    }
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        return found
    return found | {"lightgbm": lambda: LGBMClassifier(verbose=-1, n_jobs=1)}


def tasks_of(name: str, X: Any, y: NDArray[Any]) -> Iterator[Task]:
    """Yield the tasks of a data set."""
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) > MOST_CLASSES or len(classes) < 2:
        return
    if len(classes) == 2:
        yield Task(name, X, (y == classes[1]).astype(np.int64))
        return
    rarest = classes[np.argmin(counts)]
    yield Task(f"{name} {rarest:g}", X, (y == rarest).astype(np.int64))
    half = classes[: len(classes) // 2]
    yield Task(f"{name} half", X, np.isin(y, half).astype(np.int64))


def read_folders(folders: Sequence[Path], *, sparse: bool) -> Iterator[Task]:
    """Yield the tasks of all files of some folders."""
    from pairlearn.data import read_libsvm

    paths = [path for folder in folders for path in sorted(folder.glob("*.libsvm*"))]
    stems = {path.name.split(".libsvm")[0] for path in paths}
    for path in paths:
        stem = path.name.split(".libsvm")[0]
        twin = stem.endswith("_scale") and stem.removesuffix("_scale") in stems
        if stem.endswith(".t") or twin:
            continue
        yield from tasks_of(stem, *read_libsvm(path, dense=not sparse))


def shipped() -> Iterator[Task]:
    """Yield what ships with scikit-learn."""
    from sklearn import datasets

    for name in ("breast_cancer", "wine", "digits"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield from tasks_of(name, X, y)


def probabilities(model: Any, scores: Vector, X: Any, train: tuple[Any, Any]) -> Vector:
    """Return probabilities of the positive class, by a sigmoid where the model has none."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X)[:, 1])
    from sklearn.linear_model import LogisticRegression

    sigmoid = LogisticRegression().fit(model.decision_function(train[0])[:, None], train[1])
    return np.asarray(sigmoid.predict_proba(scores[:, None])[:, 1])


def run_split(
    task: Task, split: int, which: dict[str, Callable[[], Any]], *, scaled: bool
) -> list[Result]:
    """Return the results of all methods on one split."""
    from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    train, test = train_test_split(
        np.arange(len(task.y)), test_size=0.3, stratify=task.y, random_state=split
    )
    most = max(MOST_NUMBERS // task.X.shape[1], 100)
    if len(train) > most:
        train, _ = train_test_split(
            train, train_size=most, stratify=task.y[train], random_state=split
        )
    A, a, B, b = task.X[train], task.y[train], task.X[test], task.y[test]
    if scaled:
        scaler = StandardScaler(with_mean=not hasattr(A, "tocsr")).fit(A)
        A, B = scaler.transform(A), scaler.transform(B)
    results = []
    for name, make in which.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            begin = time.process_time()
            model = make().fit(A, a)
            cpu = time.process_time() - begin
            if hasattr(model, "decision_function"):
                scores = np.asarray(model.decision_function(B), dtype=np.float64)
            else:
                scores = np.asarray(model.predict_proba(B)[:, 1])
            probability = np.clip(probabilities(model, scores, B, (A, a)), 1e-12, 1 - 1e-12)
        results.append(
            Result(
                task.name, name, split,
                float(roc_auc_score(b, scores)),
                float(average_precision_score(b, scores)),
                float(log_loss(b, probability)),
                cpu,
            )
        )  # fmt: skip
    return results


def warm_up(which: dict[str, Callable[[], Any]]) -> None:
    """Compile and import outside the clock."""
    import scipy.sparse

    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n, d in ((80, 4), (80, 30), (30_000, 4)):
            X = rng.normal(size=(n, d))
            y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
            for make in which.values():
                make().fit(X, y)
                if n == 80:
                    make().fit(scipy.sparse.csr_array(X), y)


def mean_by_task(results: Sequence[Result], field: str) -> dict[str, dict[str, Vector]]:
    """Return the values over splits, by task and method."""
    found: dict[str, dict[str, list[float]]] = {}
    for result in results:
        found.setdefault(result.task, {}).setdefault(result.method, []).append(
            getattr(result, field)
        )
    return {
        task: {name: np.array(values) for name, values in row.items()}
        for task, row in found.items()
    }


def summary(results: Sequence[Result], ours: str) -> list[str]:
    """Return the lines that compare ours with each rival."""
    names = list(dict.fromkeys(result.method for result in results))
    auc = mean_by_task(results, "auc")
    precision = mean_by_task(results, "average_precision")
    loss, cpu = mean_by_task(results, "log_loss"), mean_by_task(results, "cpu_seconds")
    lines = [
        f"{'against':14s}{'AUC':>9s}{'+-':>8s}{'wins':>6s}{'losses':>8s}{'worst':>9s}"
        f"{'av. prec.':>11s}{'log loss':>10s}{'CPU ratio':>11s}"
    ]
    for rival in names:
        if rival == ours:
            continue
        gaps = {task: row[ours] - row[rival] for task, row in auc.items()}
        means = np.array([gap.mean() for gap in gaps.values()])
        errors = np.array([gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
                           for gap in gaps.values()])  # fmt: skip
        clear = np.abs(means) > np.maximum(CLEAR, 2 * errors)
        ratio = np.median([row[ours].mean() / max(row[rival].mean(), 1e-9) for row in cpu.values()])
        lines.append(
            f"{rival:14s}{means.mean():+9.4f}{means.std(ddof=1) / np.sqrt(len(means)):8.4f}"
            f"{int((clear & (means > 0)).sum()):6d}{int((clear & (means < 0)).sum()):8d}"
            f"{means.min():+9.4f}"
            f"{np.mean([(r[ours] - r[rival]).mean() for r in precision.values()]):+11.4f}"
            f"{np.mean([(r[ours] - r[rival]).mean() for r in loss.values()]):+10.4f}{ratio:11.2f}"
        )
    linear = [name for name in names if name not in (ours, "lightgbm")]
    best = [max(row[name].mean() for name in linear) for row in auc.values()]
    gap = np.mean([row[ours].mean() - top for row, top in zip(auc.values(), best, strict=True)])
    return [*lines, f"{'best of ' + str(len(linear)):14s}{gap:+9.4f}   (chosen afterwards)"]


def draw(results: Sequence[Result], ours: str, rival: str, path: Path) -> None:
    """Draw the differences of AUC to a rival, sorted, with two standard errors."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    gaps = {task: row[ours] - row[rival] for task, row in mean_by_task(results, "auc").items()}
    order = sorted(gaps, key=lambda task: gaps[task].mean())
    means = [gaps[task].mean() for task in order]
    errors = [2 * gaps[task].std(ddof=1) / np.sqrt(len(gaps[task])) for task in order]
    figure, axes = plt.subplots(figsize=(7, 0.19 * len(order) + 1))
    axes.axvline(0, color="0.6", lw=1)
    axes.errorbar(means, range(len(order)), xerr=errors, fmt="o", ms=3, lw=1, color="C0")
    axes.set_yticks(range(len(order)), order, fontsize=7)
    axes.set_xlabel(f"test AUC of AUCClassifier() minus {rival}; bars: two standard errors")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the league and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.league", description=__doc__)
    parser.add_argument("--data", type=Path, action="append", help="a folder; may be repeated")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", action="append", help="tasks whose name contains this")
    parser.add_argument("--methods", help="names, separated by commas")
    parser.add_argument("--scaled", action="store_true", help="after StandardScaler")
    parser.add_argument("--sparse", action="store_true", help="as sparse rows")
    parser.add_argument("--json", type=Path, help="also write all results")
    parser.add_argument("--figure", type=Path, help="draw the differences to 'logistic cv'")
    options = parser.parse_args(arguments)
    from threadpoolctl import threadpool_limits

    which = methods()
    if options.methods:
        which = {name: which[name] for name in options.methods.split(",")}
    folders = options.data
    if folders is None and os.environ.get("PAIRLEARN_DATA"):
        base = Path(os.environ["PAIRLEARN_DATA"])
        folders = [base, *(path for path in [base / "league"] if path.is_dir())]
    tasks = shipped() if folders is None else read_folders(folders, sparse=options.sparse)
    results: list[Result] = []
    with threadpool_limits(1):
        warm_up(which)
        print(f"{'test AUC':34s}{'n':>7s}{'d':>5s}{'pos':>7s}"
              + "".join(f"{name:>12s}" for name in which), flush=True)  # fmt: skip
        for task in tasks:
            if options.only and not any(part in task.name for part in options.only):
                continue
            done = [result for split in range(options.splits)
                    for result in run_split(task, split, which, scaled=options.scaled)]  # fmt: skip
            results += done
            means = mean_by_task(done, "auc")[task.name]
            print(f"{task.name:34s}{len(task.y):7d}{task.X.shape[1]:5d}{int(task.y.sum()):7d}"
                  + "".join(f"{means[m].mean():12.4f}" for m in which), flush=True)  # fmt: skip
    if len(which) > 1 and results:
        print("\n" + "\n".join(summary(results, next(iter(which)))))
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results]))
    if options.figure:
        draw(results, next(iter(which)), "logistic cv", options.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
