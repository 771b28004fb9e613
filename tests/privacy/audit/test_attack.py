# SPDX-License-Identifier: BSD-3-Clause
"""Shipped mechanisms survive an audit; sabotaged copies do not.

All runs are seeded. With fresh seeds, a sound mechanism would fail a test here with probability
below 0.004 (four bounds of confidence 0.999).
"""

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

import pairlearn.privacy.mechanisms.sufficient_statistics as statistics_module
from pairlearn.cli.privacy import command
from pairlearn.privacy.audit.attack import (
    AuditResult,
    _bounds,
    _projections,
    _smooth_counts,
    audit,
    audit_statistics,
    smallest_violation,
)
from pairlearn.privacy.audit.replay import Neighbours, release_distances, worst_case_neighbours
from pairlearn.privacy.audit.tape import Tape
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.by_name import MECHANISMS as SCORE_MECHANISMS
from pairlearn.privacy.mechanisms.by_name import METRIC_MECHANISMS, REGRESSION_MECHANISMS
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.mechanisms.sufficient_statistics import Weights
from pairlearn.privacy.noise import NoiseSource

N_RUNS = 1000
CONFIDENCE = 0.999
MECHANISMS = {**SCORE_MECHANISMS, **METRIC_MECHANISMS, **REGRESSION_MECHANISMS}
ALL = sorted(MECHANISMS)


def runs(name):
    # Each run of this one solves several problems to high accuracy.
    return 300 if name == "localized_nonsmooth" else N_RUNS


def make_setting(epsilon=1.0, n=24, d=2, neighbours="replace", delta=1e-2):
    return PublicSetting.make(
        n,
        lower=np.full(d, -1.0),
        upper=np.full(d, 1.0),
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
    )


def sound(run):
    return NoiseSource(secure=False, seed=[7, run])


class TooQuiet(NoiseSource):
    def protect(self, values, scale):
        return super().protect(values, scale / 3)


def too_quiet(run):
    return TooQuiet(secure=False, seed=[7, run])


def same_seed(run):
    return NoiseSource(secure=False, seed=7)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.thorough
def test_shipped_mechanisms_pass(name):
    mechanism = MECHANISMS[name]()
    setting = make_setting(epsilon=3.0)
    result = audit(mechanism, setting, n_runs=runs(name), confidence=CONFIDENCE, make_source=sound)
    assert result.passed, result.statement()
    if name in ("statistics", "all_pairs", "single_pass", "metric_gradient"):
        # The audit has teeth: where the bound is tight, it sees a good part of the loss.
        assert result.mu_lower > 0.3 * setting.mu, result.statement()


# Its noise is averaged over secret draws and far from tight in any one attack.
TIGHT = [name for name in ALL if not MECHANISMS[name].secret_draws]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("maker", [too_quiet, same_seed])
@pytest.mark.thorough
def test_broken_noise_is_caught(name, maker):
    result = audit(
        MECHANISMS[name](),
        make_setting(),
        # Noise that repeats itself tells the two sides apart in every run.
        n_runs=min(runs(name), 500 if maker is too_quiet else 150),
        confidence=CONFIDENCE,
        make_source=maker,
    )
    assert not result.passed, result.statement()
    if maker is too_quiet:
        assert result.noise_upper < 0.4
    else:
        assert result.noise_correlation_lower > 0.5
    if name in TIGHT and MECHANISMS[name].learns != "regression":
        # The attack succeeds as well. A narrow window does not see errors as far apart as these.
        assert result.epsilon_lower > 0.5


class MuchTooQuiet(NoiseSource):
    def protect(self, values, scale):
        return super().protect(values, scale / 10)


@pytest.mark.thorough
def test_an_attack_on_secret_draws_succeeds_against_a_tenth_of_the_noise():
    setting = make_setting(epsilon=1.0)
    for maker, refuted in (
        (sound, False),
        (lambda run: MuchTooQuiet(secure=False, seed=[7, run]), True),
    ):
        result = audit(
            MECHANISMS["localized_sgd"](),
            setting,
            n_runs=1500,
            confidence=CONFIDENCE,
            make_source=maker,
        )
        assert (result.epsilon_lower > setting.epsilon) == refuted, result.statement()
        assert result.mu is None


