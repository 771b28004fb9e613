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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pairlearn.atomic import atomic_write
from pairlearn.shown import defused, text_table


class Cell(NamedTuple):
    """The text of a table cell, and the number that it sorts by."""

    text: str
    value: float | None = None
    strong: bool = False

    @property
    def look(self) -> str:
        """The class of a cell with a text: a long one wraps."""
        return "number" if self.value is not None else "long" * (len(self.text) > 40)

    @property
    def sorted(self) -> str:
        """The number for the script that sorts; empty for NaN."""
        return "" if self.value is None or math.isnan(self.value) else repr(float(self.value))


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

    `columns` have the format of their numbers, or none for texts. A `folded` table is shown on
    demand only. A row has texts, numbers and cells. The CSV file holds `data`, a head and rows, by
    default the numbers of the table.
    """

    title: str
    name: str
    columns: Mapping[str, str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    folded: bool = False
    data: tuple[Sequence[str], Sequence[Sequence[Any]]] | None = None

    @property
    def cells(self) -> list[list[Cell]]:
        """The rows as they are shown."""
        return [
            [_cell(value, form) for value, form in zip(row, self.columns.values(), strict=True)]
            for row in self.rows
        ]

    @property
    def text(self) -> str:
        """The table for a terminal."""
        return text_table(list(self.columns), [[cell.text for cell in row] for row in self.cells])

    @property
    def csv(self) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """The head and the rows of the CSV file."""
        return self.data or (
            list(self.columns),
            [[c.text if c.value is None else c.value for c in row] for row in self.cells],
        )


def _cell(value: Any, form: str) -> Cell:
    if isinstance(value, Cell):
        return value
    if isinstance(value, str):
        return Cell(value)
    if value is None or math.isnan(value):
        return Cell("-", math.nan)
    return Cell(format(value, form), value)


@dataclass(frozen=True)
class Figure:
    """A drawing (an address with its data) with the CSV of its numbers, `name` without its ending.

    `alt` describes the drawing to readers who cannot see it; `note` stands below the title.
    """

    title: str
    name: str
    drawing: str
    csv: tuple[Sequence[str], Sequence[Sequence[Any]]]
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


def write_page(page: Page, folder: str | Path) -> Path:
    """Write the page and its CSV files into a folder, replacing older ones; return its path."""
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup, escape

    def code(text: str) -> Markup:
        # Text between back quotes is code.
        return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = [part for part in page.parts if isinstance(part, (Table, Figure))]
    names = [part.name for part in files]
    for name in names:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name) or names.count(name) > 1:
            raise ValueError(
                f"parts need distinct names of a-z, 0-9 and '-', got {name!r}; rename it."
            )
    environment = Environment(loader=PackageLoader(__package__), autoescape=True)
    environment.filters["code"] = code
    levels, in_chapter = [], False
    for part in page.parts:
        # A text opens a chapter, which ends at the next text or list of facts.
        in_chapter = isinstance(part, Text) or (in_chapter and not isinstance(part, Facts))
        levels.append("h3" if in_chapter and not isinstance(part, Text) else "h2")
    parts = [(type(part).__name__, level, part) for part, level in zip(page.parts, levels)]  # noqa: B905
    target = folder / "index.html"
    # The page comes first: a folder that holds one is known as ours, even after a kill.
    text = environment.get_template("page.html").render(page=page, parts=parts)
    atomic_write(target, text.encode())
    for part in files:
        out = io.StringIO(newline="")
        writer = csv.writer(out)
        head, rows = part.csv
        for row in (head, *rows):
            writer.writerow([defused(cell) if isinstance(cell, str) else cell for cell in row])
        atomic_write(folder / f"{part.name}.csv", out.getvalue().encode())
    return target
