# SPDX-License-Identifier: BSD-3-Clause
"""Read examples from any Python iterator in chunks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pairlearn.streams.readers.base import Position, ReadError
from pairlearn.streams.readers.csv_file import Batch
from pairlearn.streams.readers.schema import Schema
from pairlearn.streams.readers.tabular import TabularReader

LABEL, QUERY = "label", "qid"


class _Examples:
    """Examples of an iterator as a file of rows."""

    name = "iterator"

    def __init__(self, examples: Iterator[Any], schema: Schema, chunk_rows: int) -> None:
        first = next(examples, None)
        if first is None:
            raise ReadError("the iterator is empty; there is nothing to learn from.")
        self._rest, self.used = itertools.chain([first], examples), 0
        self._rows, self.schema = chunk_rows, schema
        x = first[0] if isinstance(first, tuple) and first else first
        self._mapping = isinstance(x, Mapping)
        if isinstance(x, Mapping):
            self._keys = list(schema.features or x)
            for name in (schema.label, schema.qid):
                if name is not None and name not in self._keys:
                    self._keys.append(name)
        else:
            try:
                self._keys = list(range(len(x)))
            except TypeError:
                raise ReadError(
                    f"an example must be a mapping or a sequence of values, got {shown_type(x)}; "
                    "write (x, y) with x a dict, list or array."
                ) from None
        names = list(map(str, self._keys))
        self._parts = len(first) if isinstance(first, tuple) else 0
        if self._parts > 3:
            raise ReadError(
                f"an example must be (x, y) or (x, y, qid), got a tuple of {self._parts}; "
                "put the features into a list, dict or array."
            )
        if self._parts >= 2:
            self.schema = replace(self.schema, label=len(names))
            names.append(LABEL if LABEL not in names else f"<{LABEL}>")
        if self._parts == 3:
            self.schema = replace(self.schema, qid=len(names))
            names.append(QUERY if QUERY not in names else f"<{QUERY}>")
        self.names = tuple(names)

    def skip_to(self, place: int) -> None:
        """Leave out the examples before a place."""
        for _ in range(place - self.used):
            if next(self._rest, self) is self:
                raise ReadError(
                    f"the iterator ended before example {place}, where the checkpoint was made; "
                    "give it the whole stream again."
                )
        self.used = place

    def batches(self, columns: Mapping[int, Any], skip: int = 0) -> Iterator[Batch]:
        """Yield the examples that are left."""
        import polars

        while examples := list(itertools.islice(self._rest, self._rows)):
            begin, self.used = self.used, self.used + len(examples)
            rows: list[list[Any]] = []
            places: list[int] = []
            refused: list[tuple[int, str]] = []
            for k, example in enumerate(examples, begin):
                try:
                    fields = self._fields(example)
                    rows.append([self._value(fields[j], j, columns[j]) for j in columns])
                    places.append(k)
                except ValueError as error:
                    refused.append((k + 1, str(error)))
            frame = polars.DataFrame(
                [
                    polars.Series(f"c{j}", [row[at] for row in rows], dtype=polars.String)
                    for at, j in enumerate(columns)
                ]
            )
            at = np.array(places, dtype=np.int64)
            yield Batch(frame, at + 1, at, refused, self.used, self.used + 1)

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

    def _value(self, value: Any, j: int, kind: Any) -> str:
        """Return a value of any type as a text."""
        import polars

        if value is None or (isinstance(value, float) and math.isnan(value)):
            return ""
        if isinstance(value, str) or (kind == polars.String and not isinstance(value, float)):
            return str(value)
        try:
            return repr(float(value))
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{self.names[j]!r}: {shown_type(value)} is not a number") from None


class IteratorReader(TabularReader):
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
        self._given, self._asked, self._rows = examples, schema or Schema(), chunk_rows
        started = self._start()
        self._started: _Examples | None = started
        super().__init__([None], started.schema, chunk_rows=chunk_rows, strict=strict)

    def _start(self) -> _Examples:
        source = self._make() if self._make is not None else self._given
        try:
            examples = iter(source)  # type: ignore[arg-type]
        except TypeError:
            raise ReadError(
                f"examples must be an iterable, got {type(source).__name__}; "
                "pass a list, a generator or a function that returns one."
            ) from None
        return _Examples(examples, self._asked, self._rows)

    def _open(self, index: int) -> _Examples:
        opened = self._started
        assert opened is not None
        return opened

    def restore(self, position: Position) -> None:
        """Skip the examples before `position`; the iterator must yield the same ones again."""
        self._check_position(position, self._fingerprint())
        if position.offset < self._file.used:
            if self._make is None:
                raise ReadError("an iterator cannot go back; pass a function that makes it anew.")
            self._file = self._started = self._start()
        self._file.skip_to(position.offset)
        self.position = position


def shown_type(value: Any) -> str:
    """Return the name of the type of a value, for messages."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
