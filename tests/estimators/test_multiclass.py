# SPDX-License-Identifier: BSD-3-Clause
"""One score for each pair of classes."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from pairlearn import SGD, Exact, HandTill, MulticlassAUCClassifier
from pairlearn.estimators.classes.multiclass import couple, find_power, raise_to
from pairlearn.losses import SquaredHinge
from pairlearn.solvers import solve_square_auc
from pairlearn.solvers.exact.batch import PairObjective
from pairlearn.solvers.rows import DenseRows


def test_each_pair_is_the_closed_form_of_two_classes():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = MulticlassAUCClassifier(loss="square", solver=Exact(ridge=0.3), scaling=None).fit(X, y)
    for row, (a, b) in zip(model.coef_, combinations(range(3), 2), strict=True):
        some = (y == a) | (y == b)
        wanted = solve_square_auc(X[some], np.where(y[some] == b, 1.0, -1.0), ridge=0.3)
        np.testing.assert_allclose(row, wanted, rtol=1e-8)
    assert model.score(X, y) == HandTill(pairs=True)(y, X @ model.coef_.T)


def test_units_storage_weights_and_labels_do_not_matter(tmp_path):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = MulticlassAUCClassifier(solver=Exact(ridge=0.01), random_state=0).fit(X, names)
    p = model.predict_proba(X)
    units = MulticlassAUCClassifier(solver=Exact(ridge=0.01), random_state=0).fit(
        X * [1.0, 1e3, 1e-3, 7.0] + 5.0, names
    )
    other = X * [1.0, 1e3, 1e-3, 7.0] + 5.0
    found, expected = units.pair_scores(other), model.pair_scores(X)
    found, expected = (scores - scores.mean(axis=0) for scores in (found, expected))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # Other numbers make other folds, which calibrate.
    np.testing.assert_allclose(units.predict_proba(other), p, atol=0.15)
    more = MulticlassAUCClassifier(loss="square", solver=Exact(ridge=0.01), scaling=None).fit(
        np.vstack((X, X[:5] + 9.0)), np.append(names, names[:5]), np.r_[np.ones(150), np.zeros(5)]
    )
    plain = MulticlassAUCClassifier(loss="square", solver=Exact(ridge=0.01), scaling=None).fit(
        X, names
    )
    np.testing.assert_allclose(more.coef_, plain.coef_)
    sparse = MulticlassAUCClassifier(loss="square", solver=Exact(ridge=0.01), scaling=None).fit(
        scipy.sparse.csr_array(X), names
    )
    np.testing.assert_allclose(sparse.coef_, plain.coef_, rtol=1e-8)
    model.save(tmp_path / "model")
    loaded = MulticlassAUCClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), p)
    assert set(loaded.predict(X)) <= set(names)


def literal_coupling(r):
    """Minimise the sum of (r_ba p_a - r_ab p_b)^2 over the simplex by its conditions."""
    k = len(r)
    rows = []
    for a, b in combinations(range(k), 2):
        row = np.zeros(k)
        row[a], row[b] = r[b, a], -r[a, b]
        rows.append(row)
    A = np.array(rows)
    system = np.block([[A.T @ A, np.ones((k, 1))], [np.ones((1, k)), np.zeros((1, 1))]])
    return np.linalg.solve(system, np.append(np.zeros(k), 1.0))[:k]


def test_coupling_minimises_the_sum_of_squares():
    rng = np.random.default_rng(0)
    for k in (2, 3, 5):
        pairs = rng.uniform(0.1, 0.9, size=(7, k * (k - 1) // 2))
        found = couple(pairs, k)
        for p, row in zip(found, pairs, strict=True):
            r = np.zeros((k, k))
            for value, (a, b) in zip(row, combinations(range(k), 2), strict=True):
                r[b, a], r[a, b] = value, 1.0 - value
            np.testing.assert_allclose(p, literal_coupling(r), atol=1e-9)
        # Pairs that agree with class probabilities give these back.
        p = rng.dirichlet(np.ones(k), 4)
        exact = np.column_stack(
            [p[:, b] / (p[:, a] + p[:, b]) for a, b in combinations(range(k), 2)]
        )
        np.testing.assert_allclose(couple(exact, k), p, atol=1e-6)


def test_degenerate_classes():
    X = np.arange(10.0)[:, None]
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 2])
    # A class of one example: scored on itself, and no error.
    model = MulticlassAUCClassifier().fit(X, y)
    assert model.score(X, y) == 1.0
    # A class that is missing among the examples scored is left out.
    assert model.score(X[:9], y[:9]) == 1.0
    with pytest.raises(ValueError, match="at least two classes, got 1 class"):
        MulticlassAUCClassifier().fit(X, np.zeros(10))
    with pytest.raises(ValueError, match="zero for every example of class 2"):
        MulticlassAUCClassifier().fit(X, y, sample_weight=(y != 2).astype(float))
    with pytest.raises(ValueError, match='ridge must be at least 0 or "auto", got -1'):
        MulticlassAUCClassifier().set_params(solver__ridge=-1)


def test_power_of_probabilities_has_the_largest_likelihood(rng):
    p = rng.dirichlet(np.ones(4), 500)
    sharp = raise_to(p, 2.0)
    codes = np.array([rng.choice(4, p=row) for row in sharp])
    weight = rng.uniform(0.5, 1.5, 500)

    def loss(power):
        return -weight @ np.log(raise_to(p, power)[np.arange(500), codes])

    found = find_power(p, codes, weight)
    assert found == pytest.approx(2.0, abs=0.3)
    assert loss(found) <= min(loss(found - 0.01), loss(found + 0.01))


def test_squared_hinge_is_minimised_for_each_pair():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    settings = {"loss": "squared_hinge", "solver": Exact(0.1), "scaling": None}
    model = MulticlassAUCClassifier(**settings, random_state=0).fit(X, y)
    for row, (a, b) in zip(model.coef_, combinations(range(3), 2), strict=True):
        some = (y == a) | (y == b)
        signs = np.where(y[some] == b, 1.0, -1.0)
        objective = PairObjective(DenseRows(X[some]), signs, SquaredHinge())
        np.testing.assert_allclose(row, objective.minimise(0.1)[0], rtol=1e-3, atol=1e-5)
    chosen = MulticlassAUCClassifier(solver=Exact(ridge=0.1), random_state=0).fit(X, y)
    assert chosen.loss_ in ("square", "squared_hinge")
    with pytest.raises(ValueError, match=r"loss must be one of .* got 'hinge'"):
        MulticlassAUCClassifier(loss="hinge").fit(X, y)
    for solver in ("moments", SGD(0.1)):
        with pytest.raises(ValueError, match=r"no way to train by .*; use solver=.exact"):
            MulticlassAUCClassifier(solver=solver).fit(X, y)
