# SPDX-License-Identifier: BSD-3-Clause
"""`PairwiseRatings` against logistic regression on rows, simulated arenas, and broken input."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from pairlearn import AssumptionWarning, ModelFileError, PairwiseRatings, load_model
from pairlearn.estimators import Votes, plot_ratings
from pairlearn.estimators.ratings import likelihood as likelihood_module


def arena(n=4000, k=8, seed=0, nu=0.0, home=0.0, beta=0.0):
    """Return votes of a known model: a, b, outcome, covariate, scores."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.0, 0.8, k)
    scores -= scores.mean()
    a = rng.integers(0, k, n)
    b = (a + rng.integers(1, k, n)) % k
    x = rng.normal(size=n).round(1)
    d = scores[a] - scores[b] + home + beta * x
    weights = np.stack([np.exp(d / 2), np.full(n, nu), np.exp(-d / 2)])
    edges = np.cumsum(weights / weights.sum(axis=0), axis=0)
    outcome = np.array([1.0, 0.5, 0.0])[(rng.random(n) > edges).sum(axis=0).clip(0, 2)]
    return a, b, outcome, x, scores


def design(a, b, k):
    """Return the rows of a logistic regression: +1 for the first player, -1 for the second."""
    X = np.zeros((len(a), k))
    X[np.arange(len(a)), a] = 1.0
    X[np.arange(len(a)), b] -= 1.0
    return X


def davidson(theta, a, b, outcome, x, *, home):
    """Return the negative log-likelihood of rows, from the formula of the model."""
    k = theta.size - 3
    d = theta[a] - theta[b] + (theta[k] if home else 0.0) + theta[k + 1] * x
    top = np.where(outcome == 1, d / 2, np.where(outcome == 0, -d / 2, theta[-1]))
    return -(top - np.log(np.exp(d / 2) + np.exp(-d / 2) + np.exp(theta[-1]))).sum()


# ---------------------------------------------------------------------------- the maximum itself


def test_agrees_with_logistic_regression_on_rows():
    a, b, outcome, _, _ = arena()
    model = PairwiseRatings(prior=0).fit(a, b, outcome)
    X = design(a, b, 8)
    rows = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    coef = rows.fit(X[:, 1:], outcome).coef_[0]  # the first player is the reference
    other = np.concatenate([[0.0], coef])
    assert np.abs(model.scores_ - (other - other.mean())).max() < 1e-8
    p = rows.predict_proba(X[:, 1:])[:, 1]
    inverse = np.linalg.inv((X[:, 1:] * (p * (1 - p))[:, None]).T @ X[:, 1:])
    contrast = np.eye(8)[:, 1:] - 1.0 / 8.0
    np.testing.assert_allclose(model.covariance_, contrast @ inverse @ contrast.T, atol=1e-10)
    np.testing.assert_allclose(model.predict_proba(a, b)[:, 0], p, atol=1e-8)


#: ``choix.ilsr_pairwise(8, won, alpha=0, max_iter=5000, tol=1e-13)`` of choix 0.4.1 for the votes
#: below, minus its mean.
CHOIX = (
    -0.06458774902114264,
    -0.524839471304367,
    0.06827360958248668,
    -0.08748927172860893,
    -0.6760205854181052,
    -0.09503065068923325,
    1.0127470285990863,
    0.36694708997988423,
)


def winners(a, b, outcome):
    return list(
        zip(np.where(outcome, a, b).tolist(), np.where(outcome, b, a).tolist(), strict=True)
    )


def test_agrees_with_recorded_scores_of_choix():
    found = PairwiseRatings(prior=0).fit(*arena(1000)[:3]).scores_
    assert np.abs(found - CHOIX).max() < 1e-10


