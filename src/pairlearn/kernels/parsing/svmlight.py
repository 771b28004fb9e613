# SPDX-License-Identifier: BSD-3-Clause
"""A chunk parser for svmlight text, correctly rounded."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pairlearn.kernels._native import inline, jit
from pairlearn.kernels.parsing.decimal import byte_at, scan_number
from pairlearn.kernels.parsing.records import (
    BAD_ENTRY,
    BAD_QID,
    COLON,
    DEFERRED_FULL,
    DONE,
    ENTRIES_FULL,
    HASH,
    HIGHEST,
    INDEX_TOO_LARGE,
    INDEX_TOO_SMALL,
    LINE,
    N_DEFERRED,
    N_ENTRIES,
    N_PROBLEMS,
    NEWLINE,
    NOT_ASCENDING,
    POSITION,
    PROBLEMS_FULL,
    RETURN,
    ROW,
    ROWS_FULL,
    SPACE,
    STATUS,
    TAB,
    TOO_LONG,
    ZERO,
    Log,
    defer,
    refuse,
)

#: A number of at most this many digits fits in 64 bits.
_DIGITS = 18


class Rows(NamedTuple):
    """The arrays to fill: those of a CSR matrix, labels, queries (-1: none) and lines."""

    data: Any
    indices: Any
    indptr: Any
    labels: Any
    queries: Any
    lines: Any


@inline
def _is_white(c):
    return c == SPACE or c == TAB or c == RETURN or c == 11 or c == 12


@inline
def _ends_token(p):
    c = byte_at(p)
    return c == SPACE or c == NEWLINE or _is_white(c) or c == HASH


@inline
def _skip_white(p):
    while _is_white(byte_at(p)):
        p += 1
    return p


@inline
def _skip_line(p):
    while byte_at(p) != NEWLINE:
        p += 1
    return p


@inline
def _read_integer(p):
    """Return the end of the digits, and their number."""
    number = np.int64(0)
    digit = byte_at(p) - ZERO
    while digit >= 0 and digit <= 9:
        number = number * 10 + digit
        p += 1
        digit = byte_at(p) - ZERO
    return p, number


@inline
def _read_value(begin):
    """Read a number up to white space or a comment; return its end, whether it is valid, and it."""
    p, known, value = scan_number(begin)
    if known and _ends_token(p):
        return p, True, value
    p = begin
    while not _ends_token(p):
        p += 1
    return p, False, math.nan


@inline
def _read_query(p):
    """Read ``qid:q`` from its q on; return its end, and q, or -1 if it is not a number."""
    if byte_at(p + 3) != COLON:
        return p, np.int64(-1)
    begin = p + 4
    p, query = _read_integer(begin)
    if p == begin or p - begin > _DIGITS or not _ends_token(p):
        return p, np.int64(-1)
    return p, query


@inline
def _is_query(p):
    return byte_at(p) == 113 and byte_at(p + 1) == 105 and byte_at(p + 2) == 100  # qid


@inline
def _flaw(width, index, previous, n_features):
    """Return why the index of an entry is refused, or 0."""
    if width > _DIGITS or index >= n_features:
        return INDEX_TOO_LARGE
    if index < 0:
        return INDEX_TOO_SMALL
    if index <= previous:
        return NOT_ASCENDING
    return 0


@inline
def _read_line(p, base, offset, n_features, rows, row, line, n_entries, log):
    """Read the label and the entries of a line, or refuse it.

    Returns where reading stopped, the number of entries so far, the last index, and a status.
    """
    room, deferred_room = min(len(rows.data), len(rows.indices)), len(log.deferred)
    previous = np.int64(-1)
    rows.queries[row] = -1
    begin = p
    p, known, value = _read_value(begin)
    if not known:
        if log.state[N_DEFERRED] >= deferred_room:
            return p, n_entries, previous, DEFERRED_FULL
        defer(log, row, -1, begin - base, p - base, False)
    rows.labels[row] = value
    while True:
        p = _skip_white(p)
        c = byte_at(p)
        if c == NEWLINE or c == HASH:
            return p, n_entries, previous, DONE
        place = p
        p, index = _read_integer(p)
        if p == place and _is_query(p):
            p, query = _read_query(p)
            if query < 0 or previous >= 0 or rows.queries[row] >= 0:
                refuse(log, line, BAD_QID, 0, place - base)
                return p, n_entries, previous, DONE
            rows.queries[row] = query
            continue
        if p == place or byte_at(p) != COLON:
            refuse(log, line, BAD_ENTRY, 0, place - base)
            return p, n_entries, previous, DONE
        index -= offset
        flaw = _flaw(p - place, index, previous, n_features)
        if flaw != 0:
            refuse(log, line, flaw, index + offset, place - base)
            return p, n_entries, previous, DONE
        previous = index
        if n_entries >= room:
            return p, n_entries, previous, ENTRIES_FULL
        begin = p + 1
        p, known, value = _read_value(begin)
        if not known:
            if p == begin:
                refuse(log, line, BAD_ENTRY, 0, place - base)
                return p, n_entries, previous, DONE
            if log.state[N_DEFERRED] >= deferred_room:
                return p, n_entries, previous, DEFERRED_FULL
            defer(log, row, n_entries, begin - base, p - base, False)
        rows.data[n_entries] = value
        rows.indices[n_entries] = index
        n_entries += 1


@jit
def parse_svmlight(base, end, final, limit, offset, n_features, rows, row_limit, entry_limit, log):
    """Parse lines ``label [qid:q] index:value ... [# comment]`` into the arrays of a CSR matrix.

    `offset` is subtracted from each index (1 if the file counts from one). A chunk is full with
    `row_limit` rows or once it holds `entry_limit` entries. A line that does not fit into `data` is
    left for the next call (ENTRIES_FULL). A line of more than `limit` bytes is refused.
    """
    rows, log = Rows(*rows), Log(*log)
    state = log.state
    p, stop_at = base + state[POSITION], base + end
    row, line, n_entries = state[ROW], state[LINE], state[N_ENTRIES]
    status = DONE
    while p < stop_at:
        record, n_deferred, n_problems = p, state[N_DEFERRED], state[N_PROBLEMS]
        entries, highest = n_entries, np.int64(-1)
        p = _skip_white(p)
        empty = byte_at(p) == HASH or byte_at(p) == NEWLINE
        if not empty:
            if row >= row_limit or n_entries >= entry_limit:
                status = ROWS_FULL
            elif n_problems >= len(log.problems):
                status = PROBLEMS_FULL
            else:
                p, entries, highest, status = _read_line(
                    p, base, offset, n_features, rows, row, line, n_entries, log
                )
        p = _skip_line(p)
        if status == DONE and p - record > limit:
            state[N_DEFERRED], state[N_PROBLEMS] = n_deferred, n_problems
            if n_problems >= len(log.problems):
                status = PROBLEMS_FULL
            else:
                refuse(log, line, TOO_LONG, 0, record - base)
        if status != DONE or (p >= stop_at and not final):
            # A line that is incomplete or does not fit is read again.
            state[N_DEFERRED], state[N_PROBLEMS] = n_deferred, n_problems
            p = record
            break
        p = min(p + 1, stop_at)
        if state[N_PROBLEMS] > n_problems:
            state[N_DEFERRED] = n_deferred
        elif not empty:
            state[HIGHEST] = max(state[HIGHEST], highest)
            rows.lines[row] = line
            row += 1
            n_entries = entries
            rows.indptr[row] = n_entries
        line += 1
    state[POSITION] = p - base
    state[ROW] = row
    state[LINE] = line
    state[N_ENTRIES] = n_entries
    state[STATUS] = status
