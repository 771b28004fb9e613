# SPDX-License-Identifier: BSD-3-Clause
"""Column encoders: turn one column of a table into features.

Each kind of column has an encoder: `read` turns a series into values, `fit` learns medians and
levels from them, `features` yields what to write. A fitted encoder is stored and never changes. It
never looks at labels.

A missing number or date becomes the median, a missing yes/no the share of yes, a missing category
a feature of its own. If values are often missing, an indicator feature marks them. Rare and unseen
levels share the feature ``NAME=(other)``.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pairlearn.streams.readers.base import bucket_of
from pairlearn.tables.dates import ORDERS, parse_date
from pairlearn.tables.kinds import UNUSED, Decision, decide
from pairlearn.tables.series import gaps, known_texts, read_days, read_each, read_numbers
from pairlearn.tables.values import LONGEST_UNIT, STYLES, yes_or_no
from pairlearn.typing import Mask

if TYPE_CHECKING:
    from polars import Series

#: An indicator marks missing values if they are at least this share of the rows, ...
_INDICATOR_SHARE = 0.01
#: ... and at least this number of rows; fewer cannot be learned from.
_INDICATOR_ROWS = 5
#: Each wave of dates: its period, and the span that makes it worth two features, both in days.
_WAVES = {"year": (365.2425, 300.0), "week": (7.0, 14.0), "day": (1.0, 0.0)}
#: 1 and 0 mean yes and no in a column that also has other words for them.
_BITS = {"1": True, "0": False}
#: Levels of a category at most; the rest share one feature.
_MOST_LEVELS = 100
#: A level gets a feature if it has at least one row in this number of rows, ...
_LEVEL_ROWS = 50
#: ... where this number of rows always suffices, ...
_ENOUGH_ROWS = 10
#: ... and this number of rows is always needed; words and gaps need it too.
_LEAST_ROWS = 3
#: With fewer rows than this every level and word gets a feature.
_FEW_ROWS = 30
#: Hash buckets of a text, and those that a user may ask for at most.
_TEXT_WIDTH, _MAX_WIDTH = 1024, 1 << 22
#: Characters of levels that a person is shown.
_SHOWN = 30
_OTHER, _ABSENT = "(other)", "(missing)"
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")

#: Rows, the place of the feature within the column, and values.
Entries = tuple[Any, Any, Any]


def _saved(test: Callable[[Any], bool], what: str) -> Callable[[Mapping[str, Any], str], Any]:
    """Return what checks an entry of a saved state, and gives a list as a tuple."""

    def checked(state: Mapping[str, Any], name: str) -> Any:
        value = state.get(name)
        if not test(value):
            raise ValueError(f"the saved {name} must be {what}, got {value!r:.60}.")
        return tuple(value) if isinstance(value, list) else value

    return checked


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= 1e300


def _are_levels(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(v, str) and v for v in value)
    return texts and len(set(value)) == len(value)


def _are_places(value: Any) -> bool:
    whole = isinstance(value, list) and all(type(k) is int and 0 <= k < _TEXT_WIDTH for k in value)
    return value is None or (whole and sorted(set(value)) == value)


saved_flag = _saved(lambda value: isinstance(value, bool), "true or false")
_saved_number = _saved(_is_number, "a finite number")


class ColumnEncoder(ABC):
    """Encode one column. `missing` is "auto", "indicator", "refuse" or a number to fill in."""

    kind: ClassVar[str]
    #: The fitted values that a model file holds, with what returns each after a check.
    saved: ClassVar[dict[str, Callable[[Mapping[str, Any], str], Any]]]
    #: What a value that cannot be read is not.
    unread: ClassVar[str] = "is not a number"
    #: The style of numbers or the order of dates, and the unit of numbers.
    form = unit = ""
    #: Whether the last feature is an indicator of missing values.
    indicator = False
    #: Whether a row is refused whose value cannot be read; otherwise the value is missing.
    strict = False
    #: Whether the column has many features, most of them zero.
    is_sparse = False
    #: How the column is encoded, for a person; empty if that is obvious.
    describe = ""

    def __init__(self, name: str, missing: str | float = "auto") -> None:
        self.name, self.missing = name, missing

    @abstractmethod
    def read(self, column: Series) -> tuple[Any, Mask]:
        """Return compact values, and a mask of those that cannot be read."""

    @abstractmethod
    def fit(self, values: Any) -> None:
        """Learn from the compact values of all rows."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the features without the indicator."""

    @abstractmethod
    def features(self, values: Any) -> Iterator[Entries]:
        """Yield the nonzero features of the values, without the indicator."""

    def state(self) -> dict[str, Any]:
        """Return the fitted values as plain data."""
        values = {name: getattr(self, name) for name in self.saved}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Check and load the output of `state`."""
        for name, checked in self.saved.items():
            setattr(self, name, checked(state, name))

    def absent(self, values: Any) -> Mask:
        """Return a mask of the missing values."""
        found: Mask = np.isnan(values) if isinstance(values, np.ndarray) else gaps(values)
        return found

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of all features."""
        last = [f"{self.name}={_ABSENT}"] if self.indicator else []
        return (*self.names(), *last)

    def entries(self, values: Any) -> Iterator[Entries]:
        """Yield the nonzero features of the values."""
        yield from self.features(values)
        if self.indicator:
            yield np.flatnonzero(self.absent(values)), len(self.names()), 1.0

    def narrow(self) -> None:  # noqa: B027 (most have nothing to leave out)
        """Drop the features that `fit` found useless; valid only if it saw all rows."""

    def stranger(self, values: Any) -> str:
        """Return the first value if training has seen none of them; empty if it knows one."""
        return ""

    @property
    def describe_gaps(self) -> str:
        """How missing values are encoded."""
        if self.missing == "refuse":
            return "rows with gaps are refused"
        return "gaps: own feature" if self.indicator else ""

    def _decide_indicator(self, absent: Mask) -> None:
        n = int(np.count_nonzero(absent))
        often = n >= max(_INDICATOR_ROWS, _INDICATOR_SHARE * len(absent))
        wanted = self.missing == "indicator" or (self.missing == "auto" and often)
        self.indicator = bool(n) and wanted


