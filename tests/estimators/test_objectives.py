# SPDX-License-Identifier: BSD-3-Clause
"""Objectives of the classifier: what is asked for is what is minimised and chosen by."""

import numpy as np
import pytest

from pairlearn import (
    SGD,
    AUCClassifier,
    AveragePrecision,
    Exact,
    Hats,
    PartialArea,
    PartialAUC,
    Push,
    SquaredHinge,
)
from pairlearn.estimators.auc.ways import exact
from pairlearn.solvers.exact.batch import PairObjective
from pairlearn.solvers.rows import DenseRows
from pairlearn.solvers.top.objectives import OBJECTIVES, SmoothPrecision
from pairlearn.validation import DivergenceError


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


OBJECTIVES_OF_THE_TOP = [
    "push",
    Push(3.0),
    PartialArea(0.05),
    PartialArea(0.3, min_tpr=0.2),
    "average_precision",
]


def anchor_of(model, X, y):
    """What the ridge pulls towards: zero, or the minimiser for all pairs with scores far apart."""
    if model.choice_.anchor_ridge is None:
        assert OBJECTIVES.make(model.objective) != SmoothPrecision()
        return np.zeros(X.shape[1])
    objective = PairObjective(DenseRows(X), np.where(y == 1, 1.0, -1.0), SquaredHinge())
    w, _ = objective.minimise(model.choice_.anchor_ridge)
    return 4.0 * w / (X @ w).std()


@pytest.mark.parametrize("objective", OBJECTIVES_OF_THE_TOP, ids=str)
def test_fit_minimises_what_it_names(objective):
    X, y = two_directions(300)
    model = AUCClassifier(objective, solver=Exact(ridge=0.01), scaling=None, random_state=0).fit(
        X, y
    )
    assert model.solver_ == "exact"
    top = OBJECTIVES.make(objective)
    slopes = top.of_scores(SquaredHinge(), y == 1, None)(X @ model.coef_[0])[1]
    gradient = slopes @ X + 0.02 * (model.coef_[0] - anchor_of(model, X, y))
    plain = AUCClassifier(solver=Exact(ridge=0.01), scaling=None, random_state=0).fit(X, y).coef_[0]
    other = top.of_scores(SquaredHinge(), y == 1, None)(X @ plain)[1] @ X + 0.02 * plain
    assert np.abs(gradient).max() < 0.05 * np.abs(other).max()


def test_the_ridge_is_chosen_by_the_metric_asked_for():
    X, y = two_directions(300)
    area = AUCClassifier(objective=PartialArea(0.05), random_state=0).fit(X, y)
    scores = [tried.auc for tried in area.choice_.tried]
    assert area.held_out_auc_ == max(scores)
    # A standardised partial AUC, not an AUC: close to that of the training data.
    training = PartialAUC(0.05)(y, area.decision_function(X))
    assert abs(area.held_out_auc_ - training) < 0.08
    precision = AUCClassifier(objective="average_precision", random_state=0).fit(X, y)
    training = AveragePrecision()(y, precision.decision_function(X))
    assert abs(precision.held_out_auc_ - training) < 0.08


def test_the_power_of_the_push_is_chosen_with_the_ridge(capsys):
    X, y = two_directions(120)
    settings = {"validation_fraction": 0.5, "random_state": 0}
    model = AUCClassifier("push", **settings).fit(X, y)
    choice = model.choice_
    assert {tried.values["power"] for tried in choice.tried} == {2.0, 8.0}
    assert choice.evidence.auc == max(tried.auc for tried in choice.tried)
    assert choice.top == Push(choice.evidence.values["power"])
    # What was chosen is what was minimised.
    named = AUCClassifier(
        objective=Push(choice.top.power), solver=Exact(ridge=choice.ridge), **settings
    ).fit(X, y)
    np.testing.assert_allclose(model.coef_, named.coef_, rtol=2e-2, atol=1e-3)
    # A power that is given is kept, and a given ridge leaves nothing to choose.
    given = AUCClassifier(objective=Push(3.0), **settings).fit(X, y)
    assert {tried.values["power"] for tried in given.choice_.tried} == {3.0}
    named = AUCClassifier("push", solver=Exact(ridge=0.1), verbose=1, **settings)
    assert named.fit(X, y).choice_.top == Push(8.0)
    assert "Push(power=8.0) of SquaredHinge, ridge 0.1" in capsys.readouterr().err


def test_precision_is_pulled_towards_the_minimiser_for_all_pairs():
    X, y = two_directions(120)
    settings = {"objective": "average_precision", "validation_fraction": 0.5, "scaling": None,
                "random_state": 0}  # fmt: skip
    close = AUCClassifier(solver=Exact(ridge=1e4), **settings).fit(X, y)
    anchor = anchor_of(close, X, y)
    np.testing.assert_allclose(close.coef_[0], anchor, rtol=1e-2)
    free = AUCClassifier(solver=Exact(ridge=1e-3), **settings).fit(X, y)
    assert np.abs(free.coef_[0] - anchor).max() > 0.1 * np.abs(anchor).max()
    # What was chosen can be asked for.
    chosen = AUCClassifier(**settings).fit(X, y)
    asked = AUCClassifier(solver=Exact(ridge=chosen.ridge_), **settings).fit(X, y)
    assert asked.choice_.anchor_ridge == chosen.choice_.anchor_ridge
    np.testing.assert_allclose(asked.coef_, chosen.coef_, rtol=1e-3)
    # On a fold, another way to the ridge may end in another local minimum.
    assert asked.held_out_auc_ == pytest.approx(chosen.held_out_auc_, abs=0.05)


