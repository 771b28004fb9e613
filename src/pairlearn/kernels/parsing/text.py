# SPDX-License-Identifier: BSD-3-Clause
r"""Chunk parsers for CSV and svmlight text, correctly rounded.

A kernel walks a block of bytes given by its address and fills arrays row by row. What it
cannot decide on its own (more than 19 significant digits, ``inf``, a level it does not know, a
doubled quote) it writes on a list of deferred fields for Python to settle one by one, so that
the common case is fast and no case is wrong.

The caller owns the memory: at least LOOK_AHEAD bytes of ``\n`` must follow the block, and the
machine is little-endian.
"""

from __future__ import annotations

import math

import numpy as np

from pairlearn.kernels.parsing.decimal import (
    byte_at,
    integer_at,
    jit,
    put_double,
    put_single,
    scan_field,
    scan_number,
    scan_scientific,
)

# What stopped a parser.
DONE = 0  # the block is used up, to its last complete record
ROWS_FULL = 1
DEFERRED_FULL = 2
PROBLEMS_FULL = 3
OPEN_QUOTE = 4  # only for a final block: a quoted field never ends
ENTRIES_FULL = 5  # svmlight: no room left for the entries of the next row

# Positions in the state vector that goes in and out of a parser.
POSITION, ROW, LINE, N_DEFERRED, N_PROBLEMS, N_MISSING, N_ENTRIES, HIGHEST, STATUS = range(9)
STATE_SIZE = 9

# What a CSV column is for.
SKIP, NUMBER, EXTRA, HASHED, LEVELS = range(5)

# Why a row was refused by the kernel itself.
RAGGED = 1
TEXT_AFTER_QUOTE = 2
BAD_ENTRY = 3
BAD_QID = 4
NOT_ASCENDING = 5
INDEX_TOO_SMALL = 6
INDEX_TOO_LARGE = 7

# A deferred field: row, column (or entry), first byte, byte after the last, and whether the
# field stood in quotes.
DEFERRED_WIDTH = 5
PROBLEM_WIDTH = 4  # line, reason, detail, first byte of the offending field

_NEWLINE, _RETURN, _SPACE, _TAB, _QUOTE = 10, 13, 32, 9, 34
_COLON, _HASH, _ZERO = 58, 35, 48

_FNV_START = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


@jit
def _hash(begin, stop):
    """FNV-1a with the finaliser of MurmurHash3: fixed for all time, files depend on it."""
    h = _FNV_START
    for p in range(begin, stop):
        h = (h ^ np.uint64(byte_at(p))) * _FNV_PRIME
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@jit
def _find_level(begin, stop, first, last, hashes, bounds, text):
    """Index within [first, last) of the level equal to the bytes, or -1; hashes are sorted."""
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


@jit
def _defer(deferred, n, row, column, begin, stop, quoted):
    deferred[n, 0] = row
    deferred[n, 1] = column
    deferred[n, 2] = begin
    deferred[n, 3] = stop
    deferred[n, 4] = quoted
    return n + 1


@jit
def _read_numbers(p, j, n_columns, delimiter, places, row):
    """Read plain numbers from field j on; return where and at which field that ended.

    Also returns whether the record ended; otherwise p is the first byte of a field that needs
    a closer look. Apart from the rest, and without arrays, whose references would be counted at
    each call, so that the loop keeps its variables in registers. `places` is the address of two
    integers for each column: where its number of the first row goes (0: not a number; odd:
    single precision), and the distance in bytes from row to row.
    """
    while j < n_columns:
        place = integer_at(places + 16 * j)
        if place == 0:
            break
        stop, known, value = scan_field(p, delimiter)
        more = byte_at(stop) == delimiter
        if not known:
            stop, known, value = scan_scientific(p, delimiter)
            if not known:
                stop, known, value = scan_number(p)
            c = byte_at(stop)
            more = c == delimiter
            if not known or not (
                more or c == _NEWLINE or (c == _RETURN and byte_at(stop + 1) == _NEWLINE)
            ):
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


