# SPDX-License-Identifier: BSD-3-Clause
"""How databases write numbers: types, the size of exact sums, and what keeps a query in steps."""

from __future__ import annotations

from dataclasses import dataclass

from pairlearn.register import Part, Register


@dataclass(frozen=True, repr=False)
class Dialect(Part):
    """A dialect of SQL, as far as exact moments need it. For your own database, make one.

    Parameters
    ----------
    double : str
        The type of floats of 64 bits.
    whole : str
        The type of whole numbers in which sums are exact.
    bits : int or None
        Such numbers are below 2^bits in size; None for no limit.
    from_double : str
        A cast of the whole double ``{}`` to that type, exact up to 2^`reach`.
    reach : int
        The largest size of such a double, as a power of two.
    number : str
        The float of the column ``{}``; NULL if the column holds no number.
    fence : str
        What at the end of an inner query keeps the planner from writing it out into the outer one.
    most_columns : int
        The limit on columns of a result.
    ignores_case : bool
        Whether names that differ in the case of letters are one, even in quotes.

    Examples
    --------
    >>> print(DIALECTS.make("sqlite").bits, DIALECTS.make("postgresql").quoted('5" nails'))
    63 "5"" nails"
    """

    double: str
    whole: str
    bits: int | None
    from_double: str
    reach: int
    number: str
    fence: str = ""
    most_columns: int = 10_000
    ignores_case: bool = False

    def key(self, name: str) -> str:
        """Return what names of one column have in common."""
        return name.lower() if self.ignores_case and isinstance(name, str) else name

    def quoted(self, name: str) -> str:
        """Return a name as an identifier, whatever it holds."""
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"a name of a column or table must be a text, got {name!r}.")
        return '"' + name.replace('"', '""') + '"'


DIALECTS: Register[Dialect] = Register("dialect", Dialect)


@DIALECTS.add("duckdb")
@dataclass(frozen=True, repr=False)
class DuckDB(Dialect):
    """DuckDB: HUGEINT has 128 bits, and what overflows it is an error.

    A column of texts counts as NULL: a cast would read '007' and '1_000' as numbers. So do columns
    of bits, whose pattern it would take for that of a float, and dates, which it does not take.
    """

    double: str = "DOUBLE"
    whole: str = "HUGEINT"
    bits: int | None = 127
    from_double: str = "CAST({} AS HUGEINT)"
    reach: int = 120
    number: str = (
        "CASE WHEN typeof({0}) NOT IN ('VARCHAR', 'JSON', 'BIT') AND typeof({0}) NOT LIKE 'ENUM%' "
        "THEN TRY_CAST({0} AS DOUBLE) END"
    )
    ignores_case: bool = True


@DIALECTS.add("postgresql")
@dataclass(frozen=True, repr=False)
class PostgreSQL(Dialect):
    """PostgreSQL: NUMERIC has no limit that matters. A cast of floats to it keeps 15 digits only.

    So a float becomes a BIGINT first. A column of texts counts as NULL.
    """

    double: str = "DOUBLE PRECISION"
    whole: str = "NUMERIC"
    bits: int | None = None
    from_double: str = "CAST(CAST({} AS BIGINT) AS NUMERIC)"
    reach: int = 62
    number: str = (
        "CASE WHEN pg_typeof({0}) NOT IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype) "
        "THEN CAST({0} AS DOUBLE PRECISION) END"
    )
    fence: str = " OFFSET 0"
    most_columns: int = 1_600


@DIALECTS.add("sqlite")
@dataclass(frozen=True, repr=False)
class SQLite(Dialect):
    """SQLite: whole numbers have 64 bits, so that values are summed in pieces.

    A text in a column of numbers counts as NULL, since a cast would make 0 of it.
    """

    double: str = "REAL"
    whole: str = "INTEGER"
    bits: int | None = 63
    from_double: str = "CAST({} AS INTEGER)"
    reach: int = 52
    number: str = "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END"
    fence: str = " LIMIT -1 OFFSET 0"
    most_columns: int = 1_900
    ignores_case: bool = True
