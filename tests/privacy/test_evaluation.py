# SPDX-License-Identifier: BSD-3-Clause
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from pairlearn import private_roc_auc
from pairlearn.metrics import roc_auc
from pairlearn.metrics.auc import doubled_wins_weighted
from pairlearn.privacy import private_roc_curve, select_privately
from pairlearn.privacy.accounting.certificate import PrivacyWarning, accounting_problems
from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.accounting.ledger import BudgetExceededError, PrivacyLedger
from pairlearn.privacy.audit.tape import recorded, replayed
from pairlearn.privacy.evaluation import auc_intervals
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.persons import WHOLE, shares
from pairlearn.privacy.records import read_persons

#: Simulations and replays have seeds.
pytestmark = pytest.mark.filterwarnings("ignore:random_state makes the noise reproducible")


def test_a_seed_is_told():
    for query in (private_roc_auc, lambda *a, **k: private_roc_curve(*a, thresholds=[1.0], **k)):
        with pytest.warns(PrivacyWarning, match="not private"):
            found = query([0, 1], [0, 2], epsilon=1.0, delta=1e-3, random_state=0)
        assert any("not private" in caution for caution in found.certificate.warnings)


def scores_of(y, rng, gap=1.0):
    return gap * y + rng.normal(size=len(y))


def distance(query, ours, theirs, **options):
    """Return how far apart the protected numbers of two neighbours are, and the sensitivity."""
    noise = NoiseSource(seed=0)
    common = {"epsilon": 1.0, "delta": 1e-3, "random_state": noise, **options}
    with recorded() as record:
        found = query(*ours, **common)
    with replayed(record.outputs) as replay:
        other = query(*theirs, **common)
    for name, value in vars(found).items():
        assert np.array_equal(value, getattr(other, name)), name
    release = found.certificate.releases[0]
    return record.distances(replay)[0] * release.noise_scale, release.sensitivity


@given(seed=st.integers(0, 2**32), curve=st.booleans())
@settings(max_examples=80)
def test_sensitivity(seed, curve):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    y = (rng.random(n) < rng.random()).astype(int)
    s = rng.integers(0, 4, n).astype(float)
    other_y, other_s = y.copy(), s.copy()
    place = int(rng.integers(n))
    other_y[place], other_s[place] = rng.integers(0, 2), rng.choice([-1e300, np.nan, 0, 1, 9])
    query, options = (private_roc_auc, {})
    if curve:
        query, options = private_roc_curve, {"thresholds": [0.5, 1.5, 2.5]}
    apart, sensitivity = distance(query, (y, s), (other_y, other_s), **options)
    assert apart <= sensitivity


def test_the_sensitivity_is_attained():
    # One label stays, and the example goes from below all others to above; one label flips.
    y, s = np.array([1, 0, 0, 0]), np.array([-9.0, 0.0, 0.0, 0.0])
    for other_y, other_s in (([1, 0, 0, 0], [9, 0, 0, 0]), ([0, 0, 0, 0], s)):
        apart, sensitivity = distance(private_roc_auc, (y, s), (other_y, other_s))
        assert apart == pytest.approx(sensitivity, rel=1e-5)
    apart, sensitivity = distance(
        private_roc_curve, (y, s), ([0, 0, 0, 0], s), thresholds=[-1.0, 1.0]
    )
    assert apart == pytest.approx(sensitivity, rel=1e-5)


def test_without_noise_it_is_the_auc():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    s = np.round(scores_of(y, rng), 1)
    found = private_roc_auc(y, s, epsilon=1e7, delta=1e-3)
    assert found.auc == pytest.approx(roc_auc(y, s), abs=1e-5)
    assert found.sample_high - found.sample_low < 3e-4
    assert found.low < found.sample_low
    cuts = np.linspace(-1, 2, 7)
    curve = private_roc_curve(y, s, thresholds=cuts, epsilon=1e7, delta=1e-3)
    for rate, rows in ((curve.tpr, y == 1), (curve.fpr, y == 0)):
        exact = [(s[rows] >= cut).mean() for cut in cuts]
        np.testing.assert_allclose(rate, exact, atol=1e-4)