def test_the_prior_is_a_ridge_on_the_scores():
    a, b, outcome, _, _ = arena(300)
    model = PairwiseRatings(prior=2.0).fit(a, b, outcome)
    rows = LogisticRegression(C=4.0 / 2.0, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    np.testing.assert_allclose(
        model.scores_, rows.fit(design(a, b, 8), outcome).coef_[0], atol=1e-8
    )


@pytest.mark.parametrize("home", [False, True])
def test_ties_order_and_covariates_are_at_the_maximum(home):
    a, b, outcome, x, _ = arena(3000, nu=0.7, home=0.4 * home, beta=0.5)
    model = PairwiseRatings(prior=0, home=home).fit(a, b, outcome, covariates=x)
    theta = np.concatenate(
        [model.scores_, [model.home_], model.covariate_effects_, [np.log(model.tie_)]]
    )
    best = davidson(theta, a, b, outcome, x, home=home)
    rng = np.random.default_rng(1)
    for step in rng.normal(0.0, 1e-4, (50, len(theta))):
        assert davidson(theta + step, a, b, outcome, x, home=home) > best
    truth = {"home": 0.4, "covariate 0": 0.5, "tie": 0.7}
    found = model.effects(0.999)
    assert list(found) == (["home"] if home else []) + ["covariate 0", "tie"]
    for name, one in found.items():
        assert one.low < truth[name] < one.high


def test_ties_as_half_a_win():
    halves = PairwiseRatings(ties="half").fit(["x", "x", "y"], ["y", "y", "x"], [1, 0.5, 1])
    whole = PairwiseRatings().fit(
        ["x", "x", "x", "y"], ["y", "y", "y", "x"], [1, 1, 0, 1], sample_weight=[1, 0.5, 0.5, 1]
    )
    np.testing.assert_allclose(halves.scores_, whole.scores_, atol=1e-12)
    assert halves.tie_ == 0.0


def test_many_players_go_the_sparse_way(monkeypatch):
    a, b, outcome, x, _ = arena(nu=0.5, home=0.2, beta=0.3)
    groups = np.arange(len(a)) % 50
    dense = PairwiseRatings(home=True).fit(a, b, outcome, covariates=x, groups=groups)
    expected = dense.covariance_
    monkeypatch.setattr(likelihood_module, "DENSE_PLAYERS", 3)
    thin = PairwiseRatings(home=True).fit(a, b, outcome, covariates=x, groups=groups)
    np.testing.assert_allclose(thin.scores_, dense.scores_, atol=1e-10)
    np.testing.assert_allclose(thin.covariance_, expected, atol=1e-10)
    monkeypatch.setattr(likelihood_module, "MOST_WHOLE", 3)  # nothing but conjugate gradients
    again = pickle.loads(pickle.dumps(thin))
    for name, one in again.intervals().items():
        assert one.standard_error == pytest.approx(dense.intervals()[name].standard_error, 1e-9)
    free = PairwiseRatings(prior=0).fit(a, b, outcome)
    monkeypatch.undo()
    np.testing.assert_allclose(
        free.covariance_, PairwiseRatings(prior=0).fit(a, b, outcome).covariance_, atol=1e-10
    )


# ------------------------------------------------------------------------------ how sure it is


def covered(runs, make, **fitted):
    """Return the share of true scores inside their intervals of 95 %."""
    inside = []
    for seed in range(runs):
        a, b, outcome, scores, groups = make(seed)
        model = PairwiseRatings(**fitted).fit(a, b, outcome, groups=groups)
        found = model.intervals()
        inside += [found[k].low < scores[k] < found[k].high for k in range(len(scores))]
    return np.mean(inside)


def dependent(seed, n_judges=150, k=6):
    """Return votes of judges, each with a taste of their own."""
    rng = np.random.default_rng(seed)
    scores = np.linspace(-0.5, 0.5, k)
    judge = np.repeat(np.arange(n_judges), 20)
    a = rng.integers(0, k, len(judge))
    b = (a + rng.integers(1, k, len(judge))) % k
    taste = rng.normal(0.0, 0.7, (n_judges, k))
    # A probit with such a taste is a flatter logit; symmetric tastes keep the order of the scores.
    d = scores[a] - scores[b] + taste[judge, a] - taste[judge, b]
    return a, b, (rng.random(len(a)) < 1 / (1 + np.exp(-d))).astype(float), scores, judge


@pytest.mark.slow
def test_intervals_cover_in_simulated_arenas():
    """400 arenas of 8 players: the share has a standard error below 0.005."""

    def make(seed):
        a, b, outcome, _, scores = arena(2000, seed=seed, nu=0.5)
        return a, b, outcome, scores, None

    assert 0.94 < covered(400, make) < 0.96


@pytest.mark.slow
def test_robust_intervals_cover_where_votes_of_a_judge_depend_on_each_other():
    def make(seed, with_groups=True):
        a, b, outcome, _, judge = dependent(seed)
        return a, b, outcome, target, judge if with_groups else None

    # The scores that all judges together have: the limit of many votes.
    big = [dependent(seed, 4000) for seed in range(5)]
    target = np.mean([PairwiseRatings().fit(a, b, y).scores_ for a, b, y, _, _ in big], axis=0)
    assert 0.93 < covered(300, make) < 0.965
    assert covered(100, lambda seed: make(seed, False)) < 0.93


def test_discounted_votes_have_the_variance_of_their_weights():
    """With weights w the variance is that of the estimating equation, not 1 / sum(w)."""
    rng = np.random.default_rng(0)
    found, half_life, n = [], 100.0, 400
    for _ in range(300):
        outcome = (rng.random(n) < 0.6).astype(float)
        model = PairwiseRatings(half_life=half_life).fit(["a"] * n, ["b"] * n, outcome)
        found.append((model.compare("a", "b").difference, model.compare("a", "b").standard_error))
    spread, told = np.std([gap for gap, _ in found]), np.mean([error for _, error in found])
    assert 0.85 < told / spread < 1.15  # four standard errors of a standard deviation of 300


def test_ranks_hold_at_once():
    """Of 200 arenas 95 % or more have all ranks inside; 180 fail once in 500 at 95 %."""
    good = 0
    for seed in range(200):
        a, b, outcome, _, scores = arena(1500, k=6, seed=seed)
        found = PairwiseRatings().fit(a, b, outcome).rank_intervals()
        ranks = {int(k): r + 1 for r, k in enumerate(np.argsort(-scores))}
        good += all(low <= ranks[k] <= high for k, (low, high) in found.items())
    assert good >= 180


def test_a_comparison_is_the_difference_of_two_scores():
    a, b, outcome, _, _ = arena()
    model = PairwiseRatings().fit(a, b, outcome)
    found, V = model.compare(2, 5), model.covariance_
    assert found.difference == model.scores_[2] - model.scores_[5]
    np.testing.assert_allclose(found.standard_error**2, V[2, 2] + V[5, 5] - 2 * V[2, 5])
    assert (found.p_value < 0.05) == (not found.low < 0 < found.high)
    swapped = model.compare(5, 2)
    np.testing.assert_allclose([swapped.low, swapped.p_value], [-found.high, found.p_value])


def test_suggested_pairs_reduce_the_summed_variance_most():
    a, b, outcome, _, _ = arena(200, nu=0.4)
    model = PairwiseRatings().fit(a, b, outcome)
    V, tau = model.covariance_, np.log(model.tie_)
    gain = {}
    for i in range(8):
        for j in range(i + 1, 8):
            d = model.scores_[i] - model.scores_[j]
            p = np.exp(likelihood_module.log_probabilities(np.array([d]), tau)).ravel()
            u = np.eye(8)[i] - np.eye(8)[j]
            q = 0.25 * (p[0] + p[2] - (p[0] - p[2]) ** 2)
            after = np.linalg.inv(np.linalg.pinv(V) + q * np.outer(u, u) + 1e3 * np.ones((8, 8)))
            gain[i, j] = np.trace(V) - np.trace(after)
    assert model.suggest() == [max(gain, key=gain.get)]
    assert len(model.suggest(30)) == 30
    assert len(set(model.suggest(30))) > 1


# ------------------------------------------------------------------------------ counts


def test_parts_merge_into_the_whole_bit_for_bit():
    a, b, outcome, x, _ = arena(nu=0.3)
    groups = np.arange(len(a)) % 13
    for extra in ({}, {"groups": groups}, {"covariates": x.reshape(-1, 1)},
                  {"groups": groups, "covariates": np.stack([x, x > 0], axis=1)}):  # fmt: skip
        whole = PairwiseRatings().fit(a, b, outcome, **extra)
        part = PairwiseRatings()
        for rows in np.array_split(np.random.default_rng(0).permutation(len(a)), 7):
            given = {name: value[rows] for name, value in extra.items()}
            part.partial_fit(a[rows], b[rows], outcome[rows], **given)
        assert part.votes_.n_votes == len(a)
        assert part.scores_.tolist() == whole.scores_.tolist()
        assert part.intervals() == whole.intervals()
        last = Votes.count(
            a[rows], b[rows], outcome[rows], **{name: value[rows] for name, value in extra.items()}
        )
        kept = np.setdiff1d(np.arange(len(a)), rows)
        rest = Votes.count(
            a[kept], b[kept], outcome[kept], **{name: value[kept] for name, value in extra.items()}
        )
        left = whole.votes_.without(last)
        assert left.counts.tolist() == rest.counts.tolist()
        assert left.first.tolist() == rest.first.tolist()
        assert left.n_votes == rest.n_votes


def test_players_that_nobody_votes_on_any_more_are_forgotten():
    first = Votes.count(["x"], ["y"], groups=[1])
    second = Votes.count(["z", "x"], ["y", "y"], groups=[2, 1])
    left = first.merge(second).without(second)
    assert left.players.tolist() == ["x", "y"]
    assert left.groups.tolist() == [1]
    assert left.counts.tolist() == first.counts.tolist()
    with pytest.raises(ValueError, match="not among those that were counted"):
        first.without(second)
    with pytest.raises(ValueError, match="not among those that were counted"):
        first.without(first.merge(first))


def test_a_half_life_forgets_in_one_pass_or_several():
    a, b, outcome, _, _ = arena(500, nu=0.3)
    whole = PairwiseRatings(half_life=50).fit(a, b, outcome)
    part = PairwiseRatings(half_life=50)
    for rows in np.array_split(np.arange(500), 4):
        part.partial_fit(a[rows], b[rows], outcome[rows])
    np.testing.assert_allclose(part.scores_, whole.scores_, atol=1e-10)
    np.testing.assert_allclose(part.covariance_, whole.covariance_, atol=1e-10)
    weight = 0.5 ** ((499 - np.arange(500)) / 50)
    weighted = PairwiseRatings().fit(a, b, outcome, sample_weight=weight)
    np.testing.assert_allclose(weighted.scores_, whole.scores_, atol=1e-10)
    with pytest.raises(ValueError, match="cannot be taken out of counts with half_life"):
        whole.votes_.without(part.votes_)
    with pytest.raises(ValueError, match="agree in half_life, got 50"):
        whole.votes_.merge(weighted.votes_)


@pytest.mark.parametrize("grouped", [False, True])
def test_votes_age_by_votes_and_not_by_rows(grouped, tmp_path):
    """A row of weight 3 made earlier ones older by one vote: p-values of .54 were .15."""
    a, b, outcome, _, _ = arena(300, nu=0.3)
    weight = np.arange(300) * 7 % 4
    copies = np.repeat(np.arange(300), weight)
    judges = np.arange(300) % 30

    def votes(rows, w=None):
        given = {"groups": judges[rows]} if grouped else {}
        return {"a": a[rows], "b": b[rows], "outcome": outcome[rows], "sample_weight": w, **given}

    def same(found, expected):
        np.testing.assert_allclose(found.scores_, expected.scores_, atol=1e-9)
        np.testing.assert_allclose(found.covariance_, expected.covariance_, atol=1e-9)

    expected = PairwiseRatings(half_life=40).fit(**votes(copies))
    assert expected.votes_.total == len(copies)
    rows = np.arange(300)
    same(PairwiseRatings(half_life=40).fit(**votes(rows, weight)), expected)
    # a row may be divided into two, of any weights
    halves = np.repeat(rows, 2)
    parts = np.column_stack([0.3 * weight, 0.7 * weight]).ravel()
    same(PairwiseRatings(half_life=40).fit(**votes(halves, parts)), expected)
    # streams and files go on, also with rows without weights
    stream = PairwiseRatings(half_life=40).fit(**votes(np.repeat(rows[:100], weight[:100])))
    stream.partial_fit(**votes(rows[100:200], weight[100:200])).save(tmp_path / "votes")
    stream = PairwiseRatings.load(tmp_path / "votes")
    stream.partial_fit(**votes(rows[200:], weight[200:]))
    same(stream, expected)
    assert stream.votes_.total == len(copies)


def test_weights_are_numbers_of_votes():
    a, b, outcome, _, _ = arena(300)
    weight = np.arange(300) % 4
    twice = PairwiseRatings().fit(
        np.repeat(a, weight), np.repeat(b, weight), np.repeat(outcome, weight)
    )
    once = PairwiseRatings().fit(a, b, outcome, sample_weight=weight)
    assert once.scores_.tolist() == twice.scores_.tolist()
    assert once.intervals() == twice.intervals()


def test_all_forms_of_votes_say_the_same():
    pandas = pytest.importorskip("pandas")
    winners, losers = ["x", "y", "x", "z"], ["y", "x", "z", "y"]
    expected = PairwiseRatings().fit(winners, losers, groups=[1, 1, 2, 2])
    frame = {"winner": winners, "loser": losers, "judge": [1, 1, 2, 2], "n": [1, 1, 1, 1]}
    same = {"groups": "judge", "sample_weight": "n"}
    models = [
        PairwiseRatings().fit(frame, **same),
        PairwiseRatings().fit(pandas.DataFrame(frame), **same),
        PairwiseRatings().fit(expected.votes_),
        PairwiseRatings().fit(losers, winners, [0, 0, 0, 0], groups=[1, 1, 2, 2]),
        PairwiseRatings().fit(
            np.array(winners, dtype=object), losers, ["a", "model_a", "win", "1"],
            groups=["1", "1", "2", "2"],
        ),
    ]  # fmt: skip
    for model in models:
        np.testing.assert_allclose(model.scores_, expected.scores_, atol=1e-12)
        assert model.players_.tolist() == ["x", "y", "z"]
        np.testing.assert_allclose(model.covariance_, expected.covariance_, atol=1e-12)


def test_win_rates():
    model = PairwiseRatings().fit(["x", "x", "x"], ["y", "y", "z"], [1, 0.5, 0])
    np.testing.assert_array_equal(
        model.win_rates(), [[np.nan, 0.75, 0.0], [0.25, np.nan, np.nan], [1.0, np.nan, np.nan]]
    )


def test_probabilities():
    a, b, outcome, x, _ = arena(nu=0.5, home=0.3, beta=0.4)
    model = PairwiseRatings(home=True).fit(a, b, outcome, covariates=x)
    found = model.predict_proba(a, b, covariates=x)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    shares = [(outcome == value).mean() for value in (1.0, 0.5, 0.0)]
    np.testing.assert_allclose(found.mean(axis=0), shares, atol=0.01)
    there, back = (model.predict_proba(*pair, neutral=True)[0] for pair in ((1, 2), (2, 1)))
    np.testing.assert_allclose(there, back[::-1])
    assert model.predict_proba(1, [0, 2, 3]).shape == (3, 3)


# ------------------------------------------------------------------------------ edges


def test_a_player_who_only_won_has_a_finite_score():
    model = PairwiseRatings().fit(["x"] * 1000, ["y"] * 1000)
    assert 2.0 < model.scores_[0] < 10.0
    with pytest.raises(ValueError, match="with prior=0 the ratings are not finite: y won, or lost"):
        PairwiseRatings(prior=0).fit(["x", "x", "z"], ["y", "z", "x"])


def test_players_that_never_met_are_named():
    with pytest.warns(AssumptionWarning, match="2 groups that never met each other, one of them"):
        model = PairwiseRatings().fit(["a", "b", "x", "y", "y"], ["b", "a", "y", "x", "z"])
    assert model.compare("a", "x").standard_error > 1.5
    with pytest.warns(AssumptionWarning, match="never met"):
        model = PairwiseRatings().fit(["a", "b", "x", "y"], ["b", "a", "y", "x"], groups=[1, 2] * 2)
    assert model.compare("a", "x").standard_error > 1.5


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ({"a": ["x"], "b": ["x"]}, "a vote between 'x' and the same player"),
        ({"a": [], "b": []}, "at least 2 players, got 0"),
        ({"a": ["x", "y"], "b": ["y"]}, "losers must hold one name for each of the 2 votes, got 1"),
        ({"a": ["x", None], "b": ["y", "y"]}, "winners: row 1 is None, where a text must stand"),
        ({"a": ["x", ""], "b": ["y", "y"]}, "a name is empty"),
        ({"a": ["x", "y"], "b": [1, 2]}, "must be all texts or all whole numbers, got both"),
        ({"a": ["x", 1], "b": ["y", "y"]}, "winners: row 1 is 1, where a text must stand"),
        ({"a": [1, None], "b": [2, 3]}, "winners: row 1 is None, where a whole number must stand"),
        ({"a": ["x", np.nan], "b": ["y", "y"]}, "winners: row 1 is nan, where a text must stand"),
        ({"a": np.array(["x", np.nan]), "b": ["y", "y"]}, "missing .winners: row 1 is 'nan'"),
        ({"a": [[1]], "b": [[2]]}, r"winners must hold one name for each vote, got shape \(1, 1\)"),
        ({"a": ["x"], "b": ["y"], "outcome": [0.7]}, r"outcome .*0.7.* \(row 0\) is unknown"),
        ({"a": ["x"], "b": ["y"], "outcome": ["x"]}, r"outcome .*'x'.* \(row 0\) is unknown"),
        ({"a": ["x"], "b": ["y"], "outcome": [np.nan]}, "is unknown"),
        ({"a": ["x"], "b": ["y"], "outcome": [1, 0]}, r"each of the 1 votes, got shape \(2,\)"),
        ({"a": ["x"], "b": ["y"], "outcome": [0.5]}, "all votes are ties"),
        ({"a": ["x"], "b": ["y"], "sample_weight": [-1]}, "sample_weight must hold finite numbers"),
        ({"a": ["x"], "b": ["y"], "sample_weight": [0]}, "at least 2 players, got 0"),
        ({"a": ["x"], "b": ["y"], "covariates": [np.inf]}, "covariates contain NaN or infinity"),
        ({"a": ["x"], "b": ["y"], "covariates": [[1], [2]]}, "one row for each of the 1 votes"),
        ({"a": ["x"], "b": ["y"], "covariates": [0.0]}, "do not determine all effects"),
        ({"a": ["x", "y"], "b": ["y", "x"], "covariates": [1.0, 1.0]}, "predicts every vote"),
        ({"a": ["x"], "b": ["y"], "groups": "judge"}, "names a column, but the votes are no frame"),
        ({"a": {"winner": ["x"], "lost": ["y"]}}, "its columns are winner, lost; rename"),
        ({"a": {"winner": ["x"], "loser": ["y"]}, "groups": "g"}, "the frame has no column 'g'"),
        ({"a": ["x"], "outcome": [1]}, "outcome needs a and b"),
    ],
)
def test_broken_votes_are_named(votes, message):
    with pytest.raises(ValueError, match=message):
        PairwiseRatings().fit(**votes)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"ties": "davison"}, ValueError, "ties must be one of davidson, half, got 'davison'"),
        ({"prior": -1}, ValueError, "prior must be a positive number, got -1"),
        ({"half_life": 0}, ValueError, "half_life must be a positive number"),
        ({"home": True}, ValueError, "winners and losers do not tell; pass a, b and outcome"),
    ],
)
def test_wrong_parameters_are_named(given, error, message):
    with pytest.raises(error, match=message):
        PairwiseRatings(**given).fit(["x", "y"], ["y", "x"])


