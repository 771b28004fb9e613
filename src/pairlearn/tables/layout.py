# SPDX-License-Identifier: BSD-3-Clause
"""Find the layout of a delimited text from its first lines.

The layout is the delimiter, the quote, the lines above the header, and the names of rows.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

_DELIMITERS = ",;\t|"


def split(lines: Iterable[str], delimiter: str, quote: str = '"', *, strict: bool = True) -> Any:
    """Split lines into fields; spaces before a field are dropped."""
    return csv.reader(
        lines, delimiter=delimiter, quotechar=quote, skipinitialspace=True, strict=strict
    )


def _rows(lines: Sequence[str], delimiter: str, quote: str = '"') -> list[list[str]]:
    """Return the nonempty rows of the first lines, or none if a line cannot be split."""
    try:
        return [row for row in split(lines, delimiter, quote, strict=False) if row]
    except csv.Error:
        return []


def lines_above(lines: Sequence[str], delimiter: str | None) -> int:
    """Return the number of lines above the header: titles, dates, comments, empty lines.

    Such a line has at most one nonempty field, while most lines have two or more. With two columns
    the first may have no name. Comments (# ...) and a line that names groups of columns are above
    the header too.
    """
    best, found = (0, 0), 0
    for one in delimiter or _DELIMITERS:
        try:
            # split each line alone: a line end inside quotes would change the count of lines
            rows: list[list[str]] = [next(split([line], one, strict=False), []) for line in lines]
        except csv.Error:
            continue
        widths = Counter(len(row) for row in rows if len(row) > 1)
        n_alike, width = max(((n, width) for width, n in widths.items()), default=(0, 0))
        # decimal commas split all rows of another delimiter alike, but not its header
        if (n_alike, width) <= best:
            continue
        comments = _comments(lines, rows, width)
        full = (k for k, row in enumerate(rows) if k >= comments and _has_two(row))
        first = next(full, len(rows))
        title = comments or any(len(row) != 2 for row in rows[:first])
        # a quoted name may span two lines
        title = title and not any(line.count('"') % 2 for line in lines[:first])
        best = n_alike, width
        found = first if title and n_alike >= max(2, 0.6 * (len(rows) - first)) else 0
        found += _is_of_groups(rows[found : found + 3])
    return found


def _has_two(row: Sequence[str]) -> bool:
    """Whether a row has at least two nonempty fields."""
    filled = (True for field in row if field and field.strip())
    return next(filled, False) and next(filled, False)


def _comments(lines: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> int:
    """Return the number of comment lines (# ...); the last one may be the header itself."""
    n = next((k for k, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if not n:
        return 0
    named = n < len(rows) and not any(map(is_number, rows[n]))
    return n - (not named and len(rows[n - 1]) == width)


def _is_of_groups(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line names groups of columns and the second names the columns."""
    if len(rows) < 3 or len({len(row) for row in rows}) > 1:
        return False
    names = [field.strip() for field in rows[1]]
    n_empty = sum(not field.strip() for field in rows[0])
    return (
        n_empty >= max(2, len(names) / 3)
        and all(names)
        and not any(map(is_number, names))
        and any(map(is_number, rows[2]))
    )


def is_number(text: str) -> bool:
    """Whether `float` reads a text."""
    if not text:  # quick for lines of delimiters alone
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def find_delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that splits most lines into the same number of fields, at least two."""
    best, found = (0, 0), ","
    for delimiter in _DELIMITERS:
        widths = [len(row) for row in _rows(lines, delimiter)] or [0]
        # more lines that agree with the header win, then more fields
        if widths[0] > 1 and (widths.count(widths[0]), widths[0]) > best:
            best, found = (widths.count(widths[0]), widths[0]), delimiter
    # texts contain spaces, so a space is the delimiter only if nothing else is
    if best == (0, 0) and len(lines) > 1:
        widths = [len(line.split()) for line in lines if line.strip()]
        if widths and widths[0] > 1 and len(set(widths)) == 1:
            return " "
    return found


def find_quote(lines: Sequence[str], delimiter: str) -> str:
    """Return the quote character: a single quote if every row has a field in single quotes."""
    if any('"' in line for line in lines):
        return '"'
    mark = re.escape(delimiter)
    # at most three spaces keep the search linear
    wrapped = re.compile(rf"(?:^|{mark}) {{0,3}}'[^']*' {{0,3}}(?:{mark}|$)")
    rows = [line.rstrip() for line in lines[1:] if line.strip()]
    return "'" if len(rows) > 2 and all(map(wrapped.search, rows)) else '"'


def has_row_names(lines: Sequence[str], delimiter: str, quote: str) -> bool:
    """Whether rows have one field more than the header, as R writes row names."""
    header, *rows = _rows(lines, delimiter, quote) or [[]]
    longer = sum(len(row) == len(header) + 1 and bool(row[-1].strip()) for row in rows)
    return longer > max(1, len(rows) / 2)


def has_plain_fields(lines: Sequence[str], delimiter: str) -> bool:
    """Whether no field begins with a space, and no line has more fields than the first.

    `split` drops such spaces, and a table empty fields at the end; a strict reader does neither.
    """
    width = sum(line.count(delimiter) for line in lines[:1])
    return not any(
        line.startswith(" ") or f"{delimiter} " in line or line.count(delimiter) > width
        for line in lines
    )


def filled_width(lines: Sequence[str], delimiter: str, quote: str) -> int:
    """Return the number of columns up to the last one that is not empty in all rows."""
    widest = 0
    for row in _rows(lines, delimiter, quote)[1:]:
        filled = (k for k in range(len(row), widest, -1) if row[k - 1] and row[k - 1].strip())
        widest = next(filled, widest)
    return widest
