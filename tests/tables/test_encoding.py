# SPDX-License-Identifier: BSD-3-Clause
import copy
import json
from dataclasses import replace

import numpy as np
import polars
import pytest
from real_files import FILES

from pairlearn.streams import ReadError
from pairlearn.streams.readers.base import Position, bucket_of
from pairlearn.tables import (
    TableEncoding,
    TableOptions,
    TableReader,
    load_table,
    plan_table,
)


def load(folder, text, **options):
    (folder / "a.csv").write_text(text)
    return load_table([folder / "a.csv"], TableOptions(label="y", **options))


def column(table, name):
    return table.X[:, table.plan.encoder.feature_names.index(name)].tolist()


def test_numbers_and_gaps(tmp_path):
    text = "a,b,y\n" + "".join(f"{k},{'' if k % 4 else k},{k % 2}\n" for k in range(40))
    table = load(tmp_path, text)
    assert table.plan.encoder.feature_names == ("b", "b=(missing)")  # a counts rows: an id
    known = [k for k in range(40) if k % 4 == 0]
    assert column(table, "b") == [k if k % 4 == 0 else np.median(known) for k in range(40)]
    assert column(table, "b=(missing)") == [float(k % 4 > 0) for k in range(40)]
    table = load(tmp_path, text, missing=-1.0)
    assert column(table, "b")[1] == -1.0
    assert table.plan.encoder.feature_names == ("b",)
    table = load(tmp_path, text, missing="refuse")
    assert len(table.y) == 10
    assert table.refusals.count == 30
    assert str(table.refusals.first[0]).endswith("a.csv:3: column 'b': the value is missing")


def test_categories(tmp_path):
    levels = ["red"] * 20 + ["blue"] * 15 + [""] * 5 + ["rare", "rarer"]
    text = "c,x,y\n" + "".join(f"{v},{k % 5},{k % 2}\n" for k, v in enumerate(levels))
    table = load(tmp_path, text)
    assert table.plan.encoder.feature_names[:4] == ("c=blue", "c=red", "c=(other)", "c=(missing)")
    assert column(table, "c=red") == [float(v == "red") for v in levels]
    assert column(table, "c=(other)") == [float(v.startswith("rare")) for v in levels]
    assert column(table, "c=(missing)") == [float(not v) for v in levels]
    assert (table.X[:, :4].sum(axis=1) == 1).all()
    given = load(tmp_path, text, levels={"c": ["red", "green"]})
    assert given.plan.encoder.feature_names[:3] == ("c=red", "c=green", "c=(other)")
    hashed = load(tmp_path, text, widths={"c": 16})
    assert hashed.X.shape[1] == 16 + 1 + 1
    assert hashed.X[0, bucket_of("red", 16)] == 1.0


def test_no_two_features_have_one_name(tmp_path):
    levels = ["(other)", "(missing)", "", "red"]
    rows = "".join(f"{levels[k % 4]},{k / 7},{k % 2}\n" for k in range(40))
    table = load(tmp_path, "c,c=red,y\n" + rows)
    assert table.plan.encoder.feature_names == (
        "c=(missing)", "c=(other)", "c=red", "c=(other) (2)", "c=(missing) (2)", "c=red (2)",
    )  # fmt: skip
    assert column(table, "c=(missing) (2)") == [float(k % 4 == 2) for k in range(40)]


def test_the_size_of_letters_makes_no_level(tmp_path):
    levels = ["Visa"] * 12 + ["visa"] * 10 + ["VISA "] * 2 + ["cash"] * 12
    text = "c,x,y\n" + "".join(f"{v},{k % 5},{k % 2}\n" for k, v in enumerate(levels))
    table = load(tmp_path, text)
    assert [n for n in table.plan.encoder.feature_names if n[0] == "c"] == [
        "c=Visa", "c=cash", "c=(other)",
    ]  # fmt: skip
    assert column(table, "c=Visa") == [float(v.strip().lower() == "visa") for v in levels]
    given = load(tmp_path, text, levels={"c": ["Visa", "visa"]})
    assert column(given, "c=visa") == [float(v == "visa") for v in levels]


