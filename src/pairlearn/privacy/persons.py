# SPDX-License-Identifier: BSD-3-Clause
"""Persons with several rows: equal weight for each person, or the first rows of each.

In a table, a person has the weight `WHOLE`, dealt to his or her rows as evenly as whole numbers
allow. So a weighted sum is exact, and a person with all rows is an average of rows: what one row
can do to a statistic that is linear in each person bounds what a person can do (lemma 19 in
``docs/privacy/lemmas.md``). In a stream, nobody knows how many rows of a person are still to come,
so the first k rows of each person count and later ones are left out (lemma 20).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.records import read_users
from pairlearn.typing import Mask

#: The weight of a person.
WHOLE = 1 << 24


def shares(groups: Any, n_rows: int) -> tuple[NDArray[np.int64], int]:
    """Return the weight of each row, and the number of persons.

    >>> weight, n_persons = shares(["ann", "bob", "ann"], 3)
    >>> (weight / WHOLE).tolist(), n_persons
    ([0.5, 1.0, 0.5], 2)
    """
    persons = read_users(groups, n_rows)
    counts = np.bincount(persons)
    order = np.argsort(persons, kind="stable")
    # The place of each row among those of its person.
    place = np.empty(n_rows, dtype=np.int64)
    place[order] = np.arange(n_rows) - np.repeat(np.cumsum(counts) - counts, counts)
    share, left = np.divmod(WHOLE, counts[persons])
    weight: NDArray[np.int64] = (share + (place < left)).astype(np.int64)
    return weight, len(counts)


@dataclass(frozen=True)
class FirstRows:
    """The first `most` rows of each person of a stream; the ids it remembers are secret.

    >>> mask, later = FirstRows(2).taken(["ann", "ann", "bob", "ann"], 4)
    >>> mask.tolist()
    [True, True, True, False]
    >>> later.taken(["bob", "ann", "bob"], 3)[0].tolist()
    [True, False, False]
    """

    most: int
    ids: tuple[Any, ...] = ()
    counts: tuple[int, ...] = ()

    def taken(self, groups: Any, n_rows: int) -> tuple[Mask, FirstRows]:
        """Return which of the next rows count, and what to remember."""
        read_users(groups, n_rows)  # refuses a wrong form or length
        cells = _cells(groups)
        numbers = read_users([*self.ids, *cells], len(self.ids) + n_rows)[len(self.ids) :]
        ids, counts = list(self.ids), list(self.counts)
        mask = np.zeros(n_rows, dtype=np.bool_)
        for row, number in enumerate(numbers.tolist()):
            if number == len(ids):
                ids.append(cells[row])
                counts.append(0)
            if counts[number] < self.most:
                counts[number] += 1
                mask[row] = True
        return mask, FirstRows(self.most, tuple(ids), tuple(counts))


def _cells(groups: Any) -> list[Any]:
    """Return the id of each row as one cell; several columns of ids become tuples."""
    if hasattr(groups, "itertuples"):
        return list(groups.itertuples(index=False, name=None))
    for name in ("tolist", "to_pylist", "to_list"):
        if hasattr(groups, name):
            listed = getattr(groups, name)()
            return [tuple(one) if isinstance(one, list) else one for one in listed]
    return list(groups)
