# SPDX-License-Identifier: BSD-3-Clause
"""Buffer the rows of a chunk between parser and chunk: fill, check, and drop refused rows."""

from __future__ import annotations

import math
import re
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import Refusals
from pairlearn.streams.readers.schema import Layout, short_name
from pairlearn.typing import Vector
from pairlearn.validation import check_count

_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)
#: Characters of a text in a message.
_SHOWN = 40


class RefusedFieldError(ValueError):
    """A field is unusable; the message gives the reason without the place."""


def shown(text: str) -> str:
    """Return a text for a message, cut after forty characters."""
    return repr(text) if len(text) <= _SHOWN else repr(text[:_SHOWN]) + "..."


def parse_number(text: str, missing_tokens: tuple[str, ...]) -> float:
    """Return the number in a field, NaN if it is missing.

    The grammar is that of decimal literals, ``inf`` and ``nan``; unlike ``float()`` it accepts
    neither underscores nor digits of other scripts.
    """
    text = text.strip(" \t")
    if not text or text in missing_tokens:
        return math.nan
    if not _NUMBER.fullmatch(text):
        raise RefusedFieldError(f"{shown(text)} is not a number")
    value = float(text)
    if math.isinf(value):
        raise RefusedFieldError(f"{shown(text)} is infinite")
    return value


#: Bytes of a block of several chunks.
_LARGE = 1 << 24
#: Queries below this are exact as floats.
_LARGEST_QID = 2.0**53


class _Refuser(Protocol):
    position: Any

    def refuse(self, refusals: Refusals, source: str, line: int, reason: str) -> Refusals: ...