def test_units_and_numbers_for_nothing(tmp_path):
    fields = ["36.5 °C", "-999", "38.5 °C", "37 °C", "97 °F", "-999"] * 6
    text = "t,x,y\n" + "".join(f"{v},{k % 5},{k % 2}\n" for k, v in enumerate(fields))
    table = load(tmp_path, text.replace("97 °F", "37 °C"))
    encoder = TableEncoding.from_state(json.loads(json.dumps(table.plan.encoder.state())))
    number = encoder.columns[0]
    assert (number.unit, number.nothing) == ("°c", -999.0)
    assert table.plan.absent["t"] == pytest.approx(1 / 3)
    values, wrong = number.read(polars.Series(fields[:6]))
    assert values[[0, 2, 3]].tolist() == [36.5, 38.5, 37.0]
    assert np.isnan(values[[1, 4, 5]]).all()
    assert wrong.tolist() == [False] * 4 + [True, False]
    assert number.unread == "is not a number in °c"


def test_dates_have_waves(tmp_path):
    days = np.arange("2023-01-01", "2024-02-01", dtype="datetime64[D]")
    text = "d,y\n" + "".join(f"{d},{k % 2}\n" for k, d in enumerate(days))
    table = load(tmp_path, text)
    assert table.plan.encoder.feature_names == (
        "d (years)", "d (year, sin)", "d (year, cos)", "d (week, sin)", "d (week, cos)",
    )  # fmt: skip
    np.testing.assert_allclose(table.X[7:, 3:], table.X[:-7, 3:], atol=1e-9)
    years = (days.astype(int) - np.median(days.astype(int))) / 365.2425
    np.testing.assert_allclose(column(table, "d (years)"), years, atol=1e-12)


def test_yes_and_no_in_words_and_digits(tmp_path):
    words = ["yes", "0 ", "No", "1 ", "", "1", "0", "y "]
    table = load(tmp_path, "f,y\n" + "".join(f"{word},{k % 2}\n" for k, word in enumerate(words)))
    expected = [1, 0, 0, 1, 4 / 7, 1, 0, 1]
    np.testing.assert_allclose(column(table, "f"), expected, rtol=1e-15)


def test_texts_are_hashed_words(tmp_path):
    text = "t,y\n" + "".join(f'"Good, really good word {k}!",{k % 2}\n' for k in range(30))
    table = load(tmp_path, text)
    frequent = sorted(bucket_of(word, 1024) for word in ("good", "really", "word"))
    assert table.plan.encoder.feature_names == tuple(f"t#{k}" for k in frequent)
    assert table.X.tolist() == [[1.0] * 3] * 30
    # a stream does not know which words will come
    plan = plan_table([tmp_path / "a.csv"], TableOptions(label="y"))
    [chunk] = TableReader([tmp_path / "a.csv"], plan.encoder, format="csv", labelled=True)
    assert chunk.X.shape == (30, 1024)
    row = chunk.X[3].toarray().ravel()
    expected = {bucket_of(word, 1024) for word in ("good", "really", "word", "3")}
    assert set(np.flatnonzero(row)) == expected
    assert set(row) == {0.0, 1.0}
    rare = "t,y\n" + "".join(f'"a{k} b{k} c{k}",{k % 2}\n' for k in range(30))
    with pytest.raises(ReadError, match="no word of 't' is frequent enough"):
        load(tmp_path, rare)


@pytest.mark.parametrize("name", FILES)
def test_a_reader_and_a_restored_encoder_agree_with_the_table(name, tmp_path):
    """What is stored as JSON reads the file to the same features, in any order of the columns."""
    file, label = FILES[name](tmp_path, np.random.default_rng(7))
    table = load_table([tmp_path / file], TableOptions(label=label))
    state = json.loads(json.dumps(table.plan.encoder.state()))
    encoder = TableEncoding.from_state(state)
    assert encoder.state() == table.plan.encoder.state()
    reader = TableReader([tmp_path / file], encoder, format="csv", labelled=True, chunk_rows=100)
    chunks = list(reader)

    def dense(X):
        return X.toarray() if hasattr(X, "toarray") else X

    found = np.concatenate([dense(chunk.X) for chunk in chunks])
    assert found.tobytes() == dense(table.X).tobytes()
    assert np.concatenate([chunk.y for chunk in chunks]).tolist() == table.y.tolist()
    assert reader.refusals == table.refusals
    assert np.isfinite(found).all()
    again = TableReader([tmp_path / file], encoder, format="csv", labelled=True, chunk_rows=100)
    again.restore(again.position)
    assert [len(c) for c in again] == [len(c) for c in chunks]
    # from the middle on, by another reader
    for k in (0, 2):
        again = TableReader([tmp_path / file], encoder, format="csv", labelled=True, chunk_rows=100)
        again.restore(chunks[k].position)
        rest = list(again)
        assert [len(c) for c in rest] == [len(c) for c in chunks[k + 1 :]]
        assert dense(rest[-1].X).tobytes() == dense(chunks[-1].X).tobytes()
        assert rest[-1].position == chunks[-1].position
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[:400].upper() + content[400:])
    with pytest.raises(ReadError, match=r"has changed before the place|has no|lacks"):
        TableReader(
            [tmp_path / file], encoder, format="csv", labelled=True, chunk_rows=100
        ).restore(chunks[1].position)


