# SPDX-License-Identifier: BSD-3-Clause
import itertools
import math
import re
import warnings
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from pairlearn import PrivacyWarning, PrivateAUCClassifier
from pairlearn.experiments.paper.private_regimes import REGIMES, Regime, regime_auc
from pairlearn.experiments.paper.targets import Settings, Shelf, reproduce, write_reproduction
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.expected import FitModel, expected_auc, simulated_auc
from pairlearn.privacy.mechanisms.base import PublicSetting
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.narrowing import ask_table, narrowed
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.planner import plan
from pairlearn.privacy.quartiles import PrivateBounds
from pairlearn.privacy.selection import select_privately


def simulated(n, d, *, n_runs, **facts):
    """Return the AUC of each of several simulated fits."""
    return np.array([simulated_auc(n, d, n_runs=1, seed=run, **facts) for run in range(n_runs)])


def in_range(aucs, result):
    """Return the share of AUCs in the range that the text prints: two digits, outwards."""
    low, high = np.floor(100 * result.low) / 100, np.ceil(100 * result.high) / 100
    return np.mean((aucs >= low) & (aucs <= high))


# Standard errors of 20 simulated fits are at most .012, and the model is right within .02 in nine
# cases of ten; the seeds are fixed.
@pytest.mark.parametrize(
    ("n", "d", "epsilon", "guesses"),
    [
        (250, 5, 1.0, {}),
        (1000, 20, 0.3, {}),
        (500, 8, 0.5, {"positives": 0.3, "best_auc": 0.9, "range_over_spread": 4.0}),
        (500, 8, 0.5, {"positives": 0.3, "best_auc": 0.7, "range_over_spread": 24.0}),
        (1000, 8, 1.0, {"range_over_spread": 800.0}),
    ],
)
def test_the_plan_agrees_with_simulated_fits(n, d, epsilon, guesses):
    result = plan(n, d, epsilon=epsilon, **guesses)
    found = simulated(n, d, epsilon=epsilon, search=result.private_bounds_pay, n_runs=20, **guesses)
    assert found.mean() == pytest.approx(result.private_auc, abs=0.03)
    assert in_range(found, result) >= 0.8


# Standard errors are at most .01. The bounds are narrowed, so wide ones cost little.
@pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")
@pytest.mark.parametrize(
    ("n", "d", "epsilon", "ratio"), [(2000, 10, 0.5, 100.0), (2000, 10, 1.0, 400.0)]
)
def test_the_plan_knows_that_fits_narrow_wide_bounds(n, d, epsilon, ratio):
    result = plan(n, d, epsilon=epsilon, range_over_spread=ratio)
    found = []
    for run in range(8):
        rng = np.random.default_rng([3, run])
        y = rng.integers(0, 2, n)
        axis = rng.normal(size=d)
        axis /= np.linalg.norm(axis)
        gap = math.sqrt(2) * NormalDist().inv_cdf(0.8)
        X = rng.normal(size=(n, d)) + np.outer(y, gap * axis)
        off = rng.uniform(-0.25, 0.25, d) * ratio
        model = PrivateAUCClassifier(
            epsilon, result.delta, bounds=(off - ratio / 2, off + ratio / 2), random_state=run
        ).fit(X, y)
        w = model.coef_.ravel()
        found.append(NormalDist().cdf(gap / math.sqrt(2) * (w @ axis) / np.linalg.norm(w)))
    assert np.mean(found) == pytest.approx(result.public_bounds_auc, abs=0.03)
    # As if nothing were narrowed, less than .75 is expected of both.
    assert result.public_bounds_auc > 0.77
    assert result.searched_bounds_auc < result.public_bounds_auc + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("best_auc", [0.7, 0.8, 0.9])
@pytest.mark.parametrize("positives", [0.5, 0.1])
@pytest.mark.parametrize("range_over_spread", [4.0, 8.0, 30.0, 200.0])
def test_the_plan_agrees_with_many_simulated_fits(best_auc, positives, range_over_spread):
    guesses = {
        "best_auc": best_auc, "positives": positives, "range_over_spread": range_over_spread
    }  # fmt: skip
    errors, covered = [], []
    for n, d, epsilon in itertools.product((300, 1200, 5000), (3, 12, 40), (0.3, 1.0, 3.0)):
        result = plan(n, d, epsilon=epsilon, largest_loss=0.01, **guesses)
        found = simulated(
            n, d, epsilon=epsilon, search=result.private_bounds_pay, n_runs=30, **guesses
        )
        errors.append(found.mean() - result.private_auc)
        covered.append(in_range(found, result))
    print(guesses, np.sqrt(np.mean(np.square(errors))), np.mean(covered))
    assert np.sqrt(np.mean(np.square(errors))) < 0.03
    assert np.mean(covered) > 0.88


