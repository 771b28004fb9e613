# SPDX-License-Identifier: BSD-3-Clause
"""Streams by class moments: one pass gives what `fit` gives, whatever the chunks."""

import pickle

import numpy as np
import pytest
import scipy.sparse

from pairlearn import AUCClassifier, Hats, Moments, OnlineLearner
from pairlearn.features import RandomFourier
from pairlearn.validation import DivergenceError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6000, 3))
LABELS = np.where((X[:, :2] ** 2).sum(axis=1) + 0.5 * RNG.normal(size=6000) > 1.4, "yes", "no")
TRAIN, TEST = slice(5000), slice(5000, None)
HATS = Hats(n_knots=6).fit(X[TRAIN])


def streamed(chunk, *, sparse=False, **parameters):
    model = AUCClassifier(**{"solver": "moments", "random_state": 0, **parameters})
    for start in range(0, 5000, chunk):
        rows = slice(start, min(start + chunk, 5000))
        part = scipy.sparse.csr_array(X[rows]) if sparse else X[rows]
        model.partial_fit(part, LABELS[rows], classes=["no", "yes"])
    return model


@pytest.mark.parametrize("features", ["linear", HATS, RandomFourier(64).fit(X[TRAIN], rng=0)])
@pytest.mark.parametrize("chunk", [77, 5000])
def test_a_stream_equals_the_offline_moments(features, chunk):
    offline = AUCClassifier(features=features, solver=Moments(ridge=0.01))
    offline.fit(X[TRAIN], LABELS[TRAIN])
    online = streamed(chunk, features=features, solver=Moments(0.01, memory=np.inf))
    np.testing.assert_allclose(online.coef_, offline.coef_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        online.decision_function(X) + online.threshold_,
        offline.decision_function(X) + offline.threshold_,
        atol=1e-9,
    )


@pytest.mark.parametrize("features", ["hats", "auto", RandomFourier(128)])
@pytest.mark.thorough
def test_the_map_is_fitted_to_the_first_examples(features):
    online = streamed(500, features=features)
    offline = AUCClassifier(solver="moments", features=features, random_state=0)
    offline.fit(X[TRAIN], LABELS[TRAIN])
    gap = offline.score(X[TEST], LABELS[TEST]) - online.score(X[TEST], LABELS[TEST])
    assert abs(gap) < 0.005
    assert online.solver_ == "moments"
    assert online.ridge_ in (1.0, 0.1, 0.01, 1e-3, 1e-4)
    assert 0.9 < online.held_out_auc_ < 1.0
    assert online.n_examples_ == 5000


def test_chunks_do_not_matter_while_the_map_is_being_found():
    one, other = streamed(500, features="hats"), streamed(64, features="hats")
    assert one.coef_.tobytes() == other.coef_.tobytes()
    assert one.threshold_ == other.threshold_


def test_units_do_not_matter_to_a_stream():
    one = streamed(500, solver=Moments(0.1))
    other = AUCClassifier(solver=Moments(ridge=0.1))
    for start in range(0, 5000, 500):
        rows = slice(start, start + 500)
        other.partial_fit(X[rows] * [1e-4, 1.0, 1e5], LABELS[rows], classes=["no", "yes"])
    np.testing.assert_allclose(one.coef_, other.coef_ * [1e-4, 1.0, 1e5], rtol=1e-6)


def test_the_model_is_up_to_date_whenever_it_is_read():
    model = AUCClassifier(features=HATS, solver=Moments(ridge=0.1))
    model.partial_fit(X[:1000], LABELS[:1000], classes=["no", "yes"])
    before = model.coef_.copy()
    model.partial_fit(X[1000:1010], LABELS[1000:1010])
    assert not np.array_equal(model.coef_, before)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    again.partial_fit(X[1010:2000], LABELS[1010:2000])
    assert again.n_examples_ == 2000


def test_scores_are_given_before_an_example_is_learned():
    learner = OnlineLearner(
        AUCClassifier(solver="moments", features=HATS), classes=["no", "yes"], window=2000
    )
    for start in range(0, 5000, 250):
        learner.learn_many(X[start : start + 250], LABELS[start : start + 250])
    assert learner.auc > 0.93
    flipped = np.where(LABELS == "yes", "no", "yes")
    assert (
        AUCClassifier(solver="moments", features=HATS)
        .score_and_learn(X[:5], flipped[:5], classes=["no", "yes"])
        .tolist()
        == [0.0] * 5
    )


