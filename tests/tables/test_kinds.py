# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import polars
import pytest

from pairlearn.streams import ReadError
from pairlearn.tables import LabelRule, decide
from pairlearn.tables.labels import query_numbers


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("age", ["31", "", "42.5"], "number"),
        ("age", [str(k % 9) for k in range(30)] + ["old"], "number"),
        ("age", ["31", "old", "young", "42"], "category"),
        ("flag", ["yes", "No", "", "y"], "yes/no"),
        ("flag", ["1", "0", "yes"], "yes/no"),
        ("flag", ["1", "0", "1"], "number"),
        ("zip", ["02139", "10115"] * 20, "category"),
        ("zip", [f"{k:05d}" for k in range(30)], "id"),
        ("row", [str(k) for k in range(100, 150)], "id"),
        ("income", [str(k * k) for k in range(100, 150)], "number"),
        ("customer_id", [str(k * k) for k in range(100, 150)], "id"),
        ("customerId", [str(k * k) for k in range(100, 150)], "id"),
        ("paid", [str(k * k) for k in range(100, 150)], "number"),
        ("store_id", [str(k % 7) for k in range(50)], "category"),
        ("hash", [f"{k * 7919:08x}" for k in range(50)], "id"),
        ("review", [f"this is the opinion number {k}" for k in range(50)], "text"),
        ("city", ["Paris", "Oslo", "Rome"] * 10, "category"),
        ("empty", ["", "NA", "?"], "constant"),
        ("same", ["x"] * 5, "constant"),
        ("promo", ["x", "", "x", ""], "category"),
        ("when", ["2024-01-31", "2024-02-01", ""], "date"),
        ("when", ["31.01.2024", "01.02.2024"], "date"),
        ("price", ["$1,200.50", "$7.00"], "number"),
        ("price", [f"USD {k * k},500" for k in range(1, 30)], "number"),
        ("balance", ["($1,200.50)", "$7.00"], "number"),
        ("temperature", [f"{k}.5 °C" for k in range(30)], "number"),
        ("income", ["32.9k", "1.2M", "950"], "number"),
        ("term", [" 36 months", " 60 months"], "number"),
        ("part_id", [f"{k * k} X" for k in range(30)], "id"),
        ("when", ["20240131", "20240201"], "date"),
        ("amount", ["20240131", "20249901"], "number"),
        ("when", ["Apr-2010", "Dec-2011"], "date"),
        ("when", ["2024-01-31", "02/29/2024", "Feb 3, 2024"], "date"),
        ("when", ["01/31/2024", "31/01/2024"] * 9, "excluded"),
        ("when", ["2021Q1", "2021Q4", "Q2 2022"], "date"),
        ("zip", ["02139", "10115"] * 20 + ["unknown"], "category"),
        ("zip code", ["10115", "20095"] * 20, "category"),
        ("ship_zip", ["10115", "20095"] * 20, "category"),
        ("unzipped", ["10115", "20095"] * 20, "number"),
        ("sodium", [f"{k}.5" for k in range(30)] + ["<0.5"] * 9 + ["7*", "n.d."], "number"),
        ("readmitted", ["<30", ">30", "no"] * 9, "category"),
        ("group", [f"{k}" for k in range(30)] + [f">{k}" for k in range(50)], "id"),
        ("loan", ["7,68,903", "12,34,567", "950"] * 3, "number"),
        ("share", [f"{k}.5" for k in range(30)] + ["#DIV/0!", "#REF!"] * 9, "number"),
        ("phone", [f"+1 (555) 010-{k:04d}" for k in range(30)], "id"),
        ("commute", [f"{k % 3}:{k:02d}" for k in range(30)], "number"),
        ("ratio", ["16:9", "4:3"] * 9, "category"),
        ("weight", [f"{k}.5 kg" for k in range(20)] + ["800 g"] * 9, "number"),
        ("weight", [f"{k}.5" for k in range(30)] + ["not weighed"] * 9, "number"),
        ("weight", [f"{k}.5" for k in range(30)] + ["10+"] * 9, "category"),
        ("rating", ["1", "2", "3", "4", "none given"] * 9, "category"),
        ("part_id", [f"{k}.5" for k in range(30)] + ["lost"] * 29, "category"),
        ("calls", [str(k * k) for k in range(30)] + ["--5"], "number"),
        ("area", [str(k * k) for k in range(30)] + ["²"], "number"),
        ("flag", ["yes", "no", "01"], "category"),
    ],
)
def test_kinds(name, values, kind):
    assert decide(name, values).kind == kind


