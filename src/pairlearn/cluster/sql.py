# SPDX-License-Identifier: BSD-3-Clause
"""Exact class moments out of a database: one SELECT, and one row for each class comes back.

A value x of a column with quantum 2^e becomes the whole number nearest to x / 2^e, ties to even,
less the origin of the column, as on the `Grid` of `Moments(ranges=...)`. Floats of databases are
those of IEEE, so that two facts are enough. A product with a power of two is exact. And
v + 2^52 - 2^52 rounds 0 <= v < 2^52 to the nearest whole number, since floats between 2^52 and 2^53
are the whole numbers; larger floats are whole already. The whole numbers are summed in a type that
holds the sums exactly, so the state is that of the same rows in memory, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from pairlearn.cluster.columns import number_of
from pairlearn.cluster.moments import in_order
from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.shared.decisions import DecisionRule
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.examples import two_classes
from pairlearn.estimators.shared.solvers import Moments
from pairlearn.features import Identity
from pairlearn.losses import Square
from pairlearn.register import nearest
from pairlearn.solvers.closed_form.grid import Grid
from pairlearn.solvers.closed_form.mapped_moments import MappedMoments
from pairlearn.solvers.closed_form.moments import ClassMoments
from pairlearn.solvers.closed_form.table import Table
from pairlearn.solvers.solution import Trace
from pairlearn.validation import check_positive

#: From here on all floats are whole numbers; literals up to here are exact in every database.
_WHOLE = 1 << 52
#: The largest distance from the origin, in quanta; ranges reach 2^44 of them.
_FURTHEST = 1 << 45
#: Quantiles of normal scores of each class, from which threshold and probabilities are found.
_QUANTILES = 2_000


@dataclass(frozen=True)
class _Dialect:
    """The float type, the exact cast of a whole float, and the float of a column.

    The float is NULL if the column holds no number. `fence` at the end of an inner query keeps the
    planner from writing it out into the outer one.
    """

    double: str
    exact: str
    number: str
    most_columns: int
    fence: str = ""
    ignores_case: bool = False


_DIALECTS = {
    # HUGEINT has 128 bits, and what overflows it is an error. Texts, dates and bits count as NULL:
    # a cast would read '007' and '1_000' as numbers.
    "duckdb": _Dialect(
        "DOUBLE",
        "CAST({0} AS HUGEINT)",
        "CASE WHEN typeof({0}) NOT IN ('VARCHAR', 'JSON', 'BIT') AND typeof({0}) NOT LIKE 'ENUM%' "
        "THEN TRY_CAST({0} AS DOUBLE) END",
        10_000,
        ignores_case=True,
    ),
    # NUMERIC has no limit that matters; a cast of a float to it keeps 15 digits only.
    "postgresql": _Dialect(
        "DOUBLE PRECISION",
        "CAST(CAST({0} AS BIGINT) AS NUMERIC)",
        "CASE WHEN pg_typeof({0}) NOT IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype) "
        "THEN CAST({0} AS DOUBLE PRECISION) END",
        1_600,
        fence=" OFFSET 0",
    ),
}


@dataclass(frozen=True, eq=False)
class TableMoments:
    """The exact moments of the two classes of a table in a database.

    Parameters
    ----------
    moments : ClassMoments
        Whole numbers on the grid of the ranges.
    classes : ndarray of shape (2,)
        The labels; the second one is positive.
    feature_names : tuple of str
        The columns.
    ranges : tuple of ndarray
        The least and the largest value of each column, as given.
    n_examples : int
        The number of rows; those of weight 0 do not count.
    weighed : bool
        Whether the rows have weights.
    """

    moments: ClassMoments
    classes: NDArray[Any]
    feature_names: tuple[str, ...]
    ranges: tuple[NDArray[Any], NDArray[Any]]
    n_examples: int
    weighed: bool

    def digest(self) -> str:
        """Return a digest of the state: equal for equal sums on equal grids, and only for them."""
        return self.moments.digest()

    def _check_like(self, other: TableMoments) -> None:
        for name in ("feature_names", "classes", "ranges", "weighed"):
            if not np.array_equal(getattr(self, name), getattr(other, name)):
                raise ValueError(
                    f"moments of {name} {getattr(self, name)} and of {getattr(other, name)} do not "
                    "belong together; ask for the second ones with like= the first."
                )

    def merge(self, other: TableMoments) -> TableMoments:
        """Return the moments of the rows of both."""
        self._check_like(other)
        both = ClassMoments.from_state(self.moments.state()).merge(other.moments)
        return replace(self, moments=both, n_examples=self.n_examples + other.n_examples)

    def without(self, gone: TableMoments) -> TableMoments:
        """Return the moments without rows that are among these, as if these had never come."""
        self._check_like(gone)
        rest, n = self.moments.without(gone.moments), self.n_examples - gone.n_examples
        if n < np.count_nonzero(rest.counts):
            raise ValueError(
                f"{gone.n_examples} of {self.n_examples} rows cannot be taken back: weight is "
                "left, and no row that has it. Take back rows with the weights that they had."
            )
        return replace(self, moments=rest, n_examples=n)

    def model(
        self,
        ridge: float,
        *,
        scaling: str | None = "auto",
        decision: float | str | DecisionRule = "balanced_accuracy",
    ) -> AUCClassifier:
        """Return the classifier of these moments: the square loss in closed form.

        Parameters
        ----------
        ridge : float
            The weight of the squared norm of the coefficients, for features of mean variance 1.
        scaling, decision : see `AUCClassifier`
            As of `AUCClassifier`.

        Returns
        -------
        AUCClassifier
            The model, with the coefficients of ``AUCClassifier(solver=Moments(ridge,
            ranges=...))`` for the same rows in memory. Moments do not know single scores: threshold
            and probabilities are those of scores that are normal in each class, with the mean and
            the variance that the moments tell.
        """
        ridge = check_positive("ridge", ridge)
        low, high = self.ranges
        solver = Moments(ridge, ranges=(low.tolist(), high.tolist()))
        model = AUCClassifier(loss="square", solver=solver, scaling=scaling, decision=decision)
        if not self.moments.counts.all():
            raise ValueError("no row of one of the classes is there; a model needs both classes.")
        assert self.moments.table is not None
        features, grid = Identity.of(len(low)), self.moments.grid
        mapped = replace(MappedMoments.none(features, grid=grid), table=self.moments.table)
        loss = Square()
        w = mapped.problem(scaled=scaling is not None).solve(ridge, margin=loss.parameter)
        values, z = self.moments.values, ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        scores = [
            mean @ w + np.sqrt(max(float(w @ covariance @ w), 0.0)) * z
            for mean, covariance in zip(values.means, values.covariances, strict=True)
        ]
        # As numbers of examples, whatever the unit of their weights.
        counts = values.counts * (self.n_examples / values.counts.sum())
        positive = np.repeat([True, False], _QUANTILES)
        return model.adopt_solution(
            w,
            classes=self.classes,
            feature_names=list(self.feature_names),
            loss=loss,
            choice=Choice(ridge=ridge),
            trace=Trace(n_steps=self.n_examples, n_gradients=self.n_examples),
            scores=(np.concatenate(scores), positive, np.repeat(counts / _QUANTILES, _QUANTILES)),
            n_examples=self.n_examples,
            fingerprint=None,
        )


def class_moments(
    database: Any,
    *,
    columns: Sequence[str],
    target: str,
    ranges: tuple[ArrayLike, ArrayLike] | None = None,
    weight: str | None = None,
    table: str | Sequence[str] | None = None,
    query: str | None = None,
    dialect: str = "duckdb",
    like: TableMoments | None = None,
) -> TableMoments:
    """Return the exact class moments of a table or query, computed inside the database.

    A SELECT with GROUP BY rounds values to the grid of the ranges and sums whole numbers. The state
    is that of the same rows in memory, bit for bit.

    Parameters
    ----------
    database : connection or callable
        What runs a statement: an object with ``execute(sql).fetchall()`` or with ``cursor()``
        (DuckDB, psycopg, psycopg2), or a function from a statement to its rows.
    columns : sequence of str
        The columns of features: numbers, without NULL.
    target : str
        The column of labels, of two values.
    ranges : tuple of float or of array-like
        The least and the largest value of all columns or of each, as of `Moments`. Values far
        beyond are refused.
    weight : str, optional
        The column of weights: whole numbers.
    table : str or sequence of str, optional
        The table; several names are those of its schema and itself. Names are quoted.
    query : str, optional
        One SELECT instead of a table, which becomes part of the statement as it is.
    dialect : "duckdb" or "postgresql", default="duckdb"
        The dialect of SQL.
    like : TableMoments, optional
        Moments whose ranges and labels to take, to be merged with them or taken from them.

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
    >>> visits = {"table": "visits", "columns": ["age"], "target": "bought"}
    >>> found = class_moments(db, ranges=(0, 120), **visits)
    >>> found.moments.means[:, 0], found.classes
    (array([37.5, 24. ]), array([0, 1]))
    >>> db.close()
    """
    if dialect not in _DIALECTS:
        raise ValueError(f"there is no dialect {dialect!r}{nearest(str(dialect), _DIALECTS)}")
    if isinstance(columns, str) or not len(columns):
        raise ValueError(f"columns must be a list of names, got {columns!r}.")
    if (ranges is None) == (like is None):
        raise ValueError("pass ranges=(low, high) of the columns, or like= moments that have some.")
    sides = like.ranges if ranges is None else ranges  # type: ignore[union-attr]
    low, high = (
        np.array(np.broadcast_to(np.asarray(side, dtype=np.float64), (len(columns),)))
        for side in sides
    )
    grid = Moments(ranges=(low.tolist(), high.tolist())).grid(len(columns))
    assert grid is not None
    statement = _statement(_DIALECTS[dialect], columns, target, weight, table, query, grid)
    result = _run(database, statement)
    _check_labels(result, target)
    for label, _, bad, *_ in result:
        if _whole_number(bad):
            raise ValueError(
                f"{_whole_number(bad)} rows of the class {label!r} hold NULL or no number, a value "
                "far beyond the ranges, or a weight that is no whole number of at least 0; leave "
                "them out (WHERE), give them a value (COALESCE), or widen the ranges."
            )
    sums = Table.of_sums(grid, [_sums(row[3:], len(columns)) for row in result])
    labels = [
        number_of(row[0], target) if isinstance(row[0], Decimal) else row[0] for row in result
    ]
    classes = np.array(sorted(labels)) if like is None else like.classes
    two_classes(classes)
    unknown = [label for label in labels if label not in classes.tolist()]
    if unknown:
        raise ValueError(f"the label {unknown[0]!r} is neither of {classes.tolist()}.")
    found = TableMoments(
        ClassMoments.of(in_order(sums, np.array(labels), classes)[::-1]),
        classes,
        tuple(columns),
        (low, high),
        sum(_whole_number(row[1]) for row in result),
        weight is not None,
    )
    if like is not None:
        like._check_like(found)
    return found


# ------------------------------------------------------------------------------ the statement


def _quoted(name: Any) -> str:
    """Return a name as an identifier, whatever it holds."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(f"a name of a column or table must be a text, got {name!r}.")
    return '"' + name.replace('"', '""') + '"'


