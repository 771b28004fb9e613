# SPDX-License-Identifier: BSD-3-Clause
"""Examples as dicts by class moments: columns that grow, memories, and more names than fit."""

from __future__ import annotations

import numpy as np
import pytest

from pairlearn import AUCClassifier, Moments, roc_auc
from pairlearn.solvers.closed_form.stream import MOST_BY_MOMENTS
from pairlearn.streams.named import NamedLearner
from pairlearn.streams.state import pack, unpack


@pytest.fixture
def data(rng):
    X = rng.normal(3.0, 1.0, size=(1200, 5))
    return X, X[:, 0] - X[:, 1] + 0.5 * X[:, 4] + rng.normal(size=1200) > 1.5


def as_dicts(X, since):
    """Return rows as dicts; the name of column j appears at row since[j]."""
    return [
        {f"n{j}": value for j, value in enumerate(row) if k >= since[j]}
        for k, row in enumerate(X.tolist())
    ]


def learn(learner, rows, y):
    for x, label in zip(rows, np.asarray(y).tolist(), strict=True):
        learner.learn_one(x, label)
    return learner


def values(learner):
    return np.array(list(learner.coefficients.values()))


@pytest.mark.parametrize("n", [2, 8, 100, 128, 777, 1200])
def test_it_is_the_stream_of_the_classifier(n, data):
    X, y = data
    learner = learn(NamedLearner(), as_dicts(X[:n], [0] * 5), y[:n])
    model = AUCClassifier().partial_fit(X[:n], y[:n], classes=[False, True])
    assert values(learner).tobytes() == model.coef_[0].tobytes()
    assert learner.half_life == model.half_life_
    assert learner.to_model().coef_.tobytes() == model.coef_.tobytes()


@pytest.mark.parametrize("at", [3, 60, 128, 500])
def test_a_late_name_was_zero_before(at, data):
    X, y = data
    X[:at, 4] = 0.0
    late = learn(NamedLearner(), as_dicts(X, [0, 0, 0, 0, at]), y)
    zeros = learn(NamedLearner(), as_dicts(X, [0] * 5), y)
    np.testing.assert_allclose(values(late), values(zeros), rtol=1e-9)
    assert abs(values(late)[4]) > 0.01
    assert roc_auc(y, [late.score_one(x) for x in as_dicts(X, [0] * 5)]) > 0.8


def test_a_stream_that_turns_round_is_followed(rng):
    X = rng.normal(size=(4000, 3))
    sign = np.where(np.arange(4000) < 2000, 1.0, -1.0)
    y = sign * (X[:, 0] - X[:, 1]) + 0.5 * rng.normal(size=4000) > 0
    rows = as_dicts(X, [0] * 3)
    learner = learn(NamedLearner(), rows[:2000], y[:2000])
    assert learner.half_life == np.inf
    scores = []
    for x, label in zip(rows[2000:], y[2000:].tolist(), strict=True):
        scores.append(learner.predict_proba_one(x)[True])
        learner.learn_one(x, label)
    assert learner.half_life < np.inf
    assert roc_auc(y[3000:], scores[1000:]) > 0.9
    assert learner.to_model().half_life_ == learner.half_life


@pytest.mark.parametrize("n", [20, 290])
def test_a_restored_learner_goes_on_bit_for_bit(n, data, rng):
    X, y = data
    X = np.hstack([X, rng.normal(size=(1200, 3 * MOST_BY_MOMENTS // 2))])
    since = np.concatenate([np.zeros(5), np.arange(X.shape[1] - 5) * 2])
    rows = as_dicts(X, since)  # after 502 examples there are too many names
    learner = learn(NamedLearner(), rows[:n], y[:n])
    twin = NamedLearner()
    twin.restore(unpack(*pack(learner.state())))
    for one in (learner, twin):
        learn(one, rows[n:900], y[n:900])
    assert values(twin).tobytes() == values(learner).tobytes()
    assert twin.predict_proba_one(rows[0]) == learner.predict_proba_one(rows[0])
    assert (twin.half_life, twin.n_seen) == (learner.half_life, 900)


def test_a_learner_that_outgrows_its_moments_goes_on(data, rng):
    X, y = data
    rows = as_dicts(X, [0] * 5)
    learner = learn(NamedLearner(), rows[:600], y[:600])
    before = values(learner)
    wide = [{**x, **{f"w{j}": 1.0 for j in rng.integers(0, 1000, 3)}} for x in rows]
    learn(learner, wide[600:], y[600:])
    assert len(learner.feature_names) > MOST_BY_MOMENTS
    after = values(learner)[:5]
    assert before @ after / np.linalg.norm(before) / np.linalg.norm(after) > 0.9
    assert roc_auc(y, [learner.score_one(x) for x in rows]) > 0.8
    model = learner.to_model()
    assert model.half_life_ == np.inf
    assert model.step_size_ is not None


@pytest.mark.parametrize("scaling", ["auto", None])
def test_many_names_at_once_are_learned_by_descent(scaling, rng):
    X = rng.normal(size=(400, MOST_BY_MOMENTS + 1))
    y = X[:, 0] > 0
    learner = learn(NamedLearner(scaling=scaling), as_dicts(X, [0] * X.shape[1]), y)
    assert learner.to_model().step_size_ is not None
    assert np.argmax(np.abs(values(learner))) == 0


def test_a_given_memory_keeps_its_moments(data, rng):
    X, y = data
    learner = learn(NamedLearner(memory=300.0), as_dicts(X, [0] * 5), y)
    model = AUCClassifier(solver=Moments(memory=300.0)).partial_fit(X, y, classes=[False, True])
    assert values(learner).tobytes() == model.coef_[0].tobytes()
    assert learner.half_life == 300.0
    wide = rng.normal(size=(30, 300))
    names = learn(NamedLearner(memory=np.inf), as_dicts(wide, [0] * 300), wide[:, 0] > 0)
    assert names.to_model().step_size_ is None


@pytest.mark.parametrize(
    "options", [{"loss": "hinge"}, {"step_size": 0.1}, {"radius": 2.0}, {"loss": "logistic"}]
)
def test_a_named_part_of_descent_is_honoured(options, data):
    X, y = data
    learner = learn(NamedLearner(**options), as_dicts(X[:300], [0] * 5), y[:300])
    assert learner.to_model().step_size_ is not None
    with pytest.raises(ValueError, match=r"memory=500 is for class moments.*forgets nothing"):
        NamedLearner(memory=500, **options)
    with pytest.raises(ValueError, match="keeps class moments"):
        NamedLearner(**options).restore(NamedLearner().state())


def test_wrong_memories_are_refused():
    for memory in (0, -1.0, "long", None, np.nan):
        with pytest.raises((ValueError, TypeError), match="memory"):
            NamedLearner(memory=memory)


def test_the_margin_of_a_given_square_loss(data):
    from pairlearn.losses import Square

    X, y = data
    rows = as_dicts(X, [0] * 5)
    one, two = (learn(NamedLearner(loss), rows, y) for loss in ("square", Square(margin=2.0)))
    np.testing.assert_allclose(values(two), 2.0 * values(one), rtol=1e-12)
