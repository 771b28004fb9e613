# SPDX-License-Identifier: BSD-3-Clause
"""AUC over Parquet files by tasks of Ray: with_ray.py FOLDER MODEL."""

import sys
from pathlib import Path

import pandas as pd
import ray

from pairlearn import AUCClassifier
from pairlearn.cluster import fit_on


@ray.remote(max_retries=3)
def state_of(file, statistic):
    """Return the state of one file."""
    table = pd.read_parquet(file)
    X, y = table.drop(columns="label").to_numpy(), table["label"].to_numpy()
    return statistic.partial_state(X, y)


@ray.remote(max_retries=3)
def merged(statistic, *states):
    """Return the state of some files."""
    return statistic.merge_all(states)


def run(statistic):
    """Return the state of all files: a tree of eight branches, whoever answers first."""
    states = [state_of.remote(file, statistic) for file in files]
    while len(states) > 1:
        states = [merged.remote(statistic, *states[k : k + 8]) for k in range(0, len(states), 8)]
    return ray.get(states[0])


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    files = sorted(Path(sys.argv[1]).glob("*.parquet"))
    model = fit_on(run, AUCClassifier(random_state=0))
    model.save(sys.argv[2])
    told = model.cluster_report_
    print(f"AUC {told.training_auc:.6f} of the training examples, {told.n_passes} passes")
    ray.shutdown()
