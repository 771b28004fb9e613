# SPDX-License-Identifier: BSD-3-Clause
"""Dask collections as partitions: which columns a task receives."""

import numpy as np
import pytest

from pairlearn.distributed.dask.parts import parts_of, taken_apart

dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
pd = pytest.importorskip("pandas")
pyarrow_fs = pytest.importorskip("pyarrow.fs")

TABLE = pd.DataFrame(np.arange(24.0).reshape(6, 4), columns=["a", "b", "c", "w"])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for part in range(2):
        TABLE[3 * part : 3 * part + 3].to_parquet(folder / f"{part}.parquet")
    return sorted(folder.iterdir())


@pytest.mark.parametrize(
    "reader", ["fsspec", pyarrow_fs.LocalFileSystem()], ids=["fsspec", "arrow"]
)
@pytest.mark.parametrize(
    ("labels", "copied"),
    [
        (lambda frame: frame["b"], False),
        (lambda frame: frame["b"] + 0.0, True),
        # One of the features, which a frame cannot have twice.
        (lambda frame: frame["a"], True),
    ],
    ids=["selected", "computed", "a feature"],
)
def test_rows_and_columns_reach_a_task_apart(files, reader, labels, copied):
    frame = dd.read_parquet([str(file) for file in files], filesystem=reader)
    parts = parts_of(frame[["c", "a"]], labels(frame), sample_weight=frame["w"])
    assert (
        any("_with_columns" in str(task) for task in dict(parts.whole[0].dask).values()) == copied
    )
    found = [taken_apart(part.compute(scheduler="sync"), parts.attached) for part in parts.whole]
    rows = np.concatenate([rows.to_numpy() for rows, _ in found])
    np.testing.assert_array_equal(rows, TABLE[["c", "a"]])
    for name, column in (("y", labels(TABLE)), ("sample_weight", TABLE["w"])):
        values = np.concatenate([columns[name].to_numpy() for _, columns in found])
        np.testing.assert_array_equal(values, column)
    assert parts.feature_names == ["c", "a"]
