# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained HTML page: text, sortable tables and figures, with nothing from elsewhere.

The page, its style and a short script that sorts tables stand in templates/page.html. Every table
and figure has its numbers in a CSV file beside the page.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pairlearn.atomic import atomic_write
from pairlearn.shown import defused


@dataclass(frozen=True)
class Cell:
    """The text of a table cell, and the number that it sorts by."""

    text: str
    value: float | None = None
    strong: bool = False

    @property
    def sorted(self) -> str:
        """The number for the script that sorts; empty for NaN."""
        return "" if self.value is None or math.isnan(self.value) else repr(float(self.value))


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
    files = [part for part in page.parts if isinstance(part, (Table, Figure))]
    names = [part.name for part in files]
    for name in names:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name) or names.count(name) > 1:
            raise ValueError(
                f"parts need distinct names of a-z, 0-9 and '-', got {name!r}; rename it."
            )
    target = folder / "index.html"
    # The page comes first: a folder that holds one is known as ours, even after a kill.
    atomic_write(target, _rendered(page).encode())
    for part in files:
        _write_csv(part, folder / f"{part.name}.csv")
    return target


def _rendered(page: Page) -> str:
    """Return the HTML of a page."""
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup, escape

    def code(text: str) -> Markup:
        # Text between back quotes is code.
        return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))

    loader = PackageLoader("pairlearn.experiments.report")
    environment = Environment(loader=loader, autoescape=True)
    environment.filters["code"] = code
    parts: list[dict[str, Any]] = []
    in_chapter = False
    for number, part in enumerate(page.parts, start=1):
        # A text opens a chapter, which ends at the next text or list of facts.
        in_chapter = isinstance(part, Text) or (in_chapter and not isinstance(part, Facts))
        level = "h3" if in_chapter and not isinstance(part, Text) else "h2"
        shown = {"kind": type(part).__name__, "level": level, "anchor": f"part-{number}"}
        if isinstance(part, Figure):
            label = f'<svg role="img" aria-label="{escape(part.alt)}" '
            shown["drawing"] = Markup(part.svg.replace("<svg ", label, 1))
        parts.append(vars(part) | shown | (_shown(part) if isinstance(part, Table) else {}))
    return environment.get_template("page.html").render(page=page, parts=parts)


def _shown(table: Table) -> dict[str, Any]:
    """Return columns with whether they hold numbers, and rows of cells with their look."""
    rows = [[e if isinstance(e, Cell) else Cell(e) for e in row] for row in table.rows]
    numeric = [
        bool(rows) and all(row[k].value is not None for row in rows)
        for k in range(len(table.columns))
    ]

    def look(cell: Cell, is_number: bool) -> str:
        return " class=number" if is_number else " class=long" * (len(cell.text) > _LONG)

    return {
        "heads": list(zip(table.columns, numeric, strict=True)),
        "rows": [
            [
                {**vars(cell), "sorted": cell.sorted, "look": look(cell, is_number)}
                for cell, is_number in zip(row, numeric, strict=True)
            ]
            for row in rows
        ],
    }


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