class NumberColumn(ColumnEncoder):
    """A number; a missing one becomes the median."""

    kind = "number"
    saved: ClassVar = {
        "form": _saved(lambda value: value in STYLES, f"one of {', '.join(STYLES)}"),
        "unit": _saved(lambda v: isinstance(v, str) and len(v) <= LONGEST_UNIT, "a short text"),
        "nothing": _saved(lambda v: v is None or _is_number(v), "a finite number"),
        "median": _saved_number,
        "indicator": saved_flag,
    }

    def __init__(
        self,
        name: str,
        missing: str | float = "auto",
        form: str = "plain",
        unit: str = "",
        nothing: float | None = None,
    ) -> None:
        super().__init__(name, missing)
        self.form, self.unit, self.nothing = form, unit, nothing
        self.median = missing if isinstance(missing, float) else 0.0

    @property
    def unread(self) -> str:  # type: ignore[override]
        """What a value that cannot be read is not."""
        return f"is not a number{f' in {self.unit}' if self.unit else ''}"

    def read(self, column: Series) -> tuple[Any, Mask]:
        numbers, wrong = read_numbers(column, self.form, self.unit)
        if self.nothing is not None:
            numbers[numbers == self.nothing] = math.nan
        return numbers, wrong

    def fit(self, values: Any) -> None:
        known = values[np.isfinite(values)]
        if not isinstance(self.missing, float):
            self.median = self._middle(known) if len(known) else self._nothing_known
        self._decide_indicator(self.absent(values))

    _nothing_known: ClassVar[float] = 0.0

    def _middle(self, known: Any) -> float:
        return float(np.median(known))

    def names(self) -> list[str]:
        return [self.name]

    def features(self, values: Any) -> Iterator[Entries]:
        yield np.arange(len(values)), 0, np.where(np.isnan(values), self.median, values)

    @property
    def describe_gaps(self) -> str:
        """How missing values are encoded."""
        if self.missing == "refuse":
            return super().describe_gaps
        return f"gaps: {self.median:.6g}{' and an indicator' if self.indicator else ''}"


class YesNoColumn(NumberColumn):
    """1 for yes, 0 for no; a missing value becomes the share of yes."""

    kind = "yes/no"
    unread = "is neither yes nor no"
    _nothing_known = 0.5

    def read(self, column: Series) -> tuple[Any, Mask]:
        return read_each(column, lambda text: _BITS.get(text.strip(), yes_or_no(text)))

    def _middle(self, known: Any) -> float:
        return float(known.mean())


