# SPDX-License-Identifier: BSD-3-Clause
import gzip
import io
import random

import pytest

from pairlearn.streams import ReadError
from pairlearn.streams.readers.open import find_format
from pairlearn.tables import TextTable, open_table


def rows_of(content, **options):
    table = TextTable(io.BytesIO(content), **options)
    blocks = list(table.blocks())
    rows = [row for block in blocks for row in block.frame.iter_rows()]
    return table, rows, [pair for block in blocks for pair in block.refused]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("delimiter", [b",", b";", b"\t", b"|"])
def test_forms(end, mark, delimiter):
    lines = [b"name", b"x"], [b'"a,b;c|d\te ""q"""', b"1"], [b"", b"2"], [b'"two', b'lines"', b"3"]
    content = mark + end.join(
        [delimiter.join(lines[0]), delimiter.join(lines[1]), b"", delimiter.join(lines[2]),
         lines[3][0] + end + delimiter.join(lines[3][1:])]
    )  # fmt: skip
    table, rows, refused = rows_of(content)
    assert table.names == ("name", "x")
    assert table.delimiter == delimiter.decode()
    assert rows == [('a,b;c|d\te "q"', "1"), ("", "2"), ("two\nlines", "3")]
    assert refused == []


def test_lines_are_counted():
    table = TextTable(io.BytesIO(b'a,b\n1,2\n\n"x\ny",3\n4,5\n'))
    [block] = table.blocks()
    assert block.lines.tolist() == [2, 4, 6]
    assert block.line == 7


def test_rows_that_are_refused():
    _, rows, refused = rows_of(b'a,b\n1,2\n3\n4,5,6\n7,8,\n"x"y,9\n10,11\n"open,12\n')
    assert rows == [("1", "2"), ("7", "8"), ("10", "11")]
    assert [line for line, _ in refused] == [3, 4, 6, 8]
    assert refused[0][1] == "it has 1 fields where 2 are expected"
    assert refused[-1][1] == "a quote is opened and never closed"


def test_a_quote_in_the_middle_that_is_never_closed():
    """Rows after an open quote are read again, each once, and not swallowed."""
    content = b'a,b\n1,2\n"open,3\n' + b"4,5\n" * 50_000
    _, rows, refused = rows_of(content)
    assert len(rows) == 50_001
    assert [line for line, _ in refused] == [3]
    with pytest.raises(ReadError, match="more than 100 quotes are not closed"):
        rows_of(b"a,b\n" + b'"open,3\n4,5\n' * 5_001)


def test_what_is_no_utf8():
    table, rows, _ = rows_of("größe,x\nklein,1\n".encode("cp1252"))
    assert table.names == ("größe", "x")
    assert table.notes == ("text is not UTF-8, read as Windows-1252",)
    assert rows == [("klein", "1")]


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-be", "utf-16-le"])
@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_utf16(coding, packed):
    """As spreadsheets write it; letters beyond the first plane have two units."""
    text = "größe,😀\n" + "".join(f"ünï{k},{k}\n" for k in range(3000))
    content = text.encode(coding) if coding == "utf-16" else ("\ufeff" + text).encode(coding)
    table, rows, refused = rows_of(packed(content))
    assert table.names == ("größe", "😀")
    assert rows == [(f"ünï{k}", str(k)) for k in range(3000)]
    assert refused == []
    cut = rows_of(packed(content[:-1]))[1]  # half of the last unit is missing
    assert cut[:2999] == rows[:2999]


