# SPDX-License-Identifier: BSD-3-Clause
"""Examples that come one by one are learned as chunks are, up to rounding."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn import AUCClassifier, Moments, OnlineLearner
from pairlearn.streams import DriftAlarm
from pairlearn.streams.state import pack


def sample(n, d, *, turn=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.logspace(-2, 2, d) + 3.0
    side = np.where(np.arange(n) < (n if turn is None else turn), 1.0, -1.0)
    z = (X[:, 0] - 3.0) / X[:, 0].std()
    return X, (side * z + rng.normal(size=n) > 0).astype(int)


def learner(**parts):
    return OnlineLearner(AUCClassifier(**parts), classes=[0, 1], window=500)


def bits(stream):
    """Return the state of a learner as plain values and bytes."""
    plain, arrays = pack(stream.state())
    return plain, {name: (own.dtype, own.shape, own.tobytes()) for name, own in arrays.items()}


def same(one, other):
    """Whether two learners have the same model, up to rounding, now and after further examples."""
    one, other = copy.deepcopy(one), copy.deepcopy(other)
    for _ in range(2):
        models = [
            [*own.model.coef_[0], own.model.threshold_, own.model.half_life_, own.auc or 0.0]
            for own in (one, other)
        ]
        if one.n_seen != other.n_seen or not np.allclose(*models, rtol=1e-7, atol=1e-9):
            return False
        X, y = sample(300, one.model.n_features_in_, seed=1)
        for own in (one, other):
            own.learn_many(X, y)
    return True


@pytest.mark.parametrize("d", [1, 3, 22, 60])
@pytest.mark.parametrize("memory", ["auto", 300.0])
def test_one_by_one_is_as_in_chunks(d, memory):
    X, y = sample(700, d, turn=400)
    whole, single = (learner(solver=Moments(memory=memory)) for _ in range(2))
    whole.learn_many(X, y)
    for x, label in zip(X, y.tolist(), strict=True):
        single.learn_one(x, label)
    assert same(whole, single)


@pytest.mark.thorough
def test_one_by_one_is_as_in_chunks_of_a_long_stream():
    # Long enough for blocks that compiled code learns alone; a constant feature wakes up.
    X, y = sample(27_000, 4, turn=23_000)
    X[:26_000, 2] = 1.0
    whole, single = learner(), learner()
    whole.learn_many(X, y)
    for x, label in zip(X, y.tolist(), strict=True):
        single.learn_one(x, label)
    assert same(whole, single)
    assert single.model.half_life_ < np.inf


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(["one", "list", "many", "auc", "state", "model"]), max_size=40))
def test_looks_in_between_change_nothing(steps):
    X, y = sample(1000, 3)
    watched, plain, at = learner(), learner(), 0
    for step in steps:
        stop = at + 23 if step == "many" else at + 5
        if step == "many":
            watched.learn_many(X[at:stop], y[at:stop])
        else:
            for x, label in zip(X[at:stop], y[at:stop].tolist(), strict=True):
                watched.learn_one(x.tolist() if step == "list" else x, label)
        at = stop
        assert watched.n_seen == watched.model.n_examples_ == at
        if step == "auc":
            assert watched.auc is None or 0.0 <= watched.auc <= 1.0
        elif step == "state":
            again = learner()
            again.restore(watched.state())
            watched = again
        elif step == "model":
            watched.model.predict(X[:3])
    if at:
        plain.learn_many(X[:at], y[:at])
        assert same(plain, watched)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([1.0, np.nan, 0.0], 1, "NaN"),
        ([1.0, np.inf, 0.0], 1, "infinity"),
        ([1.0, 2.0], 1, "2 features"),
        ([1.0, 2.0, 3.0], 2, "label"),
        ([1.0, 2.0, 3.0], [1], "shape"),
        ({"a": 1.0}, 1, "NamedLearner"),
        (["a", "b", "c"], 1, "numbers|string|float"),
    ],
)
def test_what_cannot_be_learned_is_refused_at_once(x, y, words):
    X, labels = sample(40, 3)
    stream = learner()
    for row, label in zip(X, labels.tolist(), strict=True):
        stream.learn_one(row, label)
    before = bits(stream)
    with pytest.raises((ValueError, TypeError), match=words):
        stream.learn_one(x, y)
    assert bits(stream) == before


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.float64])
def test_other_types_and_huge_values(kind):
    X, y = sample(200, 3)
    X = np.round(X * 100).astype(kind)
    if kind is np.float64:
        X[50:, 1] *= 1e80
        X[:, 2] *= 1e120
    whole, single = learner(), learner()
    whole.learn_many(X, y)
    for x, label in zip(X, y, strict=True):
        single.learn_one(x, label)
    assert same(whole, single)


def test_forgetting_and_alarms_look_at_every_example():
    X, y = sample(900, 3)
    for options in ({"forget": 200}, {"alarm": 1}):
        alarms = [DriftAlarm(1e5, block=100) if "alarm" in options else None for _ in range(2)]
        options.pop("alarm", None)
        whole, single = (
            OnlineLearner(AUCClassifier(), classes=[0, 1], window=200, alarm=alarm, **options)
            for alarm in alarms
        )
        whole.learn_many(X, y)
        for x, label in zip(X, y.tolist(), strict=True):
            single.learn_one(x, label)
        assert same(whole, single)
        assert alarms[0] is None or alarms[0].n_seen == alarms[1].n_seen == 900


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_goes_its_own_way(twin_of):
    X, y = sample(400, 3)
    stream = learner()
    for x, label in zip(X[:150], y[:150].tolist(), strict=True):
        stream.learn_one(x, label)
    twin = twin_of(stream)
    for x, label in zip(X[150:], y[150:].tolist(), strict=True):
        stream.learn_one(x, label)
    assert twin.n_seen == twin.model.n_examples_ == 150
    for x, label in zip(X[150:], y[150:].tolist(), strict=True):
        twin.learn_one(x, label)
    assert same(stream, twin)
