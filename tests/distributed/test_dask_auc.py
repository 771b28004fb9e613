# SPDX-License-Identifier: BSD-3-Clause
"""AUC maximisation on Dask collections."""

import itertools

import numpy as np
import pytest
import scipy.sparse

from pairlearn import AUCClassifier, Exact, roc_auc_interval
from pairlearn.distributed import ByPasses, DaskAUCClassifier, DaskEngine, train_auc

da = pytest.importorskip("dask.array", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 3)) * [1.0, 100.0, 0.01]
    y = np.where(X[:, 0] + 60 * X[:, 2] + rng.normal(size=600) > 1.0, "yes", "no")
    return X, y


@pytest.fixture(scope="module")
def one_machine(table):
    """The same partitions without Dask."""
    X, y = table
    bounds = [0, 250, 500, 600]

    def run(statistic):
        return statistic.merge_all(
            statistic.of_part(k).partial_state(X[a:b], y[a:b])
            for k, (a, b) in enumerate(itertools.pairwise(bounds))
        )

    return train_auc(run, random_state=0).model


def arrays(X, y, chunks=250):
    return da.from_array(X, chunks=(chunks, -1)), da.from_array(y, chunks=chunks)


def test_a_cluster_and_no_cluster_give_the_same_bits(table, one_machine, client):
    X, y = arrays(*table)
    on_cluster = DaskAUCClassifier(random_state=0, client=client).fit(X, y)
    alone = DaskAUCClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(on_cluster.coef_, one_machine.coef_)
    np.testing.assert_array_equal(alone.coef_, one_machine.coef_)
    assert on_cluster.threshold_ == alone.threshold_ == one_machine.threshold_
    assert on_cluster.model_.data_fingerprint_ == one_machine.data_fingerprint_


def frame_of(X):
    return pd.DataFrame(X, columns=["a", "b", "c"])


@pytest.mark.thorough
def test_frames_blocks_and_storage_make_no_difference(table, one_machine):
    X, y = table
    whole, labels = arrays(X, y)
    frame = dd.concat(
        [
            dd.from_pandas(frame_of(X[a:b]).assign(label=y[a:b]), npartitions=1)
            for a, b in ((0, 250), (250, 500), (500, 600))
        ]
    )
    given = {
        "columns in blocks": (whole.rechunk((250, 2)), labels),
        "labels in other chunks": (whole, labels.rechunk(100)),
        "labels in a column": (whole, labels[:, None]),
        "data frame": (frame[["a", "b", "c"]], frame["label"]),
        "array of a frame": (frame[["a", "b", "c"]].to_dask_array(), frame["label"]),
    }
    for name, (rows, targets) in given.items():
        model = DaskAUCClassifier(random_state=0).fit(rows, targets).model_
        np.testing.assert_array_equal(model.coef_, one_machine.coef_, err_msg=name)
        assert model.classes_.tolist() == ["no", "yes"]
    assert DaskAUCClassifier(random_state=0).fit(
        *given["data frame"]
    ).model_.feature_names_in_.tolist() == ["a", "b", "c"]


def test_small_files_that_dask_reads_together(table, tmp_path):
    X, y = table[0], (table[1] == "yes").astype(int)
    for part in range(4):
        frame_of(X[part::4]).assign(label=y[part::4]).to_parquet(tmp_path / f"{part}.parquet")
    files = dd.read_parquet(tmp_path)
    # Of few columns of small files Dask makes fewer partitions: not for labels alone.
    features, labels = files[["a", "b", "c"]], files["label"]
    expected = AUCClassifier(loss="square", solver=Exact(ridge=0.1)).fit(X, y)
    found = DaskAUCClassifier(loss="square", solver=Exact(0.1)).fit(features, labels)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-11)
    assert found.score(features, labels) == expected.score(X, y)


