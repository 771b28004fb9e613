# SPDX-License-Identifier: BSD-3-Clause
"""The common base of estimators on a Dask cluster: the engine, and the ordinary model they fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pairlearn.distributed.dask.parts import Parts
from pairlearn.distributed.dask.passes import DaskEngine
from pairlearn.distributed.dask.predictions import mapped
from pairlearn.estimators.shared.composed import Composed
from pairlearn.typing import Vector

__all__ = ["ClusterClassifier", "ClusterEstimator"]


#: Parameters of the engine; all others are about the training.
_OF_ENGINE = ("client", "worker_timeout")


class ClusterEstimator(Composed, BaseEstimator):  # type: ignore[misc]
    """An estimator with the parameters `client`, `worker_timeout` and `progress`."""

    client: Any
    worker_timeout: float
    progress: Callable[[int, str], None] | None
    model_: Any

    def _engine(self) -> DaskEngine:
        return DaskEngine(self.client, worker_timeout=self.worker_timeout)

    def _trained(self, train: Callable[..., Any], parts: Parts, **changed: Any) -> Any:
        """Train by passes over partitions; the parameters of the estimator are those of `train`."""
        engine, given = self._engine(), self.get_params(deep=False)
        own = {name: value for name, value in given.items() if name not in _OF_ENGINE}
        return train(
            lambda statistic: engine.run(parts, statistic),
            feature_names=parts.feature_names,
            **(own | changed),
        )

    def _model(self) -> Any:
        check_is_fitted(self, "model_")
        return self.model_


class ClusterClassifier(ClusterEstimator):
    """Predictions of a linear classifier of two classes for collections, by its fitted model."""

    @property
    def coef_(self) -> Vector:
        """Coefficients of the model, of shape (1, d)."""
        return np.asarray(self._model().coef_)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels; the second is the positive one."""
        return np.asarray(self._model().classes_)

    def decision_function(self, X: Any) -> Any:
        """Return the model's scores: a lazy array, or a series for a data frame."""
        return mapped(self._model(), "decision_function", X, np.float64)

    def predict(self, X: Any) -> Any:
        """Return the predicted labels: a lazy array, or a series for a data frame."""
        return mapped(self._model(), "predict", X, self.classes_.dtype)

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of ``classes_``: a lazy array, or a frame for a data frame."""
        return mapped(self._model(), "predict_proba", X, np.float64, columns=self.classes_.tolist())
