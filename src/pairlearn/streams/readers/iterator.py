# SPDX-License-Identifier: BSD-3-Clause
"""Read examples from any Python iterator in chunks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pairlearn.streams.readers.base import Chunk, Position, Reader, ReadError, digest
from pairlearn.streams.readers.row_buffer import (
    RefusedFieldError,
    RowBuffer,
    RowChecker,
    chunk_rows_for,
)
from pairlearn.streams.readers.schema import Layout, Schema

LABEL, QUERY = "label", "qid"


class IteratorReader(Reader):
    """Chunks of rows from an iterable of examples.

    An example is a tuple ``(x, y)`` or ``(x, y, qid)``, where x is a mapping from names to
    values or a sequence of values; or x alone, whose label may be one of its columns.

    Parameters
    ----------
    examples : iterable, or function without arguments that returns one
        The examples. A function can be called again; `restore` needs this if part of the stream
        was already consumed.
    schema : Schema, optional
        Which columns to take, and how. With tuples, label and query come from the tuple.
    chunk_rows : int, default 1024
        Rows in a chunk.
    strict : bool, default False
        Stop at the first unusable example.

    Examples
    --------
    >>> examples = [({"age": 20, "city": "Oslo"}, 0), ({"age": 30, "city": "Rome"}, 1)]
    >>> [chunk] = IteratorReader(examples, Schema(categorical={"city": ["Oslo", "Rome"]}))
    >>> chunk.X, chunk.y
    (array([[20.,  1.,  0.], [30.,  0.,  1.]]), array([0., 1.]))
    """

    format = "iterator"

    def __init__(
        self,
        examples: Iterable[Any] | Callable[[], Iterable[Any]],
        schema: Schema | None = None,
        *,
        chunk_rows: int = 1024,
        strict: bool = False,
    ) -> None:
        super().__init__(strict=strict)
        self._make = examples if callable(examples) else None
        source = examples() if callable(examples) else examples
        try:
            self._examples = iter(source)
        except TypeError:
            raise ReadError(
                f"examples must be an iterable, got {type(source).__name__}; "
                "pass a list, a generator or a function that returns one."
            ) from None
        self.schema = Schema() if schema is None else schema
        first = next(self._examples, None)
        if first is None:
            raise ReadError("the iterator is empty; there is nothing to learn from.")
        self._examples = itertools.chain([first], self._examples)
        self._consumed = 0
        self._prepare(first)
        self.feature_names = self.layout.feature_names
        self.n_features = self.layout.n_features
        self.chunk_rows = chunk_rows_for(chunk_rows, self.n_features)
        self.position = replace(Position(self.format), fingerprint=self._fingerprint())

    def _prepare(self, first: Any) -> None:
        """Find the names and the form of examples from the first one, and set the layout."""
        x = first[0] if isinstance(first, tuple) and first else first
        self._mapping = isinstance(x, Mapping)
        if self._mapping:
            names = [str(name) for name in (self.schema.features or x)]
            for name in (self.schema.label, self.schema.qid):
                if name is not None and str(name) not in names:
                    names.append(str(name))
        else:
            try:
                names = [str(j) for j in range(len(x))]
            except TypeError:
                raise ReadError(
                    f"an example must be a mapping or a sequence of values, got {shown_type(x)}; "
                    "write (x, y) with x a dict, list or array."
                ) from None
        self._width = len(names)
        schema = self.schema
        self._tuple = len(first) if isinstance(first, tuple) else 0
        if self._tuple > 3:
            raise ReadError(
                f"an example must be (x, y) or (x, y, qid), got a tuple of {self._tuple}; "
                "put the features into a list, dict or array."
            )
        if self._tuple >= 2:
            schema = replace(schema, label=len(names))
            names.append(LABEL if LABEL not in names else f"<{LABEL}>")
        if self._tuple == 3:
            schema = replace(schema, qid=len(names))
            names.append(QUERY if QUERY not in names else f"<{QUERY}>")
        self.layout: Layout = schema.layout(names, "the iterator")

    def _fingerprint(self) -> str:
        return digest(self.schema.key(), self.layout.names, self._tuple, self.chunk_rows)

    def restore(self, position: Position) -> None:
        """Skip the examples before `position`; the iterator must yield the same ones again."""
        self._check_position(position, self._fingerprint())
        if position.offset < self._consumed:
            if self._make is None:
                raise ReadError("an iterator cannot go back; pass a function that makes it anew.")
            self._examples, self._consumed = iter(self._make()), 0
        for _ in range(position.offset - self._consumed):
            if next(self._examples, self) is self:
                raise ReadError(
                    f"the iterator ended before example {position.offset}, where the checkpoint "
                    "was made; give it the whole stream again."
                )
        self._consumed = position.offset
        self.position = position

    def __iter__(self) -> Iterator[Chunk]:
        while True:
            rows = RowBuffer(self.layout, self.chunk_rows)
            checker = RowChecker(self, self.layout, "iterator")
            ended = False
            while rows.count < self.chunk_rows and not ended:
                ended = not self._take(rows, checker)
            first_row = self.position.row
            self.position = replace(
                self.position,
                offset=self._consumed,
                line=self._consumed + 1,
                row=first_row + rows.count,
                refusals=checker.refusals,
            )
            if rows.count:
                X, y, qid = rows.finish(self.layout)
                yield Chunk(X, y, qid, first_row, rows.lines[: rows.count], self.position)
            if ended:
                break
        if self.position.row == 0:
            raise self._nothing_read("the iterator")

    def _take(self, rows: RowBuffer, checker: RowChecker) -> bool:
        """Put the next example into the rows; return False at the end."""
        example = next(self._examples, self)
        if example is self:
            return False
        self._consumed += 1
        row = rows.count
        rows.lines[row] = self._consumed
        missing = False
        try:
            fields = self._fields(example)
            wanted = (*self.layout.numbers, *self.layout.categories,
                      self.layout.label, self.layout.qid)  # fmt: skip
            for j in wanted:
                if j is None:
                    continue
                try:
                    missing |= self._store(rows, row, j, fields[j])
                except RefusedFieldError as error:
                    raise RefusedFieldError(f"{self.layout.names[j]!r}: {error}") from None
        except RefusedFieldError as error:
            checker.refuse(self._consumed, str(error))
        else:
            rows.take_in(row + 1, missing, self.layout, checker)
        checker.flush()
        return True

    def _fields(self, example: Any) -> list[Any]:
        if (len(example) if isinstance(example, tuple) else 0) != self._tuple:
            raise RefusedFieldError("it has another form than the first example")
        x, *rest = example if self._tuple else (example,)
        if self._mapping:
            if not isinstance(x, Mapping):
                raise RefusedFieldError("it is not a mapping, the first example was")
            return [*(x.get(name) for name in self.layout.names[: self._width]), *rest]
        if isinstance(x, (str, Mapping)) or not hasattr(x, "__len__") or len(x) != self._width:
            raise RefusedFieldError(f"it must have {self._width} values, as the first example")
        return [*x, *rest]

    def _store(self, rows: RowBuffer, row: int, j: int, value: Any) -> bool:
        """Store one value of any type; return True if it is missing."""
        layout = self.layout
        if value is None or (isinstance(value, float) and math.isnan(value)):
            value = ""
        if j in layout.levels:
            if value == "":
                rows.store_missing_code(layout, row, j)
                return True
            return rows.settle(layout, row, j, str(value))
        if isinstance(value, str):
            return rows.settle(layout, row, j, value)
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise RefusedFieldError(f"{shown_type(value)} is not a number") from None
        return rows.settle(layout, row, j, repr(number))


def shown_type(value: Any) -> str:
    """Return the name of the type of a value, for messages."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
