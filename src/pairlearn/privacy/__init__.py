# SPDX-License-Identifier: BSD-3-Clause
"""Private pairwise learning: begin with `PrivateAUCClassifier.fit` and follow what it calls.

`records` reads private data cell by cell, `release` is the one door to noise (paid for by the
ledger of `accounting`), `bounds` narrows or finds bounds, `public_maps` makes maps of public
numbers, `mechanisms` learn from noisy releases, `votes` and `evaluation` answer other questions,
and `audit` attacks all of it. Each claim has a lemma in ``docs/privacy/lemmas.md``. `recipes` holds
the paper's own private algorithms.
"""

from __future__ import annotations

from pairlearn.lazy import door

__getattr__, __dir__, __all__ = door(
    __name__,
    {
        "accounting.certificate": "Certificate PrivacyWarning Release accounting_problems",
        "accounting.gaussian": "compose epsilon_of_mu gaussian_delta mu_of",
        "accounting.ledger": "BudgetExceededError LedgerFileError PrivacyLedger",
        "audit.attack": "AuditResult audit_statistics",
        "audit.exact": "Entry",
        "audit.mechanism": "check_mechanism",
        "audit.neighbours": "neighbouring_tables",
        "audit.public": "audit_entry",
        "bounds": "PrivateBounds find_bounds",
        "evaluation": "PrivateAUC PrivateROC private_roc_auc private_roc_curve scores_of_each "
        "select_privately",
        "mechanisms.all_pairs": "AllPairsGradient",
        "mechanisms.base": "Mechanism PrivateFit PublicSetting certify",
        "mechanisms.by_name": "MECHANISMS get_mechanism",
        "mechanisms.centred": "CentredStatistics",
        "mechanisms.noisy_sgd": "NoisySGD",
        "mechanisms.tree": "TreeStatistics",
        "noise": "NoiseSource",
        "planner": "PrivacyPlan expected_auc plan",
        "recipes": "PRIVATE_RECIPES",
        "release": "release_vector",
    },
)
