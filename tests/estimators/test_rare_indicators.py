# SPDX-License-Identifier: BSD-3-Clause
"""Tables of rare indicators: folds choose whether rare ones stay small."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from pairlearn import AUCClassifier, roc_auc
from pairlearn.estimators.shared.scaling import by_presence, other_scales, scaled_rows
from pairlearn.solvers.rows import as_rows


def indicators(n=1600, d=120):
    """Return rare indicators beside as many that are not, so that they are no text."""
    rng = np.random.default_rng(0)
    rate = np.where(np.arange(d) % 2, 0.4, np.exp(rng.uniform(np.log(0.0003), np.log(0.001), d)))
    X = (rng.random((n, d)) < rate).astype(float)
    X[0], X[1] = 0.0, 1.0
    return X


def tried(rows, weight=None, n_rarest=1000):
    """Return the usual scales of rows, and the other ones, each with the rows by them."""
    weight = np.empty(0) if weight is None else weight
    scaling, scaled = scaled_rows("auto", rows, np.empty(0))
    return scaling, list(other_scales(scaling, scaled, weight, n_rarest))


@pytest.mark.parametrize("store", ["dense", "sparse"])
def test_the_other_scales_give_each_column_variance_one(store):
    X = indicators()
    rows = as_rows(sparse.csr_matrix(X) if store == "sparse" else X)
    _, [*_, (other, table)] = tried(rows)
    found = table.matrix.toarray() if store == "sparse" else table.matrix
    # The second formulation: what StandardScaler makes of the user's columns.
    np.testing.assert_allclose(found.std(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(other.weights, 1.0 / X.std(axis=0), rtol=1e-12)
    # A weight of two counts a row twice.
    weight = np.where(np.arange(len(X)) < 500, 2.0, 1.0)
    twice = np.concatenate([X, X[:500]])
    other, _ = tried(rows, weight)[1][-1]
    np.testing.assert_allclose(other.weights, 1.0 / twice.std(axis=0), rtol=1e-12)


def test_columns_that_are_alike_are_tried_once():
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(300, 40)), (rng.random((300, 40)) < 0.3) * 1.0, np.eye(300)[:, :5]):
        assert not tried(as_rows(X))[1]


def test_wide_sparse_rows_are_tried_as_long_as_they_are_few(monkeypatch):
    X = sparse.csr_matrix(indicators(n=400, d=2000))
    scaling, [*_, (other, _)] = tried(as_rows(X))
    varies = scaling.factor > 0.0
    spread = X.toarray().std(axis=0)[varies]
    np.testing.assert_allclose(other.weights[varies], 1.0 / spread, rtol=1e-12)
    monkeypatch.setattr("pairlearn.estimators.shared.scaling._MOST_STORED", X.nnz - 1)
    assert not tried(as_rows(X))[1]


def weighed(n=400, d=3000):
    """Return sparse rows whose columns differ in size, as words weighed by their rarity do."""
    rng = np.random.default_rng(0)
    rate = np.minimum(0.4, 5.0 / np.arange(1, d + 1))
    X = (rng.random((n, d)) < rate) * np.log(2.0 / rate)
    return sparse.csr_matrix(X)


def test_presence_is_tried_for_a_text():
    X = weighed()
    # The spread alone is for tables.
    scaling, [(soft, rows)] = tried(as_rows(X))
    varies = scaling.factor > 0.0
    dense = X.toarray()[:, varies]
    share = np.minimum(1.0, 2.0 * (dense != 0.0).mean(axis=0))
    found = (dense * soft.weights[varies]).std(axis=0)
    np.testing.assert_allclose(found / found[0], np.sqrt(share / share[0]), rtol=1e-9)
    np.testing.assert_allclose(rows.matrix.toarray().var(axis=0)[varies].mean(), 1.0, rtol=1e-9)
    # A score of rows in scales is one of the rows as they came.
    w = np.random.default_rng(1).normal(size=X.shape[1])
    np.testing.assert_allclose(rows.matrix @ w, X @ soft.to_user(w), rtol=1e-9, atol=1e-12)


def test_few_examples_of_a_class_do_not_choose_presence():
    rows = as_rows(weighed())
    assert [len(tried(rows, n_rarest=k)[1]) for k in (59, 60)] == [0, 1]


def test_presence_is_tried_for_sparse_texts_alone():
    X = weighed()
    scaling, scaled = scaled_rows("auto", as_rows(X.toarray()), np.empty(0))
    assert by_presence(scaling, scaled, np.empty(0)) is None
    rng = np.random.default_rng(0)
    table = sparse.random(300, 50, density=0.3, random_state=rng, format="csr")
    scaling, scaled = scaled_rows("auto", as_rows(table), np.empty(0))
    assert by_presence(scaling, scaled, np.empty(0)) is None


@pytest.mark.parametrize("change", ["zeros", "constants", "weights", "no weight"])
def test_what_says_nothing_does_not_decide_whether_rows_are_text(change):
    rng = np.random.default_rng(0)
    # Barely a text: one value in ten would make a table of it.
    X = (rng.random((300, 40)) < 0.09) * rng.lognormal(size=(300, 40))
    expected, [(soft, _), *_] = tried(as_rows(sparse.csr_matrix(X)))
    other, weight = sparse.csr_matrix(X), np.ones(300)
    if change == "zeros":
        other = with_stored_zeros(other, 3_000)
    elif change == "constants":
        other = sparse.csr_matrix(np.hstack([X, np.full((300, 30), 2.0)]))
    elif change == "weights":
        # Rows of many words that count half as often, twice.
        full = np.argsort((X != 0.0).sum(axis=1))[150:]
        other, weight = sparse.csr_matrix(np.vstack([X, X[full], X[full]])), np.ones(600)
        weight[full], weight[300:] = 0.5, 0.25
    else:
        other, weight = sparse.csr_matrix(np.vstack([X, np.ones((300, 40))])), np.ones(600)
        weight[300:] = 0.0
    scaling, rows = scaled_rows("auto", as_rows(other), weight)
    (found, _), *_ = other_scales(scaling, rows, weight, 1000)
    np.testing.assert_allclose(scaling.weights[:40], expected.weights, rtol=1e-9)
    np.testing.assert_allclose(found.weights[:40], soft.weights, rtol=1e-9)


def with_stored_zeros(X, count):
    """Return the same sparse rows with zeros at some places."""
    rng, entries = np.random.default_rng(1), X.tocoo()
    places = [rng.integers(0, size, count) for size in X.shape]
    data = np.concatenate([np.zeros(count), entries.data])
    rows, columns = (np.concatenate(p) for p in zip(places, entries.coords, strict=True))
    found = sparse.csr_matrix((data, (rows, columns)), shape=X.shape)
    assert found.nnz > X.nnz
    assert not (found != X).nnz
    return found


def test_in_text_the_spread_of_a_scaled_column_is_a_power_of_its_share():
    X = weighed()
    scaling, _ = scaled_rows("auto", as_rows(X), np.empty(0))
    dense = X.toarray()
    share = (dense != 0.0).mean(axis=0)
    found, varies = (dense * scaling.weights).std(axis=0), scaling.factor > 0.0
    wanted = np.minimum(1.0, 2.0 * share[varies]) ** 0.15
    np.testing.assert_allclose(found[varies] / found[varies][0], wanted / wanted[0], rtol=1e-9)
    np.testing.assert_allclose((found[varies] ** 2).mean(), 1.0, rtol=1e-9)


def outcomes(X, effect, rng):
    """Return labels, about one in twelve positive, by a score of these effects."""
    score = X @ effect
    chance = 1.0 / (1.0 + np.exp(-1.5 * (score - np.quantile(score, 0.95))))
    return (rng.random(len(X)) < chance).astype(int)


@pytest.mark.thorough
def test_rare_words_count_whether_they_matter_more_or_alike():
    # Against the two extremes: all columns by their deviations, and as they come.
    rng = np.random.default_rng(0)
    rate = np.exp(rng.uniform(np.log(0.002), np.log(0.08), 400))
    X = (rng.random((4000, 400)) < rate).astype(float)
    effect = 1.2 * rng.normal(size=400) * (rng.random(400) < 0.3)
    bare = {"solver": "exact", "loss": "squared_hinge", "scaling": None, "random_state": 0}
    by_deviation = StandardScaler().fit(X[:2000]).transform(X) / np.sqrt(X.shape[1])
    for growth in (np.clip(np.sqrt(0.02 / rate), 0.0, 3.0), 1.0):
        y = outcomes(X, effect * growth, rng)
        aucs = [
            roc_auc(y[2000:], model.fit(R[:2000], y[:2000]).decision_function(R[2000:]))
            for R, model in (
                (X, AUCClassifier(random_state=0)),
                (by_deviation, AUCClassifier(**bare)),
                (X, AUCClassifier(**bare)),
            )
        ]
        # The seed is fixed, so there is no false alarm.
        assert aucs[0] > max(aucs[1:]) - 0.02
        assert aucs[0] > min(aucs[1:]) + 0.005


def documents(n=300, d=500, seed=0, spread=0.5):
    """Return presence of rare words, the lengths of rows and the units of words."""
    rng = np.random.default_rng(seed)
    there = rng.random((n, d)) < 0.25 / (1.0 + np.arange(d)) ** 0.6
    there[0] = True
    there[1] = False
    return there, np.exp(rng.normal(0.0, spread, n)), np.exp(rng.normal(0.0, 2.0, d))


def factors(X, weight=None):
    return scaled_rows("auto", as_rows(X), weight)[0].weights


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_scales_of_text_do_not_take_up_the_lengths_of_rows(store):
    there, length, unit = documents()
    # Without lengths a word has its unit and its share; lengths must not come between.
    plain = factors(store(there * unit)) * unit
    found = factors(store(there * length[:, None] * unit)) * unit
    rare = there.mean(axis=0) < 0.5
    deviations = (there * length[:, None]).std(axis=0) / there.std(axis=0)
    with_lengths, without = (np.std(np.log(one[rare])) for one in (found / plain, deviations))
    # What is left is a quarter, and comes from few rows: the deviation is a root mean square.
    assert with_lengths < 0.6 * without


def test_lengths_and_repeats_are_those_of_a_fit_of_sums_to_logarithms():
    there, length, unit = documents(spread=0.3)
    X = there * length[:, None] * unit * np.random.default_rng(1).uniform(0.8, 1.25, there.shape)
    row, column = np.nonzero(X)
    n, d = X.shape
    # Least squares of log |x_ik| = a_i + b_k, solved as a whole.
    design = sparse.csr_array(
        (np.ones(2 * len(row)), (np.tile(np.arange(len(row)), 2), np.r_[row, n + column])),
        shape=(len(row), n + d),
    )
    fitted = sparse.linalg.lsqr(design, np.log(X[row, column]), atol=1e-14, btol=1e-14)[0][:n]
    known = np.unique(row)
    fitted = np.clip(fitted - fitted[known].mean(), -np.log(10.0), np.log(10.0))
    mean = np.array([fitted[row[column == k]].mean() for k in range(d)])
    even = np.abs(X) / np.exp(fitted)[:, None]
    own = [even[there[:, k], k] for k in range(d)]
    repeats = np.array([np.sqrt(np.mean(one**2)) / one.min() for one in own])
    deviation, share = X.std(axis=0), there.mean(axis=0)
    expected = np.exp(0.75 * mean) * repeats**0.25 * (2.0 * share) ** 0.15 / deviation
    found = factors(X)
    ratio = np.log(found / expected)
    # Turns stop early: what is left is small beside the lengths.
    assert np.ptp(ratio) < 0.02 < 0.2 < np.ptp(mean)


def test_lengths_do_not_depend_on_units_order_storage_or_how_rows_are_repeated():
    there, length, unit = documents()
    X = there * length[:, None]
    rng = np.random.default_rng(2)
    plain = factors(X)
    np.testing.assert_allclose(factors(X * unit) * unit, plain, rtol=1e-9)
    np.testing.assert_allclose(factors(X[rng.permutation(len(X))]), plain, rtol=1e-12)
    np.testing.assert_allclose(factors(sparse.csr_array(X)), plain, rtol=1e-12)
    np.testing.assert_allclose(factors(X + unit), plain, rtol=1e-6)
    # Sparse rows may store the majority of some columns, too.
    mixed = X + unit * (np.arange(len(unit)) % 7 == 0)
    np.testing.assert_allclose(factors(sparse.csr_array(mixed)), factors(mixed), rtol=1e-12)
    np.testing.assert_allclose(factors(mixed), plain, rtol=1e-6)
    times = rng.integers(0, 4, len(X))
    again = factors(np.repeat(X, times, axis=0))
    np.testing.assert_allclose(factors(X, times.astype(float)), again, rtol=1e-12)
    np.testing.assert_allclose(factors(X, 0.125 * times), again, rtol=1e-12)


def test_a_word_that_is_repeated_is_louder_than_one_that_is_not():
    there, _, unit = documents(spread=0.0)
    times = np.ones(there.shape)
    rare = np.flatnonzero(there.sum(axis=0) == 12)
    for k, most in zip(rare[:3], (4.0, 30.0, 1e9), strict=True):
        times[np.flatnonzero(there[:, k])[::2], k] = most
    X = there * times * unit
    spread = np.std(X[:, rare] * factors(X)[rare], axis=0) / np.std(
        X[:, rare[3]] * factors(X)[rare[3]]
    )
    # Rows that repeat a word are longer, which takes some of it back.
    assert 1.1 < spread[0] < 1.4
    assert 1.4 * spread[0] < spread[1]
    # More repeats than 30 say no more.
    assert spread[2] < 1.2 * spread[1]


def test_a_row_of_enormous_length_counts_as_one_of_ten_times_the_usual():
    there, length, _ = documents(spread=0.0)
    length[0] = 1e9
    rare = there.sum(axis=0) == 1
    assert rare.any()
    # Dense rows would warn of the row.
    rows, usual = (
        scaled_rows("auto", as_rows(sparse.csr_array(there * one[:, None])))[1].matrix[0, rare]
        for one in (length, np.ones(len(there)))
    )
    assert rows.max() < 15.0 * usual.max()
