# SPDX-License-Identifier: BSD-3-Clause
"""AUC over Parquet files by processes of one machine: with_futures.py FOLDER MODEL."""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pandas as pd

from pairlearn.distributed import train_auc


def state_of(numbered, statistic):
    """Return the state of one file."""
    part, file = numbered
    table = pd.read_parquet(file)
    X, y = table.drop(columns="label").to_numpy(), table["label"].to_numpy()
    return statistic.of_part(part).partial_state(X, y)


if __name__ == "__main__":
    files = list(enumerate(sorted(Path(sys.argv[1]).glob("*.parquet"))))
    with ProcessPoolExecutor(max_workers=2) as pool:
        fit = train_auc(
            lambda one: one.merge_all(pool.map(partial(state_of, statistic=one), files)),
            random_state=0,
        )
    fit.model.save(sys.argv[2])
    print(f"AUC {fit.training_auc:.6f} of the training examples, {fit.n_passes} passes")
