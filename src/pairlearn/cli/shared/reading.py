# SPDX-License-Identifier: BSD-3-Clause
"""Options of the commands that read data."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pairlearn.cli.output import with_options
from pairlearn.cli.shared.names import Named
from pairlearn.cli.shared.paths import read_argument
from pairlearn.cli.shared.settings import Settings, set_option
from pairlearn.register import nearest

if TYPE_CHECKING:
    from pairlearn.streams.readers.base import Reader
    from pairlearn.streams.readers.schema import Schema

F = TypeVar("F", bound=Callable[..., Any])


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

    def with_delimiter(self, found: str | None, form: str) -> Reading:
        """Return the reading with the delimiter that was found, where the format has one."""
        return replace(self, delimiter=found) if form in _FORMATS_WITH["delimiter"] else self

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
                changes[name] = setting.value if typed else setting.text
        return replace(self, **changes)


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
    """Return the function with the options that say how to read data."""

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


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _categorical(entries: Sequence[str]) -> dict[str | int, int | Sequence[str]]:
    found: dict[str | int, int | Sequence[str]] = {}
    for entry in entries:
        name, equals, levels = entry.partition("=")
        if equals and name and levels:
            found[name] = levels.split("|")
            continue
        name, _, width = entry.rpartition(":")
        if not name or not width.isdigit():
            raise click.BadParameter(
                f"--categorical must be like city:1024 or colour=red|blue here, got {entry!r}."
            )
        found[name] = int(width)
    return found


def classes_of(text: str | None) -> tuple[str, ...] | tuple[float, ...] | None:
    """Return the two labels that an option names, numbers as such."""
    if text is None:
        return None
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
    for name, given in (("label", reading.label), ("qid", reading.qid)):
        if given is not None:
            unnamed = not reading.header or reading.format == "npy"
            changes[name] = int(given) if unnamed and given.lstrip("-").isdigit() else given
    if reading.classes is not None:
        changes["classes"] = classes_of(reading.classes)
    if reading.features is not None:
        changes["features"] = tuple(split_names(reading.features, spelled("features")))
    if reading.categorical:
        changes["categorical"] = _categorical(reading.categorical)
    if reading.missing not in (None, "auto"):
        assert reading.missing is not None
        number = _number(reading.missing)
        changes["missing"] = reading.missing if number is None else number
    if reading.single:
        changes["dtype"] = "float32"
    return replace(base, **changes) if base is not None else Schema(**changes)


#: Formats that one reader reads.
_READ_TOGETHER = ({"csv", "tsv"}, {"parquet", "arrow"})


def format_of(data: Sequence[str], reading: Reading) -> str:
    """Return the format of the data."""
    from pairlearn.streams.readers.open import find_format

    if len(data) > 1 and "-" in data:
        # Else the files before it would be scored, and the second reading would find nothing.
        raise click.UsageError("standard input is read alone; name files, or standard input.")
    if reading.format is None and data[0] == "-":
        raise click.UsageError("standard input does not tell its format; pass --format csv.")
    kind = find_format(data[0]) if reading.format is None else reading.format
    if reading.format is None:
        for other in data[1:]:
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
        from pairlearn.streams.readers.query import Queried, tables_of

        if len(data) > 1 or data[0] == "-":
            raise click.UsageError("a database is read alone; name one file.")
        if query is None:
            from pairlearn.streams.readers.schema import listed

            names = listed(tables_of(data[0])) or "none"
            raise click.UsageError(
                f"{data[0]} is a database; say which rows to read with --query 'SELECT ...' "
                f"(train, predict, evaluate, compare); its tables: {names}."
            )
        return [Queried(data[0], query)]
    if form not in ("parquet", "arrow"):
        return list(data)
    from pairlearn.streams.readers.arrow import files_of

    return [file for source in data for file in files_of(source)]


def open_data(
    data: Sequence[str], schema: Schema, reading: Reading, *, n_features: int | None = None
) -> Reader:
    """Return a reader of the files."""
    from pairlearn.streams.readers.open import open_reader

    kind = format_of(data, reading)
    options: dict[str, Any] = {}
    if kind in ("csv", "tsv"):
        options["header"] = reading.header
        if reading.delimiter is not None:
            options["delimiter"] = reading.delimiter.replace("\\t", "\t")
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
    return open_reader(sources, schema, format=kind, strict=reading.strict, **options)


def find_classes(
    data: Sequence[str], schema: Schema, reading: Reading, *, n_features: int | None = None
) -> tuple[float, ...]:
    """Return the two numeric labels of the data, reading as far as needed to see both."""
    import numpy as np

    from pairlearn.streams.readers.base import ReadError

    if "-" in data:
        raise click.UsageError("standard input is read once; pass --classes 0,1.")
    found: set[float] = set()
    reader = open_data(data, schema, reading, n_features=n_features)
    try:
        for chunk in reader:
            if chunk.y is None:
                raise click.UsageError("the label is needed; name its column with --label.")
            found |= set(np.unique(chunk.y).tolist())
            if len(found) >= 2:
                break
    except ReadError as error:
        if "is not a number" in str(error) and "no usable row" in str(error):
            raise ReadError(f"{error} (labels that are texts need --classes)") from None
        raise
    if len(found) != 2:
        shown = ", ".join(f"{label:g}" for label in sorted(found)[:5])
        raise ReadError(
            f"{data[0]} has the label{'s' * (len(found) > 1)} {shown}, and two are needed; name "
            "two with --classes, pass --problem classes, or check --label."
        )
    return tuple(sorted(found))


def schema_to_plain(schema: Schema, columns: Sequence[str | int] | None) -> dict[str, Any]:
    """Return a schema as plain values for the model file, with the columns it has used."""
    plain = asdict(schema)
    plain["features"] = None if columns is None else list(columns)
    for name in ("categorical", "missing"):
        value = plain[name]
        if isinstance(value, Mapping):
            plain[name] = {str(k): v if isinstance(v, (int, float, str)) else list(v)
                           for k, v in value.items()}  # fmt: skip
    return {name: list(v) if isinstance(v, tuple) else v for name, v in plain.items()}


def schema_from_plain(plain: Mapping[str, Any], *, labelled: bool) -> Schema:
    """Return the schema that a model was trained with."""
    from pairlearn.models.record import reason
    from pairlearn.streams.readers.base import ReadError
    from pairlearn.streams.readers.schema import Schema

    try:
        values = dict(plain)
        if not labelled:
            values |= {"label": None, "qid": None, "classes": None}
        for name in ("features", "missing_tokens", "classes"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        return Schema(**values)
    except TypeError as error:
        raise ReadError(
            f"the model says nothing usable about its columns ({reason(error)})."
        ) from None


def size_of(data: Sequence[str]) -> int | None:
    """Return the bytes of a single plain text file, for the progress bar; else None."""
    from pairlearn.streams.readers.base import ReadError
    from pairlearn.streams.readers.files import sniff

    try:
        if len(data) != 1 or data[0] == "-" or sniff(data[0]) != "text":
            return None
        return os.path.getsize(data[0])
    except (OSError, ReadError):
        return None
