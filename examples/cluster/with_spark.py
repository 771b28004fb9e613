# SPDX-License-Identifier: BSD-3-Clause
"""AUC over Parquet files by tasks of Spark: with_spark.py FOLDER MODEL."""

import sys

from pyspark.sql import SparkSession

from pairlearn.cluster import SparkAUCClassifier


def main(folder, model):
    """Train on the files of a folder and write the model."""
    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    frame = spark.read.parquet(folder)
    features = [name for name in frame.columns if name != "label"]

    fitted = SparkAUCClassifier(featuresCol=features, labelCol="label").fit(frame)
    fitted.transform(frame).select("label", "probability", "prediction").show(3)
    fitted.estimator.save(model)  # an ordinary AUCClassifier
    told = fitted.summary
    print(f"AUC {told.training_auc:.6f} of the training examples, {told.n_passes} passes")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:3])
