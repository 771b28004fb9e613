# SPDX-License-Identifier: BSD-3-Clause
"""Read a table in chunks through an encoder; a reader can resume at a saved position."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import (
    Chunk,
    Position,
    Reader,
    ReadError,
    Refusal,
    Refusals,
    digest,
)
from pairlearn.streams.readers.files import stamp_of
from pairlearn.streams.readers.schema import listed, short_name
from pairlearn.tables.column import ColumnEncoder
from pairlearn.tables.encoding import TableEncoding
from pairlearn.tables.labels import query_numbers
from pairlearn.tables.rows import BLOCK_ROWS, Block, no_column, open_table
from pairlearn.tables.values import is_missing

#: From so many fields on a column of which none can be read is written in another way.
_WHOLE = 20


class OddFields:
    """The count and the first case of fields that were unreadable and count as missing.

    `counted` are those of a position, to go on from.
    """

    def __init__(self, counted: Sequence[tuple[str, int, str]] = ()) -> None:
        self.counts = {column: count for column, count, _ in counted}
        self.first = {column: case for column, _, case in counted}

    @property
    def counted(self) -> tuple[tuple[str, int, str], ...]:
        """Column, count and first case of each."""
        return tuple((column, count, self.first[column]) for column, count in self.counts.items())

    def unread_columns(self, columns: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the columns of which nothing was read, if these are all fields so far.

        >>> odd = OddFields()
        >>> for line in range(20):
        ...     odd.add("a.csv", "age", line, "'1,5' is not a number")
        >>> odd.unread_columns({"age": ["1,5"] * 20 + ["NA"]})
        ['age']
        """
        return [
            name
            for name, count in self.counts.items()
            if count >= _WHOLE and count == sum(not is_missing(text) for text in columns[name])
        ]

    def add(self, source: str, column: str, line: int, reason: str) -> None:
        """Count one field."""
        self.counts[column] = self.counts.get(column, 0) + 1
        self.first.setdefault(column, f"{source}:{line}: {reason}")

    def take(self, others: OddFields) -> None:
        """Count the fields of the next block."""
        for column, count in others.counts.items():
            self.counts[column] = self.counts.get(column, 0) + count
            self.first.setdefault(column, others.first[column])

    def lines(self) -> list[str]:
        """Return one sentence for each column."""
        return [
            f"column {column!r}: {count} value{'s' * (count > 1)} taken as missing; first: "
            f"{self.first[column]}"
            for column, count in self.counts.items()
        ]


def strange_columns(
    columns: Sequence[ColumnEncoder], part: Sequence[Any], source: str
) -> Iterator[str]:
    """Yield a sentence about each column of categories of which no value is a known level.

    Perhaps the column is written in another way, as a code that has lost its leading zeros. But new
    levels are no error, so the rows count as having some other level.
    """
    for column, values in zip(columns, part, strict=True):
        value = column.stranger(values)
        n = len(values) - int(column.absent(values).sum()) if value else 0
        if n >= _WHOLE:
            yield (
                f"column {column.name!r}: none of the first {n} values of {source} is one of the "
                f"{column.describe} of the training data; first: {value!r:.60}"
            )


class Refuse:
    """Count refused rows; if `strict`, stop at the first."""

    def __init__(self, strict: bool, refusals: Refusals | None = None) -> None:
        self.strict, self.refusals = strict, refusals or Refusals()

    def __call__(self, source: str, line: int, reason: str) -> None:
        """Refuse the row at a line."""
        self.refusals = self.refusals.add(Refusal(source, line, reason), strict=self.strict)


@dataclass(frozen=True)
class TableChunk(Chunk):
    """Rows of a table, with the texts of columns that are carried along."""

    carried: Mapping[str, Sequence[str]] = field(default_factory=dict)


