# SPDX-License-Identifier: BSD-3-Clause
r"""State, deferred fields and byte values that all text parsers share.

A parser walks over a block of bytes, given by its address, and fills arrays row by row. It defers
fields that it cannot decide (more than 19 significant digits, ``inf``, an unknown level, a doubled
quote) to Python, so that the common case is fast and every case is right.

The caller owns the memory: at least LOOK_AHEAD bytes of ``\n`` must follow the block, and the
machine is little-endian.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pairlearn.kernels._native import inline

# Why a parser stopped.
DONE = 0  # the block is used up to its last complete record
ROWS_FULL = 1
DEFERRED_FULL = 2
PROBLEMS_FULL = 3
OPEN_QUOTE = 4  # a quoted field does not end, and its line is not yet complete
ENTRIES_FULL = 5  # svmlight: no room for the entries of the next row
LONG_LINE = 6  # a line is longer than allowed, and not yet complete

# Positions in the parser's state vector.
POSITION, ROW, LINE, N_DEFERRED, N_PROBLEMS, N_MISSING, N_ENTRIES, HIGHEST, STATUS = range(9)
# CSV: the position up to which a quote stays open, and the number of bytes scanned ahead.
OPEN_UNTIL, SCANNED = 9, 10
STATE_SIZE = 11

# Why the parser refused a row.
RAGGED = 1
TEXT_AFTER_QUOTE = 2
BAD_ENTRY = 3
BAD_QID = 4
NOT_ASCENDING = 5
INDEX_TOO_SMALL = 6
INDEX_TOO_LARGE = 7
NOT_CLOSED = 8
TOO_LONG = 9

# A deferred field: row, column (or entry), first byte, byte after the last, and whether it was
# quoted.
DEFERRED_WIDTH = 5
PROBLEM_WIDTH = 4  # line, reason, detail, first byte of the offending field

TAB, NEWLINE, RETURN, SPACE, QUOTE, HASH, ZERO, COLON = 9, 10, 13, 32, 34, 35, 48, 58


class Log(NamedTuple):
    """The report of a parser: int64 arrays of deferred fields, refused rows, and its state."""

    deferred: Any
    problems: Any
    state: Any


@inline
def defer(log, row, column, begin, stop, quoted):
    """Defer a field to Python."""
    n = log.state[N_DEFERRED]
    log.deferred[n, 0] = row
    log.deferred[n, 1] = column
    log.deferred[n, 2] = begin
    log.deferred[n, 3] = stop
    log.deferred[n, 4] = quoted
    log.state[N_DEFERRED] = n + 1


@inline
def refuse(log, line, reason, detail, place):
    """Refuse a row."""
    n = log.state[N_PROBLEMS]
    log.problems[n, 0] = line
    log.problems[n, 1] = reason
    log.problems[n, 2] = detail
    log.problems[n, 3] = place
    log.state[N_PROBLEMS] = n + 1
