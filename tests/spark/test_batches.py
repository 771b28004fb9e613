# SPDX-License-Identifier: BSD-3-Clause
"""Arrow batches as examples, against a loop over the rows. No Spark is needed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from pairlearn.spark import batches  # noqa: E402
from pairlearn.spark.batches import Layout, array_rows, chunks_of, private_rows, vector_rows  # noqa: E402

VECTOR = pa.struct(
    [("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())),
     ("values", pa.list_(pa.float64()))]
)  # fmt: skip


def dense(row):
    return {"type": 1, "size": None, "indices": None, "values": list(row)}


def sparse(row):
    places = np.flatnonzero(row).tolist()
    return {"type": 0, "size": len(row), "indices": places, "values": [row[k] for k in places]}


def mixed(X, kinds):
    rows = [(dense if kind else sparse)(row.tolist()) for row, kind in zip(X, kinds, strict=True)]
    return pa.array(rows, VECTOR)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 8), st.integers(1, 5), st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_vectors_are_their_rows_however_they_are_stored(n, d, seed, skipped):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(n, d)) * rng.normal(size=(n, d))
    kinds = rng.integers(0, 2, size=n)
    array = mixed(X, kinds).slice(min(skipped, n))
    found = vector_rows(array)
    assert isinstance(found, np.ndarray)
    if len(array):
        np.testing.assert_array_equal(found, X[min(skipped, n) :])


def test_wide_vectors_are_sparse_where_a_row_is(monkeypatch):
    monkeypatch.setattr(batches, "_NARROW", 3)
    X = np.array([[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    found = vector_rows(mixed(X, [1, 0, 0]))
    np.testing.assert_array_equal(found.toarray(), X)
    assert found.nnz == 3  # zeros of the dense row are not stored
    assert isinstance(vector_rows(mixed(X, [1, 1, 1])), np.ndarray)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([dense([1.0]), None], "lacks 1 rows"),
        ([dense([1.0]), dense([1.0, 2.0])], "One row has 1 features, another 2"),
        ([dense([1.0, 0.0]), sparse([1.0, 0.0, 0.0])], "One row has 2 features, another 3"),
        ([{"type": 0, "size": 2, "indices": [2], "values": [1.0]}], "index outside of 0 to 1"),
        ([{"type": 0, "size": 2, "indices": [0, 1], "values": [1.0]}], "not as many indices"),
    ],
)
def test_damaged_vectors_are_refused(rows, told):
    with pytest.raises(ValueError, match=told):
        vector_rows(pa.array(rows, VECTOR))


def test_damaged_private_vectors_are_rows_of_nan_and_change_no_other():
    rows = [
        dense([1.0, 2.0]), None, dense([1.0]), sparse([0.0, 5.0]),
        {"type": 0, "size": 2, "indices": [2], "values": [1.0]},
        {"type": 0, "size": 2, "indices": [0, 1], "values": [1.0]},
        {"type": 1, "size": None, "indices": None, "values": None},
        {"type": 0, "size": 2, "indices": None, "values": [1.0]},
        {"type": 0, "size": 2, "indices": [None], "values": [1.0]},
        {"type": 0, "size": 2, "indices": [], "values": []},
        {"type": None, "size": None, "indices": None, "values": [1.0]},
    ]  # fmt: skip
    found = private_rows(pa.array(rows, VECTOR), 2, True)
    expected = np.full((11, 2), np.nan)
    expected[0], expected[3], expected[9] = [1.0, 2.0], [0.0, 5.0], [0.0, 0.0]
    np.testing.assert_array_equal(found, expected)
    lists = pa.array([[1.0, None], None, [1.0], [3.0, 4.0]])
    known = [[1.0, np.nan], [np.nan] * 2, [np.nan] * 2, [3.0, 4.0]]
    np.testing.assert_array_equal(private_rows(lists, 2, False), known)


def test_arrays_of_numbers():
    found = array_rows(pa.array([[1, 2], [3, None]]))
    np.testing.assert_array_equal(found, [[1.0, 2.0], [3.0, np.nan]])
    single = array_rows(pa.array([[1.5], [2.5]], pa.list_(pa.float32())))
    assert single.dtype == np.float32
    with pytest.raises(ValueError, match="another 2"):
        array_rows(pa.array([[1.0], [1.0, 2.0]]))


def test_columns_keep_single_precision_if_all_have_it():
    table = pa.table({"a": pa.array([1.5], pa.float32()), "b": pa.array([2.5], pa.float32()),
                      "label": [1], "w": [0.5]})  # fmt: skip
    found = Layout("columns", 2, weighted=True).examples(table)
    assert found["X"].dtype == np.float32
    assert found["X"].tolist() == [[1.5, 2.5]]
    assert found["sample_weight"].tolist() == [0.5]
    assert Layout("columns", 2).examples(table.set_column(0, "a", [[1]]))["X"].dtype == np.float64


def test_private_cells_stay_as_they_are():
    table = pa.table({"a": ["1.5", None], "label": ["yes", "no"], "site": [1, 2], "id": [7, 8]})
    found = Layout("columns", 1, n_groups=2).cells(table)
    assert found["X"].column_names == ["a"]
    assert found["groups"].column_names == ["site", "id"]
    assert found["y"].to_pylist() == ["yes", "no"]


@pytest.mark.parametrize(("sizes", "heights"), [([3, 0, 4, 1], [7, 1]), ([], []), ([0], [])])
def test_small_batches_are_put_together(sizes, heights):
    rows = [pa.record_batch({"a": list(range(size))}) for size in sizes]
    assert [chunk.num_rows for chunk in chunks_of(rows, 5)] == heights
