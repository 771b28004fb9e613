# SPDX-License-Identifier: BSD-3-Clause
"""Numbers with a word behind them: 66.7 °C, 36 months, 1.5k.

Most fields of a column must have the same word, singular or plural; it is stored, so that a field
in another unit later on is taken as missing and not for a number of the first. Letters that
multiply (k, M, B) may change from field to field.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

__all__ = ["LONGEST_UNIT", "MULTIPLIED", "unit_of", "without_unit"]

#: The unit of a column whose fields end in letters that multiply.
MULTIPLIED = "k, M, B"
LONGEST_UNIT = 24

_TIMES = {"k": 1e3, "m": 1e6, "mn": 1e6, "mio": 1e6, "b": 1e9, "bn": 1e9, "mrd": 1e9}
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
    """
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
    unit, count = units.most_common(1)[0]
    return unit if len(unit) <= LONGEST_UNIT and 2 * count >= sum(counts.values()) else ""


def without_unit(text: str, unit: str) -> tuple[str, float]:
    """Return a field without its unit, and what the number is to be multiplied with.

    A number alone is taken for one of the unit; a field in another unit is returned as it is.

    >>> without_unit("36 months", "month"), without_unit("1.5k", "k, M, B")
    (('36', 1.0), ('1.5', 1000.0))
    >>> without_unit("5 lb", "kg")
    ('5 lb', 1.0)
    """
    number, word = _cut(text)
    if not word:
        return number, 1.0
    if unit == MULTIPLIED and word.casefold() in _TIMES:
        return number, _TIMES[word.casefold()]
    return (number, 1.0) if _fold(word) == unit else (text, 1.0)