def test_fields_taken_as_missing_are_counted_across_a_restart(tmp_path):
    text = "n,m,y\n" + "".join(f"{k % 7},{k % 5},{k % 2}\n" for k in range(40))
    encoder = load(tmp_path, text).plan.encoder
    lines = [f"{'x' if k % 3 == 1 else k},{'soon' if k == 17 else k},{k % 2}" for k in range(25)]
    (tmp_path / "new.csv").write_text("n,m,y\n" + "\n".join(lines) + "\n")

    def opened():
        return TableReader(
            [tmp_path / "new.csv"], encoder, format="csv", labelled=True, chunk_rows=10
        )

    whole = opened()
    positions = [chunk.position for chunk in whole]
    assert [line.split(";")[0] for line in whole.odd.lines()] == [
        "column 'n': 8 values taken as missing",
        "column 'm': 1 value taken as missing",
    ]
    for position in positions:
        resumed = opened()
        resumed.restore(Position.from_dict(json.loads(json.dumps(position.to_dict()))))
        list(resumed)
        assert resumed.odd.lines() == whole.odd.lines()


def test_levels_and_gaps_that_training_never_met(tmp_path):
    text = "c,n,f,y\n" + "".join(
        f"{'ab'[k % 2]},{k % 7},{'yn'[k % 2]},{k % 2}\n" for k in range(40)
    )
    encoder = load(tmp_path, text).plan.encoder
    (tmp_path / "new.csv").write_text("n,f,extra,c\n,maybe,1,z\nx,,2,\n")
    reader = TableReader([tmp_path / "new.csv"], encoder, format="csv", labelled=False)
    [chunk] = reader
    by_name = dict(zip(encoder.feature_names, chunk.X.T.tolist(), strict=True))
    assert by_name["c=(other)"] == [1.0, 1.0]
    assert by_name["n"] == [3.0, 3.0]
    assert by_name["f"] == [0.5, 0.5]
    assert [line.split(";")[0] for line in reader.odd.lines()] == [
        "column 'n': 1 value taken as missing",
        "column 'f': 1 value taken as missing",
    ]
    with pytest.raises(ReadError, match=r"new\.csv:2: column 'f': 'maybe' is neither yes nor no"):
        list(TableReader([tmp_path / "new.csv"], encoder, format="csv", labelled=False,
                         strict=True))  # fmt: skip
    (tmp_path / "short.csv").write_text("n,f\n1,y\n")
    with pytest.raises(ReadError, match="has no feature column 'c'; its columns: 'n', 'f'"):
        TableReader([tmp_path / "short.csv"], encoder, format="csv", labelled=False)


def test_a_sample_decides_for_a_stream(tmp_path):
    """Levels and medians of the first rows; a file sorted by its label is read far enough."""
    rows = "".join(f"{k % 3},a,0\n" for k in range(20_000)) + "7,b,1\n" * 50
    (tmp_path / "a.csv").write_text("n,c,y\n" + rows)
    plan = plan_table([tmp_path / "a.csv"], TableOptions(label="y"))
    assert plan.encoder.label.values == (0, 1)
    assert [d.kind for d in plan.decisions] == ["number", "constant"]
    assert plan.encoder.columns[0].median == 1.0


