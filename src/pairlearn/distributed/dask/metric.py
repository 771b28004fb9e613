# SPDX-License-Identifier: BSD-3-Clause
"""Metric learning on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pairlearn.distributed.dask.estimator import ClusterEstimator, mapped
from pairlearn.distributed.dask.parts import parts_of
from pairlearn.distributed.metric import train_metric
from pairlearn.estimators.metric.learner import MetricLearner
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.typing import Vector


class DaskMetricLearner(ClusterEstimator):
    """Mahalanobis metric from all pairs of a cluster, in one pass.

    The metric is the positive part of S^{-1} - D^{-1}, with S and D the scatters of pairs of equal
    and of different labels (see `metric_of`). It is not the metric of near examples that
    `MetricLearner` learns in memory: neighbours do not add up over partitions.

    Parameters
    ----------
    solver : "one_pass", OnePass or Exact, default="one_pass"
        The ridge of the metric, and the size of the sample that chooses it.
    scaling, n_neighbors : see `MetricLearner`
        As of `MetricLearner`.
    random_state : int, Generator or None, default=None
        Draws the sample and its folds.
    client, worker_timeout, progress : see `DaskAUCClassifier`
        As of `DaskAUCClassifier`.

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
        *,
        solver: str | Solver = "one_pass",
        scaling: str | None = "auto",
        n_neighbors: int = 3,
        random_state: Any = None,
        client: Any = None,
        worker_timeout: float = 60.0,
        progress: Callable[[int, str], None] | None = None,
    ) -> None:
        self.solver, self.scaling, self.n_neighbors = solver, scaling, n_neighbors
        self.random_state, self.client = random_state, client
        self.worker_timeout, self.progress = worker_timeout, progress

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
        self.model_: MetricLearner = self._trained(train_metric, parts)
        return self

    @property
    def components_(self) -> Vector:
        """The map of `transform`."""
        return np.asarray(self._model().components_)

    def transform(self, X: Any) -> Any:
        """Return examples in the learned space: a lazy array, or a frame for a data frame."""
        model = self._model()
        return mapped(model, "transform", X, np.float64, width=len(model.components_))