@pytest.mark.parametrize("features", ["linear", "hats", HATS, RandomFourier(32)])
@pytest.mark.parametrize("at", [300, 4500])
def test_a_restored_stream_goes_on_bit_for_bit(features, at):
    def learner():
        model = AUCClassifier(solver="moments", features=features, random_state=0)
        return OnlineLearner(model, classes=["no", "yes"])

    whole, part = learner(), learner()
    whole.learn_many(X[:at], LABELS[:at])
    part.restore(whole.state())
    for one in (whole, part):
        one.learn_many(X[at:5000], LABELS[at:5000])
    np.testing.assert_array_equal(whole.model.coef_, part.model.coef_)
    assert whole.auc == part.auc


def test_sparse_streams_and_weights():
    dense, sparse = streamed(700, features=HATS), streamed(700, features=HATS, sparse=True)
    np.testing.assert_allclose(dense.coef_, sparse.coef_, atol=1e-9)
    solver = Moments(ridge=0.1, memory=np.inf)
    weighted = AUCClassifier(features=HATS, solver=solver)
    double = AUCClassifier(features=HATS, solver=solver)
    weighted.partial_fit(
        X[:500], LABELS[:500], classes=["no", "yes"], sample_weight=np.full(500, 2.0)
    )
    twice = np.repeat(np.arange(500), 2)
    double.partial_fit(X[twice], LABELS[twice], classes=["no", "yes"])
    np.testing.assert_allclose(weighted.coef_, double.coef_, rtol=1e-9)


def test_descent_on_mapped_rows_needs_a_fitted_map():
    model = AUCClassifier(solver="sgd", features=HATS, random_state=0)
    for start in range(0, 5000, 500):
        model.partial_fit(X[start : start + 500], LABELS[start : start + 500], ["no", "yes"])
    assert model.score(X[TEST], LABELS[TEST]) > 0.85
    with pytest.raises(ValueError, match="needs fitted features"):
        AUCClassifier(solver="sgd", features="hats").partial_fit(X, LABELS, ["no", "yes"])


def test_what_a_stream_by_moments_cannot_do_is_refused():
    model = AUCClassifier(solver="moments").fit(X[TRAIN], LABELS[TRAIN])
    with pytest.raises(ValueError, match="cannot go on from fit"):
        model.partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="memory=100 is for a stream"):
        AUCClassifier(solver=Moments(memory=100)).fit(X[TRAIN], LABELS[TRAIN])
    with pytest.raises(ValueError, match="memory must be a positive number"):
        Moments(memory=-1)
    with pytest.raises(ValueError, match="a stream cannot constrain functions"):
        AUCClassifier(features=Hats(monotone={0: 1})).partial_fit(X, LABELS, ["no", "yes"])


def test_one_class_so_far():
    model = AUCClassifier(solver="moments", features="hats")
    model.partial_fit(X[:20], ["yes"] * 20, classes=["no", "yes"])
    assert not model.coef_.any()
    assert len(model.predict(X[:3])) == 3


# --------------------------------------------------------------------- sizes of values and weights


def ordered_by_the_first(n=60):
    X = np.random.default_rng(0).normal(size=(n, 4))
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("value", [1e45, 1e60])
def test_a_value_beyond_single_precision(value):
    X, y = ordered_by_the_first()
    X[12, 1] = value
    model = AUCClassifier(solver="moments", random_state=0).fit(X, y)
    X[12, 1] = 0.0
    assert model.score(X, y) > 0.95


def test_weights_of_any_size_are_learned_or_refused_in_one_line():
    X, y = ordered_by_the_first()
    weight = np.ones(len(y))

    def learn():
        model = AUCClassifier(solver="moments", features="hats", random_state=0)
        return model.partial_fit(X, y, classes=[0, 1], sample_weight=weight)

    # weak ridges are lost in rounding, others are not
    weight[0] = 1e12
    assert learn().score(X[1:], y[1:]) > 0.95
    weight[0] = 1e60
    with pytest.raises(DivergenceError, match=r"weigh so much more than others .* give weights"):
        learn()
