# SPDX-License-Identifier: BSD-3-Clause
"""AUC maximisation on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from pairlearn.distributed.auc import DistributedFit, train_auc
from pairlearn.distributed.dask.estimator import ClusterTwoClasses
from pairlearn.distributed.dask.parts import (
    as_column,
    is_collection,
    parts_of,
    require_dask,
)
from pairlearn.distributed.dask.passes import DaskEngine
from pairlearn.distributed.forgetting import forget_auc
from pairlearn.distributed.statistics.base import State
from pairlearn.distributed.statistics.histogram import HistogramAUC, ScoreHistogram
from pairlearn.distributed.statistics.ranks import (
    Scored,
    binned_auc,
    deal,
    exact_auc,
    quantile_splits,
    range_state,
)
from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.shared.rules import DecisionRule
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.features import FeatureMap
from pairlearn.losses import PairLoss
from pairlearn.metrics._inputs import which_positive
from pairlearn.metrics.delong import AUCInterval
from pairlearn.typing import Vector
from pairlearn.validation import check_fraction, check_weights, refuse_masked

#: The approximate number of scores in one range of the exact AUC.
_RANGE = 4_000_000
#: The number of quantiles of each partition that place the ranges, or the bins.
_QUANTILES = 65
#: The most ranges of the exact AUC: each has a task for every partition. More scores go to bins.
_MOST_RANGES = 8
#: The number of bins, which hold about equally many scores.
_BINS = 16_384


class DaskAUCClassifier(ClusterTwoClasses):
    """Linear classifier that maximises AUC over the examples of a cluster.

    Every pair counts, also the pairs across partitions, and what is chosen depends on what the
    examples hold: the model does not depend on how they are partitioned, up to rounding. For a
    given partitioning the model is the same bit for bit, for any number of workers, and even if
    workers die.

    Parameters
    ----------
    features : "linear", "hats", "fourier", "auto" or FeatureMap, default="linear"
        As of `AUCClassifier`. A map that is not fitted is fitted to the sample, and "auto" chooses
        one on folds of the sample. Mapped features take the square loss and three passes.
    loss : str or PairLoss, default="auto"
        "auto" is the squared hinge, and the square loss for mapped features. "square" takes two
        passes over the data. Others ("logistic", "hinge", your own convex loss) take ten to thirty.
    solver : "passes", ByPasses, Exact or Moments, default="passes"
        The ridge, and the settings of the search. With `Moments`, the model does not depend on how
        the examples are partitioned, bit for bit; see `train_auc`.
    scaling, decision, class_weight, validation_fraction : see `AUCClassifier`
        As of `AUCClassifier`. Threshold and probabilities come from the scores of all training
        examples.
    random_state : int, Generator or None, default=None
        Draws the sample and its folds.
    client : distributed.Client, optional
        The cluster; by default the current one. Without one, Dask's local scheduler runs the fit.
    worker_timeout : float, default=60.0
        The fit fails after this many seconds without any worker.
    progress : callable, optional
        Called before each pass with its number and its purpose.

    Attributes
    ----------
    model_ : AUCClassifier
        The fitted classifier, an ordinary one: save it, export it, use it without Dask. Its
        fingerprint says what the examples hold, in any order.
    fit_ : DistributedFit
        Passes, training AUC with a certified half-width, and the bound on the binning error.
    coef_, classes_, threshold_
        Those of the model.

    Notes
    -----
    `score` and `auc_interval` are exact for up to 32 million examples. Beyond, a histogram gives
    the AUC, whose tasks are as many as the partitions: it is at most a few 1e-5 from the exact one,
    and the interval is wider by this certified half-width. Data in memory need no cluster.

    Examples
    --------
    >>> import dask.array as da  # doctest: +SKIP
    >>> X, y = da.from_zarr("X"), da.from_zarr("y")  # doctest: +SKIP
    >>> clf = DaskAUCClassifier().fit(X, y)  # doctest: +SKIP
    >>> clf.model_.save("model.safetensors")  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        features: str | FeatureMap = "linear",
        loss: str | PairLoss = "auto",
        solver: str | Solver = "passes",
        scaling: str | None = "auto",
        decision: float | str | DecisionRule = "balanced_accuracy",
        class_weight: Mapping[Any, float] | str | None = None,
        validation_fraction: float = 0.2,
        random_state: Any = None,
        client: Any = None,
        worker_timeout: float = 60.0,
        progress: Callable[[int, str], None] | None = None,
    ) -> None:
        self.features, self.loss, self.solver, self.scaling = features, loss, solver, scaling
        self.decision, self.class_weight = decision, class_weight
        self.validation_fraction, self.random_state = validation_fraction, random_state
        self.client, self.worker_timeout, self.progress = client, worker_timeout, progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on collections.

        Parameters
        ----------
        X : dask array of shape (n, d) or dask data frame
            Examples; blocks may be sparse, empty, of unknown length.
        y : dask array or series
            Two kinds of labels.
        sample_weight : dask array or series, optional
            A pair weighs the product of the weights of its examples.

        Returns
        -------
        self
            The fitted estimator.
        """
        if y is None:
            raise ValueError("AUC needs labels; pass y.")
        parts = parts_of(X, y, sample_weight=sample_weight)
        self.fit_: DistributedFit = self._trained(train_auc, parts)
        self.model_: AUCClassifier = self.fit_.model
        return self

    def partial_unfit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget rows that `fit` learned, as `AUCClassifier.partial_unfit` does.

        Parameters
        ----------
        X : dask array of shape (n, d), dask data frame, or data in memory
            The rows, in any partitions.
        y : dask array or series, or data in memory
            Their labels.
        sample_weight : dask array or series, or data in memory, optional
            Their weights in `fit`.

        Returns
        -------
        self
            The estimator. ``model_.forgetting_certificate_`` names the states; `fit_` still tells
            about the fit.
        """
        model = self._model()
        if not is_collection(X):
            model.partial_unfit(X, y, sample_weight)
            return self
        parts, engine = self._parts(X, y, sample_weight=sample_weight), self._engine()
        forget_auc(lambda statistic: engine.run(parts, statistic), model)
        return self

    @property
    def threshold_(self) -> float:
        """The cut on ``X @ coef_[0]``."""
        return float(self._model().threshold_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the AUC over all partitions; `auc_interval` adds its interval, and says how."""
        return self.auc_interval(X, y, sample_weight).auc

    def auc_interval(
        self, X: Any, y: Any, sample_weight: Any = None, *, confidence: float = 0.95
    ) -> AUCInterval:
        """Return the AUC over all partitions with the interval of one machine; NaN with weights."""
        check_fraction("confidence", confidence)
        model = self._model()
        if not is_collection(X):
            scored = _scored(model, X, y, sample_weight)
            return exact_auc([range_state([scored])], confidence=confidence)
        parts = parts_of(X, y, sample_weight=sample_weight)
        engine, delayed = self._engine(), require_dask().delayed
        persisted = engine.persist(engine.each(parts, _scored_part, model))
        facts = engine.compute([delayed(_quantiles)(one) for one in persisted])
        n = sum(size for size, _ in facts)
        quantiles = [found for _, found in facts]
        n_ranges = -(-n // _RANGE)
        if n_ranges > _MOST_RANGES:
            edges = quantile_splits(quantiles, _BINS)
            return self._binned(engine, persisted, edges, confidence)
        splits = quantile_splits(quantiles, n_ranges)
        dealt = [delayed(deal, nout=len(splits) + 1)(one, splits) for one in persisted]
        states = engine.compute(
            [delayed(range_state)([pieces[k] for pieces in dealt]) for k in range(len(splits) + 1)]
        )
        return exact_auc(states, confidence=confidence)

    def _binned(
        self, engine: DaskEngine, scored: list[Any], edges: Vector, confidence: float
    ) -> AUCInterval:
        """Return the AUC from a histogram of the scores."""
        statistic = ScoreHistogram(np.ones(1), edges, (False, True))
        found: HistogramAUC = statistic.finish(engine.ask(statistic, _histogram, scored))
        return binned_auc(found, confidence=confidence)


def _scored_part(
    model: AUCClassifier, part: int, rows: Any, labels: Any, others: Mapping[str, Any]
) -> Scored:
    return _scored(model, rows, labels, others.get("sample_weight"))


def _scored(model: AUCClassifier, rows: Any, labels: Any, weight: Any) -> Scored:
    n, y = rows.shape[0] if hasattr(rows, "shape") else len(rows), as_column(labels)
    if len(y) != n:
        raise ValueError(
            f"X has {n} rows and y has {len(y)} in one partition; partition both alike."
        )
    if not len(y):
        return np.empty(0), np.empty(0, dtype=bool), np.empty(0)
    refuse_masked("y", y)
    positive = which_positive(y, model.classes_)
    # A frame keeps its names, by which the model knows its features.
    scores = model.decision_function(rows)
    if weight is None:
        return scores, positive, np.empty(0)
    return scores, positive, check_weights(as_column(weight), len(y), name="sample_weight")


def _histogram(statistic: ScoreHistogram, scored: Scored) -> State:
    scores, positive, weight = scored
    return statistic.partial_state(scores[:, np.newaxis], positive, weight if len(weight) else None)


def _quantiles(scored: Scored) -> tuple[int, Vector]:
    scores = scored[0]
    if not len(scores):
        return 0, scores
    return len(scores), np.quantile(scores, np.linspace(0.0, 1.0, min(_QUANTILES, len(scores))))
