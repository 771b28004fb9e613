# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise learning: classifiers, rankers and metrics that order examples well.

Public names are loaded on first use: importing the package imports neither numba nor
scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "averaging": (
        "ByStepSize",
        "DelayedByStepSize",
        "DelayedLinear",
        "DelayedPastBuffer",
        "LastIterate",
        "Tail",
        "Uniform",
    ),
    "domains.check": ("check_domain",),
    "domains": (
        "Ball",
        "Box",
        "CoordinatewiseDomain",
        "ElasticNet",
        "NonNegative",
        "PsdBall",
        "PsdCone",
        "WholeSpace",
    ),
    "estimators.auc.classifier": ("AUCClassifier",),
    "estimators.auc.bootstrap": ("Bootstrap", "bootstrap"),
    "estimators.entropy.regressor": ("EntropyRegressor",),
    "estimators.metric.learner": ("MetricLearner",),
    "estimators.classes.multiclass": ("MulticlassAUCClassifier",),
    "estimators.classes.multilabel": ("MultilabelAUCClassifier",),
    "estimators.classes.ordinal": ("OrdinalAUCClassifier",),
    "estimators.private.mixin": ("PrivacyWarning",),
    "estimators.private.audit": ("PublicAudit", "audit_estimator"),
    "estimators.private.auc": ("PrivateAUCClassifier",),
    "estimators.private.continual": ("PrivateAUCContinual",),
    "estimators.private.metric": ("PrivateMetricLearner",),
    "estimators.private.stream": ("PrivateAUCStream",),
    "estimators.ranking.ranker": ("PairwiseRanker",),
    "estimators.auc.shapes": ("Explanation", "explain", "plot_shapes"),
    "features.check": ("check_features",),
    "features": ("FeatureMap", "Hats", "Identity", "Nystroem", "RandomFourier", "Union"),
    "losses.check": ("check_loss",),
    "losses": (
        "DistanceHinge",
        "DistanceLogistic",
        "Epanechnikov",
        "Exponential",
        "GapWeighted",
        "Hinge",
        "LogLink",
        "Logistic",
        "PairLoss",
        "SmoothedHinge",
        "Square",
        "SquaredHinge",
        "Welsch",
        "scalar",
    ),
    "metrics": (
        "AUCComparison",
        "AUCInterval",
        "AveragePrecision",
        "BrierScore",
        "CalibrationCurve",
        "CalibrationError",
        "Comparison",
        "EnrichmentFactor",
        "ExpectedCost",
        "HandTill",
        "Interval",
        "Measured",
        "Metric",
        "PartialAUC",
        "PrecisionAt",
        "PrecisionRecallBand",
        "RecallAt",
        "RocBand",
        "Scorer",
        "TwoClassMetric",
        "calibration_curve",
        "cheapest_threshold",
        "compare_auc",
        "error_entropy",
        "ndcg",
        "pair_accuracy",
        "pair_risk",
        "pair_risk_gradient",
        "precision_recall_band",
        "roc_auc",
        "roc_auc_interval",
        "roc_band",
        "scorer",
    ),
    "models": ("ModelFileError", "ModelRecord", "load_model", "read_model", "write_model"),
    "pairings": (
        "AllPrevious",
        "ClassReservoirs",
        "FifoBuffer",
        "FrozenExample",
        "GivenPairs",
        "PreviousExample",
        "PreviousOfQuery",
        "PreviousOpposite",
        "RandomEarlier",
        "RandomPair",
        "ReservoirBuffer",
    ),
    "pairings.check": ("check_pairing",),
    "privacy.accounting.certificate": ("Certificate",),
    "privacy.accounting.ledger": ("BudgetExceededError", "PrivacyLedger"),
    "privacy.audit.check": ("check_mechanism",),
    "privacy.evaluation": ("PrivateAUC", "PrivateROC", "private_roc_auc", "private_roc_curve"),
    "privacy.quartiles": ("PrivateBounds",),
    "problem": ("Problem",),
    "recipes": ("RECIPES", "Recipe"),
    "schedules": ("Constant", "InverseSqrt", "InverseTime", "StronglyConvex"),
    "schedules.check": ("check_schedule",),
    "scores": ("LinearScore", "MahalanobisScore"),
    "solvers.descent.accelerated": ("MomentumSGD", "VarianceReducedSGD"),
    "solvers.exact.batch": ("ExactSolver",),
    "solvers.descent.localized": ("LocalizedSGD",),
    "solvers.closed_form.moments": ("ClassMoments", "OPAUC", "solve_square_auc"),
    "solvers.streams.order": ("OrderWarning",),
    "solvers.descent.pairwise_sgd": ("PairwiseSGD",),
    "solvers.descent.passive_aggressive": ("PassiveAggressive",),
    "solvers.descent.saddle": ("SOLAM", "SPAUC"),
    "solvers.descent.sweep": ("Sweep",),
    "streams": (
        "DriftAlarm",
        "OnlineLearner",
        "ProgressiveAUC",
        "ReadError",
        "Schema",
        "open_reader",
    ),
    "theory": ("Advice", "advise", "advise_auc"),
    "validation": ("AssumptionWarning", "DivergenceError"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted([*_MODULE_OF, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
