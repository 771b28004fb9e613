# SPDX-License-Identifier: BSD-3-Clause
"""Tables of cells: merged by machine code, by NumPy and by plain Python, with the same bits."""

import threading

import numpy as np
import pytest

from pairlearn.distributed import ScoreHistogram
from pairlearn.distributed.statistics.cells import FACTS, Cells, Merger, Room, short
from pairlearn.distributed.statistics.chunk import room_for


def cells_of(rng, n, m, d):
    """Return m of n cells, some of them with one score only."""
    cells = np.sort(rng.choice(n, m, replace=False)).astype(np.intp)
    mean = np.round(rng.normal(size=m), 1)
    reach = rng.choice([0.0, 0.3], m)
    squares = np.where(reach > 0.0, rng.random(m), 0.0)
    facts = [rng.integers(1, 9, m).astype(float), mean, squares, mean - reach, mean + reach]
    return Cells(cells, np.column_stack([*facts, rng.normal(size=(m, d))]), np.array([m, 1]))


def by_hand(a, b):
    """Merge cell by cell, as the formula of the mean and of the sum of squares says."""
    known = [dict(zip(one.cells.tolist(), one.facts.tolist(), strict=True)) for one in (a, b)]
    found = {}
    for cell in sorted({*known[0], *known[1]}):
        if cell in known[0] and cell in known[1]:
            (n, mean, sq, low, high, *sums), (n_b, mean_b, sq_b, low_b, high_b, *sums_b) = (
                one[cell] for one in known
            )
            gap, total = mean_b - mean, n + n_b
            merged = [total, mean + n_b / total * gap, sq + sq_b + n * n_b / total * gap**2]
            merged += [min(low, low_b), max(high, high_b)]
            found[cell] = merged + [x + y for x, y in zip(sums, sums_b, strict=True)]
        else:
            found[cell] = known[0].get(cell) or known[1][cell]
    return found


@pytest.mark.parametrize("d", [0, 3])
@pytest.mark.parametrize(("m_a", "m_b"), [(1, 1), (40, 0), (0, 40), (25, 30), (50, 50)])
def test_three_ways_to_merge_give_the_same_bits(m_a, m_b, d):
    rng = np.random.default_rng(m_a + d)
    a, b = cells_of(rng, 50, m_a, d), cells_of(rng, 50, m_b, d)
    compiled, plain = a.merged(b, Room.of(50, len(FACTS) + d)), a.merged(b, None)
    known = by_hand(a, b)
    for found in (compiled, plain):
        assert found.cells.tolist() == list(known)
        assert found.facts.tolist() == list(known.values())
        assert found.n_examples.tolist() == [m_a + m_b, 2]


@pytest.mark.parametrize("few", [0, 10**9])
@pytest.mark.parametrize("n_states", [1, 2, 5, 11])
def test_states_merge_as_two_by_two(n_states, few, monkeypatch):
    monkeypatch.setattr("pairlearn.distributed.statistics.cells.FEW_NUMBERS", few)
    rng = np.random.default_rng(n_states)
    states = [cells_of(rng, 60, size, 2).packed() for size in rng.integers(1, 60, n_states)]
    states[n_states // 2] = {} if n_states > 1 else states[0]

    def in_pairs(level):
        while len(level) > 1:
            pairs = [Merger(60).merge_all(level[k : k + 2]) for k in range(0, len(level), 2)]
            level = pairs
        return level[0]

    found, expected = Merger(60).merge_all(iter(states)), in_pairs(states)
    assert set(found) == set(expected)
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        assert found[name].tobytes() == values.tobytes()


def test_no_state_is_the_state_of_none():
    assert Merger(4).merge_all([]) == Merger(4).merge_all([{}, {}]) == {}


def test_states_do_not_stand_in_rooms_that_are_lent_again():
    rng = np.random.default_rng(0)
    statistic = ScoreHistogram([1.0], np.linspace(-2.0, 2.0, 999), (0, 1))
    states, before = [], []
    for _ in range(6):
        states.append(statistic.partial_state(rng.normal(size=(9000, 1)), rng.integers(0, 2, 9000)))
        states.append(statistic.merge_all(states))
        before += [{k: v.copy() for k, v in one.items()} for one in states[-2:]]
    for state, known in zip(states, before, strict=True):
        for name, values in known.items():
            np.testing.assert_array_equal(state[name], values)


def test_a_room_has_one_owner_at_a_time():
    found = []

    def borrow():
        with room_for(100) as a, room_for(50) as b:
            found.append((len(a), len(b), np.shares_memory(a, b)))
        with room_for(70) as again:
            found.append((len(again), np.shares_memory(a, again), np.shares_memory(b, again)))

    with room_for(100) as ours:
        ours[:] = 1.0
        # A new thread has no rooms yet.
        thread = threading.Thread(target=borrow)
        thread.start()
        thread.join()
        assert (ours == 1.0).all()
    assert found == [(100, 50, False), (70, True, False)]


def test_a_thread_keeps_few_numbers(monkeypatch):
    monkeypatch.setattr("pairlearn.distributed.statistics.chunk._MOST_KEPT", 1000)
    with room_for(5000) as large:
        pass
    with room_for(5000) as other:
        assert not np.shares_memory(large, other)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], np.uint8),
        ([255.0], np.uint8),
        ([256.0], np.uint16),
        ([2.0**32 - 1], np.uint32),
        ([2.0**32], np.float64),
        ([0.5, 3.0], np.float64),
    ],
)
def test_whole_numbers_are_short(values, kind):
    given = np.array(values)
    assert short(given).dtype == kind
    np.testing.assert_array_equal(short(given), given)
    assert not np.shares_memory(short(given), given)
