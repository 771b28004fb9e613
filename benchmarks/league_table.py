# SPDX-License-Identifier: BSD-3-Clause
"""The table of the league: default settings on every data set of a folder, nothing tuned by hand.

Data sets are files ``*.libsvm``, ``*.svm`` and, given a label, ``*.csv``, plain or compressed. A
set with several classes gives two tasks: its rarest class against the others, and the first half of
its classes against the others. Sets with real targets, test files (``*.t``) and scaled copies of a
raw set are left out. Each split is 70 % / 30 %, stratified, the same for all methods.

``python -m benchmarks.league`` runs it, also on streams, sparse and scaled rows, and on sets that
ship with scikit-learn.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.atomic import atomic_open
from pairlearn.data import DataError
from pairlearn.typing import Vector

__all__ = [
    "Result", "Task", "auc_line", "draw", "head_line", "methods", "play", "read_folders",
    "split_of", "summary", "tasks_of",
]  # fmt: skip

#: A training set has at most this many numbers; larger ones are subsampled for all methods alike.
MOST_NUMBERS = 4_000_000
#: Differences in AUC below this count as ties.
CLEAR = 0.003
#: Where positives are thinned out, at most so many negatives are trained on.
MOST_NEGATIVES = 1_100
#: Methods whose scores are not linear.
BEYOND_LINEAR = ("auto", "boosting", "curves", "forest", "lightgbm", "stack")
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


class _Chosen:
    """The model that ``pairlearn train`` makes by itself."""

    def fit(self, X: Any, y: NDArray[np.int64]) -> Any:
        """Return the model, fitted."""
        from pairlearn.experiments import find_method

        signs = np.where(y > 0, 1.0, -1.0)
        return find_method("auto").fit(X, signs, {}, np.random.default_rng(0)).model


def methods() -> dict[str, Callable[[], Any]]:
    """Return our method and its rivals with default settings; LightGBM if it is installed."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier
    from sklearn.svm import LinearSVC

    from pairlearn import AUCClassifier, AUCStack

    found: dict[str, Callable[[], Any]] = {
        "ours": lambda: AUCClassifier(random_state=0),
        "logistic": lambda: LogisticRegression(max_iter=1000),
        "logistic cv": lambda: LogisticRegressionCV(max_iter=1000, scoring="roc_auc"),
        "balanced": lambda: LogisticRegression(max_iter=1000, class_weight="balanced"),
        "svc": lambda: LinearSVC(class_weight="balanced", random_state=0),
        "sgd": lambda: SGDClassifier(loss="log_loss", average=True, random_state=0),
        "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
        "forest": lambda: RandomForestClassifier(200, random_state=0),
        "stack": lambda: AUCStack(random_state=0),
        "curves": lambda: AUCClassifier(features="hats", random_state=0),
        "auto": _Chosen,
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


def read_folders(
    folders: Sequence[Path], *, sparse: bool = False, label: str | None = None
) -> Iterator[Task]:
    """Yield the tasks of all files in some folders; CSV files need a label."""
    from pairlearn.data import read_libsvm

    patterns = ("*.libsvm*", "*.svm*", *(("*.csv*",) if label is not None else ()))
    paths = [
        path
        for folder in folders
        for path in sorted({found for pattern in patterns for found in folder.glob(pattern)})
    ]
    if not paths:
        where = ", ".join(map(str, folders))
        raise DataError(
            f"{where} has no file named {', '.join(patterns)}; name a folder of data sets"
            f"{'' if label else ' (CSV files need --label)'}."
        )
    stems = {_stem(path) for path in paths}
    for path in paths:
        stem = _stem(path)
        twin = stem.endswith("_scale") and stem.removesuffix("_scale") in stems
        if stem.endswith(".t") or twin:
            continue
        if ".csv" in path.suffixes:
            from pairlearn.tables.fitting import TableOptions, load_table

            table = load_table([path], TableOptions(label=str(label)))
            X = table.X.toarray() if hasattr(table.X, "toarray") else table.X
            yield Task(stem, X, table.y.astype(np.int64))
        else:
            yield from tasks_of(stem, *read_libsvm(path, dense=not sparse))


def _stem(path: Path) -> str:
    name = path.name
    for mark in (".libsvm", ".svm", ".csv"):
        name = name.split(mark)[0]
    return name


def probabilities(model: Any, scores: Vector, X: Any, train: tuple[Any, Any]) -> Vector:
    """Return probabilities of the positive class, by a sigmoid if the model has none."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X)[:, 1])
    from sklearn.linear_model import LogisticRegression

    sigmoid = LogisticRegression().fit(model.decision_function(train[0])[:, None], train[1])
    return np.asarray(sigmoid.predict_proba(scores[:, None])[:, 1])


def thinned(
    train: NDArray[np.int64], y: NDArray[np.int64], positives: int, split: int
) -> NDArray[np.int64]:
    """Return training examples with at most so many positives, and at most `MOST_NEGATIVES`."""
    mixed = np.random.default_rng(split).permutation(train)
    kept = [mixed[y[mixed] == 1][:positives], mixed[y[mixed] == 0][:MOST_NEGATIVES]]
    return np.sort(np.concatenate(kept))


def split_of(task: Task, split: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the examples to train on, and those to test on."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(
        np.arange(len(task.y)), test_size=0.3, stratify=task.y, random_state=split
    )
    most = max(MOST_NUMBERS // task.X.shape[1], 100)
    if len(train) > most:
        train, _ = train_test_split(
            train, train_size=most, stratify=task.y[train], random_state=split
        )
    return train, test


def run_split(
    task: Task,
    split: int,
    which: dict[str, Callable[[], Any]],
    *,
    scaled: bool,
    positives: int | None = None,
) -> list[Result]:
    """Return the results of all methods on one split."""
    from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
    from sklearn.preprocessing import StandardScaler

    train, test = split_of(task, split)
    if positives is not None:
        train = thinned(train, task.y, positives, split)
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


def warm_up(which: dict[str, Callable[[], Any]], *, sparse: bool) -> None:
    """Compile and import before times are measured."""
    import scipy.sparse

    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n, d in ((80, 4), (80, 30), (30_000, 4)):
            X = rng.normal(size=(n, d))
            y = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
            for make in which.values():
                make().fit(X, y)
                if sparse and n == 80:
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


def _error(values: Vector) -> float:
    """Return the standard error of a mean; 0 for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def summary(results: Sequence[Result], ours: str) -> list[str]:
    """Return the lines that compare our method with each rival."""
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
        errors = np.array([_error(gap) for gap in gaps.values()])
        clear = np.abs(means) > np.maximum(CLEAR, 2 * errors)
        ratio = np.median([row[ours].mean() / max(row[rival].mean(), 1e-9) for row in cpu.values()])
        lines.append(
            f"{rival:14s}{means.mean():+9.4f}{_error(means):8.4f}"
            f"{int((clear & (means > 0)).sum()):6d}{int((clear & (means < 0)).sum()):8d}"
            f"{means.min():+9.4f}"
            f"{np.mean([(r[ours] - r[rival]).mean() for r in precision.values()]):+11.4f}"
            f"{np.mean([(r[ours] - r[rival]).mean() for r in loss.values()]):+10.4f}{ratio:11.2f}"
        )
    linear = [name for name in names if name not in (ours, *BEYOND_LINEAR)]
    if not linear:
        return lines
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
    errors = [2 * _error(gaps[task]) for task in order]
    figure, axes = plt.subplots(figsize=(7, 0.19 * len(order) + 1))
    axes.axvline(0, color="0.6", lw=1)
    axes.errorbar(means, range(len(order)), xerr=errors, fmt="o", ms=3, lw=1, color="C0")
    axes.set_yticks(range(len(order)), order, fontsize=7)
    axes.set_xlabel(f"test AUC of AUCClassifier() minus {rival}; bars: two standard errors")
    figure.tight_layout()
    with atomic_open(path) as out:
        figure.savefig(out, format=path.suffix[1:] or "png")
    plt.close(figure)


def play(
    tasks: Iterator[Task],
    which: dict[str, Callable[[], Any]],
    *,
    n_splits: int,
    scaled: bool = False,
    sparse: bool = False,
    positives: int | None = None,
) -> Iterator[tuple[Task, list[Result]]]:
    """Yield each task with the results of all methods on all splits, in one thread."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        warm_up(which, sparse=sparse)
        for task in tasks:
            yield (
                task,
                [
                    result
                    for split in range(n_splits)
                    for result in run_split(task, split, which, scaled=scaled, positives=positives)
                ],
            )


def head_line(which: Sequence[str]) -> str:
    """Return the header of the table of test AUC."""
    return f"{'test AUC':34s}{'n':>7s}{'d':>5s}{'pos':>7s}" + "".join(f"{m:>14s}" for m in which)


def auc_line(task: Task, results: Sequence[Result], which: Sequence[str]) -> str:
    """Return the line of a task: its size, and the mean AUC of each method."""
    means = mean_by_task(results, "auc")[task.name]
    return f"{task.name:34s}{len(task.y):7d}{task.X.shape[1]:5d}{int(task.y.sum()):7d}" + "".join(
        f"{means[m].mean():14.4f}" for m in which
    )