@pytest.mark.parametrize(
    ("above", "delimiter", "note"),
    [
        ("sep=;\r\n", ";", ()),
        ("Sales of 2024\nwritten, by: nobody\n", ";", ("2 lines above the header left out",)),
        ("Sales;;\n\n", ";", ("2 lines above the header left out",)),
        ("Sales\n", ",", ("1 line above the header left out",)),
        ("Sales;;\nGroup;;\n", ";", ("2 lines above the header left out",)),
    ],
)
def test_lines_above_the_header(above, delimiter, note):
    rest = f"a{delimiter}b{delimiter}c\n" + f"1{delimiter}2{delimiter}x y\n" * 9
    content = (above + rest).encode()
    table, rows, refused = rows_of(content)
    assert (table.names, table.delimiter, table.notes) == (("a", "b", "c"), delimiter, note)
    assert rows == [("1", "2", "x y")] * 9
    assert refused == []
    [first, *_] = TextTable(io.BytesIO(content)).blocks(size=4)
    assert first.lines[0] == above.count("\n") + 2
    [again, *_] = TextTable(io.BytesIO(content)).blocks(skip=first.line, size=4)
    assert again.lines[0] == first.lines[0] + 4


def test_decimal_commas_are_no_lines_above_the_header():
    content = b"a;b;c\n" + b"1,5;2,5;x\n" * 9
    table, rows, _ = rows_of(content)
    assert (table.names, table.delimiter, table.notes) == (("a", "b", "c"), ";", ())
    assert len(rows) == 9
    assert rows_of(b"Sales, 2024\n\n" + content)[0].names == ("a", "b", "c")


def test_names_of_groups_of_columns():
    content = b"Patient,,,Lab,\nid,age,sex,bmi,died\n1,50,m,21.5,0\n2,60,f,,1\n"
    table, rows, _ = rows_of(content)
    assert table.names == ("id", "age", "sex", "bmi", "died")
    assert table.notes == ("1 line above the header left out",)
    assert len(rows) == 2
    named = rows_of(content.replace(b"Patient,,,Lab,", b"a,b,c,d,"))[0].names
    assert named == ("a", "b", "c", "d", "column 5")


def test_names_of_rows():
    table, rows, refused = rows_of(b'"a","y"\n"1",2.5,0\n"2",3.5,1\n"3",,1\n"a","y"\n')
    assert table.names == ("row", "a", "y")
    assert rows == [("1", "2.5", "0"), ("2", "3.5", "1"), ("3", "", "1")]
    assert refused == [(5, "it repeats the header")]
    assert table.notes == ("rows have one field more than the header: the first is 'row'",)
    assert rows_of(b"a,y\n1,2,\n3,4,\n5,6,\n")[0].names == ("a", "y")


def test_comments_above_the_header():
    rest = b"a,b,y\n" + b"1,2,3\n" * 9
    table, rows, _ = rows_of(b"# made by X, 2024\n# do not edit\n" + rest)
    assert (table.names, len(rows)) == (("a", "b", "y"), 9)
    assert table.notes == ("2 lines above the header left out",)
    assert rows_of(b"# do, not, edit\n" + rest)[0].names == ("a", "b", "y")
    assert rows_of(b"#" + rest)[0].names == ("#a", "b", "y")
    assert rows_of(b"# made by, X\n#" + rest)[0].names == ("#a", "b", "y")


def test_a_name_in_two_lines():
    table, rows, _ = rows_of(b'"a;\n(unit)";"b;c";y\n' + b"1;2;3\n" * 9)
    assert table.names == ("a; (unit)", "b;c", "y")
    assert (len(rows), table.notes) == (9, ())


def test_spaces_around_fields():
    assert rows_of(b'a, b , "y, z"\n1, 2 , "x, y"\n')[1] == [("1", "2 ", "x, y")]
    table, rows, refused = rows_of(b"  a   b y\n 1   2 3\n 4 5   6 \n")
    assert (table.names, table.delimiter) == (("a", "b", "y"), " ")
    assert rows == [("1", "2", "3"), ("4", "5", "6")]
    assert refused == []
    assert rows_of(b"some words\nof a\ntext that is long\n")[0].names == ("some words",)


