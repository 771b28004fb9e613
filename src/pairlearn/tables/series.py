# SPDX-License-Identifier: BSD-3-Clause
"""Columns of any type as texts, as numbers or as days: a polars series in, all values at once.

A value means the same in every type: True is "true", 3.0 is 3, a decimal is a number, a span of
time is a number of hours, and what is no number to begin with is read as `values` and `dates` say.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from pairlearn.tables.values import (
    CLOCK,
    MISSING,
    PATTERNS,
    WITHOUT_GROUPS,
    parse_number,
)
from pairlearn.typing import Mask, Vector

if TYPE_CHECKING:
    from polars import Series

_HOUR = 3_600_000_000_000
#: Microseconds of a day, and of 7,000 years: times beyond those of Python are numbers.
_DAY = 86_400_000_000
_FAR = 7_000 * 366 * _DAY


def plain_series(column: Series) -> Series:
    """Return a column as texts, numbers, booleans or dates: the types that are read here."""
    import polars

    kind = column.dtype
    if kind in (polars.Categorical, polars.Enum, polars.Null, polars.Time):
        return column.cast(polars.String)
    if kind == polars.Binary:
        return column.cast(polars.String, strict=False)
    if kind.is_decimal():  # by its digits: a cast multiplies by a rounded power of ten
        return column.cast(polars.String).cast(polars.Float64)
    if kind == polars.Duration:
        return column.dt.total_nanoseconds() / _HOUR
    if kind == polars.Datetime:
        zone = getattr(kind, "time_zone", None)
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if zone else column
        plain = column.cast(polars.Datetime("us"))
        ticks = plain.to_physical().drop_nulls()
        far = len(ticks) and not (ticks.min() > -_FAR and ticks.max() < _FAR)
        return plain.to_physical() if far else plain
    return series_of(column.name, column.to_list()) if kind == polars.Object else column


def series_of(name: str, values: Iterable[Any]) -> Series:
    """Return a column of Python, NumPy or pandas objects: numbers if all are, else texts."""
    import polars

    found = [_plain(value) for value in values]
    kinds = {type(value) for value in found} - {type(None)}
    if complex in kinds:
        raise ValueError(
            f"column {name!r} holds complex numbers, of which no kind of column is made; put "
            "their real and imaginary parts into two columns, or leave it out with exclude."
        )
    if kinds == {bool} or (kinds and kinds <= {int, float}):
        wide = int in kinds and any(isinstance(v, int) and abs(v) >= 1 << 63 for v in found)
        kind = polars.Float64 if float in kinds or wide else None
        return polars.Series(name, found, dtype=kind, strict=False)
    if kinds and kinds <= {datetime.date, datetime.datetime}:
        kind = polars.Date if kinds == {datetime.date} else polars.Datetime("us")
        return polars.Series(name, found, dtype=kind, strict=False)
    texts = [
        value if value is None or isinstance(value, str) else text_of(value) for value in found
    ]
    return polars.Series(name, texts, dtype=polars.String)


def _plain(value: Any) -> Any:
    """Return a scalar of any library as None, bool, int, float, str or a date."""
    if value is None or isinstance(value, (str, bool)):
        return None if value is None else value if isinstance(value, bool) else str(value)
    try:
        if value != value:  # NaN, NaT
            return None
    except (TypeError, ValueError):  # pandas' NA says neither yes nor no
        return None
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "h"))
    if isinstance(value, datetime.timedelta):
        return value.total_seconds() / 3600.0
    if isinstance(value, datetime.datetime):  # that of pandas, too
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC)
        return datetime.datetime.combine(value.date(), value.time())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, decimal.Decimal):
        return float(value)
    return value if isinstance(value, (int, float, complex, datetime.date)) else str(value)


def text_of(value: Any) -> str:
    """Return a value as the text that a file would hold.

    >>> text_of(3.0), text_of(2.5), text_of(True)
    ('3', '2.5', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**53:
        return str(int(value))
    return value.isoformat(" ") if isinstance(value, datetime.datetime) else str(value)


def texts_of(column: Series) -> Series:
    """Return a column as texts; a gap is null."""
    import polars

    if column.dtype == polars.String:
        return column
    if column.dtype.is_float():
        column = column.fill_nan(None)
    return _by_value(column, text_of, polars.String)


def gaps(column: Series) -> Mask:
    """Return a mask of the values that mean "missing"."""
    import polars

    missing = column.is_null()
    if column.dtype == polars.String:
        bare = column.str.strip_chars()
        missing |= bare.str.to_lowercase().is_in(list(MISSING)).fill_null(True)
    elif column.dtype.is_float():
        missing |= column.is_nan().fill_null(True)
    found: Mask = missing.to_numpy()
    return found


def known_texts(column: Series) -> Series:
    """Return the texts of a column without spaces around them; what means "missing" is null."""
    import polars

    texts = texts_of(column).str.strip_chars()
    return texts.set(polars.Series(gaps(texts)), None)


def read_numbers(column: Series, style: str, unit: str = "") -> tuple[Vector, Mask]:
    """Return the numbers (NaN without one), and which values are neither number nor gap."""
    import polars

    if column.dtype == polars.String:
        found = _texts_as_numbers(column, style, unit)
    elif column.dtype.is_temporal():
        found = np.full(len(column), np.nan)
    else:
        found = column.cast(polars.Float64).to_numpy().copy()
    finite = np.isfinite(found)
    found[~finite] = np.nan
    return found, ~finite & ~gaps(column) if not finite.all() else ~finite


def _texts_as_numbers(column: Series, style: str, unit: str) -> Vector:
    """Cast what is written plainly at once; look at other texts one by one, each once."""
    import polars

    bare = column.str.strip_chars()
    numbers = bare.cast(polars.Float64, strict=False)
    if style == "plain" and unit != CLOCK and not numbers.null_count():
        return np.array(numbers.to_numpy())
    plain = bare.str.contains(rf"^[+-]?(?:{PATTERNS[style].pattern})$") & (unit != CLOCK)
    if style != "plain":
        bare = bare.str.replace_many(WITHOUT_GROUPS[style])
    numbers = bare.set(~plain.fill_null(False), None).cast(polars.Float64, strict=False)
    rest = column.set(numbers.is_not_null(), None)
    if rest.null_count() < len(rest):
        other = _by_value(rest, lambda text: parse_number(text, style, unit), polars.Float64)
        numbers = numbers.fill_null(other)
    return np.array(numbers.to_numpy())


def read_each(column: Series, parse: Callable[[str], float | None]) -> tuple[Vector, Mask]:
    """Parse the texts of a column, each once; return values, and which are neither that nor gap."""
    import polars

    texts = texts_of(column)
    values = _by_value(texts, parse, polars.Float64).to_numpy().copy()
    return values, np.isnan(values) & ~gaps(texts)


def read_days(column: Series, parse: Callable[[str], float | None]) -> tuple[Vector, Mask]:
    """Return days since 1970 (NaN without a date), and which values are neither date nor gap."""
    import polars

    if not column.dtype.is_temporal():
        return read_each(column, parse)
    ticks = column.cast(polars.Datetime("us")).to_physical()
    # as `parse_date` adds them, so that the same time has the same bits in any format
    days = (ticks // _DAY).cast(polars.Float64) + ticks % _DAY / 1e6 / 86400.0
    found: Vector = days.to_numpy().copy()
    return found, np.zeros(len(found), dtype=bool)


def _by_value(column: Series, function: Callable[[Any], Any], kind: Any) -> Series:
    """Return the result of a function for each value, called once for each that differs."""
    import polars

    known = column.unique().drop_nulls()
    results = polars.Series([function(value) for value in known.to_list()], dtype=kind)
    return column.replace_strict(known, results, default=None, return_dtype=kind)
