# SPDX-License-Identifier: BSD-3-Clause
"""How databases write numbers: types, the size of exact sums, and what keeps a query in steps."""

from __future__ import annotations

from dataclasses import dataclass

from pairlearn.register import nearest


@dataclass(frozen=True)
class Dialect:
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
        A cast of the whole double ``{0}`` to that type, exact up to 2^`reach`.
    reach : int
        The largest size of such a double, as a power of two.
    number : str
        The float of the column ``{0}``; NULL if the column holds no number.
    fence : str
        What at the end of an inner query keeps the planner from writing it out into the outer one.
    most_columns : int
        The limit on columns of a result.
    ignores_case : bool
        Whether names that differ in the case of letters are one, even in quotes.

    Examples
    --------
    >>> DIALECTS["duckdb"].bits, DIALECTS["postgresql"].quoted('5" nails')
    (127, '"5"" nails"')
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


#: Whole doubles in two parts of PostgreSQL, as a cast to NUMERIC keeps 15 digits only.
_HIGH = "TRUNC({0} / 4503599627370496)"
_PARTS = (
    f"(CAST(CAST({_HIGH} AS BIGINT) AS NUMERIC) * 4503599627370496 + "
    f"CAST(CAST({{0}} - {_HIGH} * 4503599627370496 AS BIGINT) AS NUMERIC))"
)

DIALECTS = {
    # HUGEINT has 128 bits, and what overflows it is an error. Texts, dates and bits count as NULL:
    # a cast would read '007' and '1_000' as numbers.
    "duckdb": Dialect(
        double="DOUBLE",
        whole="HUGEINT",
        bits=127,
        from_double="CAST({0} AS HUGEINT)",
        reach=120,
        number=(
            "CASE WHEN typeof({0}) NOT IN ('VARCHAR', 'JSON', 'BIT') AND typeof({0}) NOT LIKE "
            "'ENUM%' THEN TRY_CAST({0} AS DOUBLE) END"
        ),
        ignores_case=True,
    ),
    # NUMERIC has no limit that matters.
    "postgresql": Dialect(
        double="DOUBLE PRECISION",
        whole="NUMERIC",
        bits=None,
        from_double=_PARTS,
        reach=112,
        number=(
            "CASE WHEN pg_typeof({0}) NOT IN ('text'::regtype, 'varchar'::regtype, "
            "'bpchar'::regtype) THEN CAST({0} AS DOUBLE PRECISION) END"
        ),
        fence=" OFFSET 0",
        most_columns=1_600,
    ),
}


def dialect_of(named: str | Dialect) -> Dialect:
    """Return the dialect of a name, or the given one."""
    if isinstance(named, Dialect):
        return named
    if named not in DIALECTS:
        raise ValueError(f"there is no dialect {named!r}{nearest(str(named), list(DIALECTS))}")
    return DIALECTS[named]
