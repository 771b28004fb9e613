# SPDX-License-Identifier: BSD-3-Clause
"""`OnDask`: collections of any kind are the rows of one machine."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn import AUCClassifier, Exact, Moments
from pairlearn.cluster import OnDask, RowsChangedError, Statistic, fit_on, predict_on, score_on
from pairlearn.cluster.dask import _examples as examples_of

da = pytest.importorskip("dask.array", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
pd = pytest.importorskip("pandas")

MODEL = AUCClassifier(solver=Moments(0.1), random_state=0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 3)) * [1.0, 100.0, 0.01]
    y = np.where(X[:, 0] + 60 * X[:, 2] + rng.normal(size=600) > 1.0, "yes", "no")
    return X, y


@pytest.fixture(scope="module")
def alone(table):
    return AUCClassifier(solver=Moments(0.1), random_state=0).fit(*table)


def arrays(X, y, chunks=250):
    return da.from_array(X, chunks=(chunks, -1)), da.from_array(y, chunks=chunks)


def frame_of(X):
    return pd.DataFrame(X, columns=["a", "b", "c"])


def in_parts(tables):
    """A frame whose partitions are these tables, and whose columns those of the first one."""
    return dd.from_map(lambda table: table, tables, meta=tables[0].iloc[:0])


def same(model, other):
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-6)


def test_a_cluster_and_no_cluster_give_the_same_bits(table, alone, client):
    X, y = arrays(*table)
    for engine in (OnDask(X, y, client=client), OnDask(X, y)):
        model = fit_on(engine, MODEL)
        same(model, alone)
        found = score_on(engine, model)
        assert found.auc == model.score(*table)


def test_frames_blocks_and_storage_make_no_difference(table, alone):
    X, y = table
    whole, labels = arrays(X, y)
    frame = dd.from_pandas(frame_of(X).assign(label=y), npartitions=4)
    features = frame[["a", "b", "c"]]
    ways = {
        "columns in blocks": (whole.rechunk((250, 2)), labels),
        "labels in other chunks": (whole, labels.rechunk(100)),
        "labels in a column": (whole, labels[:, None]),
        "data frame": (features, frame["label"]),
        "computed": (features * 1.0, frame["label"]),
        "array of a frame": (features.to_dask_array(), frame["label"]),
        "sparse": (whole.map_blocks(scipy.sparse.csr_array), labels),
    }
    for name, (rows, targets) in ways.items():
        model = fit_on(OnDask(rows, targets), MODEL)
        np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-6, err_msg=name)
        assert model.classes_.tolist() == ["no", "yes"]
    assert fit_on(OnDask(*ways["data frame"]), MODEL).feature_names_in_.tolist() == ["a", "b", "c"]


def test_small_files_that_dask_reads_together(table, alone, tmp_path):
    X, y = table
    for part in range(6):
        frame_of(X[part::6]).assign(label=y[part::6]).to_parquet(tmp_path / f"{part}.parquet")
    files = dd.read_parquet(tmp_path)
    # Of few columns of small files Dask makes fewer partitions: not for labels alone.
    features, labels = files[["a", "b", "c"]], files["label"]
    same(fit_on(OnDask(features, labels), MODEL), alone)
    with pytest.raises(TypeError, match=r"must be a series .*without \.values"):
        OnDask(features, files["a"].values)


def test_empty_partitions_and_unknown_lengths(table):
    X, y = arrays(*table)
    keep = da.from_array(np.arange(600) < 300, chunks=250)
    # The last chunks are empty, and nobody knows.
    some_X, some_y = X[keep], y[keep]
    assert np.isnan(some_X.chunks[0]).all()
    model = fit_on(OnDask(some_X, some_y), MODEL)
    same(model, AUCClassifier(solver=Moments(0.1)).fit(table[0][:300], table[1][:300]))
    assert predict_on(model, some_X).compute().shape == (300,)
    frame = in_parts([frame_of(table[0][:0]), frame_of(table[0])])
    labels = in_parts([pd.DataFrame({"y": part}) for part in (table[1][:0], table[1])])["y"]
    same(fit_on(OnDask(frame, labels), MODEL), AUCClassifier(solver=Moments(0.1)).fit(*table))


def test_weights_travel_with_their_examples(table):
    X, y = arrays(*table)
    weight = np.arange(600) % 3 * 1.0
    engine = OnDask(X, y, da.from_array(weight, chunks=250))
    model = fit_on(engine, MODEL)
    expected = AUCClassifier(solver=Moments(0.1)).fit(*table, weight)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)
    found = score_on(engine, model)
    assert found.auc == pytest.approx(model.score(*table, sample_weight=weight), abs=1e-12)
    assert np.isnan(found.low)
    frame = dd.from_pandas(frame_of(table[0]).assign(y=table[1], w=weight), npartitions=3)
    again = fit_on(OnDask(frame[["a", "b", "c"]], frame["y"], frame["w"]), MODEL)
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_predictions_are_lazy_and_those_of_the_model(table, alone, client):
    X, _ = arrays(*table)
    for method in ("decision_function", "predict", "predict_proba"):
        lazy = predict_on(alone, X, method)
        assert hasattr(lazy, "__dask_graph__")
        expected = getattr(alone, method)(table[0])
        assert lazy.shape == expected.shape
        np.testing.assert_array_equal(client.compute(lazy).result(), expected)
    with pytest.raises(TypeError, match="must be a Dask array or data frame"):
        predict_on(alone, table[0])


def test_predictions_for_a_frame_keep_its_index_and_find_its_columns(table):
    X, y = table
    model = AUCClassifier(solver=Moments(0.1)).fit(frame_of(X), y)
    frame = frame_of(X).set_index(np.arange(1000, 1600))
    parts = in_parts([frame[:300], frame[300:][["c", "b", "a"]]])
    for asked in (parts, parts[["b", "c", "a"]]):
        scores = predict_on(model, asked, "decision_function").compute()
        assert scores.index[0] == 1000
        np.testing.assert_allclose(scores, model.decision_function(frame_of(X)), rtol=1e-12)
    assert predict_on(model, parts, "predict_proba").compute().columns.tolist() == ["no", "yes"]
    turned = dd.from_pandas(frame_of(X).assign(y=y), npartitions=2)
    with pytest.raises(ValueError, match="select the same ones in the same order"):
        score_on(OnDask(turned[["c", "b", "a"]], turned["y"]), model)


def test_rows_that_differ_between_passes_are_refused(table):
    frame = frame_of(table[0]).assign(y=table[1])

    def some(part):
        return frame.iloc[np.random.default_rng().integers(0, 600, 200)]

    changing = dd.from_map(some, range(3), meta=frame.iloc[:0])
    with pytest.raises(RowsChangedError, match="600 rows in the first pass and others in pass 2"):
        fit_on(OnDask(changing[["a", "b", "c"]], changing["y"]), MODEL)


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_masked_values_are_refused(table, name):
    # NumPy would learn from what is below the mask.
    X, y = table
    values = {"X": X, "y": (y == "yes").astype(int), "sample_weight": np.ones(600)}
    whole = {key: da.from_array(value, chunks=250) for key, value in values.items()}
    whole["X"] = whole["X"].rechunk((250, 3))
    model = fit_on(OnDask(**whole), MODEL)
    whole[name] = da.ma.masked_equal(whole[name], values[name].ravel()[-1])
    for ask in (lambda: fit_on(OnDask(**whole), MODEL), lambda: score_on(OnDask(**whole), model)):
        with pytest.raises(ValueError, match=f"{name} is a masked array with"):
            ask()


def test_what_cannot_be_learned_from_is_refused(table):
    X, y = arrays(*table)
    with pytest.raises(TypeError, match=r"use the estimator without Dask"):
        OnDask(*table)
    with pytest.raises(TypeError, match=r"dask\.array\.from_array\(y"):
        OnDask(X, table[1])
    with pytest.raises(ValueError, match="pass y"):
        OnDask(X, None)
    with pytest.raises(ValueError, match="X and y have different numbers of rows"):
        OnDask(X, y[:300])
    keep = da.from_array(np.arange(600) < 300, chunks=250)
    with pytest.raises(ValueError, match="X has 3 partitions and y has 6"):
        OnDask(X[keep], y.rechunk(100))
    with pytest.raises(ValueError, match="rows and y has shape"):
        fit_on(OnDask(X, y[keep]), MODEL)
    with pytest.raises(ValueError, match="two dimensions"):
        OnDask(X[:, 0], y)
    frame = dd.from_pandas(frame_of(table[0]).astype({"b": "category"}), npartitions=2)
    labels = dd.from_pandas(pd.Series(table[1]), npartitions=2)
    with pytest.raises(ValueError, match=r"'b' \(category\); encode categories"):
        OnDask(frame, labels)
    with pytest.raises(ValueError, match="select one column"):
        OnDask(frame[["a"]], frame[["a"]])
    with pytest.raises(ValueError, match="got a series"):
        OnDask(labels, labels)
    with pytest.raises(ValueError, match="X has 2 partitions and y has 1"):
        OnDask(frame[["a"]], labels.repartition(npartitions=1))
    with pytest.raises(ValueError, match="NaN or infinity"):
        fit_on(OnDask(X * np.nan, y), MODEL)
    with pytest.raises(ValueError, match=r"y has 3 classes .* MulticlassAUCClassifier"):
        fit_on(OnDask(X, da.from_array(np.arange(600) % 3, chunks=250)), MODEL)
    with pytest.raises(ValueError, match="asynchronous client"):
        OnDask(X, y, client=type("Client", (), {"asynchronous": True})())


@pytest.mark.parametrize("method", ["fit", "score"])
def test_an_estimator_in_memory_says_what_learns_from_collections(table, alone, method):
    X, y = arrays(*table)
    with pytest.raises(TypeError, match=r"use pairlearn\.cluster\.fit_on"):
        getattr(alone, method)(X, y)


class Sum(Statistic):
    """A sum whose bits depend on the order of merges."""

    def partial_state(self, X, y=None, sample_weight=None):
        return {"sum": np.array([X.sum()])}

    def combine(self, a, b):
        return {"sum": a["sum"] + b["sum"]}

    def finish(self, state):
        return float(state["sum"][0])


@pytest.mark.parametrize("n_parts", [1, 8, 35, 65])
def test_tasks_merge_in_the_one_tree_of_merges(n_parts):
    X = 10.0 ** np.random.default_rng(0).uniform(-8, 8, (5 * n_parts, 1))
    rows, labels = arrays(X, np.arange(5 * n_parts) % 2, chunks=5)
    parts = [Sum().partial_state(X[k : k + 5]) for k in range(0, len(X), 5)]
    assert OnDask(rows, labels).run(Sum()) == Sum().merge_all(parts)


def two_classes():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)) * [1.0, 3.0] + [0.0, 5.0], columns=["a", "b"])
    frame["y"] = (frame["a"] + rng.normal(size=300) > 0).astype(int)
    return frame


@pytest.mark.parametrize("whole", [True, False])
def test_columns_of_a_partition_are_found_by_name(whole):
    frame = two_classes()
    tables = [frame[:100], frame[100:200][["y", "b", "a"]], frame[200:]]
    table, X = in_parts(tables), in_parts([part.drop(columns="y") for part in tables])
    X = table[["a", "b"]] if whole else X
    same(fit_on(OnDask(X, table["y"]), MODEL), MODEL.fit(frame[["a", "b"]], frame["y"]))


@pytest.mark.parametrize("change", [{"a": "other"}, {}])
def test_a_partition_with_other_columns_is_refused(change):
    tables = [two_classes(), two_classes().rename(columns=change)]
    if not change:
        tables[1]["beside"] = 1.0
    X = in_parts([part.drop(columns="y") for part in tables])
    with pytest.raises(ValueError, match="all partitions need the same columns"):
        fit_on(OnDask(X, in_parts(tables)["y"]), MODEL)


@pytest.mark.parametrize("kind", ["datetime64[s]", "category", "string", "complex128"])
def test_a_partition_whose_column_is_no_number_is_refused(kind):
    # NumPy would make numbers of times, of texts, and of half of a complex number.
    tables = [two_classes()[:150], two_classes()[150:]]
    tables[1] = tables[1].assign(b=np.arange(150)).astype({"b": kind})
    X, y = (in_parts([part[names] for part in tables]) for names in (["a", "b"], ["y"]))
    with pytest.raises(ValueError, match=r"'b'") as caught:
        fit_on(OnDask(X, y["y"]), MODEL)
    assert "partition 1, counted from 0" in " ".join(caught.value.__notes__)


def test_whole_numbers_that_may_be_missing_keep_their_digits_beside_single_precision():
    frame = two_classes()
    frame["a"] = frame["a"].astype(np.float32)
    frame["b"] = pd.array(2**24 + np.arange(300) % 7, dtype="Int64")
    table = dd.from_pandas(frame, npartitions=2)
    same(
        fit_on(OnDask(table[["a", "b"]], table["y"]), MODEL),
        MODEL.fit(frame[["a", "b"]], frame["y"]),
    )
    frame.loc[7, "b"] = pd.NA
    table = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ValueError, match="'b' is NULL in 1 of 150"):
        fit_on(OnDask(table[["a", "b"]], table["y"]), MODEL)


def test_the_ridge_is_chosen_as_in_memory(table):
    X, y = table
    solver = Moments(ranges=(-500, 500))
    memory = AUCClassifier(solver=solver, random_state=0).fit(X, y)
    for chunks in (600, 100):
        model = fit_on(OnDask(*arrays(X, y, chunks)), AUCClassifier(solver=solver, random_state=0))
        np.testing.assert_array_equal(model.coef_, memory.coef_)
        assert model.ridge_ == memory.ridge_
    lent = fit_on(OnDask(*arrays(X, y)), AUCClassifier(solver=Exact(0.1)))
    same(lent, AUCClassifier(solver=Moments(0.1)).fit(X, y))


def test_columns_of_objects_that_hold_numbers_are_numbers(table):
    X, y = table
    frame = frame_of(X).astype({"b": object}).assign(y=y)
    found = examples_of(frame, ["a", "b", "c", "y"], ["y"])
    np.testing.assert_array_equal(found["X"], X)
    frame.loc[3, "b"] = "three"
    with pytest.raises(ValueError, match="'b' holds values of several kinds"):
        examples_of(frame, ["a", "b", "c", "y"], ["y"])
