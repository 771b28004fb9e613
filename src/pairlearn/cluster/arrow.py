# SPDX-License-Identifier: BSD-3-Clause
"""Batches of Arrow as an engine: DuckDB, Polars, data sets, and whatever streams Arrow.

Every pass reads the rows again and holds one batch at a time, so that memory does not grow with
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pairlearn.cluster.columns import Columns, load_pyarrow
from pairlearn.cluster.statistic import State, Statistic
from pairlearn.validation import check_count

#: Rows of a batch: a block of some megabytes for tables of a few dozen columns.
BATCH_ROWS = 122_880

#: The schema of the rows, and what reads them anew in batches of at most so many.
_Source = tuple[Any, Callable[[int], Iterator[Any]]]


class OnArrow:
    """Rows of a query, a table or a stream of Arrow, for `fit_on`.

    Parameters
    ----------
    source : path, connection or relation of DuckDB, frame of Polars, data of Arrow, or callable
        Where the rows are. A path is a DuckDB file, which is opened for reading only. A table or a
        data set of Arrow, or a lazy frame of Polars, is read in every pass. So is what a function
        returns: a RecordBatchReader, an iterator of batches, or any object with
        ``__arrow_c_stream__``. Such an object itself (of ADBC, Ibis, Flight, pandas) may give its
        rows only once: they are held in memory.
    query : str, optional
        One SELECT, for a file or a connection of DuckDB, or for a frame of Polars, which it calls
        ``self``. It must give the same rows every time it runs, in any order.
    target : str
        The column of labels.
    columns : list of str, optional
        The columns of features, numbers all of them; by default all others. One name is that of a
        column of lists.
    weight : str, optional
        The column of weights.
    qid : str, optional
        The column of queries, of which each must lie in one batch.
    batch_rows : int, default=122880
        Rows in memory at once.

    Attributes
    ----------
    feature_names : list of str or None
        The columns of features.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pairlearn.cluster import LabelMoments
    >>> table = pa.table({"age": [20.0, 30.0, 40.0], "bought": [0, 1, 1]})
    >>> engine = OnArrow(table, target="bought")
    >>> statistic = LabelMoments()
    >>> statistic.finish(engine.run(statistic)).means[:, 0], engine.feature_names
    (array([20., 35.]), ['age'])
    """

    def __init__(
        self,
        source: Any,
        query: str | None = None,
        *,
        target: str,
        columns: str | Sequence[str] | None = None,
        weight: str | None = None,
        qid: str | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self.batch_rows = check_count("batch_rows", batch_rows)
        schema, self._read = _source_of(source, query)
        #: Which columns are features, labels and weights.
        self.columns = Columns.of(schema, target, columns, weight, qid)
        in_columns = self.columns.kind == "columns"
        self.feature_names = list(self.columns.features) if in_columns else None

    def run(self, statistic: Statistic) -> State:
        """Return the merged state of all batches."""
        blocks = self.columns.blocks(self._read(self.batch_rows))
        return statistic.merge_all(statistic.partial_state(**examples) for examples in blocks)


def _source_of(source: Any, query: str | None) -> _Source:
    if isinstance(source, (str, os.PathLike)):
        duckdb, path = _load_duckdb(), os.fspath(source)
        if not os.path.exists(path):
            raise FileNotFoundError(f"there is no database file {path!r}.")
        # Without replacements, no name in the query means a variable of this program.
        config = {"python_enable_replacements": False}
        return _of_query(duckdb.connect(path, read_only=True, config=config), query)
    room = type(source).__module__.partition(".")[0].lstrip("_")
    if room == "duckdb" and hasattr(source, "extract_statements"):
        return _of_query(source, query)
    if room == "polars":
        return _of_polars(source, query)
    if query is not None:
        raise ValueError(
            f"{type(source).__name__} takes no query: it is one already. Pass a connection of "
            "DuckDB with query=, or leave query out."
        )
    if room == "duckdb" and hasattr(source, "limit"):
        return _schema_of(source), lambda size: _reader(source.filter("true"), size)
    if room == "pyarrow" and hasattr(source, "to_batches"):
        return source.schema, lambda size: _cut(source.to_batches(), size)
    if hasattr(source, "__arrow_c_stream__"):
        table = load_pyarrow().table(source)
        return table.schema, lambda size: _cut(table.to_batches(), size)
    if callable(source):
        schema, _ = _stream(source())
        return schema, lambda size: _cut(_stream(source())[1], size)
    raise TypeError(
        "source must be a database file, a connection or relation of DuckDB, a frame of Polars, "
        "data of Arrow (with __arrow_c_stream__), or a function that returns batches, got "
        f"{type(source).__name__}."
    )


def _load_duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise ImportError("DuckDB is not installed; pip install 'pairlearn[sql]'.") from None
    load_pyarrow()
    return duckdb


def _of_query(connection: Any, query: str | None) -> _Source:
    """Return the rows of one SELECT; refuse anything else before it is run."""
    duckdb = _load_duckdb()
    if not isinstance(query, str) or not query.strip():
        raise ValueError("a database needs a query; pass query='SELECT ...'.")
    try:
        statements = connection.extract_statements(query)
        kinds = [str(one.type).rpartition(".")[2] for one in statements]
        if kinds not in (["SELECT"], ["SELECT_STATEMENT"]):
            raise ValueError(
                f"the query must be one SELECT, got {len(kinds)} statements "
                f"({', '.join(kinds[:3]) or 'none'}): only reading is allowed."
            )
        # Without its end: it becomes part of others, where nothing may follow a semicolon.
        raw, tokens, comment = query.encode(), duckdb.tokenize(query), duckdb.token_type.comment
        while tokens and (tokens[-1][1] == comment or raw[tokens[-1][0] :].startswith(b";")):
            raw = raw[: tokens.pop()[0]]
        select = raw.decode()
        schema = _schema_of(connection.sql(select))
        return schema, lambda size: _reader(connection.sql(select), size)
    except duckdb.Error as error:
        raise ValueError(f"the database refuses the query: {_first_line(error)}") from None


def _schema_of(relation: Any) -> Any:
    """Return names and types of the columns of a relation of DuckDB, which is not run."""
    types = _arrow_reader(relation.limit(0), 1).schema.types
    # A limit gives new names to columns of one name.
    return load_pyarrow().schema(list(zip(relation.columns, types, strict=True)))


def _arrow_reader(relation: Any, size: int) -> Any:
    # Older versions know the method by another name; an unknown name of a relation is a column.
    kind = type(relation)
    read = getattr(kind, "to_arrow_reader", None) or kind.fetch_arrow_reader
    return read(relation, size)


def _reader(relation: Any, size: int) -> Iterator[Any]:
    """Run a relation of DuckDB; yield its batches."""
    duckdb = _load_duckdb()
    try:
        yield from _arrow_reader(relation, size)
    except (duckdb.Error, load_pyarrow().ArrowException, OSError) as error:
        raise ValueError(f"the database refuses the query: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _of_polars(source: Any, query: str | None) -> _Source:
    """Return the rows of a lazy frame, which runs a batch at a time."""
    load_pyarrow()
    lazy = source.lazy()
    if query is not None:
        lazy = lazy.sql(query)

    def read(size: int) -> Iterator[Any]:
        for frame in lazy.collect_batches(chunk_size=size, maintain_order=True):
            yield from _cut(frame.to_arrow().to_batches(), size)

    return lazy.head(0).collect().to_arrow().schema, read


def _stream(found: Any) -> tuple[Any, Iterator[Any]]:
    """Return the schema and the batches of what a function returned."""
    pa = load_pyarrow()
    if hasattr(found, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(found)
        return reader.schema, iter(reader)
    batches = iter(found)
    first = next(batches, None)
    if first is None:
        raise ValueError("the function that is the source gives no batch.")

    def every() -> Iterator[Any]:
        yield first
        yield from batches

    return first.schema, every()


def _cut(batches: Any, size: int) -> Iterator[Any]:
    """Yield batches in parts of at most `size` rows."""
    for batch in batches:
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size)
