# SPDX-License-Identifier: BSD-3-Clause
"""Examples of the inner functions of this room."""

import numpy as np

from pairlearn.tables.copies import copies_line
from pairlearn.tables.dates import date_order, parse_date, parse_dates
from pairlearn.tables.kinds import _nothing, _with_words
from pairlearn.tables.labels import query_numbers
from pairlearn.tables.layout import (
    _comments,
    _is_of_groups,
    filled_width,
    find_delimiter,
    find_quote,
    has_row_names,
    lines_above,
)
from pairlearn.tables.rows import _is_total, different, no_column
from pairlearn.tables.units import converted, parse_clock, unit_of, without_unit
from pairlearn.tables.values import (
    _unsigned,
    cut,
    file_style,
    is_missing,
    parse_each,
    parse_number,
    parse_numbers,
    style_of,
    yes_or_no,
)
from pairlearn.tables.word_columns import _one_spelling


def test_parse_date():
    assert (parse_date("1970-01-02 12:00", "ymd"), parse_date("31.01.1970", "dmy")) == (1.5, 30.0)
    assert (parse_date("Feb 1, 1970", "mdy"), parse_date("31.02.1970", "dmy") is None) == (
        31.0,
        True,
    )


def test_parse_dates():
    assert repr(parse_dates(["1970-01-03", "", "soon"], "ymd")) == "(array([ 2., nan, nan]), [2])"


def test_date_order():
    assert (date_order(["01/02/2024", "03/25/2024"], european=False)) == ("mdy", 1.0, True)
    assert (date_order(["01/02/2024"], european=False)) == ("mdy", 1.0, False)


def test_with_words():
    assert (
        _with_words("weight", {**{str(k): 1 for k in range(40)}, "n.d.": 9}, "plain", "").note
    ) == "'n.d.' is no value"
    assert (
        _with_words("sodium", {**{f"{k}.5": 1 for k in range(40)}, "<0.5": 3}, "plain", "").note
    ) == "<5 is 5"
    assert _with_words("grade", {"1": 9, "2": 8, "3": 7, "none given": 9}, "plain", "") is None


def test_nothing():
    assert (_nothing({"-999": 4, "36.5": 9, "38.2": 7}, "plain")) == -999.0
    assert _nothing({"999": 4, "800": 9, "1100": 7}, "plain") is None


def test_query_numbers():
    assert repr(query_numbers(["7", "8"])[0]) == "array([7, 8])"
    # What int() does not read, or reads by the digits of another script, is a text.
    odd = ["²", "--5", "-", "\uff11\uff12"]
    found, wrong = query_numbers([*odd, "12", "-5"])
    assert len(set(found.tolist())) == 6
    assert found[4:].tolist() == [12, -5]
    assert not wrong
    # An id is its text: 01 is another one than 1.
    assert len(set(query_numbers(["1", "01", "001", "-1", "-01", "0", "00", "-0"])[0])) == 8


def test_lines_above():
    assert (lines_above(["Sales 2024", "", "a,b", "1,2", "3,4"], None)) == 2
    assert (lines_above([",y", "1,2", "3,4", "5,6"], None)) == 0
    assert (lines_above(["# made by X, 2024", "a,b,y", "1,2,3", "4,5,6"], None)) == 1


def test_comments():
    assert (_comments(["# a", "#x,y", "1,2"], [["# a"], ["#x", "y"], ["1", "2"]], 2)) == 1


def test_is_of_groups():
    assert _is_of_groups([["Patient", "", ""], ["id", "age", "sex"], ["1", "2", "m"]])
    assert not _is_of_groups([["", "age", "sex"], ["1", "2", "m"], ["2", "3", "f"]])


def test_find_delimiter():
    assert (find_delimiter(["a;b", "1,5;2", "3,25;4"])) == ";"


def test_find_quote():
    assert (
        find_quote(["a;b", "'x';1", "'y';2", "'z';3"], ";"),
        find_quote(["a", "it's", "5'"], ","),
    ) == ("'", '"')