def test_other_errors():
    model = PairwiseRatings().fit(["ann", "bob"], ["bob", "cid"])
    with pytest.raises(ValueError, match="there are no votes on 'an'; did you mean 'ann'"):
        model.compare("an", "bob")
    with pytest.raises(ValueError, match="cannot be compared with itself"):
        model.compare("bob", "bob")
    numbered = PairwiseRatings().fit([0, 1], [1, 2])
    with pytest.raises(ValueError, match="no votes on '0'; the players are whole numbers: write 0"):
        numbered.compare("0", 1)
    texts = PairwiseRatings().fit(["0", "1"], ["1", "2"])
    with pytest.raises(ValueError, match="no votes on 0; the players are texts: write '0'"):
        texts.compare(0, "1")
    with pytest.raises(TypeError, match="got one ndarray"):
        PairwiseRatings().fit(np.zeros((3, 2)))
    with pytest.raises(TypeError, match="winners must hold texts or whole numbers, got float64"):
        PairwiseRatings().fit([1.0, 2.0], ["x", "y"])
    with pytest.raises(ValueError, match="Votes are counts already, groups cannot be added"):
        model.fit(model.votes_, groups=[1, 2])
    with pytest.raises(ValueError, match="counted with half_life=None, the model has half_life=5"):
        PairwiseRatings(half_life=5).fit(model.votes_)
    with pytest.raises(ValueError, match="agree in groups, got False and True"):
        model.partial_fit(["ann"], ["cid"], groups=[1])
    one = PairwiseRatings().fit(["ann", "bob"], ["bob", "cid"], groups=[1, 1])
    with pytest.raises(ValueError, match="all votes are of one group"):
        one.intervals()
    with pytest.raises(ValueError, match="covariates must be finite and of shape"):
        model.predict_proba("ann", "bob", covariates=[1.0])


