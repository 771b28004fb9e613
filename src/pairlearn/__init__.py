# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise learning: classifiers, rankers and metrics that order examples well.

The names that most users need. Names for special purposes stand one level down, in
`pairlearn.metrics`, `pairlearn.privacy`, `pairlearn.solvers` and the other rooms. A name is loaded
on first use: importing the package imports neither numba nor scikit-learn.
"""

from __future__ import annotations

from pairlearn.lazy import door

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "averaging": "LastIterate Tail Uniform",
        "domains": "Ball Box ElasticNet NonNegative WholeSpace",
        "estimators": "AUCClassifier AUCStack EntropyRegressor MetricLearner "
        "MulticlassAUCClassifier MultilabelAUCClassifier OrdinalAUCClassifier PairwiseRanker "
        "PairwiseRatings "
        "PrivateAUCClassifier PrivateAUCContinual "
        "PrivateEntropyRegressor PrivateMetricLearner PrivateRatings SGD Costs Exact Moments "
        "SurvivalRanker "
        "Threshold bootstrap explain plot_shapes",
        "features": "FeatureMap Hats Identity Nystroem RandomFourier Union",
        "losses": "DistanceHinge DistanceLogistic Exponential Hinge Logistic PairLoss "
        "SmoothedHinge Square SquaredHinge scalar",
        "metrics": "AveragePrecision ConcordanceIndex ExpectedCost HandTill PartialAUC PrecisionAt "
        "RecallAt calibration_curve compare_auc ndcg pair_accuracy roc_auc roc_auc_interval scorer",
        "models": "ModelFileError load_model",
        "pairings": "FifoBuffer PreviousExample PreviousOfQuery PreviousOpposite RandomPair "
        "ReservoirBuffer",
        "privacy": "Certificate PrivacyLedger PrivacyWarning PrivateBounds private_roc_auc",
        "problem": "Problem",
        "schedules": "Constant InverseSqrt InverseTime",
        "scores": "LinearScore MahalanobisScore",
        "solvers": "OrderWarning PairwiseSGD PartialArea Push SmoothPrecision Sweep",
        "streams": "OnlineLearner ReadError Schema open_reader",
        "tables": "TableEncoder",
        "validation": "AssumptionWarning DivergenceError",
    },
    own=("__version__",),
)
