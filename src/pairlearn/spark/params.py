# SPDX-License-Identifier: BSD-3-Clause
"""Parameters that the estimators and models of this room share.

A parameter of ``pyspark.ml`` may hold an object here, a loss or a solver with its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasLabelCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
)

from pairlearn.register import nearest


def to_columns(value: Any) -> Any:
    """Return the name of a column, or a list of names.

    >>> to_columns("features"), to_columns(("age", "income"))
    ('features', ['age', 'income'])
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return list(value)
    raise TypeError(f"give the name of a column or a list of names, got {value!r}.")


def checked(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a converter that keeps a value as it is after a check."""

    def convert(value: Any) -> Any:
        check(value)
        return value

    return convert


class HasColumns(
    HasLabelCol,  # type: ignore[misc]
    HasPredictionCol,  # type: ignore[misc]
    HasRawPredictionCol,  # type: ignore[misc]
    HasProbabilityCol,  # type: ignore[misc]
):
    """The columns that a classifier reads and writes."""

    featuresCol: Any = Param(  # noqa: N815 -- the name of Spark
        Params._dummy(),
        "featuresCol",
        "the column of vectors or of arrays of numbers, or a list of names of columns of numbers",
        typeConverter=to_columns,
    )

    def _set_column_defaults(self) -> None:
        self._setDefault(
            featuresCol="features",
            labelCol="label",
            predictionCol="prediction",
            rawPredictionCol="rawPrediction",
            probabilityCol="probability",
        )

    def getFeaturesCol(self) -> Any:  # noqa: N802
        """Return the column of features, or the list of columns."""
        return self.getOrDefault(self.featuresCol)

    def setFeaturesCol(self, value: Any) -> Self:  # noqa: N802
        """Set the column of features, or the list of columns."""
        return self.setParams(featuresCol=value)

    def setLabelCol(self, value: str) -> Self:  # noqa: N802
        """Set the column of labels."""
        return self.setParams(labelCol=value)

    def setPredictionCol(self, value: str) -> Self:  # noqa: N802
        """Set the column of predicted labels; "" leaves it out."""
        return self.setParams(predictionCol=value)

    def setRawPredictionCol(self, value: str) -> Self:  # noqa: N802
        """Set the column of scores; "" leaves it out."""
        return self.setParams(rawPredictionCol=value)

    def setProbabilityCol(self, value: str) -> Self:  # noqa: N802
        """Set the column of probabilities; "" leaves it out."""
        return self.setParams(probabilityCol=value)

    def setParams(self, **given: Any) -> Self:  # noqa: N802
        """Set parameters by name."""
        for name, value in given.items():
            if not self.hasParam(name):
                known = [param.name for param in self.params]
                raise TypeError(
                    f"{type(self).__name__} has no parameter {name!r}{nearest(name, known)}"
                )
            self.set(self.getParam(name), value)
        return self

    def _set_given(self, given: Mapping[str, Any]) -> None:
        """Set what a constructor was given and is not the default."""
        changed = {}
        for name, value in given.items():
            param = self.getParam(name)
            default = self.getOrDefault(param) if self.hasDefault(param) else None
            if type(value) is not type(default) or value != default:
                changed[name] = value
        self.setParams(**changed)


class HasPasses(HasColumns):
    """The parameters of an estimator that trains by passes over a frame."""

    cache: Any = Param(
        Params._dummy(),
        "cache",
        "whether the columns that are read stay with the executors between the passes",
        typeConverter=TypeConverters.toBoolean,
    )

    def getCache(self) -> bool:  # noqa: N802
        """Return whether columns are kept between passes."""
        return bool(self.getOrDefault(self.cache))
