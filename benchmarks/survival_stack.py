# SPDX-License-Identifier: BSD-3-Clause
"""Curves, boosted trees and a stack of them on real survival data, beside the linear ranker.

``python -m benchmarks.survival_stack [--splits N] [--sets NAME,...]``, in the environment of
``make bench-survival``, with its data and its splits. Printed are the concordance index of each
member and of the stack on the other 30 %, and the mean difference of stack and linear ranker with
its standard error over the splits.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from benchmarks.survival import load, prepared, split

SETS = ("gbsg2", "whas500", "lung", "rossi", "veterans_lung_cancer")


class HazardTrees(BaseEstimator):
    r"""Boosted trees for the log hazard f of an example, given the cumulative hazard of all.

    With H Nelson and Aalen's estimate, the likelihood of proportional hazards is that of a Poisson
    number of events with mean :math:`H(t_i) e^{f(x_i)}` (LeBlanc and Crowley, Relative risk trees
    for censored survival data, Biometrics 48, 1992): targets event / H(t) with weights H(t).
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train on events and times, two columns."""
        from sklearn.ensemble import HistGradientBoostingRegressor

        event, time = np.asarray(y, dtype=float).T
        order = np.lexsort((-event, time))
        hazard = np.empty(len(time))
        hazard[order] = np.cumsum(event[order] / np.arange(len(time), 0, -1))
        some = hazard > 0.0  # whoever leaves before the first event says nothing
        trees = HistGradientBoostingRegressor(
            loss="poisson", learning_rate=0.05, max_leaf_nodes=4, random_state=0
        )
        self.trees_ = trees.fit(
            X[some], event[some] / hazard[some], sample_weight=hazard[some]
        )  # fmt: skip
        return self

    def predict(self, X: Any) -> Any:
        """Return log hazards."""
        return np.log(self.trees_.predict(X))


def members(seed: int) -> dict[str, Any]:
    """Return the members of the stack by name."""
    from pairlearn import SurvivalRanker

    return {
        "linear": SurvivalRanker(random_state=seed),
        "curves": SurvivalRanker(features="hats", random_state=seed),
        "trees": HazardTrees(),
    }


def risks(A: Any, y: Any, B: Any, seed: int) -> dict[str, Any]:
    """Return the risks of the rows of B by each member and by the stack, trained on A.

    The stack is a ranker of held-out risks of the members.
    """
    from sklearn.model_selection import KFold, cross_val_predict

    from pairlearn import SurvivalRanker

    folds = KFold(5, shuffle=True, random_state=seed)
    models = members(seed)
    held = np.column_stack([cross_val_predict(one, A, y, cv=folds) for one in models.values()])
    found = {name: one.fit(A, y).predict(B) for name, one in models.items()}
    weights = SurvivalRanker(random_state=seed).fit(held, y)
    return {**found, "stack": weights.predict(np.column_stack(list(found.values())))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    from pairlearn import ConcordanceIndex

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.survival_stack", description=__doc__
    )
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sets", default=",".join(SETS))
    given = parser.parse_args(arguments)
    print("| set | linear | curves | trees | stack | stack - linear |")
    print("| --- " * 6 + "|")
    for name in given.sets.split(","):
        X, labels = load(name)
        y = np.column_stack((labels["event"], labels["time"]))
        rows = []
        for seed in range(given.splits):
            train, test = split(labels, seed)
            A, B = prepared(X, train, test)
            found = risks(A, y[train], B, seed)
            rows.append([ConcordanceIndex()(y[test], risk) for risk in found.values()])
        table = np.array(rows)
        gap = table[:, -1] - table[:, 0]
        error = float(gap.std(ddof=1)) / np.sqrt(len(gap)) if len(gap) > 1 else float("nan")
        cells = " | ".join(f"{mean:.4f}" for mean in table.mean(axis=0))
        print(f"| {name} | {cells} | {gap.mean():+.4f} ({error:.4f}) |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
