# SPDX-License-Identifier: BSD-3-Clause
"""Read delimited text in blocks of rows.

The first lines tell the layout: delimiter, quote, lines above the header, names of rows. A block
without quotes is split by polars; Python's parser splits the others, and names each bad line.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import ReadError, listed
from pairlearn.streams.readers.files import TextSource
from pairlearn.tables.series import texts_of

if TYPE_CHECKING:
    from polars import DataFrame

BLOCK_ROWS = 16_384
#: Bytes per read.
_BYTES = 1 << 22
#: Bytes in a line at most, and within which a quote must be closed.
_LONGEST = 1 << 25
#: First lines from which the layout is found.
_LOOKED_AT = 50
#: A table of more columns is split by Python's parser.
_MOST_COLUMNS = 2000
#: A first line that a spreadsheet may write to name the delimiter.
_SAID = re.compile(r"sep=(.)\n?")
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


@dataclass(frozen=True)
class Block:
    """Some rows of one file.

    Parameters
    ----------
    source : str
        The file.
    frame : polars.DataFrame
        The columns by name.
    lines : ndarray of int64
        The line (or row) number of each row.
    line : int
        That of the next row.
    refused : list of (int, str)
        The lines among these that are no rows, and why.
    """

    source: str
    frame: DataFrame
    lines: NDArray[np.int64]
    line: int
    refused: list[tuple[int, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lines)

    def texts(self, name: str) -> list[str]:
        """Return a column as texts."""
        return list(texts_of(self.frame[name]).fill_null(""))

    def parts(self, size: int, skip: int = 1) -> Iterator[Block]:
        """Yield the rows from line `skip` on in parts of at most `size`."""
        begin, n, refused = int(np.searchsorted(self.lines, skip)), len(self), self.refused
        refused = [pair for pair in refused if pair[0] >= skip]
        while begin < n or refused:
            stop = min(begin + size, n)
            line = self.line if stop == n else int(self.lines[stop])
            yield replace(
                self, frame=self.frame[begin:stop], lines=self.lines[begin:stop], line=line,
                refused=[pair for pair in refused if pair[0] < line],
            )  # fmt: skip
            begin, refused = stop, [pair for pair in refused if pair[0] >= line]


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
    >>> [block] = table.blocks()
    >>> block.frame.to_dict(as_series=False)
    {'name': ['a;b'], 'price': ['1,5']}
    """

    #: A text is read whole.
    left_out: Collection[str] = ()
    #: It does not say which columns hold categories.
    declared: Collection[str] = ()

    def __init__(self, target: Any, *, header: bool = True, delimiter: str | None = None) -> None:
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise ReadError(f"the delimiter must be one character, got {delimiter!r}.")
        self._source = TextSource(target)
        self.name = self._source.name
        if self._source.is_empty:
            self._source.close()
            raise ReadError(f"{self.name} is empty; check that it was written completely.")
        self._rest, self._half, self._ended, self._line, self._n_open = b"", b"", False, 1, 0
        wanted = 2 if self._source.is_live else _LOOKED_AT  # a pipe may be slow
        while self._rest.count(b"\n") < wanted and not self._ended and len(self._rest) < _LONGEST:
            self._more()
        self._rest = self._rest.removeprefix(b"\xef\xbb\xbf")
        *beginning, rest = self._rest.split(b"\n", _LOOKED_AT)
        texts = [_decoded(raw) for raw in beginning] or [_decoded(rest)]
        said = _SAID.fullmatch(texts[0]) if header else None
        if said is not None:
            delimiter, texts = delimiter or said[1], texts[1:] or [""]
        n_above = 0 if said or not header else lines_above(texts, delimiter)
        texts = texts[n_above:]
        self.delimiter = delimiter or find_delimiter(texts)
        self._quote = find_quote(texts, self.delimiter)
        self.notes: tuple[str, ...] = ()
        if any(_is_not_utf8(raw) for raw in beginning):
            self.notes = ("text is not UTF-8, read as Windows-1252",)
        if n_above:
            self.notes += (f"{n_above} line{'s' * (n_above > 1)} above the header left out",)
        self._record: list[str] = []
        self._drop_lines(n_above + (said is not None))
        width = filled_width(texts, self.delimiter, self._quote)
        read = self._read_names(texts, header, width)
        if header and has_row_names(texts, self.delimiter, self._quote):
            read = (_ROW_NAMES, *read)
            self.notes += (
                f"rows have one field more than the header: the first is {_ROW_NAMES!r}",
            )
        self.names = different(read)
        self.repeated = repeated_names(read)
        if self.repeated:
            self.notes += (f"columns of one name, {listed(self.repeated)}, are told apart by their "
                           "number, as in 'NAME (2)'",)  # fmt: skip

    @property
    def bytes_read(self) -> int:
        """Bytes of text read so far."""
        return self._source.offset

    def _more(self) -> None:
        """Read some more bytes; all line ends become newlines."""
        part = self._source.read(_BYTES)
        self._ended = not part
        part, self._half = self._half + part, b""
        if self._ended:
            self._source.close()
            part += b"\n" if part or self._rest else b""
        elif part.endswith(b"\r"):  # perhaps the first half of a line end
            part, self._half = part[:-1], b"\r"
        if b"\r" in part:
            part = part.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._ended and (self._rest + part).endswith(b"\n\n"):
            part = part[:-1]
        self._rest += part

    def _drop_lines(self, n: int) -> None:
        for _ in range(n):
            self._rest = self._rest[self._rest.find(b"\n") + 1 :]
        self._line += n

    def _read_names(self, texts: Sequence[str], header: bool, width: int) -> tuple[str, ...]:
        """Return the names, without empty ones beyond the last nonempty column."""
        reader = _fields((f"{text}\n" for text in texts), self.delimiter, self._quote)
        try:
            record: list[str] = next((row for row in reader if row), [])
        except csv.Error as error:
            raise ReadError(
                f"{self.name}:{self._line + max(reader.line_num - 1, 0)}: the first line cannot be "
                f"split into fields ({error}); check its quotes."
            ) from None
        if not header:
            return tuple(str(j) for j in range(len(record)))
        self._drop_lines(reader.line_num)
        named = (k for k in range(len(record), max(1, width), -1)
                 if record[k - 1] and record[k - 1].strip())  # fmt: skip
        del record[next(named, max(1, width)) :]
        self._record = record
        # join a name that spans two lines
        fields = [_LINE_END.sub(" ", text.strip()) for text in record]
        names = [text or f"column {j + 1}" for j, text in enumerate(fields)]
        if not names:
            raise ReadError(f"{self.name} holds blank lines only; check that it is complete.")
        if all(is_number(name) for name in names):
            raise ReadError(
                f"{self.name}: the first line holds numbers ({listed(names)}), not names; "
                "pass --set reading.header=false (in Python header=False) if the file has no "
                "header."
            )
        return tuple(names)

    def only(self, names: Collection[str]) -> None:
        """Read only some columns; of a text all are looked at."""

    def blocks(self, *, skip: int = 1, size: int = BLOCK_ROWS) -> Iterator[Block]:
        """Yield the rows in blocks.

        Parameters
        ----------
        skip : int
            The first line to deliver.
        size : int
            Rows in a block at most.

        Yields
        ------
        Block
            Rows.
        """
        try:
            while True:
                data = self._cut()
                if data:
                    yield from self._block(data).parts(size, skip)
                elif self._ended:
                    break
                else:
                    self._more()
        finally:
            self._source.close()
        if self._line < skip:
            raise ReadError(f"{self.name} is shorter than it was; start again.")

    def _cut(self) -> bytes:
        """Take the complete records that are read; a quote that is never closed ends its line."""
        data, quote = self._rest, ord(self._quote)
        at = data.rfind(b"\n") + 1
        if data.count(quote, 0, at) % 2:
            raw = np.frombuffer(data, dtype=np.uint8)
            ends = np.flatnonzero(raw == 10)
            quotes = np.flatnonzero(raw == quote)
            outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
            if not self._ended and len(data) <= _LONGEST:
                at = int(outside[-1]) + 1 if len(outside) else 0
        elif not at and len(data) > _LONGEST:
            raise ReadError(
                f"{self.name}: line {self._line} is longer than {_LONGEST} bytes; check the line "
                "ends."
            )
        self._rest = data[at:]
        return data[:at]

    def _block(self, data: bytes) -> Block:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:  # each line alone, so that a line decides for itself
            text = "".join(map(_decoded, data.splitlines(keepends=True)))
        lines, first = text.split("\n")[:-1], self._line
        plain = self.delimiter != " " and self._quote not in text
        if plain and 1 < len(self.names) <= _MOST_COLUMNS:
            frame, numbers, refused = self._split(text, lines)
        else:
            frame, numbers, refused = self._parsed(lines)
        self._line += len(lines)
        if frame.height and self._is_total(frame):
            what = f"it adds up the lines above it ({_first(frame.row(-1))!r})"
            refused.append((int(numbers[-1]), what))
            frame, numbers = frame[:-1], numbers[:-1]
        refused = [(first + at, reason) for at, reason in refused]
        return Block(self.name, frame, numbers + first, self._line, sorted(refused))

    def _split(
        self, text: str, lines: list[str]
    ) -> tuple[DataFrame, NDArray[np.int64], list[tuple[int, str]]]:
        """Split lines without quotes; a field more than there are columns takes the rest."""
        import polars

        width, mark = len(self.names), self.delimiter
        frame = polars.Series(lines).str.splitn(mark, width + 1).struct.unnest()
        if f"{mark} " in text or "\n " in text or text[0] == " ":
            frame = frame.select(polars.all().str.strip_chars_start(" "))
        more = frame[:, width].str.strip_chars(f" {mark}").fill_null("") != ""
        frame = frame[:, :width]
        frame.columns = list(self.names)
        good = ~(frame[:, -1].is_null() | more)
        if self._record:
            for k in (frame[:, 0] == self._record[0]).arg_true().to_list():
                good[k] &= not self._repeats_header(
                    [part.lstrip(" ") for part in lines[k].split(mark)]
                )
        refused = [
            (k, self._why([part.lstrip(" ") for part in lines[k].split(mark)]))
            for k in (~good).arg_true().to_list() if lines[k]
        ]  # fmt: skip
        kept = good.to_numpy()
        return (
            frame.filter(good) if refused or not kept.all() else frame,
            np.flatnonzero(kept),
            refused,
        )

    def _parsed(
        self, lines: list[str]
    ) -> tuple[DataFrame, NDArray[np.int64], list[tuple[int, str]]]:
        """Split lines with quotes; a quote that is never closed spoils its own line only."""
        import polars

        width, at = len(self.names), 0
        rows: list[list[str]] = []
        numbers: list[int] = []
        refused: list[tuple[int, str]] = []
        while at < len(lines):
            rest = (f"{lines[k]}\n" for k in range(at, len(lines)))
            reader, begin = _fields(rest, self.delimiter, self._quote), at
            try:
                for row in reader:
                    start, at = at, begin + reader.line_num
                    if len(row) > width and not any(part.strip() for part in row[width:]):
                        del row[width:]
                    if len(row) == width and not self._repeats_header(row):
                        rows.append(row)
                        numbers.append(start)
                    elif row:
                        refused.append((start, self._why(row)))
            except csv.Error as error:
                spans = begin + reader.line_num - at > 1 or "unexpected end" in str(error)
                self._n_open += spans
                if self._n_open > _MOST_OPEN:
                    raise ReadError(
                        f"{self.name}:{self._line + at}: more than {_MOST_OPEN} quotes are not "
                        "closed; write two quotes for each one inside a field."
                    ) from None
                flaw = f"it cannot be split into fields ({error})"
                refused.append((at, "a quote is opened and never closed" if spans else flaw))
                at += 1
        columns = zip(*rows, strict=True) if rows else [()] * width
        frame = polars.DataFrame(
            [polars.Series(name, column, dtype=polars.String)
             for name, column in zip(self.names, columns, strict=True)]
        )  # fmt: skip
        return frame, np.array(numbers, dtype=np.int64), refused

    def _repeats_header(self, row: Sequence[str]) -> bool:
        return bool(self._record) and list(row[: len(self._record)]) == self._record

    def _why(self, row: Sequence[str]) -> str:
        if self._repeats_header(row):
            return "it repeats the header"
        return f"it has {len(row)} fields where {len(self.names)} are expected"

    def _is_total(self, frame: DataFrame) -> bool:
        """Whether the last row holds totals: it says so, and some of its fields are empty."""
        last = frame.row(-1)
        said = _first(last).rstrip(":").casefold()
        if said not in _TOTALS or all(text.strip() for text in last):
            return False
        while not self._rest and not self._ended:
            self._more()
        # if other rows have the same first field, it is a category
        others = (_first(row).casefold() for row in frame[:-1].iter_rows())
        return not self._rest.strip() and said not in others