def people(rng, n_persons, most=5):
    """Return labels, scores and persons of rows in no order; persons differ in all respects."""
    who = rng.permutation(np.repeat(np.arange(n_persons), rng.integers(1, most, n_persons)))
    y = (rng.random(len(who)) < rng.random(n_persons)[who]).astype(int)
    return y, rng.integers(0, 4, len(who)).astype(float), who


@given(seed=st.integers(0, 2**32), curve=st.booleans())
@settings(max_examples=150)
def test_sensitivity_of_a_person_with_all_rows(seed, curve):
    rng = np.random.default_rng(seed)
    n_persons = int(rng.integers(1, 9))
    y, s, who = people(rng, n_persons)
    stay = who != rng.integers(n_persons)
    m = int(rng.integers(1, 7))
    other_y = np.append(y[stay], rng.random(m) < rng.choice([0.0, 0.5, 1.0]))
    other_s = np.append(s[stay], rng.choice([-9.0, 0.0, 1.5, 9.0], m))
    other_who = np.append(who[stay], np.full(m, 99))
    query, options = (private_roc_auc, {})
    if curve:
        query, options = private_roc_curve, {"thresholds": [0.5, 1.5, 2.5]}
    apart, sensitivity = distance(
        lambda y, s, who, **claim: query(y, s, groups=who, **claim),
        (y, s, who), (other_y, other_s, other_who), **options,
    )  # fmt: skip
    assert apart <= sensitivity


@given(seed=st.integers(0, 2**32))
@settings(max_examples=100)
def test_a_person_moves_the_wins_of_a_model_by_no_more_than_selection_assumes(seed):
    rng = np.random.default_rng(seed)
    n_persons = int(rng.integers(1, 8))
    y, s, who = people(rng, n_persons)
    stay = who != rng.integers(n_persons)
    m = int(rng.integers(1, 7))
    theirs = (
        np.append(y[stay], rng.random(m) < rng.choice([0.0, 0.5, 1.0])),
        np.append(s[stay], rng.choice([-9.0, 0.0, 1.5, 9.0], m)),
        np.append(who[stay], np.full(m, 99)),
    )
    wins = []
    for labels, scores, persons in ((y, s, who), theirs):
        weight, n = shares(persons, len(labels))
        assert n == n_persons
        assert (np.bincount(read_persons(persons, len(labels)), weight) == WHOLE).all()
        pairs = (scores[:, None] > scores) + 0.5 * (scores[:, None] == scores)
        brute = (np.outer(labels, 1 - labels) * np.outer(weight, weight) * pairs).sum() * 2
        wins.append(doubled_wins_weighted(scores, labels.astype(bool), weight))
        assert wins[-1] == pytest.approx(brute, rel=1e-12)
    most = 2 * WHOLE**2 * (n_persons - 0.75)
    assert abs(wins[0] - wins[1]) <= most * (1 + 1e-12)


