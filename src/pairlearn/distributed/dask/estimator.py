# SPDX-License-Identifier: BSD-3-Clause
"""What estimators on a Dask cluster share: the cluster, and the ordinary model that they fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pairlearn.distributed.dask.passes import DaskEngine
from pairlearn.distributed.dask.predictions import mapped
from pairlearn.typing import Vector

__all__ = ["ClusterClassifier", "ClusterEstimator"]


class ClusterEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator with the parameters `client`, `worker_timeout` and `progress`."""

    client: Any
    worker_timeout: float
    progress: Callable[[int, str], None] | None
    model_: Any

    def _engine(self) -> DaskEngine:
        return DaskEngine(self.client, worker_timeout=self.worker_timeout)

    def _model(self) -> Any:
        check_is_fitted(self, "model_")
        return self.model_


class ClusterClassifier(ClusterEstimator):
    """What a linear classifier of two classes says of collections, by the model that it fitted."""

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