def test_what_the_plan_promises_of_other_settings_is_what_they_give():
    facts = {"range_over_spread": 30.0, "positives": 0.3}
    result = plan(600, 8, epsilon=0.5, **facts)
    assert result.twice_the_data_auc == plan(1200, 8, epsilon=0.5, **facts).private_auc
    assert result.twice_epsilon_auc == plan(600, 8, epsilon=1.0, **facts).private_auc
    narrow = plan(600, 8, epsilon=0.5, range_over_spread=15.0, positives=0.3)
    assert result.half_the_range_auc == narrow.private_auc
    assert result.low < result.private_auc < result.high < result.nonprivate_auc + 0.01
    assert result.nonprivate_auc == expected_auc(600, 8, epsilon=None, positives=0.3)
    # Half of 8 standard deviations would cut off data.
    assert plan(600, 8, epsilon=0.5).half_the_range_auc is None


def test_the_plan_in_words():
    text = plan(500, 10, epsilon=0.3, range_over_spread=30.0).statement()
    head, others, needs, bounds, protected, assumed, _ = text.splitlines()
    assert head.startswith("With 500 examples, 10 features and epsilon 0.3, expect an AUC of about")
    assert head.endswith("where a model without privacy has 0.79.")
    for words in ("Twice as many examples", "epsilon 0.6 about", "bounds half as wide about"):
        assert words in others
    assert re.search(
        r"A loss of at most 0.02 needs about [\d,]+ examples at epsilon 0.3, or ", needs
    )
    assert "bounds as they are" in bounds
    assert "one example replaced" in protected
    assert "a range of 30 standard deviations" in assumed
    hopeless = plan(100, 1 << 40, epsilon=0.1, largest_loss=0.001).statement()
    assert "No realistic number of examples and no epsilon up to 10 keeps the loss" in hopeless


def test_persons_count_in_place_of_examples():
    result = plan(2000, 10, epsilon=0.5, n_persons=500)
    alone = plan(500, 10, epsilon=0.5)
    assert result.private_auc == alone.private_auc
    assert (result.smallest_n, result.delta) == (alone.smallest_n, alone.delta)
    assert "With 500 persons (2,000 examples)" in result.statement()
    assert "one person replaced by another" in result.statement()
    # Four rows of a person that are alike say as much as one, and get the same noise.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    X = rng.normal(size=(500, 4)) + 0.6 * y[:, None]
    model = PrivateAUCClassifier(0.5, bounds=(-4.0, 5.0), random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        once = clone(model).fit(X, y).coef_
        rows = np.repeat(np.arange(500), 4)
        again = clone(model).fit(X[rows], y[rows], groups=rows).coef_
    assert again == pytest.approx(once, rel=0.01)


def test_the_smallest_epsilon_is_enough_and_hardly_less_is():
    result = plan(2000, 10, largest_loss=0.01)
    assert result.epsilon == result.smallest_epsilon
    assert result.loss <= 0.01 < plan(2000, 10, epsilon=0.94 * result.epsilon).loss
    assert plan(2000, 10, epsilon=3.0, largest_loss=0.01).smallest_epsilon == result.epsilon
    with pytest.raises(ValueError, match="no epsilon up to 10 keeps the loss within"):
        plan(100, 1000, largest_loss=0.001)


def test_the_plan_says_whether_private_bounds_pay():
    narrow = plan(1000, 8, epsilon=0.5)
    # Wide bounds that a fit does not narrow, since its counts would be noise.
    wide = plan(600, 20, epsilon=0.5, range_over_spread=100.0)
    assert not narrow.private_bounds_pay
    assert narrow.private_auc == narrow.public_bounds_auc
    assert "Use the bounds as they are" in narrow.statement()
    assert wide.private_bounds_pay
    assert wide.private_auc == wide.searched_bounds_auc
    assert "Let the library find narrower bounds" in wide.statement()
    # With little budget the counts are noise.
    assert not plan(256, 30, epsilon=0.1, range_over_spread=50.0).private_bounds_pay


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
    assert "examples at epsilon 1" in result.statement()
    stricter = plan(20_000, 30, epsilon=1.0, positives=0.1, largest_loss=0.005)
    assert stricter.smallest_n > result.smallest_n


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"best_auc": 0.4}, "best_auc must lie between"),
        ({"best_auc": math.nan}, "best_auc must lie between"),
        ({"positives": 0.0}, "positives must lie strictly"),
        ({"positives": 1e-9}, "less than one of 100"),
        ({"largest_loss": 0.0}, "largest_loss must lie between"),
        ({"largest_loss": 0.4}, "no model loses more than it has"),
        ({"largest_loss": math.nan}, "largest_loss must lie between"),
        ({"epsilon": -1.0}, "epsilon must be a positive number"),
        ({"epsilon": math.inf}, "epsilon must be a positive number"),
        ({"epsilon": 1e308}, "epsilon must be at most 1000"),
        ({"delta": 1.0}, "delta must lie strictly"),
        ({"range_over_spread": 1.9}, "at most half of it"),
        ({"range_over_spread": math.inf}, "range_over_spread must lie between"),
        ({"range_over_spread": math.nan}, "range_over_spread must lie between"),
        ({"n_persons": 101}, "more than n_examples=100"),
        ({"n_persons": 1}, "n_persons must be at least 2"),
        ({"n_examples": 10**400}, "no data are larger"),
        ({"n_features": 0}, "n_features must be at least 1"),
    ],
)
def test_bad_guesses_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        plan(**{"n_examples": 100, "n_features": 2, "epsilon": 1.0, **wrong})


