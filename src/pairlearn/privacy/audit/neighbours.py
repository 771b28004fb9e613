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

from pairlearn.privacy.audit.mechanism import moved_rows
from pairlearn.solvers.descent.localized import stage_sizes
from pairlearn.typing import Vector

#: Numbers of rows of successive persons.
_ROWS_OF_PERSONS = (1, 1, 2, 5, 1, 3)
#: Number of rows of a person with many.
_MANY = 12


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
            return moved_rows(len(self.first.X), self.place)
        return self.rows


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
    rng = np.random.default_rng(seed)
    still = np.tile(middle, (n, 1))
    one_class = [negative] * n
    gone = np.full((n, len(lower)), np.nan)
    spread = rng.uniform(lower, upper, (n, len(lower)))
    corners = np.where(rng.random(spread.shape) < 0.5, lower, upper)
    partly = np.where(rng.random(spread.shape) < 0.5, np.nan, spread)
    mixed = [labels[k] for k in rng.integers(0, len(labels), n)]
    half = [labels[0] if k % 2 else labels[-1] for k in range(n)]
    everywhere = places(n)
    maker = _Maker(lower, upper, labels, n, neighbours == "add_remove")
    turns = cycle(everywhere)

    def pair(name: str, *tables: Any, place: int | None = None) -> PublicNeighbours:
        return maker.pair(name, *tables, place=next(turns) if place is None else place)

    # The second row comes first: in a single pass the first row is in one pair only.
    pairs = [
        pair("a corner to the opposite one", still, one_class, upper, positive, lower, positive,
             place=everywhere[0]),
        pair("a label turned in a corner", still, one_class, upper, positive, upper, negative,
             place=everywhere[0]),
        pair("the middle to a corner", still, one_class, middle, negative, upper, positive),
        pair("the middle to a corner, one label", still, half, middle, positive, upper, positive),
        pair("a label turned in the middle", still, half, middle, positive, middle, negative),
        pair("an outlier", spread, mixed, np.full_like(middle, 1e300), positive,
             np.full_like(middle, -np.inf), positive),
        pair("a missing example", spread, mixed, upper, negative, np.full_like(middle, np.nan),
             negative),
        pair("an example among missing ones", gone, half, upper, positive, lower, positive),
        pair("a label among missing examples", gone, half, upper, positive, upper, negative),
        pair("an example among half missing", partly, mixed, upper, positive, lower, negative),
        pair("an unknown label", spread, half, upper, positive, upper, "n/a"),
        pair("a corner among random ones", spread, mixed, upper, positive, lower, positive),
        pair("a corner among corners", corners, mixed, upper, positive, lower, positive),
        pair("a label turned among corners", corners, mixed, upper, positive, upper, negative),
        pair("a label turned among random ones", spread, mixed, upper, negative, upper, positive),
    ]  # fmt: skip
    pairs += [maker.strange_cell(spread, mixed), maker.sorted_rows(spread, mixed)]
    if not maker.removes:
        pairs.append(maker.shifted_rows())
    for place in everywhere[1:]:
        name = f"a corner to the opposite one, row {place + 1}"
        pairs.append(pair(name, still, one_class, upper, positive, lower, positive, place=place))
    return pairs


