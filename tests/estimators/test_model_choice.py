# SPDX-License-Identifier: BSD-3-Clause
"""The kind of model for a table: the rule, the sample, and the model that comes out."""

import warnings

import numpy as np
import pytest

from pairlearn.estimators.stack import choice
from pairlearn.estimators.stack.blend import HeldOutScores
from pairlearn.estimators.stack.choice import KINDS, choose_model, judge, make_model
from pairlearn.metrics import roc_auc


def scores_of(positive, rng, **strengths):
    """Return scores that are the label times a strength plus noise of their own."""
    noise = rng.normal(size=(len(strengths), len(positive)))
    return {
        name: strength * positive + own
        for (name, strength), own in zip(strengths.items(), noise, strict=True)
    }


def folds_of(n, n_folds=3):
    return [np.arange(n)[k::n_folds] for k in range(n_folds)]


def test_the_simplest_within_an_error_of_the_best_is_taken(rng):
    positive = rng.random(900) < 0.4
    clear = scores_of(positive, rng, linear=0.2, curves=0.2, trees=2.0, stack=0.5)
    assert judge(HeldOutScores(positive, folds_of(900), clear)).kind == "trees"
    # Noise that hardly changes an order is no reason to leave the plane.
    linear = positive + rng.normal(size=900)
    same = {kind: linear + 1e-3 * k * rng.normal(size=900) for k, kind in enumerate(KINDS)}
    assert judge(HeldOutScores(positive, folds_of(900), same)).kind == "linear"


def test_the_error_is_that_of_resampled_rows(rng):
    # A bootstrap of the rows of each fold knows nothing of DeLong's formula.
    positive = np.arange(600) % 7 < 2
    both = scores_of(positive, rng, one=1.0, other=1.4)
    held_out = HeldOutScores(positive, folds_of(600), both)
    differences = []
    for _ in range(400):
        parts = []
        for held in held_out.folds:
            own = positive[held]
            drawn = np.concatenate(
                [rng.choice(held[own], own.sum()), rng.choice(held[~own], (~own).sum())]
            )
            parts.append(np.subtract(*(roc_auc(positive[drawn], s[drawn]) for s in both.values())))
        differences.append(np.mean(parts))
    # The deviation of 400 draws has a relative error of 3.5 %: 20 % are more than five of them.
    assert held_out.error_of_difference("one", "other") == pytest.approx(
        np.std(differences), rel=0.2
    )


def test_an_unknown_error_leaves_the_plane_for_nothing():
    positive = np.array([True, False, False, False] * 3)
    perfect, poor = positive + 0.0, 1.0 - positive
    folds = [np.arange(4), np.arange(4, 8)]
    one_each = HeldOutScores(positive, folds, {"linear": poor, "stack": perfect})
    assert one_each.error_of_difference("linear", "stack") == np.inf
    assert judge(one_each).kind == "linear"


@pytest.mark.thorough
def test_a_choice_on_a_sample_fits_all_rows(rng, monkeypatch):
    monkeypatch.setattr(choice, "_MOST_OF_A_CLASS", 150)
    X = rng.normal(size=(1200, 2))
    y = (X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=1200) > 0).astype(int)
    told = []
    found, model = choose_model(X[:900], y[:900], seed=0, told=told.append)
    assert len(told) == choice.N_TRAININGS
    assert found.n_rows == 300
    assert found.kind in ("trees", "stack")
    assert model.n_examples_ == 900
    assert model.score(X[900:], y[900:]) > 0.9
    assert found.aucs["linear"] < 0.65
    again = choose_model(X[:900], y[:900], seed=0)
    assert again[0] == found
    assert np.array_equal(again[1].decision_function(X), model.decision_function(X))


@pytest.mark.thorough
def test_settings_reach_every_kind_and_a_stack_keeps_its_warnings(rng):
    X = np.column_stack([rng.normal(size=(400, 2)), np.zeros(400)])
    X[0, 2] = 1e9
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, model = choose_model(X, y, seed=0, settings={"decision": "accuracy"})
    assert model.decision == "accuracy"
    assert len(caught) == len({str(one.message) for one in caught})


def test_what_cannot_be_chosen_is_refused():
    y = np.array([0] * 50 + [1] * 9)
    with pytest.raises(ValueError, match="9 rows of a class are too few"):
        choose_model(np.zeros((59, 1)), y, seed=0)
    with pytest.raises(ValueError, match="one of linear, curves, trees, stack; got 'forest'"):
        make_model("forest", 0)
