# SPDX-License-Identifier: BSD-3-Clause
"""Estimators and models of ``pyspark.ml``: AUC over the rows of a Spark data frame.

The extra ``spark``: nothing else in the library imports it. Training runs the statistics of
`pairlearn.distributed` in the tasks of Spark, and predictions are columns of a frame. A fitted
model holds an ordinary `AUCClassifier`, which needs no Spark.
"""

from __future__ import annotations

from typing import Any

from pairlearn.lazy import door

_load, __dir__, __all__ = door(
    __name__,
    {
        "auc": "SparkAUCClassifier SparkAUCModel",
        "passes": "SparkJobError",
    },
)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j", "pyarrow"):
            raise
        raise ImportError(
            f"pairlearn.spark needs {error.name}, which is not installed: "
            'pip install "pairlearn[spark]"'
        ) from None
