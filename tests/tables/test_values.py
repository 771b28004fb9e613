# SPDX-License-Identifier: BSD-3-Clause
import math

import numpy as np
import polars
import pytest

from pairlearn.tables.dates import date_order, parse_date
from pairlearn.tables.kinds import decide
from pairlearn.tables.series import read_days, read_numbers
from pairlearn.tables.values import (
    CLOCK,
    MARKED,
    MULTIPLIED,
    file_style,
    groups_digits,
    is_missing,
    parse_number,
    style_of,
    unit_of,
    yes_or_no,
)


@pytest.mark.parametrize(
    ("text", "style", "number"),
    [
        ("12", "plain", 12.0),
        (" -1.5e3 ", "plain", -1500.0),
        (".5", "plain", 0.5),
        ("1,234", "plain", None),
        ("1_000", "plain", None),
        ("nan", "plain", None),
        ("inf", "plain", None),
        ("1e999", "plain", None),
        ("0x10", "plain", None),
        ("", "plain", None),
        ("1,234", "english", 1234.0),
        ("1,234,567.25", "english", 1234567.25),
        ("$ 1,234.50", "english", 1234.5),
        ("12%", "english", 12.0),
        ("1,23", "english", None),
        ("1,23,456.5", "english", 123456.5),
        ("12,3,456", "english", None),
        ("1.234", "english", 1.234),
        ("1.234", "european", 1234.0),
        ("0.234", "european", None),
        ("0,234", "english", None),
        ("0,234", "european", 0.234),
        ("1.234,5", "european", 1234.5),
        ("1 234,5 €", "european", 1234.5),
        ("0,5", "european", 0.5),
        ("-1.234.567", "european", -1234567.0),
        ("1.5", "european", None),
        ("-$5.00", "english", -5.0),
        ("$-5", "english", -5.0),
        ("($1,459.10)", "english", -1459.1),
        ("(5)", "plain", None),
        ("(-5)", "english", None),
        ("--5", "english", None),
        ("USD 13,459", "english", 13459.0),
        ("13.459,50 EUR", "european", 13459.5),
        ("\u22125 %", "english", -5.0),
        ("ABC 5", "english", None),
    ],
)
def test_numbers(text, style, number):
    assert parse_number(text, style) == number
    values, wrong = read_numbers(polars.Series([text, "7"]), style)
    assert values[1] == 7.0
    assert math.isnan(values[0]) if number is None else values[0] == number
    assert wrong.tolist() == [number is None and not is_missing(text), False]


def test_numbers_with_a_unit():
    texts = ["36 months", "1 Month", "7", "", "2 years", "2 kg"]
    found, wrong = read_numbers(polars.Series(texts), "plain", "month")
    assert found[[0, 1, 2, 4]].tolist() == [36.0, 1.0, 7.0, 24.0]
    assert np.flatnonzero(wrong).tolist() == [5]
    assert parse_number("1.2M", "plain", MULTIPLIED) == 1.2e6
    assert parse_number("950", "plain", MULTIPLIED) == 950.0
    assert parse_number("-3,5 °C", "european", "°c") == -3.5
    assert unit_of({"5 m": 3, "7 m": 2}) == "m"
    assert parse_number("800 g", "plain", "kg") == 0.8
    assert parse_number("1,5 t", "european", "kg") == 1500.0
    assert parse_number("≤ 0,5", "european", MARKED) == 0.5
    assert parse_number("5", "plain", CLOCK) is None
    assert parse_number("12:30 am", "plain", CLOCK) == 0.5
    assert parse_number("13:30 pm", "plain", CLOCK) is None
    assert parse_number("100:00:36", "plain", CLOCK) == 100.01
    assert unit_of({"5 kg": 3, "7 °C": 3, "9 pieces": 3}) == ""
    assert unit_of({"1st": 3, "2nd": 3, "3rd": 3, "4th": 1}) == ""


def test_numbers_in_a_column_are_those_of_float(rng):
    numbers = rng.normal(size=500) * 10.0 ** rng.integers(-30, 30, 500)
    found, wrong = read_numbers(polars.Series([repr(float(v)) for v in numbers]), "plain")
    assert not wrong.any()
    assert found.tobytes() == numbers.tobytes()


@pytest.mark.parametrize(
    ("columns", "delimiter", "style"),
    [
        ([["1,5", "2,25"]], ",", "european"),
        ([["1,234.5"]], ";", "english"),
        ([["1,234"]], ";", "european"),
        ([["1,234"]], ",", "english"),
        ([["a, b"], ["7"]], ",", "english"),
        # a point that groups no three digits is decimal, so that this comma groups
        ([["1,234", "896"], ["0.512", "-0.25"]], ";", "english"),
        ([["1.234", "2.345"], ["1.5", "2.25"]], ";", "english"),
        ([["1.234e+00", "2.345e-01"]], ";", "english"),
        ([["1.234", "12.345"], ["1.5", "red"]], ";", "european"),
        ([["1,5", "2,25"], ["1.5", "2.25"]], ";", "european"),
    ],
)
def test_the_style_of_a_file(columns, delimiter, style):
    assert file_style(columns, delimiter) == style


def test_the_style_of_a_column():
    assert style_of(["1.234", "12.000"], "european") == ("european", 1.0)
    assert style_of(["1.234", "12.5"], "european") == ("plain", 1.0)
    assert style_of(["1", "2"], "european") == ("plain", 1.0)
    assert style_of(["1,5", "x"], "english")[0] == "european"
    assert style_of(["a", "b"], "english") == ("plain", 0.0)