def _source(table: Any, query: str | None) -> str:
    if (table is None) == (query is None):
        raise ValueError("pass either table= or query=.")
    if query is not None:
        # On lines of their own: a query may end with a comment.
        return f"FROM (\n{query.strip().rstrip(';')}\n) AS source"
    parts = [table] if isinstance(table, str) else list(table)
    return f"FROM {'.'.join(map(_quoted, parts))} AS source"


def _scaled(value: str, exponent: int) -> str:
    """Return a float times 2^exponent, exact unless it overflows.

    >>> _scaled("x", 3), _scaled("x", -60)
    ('x * 8', 'x / 4503599627370496 / 256')
    """
    sign = "*" if exponent > 0 else "/"
    whole, rest = divmod(abs(exponent), 52)
    steps = [_WHOLE] * whole + ([1 << rest] if rest else [])
    return "".join([value, *(f" {sign} {step}" for step in steps)])


def _rounded(value: str) -> str:
    """Return the whole number nearest to a float, ties to even, as a float."""
    v = value if value.isidentifier() else f"({value})"
    return (
        f"CASE WHEN {v} >= 0 AND {v} < {_WHOLE} THEN ({v} + {_WHOLE}) - {_WHOLE} "
        f"WHEN {v} < 0 AND {v} > -{_WHOLE} THEN {_WHOLE} - ({_WHOLE} - {v}) ELSE {v} END"
    )


