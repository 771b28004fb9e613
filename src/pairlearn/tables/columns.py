# SPDX-License-Identifier: BSD-3-Clause
"""One column of texts to features, by its kind: fitted once, stored, the same ever after.

Each kind of column has an encoder: `read` turns fields into compact values, `fit` learns medians
and levels from them, `write` puts features into their places. An encoder never looks at labels.

A missing number or date becomes the median, a missing yes or no its share, a missing category a
feature of its own; where values are missing often, an indicator says so too. Levels that are rare
or were never seen share the feature ``NAME=(other)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.restored import restored_count, restored_number
from pairlearn.streams.readers.schema import bucket_of
from pairlearn.tables.dates import ORDERS, parse_dates
from pairlearn.tables.kinds import Decision
from pairlearn.tables.units import LONGEST_UNIT
from pairlearn.tables.values import STYLES, is_missing, parse_each, parse_numbers, yes_or_no

__all__ = ["ColumnEncoder", "make_column", "restored_column"]

#: Values are missing often from this share on, if so many are.
_OFTEN, _AT_LEAST = 0.01, 5
#: The most levels of a category. A level has a feature if it occurs ten times, in few rows once in
#: fifty, but three times.
_MOST_LEVELS, _FREQUENT, _SHARE, _RARE = 100, 10, 50, 3
#: With fewer rows every level has a feature.
_HANDFUL = 30
#: Features of a text, and the most that a user may ask for.
_WORDS, _WIDEST = 1024, 1 << 22
#: Days of a year, a week and a day, and the span from which each wave is worth its features.
_WAVES = {"year": (365.2425, 300.0), "week": (7.0, 14.0), "day": (1.0, 0.0)}

#: Letters of the levels that a person is shown.
_SHOWN = 30

_OTHER, _ABSENT = "(other)", "(missing)"
#: Also yes and no, in a column that has other words for them.
_BITS = {"1": True, "0": False}

#: Receives the place of a field that cannot be read and is taken as missing.
Odd = Callable[[int, str], None]
#: Receives rows, the feature among those of the column, and values.
Put = Callable[[NDArray[np.int64], int, Any], None]


def _often(absent: int, n: int) -> bool:
    return absent >= max(_AT_LEAST, _OFTEN * n)


class ColumnEncoder(ABC):
    """One column; `missing` is "auto", "indicator", "refuse" or the number that stands for none."""

    kind: ClassVar[str]
    #: Whether an indicator of missing values follows the other features.
    indicator = False

    def __init__(self, name: str, missing: str | float = "auto") -> None:
        self.name = name
        self.missing = missing

    @abstractmethod
    def read(self, fields: Sequence[str], odd: Odd) -> Any:
        """Return compact values of fields."""

    @abstractmethod
    def fit(self, parts: Sequence[Any]) -> None:
        """Learn from the values of all rows, in parts."""

    @abstractmethod
    def absent(self, values: Any) -> NDArray[np.bool_]:
        """Return which values are missing."""

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features."""

    @abstractmethod
    def write(self, values: Any, put: Put) -> None:
        """Hand over the features of values; what is not handed over is zero."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what was learned, as plain values."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Take in what `state` gave, after checking it."""

    def narrow(self) -> None:  # noqa: B027 (most have nothing to leave out)
        """Leave out features that `fit`, if it saw all rows, has found to be of no use."""

    @property
    def is_sparse(self) -> bool:
        """Whether most of many features are zero."""
        return False

    @property
    def describe(self) -> str:
        """What becomes of the column, for a person; empty where that is plain."""
        return ""

    @property
    def describe_gaps(self) -> str:
        """What becomes of missing values."""
        if self.missing == "refuse":
            return "rows with gaps are refused"
        return "gaps: own feature" if self.indicator else ""

    def _decide_indicator(self, absent: int, n: int) -> None:
        wanted = self.missing == "indicator"
        self.indicator = bool(absent) and (wanted or (self.missing == "auto" and _often(absent, n)))

    def _put_indicator(self, absent: NDArray[np.bool_], put: Put) -> None:
        if self.indicator:
            rows = np.flatnonzero(absent)
            put(rows, len(self.feature_names) - 1, 1.0)


