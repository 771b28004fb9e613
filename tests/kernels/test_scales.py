# SPDX-License-Identifier: BSD-3-Clause
"""Ranges and sums of columns, against plain NumPy."""

import numpy as np
import pytest

from pairlearn.kernels.scales import LANES, column_extents, column_sums


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 31])
@pytest.mark.parametrize("d", [5, 8, 11])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_of_columns_in_units(n, weighted, d, dtype):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)).astype(dtype)
    weight = rng.integers(1, 5, n) * 1.0 if weighted else np.empty(0)
    inverse = 2.0 ** rng.integers(-3, 5, d)
    room = np.full((6, -(-d // LANES) * LANES), np.nan)
    room[5] = 0.0
    room[5, :d] = inverse
    column_sums(X.reshape(-1), n, weight, room[5], *room[:5])
    np.testing.assert_array_equal(room[:5, d:], 0.0)
    low, high, shift, total, squares = room[:5, :d]
    Z = X.astype(np.float64) * inverse
    w = weight if weighted else np.ones(n)
    np.testing.assert_array_equal(low, Z.min(axis=0))
    np.testing.assert_array_equal(high, Z.max(axis=0))
    np.testing.assert_array_equal(shift, Z[0])
    np.testing.assert_allclose(total, w @ (Z - shift), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(squares, w @ (Z - shift) ** 2, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_extents_of_columns(dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(50, 4)) * 10.0 ** rng.integers(-30, 30, (50, 4))).astype(dtype)
    X[::7, 1], X[3, 2] = 0.0, 5e-324
    low, high = np.full(4, np.inf), np.full(4, -np.inf)
    exponents, n_values = np.zeros((2, 4), dtype=np.int64)
    column_extents(X.reshape(-1), low, high, exponents, n_values)
    wide = X.astype(np.float64)
    usual = np.abs(wide) >= np.finfo(np.float64).tiny
    np.testing.assert_array_equal(low, wide.min(axis=0))
    np.testing.assert_array_equal(high, wide.max(axis=0))
    np.testing.assert_array_equal(n_values, usual.sum(axis=0))
    # The bits hold an exponent that is 1022 above that of frexp.
    found = np.where(usual, np.frexp(wide)[1] + 1022, 0).sum(axis=0)
    np.testing.assert_array_equal(exponents, found)