@pytest.mark.thorough
def test_add_remove_sensitivity_for_replacement_is_caught(monkeypatch):
    honest = Weights.sensitivity
    monkeypatch.setattr(
        statistics_module.Weights, "sensitivity", lambda self, _: honest(self, "replace") / 2
    )
    result = audit(
        CentredStatistics(),
        make_setting(epsilon=3.0),
        n_runs=N_RUNS,
        confidence=CONFIDENCE,
        make_source=sound,
    )
    assert not result.passed, result.statement()


class WithoutLipschitzConstant(NoiseSource):
    """Noise for pairs of length 1, where they may have the length C = 0.8 sqrt(d)."""

    def protect(self, values, scale):
        return super().protect(values, scale / (0.8 * np.sqrt(len(values))))


def test_a_missing_lipschitz_constant_is_caught():
    result = audit(
        MECHANISMS["all_pairs"](),
        make_setting(d=10, epsilon=3.0),
        n_runs=N_RUNS,
        confidence=CONFIDENCE,
        make_source=lambda run: WithoutLipschitzConstant(secure=False, seed=[7, run]),
    )
    assert not result.passed, result.statement()


@pytest.mark.parametrize(
    "name", ["statistics", "all_pairs", "output_perturbation", "single_pass", "metric_gradient"]
)
@pytest.mark.thorough
def test_add_remove_passes(name):
    result = audit(
        MECHANISMS[name](),
        make_setting(epsilon=3.0, neighbours="add_remove"),
        n_runs=N_RUNS,
        confidence=CONFIDENCE,
        make_source=sound,
    )
    assert result.passed, result.statement()


@pytest.mark.thorough
def test_secure_noise_passes():
    result = audit(
        CentredStatistics(),
        make_setting(),
        n_runs=120,
        confidence=CONFIDENCE,
        make_source=lambda run: NoiseSource(secure=True, seed=[7, run]),
    )
    assert result.passed, result.statement()


def random_neighbours(seed, setting, corners):
    rng = np.random.default_rng(seed)
    n, d = setting.n_examples, setting.n_features
    Z = rng.uniform(-3, 3, (n, d))
    if corners:
        Z = 3 * np.sign(Z)
    signs = np.where(rng.random(n) < rng.random(), 1.0, -1.0)
    i = int(rng.integers(n))
    if setting.neighbours == "add_remove":
        keep = np.arange(n) != i
        return Neighbours(Z, signs, Z[keep], signs[keep])
    other, other_signs = Z.copy(), signs.copy()
    other[i] = -Z[i] if corners else rng.uniform(-3, 3, d)
    if rng.random() < 0.5:
        other_signs[i] = -signs[i]
    return Neighbours(Z, signs, other, other_signs)


@pytest.mark.parametrize("name", ALL)
@given(seed=st.integers(0, 2**32), corners=st.booleans(), epsilon=st.floats(0.1, 8.0))
@settings(max_examples=30, deadline=None)
@pytest.mark.thorough
def test_every_release_keeps_its_sensitivity(name, seed, corners, epsilon):
    mechanism = MECHANISMS[name]()
    for neighbours in mechanism.relations:
        setting = make_setting(epsilon=epsilon, n=12, d=3, neighbours=neighbours)
        pair = random_neighbours(seed, setting, corners)
        distances = release_distances(
            mechanism, pair, setting=setting, noise=NoiseSource(secure=False, seed=seed)
        )
        for distance, bound in distances:
            assert distance <= bound * (1 + 1e-9)


@pytest.mark.parametrize("name", TIGHT)
def test_worst_case_neighbours_are_nearly_the_worst(name):
    mechanism = MECHANISMS[name]()
    for neighbours in mechanism.relations:
        setting = make_setting(n=24, neighbours=neighbours)
        pair = worst_case_neighbours(setting, label_is_worst=mechanism.label_is_worst)
        distances = release_distances(
            mechanism, pair, setting=setting, noise=NoiseSource(secure=False, seed=0)
        )
        total = np.sqrt(sum(distance**2 for distance, _ in distances))
        # Stages of the localized mechanism are on disjoint examples: only one of them differs.
        assert setting.mu * 0.2 < total <= setting.mu * (1 + 1e-9)


@pytest.mark.parametrize("name", ALL)
def test_secure_release_keeps_its_sensitivity(name):
    setting = make_setting(n=12, d=3)
    for seed in range(20):
        pair = random_neighbours(seed, setting, corners=seed % 2 == 0)
        for distance, bound in release_distances(
            MECHANISMS[name](), pair, setting=setting, noise=NoiseSource(secure=True, seed=seed)
        ):
            assert distance <= bound


