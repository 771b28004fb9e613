# SPDX-License-Identifier: BSD-3-Clause
"""All formats give the same rows, and every position resumes exactly."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from scipy.sparse import issparse
from sklearn.datasets import dump_svmlight_file

from pairlearn.streams import (
    IteratorReader,
    NpyReader,
    Position,
    ReadError,
    Schema,
    SvmlightReader,
    open_reader,
)


def csv_reader(source, schema, **options):
    return open_reader(source, schema, format="csv", **options)


CITIES = ["Oslo", "Rome", "Lima", "Œuvre", 'a "b", c']
N = 230


def table():
    rng = np.random.default_rng(3)
    age = rng.normal(40, 10, N).round(3)
    age_list = [None if k % 17 == 3 else float(v) for k, v in enumerate(age)]
    city = [CITIES[k] for k in rng.integers(0, len(CITIES), N)]
    colour = ["red" if k % 3 else "blue" for k in range(N)]
    qid = (np.arange(N) // 10).tolist()
    target = rng.integers(0, 2, N).tolist()
    return pa.table(
        {"age": age_list, "city": city, "colour": colour, "query": qid, "target": target}
    )


SCHEMA = Schema(
    label="target",
    qid="query",
    categorical={"city": 16, "colour": ["red", "blue"]},
    missing={"age": "indicator"},
)


def csv_text(data):
    import csv

    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(data.column_names)
    for row in data.to_pylist():
        writer.writerow(["" if v is None else v for v in row.values()])
    return out.getvalue().encode()


def gather(reader):
    chunks = list(reader)
    X = np.concatenate([c.X.toarray() if issparse(c.X) else c.X for c in chunks])
    y = np.concatenate([c.y for c in chunks])
    qid = None if chunks[0].qid is None else np.concatenate([c.qid for c in chunks])
    return X, y, qid


@pytest.fixture
def files(tmp_path):
    data = table()
    text = csv_text(data)
    (tmp_path / "a.csv").write_bytes(text)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(text))
    (tmp_path / "a.csv.bz2").write_bytes(bz2.compress(text))
    (tmp_path / "a.csv.zst").write_bytes(pa.compress(text, "zstd", asbytes=True))
    # the name does not matter, the first bytes do
    (tmp_path / "odd.csv").write_bytes(gzip.compress(text))
    pq.write_table(data, tmp_path / "a.parquet", row_group_size=50)
    pyarrow.feather.write_feather(data, tmp_path / "a.feather", chunksize=70)
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(data.slice(0, 100), folder / "0.parquet", row_group_size=33)
    pyarrow.feather.write_feather(data.slice(100), folder / "1.feather")
    (folder / "_SUCCESS.parquet").write_bytes(b"left out")
    return tmp_path


NAMES = ["a.csv", "a.csv.gz", "a.csv.xz", "a.csv.bz2", "a.csv.zst", "odd.csv", "a.parquet",
         "a.feather", "parts"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_format_gives_the_same_rows(files, name):
    data = table()
    expected = gather(IteratorReader(lambda: data.to_pylist(), SCHEMA, chunk_rows=1000))
    reader = open_reader(files / name, SCHEMA, chunk_rows=37)
    X, y, qid = gather(reader)
    assert X.shape == (N, 1 + 1 + 16 + 2)
    np.testing.assert_array_equal(X, expected[0])
    np.testing.assert_array_equal(y, expected[1])
    np.testing.assert_array_equal(qid, expected[2])
    assert reader.feature_names[:3] == ("age", "age=(missing)", "city#0")
    assert reader.feature_names[-2:] == ("colour=red", "colour=blue")
    assert X[:, 1].sum() == sum(v is None for v in data["age"].to_pylist())
    assert reader.position.row == N


def readers_for_resuming(files):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 4)).round(4) * (rng.random((120, 4)) < 0.7)
    y = rng.integers(0, 2, 120)
    dump_svmlight_file(X, y, str(files / "a.svm"), zero_based=False)
    np.save(files / "X.npy", X)
    np.save(files / "y.npy", y)
    messy = b"a,b\n" + b"".join(
        b"x,1\n" if k % 7 == 2 else b'"%d",1\n\n' % k if k % 5 == 0 else b"%d,0\n" % k
        for k in range(200)
    )
    (files / "messy.csv").write_bytes(messy)
    (files / "messy.csv.gz").write_bytes(gzip.compress(messy))
    plain = Schema(label="b")
    makers = {name: lambda name=name: open_reader(files / name, SCHEMA, chunk_rows=37)
              for name in NAMES}  # fmt: skip
    makers["many csv"] = lambda: csv_reader([files / "a.csv", files / "odd.csv"], SCHEMA,
                                           chunk_rows=41)  # fmt: skip
    makers["messy"] = lambda: csv_reader(files / "messy.csv", plain, chunk_rows=9)
    makers["messy gz"] = lambda: csv_reader(files / "messy.csv.gz", plain, chunk_rows=9)
    makers["pipe"] = lambda: csv_reader(io.BytesIO(messy), plain, chunk_rows=9)
    makers["svmlight"] = lambda: SvmlightReader([files / "a.svm"] * 2, chunk_rows=13)
    makers["npy"] = lambda: NpyReader(files / "X.npy", files / "y.npy", chunk_rows=13)
    makers["iterator"] = lambda: IteratorReader(
        lambda: (([k, -k], k % 2) if k % 11 else (["?", 1], 0) for k in range(90)), chunk_rows=8
    )
    return makers


def same(a, b):
    dense = [c.X.toarray() if issparse(c.X) else c.X for c in (a, b)]
    return (
        dense[0].tobytes() == dense[1].tobytes()
        and a.y.tobytes() == b.y.tobytes()
        and a.first_row == b.first_row
        and a.lines.tolist() == b.lines.tolist()
        and a.position == b.position
    )


@pytest.mark.parametrize(
    "name", [*NAMES, "many csv", "messy", "messy gz", "pipe", "svmlight", "npy", "iterator"]
)
def test_every_position_resumes_exactly(files, name):
    make = readers_for_resuming(files)[name]
    whole = list(make())
    assert len(whole) > 4
    for k, chunk in enumerate(whole):
        saved = json.loads(json.dumps(chunk.position.to_dict()))
        reader = make()
        reader.restore(Position.from_dict(saved))
        rest = list(reader)
        assert len(rest) == len(whole) - k - 1
        assert all(same(a, b) for a, b in zip(whole[k + 1 :], rest, strict=True))
    finished = make()
    list(finished)
    again = make()
    again.restore(finished.position)
    assert list(again) == []
    assert again.refusals == finished.refusals


def test_a_used_reader_can_go_back(files):
    reader = open_reader(files / "a.csv", SCHEMA, chunk_rows=37)
    whole = list(reader)
    reader.restore(whole[1].position)
    assert all(same(a, b) for a, b in zip(whole[2:], reader, strict=True))


def test_positions_of_other_data_are_refused(files):
    reader = open_reader(files / "a.csv", SCHEMA, chunk_rows=37)
    position = next(iter(reader)).position
    np.save(files / "X.npy", np.ones((3, 2)))
    text = (files / "a.csv").read_bytes()
    (files / "b.csv").write_bytes(text.replace(b"Oslo", b"Bonn"))
    with pytest.raises(ReadError, match="other data or other reading options"):
        open_reader(files / "b.csv", SCHEMA, chunk_rows=37).restore(position)
    with pytest.raises(ReadError, match="belongs to a table reader"):
        NpyReader(files / "X.npy").restore(position)
    with open(files / "a.csv", "ab") as file:
        file.write(b"3,Oslo,red,1,0\n")
    with pytest.raises(ReadError, match="the file has changed"):
        open_reader(files / "a.csv", SCHEMA, chunk_rows=37).restore(position)
    with pytest.raises(ReadError, match="incomplete"):
        Position.from_dict({"format": "csv"})


def test_missing_policies():
    text = b"a,b,y\n1,,0\nNA,2,1\n3,4,1\n"
    refused = csv_reader(io.BytesIO(text), Schema(label="y"))
    assert [c.X.tolist() for c in refused] == [[[3.0, 4.0]]]
    assert refused.refusals.count == 2
    assert "column 'b': the value is missing" in str(refused.refusals)
    zero = csv_reader(io.BytesIO(text), Schema(label="y", missing=0))
    assert [c.X.tolist() for c in zero] == [[[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]]
    flagged = csv_reader(io.BytesIO(text), Schema(label="y", missing="indicator"))
    assert flagged.feature_names == ("a", "a=(missing)", "b", "b=(missing)")
    assert [c.X.tolist() for c in flagged] == [[[1, 0, 0, 1], [0, 1, 2, 0], [3, 0, 4, 0]]]
    mixed = csv_reader(io.BytesIO(text), Schema(label="y", missing={"a": -1.0}))
    assert [c.X.tolist() for c in mixed] == [[[-1.0, 2.0], [3.0, 4.0]]]
    with pytest.raises(ReadError, match="'refuse', 'indicator' or a finite number"):
        csv_reader(io.BytesIO(text), Schema(label="y", missing="mean"))


@pytest.mark.parametrize("columns", [{"c": 7}, {"c": ["red", "blue"]}])
def test_both_line_ends_give_the_same_rows(columns):
    text = b'y,c\n1,red\n0,blue\n1,\n0,red\n1,"blue"\n0,red'
    schema = Schema(label="y", categorical=columns, missing="indicator")
    found = []
    for end in (b"\n", b"\r\n"):
        reader = csv_reader(io.BytesIO(text.replace(b"\n", end)), schema)
        (chunk,) = reader
        X = chunk.X.toarray() if issparse(chunk.X) else chunk.X
        found.append((X.tolist(), chunk.y.tolist(), reader.refusals.count))
    assert found[0] == found[1]
    rows = found[0][0]
    assert rows[0] == rows[3] == rows[5] != rows[1] == rows[4] != rows[2] != rows[0]


def test_columns_by_name_and_by_number():
    text = b"1,2,3,4\n5,6,7,8\n"
    schema = Schema(label=-1, features=(2, "0"))
    [chunk] = csv_reader(io.BytesIO(text), schema, header=False)
    assert chunk.X.tolist() == [[3.0, 1.0], [7.0, 5.0]]
    assert chunk.y.tolist() == [4.0, 8.0]
    [chunk] = csv_reader(
        io.BytesIO(text.replace(b",", b"\t")), schema, header=False, delimiter="\t"
    )
    assert chunk.X.tolist() == [[3.0, 1.0], [7.0, 5.0]]


def test_text_labels_and_late_labels():
    text = b"a,y\n" + b"1,no\n2,yes\n" * 500 + b"3,maybe\n4,yes\n"
    reader = csv_reader(io.BytesIO(text), Schema(label="y", classes=("no", "yes")))
    [chunk] = reader
    assert set(chunk.y.tolist()) == {0.0, 1.0}
    assert len(chunk) == 1001
    assert str(reader.refusals.first[0]) == ("BytesIO:1002: label 'maybe' is not among the classes")
    late = b"a,y\n" + b"1,0\n2,1\n" * 500 + b"3,2\n"
    reader = csv_reader(io.BytesIO(late), Schema(label="y", classes=(0, 1)), strict=True)
    with pytest.raises(ReadError, match=r"1002: label '2' is not among the classes"):
        list(reader)


def test_unknown_levels():
    text = b"a,c,y\n1,red,0\n2,green,1\n"
    levels = {"c": ["red", "blue"]}
    reader = csv_reader(io.BytesIO(text), Schema(label="y", categorical=levels))
    assert [c.X.tolist() for c in reader] == [[[1, 1, 0]]]
    assert "'green' is not among its levels" in str(reader.refusals)
    reader = csv_reader(io.BytesIO(text), Schema(label="y", categorical=levels, unknown="ignore"))
    assert [c.X.tolist() for c in reader] == [[[1, 1, 0], [2, 0, 0]]]
    tab = pa.table({"a": [1, 2], "c": ["red", "green"], "y": [0, 1]})
    pa_reader = IteratorReader(tab.to_pylist(), Schema(label="y", categorical=levels))
    assert [c.X.tolist() for c in pa_reader] == [[[1, 1, 0]]]


def test_standard_input(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"a,y\n1,0\n2,1\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    [chunk] = open_reader("-", Schema(label="y"), format="csv")
    assert chunk.X.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("kind", ["csv", "svmlight"])
def test_a_slow_pipe_is_followed_row_by_row(kind):
    """Each row arrives before the next one is written."""
    lines = [b"1,0\n", b"2,1\n", b"3,1\n"]
    if kind == "svmlight":
        lines = [b"0 1:1\n", b"1 1:2\n", b"1 1:3\n"]
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as source, open(write_end, "wb", buffering=0) as sink:
        if kind == "csv":
            sink.write(b"a,y\n")
            sink.write(lines[0])
            reader = csv_reader(source, Schema(label="y"), chunk_rows=1)
        else:
            sink.write(lines[0])
            reader = SvmlightReader(source, n_features=1, chunk_rows=1)
        chunks = iter(reader)
        seen = [next(chunks)]
        for line in lines[1:]:
            sink.write(line)
            seen.append(next(chunks))
        sink.close()
        assert list(chunks) == []
    assert [chunk.y.tolist() for chunk in seen] == [[0.0], [1.0], [1.0]]


def test_text_files_are_refused():
    with pytest.raises(ReadError, match="mode 'rb'"):
        csv_reader(io.StringIO("a,y\n1,2\n"), Schema(label="y"))


def test_float32_is_rounded_once_and_overflow_is_refused():
    text = b"a,y\n0.1,0\n1e39,1\n1e-60,1\n"
    reader = csv_reader(io.BytesIO(text), Schema(label="y", dtype="float32"))
    [chunk] = reader
    assert chunk.X.dtype == np.float32
    assert chunk.X.ravel().tolist() == [np.float32(0.1), 0.0]
    assert "too large for float32" in str(reader.refusals)


def test_arrow_types(files):
    data = pa.table(
        {
            "i": pa.array([1, None, 3], pa.int32()),
            "b": [True, False, True],
            "f": pa.array([0.5, float("inf"), float("nan")], pa.float32()),
            "t": pa.array([1, 2, 3], pa.timestamp("s")),
            "y": [0, 1, 1],
        }
    )
    pq.write_table(data, files / "t.parquet")
    with pytest.raises(ReadError, match=r"column 't': '1970-01-01 00:00:01' is not a number"):
        list(open_reader(files / "t.parquet", Schema(label="y")))
    reader = open_reader(
        files / "t.parquet", Schema(label="y", features=("i", "b", "f"), missing=0)
    )
    assert [c.X.tolist() for c in reader] == [[[1, 1, 0.5], [3, 1, 0]]]
    assert "column 'f': 'inf' is not a number" in str(reader.refusals)
    with pytest.raises(ReadError, match="label 'Rome' is not a number"):
        list(open_reader(files / "a.parquet", Schema(label="city", features=("query",))))


def test_iterator_forms():
    reader = IteratorReader(
        [{"a": 1, "y": 0}, {"y": 1}, {"a": "2.5", "y": 1}, 7], Schema(label="y")
    )
    [chunk] = reader
    assert chunk.X.tolist() == [[1.0], [2.5]]
    assert [r.line for r in reader.refusals.first] == [2, 4]
    [chunk] = IteratorReader([(np.arange(3.0), 1, 4), (np.ones(3), 0, 5)])
    assert chunk.qid.tolist() == [4, 5]
    for bad, message in [([], "empty"), (5, "must be an iterable"), ([3.5], "mapping or a seq"),
                         ([(1, 2, 3, 4)], "tuple of 4|mapping or a sequence")]:  # fmt: skip
        with pytest.raises(ReadError, match=message):
            IteratorReader(bad)
    used = IteratorReader(iter([([1], 0), ([2], 1)]), chunk_rows=1)
    first, _ = list(used)
    with pytest.raises(ReadError, match="cannot go back"):
        used.restore(first.position)


@pytest.mark.parametrize(
    "kind", [(128, 9, 2), (128, 18, 3), (128, 38, 30), (128, 12, -3), (256, 76, 40)], ids=str
)
def test_decimals_are_the_nearest_doubles(rng, tmp_path, kind):
    bits, digits, scale = kind
    tops = ["".join(rng.choice(list("0123456789"), digits)) for _ in range(300)]
    values = [Decimal(f"{top}e{-scale}") for top in tops] + [Decimal(0), None]
    exact = pa.array(values, getattr(pa, f"decimal{bits}")(digits, scale)).slice(1)
    data = pa.table({"a": exact, "y": [0.0] * len(exact)})
    pyarrow.feather.write_feather(data, tmp_path / "a.feather")
    [chunk] = open_reader(tmp_path / "a.feather", Schema(label="y", missing=0))
    assert chunk.X.ravel().tolist() == [float(value or 0) for value in values[1:]]
