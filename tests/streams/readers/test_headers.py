# SPDX-License-Identifier: BSD-3-Clause
"""Headers that lie: binary formats and widths, refused before memory is asked for."""

from __future__ import annotations

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.npy import NpyReader
from pairlearn.streams.readers.open import open_reader
from pairlearn.streams.readers.schema import Schema
from pairlearn.streams.readers.svmlight import SvmlightReader

GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"


def npy_file(path, header, body=bytes(48), *, version=1, length=None):
    text = header.encode("latin1") if isinstance(header, str) else header
    size = len(text) if length is None else length
    start = b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(2 if version == 1 else 4, "little")
    path.write_bytes(start + text + body)
    return path


@pytest.mark.parametrize(
    "header",
    [
        "",
        "{",
        "\x00\n\t('",
        "[" * 5000,
        "-" * 9000 + "1",
        "__import__('os')",
        "{'descr': '<f8'}",
        GOOD.replace("(2, 3)", "(2**40, 3)"),
        GOOD.replace("(2, 3)", f"({2**62}, 4)"),
        GOOD.replace("(2, 3)", "(-1, 3)"),
        GOOD.replace("(2, 3)", "(True, 3)"),
        GOOD.replace("(2, 3)", "[2, 3]"),
        GOOD.replace("(2, 3)", "(2, 3, 1)"),
        GOOD.replace("(2, 3)", "()"),
        GOOD.replace("(2, 3)", "(2, 4)"),
        GOOD.replace("False", "True"),
        GOOD.replace("'<f8'", "'<U400000000'"),
        GOOD.replace("'<f8'", "'|O'"),
        GOOD.replace("'<f8'", "'f8,f8'"),
        GOOD.replace("'<f8'", "'(9,)f8'"),
        GOOD.replace("'<f8'", "'f3'"),
        GOOD.replace("'<f8'", "'i16'"),
        GOOD.replace("'<f8'", "[('a', '<f8')]"),
        GOOD.replace("'<f8'", "{'names': 3}"),
        GOOD.replace("'descr'", "b'descr'"),
    ],
)
def test_npy_headers(tmp_path, header):
    for version in (1, 2, 3):
        with pytest.raises(ReadError) as caught:
            NpyReader(npy_file(tmp_path / "a.npy", header, version=version))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400


def test_a_good_npy_header(tmp_path):
    for version in (1, 2, 3):
        [chunk] = NpyReader(npy_file(tmp_path / "a.npy", GOOD, version=version))
        assert chunk.X.shape == (2, 3)
    for dtype in ("f4", ">f8", "i2", "u1", "?", "f2", "g"):
        for X in (np.ones((3, 2)), np.asfortranarray(np.ones((3, 1)))):
            np.save(tmp_path / "b.npy", X.astype(dtype))
            [chunk] = NpyReader(tmp_path / "b.npy")
            np.testing.assert_array_equal(chunk.X, X)
    path = tmp_path / "short.npy"
    path.write_bytes(b"\x93NUMPY")
    with pytest.raises(ReadError, match="cannot be read"):
        NpyReader(path)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_struct_column_has_no_levels(tmp_path, suffix):
    table = pyarrow.table(
        {"a": [{"b": 1}, {"b": 2}], "l": [[1], [2]], "x": [1.0, 2.0], "y": [0, 1]}
    )
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with pyarrow.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table)
    for column in ("a", "l"):
        for schema in (
            Schema(label="y", features=(column,)),
            Schema(label="y", features=(column,), categorical={column: 8}),
            Schema(label=column, features=("x",), classes=("0", "1")),
            Schema(label=column, features=("x",)),
        ):
            with pytest.raises(ReadError, match=f"'{column}' is "):
                list(open_reader(path, schema))
    [chunk] = open_reader(path, Schema(label="y", features=("x",)))
    assert chunk.y.tolist() == [0.0, 1.0]


def test_damaged_arrow_bytes_end_in_our_error(tmp_path):
    table = pyarrow.table({"t": ["red", "blue"] * 50, "x": np.arange(100.0), "y": [0, 1] * 50})
    table = table.set_column(0, "t", table["t"].dictionary_encode())
    path = tmp_path / "a.arrow"
    with pyarrow.ipc.new_file(str(path), table.schema) as file:
        file.write_table(table)
    good, rng = path.read_bytes(), np.random.default_rng(0)
    schema = Schema(label="y", categorical={"t": 8})
    refused = 0
    for _ in range(300):
        data = bytearray(good)
        data[rng.integers(8, len(data))] = rng.integers(0, 256)
        path.write_bytes(data)
        try:
            list(open_reader(path, schema))
        except ReadError:
            refused += 1
    assert refused > 10


def test_a_width_that_is_absurd_for_the_text(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1 1:1 2:1\n-1 2147483646:1\n")
    with pytest.raises(ReadError, match="index is 2147483646, in 26 bytes"):
        SvmlightReader(path)
    [chunk] = SvmlightReader(path, n_features=2147483646)
    assert chunk.X.shape == (2, 2147483646)
    path.write_text("1 1:1 2:1\n-1 1000000:1\n")
    assert SvmlightReader(path).n_features == 1_000_000
