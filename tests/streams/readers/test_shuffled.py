# SPDX-License-Identifier: BSD-3-Clause
"""Rows in a random order within blocks: the same for a seed, resumable, in bounded memory."""

import numpy as np
import pytest
from sklearn.base import clone

from pairlearn import AUCClassifier, OrderWarning, roc_auc
from pairlearn.streams import (
    OnlineLearner,
    Position,
    ReadError,
    Schema,
    ShuffledReader,
    open_reader,
)

N = 1000


@pytest.fixture
def files(tmp_path):
    """Return the same rows, sorted by label, as text, sparse text and with queries."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(N, 3)), 3)
    y = np.sort((X[:, 0] + rng.normal(size=N) > 0).astype(int))
    X[:, 0] += 2 * y
    csv = "a,b,c,y\n" + "".join(
        f"{','.join(map(str, row))},{label}\n" for row, label in zip(X, y, strict=True)
    )
    svm = "".join(
        f"{label} qid:{k // 25} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) + "\n"
        for k, (row, label) in enumerate(zip(X, y, strict=True))
    )
    (tmp_path / "rows.csv").write_text(csv)
    (tmp_path / "rows.svm").write_text(svm)
    return tmp_path


def opened(files, kind, *, chunk_rows=64, **options):
    if kind == "csv":
        return open_reader(files / "rows.csv", Schema(label="y"), chunk_rows=chunk_rows, **options)
    return open_reader(
        files / "rows.svm", Schema(label="label", qid="qid"), chunk_rows=chunk_rows, **options
    )


def dense(X):
    return X.toarray() if hasattr(X, "toarray") else X


def table(chunks):
    """Return everything that chunks hold, row by row."""
    return np.concatenate([np.column_stack([dense(c.X), c.y, c.lines]) for c in chunks])


@pytest.mark.parametrize("kind", ["csv", "svm"])
@pytest.mark.parametrize("size", [10, 100, 333, 1000, 5000])
def test_every_row_once_and_within_its_block(files, kind, size):
    own = table(opened(files, kind))
    found = table(opened(files, kind, shuffle_buffer=size))
    assert not np.array_equal(found, own)
    chunk = min(size, 64)  # a block ends with a chunk
    size = -(-size // chunk) * chunk
    for begin in range(0, N, size):
        block = slice(begin, begin + size)
        assert sorted(map(tuple, found[block])) == sorted(map(tuple, own[block]))
    assert sorted(map(tuple, found)) == sorted(map(tuple, own))


def test_rows_of_a_query_stay_together(files):
    [*chunks] = opened(files, "svm", chunk_rows=100, shuffle_buffer=500)
    qid = np.concatenate([chunk.qid for chunk in chunks])
    begins = np.flatnonzero(np.diff(qid, prepend=-1))
    assert len(begins) == N // 25
    assert not np.array_equal(qid[begins], np.sort(qid[begins]))


@pytest.mark.parametrize("kind", ["csv", "svm"])
@pytest.mark.parametrize("size", [100, 333, 1000])
def test_a_saved_position_goes_on_exactly(files, kind, size, monkeypatch):
    monkeypatch.setattr("pairlearn.streams.readers.shuffled._CHUNK", 40)
    reader = opened(files, kind, shuffle_buffer=size)
    chunks = list(reader)
    everything = table(chunks)
    assert Position.from_dict(reader.position.to_dict()) == reader.position
    done = 0
    for chunk in chunks[:-1]:
        done += len(chunk)
        other = opened(files, kind, shuffle_buffer=size)
        other.restore(Position.from_dict(chunk.position.to_dict()))
        assert np.array_equal(table(other), everything[done:])
        assert other.refusals.count == reader.refusals.count
    other = opened(files, kind, shuffle_buffer=size)
    other.restore(reader.position)
    assert list(other) == []
    again = opened(files, kind, shuffle_buffer=size)
    start = again.position
    list(again)
    again.restore(start)
    assert np.array_equal(table(again), everything)


def test_refused_rows_are_counted_once(files):
    text = (files / "rows.csv").read_text().replace("\n", "\nodd\n", 3)
    (files / "rows.csv").write_text(text)
    reader = opened(files, "csv", shuffle_buffer=100)
    list(reader)
    assert reader.refusals.count == 3


def test_positions_of_another_order_or_other_data_are_refused(files, monkeypatch):
    monkeypatch.setattr("pairlearn.streams.readers.shuffled._CHUNK", 40)
    plain, shuffled = opened(files, "csv"), opened(files, "csv", shuffle_buffer=200)
    own, middle = next(iter(plain)).position, list(shuffled)[4].position
    with pytest.raises(ReadError, match="rows in their own order"):
        opened(files, "csv", shuffle_buffer=200).restore(own)
    with pytest.raises(ReadError, match="of shuffled rows"):
        opened(files, "csv").restore(middle)
    with pytest.raises(ReadError, match="blocks of 200 rows with seed 0, these are of 100"):
        opened(files, "csv", shuffle_buffer=100).restore(middle)
    with pytest.raises(ReadError, match="with seed 1"):
        opened(files, "csv", shuffle_buffer=200, seed=1).restore(middle)
    (files / "rows.csv").write_text("a,b,c,y\n9,9,9,0\n")
    with pytest.raises(ReadError, match="has changed"):
        opened(files, "csv", shuffle_buffer=200).restore(middle)


@pytest.mark.parametrize("size", [0, 1, 2.5, "many"])
def test_odd_sizes_are_refused(files, size):
    with pytest.raises((ValueError, TypeError), match="shuffle_buffer"):
        opened(files, "csv", shuffle_buffer=size)


def test_auto_is_bounded_in_numbers(files):
    reader = opened(files, "csv", shuffle_buffer="auto")
    assert "65536" in reader.position.shuffled
    reader._reader.n_features = 10_000
    assert "1677" in ShuffledReader(reader._reader).position.shuffled


def test_sorted_files_are_learned_from_a_buffer(files):
    table_of = table(opened(files, "csv"))
    X, y = table_of[:, :3], table_of[:, 3]
    model = AUCClassifier(solver="sgd")
    with pytest.warns(OrderWarning, match="shuffle_buffer"):
        OnlineLearner(clone(model), classes=[0, 1]).fit_stream(opened(files, "csv"))
    learner = OnlineLearner(clone(model), classes=[0, 1])
    learner.fit_stream(opened(files, "csv", shuffle_buffer="auto"))
    some = np.random.default_rng(1).permutation(N)
    expected = OnlineLearner(clone(model), classes=[0, 1]).learn_many(X[some], y[some])
    found = roc_auc(y, learner.score_many(X))
    assert abs(found - roc_auc(y, expected.score_many(X))) < 0.01


@pytest.mark.filterwarnings("ignore::pairlearn.OrderWarning")
def test_checkpoints_resume_inside_a_block(files, tmp_path, monkeypatch):
    monkeypatch.setattr("pairlearn.streams.readers.shuffled._CHUNK", 40)

    def learner():
        return OnlineLearner(AUCClassifier(), classes=[0, 1], window=100)

    expected = learner().fit_stream(opened(files, "csv", shuffle_buffer=300), n_passes=2)
    seen = 0

    def stop(*_):
        nonlocal seen
        seen += 1
        if seen % 7 == 0:
            raise KeyboardInterrupt

    for _ in range(100):
        found = learner()
        try:
            found.fit_stream(
                opened(files, "csv", shuffle_buffer=300),
                checkpoint=tmp_path / "c",
                every=40,
                n_passes=2,
                progress=stop,
            )
            break
        except KeyboardInterrupt:
            continue
    assert found.n_seen == 2 * N
    assert np.array_equal(found.model.coef_, expected.model.coef_)
    assert found.auc == expected.auc