@pytest.mark.slow
def test_predictions_beside_simulations(tmp_path):
    settings = Settings(store=tmp_path / "none.sqlite", n_splits=8)
    (outcome,) = reproduce(["private-planner"], settings, Shelf(settings))
    assert "Root mean square error 0.0" in " ".join(outcome.text.split())
    assert len(outcome.parts[1].rows) == 108


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
    for order in itertools.permutations(range(3)):
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
    assert "One has no standard error." in " ".join(outcome.text.split())
    page = write_reproduction([outcome], tmp_path, settings=settings, shelf=Shelf(settings))
    assert "private-regimes-auc" in page.read_text()


def test_number_of_rounds():
    with pytest.raises(ValueError, match="n_rounds"):
        CentredStatistics(n_rounds=4)


def drawn_aucs(n, d, mu, p, reach, widths, rng):
    """Return the AUCs of fits with these widths of bounds, one a row, as formulas say it."""
    axis = rng.normal(size=widths.shape)
    axis /= np.linalg.norm(axis, axis=1)[:, None]
    found = 2 * p * (1 - p) * math.sqrt(2) * reach * axis
    found += math.sqrt(4 * p * (1 - p) / n) * rng.normal(size=widths.shape)
    found *= 1 - 2 * stats.norm.sf(3 * widths)
    label = abs(2 * p - 1)
    b = max(0.3, 1.2 * label)
    sigma = 2 * math.sqrt(1 + b * b) / (n * mu * math.sqrt(0.78))
    both = sigma**2 * (1 + label**2 / b**2)
    aucs = []
    for x, r, u in zip(found, widths, axis, strict=True):
        length = np.mean(1 / r**2) + 0.45**2
        x = x + math.sqrt(both * 0.85**2 * length * (d + 1)) * r * rng.normal(size=d)
        trace = min(np.mean(1 / r**2) / (0.85**2 * length), 0.9)
        S = np.diag(trace / d * r**-2.0 / np.mean(r**-2.0))
        blur = sigma**2 / ((1 + b * b) / 2) * d * (d + 1) / 2
        apart = S - trace / d * np.eye(d)
        k = 1 - blur / (np.sum(apart**2) + blur + trace**2 / n)
        signal = np.sum((x / r) ** 2) / (0.85**2 * length * d) - d * both
        ridge = both * trace / max(signal, 0.2 * d * both)
        ridge += sigma * math.sqrt(d / ((1 + b * b) / 2))
        w = np.linalg.solve(trace / d * np.eye(d) + k * apart + ridge * np.eye(d), x / r) / r
        aucs.append(stats.norm.cdf(reach * (w @ u) / np.linalg.norm(w)))
    return np.array(aucs)


