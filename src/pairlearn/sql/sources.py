# SPDX-License-Identifier: BSD-3-Clause
"""Where the rows of a query come from: record batches of Arrow, anew for every pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pairlearn.streams.readers.arrow import load_pyarrow
from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.query import Queried, QueryFile, arrow_reader, arrow_schema


@dataclass(frozen=True)
class Source:
    """The rows of a query: the schema of Arrow, and what runs the query.

    Parameters
    ----------
    schema : pyarrow.Schema
        Names and types of the columns.
    run : callable
        From a number of rows to an iterator of record batches of at most so many.
    """

    schema: Any
    run: Callable[[int], Iterator[Any]]


def source_of(source: Any, query: str | None) -> Source:
    """Return the rows of a query.

    Parameters
    ----------
    source : path, connection or relation of DuckDB, frame of Polars, table or data set of Arrow
        Where the rows are.
    query : str or None
        One SELECT, for a database file, a connection or a frame of Polars, which it calls self.

    Returns
    -------
    Source
        The rows.
    """
    if isinstance(source, (str, os.PathLike)):
        return _of_duckdb(Queried(os.fspath(source), _needed(query, "a database file")).opened())
    room = type(source).__module__.partition(".")[0].lstrip("_")
    if room == "duckdb" and hasattr(source, "extract_statements"):
        return _of_duckdb(QueryFile(source, _needed(query, "a connection")))
    if room == "polars":
        return _of_polars(source, query)
    if query is not None:
        raise ReadError(
            f"{type(source).__name__} takes no query: it is one already. Pass a connection of "
            "DuckDB with query=, or leave query out."
        )
    if room == "duckdb" and hasattr(source, "limit"):
        # A relation of its own for each pass: older versions read one once.
        return Source(
            arrow_schema(source), lambda size: iter(arrow_reader(source.filter("true"), size))
        )
    if room == "pyarrow" and hasattr(source, "to_batches"):
        return Source(source.schema, lambda size: _cut(source, size))
    raise TypeError(
        f"source must be a database file, a connection or relation of DuckDB, a frame of Polars or "
        f"a table or data set of Arrow, got {type(source).__name__}."
    )


def _of_duckdb(file: QueryFile) -> Source:
    pa = load_pyarrow()
    return Source(pa.schema(list(zip(file.names, file.types, strict=True))), file.iter_batches)


def _needed(query: str | None, of: str) -> str:
    if query is None:
        raise ReadError(f"{of} needs a query; pass query='SELECT ...'.")
    return query


def _of_polars(source: Any, query: str | None) -> Source:
    """Return the rows of a lazy frame, which runs a batch at a time."""
    load_pyarrow()
    lazy = source.lazy()
    if query is not None:
        lazy = lazy.sql(query)
    if not hasattr(lazy, "collect_batches"):
        raise ReadError(
            "this version of Polars gives no batches of a lazy frame; install pairlearn[sql]."
        )

    def run(size: int) -> Iterator[Any]:
        for frame in lazy.collect_batches(chunk_size=size, maintain_order=True):
            yield from _cut(frame.to_arrow(), size)

    return Source(lazy.head(0).collect().to_arrow().schema, run)


def _cut(table: Any, size: int) -> Iterator[Any]:
    """Yield the batches of a table or data set in parts of at most `size` rows."""
    for batch in table.to_batches():
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size)