def test_a_failed_fit_changes_nothing():
    model = PairwiseRatings().fit(["ann", "bob"], ["bob", "cid"])
    before = model.scores_.tolist()
    with pytest.raises(ValueError, match="the same player"):
        model.partial_fit(["ann"], ["ann"])
    assert model.scores_.tolist() == before
    assert model.votes_.n_votes == 2


# ------------------------------------------------------------------------------ files, plots


@pytest.mark.parametrize("case", ["plain", "everything", "forgetting"])
def test_saved_and_loaded(tmp_path, case):
    a, b, outcome, x, _ = arena(400, nu=0.4)
    model, extra = PairwiseRatings(), {}
    if case == "everything":
        model = PairwiseRatings(home=True, prior=0)
        extra = {"covariates": x, "groups": [f"judge {k % 9}" for k in range(400)]}
    if case == "forgetting":
        model = PairwiseRatings(half_life=40.0, ties="half")
    model.fit([f"p{k}" for k in a], [f"p{k}" for k in b], outcome, **extra)
    path = tmp_path / "ratings.safetensors"
    model.save(path)
    for other in (load_model(path), PairwiseRatings.load(path), pickle.loads(pickle.dumps(model))):
        assert other.scores_.tolist() == model.scores_.tolist()
        assert other.intervals() == model.intervals()
        assert other.effects() == model.effects()
        assert other.get_params() == model.get_params()
        more = {"covariates": [0.5], "groups": ["judge 1"]} if extra else {}
        other.partial_fit(["p0"], ["p1"], [1], **more)
        assert other.votes_.n_votes == 401
    assert not hasattr(clone(model), "scores_")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": 99}, "do not fit each other"),
        ({"second": "first"}, "do not fit each other"),
        ({"parameters": "short"}, "do not fit"),
        ({"counts": 0.0}, "do not fit each other"),
        ({"players": ["b", "a", "c"]}, "do not fit each other"),
        ({"players": [1, "a", "c"]}, "texts throughout"),
        ({"ordered": 3}, "do not fit each other"),
        ({"groups": ["g"]}, "do not fit each other"),
    ],
)
def test_a_broken_file_is_refused(change, message):
    model = PairwiseRatings().fit(["a", "b"], ["b", "c"])
    record = model.to_record()
    (name, value), = change.items()  # fmt: skip
    if name in record.arrays:
        array = record.arrays[name].copy()
        if value == "short":
            record.arrays[name] = array[:-1]
        else:
            array[...] = record.arrays["first"] if value == "first" else value
            record.arrays[name] = array
    else:
        labels = dict(model._vote_labels)
        labels[name] = value
        stored = record.parameters["fitted"]["_vote_labels"]["items"]
        stored[:] = [[key, value if key == name else old] for key, old in stored]
    with pytest.raises(ModelFileError, match=message):
        PairwiseRatings.from_record(record)