def _statement(
    dialect: _Dialect,
    columns: Sequence[str],
    target: str,
    weight: str | None,
    table: Any,
    query: str | None,
    grid: Grid,
) -> str:
    """Return the SELECT: label, rows, bad rows, weight, sums and products for each label."""
    names = [*columns, target, *([] if weight is None else [weight])]
    keys = [name.lower() if dialect.ignores_case else name for name in names]
    twice = [name for name, key in zip(names, keys, strict=True) if keys.count(key) > 1]
    if twice:
        raise ValueError(f"the column {twice[0]!r} is named twice; name each column once.")
    numbers = {f"v{j}": name for j, name in enumerate(columns)}
    numbers |= {} if weight is None else {"u": weight}

    def number(name: str) -> str:
        return dialect.number.format(f"source.{_quoted(name)}")

    shown = ", ".join(f"{number(name)} AS {short}" for short, name in numbers.items())
    first = f"SELECT source.{_quoted(target)} AS c, {shown} {_source(table, query)}"
    steps = {}
    for j, (exponent, origin) in enumerate(zip(grid.exponents, grid.origin, strict=True)):
        v = _rounded(_scaled(f"v{j}", -int(exponent)))
        o = f"CAST('{float(origin)!r}' AS {dialect.double})"
        steps[f"v{j}"] = f"({v}) - {o}" if origin else v
    checks = [f"v{j} BETWEEN -{_FURTHEST} AND {_FURTHEST}" for j in range(len(columns))]
    if weight is not None:
        # What is NULL, or no number, is kept to be refused.
        first += f" WHERE COALESCE({number(weight)}, 1) <> 0"
        steps["u"] = "u"
        checks.append(f"u BETWEEN 1 AND {_WHOLE} AND u = {_rounded('u')}")
    bad = f"CASE WHEN {' AND '.join(checks)} THEN 0 ELSE 1 END AS bad"
    exact = (f"CASE WHEN bad = 0 THEN {dialect.exact.format(n)} END AS {n}" for n in steps)
    layers = [
        first,
        f"SELECT c, {', '.join(f'{value} AS {name}' for name, value in steps.items())}",
        f"SELECT *, {bad}",
        f"SELECT c, bad, {', '.join(exact)}",
    ]
    by, total = ("", "COUNT(*)") if weight is None else ("u * ", "SUM(u)")
    sums = [f"SUM({by}v{j})" for j in range(len(columns))]
    sums += [f"SUM({by}v{i} * v{j})" for i in range(len(columns)) for j in range(i + 1)]
    if len(sums) + 4 > dialect.most_columns:
        raise ValueError(
            f"moments of {len(columns)} columns take a result of {len(sums) + 4} columns, and "
            f"this dialect allows {dialect.most_columns}; choose fewer columns."
        )
    # Layers are named: as nested queries they would be too deep for some parsers.
    named = [
        f"pairlearn_layer{k} AS NOT MATERIALIZED (\n{layer}"
        f"{f' FROM pairlearn_layer{k - 1}' if k else ''}{dialect.fence}\n)"
        for k, layer in enumerate(layers)
    ]
    shown = ", ".join(["c", "COUNT(*)", "SUM(bad)", total, *sums])
    last = f"pairlearn_layer{len(layers) - 1}"
    return f"WITH {', '.join(named)}\nSELECT {shown}\nFROM {last}\nGROUP BY c"


