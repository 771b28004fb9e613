# SPDX-License-Identifier: BSD-3-Clause
"""A query trains the model that its rows train in memory, and rows that change are noticed."""

import os
import sys

import numpy as np
import pytest

from pairlearn import AUCClassifier, Moments
from pairlearn.cluster import LabelMoments, OnArrow, RowsChangedError, fit_on, forget_on, score_on

pa = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")

MODEL = AUCClassifier(solver=Moments(0.1), random_state=0)
NAMES = ["x0", "x1", "x2"]


@pytest.fixture
def connection(rows):
    duckdb = pytest.importorskip("duckdb")
    made = duckdb.connect()
    made.register("rows", rows)
    yield made
    made.close()


@pytest.mark.parametrize("order", ["", "ORDER BY x0", "ORDER BY x1 DESC; -- that is all;"])
def test_duckdb_gives_the_bits_of_rows_in_memory(connection, examples, order):
    X, y, _ = examples
    query = f"SELECT x0, x1, x2, y FROM rows {order}"
    engine = OnArrow(connection, query, target="y", batch_rows=700)
    model, memory = fit_on(engine, MODEL), AUCClassifier(solver=MODEL.solver).fit(X, y)
    np.testing.assert_allclose(model.coef_, memory.coef_, rtol=1e-6)
    assert model.feature_names_in_.tolist() == NAMES
    assert score_on(engine, model).auc == pytest.approx(memory.score(X, y), abs=1e-6)


def test_weights_are_a_column(connection, examples):
    X, y, weight = examples
    solver = Moments(0.1)
    engine = OnArrow(connection, "FROM rows", target="y", weight="w", batch_rows=1_000)
    model = fit_on(engine, AUCClassifier(solver=solver))
    expected = AUCClassifier(solver=solver).fit(X, y, weight)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)


def test_every_source_gives_the_same_bits(connection, rows, examples):
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    X, y, _ = examples
    frame = polars.from_arrow(rows)
    expected = AUCClassifier(solver=Moments(0.1, ranges=(-2e3, 2e3))).fit(X, y)

    class Stream:
        """What ADBC, Ibis and Flight give: a stream of Arrow, and nothing else."""

        def __arrow_c_stream__(self, requested_schema=None):
            return rows.to_reader(700).__arrow_c_stream__(requested_schema)

    for source in [
        (frame.lazy(),),
        (frame,),
        (frame.lazy(), "SELECT * FROM self"),
        (connection.sql("SELECT * FROM rows"),),
        (rows,),
        (dataset.dataset(rows),),
        (rows.to_reader(700),),
        (Stream(),),
        (lambda: rows.to_reader(700),),
        (lambda: iter(rows.to_batches(700)),),
        (lambda: Stream(),),
        (pandas.DataFrame({name: rows[name].to_numpy() for name in rows.column_names}),),
    ]:
        engine = OnArrow(*source, target="y", columns=NAMES, batch_rows=500)
        model = fit_on(engine, AUCClassifier(solver=expected.solver))
        assert np.array_equal(model.coef_, expected.coef_), source


def test_rows_of_a_query_are_forgotten(connection, examples):
    X, y, _ = examples
    solver = Moments(0.1, ranges=(-2e3, 2e3), keep_state=True)
    query = "SELECT x0, x1, x2, y FROM rows"
    model = fit_on(OnArrow(connection, query, target="y"), AUCClassifier(solver=solver))
    gone = OnArrow(connection, f"{query} WHERE x0 > 1", target="y")
    left = X[:, 0] <= 1
    never = AUCClassifier(solver=solver).fit(X[left], y[left])
    assert np.array_equal(forget_on(gone, model).coef_, never.coef_)


def test_a_database_file_is_opened_for_reading_only(tmp_path, rows):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "sales.duckdb"
    with duckdb.connect(os.fspath(path)) as made:
        made.register("given", rows)
        made.execute("CREATE TABLE sales AS SELECT * FROM given")
    before = path.read_bytes()
    model = fit_on(OnArrow(path, "SELECT x0, y FROM sales", target="y"), MODEL)
    assert model.n_examples_ == rows.num_rows
    assert path.read_bytes() == before


