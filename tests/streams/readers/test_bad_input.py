# SPDX-License-Identifier: BSD-3-Clause
"""Each kind of bad file gives one line that names the cure."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pairlearn.streams import NpyReader, ReadError, Schema, SvmlightReader, open_reader

SCHEMA = Schema(label="target")


def csv_reader(source, schema, **options):
    return open_reader(source, schema, format="csv", **options)


def error_of(path, content=None, schema=SCHEMA, **options):
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ReadError) as caught:
        list(open_reader(path, schema, **options))
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


CASES = {
    "empty": ("a.csv", b"", "is empty; check that it was written completely"),
    "blank lines only": ("a.csv", b"\n\n\n", "holds blank lines only"),
    "header only": ("a.csv", b"a,target\n", "has no rows of data"),
    "garbage": ("a.csv", bytes(range(256)) * 20, "is not text: it has a zero byte"),
    "UTF-16 that is none": ("a.csv", b"\xff\xfea\x00\x00\x00", "it has a zero byte"),
    "web page": ("a.csv", b"\xef\xbb\xbf\n<!DOCTYPE html>", "is a web page (HTML), not a table"),
    "XML": ("a.csv", b'<?xml version="1.0"?>\n<rows/>', "is XML, not a table; save"),
    "JSON": ("a.csv", b'[{"x": 1, "target": 0},\n{"x": 2}]', "is JSON, not a table; save"),
    "JSON lines": ("a.csv", b'{"x": 1, "target": 0}\n', "is JSON, not a table"),
    "zip": ("a.csv", b"PK\x03\x04....", "is a zip file, not text; unpack"),
    "no label": ("a.csv", b"a,b\n1,2\n", "no label column 'target'; its columns: 'a', 'b'"),
    "ragged everywhere": ("a.csv", b"a,target\n1\n1,2,3\n", "it has 1 fields where 2 are expected"),
    "duplicated header": ("a.csv", b"a,a,target\n1,2,3\n", "more than one column named 'a'"),
    "no header": ("a.csv", b"1,2,3\n4,5,6\n", "in Python header=False"),
    "no names": ("a.data", b"a target\n1 0\n", "pass format="),
    "empty svmlight": ("a.svm", b"", "is empty"),
    "svmlight of text": ("a.svm", b"what is this\n", "label: 'what' is not a number"),
    "svmlight comments only": ("a.svm", b"# nothing\n", "has no rows of data"),
    "fake parquet": ("a.parquet", b"PAR1 and nothing more", "cannot be read"),
    "fake arrow": ("a.arrow", b"ARROW1 and nothing more", "cannot be read"),
    "feather 1": ("a.feather", b"FEA1....", "write it as Feather of version 2, Arrow or Parquet"),
    "npy with a name": ("a.npy", b"\x93NUMPY\x01", "its label is a column number"),
    "cut gzip": ("a.csv.gz", gzip.compress(b"a,target\n" + os.urandom(50_000).hex().encode())[:900],
                 "damaged or cut short"),
    "text after a quote": ("a.csv", b'a,target\n"1"x,0\n', "cannot be split into fields"),
    "open quote": ("a.csv", b'a,target\n"1,0\n', "a quote is opened and never closed"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_files(tmp_path, case):
    name, content, message = CASES[case]
    assert message in error_of(tmp_path / name, content)


def _zstd(text):
    return pa.compress(text, codec="zstd", asbytes=True)


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress, _zstd])
def test_nothing_behind_a_compressed_stream_is_left_out(tmp_path, compress):
    # Python's own files of xz and bzip2 end without a word where something else follows.
    whole, path = compress(b"a,target\n1,0\n2,1\n"), tmp_path / "a.csv.z"
    path.write_bytes(whole + compress(b"3,0\n4,1\n"))
    assert sum(len(chunk.y) for chunk in open_reader(path, SCHEMA, format="csv")) == 4
    for rest in (b"5,0\n6,1\n", b"junk" + whole, whole[:-5]):
        assert "damaged or cut short" in error_of(path, whole + rest, format="csv")


def test_missing_file_and_folder(tmp_path):
    assert "does not exist; check the path" in error_of(tmp_path / "none.csv")
    assert "has no file ending in" in error_of(tmp_path)
    with pytest.raises(ReadError, match="is a directory; name the files"):
        csv_reader(tmp_path, SCHEMA)


@pytest.mark.parametrize("form", [None, "csv", "svmlight", "parquet"])
def test_a_pipe_is_not_opened_by_its_path(tmp_path, form):
    # Each look at its beginning would take bytes from what is read, or wait for ever.
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    options = {} if form is None else {"format": form}
    assert "is a pipe, which can be read only once; pass -" in error_of(pipe, **options)


def test_a_column_in_the_names_of_folders_is_not_lost(tmp_path):
    table = pa.table({"a": [1.0, 2.0], "target": [0, 1], "plan": [7, 8]})
    split, both = tmp_path / "split", tmp_path / "both"
    pq.write_to_dataset(table, split, partition_cols=["plan"])
    with pytest.raises(ReadError, match="column 'plan' is in the names of folders only"):
        open_reader(split, SCHEMA, format="parquet")
    # What the cure says: files without the column.
    files = sorted(split.rglob("*.parquet"))
    assert len(files) == 2
    assert open_reader(files, SCHEMA, format="parquet").feature_names == ("a",)
    # Files that hold the column, too, lose nothing.
    (both / "plan=7").mkdir(parents=True)
    pq.write_table(table.slice(0, 1), both / "plan=7" / "a.parquet")
    assert open_reader(both, SCHEMA, format="parquet").feature_names == ("a", "plan")


def test_unreadable_permissions(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,target\n1,0\n")
    path.chmod(0)
    if os.access(path, os.R_OK):  # the superuser reads everything: stand in for the system
        real = open

        def denied(file, *args, **kwargs):
            if str(file) == str(path):
                raise PermissionError(13, "Permission denied")
            return real(file, *args, **kwargs)

        monkeypatch.setattr("builtins.open", denied)
    assert "permission denied; run `chmod u+r" in error_of(path)


def test_bad_rows_are_refused_one_by_one():
    text = b'a,target\n1,0\nx,1\n2\n3,1\n"4",1\n5,\n"6,0\n7,1\ninf,1\n8,1\n'
    reader = csv_reader(io.BytesIO(text), SCHEMA)
    [chunk] = reader
    assert chunk.X.ravel().tolist() == [1.0, 3.0, 4.0, 7.0, 8.0]
    assert chunk.lines.tolist() == [2, 5, 6, 9, 11]
    assert reader.refusals.count == 5
    assert [(r.line, r.reason) for r in reader.refusals.first] == [
        (3, "column 'a': 'x' is not a number"),
        (4, "it has 1 fields where 2 are expected"),
        (7, "the label is missing"),
        (8, "a quote is opened and never closed"),
        (10, "column 'a': 'inf' is not a number"),
    ]
    strict = csv_reader(io.BytesIO(text), SCHEMA, strict=True)
    with pytest.raises(ReadError, match=r"^BytesIO:3: column 'a': 'x' is not a number \(strict"):
        list(strict)


def test_only_the_first_few_refusals_are_kept():
    text = b"a,target\n" + b"x,0\n" * 5000 + b"1,1\n"
    reader = csv_reader(io.BytesIO(text), SCHEMA)
    [chunk] = reader
    assert len(chunk) == 1
    assert reader.refusals.count == 5000
    assert len(reader.refusals.first) == 5


def test_a_line_of_ten_megabytes(tmp_path):
    long = b"x" * 10_000_000
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,target\n1,0\n" + long + b",1\n2,1\n")
    reader = csv_reader(path, SCHEMA)
    assert np.concatenate([chunk.X for chunk in reader]).ravel().tolist() == [1.0, 2.0]
    assert len(str(reader.refusals)) < 200
    path.write_bytes(b"a,target\n1,0\n" + b"1" * 40_000_000)
    with pytest.raises(ReadError, match="line 3 is longer than"):
        list(csv_reader(path, SCHEMA))


def test_a_number_of_ten_megabytes():
    text = b"a,target\n0." + b"3" * 10_000_000 + b",1\n"
    [chunk] = csv_reader(io.BytesIO(text), SCHEMA)
    assert chunk.X.tolist() == [[1 / 3]]


def test_files_of_different_shape(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"a,target\n1,0\n")
    (tmp_path / "b.csv").write_bytes(b"b,target\n1,0\n")
    with pytest.raises(ReadError, match=r"b\.csv has no feature column 'a'"):
        list(csv_reader([tmp_path / "a.csv", tmp_path / "b.csv"], SCHEMA))
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1], "target": [1]}), folder / "a.parquet")
    pq.write_table(pa.table({"b": [1], "target": [1]}), folder / "b.parquet")
    with pytest.raises(ReadError, match=r"b\.parquet has no feature column 'a'"):
        list(open_reader(folder, SCHEMA))


def test_bad_arrays(tmp_path):
    path = tmp_path / "X.npy"
    assert "cannot be read" in error_of(path, b"\x93NUMPY\x01", Schema())
    np.save(path, np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(ReadError, match="cannot be read"):
        NpyReader(path)
    np.save(path, np.asfortranarray(np.ones((3, 2))))
    with pytest.raises(ReadError, match="C order"):
        NpyReader(path)
    np.save(path, np.array(["a", "b"]))
    with pytest.raises(ReadError, match="not numbers"):
        NpyReader(path)
    np.save(path, np.array([[1.0, np.nan], [1.0, 2.0]]))
    reader = NpyReader(path, label=0)
    assert [c.X.tolist() for c in reader] == [[[2.0]]]
    assert reader.refusals.count == 1
    with pytest.raises(ReadError, match="y has shape"):
        NpyReader(path, [1, 2, 3])
    with pytest.raises(ReadError, match="no column 7"):
        NpyReader(path, label=7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int8"}, "dtype must be"),
        ({"unknown": "drop"}, "unknown must be"),
        ({"features": "ab"}, "features must be a list"),
        ({"classes": (1, 1), "label": "y"}, "two or more different labels"),
        ({"classes": (1, "a"), "label": "y"}, "all texts or all numbers"),
        ({"classes": (0, 1)}, "without a label column"),
        ({"categorical": ("city",)}, "categorical must be a mapping"),
    ],
)
def test_bad_schemas(options, message):
    with pytest.raises(ReadError, match=message):
        Schema(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ("a", "a")}, "used twice"),
        ({"features": ("b", "target")}, "used twice"),
        ({"features": ()}, "leaves no column"),
        ({"qid": "target"}, "used twice"),
        ({"categorical": {"target": 3}}, "not among the features"),
        ({"categorical": {"a": ["x", "x"]}}, "different, non-empty"),
        ({"missing": {"target": 0}}, "not among the features"),
    ],
)
def test_schemas_that_do_not_fit_the_columns(options, message):
    with pytest.raises(ReadError, match=message):
        csv_reader(io.BytesIO(b"a,b,target\n1,2,3\n"), Schema(label="target", **options))


def test_a_number_too_large_for_float32_is_refused_without_a_warning():
    # So many digits are settled outside the compiled parser.
    text = f"x,y\n{'9' * 45},0\n1,1\n".encode()
    reader = csv_reader(io.BytesIO(text), Schema(label="y", dtype="float32"))
    assert [chunk.X.tolist() for chunk in reader] == [[[1.0]]]
    assert "too large for float32" in str(reader.refusals)
    line = f"1 1:{'9' * 45}\n-1 1:1\n".encode()
    sparse = SvmlightReader(io.BytesIO(line), n_features=1, dtype="float32")
    assert [chunk.y.tolist() for chunk in sparse] == [[-1.0]]
    assert "too large for float32" in str(sparse.refusals)


def test_names_of_columns_that_are_no_text(tmp_path):
    from pairlearn.tables import open_table

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"qqqq": [1.0], "target": [1]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"qqqq", b"\x80qqq"))
    assert "utf-8" in error_of(path)
    with pytest.raises(ReadError, match=r"cannot be read.*utf-8"):
        open_table(path, "parquet")


def test_a_nan_that_signals_is_refused_without_a_warning(tmp_path):
    X = np.array([[0.5, 1.0], [0.0, 0.0], [2.0, 0.0]])
    X.view(np.uint64)[1, 0] = 0x7FF0_0000_0000_0001
    np.save(tmp_path / "X.npy", X)
    reader = NpyReader(tmp_path / "X.npy", label=1, dtype="float32")
    [chunk] = reader
    assert chunk.lines.tolist() == [1, 3]
    assert reader.position.refusals.count == 1


def test_decimal_numbers_of_a_damaged_type(tmp_path):
    whole = pa.array([1, 2, 1]).cast(pa.decimal128(25, 0))
    a = pa.Array.from_buffers(pa.decimal128(25, 234), 3, whole.buffers())
    table = pa.table({"a": a, "target": [0, 1, 1]})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    reader = open_reader(tmp_path / "a.arrow", Schema(label="target", categorical={"a": 8}))
    with pytest.raises(ReadError, match=r"column 'a' holds a value that is not of its type"):
        list(reader)


@pytest.mark.parametrize(
    "kind",
    [pa.timestamp("us"), pa.timestamp("s"), pa.timestamp("ns"), pa.duration("us")],
    ids=str,
)
def test_times_beyond_those_of_python_are_categories_too(tmp_path, kind):
    a = pa.array([2**63 - 1, 3, 2**63 - 1], pa.int64()).view(kind)
    table = pa.table({"a": a, "target": [0, 1, 1]})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    [chunk] = open_reader(tmp_path / "a.arrow", Schema(label="target", categorical={"a": 8}))
    X = chunk.X.toarray() if hasattr(chunk.X, "toarray") else chunk.X
    np.testing.assert_array_equal(X[0], X[2])
    assert X[0].any()


@pytest.mark.parametrize("column", ["a", "q", "target"])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_what_signals_in_a_table_is_refused_without_a_warning(tmp_path, column, kind):
    signals = np.zeros(4, dtype=kind)
    signals.view(np.uint64 if kind is np.float64 else np.uint32)[1] = (
        0x7FF0_0000_0000_0001 if kind is np.float64 else 0x7F80_0001
    )
    columns = {name: np.array([0.0, 1.0, 0.0, 1.0], dtype=kind) for name in ("a", "q", "target")}
    pq.write_table(pa.table({**columns, column: signals}), tmp_path / "a.parquet")
    for classes in (None, (0.0, 1.0)):
        schema = Schema(label="target", qid="q", features=("a",), classes=classes)
        reader = open_reader(tmp_path / "a.parquet", schema)
        [chunk] = reader
        assert chunk.lines.tolist() == [1, 3, 4]


def test_a_query_is_read_as_a_text():
    text = 'q,a,y\n1,2,0\n01,3,1\n2.0,3,1\n+2,3,1\n "3",1,0\n"3",3,0\n-0,1,0\n0,1,0\n'
    reader = csv_reader(io.BytesIO(text.encode()), Schema(label="y", qid="q"))
    [chunk] = reader
    assert chunk.qid[[0, 2, 4, 5, 7]].tolist() == [1, 2, 3, 3, 0]
    assert len(set(chunk.qid.tolist())) == 7  # 01, +2 and -0 are other texts


@pytest.mark.parametrize("label", [None, 0])
def test_a_label_that_signals_is_refused_without_a_warning(tmp_path, label):
    X = np.ones((3, 2), dtype=np.float32)
    X.view(np.uint32)[2, 0] = 0x7F80_0001
    np.save(tmp_path / "X.npy", X if label == 0 else np.ones((3, 1)))
    np.save(tmp_path / "y.npy", X[:, 0])
    y = None if label == 0 else tmp_path / "y.npy"
    reader = NpyReader(tmp_path / "X.npy", y, label=label)
    [chunk] = reader
    assert chunk.lines.tolist() == [1, 2]
    assert reader.position.refusals.count == 1


def test_names_inside_of_a_type_stay_in_one_line(tmp_path):
    from pairlearn.tables.rows import open_table

    kind = pa.struct([("a\x0c\n" + 100 * "b", pa.int64())])
    table = pa.table({"a": pa.array([None, None], kind), "target": [0, 1]})
    pq.write_table(table, tmp_path / "a.parquet")
    schemas = (SCHEMA, Schema(label="target", categorical={"a": ["1"]}), Schema(label="a"))
    for schema in schemas:
        message = error_of(tmp_path / "a.parquet", schema=schema)
        assert len(message.splitlines()) == 1
        assert r"struct<a\x0c\nbbb" in message
    with pytest.raises(ReadError) as caught:
        list(open_table(tmp_path / "a.parquet", "parquet").blocks())
    assert len(str(caught.value).splitlines()) == 1


def test_long_names_of_columns_are_cut_in_messages(tmp_path):
    long = 5000 * "x"
    text = f"{long},y\n?,1\n2,0\n".encode()
    with pytest.raises(ReadError, match=r"no feature column 'a'") as error:
        open_reader(io.BytesIO(text), Schema(label="y", features=["a"]), format="csv")
    assert len(str(error.value)) < 300
    reader = open_reader(io.BytesIO(text), Schema(label="y"), format="csv")
    assert sum(len(chunk.X) for chunk in reader) == 1
    assert reader.refusals.count == 1
    assert len(reader.refusals.first[0].reason) < 200


def test_a_position_of_an_absurd_reader_is_refused_in_a_short_line():
    reader = open_reader(io.BytesIO(b"a,y\n1,0\n2,1\n"), Schema(label="y"), format="csv")
    with pytest.raises(ReadError, match="this is table") as error:
        reader.restore(replace(reader.position, format=5000 * "x"))
    assert len(str(error.value)) < 300