def test_has_row_names():
    assert has_row_names(["a,b", "x,1,2", "y,3,4"], ",", '"')
    assert not has_row_names(["a,b", "1,2,", "3,4,"], ",", '"')


def test_filled_width():
    assert (filled_width(["a,b,,", "1,2,,", "3,,,"], ",", '"')) == 2


def test_is_total():
    assert _is_total([["1", "a", "7"], ["Total", "", "7"]])
    assert not _is_total([["total", "a", ""], ["Total", "", "7"]])


def test_different():
    assert (different(["a", "b", "a", "a (2)", "a"])) == ("a", "b", "a (3)", "a (2)", "a (4)")


def test_no_column():
    assert str(no_column("churn", ["Age", "Churn?"], "a.csv", "label")) == (
        "a.csv has no label column 'churn' (did you mean 'Churn?'?); its columns: 'Age', 'Churn?'."
    )


def test_unit_of():
    assert (
        unit_of({"1 year": 3, "2 years": 4}),
        unit_of({"950": 5, "1.2k": 5}),
        unit_of({"A7": 9}),
    ) == ("year", "k, M, B", "")
    assert (unit_of({"1.5 kg": 5, "800 g": 2}), unit_of({"8:30": 5, "17:05": 2})) == ("kg", "h:mm")


def test_converted():
    assert (converted(["1.5 kg", "800 g", "5 °C", "7"], "kg")) == ("g",)


def test_parse_clock():
    assert (parse_clock("1:30"), parse_clock("8:15 pm"), parse_clock("16:9") is None) == (
        1.5,
        20.25,
        True,
    )


def test_without_unit():
    assert (without_unit("36 months", "month"), without_unit("1.5k", "k, M, B")) == (
        ("36", 1.0),
        ("1.5", 1000.0),
    )
    assert (without_unit("5 lb", "kg"), without_unit("5 °C", "kg")) == (
        ("5", 0.45359237),
        ("5 °C", 1.0),
    )


def test_cut():
    assert (cut("a long story", 8)) == "a long …"


def test_is_missing():
    assert (is_missing(" N/A "), is_missing("0")) == (True, False)


def test_yes_or_no():
    assert (yes_or_no(" Yes"), yes_or_no("F"), yes_or_no("maybe")) == (True, False, None)


def test_parse_number():
    assert (parse_number("1.234,5", "european"), parse_number("$1,234.50", "english")) == (
        1234.5,
        1234.5,
    )
    assert (parse_number("($12.50)", "english"), parse_number("36 months", unit="month")) == (
        -12.5,
        36.0,
    )
    assert (parse_number("1_000") is None, parse_number("inf") is None) == (True, True)


def test_unsigned():
    assert (_unsigned("-$5"), _unsigned("USD -5"), _unsigned("(5 €)"), _unsigned("--5")) == (
        ("5", -1.0),
        ("5", -1.0),
        ("5", -1.0),
        ("-5", -1.0),
    )


def test_parse_numbers():
    assert repr(parse_numbers(["1", "", "x"], "plain")) == "(array([ 1., nan, nan]), [2])"


def test_parse_each():
    assert (
        repr(parse_each(["yes", "no", "-", "x"], yes_or_no)) == "(array([ 1.,  0., nan, nan]), [3])"
    )


def test_file_style():
    assert (file_style([["1.234,5"], ["7"]], ",")) == "european"
    assert (file_style([["1,234"]], ",")) == "english"


def test_style_of():
    assert (style_of(["1.234", "2.500"], "european"), style_of(["0.5", "1.234"], "european")) == (
        ("european", 1.0),
        ("plain", 1.0),
    )


def test_one_spelling():
    assert (
        repr(_one_spelling({"Visa": 3, "visa": 1, "cash": 2})) == "Counter({'Visa': 4, 'cash': 2})"
    )


def test_copies_line():
    X = np.random.default_rng(0).normal(size=(50, 2))
    (line,) = copies_line(np.concatenate([X, X]))
    assert line.startswith("50 of 100 rows are exact copies of others; ")
    assert copies_line(X > 0) == []
