# SPDX-License-Identifier: BSD-3-Clause
"""AUC over Parquet files by queries to DuckDB: with_duckdb.py FOLDER MODEL."""

import sys

import duckdb

from pairlearn import AUCClassifier
from pairlearn.cluster import OnArrow, fit_on

if __name__ == "__main__":
    database = duckdb.connect()
    database.read_parquet(f"{sys.argv[1]}/*.parquet").create_view("examples")
    rows = OnArrow(database, "SELECT * FROM examples WHERE label IS NOT NULL", target="label")
    model = fit_on(rows, AUCClassifier(random_state=0))
    model.save(sys.argv[2])
    told = model.cluster_report_
    print(f"AUC {told.training_auc:.6f} of the training examples, {told.n_passes} passes")
