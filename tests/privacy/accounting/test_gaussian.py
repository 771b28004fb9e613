# SPDX-License-Identifier: BSD-3-Clause
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn import PrivateAUCClassifier, private_roc_auc
from pairlearn.estimators import PrivateRatings
from pairlearn.privacy.accounting.gaussian import (
    epsilon_of_mu,
    gaussian_delta,
    mu_of,
)

EPSILONS = [0.2, 0.5, 1.0, 2.0, 8.0]
DELTAS = [1 / 256, 1e-5, 1e-9]


def test_an_epsilon_whose_grid_would_overflow_is_refused():
    X, y = [[0.0], [1.0]], [0, 1]
    for call in (
        lambda: PrivateAUCClassifier(1e20, 0.1, bounds=(0, 1)).fit(X, y),
        lambda: private_roc_auc(y, [0.0, 1.0], epsilon=1e20, delta=0.1),
        lambda: PrivateRatings(1e20, 0.1, players=["ann", "bob"]).fit(["ann"], ["bob"]),
    ):
        with pytest.raises(ValueError, match=r"epsilon must be at most 1e\+09, got 1e\+20"):
            call()


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_mu_of_is_the_largest_safe_budget(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert gaussian_delta(mu * (1 + 1e-9), epsilon) > delta


@given(mu=st.floats(1e-3, 20.0), delta=st.floats(1e-10, 0.3))
@settings(max_examples=60, deadline=None)
def test_epsilon_and_mu_are_inverse(mu, delta):
    epsilon = epsilon_of_mu(mu, delta)
    if epsilon > 1e-6:
        assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-8)
        assert gaussian_delta(mu, epsilon) <= delta * (1 + 1e-9)
    else:
        assert gaussian_delta(mu, 0.0) <= delta + 1e-9


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0])
@pytest.mark.thorough
def test_matches_dp_accounting_pld(epsilon):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    mu = mu_of(epsilon, 1 / 256)
    shares = (0.15, 0.15, 0.7)
    composed = None
    for share in shares:
        part = pld.from_gaussian_mechanism(
            1 / (mu * math.sqrt(share)), value_discretization_interval=3e-5 * max(1.0, epsilon)
        )
        composed = part if composed is None else composed.compose(part)
    # Their estimate is an upper bound whose error shrinks with the discretisation interval.
    assert composed.get_epsilon_for_delta(1 / 256) == pytest.approx(epsilon, abs=1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_matches_dp_accounting_analytic_gaussian(epsilon, delta):
    common = pytest.importorskip("dp_accounting.pld.common")
    mechanism = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    loss = mechanism.GaussianPrivacyLoss.from_privacy_guarantee(
        common.DifferentialPrivacyParameters(epsilon, delta)
    )
    assert 1.0 / mu_of(epsilon, delta) == pytest.approx(loss.standard_deviation, rel=1e-6)
    assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-5)


def test_figures_at_delta_one_over_256():
    found = [mu_of(epsilon, 1 / 256) for epsilon in (0.2, 0.5, 0.8, 1.0, 1.5, 2.0)]
    assert np.allclose(found, [0.1304, 0.2655, 0.3852, 0.4600, 0.6345, 0.7960], atol=5e-5)


def test_extremes_do_not_overflow():
    assert gaussian_delta(1e-6, 50.0) == 0.0
    assert gaussian_delta(200.0, 1.0) == pytest.approx(1.0)
    assert gaussian_delta(math.inf, 1.0) == 1.0
    assert epsilon_of_mu(50.0, 1e-9) > 1000
    assert mu_of(1e-4, 1e-12) > 0
