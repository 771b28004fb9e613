# SPDX-License-Identifier: BSD-3-Clause
"""AUC over Parquet files by tasks of Spark: with_spark.py FOLDER MODEL."""

import pickle
import sys

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import SparkSession

from pairlearn.distributed import train_auc

FAN_IN = 8


def main(folder, model):
    """Train on the files of a folder and write the model."""
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    frame = spark.read.parquet(folder)

    def run(statistic):
        def states(batches):
            # A task sees its partition in batches, whose states merge like those of partitions.
            part, state = statistic.of_part(TaskContext.get().partitionId()), {}
            for table in batches:
                X, y = table.drop(columns="label").to_numpy(), table["label"].to_numpy()
                state = part.merge(state, part.partial_state(X, y))
            number = TaskContext.get().partitionId()
            yield pd.DataFrame({"part": [number], "state": [pickle.dumps(state)]})

        def merged(group):
            ordered = map(pickle.loads, group.sort_values("part")["state"])
            state = pickle.dumps(statistic.merge_all(ordered))
            return pd.DataFrame({"part": [group["part"].min() // FAN_IN], "state": [state]})

        found = frame.mapInPandas(states, "part long, state binary")
        count = frame.rdd.getNumPartitions()
        while count > FAN_IN:
            groups = found.groupBy((found.part / FAN_IN).cast("long"))
            found = groups.applyInPandas(merged, "part long, state binary")
            count = -(-count // FAN_IN)
        ordered = sorted(found.collect(), key=lambda row: row.part)
        return statistic.merge_all(pickle.loads(row.state) for row in ordered)

    fit = train_auc(run, random_state=0)
    fit.model.save(model)
    print(f"AUC {fit.training_auc:.6f} of the training examples, {fit.n_passes} passes")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3])
