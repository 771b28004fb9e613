# SPDX-License-Identifier: BSD-3-Clause
"""Dask collections as partitions: which columns a task receives, and what it makes itself."""

import pickle

import numpy as np
import pytest

from pairlearn import AUCClassifier, Moments
from pairlearn.distributed import (
    DaskAUCClassifier,
    DaskEngine,
    DaskMulticlassAUCClassifier,
    DaskPairwiseRanker,
    Statistic,
)
from pairlearn.distributed.dask.parts import parts_of, taken_apart

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
Delayed = pytest.importorskip("dask.delayed", reason="needs the extra dask").Delayed
# Within `dask.config.set` a first import would lose its settings again.
pytest.importorskip("distributed", reason="needs the extra dask")
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
        any("_with_columns" in str(task) for task in dict(parts.values[0]["whole"].dask).values())
        == copied
    )
    found = [taken_apart(one.made(), parts.layout) for one in parts.recipes]
    rows = np.concatenate([rows.to_numpy() for rows, _, _ in found])
    np.testing.assert_array_equal(rows, TABLE[["c", "a"]])
    values = np.concatenate([y.to_numpy() for _, y, _ in found])
    np.testing.assert_array_equal(values, labels(TABLE))
    weights = np.concatenate([columns["sample_weight"].to_numpy() for _, _, columns in found])
    np.testing.assert_array_equal(weights, TABLE["w"])
    assert parts.feature_names == ["c", "a"]


class Seen(Statistic):
    """Sums that depend on the order of merges, and what was read before each state."""

    def __init__(self, events):
        self.events = events

    def partial_state(self, X, y=None, sample_weight=None):
        self.events.append("state")
        return {"sum": np.array([X.sum()]), "n": np.array([len(X)])}

    def combine(self, a, b):
        return {name: a[name] + b[name] for name in a}

    def finish(self, state):
        return float(state["sum"][0]), int(state["n"][0])


def numbers(part, events):
    events.append("read")
    rng = np.random.default_rng(part)
    return pd.DataFrame({"x": 10.0 ** rng.uniform(-8, 8, 5), "y": np.arange(5) % 2})


@pytest.mark.parametrize("n_parts", [1, 7, 8, 35, 64])
def test_tasks_that_make_several_partitions_change_no_bit(monkeypatch, n_parts):
    events = []
    frame = dd.from_map(numbers, range(n_parts), events=events, meta=numbers(0, []))
    found, tasks, n_tasks = {}, {}, []
    compute = DaskEngine.compute
    monkeypatch.setattr(
        DaskEngine,
        "compute",
        lambda self, own: n_tasks.append(len(own[0].__dask_graph__())) or compute(self, own),
    )
    cpu_count = "pairlearn.distributed.dask.passes.os.cpu_count"
    with dask.config.set(scheduler="sync"):
        for n_threads in (64, 4, 2, 1):
            monkeypatch.setattr(cpu_count, lambda n=n_threads: n)
            events.clear()
            state = DaskEngine().run(parts_of(frame[["x"]], frame["y"]), Seen(events))
            found[n_threads], tasks[n_threads] = Seen(events).finish(state), n_tasks[-1]
            # One partition is in memory at a time.
            assert events == ["read", "state"] * n_parts
    assert set(found.values()) == {found[64]}
    assert found[64][1] == 5 * n_parts
    assert tasks[64] >= n_parts
    if n_parts >= 32:
        assert tasks[1] < n_parts / 4


def test_values_that_have_a_place_stay_there(client):
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    frame = dd.from_pandas(pd.DataFrame(X, columns=["a", "b"]).assign(y=y), npartitions=4)
    rows, labels = da.from_array(X, chunks=(5, 2)), da.from_array(y, chunks=5)
    kept, shuffled = client.persist(frame), frame.shuffle("y")
    shared = da.concatenate([rows[:5]] * 4)
    wide = da.from_array(X, chunks=(5, 1))
    total = X.sum()
    for movable, (a, b), expected in [
        (True, (frame[["a", "b"]], frame["y"]), total),
        (True, (rows, labels), total),
        (True, (rows * 2.0 + 1.0, labels), 2.0 * total + 40.0),
        (False, (kept[["a", "b"]], kept["y"]), total),
        (False, (client.persist(rows), labels), total),
        (False, (shuffled[["a", "b"]], shuffled["y"]), total),
        # What several partitions need, and what several tasks make.
        (False, (shared, labels), 4.0 * X[:5].sum()),
        (False, (wide, labels), total),
    ]:
        parts = parts_of(a, b)
        assert [movable] * 4 == [not one.needed for one in parts.recipes]
        state = DaskEngine(client).run(parts, Seen([]))
        assert Seen([]).finish(state) == (expected, 20)