# -------------------------------------------------------------------------------- the result


def _run(database: Any, statement: str) -> Sequence[Sequence[Any]]:
    # Some connections can be called, too.
    if hasattr(database, "execute"):
        rows: Sequence[Sequence[Any]] = database.execute(statement).fetchall()
        return rows
    if hasattr(database, "cursor"):
        with database.cursor() as cursor:
            cursor.execute(statement)
            answer: Sequence[Sequence[Any]] = cursor.fetchall()
            return answer
    if not callable(database):
        raise TypeError(
            f"database must be a connection or a function from a statement to its rows, got "
            f"{type(database).__name__}."
        )
    ask: Callable[[str], Sequence[Sequence[Any]]] = database
    return ask(statement)


def _check_labels(result: Sequence[Sequence[Any]], target: str) -> None:
    if not result:
        raise ValueError("the statement gives no row: the table is empty, or all weights are 0.")
    for label, count, *_ in result:
        if label is None or label != label:
            raise ValueError(
                f"column {target!r} is {'NULL' if label is None else 'NaN'} in {count} rows; leave "
                "them out (WHERE)."
            )
        if not isinstance(label, (str, int, float, Decimal, np.generic)):
            raise ValueError(
                f"column {target!r} holds {type(label).__name__}; labels are numbers, texts or "
                "true and false."
            )
    if len({isinstance(label, str) for label, *_ in result}) > 1:
        raise ValueError(
            f"column {target!r} holds texts and numbers; give its labels one type with CAST."
        )
    if len(result) > 2:
        raise ValueError(f"column {target!r} has {len(result)} different values, two are needed.")


def _sums(numbers: Sequence[Any], d: int) -> tuple[int, list[int], list[int]]:
    """Return total, sums and products of one class."""
    total, *rest = map(_whole_number, numbers)
    return total, rest[:d], rest[d:]


def _whole_number(value: Any) -> int:
    """Return a whole number of a database; refuse what was rounded.

    >>> _whole_number(Decimal("12")), _whole_number("-3")
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
        "sum does not fit; read the rows in batches (OnArrow)."
    )
