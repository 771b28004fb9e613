# SPDX-License-Identifier: BSD-3-Clause
r"""The SELECTs that give extents and exact class moments.

A value x of a column with quantum 2^e becomes the whole number nearest to x / 2^e, ties to even, as
on the `Grid` of `pairlearn.solvers`. Floats of databases are those of IEEE, so that two facts are
enough. A product with a power of two is exact. And v + 2^52 - 2^52 rounds 0 <= v < 2^52 to the
nearest whole number, ties to even, since floats between 2^52 and 2^53 are the whole numbers; larger
floats are whole already.

The whole numbers are summed in a type that holds the sums exactly. If it is too short, a number k
is cut into limbs, k = sum_p k_p 2^(L p), each at most 2^(L - 1) in size, which is exact for floats
of any size. Then

    sum w k k' = sum_{r, s} 2^(M r + L s) sum_rows w_r sum_{p + q = s} k_p k'_q,

and every sum over rows on the right stays below the largest number. The origin of a column on the
grid is taken off the sums afterwards, in Python's whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pairlearn.cluster.sql.dialects import Dialect, dialect_of
from pairlearn.solvers.closed_form.grid import Extents, Grid

#: From here on all floats are whole numbers; literals up to here are exact in every database.
_WHOLE = 1 << 52
#: The smallest exponent of a normal float: smaller ones count as 0 in extents.
_NORMAL = -1022


@dataclass(frozen=True)
class Rows:
    """Which rows and columns of a database moments are about.

    Parameters
    ----------
    columns, target, weight, table, query, dialect
        As of `class_moments`.

    Examples
    --------
    >>> print(Rows(("age",), "bought", table="visitors").source)
    FROM "visitors" AS source
    """

    columns: Sequence[str]
    target: str
    weight: str | None = None
    table: str | Sequence[str] | None = None
    query: str | None = None
    dialect: str | Dialect = "duckdb"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dialect", dialect_of(self.dialect))
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

    It gives the number of rows; for each column the number of its values, the smallest and the
    largest one, the number of those other than 0 and the smallest size of them; for weights the
    number, the smallest, the largest and how many are no whole numbers.
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

    `reach` has the smallest and the largest size of the values other than 0, None for none. An
    exponent is found by comparisons, which are exact.
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
    if len(shown) > rows.own.most_columns:
        raise ValueError(
            f"moments of {len(rows.columns)} columns take a result of {len(shown)} columns, and "
            f"this dialect allows {rows.own.most_columns}; choose fewer columns."
        )
    named = [
        f"{_layer(k)} AS NOT MATERIALIZED (\n{layer}{rows.own.fence}\n)"
        for k, layer in enumerate(layers)
    ]
    last = _layer(len(layers) - 1)
    return f"WITH {', '.join(named)}\nSELECT {', '.join(shown)}\nFROM {last}{after}"


def _layer(k: int) -> str:
    return f"pairlearn_layer{k}"


@dataclass(frozen=True)
class Limbs:
    """The number and the bits of limbs of values and of weights; one is the number itself.

    Examples
    --------
    >>> Limbs.planned(1000, 1 << 84, 1, largest=1 << 127)
    Limbs(n=2, bits=43, n_weight=1, weight_bits=0)
    """

    n: int = 1
    bits: int = 0
    n_weight: int = 1
    weight_bits: int = 0

    @classmethod
    def planned(cls, n_rows: int, size: int, weight: int, largest: int | None) -> Limbs | None:
        """Return the fewest limbs whose sums stay below `largest`; None if there are none.

        `size` and `weight` are the largest value and weight, in quanta.
        """
        if largest is None:
            return cls()
        best: tuple[int, Limbs] | None = None
        for n_weight, weight_bits, heavy in _cuts(weight):
            for n, bits, long in _cuts(size):
                if n_rows * heavy * long * long * n < largest:
                    cost = n_weight * (2 * n - 1)
                    if best is None or cost < best[0]:
                        best = cost, cls(n, bits, n_weight, weight_bits)
                    # Shorter limbs are more limbs.
                    break
        return None if best is None else best[1]


def _cuts(size: int) -> list[tuple[int, int, int]]:
    """Return ways to cut numbers up to a size: limbs, their bits, and the size of the largest."""
    ways = [(1, 0, size)]
    for n in range(2, 12):
        # The fewest bits at which n limbs hold the number: the last one takes what is left.
        bits = next((b for b in range(2, 60) if (size >> (b * (n - 1))) + 1 <= 1 << (b - 1)), None)
        if bits is not None:
            ways.append((n, bits, 1 << (bits - 1)))
    return ways


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
        size = max(max(abs(low), abs(high)) for low, high in self._bounds())
        weight, planned = self._largest_weight(), None
        if max(size, weight) <= 1 << own.reach:
            largest = None if own.bits is None else 1 << own.bits
            planned = Limbs.planned(n_rows, size, weight, largest)
        if planned is None:
            raise ValueError(
                f"the values reach {_shown(size)} steps of the grid with weights up to "
                f"{_shown(weight)}, and {own.whole} does not hold the sums over {n_rows} rows; "
                "leave far values out, or read the rows in batches, which have no limit "
                "(batch_moments)."
            )
        return planned

    def _bounds(self) -> list[tuple[int, int]]:
        """Return the smallest and the largest value of each column in quanta from zero."""
        low, high = (
            self.grid.exact_steps(end.reshape(1, -1))[0]
            for end in (self.extents.low, self.extents.high)
        )
        starts = [int(start) for start in self.grid.origin]
        return [(int(a) + o, int(b) + o) for a, b, o in zip(low, high, starts, strict=True)]

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
            _same(names) | {"bad": self._is_bad()},
            *self._cutting(names, limbs),
        ]
        shown = ["c", "COUNT(*)", "SUM(bad)", *self._aggregates(limbs)]
        selects = []
        for k, layer in enumerate(layers):
            columns = ", ".join(f"{value} AS {name}" for name, value in layer.items())
            selects.append(f"SELECT c, {columns} FROM {_layer(k)}")
        return _select(rows, shown, rows.examples, *selects, after="\nGROUP BY c")

    def _was_whole(self) -> dict[str, str]:
        if self.rows.weight is None or self.grid.weight_exponent:
            return {}
        return {"fit": f"CASE WHEN u = {rounded('u')} THEN 1 ELSE 0 END"}

    def _is_bad(self) -> str:
        """Return 1 for rows that the statement was not written for: NULL, or beyond the extents."""
        checks = []
        for j, ends in enumerate(self._bounds()):
            low, high = map(self._literal, ends)
            checks.append(f"v{j} BETWEEN {low} AND {high}")
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
        plan = {
            name: (limbs.n_weight, limbs.weight_bits) if name == "u" else (limbs.n, limbs.bits)
            for name in names
        }
        layers: list[dict[str, str]] = []
        carried = {"bad": "bad"}
        for place in range(max(n for n, _ in plan.values()) - 1):
            highs, lows, others = {}, {}, _same(names)
            for name, (n, bits) in plan.items():
                if place < n - 1:
                    highs[f"h{name}"] = rounded(scaled(name, -bits))
                    lows[f"{name}_{place}"] = f"{name} - {scaled(f'h{name}', bits)}"
                    others[name] = f"h{name}"
            layers += [_same(names) | highs | carried, others | lows | carried]
            carried |= _same(lows)
        last = {"bad": "bad"}
        for name, (n, _) in plan.items():
            parts = [*(f"{name}_{place}" for place in range(n - 1)), name]
            last |= {
                f"{name}_{place}": self.rows.own.from_double.format(part)
                for place, part in enumerate(parts)
            }
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

    def sums_of(self, numbers: Iterable[int]) -> tuple[int, list[int], list[int]]:
        """Return total, sums and products of one class from the numbers of its row."""
        limbs, d = self.limbs, len(self.rows.columns)
        # Without weights an example weighs one, in quanta of weights.
        unit = 0 if self.rows.weight is not None else -self.grid.weight_exponent
        total, sums, products = 0, [0] * d, [0] * (d * (d + 1) // 2)
        left = iter(numbers)
        for r in range(limbs.n_weight):
            shift = unit + limbs.weight_bits * r
            total += next(left) << shift
            for j in range(d):
                for p in range(limbs.n):
                    sums[j] += next(left) << (shift + limbs.bits * p)
            for place in range(len(products)):
                for s in range(2 * limbs.n - 1):
                    products[place] += next(left) << (shift + limbs.bits * s)
        # From the origins of the columns: k = v - o.
        o, place = [int(start) for start in self.grid.origin], 0
        for i in range(d):
            for j in range(i + 1):
                products[place] += o[i] * o[j] * total - o[j] * sums[i] - o[i] * sums[j]
                place += 1
        return total, [s - o[j] * total for j, s in enumerate(sums)], products


def _shown(number: int) -> str:
    """Return a number in a few digits; one beyond floats as a power of two."""
    bits = number.bit_length()
    return f"{number:.3g}" if bits < 1024 else f"2^{bits}"


def _same(names: Iterable[str]) -> dict[str, str]:
    return {name: name for name in names}
