# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained HTML page: text, sortable tables and figures, with nothing from elsewhere.

The page contains its style and one short script that sorts tables. Every table and figure has its
numbers in a CSV file beside the page. It follows the reader's light or dark setting, fits a phone
(wide tables and figures scroll inside their own frame) and prints in black on white.
"""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pairlearn.atomic import atomic_write
from pairlearn.spreadsheet import defused

__all__ = ["Cell", "Facts", "Figure", "Page", "Part", "Table", "Text", "write_page"]


@dataclass(frozen=True)
class Cell:
    """The text of a table cell, and the number that it sorts by."""

    text: str
    value: float | None = None
    strong: bool = False


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

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24; --soft: #57606a;
  --line: #d0d7de; --shade: #f4f6f8; --link: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e6e9ed; --soft: #a3adb8;
  --line: #3b434c; --shade: #1d2228; --link: #79b8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .3rem; }
h3 { font-size: 1rem; margin: 1.8rem 0 .3rem; }
p { margin: .3rem 0 .8rem; max-width: 45rem; }
.headline { font-size: 1.2rem; line-height: 1.4; font-weight: 600; }
.note, .source { color: var(--soft); font-size: .9rem; }
a { color: var(--link); }
nav ul { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; }
.frame { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
.frame:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .7rem; text-align: left;
  border-bottom: 1px solid var(--line); }
tbody tr:last-child td { border-bottom: 0; }
td.number, th.number { text-align: right; }
td[data-value] { white-space: nowrap; }
thead th { background: var(--shade); padding: 0; vertical-align: bottom; }
th button { all: unset; display: block; width: 100%; padding: .4rem .7rem; cursor: pointer;
  font-weight: 600; box-sizing: border-box; text-align: inherit; }
th button:focus-visible { outline: 2px solid var(--link); outline-offset: -2px; }
th button::after { content: "\\a0\\2195"; color: var(--soft); }
th[aria-sort=ascending] button::after { content: "\\a0\\2191"; color: inherit; }
th[aria-sort=descending] button::after { content: "\\a0\\2193"; color: inherit; }
figure { margin: 0; }
figure svg { display: block; width: 100%; max-width: 46rem; height: auto; margin: 0 auto;
  color: var(--ink); }
td.long { white-space: normal; min-width: 18rem; }
summary { cursor: pointer; margin: .3rem 0 .6rem; color: var(--link); }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) 1fr; gap: .2rem 1.2rem; }
dt { color: var(--soft); }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
@media (max-width: 32rem) {
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .5rem; }
  table { font-size: .85rem; }
  td, th button { padding: .35rem .3rem; }
  td.long { min-width: 14rem; }
}
@media print {
  :root { color-scheme: light; --paper: #ffffff; --ink: #000000; --soft: #333333;
    --line: #999999; --shade: #eeeeee; --link: #000000; }
  body { max-width: none; font-size: 10pt; }
  nav { display: none; }
  .frame { overflow: visible; border: 0; }
  th, td { padding: .2rem .4rem; white-space: normal; }
  th button::after { content: none; }
  td.long { min-width: 0; }
  section { break-inside: avoid; }
}
"""

_SCRIPT = """
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const of = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      const [x, y] = [of(a), of(b)];
      const numbers = x !== "" && y !== "" && !isNaN(x) && !isNaN(y);
      const order = numbers ? x - y : x.localeCompare(y, "en", { numeric: true });
      return up ? order : -order;
    });
    table.tBodies[0].append(...rows);
  }));
}
"""


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
        if isinstance(part, (Table, Figure)):
            _write_csv(part, folder / f"{part.name}.csv")
    text = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(page.title)}</title>\n"
        # An empty icon, so that the browser does not ask a server for one.
        '<link rel="icon" href="data:,">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<header><h1>{html.escape(page.title)}</h1>"
        + (f'<p class="headline">{html.escape(page.headline)}</p>' if page.headline else "")
        + f"<p>{_with_code(page.introduction)}</p></header>\n"
        f'<nav aria-label="Contents"><ul>{"".join(links)}</ul></nav>\n<main>\n'
        + "\n".join(sections)
        + f"\n</main>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )
    target = folder / "index.html"
    atomic_write(target, text.encode())
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
