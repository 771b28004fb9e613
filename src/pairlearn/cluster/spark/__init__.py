# SPDX-License-Identifier: BSD-3-Clause
"""Rows of Spark frames: an engine for `fit_on`, and an estimator and a model of ``pyspark.ml``.

The extra ``spark``: nothing else in the library imports it. `engine` runs statistics in the tasks
of Spark, `ml` has the thin wrappers for pipelines and cross-validation, `storage` saves them.
"""

from __future__ import annotations

from typing import Any

from pairlearn.lazy import door

_load, __dir__, __all__ = door(
    __name__,
    {"engine": "OnSpark SparkJobError", "ml": "SparkAUCClassifier SparkAUCModel"},
)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j", "pyarrow"):
            raise
        raise ImportError(
            f"pairlearn.cluster.spark needs {error.name}, which is not installed: "
            'pip install "pairlearn[spark]"'
        ) from None