class TableReader(Reader):
    r"""Chunks of encoded rows of one or several files of one format.

    Columns are found by name, in any order. A row is refused if its label is unusable. An
    unreadable field counts as missing and is counted in `odd`; if the reader is strict, the row is
    refused.

    Parameters
    ----------
    sources : sequence of paths
        The files.
    encoder : TableEncoding
        Fitted.
    format : str
        csv, tsv, parquet or arrow.
    labelled : bool
        Whether labels and queries are read.
    header, delimiter
        As for `TextTable`.
    strict : bool
        Stop at the first unusable row or unreadable field.
    carry : sequence of str, optional
        Columns whose texts each chunk carries along; every file must have them. None means the ids
        of the encoder that the first file has.
    impute : bool
        Whether a column that a file lacks counts as missing in all of its rows; otherwise the file
        is refused.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from pairlearn.tables.number_columns import NumberColumn
    >>> encoder = TableEncoding([NumberColumn("age")])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.csv")
    ...     _ = path.write_text("name,age\nx,20\ny,30\n")
    ...     [chunk] = TableReader([path], encoder, format="csv", labelled=False)
    >>> chunk.X.ravel()
    array([20., 30.])
    """

    format = "table"

    def __init__(
        self,
        sources: Sequence[Any],
        encoder: TableEncoding,
        *,
        format: str,
        labelled: bool,
        header: bool = True,
        delimiter: str | None = None,
        strict: bool = False,
        carry: Sequence[str] | None = (),
        impute: bool = False,
        chunk_rows: int = BLOCK_ROWS,
    ) -> None:
        super().__init__(strict=strict)
        self.sources = list(sources)
        self.encoder = encoder
        #: The columns that a file lacks, by its name.
        self.lacking: dict[str, tuple[str, ...]] = {}
        #: Sentences about columns of which training knew no level.
        self.strange: list[str] = []
        self.carry, self._impute = None if carry is None else tuple(carry), impute
        self._kind, self._labelled = format, labelled and encoder.label is not None
        self._options: dict[str, Any] = {"header": header, "delimiter": delimiter}
        self.chunk_rows = chunk_rows
        self.feature_names = encoder.feature_names
        self.n_features = encoder.n_features
        options = (self._kind, header, delimiter, labelled)
        self._fingerprint = digest(repr(encoder.state()), *options)
        stamp = stamp_of(self.sources[0])
        self.position = Position(self.format, fingerprint=self._fingerprint, stamp=stamp)
        self._table = self._open(0)

    @property
    def odd(self) -> OddFields:
        """Fields taken as missing so far, in this pass over the data."""
        return OddFields(self.position.odd)

    def _open(self, index: int) -> Any:
        source = self.sources[index]
        if index and isinstance(source, (str, os.PathLike)) and os.fspath(source) == "-":
            raise ReadError("standard input is read alone; name files, or standard input.")
        table = open_table(source, self._kind, **self._options)
        present = set(table.names)
        lacking = [column for column in self.encoder.columns if column.name not in present]
        if lacking:
            self._without(lacking, table)
        if self._labelled:
            assert self.encoder.label is not None
            for name in (self.encoder.label.column, self.encoder.qid):
                if name is not None and name not in present:
                    raise no_column(name, table.names, table.name, "label")
        if self.carry is None:
            self.carry = tuple(name for name in self.encoder.ids if name in present)
        for name in self.carry:
            if name not in present:
                raise no_column(name, table.names, table.name, "kept")
        known = {column.name for column in self.encoder.columns}
        # A model of a file with a repeated name knows its columns by their numbers.
        used = {name for name in known if f"{name} (2)" not in known}.union(self.carry)
        if self._labelled and self.encoder.label is not None:
            used |= {self.encoder.label.column, self.encoder.qid or ""}
        if repeated := sorted(used.intersection(table.repeated)):
            raise ReadError(
                f"{table.name} has more than one column named {listed(repeated)}; rename all but "
                "the one to use."
            )
        return table

    def _without(self, lacking: Sequence[ColumnEncoder], table: Any) -> None:
        """Refuse a file that lacks columns of features, or note that they count as missing."""
        names = tuple(column.name for column in lacking)
        if not self._impute:
            cure = "`predict --missing impute` takes them as missing"
            if len(names) == 1:
                error = no_column(names[0], table.names, table.name, "feature")
                raise ReadError(f"{str(error).rstrip('.')}; {cure.replace('them', 'it')}.")
            raise ReadError(
                f"{table.name} lacks {len(names)} feature columns of the model, {listed(names)}; "
                f"its columns: {listed(table.names)}; {cure}."
            )
        if len(names) == len(self.encoder.columns):
            raise ReadError(
                f"{table.name} has no column of the model, which has {listed(names)}; its columns: "
                f"{listed(table.names)}."
            )
        for column in lacking:
            if column.missing == "refuse":
                raise ReadError(
                    f"{table.name} has no column {column.name!r}, and the model refuses rows "
                    "without its value, so that it cannot be imputed."
                )
        self.lacking[table.name] = names

    def restore(self, position: Position) -> None:
        """Continue after a position that a reader of the same data saved."""
        if not 0 <= position.file < len(self.sources):
            raise ReadError("the saved position names a file that is not among the sources.")
        stamp = stamp_of(self.sources[position.file])
        self._check_position(position, self._fingerprint, stamp)
        self._table = self._open(position.file)
        self._table.skip_to(position.offset)
        self.position = position

    def __iter__(self) -> Iterator[Chunk]:
        for index in range(self.position.file, len(self.sources)):
            if index != self.position.file:
                self._table = self._open(index)
                stamp = stamp_of(self.sources[index])
                self.position = replace(self.position, file=index, offset=0, line=1, stamp=stamp)
            place = self.position.offset
            refuse = Refuse(self.strict, self.position.refusals)
            for block in self._table.blocks(refuse, skip=place, size=self.chunk_rows):
                chunk = self._chunk(block, refuse)
                if len(chunk):
                    yield chunk
            self.position = replace(self.position, refusals=refuse.refusals)
        if self.position.row == 0:
            raise self._nothing_read(str(self._table.name))

    def _chunk(self, block: Block, refuse: Refuse) -> Chunk:
        """Encode a block, refuse unusable rows, and return the rest as a chunk."""
        lacking = self.lacking.get(block.source, ())
        if lacking:
            empty = ("",) * len(block)
            block = replace(block, columns={**block.columns, **dict.fromkeys(lacking, empty)})
        odd, begins = OddFields(), not self.position.offset
        part, lines, y, qid = usable_rows(self.encoder, block, refuse, odd, self._labelled)
        unread = odd.unread_columns(block.columns) if begins and not self._impute else []
        if unread:
            raise ReadError(
                f"none of the first {odd.counts[unread[0]]} values of column {unread[0]!r} can be "
                f"read: {odd.first[unread[0]]}; write it as in the training data, or "
                "`predict --missing impute` takes it as missing."
            )
        if begins:
            self.strange += strange_columns(self.encoder.columns, part, block.source)
        so_far = self.odd
        so_far.take(odd)
        carried: dict[str, Sequence[str]] = {name: block.columns[name] for name in self.carry or ()}
        if len(lines) < len(block):
            kept = np.isin(block.lines, lines)
            carried = {name: list(compress(texts, kept)) for name, texts in carried.items()}
        first_row = self.position.row
        self.position = replace(
            self.position, offset=block.offset, line=block.line, row=first_row + len(lines),
            refusals=refuse.refusals, odd=so_far.counted,
        )  # fmt: skip
        return TableChunk(
            self.encoder.encode(part), y, qid, first_row, lines, self.position, carried
        )


