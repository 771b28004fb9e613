# SPDX-License-Identifier: BSD-3-Clause
"""A record of a private CSV file is one row, whatever it holds."""

import csv
import io

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pairlearn.cli.private.records import PublicFacts, read_rows

NAMES = ("a", "b", "y")


def facts(**changed):
    nothing = (0.0, 0.0)
    return PublicFacts(("a", "b"), nothing, nothing, (0, 0), "y", **changed)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("records") / "rows.csv"


def read(path, text, **changed):
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    rows = read_rows(path, facts(**changed))
    return [[*x, y] for x, y in zip(rows.X, rows.y, strict=True)]


AWKWARD = st.text(st.sampled_from('",\n\r\0\x0c\x1c\x85\u2028 a1\ufeff'), max_size=8)
CELLS = AWKWARD | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@settings(max_examples=200, deadline=None)
@given(
    table=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    delimiter=st.sampled_from([",", ";", "\t"]),
)
def test_what_a_csv_writer_writes_is_one_row_a_record(path, table, quoting, delimiter):
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=quoting, delimiter=delimiter, lineterminator="\r\n")
    writer.writerows([NAMES, *table])
    found = read(path, file.getvalue(), delimiter=delimiter, line_ends_in_fields=True)
    assert found == [list(row) for row in table]


PLAIN = [f"{k},{k + 1},no" for k in range(6)]
ONE_LINE = st.text(st.sampled_from('"",\r\0\x0c\x1c\x85\u2028 a1'), max_size=12) | st.text(
    st.characters(exclude_characters="\n", exclude_categories=["Cs"])
)


@settings(max_examples=300, deadline=None)
@given(record=ONE_LINE, place=st.integers(0, 5))
@example(record='"never closed', place=0)
@example(record='1,"', place=5)
def test_one_broken_record_leaves_the_others_as_they_are(path, record, place):
    lines = [*PLAIN]
    lines[place] = record
    found = read(path, "\n".join([",".join(NAMES), *lines]) + "\n")
    assert len(found) == len(PLAIN)
    del found[place]
    assert found == [line.split(",") for k, line in enumerate(PLAIN) if k != place]


@settings(max_examples=200, deadline=None)
@given(lines=st.lists(ONE_LINE, min_size=2, max_size=6), other=ONE_LINE, data=st.data())
def test_each_line_is_a_row_if_the_facts_say_so(path, lines, other, data):
    # Here the other lines may be as broken as can be.
    place = data.draw(st.integers(0, len(lines) - 1))
    changed = [other if k == place else line for k, line in enumerate(lines)]
    header = ",".join(NAMES)
    before, after = (read(path, "\n".join([header, *part]) + "\n") for part in (lines, changed))
    assert len(before) == len(after) == len(lines)
    del before[place], after[place]
    assert before == after


@settings(max_examples=100, deadline=None)
@given(record=st.binary(max_size=12).filter(lambda b: b"\n" not in b and b'"' not in b))
def test_bytes_that_are_no_text_stay_in_their_record(path, record):
    plain = [line.encode() for line in PLAIN]
    found = read(path, b"\n".join([b"a,b,y", record, *plain]) + b"\n")
    assert found[1:] == [line.split(",") for line in PLAIN]


@pytest.mark.parametrize(
    ("lines", "rows"),
    [
        # Line ends in quotes belong to the field, other fields of the record may have them too.
        (['1,"x\ny",no', "2,3,yes"], [["1", "x\ny", "no"], ["2", "3", "yes"]]),
        (['"x\ny","p\n\nq",no'], [["x\ny", "p\n\nq", "no"]]),
        # A forged row inside a field is no row.
        (['1,"x\n5,6,yes\n7",no'], [["1", "x\n5,6,yes\n7", "no"]]),
        # A quote that closes where the record would not be one: each line is a row.
        (['"x', '2",3', "4,5,no"], [['"x', None, None], ['2"', "3", None], ["4", "5", "no"]]),
        (['"x', 'y"z,2,no'], [['"x', None, None], ['y"z', "2", "no"]]),
        # Text after a quote, and quotes inside a field.
        (['"x"z,2,no', '5" pipe,2,no'], [['"x"z', "2", "no"], ['5" pipe', "2", "no"]]),
        (['"a ""b""",2,no', '"",,'], [['a "b"', "2", "no"], ["", "", ""]]),
    ],
)
def test_where_a_record_ends(path, lines, rows):
    text = "\n".join(["a,b,y", *lines]) + "\n"
    assert read(path, text, line_ends_in_fields=True) == rows


@pytest.mark.parametrize("first", ["17,4,yes", '"17,4,yes', "", "a,b", "a,a,b,y", "secret"])
def test_a_first_line_without_names_does_not_show(path, first):
    with pytest.raises(ValueError, match=r"each of the columns 'a', 'b', 'y' exactly once") as told:
        read(path, f"{first}\n18,5,no\n")
    assert "17" not in str(told.value)
    assert "secret" not in str(told.value)
