# SPDX-License-Identifier: BSD-3-Clause
"""Counts of private votes: no judge moves them further than lemma 23 allows."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.votes import VoteLimits, counted_votes, exact_counts, release_counts

K = 5
VOTE = st.tuples(st.integers(-1, K - 1), st.integers(-1, K - 1), st.integers(-1, 2))


def columns(votes):
    table = np.array(votes, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def counts(votes, judges, limits):
    kept = counted_votes(*columns(votes), np.array(judges, dtype=np.int64), limits)
    return exact_counts(*columns(votes), kept, K)


def moved(votes, others, limits):
    """Return how far the leads with weighted ties, and the meetings, of two judges are apart."""
    one, two = (counts(some, [0] * len(some), limits) for some in (votes, others))
    ties = limits.tie_weight * (one.ties - two.ties)
    leads = np.linalg.norm(np.append(one.leads - two.leads, ties))
    return float(leads), float(np.linalg.norm(one.meetings - two.meetings))


@given(st.lists(VOTE, max_size=20), st.lists(VOTE, max_size=20), st.integers(1, 6), st.data())
def test_no_judge_moves_counts_further(votes, others, most, data):
    limits = VoteLimits(K, most=most, per_pair=data.draw(st.integers(1, most)), ties=True)
    leads, meetings = moved(votes, others, limits)
    assert leads <= limits.lead_sensitivity * (1 + 1e-12)
    assert meetings <= limits.meeting_sensitivity * (1 + 1e-12)
    removed = replace(limits, removes=True)
    leads, meetings = moved(votes, [], removed)
    assert leads <= removed.lead_sensitivity * (1 + 1e-12)
    assert meetings <= removed.meeting_sensitivity * (1 + 1e-12)


def test_the_bounds_are_attained():
    star = [(0, j, 0) for j in range(1, K)]
    limits = VoteLimits(K, most=4, per_pair=1, ties=True)
    fall = [(a, b, 2) for a, b, _ in star]
    assert moved(star, fall, limits)[0] == pytest.approx(limits.lead_sensitivity)
    # A judge of ties only is as far from no judge as one of wins only.
    ties = [(a, b, 1) for a, b, _ in star]
    assert moved(ties, [], limits)[0] == pytest.approx(limits.lead_sensitivity / 2)
    others = [(a, b, 0) for a, b in combinations(range(1, K), 2)][:4]
    assert moved(star, others, limits)[1] == pytest.approx(limits.meeting_sensitivity)
    removed = replace(limits, removes=True)
    assert moved(star, [], removed) == pytest.approx(
        (removed.lead_sensitivity, removed.meeting_sensitivity)
    )
    pair = VoteLimits(K, most=4, per_pair=4, ties=False)
    assert moved([(0, 1, 0)] * 9, [(1, 0, 0)] * 9, pair)[0] == pytest.approx(pair.lead_sensitivity)
    assert moved([(0, 1, 0)] * 9, [(2, 3, 0)] * 9, pair)[1] == pytest.approx(
        pair.meeting_sensitivity
    )


@given(st.lists(st.tuples(VOTE, st.integers(0, 3)), max_size=40), st.integers(1, 5), st.data())
def test_the_first_votes_of_a_judge_count(rows, most, data):
    per_pair = data.draw(st.integers(1, most))
    limits = VoteLimits(K, most=most, per_pair=per_pair, ties=True)
    votes, judges = [vote for vote, _ in rows], [judge for _, judge in rows]
    kept = counted_votes(*columns(votes), np.array(judges, dtype=np.int64), limits)
    on_pair, of_judge, expected = Counter(), Counter(), []
    for (a, b, won), judge in rows:
        key = (judge, frozenset((a, b)))
        fits = min(a, b, won) >= 0 and a != b and on_pair[key] < per_pair
        on_pair[key] += fits
        counts_now = fits and of_judge[judge] < most
        of_judge[judge] += counts_now
        expected.append(counts_now)
    assert kept.tolist() == expected


@given(st.lists(st.tuples(VOTE, st.integers(0, 3)), max_size=40))
def test_judges_add_up(rows):
    # What a judge adds does not depend on the others, nor on how their votes are mixed.
    limits = VoteLimits(K, most=3, per_pair=2, ties=True)
    whole = counts([vote for vote, _ in rows], [judge for _, judge in rows], limits)
    parts = [[vote for vote, judge in rows if judge == one] for one in range(4)]
    single = [counts(votes, [0] * len(votes), limits) for votes in parts]
    for name in ("leads", "ties", "meetings"):
        total = np.sum([getattr(one, name) for one in single], axis=0)
        np.testing.assert_array_equal(getattr(whole, name), total)


def test_the_budget_is_split_so_that_the_variance_is_least():
    limits = VoteLimits(120, most=3, per_pair=1, ties=True)

    def variance(share):
        leads = 0.25 * limits.lead_sensitivity**2 / share
        return leads + 119 / 30 * limits.meeting_sensitivity**2 / (1 - share)

    best = min(np.linspace(0.001, 0.999, 999), key=variance)
    assert limits.lead_share == pytest.approx(best, abs=2e-3)


def test_noise_is_as_stated_and_the_parts_add_up():
    limits = VoteLimits(40, most=2, per_pair=1, ties=True)
    none = exact_counts(*columns([]), np.zeros(0, dtype=bool), 40)
    noisy, releases = release_counts(none, limits, mu=0.5, noise=NoiseSource(seed=0))
    assert sum(one.mu**2 for one in releases) == pytest.approx(0.25, rel=1e-4)
    assert sum(one.mu**2 for one in releases) <= 0.25
    leads, meetings = releases
    assert (leads.dimension, meetings.dimension) == (41, 780)
    # 780 normal numbers: 6 standard errors of the deviation, false alarms below 1e-8.
    assert np.std(noisy.meetings) == pytest.approx(meetings.noise_scale, rel=6 / np.sqrt(2 * 780))
