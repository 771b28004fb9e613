# SPDX-License-Identifier: BSD-3-Clause
"""Private AUC maximisation as an estimator of ``pyspark.ml``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from pyspark.ml import Estimator
from pyspark.ml.param import Param, Params
from sklearn.base import clone

from pairlearn.distributed.private_auc import train_private_auc
from pairlearn.estimators.private.auc import PrivateAUCClassifier
from pairlearn.models.parts import encode
from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.spark.frames import Selected, selected
from pairlearn.spark.model import SparkClassifierModel
from pairlearn.spark.params import HasPasses, checked, to_columns
from pairlearn.spark.passes import passes_over
from pairlearn.spark.storage import Stored


def _check_private(value: Any) -> None:
    if type(value) is not PrivateAUCClassifier:
        raise TypeError(f"estimator must be a PrivateAUCClassifier, got {type(value).__name__}.")


class SparkPrivateAUCClassifier(Estimator, Stored, HasPasses):  # type: ignore[misc]
    """AUC maximisation over the rows of a Spark frame, with differential privacy.

    Six to eight passes: the form of the table, and sums of whole numbers that do not depend on the
    partitioning. A row that is missing, or holds no numbers, raises no error and changes no other.

    Parameters
    ----------
    estimator : PrivateAUCClassifier
        Epsilon, bounds, labels and whatever else is public, see there; it is not changed. The
        mechanism must be "statistics" and the bounds public.
    trust : {"aggregator", "none"}, default="aggregator"
        Who may see sums without noise: driver and executors, or nobody but the task that holds a
        partition. With "none" every partition adds its own noise, which makes sqrt(P) times as much
        for P partitions: let partitions be few and large. A driver could still send other tasks:
        it is trusted to run this program.
    keyFile : path-like, optional
        With trust="none" the name of a file of at least 32 secret random bytes that executors read
        and nobody else does; see `train_private_auc`.
    reach : int or "all", optional
        With trust="none", and for persons: in how many partitions one example (one person) can make
        a difference; see `train_private_auc`. ``frame.repartition(P, "hospital")`` places a row by
        the hash of its hospital alone, which is reach=1 for rows and for persons of one hospital,
        replaced by others of the same.
        Spark packs files into partitions by their sizes, and ``repartition(P)`` deals rows out one
        after the other: one row more moves others, which is not reach=1.
    groupsCol : str or list of str, optional
        The columns that say whose row it is: the promise is then about a person with all rows, who
        counts as their mean. With trust="aggregator" a person with rows in several partitions
        counts with those of the first; ``frame.repartition(P, "patient")`` brings them together.
    featuresCol, labelCol, predictionCol, rawPredictionCol, probabilityCol, cache
        As of `SparkAUCClassifier`. A column of vectors needs a public number of features: bounds
        for each feature, or a column made by VectorAssembler. A label other than the positive one
        counts as negative.

    See Also
    --------
    SparkPrivateAUCModel : The fitted model, with its certificate.

    Notes
    -----
    All rows of a partition are in the memory of its task at once. With trust="none" a task may run
    again and says the same, so a frame has to hold the same rows in the same partitions in all
    passes: read it from files, or ``checkpoint()`` it.

    Examples
    --------
    >>> from pairlearn import PrivateAUCClassifier
    >>> from pairlearn.spark import SparkPrivateAUCClassifier
    >>> private = PrivateAUCClassifier(epsilon=1.0, bounds=(-4, 6), labels=(0, 1))
    >>> auc = SparkPrivateAUCClassifier(private, featuresCol=["a", "b"])  # doctest: +SKIP
    >>> auc.fit(frame).certificate  # doctest: +SKIP
    """

    estimator: Any = Param(
        Params._dummy(),
        "estimator",
        "the PrivateAUCClassifier: epsilon, bounds, labels and all that is public",
        typeConverter=checked(_check_private),
    )
    trust: Any = Param(
        Params._dummy(), "trust", 'who may see sums without noise: "aggregator" or "none"'
    )
    keyFile: Any = Param(  # noqa: N815
        Params._dummy(),
        "keyFile",
        'with trust="none", the file of secret bytes that executors read',
        typeConverter=os.fspath,
    )
    reach: Any = Param(
        Params._dummy(),
        "reach",
        'in how many partitions one example or person can make a difference: a number or "all"',
    )
    groupsCol: Any = Param(  # noqa: N815
        Params._dummy(),
        "groupsCol",
        "the column, or the list of columns, that says whose row it is",
        typeConverter=to_columns,
    )

    def __init__(
        self,
        estimator: PrivateAUCClassifier | None = None,
        *,
        featuresCol: str | list[str] = "features",
        labelCol: str = "label",
        predictionCol: str = "prediction",
        rawPredictionCol: str = "rawPrediction",
        probabilityCol: str = "probability",
        trust: str = "aggregator",
        keyFile: str | os.PathLike[str] | None = None,
        reach: int | str | None = None,
        groupsCol: str | list[str] | None = None,
        cache: bool = True,
    ) -> None:
        given = {name: value for name, value in locals().items() if self.hasParam(name)}
        super().__init__()
        self._set_column_defaults()
        self._setDefault(trust="aggregator", cache=True)
        self._set_given(given)

    def _fit(self, dataset: Any) -> SparkPrivateAUCModel:
        if not self.isDefined(self.estimator):
            raise ValueError("estimator is missing; give a PrivateAUCClassifier.")
        private = clone(self.getOrDefault(self.estimator))
        given = self._given("groupsCol")
        groups = [given] if isinstance(given, str) else given or []
        found = selected(
            dataset, self.getFeaturesCol(), self.getLabelCol(), groups=groups, private=True
        )
        found = _of_public_width(found, private)
        with passes_over(dataset, found, cache=self.getCache()) as (run, progress):
            train_private_auc(
                run,
                private,
                trust=self.getOrDefault(self.trust),
                key_file=self._given("keyFile"),
                reach=self._given("reach"),
                unit="person" if groups else "example",
                feature_names=found.feature_names,
                progress=progress,
            )
        model: SparkPrivateAUCModel = self._copyValues(SparkPrivateAUCModel(private))
        return model

    def _given(self, name: str) -> Any:
        """Return a parameter, None if it was not given."""
        param = self.getParam(name)
        return self.getOrDefault(param) if self.isDefined(param) else None

    def _plain(self, name: str, value: Any) -> Any:
        if name != "estimator":
            return super()._plain(name, value)
        given = {k: v for k, v in value.get_params(deep=False).items() if v is not None}
        return encode(given, name)

    def _value(self, name: str, plain: Any) -> Any:
        found = super()._value(name, plain)
        return PrivateAUCClassifier(**found) if name == "estimator" else found


def _of_public_width(found: Selected, private: PrivateAUCClassifier) -> Selected:
    """Return the columns with the number of features, which must be public."""
    if found.layout.kind == "columns":
        return found
    width = private.public_width() or found.layout.width
    if width is None:
        raise ValueError(
            "the number of features of a private column of vectors must be public: give bounds for "
            "each feature, make the column by VectorAssembler, or list columns in featuresCol."
        )
    return replace(found, layout=replace(found.layout, width=width))


class SparkPrivateAUCModel(SparkClassifierModel):
    """A fitted `SparkPrivateAUCClassifier`, with the certificate of what is promised.

    Parameters
    ----------
    estimator : PrivateAUCClassifier
        The fitted classifier.

    See Also
    --------
    SparkPrivateAUCClassifier : Trains it.

    Examples
    --------
    >>> from pairlearn.spark import SparkPrivateAUCModel
    >>> model = SparkPrivateAUCModel.load("folder")  # doctest: +SKIP
    >>> model.certificate.public["trust"]  # doctest: +SKIP
    """

    _holds = "PrivateAUCClassifier"

    @property
    def certificate(self) -> Certificate:
        """What is promised, and who was trusted."""
        found: Certificate = self.estimator.certificate_
        return found

    def _told(self) -> dict[str, Any]:
        # For readers of the folder; the model file holds it too, and is what is loaded.
        return {"certificate": self.certificate.to_dict()}

    @classmethod
    def _restored(cls, fitted: Any, metadata: Mapping[str, Any]) -> Self:
        return cls(fitted)
