# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained HTML page: text, sortable tables and figures, with nothing from elsewhere.

The frame of the page, its style and a short script that sorts tables stand in page.html. Every
table and figure has its numbers in a CSV file beside the page.
"""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from string import Template

from pairlearn.atomic import atomic_write
from pairlearn.shown import defused


@dataclass(frozen=True)
class Cell:
    """The text of a table cell, and the number that it sorts by."""

    text: str
    value: float | None = None
    strong: bool = False


def number(value: float | None, pattern: str = ".4f", *, strong: bool = False) -> Cell:
    """Return the cell of a number; a dash if there is none.

    >>> number(0.5).text, number(None).text, number(1234, ",d").text
    ('0.5000', '-', '1,234')
    """
    if value is None or math.isnan(value):
        return Cell("-", math.nan)
    return Cell(format(value, pattern), value, strong)


@dataclass(frozen=True)
class Text:
    """A heading and paragraphs; text between back quotes is code."""

    title: str
    paragraphs: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Names and values, such as the environment."""

    title: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """A sortable table with its CSV file, `name` without its ending; `note` stands below the title.

    A `folded` table is shown on demand only. Without `csv_columns`, the CSV holds the numbers of
    the table, or its texts where there are none.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    name: str
    note: str = ""
    folded: bool = False
    csv_columns: Sequence[str] = field(default_factory=list)
    csv_rows: Sequence[Sequence[object]] = field(default_factory=list)


@dataclass(frozen=True)
class Figure:
    """An SVG drawing with the CSV of its numbers, `name` without its ending.

    `alt` describes the drawing to readers who cannot see it; `note` stands below the title.
    """

    title: str
    svg: str
    name: str
    csv_columns: Sequence[str]
    csv_rows: Sequence[Sequence[object]]
    alt: str
    note: str = ""


Part = Text | Facts | Table | Figure


@dataclass(frozen=True)
class Page:
    """A title, an introduction and parts in order; a text opens a chapter of tables and figures."""

    title: str
    introduction: str
    parts: Sequence[Part]
    headline: str = ""


#: Cells with more characters than this wrap.
_LONG = 40


def write_page(page: Page, folder: str | Path) -> Path:
    """Write the page and its CSV files into a folder, replacing older ones; return its path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = [part.name for part in page.parts if isinstance(part, (Table, Figure))]
    for name in names:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name) or names.count(name) > 1:
            raise ValueError(
                f"parts need distinct names of a-z, 0-9 and '-', got {name!r}; rename it."
            )
    sections, links = [], []
    in_chapter = False
    for number, part in enumerate(page.parts, start=1):
        anchor = f"part-{number}"
        # A text opens a chapter, which ends at the next text or list of facts.
        in_chapter = isinstance(part, Text) or (in_chapter and not isinstance(part, Facts))
        level = "h3" if in_chapter and not isinstance(part, Text) else "h2"
        if level == "h2":
            links.append(f'<li><a href="#{anchor}">{html.escape(part.title)}</a></li>')
        title = f"<{level}>{html.escape(part.title)}</{level}>"
        sections.append(f'<section id="{anchor}">{title}{_body(part)}</section>')
    frame = resources.files("pairlearn.experiments.report").joinpath("page.html").read_text("utf-8")
    text = Template(frame).substitute(
        title=html.escape(page.title),
        headline=f'<p class="headline">{html.escape(page.headline)}</p>' if page.headline else "",
        introduction=_with_code(page.introduction),
        links="".join(links),
        sections="\n".join(sections),
    )
    target = folder / "index.html"
    # The page comes first: a folder that holds one is known as ours, even after a kill.
    atomic_write(target, text.encode())
    for part in page.parts:
        if isinstance(part, (Table, Figure)):
            _write_csv(part, folder / f"{part.name}.csv")
    return target


def _with_code(text: str) -> str:
    """Return a text as HTML; text between back quotes is code.

    >>> _with_code("see `a < b` & c")
    'see <code>a &lt; b</code> &amp; c'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _body(part: Part) -> str:
    """Return the HTML of a part below its title."""
    if isinstance(part, Text):
        return "".join(f"<p>{_with_code(text)}</p>" for text in part.paragraphs)
    if isinstance(part, Facts):
        return "<dl>" + "".join(
            f"<dt>{html.escape(name)}</dt><dd><code>{html.escape(value)}</code></dd>"
            for name, value in part.facts
        ) + "</dl>"  # fmt: skip
    note = f'<p class="note">{_with_code(part.note)}</p>' if part.note else ""
    source = f'<p class="source">Data: <a href="{part.name}.csv">{part.name}.csv</a></p>'
    title = html.escape(part.title, quote=True)
    if isinstance(part, Figure):
        alt = html.escape(part.alt, quote=True)
        drawing = part.svg.replace("<svg ", f'<svg role="img" aria-label="{alt}" ', 1)
        return (
            f'{note}<figure><div class="frame" tabindex="0" role="group" aria-label="{title}">'
            f"{drawing}</div></figure>{source}"
        )
    frame = (
        f'<div class="frame" tabindex="0" role="group" aria-label="{title}">{_table(part)}</div>'
    )
    if part.folded:
        frame = f"<details><summary>Show {len(part.rows)} rows</summary>{frame}</details>"
    return f"{note}{frame}{source}"


def _table(part: Table) -> str:
    """Return the HTML of a sortable table."""
    numeric = [
        bool(part.rows)
        and all(isinstance(row[k], Cell) and row[k].value is not None for row in part.rows)  # type: ignore[union-attr]
        for k in range(len(part.columns))
    ]
    heads = "".join(
        f'<th scope="col"{" class=number" if number else ""}>'
        f'<button type="button">{html.escape(column)}</button></th>'
        for column, number in zip(part.columns, numeric, strict=True)
    )
    body = []
    for row in part.rows:
        cells = []
        for entry, number in zip(row, numeric, strict=True):
            cell = entry if isinstance(entry, Cell) else Cell(entry)
            value = "" if cell.value is None or math.isnan(cell.value) else repr(float(cell.value))
            attributes = f' data-value="{value}"' if cell.value is not None else ""
            if number:
                attributes += " class=number"
            elif len(cell.text) > _LONG:
                attributes += " class=long"
            text = html.escape(cell.text)
            if cell.strong:
                text = f"<strong>{text}</strong>"
            cells.append(f"<td{attributes}>{text}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _write_csv(part: Table | Figure, path: Path) -> None:
    columns, rows = part.csv_columns, part.csv_rows
    if isinstance(part, Table) and not columns:
        columns = part.columns
        cells = [[e if isinstance(e, Cell) else Cell(e) for e in row] for row in part.rows]
        rows = [[c.text if c.value is None else c.value for c in row] for row in cells]
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    for row in (columns, *rows):
        writer.writerow([defused(cell) if isinstance(cell, str) else cell for cell in row])
    atomic_write(path, out.getvalue().encode())
