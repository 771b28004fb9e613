# SPDX-License-Identifier: BSD-3-Clause
"""Read rows of texts in blocks from delimited files and from Parquet or Arrow.

Python's own parser reads the fields: it needs no compilation, so a small file is read before a
compiled parser would be loaded.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.arrow import (
    damaged,
    is_numeric,
    load_pyarrow,
    open_arrow,
    record_batches,
)
from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.files import TextSource
from pairlearn.streams.readers.schema import Schema, listed, short_name, shown_kind
from pairlearn.tables.layout import (
    filled_width,
    find_delimiter,
    find_quote,
    has_plain_fields,
    has_row_names,
    is_number,
    lines_above,
    split,
)

BLOCK_ROWS = 16_384
#: Bytes per read.
_BYTES = 1 << 18
#: Bytes in a line at most; a longer one is refused, as its line ends are probably wrong.
_LONGEST = 1 << 25
#: First lines from which the layout is found.
_LOOKED_AT = 50
#: A first line that a spreadsheet may write to name the delimiter.
_SAID = re.compile(r"sep=(.)\r?\n?")
#: First fields, case-folded, that mark a last line of totals.
_TOTALS = frozenset(
    ("total", "totals", "grand total", "total general", "sum", "summe", "gesamt", "gesamtsumme",
     "somme", "suma", "totale", "average", "mean")
)  # fmt: skip
_LINE_END = re.compile(r"\s*[\r\n]+\s*")
#: The name of the column of row names if the header has none.
_ROW_NAMES = "row"
#: Unclosed quotes per file at most. Each one makes the lines after it be read again.
_MOST_OPEN = 100

Refuse = Callable[[str, int, str], None]


@dataclass(frozen=True)
class Block:
    """Some rows of one file, column by column.

    Parameters
    ----------
    source : str
        The file.
    columns : mapping of str to sequence of str
        The fields by column name.
    lines : ndarray of int64
        The line (or row) number of each row.
    offset, line : int
        The start of the next row.
    """

    source: str
    columns: Mapping[str, Sequence[str]]
    lines: NDArray[np.int64]
    offset: int
    line: int

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, kept: NDArray[np.int64]) -> Block:
        """Return some of the rows."""
        places = kept.tolist()
        columns = {name: [column[k] for k in places] for name, column in self.columns.items()}
        return replace(self, columns=columns, lines=self.lines[kept])


class _Lines:
    """Iterate over the lines of a source as bytes; lines can be put back."""

    def __init__(self, source: TextSource) -> None:
        self._source = source
        self._ready: deque[bytes] = deque()
        self._rest = b""
        self._ended = False
        self.offset = 0
        self.line = 1
        self.taken: list[bytes] = []

    def _fill(self) -> None:
        """Read until at least one complete line is ready, or to the end."""
        while not self._ready and not self._ended:
            part = self._source.read(_BYTES)
            self._ended = not part
            data = self._rest + part
            lines = data.splitlines(keepends=True)
            self._rest = b""
            # a carriage return at the very end may be the first half of a line end
            if lines and not self._ended and not lines[-1].endswith(b"\n"):
                self._rest = lines.pop()
                if len(self._rest) > _LONGEST:
                    raise ReadError(
                        f"{self._source.name}: line {self.line + len(lines)} is longer than "
                        f"{_LONGEST} bytes; check the line ends."
                    )
            self._ready.extend(lines)

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if not self._ready:
            self._fill()
            if not self._ready:
                raise StopIteration
        raw = self._ready.popleft()
        self.taken.append(raw)
        self.offset += len(raw)
        self.line += 1
        return _decoded(raw)

    def is_over(self) -> bool:
        """Whether no line is left."""
        if not self._ready:
            self._fill()
        return not self._ready

    def put_back(self, lines: Sequence[bytes]) -> None:
        """Deliver the lines again."""
        self._ready.extendleft(reversed(lines))
        self.offset -= sum(map(len, lines))
        self.line -= len(lines)


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        # decode each line alone, so that a resumed reader decides as the first one did
        return raw.decode("cp1252", "replace")


class TextTable:
    r"""Rows of delimited text: plain, gzip, xz, bzip2 or zstd; a file or standard input.

    The first lines tell the delimiter. A byte-order mark is skipped and identifies UTF-16; other
    text that is not UTF-8 is read as Windows-1252. Spaces around names are dropped, and repeated
    names (`repeated`) get numbers. If rows have one field more than the header, the first field is
    the row name. A row that repeats the header is refused, and so is a last row of totals.

    Parameters
    ----------
    target : path, "-" or binary file
        What to read.
    header : bool, default True
        Whether the first line names the columns; without it they are "0", "1", ...
    delimiter : str, optional
        One character; by default the one of ``, ; tab |`` that splits the first lines alike, or
        spaces if none does.

    Examples
    --------
    >>> import io
    >>> table = TextTable(io.BytesIO(b"\xef\xbb\xbfname;price\n\"a;b\";1,5\n"))
    >>> table.names, table.delimiter
    (('name', 'price'), ';')
    >>> [block] = table.blocks(print)
    >>> block.columns
    {'name': ('a;b',), 'price': ('1,5',)}
    """

    #: A text is read whole.
    left_out: Collection[str] = ()
    #: It does not say which columns hold categories.
    declared: Collection[str] = ()

    def __init__(self, target: Any, *, header: bool = True, delimiter: str | None = None) -> None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise ReadError(f"the delimiter must be one character, got {delimiter!r}.")
        source = TextSource(target)
        self.name = source.name
        if source.is_empty:
            source.close()
            raise ReadError(f"{self.name} is empty; check that it was written completely.")
        self._lines = _Lines(source)
        self._header = header
        beginning = self._first_lines()
        texts = [_decoded(raw) for raw in beginning]
        said = _SAID.fullmatch(texts[0]) if header else None
        if said is not None:
            delimiter, texts = delimiter or said[1], texts[1:] or [""]
        n_above = 0 if said or not header else lines_above(texts, delimiter)
        self._skipped = n_above + (said is not None)
        texts = texts[n_above:]
        self.delimiter = delimiter or find_delimiter(texts)
        self._quote = find_quote(texts, self.delimiter)
        self.notes: tuple[str, ...] = ()
        if any(_is_not_utf8(raw) for raw in beginning):
            self.notes = ("text is not UTF-8, read as Windows-1252",)
        if n_above:
            self.notes += (f"{n_above} line{'s' * (n_above > 1)} above the header left out",)
        self._record: list[str] = []
        width = filled_width(texts, self.delimiter, self._quote)
        read = self._read_names(width)
        if header and has_row_names(texts, self.delimiter, self._quote):
            read = (_ROW_NAMES, *read)
            self.notes += (
                f"rows have one field more than the header: the first is {_ROW_NAMES!r}",
            )
        self.names = different(read)
        self.repeated = _repeated(read)
        #: Whether the first line is a header with distinct names, and a compiled reader finds the
        #: same lines, fields and letters in it and in the lines below.
        self.plain_header = (
            not any(raw.endswith(b"\r") or _is_not_utf8(raw) for raw in beginning)
            and read == tuple(self._record)
            and not (self.repeated or self._skipped or self._quote != '"' or self.delimiter == " ")
            and has_plain_fields(texts, self.delimiter)
        )
        if self.repeated:
            self.notes += (f"columns of one name, {listed(self.repeated)}, are told apart by their "
                           "number, as in 'NAME (2)'",)  # fmt: skip

    def suits(self, schema: Schema) -> bool:
        """Whether a compiled reader can read the columns of a schema."""
        # It reads queries as numbers, and in a text they are ids: 01 is not 1.
        return self.plain_header and schema.qid is None

    def _first_lines(self) -> list[bytes]:
        """Return the first lines, without a byte-order mark."""
        lines = self._lines
        for _ in zip(range(_LOOKED_AT), lines, strict=False):
            pass
        beginning = lines.taken.copy()
        lines.put_back(beginning)
        lines.taken.clear()
        if beginning[0].startswith(b"\xef\xbb\xbf"):
            lines._ready[0] = beginning[0] = beginning[0][3:]
            lines.offset += 3
        return beginning

    def _read_names(self, width: int) -> tuple[str, ...]:
        """Return the names, without empty ones beyond the last nonempty column."""
        lines = self._lines
        for _ in range(self._skipped):
            next(lines)
        reader = split(lines, self.delimiter, self._quote)
        try:
            record: list[str] = next((row for row in reader if row), [])
        except csv.Error as error:
            raise ReadError(
                f"{self.name}:{lines.line - 1}: the first line cannot be split into fields "
                f"({error}); check its quotes."
            ) from None
        if self._header:
            least = max(1, width)
            named = (k for k in range(len(record), least, -1) if record[k - 1] and
                     record[k - 1].strip())  # fmt: skip
            del record[next(named, least) :]
        if not self._header:
            lines.put_back(lines.taken)
            names = [str(j) for j in range(len(record))]
        else:
            self._record = record
            # join a name that spans two lines
            fields = [
                _LINE_END.sub(" ", field) if "\n" in field or "\r" in field else field
                for field in map(str.strip, record)
            ]
            names = [field or f"column {j + 1}" for j, field in enumerate(fields)]
            if not names:
                raise ReadError(f"{self.name} holds blank lines only; check that it is complete.")
            if all(is_number(name) for name in names):
                raise ReadError(
                    f"{self.name}: the first line holds numbers ({listed(names)}), not names; "
                    "pass --set reading.header=false if the file has no header."
                )
        lines.taken.clear()
        return tuple(names)

    def skip_to(self, place: int) -> None:
        """Skip the rows before a place."""
        lines = self._lines
        while lines.offset < place:
            if next(lines, None) is None:
                raise ReadError(f"{self.name} is shorter than it was; start again.")
            lines.taken.clear()

    def blocks(self, refuse: Refuse, *, skip: int = 0, size: int = BLOCK_ROWS) -> Iterator[Block]:
        """Yield the rows in blocks.

        Parameters
        ----------
        refuse : callable
            Called with file, line and reason for each row with a wrong number of fields.
        skip : int, default 0
            The place of an earlier block; rows before it are skipped.
        size : int
            Rows in a block.

        Yields
        ------
        Block
            Rows.
        """
        lines, width = self._lines, len(self.names)
        self.skip_to(skip)
        reader = split(lines, self.delimiter, self._quote)
        rows: list[list[str]] = []
        numbers: list[int] = []
        n_open = 0
        while True:
            line = lines.line
            try:
                row = next(reader, None)
            except csv.Error as error:
                row = []
                spans = len(lines.taken) > 1
                at_end = "unexpected end" in str(error)
                n_open += spans
                if n_open > _MOST_OPEN:
                    raise ReadError(
                        f"{self.name}:{line}: more than {_MOST_OPEN} quotes are not closed; "
                        "write two quotes for each one inside a field."
                    ) from None
                if spans:
                    lines.put_back(lines.taken[1:])
                    del lines.taken[1:]
                refuse(self.name, line, "a quote is opened and never closed" if spans or at_end
                       else f"it cannot be split into fields ({error})")  # fmt: skip
            lines.taken.clear()
            if row:
                if len(row) > width and not any(field.strip() for field in row[width:]):
                    del row[width:]
                if self._record and row[: len(self._record)] == self._record:
                    refuse(self.name, line, "it repeats the header")
                elif len(row) == width:
                    rows.append(row)
                    numbers.append(line)
                else:
                    refuse(self.name, line, f"it has {len(row)} fields where {width} are expected")
            if len(rows) == size or row is None:
                if _is_total(rows) and (row is None or lines.is_over()):
                    refuse(self.name, numbers.pop(), "it adds up the lines above it "
                           f"({_first(rows.pop())!r})")  # fmt: skip
                if rows:
                    columns = dict(zip(self.names, zip(*rows, strict=True), strict=True))
                    yield Block(
                        self.name, columns, np.array(numbers, dtype=np.int64), lines.offset,
                        lines.line,
                    )  # fmt: skip
                    rows, numbers = [], []
                if row is None:
                    return


def _first(row: Sequence[str]) -> str:
    """Return the first nonempty field."""
    return next((field.strip() for field in row if field.strip()), "")


def _is_total(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the last row holds totals: its first field says so, and some fields are empty."""
    if not rows or all(field.strip() for field in rows[-1]):
        return False
    said = _first(rows[-1]).rstrip(":").casefold()
    # if other rows have the same first field, it is a category
    return said in _TOTALS and not any(said == _first(row).casefold() for row in rows[:-1])