GROUPED = ["2,737", "4,846", "378", "12,608", "950", "$615", "(1,432)", "n/a"]


def test_a_mark_that_surely_groups_digits():
    """A semicolon made 2,737 less than 378, and a comma as delimiter did so to 2.737."""
    european = [text.replace(",", ".") for text in GROUPED]
    assert style_of(GROUPED[:6], "european") == ("english", 1.0)
    assert style_of(european[:6], "english") == ("european", 1.0)
    assert file_style([GROUPED], ";") == "english"
    # a column beside it may have decimal points
    assert file_style([european, ["1.234", "2.345"]], ",") == "english"
    for number in ("2,73", "2,7371", "0,737", "1432", "0.2,737"):
        assert not groups_digits([*GROUPED, number], ",")
        assert not groups_digits([*european, number.replace(",", ".")], ".")
    # numbers of too few kinds, among them 999 for a gap
    assert not groups_digits(["2,737", "4,846", "1,234", "0", "-1", "999", "7"], ",")
    assert not groups_digits(["378", "950", "615", "2,737"], ",")


@pytest.mark.parametrize("n", [19, 300])
@pytest.mark.parametrize("kind", ["thousands", "decimals"])
def test_a_column_of_whole_numbers_with_points(n, kind):
    """Also where a short way sees that all of them are plain numbers."""
    numbers = np.random.default_rng(0).integers(100, 5000, n)
    values = [f"{k:,}".replace(",", ".") for k in numbers.tolist()]
    if kind == "decimals":
        values[0] = "2.5"
    found = decide("price", values)
    assert (found.kind, found.form) == (
        "number",
        "european" if kind == "thousands" else "plain",
    )


def test_nothing_and_yes():
    assert all(map(is_missing, ["", "  ", "NA", "n/a", "NULL", "None", "?", "-", "NaN", "#N/A"]))
    assert not any(map(is_missing, ["0", "no", "nothing", "nano", "-1"]))
    assert [yes_or_no(t) for t in ("Yes", "TRUE", " y", "off", "1", "")] == [
        True, True, True, False, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "order", "moment"),
    [
        ("2024-02-29", "ymd", "2024-02-29"),
        ("2023-02-29", "ymd", None),
        ("2024/3/1", "ymd", "2024-03-01"),
        ("2024-03/01", "ymd", None),
        ("31.12.1999", "dmy", "1999-12-31"),
        ("31/12/99", "dmy", "1999-12-31"),
        ("31/12/24", "dmy", "2024-12-31"),
        ("12/31/1999", "mdy", "1999-12-31"),
        ("12/31/1999", "dmy", None),
        ("5 March 2021", "dmy", "2021-03-05"),
        ("05-Mar-2021", "dmy", "2021-03-05"),
        ("Mar 5, 2021", "mdy", "2021-03-05"),
        ("2024-01-01T13:30:15.5", "ymd", "2024-01-01T13:30:15.5"),
        ("2024-01-01 01:30 PM", "ymd", "2024-01-01T13:30"),
        ("2024-01-01 12:05 am", "ymd", "2024-01-01T00:05"),
        ("2024-01-01 13:30+02:00", "ymd", "2024-01-01T11:30"),
        ("2024-01-01 13:30:00Z", "ymd", "2024-01-01T13:30"),
        ("2024-01-01 25:00", "ymd", None),
        ("20240101", "ymd", "2024-01-01"),
        ("20241301", "ymd", None),
        ("2024-03", "dmy", "2024-03-01"),
        ("3/2024", "mdy", "2024-03-01"),
        ("Sept-2024", "ymd", "2024-09-01"),
        ("Marketing 2024", "ymd", None),
        ("10-Apr-24", "ymd", "2024-04-10"),
        ("Mon, 01 Jan 2024 10:00:00 +0000", "ymd", "2024-01-01T10:00"),
        ("31.12.1999", "ymd", None),
        ("2024-12-31", "mdy", "2024-12-31"),
        ("soon", "dmy", None),
    ],
)
def test_dates(text, order, moment):
    found = parse_date(text, order)
    if moment is None:
        assert found is None
        return
    expected = np.datetime64(moment, "us") - np.datetime64("1970-01-01", "us")
    assert found == pytest.approx(expected / np.timedelta64(1, "D"), abs=1e-9)
    days, wrong = read_days(polars.Series([text, "", "x"]), lambda one: parse_date(one, order))
    assert days[0] == found
    assert wrong.tolist() == [False, False, True]


def test_the_order_of_dates():
    assert date_order(["01/02/2024", "13/02/2024"], european=False) == ("dmy", 1.0, True)
    assert date_order(["01/02/2024", "02/13/2024"], european=True) == ("mdy", 1.0, True)
    assert date_order(["01/02/2024"], european=False) == ("mdy", 1.0, False)
    assert date_order(["01/02/2024"], european=True) == ("dmy", 1.0, False)
    assert date_order(["01.02.2024"], european=False) == ("dmy", 1.0, False)
    assert date_order(["x"], european=False)[1] == 0.0
    mixed = ["2024-01-31", "Feb 3, 2024", "02/03/2024", "02/29/2024"]
    assert date_order(mixed, european=False) == ("mdy", 1.0, True)
    assert date_order(mixed[:3], european=False) == ("mdy", 1.0, False)
    assert date_order(mixed[:2], european=False) == ("ymd", 1.0, True)
