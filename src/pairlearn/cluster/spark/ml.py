# SPDX-License-Identifier: BSD-3-Clause
"""AUC as an estimator and a model of ``pyspark.ml``, thin wrappers of `AUCClassifier`."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.ml import Estimator, Model
from pyspark.ml.functions import array_to_vector
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasLabelCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasWeightCol,
)
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from pairlearn.cluster.auc import forget_on, solver_of
from pairlearn.cluster.columns import Columns
from pairlearn.cluster.fitting import fit_on
from pairlearn.cluster.passes import ClusterReport
from pairlearn.cluster.spark.engine import OnSpark, selected
from pairlearn.cluster.spark.storage import Stored
from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.shared.examples import see_columns
from pairlearn.models.file import dump_model, parse_model
from pairlearn.models.record import build_model
from pairlearn.register import nearest

#: What the function of a row returns, and the column that holds it on the way.
_ANSWER, _HELPER = "struct<score double, probability double, label double>", "pairlearn answer"


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


class _HasColumns(
    HasLabelCol,  # type: ignore[misc]
    HasWeightCol,  # type: ignore[misc]
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
        """Set parameters by name; None leaves one at its default."""
        for name, value in given.items():
            if not self.hasParam(name):
                known = [param.name for param in self.params]
                raise TypeError(
                    f"{type(self).__name__} has no parameter {name!r}{nearest(name, known)}"
                )
            if value is not None:
                self.set(self.getParam(name), value)
        return self

    def _engine(self, frame: Any) -> OnSpark:
        """Return the rows of a frame with their labels and weights."""
        weight = self.getWeightCol() if self.isDefined(self.weightCol) else None
        label = self.getLabelCol()
        if hasattr(frame, "columns") and frame.columns.count(label) == 1:
            kind = frame.schema[label].dataType
            if not isinstance(kind, T.NumericType | T.BooleanType):
                raise TypeError(
                    f"labelCol {label!r} is of type {kind.simpleString()}; labels must be numbers. "
                    f"Encode them first: StringIndexer(inputCol={label!r}, outputCol=...)."
                )
        return OnSpark(frame, self.getFeaturesCol(), label, weight=weight or None)


def _checked(value: Any) -> Any:
    if not isinstance(value, AUCClassifier):
        raise TypeError(f"estimator must be an AUCClassifier, got {value!r:.60}.")
    return value


class SparkAUCClassifier(Estimator, Stored, _HasColumns):  # type: ignore[misc]
    """`AUCClassifier` for the rows of a Spark frame, as a stage of pipelines.

    Every pair counts, also the pairs across partitions. Rows stay with the executors.

    Parameters
    ----------
    estimator : AUCClassifier, optional
        What to fit, see `pairlearn.cluster.fit_on`; by default ``AUCClassifier(random_state=0)``.
    featuresCol : str or list of str, default="features"
        A column of vectors (dense or sparse) or of arrays of numbers, or the names of columns of
        numbers.
    labelCol : str, default="label"
        Two numbers; the larger one is the positive label.
    weightCol : str, optional
        A pair weighs the product of the weights of its examples.
    predictionCol, rawPredictionCol, probabilityCol : str
        The columns that the model adds; "" leaves one out. The score of the positive label is the
        second entry of the raw prediction, positive where the label is predicted.
    regParam : float, optional
        The ridge in the place of that of the estimator, for grids that can be saved.
    cache : bool, default=True
        Whether the columns that are read stay with the executors between the passes, in memory or
        on disk. They are released after the fit. A frame that is kept already is not kept twice.

    See Also
    --------
    SparkAUCModel : The fitted model.

    Examples
    --------
    >>> from pairlearn.cluster import SparkAUCClassifier
    >>> auc = SparkAUCClassifier(featuresCol=["age", "income"])  # doctest: +SKIP
    >>> model = auc.fit(frame)  # doctest: +SKIP
    >>> model.transform(frame).select("prediction", "probability")  # doctest: +SKIP
    >>> model.estimator.save("model.safetensors")  # doctest: +SKIP
    """

    estimator: Any = Param(
        Params._dummy(), "estimator", "the AUCClassifier to fit", typeConverter=_checked
    )
    regParam: Any = Param(  # noqa: N815
        Params._dummy(), "regParam", "the ridge", typeConverter=TypeConverters.toFloat
    )
    cache: Any = Param(
        Params._dummy(),
        "cache",
        "whether the columns that are read stay with the executors between the passes",
        typeConverter=TypeConverters.toBoolean,
    )

    def __init__(
        self,
        estimator: AUCClassifier | None = None,
        *,
        featuresCol: str | list[str] | None = None,
        labelCol: str | None = None,
        weightCol: str | None = None,
        predictionCol: str | None = None,
        rawPredictionCol: str | None = None,
        probabilityCol: str | None = None,
        regParam: float | None = None,
        cache: bool | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if self.hasParam(name)}
        super().__init__()
        self._set_column_defaults()
        # A default would be saved as JSON, which knows no objects.
        self._setDefault(cache=True)
        self.setParams(**given)

    def _fit(self, dataset: Any) -> SparkAUCModel:
        estimator = AUCClassifier(random_state=0)
        if self.isDefined(self.estimator):
            estimator = self.getOrDefault(self.estimator)
        if self.isDefined(self.regParam):
            solver = solver_of(estimator).with_params(ridge=self.getOrDefault(self.regParam))
            estimator = copy.copy(estimator).set_params(solver=solver)
        engine = self._engine(dataset)
        with (
            _cached(engine.frame, self.getOrDefault(self.cache), dataset),
            _job_names(dataset) as tell,
        ):
            fitted = fit_on(engine, estimator, progress=tell)
        model: SparkAUCModel = self._copyValues(SparkAUCModel(fitted, fitted.cluster_report_))
        return model

    def _plain(self, name: str, value: Any) -> Any:
        if name != "estimator":
            return super()._plain(name, value)
        own, default = value.get_params(deep=False), AUCClassifier().get_params(deep=False)
        changed = {k: v for k, v in own.items() if v is not default[k] and v != default[k]}
        return {k: super(SparkAUCClassifier, self)._plain(k, v) for k, v in changed.items()}

    def _value(self, name: str, plain: Any) -> Any:
        if name != "estimator":
            return super()._value(name, plain)
        values = {k: super(SparkAUCClassifier, self)._value(k, v) for k, v in plain.items()}
        return AUCClassifier(**values)


@contextlib.contextmanager
def _cached(frame: Any, cache: bool, *others: Any) -> Iterator[None]:
    """Keep a frame with the executors, unless it or another one is kept already."""
    levels = [one.storageLevel for one in (frame, *others)] if cache else []
    keep = cache and not any(one.useMemory or one.useDisk or one.useOffHeap for one in levels)
    if keep:
        frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield
    finally:
        if keep:
            # A session that is gone keeps nothing, and its own error says more.
            with contextlib.suppress(Exception):
                frame.unpersist()


@contextlib.contextmanager
def _job_names(frame: Any) -> Iterator[Any]:
    """Give a function that names each pass in Spark's list of jobs, where there is one."""
    # Spark Connect has no context.
    context = getattr(frame.sparkSession, "_sc", None)
    if context is None:
        yield None
        return
    before = context.getLocalProperty("spark.job.description")
    try:
        yield lambda number, purpose: context.setJobDescription(f"pass {number}: {purpose}")
    finally:
        with contextlib.suppress(Exception):
            context.setJobDescription(before)