def test_empty_partitions_and_unknown_lengths(table):
    X, y = arrays(*table)
    keep = da.from_array(np.arange(600) < 300, chunks=250)
    # The last chunks are empty, and nobody knows.
    some_X, some_y = X[keep], y[keep]
    assert np.isnan(some_X.chunks[0]).all()
    found = DaskAUCClassifier(loss="square", solver=Exact(0.1)).fit(some_X, some_y)
    expected = AUCClassifier(loss="square", solver=Exact(ridge=0.1)).fit(
        table[0][:300], table[1][:300]
    )
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-11)
    scores = found.decision_function(some_X)
    assert found.predict(some_X).compute().shape == scores.compute().shape == (300,)
    assert found.score(some_X, some_y) == expected.score(table[0][:300], table[1][:300])


def test_sparse_blocks(table):
    X, y = arrays(np.where(np.abs(table[0]) > 0.5, table[0], 0.0), table[1])
    sparse = X.map_blocks(scipy.sparse.csr_array)
    found = DaskAUCClassifier(loss="square", solver=Exact(0.1), random_state=0).fit(sparse, y)
    dense = DaskAUCClassifier(loss="square", solver=Exact(0.1), random_state=0).fit(X, y)
    np.testing.assert_allclose(found.coef_, dense.coef_, rtol=1e-9)
    hinge = DaskAUCClassifier(solver=ByPasses(0.1), random_state=0).fit(sparse, y)
    other = DaskAUCClassifier(solver=ByPasses(0.1), random_state=0).fit(X, y)
    assert hinge.fit_.objective == pytest.approx(other.fit_.objective, rel=1e-4)
    np.testing.assert_allclose(
        found.decision_function(sparse).compute(), dense.decision_function(X).compute(), atol=1e-6
    )


def test_predictions_are_lazy_and_those_of_the_model(table, client):
    X, y = arrays(*table)
    clf = DaskAUCClassifier(loss="square", solver=Exact(0.1), client=client).fit(X, y)
    model = clf.model_
    for method in ("decision_function", "predict", "predict_proba"):
        lazy = getattr(clf, method)(X)
        assert hasattr(lazy, "__dask_graph__")
        expected = getattr(model, method)(table[0])
        assert lazy.shape == expected.shape
        np.testing.assert_array_equal(client.compute(lazy).result(), expected)
        # In memory they are answered at once.
        np.testing.assert_array_equal(getattr(clf, method)(table[0]), expected)


def test_predictions_for_a_frame_keep_its_index(table):
    X, y = table
    frame = dd.from_pandas(frame_of(X).set_index(np.arange(1000, 1600)), npartitions=3)
    labels = dd.from_pandas(pd.Series(y, index=np.arange(1000, 1600)), npartitions=3)
    clf = DaskAUCClassifier(loss="square", solver=Exact(0.1)).fit(frame, labels)
    scores = clf.decision_function(frame).compute()
    assert scores.index[0] == 1000
    # A product of other shape may round differently.
    np.testing.assert_allclose(scores, clf.model_.decision_function(frame_of(X)), rtol=1e-12)
    probabilities = clf.predict_proba(frame).compute()
    assert probabilities.columns.tolist() == ["no", "yes"]
    assert set(clf.predict(frame).compute()) == {"no", "yes"}


def test_the_score_is_the_exact_auc_with_its_interval(table, client, monkeypatch):
    X, y = arrays(*table)
    clf = DaskAUCClassifier(loss="square", solver=Exact(0.1), client=client).fit(X, y)
    expected = roc_auc_interval(table[1] == "yes", clf.model_.decision_function(table[0]))
    for size in (4_000_000, 100):
        monkeypatch.setattr("pairlearn.distributed.dask.auc._RANGE", size)
        found = clf.auc_interval(X, y)
        assert found.auc == expected.auc == clf.score(X, y)
        assert found.low == pytest.approx(expected.low, rel=1e-9)
        assert found.high == pytest.approx(expected.high, rel=1e-9)
    weight = da.from_array(np.arange(600) % 3 * 1.0, chunks=250)
    weighted = clf.model_.score(*table, sample_weight=np.arange(600) % 3 * 1.0)
    assert clf.score(X, y, weight) == pytest.approx(weighted, abs=1e-12)


