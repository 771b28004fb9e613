# SPDX-License-Identifier: BSD-3-Clause
"""Neighbouring tables for audits.

Tables differ in one example, or in one person with all rows. They are adversarial: examples in the
corners of the public bounds and far outside, labels that are flipped, unknown or of another type,
cells that are not numbers, and sorted rows, where one replaced example moves many others. The place
of the changed example moves about: first, last, in the middle, and at both sides of each boundary
between stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.solvers.descent.localized import stage_sizes
from pairlearn.typing import Vector

#: Numbers of rows of successive persons, and that of a person with many.
_ROWS_OF_PERSONS = (1, 1, 2, 5, 1, 3)
_MANY = 12

Example = tuple[Any, Any]


@dataclass(frozen=True)
class Table:
    """Examples, their labels and, if persons are protected, the person of each row."""

    X: Any
    y: Any
    groups: Any = None


@dataclass(frozen=True)
class PublicNeighbours:
    """Two neighbouring tables.

    `rows` is the index in the second table of each row of the first, if the orders differ; of each
    person, if a person was removed. None if the order is the same; one table may then lack a row.
    `place` is the row of the first table that was changed; None if persons were.
    """

    name: str
    first: Table
    second: Table
    rows: NDArray[np.int64] | None = None
    place: int | None = None

    @property
    def moved(self) -> NDArray[np.int64] | None:
        """The new index of each row, also where one was removed; None if all rows keep theirs."""
        if self.rows is None and self.place is not None and len(self.second.X) < len(self.first.X):
            return _moved_rows(len(self.first.X), self.place)
        return self.rows


def _moved_rows(n: int, place: int) -> NDArray[np.int64]:
    """Return the new index of each of n rows where one is removed: it goes last, where none is."""
    return np.concatenate([np.arange(place), [n - 1], np.arange(place, n - 1)])


def places(n: int, n_parts: int = 4) -> list[int]:
    """Return rows where a change may hurt: ends, and both sides of each boundary.

    Boundaries are those of stages and of `n_parts` equal partitions.

    >>> places(8)
    [1, 0, 7, 4, 5, 6, 2, 3]
    """
    ends = [*np.cumsum(stage_sizes(n)).tolist(), *(n * k // n_parts for k in range(1, n_parts))]
    wanted = [min(1, n - 1), 0, n - 1, n // 2, *(end + side for end in ends for side in (-1, 0))]
    return list(dict.fromkeys(place for place in wanted if 0 <= place < n))


def public_neighbours(
    lower: Vector, upper: Vector, labels: tuple[Any, ...], *, n: int, neighbours: str, seed: int = 0
) -> list[PublicNeighbours]:
    """Return neighbouring tables of n examples for public bounds and labels.

    The larger table has n examples. The last of two labels is the positive one. `neighbours` is
    "replace" or "add_remove".
    """
    middle, negative, positive = 0.5 * (lower + upper), labels[0], labels[-1]
    nan, far = np.full_like(middle, np.nan), np.full_like(middle, 1e300)
    removes = neighbours == "add_remove"
    rng = np.random.default_rng(seed)
    still = np.tile(middle, (n, 1)), [negative] * n
    spread = rng.uniform(lower, upper, (n, len(lower)))
    corners = np.where(rng.random(spread.shape) < 0.5, lower, upper)
    partly = np.where(rng.random(spread.shape) < 0.5, np.nan, spread)
    mixed = [labels[k] for k in rng.integers(0, len(labels), n)]
    half = [labels[0] if k % 2 else labels[-1] for k in range(n)]
    gone = np.tile(nan, (n, 1)), half
    random, cornered = (spread, mixed), (corners, mixed)
    high, low, turned = (upper, positive), (lower, positive), (upper, negative)
    strange = ["n/a", *([10**400] * len(lower))][: len(lower)]
    everywhere = places(n)

    def pair(name: str, table: Any, mine: Example, theirs: Example, place: int) -> PublicNeighbours:
        """Put an example in one row; the other table has another one there, or none."""
        made = []
        for one in (mine, None if removes else theirs):
            X, y = [row.tolist() for row in table[0]], list(table[1])
            if one is None:
                del X[place], y[place]
            else:
                X[place], y[place] = list(one[0]), one[1]
            plain = mine[0] is strange or theirs[0] is strange
            made.append(Table(X if plain else np.array(X).reshape(-1, len(lower)), y))
        return PublicNeighbours(name, made[0], made[1], place=place)

    # The second row comes first: in a single pass the first row is in one pair only.
    begin, turns = everywhere[0], cycle(everywhere)
    pairs = [
        pair("a corner to the opposite one", still, high, low, begin),
        pair("a label turned in a corner", still, high, turned, begin),
    ]
    for name, table, mine, theirs in (
        ("the middle to a corner", still, (middle, negative), high),
        ("the middle to a corner, one label", (still[0], half), (middle, positive), high),
        ("a label turned in the middle", (still[0], half), (middle, positive), (middle, negative)),
        ("an outlier", random, (far, positive), (-np.inf * far, positive)),
        ("a missing example", random, turned, (nan, negative)),
        ("an example among missing ones", gone, high, low),
        ("a label among missing examples", gone, high, turned),
        ("an example among half missing", (partly, mixed), high, (lower, negative)),
        ("an unknown label", (spread, half), high, (upper, "n/a")),
        ("a corner among random ones", random, high, low),
        ("a corner among corners", cornered, high, low),
        ("a label turned among corners", cornered, high, turned),
        ("a label turned among random ones", random, turned, high),
    ):
        pairs.append(pair(name, table, mine, theirs, next(turns)))
    y = mixed[begin]
    pairs.append(pair("cells that are no numbers", random, (strange, y), (lower, y), begin))
    pairs.append(_sorted(pair("rows that are sorted", random, high, (lower, negative), begin)))
    if not removes:
        pairs.append(_shifted_rows(lower, upper, labels, n))
    for place in everywhere[1:]:
        name = f"a corner to the opposite one, row {place + 1}"
        pairs.append(pair(name, still, high, low, place))
    return pairs


def _shifted_rows(
    lower: Vector, upper: Vector, labels: tuple[Any, ...], n: int
) -> PublicNeighbours:
    """Shift every row by one, as when a replaced row of a sorted table moves to the front.

    In the first table each block of rows ends with a positive example in a corner. After the shift
    it holds the example of the block before, in the opposite corner. This attacks mechanisms that
    take blocks of rows in the given order.
    """
    X, y = np.tile(0.5 * (lower + upper), (n, 1)), [labels[0]] * n
    for k, end in enumerate(np.cumsum(stage_sizes(n)).tolist()):
        X[end - 1], y[end - 1] = lower if k % 2 else upper, labels[-1]
    other, other_y = np.roll(X, 1, axis=0), [labels[-1], *y[:-1]]
    other[0] = lower
    rows = np.roll(np.arange(n), -1)
    name = "rows that all move on by one"
    return PublicNeighbours(name, Table(X, y), Table(other, other_y), rows, n - 1)


def _sorted(pair: PublicNeighbours) -> PublicNeighbours:
    """Sort the rows of both tables by label and then by the first feature."""
    orders, tables = [], []
    for table in (pair.first, pair.second):
        order = np.lexsort([table.X[:, 0], np.array([str(label) for label in table.y])])
        orders.append(order)
        tables.append(Table(table.X[order], [table.y[k] for k in order]))
    rows = None
    if len(orders[0]) == len(orders[1]):
        # Row i of the first table was row orders[0][i], which is now where the second has it.
        rows = np.argsort(orders[1])[orders[0]].astype(np.int64)
    place = int(np.flatnonzero(orders[0] == pair.place)[0])
    return PublicNeighbours(pair.name, tables[0], tables[1], rows, place)


def neighbouring_persons(
    lower: Vector, upper: Vector, labels: tuple[Any, ...], *, n: int, neighbours: str, seed: int = 0
) -> list[PublicNeighbours]:
    """Return tables of n persons that differ in one person with all rows.

    Persons have one row or several, and rows of a person need not be adjacent. The changed person
    has one row or many in either table. With "add_remove" the second table lacks the person.
    """
    negative, positive, removes = labels[0], labels[-1], neighbours == "add_remove"
    rng = np.random.default_rng(seed)
    ids = [f"person {k}" for k in range(1, n)
           for _ in range(_ROWS_OF_PERSONS[k % len(_ROWS_OF_PERSONS)])]  # fmt: skip
    still = np.tile(0.5 * (lower + upper), (len(ids), 1))
    spread = rng.uniform(lower, upper, still.shape)
    mixed = [labels[k] for k in rng.integers(0, len(labels), len(ids))]
    up, down = np.tile(upper, (_MANY, 1)), np.tile(lower, (_MANY, 1))
    opposite = np.where(np.arange(_MANY)[:, None] % 2 == 0, upper, lower)
    yes, no, both = [positive] * _MANY, [negative] * _MANY, [positive, negative] * (_MANY // 2)
    gone = np.full_like(up, np.nan), ["n/a"] * _MANY
    changes: list[tuple[str, Example, Example]] = [
        ("many rows to the opposite corner", (up, yes), (down, yes)),
        ("one row to many in the opposite corner", (up[:1], yes[:1]), (down, yes)),
        ("many rows to one in the opposite corner", (up, yes), (down[:1], yes[:1])),
        ("one row to the opposite corner", (up[:1], yes[:1]), (down[:1], yes[:1])),
        ("the labels of many rows turned", (up, yes), (up, no)),
        ("many rows of both labels", (opposite, both), (opposite[::-1], both)),
        ("many rows gone missing", (up, yes), gone),
    ]
    others = {
        "": Table(still, [negative] * len(ids), ids),
        " among random persons": Table(spread, mixed, ids),
        " among missing rows": Table(np.full_like(spread, np.nan), mixed, ids),
    }
    pairs = []
    for k, (name, mine, theirs) in enumerate(changes):
        for among, table in others.items():
            where = ("first", "last", "scattered")[k % 3]
            first = _with_rows(table, *mine, "person 0", where)
            second = table if removes else _with_rows(table, *theirs, "person 0", where)
            # Persons are numbered as they appear: a removed one is the last or the first.
            moved = _moved_rows(n, n - 1 if where == "last" else 0) if removes else None
            pairs.append(PublicNeighbours(f"a person: {name}{among}", first, second, moved))
    # Rows without an id belong to nobody: they may come, go and change as they like.
    table = others[""]
    if not removes:
        table = _with_rows(table, up[:1], yes[:1], "person 0", "last")
    first = _with_rows(table, up[:3], yes[:3], None, "first")
    second = _with_rows(table, down[:2], yes[:2], None, "first")
    pairs.append(PublicNeighbours("rows without an id change and go", first, second))
    return pairs


def _with_rows(table: Table, rows: Vector, labels: Sequence[Any], who: Any, where: str) -> Table:
    """Put the rows of a further person first, last, or between the others."""
    n, m = len(table.X), len(rows)
    at = {"first": np.zeros(m), "last": np.full(m, n), "scattered": np.linspace(0, n, m)}[where]
    order = np.argsort(np.concatenate([np.arange(n) + 0.5, at]), kind="stable")
    y, groups = [*table.y, *labels], [*table.groups, *[who] * m]
    X = np.concatenate([table.X, rows])[order]
    return Table(X, [y[k] for k in order], [groups[k] for k in order])


def neighbouring_tables(
    bounds: tuple[float, float],
    *,
    n: int = 64,
    n_features: int = 1,
    labels: tuple[Any, ...] = (0, 1),
    neighbours: str = "replace",
    persons: bool = False,
) -> list[PublicNeighbours]:
    """Return adversarial pairs of neighbouring tables, for audits.

    Parameters
    ----------
    bounds : tuple (lower, upper)
        Public bounds of all features.
    n : int, default=64
        Number of examples, or of persons.
    n_features : int, default=1
        Number of features.
    labels : tuple, default=(0, 1)
        The public labels; the last is the positive one.
    neighbours : {"replace", "add_remove"}, default="replace"
        Whether one example is replaced, or added or removed.
    persons : bool, default=False
        Whether the tables differ in a person with all rows, and not in one row.

    Returns
    -------
    list of PublicNeighbours
        Each has a name and the tables `first` and `second`, with `X`, `y` and `groups`.

    Examples
    --------
    >>> neighbouring_tables((-1.0, 1.0), n=8)[0].name
    'a corner to the opposite one'
    """
    lower, upper = (np.full(n_features, float(end)) for end in bounds)
    make = neighbouring_persons if persons else public_neighbours
    return make(lower, upper, labels, n=n, neighbours=neighbours)