def test_held_out_precision_is_that_of_the_share_of_positives(monkeypatch):
    # Fewer negatives take part in the choice, but precision stays that of all of them.
    X, y = two_directions(1500)
    kept = (y == 0) | (np.arange(len(y)) % 4 == 0)
    X, y = X[kept], y[kept]
    monkeypatch.setattr(exact, "_PRECISION_CAP", 150)
    model = AUCClassifier(
        objective="average_precision", validation_fraction=0.5, random_state=0
    ).fit(X, y)
    training = AveragePrecision()(y, model.decision_function(X))
    assert abs(model.held_out_auc_ - training) < 0.08
    thinned = np.flatnonzero((y == 1) | (np.cumsum(y == 0) <= 150))
    assert AveragePrecision()(y[thinned], model.decision_function(X[thinned])) > training + 0.12


def test_the_top_of_the_list_is_better_where_it_differs():
    X, y = two_directions(1500)
    X_test, y_test = two_directions(20_000, seed=1)
    plain = AUCClassifier(solver="exact", random_state=0).fit(X, y).decision_function(X_test)
    area = AUCClassifier(objective=PartialArea(0.05), random_state=0).fit(X, y)
    found = PartialAUC(0.05).compare(y_test, area.decision_function(X_test), plain)
    assert found.low > 0.0


@pytest.mark.thorough
@pytest.mark.parametrize("objective", OBJECTIVES_OF_THE_TOP[1:], ids=str)
def test_mapped_features_serve_the_objective_that_was_asked_for(objective):
    X, y = two_directions(500)
    model = AUCClassifier(objective, features="auto", random_state=0).fit(X, y)
    named = AUCClassifier(objective, features="auto", solver="exact", random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, named.coef_)
    assert (model.solver_, model.choice_.features.name) == ("exact", "hats")
    assert model.choice_.top is not None
    # Class moments know nothing of the top of the list, in streams as little as in fit.
    hats = Hats(n_knots=4).fit(X)
    stream = AUCClassifier(objective, features=hats, random_state=0)
    stream.partial_fit(X, y, classes=[0, 1])
    by_name = AUCClassifier(objective, features=hats, solver="sgd", random_state=0)
    by_name.partial_fit(X, y, classes=[0, 1])
    np.testing.assert_array_equal(stream.coef_, by_name.coef_)
    with pytest.raises(ValueError, match=r"needs fitted features, got 'hats'; .* of a sample X\.$"):
        AUCClassifier(objective, features="hats").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="use a map of fewer features, or a larger max_memory"):
        AUCClassifier(objective, features="hats", solver=Exact(max_memory=1e4)).fit(X, y)
    with pytest.raises(ValueError, match="needs more than class moments"):
        AUCClassifier(objective, features="hats", solver="moments").fit(X, y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AUCClassifier("precision"), "objective must be one of .*'push'"),
        (lambda: PartialArea(2.0), r"max_fpr must lie in \(0, 1\], got 2.0"),
        (lambda: Push(0.0), r'power must lie in \[1, 64\] or be "auto", got 0.0'),
        (lambda: AUCClassifier("push", solver=SGD(pairing="fifo")), "would ignore pairing='fifo'"),
        (lambda: AUCClassifier("push", solver="sgd", warm_start=True), "would ignore warm_start"),
        (lambda: AUCClassifier("push", solver=SGD("theory")), 'pass a number or "auto"'),
        (lambda: AUCClassifier("push", loss="square"), "never increases with the margin, got Squ"),
    ],
)
def test_what_would_be_ignored_is_refused(make, message):
    X, y = two_directions(50)
    with pytest.raises(ValueError, match=message):
        make().fit(X, y)


@pytest.mark.parametrize("objective", OBJECTIVES_OF_THE_TOP, ids=str)
def test_descent_comes_close_to_the_exact_minimiser(objective):
    X, y = two_directions(400)
    model = AUCClassifier(objective, solver=SGD(step_size=1.0, n_passes=30), random_state=0)
    model.fit(X, y)
    exact = AUCClassifier(objective, solver=Exact(ridge=1e-4), random_state=0).fit(X, y)
    assert (model.solver_, model.n_steps_) == ("sgd", 12_000)
    metric = OBJECTIVES.make(objective).metric
    found, wanted = (metric(y, m.decision_function(X)) for m in (model, exact))
    assert found > wanted - 0.02


def test_the_step_size_is_chosen_by_the_metric_asked_for():
    X, y = two_directions(200)
    model = AUCClassifier(objective=PartialArea(0.2), solver=SGD(n_passes=3), random_state=0).fit(
        X, y
    )
    assert model.held_out_auc_ == max(tried.auc for tried in model.choice_.tried)
    assert model.step_size_ in [tried.values["step_size"] for tried in model.choice_.tried]


def test_streams_that_cannot_go_on_say_so():
    X, y = two_directions(100)
    fitted = AUCClassifier("push").fit(X, y)
    with pytest.raises(ValueError, match="cannot go on from fit"):
        fitted.partial_fit(X, y)
    stream = AUCClassifier(objective="push").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="keeps a sample of all its past"):
        stream.restart_stream()
    with pytest.raises(ValueError, match="learned by another solver"):
        AUCClassifier().restore_stream(stream.stream_state())
    before = stream.coef_.copy()
    with pytest.raises(DivergenceError, match="not finite"):
        stream.partial_fit(np.full((64, 2), 1e308) * np.array([[1.0, -1.0]] * 64), y[:64])
    np.testing.assert_array_equal(stream.coef_, before)
    stream.partial_fit(X, y)
    assert stream.score(X, y) > 0.6


def test_saved_and_loaded(tmp_path):
    X, y = two_directions(200)
    model = AUCClassifier(objective=PartialArea(0.1), solver=Exact(ridge=0.1)).fit(X, y)
    model.save(tmp_path / "model")
    loaded = AUCClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.objective == PartialArea(0.1)