def test_what_the_user_says():
    assert decide("code", ["1", "2"], given="category").kind == "category"
    assert decide("n", ["1", "x", "3"], given="number").form == "plain"
    with pytest.raises(
        ReadError, match=r"--set reading.numeric=n: most values are not numbers, such as 'a'"
    ):
        decide("n", ["a", "b"], given="number")
    with pytest.raises(
        ReadError, match=r"--set reading.date=n: most values are not dates.* 31\.03\.2024"
    ):
        decide("n", ["a", "b"], given="date")


def test_numbers_that_stand_for_none():
    values = ["36.5", "-999", "38.1", "37.2", "-999", "39"]
    decision = decide("temperature", values)
    assert decision.nothing == -999.0
    assert "-999 is no value (reading.numeric keeps it)" in decision.note
    assert decide("temperature", values, given="number").nothing is None
    assert decide("n", ["999", "999", "800", "1200"]).nothing is None
    assert (
        decide("temperature", [f"{v} °C" if v[0] != "-" else v for v in values]).nothing == -999.0
    )


def test_what_is_said_of_numbers_with_words():
    values = [f"{k},5" for k in range(30)] + ["s/d"] * 5
    assert decide("n", values, commas="european").note == "1.234,5 is 1234.5; 's/d' is no value"
    decision = decide("n", [f"{k} cm" for k in range(30)] + ["1 m", "2 m"])
    assert (decision.unit, decision.note) == ("cm", "unit cm, m converted")
    assert decide("t", ["0:30", "12:15", "7:05 pm"]).note == "1:30 is 1.5"


def two(*texts, given=None):
    return LabelRule.of_two("y", texts, given, source="a.csv")


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["0", "1"], (0, 1)),
        (["1.0", "-1", "1"], (-1, 1)),
        (["0.5", "2"], (0.5, 2)),
        (["1000002", "1000001"], (1000001, 1000002)),
        (["003", "007", "007", "7"], ("003", "007")),
        (["9007199254740993", "9007199254740992"], ("9007199254740992", "9007199254740993")),
        (["0.1234567", "0.1234568"], (0.1234567, 0.1234568)),
        (["Yes", "no", "yes ", "NO"], ("NO", "Yes")),
        (["Y", "N", "yes", "no"], ("N", "Y")),
        (["true", "false", "1", "0"], ("0", "1")),
        (["benign", "malignant", "malignant"], ("benign", "malignant")),
        (["<=50K", ">50K", "<=50K"], ("<=50K", ">50K")),
        (["a", "a", "b"], ("a", "b")),
        (["a", "b", "b"], ("b", "a")),
    ],
)
def test_two_classes(texts, values):
    rule = two(*texts, "", "NA")
    assert len(rule.values) == 2
    assert rule.values[1] == values[1] or str(rule.values[1]).lower() == str(values[1]).lower()
    y, wrong = rule.apply(polars.Series([*texts, "NA", "surely not"]))
    assert set(y[: len(texts)]) == {0.0, 1.0}
    assert list(wrong) == [len(texts), len(texts) + 1]
    assert LabelRule.from_state(rule.state()) == LabelRule(
        rule.column, rule.kind, rule.values, dict(rule.codes), rule.style
    )


def test_a_word_for_unknown_is_no_class():
    rule = two("no", "yes", "Unknown", "no", "pending")
    assert rule.values == ("no", "yes")
    assert "'Unknown', 'pending' are no class; such rows are left out" in rule.note
    assert list(rule.apply(polars.Series(["yes", "unknown"]))[1]) == [1]
    # of two it is one
    assert two("known", "unknown", "known").values == ("known", "unknown")
    assert two("Y", "N", "yes", "unknown").values == ("N", "Y")


