# SPDX-License-Identifier: BSD-3-Clause
"""Read a table in chunks of features, through an encoder or a schema, and resume at any chunk."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.streams.readers.base import (
    Chunk,
    Position,
    Reader,
    ReadError,
    chunk_rows_for,
    digest,
    listed,
    short_name,
)
from pairlearn.streams.readers.files import is_path, stamp_of
from pairlearn.streams.readers.schema import Schema
from pairlearn.tables.columns import CategoryColumn, ColumnEncoder, HashedColumn, NumberColumn
from pairlearn.tables.encoding import TableEncoding, taken
from pairlearn.tables.kinds import decide, written
from pairlearn.tables.labels import LabelRule, query_numbers
from pairlearn.tables.rows import no_column, open_table, refuse_repeated
from pairlearn.tables.series import text_of, texts_of
from pairlearn.tables.text import Block
from pairlearn.tables.values import parse_number

#: From so many values on a column is judged by those that cannot be read, ...
_ENOUGH = 20
#: ... and if these are more than this share, it is written in another way than in training.
_CHANGED = 0.1


class OddFields:
    """The number and the first case of values that could not be read and count as missing."""

    def __init__(self, counted: Iterable[tuple[str, int, str]] = ()) -> None:
        self._found = {column: (count, first) for column, count, first in counted}

    @property
    def counted(self) -> tuple[tuple[str, int, str], ...]:
        """Column, number and first case of each."""
        return tuple((column, *found) for column, found in self._found.items())

    def add(self, column: str, count: int, first: str) -> None:
        """Count some values of a column."""
        before, case = self._found.get(column, (0, first))
        self._found[column] = before + count, case

    def lines(self) -> list[str]:
        """Return one sentence for each column."""
        return [
            f"column {column!r}: {count} value{'s' * (count > 1)} taken as missing; first: {first}"
            for column, count, first in self.counted
        ]


def changed_columns(
    encoder: TableEncoding, block: Block, part: Sequence[Any], wrong: Sequence[Any]
) -> Iterator[str]:
    """Yield what to say of each column that is written in another way than in training."""
    import polars

    for column, values, odd in zip(encoder.columns, part, wrong, strict=True):
        n_odd = int(np.count_nonzero(odd))
        n = len(odd) - int(np.count_nonzero(column.absent(values))) + n_odd
        if column.strict or n < _ENOUGH or n_odd <= _CHANGED * n:
            continue
        texts = texts_of(block.frame[column.name].filter(polars.Series(odd)))
        now = decide(column.name, texts.to_list())
        yield (
            f"{n_odd} of the first {n} values of column {column.name!r} cannot be read: "
            f"{_case(column, block, int(np.argmax(odd)))}; training saw "
            f"{written(column.kind, column.form, column.unit)}, this looks like "
            f"{written(now.kind, now.form, now.unit)}"
        )


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
        if n >= _ENOUGH:
            yield (
                f"column {column.name!r}: none of the first {n} values of {source} is one of the "
                f"{column.describe} of the training data; first: {value!r:.60}"
            )


def _case(column: ColumnEncoder, block: Block, row: int) -> str:
    return f"{block.source}:{block.lines[row]}: {_reason(column, block, row)}"


def _reason(column: ColumnEncoder, block: Block, row: int) -> str:
    value = text_of(block.frame[column.name][row]).strip()
    shown = repr(value) if len(value) <= 60 else f"{value[:60]!r}..."
    large = column.kind == "number" and parse_number(value, column.form, column.unit) is not None
    return f"{shown} is too large for float32" if large else f"{shown} {column.unread}"


@dataclass(frozen=True)
class Usable:
    """The usable rows of a block: compact values, which rows, labels and queries."""

    part: list[Any]
    kept: NDArray[np.bool_]
    y: Any
    qid: NDArray[np.int64] | None
    #: Line and reason of each refused row, in order.
    refused: list[tuple[int, str]]


def usable_rows(
    encoder: TableEncoding,
    block: Block,
    odd: OddFields,
    *,
    strict: bool,
    labelled: bool = True,
    check: Callable[[list[Any], Any], None] | None = None,
) -> Usable:
    """Return the usable rows of a block, and why the others are refused.

    Other values that cannot be read are counted in `odd`. If `strict`, they refuse their rows.
    `check` sees compact values and which of them cannot be read.
    """
    y = qid = None
    reasons: dict[int, str] = {}
    if labelled:
        assert encoder.label is not None
        y, reasons = encoder.label.apply(block.frame[encoder.label.column])
        if encoder.qid is not None:
            qid, absent = query_numbers(block.frame[encoder.qid])
            reasons = absent | reasons
    usable = np.ones(len(block), dtype=bool)
    usable[list(reasons)] = False
    part, wrong = encoder.read(block.frame)
    if check is not None:
        check(part, wrong)
    for column, flaws in zip(encoder.columns, wrong, strict=True):
        rows = np.flatnonzero(flaws & usable)
        if strict or column.strict:
            for row in rows.tolist():
                why = f"column {short_name(column.name)}: {_reason(column, block, row)}"
                reasons.setdefault(row, why)
        elif len(rows):
            odd.add(column.name, len(rows), _case(column, block, int(rows[0])))
    blame = encoder.refused(part)
    for row in np.flatnonzero(blame >= 0).tolist():
        column = encoder.columns[blame[row]]
        cure = " (missing=0 or missing='indicator' accepts it)" if column.strict else ""
        reasons.setdefault(row, f"column {short_name(column.name)}: the value is missing{cure}")
    kept = np.ones(len(block), dtype=bool)
    if reasons:
        kept[list(reasons)] = False
        part = taken(part, kept)
        y = None if y is None else y[kept]
        qid = None if qid is None else qid[kept]
    found = [(int(block.lines[row]), reason) for row, reason in reasons.items()]
    return Usable(part, kept, y, qid, sorted(found + block.refused))


def encoding_of(schema: Schema, table: Any) -> TableEncoding:
    """Return the encoder of a schema for a table of named columns."""
    names, source = table.names, table.name

    def find(given: str | int, role: str) -> str:
        if isinstance(given, int) and -len(names) <= given < len(names):
            return str(names[given])
        if given not in names:
            raise no_column(str(given), names, source, role)
        return str(given)

    label = None if schema.label is None else find(schema.label, "label")
    qid = None if schema.qid is None else find(schema.qid, "qid")
    if schema.features is None:
        chosen = [name for name in names if name not in (label, qid)]
        refuse_repeated(table, chosen)
    else:
        chosen = [find(given, "feature") for given in schema.features]
    for name, count in Counter([*chosen, *filter(None, (label, qid))]).items():
        if count > 1:
            raise ReadError(f"column {short_name(name)} is used twice; list it once.")
    if not chosen:
        raise ReadError(f"{source} leaves no column for features; its columns: {listed(names)}.")
    kinds = {find(given, "categorical"): value for given, value in schema.categorical.items()}
    rules = dict.fromkeys(chosen, schema.missing)
    if isinstance(schema.missing, Mapping):
        rules = dict.fromkeys(chosen, "refuse")
        rules.update((find(given, "missing"), rule) for given, rule in schema.missing.items())
    for name in (*kinds, *rules):
        if name not in chosen:
            raise ReadError(f"column {short_name(name)} is not among the features.")
    columns: list[ColumnEncoder] = []
    for name in chosen:
        rule: Any = rules[name]
        rule = rule if isinstance(rule, str) else float(rule)
        kind = kinds.get(name)
        if isinstance(kind, int):
            column: ColumnEncoder = HashedColumn(name, rule, kind)
        elif kind is not None:
            column = CategoryColumn(name, rule, [str(level) for level in kind])
        else:
            column = NumberColumn(name, rule)
        column.strict = kind is None or (not isinstance(kind, int) and schema.unknown == "refuse")
        column.indicator = rule == "indicator"
        columns.append(column)
    labels = None if label is None else LabelRule.of_classes(label, schema.classes)
    return TableEncoding(columns, label=labels, qid=qid, dtype=schema.dtype)


@dataclass(frozen=True)
class TableChunk(Chunk):
    """Rows of a table, with the texts of columns that are carried along."""

    carried: Mapping[str, Sequence[str]] = field(default_factory=dict)


class TableReader(Reader):
    r"""Chunks of encoded rows of one or several files of one format.

    Columns are found by name, in any order. A row is refused if its label is unusable. A value that
    cannot be read counts as missing and is counted in `odd`; if the reader is strict, or the
    encoder comes from a schema, the row is refused.

    Parameters
    ----------
    sources : sequence of paths
        The files.
    encoder : TableEncoding or Schema
        Fitted, or what to take from which column.
    format : str
        csv, tsv, parquet, arrow or duckdb.
    labelled : bool
        Whether labels and queries are read.
    header, delimiter
        As for `TextTable`.
    strict : bool
        Stop at the first unusable row or value.
    carry : sequence of str, optional
        Columns whose texts each chunk carries along; every file must have them. None means the ids
        of the encoder that the first file has.
    impute : bool
        Whether a column that a file lacks counts as missing in all of its rows; otherwise the file
        is refused.
    chunk_rows : int, optional
        Rows in a chunk at most; by default a chunk takes about 4 MB.

    Examples
    --------
    >>> import tempfile, pathlib
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
        encoder: TableEncoding | Schema,
        *,
        format: str = "csv",
        labelled: bool = True,
        header: bool = True,
        delimiter: str | None = None,
        strict: bool = False,
        carry: Sequence[str] | None = (),
        impute: bool = False,
        chunk_rows: int | None = None,
    ) -> None:
        super().__init__(strict=strict)
        self.sources = list(sources)
        if not self.sources:
            raise ReadError("there is no file to read; name at least one.")
        #: The columns that a file lacks, by its name.
        self.lacking: dict[str, tuple[str, ...]] = {}
        #: Sentences about columns of which training knew no level.
        self.strange: list[str] = []
        self.carry, self._impute = None if carry is None else tuple(carry), impute
        self._options: dict[str, Any] = {"kind": format, "header": header, "delimiter": delimiter}
        self._labelled = labelled
        table = self._opened(0)
        if isinstance(encoder, Schema):
            encoder = encoding_of(encoder, table)
        self.encoder = encoder
        self._labelled = labelled and encoder.label is not None
        self._table = self._checked(table)
        self.feature_names, self.n_features = encoder.feature_names, encoder.n_features
        wide = len(encoder.columns) if encoder.sparse else self.n_features
        self.chunk_rows = chunk_rows_for(chunk_rows, wide)
        self._fingerprint = digest(repr(encoder.state()), self._options, labelled)
        stamp = stamp_of(self.sources[0])
        self.position = Position(self.format, fingerprint=self._fingerprint, stamp=stamp)

    @property
    def odd(self) -> OddFields:
        """Values taken as missing so far, in this pass over the data."""
        return OddFields(self.position.odd)

    @property
    def bytes_read(self) -> int:
        """Bytes of the present text read so far; rows of other data."""
        return int(getattr(self._table, "bytes_read", self.position.line - 1))

    def _opened(self, index: int) -> Any:
        source = self.sources[index]
        if index and isinstance(source, (str, os.PathLike)) and os.fspath(source) == "-":
            raise ReadError("standard input is read alone; name files, or standard input.")
        return open_table(source, **self._options)

    def _checked(self, table: Any) -> Any:
        """Refuse a table without the columns that are needed, or with one of them twice."""
        encoder, present = self.encoder, set(table.names)
        lacking = [column for column in encoder.columns if column.name not in present]
        if lacking:
            self._without(lacking, table)
        labels = () if not self._labelled else (encoder.label.column, encoder.qid)  # type: ignore[union-attr]
        if self.carry is None:
            self.carry = tuple(name for name in encoder.ids if name in present)
        for what, names in (("label", labels), ("kept", self.carry)):
            for name in names:
                if name is not None and name not in present:
                    raise no_column(name, table.names, table.name, what)
        known = {column.name for column in encoder.columns}
        # A model of a file with a repeated name knows its columns by their numbers.
        used = {name for name in known if f"{name} (2)" not in known}
        refuse_repeated(table, used.union(self.carry, filter(None, labels)))
        table.only(known.union(self.carry, filter(None, labels)))
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
        if is_path(self.sources[position.file]) or position.file != self.position.file:
            self._table = self._checked(self._opened(position.file))
        self.position = position

    def __iter__(self) -> Iterator[Chunk]:
        for index in range(self.position.file, len(self.sources)):
            if index != self.position.file:
                self._table = self._checked(self._opened(index))
                stamp = stamp_of(self.sources[index])
                self.position = replace(self.position, file=index, line=1, stamp=stamp)
            for block in self._table.blocks(skip=self.position.line, size=self.chunk_rows):
                chunk = self._chunk(block)
                if len(chunk):
                    yield chunk
        if self.position.row == 0:
            raise self._nothing_read(str(self._table.name))

    def _chunk(self, block: Block) -> Chunk:
        """Encode a block, refuse unusable rows, and return the rest as a chunk."""
        lacking, begins = self.lacking.get(block.source, ()), self.position.line == 1
        if lacking:
            import polars

            gap = [polars.lit(None, dtype=polars.String).alias(name) for name in lacking]
            block = replace(block, frame=block.frame.with_columns(gap))

        def check(part: list[Any], wrong: Any) -> None:
            changed = () if self._impute else changed_columns(self.encoder, block, part, wrong)
            for said in changed:
                raise ReadError(
                    f"{said}; write it as in the training data, or `predict --missing impute` "
                    "takes it as missing."
                )
            self.strange += strange_columns(self.encoder.columns, part, block.source)

        odd = self.odd
        found = usable_rows(
            self.encoder, block, odd, strict=self.strict, labelled=self._labelled,
            check=check if begins and len(block) else None,
        )  # fmt: skip
        first_row = self._advance(
            block.source, block.line, int(np.count_nonzero(found.kept)), found.refused,
            odd=odd.counted,
        )  # fmt: skip
        carried = {}
        if self.carry:
            kept = replace(block, frame=block.frame.filter(found.kept))
            carried = {name: kept.texts(name) for name in self.carry}
        return TableChunk(
            self.encoder.encode(found.part), found.y, found.qid, first_row,
            block.lines[found.kept], self.position, carried,
        )  # fmt: skip
