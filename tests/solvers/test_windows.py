# SPDX-License-Identifier: BSD-3-Clause
"""The scales of two windows of rows, against plain NumPy over the rows of both."""

import numpy as np
import pytest
from scipy import sparse

from pairlearn.solvers.streams.windows import least_jump, note_csr, note_rows, revise

FLOOR, TABLE, TEXT, RARITY = 0.05, 0.1, 0.03, 0.15


def rows_of(share, n=300, d=8):
    """Return rows of which about this share is stored, more in later columns."""
    rng = np.random.default_rng(int(1000 * share))
    X = rng.normal(size=(n, d)) * np.geomspace(0.1, 10.0, d) + np.linspace(-2.0, 3.0, d)
    X[rng.random((n, d)) >= share * np.linspace(0.3, 1.7, d)] = 0.0
    X[:, 0], X[3] = 0.0, np.arange(1.0, d + 1.0)  # the first column has one value
    return X


def windows(X, cut, is_sparse):
    """Return the moments of the rows before and after the cut, the numbers of rows, and shifts."""
    d = X.shape[1]
    before, present, shift, last = np.zeros((6, d)), np.zeros((6, d)), np.zeros(d), np.zeros(d)
    counts = []
    for rows, own in ((X[:cut], before), (X[cut:], present)):
        n_rows = np.zeros(2)
        if is_sparse:
            R = sparse.csr_array(rows)
            # Zeros of the first columns are stored.
            R = R + sparse.csr_array((rows == 0.0) * (np.arange(rows.shape[1]) < 3.0))
            R.data[:] = rows[np.repeat(np.arange(len(rows)), np.diff(R.indptr)), R.indices]
            note_csr(R.data, R.indices, len(rows), before, own, n_rows, shift)
        else:
            note_rows(rows.ravel(), own, n_rows, shift, last, is_first=own is before)
        counts.append(n_rows[1])
    return before, present, np.array(counts), shift


@pytest.mark.parametrize("cut", [0, 100, 299])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.06, 0.08, 0.3])
def test_scales_are_those_of_all_rows(share, is_sparse, cut):
    X = rows_of(share)
    n, d = X.shape
    if cut == 0 and not is_sparse:
        cut = 1  # the first dense row sets the shifts
    scale, centre = np.zeros((2, d))
    sums = windows(X, cut, is_sparse)
    rule = (FLOOR, 1.0, 0.0, TABLE, TEXT, RARITY)
    new_scale, new_centre, changes, total, narrow = revise(*sums, rule, scale, centre)
    stored = (X != 0.0).sum(axis=0)
    assert (stored > 0).all()
    power = np.log(TABLE * d * n / stored.sum()) / np.log(TABLE / TEXT)
    power = np.clip(power, 0.0, 1.0)
    deviation, width = X.std(axis=0), np.ptp(X, axis=0)
    wanted = deviation / np.minimum(1.0, 2.0 * stored / n) ** (RARITY * power)
    wanted = np.maximum(np.minimum(wanted, width), (1.0 - power) * FLOOR * width)
    np.testing.assert_allclose(new_scale, wanted, rtol=1e-9)
    np.testing.assert_allclose(new_centre, X.mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(total, ((deviation / wanted) ** 2).sum(), rtol=1e-9)
    assert changes
    assert narrow == -1


def test_jumps_are_those_of_successive_rows():
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.normal(size=(200, 4)), axis=0) + 30.0
    X[:, 1] = rng.normal(size=200)
    X[rng.random((200, 4)) < 0.2] = 0.0
    X[:, 3] = np.sort(X[:, 3])
    d, n_rows, shift, last = 4, np.zeros(2), np.zeros(4), np.zeros(4)
    present = np.zeros((6, d))
    note_rows(X.ravel(), present, n_rows, shift, last, is_first=True)
    ratios = (np.diff(X, axis=0) ** 2).sum(axis=0) / (2.0 * len(X) * X.var(axis=0))
    least, column = least_jump(present, float(len(X)), shift, 0.0)
    assert column == 3 == np.argmin(ratios)
    assert least == pytest.approx(ratios[3], rel=1e-9)
    least, column = least_jump(present[:, :3].copy(), float(len(X)), shift[:3].copy(), 0.0)
    assert column == np.argmin(ratios[:3])
    assert least == pytest.approx(ratios[:3].min(), rel=1e-9)


def test_zeros_that_are_stored_count_as_they_are():
    rows = sparse.csr_array(np.ones((6, 1)))
    rows.data[:] = values = np.array([0.0, 0.0, 0.0, 5.0, 9.0, 5.0])
    before, present, shift = np.zeros((6, 1)), np.zeros((6, 1)), np.zeros(1)
    for own, begin, stop in ((before, 0, 3), (present, 3, 6)):
        part = slice(begin, stop)
        note_csr(rows.data[part], rows.indices[part], 3, before, own, np.zeros(2), shift)
    rule = (FLOOR, 1.0, 0.0, TABLE, TEXT, RARITY)
    n_rows = np.array([3.0, 3.0])
    new_scale, new_centre, *_ = revise(
        before, present, n_rows, shift, rule, np.zeros(1), np.zeros(1)
    )
    np.testing.assert_allclose([new_scale[0], new_centre[0]], [values.std(), values.mean()])