class DateColumn(ColumnEncoder):
    """Years from the median, and sine and cosine of the year, week and day if the dates span it."""

    kind = "date"
    unread = "is not a date"
    saved: ClassVar = {
        "form": _saved(lambda value: value in ORDERS, f"one of {', '.join(ORDERS)}"),
        "median": _saved_number,
        "waves": _saved(
            lambda v: isinstance(v, list) and [w for w in _WAVES if w in v] == v,
            "some of year, week and day",
        ),
        "indicator": saved_flag,
    }

    def __init__(self, name: str, missing: str | float = "auto", form: str = "ymd") -> None:
        super().__init__(name, missing)
        self.form, self.median = form, 0.0
        self.waves: tuple[str, ...] = ()

    def read(self, column: Series) -> tuple[Any, Mask]:
        return read_days(column, lambda text: parse_date(text, self.form))

    def fit(self, values: Any) -> None:
        known = values[np.isfinite(values)]
        self._decide_indicator(self.absent(values))
        self.median = float(np.median(known)) if len(known) else 0.0
        span = float(np.ptp(known)) if len(known) else 0.0
        timed = bool((known != np.floor(known)).any())
        self.waves = tuple(
            wave for wave, (_, least) in _WAVES.items()
            if span >= least and (wave != "day" or timed)
        )  # fmt: skip

    def names(self) -> list[str]:
        waves = [f"({wave}, {part})" for wave in self.waves for part in ("sin", "cos")]
        return [f"{self.name} {what}" for what in ("(years)", *waves)]

    def features(self, values: Any) -> Iterator[Entries]:
        rows = np.flatnonzero(~np.isnan(values))
        yield rows, 0, (values[rows] - self.median) / _WAVES["year"][0]
        for k, wave in enumerate(self.waves):
            angle = 2.0 * np.pi * (values[rows] / _WAVES[wave][0] % 1.0)
            yield rows, 2 * k + 1, np.sin(angle)
            yield rows, 2 * k + 2, np.cos(angle)

    @property
    def describe(self) -> str:  # type: ignore[override]
        """How the column is encoded."""
        return f"years, waves of the {', '.join(self.waves)}" if self.waves else "years"


