# SPDX-License-Identifier: BSD-3-Clause
"""Ranking within queries on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pairlearn.distributed.dask.estimator import ClusterEstimator, mapped
from pairlearn.distributed.dask.parts import is_collection, parts_of
from pairlearn.distributed.ranking import train_ranker
from pairlearn.distributed.statistics.queries import QueryNDCG
from pairlearn.estimators.ranking.ranker import PairwiseRanker
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.losses import PairLoss


class DaskPairwiseRanker(ClusterEstimator):
    """Linear ranker of graded examples in queries, on a cluster.

    Gradients are exact: pairs are made within queries, and a query lies in one partition. Queries
    that are split across partitions are refused.

    Parameters
    ----------
    loss : str or PairLoss, default="squared_hinge"
        A convex loss of opposite pairs with an array form.
    solver : "query_passes", QueryPasses or Exact, default="query_passes"
        The ridge, and the settings of the search.
    scaling, weight_by_grade, k, gain : see `PairwiseRanker`
        As of `PairwiseRanker`.
    client, worker_timeout, progress : see `DaskAUCClassifier`
        As of `DaskAUCClassifier`.

    Attributes
    ----------
    model_ : PairwiseRanker
        The fitted ranker, an ordinary one.

    Examples
    --------
    >>> ranker = DaskPairwiseRanker().fit(X, y, qid=qid)  # doctest: +SKIP
    >>> ranker.score(X, y, qid)  # doctest: +SKIP
    """

    def __init__(
        self,
        loss: str | PairLoss = "squared_hinge",
        *,
        solver: str | Solver = "query_passes",
        scaling: str | None = "auto",
        weight_by_grade: bool = False,
        k: int | None = 10,
        gain: str = "exponential",
        client: Any = None,
        worker_timeout: float = 60.0,
        progress: Callable[[int, str], None] | None = None,
    ) -> None:
        self.loss, self.solver, self.scaling = loss, solver, scaling
        self.weight_by_grade, self.k, self.gain, self.client = weight_by_grade, k, gain, client
        self.worker_timeout, self.progress = worker_timeout, progress

    def fit(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> Self:
        """Train on collections.

        Parameters
        ----------
        X : dask array of shape (n, d) or dask data frame
            Examples.
        y : dask array or series
            Grades.
        qid : dask array or series
            The query of each example; all of a query in one partition.
        sample_weight : dask array or series, optional
            A pair weighs the product of the weights of its examples.

        Returns
        -------
        self
            The fitted estimator.
        """
        if y is None or qid is None:
            raise ValueError(
                "Ranking on a cluster needs grades and queries; pass y and qid. Without queries "
                "all pairs of a real target would have to meet: use PairwiseRanker on a sample."
            )
        parts = parts_of(X, y, qid=qid, sample_weight=sample_weight)
        self.model_: PairwiseRanker = self._trained(train_ranker, parts)
        return self

    def predict(self, X: Any) -> Any:
        """Return scores: a lazy array, or a series for a data frame."""
        return mapped(self._model(), "predict", X, np.float64)

    def score(self, X: Any, y: Any, qid: Any) -> float:
        """Return the mean NDCG@k over all queries that have a document of positive gain."""
        # Split queries are refused, as in fit. Data in memory need no cluster.
        model = self._model()
        statistic = QueryNDCG(model, model.k, model.gain)
        if is_collection(X):
            state = self._engine().run(self._parts(X, y, qid=qid), statistic)
        else:
            state = statistic.partial_state(X, y, qid=qid)
        return statistic.finish(state)
