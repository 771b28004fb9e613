# SPDX-License-Identifier: BSD-3-Clause
"""Passes over a frame of a real local Spark, against the same statistics in memory."""

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark and a Java runtime: make test-spark")

from pairlearn.distributed import (
    ColumnExtents,
    FeatureScales,
    LabelMoments,
    RowSample,
    Together,
)
from pairlearn.solvers.closed_form.grid import Grid
from pairlearn.spark.frames import selected
from pairlearn.spark.passes import SparkEngine, cause_of

#: Those of the fixture `frame`.
COLUMNS = ["x0", "x1", "x2", "x3"]

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:pyspark")


@pytest.mark.slow
def test_chunks_of_a_partition_merge_like_partitions(frame, table):
    X, y = table
    extents = ColumnExtents().finish(ColumnExtents().partial_state(X, y))
    asked = {"sample": RowSample(50), "scales": FeatureScales()}
    statistic = Together({**asked, "moments": LabelMoments(grid=Grid.of(extents))})
    found = selected(frame.repartition(11), COLUMNS, "label")
    engine = SparkEngine(found, at_once=20)
    known = statistic.finish(statistic.partial_state(X, y))
    for _ in range(2):  # the second pass knows how many partitions there are
        ours = statistic.finish(engine.run(statistic))
        np.testing.assert_array_equal(ours["sample"].X, known["sample"].X)
        assert ours["sample"].fingerprint == known["sample"].fingerprint
        assert ours["moments"].means.tobytes() == known["moments"].means.tobytes()
        assert ours["moments"].scatters.tobytes() == known["moments"].scatters.tobytes()
        np.testing.assert_array_equal(ours["scales"].bounds, known["scales"].bounds)


@pytest.mark.slow
def test_wide_sparse_vectors_stay_sparse(spark):
    import scipy.sparse
    from pyspark.ml.linalg import SparseVector

    rng = np.random.default_rng(0)
    X = scipy.sparse.random(60, 1200, density=0.01, format="csr", random_state=rng)
    y = np.arange(60) % 2
    rows = [
        (SparseVector(1200, X[k].indices.tolist(), X[k].data.tolist()), int(y[k]))
        for k in range(60)
    ]
    wide = spark.createDataFrame(rows, ["features", "label"]).repartition(3)
    statistic = Together({"sample": RowSample(), "scales": FeatureScales()})
    ours = statistic.finish(SparkEngine(selected(wide, "features", "label")).run(statistic))
    known = statistic.finish(statistic.partial_state(X, y))
    assert ours["scales"].sparse
    np.testing.assert_array_equal(ours["scales"].bounds, known["scales"].bounds)
    assert ours["sample"].fingerprint == known["sample"].fingerprint
    np.testing.assert_array_equal(ours["sample"].X, known["sample"].X)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no reason is known."),
        ("Job aborted: lost task\n\tat java.lang\n\tat java.lang\n", "Job aborted: lost task."),
        ("Traceback\n  File x\nKeyError: 1\n\nJVM stacktrace:\norg.apache", "KeyError: 1."),
    ],
)
def test_the_cause_of_a_failed_job_is_one_line(text, told):
    assert cause_of(text) == told
