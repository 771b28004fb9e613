# SPDX-License-Identifier: BSD-3-Clause
"""Copies of rows are told where chance does not make rows alike."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn.tables.copies import n_copies


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_copies_of_rows(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 1:] *= rng.random((300, 3)) < 0.7
    assert n_copies(kind(X)) == 0
    assert n_copies(kind(np.concatenate([X, X[::2]]))) == 150
    # the order of the rows says nothing
    assert n_copies(kind(rng.permutation(np.concatenate([X, X, X])))) == 600
    # few of them are not worth a word
    assert n_copies(kind(np.concatenate([X, X[:9]]))) == 0
    assert n_copies(kind(np.concatenate([X, X[:16]]))) == 16


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_categories_are_alike_by_chance(kind):
    rng = np.random.default_rng(0)
    X = (rng.random((500, 6)) < 0.3).astype(float)
    assert len(np.unique(X, axis=0)) < 70
    assert n_copies(kind(X)) == 0
    ages, heights = rng.integers(20, 60, size=500), rng.integers(150, 200, size=500)
    assert n_copies(kind(ages[:, None])) == 0
    for more in (X, X[:, :1], heights[:, None]):
        assert n_copies(kind(np.column_stack([ages, more]))) == 0


def test_a_zero_has_one_sign_and_columns_their_places():
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[:, 2] = 0.0
    Y = X.copy()
    Y[:, 2] = -0.0
    assert n_copies(np.concatenate([X, Y])) == 100
    assert n_copies(np.concatenate([X, X[:, ::-1]])) == 0