@jit
def parse_csv(
    base, end, final, delimiter, places, kinds, slots, levels, hashes, bounds, codes_of, text,
    values, extra, codes, lines, has_missing, row_limit, deferred, problems, state,
):  # fmt: skip
    """Parse records from ``base + state[POSITION]`` up to ``base + end``.

    Column j of the file goes by ``kinds[j]`` to column ``slots[j]`` of `values` (features),
    `extra` (label, query) or `codes` (categories; ``levels[j]`` is the number of buckets of a
    hashed column, or the first and last entry of its levels); `places` is the address of the
    same for numbers, see `_read_numbers`. An empty field gives NaN or -1 and sets
    ``has_missing[row]``.
    """
    n_columns = len(kinds)
    p = base + state[POSITION]
    stop_at = base + end
    row, line = state[ROW], state[LINE]
    n_deferred, n_problems, n_missing = state[N_DEFERRED], state[N_PROBLEMS], state[N_MISSING]
    status = DONE
    record = p
    while p < stop_at:
        record = p
        c = byte_at(p)
        if c == _NEWLINE:
            p += 1
            line += 1
            continue
        if c == _RETURN and byte_at(p + 1) == _NEWLINE:
            if p + 1 >= stop_at and not final:
                break
            p = min(p + 2, stop_at)
            line += 1
            continue
        if row >= row_limit:
            status = ROWS_FULL
            break
        if n_deferred + n_columns > len(deferred):
            status = DEFERRED_FULL
            break
        if n_problems >= len(problems):
            status = PROBLEMS_FULL
            break
        first_deferred = n_deferred
        extra_lines = 0
        reason = 0
        detail = 0
        missing = False
        j = 0
        while True:
            p, j, ended = _read_numbers(p, j, n_columns, delimiter, places, row)
            if ended:
                break
            kind = SKIP
            if j < n_columns:
                kind = kinds[j]
            begin = p
            stop = p
            quoted = False
            doubled = False
            c = byte_at(p)
            if c == _QUOTE:
                quoted = True
                p += 1
                begin = p
                while p < stop_at:
                    c = byte_at(p)
                    if c == _QUOTE:
                        if byte_at(p + 1) != _QUOTE or p + 1 >= stop_at:
                            break
                        doubled = True
                        p += 1
                    elif c == _NEWLINE:
                        extra_lines += 1
                    p += 1
                if p >= stop_at:
                    status = OPEN_QUOTE if final else -1
                    break
                stop = p
                p += 1
                c = byte_at(p)
                if c != delimiter and c != _NEWLINE and (
                    c != _RETURN or byte_at(p + 1) != _NEWLINE
                ):  # fmt: skip
                    if reason == 0:
                        reason = TEXT_AFTER_QUOTE
                        detail = j
                    while c != delimiter and c != _NEWLINE:
                        p += 1
                        c = byte_at(p)
            else:
                while c != delimiter and c != _NEWLINE:
                    p += 1
                    c = byte_at(p)
                stop = p
                if c == _NEWLINE and stop > begin and byte_at(stop - 1) == _RETURN:
                    stop -= 1
            if kind != SKIP and reason == 0:
                slot = np.uint64(slots[j])
                if kind == NUMBER or kind == EXTRA:
                    left, right = begin, stop
                    while left < right and (byte_at(left) == _SPACE or byte_at(left) == _TAB):
                        left += 1
                    while left < right and (
                        byte_at(right - 1) == _SPACE or byte_at(right - 1) == _TAB
                    ):
                        right -= 1
                    value = math.nan
                    if left == right:
                        missing = True
                    else:
                        after, known, value = scan_number(left)
                        if not known or after != right:
                            value = math.nan
                            n_deferred = _defer(
                                deferred, n_deferred, row, j, left - base, right - base, quoted
                            )
                    if kind == NUMBER:
                        values[row, slot] = value
                    else:
                        extra[row, slot] = value
                elif begin == stop:
                    missing = True
                    codes[row, slot] = -1
                elif doubled:
                    n_deferred = _defer(
                        deferred, n_deferred, row, j, begin - base, stop - base, quoted
                    )
                elif kind == HASHED:
                    codes[row, slot] = np.int64(_hash(begin, stop) % np.uint64(levels[j, 0]))
                else:
                    found = _find_level(
                        begin, stop, levels[j, 0], levels[j, 1], hashes, bounds, text
                    )
                    if found >= 0:
                        codes[row, slot] = codes_of[found]
                    else:
                        n_deferred = _defer(
                            deferred, n_deferred, row, j, begin - base, stop - base, quoted
                        )
            j += 1
            c = byte_at(p)
            if c == delimiter:
                p += 1
                continue
            break
        cut = p >= stop_at or (p + 1 >= stop_at and byte_at(p) == _RETURN)
        if status == OPEN_QUOTE or status == -1 or (cut and not final):
            n_deferred = first_deferred
            p = record
            if status == -1:
                status = DONE
            break
        # p stands on \n or \r\n, or on the guard bytes after a final block
        if byte_at(p) == _RETURN:
            p += 1
        p += 1
        if p > stop_at:
            p = stop_at
        if reason == 0 and j != n_columns:
            reason = RAGGED
            detail = j
        if reason != 0:
            n_deferred = first_deferred
            problems[n_problems, 0] = line
            problems[n_problems, 1] = reason
            problems[n_problems, 2] = detail
            problems[n_problems, 3] = record - base
            n_problems += 1
        else:
            lines[row] = line
            has_missing[row] = missing
            if missing:
                n_missing += 1
            row += 1
        line += 1 + extra_lines
    state[POSITION] = p - base
    state[ROW] = row
    state[LINE] = line
    state[N_DEFERRED] = n_deferred
    state[N_PROBLEMS] = n_problems
    state[N_MISSING] = n_missing
    state[STATUS] = status


@jit
def _is_white(c):
    return c == _SPACE or c == _TAB or c == _RETURN or c == 11 or c == 12