def _first(row: Sequence[str]) -> str:
    """Return the first nonempty field."""
    return next((text.strip() for text in row if text.strip()), "")


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


def _is_not_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def repeated_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that stand there more than once."""
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


# ------------------------------------------------------------------------------------ the layout

_DELIMITERS = ",;\t|"


def _fields(lines: Iterable[str], delimiter: str, quote: str = '"', *, strict: bool = True) -> Any:
    """Split lines into fields; spaces before a field are dropped."""
    return csv.reader(
        lines, delimiter=delimiter, quotechar=quote, skipinitialspace=True, strict=strict
    )


def _rows(lines: Sequence[str], delimiter: str, quote: str = '"') -> list[list[str]]:
    """Return the nonempty rows of the first lines, or none if a line cannot be split."""
    try:
        return [row for row in _fields(lines, delimiter, quote, strict=False) if row]
    except csv.Error:
        return []


def lines_above(lines: Sequence[str], delimiter: str | None) -> int:
    """Return the number of lines above the header: titles, dates, comments, empty lines.

    Such a line has at most one nonempty field, while most lines have two or more. With two columns
    the first may have no name. Comments (# ...) and a line that names groups of columns are above
    the header too.
    """
    best, found = (0, 0), 0
    for one in delimiter or _DELIMITERS:
        try:
            # split each line alone: a line end inside quotes would change the count of lines
            rows: list[list[str]] = [next(_fields([line], one, strict=False), []) for line in lines]
        except csv.Error:
            continue
        widths = Counter(len(row) for row in rows if len(row) > 1)
        n_alike, width = max(((n, width) for width, n in widths.items()), default=(0, 0))
        # decimal commas split all rows of another delimiter alike, but not its header
        if (n_alike, width) <= best:
            continue
        comments = _comments(lines, rows, width)
        full = (k for k, row in enumerate(rows) if k >= comments and _has_two(row))
        first = next(full, len(rows))
        title = comments or any(len(row) != 2 for row in rows[:first])
        # a quoted name may span two lines
        title = title and not any(line.count('"') % 2 for line in lines[:first])
        best = n_alike, width
        found = first if title and n_alike >= max(2, 0.6 * (len(rows) - first)) else 0
        found += _is_of_groups(rows[found : found + 3])
    return found


def _has_two(row: Sequence[str]) -> bool:
    """Whether a row has at least two nonempty fields."""
    filled = (True for field in row if field and field.strip())
    return next(filled, False) and next(filled, False)


def _comments(lines: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> int:
    """Return the number of comment lines (# ...); the last one may be the header itself."""
    n = next((k for k, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if not n:
        return 0
    named = n < len(rows) and not any(map(is_number, rows[n]))
    return n - (not named and len(rows[n - 1]) == width)


def _is_of_groups(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line names groups of columns and the second names the columns."""
    if len(rows) < 3 or len({len(row) for row in rows}) > 1:
        return False
    names = [field.strip() for field in rows[1]]
    n_empty = sum(not field.strip() for field in rows[0])
    return (
        n_empty >= max(2, len(names) / 3)
        and all(names)
        and not any(map(is_number, names))
        and any(map(is_number, rows[2]))
    )


def is_number(text: str) -> bool:
    """Whether `float` reads a text."""
    if not text:  # quick for lines of delimiters alone
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def find_delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that splits most lines into the same number of fields, at least two."""
    best, found = (0, 0), ","
    for delimiter in _DELIMITERS:
        widths = [len(row) for row in _rows(lines, delimiter)] or [0]
        # more lines that agree with the header win, then more fields
        if widths[0] > 1 and (widths.count(widths[0]), widths[0]) > best:
            best, found = (widths.count(widths[0]), widths[0]), delimiter
    # texts contain spaces, so a space is the delimiter only if nothing else is
    if best == (0, 0) and len(lines) > 1:
        widths = [len(line.split()) for line in lines if line.strip()]
        if widths and widths[0] > 1 and len(set(widths)) == 1:
            return " "
    return found


def find_quote(lines: Sequence[str], delimiter: str) -> str:
    """Return the quote character: a single quote if every row has a field in single quotes."""
    if any('"' in line for line in lines):
        return '"'
    mark = re.escape(delimiter)
    # at most three spaces keep the search linear
    wrapped = re.compile(rf"(?:^|{mark}) {{0,3}}'[^']*' {{0,3}}(?:{mark}|$)")
    rows = [line.rstrip() for line in lines[1:] if line.strip()]
    return "'" if len(rows) > 2 and all(map(wrapped.search, rows)) else '"'


def has_row_names(lines: Sequence[str], delimiter: str, quote: str) -> bool:
    """Whether rows have one field more than the header, as R writes row names."""
    header, *rows = _rows(lines, delimiter, quote) or [[]]
    longer = sum(len(row) == len(header) + 1 and bool(row[-1].strip()) for row in rows)
    return longer > max(1, len(rows) / 2)


def filled_width(lines: Sequence[str], delimiter: str, quote: str) -> int:
    """Return the number of columns up to the last one that is not empty in all rows."""
    widest = 0
    for row in _rows(lines, delimiter, quote)[1:]:
        filled = (k for k in range(len(row), widest, -1) if row[k - 1] and row[k - 1].strip())
        widest = next(filled, widest)
    return widest
