# SPDX-License-Identifier: BSD-3-Clause
"""Dates and times as people write them: which order they have, and days since 1970.

Orders: "ymd" (2024-03-31), "dmy" (31.03.2024, 31 Mar 2024) and "mdy" (03/31/2024, Mar 31, 2024);
each may be followed by a time, half of the day and an offset from UTC.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date

import numpy as np
from numpy.typing import NDArray

from pairlearn.tables.values import is_missing

__all__ = ["ORDERS", "date_order", "parse_date", "parse_dates"]

ORDERS = ("ymd", "dmy", "mdy")

_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: k + 1 for k, name in enumerate(_NAMES)}
_TIME = (
    r"(?:(?:T|\s+|,\s*)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?)?"
)
_YEAR_FIRST = re.compile(rf"(?P<a>\d{{4}})([-/.])(?P<b>\d{{1,2}})\2(?P<c>\d{{1,2}}){_TIME}")
_YEAR_LAST = re.compile(rf"(?P<a>\d{{1,2}})([-/.])(?P<b>\d{{1,2}})\2(?P<c>\d{{4}}|\d{{2}}){_TIME}")
_DAY_NAMED = re.compile(
    rf"(?P<a>\d{{1,2}})[ .-]+(?P<b>[A-Za-z]{{3,9}})[ .,-]+(?P<c>\d{{4}}){_TIME}"
)
_MONTH_NAMED = re.compile(
    rf"(?P<b>[A-Za-z]{{3,9}})[ .-]+(?P<a>\d{{1,2}}),?[ -]+(?P<c>\d{{4}}){_TIME}"
)
_EPOCH = date(1970, 1, 1).toordinal()
#: Two digits of a year from here on are of the last century, as POSIX has it.
_CENTURY = 69


def _month(text: str) -> int:
    return _MONTHS.get(text[:3].lower(), 0)


def _fields(text: str, order: str) -> tuple[int, int, int, re.Match[str]] | None:
    """Return year, month, day and the match."""
    if order == "ymd":
        match = _YEAR_FIRST.fullmatch(text)
        return match and (int(match["a"]), int(match["b"]), int(match["c"]), match)
    named = _DAY_NAMED.fullmatch(text) if order == "dmy" else _MONTH_NAMED.fullmatch(text)
    if named:
        return int(named["c"]), _month(named["b"]), int(named["a"]), named
    match = _YEAR_LAST.fullmatch(text)
    if not match:
        return None
    first, second, year = int(match["a"]), int(match["b"]), int(match["c"])
    if len(match["c"]) == 2:
        year += 1900 if year >= _CENTURY else 2000
    return (year, second, first, match) if order == "dmy" else (year, first, second, match)


def parse_date(text: str, order: str) -> float | None:
    """Return days since 1970-01-01 (UTC where an offset is given), or None if it is no date.

    >>> parse_date("1970-01-02 12:00", "ymd"), parse_date("31.01.1970", "dmy")
    (1.5, 30.0)
    >>> parse_date("Feb 1, 1970", "mdy"), parse_date("31.02.1970", "dmy") is None
    (31.0, True)
    """
    found = _fields(text.strip(), order)
    if found is None:
        return None
    year, month, day, match = found
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    if match["hour"] is None:
        return float(days)
    hour, minute = int(match["hour"]), int(match["minute"])
    second = float(match["second"] or 0.0)
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match["half"][0] in "Pp")
    if hour > 23 or minute > 59 or second >= 61.0:
        return None
    seconds = 3600 * hour + 60 * minute + second
    zone = match["zone"]
    if zone and zone[0] in "+-":
        offset = 3600 * int(zone[1:3]) + 60 * int(zone[-2:])
        seconds += -offset if zone[0] == "+" else offset
    return days + seconds / 86400.0


def parse_dates(texts: Sequence[str], order: str) -> tuple[NDArray[np.float64], list[int]]:
    """Return the days, NaN where there is no date, and the places of texts that are none.

    >>> parse_dates(["1970-01-03", "", "soon"], "ymd")
    (array([ 2., nan, nan]), [2])
    """
    days = np.empty(len(texts))
    wrong: list[int] = []
    known: dict[str, float] = {}
    for k, text in enumerate(texts):
        day = known.get(text)
        if day is None:
            found = parse_date(text, order)
            day = known[text] = math.nan if found is None else found
        days[k] = day
        if day != day and not is_missing(text):
            wrong.append(k)
    return days, wrong


def date_order(texts: Sequence[str], *, european: bool) -> tuple[str, float, bool]:
    """Return the order in which most texts are dates, their share, and whether it is sure.

    Where no day beyond 12 tells day and month apart, points and dashes put the day first, and so do
    slashes in a file with decimal commas.

    >>> date_order(["01/02/2024", "03/25/2024"], european=False)
    ('mdy', 1.0, True)
    >>> date_order(["01/02/2024"], european=False)
    ('mdy', 1.0, False)
    """
    shares = {
        order: sum(parse_date(text, order) is not None for text in texts) / max(len(texts), 1)
        for order in ORDERS
    }
    best = max(shares.values())
    if shares["dmy"] == shares["mdy"] == best > shares["ymd"]:
        slashes = sum("/" in text for text in texts) > len(texts) / 2
        return ("mdy" if slashes and not european else "dmy"), best, False
    order = max(shares, key=shares.__getitem__)
    return order, best, True
