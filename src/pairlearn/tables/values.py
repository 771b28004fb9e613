# SPDX-License-Identifier: BSD-3-Clause
"""Read a single field: missing, yes or no, or a number in one of three styles.

"plain" is what `float` reads. "english" groups digits by commas (1,234.5, or 12,34,567 as in
India). "european" has a decimal comma and groups digits by points (1.234,5). The last two also
accept spaces or apostrophes between groups, a currency sign or code or a per cent sign around the
number, and parentheses for negative numbers, as in accounting. A column may also have a unit, see
`units`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pairlearn.tables.units import CLOCK, parse_clock, without_unit
from pairlearn.typing import Vector

STYLES = ("plain", "english", "european")
#: Fields of several columns that are parsed together.
_TOGETHER = 4096

#: Lower-case texts that mean "missing".
_MISSING = frozenset(
    ("", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "none", "nil", "nat", "?", "-", "--",
     ".", "#div/0!", "#name?", "#null!", "#num!", "#ref!", "#value!")
)  # fmt: skip
#: They as files spell them, for a reader that compares whole fields.
MISSING_TOKENS = tuple(sorted(
    {form for word in _MISSING - {""} for form in (word, word.upper(), word.title())} | {"NaN"}
))  # fmt: skip
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
_PATTERNS = {
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
_GROUPS = {
    "english": str.maketrans("", "", "," + _SPACES),
    "european": str.maketrans(",", ".", "." + _SPACES),
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
    return not "0" <= text[:1] <= "9" and text.strip().lower() in _MISSING


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
    if not _PATTERNS[style].fullmatch(bare):
        return None
    number = sign * times * float(bare if style == "plain" else bare.translate(_GROUPS[style]))
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


def parse_numbers(texts: Sequence[str], style: str, unit: str = "") -> tuple[Vector, list[int]]:
    """Return the numbers (NaN without one) and the indices of texts that are not numbers."""
    if style == "plain" and not unit:
        numbers = plain_numbers(texts)
        if numbers is not None:
            return np.array(numbers, dtype=np.float64), []
    return parse_each(texts, lambda text: parse_number(text, style, unit))


def plain_numbers(texts: Sequence[str]) -> list[float] | None:
    """Return the numbers if every text is a finite number as `float` reads it, else None."""
    try:
        numbers = list(map(float, texts))
    except ValueError:
        return None
    # float() also reads nan, inf and 1_000; a finite sum has finite terms only
    finite = math.isfinite(sum(numbers)) or all(map(math.isfinite, numbers))
    return numbers if finite and "_" not in "".join(texts) else None


def plain_rows(columns: Sequence[Sequence[str]]) -> Vector | None:
    """Return the numbers of columns of one length, a row for each, if all are plain, else None."""
    numbers = plain_numbers(list(itertools.chain.from_iterable(columns)))
    return None if numbers is None else np.array(numbers).reshape(len(columns), len(columns[0]))


def together(n: int, rows: int) -> Iterator[slice]:
    """Yield ranges of n columns whose fields are handled together: a few thousand fields each.

    A wide table has few rows, and work of its own for each column would be most of the time.
    """
    step = max(1, _TOGETHER // max(rows, 1))
    for first in range(0, n, step):
        yield slice(first, min(first + step, n))


def parse_each(
    texts: Sequence[str], parse: Callable[[str], float | None]
) -> tuple[Vector, list[int]]:
    """Parse each text; return the values (NaN for None) and the indices of invalid texts.

    Equal texts are parsed once. Texts that mean "missing" are not invalid.
    """
    values = np.empty(len(texts))
    wrong: list[int] = []
    known: dict[str, float] = {}
    for k, text in enumerate(texts):
        value = known.get(text)
        if value is None:
            found = parse(text)
            value = known[text] = math.nan if found is None else float(found)
        values[k] = value
        if value != value and not is_missing(text):
            wrong.append(k)
    return values, wrong


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
