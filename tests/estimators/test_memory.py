# SPDX-License-Identifier: BSD-3-Clause
"""A stream chooses how long it remembers."""

import pickle

import numpy as np
import pytest

from pairlearn import SGD, AUCClassifier, Moments, OnlineLearner
from pairlearn.estimators.shared.decisions import fit_sigmoid
from pairlearn.metrics import roc_auc

N = 6000


def stream(*, changes, n=N, d=4, seed=0):
    """Return a stream whose direction turns round at these places."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    w = rng.normal(size=d)
    sign = np.ones(n)
    for place in changes:
        sign[place:] *= -1.0
    y = (sign * (X @ w) + rng.normal(size=n) > 1.0).astype(int)
    return X, y


def learned(X, y, *, chunk=100, **parameters):
    model = AUCClassifier(random_state=0, **parameters)
    scores = np.zeros(len(y))
    for begin in range(0, len(y), chunk):
        part = slice(begin, begin + chunk)
        scores[part] = model.score_and_learn(X[part], y[part], classes=[0, 1])
    return model, scores


def test_a_still_stream_remembers_everything():
    X, y = stream(changes=())
    model, _ = learned(X, y)
    assert (model.solver_, model.half_life_) == ("moments", np.inf)
    whole, _ = learned(X, y, solver=Moments(memory=np.inf))
    assert model.coef_.tobytes() == whole.coef_.tobytes()


def test_a_changed_stream_forgets_and_recovers():
    X, y = stream(changes=(3000,))
    model, scores = learned(X, y)
    stubborn, before = learned(X, y, solver=Moments(memory=np.inf))
    late = slice(4000, None)
    assert model.half_life_ < np.inf
    assert roc_auc(y[late], scores[late]) > roc_auc(y[late], before[late]) + 0.2
    assert stubborn.half_life_ == np.inf
    # Threshold and probabilities are of the present, too.
    X_new, y_new = stream(changes=(0,), seed=0)
    assert np.mean(model.predict(X_new[late]) == y_new[late]) > 0.75
    assert model.held_out_auc_ == pytest.approx(roc_auc(y[late], scores[late]), abs=0.1)


def test_a_given_memory_is_kept():
    X, y = stream(changes=(3000,))
    model, _ = learned(X, y, solver=Moments(memory=500))
    assert model.half_life_ == 500.0


@pytest.mark.parametrize("chunk", [1, 7, 128, N])
def test_chunks_do_not_matter(chunk):
    n = 1500
    X, y = stream(changes=(700,), n=n)
    one, scores = learned(X, y, chunk=100)
    other, others = learned(X, y, chunk=chunk)
    np.testing.assert_allclose(scores, others, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9)
    assert one.half_life_ == other.half_life_
    assert one.threshold_ == pytest.approx(other.threshold_, rel=1e-7)


def test_predicting_in_between_changes_nothing():
    X, y = stream(changes=(700,), n=1500)
    quiet, scores = learned(X, y)
    asked = AUCClassifier(random_state=0)
    others = []
    for begin in range(0, 1500, 50):
        part = slice(begin, begin + 50)
        others.append(asked.score_and_learn(X[part], y[part], classes=[0, 1]))
        asked.predict_proba(X[:3])
    np.testing.assert_allclose(np.concatenate(others), scores, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(asked.coef_, quiet.coef_, rtol=1e-9)


@pytest.mark.parametrize("at", [5, 100, 128, 1333])
def test_a_restored_stream_goes_on(at):
    X, y = stream(changes=(700,), n=2000)
    whole, part = OnlineLearner(classes=[0, 1]), OnlineLearner(classes=[0, 1])
    whole.learn_many(X[:at], y[:at])
    part.restore(whole.state())
    for learner in (whole, part):
        learner.learn_many(X[at:], y[at:])
    np.testing.assert_allclose(whole.model.coef_, part.model.coef_, rtol=1e-9)
    assert (whole.auc, whole.model.half_life_) == (part.auc, part.model.half_life_)


@pytest.mark.parametrize("memory", [np.inf, 300.0])
def test_noise_makes_no_stream_sure(memory):
    """Labels are independent of the features, and a plane nearly separates so few rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 100)), np.arange(150) % 2
    new, labels = rng.normal(size=(4000, 100)), np.arange(4000) % 2

    def log_loss(probability):
        return -np.log(np.where(labels == 1, probability, 1.0 - probability)).mean()

    model = AUCClassifier(solver=Moments(memory=memory)).partial_fit(X, y, classes=[0, 1])
    # A sigmoid that is fitted to the scores of learned rows believes in them.
    sure = fit_sigmoid(X @ model.coef_[0], y == 1, np.ones(150))
    assert log_loss(sure(new @ model.coef_[0])) > 1.0
    found = model.predict_proba(new)[:, 1]
    assert log_loss(found) < 0.75  # that of 1/2 is .69
    by_ones, _ = learned(X, y, chunk=1, solver=Moments(memory=memory))
    np.testing.assert_allclose(by_ones.predict_proba(new)[:, 1], found, rtol=1e-7)
    again = pickle.loads(pickle.dumps(by_ones))
    np.testing.assert_allclose(again.predict_proba(new)[:, 1], found, rtol=1e-7)


