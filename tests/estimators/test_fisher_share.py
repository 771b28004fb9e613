# SPDX-License-Identifier: BSD-3-Clause
"""A share of Fisher's discriminant where a class has few examples: chosen on folds, and said."""

from __future__ import annotations

import numpy as np
import pytest

from pairlearn import AUCClassifier, Exact, PartialArea, roc_auc
from pairlearn.estimators.auc.bootstrap import bootstrap


def few_positives(seed, n_positive=10, n=1200, d=8):
    """Correlated features, and positives of the spread of the negatives, which ten do not show.

    Return training and test examples.
    """
    rng = np.random.default_rng(seed)
    mixing = 0.6 ** np.arange(d)[:, None] * np.linalg.qr(rng.normal(size=(d, d)))[0]
    y = np.repeat([1, 0, 1, 0], [n_positive, n - n_positive, 1000, 2000])
    X = rng.normal(size=(len(y), d))
    X[y == 1] += 1.0 / np.sqrt(d)
    X = X @ mixing
    return X[:n], y[:n], X[n:], y[n:]


def test_it_is_better_with_few_positives_than_the_pair_loss_alone():
    gains = []
    for seed in range(8):
        X, y, X_test, y_test = few_positives(seed)
        scores = [
            AUCClassifier(random_state=0, **given).fit(X, y).decision_function(X_test)
            for given in ({}, {"solver": "exact"})
        ]
        gains.append(roc_auc(y_test, scores[0]) - roc_auc(y_test, scores[1]))
    assert np.mean(gains) > 0.01


def test_the_choice_is_the_best_of_what_was_tried_and_is_told(capsys):
    X, y, _, _ = few_positives(0)
    model = AUCClassifier(random_state=0, verbose=1).fit(X, y)
    shares = [one for one in model.choice_.tried if "fisher" in one.values]
    assert [one.values["fisher"] for one in shares] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert model.choice_.evidence in shares
    best = max(shares, key=lambda one: one.auc)
    assert model.choice_.evidence.auc > best.auc - best.standard_error
    assert model.choice_.evidence.auc > shares[0].auc
    assert model.choice_.fisher == model.choice_.evidence.values["fisher"] > 0
    assert f"Fisher's discriminant by {model.choice_.fisher:g}" in capsys.readouterr().err
    again = AUCClassifier(random_state=0, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.coef_)


@pytest.mark.parametrize(
    "given",
    [
        {"solver": "exact"},
        {"solver": Exact(0.1)},
        {"loss": "squared_hinge"},
        {"scaling": None},
        {"features": "hats"},
        {"objective": "push"},
        {"objective": PartialArea(0.1)},
    ],
)
def test_what_is_asked_for_by_name_takes_no_share(given):
    X, y, _, _ = few_positives(0)
    model = AUCClassifier(random_state=0, **given).fit(X, y)
    assert model.choice_.fisher == 0.0
    assert not any("fisher" in one.values for one in model.choice_.tried)


def test_many_positives_and_wide_rows_take_none(rng):
    X, y, _, _ = few_positives(0, n_positive=400)
    assert AUCClassifier(random_state=0).fit(X, y).choice_.fisher == 0.0
    wide = rng.normal(size=(30, 40))
    assert AUCClassifier(random_state=0).fit(wide, np.arange(30) % 2).choice_.fisher == 0.0


def streamed(X, y, **given):
    order = np.random.default_rng(0).permutation(len(y))
    return AUCClassifier(**given).partial_fit(X[order], y[order], classes=[0, 1])


def test_a_stream_is_better_with_few_positives_than_the_square_loss_alone():
    gains = []
    for seed in range(8):
        X, y, X_test, y_test = few_positives(seed)
        scores = [
            streamed(X, y, **given).decision_function(X_test)
            for given in ({}, {"solver": "moments"})
        ]
        gains.append(roc_auc(y_test, scores[0]) - roc_auc(y_test, scores[1]))
    assert np.mean(gains) > 0.01