def test_classes_that_are_given():
    rule = two("good", "Bad", "so so", given=("good", "bad"))
    y, wrong = rule.apply(polars.Series(["GOOD", "bad", "so so"]))
    assert y[:2].tolist() == [0.0, 1.0]
    assert wrong == {2: "label 'so so' is not among the classes"}
    long = ("9007199254740992", "9007199254740993")
    assert two(*long, given=long).apply(polars.Series(long))[0].tolist() == [0.0, 1.0]
    assert two("003", "007").apply(polars.Series(["3", "007", "7.0"]))[0].tolist() == [
        0.0,
        1.0,
        1.0,
    ]
    with pytest.raises(ReadError, match=r"no row of 'y' is 'x'; its labels are 'a', 'b'"):
        two("a", "b", given=("a", "x"))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", "a"], "has the label a, and two are needed; check --label"),
        ([""], r"has the labels \(none\)"),
        (["a", "b", "c"], "name two with --classes"),
        (["no", "yes", "no", "57"], r"no \(2 rows\), 57 \(1 row\), yes \(1 row\)"),
        ([str(k) for k in range(50)], "--problem entropy"),
    ],
)
def test_labels_that_are_not_two(texts, message):
    with pytest.raises(ReadError, match=message):
        two(*texts)


def test_other_labels():
    assert LabelRule.of_numbers("y", ["1,5", "2,5"], "european", "a").apply(polars.Series(["3,5"]))[
        0
    ] == [3.5]
    with pytest.raises(ReadError, match="must be numbers here, and 'a' is not one"):
        LabelRule.of_numbers("y", ["a", "b"], "english", "a.csv")
    groups = LabelRule.of_groups("y", ["b", "A", "c"], "a.csv")
    assert groups.apply(polars.Series(["a", "B", "d"]))[0][:2].tolist() == [0.0, 1.0]
    with pytest.raises(ReadError, match="two or more"):
        LabelRule.of_groups("y", ["a", ""], "a.csv")
    # a float would merge the first two, and write the last one without its zero
    digits = ["9007199254740992", "9007199254740993", "01"]
    assert LabelRule.of_groups("y", digits, "a.csv").values == ("01", *digits[:2])
    assert LabelRule.of_groups("y", ["0", "1.0", "-2"], "a.csv").kind == "numbers"
    # The estimators refuse them, too, and know neither the file nor the program's way out.
    with pytest.raises(
        ReadError, match=r"a\.csv: the label 'y' holds fractions, as '1\.5', .*entropy"
    ):
        LabelRule.of_groups("y", ["0", "1.5", "-2"], "a.csv")


def test_queries_that_are_texts():
    found, wrong = query_numbers(polars.Series(["12", "q-1", "q-2", "q-1", ""]))
    assert found[0] == 12
    assert found[1] == found[3] != found[2]
    assert wrong == {4: "the query is missing"}
    assert query_numbers(polars.Series(["q-2"]))[0][0] == found[2]


@pytest.mark.parametrize(
    "change",
    [{"column": 3}, {"kind": "x"}, {"style": "x"}, {"values": [True, 1]}, {"codes": {"a": 7}},
     {"codes": None}, {"values": ["a"]}, {"codes": {"a": True}}],
)  # fmt: skip
def test_a_damaged_rule_is_refused(change):
    with pytest.raises(ValueError, match="saved"):
        LabelRule.from_state({**two("a", "b").state(), **change})


def test_a_running_number_with_gaps_is_an_id():
    rng = np.random.default_rng(0)
    gone = np.sort(rng.choice(300, 200, replace=False)) + 5000
    for numbers in (gone, rng.permutation(gone), gone[:30]):
        assert decide("nr", [str(k) for k in numbers]).kind == "id"
    # every tenth row of a file of 3,000
    thinned = [str(k) for k in np.flatnonzero(rng.random(4000) < 0.75)[::10]]
    assert decide("nr", thinned, step=10).kind == "id"


def test_measured_whole_numbers_are_no_ids():
    rng = np.random.default_rng(1)
    for numbers in (
        rng.integers(0, 60, size=50),  # some repeat
        rng.permutation(np.unique(rng.integers(0, 10**6, size=200))),  # a wide range
        np.unique((1000 * rng.lognormal(size=100)).astype(int)),  # sorted, with long tails
        rng.permutation(90)[:30],  # too few to tell, and not in order
    ):
        assert decide("pay", [str(k) for k in numbers]).kind == "number"


def test_what_is_read_alike_is_told():
    found = decide("rate", ["12%", "7 %", ".789", "n/a"])
    assert (found.kind, found.note) == ("number", "per cent, .789 is .789 % too")
    assert decide("rate", ["12%", "7 %", "n/a"]).note == "per cent"
    found = decide("price", ["$3.10", "€4", "5 USD", "6", "-$7"])
    assert (found.kind, found.note) == (
        "number",
        "$ and USD and € count alike, nothing is converted",
    )
    assert decide("price", ["$3.10", "$4", "-$7", "8"]).note == ""