def neighbouring_persons(
    lower: Vector, upper: Vector, labels: tuple[Any, ...], *, n: int, neighbours: str, seed: int = 0
) -> list[PublicNeighbours]:
    """Return tables of n persons that differ in one person with all rows.

    Persons have one row or several, and rows of a person need not be adjacent. The changed person
    has one row or many in either table. With "add_remove" the second table lacks the person.
    """
    middle, negative, positive = 0.5 * (lower + upper), labels[0], labels[-1]
    rng = np.random.default_rng(seed)
    removes = neighbours == "add_remove"
    others = [f"person {k}" for k in range(1, n) for _ in range(_rows_of(k))]
    still = np.tile(middle, (len(others), 1))
    spread = rng.uniform(lower, upper, still.shape)
    mixed = [labels[k] for k in rng.integers(0, len(labels), len(others))]
    one_class = [negative] * len(others)
    both = [positive, negative] * (_MANY // 2)
    up, down = np.tile(upper, (_MANY, 1)), np.tile(lower, (_MANY, 1))
    opposite = np.where(np.arange(_MANY)[:, None] % 2 == 0, upper, lower)
    missing = np.full_like(up, np.nan)
    changes: list[tuple[str, Vector, list[Any], Vector, list[Any]]] = [
        ("many rows to the opposite corner", up, [positive] * _MANY, down, [positive] * _MANY),
        ("one row to many in the opposite corner", up[:1], [positive], down, [positive] * _MANY),
        ("many rows to one in the opposite corner", up, [positive] * _MANY, down[:1], [positive]),
        ("one row to the opposite corner", up[:1], [positive], down[:1], [positive]),
        ("the labels of many rows turned", up, [positive] * _MANY, up, [negative] * _MANY),
        ("many rows of both labels", opposite, both, opposite[::-1], both),
        ("many rows gone missing", up, [positive] * _MANY, missing, ["n/a"] * _MANY),
    ]  # fmt: skip
    pairs = []
    gone = np.full_like(spread, np.nan)
    tables = (("", still, one_class), (" among random persons", spread, mixed),
              (" among missing rows", gone, mixed))  # fmt: skip
    for k, (name, mine, signs, theirs, other_signs) in enumerate(changes):
        for among, X, y in tables:
            where = ("first", "last", "scattered")[k % 3]
            first = _with_person(X, y, others, mine, signs, where)
            second = (
                Table(X, y, list(others))
                if removes
                else _with_person(X, y, others, theirs, other_signs, where)
            )
            # Persons are numbered as they appear: a removed one is the last or the first.
            moved = moved_rows(n, n - 1 if where == "last" else 0) if removes else None
            pairs.append(PublicNeighbours(f"a person: {name}{among}", first, second, moved))
    # Rows without an id belong to nobody: they may come, go and change as they like.
    nobody: list[Any] = [None] * 3
    if not removes:
        still, others = np.concatenate([still, up[:1]]), [*others, "person 0"]
        one_class = [*one_class, positive]
    first = Table(np.concatenate([up[:3], still]), [positive] * 3 + one_class, nobody + others)
    second = Table(np.concatenate([down[:2], still]), [positive] * 2 + one_class,
                   nobody[:2] + others)  # fmt: skip
    pairs.append(PublicNeighbours("rows without an id change and go", first, second))
    return pairs


def _rows_of(person: int) -> int:
    return _ROWS_OF_PERSONS[person % len(_ROWS_OF_PERSONS)]


def _with_person(
    X: Vector, y: list[Any], groups: list[str], rows: Vector, signs: Sequence[Any], where: str
) -> Table:
    """Put the rows of a further person first, last, or between the others."""
    n, m = len(X), len(rows)
    at = {"first": np.zeros(m), "last": np.full(m, n), "scattered": np.linspace(0, n, m)}[where]
    order = np.argsort(np.concatenate([np.arange(n) + 0.5, at]), kind="stable")
    all_y, all_groups = [*y, *signs], [*groups, *["person 0"] * m]
    return Table(
        np.concatenate([X, rows])[order],
        [all_y[k] for k in order],
        [all_groups[k] for k in order],
    )


@dataclass(frozen=True)
class _Maker:
    """Makes pairs of tables for fixed bounds, labels, size and relation."""

    lower: Vector
    upper: Vector
    labels: tuple[Any, ...]
    n: int
    removes: bool

    def pair(
        self, name: str, X: Vector, y: list[Any], row: Any, label: Any, new: Any, new_label: Any,
        *, place: int,
    ) -> PublicNeighbours:  # fmt: skip
        """Put an example in one row; the other table has another one there, or none."""
        X, y = X.copy(), list(y)
        X[place], y[place] = row, label
        if self.removes:
            second = Table(np.delete(X, place, axis=0), y[:place] + y[place + 1 :])
        else:
            other, other_y = X.copy(), list(y)
            other[place], other_y[place] = new, new_label
            second = Table(other, other_y)
        return PublicNeighbours(name, Table(X, y), second, place=place)

    def strange_cell(self, X: Vector, y: list[Any]) -> PublicNeighbours:
        """Put cells that are not numbers in one row of a list."""
        place = min(1, self.n - 1)
        pair = self.pair("cells that are no numbers", X, y, self.upper, y[0], self.lower, y[0],
                         place=place)  # fmt: skip
        rows, other = pair.first.X.tolist(), pair.second.X.tolist()
        rows[place] = ["n/a", *([10**400] * len(self.lower))][: len(self.lower)]
        return PublicNeighbours(
            pair.name, Table(rows, pair.first.y), Table(other, pair.second.y), place=place
        )

    def shifted_rows(self) -> PublicNeighbours:
        """Shift every row by one, as when a replaced row of a sorted table moves to the front.

        In the first table each block of rows ends with a positive example in a corner. After the
        shift it holds the example of the block before, in the opposite corner. This attacks
        mechanisms that take blocks of rows in the given order.
        """
        X = np.tile(0.5 * (self.lower + self.upper), (self.n, 1))
        y = [self.labels[0]] * self.n
        for k, end in enumerate(np.cumsum(stage_sizes(self.n)).tolist()):
            X[end - 1] = self.lower if k % 2 else self.upper
            y[end - 1] = self.labels[-1]
        other, other_y = np.roll(X, 1, axis=0), [*y[-1:], *y[:-1]]
        other[0], other_y[0] = self.lower, self.labels[-1]
        rows = np.roll(np.arange(self.n), -1)
        return PublicNeighbours(
            "rows that all move on by one", Table(X, y), Table(other, other_y), rows, self.n - 1
        )

    def sorted_rows(self, X: Vector, y: list[Any]) -> PublicNeighbours:
        """Sort the rows of both tables by label and then by the first feature."""
        label, turned = self.labels[-1], self.labels[0]
        place = min(1, self.n - 1)
        pair = self.pair("rows that are sorted", X, y, self.upper, label, self.lower, turned,
                         place=place)  # fmt: skip

        def order(table: Table) -> NDArray[np.int64]:
            codes = [self.labels.index(one) for one in table.y]
            return np.lexsort([np.asarray(table.X)[:, 0], np.array(codes)])

        def in_order(table: Table, by: NDArray[np.int64]) -> Table:
            return Table(table.X[by], [table.y[k] for k in by])

        first, second = order(pair.first), order(pair.second)
        rows = None
        if not self.removes:
            # Row i of the first table was row first[i], which is now where second has it.
            rows = np.argsort(second)[first].astype(np.int64)
        return PublicNeighbours(
            pair.name,
            in_order(pair.first, first),
            in_order(pair.second, second),
            rows,
            int(np.flatnonzero(first == place)[0]),
        )


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