def usable_rows(
    encoder: TableEncoding, block: Block, refuse: Refuse, odd: OddFields, labelled: bool = True
) -> tuple[list[Any], NDArray[np.int64], Any, NDArray[np.int64] | None]:
    """Return compact values, lines, labels and queries of the usable rows; refuse the others.

    Rows are refused in the order of the file. If `refuse` is strict, unreadable fields count too.
    """
    y = qid = None
    reasons: dict[int, str] = {}
    lines = block.lines
    kept = np.arange(len(block))
    if labelled:
        assert encoder.label is not None
        y, wrong = encoder.label.apply(block.columns[encoder.label.column])
        if encoder.qid is not None:
            qid, absent = query_numbers(block.columns[encoder.qid])
            wrong = absent | wrong
        if wrong:
            reasons = {int(lines[k]): reason for k, reason in wrong.items()}
            kept = np.delete(kept, list(wrong))
            block = block.take(kept)

    def note(column: str, line: int, reason: str) -> None:
        if refuse.strict:
            reasons.setdefault(line, f"column {column!r}: {reason}")
        odd.add(block.source, column, line, reason)

    part = encoder.read(block, note)
    blame = encoder.refused(part)
    if (blame >= 0).any():
        for k in np.flatnonzero(blame >= 0).tolist():
            name = short_name(encoder.columns[blame[k]].name)
            reasons.setdefault(int(block.lines[k]), f"column {name}: the value is missing")
        part, kept = encoder.take(part, blame < 0), kept[blame < 0]
    for line in sorted(reasons):
        refuse(block.source, line, reasons[line])
    y = None if y is None else y[kept]
    return part, lines[kept], y, None if qid is None else qid[kept]