def test_labels_may_be_texts_or_true_and_false(connection):
    for label, classes in [
        ("CASE WHEN y = 1 THEN 'yes' ELSE 'no' END", ["no", "yes"]),
        ("y = 1", [False, True]),
        ("CAST(y AS DECIMAL(4, 1))", [0.0, 1.0]),
        ("CAST(CASE WHEN y = 1 THEN 'b' ELSE 'a' END AS ENUM ('a', 'b'))", ["a", "b"]),
    ]:
        engine = OnArrow(connection, f"SELECT x0, {label} AS y FROM rows", target="y")
        assert fit_on(engine, MODEL).classes_.tolist() == classes


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT x0, y FROM rows WHERE random() < 0.5", r"rows in the first pass and 1,\d\d\d in"),
        ("SELECT x0 + random() AS x0, y FROM rows", "and others in pass 2"),
        ("SELECT x0, CASE WHEN random() < 0.5 THEN 'a' ELSE 'b' END AS y FROM rows", "and others"),
        ("SELECT x0, y, random() AS w FROM rows", "and others"),
    ],
)
def test_rows_that_change_between_passes_are_refused(connection, query, said):
    weight = "w" if "AS w" in query else None
    with pytest.raises(RowsChangedError, match=said):
        fit_on(OnArrow(connection, query, target="y", weight=weight), MODEL)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT x0, y FROM rows WHERE x0 > 100", "has seen no example"),
        ("SELECT x0 FROM rows", "there is no column 'y'"),
        ("SELECT y FROM rows", "no column of a feature"),
        ("SELECT x0, 'a' AS word, y FROM rows", r"must be numbers, got 'word'"),
        ("SELECT x0, DATE '2020-01-01' AS day, y FROM rows", r"must be numbers, got 'day'"),
        ("SELECT NULLIF(x0, x0) AS x0, y FROM rows", "is NULL in 3000 of 3000 rows"),
        ("SELECT x0, NULLIF(y, 1) AS y FROM rows", "column 'y' is NULL"),
        ("SELECT x0, CAST('nan' AS DOUBLE) AS x1, y FROM rows", "'x1' holds NaN"),
        ("SELECT x0, DATE '2020-01-01' AS y FROM rows", "labels 'y' are of type date"),
        ("SELECT x0, 1 AS y FROM rows", "one class"),
        ("SELECT x0, y + (x0 > 0)::INT AS y FROM rows", "3 classes"),
        ("SELECT x0, x1 AS x0, y FROM rows", "more than one column is named"),
        ("SELECT nothing FROM rows", "refuses the query: Binder Error"),
        ("SELEKT", "refuses the query: Parser Error"),
        ("DROP TABLE rows", "must be one SELECT, got 1 statements"),
        ("SELECT 1; SELECT 2", "must be one SELECT, got 2 statements"),
        ("  ", "needs a query"),
    ],
)
def test_what_cannot_be_used_is_refused(connection, query, said):
    with pytest.raises(ValueError, match=said):
        fit_on(OnArrow(connection, query, target="y"), MODEL)


def test_columns_are_checked_before_anything_runs(rows):
    for options, said in [
        ({"columns": ["x0", "nine"]}, "no column 'nine'"),
        ({"columns": ["x0", "y"]}, "'y' is read twice"),
        ({"columns": ["x0", "x0"]}, "'x0' is read twice"),
        ({"weight": "y"}, "'y' is read twice"),
        ({"weight": "v"}, "no column 'v'"),
        ({"columns": "x0"}, "must be a column of vectors or of lists"),
    ]:
        with pytest.raises(ValueError, match=said):
            OnArrow(rows, target="y", **options)


def test_sources_are_refused_with_the_cure(rows, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="takes no query"):
        OnArrow(rows, "SELECT 1", target="y")
    with pytest.raises(TypeError, match="source must be"):
        OnArrow([1, 2], target="y")
    with pytest.raises(ValueError, match="gives no batch"):
        OnArrow(lambda: iter(()), target="y")
    with pytest.raises(FileNotFoundError, match="no database file"):
        OnArrow(tmp_path / "none.duckdb", "SELECT 1", target="y")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ImportError, match=r"install 'pairlearn\[sql\]'"):
        OnArrow(tmp_path / "a.duckdb", "SELECT 1", target="y")


def test_few_states_are_held_at_once(rows):
    """Batches come and go: states are merged while later ones are still to come."""
    live = []

    class Held(LabelMoments):
        def partial_state(self, X, y=None, sample_weight=None):
            live.append(1)
            return super().partial_state(X, y, sample_weight)

        def combine(self, a, b):
            live.pop()
            assert len(live) < 10
            return super().combine(a, b)

    state = OnArrow(rows, target="y", batch_rows=20).run(Held())
    whole = OnArrow(rows, target="y").run(LabelMoments())
    means = [LabelMoments().finish(one).means for one in (state, whole)]
    np.testing.assert_allclose(*means, rtol=1e-6)
