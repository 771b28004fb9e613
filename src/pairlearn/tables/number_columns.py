# SPDX-License-Identifier: BSD-3-Clause
"""Encoders for columns of numbers, of yes and no, and of dates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pairlearn.tables.column import (
    ABSENT,
    ColumnEncoder,
    Odd,
    Put,
    saved_choice,
    saved_flag,
    saved_number,
)
from pairlearn.tables.dates import ORDERS, parse_dates
from pairlearn.tables.units import LONGEST_UNIT
from pairlearn.tables.values import STYLES, parse_each, parse_numbers, yes_or_no
from pairlearn.typing import Mask, Vector

#: Each wave of dates: its period, and the span that makes it worth two features, both in days.
_WAVES = {"year": (365.2425, 300.0), "week": (7.0, 14.0), "day": (1.0, 0.0)}

#: 1 and 0 mean yes and no in a column that also has other words for them.
_BITS = {"1": True, "0": False}


def _median(values: Vector) -> float:
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0
    # np.median says the same; with thousands of columns its checks are most of a fit
    low, high = (len(known) - 1) // 2, len(known) // 2
    known.partition((low, high))
    return float(known[low] if low == high else (known[low] + known[high]) / 2.0)


def fit_full(columns: Sequence[NumberColumn], values: Vector) -> None:
    """Fit columns that miss no value; each row of `values` holds a column."""
    n = values.shape[1]
    low, high = (n - 1) // 2, n // 2
    values = np.partition(values, (low, high), axis=1)
    middle = values[:, low] if low == high else (values[:, low] + values[:, high]) / 2.0
    for column, median in zip(columns, middle.tolist(), strict=True):
        column.median = column.missing if isinstance(column.missing, float) else median
        column.indicator = False


class NumberColumn(ColumnEncoder):
    """A number; a missing one becomes the median."""

    kind = "number"

    def __init__(
        self,
        name: str,
        missing: str | float = "auto",
        style: str = "plain",
        unit: str = "",
        nothing: float | None = None,
    ) -> None:
        super().__init__(name, missing)
        self.style = style
        self.unit = unit
        self.nothing = nothing
        self.median = 0.0

    def read(self, fields: Sequence[str], odd: Odd) -> Vector:
        numbers, wrong = parse_numbers(fields, self.style, self.unit)
        for k in wrong:
            said = f"{fields[k].strip()[:60]!r} is not a number"
            odd(k, f"{said} in {self.unit}" if self.unit else said)
        return self.without_nothing(numbers)

    @property
    def is_plain(self) -> bool:
        """Whether fields are plain numbers, with no unit."""
        return self.style == "plain" and not self.unit

    def without_nothing(self, numbers: Vector) -> Vector:
        """Return numbers as `read` does, where the one that means "missing" is none."""
        if self.nothing is not None:
            numbers[numbers == self.nothing] = math.nan
        return numbers

    def fit(self, parts: Sequence[Any]) -> None:
        values = np.concatenate(parts)
        self.median = float(self.missing) if isinstance(self.missing, float) else _median(values)
        self._decide_indicator(int(np.count_nonzero(np.isnan(values))), len(values))

    def absent(self, values: Any) -> Mask:
        return np.asarray(np.isnan(values), dtype=bool)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}={ABSENT}") if self.indicator else (self.name,)

    def write(self, values: Any, put: Put) -> None:
        absent = np.isnan(values)
        put(np.arange(len(values)), 0, np.where(absent, self.median, values))
        self._put_indicator(absent, put)

    def state(self) -> dict[str, Any]:
        return {"style": self.style, "unit": self.unit, "nothing": self.nothing,
                "median": self.median, "indicator": self.indicator}  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        self.style = saved_choice(state, "style", STYLES)
        # version 1 of the table had neither
        unit, nothing = state.get("unit", ""), state.get("nothing")
        if not isinstance(unit, str) or len(unit) > LONGEST_UNIT:
            raise ValueError(f"the saved unit of {self.name!r} must be a short text.")
        self.unit = unit
        self.nothing = None if nothing is None else saved_number(state, "nothing")
        self.median = saved_number(state, "median")
        self.indicator = saved_flag(state, "indicator")

    @property
    def describe_gaps(self) -> str:
        if self.missing == "refuse":
            return super().describe_gaps
        return f"gaps: {self.median:.6g}{' and an indicator' if self.indicator else ''}"


class YesNoColumn(NumberColumn):
    """1 for yes, 0 for no; a missing value becomes the share of yes."""

    kind = "yes/no"

    def read(self, fields: Sequence[str], odd: Odd) -> Vector:
        values, wrong = parse_each(fields, lambda field: _BITS.get(field.strip(), yes_or_no(field)))
        for k in wrong:
            odd(k, f"{fields[k].strip()[:60]!r} is neither yes nor no")
        return values

    def fit(self, parts: Sequence[Any]) -> None:
        super().fit(parts)
        if not isinstance(self.missing, float):
            values = np.concatenate(parts)
            known = values[np.isfinite(values)]
            self.median = float(known.mean()) if len(known) else 0.5


class DateColumn(ColumnEncoder):
    """Years from the median, and sine and cosine of the year, week and day if the dates span it."""

    kind = "date"

    def __init__(self, name: str, missing: str | float = "auto", order: str = "ymd") -> None:
        super().__init__(name, missing)
        self.order = order
        self.median = 0.0
        self.waves: tuple[str, ...] = ()

    def read(self, fields: Sequence[str], odd: Odd) -> Vector:
        days, wrong = parse_dates(fields, self.order)
        for k in wrong:
            odd(k, f"{fields[k].strip()[:60]!r} is not a date")
        return days

    def fit(self, parts: Sequence[Any]) -> None:
        values = np.concatenate(parts)
        known = values[np.isfinite(values)]
        self.median = _median(values)
        self._decide_indicator(len(values) - len(known), len(values))
        span = float(np.ptp(known)) if len(known) else 0.0
        timed = bool((known != np.floor(known)).any())
        self.waves = tuple(
            wave for wave, (_, least) in _WAVES.items()
            if span >= least and (wave != "day" or timed)
        )  # fmt: skip

    def absent(self, values: Any) -> Mask:
        return np.asarray(np.isnan(values), dtype=bool)

    @property
    def feature_names(self) -> tuple[str, ...]:
        names = [f"{self.name} (years)"]
        for wave in self.waves:
            names += [f"{self.name} ({wave}, sin)", f"{self.name} ({wave}, cos)"]
        return (*names, f"{self.name}={ABSENT}") if self.indicator else tuple(names)

    def write(self, values: Any, put: Put) -> None:
        absent = np.isnan(values)
        rows = np.flatnonzero(~absent)
        put(rows, 0, (values[rows] - self.median) / _WAVES["year"][0])
        for k, wave in enumerate(self.waves):
            angle = 2.0 * np.pi * (values[rows] / _WAVES[wave][0] % 1.0)
            put(rows, 2 * k + 1, np.sin(angle))
            put(rows, 2 * k + 2, np.cos(angle))
        self._put_indicator(absent, put)

    def state(self) -> dict[str, Any]:
        return {"order": self.order, "median": self.median, "waves": list(self.waves),
                "indicator": self.indicator}  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        self.order = saved_choice(state, "order", ORDERS)
        self.median = saved_number(state, "median")
        self.indicator = saved_flag(state, "indicator")
        waves = state.get("waves")
        if not isinstance(waves, list) or [w for w in _WAVES if w in waves] != waves:
            raise ValueError("the saved waves must be some of year, week and day.")
        self.waves = tuple(waves)

    @property
    def describe(self) -> str:
        return f"years, waves of the {', '.join(self.waves)}" if self.waves else "years"