def law_of_two(table, signs, who, epsilon):
    """Return the chances of two models, from all answers to the coins that are asked for."""

    class Coins(NoiseSource):
        def permutation(self, n):
            return np.array(self.order)

        def accept(self, numerator, denominator):
            self.chance *= math.exp(-numerator / denominator)
            return True

    law = np.zeros(2)
    for order in ([0, 1], [1, 0]):
        coins = Coins(seed=0)
        coins.order, coins.chance = order, 1.0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pairlearn.privacy.evaluation.paid_noise", lambda *_, **__: coins)  # noqa: B023
            first = select_privately(table, signs, epsilon=epsilon, groups=who)
        law[first] += 0.5 * coins.chance
        law[1 - first] += 0.5 * (1.0 - coins.chance)
    return law


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_a_person_changes_the_law_of_a_selection_by_no_more_than_epsilon(seed):
    rng = np.random.default_rng(seed)
    n_persons, epsilon = int(rng.integers(1, 6)), 1.5
    y, s, who = people(rng, n_persons)
    table = np.stack([s, rng.integers(0, 4, len(s))], axis=1)
    stay, m = who != who[0], int(rng.integers(1, 5))
    other_table = np.append(table[stay], np.tile(rng.choice([-9.0, 9.0], 2), (m, 1)), axis=0)
    other_y = np.append(y[stay], np.full(m, rng.integers(0, 2)))
    law = law_of_two(table, 2 * y - 1, who, epsilon)
    other = law_of_two(other_table, 2 * other_y - 1, np.append(who[stay], np.full(m, 99)), epsilon)
    assert law.sum() == pytest.approx(1.0)
    assert np.abs(np.log(law / other)).max() <= epsilon + 1e-9


def test_selection_among_persons():
    # A person with a thousand wrong rows has one voice.
    rng = np.random.default_rng(2)
    who = np.append(np.arange(200), np.full(1000, 200))
    signs = np.where(rng.random(1200) < 0.5, 1, -1)
    good = signs * np.where(who == 200, -1.0, 1.0)
    table = np.stack([-good, good], axis=1)
    assert {select_privately(table, signs, epsilon=2.0, groups=who) for _ in range(20)} == {1}
    assert {select_privately(table, signs, epsilon=2.0) for _ in range(20)} == {0}


def test_persons_count_with_the_mean_of_their_rows():
    rng = np.random.default_rng(0)
    y, s, who = people(rng, 300)
    weight = 1.0 / np.bincount(who)[who]
    found = private_roc_auc(y, s, epsilon=1e7, delta=1e-3, groups=who)
    assert found.auc == pytest.approx(roc_auc(y, s, sample_weight=weight), abs=1e-5)
    certificate = found.certificate
    assert (certificate.unit, certificate.n_examples) == ("person", 300)
    assert "one person with all examples replaced by another" in certificate.statement()
    assert accounting_problems(certificate) == []
    curve = private_roc_curve(y, s, thresholds=[0.5, 1.5], epsilon=1e7, delta=1e-3, groups=who)
    for rate, rows in ((curve.tpr, y == 1), (curve.fpr, y == 0)):
        exact = [np.average(s[rows] >= cut, weights=weight[rows]) for cut in (0.5, 1.5)]
        np.testing.assert_allclose(rate, exact, atol=1e-4)
    # One row each is the usual answer.
    each = private_roc_auc(y, s, epsilon=1e7, delta=1e-3, groups=np.arange(len(y)))
    assert each.auc == pytest.approx(roc_auc(y, s), abs=1e-5)


def test_a_ledger_of_persons_pays_for_persons_only():
    y, s, who = people(np.random.default_rng(1), 50)
    ledger = PrivacyLedger(epsilon=3.0, delta=1e-3, unit="person")
    claim = {"epsilon": 0.5, "delta": 1e-5, "ledger": ledger}
    for query in (private_roc_auc, lambda *a, **k: private_roc_curve(*a, thresholds=[1.0], **k)):
        query(y, s, groups=who, **claim)
        with pytest.raises(ValueError, match="protects one example, but the ledger counts persons"):
            query(y, s, **claim)
    table = np.stack([s, -s], axis=1)
    select_privately(table, 2 * y - 1, epsilon=0.5, groups=who, ledger=ledger)
    with pytest.raises(ValueError, match="the ledger counts persons"):
        select_privately(table, 2 * y - 1, epsilon=0.5, ledger=ledger)
    assert [entry.unit for entry in ledger.entries] == ["person"] * 3
    rows = PrivacyLedger(epsilon=3.0, delta=1e-3)
    with pytest.raises(ValueError, match='unit="person"'):
        private_roc_auc(y, s, groups=who, **(claim | {"ledger": rows}))