def test_quotes_of_one_stroke():
    table, rows, _ = rows_of(b"a;'y'\n1.5;'x;y'\n2.5;'z'\n3.5;''\n")
    assert (table.names, rows[0], rows[2]) == (("a", "y"), ("1.5", "x;y"), ("3.5", ""))
    assert rows_of(b"a,y\nit's,1\nit's,2\n5',3\n")[1][2] == ("5'", "3")


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_last_line_of_totals(size):
    def read(content):
        blocks = list(TextTable(io.BytesIO(content)).blocks(size=size))
        refused = [pair for block in blocks for pair in block.refused]
        return [line for block in blocks for line in block.lines.tolist()], refused

    lines, refused = read(b"shop,area,sold\na,7,1\nb,8,2\nTotal:,,3\n")
    assert lines == [2, 3]
    assert refused == [(4, "it adds up the lines above it ('Total:')")]
    for content in (
        b"shop,area,sold\na,7,1\nTotal,,3\nb,8,2\n",  # not the last one
        b"shop,area,sold\na,7,1\nTotal,8,3\n",  # nothing is left out of it
        b"shop,area,sold\na,7,1\nb,,3\n",
    ):
        assert read(content)[1] == []


def test_a_header_with_one_name():
    assert rows_of(b",y\n1,2\n3,4\n5,6\n")[0].names == ("column 1", "y")
    assert rows_of(b"y\n1\n2\n3\n")[0].names == ("y",)
    assert rows_of(b"y\na b, c\nd, e\nf, g\nh, i\n")[0].names == ("a b", "c")


def test_columns_of_one_name():
    table, rows, _ = rows_of(b"a,b,a,a (2)\n1,2,3,4\n")
    assert table.names == ("a", "b", "a (3)", "a (2)")
    assert table.repeated == ("a",)
    assert "'a', are told apart" in table.notes[0]
    assert rows == [("1", "2", "3", "4")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"1,2\n3,4\n", "pass --set reading.header=false"),
        (b'"a,b\n1,2\n', "cannot be split into fields"),
    ],
)
def test_files_that_are_refused(content, message):
    with pytest.raises(ReadError, match=message):
        rows_of(content)


def test_no_header_and_names():
    assert rows_of(b"1,2\n3,4\n", header=False)[1] == [("1", "2"), ("3", "4")]
    assert rows_of(b",x, y \n1,2,3\n")[0].names == ("column 1", "x", "y")
    assert rows_of(b"a,b,,\n1,2,,\n")[1] == [("1", "2")]
    with pytest.raises(ReadError, match="one character"):
        rows_of(b"a\n", delimiter="::")


def test_blocks_go_on_from_a_place():
    content = b"\xef\xbb\xbfa,b\n" + b"".join(b'%d,"x\ny"\n' % k for k in range(100))
    blocks = list(TextTable(io.BytesIO(content)).blocks(size=7))
    for k, block in enumerate(blocks[:-1]):
        rest = list(TextTable(io.BytesIO(content)).blocks(skip=block.line, size=7))
        for one, other in zip(rest, blocks[k + 1 :], strict=True):
            assert one.frame.equals(other.frame)
            assert one.lines.tolist() == other.lines.tolist()
            assert one.line == other.line
    with pytest.raises(ReadError, match="shorter than it was"):
        list(TextTable(io.BytesIO(content)).blocks(skip=10**6))


