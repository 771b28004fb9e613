# SPDX-License-Identifier: BSD-3-Clause
"""AUC over Parquet files by queries to DuckDB: with_duckdb.py FOLDER MODEL."""

import sys

import duckdb

from pairlearn.sql import train_query

if __name__ == "__main__":
    database = duckdb.connect()
    database.read_parquet(f"{sys.argv[1]}/*.parquet").create_view("examples")
    fit = train_query(
        database, "SELECT * FROM examples WHERE label IS NOT NULL", target="label", random_state=0
    )
    fit.model.save(sys.argv[2])
    print(f"AUC {fit.training_auc:.6f} of the training examples, {fit.n_passes} passes")
