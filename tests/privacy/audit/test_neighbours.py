# SPDX-License-Identifier: BSD-3-Clause
"""Neighbouring tables are what they are called: they differ in one example, or in one person."""

from collections import Counter

import numpy as np
import pytest

from pairlearn.privacy.audit.neighbours import neighbouring_persons, places, public_neighbours
from pairlearn.solvers.descent.localized import stage_sizes

LOWER, UPPER = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 5.0, 4.0])


def rows_of(table):
    """Return the rows of a table with their labels, as things that can be counted."""
    X = np.asarray(table.X, dtype=object)
    assert X.shape == (len(table.y), 3)
    return [(*map(str, row), str(label)) for row, label in zip(X.tolist(), table.y, strict=True)]


@pytest.mark.parametrize(
    ("n", "neighbours"),
    [(1, "replace"), *((n, kind) for n in (2, 3, 12) for kind in ("replace", "add_remove"))],
)
def test_tables_differ_in_one_example(n, neighbours):
    found = public_neighbours(LOWER, UPPER, (0, 1), n=n, neighbours=neighbours)
    assert len({pair.name for pair in found}) == len(found)
    for pair in found:
        first, second = Counter(rows_of(pair.first)), Counter(rows_of(pair.second))
        sizes = sorted((first.total(), second.total()))
        assert sizes == ([n, n] if neighbours == "replace" else [n - 1, n]), pair.name
        assert (first - second).total() <= 1, pair.name
        assert (second - first).total() <= 1, pair.name
    # Nothing is further apart than opposite corners, and nothing further out than one of them.
    ends = (LOWER, UPPER) if neighbours == "replace" else (UPPER,)
    corners = [tuple(map(str, corner.tolist())) for corner in ends]
    seen = {row[:3] for pair in found for row in rows_of(pair.first) + rows_of(pair.second)}
    assert set(corners) <= seen


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_tables_differ_in_one_person_with_all_rows(neighbours):
    found = neighbouring_persons(LOWER, UPPER, (0, 1), n=9, neighbours=neighbours)
    assert len({pair.name for pair in found}) == len(found)
    changed_sizes = set()
    # Of rows without an id there is one more pair.
    assert found[-1].name == "rows without an id change and go"
    for pair in found[:-1]:
        tables = []
        for table in (pair.first, pair.second):
            rows = rows_of(table)
            assert len(table.groups) == len(rows)
            persons = {}
            for person, row in zip(table.groups, rows, strict=True):
                persons.setdefault(person, Counter())[row] += 1
            tables.append(persons)
        assert len(tables[0]) == 9, pair.name
        assert len(tables[1]) == (9 if neighbours == "replace" else 8), pair.name
        differ = [p for p in tables[0] | tables[1] if tables[0].get(p) != tables[1].get(p)]
        assert len(differ) == 1, pair.name
        changed_sizes |= {t[differ[0]].total() for t in tables if differ[0] in t}
        others = [rows.total() for p, rows in tables[0].items() if p != differ[0]]
        assert min(others) == 1 < max(others)
    assert min(changed_sizes) == 1 < max(changed_sizes)


def test_a_change_is_tried_at_both_sides_of_each_boundary():
    found = places(100, 5)
    assert len(set(found)) == len(found)
    ends, sizes = [20, 40, 60, 80], list(stage_sizes(100))
    ends += [sum(sizes[:k]) for k in range(1, len(sizes) + 1)]
    wanted = {0, 1, 50, 99, *ends, *(end - 1 for end in ends)}
    assert set(found) == {place for place in wanted if 0 <= place < 100}
