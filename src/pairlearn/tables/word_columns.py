# SPDX-License-Identifier: BSD-3-Clause
"""Columns of words: categories by level, values by their hash, texts by their words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pairlearn.restored import restored_count
from pairlearn.streams.readers.schema import bucket_of
from pairlearn.tables.column import (
    ABSENT,
    ColumnEncoder,
    Odd,
    Put,
    saved_flag,
)
from pairlearn.tables.values import is_missing
from pairlearn.typing import Mask

__all__ = ["CategoryColumn", "HashedColumn", "TextColumn"]

#: The most levels of a category. A level has a feature if it occurs ten times, in few rows once in
#: fifty, but three times.
_MOST_LEVELS, _FREQUENT, _SHARE, _RARE = 100, 10, 50, 3
#: With fewer rows every level has a feature.
_HANDFUL = 30
#: Features of a text, and the most that a user may ask for.
_WORDS, _WIDEST = 1024, 1 << 22

#: Letters of the levels that a person is shown.
_SHOWN = 30

_OTHER = "(other)"


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
        self.width = restored_count(state, "width", minimum=2, maximum=_WIDEST)
        self.indicator = saved_flag(state, "indicator")

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
