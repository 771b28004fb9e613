# SPDX-License-Identifier: BSD-3-Clause
import pytest

from pairlearn.data import PAPER_SETS
from pairlearn.experiments.published import TABLES, beside, published_table
from pairlearn.experiments.report.comparison import beside_table


def test_tables_have_the_papers_shape():
    assert list(TABLES) == [
        "table1",
        "table-rs1",
        "table-dp-diabetes",
        "table-dp-german",
        "table-dp-time-auc",
        "table-dp-time",
    ]
    for table in TABLES.values():
        assert len(table.cells()) == 6 * len(table.rows)
        for value in table.cells().values():
            assert value.sd > 0
            assert value.mean > 0
    assert published_table("table1").columns == PAPER_SETS


def test_numbers_of_the_papers_first_row():
    ours = published_table("table1").rows["ours"]
    assert [value.mean for value in ours] == [0.831, 0.793, 0.934, 0.810, 0.932, 0.926]
    assert [value.sd for value in ours] == [0.030, 0.021, 0.002, 0.007, 0.001, 0.006]


def test_sums_guard_the_transcription():
    sums = {name: round(sum(v.mean for v in t.cells().values()), 3) for name, t in TABLES.items()}
    assert sums == {
        "table1": 26.013,
        "table-rs1": 34.321,
        "table-dp-diabetes": 13.950,
        "table-dp-german": 13.082,
        "table-dp-time-auc": 8.790,
        "table-dp-time": 10.224,
    }


@pytest.mark.parametrize(
    ("mean", "verdict", "difference"),
    [
        (0.8004, "below", -0.031),
        (0.801, "within", -0.030),
        (0.8006, "within", -0.030),
        (0.861, "within", 0.030),
        (0.862, "above", 0.031),
    ],
)
def test_verdict_compares_numbers_as_printed(mean, verdict, difference):
    (row,) = beside(published_table("table1"), {("ours", "diabetes"): (mean, 0.01)})
    assert row.verdict == verdict
    assert row.difference == pytest.approx(difference)


def test_cells_that_one_side_lacks_are_left_out():
    rows = beside(published_table("table1"), {("mine", "diabetes"): (0.8, 0.1)})
    assert rows == []


def test_text_keeps_the_papers_order():
    ours = {("sgd-pair", "usps"): (0.9, 0.01), ("ours", "german"): (0.8, 0.02)}
    table = beside_table(beside(published_table("table-rs1"), ours))
    lines = table.text.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["ours", "german"], ["sgd-pair", "usps"]]
    assert "-0.025" in lines[2]
    assert lines[2].endswith("below")


def test_unknown_names():
    with pytest.raises(ValueError, match="table-dp-time"):
        published_table("table2")
