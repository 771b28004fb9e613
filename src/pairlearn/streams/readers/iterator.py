# SPDX-License-Identifier: BSD-3-Clause
"""Read examples from any Python iterator in chunks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pairlearn.streams.readers.base import Position, ReadError
from pairlearn.streams.readers.schema import Schema
from pairlearn.tables.reader import TableReader
from pairlearn.tables.series import series_of
from pairlearn.tables.text import Block

LABEL, QUERY = "label", "qid"


class _Examples:
    """Examples of an iterator as a table of rows."""

    name = "iterator"
    repeated = ()

    def __init__(self, examples: Iterator[Any], schema: Schema) -> None:
        first = next(examples, None)
        if first is None:
            raise ReadError("the iterator is empty; there is nothing to learn from.")
        self._rest, self.schema, self._next = itertools.chain([first], examples), schema, 1
        x = first[0] if isinstance(first, tuple) and first else first
        self._mapping = isinstance(x, Mapping)
        if isinstance(x, Mapping):
            self._keys = list(schema.features or x)
            more = (schema.label, schema.qid)
            self._keys += [k for k in more if k is not None and k not in self._keys]
        else:
            try:
                self._keys = list(range(len(x)))
            except TypeError:
                raise ReadError(
                    "an example must be a mapping or a sequence of values, got "
                    f"{type(x).__name__}; write (x, y) with x a dict, list or array."
                ) from None
        names = list(map(str, self._keys))
        self._parts = len(first) if isinstance(first, tuple) else 0
        if self._parts > 3:
            raise ReadError(
                f"an example must be (x, y) or (x, y, qid), got a tuple of {self._parts}; "
                "put the features into a list, dict or array."
            )
        for role in (LABEL, QUERY)[: max(self._parts - 1, 0)]:
            place: dict[str, Any] = {role: len(names)}
            self.schema = replace(self.schema, **place)
            names.append(role if role not in names else f"<{role}>")
        self.names = tuple(names)

    def only(self, names: Any) -> None:
        """Read all columns, whichever are asked for."""

    def blocks(self, *, skip: int = 1, size: int = 1024) -> Iterator[Block]:
        """Yield the examples from number `skip` on."""
        import polars

        for _ in range(skip - self._next):
            if next(self._rest, self) is self:
                raise ReadError(
                    f"the iterator ended before example {skip - 1}, where the checkpoint was made; "
                    "give it the whole stream again."
                )
        self._next = max(self._next, skip)
        while examples := list(itertools.islice(self._rest, size)):
            first, self._next = self._next, self._next + len(examples)
            rows: list[list[Any]] = []
            lines: list[int] = []
            refused: list[tuple[int, str]] = []
            for line, example in enumerate(examples, first):
                try:
                    rows.append(self._fields(example))
                    lines.append(line)
                except ValueError as error:
                    refused.append((line, str(error)))
            frame = polars.DataFrame(
                [series_of(name, [row[j] for row in rows]) for j, name in enumerate(self.names)]
            )
            yield Block(self.name, frame, np.array(lines, dtype=np.int64), self._next, refused)

    def _fields(self, example: Any) -> list[Any]:
        if (len(example) if isinstance(example, tuple) else 0) != self._parts:
            raise ValueError("it has another form than the first example")
        x, *rest = example if self._parts else (example,)
        if self._mapping:
            if not isinstance(x, Mapping):
                raise ValueError("it is not a mapping, the first example was")
            return [*(x.get(name) for name in self._keys), *rest]
        if isinstance(x, (str, Mapping)) or not hasattr(x, "__len__") or len(x) != len(self._keys):
            raise ValueError(f"it must have {len(self._keys)} values, as the first example")
        return [*x, *rest]


class IteratorReader(TableReader):
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
        self._make = examples if callable(examples) else None
        self._given, self._asked = examples, schema or Schema()
        self._started: _Examples | None = self._start()
        super().__init__([None], self._started.schema, chunk_rows=chunk_rows, strict=strict)

    def _start(self) -> _Examples:
        source = self._make() if self._make is not None else self._given
        try:
            return _Examples(iter(source), self._asked)  # type: ignore[arg-type]
        except TypeError:
            raise ReadError(
                f"examples must be an iterable, got {type(source).__name__}; "
                "pass a list, a generator or a function that returns one."
            ) from None

    def _opened(self, index: int) -> _Examples:
        started, self._started = self._started, None
        if started is not None:
            return started
        if self._make is None:
            raise ReadError("an iterator cannot go back; pass a function that makes it anew.")
        return self._start()

    def restore(self, position: Position) -> None:
        """Skip the examples before `position`; the iterator must yield the same ones again."""
        self._check_position(position, self._fingerprint)
        if position.line < self._table._next:
            self._table = self._opened(0)
        self.position = position