def coverage_of_persons(n_persons, share, epsilon, n_runs, seed):
    """Return how often the interval holds; rows of a person share labels and much of the score."""
    rng = np.random.default_rng(seed)
    truth = float(ndtr(1.0 / np.sqrt(2.0)))
    hits = 0
    for run in range(n_runs):
        who = np.repeat(np.arange(n_persons), rng.integers(1, 9, n_persons))
        # A third of the persons have labels of both kinds.
        y = (rng.random(n_persons) < share)[who]
        y = np.where((who % 3 == 0), rng.random(len(who)) < share, y).astype(int)
        noise = np.sqrt(0.8) * rng.normal(size=n_persons)[who]
        s = y + noise + np.sqrt(0.2) * rng.normal(size=len(who))
        found = private_roc_auc(y, s, epsilon=epsilon, delta=0.1 / n_persons,
                                random_state=run, groups=who)  # fmt: skip
        hits += found.low <= truth <= found.high
    return hits / n_runs


@pytest.mark.parametrize(("n", "share"), [(400, 0.5), (400, 0.05)])
def test_the_interval_of_persons_covers(n, share):
    # 95 % intervals, 150 runs: below .89 once in a thousand.
    assert coverage_of_persons(n, share, 1.0, 150, 1) > 0.89


def coverage(n, share, epsilon, n_runs, seed):
    rng = np.random.default_rng(seed)
    truth = float(ndtr(1.0 / np.sqrt(2.0)))
    hits = np.zeros(2)
    for run in range(n_runs):
        y = (rng.random(n) < share).astype(int)
        s = scores_of(y, rng)
        found = private_roc_auc(y, s, epsilon=epsilon, delta=0.1 / n,
                                random_state=run)  # fmt: skip
        sample = roc_auc(y, s) if 0 < y.sum() < n else 0.5
        hits += (
            (found.low <= truth <= found.high),
            (found.sample_low <= sample <= found.sample_high),
        )
    return hits / n_runs


@pytest.mark.parametrize(("n", "share"), [(500, 0.5), (500, 0.03), (2000, 0.03)])
def test_intervals_cover(n, share):
    # 95 % intervals, 200 runs: below .90 once in a thousand.
    population, sample = coverage(n, share, 1.0, 200, 1)
    assert min(population, sample) > 0.90


@pytest.mark.parametrize(("n", "share"), [(50_000, 0.03), (50_000, 0.5), (5_000, 0.03)])
def test_noise_alone_is_covered_as_often_as_stated(n, share):
    # Of the AUC of the sample only the noise is unknown, so nothing but the two noisy numbers need
    # be drawn: .9605, .982 and .957 of 2,000 (95 %, and one step of the grid on either side). Below
    # .94 once in fifty thousand fresh seeds.
    rng = np.random.default_rng(4)
    n_positive = int(share * n)
    scale, truth = 1.0 / mu_of(1.0, 0.1 / n), 0.76
    wins = (truth - 0.5) * n_positive * (n - n_positive) / (n - 1)
    exact = np.array([wins, np.sqrt(0.75) * n_positive])
    hits = 0
    for _ in range(2_000):
        noisy = exact + scale * rng.standard_normal(2)
        *_, low, high = auc_intervals(noisy, n, scale=scale, confidence=0.95)
        hits += low <= truth <= high
    assert 0.94 < hits / 2_000 < 0.99


