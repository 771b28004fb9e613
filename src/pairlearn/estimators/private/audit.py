# SPDX-License-Identifier: BSD-3-Clause
"""Audit a private estimator: attack its public output (`privacy.audit.public`)."""

from __future__ import annotations

from pairlearn.estimators.private.entries import PrivateEstimator, entry_of
from pairlearn.privacy.audit.public import PublicAudit, audit_entry


def audit_estimator(
    estimator: PrivateEstimator,
    *,
    n: int = 64,
    n_features: int = 4,
    n_runs: int = 2_000,
    confidence: float = 0.99,
    persons: bool = False,
) -> PublicAudit:
    """Audit a private estimator by attacks on its public output.

    Parameters
    ----------
    estimator : PrivateAUCClassifier, PrivateAUCStream, PrivateMetricLearner or another private one
        The estimator with its public arguments; `delta` must be given. Streams are learned in
        pieces, and a continual one is attacked by all its releases together.
    n : int, default=64
        Number of examples of the tables, or of persons.
    n_features : int, default=4
        Number of features, if `bounds` do not determine it.
    n_runs : int, default=2000
        Fits on each of two tables.
    confidence : float, default=0.99
        A sound estimator passes with this probability or more.
    persons : bool, default=False
        Whether `fit` gets `groups`, and tables differ in one person with all rows.

    Returns
    -------
    PublicAudit
        The result.

    Examples
    --------
    >>> from pairlearn import PrivateAUCClassifier
    >>> model = PrivateAUCClassifier(epsilon=1.0, delta=1e-3, bounds=(-1.0, 1.0))
    >>> audit_estimator(model, n=16, n_features=1, n_runs=8).passed
    True
    """
    entry = entry_of(estimator, n=n, n_features=n_features, persons=persons)
    return audit_entry(entry, n_runs=n_runs, confidence=confidence)
