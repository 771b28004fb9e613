# SPDX-License-Identifier: BSD-3-Clause
"""A stream chooses how long it remembers."""

import pickle

import numpy as np
import pytest

from pairlearn import SGD, AUCClassifier, Moments, OnlineLearner
from pairlearn.estimators.shared.calibration import fit_sigmoid
from pairlearn.metrics import roc_auc
from pairlearn.solvers.closed_form.memories import Memories, half_lives_for
from pairlearn.solvers.closed_form.moments import ClassMoments
from pairlearn.solvers.closed_form.recent_scores import RECENT, RecentScores

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
    assert scores.tobytes() == others.tobytes()
    assert one.coef_.tobytes() == other.coef_.tobytes()
    assert (one.half_life_, one.threshold_) == (other.half_life_, other.threshold_)


def test_predicting_in_between_changes_nothing():
    X, y = stream(changes=(700,), n=1500)
    quiet, scores = learned(X, y)
    asked = AUCClassifier(random_state=0)
    others = []
    for begin in range(0, 1500, 50):
        part = slice(begin, begin + 50)
        others.append(asked.score_and_learn(X[part], y[part], classes=[0, 1]))
        asked.predict_proba(X[:3])
    assert np.concatenate(others).tobytes() == scores.tobytes()
    assert asked.coef_.tobytes() == quiet.coef_.tobytes()


@pytest.mark.parametrize("at", [5, 100, 128, 1333])
def test_a_restored_stream_goes_on_bit_for_bit(at):
    X, y = stream(changes=(700,), n=2000)
    whole, part = OnlineLearner(classes=[0, 1]), OnlineLearner(classes=[0, 1])
    whole.learn_many(X[:at], y[:at])
    part.restore(whole.state())
    for learner in (whole, part):
        learner.learn_many(X[at:], y[at:])
    assert whole.model.coef_.tobytes() == part.model.coef_.tobytes()
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
    np.testing.assert_array_equal(by_ones.predict_proba(new)[:, 1], found)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(by_ones)).predict_proba(new)[:, 1], found
    )


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


def test_values_beyond_all_others_end_in_numbers():
    X, y = stream(changes=(), n=4000)
    X[1000, 1] = 1e200
    model, scores = learned(X, y)
    assert np.isfinite(scores).all()
    assert np.isfinite(model.coef_).all()
    # Units do not matter, however large.
    _, others = learned(X * [1.0, 1.0, 1e300, 1.0], y)
    np.testing.assert_allclose(others[:900], scores[:900], rtol=1e-6)
    with pytest.raises(ArithmeticError, match="Unscaled features"):
        learned(X, y, scaling=None)


def test_a_class_that_does_not_come_for_long_is_not_lost():
    X, y = stream(changes=(), n=3000)
    order = np.concatenate([np.arange(600), 600 + np.flatnonzero(y[600:] == 0)])
    model, scores = learned(X[order], y[order])
    assert np.isfinite(scores).all()
    assert np.isfinite(model.coef_).all()
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize(("d", "shortest"), [(1, 250.0), (62, 250.0), (100, 400.0)])
def test_half_lives_are_four_times_apart(d, shortest):
    lives = (np.inf, 16.0 * shortest, 4.0 * shortest, shortest)
    assert half_lives_for(d) == lives
    assert half_lives_for(d, memory=7.0) == (7.0,)
    # Each takes a table of floats for either class, and the examples held out take one more pair.
    table = 2 * 8 * (d + 1) ** 2
    for n_tables, kept in ((0, 1), (2, 1), (3, 2), (4, 3), (5, 4), (6, 4)):
        assert half_lives_for(d, max_memory=n_tables * table) == lives[:kept]


