# SPDX-License-Identifier: BSD-3-Clause
"""The program reads the result of a query to a DuckDB database as it reads a file."""

import os

import pytest

from pairlearn.cli.program import program
from pairlearn.cli.running import run
from pairlearn.streams import Queried, ReadError, Schema, open_reader

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

VISITORS = """
    SELECT i AS id, 20 + (i * 37) % 50 AS age, (i * 13) % 7 AS visits,
           CASE WHEN i % 10 > 0 THEN (i * 31 % 101) / 10.0 END AS spent,
           CASE i % 3 WHEN 0 THEN 'red' WHEN 1 THEN 'blue' ELSE 'green' END AS colour,
           DATE '2024-01-01' + CAST(i % 300 AS INTEGER) AS day,
           CASE WHEN (i * 37) % 50 + (i * 17) % 29 > 35 THEN 'yes' ELSE 'no' END AS bought
    FROM range(400) AS rows(i)
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    with duckdb.connect(os.fspath(folder / "shop.db")) as made:
        made.execute(f"CREATE TABLE visitors AS {VISITORS}")
        made.execute(f"COPY visitors TO '{folder}/visitors.parquet' (FORMAT parquet)")
    return folder


def call(capsys, *arguments, status=0):
    code = run(program, [str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert code == status, captured.err
    return captured.out, captured.err


@pytest.mark.thorough
def test_a_query_trains_the_model_of_a_file_of_its_rows(shop, tmp_path, capsys):
    """Texts, dates, ids and gaps: what is decided and predicted is that of a Parquet file."""
    query = ["--query", "SELECT * FROM visitors ORDER BY id"]
    said = {}
    for name, data in (
        ("query", [shop / "shop.db", *query]),
        ("file", [shop / "visitors.parquet"]),
    ):
        model = tmp_path / f"{name}.safetensors"
        trained, _ = call(
            capsys, "train", *data, "--label", "bought", "--model", "linear", "-o", model
        )
        predicted, _ = call(capsys, "predict", model, *data)
        evaluated, _ = call(capsys, "evaluate", model, *data)
        said[name] = trained.replace(str(model), "MODEL"), predicted, evaluated
    assert said["query"] == said["file"]
    assert "colour  category" in said["query"][0]


@pytest.mark.thorough
def test_a_query_is_learned_as_a_stream(shop, tmp_path, capsys):
    query = "SELECT age, visits, bought FROM visitors ORDER BY id"
    said, _ = call(
        capsys, "train", shop / "shop.db", "--query", query, "--label", "bought", "--fit",
        "stream", "-o", tmp_path / "m",
    )  # fmt: skip
    assert "400 rows, 2 features, progressive AUC" in said


def test_a_dry_run_and_a_missing_label_name_the_columns(shop, capsys):
    query = ["--query", "SELECT age, bought FROM visitors"]
    said, _ = call(capsys, "train", shop / "shop.db", *query, "--label", "bought", "--dry-run")
    assert "age     number" in said
    _, told = call(capsys, "train", shop / "shop.db", *query, status=2)
    assert "one of 'age', 'bought'" in told


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT nothing FROM visitors", "refuses the query: Binder Error"),
        ("SELEKT", "refuses the query: Parser Error"),
        ("DROP TABLE visitors", "must be one SELECT"),
        ("SELECT * FROM visitors WHERE age > 1000", "gives no row; check its WHERE"),
        ("SELECT age FROM visitors", "no label column 'bought'"),
        ("SELECT age, 'yes' AS bought FROM visitors", "two are needed"),
        ("SELECT age, age AS age, bought FROM visitors", "more than one column named 'age'"),
        ("SELECT [age] AS ages, bought FROM visitors", "column 'ages' is"),
    ],
)
def test_a_query_that_gives_no_table_is_refused(shop, tmp_path, capsys, query, said):
    _, told = call(
        capsys, "train", shop / "shop.db", "--query", query, "--label", "bought", "-o",
        tmp_path / "m", status=1,
    )  # fmt: skip
    assert said in told
    assert told.count("\n") == 1
    assert not (tmp_path / "m").exists()


def test_wrong_uses_are_told_apart(shop, tmp_path, capsys):
    database, query = shop / "shop.db", ["--query", "SELECT age, bought FROM visitors"]
    label = ["--label", "bought", "-o", tmp_path / "m"]
    for arguments, status, said in [
        ([database, *label], 2, "its tables: 'visitors'"),
        ([database, database, *query, *label], 2, "read alone"),
        ([shop / "visitors.parquet", *query, *label], 2, "is parquet; leave --query out"),
        ([shop / "none.db", *query, *label], 1, "does not exist"),
        (
            [database, *query, "--label", "bought", "-o", database],
            2,
            "is a file that the command reads",
        ),
        ([database, *query, *label, "--fit", "stream", "--set", "stream.n_passes=2"], 2, "once"),
    ]:
        _, told = call(capsys, "train", *arguments, status=status)
        assert said in told
    _, told = call(capsys, "rate", database, status=2)
    assert "its tables: 'visitors'" in told


def test_a_reader_of_a_query_goes_on_where_it_stopped(shop):
    def reader(query="SELECT age, visits, bought FROM visitors ORDER BY id"):
        schema = Schema(label="bought", classes=("no", "yes"))
        found = Queried(os.fspath(shop / "shop.db"), query)
        return open_reader(found, schema, format="duckdb", chunk_rows=100)

    first, *rest = list(reader())
    again = reader()
    again.restore(first.position)
    for chunk, other in zip(rest, again, strict=True):
        assert (chunk.X == other.X).all()
        assert (chunk.y == other.y).all()
    changed = reader("SELECT age + 1 AS age, visits, bought FROM visitors ORDER BY id")
    with pytest.raises(ReadError, match="checkpoint"):
        changed.restore(first.position)
    with pytest.raises(ReadError, match="read it by a query"):
        open_reader(shop / "shop.db", Schema())
