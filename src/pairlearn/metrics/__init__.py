# SPDX-License-Identifier: BSD-3-Clause
"""How good scores are: the area under the ROC curve with its uncertainty, and exact pair risks."""

from pairlearn.metrics.auc import roc_auc
from pairlearn.metrics.delong import (
    AUCComparison,
    AUCInterval,
    compare_auc,
    mean_auc_interval,
    roc_auc_interval,
)
from pairlearn.metrics.entropy import error_entropy
from pairlearn.metrics.ranking import ndcg, pair_accuracy
from pairlearn.metrics.risk import pair_risk, pair_risk_gradient

__all__ = [
    "AUCComparison",
    "AUCInterval",
    "compare_auc",
    "error_entropy",
    "mean_auc_interval",
    "ndcg",
    "pair_accuracy",
    "pair_risk",
    "pair_risk_gradient",
    "roc_auc",
    "roc_auc_interval",
]
