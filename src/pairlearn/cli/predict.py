# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn predict``: scores, probabilities and labels for new data."""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
from collections.abc import Iterator
from typing import Any, TextIO

import click

from pairlearn.atomic import atomic_open
from pairlearn.cli.shared.files import OutputPath, read_argument
from pairlearn.cli.shared.output import csv_cell, json_option, tell
from pairlearn.cli.shared.reading import (
    Reading,
    data_argument,
    format_of,
    odd_lines,
    reading_options,
    sources_of,
    split_names,
)
from pairlearn.cli.shared.scoring import (
    Scored,
    kind_of,
    load_for_scoring,
    open_for_model,
    probabilities_of,
    score_chunks,
)
from pairlearn.progress import Progress


@click.command("predict")
@read_argument("model")
@data_argument
@click.option("-o", "--output", type=OutputPath(), metavar="FILE",
              help="Write here instead of to standard output.")  # fmt: skip
@click.option("--proba", is_flag=True,
              help="Write the probability of each class instead of score and label.")  # fmt: skip
@click.option("--raw", is_flag=True,
              help="Write labels as they are, even if a spreadsheet would run them.")  # fmt: skip
@click.option("--keep", metavar="COLUMNS",
              help="Columns of the data to carry along, as in id,name. By default the ids that "
                   "training left out; none carries nothing.")  # fmt: skip
@click.option("--missing", type=click.Choice(["refuse", "impute"]), default="refuse",
              help="What to do with a column that the data lack: refuse the data (the default), "
                   "or take its values as missing.")  # fmt: skip
@reading_options
@json_option
def command(
    model: str,
    data: tuple[str, ...],
    reading: Reading,
    output: str | None,
    proba: bool,
    raw: bool,
    keep: str | None,
    missing: str,
    as_json: bool,
) -> None:
    r"""Score data with a model: one line for each row.

    The columns are line (of the file; before it file, if there are several), the ids that training
    left out, score, probability and label; for a ranking line and score, for a regression line and
    prediction, for a metric line and the image of the row, in which Euclidean distances are the
    learned ones. A kept column whose name is one of these gets " (data)" behind it. Rows that
    cannot be used are left out, counted and reported on standard error. With --json each line is a
    JSON object. In CSV a label that a spreadsheet would take for a formula (it begins with =, +, -
    or @, and is no number) gets an apostrophe in front; --raw leaves it as it is.

    \b
    Examples:
      pairlearn predict model.safetensors new.csv > scores.csv
      pairlearn predict model.safetensors new.csv --keep customer,city -o scores.csv
      pairlearn predict model.safetensors new.csv --proba
      cat new.csv | pairlearn predict model.safetensors - --format csv
      pairlearn predict model.safetensors new.parquet --json -o scores.jsonl
    """
    fitted = load_for_scoring(model)
    if proba and not hasattr(fitted, "predict_proba"):
        raise click.UsageError(
            f"--proba: {model} is a {type(fitted).__name__}, which has no probabilities."
        )
    kept = None if keep is None else () if keep == "none" else split_names(keep, "--keep")
    reader = open_for_model(
        fitted, data, reading, labelled=False, keep=kept, impute=missing == "impute"
    )
    files = [str(source) for source in sources_of(data, format_of(data, reading), reading.query)]
    entries = _probabilities if proba else _entries
    rows = 0
    with Progress(label="scoring") as bar, _opened(output) as file:
        for scored in score_chunks(fitted, reader):
            first = {"file": files[scored.file]} if len(files) > 1 else {}
            for entry in _carried(scored, entries(fitted, scored)):
                row = {**first, **entry}
                if rows == 0 and not as_json:
                    file.write(",".join(csv_cell(name, raw=raw) for name in row) + "\n")
                rows += 1
                if as_json:
                    file.write(_json_line(row))
                else:
                    cells = (csv_cell(value, raw=raw) for value in row.values())
                    file.write(",".join(cells) + "\n")
            bar.update(rows)
    tell(
        *([reader.refusals] if reader.refusals.count else []), *odd_lines(reader),
        *([] if output is None else [f"{output}: {rows} rows"]),
    )  # fmt: skip


@contextlib.contextmanager
def _opened(output: str | None) -> Iterator[TextIO]:
    """Open the output. A file gets its name only when it is complete."""
    if output is None:
        yield sys.stdout
        return
    with atomic_open(output) as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8", newline="\n")
        yield text
        text.flush()
        text.detach()  # The file gets its name before it is closed.


def _carried(scored: Scored, entries: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Put the kept columns between the line and what the model says."""
    if not scored.carried:
        yield from entries
        return
    for texts, entry in zip(zip(*scored.carried.values(), strict=True), entries, strict=True):
        row = {"line": entry["line"]}
        taken = {"file", *entry, *scored.carried}
        for name, text in zip(scored.carried, texts, strict=True):
            new = name
            while new in entry or new == "file" or (new != name and new in taken):
                new = f"{new} (data)"
            row[new] = text
        yield {**row, **entry}


def _json_line(entry: dict[str, Any]) -> str:
    """Return a row as JSON; infinite numbers become null."""
    try:
        text = json.dumps(entry, ensure_ascii=False, allow_nan=False)
    except ValueError:
        finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v
                  for k, v in entry.items()}  # fmt: skip
        text = json.dumps(finite, ensure_ascii=False, allow_nan=False)
    return text + "\n"


def _entries(model: Any, scored: Scored) -> Iterator[dict[str, Any]]:
    name = kind_of(model).result
    columns: dict[str, Any] = {"line": scored.lines.tolist()}
    if scored.scores.ndim == 1:
        columns[name] = scored.scores.tolist()
    else:
        columns |= {f"{name}{k}": part for k, part in enumerate(scored.scores.T.tolist())}
    if len(getattr(model, "classes_", ())) > 2:
        # Grades have one score; the scores of classes are logarithms of their probabilities.
        logs = scored.scores if scored.scores.ndim == 2 else probabilities_of(model, scored)
        columns["label"] = model.classes_[logs.argmax(axis=1)].tolist()
        return _rows(columns)
    if hasattr(model, "predict_proba"):
        columns["probability"] = probabilities_of(model, scored)[:, 1].tolist()
    # A private model without a threshold does not predict labels.
    if hasattr(model, "classes_") and hasattr(model, "predict"):
        columns["label"] = model.classes_[(scored.scores > 0).astype(int)].tolist()
    return _rows(columns)


def _probabilities(model: Any, scored: Scored) -> Iterator[dict[str, Any]]:
    found = probabilities_of(model, scored)
    columns: dict[str, Any] = {"line": scored.lines.tolist()}
    for k, label in enumerate(model.classes_.tolist()):
        name = str(label)
        columns[f"{name} (class)" if name in columns else name] = found[:, k].tolist()
    return _rows(columns)


def _rows(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))