@pytest.mark.slow
@pytest.mark.parametrize("n", [500, 5_000, 50_000])
@pytest.mark.parametrize("share", [0.5, 0.03])
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_intervals_cover_everywhere(n, share, epsilon):
    population, sample = coverage(n, share, epsilon, 1000, 2)
    print(f"n = {n}, {share:.0%} positive, epsilon {epsilon}: {population:.3f} {sample:.3f}")
    assert min(population, sample) > 0.94 - 2.5 * np.sqrt(0.06 / 1000)


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.thorough
def test_the_band_covers_everywhere_at_once(share):
    rng = np.random.default_rng(3)
    cuts = np.linspace(-1.5, 2.5, 19)
    tpr, fpr = ndtr(1.0 - cuts), ndtr(-cuts)
    hits = 0
    for run in range(100):
        y = (rng.random(2000) < share).astype(int)
        curve = private_roc_curve(y, scores_of(y, rng), thresholds=cuts, epsilon=1.0, delta=1e-5,
                                  random_state=run)  # fmt: skip
        assert (curve.tpr_low <= curve.tpr_high).all()
        assert (np.diff(curve.tpr) <= 0).all()
        hits += bool(
            (curve.tpr_low <= tpr).all() and (tpr <= curve.tpr_high).all()
            and (curve.fpr_low <= fpr).all() and (fpr <= curve.fpr_high).all()
        )  # fmt: skip
    assert hits > 90


def test_price_promise_and_refusals():
    y, s = [1, 0, "n/a", 1] * 25, [0.5, "x", None, 1.0] * 25
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-3)
    found = private_roc_auc(y, s, epsilon=0.6, delta=1e-4, ledger=ledger)
    assert len(ledger.entries) == 1
    assert found.certificate.private
    assert accounting_problems(found.certificate) == []
    with pytest.raises(BudgetExceededError):
        private_roc_curve(y, s, thresholds=[0.5], epsilon=1.5, delta=1e-4, ledger=ledger)
    with pytest.raises(ValueError, match="increasing"):
        private_roc_curve(y, s, thresholds=[1.0, 0.0], epsilon=1.0, delta=1e-4)
    with pytest.raises(ValueError, match="negative, positive"):
        private_roc_auc(y, s, epsilon=1.0, delta=1e-4, labels=(0, 1, 2))
    with pytest.raises(ValueError, match="one value for each row"):
        private_roc_auc(y, s[:-1], epsilon=1.0, delta=1e-4)
    for n in (0, 1):
        for _ in range(20):
            few = private_roc_auc(y[:n], s[:n], epsilon=1.0, delta=1e-4)
            assert (few.auc, few.low, few.high) == (0.5, 0.0, 1.0)
            assert (few.sample_low, few.sample_high) == (0.0, 1.0)


def held(inside, step=1e-5):
    """Return the least and the largest t in [0, 1] that satisfy a condition."""
    t = np.arange(0.0, 1.0 + step / 2, step)
    places = np.flatnonzero(inside(t))
    return (t[places[0]], t[places[-1]]) if len(places) else (0.0, 1.0)


