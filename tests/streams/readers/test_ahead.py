# SPDX-License-Identifier: BSD-3-Clause
"""Chunks read ahead in a thread are those of the reader, and so are its errors and its place."""

import subprocess
import sys
import threading

import numpy as np
import pytest

from pairlearn import AUCClassifier
from pairlearn.streams import CsvReader, OnlineLearner, Schema, open_reader
from pairlearn.streams.readers import ahead
from pairlearn.streams.readers.ahead import read_ahead
from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.shuffled import ShuffledReader

N, D, CHUNK = 900, 3, 100
SCHEMA = Schema(label="y")
FORMATS = ("csv", "svm", "parquet")


@pytest.fixture(params=(1, 2), ids=("one processor", "two processors"))
def processors(request, monkeypatch):
    """How many processors a reader sees."""
    monkeypatch.setattr(ahead, "n_processors", lambda: request.param)
    return request.param


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).round(3)
    return X, (X[:, 0] + rng.normal(size=N) > 0).astype(int)


def reader_of(folder, kind="csv", **options):
    X, y = data()
    path = folder / f"a.{kind}"
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        columns = {"y": y, **{f"f{j}": X[:, j] for j in range(D)}}
        parquet.write_table(pyarrow.table(columns), path)
    elif not path.exists():
        names = ",".join(["y", *(f"f{j}" for j in range(D))]) + "\n"
        rows = zip(y.tolist(), X.tolist(), strict=True)
        if kind == "csv":
            path.write_text(names + "".join(f"{c},{a},{b},{d}\n" for c, (a, b, d) in rows))
        else:
            path.write_text("".join(f"{c} 1:{a} 2:{b} 3:{d}\n" for c, (a, b, d) in rows))
    if kind == "svm":
        return open_reader(path, n_features=D, chunk_rows=CHUNK, **options)
    return open_reader(path, SCHEMA, chunk_rows=CHUNK, **options)


def rows_of(chunks):
    found = [
        (np.asarray(c.X.todense() if hasattr(c.X, "todense") else c.X), c.y, c.lines)
        for c in chunks
    ]
    return [np.concatenate(part) for part in zip(*found, strict=True)]


def n_threads():
    return sum(thread.name == "pairlearn reader" for thread in threading.enumerate())


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("shuffled", [False, True])
def test_chunks_are_those_of_the_reader(tmp_path, processors, kind, shuffled):
    def open_it():
        reader = reader_of(tmp_path, kind)
        return ShuffledReader(reader, buffer_rows=250, seed=3) if shuffled else reader

    plain, read = list(open_it()), open_it()
    found = list(read_ahead(read))
    for mine, theirs in zip(rows_of(found), rows_of(plain), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert [c.position for c in found] == [c.position for c in plain]
    assert read.position == plain[-1].position
    assert n_threads() == 0


def test_a_thread_reads_while_a_chunk_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(ahead, "n_processors", lambda: 2)
    reader = reader_of(tmp_path)
    chunks = read_ahead(reader)
    assert n_threads() == 0
    first = next(chunks)
    # the thread gets further although nobody asks, and no further than two chunks
    limit = first.position.row + 2 * CHUNK
    pause = threading.Event()
    for _ in range(1000):
        if reader.position.row == limit:
            break
        pause.wait(0.01)
    pause.wait(0.05)
    assert reader.position.row == limit
    assert n_threads() == 1
    chunks.close()
    assert n_threads() == 0
    assert first.position.row == CHUNK


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("taken", [1, 2, 4])
def test_whoever_stops_early_goes_on_behind_the_last_chunk(tmp_path, processors, kind, taken):
    plain = rows_of(reader_of(tmp_path, kind))
    reader = reader_of(tmp_path, kind)
    chunks = read_ahead(reader)
    before = [next(chunks) for _ in range(taken)]
    chunks.close()
    assert reader.position == before[-1].position
    after = list(read_ahead(reader))
    for mine, theirs in zip(rows_of([*before, *after]), plain, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_an_error_comes_at_its_place(tmp_path, processors):
    reader_of(tmp_path)
    path = tmp_path / "a.csv"
    lines = path.read_text().splitlines(keepends=True)
    lines[451] = "1,2\n"
    path.write_text("".join(lines))
    chunks = read_ahead(open_reader(path, SCHEMA, chunk_rows=CHUNK, strict=True))
    assert sum(len(next(chunks)) for _ in range(4)) == 400
    with pytest.raises(ReadError, match=r"a\.csv:452"):
        next(chunks)
    assert n_threads() == 0


def test_a_pipe_is_read_when_it_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(ahead, "n_processors", lambda: 2)
    reader_of(tmp_path)
    with open(tmp_path / "a.csv", "rb") as file:
        reader = CsvReader(file, SCHEMA, chunk_rows=CHUNK)
        assert not reader.can_read_ahead
        chunks = read_ahead(reader)
        for k in range(3):
            next(chunks)
            assert reader.position.row == (k + 1) * CHUNK
        chunks.close()


def test_no_thread_takes_addresses_where_they_are_limited(tmp_path):
    reader_of(tmp_path)
    code = """
import resource, sys, threading
from pairlearn.streams import Schema, open_reader, read_ahead
from pairlearn.streams.readers import ahead
ahead.n_processors = lambda: 2
seen = []
for limit in (resource.RLIM_INFINITY, 4 << 30):
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    chunks = read_ahead(open_reader(sys.argv[1], Schema(label="y"), chunk_rows=100))
    next(chunks), next(chunks)
    seen.append(threading.active_count() - 1)
    chunks.close()
print(seen)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.csv")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "[1, 0]\n", done.stderr


def test_an_interrupt_leaves_the_state_of_whole_chunks(tmp_path, processors):
    def stopped(learner, _):
        if learner.n_seen == 300:
            raise KeyboardInterrupt

    whole = OnlineLearner(AUCClassifier(), classes=[0, 1]).fit_stream(reader_of(tmp_path))
    learner = OnlineLearner(AUCClassifier(), classes=[0, 1])
    reader, path = reader_of(tmp_path), tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        learner.fit_stream(reader, checkpoint=path, progress=stopped)
    assert n_threads() == 0
    assert learner.position.row == reader.position.row == 300
    again = OnlineLearner(AUCClassifier(), classes=[0, 1])
    again.fit_stream(reader_of(tmp_path), checkpoint=path)
    np.testing.assert_array_equal(again.model.coef_, whole.model.coef_)
    assert again.n_seen == N
    # the reader itself goes on from there, too
    learner.fit_stream(reader)
    np.testing.assert_array_equal(learner.model.coef_, whole.model.coef_)