class CategoryColumn(ColumnEncoder):
    """A category: one feature for each frequent level, one for the rest, one for missing values.

    Levels that differ only in case are one level, named by its most frequent spelling. Levels given
    by the user may differ in case only. A later 1.0 is the level 1, and the other way round: a
    program that meets a gap writes whole numbers as floats.
    """

    kind = "category"
    unread = "is not among its levels (unknown='ignore' accepts it)"
    saved: ClassVar = {
        "levels": _saved(_are_levels, "different texts"),
        "other": saved_flag,
        "indicator": saved_flag,
    }

    def __init__(
        self, name: str, missing: str | float = "auto", levels: Sequence[str] | None = None
    ) -> None:
        super().__init__(name, missing)
        self._given = levels is not None
        self.levels = tuple(levels or ())
        self.other = False

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that have a feature each."""
        return self._levels

    @levels.setter
    def levels(self, levels: tuple[str, ...]) -> None:
        self._levels = levels
        codes = list(enumerate(levels))
        self._codes = {level: k for k, level in codes}
        self._folded = {level.casefold(): k for k, level in reversed(codes)}
        self._whole = {_as_whole(level): k for k, level in reversed(codes)}

    def _code(self, value: str) -> int | None:
        found = self._codes.get(value, self._folded.get(value.casefold()))
        return self._whole.get(_as_whole(value)) if found is None else found

    def read(self, column: Series) -> tuple[Any, Mask]:
        values = known_texts(column)
        if not self.strict:
            return values, np.zeros(len(values), dtype=bool)
        return values, np.isnan(read_each(values, self._code)[0]) & ~self.absent(values)

    def fit(self, values: Any) -> None:
        counted = values.drop_nulls().value_counts()
        counts: Counter[str] = Counter(dict(counted.iter_rows()))
        n, absent = len(values), values.null_count()
        if not self._given:
            least = 1 if n < _FEW_ROWS else max(_LEAST_ROWS, min(_ENOUGH_ROWS, n // _LEVEL_ROWS))
            counts = _one_spelling(counts)
            frequent = [level for level, count in counts.items() if count >= least]
            frequent.sort(key=lambda level: (-counts[level], level))
            self.levels = tuple(sorted(frequent[:_MOST_LEVELS]))
        self.other = not self._given or len(self.levels) < len(counts)
        own = self.missing in ("auto", "indicator")
        self.indicator = bool(absent) and own and (absent >= _LEAST_ROWS or n < _FEW_ROWS)

    def absent(self, values: Any) -> Mask:
        found: Mask = values.is_null().to_numpy()
        return found

    def names(self) -> list[str]:
        return [f"{self.name}={level}" for level in (*self.levels, *[_OTHER] * self.other)]

    def features(self, values: Any) -> Iterator[Entries]:
        codes = read_each(values, self._code)[0]
        if self.other:  # without an indicator, a missing value is one of them
            unknown = np.isnan(codes) & ~(self.absent(values) & self.indicator)
            codes[unknown] = len(self.levels)
        rows = np.flatnonzero(~np.isnan(codes))
        yield rows, codes[rows].astype(np.int64), 1.0

    def stranger(self, values: Any) -> str:
        seen = values.drop_nulls().unique(maintain_order=True).to_list()
        if not self.levels or any(self._code(value) is not None for value in seen):
            return ""
        return next(iter(seen), "")

    @property
    def describe(self) -> str:  # type: ignore[override]
        """How the column is encoded."""
        if not self.levels:
            return "every value is rare"
        shown = ""
        for k, level in enumerate(self.levels):
            if k and (k == 4 or len(shown) + len(level) > _SHOWN):
                return f"{len(self.levels)} levels ({shown}, ...)"
            shown += f", {level}" if shown else level
        return f"{len(self.levels)} level{'s' * (k > 0)} ({shown})"


def _as_whole(text: str) -> str:
    """Return a whole number without the zeros after its point, and any other text as it is.

    >>> [_as_whole(text) for text in ("1.0", "-20.00", "1", "1.50", "v1.0", ".0")]
    ['1', '-20', '1', '1.50', 'v1.0', '.0']
    """
    found = _WHOLE.fullmatch(text)
    return text if found is None else found[1]


def _one_spelling(counts: Mapping[str, int]) -> Counter[str]:
    """Merge the counts of levels that differ only in case, under the most frequent spelling."""
    spelling: dict[str, str] = {}
    for level in sorted(counts, key=lambda level: (-counts[level], level)):
        spelling.setdefault(level.casefold(), level)
    found: Counter[str] = Counter()
    for level, count in counts.items():
        found[spelling[level.casefold()]] += count
    return found


class HashedColumn(ColumnEncoder):
    """Hash values into a fixed number of features."""

    kind = "hashed"
    is_sparse = True
    saved: ClassVar = {
        "width": _saved(lambda v: type(v) is int and 2 <= v <= _MAX_WIDTH, "2 to 4194304"),
        "indicator": saved_flag,
    }

    def __init__(self, name: str, missing: str | float = "auto", width: int = _TEXT_WIDTH) -> None:
        super().__init__(name, missing)
        self.width = width

    def read(self, column: Series) -> tuple[Any, Mask]:
        return known_texts(column), np.zeros(len(column), dtype=bool)

    def fit(self, values: Any) -> None:
        self._decide_indicator(self.absent(values))

    def absent(self, values: Any) -> Mask:
        found: Mask = values.is_null().to_numpy()
        return found

    def names(self) -> list[str]:
        return [f"{self.name}#{k}" for k in range(self.width)]

    def features(self, values: Any) -> Iterator[Entries]:
        buckets = read_each(values, lambda value: bucket_of(value, self.width))[0]
        rows = np.flatnonzero(~np.isnan(buckets))
        yield rows, buckets[rows].astype(np.int64), 1.0

    @property
    def describe(self) -> str:  # type: ignore[override]
        """How the column is encoded."""
        return f"hashed into {self.width} features"


class TextColumn(HashedColumn):
    """Hash the words of a text, without punctuation and case.

    If all rows are known, rare words get no feature: they cannot separate classes, and a thousand
    of them would drown the other columns.
    """

    kind = "text"
    saved: ClassVar = {
        "width": _saved(lambda value: value == _TEXT_WIDTH, f"{_TEXT_WIDTH}"),
        "indicator": saved_flag,
        "kept": _saved(_are_places, "rising places"),
    }

    def __init__(self, name: str, missing: str | float = "auto") -> None:
        super().__init__(name, missing)
        self.kept: tuple[int, ...] | None = None
        self._frequent: list[int] = []

    def _words(self, values: Any) -> tuple[Any, Any]:
        """Return row and word, each word of a row once."""
        import polars

        words = values.str.to_lowercase().str.replace_all(r"[^\p{L}\p{N}]+", " ")
        found = (
            polars.DataFrame({"row": np.arange(len(values)), "word": words.str.split(" ")})
            .explode("word").filter(polars.col("word") != "").unique(maintain_order=True)
        )  # fmt: skip
        return found["row"].to_numpy(), found["word"]

    def fit(self, values: Any) -> None:
        super().fit(values)
        least = 1 if len(values) < _FEW_ROWS else _LEAST_ROWS
        counted = self._words(values)[1].value_counts()
        words = counted.filter(counted["count"] >= least)["word"].to_list()
        self._frequent = sorted({bucket_of(word, self.width) for word in words})

    def narrow(self) -> None:
        """Drop the features of rare words."""
        self.kept = tuple(self._frequent)

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether the column has many features, most of them zero."""
        return self.kept is None

    def names(self) -> list[str]:
        places = range(self.width) if self.kept is None else self.kept
        return [f"{self.name}#{k}" for k in places]

    def features(self, values: Any) -> Iterator[Entries]:
        rows, words = self._words(values)
        places = np.arange(self.width)
        if self.kept is not None:
            places[:] = -1
            places[list(self.kept)] = np.arange(len(self.kept))
        buckets = read_each(words, lambda word: bucket_of(word, self.width))[0]
        at = places[buckets.astype(np.int64)]
        # two words of a row may share a bucket
        pairs = np.unique(np.column_stack([rows, at])[at >= 0], axis=0)
        yield pairs[:, 0], pairs[:, 1], 1.0

    @property
    def describe(self) -> str:  # type: ignore[override]
        """How the column is encoded."""
        if self.kept is None:
            return super().describe
        return f"{len(self.kept)} frequent word{'s' * (len(self.kept) != 1)}, hashed"


