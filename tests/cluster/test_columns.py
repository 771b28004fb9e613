# SPDX-License-Identifier: BSD-3-Clause
"""Arrow batches as examples, against a loop over the rows. No Spark is needed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from pairlearn.cluster import columns as room  # noqa: E402
from pairlearn.cluster.columns import Columns, _list_rows, _vector_rows  # noqa: E402

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
    found = _vector_rows(array)
    assert isinstance(found, np.ndarray)
    if len(array):
        np.testing.assert_array_equal(found, X[min(skipped, n) :])


def test_wide_vectors_are_sparse_where_a_row_is(monkeypatch):
    monkeypatch.setattr(room, "_NARROW", 3)
    X = np.array([[0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    found = _vector_rows(mixed(X, [1, 0, 0]))
    np.testing.assert_array_equal(found.toarray(), X)
    assert found.nnz == 3  # zeros of the dense row are not stored
    assert isinstance(_vector_rows(mixed(X, [1, 1, 1])), np.ndarray)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([dense([1.0]), dense([1.0, 2.0])], "One row has 1 features, another 2"),
        ([dense([1.0, 0.0]), sparse([1.0, 0.0, 0.0])], "One row has 2 features, another 3"),
        ([{"type": 0, "size": 2, "indices": [2], "values": [1.0]}], "index outside of 0 to 1"),
        ([{"type": 0, "size": 2, "indices": [0, 1], "values": [1.0]}], "not as many indices"),
    ],
)
def test_damaged_vectors_are_refused(rows, told):
    with pytest.raises(ValueError, match=told):
        _vector_rows(pa.array(rows, VECTOR))


def test_lists_of_numbers():
    assert _list_rows(pa.array([[1, 2], [3, 4]])).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(ValueError, match="another 2"):
        _list_rows(pa.array([[1.0], [1.0, 2.0]]))
    batch = pa.table({"f": [[1.0], None], "y": [0, 1]})
    with pytest.raises(ValueError, match="'f' is NULL in 1 of 2"):
        Columns.of(batch.schema, "y", "f").examples(batch)


@pytest.mark.parametrize(("sizes", "heights"), [([3, 0, 4, 1], [7, 1]), ([], []), ([0], [])])
def test_small_batches_are_put_together(sizes, heights):
    batches = [pa.record_batch({"a": [1.0] * size, "y": [0] * size}) for size in sizes]
    schema = pa.schema([("a", pa.float64()), ("y", pa.int64())])
    found = Columns.of(schema, "y").blocks([b.cast(schema) for b in batches], 5)
    assert [len(block["X"]) for block in found] == heights


def test_every_kind_of_number_is_a_number():
    from decimal import Decimal

    table = pa.table(
        {
            "half": pa.array(np.array([1.5, 2.5], np.float16)),
            "small": pa.array([1, 2], pa.int8()),
            "flag": [True, False],
            "price": [Decimal("0.10"), Decimal("0.30")],
            "y": ["a", "b"],
            "w": [1, 2],
            "q": ["s", "t"],
        }
    )
    found = Columns.of(table.schema, "y", weight="w", qid="q").examples(table)
    assert found["X"].tolist() == [[1.5, 1.0, 1.0, 0.1], [2.5, 2.0, 0.0, 0.3]]
    assert found["sample_weight"].tolist() == [1.0, 2.0]
    assert found["qid"].tolist() == ["s", "t"]
