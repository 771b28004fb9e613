# SPDX-License-Identifier: BSD-3-Clause
"""A table gives each class its exact sums, by rows or by columns, whatever stands in the table.

The second formulation rounds and multiplies with Python's whole numbers.
"""

import numpy as np
import pytest

from pairlearn.kernels import tiles
from pairlearn.solvers import Extents, Grid
from pairlearn.solvers.closed_form import exact_sums
from pairlearn.solvers.closed_form.exact_sums import ExactSums, add_by_class, lower_half
from pairlearn.solvers.rows import as_rows


def sums_of(table, code, k, grid, **options):
    sums = [ExactSums(grid) for _ in range(k)]
    add_by_class(sums, table, code, **options)
    return [(one.total, one.sums.numbers().tolist(), one.products.numbers().tolist())
            for one in sums]  # fmt: skip


def as_whole_numbers(table, code, k, grid):
    K = grid.exact_steps(np.asarray(table, dtype=np.float64))
    rows, columns = lower_half(K.shape[1])
    found = []
    for kind in range(k):
        own = K[code == kind]
        products = [int((own[:, i] * own[:, j]).sum()) for i, j in zip(rows, columns, strict=True)]
        found.append((len(own), [int(v) for v in own.sum(axis=0)], products))
    return found


def spoiled(X, rng, kind):
    """Change some values so that they need another way than the others."""
    n = len(X)
    if kind == "outliers":
        X[rng.integers(0, n, 9), 0] = 1e9
    elif kind == "far outliers":
        X[[0, n // 2, n - 1], -1] = 1e30
    elif kind == "large at last":
        X[-600:] *= 3e4
    return X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bits", [22, 44])
@pytest.mark.parametrize("kind", ["plain", "outliers", "far outliers", "large at last"])
@pytest.mark.parametrize(("d", "k"), [(1, 2), (3, 1), (4, 3), (7, 2), (17, 40)])
def test_both_orders_of_a_table_give_the_sums_of_whole_numbers(d, k, kind, bits, dtype):
    rng = np.random.default_rng(d * k)
    n = 4_500 if d == 1 else 2_003
    X = rng.normal(size=(n, d)) + 5.0 * (np.arange(d) % 2)
    grid = grid_of(X, bits)
    X = spoiled(X, rng, kind).astype(dtype)
    code = rng.integers(0, k, n)
    code[:7] = 0
    expected = as_whole_numbers(X, code, k, grid)
    for order in "CF":
        assert sums_of(np.asarray(X, order=order), code, k, grid) == expected


def grid_of(X, bits):
    return Grid.of(Extents.of(as_rows(X)), bits=bits)


@pytest.mark.parametrize("order", ["C", "F"])
def test_sums_are_the_same_in_short_and_in_long_calls(order, monkeypatch):
    rng = np.random.default_rng(1)
    X = np.asarray(rng.normal(size=(3_000, 5)), order=order)
    X[1_000:1_200, 2] = 1e5
    code, grid = (rng.random(3_000) < 0.02).astype(np.intp), grid_of(X[:900], 22)
    expected = sums_of(X, code, 2, grid)
    monkeypatch.setattr(exact_sums, "_AT_ONCE", 700)
    assert sums_of(X, code, 2, grid) == expected
    monkeypatch.setattr(exact_sums, "_MOST_ROOM", 0)
    assert sums_of(X, code, 2, grid) == expected


def test_tiles_of_long_registers_give_the_products_of_short_ones():
    """Tiles of this processor against those that every processor can multiply."""
    rng = np.random.default_rng(2)
    rows = np.rint(1e5 * rng.normal(size=(64, 32)))
    found, expected = np.zeros((2, 32, 32))
    tiles._add_squares(rows, found)
    tiles.add_products(rows, rows, expected)
    np.testing.assert_array_equal(np.triu(found), np.triu(expected))
    np.testing.assert_array_equal(np.triu(found), np.triu(rows.T @ rows))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 1_400, 2_499])
def test_what_is_not_finite_is_refused_wherever_it_stands(order, bad, place):
    X = np.asarray(np.random.default_rng(3).normal(size=(2_500, 6)), order=order)
    grid, code = grid_of(X, 22), np.arange(2_500) % 3
    X[place, 4] = bad
    with pytest.raises(ValueError, match="X contains NaN or infinity"):
        sums_of(X, code, 3, grid, finite=False)