def test_weights_travel_with_their_examples(table):
    X, y = arrays(*table)
    weight = da.from_array(np.arange(600) % 3 * 1.0, chunks=250)
    found = DaskAUCClassifier(loss="square", solver=Exact(0.1)).fit(X, y, weight)
    alone = AUCClassifier(loss="square", solver=Exact(ridge=0.1)).fit(
        *table, np.arange(600) % 3 * 1.0
    )
    np.testing.assert_allclose(found.coef_, alone.coef_, rtol=1e-10)


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_a_score_refuses_the_weights_that_fit_refuses(table, wrong):
    X, y = arrays(*table)
    clf = DaskAUCClassifier(loss="square", solver=Exact(0.1)).fit(X, y)
    weight = np.where(np.arange(600) == 7, wrong, 1.0)
    for rows, labels, own in ((X, y, da.from_array(weight, chunks=250)), (*table, weight)):
        with pytest.raises(ValueError, match="sample_weight must hold finite numbers"):
            clf.score(rows, labels, own)


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_masked_values_are_refused(table, name):
    # NumPy would learn from what is below the mask.
    X, y = table
    given = {"X": X, "y": (y == "yes").astype(int), "sample_weight": np.ones(600)}
    whole = {key: da.from_array(value, chunks=250) for key, value in given.items()}
    whole["X"] = whole["X"].rechunk((250, 3))
    clf = DaskAUCClassifier(loss="square", solver=Exact(0.1)).fit(**whole)
    whole[name] = da.ma.masked_equal(whole[name], given[name].ravel()[-1])
    for asked in (clf.fit, clf.score):
        with pytest.raises(ValueError, match=f"{name} is a masked array with"):
            asked(**whole)


def test_progress_is_told_pass_by_pass(table):
    told = []
    clf = DaskAUCClassifier(
        solver=ByPasses(0.1), progress=lambda number, purpose: told.append((number, purpose))
    )
    clf.fit(*arrays(*table))
    assert [number for number, _ in told] == list(range(1, clf.fit_.n_passes + 1))
    assert [purpose for _, purpose in told[:3]] == ["scales", "moments", "pair gradient"]
    assert told[-1][1] == "histogram"


def test_what_cannot_be_learned_from_is_refused(table):
    X, y = arrays(*table)
    clf = DaskAUCClassifier()
    with pytest.raises(TypeError, match=r"use the estimator without Dask"):
        clf.fit(*table)
    with pytest.raises(TypeError, match=r"dask\.array\.from_array\(y"):
        clf.fit(X, table[1])
    with pytest.raises(ValueError, match="X and y have different numbers of rows"):
        clf.fit(X, y[:300])
    keep = da.from_array(np.arange(600) < 300, chunks=250)
    with pytest.raises(ValueError, match="X has 3 partitions and y has 6"):
        clf.fit(X[keep], y.rechunk(100))
    with pytest.raises(ValueError, match="rows and y has shape"):
        clf.fit(X, y[keep])
    frame = dd.from_pandas(frame_of(table[0]).astype({"b": "category"}), npartitions=2)
    with pytest.raises(ValueError, match=r"'b' \(category\); encode categories"):
        clf.fit(frame, dd.from_pandas(pd.Series(table[1]), npartitions=2))
    with pytest.raises(ValueError, match="NaN or infinity"):
        clf.fit(X * np.nan, y)
    with pytest.raises(ValueError, match="y has 3 classes"):
        clf.fit(X, da.from_array(np.arange(600) % 3, chunks=250))


@pytest.mark.parametrize("method", ["fit", "score"])
def test_an_estimator_in_memory_says_what_learns_from_collections(table, method):
    X, y = arrays(*table)
    model = AUCClassifier(loss="square", solver=Exact(ridge=0.1)).fit(*table)
    with pytest.raises(TypeError, match=r"use pairlearn\.distributed\.DaskAUCClassifier"):
        getattr(model, method)(X, y)


def test_data_in_memory_are_scored_without_a_cluster(table):
    clf = DaskAUCClassifier(loss="square", solver=Exact(0.1)).fit(*arrays(*table))
    X, y = table
    weight = np.arange(600) % 3 * 1.0
    assert clf.score(X, y) == clf.model_.score(X, y)
    assert clf.score(X, y, weight) == pytest.approx(
        clf.model_.score(X, y, sample_weight=weight), abs=1e-12
    )
    expected = roc_auc_interval(y == "yes", clf.model_.decision_function(X))
    assert clf.auc_interval(X, y).low == pytest.approx(expected.low, rel=1e-9)


