# SPDX-License-Identifier: BSD-3-Clause
"""Results as tables: printed, in a notebook, and in the cells of a spreadsheet."""

from __future__ import annotations

import html
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

#: The head of a table, and its lines.
Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def text_table(head: Sequence[str], body: Sequence[Sequence[str]], *, gap: str = "  ") -> str:
    """Return a table in plain text.

    >>> print(text_table(("method", "AUC"), [("ours", "0.93")]))
    method  AUC
    ours    0.93
    """
    lines = [tuple(head), *(tuple(line) for line in body)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    return "\n".join(
        gap.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def html_table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table in HTML; every cell is text.

    >>> html_table(("x",), [("a<b",)])
    '<table><thead><tr><th>x</th></tr></thead><tbody><tr><td>a&lt;b</td></tr></tbody></table>'
    """

    def row(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    lines = "".join(row(line, "td") for line in body)
    return f"<table><thead>{row(head, 'th')}</thead><tbody>{lines}</tbody></table>"


def number(value: float, digits: int = 4) -> str:
    """Return a number with so many digits that count; a dash for one that is not known.

    >>> number(0.91239), number(12), number(math.nan)
    ('0.9124', '12', '-')
    """
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


#: Characters that begin a formula (OWASP, "CSV injection"), also after white space.
_SIGNS = ("=", "+", "-", "@")


def defused(text: str) -> str:
    """Return the text, with an apostrophe in front if a spreadsheet would read it as a formula.

    Numbers stay unchanged.
    """
    if text[:1] not in ("\t", "\r") and text.lstrip()[:1] not in _SIGNS:
        return text
    try:
        float(text)
    except ValueError:
        return "'" + text
    return text


class Shown(ABC):
    """A result with a table: `print` shows it as text, a notebook as HTML."""

    def shown_title(self) -> str:
        """Return the line above the table; empty for none."""
        return ""

    @abstractmethod
    def shown_table(self) -> Table:
        """Return the head and the lines of the table."""

    def __str__(self) -> str:
        title = self.shown_title()
        return (f"{title}\n" if title else "") + text_table(*self.shown_table())

    def _repr_html_(self) -> str:
        title = self.shown_title()
        return (f"<p>{html.escape(title)}</p>" if title else "") + html_table(*self.shown_table())
