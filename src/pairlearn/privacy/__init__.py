# SPDX-License-Identifier: BSD-3-Clause
"""Private pairwise learning: accounting, mechanisms, certificates, audit and planner."""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "accounting.certificate": "Certificate Release",
        "accounting.gaussian": "compose epsilon_curve epsilon_of_mu gaussian_delta mu_of "
        "noise_scale_for",
        "accounting.ledger": "BudgetExceededError PrivacyLedger",
        "accounting.ledger_file": "LedgerFile LedgerFileError",
        "accounting.page": "promise_page",
        "accounting.spend": "Budget Spend",
        "accounting.verify": "accounting_problems",
        "audit.attack": "AuditResult audit_statistics",
        "audit.check": "check_mechanism",
        "audit.entry": "Entry",
        "audit.neighbours": "neighbouring_tables",
        "audit.public": "audit_entry",
        "evaluation": "PrivateAUC PrivateROC private_roc_auc private_roc_curve",
        "expected": "expected_auc simulated_auc",
        "mechanisms.base": "Mechanism PrivateFit PublicSetting certify",
        "mechanisms.by_name": "MECHANISMS METRIC_MECHANISMS REGRESSION_MECHANISMS get_mechanism",
        "mechanisms.centred": "CentredStatistics",
        "mechanisms.gradient": "AllPairsGradient LocalizedGradient OutputPerturbation",
        "mechanisms.localized_hinge": "LocalizedHinge",
        "mechanisms.localized_sgd": "LocalizedPairSGD",
        "mechanisms.metric_gradient": "MetricGradient",
        "mechanisms.noisy_entropy": "NoisyEntropySGD",
        "mechanisms.noisy_sgd": "NoisyMetricSGD NoisySGD",
        "mechanisms.single_pass": "SinglePass",
        "mechanisms.tree": "TreeStatistics",
        "noise": "NoiseSource",
        "planner": "PrivacyPlan plan",
        "quartiles": "PrivateBounds find_bounds",
        "release": "release_vector",
        "scores_of_each": "scores_of_each",
        "selection": "select_privately",
    },
)
