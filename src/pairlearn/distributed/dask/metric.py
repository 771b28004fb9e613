# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pairlearn.distributed.dask.estimator import ClusterEstimator
from pairlearn.distributed.dask.parts import parts_of
from pairlearn.distributed.dask.predictions import mapped
from pairlearn.distributed.metric import train_metric
from pairlearn.estimators.metric.learner import MetricLearner
from pairlearn.typing import Vector

__all__ = ["DaskMetricLearner"]


class DaskMetricLearner(ClusterEstimator):
    """Mahalanobis metric from all pairs of a cluster, in one pass.

    The metric is the positive part of S^{-1} - D^{-1}, with S and D the scatters of pairs of equal
    and of different labels (see `metric_of`). It is not the metric of near examples that
    `MetricLearner` learns in memory: neighbours do not add up over partitions.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        What S and D get of the identity, in units of the mean variance of S; "auto" chooses by
        nearest neighbours on a sample.
    scaling, n_neighbors : see `MetricLearner`
        As of `MetricLearner`.
    max_classes : int, default=100
        More labels than this are refused.
    sample_size : int, default=500
        Examples of each class that come to the client.
    random_state : int, Generator or None, default=None
        Decides on the sample and its folds.
    client, worker_timeout, progress : see `DaskAUCClassifier`
        The cluster, how long to wait for it, and who is told.

    Attributes
    ----------
    model_ : MetricLearner
        The fitted learner, an ordinary one.
    components_ : ndarray of shape (n_components, n_features)
        L with W = L' L: the map of `transform`.

    Examples
    --------
    >>> learner = DaskMetricLearner(random_state=0).fit(X, y)  # doctest: +SKIP
    >>> learner.transform(X)  # doctest: +SKIP
    """

    def __init__(
        self,
        ridge: float | str = "auto",
        *,
        scaling: str | None = "auto",
        n_neighbors: int = 3,
        max_classes: int = 100,
        sample_size: int = 500,
        random_state: Any = None,
        client: Any = None,
        worker_timeout: float = 60.0,
        progress: Callable[[int, str], None] | None = None,
    ) -> None:
        self.ridge = ridge
        self.scaling = scaling
        self.n_neighbors = n_neighbors
        self.max_classes = max_classes
        self.sample_size = sample_size
        self.random_state = random_state
        self.client = client
        self.worker_timeout = worker_timeout
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on collections.

        Parameters
        ----------
        X : dask array of shape (n, d) or dask data frame
            Examples.
        y : dask array or series
            Labels, at least two kinds.
        sample_weight : dask array or series, optional
            A pair weighs the product of the weights of its examples.

        Returns
        -------
        self
            The fitted estimator.
        """
        if y is None:
            raise ValueError("Metric learning needs labels; pass y.")
        parts = parts_of(X, y, sample_weight=sample_weight)
        engine = self._engine()
        self.model_: MetricLearner = train_metric(
            lambda statistic: engine.run(parts, statistic),
            ridge=self.ridge,
            scaling=self.scaling,
            n_neighbors=self.n_neighbors,
            max_classes=self.max_classes,
            sample_size=self.sample_size,
            random_state=self.random_state,
            feature_names=parts.feature_names,
            progress=self.progress,
        )
        return self

    @property
    def components_(self) -> Vector:
        """The map of `transform`."""
        return np.asarray(self._model().components_)

    def transform(self, X: Any) -> Any:
        """Return examples in the learned space: a lazy array, or a frame for a data frame."""
        model = self._model()
        return mapped(model, "transform", X, np.float64, width=len(model.components_))