def _median(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else 0.0


class NumberColumn(ColumnEncoder):
    """A number; its median where there is none."""

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

    def read(self, fields: Sequence[str], odd: Odd) -> NDArray[np.float64]:
        numbers, wrong = parse_numbers(fields, self.style, self.unit)
        for k in wrong:
            said = f"{fields[k].strip()[:60]!r} is not a number"
            odd(k, f"{said} in {self.unit}" if self.unit else said)
        if self.nothing is not None:
            numbers[numbers == self.nothing] = math.nan
        return numbers

    def fit(self, parts: Sequence[Any]) -> None:
        values = np.concatenate(parts)
        self.median = float(self.missing) if isinstance(self.missing, float) else _median(values)
        self._decide_indicator(int(np.isnan(values).sum()), len(values))

    def absent(self, values: Any) -> NDArray[np.bool_]:
        return np.asarray(np.isnan(values), dtype=bool)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}={_ABSENT}") if self.indicator else (self.name,)

    def write(self, values: Any, put: Put) -> None:
        absent = np.isnan(values)
        put(np.arange(len(values)), 0, np.where(absent, self.median, values))
        self._put_indicator(absent, put)

    def state(self) -> dict[str, Any]:
        return {"style": self.style, "unit": self.unit, "nothing": self.nothing,
                "median": self.median, "indicator": self.indicator}  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        self.style = _one_of(state, "style", STYLES)
        # the first version of the table had neither
        unit, nothing = state.get("unit", ""), state.get("nothing")
        if not isinstance(unit, str) or len(unit) > LONGEST_UNIT:
            raise ValueError(f"the saved unit of {self.name!r} must be a short text.")
        self.unit = unit
        self.nothing = None if nothing is None else _finite(state, "nothing")
        self.median = _finite(state, "median")
        self.indicator = _flag(state, "indicator")

    @property
    def describe_gaps(self) -> str:
        if self.missing == "refuse":
            return super().describe_gaps
        return f"gaps: {self.median:.6g}{' and an indicator' if self.indicator else ''}"


class YesNoColumn(NumberColumn):
    """1 for yes, 0 for no; the share of yes where there is neither."""

    kind = "yes/no"

    def read(self, fields: Sequence[str], odd: Odd) -> NDArray[np.float64]:
        values, wrong = parse_each(fields, lambda field: _BITS.get(field, yes_or_no(field)))
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
    """Years from the median, and waves of the year, the week and the day that the dates span."""

    kind = "date"

    def __init__(self, name: str, missing: str | float = "auto", order: str = "ymd") -> None:
        super().__init__(name, missing)
        self.order = order
        self.median = 0.0
        self.waves: tuple[str, ...] = ()

    def read(self, fields: Sequence[str], odd: Odd) -> NDArray[np.float64]:
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

    def absent(self, values: Any) -> NDArray[np.bool_]:
        return np.asarray(np.isnan(values), dtype=bool)

    @property
    def feature_names(self) -> tuple[str, ...]:
        names = [f"{self.name} (years)"]
        for wave in self.waves:
            names += [f"{self.name} ({wave}, sin)", f"{self.name} ({wave}, cos)"]
        return (*names, f"{self.name}={_ABSENT}") if self.indicator else tuple(names)

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
        self.order = _one_of(state, "order", ORDERS)
        self.median = _finite(state, "median")
        self.indicator = _flag(state, "indicator")
        waves = state.get("waves")
        if not isinstance(waves, list) or [w for w in _WAVES if w in waves] != waves:
            raise ValueError("the saved waves must be some of year, week and day.")
        self.waves = tuple(waves)

    @property
    def describe(self) -> str:
        return f"years, waves of the {', '.join(self.waves)}" if self.waves else "years"


