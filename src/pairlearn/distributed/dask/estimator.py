# SPDX-License-Identifier: BSD-3-Clause
"""The common base of estimators on a Dask cluster: the engine, the fitted model, predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pairlearn.distributed.dask.parts import (
    Parts,
    in_order,
    is_array,
    is_collection,
    is_frame,
    parts_of,
    require_dask,
)
from pairlearn.distributed.dask.passes import DaskEngine
from pairlearn.estimators.shared.composed import Composed
from pairlearn.estimators.shared.features_seen import check_columns
from pairlearn.typing import Vector

#: Parameters of the engine; all others are about the training.
_OF_ENGINE = ("client", "worker_timeout")


def mapped(
    model: Any, method: str, X: Any, dtype: Any, *, columns: list[Any] | None = None, width: int = 0
) -> Any:
    """Apply a method of a model to a collection, lazily.

    The model travels once, not with every partition. `columns` are names of the columns, if an
    answer has several, `width` their number if they have no names. An answer is partitioned as X
    is. For a data frame an answer without columns is a series with the index of X. Data in memory
    get their answers at once.
    """
    if not is_collection(X):
        return getattr(model, method)(X)
    once = require_dask().delayed(model)
    width = len(columns) if columns is not None else width
    if is_array(X):
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        shape = {"drop_axis": 1} if not width else {"chunks": (X.chunks[0], (width,))}
        meta = np.empty((0,) if not width else (0, width), dtype=dtype)
        return X.map_blocks(_answer, once, method, dtype, width, meta=meta, **shape)
    if is_frame(X):
        import pandas as pd

        meta_frame: Any = pd.Series([], dtype=dtype)
        if width:
            names = list(range(width)) if columns is None else columns
            meta_frame = pd.DataFrame({name: pd.Series([], dtype=dtype) for name in names})
        asked = once, method, dtype, columns, width, list(X.columns)
        return X.map_partitions(_answer_frame, *asked, meta=meta_frame)
    raise TypeError(f"X must be a Dask array or data frame, got {type(X).__name__}.")


def _answer(block: Any, model: Any, method: str, dtype: Any, width: int) -> Any:
    if not block.shape[0]:
        return np.empty((0, width) if width else 0, dtype=dtype)
    return getattr(model, method)(block)


def _answer_frame(
    frame: Any,
    model: Any,
    method: str,
    dtype: Any,
    columns: list[Any] | None,
    width: int,
    known: list[Any],
) -> Any:
    import pandas as pd

    if len(frame):
        answers = getattr(model, method)(in_order(frame, known))
    else:
        answers = np.empty((0, width) if width else 0, dtype=dtype)
    if width:
        return pd.DataFrame(answers, index=frame.index, columns=columns)
    return pd.Series(answers, index=frame.index)


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

    def _parts(self, X: Any, y: Any, **others: Any) -> Parts:
        """Return partitions whose columns are those of the model."""
        parts = parts_of(X, y, **others)
        if is_frame(X):
            check_columns(self._model(), X._meta)
        return parts

    def _model(self) -> Any:
        check_is_fitted(self, "model_")
        return self.model_


class ClusterClassifier(ClusterEstimator):
    """Predictions of a linear classifier for collections, by its fitted model."""

    @property
    def coef_(self) -> Vector:
        """Coefficients of the model: a row, or one for each pair of many classes."""
        return np.asarray(self._model().coef_)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels; of two, the second is the positive one."""
        return np.asarray(self._model().classes_)

    def predict(self, X: Any) -> Any:
        """Return the predicted labels: a lazy array, or a series for a data frame."""
        return mapped(self._model(), "predict", X, self.classes_.dtype)

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of ``classes_``: a lazy array, or a frame for a data frame."""
        return mapped(self._model(), "predict_proba", X, np.float64, columns=self.classes_.tolist())


class ClusterTwoClasses(ClusterClassifier):
    """A classifier of two classes, which has one score."""

    def decision_function(self, X: Any) -> Any:
        """Return the model's scores: a lazy array, or a series for a data frame."""
        return mapped(self._model(), "decision_function", X, np.float64)
