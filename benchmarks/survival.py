# SPDX-License-Identifier: BSD-3-Clause
"""Survival rankers on real data: ``make bench-survival``.

That is ``python -m benchmarks.survival [--splits N] [--sets NAME,...] [--fixed]``, in an
environment with the extra `survival` (scikit-survival and lifelines ship the data).

`SurvivalRanker()` stands beside Cox's regression and `FastSurvivalSVM` of scikit-survival. Each set
is split N times, 70 % for training, with as many events in both parts. Gaps are filled with medians
and columns divided by their standard deviations, both of the training part. Each method chooses its
penalty by the concordance index of five inner folds, ours among its six and the others among six of
theirs. Printed are the concordance index on the other 30 %, the mean difference to the better of
the two others with its standard error over the splits, and the CPU time of a training (the choice
included) as a multiple of ours. With ``--fixed`` nothing is chosen: each method takes one penalty,
and the ratios are of single fits. A set of more than 5,000 examples takes a fifth of the splits.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Penalties that the others choose from; of Cox a multiple of the squared norm, of the SVM a factor
#: of the loss.
COX = (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)
SVM = (2.0**-15, 2.0**-12, 2.0**-9, 2.0**-6, 2.0**-3, 1.0)
#: Penalties of ``--fixed``: ours, of Cox, of the SVM.
FIXED = (0.01, 1.0, 2.0**-9)
N_INNER = 5
#: With more examples than this, a fifth of the splits is made.
LARGE = 5_000
SHARE = 0.7


def load(name: str) -> tuple[Any, Any]:
    """Return the columns of a set, words as indicators, and its events and times."""
    import lifelines.datasets
    import pandas as pd
    import sksurv.datasets

    if name in ("rossi", "lung"):
        frame = getattr(lifelines.datasets, f"load_{name}")()
        time_of, event = ("week", "arrest") if name == "rossi" else ("time", "status")
        y = np.empty(len(frame), dtype=[("event", bool), ("time", float)])
        y["event"], y["time"] = frame[event] == frame[event].max(), frame[time_of]
        X = frame.drop(columns=[time_of, event, *(["inst"] if name == "lung" else [])])
    else:
        X, given = getattr(sksurv.datasets, f"load_{name}")()
        # the chapter of the cause of death is known only for the dead
        X = X.drop(columns=["chapter"], errors="ignore")
        event, time_of = given.dtype.names
        y = np.empty(len(given), dtype=[("event", bool), ("time", float)])
        y["event"], y["time"] = given[event], given[time_of]
    y["time"] += 0.5  # FastSurvivalSVM takes no time of zero, which some days are
    for column in X.columns:
        if not pd.api.types.is_numeric_dtype(X[column]):
            X[column] = X[column].astype(str)
    return pd.get_dummies(X, drop_first=True).to_numpy(dtype=float), y


SETS = ("veterans_lung_cancer", "whas500", "gbsg2", "aids", "flchain", "rossi", "lung")


def split(y: Any, seed: int) -> tuple[Any, Any]:
    """Return training and test examples, with the same share of events."""
    rng, train = np.random.default_rng(seed), np.zeros(len(y), dtype=bool)
    for event in (False, True):
        members = rng.permutation(np.flatnonzero(y["event"] == event))
        train[members[: round(SHARE * len(members))]] = True
    return np.flatnonzero(train), np.flatnonzero(~train)


def prepared(X: Any, train: Any, test: Any) -> tuple[Any, Any]:
    """Return both parts without gaps and in units of the training part."""
    middle = np.nanmedian(X[train], axis=0)
    A, B = (np.where(np.isnan(X[part]), middle, X[part]) for part in (train, test))
    spread = A.std(axis=0)
    some = spread > 0.0
    A, B = ((Z[:, some] - A[:, some].mean(axis=0)) / spread[some] for Z in (A, B))
    return A, B


def tuned(make: Callable[[float], Any], penalties: Sequence[float]) -> Callable[..., Any]:
    """Return what fits the model of the penalty with the best concordance of inner folds."""
    from sklearn.model_selection import StratifiedKFold

    from pairlearn import ConcordanceIndex

    def fit(A: Any, y: Any, seed: int) -> Any:
        folds = list(StratifiedKFold(N_INNER, shuffle=True, random_state=seed).split(A, y["event"]))
        worth = []
        for penalty in penalties:
            found = []
            for train, test in folds:
                try:
                    model = make(penalty).fit(A[train], y[train])
                    found.append(ConcordanceIndex()(y[test], model.predict(A[test])))
                except (ArithmeticError, ValueError):  # a penalty at which a method fails
                    found.append(0.0)
            worth.append(float(np.mean(found)))
        return make(penalties[int(np.argmax(worth))]).fit(A, y)

    return fit


def contestants(*, fixed: bool) -> dict[str, Callable[..., Any]]:
    """Return the methods by name; each takes rows, labels and a seed."""
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.svm import FastSurvivalSVM

    from pairlearn import Exact, SurvivalRanker

    def svm(alpha: float) -> Any:
        return FastSurvivalSVM(alpha, rank_ratio=1.0, random_state=0)

    if fixed:
        ridge, alpha, factor = FIXED
        return {
            "pairlearn": lambda A, y, _: SurvivalRanker(solver=Exact(ridge=ridge)).fit(A, y),
            "Cox": lambda A, y, _: CoxPHSurvivalAnalysis(alpha=alpha).fit(A, y),
            "FastSurvivalSVM": lambda A, y, _: svm(factor).fit(A, y),
        }
    return {
        "pairlearn": lambda A, y, seed: SurvivalRanker(random_state=seed).fit(A, y),
        "Cox": tuned(lambda alpha: CoxPHSurvivalAnalysis(alpha=alpha), COX),
        "FastSurvivalSVM": tuned(svm, SVM),
    }


def measure(name: str, n_splits: int, *, fixed: bool = False) -> dict[str, Any]:
    """Return the indices of all methods on all splits of a set, and the CPU time of each."""
    from pairlearn import ConcordanceIndex

    X, y = load(name)
    methods = contestants(fixed=fixed)
    train, test = split(y, 0)
    methods["pairlearn"](prepared(X, train, test)[0], y[train], 0)  # compiles
    found: dict[str, list[float]] = {method: [] for method in methods}
    spent: dict[str, list[float]] = {method: [] for method in methods}
    for seed in range(n_splits if len(y) <= LARGE else max(n_splits // 5, 1)):
        train, test = split(y, seed)
        A, B = prepared(X, train, test)
        order = list(methods)
        for method in order if seed % 2 else order[::-1]:
            begin = time.process_time()
            model = methods[method](A, y[train], seed)
            spent[method].append(time.process_time() - begin)
            found[method].append(ConcordanceIndex()(y[test], model.predict(B)))
    shape = f"{len(y)} x {A.shape[1]}, {int(y['event'].sum())} events"
    return {"name": name, "shape": shape, "c": found, "cpu": spent}


def lines(results: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table in Markdown."""
    table = [
        "| set | C: ours | Cox | FastSurvivalSVM | ours - better of both | CPU: Cox / ours | "
        "FastSurvivalSVM / ours |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    gaps = []
    for one in results:
        c = {method: np.array(values) for method, values in one["c"].items()}
        mean = {method: float(values.mean()) for method, values in c.items()}
        better = max(("Cox", "FastSurvivalSVM"), key=mean.__getitem__)
        gap = c["pairlearn"] - c[better]
        error = float(gap.std(ddof=1)) / np.sqrt(len(gap)) if len(gap) > 1 else float("nan")
        gaps.append(float(gap.mean()))
        cpu = {method: float(np.median(values)) for method, values in one["cpu"].items()}
        ratios = [f"{cpu[method] / cpu['pairlearn']:.1f}" for method in ("Cox", "FastSurvivalSVM")]
        table.append(
            f"| {one['name']} ({one['shape']}) | {mean['pairlearn']:.4f} | {mean['Cox']:.4f} | "
            f"{mean['FastSurvivalSVM']:.4f} | {gap.mean():+.4f} ({error:.4f}) | "
            + " | ".join(ratios)
            + " |"
        )
    table.append(f"| mean | | | | {np.mean(gaps):+.4f} | | |")
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.survival", description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--fixed", action="store_true", help="one penalty for each method")
    given = parser.parse_args(arguments)
    unknown = set(given.sets.split(",")) - set(SETS)
    if unknown:
        parser.error(f"unknown sets {sorted(unknown)}; there are {', '.join(SETS)}.")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    results = []
    for name in given.sets.split(","):
        print(f"{name} ...", file=sys.stderr)
        results.append(measure(name, given.splits, fixed=given.fixed))
        print(lines(results[-1:])[2], file=sys.stderr)
    print("\n".join(lines(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
