# SPDX-License-Identifier: BSD-3-Clause
"""Ranges and sums of columns, against plain NumPy."""

import numpy as np
import pytest

from pairlearn.kernels.scales import column_sums


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 31])
@pytest.mark.parametrize("d", [5, 8, 11])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_of_columns_in_units(n, weighted, d, dtype):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)).astype(dtype)
    weight = rng.integers(1, 5, n) * 1.0 if weighted else np.empty(0)
    inverse = 2.0 ** rng.integers(-3, 5, d)
    low, high, shift, total, squares = sums = tuple(np.full((5, d), np.nan))
    column_sums(X.reshape(-1), n, weight, inverse, *sums)
    Z = X.astype(np.float64) * inverse
    w = weight if weighted else np.ones(n)
    np.testing.assert_array_equal(low, Z.min(axis=0))
    np.testing.assert_array_equal(high, Z.max(axis=0))
    np.testing.assert_array_equal(shift, Z[0])
    np.testing.assert_allclose(total, w @ (Z - shift), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(squares, w @ (Z - shift) ** 2, rtol=1e-12, atol=1e-12)
