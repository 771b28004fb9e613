# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of scores with confidence intervals and tests, and exact pair risks."""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "auc": "roc_auc",
        "bands": "PrecisionRecallBand RocBand precision_recall_band roc_band",
        "calibration": "BrierScore CalibrationCurve CalibrationError calibration_curve",
        "concordance": "ConcordanceIndex",
        "costs": "ExpectedCost cheapest_threshold",
        "delong": "AUCComparison AUCInterval compare_auc mean_auc_interval roc_auc_interval",
        "entropy": "error_entropy",
        "hand_till": "HandTill",
        "metric": "Comparison Interval Measured Metric TwoClassMetric",
        "partial": "PartialAUC",
        "ranking": "ndcg pair_accuracy",
        "risk": "pair_risk pair_risk_gradient",
        "scorers": "METRICS Scorer as_metric scorer",
        "top": "AveragePrecision EnrichmentFactor PrecisionAt RecallAt",
    },
)
