# SPDX-License-Identifier: BSD-3-Clause
"""Tables in the program: options in, a table of the columns and their kinds out."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from pairlearn.cli.shared.reading import (
    Reading,
    classes_of,
    format_of,
    open_data,
    sources_of,
    spelled,
    split_names,
)

if TYPE_CHECKING:
    from pairlearn.streams.readers.base import Reader
    from pairlearn.tables.encoding import TableEncoding
    from pairlearn.tables.fitting import Plan, TableOptions
    from pairlearn.tables.kinds import Decision

#: Formats whose columns have names and kinds.
TABLES = ("csv", "tsv", "parquet", "arrow", "duckdb")
#: The kind of labels of each problem.
_LABELS = {"auc": "classes", "classes": "groups", "ranking": "numbers", "entropy": "numbers",
           "metric": "groups"}  # fmt: skip
#: Bytes of text per byte of a compressed or Parquet file, roughly.
_EXPANDED = 5
#: Most characters of a column name: about a quarter of a terminal.
_NAME = 28
#: At most this many classes are listed.
_CLASSES = 6
#: Tables with at least this many columns share lines between equal neighbours.
_WIDE = 40
#: At least this many equal neighbours share a line.
_ALIKE = 4


def text_size(sources: Sequence[Any]) -> float:
    """Return the approximate bytes of text in the files; infinite for standard input."""
    from pairlearn.streams.readers.files import sniff

    total = 0.0
    for source in sources:
        if os.fspath(source) == "-":
            return math.inf
        factor = 1 if sniff(source) in ("text", "npy", "arrow") else _EXPANDED
        total += factor * os.path.getsize(source)
    return total


def _names(given: Sequence[str], what: str) -> list[str]:
    return [name for entry in given for name in split_names(entry, what)]


def table_options(data: Sequence[str], reading: Reading, problem: str) -> TableOptions:
    """Return the options of a table from the command line."""
    from pairlearn.tables.fitting import TableOptions

    form = format_of(data, reading)
    if reading.label is None:
        raise click.UsageError(_which_label(data, form, reading))
    if form in ("parquet", "arrow") and reading.features is None:
        from pairlearn.streams.readers.arrow import refuse_lost_columns

        for source in data:
            refuse_lost_columns(source)
    kinds: dict[str, str] = {}
    levels: dict[str, Sequence[str]] = {}
    widths: dict[str, int] = {}
    for option, kind in (("numeric", "number"), ("date", "date"), ("text", "text")):
        for name in _names(getattr(reading, option), spelled(option)):
            _only_once(kinds, name, spelled(option))
            kinds[name] = kind
    for entry in reading.categorical:
        name, equals, listed = entry.partition("=")
        head, _, width = entry.rpartition(":")
        if equals and name and listed:
            _only_once(kinds, name, "--categorical")
            levels[name] = listed.split("|")
            kinds[name] = "category"
        elif head and width.isdigit():
            _only_once(kinds, head, "--categorical")
            if not 2 <= int(width) <= 1 << 22:
                raise click.BadParameter(f"--categorical {entry}: hash into 2 to 4194304 features.")
            widths[head] = int(width)
            kinds[head] = "category"
        else:
            for name in split_names(entry, "--categorical"):
                _only_once(kinds, name, "--categorical")
                kinds[name] = "category"
    for name in levels:
        if len(set(levels[name])) != len(levels[name]) or "" in levels[name]:
            raise click.BadParameter(f"--categorical {name}: levels must be different texts.")
    classes = None
    if reading.classes is not None:
        if problem != "auc":
            raise click.UsageError(f"--classes is for --problem auc, not for {problem}.")
        classes_of(reading.classes)
        parts = split_names(reading.classes, "--classes")
        classes = (parts[0], parts[1])
    if reading.qid is not None and problem != "ranking":
        raise click.UsageError(f"--qid is for --problem ranking, not for {problem}.")
    return TableOptions(
        label=reading.label,
        qid=reading.qid,
        problem=_LABELS[problem],
        classes=classes,
        features=None
        if reading.features is None
        else tuple(split_names(reading.features, spelled("features"))),
        exclude=tuple(_names(reading.exclude, "--exclude")),
        kinds=kinds,
        levels=levels,
        widths=widths,
        missing=_missing(reading.missing),
        dtype="float32" if reading.single else "float64",
        format=form,
        header=reading.header,
        delimiter=_delimiter(reading),
        strict=reading.strict,
    )


def _which_label(data: Sequence[str], form: str, reading: Reading) -> str:
    """Return the error for a missing --label, with the columns to choose from."""
    said = "the label is needed; name its column with --label"
    if data[0] == "-":
        return f"{said}."
    from pairlearn.streams.readers.schema import listed
    from pairlearn.tables.rows import open_table

    names = open_table(sources_of(data, form, reading.query)[0], form, header=reading.header).names
    return f"{said}, one of {listed(names)}."


def _only_once(kinds: Mapping[str, str], name: str, option: str) -> None:
    if name in kinds:
        raise click.UsageError(f"{option} {name}: the column is named twice; name it once.")


def _missing(text: str | None) -> str | float:
    if text is None or text in ("auto", "refuse", "indicator"):
        return text or "auto"
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise click.BadParameter(
            f"{spelled('missing')} must be auto, refuse, indicator or a number, got {text!r}."
        )
    return number


# ------------------------------------------------------------------------------------ shown


def decided_values(plan: Plan) -> list[dict[str, Any]]:
    """Return the decisions as plain values."""
    return [
        {
            "column": decision.name,
            "kind": decision.kind,
            "missing": round(absent, 6) if absent else 0.0,
            "features": n_features,
            "note": note,
            "given": decision.given,
        }
        for decision, absent, n_features, note in _decided(plan)
    ]


def _decided(plan: Plan) -> Iterator[tuple[Decision, float, int, str]]:
    """Yield the decisions with the share of missing fields, the number of features and a note."""
    by_name = {column.name: column for column in plan.encoder.columns}
    for decision in plan.decisions:
        column, absent = by_name.get(decision.name), plan.absent[decision.name]
        n_features = 0 if column is None else len(column.feature_names)
        yield decision, absent, n_features, _note(decision, column, absent)


def _note(decision: Decision, column: Any, absent: float) -> str:
    if column is None:
        what = "left out"
        return f"{what}: {decision.note}" if decision.note else what
    if not (decision.note or absent):
        return str(column.describe)
    gaps = column.describe_gaps if absent else ""
    return "; ".join(part for part in (decision.note, column.describe, gaps) if part)


def _percent(share: float) -> str:
    return "<0.1 %" if share < 0.001 else f"{100.0 * share:.1f} %"


def decided_lines(plan: Plan, rows: int | None) -> list[str]:
    """Return the table of columns and their kinds as lines of text."""
    from pairlearn.tables.values import cut

    label = plan.encoder.label
    assert label is not None
    cells: list[tuple[str, ...]] = [("column", "kind", "missing", "features", "")]
    for decision, absent, n_features, note in _decided(plan):
        missing = _percent(absent) if absent else ""
        cells.append(
            (decision.name, decision.kind, missing, str(n_features or ""), note and cut(note, 72))
        )
    cells = _folded(cells) if len(plan.decisions) >= _WIDE else _shortened(cells)
    widths = [max(len(row[k]) for row in cells) for k in range(4)]
    lines = [
        f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}  {e}".rstrip()
        for a, b, c, d, e in cells
    ]
    said = f"label {label.column!r}"
    if label.kind == "classes":
        negative, positive = (cut(str(value)) for value in label.values)
        said += f": {positive} (positive) against {negative}"
    elif label.kind == "groups":
        shown = ", ".join(cut(str(value)) for value in label.values[:_CLASSES])
        said += f": {len(label.values)} classes ({shown}{', ...' * (len(label.values) > _CLASSES)})"
    if label.note:
        said += f"; {label.note}"
    if plan.encoder.qid is not None:
        said += f"; queries: {plan.encoder.qid!r}"
    counted = "" if rows is None else f"{rows} rows; "
    n, d = len(plan.encoder.columns), plan.encoder.n_features
    gives = f"{n} column{'s' * (n > 1)} give{'s' * (n == 1)} {d} feature{'s' * (d > 1)}"
    return [*lines, said, *(f"note: {note}" for note in plan.notes), f"{counted}{gives}"]


def _shortened(cells: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the lines of a table with long names cut short."""
    from pairlearn.tables.values import cut

    return [(cut(name, _NAME), *rest) for name, *rest in cells]


