# SPDX-License-Identifier: BSD-3-Clause
"""What estimators on a Dask cluster share: the cluster, and the ordinary model that they fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pairlearn.distributed.dask_passes import DaskEngine

__all__ = ["ClusterEstimator"]


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
