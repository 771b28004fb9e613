# SPDX-License-Identifier: BSD-3-Clause
"""A reader goes on with the same data or not at all."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest

from pairlearn.streams import CsvReader, NpyReader, ReadError, Schema, SvmlightReader
from pairlearn.streams.readers import consumed
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


def test_a_digest_is_that_of_positions_saved_before():
    data = (np.arange(5500) * 7919 % 251).astype(np.uint8)
    running = Consumed()
    running.take(data[:5000])
    assert running.value() == "24405c68d7fdb7eb"
    running.take(data[5000:])
    assert running.value() == "6ebe15e3889734ca"


def test_an_array_that_is_cut_short_on_the_way_is_refused(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, np.ones((100, 3)))
    chunks = iter(NpyReader(path, np.ones(100), chunk_rows=10))
    next(chunks)
    with open(path, "r+b") as file:
        file.truncate(1000)
    with pytest.raises(ReadError, match=r"X\.npy was cut short while it was read; write it again"):
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