@pytest.mark.parametrize(
    ("labels", "problem", "values"),
    [
        (["Yes", "yes", "yes", "NO", "no", "No", "No"], "classes", ("No", "yes")),
        (["1.0", "1", "1", "no"], "classes", ("no", "1")),
        (["1.0", "1", "0"], "classes", (0, 1)),
        # the rarer one is positive, however many spellings it has
        (["Red", "red", "RED", *["blue"] * 5], "classes", ("blue", "RED")),
        (["blue", "red", "red"], "classes", ("red", "blue")),
        (["B", "b", "b", "a", "c"], "groups", ("a", "b", "c")),
    ],
)
def test_a_stream_names_classes_as_a_table_does(labels, problem, values, tmp_path):
    rows = "".join(f"{k},{label}\n" for k, label in enumerate(labels))
    (tmp_path / "a.csv").write_text("n,y\n" + rows)
    options = TableOptions(label="y", problem=problem)
    for plan in (
        load_table([tmp_path / "a.csv"], options).plan,
        plan_table([tmp_path / "a.csv"], options),
    ):
        assert plan.encoder.label.values == values


def test_the_first_rows_name_the_classes_of_a_long_stream(tmp_path):
    rows = ["red", *["Red"] * 9_999, *["blue"] * 4_000, *["red"] * 20_000, *["blue"] * 90_000]
    (tmp_path / "a.csv").write_text(
        "n,y\n" + "".join(f"{k % 9},{row}\n" for k, row in enumerate(rows))
    )
    options = TableOptions(label="y")
    rule = plan_table([tmp_path / "a.csv"], options).encoder.label
    assert rule.values[1] == "blue"
    assert "'blue', the rarer one of the first rows, is positive" in rule.note
    rule = load_table([tmp_path / "a.csv"], options).plan.encoder.label
    assert rule.values == ("blue", "red")
    assert "'red', the rarer one, is positive" in rule.note


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "q"}, "no label column 'q'; its columns: 'n', 'c', 'y'"),
        ({"label": "Y"}, "did you mean 'y'"),
        ({"qid": "y"}, "--label and --qid name the same column"),
        ({"features": ("n", "q")}, "no feature column 'q'"),
        ({"features": ("n", "n")}, "names 'n' twice"),
        ({"features": ("n", "y")}, "'y' is the label or the query"),
        ({"exclude": ("y",)}, "it is the label"),
        ({"exclude": ("q",)}, "no excluded column 'q'"),
        ({"exclude": ("n", "c")}, "leaves no column for features"),
        ({"kinds": {"c": "number"}}, "reading.numeric=c"),
    ],
)
def test_options_that_do_not_fit(options, message, tmp_path):
    (tmp_path / "a.csv").write_text(
        "n,c,y\n" + "".join(f"{k % 3},a{k % 2},{k % 2}\n" for k in range(9))
    )
    with pytest.raises(ReadError, match=message):
        load_table([tmp_path / "a.csv"], replace(TableOptions(label="y"), **options))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """What a sound file would hold; each test damages a copy."""
    folder = tmp_path_factory.mktemp("sound")
    file, label = FILES["claims"](folder, np.random.default_rng(7))
    return load_table([folder / file], TableOptions(label=label)).plan.encoder.state()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("version",), 2), (("columns",), []), (("columns",), 3), (("dtype",), "float16"),
        (("qid",), 3), (("columns", 0, "name"), 7), (("columns", 0, "kind"), "id"),
        (("columns", 0, "missing"), "x"), (("columns", 0, "missing"), True),
        (("columns", 0, "form"), "x"), (("columns", 0, "median"), 1e301),
        (("columns", 0, "median"), "1"), (("columns", 0, "indicator"), 1),
        (("columns", 1, "name"), "Amount"), (("columns", 2, "waves"), ["day", "year"]),
        (("columns", 2, "waves"), ["month"]), (("columns", 2, "form"), "ydm"),
        (("columns", 3, "width"), 1 << 40), (("columns", 3, "width"), 1),
        (("columns", 3, "kept"), [5, 3]), (("columns", 3, "kept"), [1024]),
        (("columns", 3, "kept"), ["3"]), (("columns", 0, "unit"), 7),
        (("columns", 0, "nothing"), "9"),
        (("columns", 4, "levels"), ["a", "a"]), (("columns", 4, "levels"), [""]),
        (("columns", 4, "levels"), "ab"), (("columns", 4, "other"), None), (("label",), {}),
    ],
)  # fmt: skip
def test_a_damaged_state_is_refused(place, value, sound):
    damaged = copy.deepcopy(sound)
    TableEncoding.from_state(damaged)
    inner = damaged
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(ValueError, match="saved"):
        TableEncoding.from_state(damaged)


def test_what_is_no_state():
    with pytest.raises(ValueError, match="not a mapping"):
        TableEncoding.from_state([1])
