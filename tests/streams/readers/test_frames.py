# SPDX-License-Identifier: BSD-3-Clause
"""Sources as polars frames: one table in every form."""

import io

import pandas
import polars
import pyarrow as pa
import pytest

from pairlearn.streams import ReadError
from pairlearn.streams.readers.frames import read_frames

TABLE = polars.DataFrame({"a": [1.5, 2.0, -3.0], "t": ["x", "y,z", ""]})


def test_every_source_gives_the_same_frame(tmp_path):
    TABLE.write_csv(tmp_path / "a.csv")
    TABLE.write_parquet(tmp_path / "a.parquet")
    TABLE.write_ipc(
        tmp_path / "a.arrow", compression="uncompressed", compat_level=polars.CompatLevel.oldest()
    )
    texts = TABLE.with_columns(polars.col("a").cast(polars.String))
    found = polars.concat(read_frames(tmp_path / "a.csv", batch_rows=2))
    assert found.equals(texts)
    for name in ("a.parquet", "a.arrow"):
        [frame] = read_frames(tmp_path / name, line="n")
        assert frame.drop("n").equals(TABLE)
        assert frame["n"].to_list() == [1, 2, 3]
    [typed] = read_frames(tmp_path / "a.csv", texts=False)
    assert typed["a"].equals(TABLE["a"])
    frames = [
        pandas.DataFrame({"a": [1.0]}),
        polars.DataFrame({"a": [2.0]}),
        pa.table({"a": [3.0]}),
    ]
    assert polars.concat(read_frames(frame for frame in frames))["a"].to_list() == [1.0, 2.0, 3.0]


def test_lines_that_are_no_rows_are_told():
    told = []
    text = io.BytesIO(b'a,b\n1,"x\ny"\n2\n3,z\n')
    [frame] = read_frames(text, line="n", refuse=lambda *what: told.append(what))
    assert frame.rows() == [("1", "x\ny", 2), ("3", "z", 5)]
    assert told == [("BytesIO", 4, "it has 1 fields where 2 are expected")]
    with pytest.raises(ReadError, match="more than one column named 'a'"):
        list(read_frames(io.BytesIO(b"a,a\n1,2\n")))
    with pytest.raises(ReadError, match="has no named columns"):
        list(read_frames(io.BytesIO(b"1 1:2\n"), format="svmlight"))