# --------------------------------------------------------------------- from decisions, from a file


def choose_columns(
    sample: Mapping[str, Sequence[str]],
    used: Collection[str],
    *,
    commas: str,
    given: Mapping[str, str],
    declared: Collection[str],
    step: int,
    missing: str | float,
    levels: Mapping[str, Sequence[str]] | None = None,
    widths: Mapping[str, int] | None = None,
) -> tuple[list[Decision], dict[str, ColumnEncoder]]:
    """Decide the kind of each column of a sample; return encoders for those that give features."""
    decisions, columns = [], {}
    for name, texts in sample.items():
        if name not in used:
            decisions.append(Decision(name, "excluded", given=True))
            continue
        decision = decide(
            name, texts, commas=commas, given=given.get(name), declared=name in declared, step=step
        )
        decisions.append(decision)
        if decision.kind not in UNUSED:
            columns[name] = make_column(
                decision, missing=missing, levels=(levels or {}).get(name),
                width=(widths or {}).get(name),
            )  # fmt: skip
    return decisions, columns


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
    """Return the encoder for a column that gives features."""
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
    """Check a saved column and return its encoder."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise ValueError("a saved column has no name.")
    kind, missing = entry.get("kind"), entry.get("missing")
    if kind not in _COLUMNS:
        raise ValueError(f"the saved column {entry['name'][:60]!r} is of an unknown kind.")
    if _is_number(missing):
        missing = float(missing)  # type: ignore[arg-type]
    elif missing not in ("auto", "indicator", "refuse"):
        raise ValueError(f"the saved column {entry['name'][:60]!r} has a wrong rule for gaps.")
    column = _COLUMNS[kind](entry["name"], missing)
    column.restore(entry)
    column.strict = "strict" in entry and saved_flag(entry, "strict")
    return column
