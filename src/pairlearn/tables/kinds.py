# SPDX-License-Identifier: BSD-3-Clause
"""Decide the kind of each column of a table from a sample of its fields.

Kinds are number, category, yes/no, date and text of several words. Ids, which only tell rows
apart, and constants are left out.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from pairlearn.streams.readers.base import ReadError
from pairlearn.tables.dates import SHOWN_ORDERS, date_order, parse_date
from pairlearn.tables.values import (
    CLOCK,
    MARKED,
    MULTIPLIED,
    SHOWN_STYLES,
    converted,
    currencies,
    cut,
    is_missing,
    parse_number,
    plain_numbers,
    style_of,
    unit_of,
    without_unit,
    yes_or_no,
)

KINDS = ("number", "category", "yes/no", "date", "text", "id", "constant", "excluded")
#: Kinds that give no features.
UNUSED = ("id", "constant", "excluded")

#: A column has a kind if at least this share of its values does; the rest counts as missing.
_KIND_SHARE = 0.95
#: A column is called an id only with at least this number of rows; fewer differ by chance.
_LEAST_ID_ROWS = 20
#: Values are ids if at least this share of them is different (numbers only with an id's name).
_ID_SHARE = 0.9
#: Whole numbers that never repeat are ids if their range is at most this many times the number of
#: rows (a running number of which some rows were taken out), ...
_SPARSEST = 4
#: ... and they stand in order, or numbers drawn from that range would repeat this often.
_REPEATS = 12
#: A column with an id's name and at most this number of values is a category of groups.
_MOST_GROUPS = 100
#: Nearly all different values with at least this number of words on average are texts, not ids.
_TEXT_WORDS = 3
#: Partly repeated values with at least this number of words on average are texts, not categories.
_REPEATED_TEXT_WORDS = 4
#: A column with words is a number only if it has at least this number of different numbers, ...
_LEAST_NUMBERS = 20
#: ... and at most this number of different words, which then count as missing.
_MOST_NOTHINGS = 3

_ID_NAME = re.compile(
    r"(?i:(?:^|[_\s.-])(?:id|uuid|guid|key|hash)$)|(?<=[a-z])(?:Id|ID|Uuid|UUID)$"
)
_POSTAL = re.compile(r"(?i)(?:^|[_\s.-])(?:zip[_\s-]?(?:code)?|post(?:al)?[_\s-]?code|plz)$")
_CODE = re.compile(r"0\d+")
_WHOLE = re.compile(r"[+-]?\d+")
#: Examples that explain a unit.
_SHOWN = {MULTIPLIED: "1.5k is 1500", CLOCK: "1:30 is 1.5", MARKED: "<5 is 5"}
#: Numbers that mean "missing" if they lie far from all others: -999, 9999, ...
_NINES = re.compile(r"-?9{3,}(?:\.0*)?")


class Decision(NamedTuple):
    """The kind of a column and how to read its fields.

    A wide table has a hundred thousand of them, and a tuple is made faster than a dataclass.

    Parameters
    ----------
    name : str
        The column.
    kind : str
        One of `KINDS`.
    form : str
        The style of numbers, or the order of dates; otherwise empty.
    unit : str
        The unit of the numbers, see `units`.
    nothing : float, optional
        The number that means "missing".
    note : str
        A remark for the user.
    given : bool
        Whether the user chose the kind.
    """

    name: str
    kind: str
    form: str = ""
    note: str = ""
    given: bool = False
    unit: str = ""
    nothing: float | None = None


def written(kind: str, form: str, unit: str) -> str:
    """Return how values of a kind are written, for a message."""
    if kind == "number":
        return f"{SHOWN_STYLES[form]}{f' in {unit}' if unit else ''}"
    return f"dates with the {SHOWN_ORDERS[form]}" if kind == "date" else kind


def decide(
    name: str,
    values: Sequence[str],
    *,
    commas: str = "english",
    given: str | None = None,
    declared: bool = False,
    step: int = 1,
) -> Decision:
    """Decide the kind of a column.

    Parameters
    ----------
    name : str
        The column.
    values : sequence of str
        A sample of its fields, in the order of the rows.
    commas : str, default "english"
        The style of numbers with commas in the file.
    given : str, optional
        The kind that the user chose.
    declared : bool, default False
        Whether the table says that the column is one of categories. Then numbers are levels, and
        the rest is decided as for texts.
    step : int, default 1
        The rows of the table for each one of the sample.

    Returns
    -------
    Decision
        The kind, and how to read fields.

    Examples
    --------
    >>> decide("age", ["31", "", "42"]).kind, decide("plan", ["basic", "pro", "pro"]).kind
    ('number', 'category')
    >>> decide("zip", ["02139", "10115"]).note
    'codes with leading zeros'
    >>> decide("store", ["10", "20", "10"], declared=True).kind
    'category'
    """
    if given is None and not declared and commas == "english" and plain_numbers(values) is not None:
        # a short way: numbers with a point are nothing else
        plain = Counter(map(str.strip, values))
        if len(plain) > 1 and all("." in value for value in plain):
            return _measured(name, plain, "plain", "")
    present = [value.strip() for value in values if not is_missing(value)]
    if given is not None:
        return _given(name, present, commas, given)
    counts = Counter(present)
    if not present:
        return Decision(name, "constant", note="no value at all")
    if len(counts) == 1:
        if len(present) == len(values):
            return Decision(name, "constant", note=f"always {cut(present[0])}")
        return Decision(name, "category", note="one value, or none")
    if all(yes_or_no(value) is not None or value in ("0", "1") for value in counts) and any(
        yes_or_no(value) is not None for value in counts
    ):
        return Decision(name, "yes/no")
    if declared and date_order(list(counts), european=commas == "european")[1] < _KIND_SHARE:
        # A date is one, however it is written: with hours in one file, without in another.
        return _words(name, present, counts)
    digits = sum(n for value, n in counts.items() if value.isdigit())
    if digits >= _KIND_SHARE * len(present):
        if any(map(_CODE.fullmatch, counts)):
            return _named(name, present, counts, "codes with leading zeros")
        if _POSTAL.search(name):
            return _named(
                name, present, counts, "postal codes (reading.numeric takes them as numbers)"
            )
    eight = digits == len(present) and all(len(value) == 8 for value in counts)
    if eight and all(parse_date(value, "ymd") is not None for value in counts):
        return Decision(name, "date", "ymd", "year first")
    style, share = style_of(list(counts), commas)
    if share == 1.0 or (_weighted(counts, style) >= _KIND_SHARE and share > 0.5):
        return _number(name, present, counts, style, step)
    dates = list(counts)
    order, share, sure = date_order(dates, european=commas == "european")
    if share >= _KIND_SHARE:
        return Decision(name, "date", order, _date_note(dates, order, sure))
    if share and sum(any(parse_date(t, o) is not None for o in ("dmy", "mdy")) for t in dates) >= (
        _KIND_SHARE * len(dates)
    ):
        note = "dates, some with the day first and some with the month; write the year first"
        return Decision(name, "excluded", note=note)
    unit, style = _unit(counts, commas)
    if unit and _ID_NAME.search(name) is None and _weighted(counts, style, unit) >= _KIND_SHARE:
        return _measured(name, counts, style, unit)
    return _with_words(name, counts, style, unit) or _words(name, present, counts)


def _weighted(counts: Mapping[str, int], style: str, unit: str = "") -> float:
    numbers = sum(n for value, n in counts.items() if parse_number(value, style, unit) is not None)
    return numbers / sum(counts.values())


def _unit(counts: Mapping[str, int], commas: str) -> tuple[str, str]:
    """Return the unit of a column (or an empty text) and the style of the numbers before it."""
    unit = unit_of(counts)
    if unit == CLOCK:
        return unit, "plain"
    return unit, style_of([without_unit(text, unit)[0] for text in counts], commas)[0]


def _given(name: str, present: Sequence[str], commas: str, kind: str) -> Decision:
    """Return the decision for a kind that the user chose; refuse it if most values do not fit."""
    if kind == "number":
        counts = Counter(present)
        unit, (style, share) = "", style_of(present, commas)
        if share < 0.5:
            unit, style = _unit(counts, commas)
            share = _weighted(counts, style, unit)
        if share < 0.5:
            wrong = next((v for v in present if parse_number(v, style) is None), "")
            raise ReadError(
                f"--set reading.numeric={name}: most values are not numbers, such as {cut(wrong)!r}"
                "; leave out the setting, or name the column with --categorical."
            )
        note = _number_note(counts, style, unit)
        return Decision(name, kind, style, note, given=True, unit=unit)
    if kind == "date":
        order, share, sure = date_order(present, european=commas == "european")
        if share < 0.5:
            wrong = present[0] if present else ""
            raise ReadError(
                f"--set reading.date={name}: most values are not dates, such as {cut(wrong)!r}; "
                "dates look like 2024-03-31, 31.03.2024 or 03/31/2024, and a time may follow."
            )
        return Decision(name, kind, order, _date_note(present, order, sure), given=True)
    return Decision(name, kind, given=True)


def _number_note(texts: Collection[str], style: str, unit: str) -> str:
    """Explain how numbers are read, if that is not obvious."""
    marks = set("".join(texts))
    notes = []
    if style == "english" and "," in marks:
        notes.append("1,234.5 is 1234.5")
    if style == "european" and marks & {",", "."}:
        notes.append("1.234,5 is 1234.5")
    if style != "plain" and "(" in marks:
        notes.append("(5) is -5")
    if "%" in marks:
        bare = [text for text in texts if "%" not in text]
        alone = next((text for text in bare if parse_number(text, style, unit) is not None), None)
        notes.append(
            "per cent" if alone is None else f"per cent, {cut(alone)} is {cut(alone)} % too"
        )
    money = currencies(texts) if style != "plain" else []
    if len(money) > 1:
        notes.append(f"{' and '.join(money)} count alike, nothing is converted")
    if unit in _SHOWN:
        notes.append(_SHOWN[unit])
    elif unit:
        others = ", ".join(converted(texts, unit))
        notes.append(f"unit {unit}, {others} converted" if others else f"unit {unit}")
    return "; ".join(notes)


def _date_note(texts: Iterable[str], order: str, sure: bool) -> str:
    if order == "ymd":
        return SHOWN_ORDERS[order] if all(text[:4].isdigit() for text in texts) else ""
    words = SHOWN_ORDERS[order]
    return words if sure else f"{words}, assumed"


def _is_running(numbers: Sequence[int], step: int) -> bool:
    """Whether different numbers are a running number, some rows of which may be gone.

    n numbers drawn from a range of R repeat about n^2 / (2 R) times; values that were measured do.

    >>> _is_running(range(7, 50), 1), _is_running([k * k for k in range(50)], 1)
    (True, False)
    """
    n, size = len(numbers), max(numbers) - min(numbers) + 1
    if size > _SPARSEST * n * step:
        return False
    return n * n >= 2 * _REPEATS * size or all(a < b for a, b in itertools.pairwise(numbers))


def _number(
    name: str, present: Sequence[str], counts: Mapping[str, int], style: str, step: int
) -> Decision:
    whole = all(map(_WHOLE.fullmatch, counts))
    distinct = len(counts) / len(present)
    if whole and len(present) >= _LEAST_ID_ROWS:
        named = _ID_NAME.search(name) is not None
        numbers = [int(value) for value in present]
        running = distinct == 1.0 and _is_running(numbers, step)
        if running or (named and distinct >= _ID_SHARE):
            return Decision(name, "id", note="a number for each row")
        if named and len(counts) <= _MOST_GROUPS and distinct < 0.5:
            return Decision(name, "category", note=f"{len(counts)} ids of groups")
        if named and distinct >= 0.5:
            return Decision(name, "id", note="mostly a number for each row")
    return _measured(name, counts, style, "")


def _measured(name: str, counts: Mapping[str, int], style: str, unit: str) -> Decision:
    note = _number_note(counts, style, unit)
    nothing = _nothing(counts, style, unit)
    if nothing is not None:
        said = f"{nothing:g} is no value (reading.numeric keeps it)"
        note = f"{note}; {said}" if note else said
    return Decision(name, "number", style, note, unit=unit, nothing=nothing)


def _with_words(name: str, counts: Mapping[str, int], style: str, unit: str) -> Decision | None:
    """Decide for a number if most values are numbers and the rest is marked (<0.5) or few words."""
    others = [text for text in counts if parse_number(text, style, unit) is None]
    if not unit and any(parse_number(text, style, MARKED) is not None for text in others):
        unit = MARKED
    words = [text for text in others if parse_number(text, style, unit) is None]
    share = 1 - sum(counts[word] for word in words) / sum(counts.values())
    few = len(words) <= _MOST_NOTHINGS and not any(c.isdigit() for c in "".join(words))
    many = len(counts) - len(others) >= max(_LEAST_NUMBERS, len(others))
    if not others or not few or not many or share < 0.5 or _ID_NAME.search(name):
        return None
    measured = _measured(name, counts, style, unit)
    if not words:
        return measured
    shown = ", ".join(repr(cut(word)) for word in sorted(words))
    said = f"{shown} {'is' if len(words) == 1 else 'are'} no value"
    return measured._replace(note=f"{measured.note}; {said}" if measured.note else said)


def _nothing(counts: Mapping[str, int], style: str, unit: str = "") -> float | None:
    """Return a repeated number of nines only that lies far from all others, or None."""
    nines = [text for text, n in counts.items() if n > 1 and _NINES.fullmatch(text)]
    if len(nines) != 1:
        return None
    [found] = nines
    numbers = [parse_number(text, style, unit) for text in counts if text != found]
    others = [number for number in numbers if number is not None]
    value = parse_number(found, style)
    if value is None or len(others) < 2:
        return None
    low, high = min(others), max(others)
    # farther away than the range of the others, and at least three times as large
    far = max(high - low, 3.0 * max(abs(low), abs(high)))
    return value if value > high + far or value < low - far else None


def _named(name: str, present: Sequence[str], counts: Mapping[str, int], note: str) -> Decision:
    """Decide between id and category for a column of codes."""
    if len(present) >= _LEAST_ID_ROWS and len(counts) / len(present) >= _ID_SHARE:
        return Decision(name, "id", note=f"{note}, another for each row")
    return Decision(name, "category", note=note)


def _words(name: str, present: Sequence[str], counts: Mapping[str, int]) -> Decision:
    distinct = len(counts) / len(present)
    # the parts of a telephone number are not words
    parts = (part for value in counts for part in value.split())
    words = sum(any(map(str.isalpha, part)) for part in parts) / len(counts)
    if len(present) >= _LEAST_ID_ROWS and distinct >= _ID_SHARE:
        if words >= _TEXT_WORDS:
            return Decision(name, "text", note=f"{words:.0f} words on average")
        return Decision(name, "id", note="another text for each row")
    if words >= _REPEATED_TEXT_WORDS and len(counts) > 50 and distinct > 0.5:
        return Decision(name, "text", note=f"{words:.0f} words on average")
    return Decision(name, "category")