def chunk_rows_for(chunk_rows: int | None, n_features: int) -> int:
    """Return the rows in a chunk: as given, or for about 4 MB and at most 16384."""
    if chunk_rows is not None:
        return check_count("chunk_rows", chunk_rows)
    return min(16384, max(1, (1 << 19) // max(1, n_features)))


def keep_freed_memory() -> None:
    """Have the allocator keep the memory of a chunk for the next one.

    A large block that comes and goes teaches the GNU allocator to keep blocks of that size.
    Otherwise each chunk goes back to the system and is faulted in again.
    """
    np.empty(_LARGE, dtype=np.uint8)


class RowChecker:
    """Collect the refusals of one chunk and pass them to the reader in the order of the file."""

    def __init__(self, reader: _Refuser, layout: Layout | None, source: str) -> None:
        self._reader = reader
        self._source = source
        self._layout = layout
        self._pending: list[tuple[int, str]] = []
        self.marked: dict[int, str] = {}
        self.refusals: Refusals = reader.position.refusals

    def refuse(self, line: int, reason: str) -> None:
        """Refuse the row at a line."""
        self._pending.append((line, reason))

    def mark(self, row: int, reason: str) -> None:
        """Refuse a row in the buffer; its first reason counts."""
        self.marked.setdefault(row, reason)

    def flush(self) -> None:
        """Pass on all refusals since the last call."""
        for line, reason in sorted(self._pending, key=lambda pair: pair[0]):
            self.refusals = self._reader.refuse(self.refusals, self._source, line, reason)
        self._pending.clear()


class RowBuffer:
    """Arrays for the rows of one chunk."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        n_codes = len(layout.categories) + (layout.label is not None and layout.schema.text_labels)
        self.values: NDArray[Any] = np.empty(
            (capacity, len(layout.numbers)), dtype=layout.schema.dtype
        )
        self.extra = np.empty((capacity, 2))
        self.codes = np.empty((capacity, n_codes), dtype=np.int64)
        self.lines = np.empty(capacity, dtype=np.int64)
        self.has_missing = np.zeros(capacity, dtype=np.bool_)
        self.count = 0

    def settle(self, layout: Layout, row: int, j: int, value: str) -> bool:
        """Store one field given as text; return True if it is missing."""
        if j in layout.levels:
            code = layout.code_of(j, value)
            if code == -2:
                self.unknown(layout, j, value)
            self.codes[row, self._code_column(layout, j)] = code
            return False
        number = parse_number(value, layout.schema.missing_tokens)
        if j == layout.label:
            self.extra[row, 0] = number
        elif j == layout.qid:
            # 01 and +1 are other ids than 1; 1.0 is how a column with gaps was written
            if number >= 0 and value.strip(" \t") not in (str(int(number)), repr(number)):
                raise RefusedFieldError(
                    f"{shown(value)} is no query: write a whole number from 0, without sign and "
                    "leading zeros"
                )
            self.extra[row, 1] = number
        else:
            slot = layout.slots[j]
            with np.errstate(over="ignore"):  # the next lines refuse overflow
                self.values[row, slot] = number
            if math.isfinite(number) and not math.isfinite(self.values[row, slot]):
                raise RefusedFieldError(f"{shown(value)} is too large for float32")
        if math.isnan(number):
            self.has_missing[row] = True
            return True
        return False

    def store_missing_code(self, layout: Layout, row: int, j: int) -> None:
        """Store a missing category."""
        self.codes[row, self._code_column(layout, j)] = -1

    @staticmethod
    def _code_column(layout: Layout, j: int) -> int:
        return len(layout.categories) if j == layout.label else layout.slots[j]

    @staticmethod
    def unknown(layout: Layout, j: int, value: str) -> None:
        """Refuse a text that is not a level of column j, unless unknown levels are allowed."""
        if j == layout.label:
            raise RefusedFieldError(unexpected_label(shown(value), layout.schema.classes))
        if layout.schema.unknown == "refuse":
            raise RefusedFieldError(
                f"{shown(value)} is not among its levels (unknown='ignore' accepts it)"
            )

    def take_in(self, stop: int, any_missing: bool, layout: Layout, checker: RowChecker) -> None:
        """Check rows ``count:stop`` and keep the usable ones."""
        begin = self.count
        fresh = slice(begin, stop)
        if layout.schema.dtype == "float32":
            too_large = np.isinf(self.values[fresh]).any(axis=1)
            for row in np.flatnonzero(too_large).tolist():
                checker.mark(begin + row, "a number is too large for float32")
        if any_missing:
            blame = layout.refused_missing(self.values[fresh], self.codes[fresh])
            for row in np.flatnonzero(blame >= 0).tolist():
                name = layout.names[blame[row]]
                checker.mark(
                    begin + row,
                    f"column {short_name(name)}: the value is missing (missing=0 or "
                    "missing='indicator' accepts it)",
                )
        if layout.label is not None:
            self._check_labels(begin, stop, layout, checker)
        if layout.qid is not None:
            qid = self.extra[fresh, 1]
            with np.errstate(invalid="ignore"):  # a signalling NaN would warn
                whole = (qid >= 0) & (qid < _LARGEST_QID) & (qid == np.floor(qid))
            for row in np.flatnonzero(~whole).tolist():
                checker.mark(begin + row, "the query must be a whole number from 0")
        if not checker.marked:
            self.count = stop
            return
        for row, reason in checker.marked.items():
            checker.refuse(int(self.lines[row]), reason)
        kept = np.delete(np.arange(begin, stop), [row - begin for row in checker.marked])
        checker.marked.clear()
        self.count = begin + len(kept)
        for array in (self.values, self.extra, self.codes, self.lines, self.has_missing):
            array[begin : self.count] = array[kept]

    def _check_labels(self, begin: int, stop: int, layout: Layout, checker: RowChecker) -> None:
        """Refuse rows whose label is missing or not among the classes."""
        if layout.schema.text_labels:
            absent = self.codes[begin:stop, -1] == -1
            bad = absent
        else:
            y = self.extra[begin:stop, 0]
            absent = np.isnan(y)
            bad = absent
            if layout.schema.classes is not None:
                with np.errstate(invalid="ignore"):
                    bad = ~np.isin(y, np.array(layout.schema.classes, dtype=np.float64))
        if not bad.any():
            return
        for row in np.flatnonzero(bad).tolist():
            if absent[row]:
                checker.mark(begin + row, "the label is missing")
            else:
                value = repr(float(self.extra[begin + row, 0]))
                checker.mark(begin + row, unexpected_label(value, layout.schema.classes))

    def finish(self, layout: Layout) -> tuple[Any, Vector | None, NDArray[np.int64] | None]:
        """Return features, labels and queries of the kept rows."""
        n = self.count
        if self.has_missing[:n].any():
            layout.fill_missing(self.values[:n])
        X = layout.assemble(self.values[:n], self.codes[:n])
        y = qid = None
        if layout.label is not None:
            if layout.schema.text_labels:
                y = self.codes[:n, -1].astype(np.float64)
            else:
                y = self.extra[:n, 0].copy()
        if layout.qid is not None:
            qid = self.extra[:n, 1].astype(np.int64)
        return X, y, qid


def unexpected_label(value: str, classes: Any) -> str:
    """Return the reason for refusing a label."""
    return f"label {value} is not among the classes {classes!r}; add it to classes= if it is right"