def _folded(cells: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the lines of a table; neighbours with equal entries share one line."""
    from pairlearn.tables.values import cut

    found: list[tuple[str, ...]] = []
    for said, group in itertools.groupby(cells, key=lambda row: row[1:]):
        rows = list(group)
        if len(rows) < _ALIKE:
            found += _shortened(rows)
            continue
        kind, missing, features, note = said
        between = f"{cut(rows[0][0], _NAME // 2)} to {cut(rows[-1][0], _NAME // 2)}"
        total = str(int(features) * len(rows)) if features else ""
        note = "; ".join(part for part in (f"{len(rows)} columns", note) if part)
        found.append((between, kind, missing, total, note))
    return found


# ------------------------------------------------------------------------------- models of tables


def encoder_of(model: Any) -> TableEncoding | None:
    """Return the encoder that a model was trained through, or None."""
    from pairlearn.models import ModelFileError
    from pairlearn.models.record import reason
    from pairlearn.tables.encoding import TableEncoding

    state = getattr(model, "provenance_", {}).get("table")
    if state is None:
        return None
    try:
        encoder = TableEncoding.from_state(state)
    except ValueError as error:
        raise ModelFileError(
            f"the model says nothing usable about its columns: {reason(error)}"
        ) from None
    width = int(model.n_features_in_)
    if encoder.n_features != width:
        raise ModelFileError(
            f"the model has {width} features and its columns give {encoder.n_features}; train it "
            "again."
        )
    return encoder


def open_encoded(
    encoder: TableEncoding,
    data: Sequence[str],
    reading: Reading,
    *,
    labelled: bool,
    keep: Sequence[str] | None = None,
    impute: bool = False,
) -> Reader:
    """Return a reader of new data for a model of a table.

    `keep` names columns to carry along; with None these are the ids of the model, where the data
    have them.
    """
    form = format_of(data, reading)
    if form not in TABLES:
        raise click.UsageError(
            f"the model was trained on named columns, and {data[0]} is {form}, which has none."
        )
    settled = ("features", "numeric", "date", "text", "categorical", "missing", "classes", "qid")
    for option in (*settled, "single"):
        if getattr(reading, option):
            raise click.UsageError(
                f"{spelled(option)} was settled when the model was trained, and is stored in it; "
                "leave it out, or train again."
            )
    if reading.label is not None and encoder.label is not None:
        if labelled:
            encoder.label = replace(encoder.label, column=reading.label)
        elif reading.label != encoder.label.column:
            raise click.UsageError(
                f"--label {reading.label}: no label is read here, and that of the model is "
                f"{encoder.label.column!r}; leave the option out."
            )
    if not (encoder.ids if keep is None else keep) and not impute:
        compiled = _compiled_reader(encoder, data, form, reading, labelled=labelled)
        if compiled is not None:
            return compiled
    return table_reader(encoder, data, form, reading, labelled=labelled, carry=keep, impute=impute)


def _compiled_reader(
    encoder: TableEncoding, data: Sequence[str], form: str, reading: Reading, *, labelled: bool
) -> Reader | None:
    """Return the compiled reader if the model was trained through one and the header is plain."""
    from pairlearn.tables.rows import open_table, suit_together
    from pairlearn.tables.values import MISSING_TOKENS

    schema = encoder.as_schema() if encoder.compiled else None
    if schema is None:
        return None
    # gaps here are those of a table, and cost no row
    schema = replace(schema, missing_tokens=MISSING_TOKENS)
    if not labelled:
        schema = replace(schema, label=None, qid=None, classes=None)
    if data[0] != "-":
        header, delimiter = reading.header, _delimiter(reading)
        first, *others = sources_of(data, form, reading.query)
        table = open_table(first, form, header=header, delimiter=delimiter)
        further = (open_table(one, form, header=header, delimiter=delimiter) for one in others)
        if not suit_together(itertools.chain([table], further), schema):
            return None
        reading = reading.with_delimiter(table.delimiter, form)
    return open_data(data, schema, reading)


def table_reader(
    encoder: TableEncoding,
    data: Sequence[str],
    form: str,
    reading: Reading,
    *,
    labelled: bool,
    carry: Sequence[str] | None = (),
    impute: bool = False,
) -> Reader:
    """Return a reader of tables through an encoder."""
    from pairlearn.tables.reader import TableReader

    return TableReader(
        sources_of(data, form, reading.query), encoder, format=form, labelled=labelled,
        header=reading.header, delimiter=_delimiter(reading), strict=reading.strict, carry=carry,
        impute=impute,
    )  # fmt: skip


def _delimiter(reading: Reading) -> str | None:
    return None if reading.delimiter is None else reading.delimiter.replace("\\t", "\t")