def test_plots():
    pytest.importorskip("matplotlib")
    a, b, outcome, _, _ = arena(300)
    model = PairwiseRatings().fit(a, b, outcome)
    best = str(model.players_[np.argmax(model.scores_)])
    assert plot_ratings(model).get_yticklabels()[0].get_text() == best


def test_votes_are_a_list_of_tuples_too():
    pairs = [("x", "y"), ("y", "z"), ("x", "z"), ("y", "x")]
    columns = PairwiseRatings().fit(*map(list, zip(*pairs, strict=True)))
    assert PairwiseRatings().fit(pairs).scores_.tolist() == columns.scores_.tolist()
    votes = [("x", "y", 1), ("y", "z", 0.5), ("z", "x", 0)]
    ordered = PairwiseRatings().fit(*map(list, zip(*votes, strict=True)))
    assert PairwiseRatings().fit(votes).scores_.tolist() == ordered.scores_.tolist()
    with pytest.raises(ValueError, match=r"vote 1 is \('y',\)"):
        PairwiseRatings().fit([("x", "y"), ("y",)])
    with pytest.raises(TypeError, match="list of tuples; got one list"):
        PairwiseRatings().fit([["x", "y"], ["y", "z"]])


def test_an_outcome_that_may_be_a_name_is_refused():
    with pytest.raises(ValueError, match="outcome 'a' is also the name of a player"):
        PairwiseRatings().fit([("b", "a", "a"), ("a", "c", "tie")])
    assert len(PairwiseRatings().fit([("b", "a", "loss"), ("a", "c", "tie")]).scores_) == 3
    # the texts of a CSV file: a number is an outcome
    assert len(PairwiseRatings().fit([("0", "1", "1"), ("1", "2", "0")]).scores_) == 3


