# SPDX-License-Identifier: BSD-3-Clause
"""Test figures before and after a change: ``python -m benchmarks.golden --out FILE [--data DIR]``.

Records the test AUC (concordance, accuracy of pairs) of the default, of maps, of a stack, of one
pass, of a ranker, of survival, of a metric and of private fits, on the league and several seeds.
``--against OTHER`` prints the mean difference of each column and where it exceeds noise.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.league_table import Task, read_folders

#: Rows of a training set at most: differences of models show with few rows, too.
MOST_ROWS = 3000
#: A difference of less than this in one figure is noise.
NOISE = 0.005


def split_of(task: Task, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return rows to train on with their labels, and rows to test on with theirs."""
    from sklearn.model_selection import train_test_split

    A, B, a, b = train_test_split(task.X, task.y, test_size=0.3, stratify=task.y, random_state=seed)
    some = np.random.default_rng(seed).permutation(len(a))[:MOST_ROWS]
    return A[some], a[some], B, b


def one_pass(make: Callable[[], Any]) -> Callable[[], Any]:
    """Return a model that learns in one pass, in chunks of 200 rows."""

    class OnePass:
        def fit(self, X: Any, y: Any) -> Any:
            model = make()
            for k in range(0, len(y), 200):
                model.partial_fit(X[k : k + 200], y[k : k + 200], classes=[0, 1])
            return model

    return OnePass


def columns() -> dict[str, tuple[int, Callable[[], Any]]]:
    """Return for each column the number of seeds and what makes its model."""
    from pairlearn import SGD, AUCClassifier, AUCStack, Exact, Moments

    def private(seed: int = 0) -> Any:
        from pairlearn import PrivateAUCClassifier

        return PrivateAUCClassifier(1.0, 1e-4, bounds="private", random_state=seed)

    return {
        "default": (2, lambda: AUCClassifier(random_state=0)),
        "auto": (1, lambda: AUCClassifier(features="auto", random_state=0)),
        "hats": (1, lambda: AUCClassifier(features="hats", random_state=0)),
        "stack": (1, lambda: AUCStack(random_state=0)),
        "one pass": (2, one_pass(lambda: AUCClassifier(random_state=0))),
        "sgd": (1, lambda: AUCClassifier(solver=SGD(), random_state=0)),
        "sgd stream": (1, one_pass(lambda: AUCClassifier(solver=SGD(), random_state=0))),
        "moments": (1, lambda: AUCClassifier(solver=Moments(), random_state=0)),
        "exact": (1, lambda: AUCClassifier(solver=Exact(0.01), random_state=0)),
        "precision": (1, lambda: AUCClassifier("average_precision", random_state=0)),
        "private": (4, private),
    }


def figures(tasks: Iterator[Task], only: set[str]) -> Iterator[tuple[str, str, float, float]]:
    """Yield task with seed, column, test figure and processor seconds."""
    from sklearn.metrics import roc_auc_score

    for task in tasks:
        for name, (n_seeds, make) in columns().items():
            if only and name not in only:
                continue
            if name in ("stack", "auto", "precision") and task.X.shape[1] > 130:
                continue
            for seed in range(n_seeds):
                A, a, B, b = split_of(task, seed)
                if min(np.bincount(a, minlength=2)) < 8:
                    continue
                begin = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        model = make(seed) if name == "private" else make()  # type: ignore[call-arg]
                        scores = model.fit(A, a).decision_function(B)
                    except ValueError as error:
                        print(f"{task.name} {name}: {error}", flush=True)
                        continue
                spent = time.process_time() - begin
                yield f"{task.name}/{seed}", name, float(roc_auc_score(b, scores)), spent


def other_tasks() -> Iterator[tuple[str, str, float, float]]:
    """Yield the figures of rankers, survival, metrics and error entropy on simulated data."""
    from pairlearn import EntropyRegressor, MetricLearner, PairwiseRanker, SurvivalRanker

    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(900, 8)) * np.array([1, 1, 1, 5, 0.1, 1, 1, 1])
        s = X @ np.array([1, -1, 0.5, 0.1, 3, 0, 0, 0])
        qid = np.repeat(np.arange(60), 15)
        grade = np.clip(np.round(s / 2 + rng.normal(size=900)), -2, 2) + 2
        half = 450
        ranker = PairwiseRanker(random_state=0).fit(X[:half], grade[:half], qid=qid[:half])
        got = ranker.predict(X[half:])
        yield f"ranker/{seed}", "ranker", float(np.corrcoef(got, s[half:])[0, 1]), 0.0
        t = np.exp(-0.5 * s + rng.gumbel(size=900))
        c = rng.exponential(np.median(t) * 2, size=900)
        y = np.rec.fromarrays([t <= c, np.minimum(t, c)], names="event,time")
        model = SurvivalRanker(random_state=0).fit(X[:half], y[:half])
        yield f"survival/{seed}", "survival", float(model.score(X[half:], y[half:])), 0.0
        label = (s > 0).astype(int)
        metric = MetricLearner(random_state=0).fit(X[:half], label[:half])
        Z = metric.transform(X)
        near = np.argmin(((Z[half:, None] - Z[None, :half]) ** 2).sum(2), axis=1)
        yield f"metric/{seed}", "metric", float(np.mean(label[near] == label[half:])), 0.0
        target = s + rng.standard_t(2, size=900)
        entropy = EntropyRegressor(random_state=0).fit(X[:half], target[:half])
        got = entropy.predict(X[half:])
        yield f"entropy/{seed}", "entropy", float(np.corrcoef(got, s[half:])[0, 1]), 0.0


def compare(now: dict[str, Any], before: dict[str, Any]) -> None:
    """Print the mean difference of each column, and where it exceeds noise."""
    for name in before:
        both = sorted(set(now.get(name, {})) & set(before[name]))
        if not both:
            continue
        gap = np.array([now[name][k][0] - before[name][k][0] for k in both])
        cost = sum(now[name][k][1] for k in both) / max(sum(before[name][k][1] for k in both), 1e-9)
        print(
            f"{name:12s} {len(both):4d} figures, mean {gap.mean():+.5f}, "
            f"processor time x {cost:.2f}"
        )
        for k in np.argsort(gap):
            if abs(gap[k]) > NOISE:
                print(f"    {both[k]:34s} {gap[k]:+.4f}")


def main() -> None:
    """Record the figures, or compare two records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("PAIRLEARN_DATA", "data")))
    parser.add_argument("--only", default="", help="columns, separated by commas")
    args = parser.parse_args()
    only = set(filter(None, args.only.split(",")))
    found: dict[str, dict[str, tuple[float, float]]] = {}
    folders = [f for f in (args.data, args.data / "league") if f.is_dir()]

    def all_figures() -> Iterator[tuple[str, str, float, float]]:
        if not only or only & {"ranker", "survival", "metric", "entropy"}:
            yield from other_tasks()
        yield from figures(read_folders(folders), only)

    for task, name, figure, spent in all_figures():
        found.setdefault(name, {})[task] = figure, spent
        print(f"{task:40s} {name:12s} {figure:.5f} {spent:8.2f}", flush=True)
        args.out.write_text(json.dumps(found, indent=1))
    if args.against:
        compare(found, json.loads(args.against.read_text()))


if __name__ == "__main__":
    main()
