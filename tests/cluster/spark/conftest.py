# SPDX-License-Identifier: BSD-3-Clause
"""A local Spark for the tests that need one: `make test-spark`."""

import os
import sys
import warnings

import numpy as np
import pytest

#: Names of the features of `table`.
COLUMNS = [f"x{k}" for k in range(4)]


@pytest.fixture(scope="session")
def spark():
    """Return a session with two threads and many small batches a partition."""
    pytest.importorskip("pyspark", reason="needs pyspark and a Java runtime: make test-spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        # Spark says that it does not know the newest pandas, which is not used here.
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "1g")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.execution.arrow.maxRecordsPerBatch", "32")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def table():
    """Return examples that are not easy: units apart, one column with ties."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 4)) * [1.0, 1e3, 1e-2, 1.0]
    X[:, 3] = X[:, 3].round()
    y = (X[:, 0] + rng.normal(size=1200) > 0.5).astype(np.int64)
    return X, y


@pytest.fixture(scope="session")
def frame(spark, table):
    """Return the table as a frame, with its features in columns, as a vector and as an array."""
    import pyarrow as pa
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql import functions as F  # noqa: N812

    X, y = table
    columns = {name: X[:, k] for k, name in enumerate(COLUMNS)}
    weight = 1.0 + np.arange(len(y)) % 3
    told = {
        **columns,
        "label": y,
        "weight": weight,
        "text": y.astype(str),
        "place": np.arange(len(y)),
    }
    flat = spark.createDataFrame(pa.table(told))
    flat = flat.withColumn("array", F.array(*COLUMNS))
    return VectorAssembler(inputCols=COLUMNS, outputCol="features").transform(flat).cache()