def _repeated(names: Sequence[str]) -> tuple[str, ...]:
    if len(set(names)) == len(names):
        return ()
    return tuple(sorted(name for name, count in Counter(names).items() if count > 1))


def different(names: Sequence[str]) -> tuple[str, ...]:
    """Return distinct names: repeated ones get a number."""
    taken = set(names)
    if len(taken) == len(names):
        return tuple(names)
    last = dict.fromkeys(names, 0)
    found = []
    for name in names:
        last[name] += 1
        new = name
        if last[name] > 1:
            while (new := f"{name} ({last[name]})") in taken:
                last[name] += 1
            taken.add(new)
        found.append(new)
    return tuple(found)


def _is_not_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


#: Ticks of a second, by Arrow's unit of a duration.
_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


class ArrowTable:
    """Rows of a Parquet or Arrow file, with each value as the text in a CSV file.

    Parameters
    ----------
    path : path
        The file.
    leave_out : sequence of str
        Columns to skip.
    """

    notes: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    delimiter = ","
    #: The columns that are not read.
    left_out: Collection[str] = ()

    def __init__(self, path: str | Path, *, leave_out: Sequence[str] = ()) -> None:
        self._pa, self.name = load_pyarrow(), str(path)
        self._file, names, types = open_arrow(path)
        repeated = _repeated(names)
        if repeated:
            raise ReadError(f"{path} has more than one column named {listed(repeated)}; rename "
                            "the columns.")  # fmt: skip
        left_out = set(leave_out)
        self.left_out = left_out.intersection(names)
        self.names = tuple(name for name in names if name not in left_out)
        declared = {n for n, t in zip(names, types, strict=True) if self._pa.types.is_dictionary(t)}
        #: The columns whose types say that they hold categories.
        self.declared: Collection[str] = declared | _pandas_categories(self._file)
        self._worded = {n for n, kind in zip(names, types, strict=True) if not is_numeric(kind)}
        for name, kind in zip(names, types, strict=True):
            if name not in left_out and self._pa.types.is_nested(kind):
                raise ReadError(
                    f"{path}: column {short_name(name)} is {shown_kind(kind)}; take its parts "
                    f"out into columns, or leave it out with --exclude {name!r}."
                )
            if name not in left_out and self._pa.types.is_interval(kind):
                # It may hold months, which have no fixed length.
                raise ReadError(
                    f"{path}: column {short_name(name)} is an interval of calendar time; make it a "
                    f"number of hours, or leave it out with --exclude {name!r}."
                )

    def suits(self, schema: Schema) -> bool:
        """Whether a compiled reader can read the columns of a schema."""
        numbers = {*(schema.features or ()), schema.qid}
        label_is_text = schema.label in self._worded
        return not numbers & self._worded and label_is_text == schema.text_labels

    def _batches(self, size: int) -> Iterator[Any]:
        names = list(self.names)
        if hasattr(self._file, "iter_batches"):
            yield from self._file.iter_batches(size, columns=names, use_threads=False)
        else:
            yield from (batch.select(names) for batch in record_batches(self._file, size))

    def skip_to(self, place: int) -> None:
        """Do nothing: rows of such a file are counted."""

    def blocks(self, refuse: Refuse, *, skip: int = 0, size: int = BLOCK_ROWS) -> Iterator[Block]:
        """Yield the rows in blocks; rows of such a file are never refused."""
        row = 0
        try:
            for batch in self._batches(size):
                begin, row = row, row + batch.num_rows
                if row <= skip:
                    continue
                batch = batch.slice(max(skip - begin, 0))
                columns: dict[str, Sequence[str]] = {
                    name: self._texts(column)
                    for name, column in zip(self.names, batch.columns, strict=True)
                }
                lines = np.arange(row - batch.num_rows + 1, row + 1, dtype=np.int64)
                yield Block(self.name, columns, lines, row, row + 1)
        except (self._pa.ArrowException, OSError, UnicodeError) as error:
            raise damaged(self.name, error) from None

    def _texts(self, array: Any) -> list[str]:
        if self._pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if self._pa.types.is_duration(array.type):
            from pyarrow.compute import divide

            # Hours, as 8:30 in a file of texts. Its own unit depends on who wrote the file.
            ticks = array.cast(self._pa.int64()).cast(self._pa.float64(), safe=False)
            array = divide(ticks, 3600.0 * _PER_SECOND[array.type.unit])
        if not self._pa.types.is_string(array.type):
            array = array.cast(self._pa.string(), safe=False)
        return array.fill_null("").to_pylist()  # type: ignore[no-any-return]


