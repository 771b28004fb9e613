# SPDX-License-Identifier: BSD-3-Clause
"""Predictions of a fitted classifier as columns of a Spark frame.

The model travels to the executors once, as a broadcast. A vectorised function of Arrow arrays
returns score, probability and label of each row, from which Spark makes the columns.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector
from pyspark.sql import functions as F  # noqa: N812

from pairlearn.estimators.shared.features_seen import see_columns
from pairlearn.spark.batches import Layout
from pairlearn.spark.frames import check_frame, features_of
from pairlearn.spark.params import HasColumns
from pairlearn.spark.storage import Stored

#: What the function of a row returns.
_ANSWER = "struct<score double, probability double, label double>"
#: The column that holds it on the way.
_HELPER = "pairlearn answer"


class SparkClassifierModel(Model, Stored, HasColumns):  # type: ignore[misc]
    """Base class of fitted models: `transform`, `save`, `load`, and the estimator inside."""

    _is_model = True

    def __init__(self, estimator: Any) -> None:
        super().__init__()
        self._set_column_defaults()
        self._fitted = estimator
        self._sent: tuple[Any, Any] | None = None

    @property
    def estimator(self) -> Any:
        """The fitted classifier, an ordinary one: save it, export it, use it without Spark."""
        return self._fitted

    @property
    def coefficients(self) -> Any:
        """The coefficients as a vector of Spark, in the units of the features."""
        from pyspark.ml.linalg import DenseVector

        return DenseVector(np.asarray(self._fitted.coef_)[0])

    @property
    def numFeatures(self) -> int:  # noqa: N802
        """The number of features."""
        return int(self._fitted.n_features_in_)

    @property
    def numClasses(self) -> int:  # noqa: N802
        """The number of classes, two."""
        return len(self._fitted.classes_)

    def _transform(self, dataset: Any) -> Any:
        check_frame(dataset)
        columns, layout, _ = features_of(dataset, self.getFeaturesCol())
        if layout.kind == "columns" and layout.n_features != self.numFeatures:
            raise ValueError(
                f"featuresCol names {layout.n_features} columns, the model has "
                f"{self.numFeatures} features."
            )
        answer = F.col(f"`{_HELPER}`")
        score, positive = answer["score"], answer["probability"]
        made = {
            self.getRawPredictionCol(): array_to_vector(F.array(-score, score)),
            self.getProbabilityCol(): array_to_vector(F.array(1.0 - positive, positive)),
            self.getPredictionCol(): answer["label"],
        }
        made.pop("", None)
        there = [name for name in made if name in dataset.columns]
        if there:
            raise ValueError(
                f"The frame has a column {there[0]!r} already; drop it, or give the model another "
                "name for its own (setPredictionCol, setRawPredictionCol, setProbabilityCol)."
            )
        answered = dataset.withColumn(_HELPER, self._function(dataset, layout)(*columns))
        return answered.withColumns(made).drop(_HELPER)

    def _function(self, dataset: Any, layout: Layout) -> Any:
        """Return the function of columns that answers for their rows."""
        sent = self._broadcast(dataset.sparkSession.sparkContext)

        # Spark reads from the types of the arguments what the function takes.
        def answers(*columns: pa.Array) -> pa.Array:
            return _answers(sent.value, layout, list(columns))

        return F.arrow_udf(answers, _ANSWER)

    def _broadcast(self, context: Any) -> Any:
        """Return the model as a broadcast, made once for each context."""
        if self._sent is None or self._sent[0] is not context:
            nameless = copy.copy(self._fitted)
            # Columns come by their place, so there are no names to compare.
            see_columns(nameless, None)
            self._sent = context, context.broadcast(nameless)
        return self._sent[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_sent": None}


def _answers(model: Any, layout: Layout, columns: list[Any]) -> Any:
    """Return score, probability and label of rows, as an Arrow array of structs."""
    if len(columns[0]):
        X = layout.rows(columns)
        found = (
            model.decision_function(X),
            model.predict_proba(X)[:, 1],
            np.asarray(model.predict(X)).astype(np.float64),
        )
    else:
        found = (np.empty(0), np.empty(0), np.empty(0))
    arrays = [pa.array(np.asarray(one, dtype=np.float64)) for one in found]
    return pa.StructArray.from_arrays(arrays, ["score", "probability", "label"])
