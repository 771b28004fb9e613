# SPDX-License-Identifier: BSD-3-Clause
"""Encoders for columns of words: categories, hashed values, and texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pairlearn.restored import restored_count
from pairlearn.streams.readers.schema import bucket_of
from pairlearn.tables.column import ABSENT, ColumnEncoder, Odd, Put, saved_flag
from pairlearn.tables.values import is_missing
from pairlearn.typing import Mask

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
#: Hash buckets of a text.
_TEXT_WIDTH = 1024
#: Hash buckets that a user may ask for at most.
_MAX_WIDTH = 1 << 22

#: Characters of levels that a person is shown.
_SHOWN = 30

_OTHER = "(other)"
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")


class CategoryColumn(ColumnEncoder):
    """A category: one feature for each frequent level, one for the rest, one for missing values.

    Levels that differ only in case are one level, named by its most frequent spelling. Levels given
    by the user may differ in case only. A later 1.0 is the level 1, and the other way round: a
    program that meets a gap writes whole numbers as floats.
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
        self._whole = {_as_whole(level): k for k, level in reversed(list(enumerate(levels)))}

    def _code(self, value: str, unknown: int) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._folded.get(value.casefold())
        return self._whole.get(_as_whole(value), unknown) if code is None else code

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
            least = 1 if n < _FEW_ROWS else max(_LEAST_ROWS, min(_ENOUGH_ROWS, n // _LEVEL_ROWS))
            counts = _one_spelling(counts)
            frequent = [level for level, count in counts.items() if count >= least]
            frequent.sort(key=lambda level: (-counts[level], level))
            self._set_levels(tuple(sorted(frequent[:_MOST_LEVELS])))
        self.other = not self._given or len(self.levels) < len(counts)
        own = self.missing in ("auto", "indicator")
        self.indicator = bool(absent) and own and (absent >= _LEAST_ROWS or n < _FEW_ROWS)

    def absent(self, values: Any) -> Mask:
        return np.array([not value for value in values], dtype=bool)

    @property
    def feature_names(self) -> tuple[str, ...]:
        names = [f"{self.name}={level}" for level in self.levels]
        if self.other:
            names.append(f"{self.name}={_OTHER}")
        return (*names, f"{self.name}={ABSENT}") if self.indicator else tuple(names)

    def write(self, values: Any, put: Put) -> None:
        unknown = len(self.levels) if self.other else -1
        # without an indicator, a missing value is treated like an unseen level
        table = {value: self._code(value, unknown) for value in set(values)}
        table[""] = len(self.feature_names) - 1 if self.indicator else unknown
        codes = np.array([table[value] for value in values], dtype=np.int64)
        rows = np.flatnonzero(codes >= 0)
        put(rows, codes[rows], 1.0)  # type: ignore[arg-type]

    def stranger(self, values: Any) -> str:
        seen = dict.fromkeys(value for value in values if value)
        if not self.levels or any(self._code(value, -1) >= 0 for value in seen):
            return ""
        return next(iter(seen), "")

    def state(self) -> dict[str, Any]:
        return {"levels": list(self.levels), "other": self.other, "indicator": self.indicator}

    def restore(self, state: Mapping[str, Any]) -> None:
        levels = state.get("levels")
        if not isinstance(levels, list) or not all(isinstance(v, str) and v for v in levels):
            raise ValueError(f"the saved levels of {self.name!r} must be texts.")
        if len(set(levels)) != len(levels):
            raise ValueError(f"the saved levels of {self.name!r} must be different.")
        self._set_levels(tuple(levels))
        self.other, self.indicator = saved_flag(state, "other"), saved_flag(state, "indicator")

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
    """Hash values (or the words of a text) into a fixed number of features."""

    kind = "hashed"

    def __init__(self, name: str, missing: str | float = "auto", width: int = _TEXT_WIDTH) -> None:
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

    def absent(self, values: Any) -> Mask:
        return np.array([not value for value in values], dtype=bool)

    @property
    def feature_names(self) -> tuple[str, ...]:
        names = tuple(f"{self.name}#{k}" for k in range(self.width))
        return (*names, f"{self.name}={ABSENT}") if self.indicator else names

    def write(self, values: Any, put: Put) -> None:
        rows = np.repeat(np.arange(len(values)), [len(value) for value in values])
        places = np.array([bucket for value in values for bucket in value], dtype=np.int64)
        put(rows, places, 1.0)  # type: ignore[arg-type]
        self._put_indicator(self.absent(values), put)

    def state(self) -> dict[str, Any]:
        return {"width": self.width, "indicator": self.indicator}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.width = restored_count(state, "width", minimum=2, maximum=_MAX_WIDTH)
        self.indicator = saved_flag(state, "indicator")

    @property
    def is_sparse(self) -> bool:
        return True

    @property
    def describe(self) -> str:
        return f"hashed into {self.width} features"


class TextColumn(HashedColumn):
    """Hash the words of a text, without punctuation and case.

    If all rows are known, rare words get no feature: they cannot separate classes, and a thousand
    of them would drown the other columns.
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
        least = 1 if sum(map(len, parts)) < _FEW_ROWS else _LEAST_ROWS
        words = [word for word, rows in (self._rows_with or {}).items() if rows >= least]
        self._frequent = sorted({bucket_of(word, self.width) for word in words})
        # stop counting: later rows are not training rows
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
        return (*names, f"{self.name}={ABSENT}") if self.indicator else names

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
        if self.width != _TEXT_WIDTH:
            raise ValueError(f"the saved text {self.name!r} must have {_TEXT_WIDTH} buckets.")
        self._rows_with = None
        # version 1 of the table kept all words
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
