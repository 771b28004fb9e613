# SPDX-License-Identifier: BSD-3-Clause
"""Estimators with scikit-learn's interface, and what explains and repeats their fits."""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "auc.bootstrap": "Bootstrap bootstrap",
        "auc.classifier": "AUCClassifier",
        "auc.shapes": "Explanation explain plot_shapes",
        "classes.multiclass": "MulticlassAUCClassifier",
        "multilabel": "MultilabelAUCClassifier",
        "classes.ordinal": "OrdinalAUCClassifier",
        "entropy": "EntropyRegressor",
        "metric.learner": "MetricLearner",
        "metric.descent": "MetricSGD",
        "private.auc": "PrivateAUCClassifier",
        "private.continual": "PrivateAUCContinual",
        "private.entries": "PublicAudit audit_entries audit_estimator",
        "private.entropy": "PrivateEntropyRegressor",
        "private.metric": "PrivateMetricLearner",
        "private.ratings": "PrivateRatings",
        "ranking": "PairwiseRanker",
        "ratings.answers": "plot_ratings",
        "ratings.ratings": "PairwiseRatings",
        "ratings.votes": "Votes",
        "shared.decisions": "Costs DecisionRule Threshold",
        "shared.solvers": "SGD Exact Fitted Moments Solver",
        "shared.storage": "Storable register_storable",
        "stack.classifier": "AUCStack",
        "survival": "SurvivalRanker",
    },
)
