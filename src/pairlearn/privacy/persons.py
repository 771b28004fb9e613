# SPDX-License-Identifier: BSD-3-Clause
"""Persons with several rows: equal weight for each person, or the first rows of each.

In a table, a person has the weight `WHOLE`, dealt to his or her rows as evenly as whole numbers
allow. So a weighted sum is exact, and a person with all rows is an average of rows: what one row
can do to a statistic that is linear in each person bounds what a person can do (lemma 19 in
``docs/privacy/lemmas.md``). In a stream, nobody knows how many rows of a person are still to come,
so the first k rows of each person count and later ones are left out (lemma 20). Where rows meet in
passes, one row of each person is drawn for each pass (lemma 22).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.records import person_keys, read_persons
from pairlearn.typing import Mask, Vector

#: The weight of a person.
WHOLE = 1 << 24
#: A row of a person is drawn by a number below this one.
_DRAWS = 1 << 32


def shares(groups: Any, n_rows: int) -> tuple[NDArray[np.int64], int]:
    """Return the weight of each row, and the number of persons; a row without an id weighs nothing.

    >>> weight, n_persons = shares(["ann", "bob", "ann", None], 4)
    >>> (weight / WHOLE).tolist(), n_persons
    ([0.5, 1.0, 0.5, 0.0], 2)
    """
    persons = read_persons(groups, n_rows)
    # The first place is for rows of nobody.
    counts = np.bincount(persons + 1, minlength=1)
    order = np.argsort(persons, kind="stable")
    # The place of each row among those of its person.
    place = np.empty(n_rows, dtype=np.int64)
    place[order] = np.arange(n_rows) - np.repeat(np.cumsum(counts) - counts, counts)
    share, left = np.divmod(WHOLE, counts[persons + 1])
    weight: NDArray[np.int64] = np.where(persons < 0, 0, share + (place < left)).astype(np.int64)
    return weight, len(counts) - 1


class FirstRows:
    """The first `most` rows of each person of a stream; the ids it remembers are secret.

    >>> rows = FirstRows(2)
    >>> mask, counts = rows.taken(["ann", "ann", "bob", "ann"], 4)
    >>> mask.tolist()
    [True, True, True, False]
    >>> rows.remember(counts)
    >>> rows.taken(["bob", "ann", "bob"], 3)[0].tolist()
    [True, False, False]
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._counts: dict[Any, int] = {}

    def taken(self, groups: Any, n_rows: int) -> tuple[Mask, dict[Any, int]]:
        """Return which of the next rows count, and the new numbers of rows of their persons."""
        changed: dict[Any, int] = {}
        mask = np.zeros(n_rows, dtype=np.bool_)
        for row, person in enumerate(person_keys(groups, n_rows)):
            if person is None:
                continue
            count = changed.get(person, self._counts.get(person, 0))
            mask[row] = count < self.most
            changed[person] = min(count + 1, self.most)
        return mask, changed

    def remember(self, counts: dict[Any, int]) -> None:
        """Remember what `taken` returned."""
        self._counts.update(counts)


class OneRowEach:
    """One row of each person, drawn anew for each pass over the persons (lemma 22).

    >>> rows = OneRowEach(np.array([0, 1, 0]))
    >>> drawn = rows.drawn(np.array([1, 2, 0]), NoiseSource(seed=0))
    >>> drawn[:2].tolist(), int(drawn[2]) in (0, 2)
    ([1, 3], True)
    """

    def __init__(self, persons: NDArray[np.int64]) -> None:
        self._rows = np.argsort(persons, kind="stable")
        self._counts = np.bincount(persons)
        self._first = np.cumsum(self._counts) - self._counts

    def drawn(self, order: NDArray[np.int64], noise: NoiseSource) -> NDArray[np.int64]:
        """Return a row of the person in each place; for one who is not there, the number of rows.

        A draw belongs to a place, not to a person: an audit that puts the same persons in the same
        places draws the same rows of them, however the persons are numbered.
        """
        draws = noise.draw_indices(_DRAWS, len(order))
        found = np.full(len(order), len(self._rows), dtype=np.int64)
        there = order < len(self._counts)
        person = order[there]
        place = draws[there] * self._counts[person] >> 32
        found[there] = self._rows[self._first[person] + place]
        return found


def rows_that_meet(
    Z: Vector, labels: Vector, n: int, persons: NDArray[np.int64] | None = None
) -> tuple[Vector, Vector, OneRowEach | None]:
    """Return rows and labels for n places, and how the row of a person is drawn.

    Without persons there are n rows: those of the table, and rows with a NaN label, whose pairs
    count nothing. With persons, numbered from 0, one such row stands for all who are not there.

    >>> rows, labels, _ = rows_that_meet(np.ones((2, 1)), np.ones(2), 3)
    >>> rows.tolist(), labels.tolist()
    ([[1.0], [1.0], [0.0]], [1.0, 1.0, nan])
    """
    n_units = len(Z) if persons is None else int(persons.max(initial=-1)) + 1
    if n_units > n:
        raise ValueError(f"there are more rows (or persons) than the public number {n}.")
    missing = n - len(Z) if persons is None else 1
    drawing = None if persons is None else OneRowEach(persons)
    if not missing:
        return np.ascontiguousarray(Z), np.asarray(labels, dtype=np.float64), drawing
    rows = np.concatenate([Z, np.zeros((missing, Z.shape[1]))])
    return rows, np.concatenate([labels, np.full(missing, np.nan)]), drawing