@pytest.mark.thorough
def test_sound_noise_is_seldom_called_broken():
    # At the default confidence; a false alarm has a probability of 0.001 an audit.
    setting = make_setting(n=8)
    for trial in range(40):
        result = audit(
            MECHANISMS["all_pairs"](),
            setting,
            n_runs=20,
            make_source=lambda run, trial=trial: NoiseSource(secure=False, seed=[11, trial, run]),
        )
        assert result.noise_upper >= 1.0
        assert result.noise_correlation_lower == 0.0


def test_statement_and_perfect_separation():
    result = audit_statistics(np.ones(1000), np.zeros(1000), epsilon=1.0, delta=1e-3, mu=0.4)
    assert not result.passed
    assert result.epsilon_lower > 4.0
    assert "REFUTED" in result.statement()
    same = audit_statistics(np.zeros(1000), np.zeros(1000), epsilon=1.0, delta=1e-3)
    assert same.passed
    assert same.epsilon_lower == 0.0
    assert "not refuted" in same.statement()


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


@pytest.mark.thorough
def test_command():
    for name in ("all_pairs", "metric_gradient"):
        options = ["--runs", "60", "--n", "10", "--d", "2", "--confidence", "0.9999"]
        answer = CliRunner().invoke(command, ["audit", "--mechanism", name, *options])
        assert answer.exit_code == 0
        assert "not refuted" in answer.output


def test_every_part_of_the_claim_counts():
    sound = {"epsilon": 1.0, "delta": 1e-3, "epsilon_lower": 1.0, "mu": 0.5, "mu_lower": 0.5,
             "n_runs": 10, "confidence": 0.9, "noise_upper": 1.0}  # fmt: skip
    assert AuditResult(**sound).passed
    assert AuditResult(**{**sound, "mu": None, "mu_lower": 9.0}).passed
    for broken in (
        {"epsilon_lower": 1.01},
        {"mu_lower": 0.51},
        {"noise_upper": 0.99},
        {"noise_correlation_lower": 0.01},
    ):
        assert not AuditResult(**{**sound, **broken}).passed


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


def test_each_run_has_a_number_of_its_own():
    asked = []

    def maker(run):
        asked.append(run)
        return sound(run)

    result = audit(MECHANISMS["all_pairs"](), make_setting(n=8), n_runs=9, make_source=maker)
    assert sorted(asked) == list(range(18))
    assert 1.0 <= result.noise_upper < 5.0


def test_log_likelihood_ratios_have_the_law_of_the_claim(monkeypatch):
    # One Gaussian release, mu apart: the ratio is normal with mean mu^2 / 2 and deviation mu. Of
    # 400 runs the mean has the deviation mu / 20, and six of those are allowed.
    seen = []
    module = "pairlearn.privacy.audit.attack"
    monkeypatch.setattr(f"{module}.audit_statistics", lambda *v, **_: seen.append(v) or RESULT)
    mechanism, setting = MECHANISMS["all_pairs"](n_steps=1), make_setting(n=8)
    pair = worst_case_neighbours(setting)
    audit(mechanism, setting, n_runs=400, make_source=sound)
    ((distance, _),) = release_distances(
        mechanism, pair, setting=setting, noise=NoiseSource(secure=False, seed=0)
    )
    for values, sign in zip(seen[0], (1.0, -1.0), strict=True):
        assert abs(values.mean() - sign * distance**2 / 2) < 0.3 * distance
        assert values.std() == pytest.approx(distance, rel=0.2)


RESULT = AuditResult(1.0, 1e-2, 0.0, None, 0.0, 400, 0.95)


class MadeUp:
    """Runs with two releases, of which the second differs by more of its noise."""

    n_runs = 6

    def recorded(self, world):
        for run in range(self.n_runs):
            tape = Tape()
            tape.outputs = [np.array([world, 5.0, run]), np.array([3.0, 2.0]) * world]
            tape.scales = [1.0, 2.0]
            yield tape, None


def test_secret_draws_are_attacked_by_the_release_that_shows_most():
    # the means differ by (-1, 0, 0) and (-3, -2): 1 and 1.8 units of noise
    mine, theirs = _projections(MadeUp())
    np.testing.assert_allclose(mine, np.zeros(6))
    np.testing.assert_allclose(theirs, np.full(6, -13.0))
