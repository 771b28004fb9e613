# SPDX-License-Identifier: BSD-3-Clause
"""A query trains the model that its rows train in memory, and rows that change are noticed."""

import os
import sys

import numpy as np
import pytest

from pairlearn import ReadError
from pairlearn.distributed import ByPasses, LabelMoments, PrivateSums, train_auc
from pairlearn.sql import QueryChangedError, QueryEngine, batch_moments, train_query

pa = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")


@pytest.fixture
def connection(table):
    duckdb = pytest.importorskip("duckdb")
    made = duckdb.connect()
    made.register("rows", table)
    yield made
    made.close()


def in_memory(X, y, weight=None, **settings):
    """The model of parts in memory."""

    def run(statistic):
        states = [
            statistic.of_part(k).partial_state(
                X[k::4], y[k::4], None if weight is None else weight[k::4]
            )
            for k in range(4)
        ]
        return statistic.merge_all(states)

    return train_auc(run, random_state=0, **settings).model


@pytest.mark.parametrize(
    "settings",
    [{"loss": "square"}, pytest.param({"features": "hats"}, marks=pytest.mark.thorough)],
)
@pytest.mark.parametrize("order", ["", "ORDER BY x0", "ORDER BY x1 DESC"])
def test_duckdb_gives_the_bits_of_rows_in_memory(connection, examples, settings, order):
    X, y, _ = examples
    query = f"SELECT x0, x1, x2, y FROM rows {order}"
    fit = train_query(connection, query, target="y", batch_rows=700, random_state=0, **settings)
    expected = in_memory(X, y, **settings)
    assert np.array_equal(fit.model.coef_, expected.coef_)
    assert fit.model.threshold_ == expected.threshold_
    assert fit.model.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    assert fit.model.data_fingerprint_ == expected.data_fingerprint_


def test_other_losses_agree_up_to_rounding(connection, examples):
    X, y, _ = examples
    fit = train_query(
        connection, "SELECT * EXCLUDE w FROM rows", target="y", batch_rows=700, random_state=0
    )
    # Sums of other parts round otherwise, and passes end at a tolerance: 2e-5 was seen.
    np.testing.assert_allclose(fit.model.coef_, in_memory(X, y).coef_, rtol=1e-4)


def test_weights_are_a_column(connection, examples):
    X, y, weight = examples
    settings = {"loss": "square", "solver": ByPasses(ridge=0.1)}
    fit = train_query(
        connection,
        "FROM rows",
        target="y",
        weight="w",
        batch_rows=1_000,
        random_state=0,
        **settings,
    )
    expected = in_memory(X, y, weight, **settings)
    assert np.array_equal(fit.model.coef_, expected.coef_)


@pytest.mark.thorough
def test_polars_relations_and_arrow_give_the_same_bits(connection, table, examples):
    polars = pytest.importorskip("polars")
    X, y, _ = examples
    frame = polars.from_arrow(table)
    expected = in_memory(X, y, loss="square").coef_
    for source in [
        (frame.lazy(),),
        (frame,),
        (frame.lazy().sort("x1"),),
        (frame.lazy(), "SELECT * FROM self"),
        (connection.sql("SELECT * FROM rows"),),
        (table,),
        (dataset.dataset(table),),
    ]:
        fit = train_query(
            *source, target="y", columns=["x0", "x1", "x2"], batch_rows=500, loss="square",
            random_state=0,
        )  # fmt: skip
        assert np.array_equal(fit.model.coef_, expected), source


def test_a_database_file_is_opened_for_reading_only(tmp_path, table):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "sales.duckdb"
    with duckdb.connect(os.fspath(path)) as made:
        made.register("rows", table)
        made.execute("CREATE TABLE sales AS SELECT * FROM rows")
    before = path.read_bytes()
    fit = train_query(path, "SELECT x0, y FROM sales", target="y", random_state=0)
    assert fit.model.n_examples_ == table.num_rows
    assert path.read_bytes() == before


def test_labels_may_be_texts_or_true_and_false(connection):
    for label, classes in [
        ("CASE WHEN y = 1 THEN 'yes' ELSE 'no' END", ["no", "yes"]),
        ("y = 1", [False, True]),
        ("CAST(y AS DECIMAL(4, 1))", [0.0, 1.0]),
        ("CAST(CASE WHEN y = 1 THEN 'b' ELSE 'a' END AS ENUM ('a', 'b'))", ["a", "b"]),
    ]:
        fit = train_query(
            connection, f"SELECT x0, {label} AS y FROM rows", target="y", loss="square"
        )
        assert fit.model.classes_.tolist() == classes


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT x0, y FROM rows WHERE random() < 0.5", "rows after"),
        ("SELECT x0 + random() AS x0, y FROM rows", "with other values"),
        ("SELECT x0, CASE WHEN random() < 0.5 THEN 1 ELSE 0 END AS y FROM rows", "other values"),
        ("SELECT x0, y, random() AS w FROM rows", "with other values"),
    ],
)
def test_rows_that_change_between_passes_are_refused(connection, query, said):
    weight = "w" if "AS w" in query else None
    with pytest.raises(QueryChangedError, match=said):
        train_query(connection, query, target="y", weight=weight, loss="square")


