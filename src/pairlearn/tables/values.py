# SPDX-License-Identifier: BSD-3-Clause
"""Read fields: missing, yes or no, numbers in one of three styles, and numbers with a unit.

"plain" is what `float` reads. "english" groups digits by commas (1,234.5, or 12,34,567 as in
India). "european" has a decimal comma and groups digits by points (1.234,5). The last two also
accept spaces or apostrophes between groups, a currency sign or code or a per cent sign around the
number, and parentheses for negative numbers, as in accounting.

A column may have a unit (66.7 °C, 36 months, 1.5k) or hold times of a clock (8:30). Most fields
must have the same unit, singular or plural, or one of the same quantity (g beside kg), which is
converted. Letters that multiply (k, M, B) may differ from field to field.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

SHOWN_STYLES = {
    "plain": "plain numbers (1234.5)",
    "english": "numbers with commas between thousands (1,234.5)",
    "european": "numbers with decimal commas (1.234,5)",
}
STYLES = tuple(SHOWN_STYLES)
#: Lower-case texts that mean "missing".
MISSING = frozenset(
    ("", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "none", "nil", "nat", "?", "-", "--",
     ".", "#div/0!", "#name?", "#null!", "#num!", "#ref!", "#value!")
)  # fmt: skip
_YES, _NO = frozenset(("yes", "y", "true", "t", "on")), frozenset(("no", "n", "false", "f", "off"))

_MONEY = "$€£¥₹"
_SIGNS = f" \t\u00a0\u202f{_MONEY}%"
_CODES = frozenset(
    ("AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "IDR", "ILS",
     "INR", "JPY", "KRW", "MXN", "NOK", "NZD", "PLN", "RUB", "SEK", "SGD", "THB", "TRY", "TWD",
     "UAH", "USD", "ZAR")
)  # fmt: skip
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_SPACES = " '\u2019\u00a0\u202f"
PATTERNS = {
    "plain": re.compile(rf"[+-]?(?:\d+\.?\d*|\.\d+){_EXPONENT}"),
    "english": re.compile(
        rf"(?:(?:[1-9]\d{{0,2}}(?:[,{_SPACES}]\d{{3}})+|\d{{1,2}}(?:,\d{{2}})+,\d{{3}}|\d+)(?:\.\d*)?|\.\d+)"
        rf"{_EXPONENT}"
    ),
    "european": re.compile(
        rf"(?:(?:[1-9]\d{{0,2}}(?:[.{_SPACES}]\d{{3}})+|\d+)(?:,\d*)?|,\d+){_EXPONENT}"
    ),
}
#: The mark between groups of digits.
_GROUPED_BY = {"english": ",", "european": "."}
#: What becomes of the marks of a number before it is read as a plain one.
WITHOUT_GROUPS = {
    "english": dict.fromkeys("," + _SPACES, ""),
    "european": {**dict.fromkeys("." + _SPACES, ""), ",": "."},
}
#: Numbers that only one of the two styles with commas writes.
_ONLY_EUROPEAN = re.compile(r"\d*,(?:\d{1,2}|\d{4,})|0,\d+|\d{1,3}(?:\.\d{3})+,\d*")
_ONLY_ENGLISH = re.compile(
    r"\d{1,3}(?:,\d{3})+\.\d*|\d{1,3}(?:,\d{3}){2,}|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d*)?"
)
#: By the mark that may group digits: numbers with groups, and numbers that have none.
_THOUSANDS = {
    mark: (
        re.compile(rf"[1-9]\d{{0,2}}(?:\{mark}\d{{3}})+(?:\{point}\d*)?"),
        re.compile(rf"\d{{1,3}}(?:\{point}\d*)?"),
    )
    for mark, point in ((",", "."), (".", ","))
}
#: From so many different numbers of each kind on, a mark groups digits: below 1000 it is not there.
_SURE = 3
#: Numbers whose point can only be decimal: it does not group three digits.
_DECIMAL_POINT = re.compile(r"\d*\.(?:\d{1,2}|\d{4,})|(?:0+|\d{4,})\.\d+|\d*\.\d+[eE][+-]?\d+")


def cut(text: str, width: int = 30) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= width else text[: width - 1] + "…"


def is_missing(text: str) -> bool:
    """Whether a field means "missing"."""
    # fast path: most fields begin with a digit, and no word for "missing" does
    return not "0" <= text[:1] <= "9" and text.strip().lower() in MISSING


def yes_or_no(text: str) -> bool | None:
    """Return True for yes, False for no, None for anything else."""
    folded = text.strip().lower()
    return True if folded in _YES else False if folded in _NO else None


def parse_number(text: str, style: str = "plain", unit: str = "") -> float | None:
    """Return the finite number in a text of the given style and unit, or None."""
    times = 1.0
    if unit == CLOCK:
        return parse_clock(text)
    if unit:
        text, times = without_unit(text, unit)
    if style == "plain":
        bare, sign = text.strip(), 1.0
    else:
        bare, sign = _unsigned(text)
    if not PATTERNS[style].fullmatch(bare):
        return None
    for mark, instead in WITHOUT_GROUPS.get(style, {}).items() if not bare.isdigit() else ():
        bare = bare.replace(mark, instead)
    number = sign * times * float(bare)
    return number if math.isfinite(number) else None


def _unsigned(text: str) -> tuple[str, float]:
    """Return the text without its sign and currency, and the sign as a factor."""
    bare = text.strip(_SIGNS)
    if bare[:1] == "(" and bare[-1:] == ")":
        return _without_code(bare[1:-1].strip(_SIGNS)), -1.0
    bare = _without_code(bare)
    if bare[:1] in ("-", "+", "\u2212"):
        return _without_code(bare[1:].strip(_SIGNS)), 1.0 if bare[0] == "+" else -1.0
    return bare, 1.0


def currencies(texts: Iterable[str]) -> list[str]:
    """Return the signs and codes of currencies in some fields, sorted.

    >>> currencies(["$3", "4 EUR", "5"])
    ['$', 'EUR']
    """
    found: set[str] = set()
    for text in texts:
        bare = text.strip(" -+()\t\u00a0\u202f%")
        found.update(c for c in bare if c in _MONEY)
        found.update({bare[:3], bare[-3:]} & _CODES)
    return sorted(found)


def _without_code(text: str) -> str:
    if text[:3] in _CODES:
        return text[3:].strip(_SIGNS)
    return text[:-3].strip(_SIGNS) if text[-3:] in _CODES else text


def plain_numbers(texts: Sequence[str]) -> list[float] | None:
    """Return the numbers if every text is a finite number as `float` reads it, else None."""
    try:
        numbers = list(map(float, texts))
    except ValueError:
        return None
    # float() also reads nan, inf and 1_000; a finite sum has finite terms only
    finite = math.isfinite(sum(numbers)) or all(map(math.isfinite, numbers))
    return numbers if finite and "_" not in "".join(texts) else None


def file_style(columns: Collection[Sequence[str]], delimiter: str) -> str:
    """Return the style of numbers with commas in a file.

    Fields that are valid in only one style decide, and columns in which commas group digits.
    Without them, a semicolon as delimiter means "european", as it is usual where commas are
    decimal, unless a column has decimal points.
    """
    votes = {"english": 0, "european": 0}
    for column in columns:
        if groups_digits(column, ","):
            votes["english"] += sum("," in text for text in column)
        for text in column:
            if "," in text:
                bare = text.strip(_SIGNS).lstrip("+-")
                votes["european"] += _ONLY_EUROPEAN.fullmatch(bare) is not None
                votes["english"] += _ONLY_ENGLISH.fullmatch(bare) is not None
    if votes["english"] == votes["european"]:
        commas = delimiter == ";" and not any(map(_has_points, columns))
        return "european" if commas else "english"
    return max(votes, key=votes.__getitem__)


def groups_digits(texts: Sequence[str], mark: str) -> bool:
    """Whether a mark surely groups the digits of a column, and is no decimal point.

    Then three digits follow it each time, and numbers below 1000 are whole. Decimals that all have
    three digits have them below 1000 as well, and decimals without last zeros are shorter now and
    then.

    >>> numbers = ["1,432", "950", "2,737", "378", "12,000", "615"]
    >>> groups_digits(numbers, ","), groups_digits([*numbers, "2,73"], ",")
    (True, False)
    """
    if mark not in "".join(texts):
        return False
    grouped, small = _THOUSANDS[mark]
    large: set[str] = set()
    whole: set[str] = set()
    for text in texts:
        bare, _ = _unsigned(text)
        if grouped.fullmatch(bare):
            large.add(bare)
        elif small.fullmatch(bare):
            if len(bare) == 3 and bare.isdigit() and bare[0] != "0":
                whole.add(bare)
        elif mark in bare or any(map(str.isdigit, bare)):
            return False
    return min(len(large), len(whole)) >= _SURE


def _has_points(texts: Sequence[str]) -> bool:
    """Whether most fields of a column are numbers with a decimal point."""
    bare = (text.strip(_SIGNS).lstrip("+-") for text in texts)
    return 2 * sum(_DECIMAL_POINT.fullmatch(text) is not None for text in bare) > len(texts)


def style_of(texts: Sequence[str], commas: str) -> tuple[str, float]:
    """Return the style in which most texts are numbers, and their share.

    `commas` is the style of the file, see `file_style`: in a european file 1.234 means 1234 if
    all numbers can be read that way. In any file it means 1234 where points surely group digits.
    """
    for style, mark in _GROUPED_BY.items():
        if groups_digits(texts, mark):
            return style, _share(texts, style)
    other = "english" if commas == "european" else "european"
    order = ("european", "plain", "english") if commas == "european" else ("plain", commas, other)
    best: tuple[str, float] = ("plain", 0.0)
    if order[0] == "plain" and plain_numbers(texts) is not None:
        return "plain", 1.0
    for style in order:
        share = _share(texts, style)
        if share > best[1]:
            best = style, share
    has_points = any("." in text for text in texts)
    if best[0] == "european" and _share(texts, "plain") == best[1] and not has_points:
        return "plain", best[1]
    return best


def _share(texts: Sequence[Any], style: str) -> float:
    return sum(parse_number(text, style) is not None for text in texts) / max(len(texts), 1)


# ---------------------------------------------------------------------------------------- units

#: The unit of a column whose numbers end in letters that multiply.
MULTIPLIED = "k, M, B"
#: The unit of a column in which some numbers are limits or carry a mark: <0.5, ~3, 7*.
MARKED = "<, >, ~, *"
#: The unit of a column of clock times, which become hours.
CLOCK = "h:mm"
LONGEST_UNIT = 24

_TIMES = {"k": 1e3, "m": 1e6, "mn": 1e6, "mio": 1e6, "b": 1e9, "bn": 1e9, "mrd": 1e9}
#: Units of one quantity with their sizes in a common unit: mass, length, volume, time.
_SIZES: tuple[dict[str, float], ...] = (
    {"mg": 1e-6, "g": 1e-3, "kg": 1.0, "t": 1e3, "oz": 0.028349523125, "lb": 0.45359237},
    {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3, "in": 0.0254, "ft": 0.3048, "mi": 1609.344,
     "mile": 1609.344},
    {"ml": 1e-3, "cl": 1e-2, "l": 1.0},
    {"sec": 1 / 3600, "second": 1 / 3600, "min": 1 / 60, "minute": 1 / 60, "h": 1.0, "hr": 1.0,
     "hour": 1.0, "day": 24.0, "week": 168.0, "month": 730.485, "year": 8765.82, "yr": 8765.82},
)  # fmt: skip
_CLOCK_TIME = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?\s*([AaPp]\.?[Mm]\.?)?")
#: Digits that are a code, not a quantity.
_CODE = re.compile(r"0\d+")
#: Characters beside letters that a unit may contain.
_IN_UNITS = "°µ²³/"


def _split(text: str) -> tuple[str, str]:
    """Split off the word at the end; return the text before it and the word."""
    bare = text.strip()
    end = len(bare)
    while end and (bare[end - 1].isalpha() or bare[end - 1] in _IN_UNITS):
        end -= 1
    return bare[:end].rstrip(), bare[end:]


def _singular(word: str) -> str:
    folded = word.casefold()
    return folded[:-1] if len(folded) > 2 and folded.endswith("s") else folded


def unit_of(counts: Mapping[str, int]) -> str:
    """Return the unit of most counted fields, or an empty text."""
    n = sum(counts.values())
    if 2 * sum(m for text, m in counts.items() if parse_clock(text) is not None) > n:
        return CLOCK
    units: Counter[str] = Counter()
    shown: set[str] = set()
    for text, count in counts.items():
        number, word = _split(text)
        if _CODE.fullmatch(number):
            return ""
        if word and number[-1:].isdigit():
            units[_singular(word)] += count
            shown.add(word)
    if not units:
        return ""
    # "m" alone means metres and "b" alone is unclear: another letter must show thousands
    if units.keys() <= _TIMES.keys() and shown != {"m"} and shown != {"b"}:
        return MULTIPLIED
    unit = units.most_common(1)[0][0]
    alike = sum(m for word, m in units.items() if _factor(word, unit) is not None)
    return unit if len(unit) <= LONGEST_UNIT and 2 * alike >= n else ""


def _factor(word: str, unit: str) -> float | None:
    """Return the factor from one folded unit to another, or None if their quantities differ."""
    if word == unit:
        return 1.0
    sizes = next((sizes for sizes in _SIZES if word in sizes and unit in sizes), None)
    return None if sizes is None else sizes[word] / sizes[unit]


def converted(texts: Iterable[str], unit: str) -> tuple[str, ...]:
    """Return the other units that are converted to `unit`."""
    words = {_singular(_split(text)[1]) for text in texts} - {unit}
    return tuple(sorted(word for word in words if _factor(word, unit) is not None))


def parse_clock(text: str) -> float | None:
    """Return a time of day or a duration in hours, or None."""
    found = _CLOCK_TIME.fullmatch(text.strip())
    if found is None:
        return None
    hours = int(found[1])
    if found[4]:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + 12 * (found[4][0] in "Pp")
    return hours + int(found[2]) / 60 + float(found[3] or 0.0) / 3600


def without_unit(text: str, unit: str) -> tuple[str, float]:
    """Return a field without its unit, and the factor for its number.

    A number alone is in the unit of the column. A field in another unit is returned unchanged.
    """
    if unit == MARKED:
        return text.strip().lstrip("<>=≤≥~≈").rstrip("*").strip(), 1.0
    number, word = _split(text)
    if not word:
        return number, 1.0
    if unit == MULTIPLIED and word.casefold() in _TIMES:
        return number, _TIMES[word.casefold()]
    factor = _factor(_singular(word), unit)
    return (text, 1.0) if factor is None else (number, factor)
