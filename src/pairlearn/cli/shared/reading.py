# SPDX-License-Identifier: BSD-3-Clause
"""The data of a command: options in, readers of `streams` and `tables` out.

No other file of the program but this one opens data. Tables (`TABLES`) have columns with names and
kinds, and an encoder; svmlight, .npy and a pipe that is learned as a stream have a `Schema`.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pairlearn.cli.shared.files import read_argument
from pairlearn.cli.shared.output import with_options
from pairlearn.cli.shared.settings import Named, Settings, set_option
from pairlearn.register import nearest

if TYPE_CHECKING:
    from pairlearn.streams.readers.base import Reader
    from pairlearn.streams.readers.schema import Schema
    from pairlearn.tables.encoding import TableEncoding
    from pairlearn.tables.fitting import FittedTable, Plan, TableOptions

F = TypeVar("F", bound=Callable[..., Any])

#: Formats whose columns have names and kinds.
TABLES = ("csv", "tsv", "parquet", "arrow", "duckdb")
#: The kind of labels of each problem.
_LABELS = {"auc": "classes", "classes": "groups", "ranking": "numbers", "entropy": "numbers",
           "metric": "groups"}  # fmt: skip
#: Bytes of text per byte of a compressed or Parquet file, roughly.
_EXPANDED = 5
#: Formats that one reader reads.
_READ_TOGETHER = ({"csv", "tsv"}, {"parquet", "arrow"})


@dataclass(frozen=True)
class Reading:
    """How to read the data; the first fields are options, the others are settings."""

    label: str | None = None
    qid: str | None = None
    classes: str | None = None
    categorical: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    format: str | None = None
    query: str | None = None
    features: str | None = None
    numeric: tuple[str, ...] = ()
    date: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    missing: str | None = None
    delimiter: str | None = None
    header: bool = True
    n_features: int | None = None
    zero_based: bool = False
    single: bool = False
    strict: bool = False

    def changed(self) -> list[str]:
        """Return the fields without an option that are not at their default."""
        return [name for name in READING_SETTINGS if getattr(self, name) != getattr(Reading, name)]

    def with_settings(self, settings: Settings) -> Reading:
        """Return the reading after settings, which are relative to `reading`."""
        changes: dict[str, Any] = {}
        for name, setting in settings.items():
            if name not in READING_SETTINGS:
                raise setting.refuse(
                    f"use --{name}." if name in _OPTIONS else
                    f"there is no such setting{nearest(name, READING_SETTINGS)}"
                )  # fmt: skip
            default = getattr(Reading, name)
            if isinstance(default, bool) and not isinstance(setting.value, bool):
                raise setting.refuse(f"{name} must be true or false.")
            if name == "n_features" and not (type(setting.value) is int and setting.value > 0):
                raise setting.refuse("n_features must be a whole number of at least 1.")
            if isinstance(default, tuple):
                changes[name] = (setting.text,)
            else:
                typed = isinstance(default, bool) or name == "n_features"
                changes[name] = setting.value if typed else setting.text.strip("'\"")
        return replace(self, **changes)

    def table(self) -> dict[str, Any]:
        """Return the options of a reader of tables."""
        delimiter = None if self.delimiter is None else self.delimiter.replace("\\t", "\t")
        return {"header": self.header, "delimiter": delimiter, "strict": self.strict}


_OPTIONS = ("label", "qid", "classes", "categorical", "exclude", "format", "query")
#: The formats that a field says something about.
_FORMATS_WITH = {
    "n_features": ("svmlight",),
    "zero_based": ("svmlight",),
    "delimiter": ("csv", "tsv"),
    "header": ("csv", "tsv", "npy"),
}
#: The fields of `Reading` that are set with ``--set reading.FIELD``.
READING_SETTINGS = tuple(name for name in Reading.__dataclass_fields__ if name not in _OPTIONS)


def spelled(name: str) -> str:
    """Return how the command line spells a field of `Reading`.

    >>> spelled("label"), spelled("n_features")
    ('--label', '--set reading.n_features')
    """
    return f"--{name}" if name in _OPTIONS else f"--set reading.{name}"


def data_argument(function: F) -> F:
    """Add the argument DATA, one or several files, or ``-``."""
    return read_argument("data", nargs=-1, required=True, metavar="DATA...")(function)


def reading_options(function: F) -> F:
    """Add the options of `Reading` and ``--set reading.FIELD``; the command gets `reading`."""
    return _reading(function, set_option("reading", example="reading.header=false"), parts=False)


def training_options(function: F) -> F:
    """Add the options of `Reading` and ``--set``; the command gets `reading` and `settings`."""
    function = click.option("--exclude", multiple=True, metavar="A,B,...",
                            help="Columns to leave out; a name with a comma goes in double "
                                 "quotes.")(function)  # fmt: skip
    example = "solver.step_size=0.1, objective.power=4 or reading.header=false"
    return _reading(function, set_option(example=example), parts=True)


def _reading(function: F, add_set: Callable[[Any], Any], *, parts: bool) -> F:
    @functools.wraps(function)
    def command(*arguments: Any, **given: Any) -> Any:
        settings: Settings = given.pop("settings")
        reading = Reading(**{name: given.pop(name) for name in _OPTIONS if name in given})
        reading = reading.with_settings(settings.under("reading"))
        if parts:
            given["settings"] = settings.without("reading")
        return function(*arguments, reading=reading, **given)

    return with_options(  # type: ignore[return-value]
        command,
        click.option("--label", metavar="COLUMN",
                     help="Column of the label, by name; by number if there is no header."),
        click.option("--qid", metavar="COLUMN",
                     help="Column of the query, for rankings; svmlight lines have it as "
                          "qid:NUMBER."),
        click.option("--classes", metavar="NEGATIVE,POSITIVE",
                     help="The two labels. By default the program finds them."),
        click.option("--categorical", multiple=True,
                     metavar="A,B,... | COLUMN:N | COLUMN=A|B|...",
                     help="Columns that are categories. COLUMN:N hashes one into N features; "
                          "COLUMN=A|B makes one feature for each level."),
        click.option("--format", type=Named("streams.FORMATS"),
                     help="Format of the data. By default the file tells. duckdb takes "
                          "--query SQL."),
        # Where parts have options, too, the list is long, and the option above names this one.
        click.option("--query", metavar="SQL", hidden=parts,
                     help="One SELECT to a DuckDB database, whose result is the data."),
        add_set,
    )  # fmt: skip


def split_names(text: str, what: str) -> list[str]:
    """Return the names between commas; a name in double quotes may have commas of its own.

    >>> split_names('age, "city, state"', "--exclude")
    ['age', 'city, state']
    """
    import csv

    try:
        parts = [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [])]
    except csv.Error:
        parts = []
    if not parts or not all(parts):
        raise click.BadParameter(f"{what} must be names between commas, got {text!r}.")
    return parts


# ------------------------------------------------------------------------------------- the files


def format_of(data: Sequence[str], reading: Reading) -> str:
    """Return the format of the data."""
    from pairlearn.streams.readers.open import find_format

    if len(data) > 1 and "-" in data:
        # Else the files before it would be scored, and the second reading would find nothing.
        raise click.UsageError("standard input is read alone; name files, or standard input.")
    if reading.format is None and data[0] == "-":
        raise click.UsageError("standard input does not tell its format; pass --format csv.")
    kind = reading.format or find_format(data[0])
    for other in data[1:] if reading.format is None else ():
        also = find_format(other)
        if kind != also and {kind, also} not in _READ_TOGETHER:
            raise click.UsageError(
                f"{data[0]} is {kind} and {other} is {also}; files of one format are read "
                "together, convert one of them."
            )
    if reading.query is not None and kind != "duckdb":
        raise click.UsageError(
            f"--query asks a DuckDB database, and {data[0]} is {kind}; leave --query out, or name "
            "a database whose tables or views hold the rows."
        )
    for name, kinds in _FORMATS_WITH.items():
        if getattr(reading, name) != getattr(Reading, name) and kind not in kinds:
            raise click.UsageError(
                f"{spelled(name)} is for {' and '.join(kinds)} files, not for {kind}."
            )
    return kind


def sources_of(data: Sequence[str], form: str, query: str | None = None) -> list[Any]:
    """Return the files; a folder means the Parquet or Arrow files in it, a database its query."""
    if form == "duckdb":
        from pairlearn.streams.readers.base import listed
        from pairlearn.streams.readers.query import Queried, tables_of

        if len(data) > 1 or data[0] == "-":
            raise click.UsageError("a database is read alone; name one file.")
        if query is None:
            raise click.UsageError(
                f"{data[0]} is a database; say which rows to read with --query 'SELECT ...' "
                "(train, predict, evaluate, compare); its tables: "
                f"{listed(tables_of(data[0])) or 'none'}."
            )
        return [Queried(data[0], query)]
    if form not in ("parquet", "arrow"):
        return list(data)
    from pairlearn.tables.rows import files_of

    return [file for source in data for file in files_of(source)]


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


# ------------------------------------------------------------------------------ tables to train on


def table_options(data: Sequence[str], reading: Reading, problem: str) -> TableOptions:
    """Return the options of a table from the command line."""
    from pairlearn.tables.fitting import TableOptions

    form = format_of(data, reading)
    if reading.label is None:
        raise click.UsageError(_which_label(data, form, reading))
    if form in ("parquet", "arrow") and reading.features is None:
        from pairlearn.tables.rows import refuse_lost_columns

        for source in data:
            refuse_lost_columns(source)
    kinds, levels, widths = _kinds(reading)
    classes = None
    if reading.classes is not None:
        if problem != "auc":
            raise click.UsageError(f"--classes is for --problem auc, not for {problem}.")
        _classes_of(reading.classes)
        parts = split_names(reading.classes, "--classes")
        classes = (parts[0], parts[1])
    if reading.qid is not None and problem != "ranking":
        raise click.UsageError(f"--qid is for --problem ranking, not for {problem}.")
    features = reading.features
    return TableOptions(
        label=reading.label, qid=reading.qid, problem=_LABELS[problem], classes=classes,
        features=None if features is None else tuple(split_names(features, spelled("features"))),
        exclude=tuple(_names(reading.exclude, "--exclude")),
        kinds=kinds, levels=levels, widths=widths, missing=_missing(reading.missing),
        dtype="float32" if reading.single else "float64", format=form, **reading.table(),
    )  # fmt: skip


def _names(entries: Sequence[str], what: str) -> list[str]:
    return [name for entry in entries for name in split_names(entry, what)]


def _kinds(reading: Reading) -> tuple[dict[str, str], dict[str, list[str]], dict[str, int]]:
    """Return the kinds that the user names, levels of categories and widths, by column."""
    kinds: dict[str, str] = {}
    levels: dict[str, list[str]] = {}
    widths: dict[str, int] = {}

    def put(name: str, kind: str, option: str) -> None:
        if name in kinds:
            raise click.UsageError(f"{option} {name}: the column is named twice; name it once.")
        kinds[name] = kind

    for option, kind in (("numeric", "number"), ("date", "date"), ("text", "text")):
        for name in _names(getattr(reading, option), spelled(option)):
            put(name, kind, spelled(option))
    for entry in reading.categorical:
        name, equals, listed = entry.partition("=")
        head, _, width = entry.rpartition(":")
        if equals and name and listed:
            put(name, "category", "--categorical")
            levels[name] = listed.split("|")
            if len(set(levels[name])) != len(levels[name]) or "" in levels[name]:
                raise click.BadParameter(f"--categorical {name}: levels must be different texts.")
        elif head and width.isdigit():
            put(head, "category", "--categorical")
            widths[head] = int(width)
            if not 2 <= int(width) <= 1 << 22:
                raise click.BadParameter(f"--categorical {entry}: hash into 2 to 4194304 features.")
        else:
            for name in split_names(entry, "--categorical"):
                put(name, "category", "--categorical")
    return kinds, levels, widths


def _which_label(data: Sequence[str], form: str, reading: Reading) -> str:
    """Return the error for a missing --label, with the columns to choose from."""
    said = "the label is needed; name its column with --label"
    if data[0] == "-":
        return f"{said}."
    from pairlearn.streams.readers.base import listed
    from pairlearn.tables.rows import open_table

    names = open_table(sources_of(data, form, reading.query)[0], form, header=reading.header).names
    return f"{said}, one of {listed(names)}."


def _missing(text: str | None) -> str | float:
    if text is None or text in ("auto", "refuse", "indicator"):
        return text or "auto"
    number = _number(text)
    if number is None or not math.isfinite(number):
        raise click.BadParameter(
            f"{spelled('missing')} must be auto, refuse, indicator or a number, got {text!r}."
        )
    return number


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Examples to train on: a `table` in memory, or a `reader`; a plan of columns, or a schema."""

    problem: str
    plan: Plan | None = None
    schema: Schema | None = None
    reader: Any = None
    table: FittedTable | None = None

    @property
    def encoder(self) -> TableEncoding | None:
        """What turns columns into features, if they have names."""
        if self.plan is not None:
            return self.plan.encoder
        return None if self.schema is not None else self.reader.encoder

    @property
    def feature_names(self) -> Any:
        """The names of the features."""
        return self.reader.feature_names if self.encoder is None else self.encoder.feature_names

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes as the model names them; none for other problems."""
        if self.encoder is None:
            return (self.schema and self.schema.classes) or ()
        label = self.encoder.label
        coded = ("classes", "groups") if self.problem == "classes" else ("classes",)
        return label.values if label is not None and label.kind in coded else ()

    @property
    def codes(self) -> tuple[float, ...] | None:
        """The labels that the reader delivers for the classes."""
        if self.schema is not None:
            return self.schema.classes  # type: ignore[return-value]
        return (0.0, 1.0) if self.classes else None

    def examples(self) -> tuple[Any, Any, Any]:
        """Return features, labels and queries in memory."""
        import numpy as np
        from scipy import sparse

        if self.table is not None:
            return self.table.X, self.table.y, self.table.qid
        chunks = list(self.reader)
        X: Any = [chunk.X for chunk in chunks]
        X = sparse.vstack(X, format="csr") if sparse.issparse(X[0]) else np.concatenate(X)
        y = np.concatenate([chunk.y for chunk in chunks if chunk.y is not None])
        queries = [chunk.qid for chunk in chunks if chunk.qid is not None]
        return X, y, np.concatenate(queries) if queries else None

    def columns(self) -> dict[str, Any]:
        """Return how to read such columns again, for the model file."""
        if self.encoder is not None:
            return {"table": self.encoder.state()}
        return {"schema": schema_to_plain(self.schema)}  # type: ignore[arg-type]

    def refused(self) -> tuple[Any, list[str]]:
        """Return the refused rows, and sentences about fields that were taken as missing."""
        if self.table is not None:
            return self.table.refusals, self.table.odd.lines()
        return self.reader.refusals, odd_lines(self.reader)


def open_training_rows(
    data: tuple[str, ...], reading: Reading, problem: str, form: str, *, is_stream: bool
) -> TrainingRows:
    """Return the data. A stream has a reader; data to be fitted in memory have either."""
    if form not in TABLES or (is_stream and "-" in data):
        return _rows_of_schema(data, reading, problem, form)
    from pairlearn.tables.fitting import load_table, plan_table

    options, sources = table_options(data, reading, problem), sources_of(data, form, reading.query)
    if is_stream:
        plan = plan_table(sources, options)
        _check_dense(problem, plan.encoder)
        reader = table_reader(plan.encoder, data, form, reading, labelled=True)
        return TrainingRows(problem, plan, reader=reader)
    table = load_table(sources, options)
    _check_dense(problem, table.plan.encoder)
    return TrainingRows(problem, table.plan, table=table)


def table_reader(
    encoder: TableEncoding, data: Sequence[str], form: str, reading: Reading, **how: Any
) -> Reader:
    """Return a reader of tables through an encoder."""
    from pairlearn.tables.reader import TableReader

    sources = sources_of(data, form, reading.query)
    return TableReader(sources, encoder, format=form, **reading.table(), **how)


def _check_dense(problem: str, columns: Any) -> None:
    """Refuse sparse features for a metric; `columns` are None if the format is sparse."""
    if problem == "metric" and getattr(columns, "sparse", columns is None):
        raise click.UsageError(
            "--problem metric learns a number for each pair of features and takes dense ones; "
            "these are sparse. Choose columns with --set reading.features=A,B, leave some out with "
            "--exclude, or write svmlight as CSV, Parquet or .npy."
        )


# --------------------------------------------------------------------------- data with a schema


def _rows_of_schema(
    data: tuple[str, ...], reading: Reading, problem: str, form: str
) -> TrainingRows:
    schema = schema_of(reading)
    label = "label" if schema.label is None else schema.label  # that of an svmlight line
    if problem != "auc":
        if schema.classes is not None:
            raise click.UsageError(
                f"--classes is for --problem auc; labels of {problem} are numbers."
            )
        if schema.qid is not None and problem != "ranking":
            raise click.UsageError(f"--qid is for --problem ranking, not for {problem}.")
        if form == "svmlight":
            schema = replace(schema, label=label, qid="qid" if problem == "ranking" else None)
        elif schema.label is None:
            raise click.UsageError("the label is needed; name its column with --label.")
    elif schema.classes is None:
        schema = replace(schema, classes=_find_classes(data, schema, reading), label=label)
    elif form in TABLES and reading.classes is not None:
        schema = replace(schema, classes=tuple(split_names(reading.classes, "--classes")))
    reader = open_data(data, schema, reading)
    _check_dense(problem, None if form == "svmlight" else getattr(reader, "encoder", reader))
    return TrainingRows(problem, schema=None if form in TABLES else schema, reader=reader)


def _classes_of(text: str) -> tuple[str, ...] | tuple[float, ...]:
    """Return the two labels that --classes names, numbers as such."""
    parts = split_names(text, "--classes")
    if len(parts) != 2 or parts[0] == parts[1]:
        raise click.BadParameter(f"--classes must be two labels, as in 0,1; got {text!r}.")
    numbers = [number for number in map(_number, parts) if number is not None]
    if len(numbers) < 2:
        return tuple(parts)
    if numbers[0] > numbers[1]:
        raise click.BadParameter(
            f"--classes {text}: of two numbers the larger is the positive one; write "
            f"{parts[1]},{parts[0]}."
        )
    return tuple(numbers)


def schema_of(reading: Reading, base: Schema | None = None) -> Schema:
    """Return the schema that the options ask for, on top of the one of a model."""
    from pairlearn.streams.readers.schema import Schema

    for name in ("exclude", "numeric", "date", "text"):
        if getattr(reading, name):
            raise click.UsageError(f"{spelled(name)} is for tables in files; leave it out here.")
    changes: dict[str, Any] = {}
    for name, column in (("label", reading.label), ("qid", reading.qid)):
        if column is not None:
            unnamed = not reading.header or reading.format == "npy"
            changes[name] = int(column) if unnamed and column.lstrip("-").isdigit() else column
    if reading.classes is not None:
        changes["classes"] = _classes_of(reading.classes)
    if reading.features is not None:
        changes["features"] = tuple(split_names(reading.features, spelled("features")))
    if reading.categorical:
        kinds, levels, widths = _kinds(reading)
        if set(kinds) - set(levels) - set(widths):
            raise click.BadParameter(
                "--categorical must be like city:1024 or colour=red|blue here, got "
                f"{reading.categorical[0]!r}."
            )
        changes["categorical"] = {**levels, **widths}
    if reading.missing not in (None, "auto"):
        changes["missing"] = _missing(reading.missing)
    if reading.single:
        changes["dtype"] = "float32"
    return replace(base, **changes) if base is not None else Schema(**changes)


def open_data(
    data: Sequence[str], schema: Schema, reading: Reading, *, n_features: int | None = None
) -> Reader:
    """Return a reader of the files by a schema."""
    from pairlearn.streams.readers.open import open_reader

    kind = format_of(data, reading)
    options: dict[str, Any] = {"strict": reading.strict}
    if kind in ("csv", "tsv"):
        options = {name: value for name, value in reading.table().items() if value is not None}
    if kind == "svmlight":
        options["n_features"] = reading.n_features or n_features
        options["zero_based"] = reading.zero_based
        if schema.label is None and schema.classes is not None:
            schema = replace(schema, label="label")
    if kind == "npy" and isinstance(schema.label, str):
        if not schema.label.lstrip("-").isdigit():
            raise click.UsageError(f"{data[0]} has no names; give --label as a column number.")
        schema = replace(schema, label=int(schema.label))
    sources: Any = list(data) if len(data) > 1 else data[0]
    if kind == "duckdb":
        sources = sources_of(data, kind, reading.query)
    return open_reader(sources, schema, format=kind, **options)


def _find_classes(data: Sequence[str], schema: Schema, reading: Reading) -> tuple[float, ...]:
    """Return the two numeric labels of the data, reading as far as needed to see both."""
    import numpy as np

    from pairlearn.streams.readers.base import ReadError

    if "-" in data:
        raise click.UsageError("standard input is read once; pass --classes 0,1.")
    labels: set[float] = set()
    for chunk in open_data(data, schema, reading):
        if chunk.y is None:
            raise click.UsageError("the label is needed; name its column with --label.")
        labels |= set(np.unique(chunk.y).tolist())
        if len(labels) >= 2:
            break
    if len(labels) != 2:
        shown = ", ".join(f"{label:g}" for label in sorted(labels)[:5])
        raise ReadError(
            f"{data[0]} has the label{'s' * (len(labels) > 1)} {shown}, and two are needed; name "
            "two with --classes, pass --problem classes, or check --label."
        )
    return tuple(sorted(labels))


def schema_to_plain(schema: Schema) -> dict[str, Any]:
    """Return a schema as plain values for the model file."""
    plain = asdict(schema)
    for name in ("categorical", "missing"):
        value = plain[name]
        if isinstance(value, Mapping):
            plain[name] = {str(k): v if isinstance(v, (int, float, str)) else list(v)
                           for k, v in value.items()}  # fmt: skip
    return {name: list(v) if isinstance(v, tuple) else v for name, v in plain.items()}


def odd_lines(reader: Reader) -> list[str]:
    """Return sentences about the columns and fields of a table that were taken as missing."""
    from pairlearn.streams.readers.base import listed

    lines = [
        f"{source} has no column {listed(names)}: taken as missing"
        for source, names in getattr(reader, "lacking", {}).items()
    ]
    lines += getattr(reader, "strange", ())
    odd = getattr(reader, "odd", None)
    # a column that is lacking is told once, not row by row
    return lines if odd is None else [*lines, *odd.lines()]
