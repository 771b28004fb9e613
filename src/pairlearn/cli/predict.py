# SPDX-License-Identifier: BSD-3-Clause
"""``pairlearn predict``: scores, probabilities and labels for new data."""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Any, TextIO

import click

from pairlearn.cli.output import json_option
from pairlearn.cli.problem_kinds import kind_of
from pairlearn.cli.reading import Reading, data_argument, reading_options, size_of
from pairlearn.progress import Progress

if TYPE_CHECKING:
    from pairlearn.cli.scoring import Scored

__all__ = ["command"]


@click.command("predict")
@click.argument("model", type=click.Path())
@data_argument
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE",
              help="Write here instead of to standard output.")  # fmt: skip
@reading_options
@json_option
def command(
    model: str, data: tuple[str, ...], reading: Reading, output: str | None, as_json: bool
) -> None:
    r"""Score data with a model: one line for each row.

    The columns are line (of the file), score, probability and label; for a ranking line and
    score, for a regression line and prediction, for a metric line and the image of the row, in
    which Euclidean distances are the learned ones. Rows that cannot be used are left out, counted
    and reported on standard error. With --json each line is a JSON object.

    \b
    Examples:
      pairlearn predict model.safetensors new.csv > scores.csv
      cat new.csv | pairlearn predict model.safetensors - --format csv
      pairlearn predict model.safetensors new.parquet --json -o scores.jsonl
    """
    from pairlearn.cli.scoring import open_for, score_chunks
    from pairlearn.models import load_model

    fitted = load_model(model)
    reader = open_for(fitted, data, reading, labelled=False)
    rows = 0
    with Progress(size_of(data), label="scoring") as bar:
        if output is None:
            rows = _write(fitted, score_chunks(fitted, reader), sys.stdout, as_json, bar)
        else:
            # a partial file must not be mistaken for a complete one
            import os
            import tempfile
            from pathlib import Path

            folder = Path(output).resolve().parent
            handle, name = tempfile.mkstemp(prefix=".predict.", suffix=".tmp", dir=folder)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    rows = _write(fitted, score_chunks(fitted, reader), file, as_json, bar)
                os.replace(name, output)
            except BaseException:
                os.unlink(name)
                raise
    if reader.refusals.count:
        click.echo(f"pairlearn: {reader.refusals}", err=True)
    if output is not None:
        click.echo(f"pairlearn: {output}: {rows} rows", err=True)


def _write(model: Any, chunks: Any, file: TextIO, as_json: bool, bar: Progress) -> int:
    rows = 0
    for scored in chunks:
        for entry in _entries(model, scored):
            if rows == 0 and not as_json:
                file.write(",".join(entry) + "\n")
            rows += 1
            if as_json:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            else:
                file.write(",".join(_field(value) for value in entry.values()) + "\n")
        bar.update(rows, done=scored.done)
    return rows


def _entries(model: Any, scored: Scored) -> Any:
    name = kind_of(model).result
    columns: dict[str, Any] = {"line": scored.lines.tolist()}
    if scored.scores.ndim == 1:
        columns[name] = scored.scores.tolist()
    else:
        for k, column in enumerate(scored.scores.T.tolist()):
            columns[f"{name}{k}"] = column
    if hasattr(model, "predict_proba"):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            columns["probability"] = model.predict_proba(scored.X)[:, 1].tolist()
    if hasattr(model, "classes_"):
        columns["label"] = model.classes_[(scored.scores > 0).astype(int)].tolist()
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _field(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    if any(c in text for c in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text
