# SPDX-License-Identifier: BSD-3-Clause
"""Is private tuning worth its price? ``python -m benchmarks.private_tuning [--data DIR]``.

Tuned: 80 % of the rows train k candidates, each with mu / sqrt(k), and `select_privately` takes the
one that ranks the other 20 % best, with the whole epsilon: the two parts have no row in common, so
all of it together keeps the promise of one fit. Default: all rows and the whole budget for
`PrivateAUCClassifier` as it comes. Candidates are what one might try: five, two and one round, no
belief about rare classes, all pairs, hats. "Best afterwards" is the candidate that was best on the
test rows on average, trained as the default is: what tuning could find if it were free.

Tasks are those of `benchmarks.league_table`; bounds are ranges rounded outwards, delta = 1/n,
one example replaced. Printed is the mean test AUC over splits.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.private_auc import rounded_bounds

Vector = NDArray[np.float64]


def candidates() -> dict[str, dict[str, Any]]:
    """Return the settings to choose among; the first is the default."""
    from pairlearn.privacy import CentredStatistics

    return {
        "default": {},
        "2 rounds": {"mechanism": CentredStatistics(n_rounds=2)},
        "1 round": {"mechanism": CentredStatistics(n_rounds=1)},
        "no belief": {"mechanism": CentredStatistics(rare_class_belief=False)},
        "all pairs": {"mechanism": "all_pairs"},
        "hats": {"features": "hats"},
    }


def one_split(
    X: Vector, y: Vector, n: int, epsilon: float, split: int
) -> tuple[float, float, Vector]:
    """Return the test AUC of the default, of the tuned model, and of each candidate alone."""
    from pairlearn import PrivateAUCClassifier
    from pairlearn.metrics import roc_auc
    from pairlearn.privacy import NoiseSource, epsilon_of_mu, mu_of, select_privately

    rng = np.random.default_rng([split, 11])
    order = rng.permutation(len(y))
    train, test = order[:n], order[n : n + 5000]
    bounds, delta, known = rounded_bounds(X), 1.0 / n, candidates()

    def fitted(rows: NDArray[np.int64], price: float, options: dict[str, Any]) -> Any:
        return PrivateAUCClassifier(
            price, delta, bounds=bounds, labels=(-1.0, 1.0),
            random_state=int(rng.integers(2**31)), **options,
        ).fit(X[rows], y[rows])  # fmt: skip

    alone = [
        roc_auc(y[test], fitted(train, epsilon, options).decision_function(X[test]))
        for options in known.values()
    ]
    # A little budget at this delta may be worth no epsilon at all; then so little is asked for.
    share = max(epsilon_of_mu(mu_of(epsilon, delta) / math.sqrt(len(known)), delta), 1e-3)
    cut = int(0.8 * n)
    models = [fitted(train[:cut], share, options) for options in known.values()]
    held = np.column_stack([model.decision_function(X[train[cut:]]) for model in models])
    best = select_privately(held, y[train[cut:]], epsilon=epsilon, noise=NoiseSource(seed=rng))
    tuned = roc_auc(y[test], models[best].decision_function(X[test]))
    return alone[0], tuned, np.array(alone)


def main() -> None:
    """Print the table."""
    from benchmarks.league import read_folders

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("PAIRLEARN_DATA"))
    parser.add_argument(
        "--only", default="diabetes,german.numer,magic_scale,phoneme_scale,car-good"
    )
    parser.add_argument("--rows", type=int, default=1000, help="most training rows")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--splits", type=int, default=40)
    chosen = parser.parse_args()
    if chosen.data is None:
        parser.error("name a folder of data sets: --data DIR, or PAIRLEARN_DATA.")
    warnings.simplefilter("ignore")
    folders = [Path(chosen.data), Path(chosen.data, "league")]
    print(f"{'':16s} n    epsilon  default  tuned   difference (s.e.)  best afterwards")
    for task in read_folders([folder for folder in folders if folder.is_dir()]):
        if task.name not in chosen.only.split(","):
            continue
        X, y = np.asarray(task.X, dtype=np.float64), np.where(task.y == 1, 1.0, -1.0)
        n = min(chosen.rows, int(0.7 * len(y)))
        for epsilon in chosen.epsilon:
            runs = [one_split(X, y, n, epsilon, split) for split in range(chosen.splits)]
            default, tuned = (np.array([run[k] for run in runs], dtype=float) for k in (0, 1))
            means = np.mean([run[2] for run in runs], axis=0)
            gap = tuned - default
            error = gap.std(ddof=1) / math.sqrt(len(gap))
            best = list(candidates())[int(np.argmax(means))]
            print(
                f"{task.name:16s} {n:<5d}{epsilon:<8g} {default.mean():.3f}    {tuned.mean():.3f}"
                f"   {gap.mean():+.3f} ({error:.3f})     {means.max():.3f} {best}",
                flush=True,
            )


if __name__ == "__main__":
    main()
