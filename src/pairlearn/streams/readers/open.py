# SPDX-License-Identifier: BSD-3-Clause
"""Open a file of any format: choose the reader by the first bytes and the name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pairlearn.streams.readers.base import Reader, ReadError
from pairlearn.streams.readers.files import TextSource, sniff
from pairlearn.streams.readers.schema import Schema

Opener = Callable[..., Reader]
F = TypeVar("F", bound=Opener)

#: What opens each format; see `add_format`.
FORMATS: dict[str, Opener] = {}
#: The format that the end of a name tells.
_SUFFIXES: dict[str, str] = {}
_COMPRESSIONS = (".gz", ".xz", ".bz2", ".zst")
_WORKBOOK = "is a workbook of a spreadsheet; save the sheet as CSV and read that"
_JSON = "is JSON; write its rows as CSV or Parquet (`pairlearn stream` learns from JSON lines)"
#: Common formats that no reader supports, by file suffix.
_FOREIGN = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".ods"), _WORKBOOK),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), _JSON),
    ".zip": "is a zip archive; unpack it and read what is in it",
}
#: A line of svmlight: a label, and features with their indices.
_SVMLIGHT = re.compile(r"\S+(?:\s+(?:qid|\d+):\S+)+\s*(?:#.*)?")
_MARKS = {"\t": "tsv", ",": "csv", ";": "csv", "|": "csv"}


def add_format(name: str, *suffixes: str) -> Callable[[F], F]:
    """Return a decorator that makes a format known to `open_reader` and to the program.

    Parameters
    ----------
    name : str
        What the format is called, as in ``--format NAME``; it must be new.
    *suffixes : str
        Ends of names that tell the format, such as ".jsonl".

    Returns
    -------
    callable
        The decorator of a function that takes the source, the schema, `strict` and other options
        by keyword, and returns a reader.

    Examples
    --------
    >>> import json
    >>> from pairlearn.streams import IteratorReader
    >>> @add_format("json lines", ".jsonl")
    ... def open_json_lines(source, schema, **options):
    ...     with open(source) as lines:
    ...         return IteratorReader([json.loads(line) for line in lines], schema, **options)
    >>> del FORMATS["json lines"], _SUFFIXES[".jsonl"]
    """

    def enter(opener: F) -> F:
        if name in FORMATS:
            raise ValueError(f"the format {name!r} is already known; choose another name.")
        FORMATS[name] = opener
        _SUFFIXES.update(dict.fromkeys(suffixes, name))
        return opener

    return enter


def _table(kind: str) -> Opener:
    def opener(source: Any, schema: Schema, **options: Any) -> Reader:
        from pairlearn.tables.reader import TableReader
        from pairlearn.tables.rows import files_of, refuse_lost_columns

        sources = list(source) if isinstance(source, (list, tuple)) else [source]
        if kind in ("parquet", "arrow"):
            for one in sources if schema.features is None else ():
                refuse_lost_columns(one)
            sources = [file for one in sources for file in files_of(one)]
        if kind == "duckdb" and not all(hasattr(one, "query") for one in sources):
            raise ReadError(
                f"{sources[0]} is a database; read it by a query: Queried(path, 'SELECT ...')."
            )
        return TableReader(sources, schema, format=kind, **options)

    return opener


for _name, *_ends in (
    ("csv", ".csv"), ("tsv", ".tsv", ".tab"), ("parquet",), ("arrow",), ("duckdb", ".duckdb"),
):  # fmt: skip
    add_format(_name, *_ends)(_table(_name))


@add_format("svmlight", ".svm", ".svmlight", ".libsvm", ".t")
def _open_svmlight(source: Any, schema: Schema, **options: Any) -> Reader:
    from pairlearn.streams.readers.svmlight import SvmlightReader

    if schema.text_labels:
        raise ReadError("labels of svmlight files are numbers; give classes as numbers.")
    classes = None if schema.classes is None else tuple(float(c) for c in schema.classes)
    return SvmlightReader(
        source, classes=classes, dtype=schema.dtype, qid=schema.qid is not None, **options
    )


@add_format("npy")
def _open_npy(source: Any, schema: Schema, **options: Any) -> Reader:
    from pairlearn.streams.readers.npy import NpyReader

    many = source if isinstance(source, (list, tuple)) else [source]
    if len(many) > 1 or isinstance(schema.label, str):
        raise ReadError(f"{many[0]} is read alone, and its label is a column number.")
    return NpyReader(many[0], label=schema.label, dtype=schema.dtype, **options)


def find_format(source: str | os.PathLike[str]) -> str:
    """Return the format of a file or folder by its first bytes, then by its name."""
    if os.fspath(source) == "-":
        raise ReadError("standard input does not tell its format; pass format='csv'.")
    path = Path(source)
    if path.is_dir():
        return "arrow"
    kind = sniff(source)
    if kind in ("parquet", "arrow", "npy", "duckdb"):
        return kind
    suffixes = [s for s in path.suffixes if s not in _COMPRESSIONS]
    last = suffixes[-1].lower() if suffixes else ""
    found = _SUFFIXES.get(last)
    if found is None and (last in _FOREIGN or kind == "zip"):
        raise ReadError(f"{path} {_FOREIGN.get(last, _FOREIGN['.zip'])}.")
    found = found or _format_of_text(source)
    if found is None:
        raise ReadError(
            f"{path}: neither the content nor the name tells the format; pass format= one of "
            f"{', '.join(FORMATS)}."
        )
    return found


def _format_of_text(path: str | os.PathLike[str]) -> str | None:
    """Return the format of a text by its first two lines, or None."""
    source = TextSource(path)
    head = source.read(4096)
    source.close()
    lines = [line for line in head.decode("utf-8", "replace").splitlines() if line.strip()]
    if len(lines) < 2:
        return None
    if all(map(_SVMLIGHT.fullmatch, lines[: max(1, min(2, len(lines) - 1))])):
        return "svmlight"
    first, second = lines[:2]
    # quoted fields of the second line may add delimiters
    marks = (mark for mark in _MARKS if 0 < first.count(mark) <= second.count(mark))
    return next((_MARKS[mark] for mark in marks), None)


def open_reader(
    source: Any,
    schema: Schema | None = None,
    *,
    format: str | None = None,
    chunk_rows: int | None = None,
    strict: bool = False,
    shuffle_buffer: int | str | None = None,
    seed: int = 0,
    **options: Any,
) -> Reader:
    r"""Return the reader for a file, a folder, standard input or a list of files.

    Parameters
    ----------
    source : path, URL, "-", or list of paths of one format
        What to read.
    schema : Schema, optional
        Columns, label, categories, missing values. svmlight and npy files have no names. An
        svmlight reader uses only `classes`, `dtype` and whether there is a `qid`; an npy reader
        uses `label` as a column number, and `dtype`.
    format : str, optional
        A name in `FORMATS`: "csv", "tsv", "svmlight", "parquet", "arrow", "npy", or one that
        `add_format` made known. By default found from the first bytes and the name.
    chunk_rows : int, optional
        Rows in a chunk.
    strict : bool, default False
        Stop at the first unusable row.
    shuffle_buffer : int, "auto" or None, default None
        Rows in a block; rows are delivered in a random order within blocks, see `ShuffledReader`.
    seed : int, default 0
        The seed of the random order.
    **options
        Passed to the reader: `header`, `delimiter` (CSV), `n_features`, `zero_based` (svmlight).

    Returns
    -------
    Reader
        An iterable of chunks.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.csv")
    ...     _ = path.write_text("age,target\n20,0\n30,1\n")
    ...     [chunk] = open_reader(path, Schema(label="target"))
    >>> chunk.y
    array([0., 1.])
    """
    many: Sequence[Any] = source if isinstance(source, (list, tuple)) else [source]
    if not many:
        raise ReadError("there is no file to read; name at least one.")
    chosen = find_format(many[0]) if format is None else format
    if chosen not in FORMATS:
        raise ReadError(f"format must be one of {', '.join(FORMATS)}, got {chosen!r}.")
    if chunk_rows is not None:
        options["chunk_rows"] = chunk_rows
    reader = FORMATS[chosen](
        source, Schema() if schema is None else schema, strict=strict, **options
    )
    if shuffle_buffer is None:
        return reader
    from pairlearn.streams.readers.shuffled import ShuffledReader

    return ShuffledReader(reader, buffer_rows=shuffle_buffer, seed=seed)
