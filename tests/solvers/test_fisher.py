# SPDX-License-Identifier: BSD-3-Clause
"""Fisher's discriminant against scikit-learn's parts of it, and what must not change it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf

from pairlearn.solvers.closed_form.fisher import fisher_direction, with_fisher
from pairlearn.solvers.rows import DenseRows


def sample(seed, n=60, d=4, n_positive=9):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    y = -np.ones(n)
    y[rng.choice(n, n_positive, replace=False)] = 1.0
    X[y > 0] += rng.normal(size=d)
    return X, y


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(2, 30))
@settings(max_examples=50, deadline=None)
def test_it_is_the_shrunken_covariance_against_the_difference_of_means(seed, d, n_positive):
    X, y = sample(seed, d=d, n_positive=n_positive)
    means = [X[y == sign].mean(axis=0) for sign in (-1.0, 1.0)]
    Z = X - np.where(y[:, None] > 0, means[1], means[0])
    covariance, _ = ledoit_wolf(Z, assume_centered=True)
    expected = np.linalg.solve(covariance, means[1] - means[0])
    np.testing.assert_allclose(fisher_direction(DenseRows(X), y), expected, rtol=1e-6)


def test_weights_count_within_a_class_and_zero_is_absent():
    X, y = sample(3)
    plain = fisher_direction(DenseRows(X), y)
    by_class = fisher_direction(DenseRows(X), y, np.where(y > 0, 50.0, 0.2))
    np.testing.assert_allclose(by_class, plain, rtol=1e-12)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    weighted = fisher_direction(DenseRows(X), y, weight)
    assert np.abs(weighted - plain).max() > 1e-3
    mean = [np.average(X[y == s], axis=0, weights=weight[y == s]) for s in (-1.0, 1.0)]
    strong = fisher_direction(DenseRows(np.c_[X, X.sum(axis=1)]), y, weight)
    assert strong @ np.append(mean[1] - mean[0], (mean[1] - mean[0]).sum()) > 0


def test_columns_without_spread_take_no_part():
    X, y = sample(5)
    plain = fisher_direction(DenseRows(X), y)
    wider = np.insert(X, 2, 7.0, axis=1)
    np.testing.assert_allclose(
        fisher_direction(DenseRows(wider), y), np.insert(plain, 2, 0.0), rtol=1e-9
    )
    assert not fisher_direction(DenseRows(np.ones((6, 3))), np.repeat([-1.0, 1.0], 3)).any()


def test_columns_far_from_zero_take_part():
    """Whole numbers, so that the shift rounds nothing: only the spread within classes counts."""
    X, y = sample(5)
    X = np.rint(8.0 * X)
    plain = fisher_direction(DenseRows(X), y)
    far = fisher_direction(DenseRows(X + np.array([0.0, 3e10, 0.0, -3e10])), y)
    np.testing.assert_allclose(far, plain, rtol=1e-4)


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_units_do_not_matter(unit):
    X, y = sample(5)
    found = fisher_direction(DenseRows(unit * X), y)
    np.testing.assert_allclose(found * unit, fisher_direction(DenseRows(X), y), rtol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_mixture_adds_scores_of_equal_spread(share):
    X, y = sample(7)
    rows, w = DenseRows(X), np.random.default_rng(1).normal(size=4)
    f = fisher_direction(rows, y)
    f *= np.std(X @ w) / np.std(X @ f)
    np.testing.assert_allclose(with_fisher(w, share, rows, y), (1 - share) * w + share * f)
    assert not with_fisher(np.zeros(4), share, rows, y).any()
