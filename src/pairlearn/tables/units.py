# SPDX-License-Identifier: BSD-3-Clause
"""Numbers with a word behind them: 66.7 °C, 36 months, 1.5k; and times of a clock, 8:30.

Most fields of a column must have the same word, singular or plural, or one of the same quantity (g
beside kg), which is converted; it is stored, so that a field in another unit later on is taken as
missing and not for a number of the first. Letters that multiply (k, M, B) may change from field to
field.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

__all__ = [
    "CLOCK", "LONGEST_UNIT", "MARKED", "MULTIPLIED", "converted", "parse_clock", "unit_of",
    "without_unit",
]  # fmt: skip

#: The unit of a column whose fields end in letters that multiply.
MULTIPLIED = "k, M, B"
#: The unit of a column in which some numbers are limits, or have a mark: <0.5, ~3, 7*.
MARKED = "<, >, ~, *"
#: The unit of a column of times, which become hours.
CLOCK = "h:mm"
LONGEST_UNIT = 24

_TIMES = {"k": 1e3, "m": 1e6, "mn": 1e6, "mio": 1e6, "b": 1e9, "bn": 1e9, "mrd": 1e9}
#: Units of one quantity, each with its size in a common one: mass, length, volume, time.
_SIZES: tuple[dict[str, float], ...] = (
    {"mg": 1e-6, "g": 1e-3, "kg": 1.0, "t": 1e3, "oz": 0.028349523125, "lb": 0.45359237},
    {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3, "in": 0.0254, "ft": 0.3048, "mi": 1609.344,
     "mile": 1609.344},
    {"ml": 1e-3, "cl": 1e-2, "l": 1.0},
    {"sec": 1 / 3600, "second": 1 / 3600, "min": 1 / 60, "minute": 1 / 60, "h": 1.0, "hr": 1.0,
     "hour": 1.0, "day": 24.0, "week": 168.0, "month": 730.485, "year": 8765.82, "yr": 8765.82},
)  # fmt: skip
_CLOCK_TIME = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?\s*([AaPp]\.?[Mm]\.?)?")
#: What is no number of anything.
_CODE = re.compile(r"0\d+")
#: What a unit may hold beside letters.
_OTHERS = "°µ²³/"


def _cut(text: str) -> tuple[str, str]:
    """Return what stands before the word at the end, and the word."""
    bare = text.strip()
    end = len(bare)
    while end and (bare[end - 1].isalpha() or bare[end - 1] in _OTHERS):
        end -= 1
    return bare[:end].rstrip(), bare[end:]


def _fold(word: str) -> str:
    folded = word.casefold()
    return folded[:-1] if len(folded) > 2 and folded.endswith("s") else folded


def unit_of(counts: Mapping[str, int]) -> str:
    """Return the unit of most of the fields, counted, or an empty text.

    >>> unit_of({"1 year": 3, "2 years": 4}), unit_of({"950": 5, "1.2k": 5}), unit_of({"A7": 9})
    ('year', 'k, M, B', '')
    >>> unit_of({"1.5 kg": 5, "800 g": 2}), unit_of({"8:30": 5, "17:05": 2})
    ('kg', 'h:mm')
    """
    n = sum(counts.values())
    if 2 * sum(m for text, m in counts.items() if parse_clock(text) is not None) > n:
        return CLOCK
    units: Counter[str] = Counter()
    shown: set[str] = set()
    for text, count in counts.items():
        number, word = _cut(text)
        if _CODE.fullmatch(number):
            return ""
        if word and number[-1:].isdigit():
            units[_fold(word)] += count
            shown.add(word)
    if not units:
        return ""
    # metres are no millions: one sign of numbers in thousands is needed
    if units.keys() <= _TIMES.keys() and shown != {"m"} and shown != {"b"}:
        return MULTIPLIED
    unit = units.most_common(1)[0][0]
    alike = sum(m for word, m in units.items() if _factor(word, unit) is not None)
    return unit if len(unit) <= LONGEST_UNIT and 2 * alike >= n else ""


def _factor(word: str, unit: str) -> float | None:
    """Return what turns a number in one unit, folded, into one in another, if they are alike."""
    if word == unit:
        return 1.0
    sizes = next((sizes for sizes in _SIZES if word in sizes and unit in sizes), None)
    return None if sizes is None else sizes[word] / sizes[unit]


def converted(texts: Iterable[str], unit: str) -> tuple[str, ...]:
    """Return the other units from which fields are converted.

    >>> converted(["1.5 kg", "800 g", "5 °C", "7"], "kg")
    ('g',)
    """
    words = {_fold(_cut(text)[1]) for text in texts} - {unit}
    return tuple(sorted(word for word in words if _factor(word, unit) is not None))


def parse_clock(text: str) -> float | None:
    """Return the hours of a time, or of a span of time, or None.

    >>> parse_clock("1:30"), parse_clock("8:15 pm"), parse_clock("16:9") is None
    (1.5, 20.25, True)
    """
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
    """Return a field without its unit, and what the number is to be multiplied with.

    A number alone is taken for one of the unit; a field in another unit is returned as it is.

    >>> without_unit("36 months", "month"), without_unit("1.5k", "k, M, B")
    (('36', 1.0), ('1.5', 1000.0))
    >>> without_unit("5 lb", "kg"), without_unit("5 °C", "kg")
    (('5', 0.45359237), ('5 °C', 1.0))
    """
    if unit == MARKED:
        return text.strip().lstrip("<>=≤≥~≈").rstrip("*").strip(), 1.0
    number, word = _cut(text)
    if not word:
        return number, 1.0
    if unit == MULTIPLIED and word.casefold() in _TIMES:
        return number, _TIMES[word.casefold()]
    factor = _factor(_fold(word), unit)
    return (text, 1.0) if factor is None else (number, factor)
