# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of scores with confidence intervals and tests, and exact pair risks."""

from pairlearn.metrics.auc import roc_auc
from pairlearn.metrics.bands import PrecisionRecallBand, RocBand, precision_recall_band, roc_band
from pairlearn.metrics.calibration import (
    BrierScore,
    CalibrationCurve,
    CalibrationError,
    calibration_curve,
)
from pairlearn.metrics.concordance import ConcordanceIndex
from pairlearn.metrics.costs import ExpectedCost, cheapest_threshold
from pairlearn.metrics.delong import (
    AUCComparison,
    AUCInterval,
    compare_auc,
    mean_auc_interval,
    roc_auc_interval,
)
from pairlearn.metrics.entropy import error_entropy
from pairlearn.metrics.hand_till import HandTill
from pairlearn.metrics.metric import Comparison, Interval, Measured, Metric, TwoClassMetric
from pairlearn.metrics.partial import PartialAUC
from pairlearn.metrics.ranking import ndcg, pair_accuracy
from pairlearn.metrics.risk import pair_risk, pair_risk_gradient
from pairlearn.metrics.scorers import METRICS, Scorer, as_metric, scorer
from pairlearn.metrics.top import AveragePrecision, EnrichmentFactor, PrecisionAt, RecallAt

__all__ = [
    "METRICS",
    "AUCComparison",
    "AUCInterval",
    "AveragePrecision",
    "BrierScore",
    "CalibrationCurve",
    "CalibrationError",
    "Comparison",
    "ConcordanceIndex",
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
    "as_metric",
    "calibration_curve",
    "cheapest_threshold",
    "compare_auc",
    "error_entropy",
    "mean_auc_interval",
    "ndcg",
    "pair_accuracy",
    "pair_risk",
    "pair_risk_gradient",
    "precision_recall_band",
    "roc_auc",
    "roc_auc_interval",
    "roc_band",
    "scorer",
]
