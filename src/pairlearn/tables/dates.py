# SPDX-License-Identifier: BSD-3-Clause
"""Parse dates and times as people write them, and find the order of day, month and year.

Some dates are unambiguous: the year comes first (2024-03-31, 20240331, 2024-03, 2024Q1), or the
month has a name (31 Mar 2024, Mar 31, 2024, Mar-2024). Numbers that end with the year need an
order, "dmy" (31.03.2024) or "mdy" (03/31/2024); in the order "ymd" they are not dates. A time, am
or pm, and an offset from UTC may follow. A month without a day means its first day, a quarter the
first day of its first month.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

SHOWN_ORDERS = {"ymd": "year first", "dmy": "day first", "mdy": "month first"}
ORDERS = tuple(SHOWN_ORDERS)

_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
           "october", "november", "december")  # fmt: skip
_WEEKDAY = r"(?:[Mm]on|[Tt]ue|[Ww]ed|[Tt]hu|[Ff]ri|[Ss]at|[Ss]un)[a-z]{0,6},? +"
_TIME = (
    r"(?:(?:T|\s+|,\s*)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?"
    r"\s*(?P<half>[AaPp]\.?[Mm]\.?)?\s*(?P<zone>Z|UTC|[+-]\d{2}:?\d{2})?)?"
)
_NAMED = r"(?P<b>[A-Za-z]{3,9})"
_YEAR = r"(?P<c>\d{4}|\d{2})"
#: Unambiguous dates; `c` is the year, `b` the month, `a` the day.
_PLAIN = (
    re.compile(rf"(?P<c>\d{{4}})([-/.])(?P<b>\d{{1,2}})\2(?P<a>\d{{1,2}}){_TIME}"),
    re.compile(r"(?P<c>(?:19|20)\d{2})(?P<b>\d{2})(?P<a>\d{2})"),
    re.compile(r"(?P<c>(?:19|20)\d{2})[-/](?P<b>\d{1,2})"),
    re.compile(r"(?P<b>\d{1,2})/(?P<c>(?:19|20)\d{2})"),
    re.compile(r"(?P<c>(?:19|20)\d{2})[-/ ]?[Qq](?P<q>[1-4])"),
    re.compile(r"[Qq](?P<q>[1-4])[-/ ]?(?P<c>(?:19|20)\d{2})"),
    re.compile(rf"(?:{_WEEKDAY})?(?P<a>\d{{1,2}})[ .-]+{_NAMED}[ .,-]+{_YEAR}{_TIME}"),
    re.compile(rf"(?:{_WEEKDAY})?{_NAMED}[ .-]+(?P<a>\d{{1,2}}),?[ -]+(?P<c>\d{{4}}){_TIME}"),
    re.compile(rf"{_NAMED}[ .-]+(?P<c>(?:19|20)\d{{2}})"),
)
_YEAR_LAST = re.compile(rf"(?P<a>\d{{1,2}})([-/.])(?P<b>\d{{1,2}})\2{_YEAR}{_TIME}")
_EPOCH = date(1970, 1, 1).toordinal()
#: A two-digit year from here on belongs to the 1900s, as in POSIX.
_CENTURY = 69


def _month(text: str) -> int:
    if text.isdigit():
        return int(text)
    return next((k for k, name in enumerate(_MONTHS, 1) if name.startswith(text.lower())), 0)


def _fields(text: str, order: str) -> tuple[int, int, int, dict[str, str | None]] | None:
    """Return year, month, day and all groups of the match, or None."""
    # the shortest date is 1/1/24; the longest has a weekday and a time
    if not 6 <= len(text) <= 60:
        return None
    match = next((found for form in _PLAIN if (found := form.fullmatch(text))), None)
    if match is None and order != "ymd":
        match = _YEAR_LAST.fullmatch(text)
        if match is not None and order == "mdy":
            return _year(match["c"]), int(match["a"]), int(match["b"]), match.groupdict()
    if match is None:
        return None
    parts = match.groupdict()
    quarter = parts.get("q")
    month = 3 * int(quarter) - 2 if quarter else _month(match["b"])
    return _year(match["c"]), month, int(parts.get("a") or 1), parts


def _year(text: str) -> int:
    year = int(text)
    return year + (0 if len(text) == 4 else 1900 if year >= _CENTURY else 2000)


def parse_date(text: str, order: str) -> float | None:
    """Return days since 1970-01-01 (in UTC if an offset is given), or None if it is not a date."""
    found = _fields(text.strip(), order)
    if found is None:
        return None
    year, month, day, parts = found
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    if parts.get("hour") is None:
        return float(days)
    hour, minute = int(parts["hour"] or 0), int(parts["minute"] or 0)
    second, half, zone = float(parts["second"] or 0.0), parts["half"], parts["zone"]
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half[0] in "Pp")
    if hour > 23 or minute > 59 or second >= 61.0:
        return None
    seconds = 3600 * hour + 60 * minute + second
    if zone and zone[0] in "+-":
        offset = 3600 * int(zone[1:3]) + 60 * int(zone[-2:])
        seconds += -offset if zone[0] == "+" else offset
    return days + seconds / 86400.0


def date_order(texts: Sequence[str], *, european: bool) -> tuple[str, float, bool]:
    """Return the order in which most texts are dates, their share, and whether it is certain.

    If no day is above 12, the order is a guess: points and dashes put the day first, and so do
    slashes in a file with decimal commas.
    """
    shares = {
        order: sum(parse_date(text, order) is not None for text in texts) / max(len(texts), 1)
        for order in ORDERS
    }
    best = max(shares.values())
    # the order does not matter if every order reads the same dates
    order = max(shares, key=shares.__getitem__)
    if order == "ymd" or shares["dmy"] != shares["mdy"]:
        return order, best, True
    last = [text for text in texts if parse_date(text, "ymd") is None]
    slashes = sum("/" in text for text in last) > len(last) / 2
    return ("mdy" if slashes and not european else "dmy"), best, False
