# SPDX-License-Identifier: BSD-3-Clause
"""SGD(step_size="theory"): the step size of the bound, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn import SGD, AUCClassifier, LinearScore, Problem, Square
from pairlearn.losses import LOSSES
from pairlearn.pairings import FifoBuffer
from pairlearn.theory import advise_auc


@pytest.fixture
def data(rng):
    X = rng.normal(size=(300, 4))
    X /= np.linalg.norm(X, axis=1).max()
    y = (X[:, 0] + 0.1 * rng.normal(size=300) > 0).astype(int)
    return X, y


@pytest.mark.parametrize("loss", ["hinge", "logistic", "square"])
@pytest.mark.parametrize("sparse", [False, True])
def test_step_size_is_that_of_the_bound(data, loss, sparse):
    X, y = data
    made = scipy.sparse.csr_array(X) if sparse else X
    clf = AUCClassifier(
        loss=loss, solver=SGD(step_size="theory", radius=2.0, n_passes=3), random_state=0
    )
    clf.fit(made, y)
    problem = Problem(LinearScore(), LOSSES.make(loss))
    norm = max(float(np.sqrt(row @ row)) for row in X)
    advice = advise_auc(problem, 300, norm_bound=norm, radius=2.0, n_steps=900)
    assert clf.step_size_ == pytest.approx(advice.step_size, rel=1e-12)
    assert clf.advice_.bound == pytest.approx(advice.bound, rel=1e-12)
    assert clf.advice_.theorem == ("Theorem 1" if loss == "hinge" else "Theorem 2")
    assert clf.radius_ == 2.0
    assert clf.n_steps_ == 900
    assert np.linalg.norm(clf.coef_) <= 2.0 * (1 + 1e-12)
    assert clf.held_out_auc_ is None


def test_model_is_that_of_the_same_number(data):
    X, y = data
    by_theory = AUCClassifier(
        solver=SGD(step_size="theory", radius=1.0, n_passes=2), random_state=0
    ).fit(X, y)
    by_hand = AUCClassifier(
        solver=SGD(step_size=by_theory.step_size_, radius=1.0, n_passes=2),
        scaling=None,
        random_state=0,
    ).fit(X, y)
    np.testing.assert_array_equal(by_theory.coef_, by_hand.coef_)
    assert by_hand.advice_ is None


def test_the_unit_of_the_features_does_not_matter(data):
    X, y = data
    scores = []
    for scale in (1.0, 10.0):
        clf = AUCClassifier(
            solver=SGD(step_size="theory", radius=3.0 / scale, n_passes=5), random_state=0
        )
        scores.append(clf.fit(scale * X, y).decision_function(scale * X))
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("radius", ["auto", np.inf])
def test_a_radius_is_needed(data, radius):
    with pytest.raises(ValueError, match="needs a finite radius"):
        AUCClassifier(solver=SGD(step_size="theory", radius=radius)).fit(*data)


@pytest.mark.parametrize(
    ("change", "cure"),
    [
        ({"solver__pairing": "random"}, "previous"),
        ({"solver__pairing": FifoBuffer(3)}, "previous"),
        ({"solver__schedule": "inverse_sqrt"}, "constant"),
        ({"solver__averaging": "last"}, "step_size"),
    ],
)
def test_what_the_theorems_do_not_cover_is_refused(data, change, cure):
    with pytest.raises(ValueError, match=cure):
        AUCClassifier(solver=SGD("theory", radius=1.0)).set_params(**change).fit(*data)


def test_weights_of_examples_are_refused_and_those_of_classes_only_decide(data):
    model = AUCClassifier(solver=SGD("theory", radius=1.0), random_state=0)
    with pytest.raises(ValueError, match="no sample_weight"):
        model.fit(*data, sample_weight=np.linspace(1.0, 2.0, len(data[1])))
    coef = model.fit(*data).coef_
    weighed = model.set_params(class_weight={data[1].max(): 9.0}).fit(*data)
    np.testing.assert_array_equal(weighed.coef_, coef)


def test_a_second_start_is_refused(data):
    clf = AUCClassifier(solver=SGD(step_size="theory", radius=1.0, n_passes=1), warm_start=True)
    clf.fit(*data)
    with pytest.raises(ValueError, match="warm_start=False"):
        clf.fit(*data)


def test_a_loss_without_convexity_is_refused(data):
    with pytest.raises(ValueError, match="not convex"):
        AUCClassifier(loss="loglink", solver=SGD(step_size="theory", radius=1.0)).fit(*data)


def test_a_stream_is_refused(data):
    with pytest.raises(ValueError, match="beforehand"):
        AUCClassifier(solver=SGD(step_size="theory", radius=1.0)).partial_fit(*data, classes=[0, 1])


def test_zeros_are_refused():
    with pytest.raises(ValueError, match="not zero"):
        AUCClassifier(loss=Square(), solver=SGD(step_size="theory", radius=1.0)).fit(
            np.zeros((4, 2)), [0, 1, 0, 1]
        )
