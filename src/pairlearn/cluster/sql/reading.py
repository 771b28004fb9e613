# SPDX-License-Identifier: BSD-3-Clause
"""Exact class moments out of a database: three SELECTs, and one row for each class comes back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from pairlearn.cluster.columns import number_of
from pairlearn.cluster.sql.dialects import Dialect
from pairlearn.cluster.sql.moments import TableMoments, check_weight, table_moments
from pairlearn.cluster.sql.statements import MomentsSelect, Rows, exponents_sql, extents_sql
from pairlearn.solvers.closed_form.grid import Extents, Grid
from pairlearn.solvers.closed_form.table import Table

#: Runs a statement; returns its rows.
Execute = Callable[[str], Sequence[Sequence[Any]]]


def class_moments(
    database: Any,
    *,
    columns: Sequence[str],
    target: str,
    weight: str | None = None,
    table: str | Sequence[str] | None = None,
    query: str | None = None,
    dialect: str | Dialect = "duckdb",
    like: TableMoments | None = None,
) -> TableMoments:
    """Return the exact class moments of a table or query, computed inside the database.

    Two statements find out how far the columns reach, which makes the grid. The third one, a SELECT
    with GROUP BY, rounds values to the grid and sums whole numbers. The state is that of the same
    rows in memory, bit for bit.

    Parameters
    ----------
    database : connection or callable
        What runs a statement: an object with ``execute(sql).fetchall()`` or with ``cursor()``
        (DuckDB, psycopg, psycopg2), or a function from a statement to its rows.
    columns : sequence of str
        The columns of features: numbers, without NULL.
    target : str
        The column of labels, of two values.
    weight : str, optional
        The column of weights.
    table : str or sequence of str, optional
        The table; several names are those of its schema and itself. Names are quoted.
    query : str, optional
        One SELECT instead of a table, which becomes part of the statement as it is.
    dialect : "duckdb", "postgresql" or Dialect, default="duckdb"
        The dialect of SQL.
    like : TableMoments, optional
        Moments whose grid and labels to take; then the third statement is enough, and rows beyond
        the reach of the first ones are refused. Both have weights, or neither has.

    Returns
    -------
    TableMoments
        The moments: `model` makes a classifier of them, `without` takes rows back.

    Examples
    --------
    >>> import duckdb
    >>> db = duckdb.connect()
    >>> _ = db.execute("CREATE TABLE visits (age DOUBLE, bought INTEGER)")
    >>> _ = db.execute("INSERT INTO visits VALUES (20, 0), (30, 1), (45, 1), (28, 0)")
    >>> found = class_moments(db, table="visits", columns=["age"], target="bought")
    >>> found.moments.means[:, 0], found.classes
    (array([37.5, 24. ]), array([0, 1]))
    >>> db.close()
    """
    rows = Rows(columns, target, weight, table, query, dialect)
    run = _executed(database)
    check_weight(weight, like)
    if like is None:
        reach = _extents(rows, run)
        grid = Grid.of(reach)
    else:
        reach, grid = like.extents, like.grid
        if tuple(columns) != like.feature_names:
            raise ValueError(
                f"columns are {list(columns)}, those of the other moments "
                f"{list(like.feature_names)}."
            )
    select = MomentsSelect(rows, reach, grid)
    found = read_moments(select, run(select.sql), like=like)
    if like is None and found.n_examples != reach.n_rows:
        raise ValueError(
            f"the last statement saw {found.n_examples} rows, the first one {reach.n_rows}: the "
            "table changes meanwhile; run all of them in one transaction that reads a snapshot."
        )
    return found


def _executed(database: Any) -> Execute:
    # Some connections can be called, too.
    if not hasattr(database, "execute") and hasattr(database, "cursor"):

        def ask(statement: str) -> Sequence[Sequence[Any]]:
            with database.cursor() as cursor:
                cursor.execute(statement)
                answer: Sequence[Sequence[Any]] = cursor.fetchall()
                return answer

        return ask
    if not hasattr(database, "execute"):
        if callable(database):
            return database  # type: ignore[no-any-return]
        raise TypeError(
            f"database must be a connection or a function from a statement to its rows, got "
            f"{type(database).__name__}."
        )

    def run(statement: str) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = database.execute(statement).fetchall()
        return rows

    return run


def read_moments(
    select: MomentsSelect,
    result: Sequence[Sequence[Any]],
    *,
    like: TableMoments | None = None,
) -> TableMoments:
    """Return the moments that the rows of a result hold, one row for each class.

    Numbers may be whole numbers, decimals or texts; floats are refused, since a database that sums
    floats rounds. `like` are moments whose labels to take; one of them may then be absent.
    """
    check_weight(select.rows.weight, like)
    labels, known, n_rows = [], [], 0
    if not result:
        raise ValueError("the statement gives no row: the table is empty, or all weights are 0.")
    for label, count, *_ in result:
        if label is None or label != label:
            raise ValueError(
                f"column {select.rows.target!r} is {'NULL' if label is None else 'NaN'} in {count} "
                "rows; leave them out (WHERE)."
            )
        if not isinstance(label, (str, int, float, Decimal, np.generic)):
            raise ValueError(
                f"column {select.rows.target!r} holds {type(label).__name__}; labels are numbers, "
                "texts or true and false."
            )
    if len({isinstance(label, str) for label, *_ in result}) > 1:
        raise ValueError(
            f"column {select.rows.target!r} holds texts and numbers; give its labels one type with "
            "CAST."
        )
    if len(result) > 2:
        raise ValueError(
            f"column {select.rows.target!r} has {len(result)} different values, two are needed."
        )
    for label, count, bad, *numbers in result:
        if whole_number(bad):
            raise ValueError(
                f"{whole_number(bad)} rows of the class {label!r} hold NULL, a weight that the "
                "grid does not hold, or a value beyond the extents that the statement was written "
                "for; leave them out (WHERE ... IS NOT NULL), or ask for the extents anew."
            )
        known.append(select.sums_of([whole_number(value) for value in numbers]))
        labels.append(_label(label, select.rows.target))
        n_rows += whole_number(count)
    names, weighed = select.rows.columns, select.rows.weight is not None
    table = Table.of_sums(select.grid, known)
    return table_moments(table, labels, n_rows, names, select.extents, like, weighed=weighed)


def whole_number(value: Any) -> int:
    """Return a whole number of a database; refuse what was rounded.

    >>> whole_number(Decimal("12")), whole_number("-3")
    (12, -3)
    """
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (Decimal, str)):
        number = Decimal(value)
        if number.is_finite() and number == number.to_integral_value():
            return int(number)
    raise ValueError(
        f"the database gives {value!r} where a whole number is expected: it sums floats, or the "
        "sum does not fit; use another dialect, or read the rows in batches (batch_moments)."
    )


def _label(value: Any, target: str) -> Any:
    if isinstance(value, Decimal):
        return number_of(value, target)
    return value


def _extents(rows: Rows, run: Execute) -> Extents:
    """Return how far the columns reach: two statements."""
    (first,) = run(extents_sql(rows))
    n, d = whole_number(first[0]), len(rows.columns)
    if not n:
        weights = ", or all weights are 0" if rows.weight is not None else ""
        raise ValueError(f"the table has no row{weights}; check the query.")
    low, high = np.empty(d), np.empty(d)
    n_values, reach = np.zeros(d, dtype=np.int64), []
    for j, name in enumerate(rows.columns):
        there, *ends, other, size = first[1 + 5 * j : 6 + 5 * j]
        if whole_number(there) != n:
            raise ValueError(
                f"column {name!r} is NULL, or no number, in {n - whole_number(there)} of {n} rows; "
                "leave them out (WHERE ... IS NOT NULL), or give them a value (COALESCE)."
            )
        low[j], high[j] = (float(end) for end in ends)
        if not (math.isfinite(low[j]) and math.isfinite(high[j])):
            raise ValueError(f"column {name!r} holds NaN or infinity; leave such rows out (WHERE).")
        n_values[j] = whole_number(other)
        largest = max(abs(low[j]), abs(high[j]))
        reach.append((float(size), largest) if n_values[j] else None)
    (second,) = run(exponents_sql(rows, reach))
    exponents = np.array([whole_number(value) for value in second], dtype=np.int64)
    found = Extents(low + 0.0, high + 0.0, exponents, n_values, n_rows=n)
    return found if rows.weight is None else _with_weights(found, rows.weight, first[-4:])


def _with_weights(found: Extents, name: str, facts: Sequence[Any]) -> Extents:
    there, smallest, largest, fractions = facts
    if whole_number(there) != found.n_rows:
        raise ValueError(
            f"column {name!r} is NULL, or no number, in {found.n_rows - whole_number(there)} rows; "
            "every row needs a weight."
        )
    ends = [float(smallest), float(largest)]
    if not (ends[0] > 0.0 and math.isfinite(ends[1])):
        wrong = ends[0] if ends[0] < 0.0 else ends[1]
        raise ValueError(f"weights must be finite and at least 0, column {name!r} has {wrong!r}.")
    told = found.with_weights(np.array(ends))
    # Both ends may be whole where others are not.
    whole = told.whole_weights and not whole_number(fractions)
    return Extents(**{**vars(told), "whole_weights": whole})
