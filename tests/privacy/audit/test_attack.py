# SPDX-License-Identifier: BSD-3-Clause
"""Shipped mechanisms survive an audit; sabotaged copies do not.

All runs are seeded. With fresh seeds, a sound mechanism would fail a test here with probability
below 0.004 (four bounds of confidence 0.999).
"""

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from pairlearn.privacy.audit.attack import (
    _bounds,
    _smooth_counts,
    audit_statistics,
    smallest_violation,
)


def test_statement_and_perfect_separation():
    result = audit_statistics(np.ones(1000), np.zeros(1000), epsilon=1.0, delta=1e-3, mu=0.4)
    assert not result.passed
    assert result.epsilon_lower > 4.0
    same = audit_statistics(np.zeros(1000), np.zeros(1000), epsilon=1.0, delta=1e-3)
    assert same.passed
    assert same.epsilon_lower == 0.0


@pytest.mark.thorough
def test_confidence_is_kept_at_the_claim():
    # An exactly tight mechanism, 150 audits at confidence 0.9: the expected number of false alarms
    # of the mu bound is below 15; 40 or more have probability below 1e-7.
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(150):
        result = audit_statistics(
            rng.normal(0.5, 1, 400),
            rng.normal(0.0, 1, 400),
            epsilon=50.0,
            delta=1e-2,
            mu=0.5,
            confidence=0.9,
        )
        alarms += not result.passed
    assert alarms < 40


@pytest.mark.parametrize(("n", "error"), [(1, 0.05), (7, 0.01), (200, 0.3)])
def test_bounds_are_those_of_clopper_and_pearson(n, error):
    counts = np.unique([0, 1, n // 2, n - 1, n])
    low, high = _bounds(counts, n, error)
    for k, *found in zip(counts.tolist(), low, high, strict=True):
        exact = binomtest(k, n).proportion_ci(1.0 - 2.0 * error, method="exact")
        assert found == pytest.approx([exact.low, exact.high], abs=1e-12)


def test_expected_counts_are_those_of_a_normal_law():
    values = np.random.default_rng(0).normal(3.0, 2.0, 500)
    places = np.linspace(-2.0, 9.0, 7)
    law = norm(values.mean(), np.sqrt(np.mean((values - values.mean()) ** 2)))
    np.testing.assert_allclose(_smooth_counts(values, places), 500 * law.sf(places), rtol=1e-9)


def test_statistics_of_unequal_length_are_cut():
    rng = np.random.default_rng(1)
    mine, theirs = rng.normal(2.0, 1.0, 900), rng.normal(0.0, 1.0, 300)
    found = audit_statistics(mine, theirs, epsilon=1.0, delta=1e-2)
    assert found.n_runs == 300
    assert found == audit_statistics(mine[:300], theirs, epsilon=1.0, delta=1e-2)
    # a test at 1 accepts .84 and .16 of all: epsilon is 1.66 at least, and mu is 2
    assert 1.0 < found.epsilon_lower < 6.0
    assert 1.0 < found.mu_lower < 2.0


def test_the_smallest_violation_shrinks_with_the_runs():
    options = {"delta": 1e-2, "confidence": 0.95}
    assert smallest_violation(0.5, n_runs=8, **options) == np.inf
    few, many = (smallest_violation(0.5, n_runs=n, **options) for n in (200, 20_000))
    assert 0.5 < many < 0.65 < few < 4.0


@pytest.mark.thorough
def test_the_smallest_violation_is_found_in_nine_of_ten_cases():
    # Of 40 cases, 27 or less have a probability below 1e-4, and the seeds are fixed.
    true_mu = smallest_violation(0.5, 1e-2, n_runs=200, confidence=0.95)
    rng, refuted = np.random.default_rng(2), 0
    for _ in range(40):
        runs = rng.normal(true_mu, 1.0, 200), rng.normal(0.0, 1.0, 200)
        claim = audit_statistics(*runs, epsilon=50.0, delta=1e-2, mu=0.5, confidence=0.95)
        refuted += not claim.passed
    assert refuted > 27