def test_an_example_alone_in_its_class_cannot_be_held_out():
    X, y = np.arange(12.0)[:, np.newaxis], np.r_[np.zeros(11), 1.0]
    model = AUCClassifier().partial_fit(X, y, classes=[0.0, 1.0])
    probability = model.predict_proba(X)[:, 1]
    assert (np.diff(probability) > 0.0).all()
    assert model.predict(X)[-1] == 1.0


def test_forgetting_by_hand_works_with_moments():
    X, y = stream(changes=(3000,))
    learner = OnlineLearner(
        AUCClassifier(solver=Moments(memory=np.inf)), classes=[0, 1], forget=3000
    )
    learner.learn_many(X, y)
    X_new, y_new = stream(changes=(0,), seed=0)
    assert roc_auc(y_new, learner.model.decision_function(X_new)) > 0.9
    assert learner.n_restarts == 2


def test_many_features_pair_with_the_other_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 300))
    y = (X[:, 0] > 0).astype(int)
    model = AUCClassifier().partial_fit(X, y, classes=[0, 1])
    assert model.solver_ == "sgd"
    same = AUCClassifier(solver=SGD(pairing="opposite")).partial_fit(X, y, classes=[0, 1])
    assert model.coef_.tobytes() == same.coef_.tobytes()


def test_values_whose_squares_overflow_are_refused():
    X, y = stream(changes=(), n=4000)
    X[1000, 1] = 1e140
    _, scores = learned(X, y)
    assert np.isfinite(scores).all()
    X[1000, 1] = 1e200
    with pytest.raises(ArithmeticError, match=r"squares of features overflow.*scale the features"):
        learned(X, y)
    with pytest.raises(ArithmeticError, match="Unscaled features"):
        learned(X, y, scaling=None)


def test_a_class_that_does_not_come_for_long_is_not_lost():
    X, y = stream(changes=(), n=3000)
    order = np.concatenate([np.arange(600), 600 + np.flatnonzero(y[600:] == 0)])
    model, scores = learned(X[order], y[order])
    assert np.isfinite(scores).all()
    assert np.isfinite(model.coef_).all()
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("half_life", [10.0, 300.0])
def test_an_example_counts_half_after_its_half_life(half_life):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3)) + 5.0
    y = (X[:, 0] + rng.normal(size=1000) > 5.0).astype(int)
    solver = Moments(0.1, memory=half_life)
    model = AUCClassifier(solver=solver, scaling=None).partial_fit(X, y, classes=[0, 1])
    # Rows of a block of 128 count alike; the last block has 104.
    later = np.maximum(1000 - 128 * (1 + np.arange(1000) // 128), 0)
    means, matrix = [], 0.1 * np.eye(3)
    for label in (0, 1):
        share = 0.5 ** (later[y == label] / half_life)
        means.append(share @ X[y == label] / share.sum())
        matrix += np.cov(X[y == label].T, aweights=share, ddof=0)
    step = means[1] - means[0]
    expected = np.linalg.solve(matrix + np.outer(step, step), step)
    np.testing.assert_allclose(model.coef_[0], expected, rtol=1e-10)
