# SPDX-License-Identifier: BSD-3-Clause
"""AUC maximisation as an estimator of ``pyspark.ml``."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

from pyspark.ml import Estimator
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasSeed, HasWeightCol

from pairlearn.distributed.auc import DistributedFit, train_auc
from pairlearn.distributed.forgetting import forget_auc
from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.shared.maps import check_named
from pairlearn.estimators.shared.rules import DecisionRule
from pairlearn.estimators.shared.solvers import SOLVERS, Solver
from pairlearn.features import FeatureMap
from pairlearn.losses import LOSSES, PairLoss
from pairlearn.spark.frames import Selected, selected
from pairlearn.spark.model import SparkClassifierModel
from pairlearn.spark.params import HasPasses, checked
from pairlearn.spark.passes import passes_over
from pairlearn.spark.storage import Stored

#: Parameters of `train_auc` by the names of Spark.
_OF_TRAINING = {
    "features": "features",
    "loss": "loss",
    "solver": "solver",
    "scaling": "scaling",
    "decision": "decision",
    "classWeight": "class_weight",
    "validationFraction": "validation_fraction",
    "seed": "random_state",
}


def _check_loss(value: Any) -> None:
    LOSSES.make("squared_hinge" if value == "auto" else value, also="auto")


class SparkAUCClassifier(Estimator, Stored, HasPasses, HasWeightCol, HasSeed):  # type: ignore[misc]
    """Linear classifier that maximises AUC over the rows of a Spark frame.

    Every pair counts, also the pairs across partitions, and the model does not depend on how the
    rows are partitioned (with the square loss in no bit, with others up to rounding). Rows stay
    with the executors: states of partitions are merged there in a tree, and few come to the driver.

    Parameters
    ----------
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
    features, loss, solver, scaling, decision : see `DaskAUCClassifier`
        As of `pairlearn.distributed.DaskAUCClassifier`: names, or objects such as
        ``ByPasses(ridge=0.1)``.
    classWeight, validationFraction : see `AUCClassifier`
        Its `class_weight` and `validation_fraction`.
    seed : int, default=0
        Draws the sample that chooses the ridge, and its folds.
    cache : bool, default=True
        Whether the columns that are read stay with the executors between the passes, in memory or
        on disk. They are released after the fit. A frame that is kept already is not kept twice.

    See Also
    --------
    SparkAUCModel : The fitted model.

    Notes
    -----
    A pass is a job: its tasks make the states of partitions, a tree of tasks merges eight at a
    time. The square loss takes three passes, others one more for each gradient, some 10 to 30.
    Rows that differ between passes are refused. pairlearn has to be installed on the executors.

    Examples
    --------
    >>> from pairlearn.spark import SparkAUCClassifier
    >>> auc = SparkAUCClassifier(featuresCol=["age", "income"], loss="square")  # doctest: +SKIP
    >>> model = auc.fit(frame)  # doctest: +SKIP
    >>> model.transform(frame).select("prediction", "probability")  # doctest: +SKIP
    >>> model.estimator.save("model.safetensors")  # doctest: +SKIP
    """

    features: Any = Param(
        Params._dummy(),
        "features",
        'what the score is linear in: "linear", "hats", "fourier", "auto" or a FeatureMap',
        typeConverter=checked(check_named),
    )
    loss: Any = Param(
        Params._dummy(),
        "loss",
        'the loss of a pair: "auto" (squared hinge), "square", "logistic", "hinge" or a PairLoss',
        typeConverter=checked(_check_loss),
    )
    solver: Any = Param(
        Params._dummy(),
        "solver",
        'the ridge and the search: "passes", ByPasses(ridge=...) or Exact(ridge=...)',
        typeConverter=checked(SOLVERS.make),
    )
    scaling: Any = Param(Params._dummy(), "scaling", 'the scaling of features: "auto" or None')
    decision: Any = Param(
        Params._dummy(), "decision", "what the threshold is for: a name, a number or a rule"
    )
    classWeight: Any = Param(  # noqa: N815
        Params._dummy(), "classWeight", 'weights of the labels: a dict, "balanced" or None'
    )
    validationFraction: Any = Param(  # noqa: N815
        Params._dummy(),
        "validationFraction",
        "the share of the sample that judges choices",
        typeConverter=TypeConverters.toFloat,
    )

    def __init__(
        self,
        *,
        featuresCol: str | list[str] = "features",
        labelCol: str = "label",
        weightCol: str | None = None,
        predictionCol: str = "prediction",
        rawPredictionCol: str = "rawPrediction",
        probabilityCol: str = "probability",
        features: str | FeatureMap = "linear",
        loss: str | PairLoss = "auto",
        solver: str | Solver = "passes",
        scaling: str | None = "auto",
        decision: float | str | DecisionRule = "balanced_accuracy",
        classWeight: Mapping[Any, float] | str | None = None,
        validationFraction: float = 0.2,
        seed: int = 0,
        cache: bool = True,
    ) -> None:
        given = {name: value for name, value in locals().items() if self.hasParam(name)}
        super().__init__()
        self._set_column_defaults()
        self._setDefault(
            features="linear",
            loss="auto",
            solver="passes",
            scaling="auto",
            decision="balanced_accuracy",
            classWeight=None,
            validationFraction=0.2,
            seed=0,
            cache=True,
        )
        self._set_given(given)

    def setWeightCol(self, value: str) -> Self:  # noqa: N802
        """Set the column of weights; "" for none."""
        return self.setParams(weightCol=value)

    def _fit(self, dataset: Any) -> SparkAUCModel:
        found = _examples_of(self, dataset)
        settings = {
            ours: self.getOrDefault(self.getParam(name)) for name, ours in _OF_TRAINING.items()
        }
        with passes_over(dataset, found, cache=self.getCache()) as (run, progress):
            fit = train_auc(run, feature_names=found.feature_names, progress=progress, **settings)
        model: SparkAUCModel = self._copyValues(SparkAUCModel(fit.model, fit))
        return model


def _examples_of(owner: Any, dataset: Any) -> Selected:
    """Return the columns that an estimator or a model learns from."""
    weight = owner.getWeightCol() if owner.isDefined(owner.weightCol) else None
    return selected(dataset, owner.getFeaturesCol(), owner.getLabelCol(), weight=weight)


class SparkAUCModel(SparkClassifierModel, HasWeightCol):  # type: ignore[misc]
    """A fitted `SparkAUCClassifier`.

    Parameters
    ----------
    estimator : AUCClassifier
        The fitted classifier.
    summary : DistributedFit
        Passes, training AUC with a certified half-width, and the bound on the binning error.

    See Also
    --------
    SparkAUCClassifier : Trains it.

    Examples
    --------
    >>> from pairlearn.spark import SparkAUCModel
    >>> model = SparkAUCModel.load("folder")  # doctest: +SKIP
    >>> model.summary.training_auc, model.estimator.coef_  # doctest: +SKIP
    """

    _holds = "AUCClassifier"

    def __init__(self, estimator: AUCClassifier, summary: DistributedFit) -> None:
        super().__init__(estimator)
        self.summary = summary

    def partialUnfit(self, dataset: Any) -> SparkAUCModel:  # noqa: N802
        """Return the model without the rows of a frame, which it has learned.

        The fit has to keep its state: ``solver=Moments(keep_state=True)``. See
        `AUCClassifier.partial_unfit`; `summary` still tells about the fit.
        """
        left = copy.deepcopy(self.estimator)
        found = _examples_of(self, dataset)
        with passes_over(dataset, found, cache=False) as (run, _):
            forget_auc(run, left)
        model: SparkAUCModel = self._copyValues(SparkAUCModel(left, self.summary))
        return model

    def _told(self) -> dict[str, Any]:
        names = [field.name for field in fields(DistributedFit) if field.name != "model"]
        return {"summary": {name: getattr(self.summary, name) for name in names}}

    @classmethod
    def _restored(cls, fitted: Any, metadata: Mapping[str, Any]) -> Self:
        return cls(fitted, DistributedFit(model=fitted, **metadata["summary"]))
