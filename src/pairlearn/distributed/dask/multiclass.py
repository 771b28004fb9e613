# SPDX-License-Identifier: BSD-3-Clause
"""Many classes on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from pairlearn.distributed.dask.estimator import ClusterClassifier, mapped
from pairlearn.distributed.dask.parts import is_collection, parts_of
from pairlearn.distributed.multiclass import score_multiclass, train_multiclass
from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier
from pairlearn.estimators.shared.solvers import Solver


class DaskMulticlassAUCClassifier(ClusterClassifier):
    """Linear scores for each pair of many classes, from the examples of a cluster.

    Two passes give the moments of all classes, and these the minimisers of the square loss for all
    pairs of classes. The model does not depend on how the examples are partitioned, bit for bit.

    Parameters
    ----------
    solver : "class_passes", ClassPasses or Exact, default="class_passes"
        The ridge, and the size of the sample that chooses it.
    scaling, class_weight, validation_fraction : see `MulticlassAUCClassifier`
        As of `MulticlassAUCClassifier`.
    random_state : int, Generator or None, default=None
        Draws the sample and its folds.
    client, worker_timeout, progress : see `DaskAUCClassifier`
        As of `DaskAUCClassifier`.

    Attributes
    ----------
    model_ : MulticlassAUCClassifier
        The fitted classifier, an ordinary one. ``model_.choice_.auc`` is Hand and Till's M on
        held-out folds of the sample.
    coef_, classes_
        Those of the model.

    Examples
    --------
    >>> clf = DaskMulticlassAUCClassifier(random_state=0).fit(X, y)  # doctest: +SKIP
    >>> clf.predict_proba(X)  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        solver: str | Solver = "class_passes",
        scaling: str | None = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        validation_fraction: float = 0.2,
        random_state: Any = None,
        client: Any = None,
        worker_timeout: float = 60.0,
        progress: Callable[[int, str], None] | None = None,
    ) -> None:
        self.solver, self.scaling, self.class_weight = solver, scaling, class_weight
        self.validation_fraction, self.random_state = validation_fraction, random_state
        self.client, self.worker_timeout, self.progress = client, worker_timeout, progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on collections.

        Parameters
        ----------
        X : dask array of shape (n, d) or dask data frame
            Examples.
        y : dask array or series
            Labels of two classes or more.
        sample_weight : dask array or series, optional
            A pair weighs the product of the weights of its examples.

        Returns
        -------
        self
            The fitted estimator.
        """
        if y is None:
            raise ValueError("Scores of pairs of classes need labels; pass y.")
        parts = parts_of(X, y, sample_weight=sample_weight)
        self.model_: MulticlassAUCClassifier = self._trained(train_multiclass, parts)
        return self

    def pair_scores(self, X: Any) -> Any:
        """Return the scores of all pairs of classes: a lazy array, or a frame for a data frame."""
        return mapped(self._model(), "pair_scores", X, np.float64, width=len(self.coef_))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return Hand and Till's M over all partitions, see `score_multiclass`; or of memory."""
        model = self._model()
        if not is_collection(X):
            return float(model.score(X, y, sample_weight))
        parts, engine = self._parts(X, y, sample_weight=sample_weight), self._engine()
        return score_multiclass(lambda statistic: engine.run(parts, statistic), model)[0]
