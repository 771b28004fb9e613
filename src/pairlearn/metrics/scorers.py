# SPDX-License-Identifier: BSD-3-Clause
"""Metrics as scorers for scikit-learn: ``GridSearchCV(..., scoring=scorer("partial_auc", ...))``.

A scorer is a function of an estimator, X and y; scikit-learn is not needed to make one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.metrics._inputs import which_positive
from pairlearn.metrics.calibration import BrierScore, CalibrationError
from pairlearn.metrics.costs import ExpectedCost
from pairlearn.metrics.hand_till import HandTill
from pairlearn.metrics.metric import Metric
from pairlearn.metrics.partial import PartialAUC
from pairlearn.metrics.top import AveragePrecision, EnrichmentFactor, PrecisionAt, RecallAt
from pairlearn.validation import refuse_masked

METRICS: dict[str, type[Metric]] = {
    "auc": PartialAUC,
    "partial_auc": PartialAUC,
    "average_precision": AveragePrecision,
    "hand_till": HandTill,
    "precision_at": PrecisionAt,
    "recall_at": RecallAt,
    "enrichment_factor": EnrichmentFactor,
    "expected_cost": ExpectedCost,
    "brier_score": BrierScore,
    "calibration_error": CalibrationError,
}


def as_metric(metric: str | Metric, **settings: Any) -> Metric:
    """Return a metric by its name and settings, or the metric itself.

    >>> as_metric("partial_auc", max_fpr=0.1)
    PartialAUC(max_fpr=0.1, min_tpr=0.0, standardised=True)
    """
    if isinstance(metric, Metric):
        if settings:
            raise ValueError(
                f"settings {sorted(settings)} are for a metric by name, got {metric!r}; give them "
                "to the metric itself."
            )
        return metric
    if not isinstance(metric, str) or metric not in METRICS:
        raise ValueError(f"metric must be a Metric or one of {sorted(METRICS)}, got {metric!r}.")
    if metric == "partial_auc" and "max_fpr" not in settings and "min_tpr" not in settings:
        raise ValueError('"partial_auc" needs max_fpr or min_tpr, for example max_fpr=0.05.')
    try:
        return METRICS[metric](**settings)
    except TypeError as error:
        raise TypeError(f"{metric!r} does not take these settings: {error}.") from None


@dataclass(frozen=True)
class Scorer:
    """A metric of an estimator's scores; larger is better.

    Parameters
    ----------
    metric : Metric
        The metric. If smaller is better, as for a cost, the sign is changed, as in
        scikit-learn's ``neg_...`` scorers. A cost is that of what the estimator predicts; a
        threshold other than 0 is one of `decision_function`, or of probabilities if an estimator
        has nothing else.
    weight_request : bool, str or None, default=None
        Whether, or under which name, scikit-learn passes weights on where it routes metadata; see
        `set_score_request`.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1]
    >>> Scorer(PartialAUC())(GaussianNB().fit(X, y), X, y)
    1.0
    """

    metric: Metric
    weight_request: bool | str | None = None

    def set_score_request(self, *, sample_weight: bool | str | None) -> Scorer:
        """Return a scorer that asks scikit-learn for weights (True), for none (False), or by name.

        Where scikit-learn routes metadata (``enable_metadata_routing=True``), it refuses weights of
        which a scorer does not say whether it wants them.

        Parameters
        ----------
        sample_weight : bool, str or None
            Whether weights are wanted, or their name among the metadata; None does not say.

        Returns
        -------
        Scorer
            Another scorer of the same metric.
        """
        return replace(self, weight_request=sample_weight)

    def get_metadata_routing(self) -> Any:
        """Return what scikit-learn may pass on to this scorer."""
        from sklearn.utils.metadata_routing import MetadataRequest

        found = MetadataRequest(owner=self)
        found.score.add_request(param="sample_weight", alias=self.weight_request)
        return found

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the value for a fitted estimator; larger is better."""
        classes = getattr(estimator, "classes_", None)
        refuse_masked("y", y)
        labels: NDArray[Any] = np.asarray(y)
        metric = self.metric
        if classes is not None and labels.ndim == 2:
            raise ValueError(
                f"{type(metric).__name__} is for one label of an example, y has "
                f"{labels.shape[1]} columns; measure each column alone, or take the mean AUC of "
                "MultilabelAUCClassifier.score."
            )
        scores = self._scores(estimator, X)
        if isinstance(metric, HandTill):
            if classes is not None:
                known = tuple(np.asarray(classes).tolist())
                if metric.classes is not None and tuple(metric.classes) != known:
                    raise ValueError(
                        f"classes={list(metric.classes)!r} is not the order of the estimator's "
                        f"columns, {list(known)!r}; leave classes out."
                    )
                # a fold may lack a class that the estimator knows
                metric = HandTill(metric.pairs, known)
        elif classes is not None:
            if len(classes) != 2:
                raise ValueError(
                    f"{type(metric).__name__} is for two classes, the estimator has "
                    f"{len(classes)}; use HandTill."
                )
            labels = which_positive(labels, classes)
        # without classes y keeps the names of its columns
        value = metric(y if classes is None else labels, scores, sample_weight=sample_weight)
        return value if metric.larger_is_better else -value

    def _scores(self, estimator: Any, X: Any) -> Any:
        """Return the scores, pair scores or probabilities that the metric needs."""
        metric = self.metric
        many = isinstance(metric, HandTill)
        if isinstance(metric, HandTill) and metric.pairs:
            if not hasattr(estimator, "pair_scores"):
                raise TypeError(
                    f"HandTill(pairs=True) needs pair_scores, which {type(estimator).__name__} "
                    "does not have; use HandTill() for one score of each class."
                )
            return estimator.pair_scores(X)
        classes: Any = getattr(estimator, "classes_", ())
        if isinstance(metric, ExpectedCost) and not metric.threshold and len(classes) == 2:
            # What the estimator decides, which may not be at 0: a tuned threshold, a forest.
            return np.where(np.asarray(estimator.predict(X)) == classes[1], 1.0, -1.0)
        has_scores = hasattr(estimator, "decision_function")
        prefers = metric.of_probabilities or many or not has_scores
        if prefers and hasattr(estimator, "predict_proba"):
            probabilities = np.asarray(estimator.predict_proba(X))
            if isinstance(metric, ExpectedCost) and not 0.0 < metric.threshold < 1.0:
                raise ValueError(
                    f"{type(estimator).__name__} has probabilities and no decision_function: with "
                    f"threshold={metric.threshold:g} all would be one class; pass a threshold "
                    "between 0 and 1, such as threshold=0.5."
                )
            return probabilities if many else probabilities[:, 1]
        if metric.of_probabilities:
            raise TypeError(
                f"{type(metric).__name__} needs predict_proba, which {type(estimator).__name__} "
                "does not have; calibrate it first."
            )
        if has_scores:
            return estimator.decision_function(X)
        orders = not isinstance(metric, ExpectedCost)  # a cost needs a cut
        if orders and not len(classes) and hasattr(estimator, "predict"):
            return estimator.predict(X)  # a ranking, risks, a regression
        raise TypeError(
            f"{type(estimator).__name__} has neither decision_function nor predict_proba; there "
            "are no scores to measure."
        )


def scorer(metric: str | Metric, **settings: Any) -> Scorer:
    """Return a scorer for scikit-learn's `scoring=`.

    Parameters
    ----------
    metric : str or Metric
        The metric, or its name: "auc", "partial_auc", "average_precision", "hand_till",
        "precision_at", "recall_at", "enrichment_factor", "expected_cost", "brier_score",
        "calibration_error".
    **settings : object
        The settings of a metric by name.

    Returns
    -------
    Scorer
        A function of an estimator, X and y.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scoring = scorer("partial_auc", max_fpr=0.1)
    >>> bool(cross_val_score(GaussianNB(), X, y, scoring=scoring).min() > 0.8)
    True
    """
    return Scorer(as_metric(metric, **settings))
