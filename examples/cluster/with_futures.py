# SPDX-License-Identifier: BSD-3-Clause
"""AUC over Parquet files by processes of one machine: with_futures.py FOLDER MODEL."""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pandas as pd

from pairlearn import AUCClassifier
from pairlearn.cluster import fit_on


def state_of(file, statistic):
    """Return the state of one file."""
    table = pd.read_parquet(file)
    X, y = table.drop(columns="label").to_numpy(), table["label"].to_numpy()
    return statistic.partial_state(X, y)


if __name__ == "__main__":
    files = sorted(Path(sys.argv[1]).glob("*.parquet"))
    with ProcessPoolExecutor(max_workers=2) as pool:
        model = fit_on(
            lambda one: one.merge_all(pool.map(partial(state_of, statistic=one), files)),
            AUCClassifier(random_state=0),
        )
    model.save(sys.argv[2])
    told = model.cluster_report_
    print(f"AUC {told.training_auc:.6f} of the training examples, {told.n_passes} passes")
