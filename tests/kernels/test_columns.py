# SPDX-License-Identifier: BSD-3-Clause
"""Columns from separate places in memory become rows, and numbers that are not finite are told."""

import numpy as np
import pytest

from pairlearn.streams.readers.consumed import Consumed


def gathered(columns, dtype, step=5):
    addresses = np.array([column.ctypes.data for column in columns], dtype=np.int64)
    rows = np.full((len(columns[0]), len(columns)), -1.0, dtype=dtype)
    return rows, Consumed().gather(addresses, rows, step)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 3, 4, 6, 9])
@pytest.mark.parametrize("n", [1, 3, 4, 7, 12])
def test_rows_hold_the_columns(n, d, dtype):
    columns = [np.arange(n) + 100.0 * k + 0.25 for k in range(d)]
    rows, finite = gathered(columns, dtype)
    assert finite
    np.testing.assert_array_equal(rows, np.column_stack(columns).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_number_that_is_not_finite_is_told(dtype):
    for i in range(6):
        for k in range(6):
            for value in (np.nan, np.inf, -np.inf):
                columns = [np.ones(6) for _ in range(6)]
                columns[k][i] = value
                rows, finite = gathered(columns, dtype)
                assert not finite, (i, k, value)
                np.testing.assert_array_equal(rows[i, k], value)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("step", [1, 4, 7, 100])
def test_rows_are_digested_as_if_they_were_given(step, dtype):
    columns = [np.random.default_rng(k).normal(size=75) for k in range(5)]
    addresses = np.array([column.ctypes.data for column in columns], dtype=np.int64)
    both = Consumed(), Consumed()
    for _ in range(3):
        rows = np.empty((75, 5), dtype=dtype)
        both[0].gather(addresses, rows, step)
        both[1].take(rows)
        np.testing.assert_array_equal(rows, np.column_stack(columns).astype(dtype))
        assert both[0].value() == both[1].value()