@pytest.mark.parametrize("unit", ["example", "person"])
@pytest.mark.parametrize(
    ("n", "scale", "share", "auc", "confidence"),
    [(400, 1.5, 0.3, 0.8, 0.95), (60, 0.4, 0.1, 0.93, 0.8), (5000, 20.0, 0.004, 0.3, 0.95),
     (30, 0.05, 0.97, 0.99, 0.9), (40, 30.0, 0.5, 0.5, 0.95),
     (200, 3.0, 0.3, 1.2, 0.95), (200, 3.0, 0.3, -0.2, 0.9)],
)  # fmt: skip
def test_the_interval_holds_the_areas_that_explain_the_noisy_numbers(
    n, scale, share, auc, confidence, unit
):
    # The variance of wins - (t - 1/2) pairs, by the rule of small changes in the number c of
    # positives: d pairs / dc = n - 2 c, and pairs has a second derivative of -2.
    most = n - 1 if unit == "example" else n - 0.75
    c = share * n
    noisy = np.array([(auc - 0.5) * c * (n - c) / most, math.sqrt(0.75) * c])
    found = auc_intervals(noisy, n, scale=scale, confidence=confidence, unit=unit)
    of_count = scale**2 / 0.75
    pairs = c * (n - c) + of_count
    rare = min(max(c, 1.0), n - 1.0)
    z = -ndtri((1 - confidence) / 2)
    within = {"example": 0.0, "person": min(rare, n - rare, n / 4)}[unit]

    def explained(t, sampling):
        error = (scale * most) ** 2
        error = error + (t - 0.5) ** 2 * ((n - 2 * rare) ** 2 * of_count + 2 * of_count**2)
        if sampling:
            error = error + t * (1 - t) / min(rare, n - rare) * (rare * (n - rare)) ** 2
        gap = np.abs((auc - 0.5) * c * (n - c) - (t - 0.5) * pairs)
        return gap <= z * np.sqrt(error) + (within if sampling else 0.0)

    ends = *held(lambda t: explained(t, True)), *held(lambda t: explained(t, False))
    assert found[0] == pytest.approx(np.clip(0.5 + (auc - 0.5) * c * (n - c) / pairs, 0, 1))
    assert found[1:] == pytest.approx(ends, abs=3e-4)
    # Grid and rounding widen the interval, never narrow it.
    assert found[1] <= ends[0] + 1e-5
    assert found[2] >= ends[1] - 1e-5


class Shifted(NoiseSource):
    """Noise that is known."""

    def protect_integers(self, values, scale):
        return values + np.rint(0.3 * scale * np.cos(np.arange(len(values)))).astype(np.int64)


def test_the_band_of_the_curve_holds_the_rates_that_explain_the_noisy_counts():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 300)
    s = scores_of(y, rng)
    cuts = np.array([-0.5, 0.2, 0.9, 2.5])
    given = Shifted(seed=0)
    with recorded() as source:
        found = private_roc_curve(
            y, s, thresholds=cuts, epsilon=0.8, delta=1e-3, confidence=0.9, random_state=given
        )
    scale = found.certificate.releases[0].noise_scale
    assert scale == pytest.approx(math.sqrt(2) / mu_of(0.8, 1e-3), rel=1e-5)
    unit = scale / source.scales[0]
    z = -ndtri(0.1 / 2 / (2 * len(cuts)))  # two rates at each threshold share the error
    for counts, rate, low, high in (
        (unit * source.outputs[0][:5], found.tpr, found.tpr_low, found.tpr_high),
        (unit * source.outputs[0][5:], found.fpr, found.fpr_low, found.fpr_high),
    ):
        total = counts.sum()
        most = total + z * scale * math.sqrt(5)
        for k in range(4):
            above, bins = counts[k + 1 :].sum(), 4 - k

            def explained(t, above=above, bins=bins, total=total, most=most):
                noise = scale**2 * ((1 - t) ** 2 * bins + t**2 * (5 - bins))
                return np.abs(above - t * total) <= z * np.sqrt(noise + most * t * (1 - t))

            ends = held(explained)
            assert rate[k] == pytest.approx(np.clip(above / total, 0, 1))
            assert (low[k], high[k]) == pytest.approx(ends, abs=3e-4)
            assert low[k] <= ends[0] + 1e-5
            assert high[k] >= ends[1] - 1e-5


@pytest.mark.parametrize("groups", [None, np.arange(200) // 2])
def test_a_delta_of_one_over_n_is_warned_of(groups):
    y, n = np.arange(200) % 2, 200 if groups is None else 100
    for ask, more in ((private_roc_auc, {}), (private_roc_curve, {"thresholds": [0.5]})):
        with pytest.warns(PrivacyWarning, match=f"is at least 1/n = {1 / n:g}"):
            found = ask(y, y, epsilon=1.0, delta=1 / n, groups=groups, **more)
        assert "publishing one random record" in found.certificate.statement()
        assert (
            ask(y, y, epsilon=1.0, delta=0.9 / n, groups=groups, **more).certificate.warnings == ()
        )