@jit
def parse_svmlight(
    base, end, final, offset, n_features, data, indices, indptr, labels, queries, lines,
    row_limit, entry_limit, deferred, problems, state,
):  # fmt: skip
    """Parse lines ``label [qid:q] index:value ... [# comment]`` into the arrays of a CSR matrix.

    `offset` is subtracted from each index (1 where the file counts from one). A chunk is full
    with `row_limit` rows or once it holds `entry_limit` entries; a line that does not fit into
    `data` is left for the next call (ENTRIES_FULL).
    """
    p = base + state[POSITION]
    stop_at = base + end
    row, line, n_entries, highest = state[ROW], state[LINE], state[N_ENTRIES], state[HIGHEST]
    n_deferred, n_problems = state[N_DEFERRED], state[N_PROBLEMS]
    room, deferred_room = min(len(data), len(indices)), len(deferred)
    status = DONE
    while p < stop_at:
        record = p
        c = byte_at(p)
        while _is_white(c):
            p += 1
            c = byte_at(p)
        if c == _HASH or c == _NEWLINE:
            while c != _NEWLINE:
                p += 1
                c = byte_at(p)
            if p >= stop_at and not final:
                p = record
                break
            p = min(p + 1, stop_at)
            line += 1
            continue
        if row >= row_limit or n_entries >= entry_limit:
            status = ROWS_FULL
            p = record
            break
        if n_problems >= len(problems):
            status = PROBLEMS_FULL
            p = record
            break
        first_entry, first_deferred = n_entries, n_deferred
        reason = 0
        detail = 0
        place = p
        previous = np.int64(-1)
        queries[row] = -1

        begin = p
        p, known, value = scan_number(p)
        c = byte_at(p)
        if not known or not (_is_white(c) or c == _NEWLINE or c == _HASH):
            p = begin
            c = byte_at(p)
            while not (_is_white(c) or c == _NEWLINE or c == _HASH):
                p += 1
                c = byte_at(p)
            if n_deferred >= deferred_room:
                status = DEFERRED_FULL
            else:
                n_deferred = _defer(deferred, n_deferred, row, -1, begin - base, p - base, False)
            value = math.nan
        labels[row] = value
        while status == DONE:
            c = byte_at(p)
            while _is_white(c):
                p += 1
                c = byte_at(p)
            if c == _NEWLINE or c == _HASH:
                break
            place = p
            index = np.int64(0)
            digit = c - _ZERO
            while digit >= 0 and digit <= 9:
                index = index * 10 + digit
                p += 1
                digit = byte_at(p) - _ZERO
            width = p - place
            if width == 0 and c == 113 and byte_at(p + 1) == 105 and byte_at(p + 2) == 100:
                p += 3  # qid
                if byte_at(p) != _COLON or previous >= 0 or queries[row] >= 0:
                    reason = BAD_QID
                    break
                p += 1
                query = np.int64(0)
                begin = p
                digit = byte_at(p) - _ZERO
                while digit >= 0 and digit <= 9:
                    query = query * 10 + digit
                    p += 1
                    digit = byte_at(p) - _ZERO
                c = byte_at(p)
                if p == begin or p - begin > 18 or not (
                    _is_white(c) or c == _NEWLINE or c == _HASH
                ):  # fmt: skip
                    reason = BAD_QID
                    break
                queries[row] = query
                continue
            if width == 0 or byte_at(p) != _COLON:
                reason = BAD_ENTRY
                break
            index -= offset
            if width > 18 or index >= n_features:
                reason = INDEX_TOO_LARGE
                detail = index + offset
                break
            if index < 0:
                reason = INDEX_TOO_SMALL
                break
            if index <= previous:
                reason = NOT_ASCENDING
                break
            previous = index
            if n_entries >= room:
                status = ENTRIES_FULL
                break
            p += 1
            begin = p
            p, known, value = scan_number(p)
            c = byte_at(p)
            if not known or not (c == _SPACE or c == _NEWLINE or _is_white(c) or c == _HASH):
                p = begin
                c = byte_at(p)
                while not (_is_white(c) or c == _NEWLINE or c == _HASH):
                    p += 1
                    c = byte_at(p)
                if p == begin:
                    reason = BAD_ENTRY
                    break
                if n_deferred >= deferred_room:
                    status = DEFERRED_FULL
                    break
                n_deferred = _defer(
                    deferred, n_deferred, row, n_entries, begin - base, p - base, False
                )
                value = math.nan
            data[n_entries] = value
            indices[n_entries] = index
            n_entries += 1
        while byte_at(p) != _NEWLINE:
            p += 1
        if status != DONE or (p >= stop_at and not final):
            n_entries, n_deferred = first_entry, first_deferred
            p = record
            break
        p = min(p + 1, stop_at)
        if reason != 0:
            n_entries, n_deferred = first_entry, first_deferred
            problems[n_problems, 0] = line
            problems[n_problems, 1] = reason
            problems[n_problems, 2] = detail
            problems[n_problems, 3] = place - base
            n_problems += 1
        else:
            if previous > highest:
                highest = previous
            lines[row] = line
            row += 1
            indptr[row] = n_entries
        line += 1
    state[POSITION] = p - base
    state[ROW] = row
    state[LINE] = line
    state[N_DEFERRED] = n_deferred
    state[N_PROBLEMS] = n_problems
    state[N_ENTRIES] = n_entries
    state[HIGHEST] = highest
    state[STATUS] = status