def test_a_row_that_another_connection_adds_is_noticed(tmp_path, table):
    duckdb = pytest.importorskip("duckdb")
    made = duckdb.connect(os.fspath(tmp_path / "a.duckdb"))
    made.register("rows", table)
    made.execute("CREATE TABLE kept AS SELECT x0, y FROM rows")
    run = QueryEngine(made, "SELECT * FROM kept", target="y")
    statistic = LabelMoments()
    run(statistic)
    made.cursor().execute("INSERT INTO kept VALUES (0.5, 1)")
    with pytest.raises(QueryChangedError, match="3001 rows after 3000"):
        run(statistic)
    made.close()


def test_one_batch_is_in_memory_at_a_time(table):
    run = QueryEngine(table, target="y", batch_rows=100)
    sizes = []

    class Sizes(LabelMoments):
        def partial_state(self, X, y=None, sample_weight=None):
            sizes.append(len(X))
            return super().partial_state(X, y, sample_weight)

    run(Sizes())
    assert max(sizes) == 100
    assert sum(sizes) == run.n_rows == 3_000
    assert run.n_passes == 1


@pytest.mark.parametrize(
    "end", [";", "; -- ö; all", " -- all", " ; ; /* x */ ; -- y\n", " /* ; */"]
)
def test_a_query_may_end_with_semicolons_and_comments(connection, table, end):
    query = "SELECT x0, ';--é' <> 'ü' AS x1, y FROM rows"
    found = batch_moments(connection, query + end, target="y")
    assert found.digest() == batch_moments(connection, query, target="y").digest()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT x0, y FROM rows WHERE x0 > 100", "gives no row"),
        ("SELECT x0 FROM rows", "no target column 'y'"),
        ("SELECT y FROM rows", "no column of a feature"),
        ("SELECT x0, 'a' AS word, y FROM rows", r"must be numbers, got 'word'"),
        ("SELECT x0, DATE '2020-01-01' AS day, y FROM rows", r"must be numbers, got 'day'"),
        ("SELECT NULLIF(x0, x0) AS x0, y FROM rows", "is NULL in 3000 of 3000 rows"),
        ("SELECT x0, NULLIF(y, 1) AS y FROM rows", "column 'y' .* is NULL"),
        ("SELECT x0, CAST('nan' AS DOUBLE) AS x1, y FROM rows", "'x1' .* holds NaN"),
        ("SELECT x0, DATE '2020-01-01' AS y FROM rows", "the target 'y' is date"),
        ("SELECT x0, 1 AS y FROM rows", "one class"),
        ("SELECT x0, y + (x0 > 0)::INT AS y FROM rows", "3 classes"),
        ("SELECT x0, x1 AS x0, y FROM rows", "more than one column named"),
        ("SELECT nothing FROM rows", "refuses the query: Binder Error"),
        ("SELEKT", "refuses the query: Parser Error"),
        ("DROP TABLE rows", "must be one SELECT, got 1 statements"),
        ("SELECT 1; SELECT 2", "must be one SELECT, got 2 statements"),
        ("  ", "must be one SELECT"),
    ],
)
def test_what_cannot_be_used_is_refused(connection, query, said):
    with pytest.raises(ValueError, match=said):
        train_query(connection, query, target="y", loss="square")


def test_columns_are_checked_before_anything_runs(table):
    for options, said in [
        ({"columns": ["x0", "nine"]}, "no feature column 'nine'"),
        ({"columns": ["x0", "y"]}, "is a feature and target or weight"),
        ({"columns": ["x0", "x0"]}, "names a column twice"),
        ({"weight": "y"}, "are one column"),
        ({"weight": "v"}, "no weight column 'v'"),
    ]:
        with pytest.raises(ReadError, match=said):
            QueryEngine(table, target="y", **options)
    with pytest.raises(TypeError, match="list of names"):
        QueryEngine(table, target="y", columns="x0")


def test_sources_are_refused_with_the_cure(table, tmp_path):
    with pytest.raises(ReadError, match="takes no query"):
        QueryEngine(table, "SELECT 1", target="y")
    with pytest.raises(TypeError, match="source must be"):
        QueryEngine([1, 2], target="y")
    with pytest.raises(TypeError, match="reads cells"):
        QueryEngine(table, target="y")(PrivateSums.__new__(PrivateSums))


def test_files_are_refused_with_the_cure(tmp_path):
    pytest.importorskip("duckdb")
    with pytest.raises(ReadError, match="does not exist"):
        QueryEngine(tmp_path / "none.duckdb", "SELECT 1", target="y")
    with pytest.raises(ReadError, match="needs a query"):
        QueryEngine(tmp_path / "none.duckdb", target="y")
    (tmp_path / "text.duckdb").write_text("hello")
    with pytest.raises(ReadError, match="cannot be opened"):
        QueryEngine(tmp_path / "text.duckdb", "SELECT 1", target="y")


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ReadError, match=r"install pairlearn\[sql\]"):
        QueryEngine(tmp_path / "a.duckdb", "SELECT 1", target="y")


def test_few_states_are_held_at_once(table):
    """Batches come and go: states are merged while later ones are still to come."""
    held, most = [], []

    class Held(LabelMoments):
        def partial_state(self, X, y=None, sample_weight=None):
            held.append(1)
            return super().partial_state(X, y, sample_weight)

        def merge_all(self, states):
            most.append(len(held))
            held.clear()
            return super().merge_all(states)

    run = QueryEngine(table, target="y", batch_rows=20)
    state = run(Held())
    assert sum(most) == 150
    assert max(most) <= 16
    whole = QueryEngine(table, target="y")(LabelMoments())
    means = [LabelMoments().finish(one).means for one in (state, whole)]
    np.testing.assert_allclose(*means, rtol=1e-12)
