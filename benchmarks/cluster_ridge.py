# SPDX-License-Identifier: BSD-3-Clause
"""How a ridge is best chosen where nobody holds all rows, on the large sets of the league.

Each way sees the moments of all training rows, which a cluster has anyhow, and at most a sample of
2,500 rows of each class. Printed is the test AUC of the ridge that it takes, minus that of the
ridge with the best AUC on a fold of all rows, in units of 1e-4: means over splits.

Run with ``python -m benchmarks.cluster_ridge DIR [features ...]``, with DIR as in `league`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.league_table import Task, read_folders
from pairlearn import AUCClassifier, Moments
from pairlearn.estimators.shared.judged_maps import JudgedMap, deal_held_out
from pairlearn.estimators.shared.maps import as_map, fit_map
from pairlearn.features import Identity
from pairlearn.folds import Keys
from pairlearn.metrics import roc_auc
from pairlearn.solvers.closed_form.mapped_moments import MappedMoments, extents_of, ridges_for
from pairlearn.solvers.rows import DenseRows
from pairlearn.solvers.streams.sample import SIZE, drawn_from
from pairlearn.typing import Vector

SPLITS, HELD_OUT, SHARE = 4, 0.3, 0.2
#: Smaller sets are in the sample as a whole.
LEAST = 5_000
WAYS = ("all but a fold of the sample", "the sample alone", "normal scores", "square loss")


def main(folder: str, names: list[str]) -> None:
    """Print a line for each data set and kind of features, then the means."""
    print("set, features, rows: " + ", ".join(WAYS))
    gaps: dict[str, list[Vector]] = {name: [] for name in names}
    for task in read_folders([Path(folder)]):
        if len(task.y) < LEAST or np.bincount(task.y).max() * (1.0 - HELD_OUT) <= SIZE:
            continue
        for name in names:
            found = np.mean(list(_splits(task, name)), axis=0)
            gaps[name].append(found)
            print(f"{task.name}, {name}, {len(task.y)}: {_shown(found)}", flush=True)
    for name, own in gaps.items():
        print(f"mean of {len(own)}, {name}: {_shown(np.mean(own, axis=0))}")
        print(f"worst of {len(own)}, {name}: {_shown(np.min(own, axis=0))}")


def _shown(gaps: Vector) -> str:
    return ", ".join(f"{1e4 * gap:+.1f}" for gap in gaps)


def _splits(task: Task, name: str) -> Iterator[Vector]:
    """Yield what each way loses on a split."""
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(task.y))
        cut = int((1.0 - HELD_OUT) * len(order))
        train, test = order[:cut], order[cut:]
        X, y = np.asarray(task.X[train], dtype=np.float64), np.where(task.y[train] > 0, 1.0, -1.0)
        rows, keys = DenseRows(X), Keys.of(X, seed=np.random.default_rng(seed))
        features: Any = Identity.of(X.shape[1])
        if name != "linear":
            features = fit_map(as_map(name, rows, y), rows, np.random.default_rng(seed), keys)
        ridges = ridges_for(features)
        everything = MappedMoments(features, extents_of(features, rows)).add(rows, y)
        held = features.transform(task.X[test])
        problem = everything.problem()
        worth = [roc_auc(task.y[test], held @ problem.solve(ridge)) for ridge in ridges]
        fold, n_held = deal_held_out(y, np.empty(0), SHARE, keys)
        best = JudgedMap(features, rows, y, np.empty(0), fold, n_held)
        named = "linear" if name == "linear" else features
        model = AUCClassifier(features=named, solver=Moments(), random_state=seed)
        ours = ridges.index(float(model.fit(X, task.y[train]).ridge_))
        sample = drawn_from(rows, y, np.empty(0), keys.seed)
        own, n_held = deal_held_out(sample.y, sample.weight, SHARE, sample.keys)
        alone = JudgedMap(features, DenseRows(sample.X), sample.y, sample.weight, own, n_held)
        normal, square = _by_moments(everything, rows, y, fold == 0, ridges)
        yield np.array(
            [worth[one] - worth[best.best] for one in (ours, alone.best, normal, square)]
        )


def _by_moments(
    everything: MappedMoments, rows: DenseRows, y: Vector, held: Any, ridges: tuple[float, ...]
) -> tuple[int, int]:
    """Return the best ridges by the held-out moments alone: AUC of normal scores, square loss."""
    gone = everything.alike().add(rows.X[held], y[held])
    problem, own = everything.without(gone).problem(), gone.moments.values
    normal, square = [], []
    for ridge in ridges:
        w = problem.solve(ridge)
        gap, spread = float(w @ own.difference), float(w @ own.covariance @ w)
        normal.append(gap / np.sqrt(spread))
        square.append(-((1.0 - gap) ** 2) - spread)
    return int(np.argmax(normal)), int(np.argmax(square))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster_ridge")
    parser.add_argument("folder", metavar="DIR", help="a folder of data sets, as in `league`")
    parser.add_argument("features", nargs="*", default=["linear", "hats"], help="kinds of features")
    options = parser.parse_args()
    main(options.folder, options.features)
