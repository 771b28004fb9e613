# SPDX-License-Identifier: BSD-3-Clause
"""Ordered grades, one score."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.metrics import get_scorer

from pairlearn import Exact, OrdinalAUCClassifier, explain, pair_accuracy, roc_auc
from pairlearn.estimators.classes.ordinal import share_in_order
from pairlearn.models import ModelFileError


@pytest.fixture
def graded(rng):
    X = rng.normal(size=(400, 4))
    latent = X @ [2.0, -1.0, 0.0, 0.5] + rng.logistic(size=400)
    return X, np.digitize(latent, [-1.5, 0.5, 3.0])


def test_score_minimises_the_square_loss_over_all_pairs_of_grades(graded):
    X, y = graded
    X, y = X[:60], y[:60]
    model = OrdinalAUCClassifier(solver=Exact(ridge=0.2), scaling=None).fit(X, y)

    def risk(w):
        pairs = [
            (y[j] - y[i] - w @ (X[j] - X[i])) ** 2
            for i in range(60)
            for j in range(60)
            if y[i] < y[j]
        ]
        return np.mean(pairs) + 0.2 * w @ w

    slope = approx_fprime(model.coef_, risk, 1e-6)
    assert np.abs(slope).max() < 1e-4


def test_units_storage_and_names_do_not_matter(graded, tmp_path):
    X, y = graded
    names = np.array(["none", "little", "more", "most"])
    model = OrdinalAUCClassifier(solver=Exact(ridge=0.1), random_state=0).fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (p > 0.0).all()
    named = OrdinalAUCClassifier(grades=names.tolist(), solver=Exact(ridge=0.1), random_state=0)
    named.fit(X * [1.0, 1e3, 1e-3, 7.0] + 5.0, names[y])
    other = X * [1.0, 1e3, 1e-3, 7.0] + 5.0
    found, expected = named.score_samples(other), model.score_samples(X)
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-7)
    # Other numbers make other folds, which place the cuts.
    place = {name: k for k, name in enumerate(named.classes_.tolist())}
    columns = [place[name] for name in names.tolist()]
    np.testing.assert_allclose(named.predict_proba(other)[:, columns], p, atol=0.05)
    assert named.grades_.tolist() == names.tolist()
    assert named.classes_.tolist() == sorted(names.tolist())
    sparse = OrdinalAUCClassifier(solver=Exact(ridge=0.1), scaling=None).fit(
        scipy.sparse.csr_array(X), y
    )
    dense = OrdinalAUCClassifier(solver=Exact(ridge=0.1), scaling=None).fit(X, y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-8)
    named.save(tmp_path / "m")
    again = OrdinalAUCClassifier.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(X), named.predict(X))
    np.testing.assert_array_equal(again.predict_proba(X), named.predict_proba(X))
    assert again.grades_.tolist() == named.grades_.tolist()
    assert again.classes_.tolist() == named.classes_.tolist()


def test_score_is_the_share_of_pairs_in_order(graded, rng):
    X, y = graded
    model = OrdinalAUCClassifier(random_state=0).fit(X, y)
    assert model.score(X, y) == pytest.approx(pair_accuracy(y, model.score_samples(X)))
    assert model.score(X, y) > 0.85
    weight = rng.integers(0, 3, 400).astype(float)
    repeated = np.repeat(np.arange(400), weight.astype(int))
    assert model.score(X, y, weight) == pytest.approx(model.score(X[repeated], y[repeated]))
    two = OrdinalAUCClassifier(random_state=0).fit(X, y > 1)
    assert two.score(X, y > 1) == pytest.approx(roc_auc(y > 1, two.decision_function(X)))
    assert ((two.decision_function(X) > 0) == two.predict(X)).all()


def test_grades_are_found_nearly_as_often_as_with_the_true_model(graded):
    X, y = graded
    model = OrdinalAUCClassifier(random_state=0).fit(X[:300], y[:300])
    t = X[300:] @ [2.0, -1.0, 0.0, 0.5]
    above = 1.0 / (1.0 + np.exp(np.array([-1.5, 0.5, 3.0]) - t[:, None]))
    truth = -np.diff(np.hstack((np.ones((100, 1)), above, np.zeros((100, 1)))), axis=1)
    right = (truth.argmax(axis=1) == y[300:]).mean()
    assert (model.predict(X[300:]) == y[300:]).mean() > right - 0.08
    rows = np.arange(100)
    best = -np.log(truth[rows, y[300:]]).mean()
    assert -np.log(model.predict_proba(X[300:])[rows, y[300:]]).mean() < best + 0.1
    assert share_in_order(np.array([0, 0, 1]), np.zeros(3), np.ones(3)) == 0.5


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({}, ["a", "b", "c", "a"], r"y holds texts.*pass grades=\[lowest"),
        ({}, ["low", "high", "low", "high"], r"y holds texts, \['high', 'low'\].*pass grades="),
        ({"grades": [0, 1]}, [0, 1, 2, 1], r"y holds 2, which is not in grades=\[0, 1\]"),
        ({"grades": [0, 1, 1]}, [0, 1, 0, 1], "list of different grades"),
        ({"grades": [0, 1, 2]}, [0, 1, 0, 1], "the class 2 is without weight"),
        ({}, [1, 1, 1, 1], "at least two grades, got 1 class"),
        ({"solver": "sgd"}, [0, 1, 0, 1], r"no way to train by SGD\(\); use solver=\"exact\""),
    ],
)
def test_refusals(settings, y, message):
    with pytest.raises(ValueError, match=message):
        OrdinalAUCClassifier(**settings).fit(np.arange(4.0)[:, None], y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": []}, "its 0 grades do not have 3 cuts"),
        ({"classes": [0, 1, 2]}, "its 3 grades do not have 3 cuts"),
        ({"classes": None}, "its 0 grades do not have 3 cuts"),
        ({"arrays": {"slope": np.array(0.0)}}, "the slope is 0"),
    ],
)
def test_a_record_has_a_cut_between_any_two_grades(change, message, graded):
    record = OrdinalAUCClassifier(solver=Exact(ridge=0.1)).fit(*graded).to_record()
    change = {k: {**record.arrays, **v} if k == "arrays" else v for k, v in change.items()}
    with pytest.raises(ModelFileError, match=message):
        OrdinalAUCClassifier.from_record(replace(record, **change))


def test_scores_near_the_largest_number_have_probabilities(graded):
    X, y = graded
    model = OrdinalAUCClassifier(solver=Exact(ridge=0.1)).fit(X, y)
    p = model.predict_proba(np.full((1, 4), 1e307) * np.sign(model.coef_))
    np.testing.assert_allclose(p, [[0.0, 0.0, 0.0, 1.0]])


def test_the_order_of_the_grades_does_not_matter_to_scikit_learn(graded):
    """Its scorers and ensembles take columns and signs to be those of sorted classes."""
    X, y = graded
    words = np.array(["poor", "fair", "good", "best"])
    settings = {"solver": Exact(ridge=0.1), "random_state": 0}
    numbers = OrdinalAUCClassifier(**settings).fit(X, y)
    model = OrdinalAUCClassifier(grades=words.tolist(), **settings).fit(X, words[y])
    for name in ("roc_auc_ovr", "neg_log_loss"):
        expected = get_scorer(name)(numbers, X, y)
        assert get_scorer(name)(model, X, words[y]) == pytest.approx(expected)
    falling = OrdinalAUCClassifier(grades=[3, 2, 1, 0], **settings)
    bags = [BaggingClassifier(one, 3, random_state=0) for one in (numbers, falling)]
    right = bags[0].fit(X, y).score(X, y)
    assert bags[1].fit(X, 3 - y).score(X, 3 - y) == pytest.approx(right, abs=0.05)
    for labels in ([1, 0], ["yes", "no"]):
        two = OrdinalAUCClassifier(grades=labels, **settings)
        two.fit(X, np.array(labels)[(y > 1).astype(int)])
        known = np.array(labels)[(y > 1).astype(int)]
        assert two.score(X, known) > 0.85
        assert get_scorer("roc_auc")(two, X, known) == pytest.approx(two.score(X, known))
        sign = (two.decision_function(X) > 0).astype(int)
        np.testing.assert_array_equal(two.classes_[sign], two.predict(X))
        found = explain(two, X[0])
        assert found.total == pytest.approx(two.decision_function(X[:1])[0])
        assert found.base + sum(found.contributions.values()) == pytest.approx(found.total)


def test_three_grades_have_no_decision_function_which_scikit_learn_would_misread(graded):
    X, y = graded
    model = OrdinalAUCClassifier(solver=Exact(ridge=0.1), random_state=0)
    alone = clone(model).fit(X, y)
    assert explain(alone, X[0]).total == pytest.approx(alone.score_samples(X[:1])[0])
    with pytest.raises(AttributeError) as caught:
        alone.decision_function(X)
    assert "score_samples" in str(caught.value.__cause__)
    # One column of scores was taken for that of one class against the rest.
    calibrated = CalibratedClassifierCV(model, cv=3).fit(X, y)
    assert np.mean(calibrated.predict(X) == y) > np.mean(alone.predict(X) == y) - 0.05


def test_an_ordered_categorical_says_the_order_of_its_grades(graded):
    X, y = graded
    words = ["poor", "fair", "good", "best"]
    for k in (2, 4):
        codes = np.minimum(y, k - 1)
        given = pd.Series(pd.Categorical.from_codes(codes, words, ordered=True))
        model = OrdinalAUCClassifier(random_state=0).fit(X, given)
        assert model.grades_.tolist() == words[:k]
        assert model.score(X, given) > 0.8
