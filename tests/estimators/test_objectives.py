# SPDX-License-Identifier: BSD-3-Clause
"""Objectives of the classifier: what is asked for is what is minimised and chosen by."""

import numpy as np
import pytest

from pairlearn import AUCClassifier, AveragePrecision, PartialAUC, SquaredHinge
from pairlearn.estimators.objectives import as_objective
from pairlearn.validation import AssumptionWarning


def two_directions(n=600, seed=0):
    """One direction orders most examples, another one the top of the list."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.25).astype(int)
    X = rng.normal(size=(n, 2))
    X[:, 0] += 1.2 * y
    # A third of the positives stands out in the second feature.
    X[:, 1] += 4.0 * y * (rng.random(n) < 0.33)
    X[:, 0] += 3.0 * ((y == 0) & (rng.random(n) < 0.06))
    return X, y


SETTINGS = [
    {"objective": "push"},
    {"objective": "push", "power": 3.0},
    {"objective": "partial_auc", "max_fpr": 0.05},
    {"objective": "partial_auc", "max_fpr": 0.3, "min_tpr": 0.2},
    {"objective": "average_precision"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_fit_minimises_what_it_names(settings):
    X, y = two_directions(300)
    model = AUCClassifier(ridge=0.01, scaling=None, random_state=0, **settings).fit(X, y)
    assert model.solver_ == "exact"
    named = {"max_fpr": None, "min_tpr": None, "power": None} | {
        k: v for k, v in settings.items() if k != "objective"
    }
    top = as_objective(settings["objective"], **named).top
    slopes = top.of_scores(SquaredHinge(), y == 1, None)(X @ model.coef_[0])[1]
    gradient = slopes @ X + 0.02 * model.coef_[0]
    plain = AUCClassifier(ridge=0.01, scaling=None, random_state=0).fit(X, y).coef_[0]
    other = top.of_scores(SquaredHinge(), y == 1, None)(X @ plain)[1] @ X + 0.02 * plain
    assert np.abs(gradient).max() < 0.05 * np.abs(other).max()


def test_the_ridge_is_chosen_by_the_metric_asked_for():
    X, y = two_directions(300)
    area = AUCClassifier(objective="partial_auc", max_fpr=0.05, random_state=0).fit(X, y)
    scores = [tried.auc for tried in area.choice_.tried]
    assert area.held_out_auc_ == max(scores)
    # A standardised partial AUC, not an AUC: close to that of the training data.
    training = PartialAUC(0.05)(y, area.decision_function(X))
    assert abs(area.held_out_auc_ - training) < 0.08
    precision = AUCClassifier(objective="average_precision", random_state=0).fit(X, y)
    training = AveragePrecision()(y, precision.decision_function(X))
    assert abs(precision.held_out_auc_ - training) < 0.08


def test_the_top_of_the_list_is_better_where_it_differs():
    X, y = two_directions(1500)
    X_test, y_test = two_directions(20_000, seed=1)
    plain = AUCClassifier(solver="exact", random_state=0).fit(X, y).decision_function(X_test)
    area = AUCClassifier(objective="partial_auc", max_fpr=0.05, random_state=0).fit(X, y)
    found = PartialAUC(0.05).compare(y_test, area.decision_function(X_test), plain)
    assert found.low > 0.0


def test_few_positives_are_warned_about():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.arange(60) < 10
    with pytest.warns(AssumptionWarning, match="has 10 positives to go by; below 20"):
        AUCClassifier(objective="average_precision", ridge=0.1).fit(X + y[:, None], y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "precision"}, "objective must be one of .*'push'"),
        ({"objective": "partial_auc"}, "needs max_fpr"),
        ({"objective": "partial_auc", "max_fpr": 2.0}, r"max_fpr must lie in \(0, 1\], got 2.0"),
        ({"max_fpr": 0.1}, 'max_fpr=0.1 is for objective="partial_auc", but objective="auc"'),
        ({"objective": "push", "min_tpr": 0.1}, "min_tpr=0.1 is for objective"),
        ({"objective": "push", "power": 0.0}, r"power must lie in \[1, 64\], got 0.0"),
        ({"objective": "push", "solver": "sgd"}, 'solver="sgd" is for stochastic'),
        ({"objective": "push", "step_size": 0.1}, "step_size is for stochastic"),
        ({"objective": "push", "loss": "logistic"}, "a loss that falls with the margin"),
    ],
)
def test_what_would_be_ignored_is_refused(settings, message):
    X, y = two_directions(50)
    with pytest.raises(ValueError, match=message):
        AUCClassifier(**settings).fit(X, y)


def test_streams_are_refused():
    X, y = two_directions(50)
    with pytest.raises(ValueError, match='partial_fit is for objective="auc", got "push"'):
        AUCClassifier(objective="push").partial_fit(X, y, classes=[0, 1])


def test_saved_and_loaded(tmp_path):
    X, y = two_directions(200)
    model = AUCClassifier(objective="partial_auc", max_fpr=0.1, ridge=0.1).fit(X, y)
    model.save(tmp_path / "model")
    loaded = AUCClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert (loaded.objective, loaded.max_fpr) == ("partial_auc", 0.1)