@pytest.mark.parametrize("n_positive", [10, 100, 400])
def test_a_stream_takes_what_its_folds_speak_for(n_positive):
    X, y, _, _ = few_positives(1, n_positive)
    order = np.random.default_rng(0).permutation(len(y))
    X, signs = X[order], np.where(y[order] == 1, 1.0, -1.0)
    model = streamed(*few_positives(1, n_positive)[:2])
    coef = model.coef_[0]
    # A choice is made by the first rows, at most one in 16 fewer than all.
    n = len(signs)
    step = 1 << max((n // 16).bit_length() - 1, 0)
    known = signs[: max(n - n % step, n - n % 128)]
    late = 1.0 + 1.5 / 16  # Most rows of a class came late: all rows choose.
    if any(np.sum(signs == one) > late * np.sum(known == one) for one in (1.0, -1.0)):
        known = signs
    places = [np.flatnonzero(known == sign) for sign in (1.0, -1.0)]
    ridges = [100.0, 10.0] * (n_positive < 60) + [1.0, 0.1, 0.01, 1e-3, 1e-4]
    floors = 0.1 * np.ptp(X, axis=0)

    def solution(rows, ridge, pooled):
        parts = [X[rows[signs[rows] == sign]] for sign in (1.0, -1.0)]
        size = np.maximum(X[rows].std(axis=0), floors)
        size *= np.sqrt(np.mean((X[rows].std(axis=0) / size) ** 2))
        shares = [2.0 * len(one) / len(rows) if pooled else 1.0 for one in parts]
        spreads = [np.cov((one / size).T, bias=True) for one in parts]
        C = shares[0] * spreads[0] + shares[1] * spreads[1]
        u = (parts[0].mean(axis=0) - parts[1].mean(axis=0)) / size
        return np.linalg.solve(C + ridge * np.eye(len(u)), u) / size

    def worth(ridge, pooled):
        found = []
        for repeat in range(3 if n_positive < 60 else 1):
            fold = np.full(n, -1)
            for own in places:
                place = np.arange(len(own))
                fold[own] = (place % 5 + repeat * (place // 5)) % 5
            for k in range(5 if n_positive < 300 else 1):
                w = solution(np.flatnonzero((fold >= 0) & (fold != k)), ridge, pooled)
                found.append(roc_auc(signs[fold == k], X[fold == k] @ w))
        return np.mean(found)

    kinds = [False, True] if n_positive < 300 else [False]
    worths = {(ridge, pooled): worth(ridge, pooled) for pooled in kinds for ridge in ridges}
    best = max(worths, key=worths.get)
    assert (model.ridge_, model.held_out_auc_) == (best[0], pytest.approx(worths[best], abs=1e-9))
    w = solution(np.arange(len(signs)), *best)
    np.testing.assert_allclose(coef / np.linalg.norm(coef), w / np.linalg.norm(w))


def test_weights_of_classes_change_no_coefficient():
    X, y, _, _ = few_positives(0)
    plain = AUCClassifier(random_state=0).fit(X, y)
    assert plain.choice_.fisher > 0
    weighted = AUCClassifier(random_state=0, class_weight={0: 1.0, 1: 30.0}).fit(X, y)
    cosine = plain.coef_[0] @ weighted.coef_[0]
    cosine /= np.linalg.norm(plain.coef_) * np.linalg.norm(weighted.coef_)
    assert cosine > 0.9999


def test_an_anchor_takes_a_share_by_auc():
    X, y, _, _ = few_positives(0, n_positive=25)
    model = AUCClassifier(objective="average_precision", random_state=0).fit(X, y)
    named = AUCClassifier(objective="average_precision", solver="exact", random_state=0).fit(X, y)
    assert model.choice_.fisher > 0.0 == named.choice_.fisher
    assert np.abs(model.coef_ - named.coef_).max() > 1e-6


def test_replicates_of_a_bootstrap_take_the_share_of_the_model():
    X, y, _, _ = few_positives(0)
    model = AUCClassifier(random_state=0).fit(X, y)
    assert model.choice_.fisher > 0
    found = bootstrap(model, X, y, n=60, random_state=0)
    middle = np.median(found.coefs, axis=0)
    cosine = middle @ model.coef_[0] / np.linalg.norm(middle) / np.linalg.norm(model.coef_)
    assert cosine > 0.9


def test_a_share_must_be_better_by_a_standard_error():
    """Of classes that are far apart every model is as good, up to noise: the simplest is taken."""
    taken = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = np.repeat([1, 0], [20, 300])
        X = rng.normal(size=(320, 5)) + 2.5 * y[:, None] * np.eye(5)[0]
        model = AUCClassifier(random_state=0).fit(X, y)
        shares = {
            one.values["fisher"]: one for one in model.choice_.tried if "fisher" in one.values
        }
        best = max(shares.values(), key=lambda one: one.auc)
        assert model.choice_.evidence in (best, shares[0.0], shares[model.choice_.fisher])
        taken.append((model.choice_.fisher > 0, best.values["fisher"] > 0))
    taken = np.array(taken)
    assert taken[:, 0].sum() < taken[:, 1].sum()
