# SPDX-License-Identifier: BSD-3-Clause
"""Tables of rare indicators: folds choose whether rare ones stay small."""

import numpy as np
import pytest
from scipy import sparse

from pairlearn import AUCClassifier, roc_auc
from pairlearn.estimators.shared.scaling import by_spread, scaled_rows
from pairlearn.solvers.rows import as_rows


def indicators(n=1600, d=120):
    """Return rare indicators, each of which varies."""
    rng = np.random.default_rng(0)
    rate = np.exp(rng.uniform(np.log(0.004), np.log(0.08), d))
    X = (rng.random((n, d)) < rate).astype(float)
    X[0], X[1] = 0.0, 1.0
    return X


@pytest.mark.parametrize("store", ["dense", "sparse"])
def test_the_other_scales_give_each_column_variance_one(store):
    X = indicators()
    rows = as_rows(sparse.csr_matrix(X) if store == "sparse" else X)
    scaling, scaled = scaled_rows("auto", rows, np.empty(0))
    other, table = by_spread(scaling, scaled, np.empty(0))
    found = table.matrix.toarray() if store == "sparse" else table.matrix
    # The second formulation: what StandardScaler makes of the user's columns.
    np.testing.assert_allclose(found.std(axis=0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(other.weights, 1.0 / X.std(axis=0), rtol=1e-12)
    # A weight of two counts a row twice.
    weight = np.where(np.arange(len(X)) < 500, 2.0, 1.0)
    twice = np.concatenate([X, X[:500]])
    other, _ = by_spread(scaling, scaled, weight)
    np.testing.assert_allclose(other.weights, 1.0 / twice.std(axis=0), rtol=1e-12)


def test_columns_that_are_alike_are_tried_once():
    rng = np.random.default_rng(0)
    for X in (rng.normal(size=(300, 40)), (rng.random((300, 40)) < 0.3) * 1.0, np.eye(300)[:, :5]):
        scaling, scaled = scaled_rows("auto", as_rows(X), np.empty(0))
        assert by_spread(scaling, scaled, np.empty(0)) is None


def test_wide_sparse_rows_are_tried_as_long_as_they_are_few(monkeypatch):
    rng = np.random.default_rng(0)
    rate = np.exp(rng.uniform(np.log(0.004), np.log(0.08), 6000))
    X = sparse.csr_matrix((rng.random((300, 6000)) < rate).astype(float))
    scaling, scaled = scaled_rows("auto", as_rows(X), np.empty(0))
    other, _ = by_spread(scaling, scaled, np.empty(0))
    varies = scaling.factor > 0.0
    spread = X.toarray().std(axis=0)[varies]
    np.testing.assert_allclose(other.weights[varies], 1.0 / spread, rtol=1e-12)
    monkeypatch.setattr("pairlearn.estimators.shared.scaling._MOST_STORED", X.nnz - 1)
    assert by_spread(scaling, scaled, np.empty(0)) is None


@pytest.mark.thorough
def test_folds_choose_the_scales_that_the_table_wants():
    # Each indicator has the same share of the variance, so rare ones matter more.
    rng = np.random.default_rng(0)
    rate = np.exp(rng.uniform(np.log(0.002), np.log(0.08), 400))
    X = (rng.random((4000, 400)) < rate).astype(float)
    effect = 1.2 * rng.normal(size=400) * (rng.random(400) < 0.3)
    score = X @ (effect * np.clip(np.sqrt(0.02 / rate), 0.0, 3.0))
    chance = 1.0 / (1.0 + np.exp(-1.5 * (score - np.quantile(score, 0.95))))
    y = (rng.random(4000) < chance).astype(int)
    A, B, a, b = X[:2000], X[2000:], y[:2000], y[2000:]
    chosen = AUCClassifier(random_state=0).fit(A, a)
    # The usual scales: a given loss leaves no choice.
    usual = AUCClassifier(loss="squared_hinge", random_state=0).fit(A, a)
    gain = roc_auc(b, chosen.decision_function(B)) - roc_auc(b, usual.decision_function(B))
    # The seed is fixed, so there is no false alarm; the gain is .042.
    assert gain > 0.02