@pytest.mark.parametrize("half_life", [None, 2.0])
def test_a_row_of_weight_zero_is_no_vote(half_life):
    a, b, outcome = ["x", "y", "z", "x", "y"], ["y", "z", "x", "z", "x"], [1, 0, 0.5, 1, 0]
    weight = [1.0, 0.0, 1.0, 2.0, 0.0]
    kept = [0, 2, 3]
    given = {"groups": [1, 2, 1, 2, 3], "covariates": [0.0, 5.0, 1.0, 2.0, 7.0]}
    found = Votes.count(a, b, outcome, sample_weight=weight, half_life=half_life, **given)
    some = {name: [values[k] for k in kept] for name, values in given.items()}
    a, b, outcome = ([one[k] for k in kept] for one in (a, b, outcome))
    never = Votes.count(a, b, outcome, sample_weight=[1.0, 1.0, 2.0], half_life=half_life, **some)
    for name, value in vars(never).items():
        np.testing.assert_array_equal(getattr(found, name), value, err_msg=name)


@pytest.mark.parametrize("large", [np.array([2**63 + 1, 3], dtype=np.uint64), [2**70, 3]])
def test_names_are_no_larger_than_their_type(large):
    with pytest.raises(ValueError, match="too large a whole number for a name; write such names"):
        PairwiseRatings().fit(large, [1, 2])