def test_compressed_and_parquet(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a,b\n1,x\n"))
    [block] = open_table(tmp_path / "a.csv.gz", "csv").blocks()
    assert block.frame.to_dict(as_series=False) == {"a": ["1"], "b": ["x"]}
    pytest.importorskip("pyarrow")
    import datetime

    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table(
        {
            "n": [1.5, None, 3.0],
            "when": [datetime.date(2024, 1, 31), None, datetime.date(2024, 2, 1)],
            "flag": [True, False, None],
            "level": pyarrow.array(["a", "b", None]).dictionary_encode(),
            "parts": [[1], [2], [3]],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ReadError, match="leave it out with --exclude 'parts'"):
        list(open_table(tmp_path / "t.parquet", "parquet").blocks())
    source = open_table(tmp_path / "t.parquet", "parquet", leave_out=["parts"])
    [block] = source.blocks()
    assert {name: block.texts(name) for name in source.names} == {
        "n": ["1.5", "", "3"],
        "when": ["2024-01-31", "", "2024-02-01"],
        "flag": ["true", "false", ""],
        "level": ["a", "b", ""],
    }
    [rest] = source.blocks(skip=3)
    assert rest.lines.tolist() == [3]
    with pytest.raises(ReadError, match="no named columns"):
        open_table("a.svm", "svmlight")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_of_parquet_are_hours_whatever_their_unit(tmp_path, unit):
    """pandas writes nanoseconds and polars microseconds: numbers of ticks are not comparable."""
    pytest.importorskip("pyarrow")
    import datetime

    import pyarrow.parquet

    spans = [datetime.timedelta(minutes=30), None, datetime.timedelta(days=-400, hours=5)]
    table = pyarrow.table({"span": pyarrow.array(spans, pyarrow.duration(unit))})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    [block] = open_table(tmp_path / "t.parquet", "parquet").blocks()
    assert block.texts("span") == ["0.5", "", "-9595"]


def test_an_interval_of_calendar_time_is_refused_by_name(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    spans = pyarrow.array([(1, 2, 3), None], pyarrow.month_day_nano_interval())
    table = pyarrow.table({"a": [1.0, 2.0], "span": spans})
    with pyarrow.ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ReadError, match=r"'span' is an interval .* --exclude 'span'"):
        list(open_table(tmp_path / "t.arrow", "arrow").blocks())
    source = open_table(tmp_path / "t.arrow", "arrow", leave_out=["span"])
    assert [block.texts("a") for block in source.blocks()] == [["1", "2"]]


@pytest.mark.parametrize(
    ("name", "content", "cure"),
    [
        ("a.xlsx", b"PK\x03\x04", "save the sheet as CSV"),
        ("a.xls", b"\xd0\xcf\x11\xe0", "save the sheet as CSV"),
        ("a.zip", b"PK\x03\x04", "unpack it"),
        ("a", b"PK\x03\x04", "unpack it"),
        ("a.jsonl", b"{}", "is JSON; write its rows as CSV or Parquet"),
        ("a.dat", b"1 2", "neither the content nor the name tells the format"),
        ("a.txt", b"some words,\nand more\n", "neither the content nor the name tells the format"),
    ],
)
def test_what_people_have_and_nobody_reads(name, content, cure, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ReadError, match=cure):
        find_format(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'a,y\n"1,5",0\n', "csv"),
        (b"a;y\n1,5;0\n", "csv"),
        (b"a\ty\n1\t0\n", "tsv"),
        (b"1 1:2 3:4.5\n-1 2:7 # seen\n", "svmlight"),
        (b"2 qid:1 1:2\n1 qid:1 1:3\n", "svmlight"),
        # Without the time, which would be part of the test's name, another in each worker.
        (gzip.compress(b"a|y\n1|0\n", mtime=0), "csv"),
    ],
)
def test_texts_whose_name_says_nothing(content, kind, tmp_path):
    for name in ("a.txt", "a.data", "a"):
        (tmp_path / name).write_bytes(content)
        assert find_format(tmp_path / name) == kind


def test_both_ways_split_alike():
    """polars splits what holds no quote, and the csv module all else."""
    rng = random.Random(0)
    for _ in range(300):
        lines = ["".join(rng.choices("ab01,, .-", k=rng.randint(0, 9))) for _ in range(9)]
        table = TextTable(io.BytesIO(b"a,b,c\n1,2,3\n4,5,6\n"), delimiter=",")
        one = table._split("\n".join(lines) + "\n", lines)
        other = table._parsed(lines)
        assert one[0].equals(other[0]), lines
        assert (one[1].tolist(), one[2]) == (other[1].tolist(), other[2]), lines
