# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of sorted scores in the right order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.kernels.concordance import doubled_wins, doubled_wins_of_each

SMALL = st.lists(st.integers(-3, 3), min_size=1)


@given(SMALL, SMALL)
def test_sorted_scores_are_counted_in_one_walk(winners, losers):
    found = doubled_wins(*(np.sort(np.array(own, dtype=np.float64)) for own in (winners, losers)))
    assert found == sum((one > other) + (one >= other) for one in winners for other in losers)


@given(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=3))
def test_each_row_of_scores_is_counted(examples):
    p, q = (min(len(own[side]) for own in examples) for side in range(2))
    scores = np.array([sorted(own[0][:p]) + sorted(own[1][:q]) for own in examples], dtype=float)
    found = np.empty(len(examples))
    assert doubled_wins_of_each(scores, p, p + q, found)
    assert found.tolist() == [doubled_wins(own[:p], own[p:]) for own in scores]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_told(odd):
    scores, found = np.array([[0.0, 1.0, 0.5], [0.0, odd, 0.5]]), np.empty(2)
    scores[:, :2].sort()
    assert not doubled_wins_of_each(scores, 2, 3, found)
    assert doubled_wins_of_each(np.full((1, 3), np.nan), 2, 3, found[:1])
    assert np.isnan(found[0])
