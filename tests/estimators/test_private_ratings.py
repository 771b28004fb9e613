# SPDX-License-Identifier: BSD-3-Clause
"""Private ratings: near the truth, honest about noise, and silent about single votes."""

import pickle

import numpy as np
import pytest
from scipy.stats import spearmanr

from pairlearn import PairwiseRatings, PrivacyLedger, PrivateRatings, load_model
from pairlearn.estimators import plot_ratings
from pairlearn.privacy import accounting_problems, mu_of
from pairlearn.privacy.accounting.ledger import BudgetExceededError

CLAIM = {"epsilon": 1.0, "delta": 1e-6}
SEEDED = pytest.mark.filterwarnings("ignore::pairlearn.PrivacyWarning")


def arena(seed, *, n_players=120, n_votes=300_000, ties=0.0):
    """Votes between players whose popularity differs, as in the arenas of chat models."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 0.6, n_players)
    scores -= scores.mean()
    popular = 0.7 * rng.dirichlet(np.full(n_players, 0.7)) + 0.3 / n_players
    a, b = rng.choice(n_players, (2, n_votes), p=popular)
    a, b = a[a != b], b[a != b]
    nu = 2 * ties / (1 - ties) if ties else 0.0
    half = (scores[a] - scores[b]) / 2
    weights = np.stack([np.exp(half), np.full(len(a), nu), np.exp(-half)])
    cuts = np.cumsum(weights / weights.sum(axis=0), axis=0)
    outcome = 1.0 - 0.5 * (rng.random(len(a)) > cuts[:2]).sum(axis=0)
    return scores, a, b, outcome


@SEEDED
@pytest.mark.parametrize("seed", range(3))
def test_the_ranks_are_right_at_epsilon_one(seed):
    scores, a, b, outcome = arena(seed)
    model = PrivateRatings(**CLAIM, players=range(120), random_state=seed).fit(a, b, outcome)
    # In five arenas with secret noise the lowest was .995.
    assert spearmanr(model.scores_, scores).statistic > 0.98


@SEEDED
def test_without_noise_it_is_the_public_model():
    _, a, b, outcome = arena(0, n_players=8, n_votes=20_000, ties=0.2)
    public = PairwiseRatings().fit(a, b, outcome)
    model = PrivateRatings(1e6, 0.1, players=range(8), random_state=0).fit(a, b, outcome)
    # The counts are sufficient: the two maxima are one, up to the noise of epsilon = 10^6.
    np.testing.assert_allclose(model.scores_, public.scores_, atol=2e-3)
    assert model.tie_ == pytest.approx(public.tie_, abs=2e-3)
    np.testing.assert_allclose(model.covariance_, public.covariance_, rtol=0.02, atol=1e-6)
    assert model.effects()["tie"].standard_error == pytest.approx(
        public.effects()["tie"].standard_error, rel=0.02
    )


@pytest.mark.slow
@SEEDED
def test_intervals_allow_for_the_noise():
    hits = []
    for seed in range(60):
        scores, a, b, outcome = arena(seed, n_players=40, n_votes=60_000, ties=0.1)
        model = PrivateRatings(**CLAIM, players=range(40), random_state=seed).fit(a, b, outcome)
        found = model.intervals()
        hits += [found[k].low <= scores[k] <= found[k].high for k in range(40)]
    # 2,400 intervals of .95, those of one arena dependent: .92 is more than 6 standard errors away.
    assert 0.92 < np.mean(hits) < 0.98


@SEEDED
def test_the_noise_makes_intervals_wider():
    _, a, b, outcome = arena(1, n_players=10, n_votes=5_000)
    public = PairwiseRatings().fit(a, b, outcome).intervals()
    wide = PrivateRatings(**CLAIM, players=range(10), random_state=0).fit(a, b, outcome).intervals()
    assert all(wide[k].standard_error > public[k].standard_error for k in range(10))


@SEEDED
def test_judges_are_protected_with_all_their_votes():
    scores, a, b, outcome = arena(2, n_players=20, n_votes=100_000)
    judges = np.arange(len(a)) // 4
    model = PrivateRatings(**CLAIM, players=range(20), votes_per_judge=4, random_state=0)
    model.fit(a, b, outcome, groups=judges)
    certificate = model.certificate_
    assert (certificate.unit, certificate.n_examples) == ("person", int(judges[-1]) + 1)
    assert "the first 4, and the first 1 on each pair" in certificate.statement()
    # Four votes of a judge: 2 sqrt(4 (4 + 1)).
    assert certificate.releases[0].sensitivity == pytest.approx(2 * np.sqrt(20), rel=1e-4)
    assert spearmanr(model.scores_, scores).statistic > 0.9


def test_the_certificate_adds_up_and_the_ledger_pays():
    _, a, b, outcome = arena(0, n_players=5, n_votes=1000)
    ledger = PrivacyLedger(epsilon=1.2, delta=1e-6)
    model = PrivateRatings(**CLAIM, players=range(5), ledger=ledger).fit(a, b, outcome)
    assert accounting_problems(model.certificate_) == []
    assert [entry.mu for entry in ledger.entries] == [mu_of(1.0, 1e-6)]
    with pytest.raises(BudgetExceededError):
        model.fit(a, b, outcome)
    assert len(ledger.entries) == 1


def test_ratings_exist_whatever_the_votes_are():
    # No vote, votes of nobody, one player who won all: the noise must be able to decide anything.
    for votes in ([], [("x", "y", "a")] * 5, [("ann", "bob", "a")] * 400, [("bob", "ann", "tie")]):
        a, b, outcome = ([row[k] for row in votes] for k in range(3))
        for _ in range(20):
            model = PrivateRatings(1.0, 1e-3, players=["ann", "bob", "cid"]).fit(a, b, outcome)
            assert np.isfinite(model.scores_).all()
            assert all(np.isfinite(one.low) for one in model.intervals().values())


@SEEDED
def test_words_and_numbers_say_the_same():
    a, b = ["ann", "bob", "cid", "ann"], ["bob", "cid", "ann", "cid"]
    given = ([1, 0.5, 0, 1], ["1", "0.5", "0", "1.0"], ["a", "tie", "b", "win"],
             ["A", "Draw", "MODEL_B", " model_a "], [True, 0.5, False, 1.0])  # fmt: skip
    models = [
        PrivateRatings(**CLAIM, players=["ann", "bob", "cid"], random_state=3).fit(a, b, outcome)
        for outcome in given
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.scores_, models[0].scores_)
    ids = PrivateRatings(**CLAIM, players=[3, 20, 100], random_state=3)
    numbers = {"ann": "3", "bob": "20", "cid": "100"}
    as_texts = ids.fit([numbers[one] for one in a], [numbers[one] for one in b], given[0])
    np.testing.assert_array_equal(as_texts.scores_, models[0].scores_)


@SEEDED
def test_the_file_and_the_pickle_keep_everything(tmp_path):
    _, a, b, outcome = arena(3, n_players=6, n_votes=4000, ties=0.3)
    model = PrivateRatings(**CLAIM, players=range(6), random_state=0).fit(a, b, outcome)
    model.save(tmp_path / "model.safetensors")
    for again in (load_model(tmp_path / "model.safetensors"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.scores_, model.scores_)
        assert again.intervals() == model.intervals()
        assert again.certificate_ == model.certificate_
        assert again.tie_ == model.tie_
    assert len(plot_ratings(model).get_yticklabels()) == 6
    assert model.meetings().sum() == pytest.approx(2 * len(a), rel=0.1)


@pytest.mark.parametrize(
    ("options", "fit", "words"),
    [
        ({}, {}, "players must list all players, got None"),
        ({"players": ["a", "a"]}, {}, "2 of which 1 differ"),
        ({"players": ["a", "b"], "ties": "none"}, {}, "ties must be one of"),
        ({"players": ["a", "b"], "prior": 0}, {}, "prior"),
        ({"players": ["a", "b"], "votes_per_judge": 3}, {}, "pass the judge of each vote"),
        ({"players": ["a", "b"]}, {"groups": ["x"]}, "groups needs votes_per_judge"),
        ({"players": ["a", "b"], "votes_per_judge": 1, "votes_per_pair": 2},
         {"groups": ["x"]}, "at most votes_per_judge=1, got 2"),
        ({"players": ["a", "b"], "epsilon": -1}, {}, "epsilon"),
    ],
)  # fmt: skip
def test_public_arguments_are_checked(options, fit, words):
    with pytest.raises(ValueError, match=words):
        PrivateRatings(**{"delta": 1e-6, **options}).fit(["a"], ["b"], **fit)


@pytest.mark.parametrize("judged", [False, True])
def test_votes_can_be_added_and_removed(judged):
    _, a, b, outcome = arena(0, n_players=5, n_votes=1000)
    groups = {"groups": np.arange(len(a)) // 4} if judged else {}
    most = {"votes_per_judge": 4} if judged else {}
    private = {**CLAIM, "players": range(5), "neighbours": "add_remove", **most}
    unit = "person" if judged else "example"
    ledger = PrivacyLedger(epsilon=1.2, delta=1e-6, neighbours="add_remove", unit=unit)
    model = PrivateRatings(**private, n_examples=2000, ledger=ledger).fit(a, b, outcome, **groups)
    certificate = model.certificate_
    assert accounting_problems(certificate) == []
    assert (certificate.neighbours, certificate.n_examples) == ("add_remove", 2000)
    assert "at most 2000, given by the caller" in certificate.statement()
    assert ledger.entries[0].neighbours == "add_remove"
    # one judge has half the length of the difference of two, and meetings of one are not negative
    replaced = PrivateRatings(**{**private, "neighbours": "replace"}).fit(a, b, outcome, **groups)
    ratios = [
        one.sensitivity / other.sensitivity
        for one, other in zip(certificate.releases, replaced.certificate_.releases, strict=True)
    ]
    assert ratios == pytest.approx([0.5, np.sqrt(0.5)], rel=1e-3)
    # neither the certificate nor the default delta tells how many there are
    fewer = PrivateRatings(**private, n_examples=2000).fit(a[:8], b[:8], outcome[:8],
        **({"groups": groups["groups"][:8]} if judged else {}))  # fmt: skip
    assert fewer.certificate_.statement() == certificate.statement()
    del private["delta"]
    default = PrivateRatings(**private, n_examples=2000).fit(a, b, outcome, **groups)
    assert default.certificate_.delta == 2000**-1.5
    with pytest.raises(ValueError, match="give n_examples, the largest number"):
        PrivateRatings(**private).fit(a, b, outcome, **groups)
    with pytest.raises(ValueError, match="more rows than n_examples=9"):
        PrivateRatings(**private, n_examples=9).fit(a, b, outcome, **groups)
    with pytest.raises(ValueError, match="neighbours"):
        PrivateRatings(**{**private, "neighbours": "both"}).fit(a, b, outcome, **groups)


def test_a_word_for_an_outcome_is_not_also_a_player():
    first, second = ["b", "a"] * 50, ["a", "b"] * 50
    for players in (("a", "b"), ("x", "Draw"), ("TRUE", "y")):
        ledger = PrivacyLedger(epsilon=9.0, delta=1e-3)
        model = PrivateRatings(**CLAIM, players=players, ledger=ledger)
        with pytest.raises(ValueError, match="has the name of an outcome"):
            model.fit(first, second, ["a"] * 100)
        assert ledger.entries == ()
    model = PrivateRatings(**CLAIM, players=("a", "b"))
    model.fit(first, second, np.ones(100))
    model.fit(first, second)
