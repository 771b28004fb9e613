# SPDX-License-Identifier: BSD-3-Clause
"""Sensitivity with confidence, and the noise that hides it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pairlearn.losses import Logistic
from pairlearn.theory import (
    binomial_upper,
    chernoff_upper,
    erm_sensitivity,
    gaussian_noise_scale,
    gaussian_privacy_loss,
    hinge_problem,
    realized_stability,
    run_path,
    sensitivity_single_pass,
    sensitivity_with_confidence,
)
from pairlearn.validation import AssumptionWarning


def test_the_printed_count_fails_beyond_its_condition():
    """Lemma 7 with t/n = 1000 > log(2/gamma): its count is exceeded too often, exactly computed.

    The sum of both indicators over the steps is at least twice the number of draws among
    i_1, ..., i_{t-1}, a binomial variable, and the lemma says that the sum exceeds
    2 (t/n + l + sqrt(t l/n)) with probability at most gamma.
    """
    n, n_steps, failure = 10**4, 10**7, 1 / 512
    options = {"lipschitz": 1.0, "smoothness": 1.0, "step_size": 1.0}
    with pytest.warns(AssumptionWarning, match=r"n_steps / n <= log\(2 / failure_probability\)"):
        printed = sensitivity_with_confidence(
            n, n_steps, failure_probability=failure, constants="paper", **options
        )
    draws_allowed = printed / 4.0  # G = eta = 1
    assert binom.sf(math.floor(draws_allowed), n_steps - 1, 1 / n) > 1.2 * failure
    corrected = sensitivity_with_confidence(n, n_steps, failure_probability=failure, **options)
    assert corrected > printed
    assert binom.sf(corrected / 4.0, n_steps + 1, 1 / n) <= failure


def test_the_settings_of_algorithm_3_are_just_outside_the_condition():
    """Rounding up n_k log(4/delta) makes t/n_k exceed log(4/delta)."""
    delta, size = 1 / 256, 128
    n_steps = math.ceil(size * math.log(4 / delta))
    with pytest.warns(AssumptionWarning):
        sensitivity_with_confidence(
            size,
            n_steps,
            lipschitz=1.0,
            smoothness=1.0,
            step_size=1.0,
            failure_probability=delta / 2,
            constants="paper",
        )


def test_the_bound_holds_for_drawn_paths():
    """2000 paths, allowed to fail 1 in 20: expected at most 100, alarm above 150 (about 1e-6)."""
    rng = np.random.default_rng(0)
    n, n_steps, eta = 40, 120, 0.1
    options = {"lipschitz": 1.0, "smoothness": 1.0}
    for method in ("exact", "chernoff"):
        bound = sensitivity_with_confidence(
            n, n_steps, step_size=eta, failure_probability=0.05, method=method, **options
        )
        exceeded = sum(
            realized_stability(
                rng.integers(n, size=n_steps + 1),
                np.full(n_steps, eta),
                n=n,
                averaging="last",
                **options,
            )[0]
            > bound
            for _ in range(2000)
        )
        assert exceeded <= 150


def test_single_pass_distances_stay_below_four_g_eta():
    """Sure: no seed may exceed it, wherever the replaced example stands."""
    problem = hinge_problem(2, loss=Logistic())
    lipschitz, smoothness, _ = problem.constants
    rng = np.random.default_rng(0)
    n, eta = 30, 0.2
    bound = sensitivity_single_pass(eta, lipschitz=lipschitz, smoothness=smoothness)
    assert bound == pytest.approx(4 * lipschitz * eta)
    etas = np.full(n - 1, eta)
    for _ in range(60):
        sample = problem.draw(n, rng)
        neighbour = sample.copy()
        neighbour[rng.integers(n)] = rng.integers(len(problem.points))
        order = rng.permutation(n)
        ends = [run_path(problem, data, order, etas)[-1] for data in (sample, neighbour)]
        assert np.linalg.norm(ends[0] - ends[1]) <= bound
    decreasing = 1.0 / np.arange(1, 5)
    assert sensitivity_single_pass(decreasing, lipschitz=1.0, smoothness=1.0) == pytest.approx(3.0)


def test_minimisers_of_neighbours_are_close():
    """f = G w s(z, z') + alpha w^2 / 2 with s in [-1, 1] has its minimiser in closed form."""
    rng = np.random.default_rng(0)
    n, alpha, lipschitz = 12, 0.7, 2.0
    for _ in range(30):
        slopes = rng.uniform(-1, 1, size=(n, n))
        changed = slopes.copy()
        changed[0, :], changed[:, 0] = rng.uniform(-1, 1, size=(2, n))
        off = ~np.eye(n, dtype=bool)
        minimisers = [-lipschitz * table[off].mean() / alpha for table in (slopes, changed)]
        assert abs(minimisers[0] - minimisers[1]) <= erm_sensitivity(
            n, lipschitz=lipschitz, strong_convexity=alpha
        )
    # and the bound is attained: all pairs of the example change from one end to the other
    slopes[0, :], slopes[:, 0] = 1.0, 1.0
    changed = slopes.copy()
    changed[0, :], changed[:, 0] = -1.0, -1.0
    minimisers = [-lipschitz * table[off].mean() / alpha for table in (slopes, changed)]
    assert abs(minimisers[0] - minimisers[1]) == pytest.approx(
        erm_sensitivity(n, lipschitz=lipschitz, strong_convexity=alpha)
    )


@given(st.integers(1, 10_000), st.floats(0.0001, 0.9), st.floats(1e-6, 0.5))
def test_counts(n_trials, probability, failure):
    quantile = binomial_upper(n_trials, probability, failure_probability=failure)
    assert binom.sf(quantile, n_trials, probability) <= failure
    assert quantile == 0 or binom.sf(quantile - 1, n_trials, probability) > failure * (1 - 1e-9)
    bound = chernoff_upper(n_trials * probability, failure_probability=failure)
    assert math.ceil(bound) >= quantile


@given(st.floats(0.05, 20), st.floats(1e-8, 0.2), st.floats(0.01, 100))
def test_the_gaussian_noise_is_sufficient_and_no_larger_than_needed(epsilon, delta, sensitivity):
    scale = gaussian_noise_scale(
        sensitivity, epsilon=epsilon, delta=delta, sensitivity_is_certain=True
    )
    assert gaussian_privacy_loss(scale / sensitivity, epsilon=epsilon) <= delta * (1 + 1e-9)
    assert gaussian_privacy_loss(0.999 * scale / sensitivity, epsilon=epsilon) > delta
    halved = gaussian_noise_scale(sensitivity, epsilon=epsilon, delta=delta)
    assert halved > scale
    if epsilon <= 1.0:
        classical = gaussian_noise_scale(
            sensitivity, epsilon=epsilon, delta=delta, constants="paper"
        )
        assert halved <= classical


def test_the_classical_noise_fails_for_large_epsilon():
    """Lemma 5 says "any epsilon"; at 20 its noise does not give delta/2."""
    epsilon, delta = 20.0, 1e-5
    with pytest.warns(AssumptionWarning, match="epsilon <= 1"):
        scale = gaussian_noise_scale(1.0, epsilon=epsilon, delta=delta, constants="paper")
    assert gaussian_privacy_loss(scale, epsilon=epsilon) > delta


def test_assumptions_are_checked():
    with pytest.raises(ValueError, match="at most 2 / smoothness"):
        sensitivity_with_confidence(
            10, 10, lipschitz=1.0, smoothness=1.0, step_size=3.0, failure_probability=0.1
        )
    with pytest.raises(ValueError, match="'exact' or 'chernoff'"):
        sensitivity_with_confidence(
            10,
            10,
            lipschitz=1.0,
            smoothness=1.0,
            step_size=1.0,
            failure_probability=0.1,
            method="normal",
        )
