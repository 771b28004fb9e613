# SPDX-License-Identifier: BSD-3-Clause
from itertools import permutations

import numpy as np
import pytest

from pairlearn.experiments.paper.private_regimes import REGIMES, Regime, regime_auc
from pairlearn.experiments.paper.targets import Settings, Shelf, reproduce, write_reproduction
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.planner import expected_auc, plan, simulated_auc
from pairlearn.privacy.quartiles import PrivateBounds
from pairlearn.privacy.selection import select_privately


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "positives"),
    [(250, 5, 1.0, 0.5), (1000, 20, 0.3, 0.5), (1000, 60, 1.0, 0.5), (4000, 20, 1.0, 0.1)],
)
@pytest.mark.thorough
def test_the_model_agrees_with_the_mechanism(n, d, epsilon, positives):
    found = simulated_auc(n, d, epsilon=epsilon, positives=positives, n_runs=40)
    assert found == pytest.approx(
        expected_auc(n, d, epsilon=epsilon, positives=positives), abs=0.03
    )


@pytest.mark.parametrize(("width", "search"), [(10.0, False), (10.0, True), (100.0, True)])
def test_the_model_knows_what_wide_bounds_cost(width, search):
    # Standard errors of the simulation are about .01.
    found = simulated_auc(1000, 8, epsilon=1.0, width=width, search=search, n_runs=30)
    chosen = PrivateBounds(0, 1) if search else None
    expected = expected_auc(1000, 8, epsilon=1.0, width=width, search=chosen)
    assert found == pytest.approx(expected, abs=0.04)


def test_the_plan_says_whether_private_bounds_pay():
    assert plan(1000, 8, epsilon=1.0).searched_auc is None
    narrow, wide = plan(1000, 8, epsilon=1.0, width=2.0), plan(1000, 8, epsilon=1.0, width=50.0)
    assert not narrow.private_bounds_pay
    assert "that does not pay" in narrow.statement()
    assert wide.private_bounds_pay
    assert "50 times too wide" in wide.statement()
    # With little budget the counts are noise.
    assert not plan(256, 30, epsilon=0.1, width=7.0).private_bounds_pay
    with pytest.raises(ValueError, match="width must be 1 or more"):
        plan(1000, 8, epsilon=1.0, width=0.5)


def test_more_of_everything_helps():
    auc = [expected_auc(n, 20, epsilon=1.0) for n in (100, 1000, 10_000)]
    assert auc == sorted(auc)
    auc = [expected_auc(1000, 20, epsilon=epsilon) for epsilon in (0.1, 1.0, 10.0)]
    assert auc == sorted(auc)
    assert expected_auc(1000, 20, epsilon=10.0) <= expected_auc(1000, 20, epsilon=None)
    assert expected_auc(1000, 5, epsilon=1.0) > expected_auc(1000, 50, epsilon=1.0)
    assert 0.5 < expected_auc(1000, 1, epsilon=1.0) <= 0.8


def test_plan_names_the_smallest_useful_n():
    result = plan(20_000, 30, epsilon=1.0, positives=0.1)
    assert 0 <= result.loss < 0.05
    smaller = plan(result.smallest_n // 2, 30, epsilon=1.0, positives=0.1)
    enough = plan(result.smallest_n, 30, epsilon=1.0, positives=0.1)
    assert enough.loss <= 0.02 < smaller.loss
    assert f"{result.smallest_n:,} examples" in result.statement()
    stricter = plan(20_000, 30, epsilon=1.0, positives=0.1, tolerance=0.005)
    assert stricter.smallest_n > result.smallest_n


def test_bad_guesses_are_refused():
    with pytest.raises(ValueError, match="best_auc"):
        expected_auc(100, 2, epsilon=1.0, best_auc=0.4)
    with pytest.raises(ValueError, match="positives"):
        expected_auc(100, 2, epsilon=1.0, positives=0.0)
    with pytest.raises(ValueError, match="tolerance"):
        plan(100, 2, epsilon=1.0, tolerance=0.0)


@pytest.mark.slow
def test_predictions_beside_simulations(tmp_path):
    settings = Settings(store=tmp_path / "none.sqlite", n_splits=8)
    (outcome,) = reproduce(["private-planner"], settings, Shelf(settings))
    assert "Root mean square error 0.0" in " ".join(outcome.text.split())
    assert len(outcome.parts[1].rows) == 72


def brute_utility(scores, signs):
    n = len(signs)
    total = 0.0
    for i in range(n):
        for j in range(n):
            if signs[i] == 1 and signs[j] != 1:
                total += (scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j])
    return total / (n * (n - 1))


def test_utility_counts_pairs_and_keeps_its_sensitivity(pair_utility):
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(2, 9))
        scores = rng.integers(0, 4, n).astype(float)
        signs = rng.choice([-1, 1], n)
        value = pair_utility(scores[:, None], signs)[0]
        assert value == pytest.approx(brute_utility(scores, signs))
        scores[0], signs[0] = rng.integers(0, 4), rng.choice([-1, 1])
        assert abs(pair_utility(scores[:, None], signs)[0] - value) <= 1 / n + 1e-12


@pytest.mark.thorough
def test_selection_has_the_law_of_permute_and_flip(pair_utility):
    # Three models, 4000 draws, chi-square at a fixed seed; false-alarm rate of a fresh one 1e-4.
    from scipy.stats import chisquare

    scores = np.array([[2.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 2.0, 1.0]])
    signs = np.array([1, -1, -1])
    epsilon = 2.0
    exponents = 0.5 * epsilon * 3 * pair_utility(scores, signs)
    heads = np.exp(exponents - exponents.max())
    law = np.zeros(3)
    for order in permutations(range(3)):
        left = 1.0 / 6.0
        for model in order:
            law[model] += left * heads[model]
            left *= 1.0 - heads[model]
    noise = NoiseSource(secure=False, seed=1)
    counts = np.bincount(
        [select_privately(scores, signs, epsilon=epsilon, noise=noise) for _ in range(4000)],
        minlength=3,
    )
    assert chisquare(counts, 4000 * law).pvalue > 1e-4


def test_selection_is_paid_for():
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
    select_privately(np.zeros((4, 2)), np.ones(4), epsilon=0.4, ledger=ledger)
    assert ledger.spent_epsilon == pytest.approx(0.4)
    with pytest.raises(ValueError, match="scores must be a table"):
        select_privately(np.zeros(4), np.ones(4), epsilon=0.4)


@pytest.mark.thorough
def test_regimes(tmp_path):
    assert {regime.n_features for regime in REGIMES} >= {8, 64, 200}
    correlated = Regime(20_000, 3, correlation=0.5)
    mean, error = regime_auc(correlated, CentredStatistics(n_rounds=2), epsilon=4.0, n_runs=3)
    # The best is .85, and no direction does better.
    assert 0.84 < mean <= 0.85
    assert error < 0.01
    settings = Settings(store=tmp_path / "none.sqlite", n_splits=1)
    (outcome,) = reproduce(["private-regimes"], settings, Shelf(settings))
    table = outcome.parts[1]
    assert len(table.columns) == 11
    assert len(table.rows) == 2 * len(REGIMES)
    # No direction is better than the best linear score.
    assert all(0.15 < cell.value < 0.851 for row in table.rows for cell in row[5:])
    assert "Standard errors are at most" in " ".join(outcome.text.split())
    page = write_reproduction([outcome], tmp_path, settings=settings, shelf=Shelf(settings))
    assert "private-regimes-auc" in page.read_text()


def test_number_of_rounds():
    with pytest.raises(ValueError, match="n_rounds"):
        CentredStatistics(n_rounds=4)
