# SPDX-License-Identifier: BSD-3-Clause
r"""The SELECTs that give extents and exact class moments, for any database.

A value x of a column with quantum 2^e becomes the whole number nearest to x / 2^e, ties to even, as
on the `Grid` of `pairlearn.solvers`. Floats of databases are those of IEEE, so that two facts are
enough. A product with a power of two is exact. And v + 2^52 - 2^52 rounds 0 <= v < 2^52 to the
nearest whole number, ties to even, since floats between 2^52 and 2^53 are the whole numbers.
The whole numbers are summed in a type that holds the sums exactly, in limbs if it is too short.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pairlearn.solvers.closed_form.grid import Extents, Grid
from pairlearn.sql.dialects import DIALECTS, Dialect
from pairlearn.sql.limbs import Limbs

#: From here on all floats are whole numbers; literals up to here are exact in every database.
_WHOLE = 1 << 52
#: The smallest exponent of a normal float: smaller ones count as 0 in extents.
_NORMAL = -1022


@dataclass(frozen=True)
class Rows:
    """Which rows and columns of a database moments are about.

    Parameters
    ----------
    columns : sequence of str
        The columns of features.
    target : str
        The column of labels.
    weight : str or None, default=None
        The column of weights.
    table : str, sequence of str or None, default=None
        A table; several names are those of its schema and itself.
    query : str or None, default=None
        One SELECT instead of a table. It is part of the statement as it is: never put text of
        strangers into it.
    dialect : str or Dialect, default="duckdb"
        The dialect of SQL.

    Examples
    --------
    >>> print(Rows(["age"], "bought", table="visitors").source)
    FROM "visitors" AS source
    """

    columns: Sequence[str]
    target: str
    weight: str | None = None
    table: str | Sequence[str] | None = None
    query: str | None = None
    dialect: str | Dialect = "duckdb"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dialect", DIALECTS.make(self.dialect))
        if isinstance(self.columns, str) or not len(self.columns):
            raise ValueError(f"columns must be a list of names, got {self.columns!r}.")
        object.__setattr__(self, "columns", tuple(self.columns))
        names = [*self.columns, self.target, *([] if self.weight is None else [self.weight])]
        keys = [self.own.key(name) for name in names]
        twice = [name for name, key in zip(names, keys, strict=True) if keys.count(key) > 1]
        if twice:
            raise ValueError(f"the column {twice[0]!r} is named twice; name each column once.")
        if (self.table is None) == (self.query is None):
            raise ValueError("pass either table= or query=.")
        self.source  # noqa: B018 - a name that cannot be quoted is refused here

    @property
    def own(self) -> Dialect:
        """The dialect."""
        assert isinstance(self.dialect, Dialect)
        return self.dialect

    @property
    def source(self) -> str:
        """FROM, with the table or the query."""
        if self.query is not None:
            # On lines of their own: a query may end with a comment.
            return f"FROM (\n{self.query.strip().rstrip(';')}\n) AS source"
        assert self.table is not None
        parts: list[Any] = [self.table]
        if isinstance(self.table, (list, tuple)):
            parts = list(self.table)
        return f"FROM {'.'.join(self.own.quoted(part) for part in parts)} AS source"

    def _column(self, name: str) -> str:
        # With its table: by itself, a quoted name that is no column is a text in SQLite.
        return f"source.{self.own.quoted(name)}"

    @property
    def examples(self) -> str:
        """An inner query: label c, values v0, v1, ... and weight u; weights of 0 are left out."""
        names = [("u", self.weight)] if self.weight is not None else []
        names += [(f"v{j}", name) for j, name in enumerate(self.columns)]
        shown = [f"{self._column(self.target)} AS c"]
        shown += [f"{self.own.number.format(self._column(name))} AS {n}" for n, name in names]
        return f"SELECT {', '.join(shown)} {self.source}" + (
            # What is NULL, or no number, is kept to be refused.
            f" WHERE COALESCE({self.own.number.format(self._column(self.weight))}, 1) <> 0"
            if self.weight is not None
            else ""
        )


def scaled(value: str, exponent: int) -> str:
    """Return a float times 2^exponent, exact unless it overflows.

    >>> scaled("x", 3), scaled("x", -60)
    ('x * 8', 'x / 4503599627370496 / 256')
    """
    sign = "*" if exponent > 0 else "/"
    whole, rest = divmod(abs(exponent), 52)
    steps = [_WHOLE] * whole + ([1 << rest] if rest else [])
    return "".join([value, *(f" {sign} {step}" for step in steps)])


def rounded(value: str) -> str:
    """Return the whole number nearest to a float, ties to even, as a float."""
    v = value if value.isidentifier() else f"({value})"
    return (
        f"CASE WHEN {v} >= 0 AND {v} < {_WHOLE} THEN ({v} + {_WHOLE}) - {_WHOLE} "
        f"WHEN {v} < 0 AND {v} > -{_WHOLE} THEN {_WHOLE} - ({_WHOLE} - {v}) ELSE {v} END"
    )


def extents_sql(rows: Rows) -> str:
    """Return the SELECT of one row that says how far the columns reach.

    Parameters
    ----------
    rows : Rows
        The rows.

    Returns
    -------
    str
        The statement: the number of rows; for each column the number of its values, the smallest
        and the largest one, the number of those other than 0 and the smallest size of them; for
        weights the number, the smallest, the largest and how many are no whole numbers.
    """
    power = scaled(f"CAST(1 AS {rows.own.double})", _NORMAL)
    shown = ["COUNT(*)"]
    for j in range(len(rows.columns)):
        size = f"CASE WHEN ABS(v{j}) >= {power} THEN ABS(v{j}) END"
        shown += [f"COUNT(v{j})", f"MIN(v{j})", f"MAX(v{j})", f"COUNT({size})", f"MIN({size})"]
    if rows.weight is not None:
        whole = f"CASE WHEN u = {rounded('u')} THEN 0 ELSE 1 END"
        shown += ["COUNT(u)", "MIN(u)", "MAX(u)", f"SUM({whole})"]
    return _select(rows, shown, rows.examples)


def exponents_sql(rows: Rows, reach: Sequence[tuple[float, float] | None]) -> str:
    """Return the SELECT of one row with the sum of the binary exponents of each column.

    Parameters
    ----------
    rows : Rows
        The rows.
    reach : sequence of (float, float) or None
        The smallest and the largest size of the values of a column other than 0; None for none.

    Returns
    -------
    str
        The statement. An exponent is found by comparisons, which are exact.
    """
    one, shown = f"CAST(1 AS {rows.own.double})", []
    for j, sizes in enumerate(reach):
        if sizes is None:
            shown.append("SUM(0)")
            continue
        low, high = (math.frexp(size)[1] for size in sizes)
        steps = [f"WHEN ABS(v{j}) >= {scaled(one, e - 1)} THEN {e}" for e in range(high, low, -1)]
        normal = f"WHEN ABS(v{j}) >= {scaled(one, _NORMAL)} THEN {low}"
        shown.append(f"SUM(CASE {' '.join([*steps, normal])} ELSE 0 END)")
    return _select(rows, shown, rows.examples)


def _select(rows: Rows, shown: Sequence[str], *layers: str, after: str = "") -> str:
    """Return a SELECT of the last of layers, each of which reads the one before it.

    Layers are named: as nested queries they would be too deep for some parsers.
    """
    _check_width(rows, len(shown))
    named = [
        f"{_layer(k)} AS NOT MATERIALIZED (\n{layer}{rows.own.fence}\n)"
        for k, layer in enumerate(layers)
    ]
    last = _layer(len(layers) - 1)
    return f"WITH {', '.join(named)}\nSELECT {', '.join(shown)}\nFROM {last}{after}"


def _layer(k: int) -> str:
    """Return the name of a layer, which no table should have: SQLite would read the layer."""
    return f"pairlearn_layer{k}"


def _check_width(rows: Rows, n_columns: int) -> None:
    if n_columns > rows.own.most_columns:
        raise ValueError(
            f"moments of {len(rows.columns)} columns take a result of {n_columns} columns, and "
            f"this dialect allows {rows.own.most_columns}; choose fewer columns."
        )


@dataclass(frozen=True)
class MomentsSelect:
    """The SELECT of exact class moments, and what its columns mean.

    Parameters
    ----------
    rows : Rows
        The rows.
    extents : Extents
        How far the columns reach; a row beyond is counted and refused by whoever reads the result.
    grid : Grid
        The grid of the moments.
    """

    rows: Rows
    extents: Extents
    grid: Grid

    @property
    def limbs(self) -> Limbs:
        """How values and weights are cut."""
        own, n_rows = self.rows.own, max(self.extents.n_rows, 1)
        bounds = self._bounds()
        size = max(max(abs(low), abs(high)) for low, high in bounds)
        weight = self._largest_weight()
        found = None
        if max(size, weight) <= 1 << own.reach:
            largest = None if own.bits is None else 1 << own.bits
            found = Limbs.planned(n_rows, size, weight, largest)
        if found is not None and found.n * found.n_weight > 1 and max(size, weight) > _WHOLE:
            found = None  # limbs are cut from floats, which hold whole numbers up to 2^53
        if found is None:
            raise ValueError(
                f"the values reach {_shown(size)} steps of the grid with weights up to "
                f"{_shown(weight)}, "
                f"and {own.whole} does not hold the sums over {n_rows} rows; leave far values out, "
                "or read the rows in batches, which have no limit (batch_moments)."
            )
        return found

    def _bounds(self) -> list[tuple[int, int]]:
        """Return the smallest and the largest value of each column in quanta from its origin."""
        low, high = (
            self.grid.exact_steps(end.reshape(1, -1))[0]
            for end in (self.extents.low, self.extents.high)
        )
        return [(int(a), int(b)) for a, b in zip(low, high, strict=True)]

    def _largest_weight(self) -> int:
        if self.rows.weight is None:
            return 1 << max(-self.grid.weight_exponent, 0)
        return math.ceil(math.ldexp(self.extents.largest_weight, -self.grid.weight_exponent))

    @property
    def sql(self) -> str:
        """The statement: a row for each label, which is its first column."""
        rows, limbs = self.rows, self.limbs
        d, has_weight = len(rows.columns), rows.weight is not None
        names = [*(["u"] if has_weight else []), *(f"v{j}" for j in range(d))]
        units = {f"v{j}": int(e) for j, e in enumerate(self.grid.exponents)}
        units["u"] = self.grid.weight_exponent
        in_quanta = {name: rounded(scaled(name, -units[name])) for name in names}
        layers = [
            in_quanta | self._was_whole(),
            {name: name for name in names} | {"bad": self._is_bad()},
            *self._cutting(names, limbs),
        ]
        shown = ["c", "COUNT(*)", "SUM(bad)", *self._aggregates(limbs)]
        told = []
        for k, layer in enumerate(layers):
            columns = ", ".join(f"{value} AS {name}" for name, value in layer.items())
            told.append(f"SELECT c, {columns} FROM {_layer(k)}")
        return _select(rows, shown, rows.examples, *told, after="\nGROUP BY c")

    def __str__(self) -> str:
        return self.sql

    def _was_whole(self) -> dict[str, str]:
        if self.rows.weight is None or self.grid.weight_exponent:
            return {}
        return {"fit": f"CASE WHEN u = {rounded('u')} THEN 1 ELSE 0 END"}

    def _is_bad(self) -> str:
        """Return 1 for rows that the statement was not written for: NULL, or beyond the extents."""
        checks = []
        for j, (low, high) in enumerate(self._bounds()):
            start = int(self.grid.origin[j])
            ends = [self._literal(end + start) for end in (low, high)]
            checks.append(f"v{j} BETWEEN {ends[0]} AND {ends[1]}")
        if self.rows.weight is not None:
            checks.append(f"u BETWEEN 1 AND {self._literal(self._largest_weight())}")
            if not self.grid.weight_exponent:
                checks.append("fit = 1")
        return f"CASE WHEN {' AND '.join(checks)} THEN 0 ELSE 1 END"

    def _literal(self, number: int) -> str:
        if abs(number) <= _WHOLE:
            return str(number)
        return f"CAST('{float(number)!r}' AS {self.rows.own.double})"

    def _cutting(self, names: list[str], limbs: Limbs) -> list[dict[str, str]]:
        """Return the layers that make whole numbers of floats, limb by limb."""
        own, plan, starts = self.rows.own, {}, {}
        for name in names:
            weight = name == "u"
            plan[name] = (limbs.n_weight if weight else limbs.n,
                          limbs.weight_bits if weight else limbs.bits)  # fmt: skip
            starts[name] = 0 if weight else int(self.grid.origin[int(name[1:])])
        layers: list[dict[str, str]] = []
        kept = {"bad": "bad"}
        for place in range(max(n for n, _ in plan.values()) - 1):
            highs, lows, others = {}, {}, {name: name for name in names}
            for name, (n, bits) in plan.items():
                if place < n - 1:
                    value = name
                    if place == 0 and starts[name]:
                        # Exact: limbs are cut from floats below 2^53.
                        value = f"({name} - {self._literal(starts[name])})"
                    highs[f"h{name}"] = rounded(scaled(value, -bits))
                    lows[f"{name}_{place}"] = f"{value} - {scaled(f'h{name}', bits)}"
                    others[name] = f"h{name}"
            layers += [_same(names) | highs | kept, others | lows | kept]
            kept |= _same(lows)
        last = {"bad": "bad"}
        for name, (n, _) in plan.items():
            for place in range(n - 1):
                last[f"{name}_{place}"] = own.from_double.format(f"{name}_{place}")
            whole = own.from_double.format(name)
            if n == 1 and starts[name]:
                start = f"CAST({starts[name]} AS {own.whole})"
                whole = f"{whole} - {start}"
            last[f"{name}_{n - 1}"] = whole
        return [*layers, last]

    def _aggregates(self, limbs: Limbs) -> list[str]:
        """Return the sums, in the order in which `sums_of` reads them."""
        d, has_weight = len(self.rows.columns), self.rows.weight is not None
        shown: list[str] = []
        for r in range(limbs.n_weight):
            by = f"u_{r} * " if has_weight else ""
            shown.append(f"SUM(u_{r})" if has_weight else "COUNT(*)")
            shown += [f"SUM({by}v{j}_{p})" for j in range(d) for p in range(limbs.n)]
            for i in range(d):
                for j in range(i + 1):
                    for s in range(2 * limbs.n - 1):
                        pairs = [(p, s - p) for p in range(limbs.n) if 0 <= s - p < limbs.n]
                        terms = " + ".join(f"v{i}_{p} * v{j}_{q}" for p, q in pairs)
                        shown.append(f"SUM({by}({terms}))" if by else f"SUM({terms})")
        return shown

    def sums_of(self, found: Sequence[int]) -> tuple[int, list[int], list[int]]:
        """Return total, sums and products of one class from the numbers of its row."""
        limbs, d = self.limbs, len(self.rows.columns)
        # Without weights an example weighs one, in quanta of weights.
        unit = 0 if self.rows.weight is not None else -self.grid.weight_exponent
        total, sums, products = 0, [0] * d, [0] * (d * (d + 1) // 2)
        numbers = iter(found)
        for r in range(limbs.n_weight):
            shift = unit + limbs.weight_bits * r
            total += next(numbers) << shift
            for j in range(d):
                for p in range(limbs.n):
                    sums[j] += next(numbers) << (shift + limbs.bits * p)
            for place in range(len(products)):
                for s in range(2 * limbs.n - 1):
                    products[place] += next(numbers) << (shift + limbs.bits * s)
        return total, sums, products


def _shown(number: int) -> str:
    """Return a number in a few digits; one beyond floats as a power of two."""
    bits = number.bit_length()
    return f"{number:.3g}" if bits < 1024 else f"2^{bits}"


def _same(names: Iterable[str]) -> dict[str, str]:
    return {name: name for name in names}
