# SPDX-License-Identifier: BSD-3-Clause
"""Sums of columns and scaled covariances against plain NumPy."""

import numpy as np
import pytest

from pairlearn.kernels.closed_form.covariances import add_columns, add_covariance

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (50, 7), (33, 64)])
def test_sums_of_columns(n, m, dtype, weighted):
    X = RNG.normal(size=(n, m)).astype(dtype)
    weight = RNG.random(n) if weighted else np.empty(0)
    before = RNG.normal(size=m)
    sums = before.copy()
    add_columns(X.reshape(-1), weight, sums)
    counts = weight if weighted else np.ones(n)
    expected = before + (X.astype(np.float64) * counts[:, np.newaxis]).sum(axis=0)
    np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [1, 6, 65])
def test_covariances_from_products(m, dtype, kind):
    rows = RNG.normal(size=(40, m)) + 1.0
    products = np.triu(rows.T @ rows).astype(dtype)
    mean, scale, before = rows.mean(axis=0), RNG.random(m), RNG.normal(size=(m, m)).astype(kind)
    C = before.copy()
    add_covariance(products.reshape(-1), 1.0 / 40, mean, scale, C.reshape(-1), False)
    added = np.outer(scale, scale) * (products.astype(np.float64) / 40 - np.outer(mean, mean))
    # A matrix in single precision holds each number to 6e-8 of its size.
    error = 1e-12 if kind == np.float64 else 1e-6
    expected = before + np.triu(added)
    np.testing.assert_allclose(C, expected, rtol=error, atol=error)
    below = np.tril_indices(m, -1)
    np.testing.assert_array_equal(C[below], before[below])
    first = np.full((m, m), np.nan, dtype=kind)
    add_covariance(products.reshape(-1), 1.0 / 40, mean, scale, first.reshape(-1), True)
    above = np.triu_indices(m)
    np.testing.assert_allclose(first[above], added[above], rtol=error, atol=error)
