# SPDX-License-Identifier: BSD-3-Clause
"""Persons with several rows: equal weight for each person, in whole numbers.

A person has the weight `WHOLE`, dealt to his or her rows as evenly as whole numbers allow. So a
weighted sum is exact, and a person with all rows is an average of rows: what one row can do to a
statistic that is linear in each person bounds what a person can do (lemma 18 in
``docs/privacy/lemmas.md``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.records import read_users

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
