# SPDX-License-Identifier: BSD-3-Clause
"""A chunk parser for CSV text, correctly rounded."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pairlearn.kernels._native import inline, jit
from pairlearn.kernels.parsing.decimal import (
    byte_at,
    integer_at,
    put_double,
    put_single,
    scan_field,
    scan_number,
    scan_scientific,
)
from pairlearn.kernels.parsing.records import (
    DEFERRED_FULL,
    DONE,
    LINE,
    LONG_LINE,
    N_DEFERRED,
    N_MISSING,
    N_PROBLEMS,
    NEWLINE,
    NOT_CLOSED,
    OPEN_QUOTE,
    OPEN_UNTIL,
    POSITION,
    PROBLEMS_FULL,
    QUOTE,
    RAGGED,
    RETURN,
    ROW,
    ROWS_FULL,
    SCANNED,
    SPACE,
    STATUS,
    TAB,
    TEXT_AFTER_QUOTE,
    TOO_LONG,
    Log,
    defer,
    refuse,
)

# The role of a column.
SKIP, NUMBER, EXTRA, QUERY, HASHED, LEVELS = range(6)

_FNV_START = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


class Columns(NamedTuple):
    """The roles of the columns of a file.

    Column j, of role ``kinds[j]``, goes to column ``slots[j]`` of an array of `Rows`. ``levels[j]``
    is the number of buckets of a hashed column, or the first and last entry of its levels in
    `hashes` (sorted within a column), `bounds` (of their names in `text`) and `codes`.
    """

    kinds: Any
    slots: Any
    levels: Any
    hashes: Any
    bounds: Any
    codes: Any
    text: Any


class Rows(NamedTuple):
    """The arrays to fill: features, label and query, codes of categories; lines, missing values."""

    values: Any
    extra: Any
    codes: Any
    lines: Any
    has_missing: Any


@jit(cache=False)
def _hash(begin, stop):
    """FNV-1a with the finaliser of MurmurHash3. It must never change: saved models depend on it."""
    h = _FNV_START
    for p in range(begin, stop):
        h = (h ^ np.uint64(byte_at(p))) * _FNV_PRIME
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@jit(cache=False)
def _find_level(begin, stop, first, last, columns):
    """Index within [first, last) of the level with these bytes, or -1; hashes are sorted."""
    hashes, bounds, text = columns.hashes, columns.bounds, columns.text
    h = _hash(begin, stop)
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if hashes[middle] < h:
            low = middle + 1
        else:
            high = middle
    while low < last and hashes[low] == h:
        if bounds[low, 1] - bounds[low, 0] == stop - begin:
            same = True
            for k in range(stop - begin):
                if np.int64(text[bounds[low, 0] + k]) != byte_at(begin + k):
                    same = False
                    break
            if same:
                return low
        low += 1
    return -1


@jit(cache=False)
def _read_numbers(p, j, n_columns, delimiter, places, row):
    """Read plain numbers from field j on; return the position and the field where reading stopped.

    Also returns whether the record ended. Otherwise p is the first byte of a field that needs a
    closer look. A separate function without arrays, so that the loop keeps its variables in
    registers. `places` is the address of two integers for each column: the address of its number in
    the first row (0: not a number; odd: single precision), and the distance between rows in bytes.
    """
    while j < n_columns:
        place = integer_at(places + 16 * j)
        if place == 0:
            break
        stop, known, value = scan_field(p)
        more = byte_at(stop) == delimiter
        if not known or not (more or _ends_line(stop)):
            stop, known, value = scan_scientific(p)
            if not known:
                stop, known, value = scan_number(p)
            more = byte_at(stop) == delimiter
            if not known or not (more or _ends_line(stop)):
                break
        place += row * integer_at(places + 16 * j + 8)
        if place & 1:
            put_single(place - 1, value)
        else:
            put_double(place, value)
        j += 1
        if not more:
            return stop, j, True
        p = stop + 1
    return p, j, False


@inline
def _ends_line(p):
    c = byte_at(p)
    return c == NEWLINE or (c == RETURN and byte_at(p + 1) == NEWLINE)


@inline
def _skip_field(p, delimiter):
    """Return the position of the next delimiter or line end."""
    c = byte_at(p)
    while c != delimiter and c != NEWLINE:
        p += 1
        c = byte_at(p)
    return p


@inline
def _quoted_field(p, reach, stop_at, one_line):
    """Return the end of a quoted field, whether it has doubled quotes, and its line ends.

    `p` is its first byte, after the quote. If the quote is not closed before `reach`, or, with
    `one_line`, before a line end, the returned end is at or after `reach`.
    """
    doubled = False
    n_breaks = 0
    while p < reach:
        c = byte_at(p)
        if c == QUOTE:
            if byte_at(p + 1) != QUOTE or p + 1 >= stop_at:
                break
            doubled = True
            p += 1
        elif c == NEWLINE:
            if one_line:
                return reach, doubled, n_breaks
            n_breaks += 1
        p += 1
    return p, doubled, n_breaks


@inline
def _is_blank(p):
    c = byte_at(p)
    return c == SPACE or c == TAB


@inline
def _number_of(begin, stop):
    """Return a number between blanks, whether it is valid, and its first and last byte."""
    while begin < stop and _is_blank(begin):
        begin += 1
    while begin < stop and _is_blank(stop - 1):
        stop -= 1
    if begin == stop:
        return math.nan, True, begin, stop
    after, known, value = scan_number(begin)
    if not known or after != stop:
        return math.nan, False, begin, stop
    return value, True, begin, stop


@inline
def _code_of(begin, stop, kind, j, columns):
    """Return the code of a category, or -1 if it is not among the levels."""
    first, last = columns.levels[j, 0], columns.levels[j, 1]
    if kind == HASHED:
        return np.int64(_hash(begin, stop) % np.uint64(first))
    found = _find_level(begin, stop, first, last, columns)
    return columns.codes[found] if found >= 0 else np.int64(-1)


@inline
def _store(begin, stop, quoted, doubled, j, row, base, columns, rows, log):
    """Store the field of column j; return whether it is missing."""
    kind, slot = columns.kinds[j], np.uint64(columns.slots[j])
    if kind == NUMBER or kind == EXTRA:
        value, known, begin, stop = _number_of(begin, stop)
        if not known:
            defer(log, row, j, begin - base, stop - base, quoted)
        if kind == NUMBER:
            rows.values[row, slot] = value
        else:
            rows.extra[row, slot] = value
    elif kind == QUERY:
        # a text: Python looks at it, since the number does not tell 01 from 1
        rows.extra[row, slot] = math.nan
        if begin < stop:
            defer(log, row, j, begin - base, stop - base, quoted)
    elif kind != SKIP:
        code = np.int64(-1)
        if not doubled and begin < stop:
            code = _code_of(begin, stop, kind, j, columns)
        if code < 0 and begin < stop:
            defer(log, row, j, begin - base, stop - base, quoted)
        else:
            rows.codes[row, slot] = code
    return kind != SKIP and begin == stop


@inline
def _read_record(p, reach, stop_at, one_line, base, delimiter, places, row, columns, rows, log):
    """Read the fields of a record; see `_quoted_field` for `reach` and `one_line`.

    Returns where it ends (-1: inside quotes that are not closed), the number of fields, the number
    of line ends inside fields, whether a value is missing, and the column where text follows a
    closing quote (-1: none).
    """
    n_columns = len(columns.kinds)
    n_breaks = 0
    missing = False
    flawed = -1
    j = 0
    while True:
        p, j, ended = _read_numbers(p, j, n_columns, delimiter, places, row)
        if ended:
            break
        quoted, doubled = byte_at(p) == QUOTE, False
        if quoted:
            begin = p + 1
            stop, doubled, n = _quoted_field(begin, reach, stop_at, one_line)
            n_breaks += n
            if stop >= reach:
                return -1, j, n_breaks, missing, flawed
            p = stop + 1
            if byte_at(p) != delimiter and not _ends_line(p):
                flawed = j if flawed < 0 else flawed
                p = _skip_field(p, delimiter)
        else:
            begin = p
            p = _skip_field(p, delimiter)
            stop = p
            if byte_at(p) == NEWLINE and stop > begin and byte_at(stop - 1) == RETURN:
                stop -= 1
        if j < n_columns and flawed < 0:
            missing |= _store(begin, stop, quoted, doubled, j, row, base, columns, rows, log)
        j += 1
        if byte_at(p) != delimiter:
            break
        p += 1
    return p, j, n_breaks, missing, flawed


@inline
def _full(row, row_limit, n_columns, log):
    """Return the reason why the parser cannot take another record, or DONE."""
    if row >= row_limit:
        return ROWS_FULL
    if log.state[N_DEFERRED] + n_columns > len(log.deferred):
        return DEFERRED_FULL
    if log.state[N_PROBLEMS] >= len(log.problems):
        return PROBLEMS_FULL
    return DONE


@inline
def _reach(start, limit):
    """Return the position in the source up to which a quote of the record at `start` may stay open.

    It is at least `limit` bytes ahead, and the same for all records within `limit` bytes, so that
    one scan ahead decides for all of them.
    """
    return (start // limit + 2) * limit


@jit
def parse_csv(base, end, final, origin, limit, delimiter, places, columns, rows, row_limit, log):
    """Parse records from ``base + state[POSITION]`` up to ``base + end``.

    `places` is the address of the layout that `_read_numbers` reads. An empty field gives NaN or -1
    and sets ``has_missing[row]``. The byte at `base` is byte `origin` of the source. A record is
    refused up to the end of its first line if it has more than `limit` bytes, or if its quote stays
    open for more than `limit` bytes or to the end of the source.

    Such a record is inside quotes at every line end that it passes, and so is any later record that
    passes one of them: it stays open too. So up to `state[OPEN_UNTIL]` a record is read to the end
    of its line only, and no byte is scanned again for every line before it.
    """
    columns, rows, log = Columns(*columns), Rows(*rows), Log(*log)
    n_columns = len(columns.kinds)
    state = log.state
    p, stop_at = base + state[POSITION], base + end
    row, line = state[ROW], state[LINE]
    status = DONE
    while p < stop_at:
        if _ends_line(p):
            width = 1 if byte_at(p) == NEWLINE else 2
            if p + width > stop_at and not final:
                break
            p = min(p + width, stop_at)
            line += 1
            continue
        status = _full(row, row_limit, n_columns, log)
        if status != DONE:
            break
        record, n_deferred = p, state[N_DEFERRED]
        reach = min(_reach(record - base + origin, limit) - origin + base, stop_at)
        decided = final or reach < stop_at
        one_line = decided and state[OPEN_UNTIL] == reach - base + origin
        p, n_fields, n_breaks, missing, flawed = _read_record(
            p, reach, stop_at, one_line, base, delimiter, places, row, columns, rows, log
        )
        is_open = p < 0
        if is_open and decided:
            if not one_line:
                state[OPEN_UNTIL] = reach - base + origin
                state[SCANNED] += reach - record
            state[N_DEFERRED] = n_deferred
            p = record
            while byte_at(p) != NEWLINE:
                p += 1
            state[SCANNED] += p - record
            if p >= stop_at and not final:
                status, p = OPEN_QUOTE, record
                break
            refuse(log, line, NOT_CLOSED, 0, record - base)
            p = min(p + 1, stop_at)
            line += 1
            continue
        if is_open or (not final and p + (byte_at(p) == RETURN) >= stop_at):
            # An incomplete record is read again together with the next bytes.
            status = DONE if is_open or p - record <= limit else LONG_LINE
            state[SCANNED] += stop_at - record
            state[N_DEFERRED] = n_deferred
            p = record
            break
        state[SCANNED] += p - record
        if p - record > limit:
            # The same result as if it came in pieces and were given up before it is complete.
            state[N_DEFERRED] = n_deferred
            refuse(log, line, TOO_LONG, 0, record - base)
            p = record
            while byte_at(p) != NEWLINE:
                p += 1
            p = min(p + 1, stop_at)
            line += 1
            continue
        # p stands on \n or \r\n, or on the guard bytes after a final block
        p = min(p + 1 + (byte_at(p) == RETURN), stop_at)
        if flawed >= 0 or n_fields != n_columns:
            state[N_DEFERRED] = n_deferred
            if flawed >= 0:
                refuse(log, line, TEXT_AFTER_QUOTE, flawed, record - base)
            else:
                refuse(log, line, RAGGED, n_fields, record - base)
        else:
            rows.lines[row] = line
            rows.has_missing[row] = missing
            state[N_MISSING] += missing
            row += 1
        line += 1 + n_breaks
    state[POSITION] = p - base
    state[ROW] = row
    state[LINE] = line
    state[STATUS] = status