def own_rows(frame, client):
    """Collections of the same rows, computed from values that lie on the workers of a client."""
    names, n = ["a", "b"], len(frame)
    tables = [frame[start : start + n // 4] for start in range(0, n, n // 4)]
    kept = client.persist(dd.from_pandas(frame, npartitions=4, sort=False))
    X = client.persist(da.from_array(frame[names].to_numpy(), chunks=(n // 4, 2)))
    y = client.persist(da.from_array(frame["y"].to_numpy(), chunks=n // 4))
    made, sent = client.map(lambda table: table.copy(), tables), client.scatter(tables)
    lazy = dd.from_delayed(made, meta=frame[:0])
    one = client.scatter(1.0, broadcast=True)
    rows = [client.submit(lambda table: table[names].to_numpy(), table) for table in sent]
    of_rows = dask.delayed(lambda table: table[names].to_numpy())
    shape = (n // 4, 2)
    yield "computed", X * 1.0, (y > 0).astype(int)
    yield "sliced", X[:, [0, 1]], y
    yield "joined", da.concatenate([X[: n // 2], X[n // 2 :]]), y
    yield "rechunked", X.rechunk((n // 2, 2)), y.rechunk(n // 2)
    yield "side by side", X.rechunk((n // 4, 1)), y
    yield "values", kept[names].values, kept["y"].values
    yield "a frame", kept[names] * 1.0, kept["y"]
    yield "futures", lazy[names], lazy["y"]
    yield "arrays", da.concatenate([da.from_delayed(own, shape, float) for own in rows]), y
    blocks = [da.from_delayed(of_rows(own), shape, float) for own in sent]
    yield "delayed", da.concatenate(blocks), y
    yield "for all blocks", X.map_blocks(lambda block, f: block * f, one, dtype=float), y
    both = kept.map_partitions(lambda table, f: table.assign(a=table["a"] * f), one, meta=frame[:0])
    yield "for all tables", both[names], both["y"]
    # Dask wrote tasks as tuples once, and a graph of one's own still may.
    graphs = [{f"t{k}": (np.asarray, own)} for k, own in enumerate(rows)]
    blocks = [Delayed(f"t{k}", graph) for k, graph in enumerate(graphs)]
    yield "tuples", da.concatenate([da.from_delayed(own, shape, float) for own in blocks]), y


def test_what_is_computed_from_values_on_workers_has_the_bits_of_the_rows(client):
    frame = two_classes()
    rows, labels = frame[["a", "b"]].to_numpy(), frame["y"]
    known = AUCClassifier(solver=Moments(0.1)).fit(rows, labels)
    for name, X, y in own_rows(frame, client):
        model = DaskAUCClassifier(solver=Moments(0.1), client=client).fit(X, y)
        np.testing.assert_array_equal(model.coef_, known.coef_, err_msg=name)
        assert model.score(X, y) == known.score(rows, labels), name
        # A task that makes several partitions would move their values to one worker.
        assert all(one.needed for one in parts_of(X, y).recipes), name


def breaks(part):
    if part == 21:
        raise OSError("a file is gone")
    return numbers(part, [])


def test_an_error_names_its_partition(client):
    frame = dd.from_map(breaks, range(64), meta=numbers(0, []))
    for engine in (DaskEngine(client), DaskEngine()):
        with pytest.raises(OSError, match="a file is gone") as caught:
            engine.run(parts_of(frame[["x"]], frame["y"]), Seen([]))
        assert "partition 21, counted from 0" in " ".join(caught.value.__notes__)


def test_tasks_of_a_recipe_are_pickled_once_and_opened_where_they_run(files):
    frame = dd.read_parquet([str(file) for file in files])
    (one, *_) = parts_of(frame[["c", "a"]], frame["b"]).recipes
    first, again = pickle.dumps(one), pickle.dumps(one)
    assert first == again
    arrived = pickle.loads(first)
    assert arrived.tasks._tasks is None
    pd.testing.assert_frame_equal(arrived.made()["whole"], one.made()["whole"])


def in_parts(tables):
    """A frame whose partitions are these tables, and whose columns those of the first one."""
    return dd.from_map(lambda table: table, tables, meta=tables[0].iloc[:0])


def two_classes():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)) * [1.0, 3.0] + [0.0, 5.0], columns=["a", "b"])
    frame["y"] = (frame["a"] + rng.normal(size=300) > 0).astype(int)
    return frame


@pytest.mark.parametrize("whole", [True, False])
def test_columns_of_a_partition_are_found_by_name(whole):
    frame, solver = two_classes(), Moments(0.1)
    tables = [frame[:100], frame[100:200][["y", "b", "a"]], frame[200:]]
    table, X = in_parts(tables), in_parts([part.drop(columns="y") for part in tables])
    X = table[["a", "b"]] if whole else X
    found = DaskAUCClassifier(solver=solver).fit(X, table["y"])
    wanted = AUCClassifier(solver=solver).fit(frame[["a", "b"]], frame["y"])
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    assert found.score(X, table["y"]) == wanted.score(frame[["a", "b"]], frame["y"])


def test_predictions_find_the_columns_of_a_partition_by_name():
    # Names that are no texts are not compared by the model itself.
    frame = two_classes().set_axis([0, 1, 2], axis=1)
    parts = [frame[:100], frame[100:]]
    table = in_parts(parts)
    found = DaskAUCClassifier(solver=Moments(0.1)).fit(table[[0, 1]], table[2])
    X = in_parts([parts[0][[0, 1]], parts[1][[1, 0]]])
    wanted = found.model_.decision_function(frame[[0, 1]])
    np.testing.assert_array_equal(found.decision_function(X).compute(), wanted)
    assert found.score(X, table[2]) == found.score(frame[[0, 1]], frame[2])


@pytest.mark.parametrize("change", [{"a": "other"}, {}])
def test_a_partition_with_other_columns_is_refused(change):
    tables = [two_classes(), two_classes().rename(columns=change)]
    if not change:
        tables[1]["beside"] = 1.0
    X = in_parts([part.drop(columns="y") for part in tables])
    with pytest.raises(ValueError, match="all partitions need the same columns"):
        DaskAUCClassifier(solver=Moments(0.1)).fit(X, in_parts(tables)["y"])


@pytest.mark.parametrize("kind", ["datetime64[s]", "category", "string", "complex128"])
def test_a_partition_whose_column_is_no_number_is_refused(kind):
    # NumPy would make numbers of times, of texts, and of half of a complex number.
    tables = [two_classes()[:150], two_classes()[150:]]
    tables[1] = tables[1].assign(b=np.arange(150)).astype({"b": kind})
    X, y = (in_parts([part[names] for part in tables]) for names in (["a", "b"], ["y"]))
    with pytest.raises(ValueError, match=r"Features must be numbers, got columns 'b' \("):
        DaskAUCClassifier(solver=Moments(0.1)).fit(X, y["y"])


def test_whole_numbers_that_may_be_missing_keep_their_digits_beside_single_precision():
    frame = two_classes()
    frame["a"] = frame["a"].astype(np.float32)
    frame["b"] = pd.array(2**24 + np.arange(300) % 7, dtype="Int64")
    table, solver = dd.from_pandas(frame, npartitions=2), Moments(0.1)
    found = DaskAUCClassifier(solver=solver).fit(table[["a", "b"]], table["y"])
    wanted = AUCClassifier(solver=solver).fit(frame[["a", "b"]], frame["y"])
    np.testing.assert_array_equal(found.coef_, wanted.coef_)


def test_frames_with_the_columns_of_a_model_in_another_order_are_refused():
    frame = two_classes()
    table = dd.from_pandas(frame, npartitions=2)
    X, y, turned = table[["a", "b"]], table["y"], table[["b", "a"]]
    auc = DaskAUCClassifier(solver=Moments(0.1, keep_state=True)).fit(X, y)
    classes = DaskMulticlassAUCClassifier().fit(X, y)
    qid = table["a"] * 0.0
    ranker = DaskPairwiseRanker().fit(
        X.repartition(npartitions=1), y.repartition(npartitions=1),
        qid.repartition(npartitions=1),
    )  # fmt: skip
    for ask in (
        lambda: auc.partial_unfit(turned.partitions[:1], y.partitions[:1]),
        lambda: classes.score(turned, y),
        lambda: ranker.score(turned, y, qid),
    ):
        with pytest.raises(ValueError, match="feature names should match"):
            ask()
