# SPDX-License-Identifier: BSD-3-Clause
"""Many machines: `fit_on` runs an estimator of one machine where the rows are.

An engine is ``run(statistic) -> state`` over partitioned rows: `OnDask`, `OnArrow` (DuckDB,
Polars, Arrow), `OnSpark`, or a function of your own. A statistic (`statistic.Statistic`)
makes a state of a chunk, and states merge. `fitting` begins a fit; `auc`, `multiclass` and
`ranking` know what to ask. `sql` sums moments inside a database, `spark` has an estimator of
``pyspark.ml``.
"""

from __future__ import annotations

from typing import Any

from pairlearn.lazy import door

_load, __dir__, __all__ = door(
    __name__,
    {
        "arrow": "OnArrow",
        "auc": "forget_on",
        "concordance": "ConcordanceSketch MergedConcordance",
        "dask": "OnDask WorkersLostError predict_on",
        "fitting": "fit_on score_on",
        "moments": "ColumnExtents LabelMoments LabelledMoments",
        "passes": "ClusterReport RowsChangedError",
        "queries": "QueryGradient QueryMoments QueryPairs",
        "sample": "RowSample SampledRows",
        "scores": "HistogramAUC ModelScores ScoreHistogram score_edges",
        "spark.engine": "OnSpark SparkJobError",
        "spark.ml": "SparkAUCClassifier SparkAUCModel",
        "sql": "TableMoments class_moments",
        "statistic": "Mapped RowContent Statistic Together",
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j", "pyarrow"):
            raise
        raise ImportError(
            f"{name} needs {error.name}, which is not installed: pip install 'pairlearn[spark]'"
        ) from None
