# SPDX-License-Identifier: BSD-3-Clause
"""Scores beyond the plane against boosting: ``python -m benchmarks.beyond [--splits 5]``.

Fourteen sets of the folder named by PAIRLEARN_DATA and its folder ``league``, as they are, or with
``--league`` all tasks of `benchmarks.league`, split 70 % / 30 %, stratified, the same for both.
Ours is ``AUCClassifier(features="auto")``, untuned. The rival is LightGBM (``pip install
lightgbm``) with early stopping on 15 % of the training data, at most 500 trees, one thread, or with
``--rival boosting`` the `HistGradientBoostingClassifier` of scikit-learn as it comes. Printed are
means over splits of test AUC and CPU seconds of `fit`, what was chosen, and the linear score of the
same classifier.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.league_table import Task, read_folders, split_of

#: Name, file, and which labels are positive; None for the larger of two.
SETS: dict[str, tuple[str, Callable[[Any], Any] | None]] = {
    "ijcnn1": ("ijcnn1", None),
    "letter, half against half": ("letter.scale", lambda y: y <= 13),
    "letter H": ("letter.scale", lambda y: y == 8),
    "usps, half against half": ("usps", lambda y: y <= 5),
    "magic": ("magic_scale", None),
    "phoneme": ("phoneme_scale", None),
    "a9a": ("a9a", None),
    "fourclass": ("fourclass", None),
    "segment 4": ("segment.scale", lambda y: y == 4),
    "vehicle 2": ("vehicle_scale", lambda y: y == 2),
    "abalone19": ("abalone19", None),
    "ionosphere": ("ionosphere_scale", None),
    "german": ("german.numer", None),
    "diabetes": ("diabetes", None),
}


def load(folder: Path, file: str, positive: Callable[[Any], Any] | None) -> tuple[Any, Any]:
    """Return a set as a dense table and labels 0 and 1."""
    from sklearn.datasets import load_svmlight_file

    for place in (folder, folder / "league"):
        path = place / f"{file}.libsvm.xz"
        if path.exists():
            with lzma.open(path) as stream:
                X, labels = load_svmlight_file(stream)
            is_positive = labels == labels.max() if positive is None else positive(labels)
            return X.toarray(), is_positive.astype(int)
    raise FileNotFoundError(f"{file}.libsvm.xz is not in {folder}")


def tasks(folder: Path, names: Sequence[str], *, league: bool) -> Iterator[Task]:
    """Yield the sets of these names, all by default, or the tasks of the league."""
    if league:
        yield from read_folders([folder, folder / "league"])
    else:
        yield from (Task(name, *load(folder, *SETS[name])) for name in names or SETS)


def ours(X: Any, y: Any) -> tuple[Callable[[Any], Any], str]:
    """Fit the classifier that chooses its features."""
    from pairlearn import AUCClassifier

    model = AUCClassifier(features="auto", random_state=0).fit(X, y)
    return model.decision_function, model.choice_.features.name


def linear(X: Any, y: Any) -> tuple[Callable[[Any], Any], str]:
    """Fit the linear score."""
    from pairlearn import AUCClassifier

    return AUCClassifier(random_state=0).fit(X, y).decision_function, "linear"


def boosted(X: Any, y: Any) -> tuple[Callable[[Any], Any], str]:
    """Fit LightGBM with early stopping."""
    import lightgbm
    from sklearn.model_selection import train_test_split

    train, held, y_train, y_held = train_test_split(
        X, y, test_size=0.15, stratify=y, random_state=0
    )
    model = lightgbm.LGBMClassifier(n_estimators=500, n_jobs=1, verbose=-1, metric="auc")
    stop = lightgbm.early_stopping(30, verbose=False)
    model.fit(train, y_train, eval_set=[(held, y_held)], callbacks=[stop])
    return lambda rows: model.predict_proba(rows)[:, 1], "boosting"


def histograms(X: Any, y: Any) -> tuple[Callable[[Any], Any], str]:
    """Fit the boosting of scikit-learn."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0).fit(X, y)
    return model.decision_function, "boosting"


RIVALS = {"LightGBM": boosted, "boosting": histograms}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all sets and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beyond", description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", action="append", choices=list(SETS), help="one of the sets")
    parser.add_argument("--league", action="store_true", help="all tasks of the league instead")
    parser.add_argument("--rival", choices=list(RIVALS), default="LightGBM")
    parser.add_argument("--json", type=Path, help="also write every result, one line each")
    options = parser.parse_args(arguments)
    if "PAIRLEARN_DATA" not in os.environ:
        parser.error("the sets are not here; name their folder by PAIRLEARN_DATA.")
    from sklearn.metrics import roc_auc_score
    from threadpoolctl import threadpool_limits

    folder, rival = Path(os.environ["PAIRLEARN_DATA"]), options.rival
    methods = {"linear": linear, "auto": ours, rival: RIVALS[rival]}
    warnings.simplefilter("ignore")
    print(f"| set | rows x features | linear | auto | chosen | {rival} | difference | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    level, ratios = 0, []
    with threadpool_limits(1):
        # Machine code is compiled once, before anything is timed.
        rng = np.random.default_rng(0)
        X = rng.normal(size=(3000, 3))
        for method in methods.values():
            method(X, (X[:, 0] * X[:, 1] > 0).astype(int))
        for task in tasks(folder, options.only or [], league=options.league):
            name, X, y = task.name, task.X, task.y
            auc: dict[str, list[float]] = {method: [] for method in methods}
            cpu: dict[str, list[float]] = {method: [] for method in methods}
            chosen: Counter[str] = Counter()
            for split in range(options.splits):
                rows, held = split_of(task, split)
                train, y_train, test, y_test = X[rows], y[rows], X[held], y[held]
                for method, fit in methods.items():
                    begin = time.process_time()
                    score, kind = fit(train, y_train)
                    cpu[method].append(time.process_time() - begin)
                    auc[method].append(float(roc_auc_score(y_test, score(test))))
                    if method == "auto":
                        chosen[kind] += 1
            mean = {method: float(np.mean(found)) for method, found in auc.items()}
            gap = mean["auto"] - mean[rival]
            level += gap > -0.003
            ratios.append(float(np.median(np.divide(cpu["auto"], cpu[rival]))))
            kinds = ", ".join(f"{kind} {count}" for kind, count in chosen.most_common())
            seconds = " / ".join(f"{np.mean(cpu[m]):.2f}" for m in ("auto", rival))
            print(
                f"| {name} | {X.shape[0]:,} x {X.shape[1]} | {mean['linear']:.4f} | "
                f"{mean['auto']:.4f} | {kinds} | {mean[rival]:.4f} | {gap:+.4f} | {seconds} |",
                flush=True,
            )
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps({"set": name, "auc": auc, "cpu": cpu}) + "\n")
    print(f"\nwithin .003 of {rival}, or better: {level} of {len(ratios)}")
    above = sum(ratio > 3.0 for ratio in ratios)
    print(
        f"CPU, auto / {rival}: {np.median(ratios):.1f} (median of sets), {max(ratios):.1f} at most,"
        f" above 3 on {above}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
