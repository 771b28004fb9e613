# SPDX-License-Identifier: BSD-3-Clause
"""The scales of two windows of rows, against plain NumPy over the rows of both."""

import numpy as np
import pytest
from scipy import sparse

from pairlearn.solvers.rows import as_rows
from pairlearn.solvers.streams.running_scales import FLOOR, RARITY, TABLE, TEXT, RunningScales


def rows_of(share, n=300, d=8):
    """Return rows of which about this share is stored, more in later columns."""
    rng = np.random.default_rng(int(1000 * share))
    X = rng.normal(size=(n, d)) * np.geomspace(0.1, 10.0, d) + np.linspace(-2.0, 3.0, d)
    X[rng.random((n, d)) >= share * np.linspace(0.3, 1.7, d)] = 0.0
    X[:, 0], X[3] = 0.0, np.arange(1.0, d + 1.0)  # the first column has one value
    return X


def looked_at(X, cut, is_sparse):
    """Return scales that look once, at all rows, of which some fill the window before."""
    scales = RunningScales(X.shape[1])
    scales._next = scales._unnoted = len(X)
    for rows in filter(len, (X[:cut], X[cut:])):
        if is_sparse:
            R = sparse.csr_array(rows)
            # Zeros of the first columns are stored.
            R = R + sparse.csr_array((rows == 0.0) * (np.arange(rows.shape[1]) < 3.0))
            R.data[:] = rows[np.repeat(np.arange(len(rows)), np.diff(R.indptr)), R.indices]
            rows = R
        scales.take(as_rows(rows))
    return scales


@pytest.mark.parametrize("cut", [0, 100, 299])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.06, 0.08, 0.3])
def test_scales_are_those_of_all_rows(share, is_sparse, cut):
    X = rows_of(share)
    n, d = X.shape
    scales = looked_at(X, cut, is_sparse)
    stored = (X != 0.0).sum(axis=0)
    assert (stored > 0).all()
    power = np.log(TABLE * d * n / stored.sum()) / np.log(TABLE / TEXT)
    power = np.clip(power, 0.0, 1.0)
    deviation, width = X.std(axis=0), np.ptp(X, axis=0)
    wanted = deviation / np.minimum(1.0, 2.0 * stored / n) ** (RARITY * power)
    wanted = np.maximum(np.minimum(wanted, width), (1.0 - power) * FLOOR * width)
    total = ((deviation / wanted) ** 2).sum()
    np.testing.assert_allclose(1.0 / (scales.factor * np.sqrt(total)), wanted, rtol=1e-9)
    np.testing.assert_allclose(scales.middle, X.mean(axis=0), rtol=1e-9, atol=1e-12)


def test_jumps_are_those_of_successive_rows():
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.normal(size=(200, 4)), axis=0) + 30.0
    X[:, 1] = rng.normal(size=200)
    X[rng.random((200, 4)) < 0.2] = 0.0
    X[:, 3] = np.sort(X[:, 3])
    ratios = (np.diff(X, axis=0) ** 2).sum(axis=0) / (2.0 * len(X) * X.var(axis=0))
    for columns in (slice(4), slice(3)):
        least, column = looked_at(X[:, columns], 0, False).least_jump()
        assert column == np.argmin(ratios[columns])
        assert least == pytest.approx(ratios[columns].min(), rel=1e-9)
