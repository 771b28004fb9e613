# SPDX-License-Identifier: BSD-3-Clause
"""A reader goes on with the same data or not at all."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest

from pairlearn.streams import (
    ArrowReader,
    CsvReader,
    NpyReader,
    ReadError,
    Schema,
    SvmlightReader,
)
from pairlearn.streams.readers import arrow, consumed
from pairlearn.streams.readers.base import Position
from pairlearn.streams.readers.consumed import Consumed, parse_marks


def csv_text(n, begin=0):
    return "".join(f"{k % 10}.5,{k % 7},{k % 2}\n" for k in range(begin, begin + n))


def svm_text(n):
    return "".join(f"{k % 2} 1:{k % 10}.5 2:{k % 7}\n" for k in range(n))


KINDS = {
    "csv": (".csv", lambda n: "a,b,y\n" + csv_text(n),
            lambda path: CsvReader(path, Schema(label="y"), chunk_rows=1000)),
    "svmlight": (".svm", svm_text,
                 lambda path: SvmlightReader(path, n_features=2, chunk_rows=1000)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_changed_data_are_refused_with_the_place_and_grown_ones_go_on(
    kind, packed, tmp_path, monkeypatch
):
    monkeypatch.setattr(consumed, "_SPACING", 20_000)
    suffix, make, read = KINDS[kind]
    path = tmp_path / f"t{suffix}"

    def write(text):
        data = text.encode()
        path.write_bytes(gzip.compress(data, 1) if packed else data)

    n = 20_000
    text = make(n)
    write(text)
    chunks = read(path)
    positions = [chunk.position for chunk in chunks]
    place = Position.from_dict(positions[15].to_dict())
    assert len(parse_marks(place.consumed)) > 3

    def rest(n):
        reader = read(path)
        reader.restore(place)
        found = [chunk.position for chunk in reader]
        assert found[-1].row == n
        return found

    assert rest(n) == positions[16:]
    changes = np.linspace(5000, place.offset - 30, 5).astype(int)
    for at in changes.tolist():
        k = next(k for k in range(at, at + 20) if text[k] == ".")
        write(text[:k] + "5" + text[k + 1 :])
        with pytest.raises(ReadError, match="has changed between byte") as error:
            rest(n)
        words = str(error.value).split()
        low, high = (int(words[k + 1]) for k, word in enumerate(words) if word == "byte")
        assert low <= k < high
    k = text.index("5", place.offset)
    write(text[:k] + "6" + text[k + 1 :])  # behind the place nothing has been consumed
    rest(n)
    write(text + make(100).split("y\n")[-1])
    rest(n + 100)
    write(text[: place.offset - 5])
    with pytest.raises(ReadError, match=r"has changed|ends at byte"):
        rest(n)


def test_files_before_the_present_one_are_looked_at(tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path in paths:
        path.write_text("a,b,y\n" + csv_text(1500))

    def read():
        return CsvReader(paths, Schema(label="y"), chunk_rows=1000)

    place = [chunk.position for chunk in read()][2]
    assert place.file == 1

    def rest():
        reader = read()
        reader.restore(place)
        return sum(len(chunk) for chunk in reader)

    assert rest() == 3000 - place.row
    text = paths[0].read_text()
    paths[0].write_text(text + "1,1,1\n")
    with pytest.raises(ReadError, match=r"a\.csv has grown behind byte"):
        rest()
    paths[0].write_text(text.replace("3.5,6,1", "3.5,6,0", 1))
    with pytest.raises(ReadError, match=r"a\.csv has changed between byte"):
        rest()


def test_a_pipe_is_looked_at_and_does_not_go_back():
    text = ("a,b,y\n" + csv_text(5000)).encode()

    def read(data):
        return CsvReader(io.BytesIO(data), Schema(label="y"), chunk_rows=1000)

    reader = read(text)
    start = reader.position
    positions = [chunk.position for chunk in reader]
    again = read(text)
    again.restore(positions[2])
    assert [chunk.position for chunk in again] == positions[3:]
    with pytest.raises(ReadError, match="has changed between byte"):
        read(text.replace(b"3.5,6", b"3.5,5", 1)).restore(positions[2])
    with pytest.raises(ReadError, match="a pipe goes forward only"):
        again.restore(start)


@pytest.mark.parametrize("labels", ["file", "array", "column"])
def test_npy(labels, tmp_path, rng):
    X = rng.normal(size=(5000, 40))
    y = np.arange(5000.0) % 2
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)

    def read():
        given = {"file": tmp_path / "y.npy", "array": y, "column": None}[labels]
        label = 0 if labels == "column" else None
        return NpyReader(tmp_path / "X.npy", given, label=label, chunk_rows=300)

    positions = [chunk.position for chunk in read()]
    reader = read()
    reader.restore(positions[12])
    assert [chunk.position for chunk in reader] == positions[13:]
    changed = X.copy()
    changed[3000, 7] += 1
    np.save(tmp_path / "X.npy", changed)
    with pytest.raises(ReadError, match=r"has changed between row [0-9]* and row 3"):
        read().restore(positions[12])
    np.save(tmp_path / "X.npy", X)
    if labels == "file":
        y[3000] = 5
        np.save(tmp_path / "y.npy", y)
        with pytest.raises(ReadError, match="has changed between row"):
            read().restore(positions[12])


@pytest.mark.parametrize("kind", ["parquet", "feather"])
@pytest.mark.parametrize("column", ["a", "city", "y"])
def test_parquet_and_arrow(kind, column, tmp_path, rng, monkeypatch):
    """A value that is changed in the middle: neither the size nor the ends of the file tell."""
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet as pq

    monkeypatch.setattr(consumed, "_SPACING", 20_000)
    monkeypatch.setattr(arrow, "_FOOTER", 64)
    folder = tmp_path / "folder"
    folder.mkdir()
    n = 4200
    columns = {
        "a": rng.normal(size=n),
        "city": rng.choice(np.array(["Bonn", "Kiel"]), n),
        "y": rng.integers(0, 2, n).astype(float),
    }
    columns["a"][7] = np.nan

    def write(file, columns):
        table = pa.table(columns)
        if kind == "feather":
            pyarrow.feather.write_feather(table, folder / f"{file}.feather", "uncompressed")
        else:
            options = {"compression": "none", "use_dictionary": False, "row_group_size": 1700}
            pq.write_table(table, folder / f"{file}.parquet", **options)

    schema = Schema(label="y", categorical={"city": ("Bonn", "Kiel")}, missing="indicator")

    def read():
        return ArrowReader(folder, schema, chunk_rows=300)

    for file in (0, 1):
        write(file, columns)
    positions = [chunk.position for chunk in read()]
    place = Position.from_dict(positions[20].to_dict())
    assert place.file == 1
    assert len(parse_marks(place.consumed)) > 1

    def rest():
        reader = read()
        reader.restore(place)
        return [chunk.position for chunk in reader]

    assert rest() == positions[21:]
    changed = {name: values.copy() for name, values in columns.items()}
    other = {"a": 0.0, "city": "Kiel" if columns["city"][1000] == "Bonn" else "Bonn"}
    changed[column][1000] = other.get(column, 1 - columns["y"][1000])
    sizes = {path: path.stat().st_size for path in folder.iterdir()}
    for file in (0, 1):
        write(file, changed)
        assert {path: path.stat().st_size for path in folder.iterdir()} == sizes
        with pytest.raises(ReadError, match=rf"{file}\.{kind} has changed between row [0-9]* and"):
            rest()
        write(file, columns)
    assert rest() == positions[21:]
    write(0, {name: np.append(values, values[:1]) for name, values in columns.items()})
    with pytest.raises(ReadError, match=rf"0\.{kind} has grown behind row 4200"):
        rest()
    write(0, {name: values[:3000] for name, values in columns.items()})
    with pytest.raises(ReadError, match=rf"0\.{kind} ends at row 3000, before row"):
        rest()


def test_the_digest_sees_every_byte_and_no_border(rng):
    data = rng.integers(0, 256, 3000, dtype=np.uint8)

    def value(data, *borders):
        running = Consumed()
        for part in np.split(data, borders):
            running.take(part)
        return running.value()

    whole = value(data)
    for _ in range(20):
        assert value(data, *np.sort(rng.integers(0, 3000, 5))) == whole
    seen = {whole, value(data[:-1]), value(np.append(data, np.uint8(0)))}
    for k in range(0, 3000, 7):
        other = data.copy()
        other[k] ^= 1 << rng.integers(8)
        seen.add(value(other))
    assert len(seen) == 3 + len(range(0, 3000, 7))
    swapped = data.copy()
    swapped[:64], swapped[64:128] = data[64:128], data[:64]
    assert value(swapped) != whole


def plain_lanes(data):
    """The eight lanes after all whole blocks, word by word."""
    from pairlearn.kernels.parsing.running_digest import _FACTOR, _KEYS, BLOCK

    mask = (1 << 64) - 1
    lanes = list(range(1, 9))
    for begin in range(0, len(data) - BLOCK + 1, BLOCK):
        words = data[begin : begin + BLOCK].view(np.uint64).tolist()
        for k, word in enumerate(words):
            mixed = word ^ _KEYS[k]
            lanes[k % 8] += (mixed & 0xFFFFFFFF) * (mixed >> 32)
            lanes[(k + 4) % 8] += word
        for k in range(8):
            total = lanes[k] & mask
            lanes[k] = (total ^ (total >> 47) ^ _KEYS[len(words) + k]) * _FACTOR & mask
    return lanes


@pytest.mark.parametrize("dtype", [None, np.dtype("f8"), np.dtype("f4")])
def test_a_digest_is_that_of_its_plain_formulation(rng, dtype):
    data = rng.integers(0, 256, 5500, dtype=np.uint8)
    for k in (1, 7, 1023, 1024, 1025, 3000, 5500):
        running = Consumed()
        for part in (data[:k], data[k:]):
            running.take_at(part.ctypes.data, part.nbytes, dtype)
        assert running._state[:8].tolist() == plain_lanes(data)


def test_a_digest_is_that_of_positions_saved_before():
    data = (np.arange(5500) * 7919 % 251).astype(np.uint8)
    running = Consumed()
    running.take(data[:5000])
    assert running.value() == "803043d35de95bf6"
    running.take(data[5000:])
    assert running.value() == "cc4c3938505ceae1"


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", ">f8", "int32"])
@pytest.mark.parametrize("label_type", [None, "float64", "float32", "int8"])
def test_the_loop_of_the_digest_finds_every_number_that_is_not_finite(
    tmp_path, rng, dtype, label_type
):
    """Whatever lies before them in the digest, and wherever they lie in a block, piece or chunk."""
    path, labels = tmp_path / "X.npy", None
    X = rng.normal(size=(457, 3)).astype(dtype)
    if label_type is not None:
        labels = tmp_path / "y.npy"
        np.save(labels, rng.integers(0, 2, 457).astype(label_type))
    for row in (None, 0, 1, 42, 43, 149, 150, 303, 455, 456):
        bad = X.copy()
        if row is not None and X.dtype.kind == "f":
            bad[row, row % 3] = (np.nan, np.inf, -np.inf)[row % 3]
        np.save(path, bad)
        reader = NpyReader(path, labels, chunk_rows=151)
        taken = np.vstack([chunk.X for chunk in reader])
        kept = np.isfinite(bad.astype(float)).all(axis=1)
        np.testing.assert_array_equal(taken, bad[kept].astype(float))
        assert reader.position.refusals.count == np.sum(~kept)


def test_numbers_too_large_for_the_type_of_the_features_are_refused(tmp_path):
    X = np.ones((500, 2))
    X[7, 1] = 1e300
    np.save(tmp_path / "X.npy", X)
    reader = NpyReader(tmp_path / "X.npy", dtype="float32")
    assert sum(len(chunk.X) for chunk in reader) == 499


@pytest.mark.parametrize("width", [4, 8])
def test_blocks_of_numbers_are_known_to_be_finite_only_if_they_are(rng, width):
    dtype = np.dtype(f"f{width}")
    numbers = rng.normal(size=1024).astype(dtype)
    tiny = np.full(1024, np.finfo(dtype).smallest_subnormal)
    huge = np.full(1024, np.finfo(dtype).max)
    for good in (numbers, tiny, -huge, 0 * numbers):
        assert Consumed().take_at(good.ctypes.data, good.nbytes, dtype)
    assert not Consumed().take_at(numbers.ctypes.data, numbers.nbytes)
    for value in (np.nan, np.inf, -np.inf):
        for place in range(0, 1024, 31):
            bad = numbers.copy()
            bad[place] = value
            assert not Consumed().take_at(bad.ctypes.data, bad.nbytes, dtype)
    shifted = Consumed()
    shifted.take(np.zeros(1, dtype=np.uint8))
    assert not shifted.take_at(numbers.ctypes.data, numbers.nbytes, dtype)


def test_an_array_that_is_cut_short_on_the_way_is_refused(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, np.ones((100, 3)))
    chunks = iter(NpyReader(path, np.ones(100), chunk_rows=10))
    next(chunks)
    with open(path, "r+b") as file:
        file.truncate(1000)
    with pytest.raises(ReadError, match=r"X\.npy changed while it was read"):
        list(chunks)


def test_there_are_never_many_marks():
    running = Consumed()
    block = np.zeros(1 << 20, dtype=np.uint8)
    for k in range(200):
        running.take(block)
        text = running.place((k + 1) << 20)
    assert len(parse_marks(text)) <= 34
    with pytest.raises(ReadError, match="damaged"):
        parse_marks("7:ab 3:cd")
