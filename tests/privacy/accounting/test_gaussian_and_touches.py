# SPDX-License-Identifier: BSD-3-Clause
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn import PrivateAUCClassifier, private_roc_auc
from pairlearn.estimators import PrivateRatings
from pairlearn.privacy.accounting.gaussian import (
    compose,
    epsilon_curve,
    epsilon_of_mu,
    gaussian_delta,
    mixture_delta,
    mixture_noise_scale,
    mu_of,
    noise_scale_for,
)
from pairlearn.privacy.accounting.touches import _power

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
    assert noise_scale_for(1.0, epsilon, delta) == pytest.approx(loss.standard_deviation, rel=1e-6)
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


def test_composition_and_curve():
    assert compose([0.3] * 4) == pytest.approx(0.6)
    curve = epsilon_curve(0.46, [1e-2, 1e-4, 1e-8])
    assert (np.diff(curve) > 0).all()


@pytest.mark.parametrize(("n", "weights"), [(2, (1, 1, 1)), (3, (2, 1, 0)), (3, (3, 1, 2, 1))])
def test_touch_distribution_matches_enumeration(n, weights, touch_distribution):
    law = np.zeros(sum(weights) + 1)
    for sequence in itertools.product(range(n), repeat=len(weights) + 1):
        touched = sum(
            weight
            for t, weight in enumerate(weights, start=1)
            if sequence[t] == 0 or sequence[t - 1] == 0
        )
        law[touched] += 1 / n ** (len(weights) + 1)
    assert np.allclose(touch_distribution(n, weights), law, atol=1e-15)
    cut = touch_distribution(n, weights, largest=3)
    assert np.allclose(cut[:3], law[:3])
    assert cut[3] == pytest.approx(law[3:].sum())


def test_exact_noise_of_localized_stage(touch_distribution):
    # n_k = 128, T_k = ceil(128 log(4 * 256)) = 888, the last iterate and the delayed average.
    n, n_steps = 128, math.ceil(128 * math.log(4 * 256))
    count = touch_distribution(n, np.ones(n_steps, dtype=int))
    values = np.arange(len(count))
    assert n_steps == 888
    expected = {0.2: 122.0, 1.0: 37.8, 2.0: 22.9}
    for epsilon, scale in expected.items():
        found = mixture_noise_scale(values, count, epsilon=epsilon, delta=1 / 256)
        assert found == pytest.approx(scale, rel=5e-3)
        assert mixture_delta(epsilon, values, count, noise_scale=found) <= 1 / 256


@pytest.mark.thorough
def test_exact_noise_of_the_delayed_average(touch_distribution):
    n, n_steps = 128, 888
    weights = np.maximum(n_steps - 1 - np.arange(1, n_steps + 1), 0)
    law = touch_distribution(n, weights, largest=60 * n_steps)
    values = np.arange(len(law)) / n_steps
    values[-1] = np.inf
    for epsilon, scale in {0.2: 64.1, 1.0: 20.2, 2.0: 12.3}.items():
        found = mixture_noise_scale(values, law, epsilon=epsilon, delta=1 / 256)
        assert found == pytest.approx(scale, rel=2e-2)


def test_mixture_of_one_value_is_the_gaussian_mechanism():
    found = mixture_noise_scale([2.0], [1.0], epsilon=0.7, delta=1e-6)
    assert found == pytest.approx(noise_scale_for(2.0, 0.7, 1e-6), rel=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mu_of(0.0, 0.1),
        lambda: mu_of(1.0, 0.0),
        lambda: gaussian_delta(-1.0, 1.0),
        lambda: mixture_delta(1.0, [1.0], [0.5, 0.5], noise_scale=1.0),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(ValueError, match=r"must"):
        call()


@pytest.mark.parametrize("cap", [3, 30])
def test_steps_are_counted_up_to_the_cap(cap):
    # All 3^5 courses of five steps: a step counts if its index or the last one is example 0.
    n, length = 3, 5
    found = _power(n, length, cap=cap)
    for first in range(2):
        law = np.zeros((2, length + 1))
        for course in itertools.product(range(n), repeat=length):
            # any other example stands for all of them
            indices = [0 if first else 1, *course]
            touched = sum(0 in pair for pair in itertools.pairwise(indices))
            law[int(indices[-1] == 0), touched] += n**-length
        for last in range(2):
            kept = law[last][: cap + 1]
            assert len(found[first][last]) == len(kept)
            np.testing.assert_allclose(found[first][last], kept, atol=1e-15)
