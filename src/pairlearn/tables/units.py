# SPDX-License-Identifier: BSD-3-Clause
"""Read numbers with a unit (66.7 °C, 36 months, 1.5k) and times of a clock (8:30).

Most fields of a column must have the same unit, singular or plural, or one of the same quantity (g
beside kg), which is converted. The encoder stores the unit; a later field in another unit counts
as missing. Letters that multiply (k, M, B) may differ from field to field.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

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
_OTHERS = "°µ²³/"


def _cut(text: str) -> tuple[str, str]:
    """Split off the word at the end; return the text before it and the word."""
    bare = text.strip()
    end = len(bare)
    while end and (bare[end - 1].isalpha() or bare[end - 1] in _OTHERS):
        end -= 1
    return bare[:end].rstrip(), bare[end:]


def _fold(word: str) -> str:
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
        number, word = _cut(text)
        if _CODE.fullmatch(number):
            return ""
        if word and number[-1:].isdigit():
            units[_fold(word)] += count
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
    words = {_fold(_cut(text)[1]) for text in texts} - {unit}
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
    number, word = _cut(text)
    if not word:
        return number, 1.0
    if unit == MULTIPLIED and word.casefold() in _TIMES:
        return number, _TIMES[word.casefold()]
    factor = _factor(_fold(word), unit)
    return (text, 1.0) if factor is None else (number, factor)