@pytest.mark.parametrize("search", [None, PrivateBounds(0.0, 1.0), PrivateBounds(share=0.4)])
@pytest.mark.parametrize(
    ("n", "d", "epsilon", "facts"),
    [(300, 1, 0.4, {}), (800, 6, 0.7, {"positives": 0.2, "best_auc": 0.9}),
     (1500, 30, 1.0, {"range_over_spread": 40.0}), (60, 4, 2.0, {"positives": 0.3})],
)  # fmt: skip
def test_the_law_is_that_of_directions_with_normal_errors(n, d, epsilon, facts, search):
    a, p = facts.get("best_auc", 0.8), facts.get("positives", 0.5)
    mu = mu_of(epsilon, min(1 / (10 * n), n**-1.5))
    model, rng = FitModel(d, a, p, facts.get("range_over_spread", 8.0)), np.random.default_rng(1)
    aucs = model.aucs(n, mu, search)
    if search is None:
        # What a fit spends to narrow bounds, and what it finds, has a test below.
        ranges, mu = model.narrowed(n, mu)
        widths = rng.choice(ranges, size=(1000, d)) / 6
    else:
        q = math.sqrt(2 * d * search.levels / search.share) / (n * mu)
        widths = (1.1 + 2.8 * q) * np.exp(np.clip(4 * q * rng.normal(size=(1000, d)), -9, 9))
        mu *= math.sqrt(1 - search.share)
    drawn = drawn_aucs(n, d, mu, p, stats.norm.ppf(a), widths, rng)
    assert expected_auc(n, d, epsilon=epsilon, search=search, **facts) == aucs.mean()
    # Five standard errors of a mean of 1,000 and one of 400; shares of both are .09 apart with a
    # probability below 1e-3.
    error = 5 * drawn.std() * math.hypot(1 / math.sqrt(1000), 1 / math.sqrt(400))
    assert aucs.mean() == pytest.approx(drawn.mean(), abs=error + 1e-12)
    for level in (0.1, 0.5, 0.9):
        low, high = np.quantile(drawn, [max(level - 0.09, 0.0), min(level + 0.09, 1.0)])
        assert low - 1e-12 <= np.quantile(aucs, level) <= high + 1e-12


@pytest.mark.parametrize(("n", "d"), [(60, 4), (500, 1), (2000, 100)])
def test_without_noise_the_error_is_that_of_the_sample(n, d):
    rng, reach = np.random.default_rng(2), stats.norm.ppf(0.8)
    found = math.sqrt(1 / n) * rng.normal(size=(40_000, d))
    found[:, 0] += 0.5 * math.sqrt(2) * reach
    drawn = stats.norm.cdf(reach * found[:, 0] / np.linalg.norm(found, axis=1))
    # Stratified draws: a tenth of the error of 400 independent ones.
    error = 5 * drawn.std() / math.sqrt(40_000) + 0.1 * drawn.std() / math.sqrt(400)
    assert expected_auc(n, d, epsilon=None) == pytest.approx(drawn.mean(), abs=error + 1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize(("n", "d", "mu", "ratio"), [(1200, 12, 0.4, 30.0), (3000, 5, 0.3, 200.0)])
def test_the_ranges_are_those_that_fits_find(n, d, mu, ratio):
    model = FitModel(d, 0.8, 0.5, ratio)
    ranges, left = model.narrowed(n, mu)
    found, budgets = [], []
    for run in range(60):
        rng = np.random.default_rng([4, run])
        # The places of the model, each as likely.
        middle = (rng.choice(8, size=d) - 3.5) / 14 * ratio
        lower, upper = -0.5 * ratio - middle, 0.5 * ratio - middle
        setting = PublicSetting(n, lower, upper, np.zeros(d, np.int64), 0.0, 0.0, budget=mu)
        after, _ = narrowed(setting, ask_table(rng.normal(size=(n, d)), NoiseSource(seed=rng)))
        found.extend(after.upper - after.lower)
        budgets.append(after.mu)
    # 60 d ranges against 256: five standard errors of the means of logarithms.
    logs, others = np.log(ranges), np.log(found)
    error = 5 * math.hypot(logs.std() / math.sqrt(256), others.std() / math.sqrt(60 * d))
    assert abs(logs.mean() - others.mean()) < error
    assert others.std() == pytest.approx(logs.std(), rel=0.4)
    assert np.mean(budgets) == pytest.approx(left, rel=0.01)


@pytest.mark.parametrize(("epsilon", "d"), [(0.5, 5), (2.0, 20)])
def test_the_smallest_useful_n_is_enough_and_one_less_is_not(epsilon, d):
    found = plan(5000, d, epsilon=epsilon, largest_loss=0.03)

    def loss(n):
        public = expected_auc(n, d, epsilon=epsilon)
        searched = expected_auc(n, d, epsilon=epsilon, search=PrivateBounds(0.0, 1.0))
        return expected_auc(n, d, epsilon=None) - max(public, searched)

    assert loss(found.smallest_n) <= 0.03 < loss(found.smallest_n - 1)
