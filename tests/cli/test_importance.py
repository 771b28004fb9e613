# SPDX-License-Identifier: BSD-3-Clause
"""How much each column of a table moves the score, in one product for all columns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from pairlearn.cli.training.importance import _spread_of_columns


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_spread_is_that_of_each_column_alone(is_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    widths = [1, 3, 0, 2, 1]
    X = rng.normal(size=(20, 7)) * (rng.random((20, 7)) < 0.5)
    X[:, 6] = 1e9 + rng.normal(size=20)  # far from zero: squares would lose all digits
    coef = rng.normal(size=7)
    ends = np.cumsum(widths)
    expected = [
        np.std(X[:, e - w : e] @ coef[e - w : e]) for e, w in zip(ends, widths, strict=True)
    ]
    found = _spread_of_columns(sparse.csr_matrix(X) if is_sparse else X, coef, widths)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)