def _pandas_categories(file: Any) -> set[str]:
    """Return the columns that were categories in pandas, as the file remembers.

    Parquet keeps a dictionary of texts only: of one of numbers, nothing but this note is left.
    """
    schema = getattr(file, "schema_arrow", getattr(file, "schema", None))
    try:
        noted = schema.pandas_metadata["columns"]  # type: ignore[union-attr]
        return {one["field_name"] for one in noted if one["pandas_type"] == "categorical"}
    except (AttributeError, KeyError, TypeError, ValueError):
        return set()  # no note of pandas, or one of another shape


def suit_together(tables: Iterable[TextTable | ArrowTable], schema: Schema) -> bool:
    """Whether one compiled reader can read all tables: their columns must stand in one order."""
    first = None
    for table in tables:
        first = first or table
        alike = (table.names, table.delimiter) == (first.names, first.delimiter)
        if not (alike and table.suits(schema)):
            return False
    return True


def no_column(name: str, names: Sequence[str], source: str, what: str) -> ReadError:
    """Return the error for a missing column, with the most similar name."""
    import difflib

    wanted, known = name.strip().casefold(), {one.casefold(): one for one in reversed(names)}
    close = difflib.get_close_matches(wanted, known, n=1)
    if not close and len(wanted) > 2:
        close = [one for one in known if wanted in one]
    hint = f" (did you mean {known[close[0]]!r}?)" if close else ""
    said = f"{source} has no {what} column {name!r}{hint}; its columns: {listed(names)}"
    if name.lstrip("-").isdigit() and not any(map(is_number, names)):
        said += "; numbers are for files without a header, here give a name"
    if any(map(is_number, names)):
        said += (
            "; if the first line holds no names, pass --set reading.header=false and a number for "
            "each column"
        )
    return ReadError(f"{said}.")


def open_table(
    target: Any,
    kind: str,
    *,
    header: bool = True,
    delimiter: str | None = None,
    leave_out: Sequence[str] = (),
) -> TextTable | ArrowTable:
    """Open a file of the format csv, tsv, parquet, arrow or duckdb as a table of rows."""
    if kind in ("parquet", "arrow", "duckdb"):
        return ArrowTable(target, leave_out=leave_out)
    if kind not in ("csv", "tsv"):
        raise ReadError(f"{target} is {kind}, which has no named columns.")
    return TextTable(
        target, header=header, delimiter=delimiter or ("\t" if kind == "tsv" else None)
    )
