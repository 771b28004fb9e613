# SPDX-License-Identifier: BSD-3-Clause
"""Read the result of a query to a DuckDB database in Arrow batches; needs DuckDB and PyArrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pairlearn.streams.readers.base import ReadError
from pairlearn.streams.readers.files import check_file

_EXTRA = "queries need DuckDB and PyArrow; install pairlearn[sql]."


def load_duckdb() -> Any:
    """Import DuckDB, or say how to install it."""
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ImportError:
        raise ReadError(_EXTRA) from None
    return duckdb


@dataclass(frozen=True)
class Queried:
    """A query to a database file: what a reader takes in the place of a path.

    Parameters
    ----------
    path : str
        The database file; it is opened for reading only.
    query : str
        One SELECT.

    Examples
    --------
    >>> os.path.basename(Queried("folder/sales.duckdb", "SELECT * FROM sales"))
    'sales.duckdb'
    """

    path: str
    query: str

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return f"the query to {self.path}"

    def stat(self) -> os.stat_result:
        """Return the facts about the file."""
        return os.stat(self.path)

    def opened(self) -> QueryFile:
        """Connect to the database and look at the columns of the query."""
        duckdb = load_duckdb()
        check_file(Path(self.path))
        try:
            # Without replacements, no name in the query means a variable of this program.
            config = {"python_enable_replacements": False}
            connection = duckdb.connect(self.path, read_only=True, config=config)
        except duckdb.Error as error:
            raise ReadError(f"{self.path} cannot be opened: {_first_line(error)}.") from None
        return QueryFile(connection, self.query, self.path)


class QueryFile:
    """The result of a query, asked anew each time; it reads like a Parquet file.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        The database.
    query : str
        One SELECT.
    name : str, default="the database"
        What messages call the database.
    """

    def __init__(self, connection: Any, query: str, name: str = "the database") -> None:
        import pyarrow

        self._duckdb, self._pa = load_duckdb(), pyarrow
        self._connection, self._name = connection, name
        self._query = self._one_select(query)
        self.schema = arrow_schema(self._relation())

    def _one_select(self, query: str) -> str:
        """Return the query without its end; refuse anything but one SELECT before it is run."""
        if not isinstance(query, str) or not query.strip():
            raise ReadError(f"the query must be one SELECT, got {query!r}.")
        try:
            found = self._connection.extract_statements(query)
        except self._duckdb.Error as error:
            raise self._failed(error) from None
        kinds = [str(one.type).rpartition(".")[2] for one in found]
        if kinds not in (["SELECT"], ["SELECT_STATEMENT"]):
            raise ReadError(
                f"the query must be one SELECT, got {len(kinds)} statements "
                f"({', '.join(kinds[:3]) or 'none'}): only reading is allowed."
            )
        # It becomes part of others, where nothing may follow a semicolon.
        raw, tokens = query.encode(), self._duckdb.tokenize(query)
        comment = self._duckdb.token_type.comment
        while tokens and (tokens[-1][1] == comment or raw[tokens[-1][0] :].startswith(b";")):
            raw = raw[: tokens.pop()[0]]
        return raw.decode()

    def _failed(self, error: Exception) -> ReadError:
        return ReadError(f"{self._name} refuses the query: {_first_line(error)}")

    def _relation(self) -> Any:
        try:
            return self._connection.sql(self._query)
        except self._duckdb.Error as error:
            raise self._failed(error) from None

    def _reader(self, size: int) -> Any:
        """Return a reader of record batches of the whole result."""
        relation = self._relation()
        try:
            return arrow_reader(relation, size)
        except self._duckdb.Error as error:
            raise self._failed(error) from None

    def iter_batches(
        self, size: int, *, columns: Sequence[str] | None = None, use_threads: bool = False
    ) -> Iterator[Any]:
        """Run the query; yield its rows in batches of at most `size`, as a Parquet file does."""
        reader = self._reader(size)
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except (self._duckdb.Error, self._pa.ArrowException, OSError) as error:
                raise self._failed(error) from None
            if batch.num_rows:
                yield batch if columns is None else batch.select(list(columns))


def tables_of(path: str) -> list[str]:
    """Return the names of the tables and views of a database file."""
    found = Queried(path, "SELECT table_name FROM information_schema.tables ORDER BY 1").opened()
    return [name for batch in found.iter_batches(1000) for name in batch.column(0).to_pylist()]


def arrow_reader(relation: Any, size: int) -> Any:
    """Return a reader of the record batches of a relation of DuckDB, which is run anew."""
    # Older versions know the method by another name; an unknown name of a relation is a column.
    kind = type(relation)
    read = getattr(kind, "to_arrow_reader", None) or kind.fetch_arrow_reader
    return read(relation, size)


def arrow_schema(relation: Any) -> Any:
    """Return names and types of the columns of a relation of DuckDB, which is not run."""
    types = arrow_reader(relation.limit(0), 1).schema.types
    # A limit gives new names to columns of one name.
    import pyarrow

    return pyarrow.schema(list(zip(relation.columns, types, strict=True)))


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
