# SPDX-License-Identifier: BSD-3-Clause
"""AUCClassifier with the exact solver and with the pairings of the rivals."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from pairlearn import SGD, AUCClassifier, Exact, roc_auc
from pairlearn.pairings import ClassReservoirs, FifoBuffer, ReservoirBuffer
from pairlearn.solvers.closed_form.moments import solve_square_auc
from pairlearn.solvers.exact.batch import ExactSolver


def sample(n=300, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    X[:, 0] += y
    return X, y


def test_given_ridge_is_the_minimiser():
    X, y = sample()
    bare = {"solver": Exact(0.1), "scaling": None}
    model = AUCClassifier(loss="square", **bare).fit(X, y)
    np.testing.assert_allclose(model.coef_[0], solve_square_auc(X, y, ridge=0.1))
    assert model.ridge_ == 0.1
    assert model.held_out_auc_ is None
    model = AUCClassifier(loss="squared_hinge", **bare).fit(X, y)
    wanted = ExactSolver("squared_hinge", ridge=0.1).solve(X, y).w
    np.testing.assert_allclose(model.coef_[0], wanted, rtol=1e-4)


@pytest.mark.parametrize("loss", ["squared_hinge", "square", "smoothed_hinge", "logistic"])
@pytest.mark.thorough
def test_chosen_ridge(loss):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    train = np.arange(len(y)) % 2 == 0
    model = AUCClassifier(loss=loss, solver="exact", random_state=0).fit(X[train], y[train])
    assert model.score(X[~train], y[~train]) > 0.98
    assert 0.98 < model.held_out_auc_ <= 1.0
    assert model.predict_proba(X).shape == (len(y), 2)
    again = clone(model).fit(X[train], y[train])
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_ridge_matters_where_features_outnumber_examples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 60))
    y = np.where(X[:, :5].sum(axis=1) + 2 * rng.normal(size=3000) > 0, 1.0, -1.0)
    chosen = AUCClassifier(loss="square", solver="exact", random_state=0).fit(X[:80], y[:80])
    without = AUCClassifier(loss="square", solver=Exact(ridge=0.0)).fit(X[:80], y[:80])
    assert chosen.score(X[80:], y[80:]) > without.score(X[80:], y[80:]) + 0.02


def test_sparse_and_float32():
    X, y = sample()
    X[np.abs(X) < 0.5] = 0.0
    dense = AUCClassifier(loss="square", solver="exact", random_state=0).fit(X, y)
    sparse = AUCClassifier(loss="square", solver="exact", random_state=0).fit(
        scipy.sparse.csr_array(X), y
    )
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-6)
    # Rounded numbers make other folds, so the ridge is given.
    single = AUCClassifier(loss="square", solver=Exact(ridge=dense.ridge_)).fit(
        X.astype(np.float32), y
    )
    np.testing.assert_allclose(single.coef_, dense.coef_, rtol=1e-3, atol=1e-5)
    assert roc_auc(y, X @ dense.coef_[0]) > 0.8


def test_a_ridge_is_not_ignored_for_a_loss_with_a_kink():
    X, y = sample()
    with pytest.raises(ValueError, match="Hinge has a kink"):
        AUCClassifier(loss="hinge", solver=Exact(ridge=0.1)).fit(X, y)


def test_bad_input():
    X, y = sample()
    with pytest.raises(ValueError, match="solver must be one of 'auto', 'sgd', 'exact', 'moments'"):
        AUCClassifier(solver="newton").fit(X, y)
    with pytest.raises(ValueError, match="partial_fit"):
        AUCClassifier(solver="exact").partial_fit(X, y, classes=[-1, 1])
    with pytest.raises(ValueError, match="convex"):
        AUCClassifier(loss="loglink", solver="exact").fit(X, y)
    with pytest.raises(ValueError, match="ridge must be at least 0"):
        AUCClassifier(solver=Exact(ridge=-1.0)).fit(X, y)
    with pytest.raises(ValueError, match="one class"):
        AUCClassifier(solver="exact").fit(X, np.ones(300))


@pytest.mark.parametrize(
    "pairing",
    [FifoBuffer(5), "opposite", ReservoirBuffer(5), ClassReservoirs(5, 5), "all_previous"],
    ids=str,
)
@pytest.mark.parametrize("storage", [np.asarray, scipy.sparse.csr_array])
def test_pairings(pairing, storage):
    X, y = sample()
    model = AUCClassifier(solver=SGD(n_passes=3, pairing=pairing), random_state=0)
    assert model.fit(storage(X), y).score(X, y) > 0.85
    stream = AUCClassifier(solver=SGD(step_size=3.0, pairing=pairing), random_state=0)
    stream.partial_fit(storage(X), y, classes=[-1, 1])
    assert stream.score(X, y) > 0.85