def test_the_score_of_many_rows_is_that_of_a_histogram(table, monkeypatch):
    X, y = arrays(*table)
    clf = DaskAUCClassifier(loss="square", solver=Exact(0.1)).fit(X, y)
    expected = roc_auc_interval(table[1] == "yes", clf.model_.decision_function(table[0]))
    for n_bins in (8, 64):
        monkeypatch.setattr("pairlearn.distributed.dask.auc._RANGE", 30)
        monkeypatch.setattr("pairlearn.distributed.dask.auc._BINS", n_bins)
        found = clf.auc_interval(X, y)
        # Pairs within bins of equal counts are at most one in n_bins, and each is half a pair off.
        assert 0.0 < abs(found.auc - expected.auc) < 0.5 / n_bins + 0.02
        assert found.low < expected.low < expected.auc < expected.high < found.high
        assert found.standard_error == pytest.approx(expected.standard_error, rel=0.2)
    weight = da.from_array(np.arange(600) % 3 * 1.0, chunks=250)
    weighted = clf.model_.score(*table, sample_weight=np.arange(600) % 3 * 1.0)
    found = clf.auc_interval(X, y, weight)
    assert found.auc == pytest.approx(weighted, abs=0.02)
    assert np.isnan([found.low, found.high, found.standard_error]).all()


def test_the_tasks_of_a_score_are_bounded_by_the_partitions(table, monkeypatch):
    X, y = arrays(*table, chunks=30)
    clf = DaskAUCClassifier(loss="square", solver=Exact(0.1)).fit(X, y)
    monkeypatch.setattr("pairlearn.distributed.dask.auc._RANGE", 1)
    sizes = []
    compute = DaskEngine.compute
    monkeypatch.setattr(
        DaskEngine,
        "compute",
        lambda self, tasks: [
            sizes.append(sum(len(one.__dask_graph__()) for one in tasks)),
            compute(self, tasks),
        ][1],
    )
    clf.score(X, y)
    # 600 ranges of 20 partitions would be 12,000 tasks.
    assert max(sizes) < 10 * 20


def test_labels_as_an_array_of_files_that_dask_joins(table, tmp_path):
    X, y = table[0], (table[1] == "yes").astype(int)
    for part in range(6):
        frame_of(X[part::6]).assign(label=y[part::6]).to_parquet(tmp_path / f"{part}.parquet")
    files = dd.read_parquet(tmp_path)
    labels = files["label"].values
    assert labels.numblocks[0] < files.npartitions
    with pytest.raises(ValueError, match=r"Dask reads several small files as one .*without \.val"):
        DaskAUCClassifier().fit(files[["a", "b", "c"]], labels)


@pytest.mark.parametrize("loss", ["square", "auto"])
def test_the_model_does_not_depend_on_the_partitioning(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)) * [1.0, 10.0, 0.1, 1.0]
    X[:, 3] = np.round(X[:, 3])
    X[2900:] = X[:100]
    y = (X[:, 0] + 0.1 * X[:, 1] + 2.0 * rng.normal(size=3000) > 1.0).astype(int)

    def trained(order, n_parts):
        parts = np.array_split(order, n_parts)

        def run(statistic):
            return statistic.merge_all(
                statistic.of_part(k).partial_state(X[part], y[part]) for k, part in enumerate(parts)
            )

        return train_auc(run, loss=loss, random_state=0).model

    known = trained(np.arange(3000), 1)
    in_memory = AUCClassifier(loss=loss, solver=Exact(), random_state=0).fit(X, y)
    assert known.ridge_ == in_memory.ridge_
    others = [(np.arange(3000), 7), (np.argsort(y, kind="stable"), 50), (np.argsort(X[:, 1]), 7)]
    for order, n_parts in others:
        model = trained(order, n_parts)
        assert model.ridge_ == known.ridge_
        scale = np.abs(known.coef_).max()
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=0, atol=1e-9 * scale)
        np.testing.assert_allclose(model.threshold_, known.threshold_, rtol=1e-9)
        assert model.data_fingerprint_ == known.data_fingerprint_