class SparkAUCModel(Model, Stored, _HasColumns):  # type: ignore[misc]
    """A fitted `SparkAUCClassifier`.

    Parameters
    ----------
    estimator : AUCClassifier
        The fitted classifier.
    summary : ClusterReport
        Passes, and the training AUC with a certified half-width.

    See Also
    --------
    SparkAUCClassifier : Trains it.

    Examples
    --------
    >>> from pairlearn.cluster import SparkAUCModel
    >>> model = SparkAUCModel.load("folder")  # doctest: +SKIP
    >>> model.summary.training_auc, model.estimator.coef_  # doctest: +SKIP
    """

    _holds = "AUCClassifier"

    def __init__(self, estimator: AUCClassifier, summary: ClusterReport) -> None:
        super().__init__()
        self._set_column_defaults()
        self._fitted, self.summary = estimator, summary

    @property
    def estimator(self) -> AUCClassifier:
        """The fitted classifier, an ordinary one: save it, export it, use it without Spark."""
        fitted: AUCClassifier = self._fitted
        return fitted

    @property
    def coefficients(self) -> Any:
        """The coefficients as a vector of Spark, in the units of the features."""
        from pyspark.ml.linalg import DenseVector

        return DenseVector(np.asarray(self.estimator.coef_)[0])

    @property
    def numFeatures(self) -> int:  # noqa: N802
        """The number of features."""
        return int(self.estimator.n_features_in_)

    @property
    def numClasses(self) -> int:  # noqa: N802
        """The number of classes, two."""
        return len(self.estimator.classes_)

    def partialUnfit(self, dataset: Any) -> SparkAUCModel:  # noqa: N802
        """Return the model without the rows of a frame, which it has learned.

        The fit has to keep its state: ``solver=Moments(keep_state=True)``. See
        `AUCClassifier.partial_unfit`; `summary` still tells about the fit.
        """
        left = forget_on(self._engine(dataset), copy.deepcopy(self.estimator))
        model: SparkAUCModel = self._copyValues(SparkAUCModel(left, self.summary))
        return model

    def _transform(self, dataset: Any) -> Any:
        features = self.getFeaturesCol()
        names = [features] if isinstance(features, str) else features
        if not isinstance(features, str) and len(names) != self.numFeatures:
            raise ValueError(
                f"featuresCol names {len(names)} columns, the model has {self.numFeatures} "
                "features."
            )
        _, schema = selected(dataset, names)
        columns = Columns.of(schema, features=features)
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
        # Columns come by their place, so there are no names to compare.
        nameless = copy.copy(self.estimator)
        see_columns(nameless, None)
        data = dump_model(nameless.to_record())

        # Spark reads from the types of the arguments what the function takes.
        def answers(*arrays: pa.Array) -> pa.Array:
            return _answers(_model_of(data), columns, list(arrays))

        read = [F.col("`" + name.replace("`", "``") + "`") for name in names]
        answered = dataset.withColumn(_HELPER, F.arrow_udf(answers, _ANSWER)(*read))
        return answered.withColumns(made).drop(_HELPER)

    def _metadata(self) -> dict[str, Any]:
        return {"summary": asdict(self.summary)}

    @classmethod
    def _restored(cls, fitted: Any, metadata: Mapping[str, Any]) -> Self:
        return cls(fitted, ClusterReport(**metadata["summary"]))


@lru_cache(maxsize=4)
def _model_of(data: bytes) -> Any:
    """Return the model of a file, once in each process of an executor."""
    record = parse_model(data)
    return build_model(record)


def _answers(model: Any, columns: Columns, arrays: list[Any]) -> Any:
    """Return score, probability and label of rows, as an Arrow array of structs."""
    answers = [np.empty(0)] * 3
    if len(arrays[0]):
        X = columns.rows(arrays)
        answers = [model.decision_function(X), model.predict_proba(X)[:, 1], model.predict(X)]
    numbers = [pa.array(np.asarray(one, dtype=np.float64)) for one in answers]
    return pa.StructArray.from_arrays(numbers, ["score", "probability", "label"])