def test_memories_are_the_discounted_sums():
    rng = np.random.default_rng(0)
    X, y = rng.normal(3.0, 1.0, size=(60, 3)), rng.choice([-1.0, 1.0], 60)
    weight = rng.random(60)
    memories = Memories(3, [np.inf, 20.0])
    for begin in range(0, 60, 15):
        part = slice(begin, begin + 15)
        memories.add(X[part], y[part], weight[part])
    age = 15.0 * (3 - np.arange(60) // 15)
    for place, half_life in enumerate(memories.half_lives):
        own = weight * 0.5 ** (age / half_life)
        expected = ClassMoments(3).add(X, y, example_weight=own)
        found = memories.moments(place)
        np.testing.assert_allclose(found.counts, expected.counts, rtol=1e-12)
        np.testing.assert_allclose(found.means, expected.means, rtol=1e-12)
        np.testing.assert_allclose(found.scatters, expected.scatters, rtol=1e-9)


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("d", [5, 60])
def test_directions_solve_the_equations(d, pooled):
    rng = np.random.default_rng(0)
    X, y = rng.normal(2.0, 1.0, size=(400, d)), rng.choice([-1.0, 1.0], 400)
    X[y > 0, 0] += 1.0
    memories = Memories(d, [np.inf, 100.0])
    memories.add(X[:300], y[:300])
    memories.add(X[300:], y[300:])
    scale, ridges = rng.uniform(0.5, 2.0, d), np.array([0.1, 0.4])
    weights, middle, sizes = memories.directions(scale, ridges, pooled=pooled)
    for place, ridge in enumerate(ridges):
        found = memories.moments(place)
        D, C = np.diag(scale), found.covariance
        if pooled:
            C = 2.0 * found.scatters.sum(axis=0) / found.counts.sum()
        v = np.linalg.solve(D @ C @ D + ridge * np.eye(d), D @ found.difference)
        size = np.sqrt(D @ found.difference @ v)
        np.testing.assert_allclose(sizes[place], size, rtol=1e-9)
        np.testing.assert_allclose(weights[place], D @ v / size, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(
            middle[place], weights[place] @ found.means.mean(axis=0), rtol=1e-9
        )


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("d", [5, 60])
def test_the_next_longer_memory_speaks_for_one_without_a_class(d, pooled):
    rng = np.random.default_rng(0)
    memories = Memories(d, [np.inf, 20.0, 400.0, 10.0])
    memories.add(rng.normal(size=(300, d)), np.tile([1.0, -1.0], 150))
    memories.add(rng.normal(size=(200, d)), np.full(200, -1.0))
    assert (memories.counts[:, 0] < 2.0).tolist() == [False, True, False, True]
    found = memories.directions(np.ones(d), np.full(4, 0.1), pooled=pooled)
    assert np.isfinite(found.weights).all()
    for place, speaker in enumerate([0, 0, 2, 2]):
        for own in found:
            np.testing.assert_array_equal(own[place], own[speaker])
    assert not np.allclose(found.weights[0], found.weights[2])


@pytest.mark.parametrize(
    ("place", "value"), [((0, 0, 1, 2), 1e9), ((1, 1, 3, 0), -1e9), ((1, 0, 2, 2), -1e9)]
)
def test_sums_that_no_rows_have_are_refused(place, value):
    """One of many numbers is enough: |S_ij| is at most the root of S_ii S_jj."""
    rng = np.random.default_rng(0)
    memories = Memories(3, [np.inf, 20.0])
    memories.add(rng.normal(size=(40, 3)), rng.choice([-1.0, 1.0], 40))
    state = memories.state()
    again = Memories.from_state(state, 3, [np.inf, 20.0])
    np.testing.assert_array_equal(again.sums, memories.sums)
    state["sums"][place] = value
    with pytest.raises(ValueError, match="not those of any rows"):
        Memories.from_state(state, 3, [np.inf, 20.0])


def test_several_ridges_are_solved_as_one_is():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.choice([-1.0, 1.0], 50)
    X[:, 2] = X[:, 1]
    memories = Memories(3, [np.inf])
    memories.add(X, y)
    found = memories.solutions(np.ones(3), (1.0, 0.1), pooled=True)
    for own, ridge in zip(found, (1.0, 0.1), strict=True):
        one = memories.directions(np.ones(3), np.array([ridge]), pooled=True)
        assert own.tobytes() == one.weights[0].tobytes()
    # Two equal columns: without a ridge there is no solution, and the others are as before.
    beside = memories.solutions(np.ones(3), (1.0, -0.1), pooled=True)
    assert beside[0].tobytes() == found[0].tobytes()
    assert np.isnan(beside[1]).all()


def test_recent_scores_are_ranked_exactly():
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=(900, 3)) * 2.0) / 2.0
    y = np.where(rng.random(900) < 0.3, 1.0, -1.0)
    recent = RecentScores(3)
    for begin in range(0, 900, 77):
        recent.add(scores[begin : begin + 77], y[begin : begin + 77])
    p, q = scores[y > 0][-RECENT:], scores[y < 0][-RECENT:]
    wins = (p[:, None] > q[None]) + 0.5 * (p[:, None] == q[None])
    ahead, behind = recent.placements()
    np.testing.assert_array_equal(np.sort(ahead, axis=1), np.sort(wins.mean(axis=1).T, axis=1))
    np.testing.assert_array_equal(np.sort(behind, axis=1), np.sort(wins.mean(axis=0).T, axis=1))
    again = RecentScores(3)
    again.restore(recent.state())
    for name, value in recent.state().items():
        np.testing.assert_array_equal(again.state()[name], value)


def test_the_longest_memory_as_good_as_the_best_is_taken():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(2000) < 0.5, 1.0, -1.0)
    good, noise = y + rng.normal(size=2000), rng.normal(size=2000)
    for columns, place in (
        ((good, good, noise), 0),
        ((noise, good, good), 1),
        ((noise, noise, good), 2),
    ):
        recent = RecentScores(3)
        recent.add(np.column_stack(columns), y)
        assert recent.best() == place


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