class CategoryColumn(ColumnEncoder):
    """A feature for each frequent level, for all others, and for none.

    Levels that differ in the size of letters only are one, under its most frequent spelling; levels
    that a user gives may be different in that too.
    """

    kind = "category"

    def __init__(
        self, name: str, missing: str | float = "auto", levels: Sequence[str] | None = None
    ) -> None:
        super().__init__(name, missing)
        self._given = levels is not None
        self._set_levels(tuple(levels or ()))
        self.other = False

    def _set_levels(self, levels: tuple[str, ...]) -> None:
        self.levels = levels
        self._codes = {level: k for k, level in enumerate(levels)}
        self._folded = {level.casefold(): k for k, level in reversed(list(enumerate(levels)))}

    def _code(self, value: str, unknown: int) -> int:
        code = self._codes.get(value)
        return self._folded.get(value.casefold(), unknown) if code is None else code

    def read(self, fields: Sequence[str], odd: Odd) -> list[str]:
        shared: dict[str, str] = {}
        values = []
        for field in fields:
            value = shared.get(field)
            if value is None:
                value = shared[field] = "" if is_missing(field) else field.strip()
            values.append(value)
        return values

    def fit(self, parts: Sequence[Any]) -> None:
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(part)
        absent = counts.pop("", 0)
        n = absent + sum(counts.values())
        if not self._given:
            least = 1 if n < _HANDFUL else max(_RARE, min(_FREQUENT, n // _SHARE))
            counts = _one_spelling(counts)
            frequent = [level for level, count in counts.items() if count >= least]
            frequent.sort(key=lambda level: (-counts[level], level))
            self._set_levels(tuple(sorted(frequent[:_MOST_LEVELS])))
        self.other = not self._given or len(self.levels) < len(counts)
        own = self.missing in ("auto", "indicator")
        self.indicator = bool(absent) and own and (absent >= _RARE or n < _HANDFUL)

    def absent(self, values: Any) -> NDArray[np.bool_]:
        return np.array([not value for value in values], dtype=bool)

    @property
    def feature_names(self) -> tuple[str, ...]:
        names = [f"{self.name}={level}" for level in self.levels]
        if self.other:
            names.append(f"{self.name}={_OTHER}")
        return (*names, f"{self.name}={_ABSENT}") if self.indicator else tuple(names)

    def write(self, values: Any, put: Put) -> None:
        unknown = len(self.levels) if self.other else -1
        # An absent value that training never met is like a level that it never met.
        table = {value: self._code(value, unknown) for value in set(values)}
        table[""] = len(self.feature_names) - 1 if self.indicator else unknown
        codes = np.array([table[value] for value in values], dtype=np.int64)
        rows = np.flatnonzero(codes >= 0)
        put(rows, codes[rows], 1.0)  # type: ignore[arg-type]

    def state(self) -> dict[str, Any]:
        return {"levels": list(self.levels), "other": self.other, "indicator": self.indicator}

    def restore(self, state: Mapping[str, Any]) -> None:
        levels = state.get("levels")
        if not isinstance(levels, list) or not all(isinstance(v, str) and v for v in levels):
            raise ValueError(f"the saved levels of {self.name!r} must be texts.")
        if len(set(levels)) != len(levels):
            raise ValueError(f"the saved levels of {self.name!r} must be different.")
        self._set_levels(tuple(levels))
        self.other, self.indicator = _flag(state, "other"), _flag(state, "indicator")

    @property
    def describe(self) -> str:
        if not self.levels:
            return "every value is rare"
        shown = ""
        for k, level in enumerate(self.levels):
            if k and (k == 4 or len(shown) + len(level) > _SHOWN):
                return f"{len(self.levels)} levels ({shown}, ...)"
            shown += f", {level}" if shown else level
        return f"{len(self.levels)} level{'s' * (k > 0)} ({shown})"


def _one_spelling(counts: Mapping[str, int]) -> Counter[str]:
    """Return the counts of levels, those of one spelling for all sizes of letters.

    >>> _one_spelling({"Visa": 3, "visa": 1, "cash": 2})
    Counter({'Visa': 4, 'cash': 2})
    """
    spelling: dict[str, str] = {}
    for level in sorted(counts, key=lambda level: (-counts[level], level)):
        spelling.setdefault(level.casefold(), level)
    found: Counter[str] = Counter()
    for level, count in counts.items():
        found[spelling[level.casefold()]] += count
    return found


class HashedColumn(ColumnEncoder):
    """Values (or the words of a text) by their hash, in a fixed number of features."""

    kind = "hashed"

    def __init__(self, name: str, missing: str | float = "auto", width: int = _WORDS) -> None:
        super().__init__(name, missing)
        self.width = width
        self._known: dict[str, int] = {}

    def _words(self, field: str) -> list[str]:
        return [field.strip()]

    def read(self, fields: Sequence[str], odd: Odd) -> list[tuple[int, ...]]:
        return [() if is_missing(field) else self._buckets(field) for field in fields]

    def _buckets(self, field: str) -> tuple[int, ...]:
        found = set()
        for word in self._words(field):
            bucket = self._known.get(word)
            if bucket is None:
                bucket = bucket_of(word, self.width)
                if len(self._known) < 1 << 20:
                    self._known[word] = bucket
            found.add(bucket)
        return tuple(found)

    def fit(self, parts: Sequence[Any]) -> None:
        n = sum(map(len, parts))
        self._decide_indicator(sum(not value for part in parts for value in part), n)

    def absent(self, values: Any) -> NDArray[np.bool_]:
        return np.array([not value for value in values], dtype=bool)

    @property
    def feature_names(self) -> tuple[str, ...]:
        names = tuple(f"{self.name}#{k}" for k in range(self.width))
        return (*names, f"{self.name}={_ABSENT}") if self.indicator else names

    def write(self, values: Any, put: Put) -> None:
        rows = np.repeat(np.arange(len(values)), [len(value) for value in values])
        places = np.array([bucket for value in values for bucket in value], dtype=np.int64)
        put(rows, places, 1.0)  # type: ignore[arg-type]
        self._put_indicator(self.absent(values), put)

    def state(self) -> dict[str, Any]:
        return {"width": self.width, "indicator": self.indicator}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.width = restored_count(state, "width", minimum=2, maximum=_WIDEST)
        self.indicator = _flag(state, "indicator")

    @property
    def is_sparse(self) -> bool:
        return True

    @property
    def describe(self) -> str:
        return f"hashed into {self.width} features"


class TextColumn(HashedColumn):
    """The words of a text, without punctuation and the size of letters.

    Where all rows are known, words that hardly any of them has get no feature: they cannot tell
    classes apart, and a thousand of them drown the other columns.
    """

    kind = "text"

    def __init__(self, name: str, missing: str | float = "auto") -> None:
        super().__init__(name, missing)
        self._rows_with: Counter[str] | None = Counter()
        self._frequent: list[int] = []
        self._keep(None)

    def _keep(self, kept: Sequence[int] | None) -> None:
        self.kept = None if kept is None else tuple(kept)
        self._places = np.arange(self.width)
        if kept is not None:
            self._places = np.full(self.width, -1)
            self._places[list(kept)] = np.arange(len(kept))

    def _words(self, field: str) -> list[str]:
        letters = [c if c.isalnum() else " " for c in field.lower()]
        words = "".join(letters).split()
        if self._rows_with is not None:
            self._rows_with.update(set(words))
        return words

    def fit(self, parts: Sequence[Any]) -> None:
        super().fit(parts)
        least = 1 if sum(map(len, parts)) < _HANDFUL else _RARE
        words = [word for word, rows in (self._rows_with or {}).items() if rows >= least]
        self._frequent = sorted({bucket_of(word, self.width) for word in words})
        # rows that come later are counted no more
        self._rows_with = None

    def narrow(self) -> None:
        self._keep(self._frequent)

    @property
    def is_sparse(self) -> bool:
        return self.kept is None

    @property
    def feature_names(self) -> tuple[str, ...]:
        names = tuple(f"{self.name}#{k}" for k in self.kept or ())
        if self.kept is None:
            return super().feature_names
        return (*names, f"{self.name}={_ABSENT}") if self.indicator else names

    def write(self, values: Any, put: Put) -> None:
        rows = np.repeat(np.arange(len(values)), [len(value) for value in values])
        buckets = np.array([bucket for value in values for bucket in value], dtype=np.int64)
        places = self._places[buckets]
        put(rows[places >= 0], places[places >= 0], 1.0)  # type: ignore[arg-type]
        self._put_indicator(self.absent(values), put)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "kept": None if self.kept is None else list(self.kept)}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        if self.width != _WORDS:
            raise ValueError(f"the saved text {self.name!r} must have {_WORDS} buckets.")
        self._rows_with = None
        # the first version of the table kept all
        kept = state.get("kept")
        if kept is not None and not (
            isinstance(kept, list)
            and all(type(k) is int and 0 <= k < self.width for k in kept)
            and sorted(set(kept)) == kept
        ):
            raise ValueError(f"the saved words of {self.name!r} must be rising places.")
        self._keep(kept)

    @property
    def describe(self) -> str:
        if self.kept is None:
            return super().describe
        return f"{len(self.kept)} frequent word{'s' * (len(self.kept) != 1)}, hashed"


_COLUMNS: dict[str, type[ColumnEncoder]] = {
    column.kind: column
    for column in (NumberColumn, YesNoColumn, DateColumn, CategoryColumn, HashedColumn, TextColumn)
}


def make_column(
    decision: Decision,
    *,
    missing: str | float = "auto",
    levels: Sequence[str] | None = None,
    width: int | None = None,
) -> ColumnEncoder:
    """Return the encoder of a column that is used."""
    name = decision.name
    if width is not None:
        return HashedColumn(name, missing, width)
    if decision.kind == "category":
        return CategoryColumn(name, missing, levels)
    if decision.kind == "number":
        return NumberColumn(name, missing, decision.form, decision.unit, decision.nothing)
    if decision.kind == "date":
        return DateColumn(name, missing, decision.form)
    return _COLUMNS[decision.kind](name, missing)


def restored_column(entry: Any) -> ColumnEncoder:
    """Return the encoder that a file describes, after checking it."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise ValueError("a saved column has no name.")
    kind, missing = entry.get("kind"), entry.get("missing")
    if kind not in _COLUMNS:
        raise ValueError(f"the saved column {entry['name'][:60]!r} is of an unknown kind.")
    if isinstance(missing, int) and not isinstance(missing, bool):
        missing = float(missing)
    if missing not in ("auto", "indicator", "refuse") and not (
        isinstance(missing, float) and math.isfinite(missing)
    ):
        raise ValueError(f"the saved column {entry['name'][:60]!r} has a wrong rule for gaps.")
    column = _COLUMNS[kind](entry["name"], missing)
    column.restore(entry)
    return column


def _flag(state: Mapping[str, Any], name: str) -> bool:
    value = state.get(name)
    if not isinstance(value, bool):
        raise ValueError(f"the saved {name} must be true or false, got {value!r:.60}.")
    return value


def _finite(state: Mapping[str, Any], name: str) -> float:
    return restored_number(state, name, low=-1e300, high=1e300)


def _one_of(state: Mapping[str, Any], name: str, allowed: Sequence[str]) -> str:
    value = state.get(name)
    if value not in allowed:
        raise ValueError(
            f"the saved {name} must be one of {', '.join(allowed)}, got {value!r:.60}."
        )
    return str(value)
