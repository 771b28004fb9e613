# SPDX-License-Identifier: BSD-3-Clause
"""Pairings of one pair a step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pairlearn import (
    SGD,
    AUCClassifier,
    Constant,
    Hinge,
    LinearScore,
    PairwiseSGD,
    PreviousExample,
    PreviousOpposite,
    Problem,
    RandomPair,
)
from pairlearn.pairings import FrozenExample, RandomEarlier

FALSE_ALARM = 1e-6


def literal_opposite(y):
    pairs = []
    for t in range(1, len(y)):
        earlier = [r for r in range(t) if y[r] != y[t]]
        pairs.append((t, earlier[-1] if earlier else t))
    return pairs


@given(st.lists(st.sampled_from([-1.0, 0.5, 1.0]), min_size=1, max_size=25))
def test_previous_opposite_is_the_latest_with_another_label(labels):
    y = np.array(labels)
    plan = PreviousOpposite().online(np.random.default_rng(0)).arrive(y).plan
    assert list(zip(plan.left.tolist(), plan.right.tolist(), strict=True)) == literal_opposite(y)


@pytest.mark.parametrize(
    "pairing", [PreviousExample(), FrozenExample(), PreviousOpposite()], ids=repr
)
@pytest.mark.parametrize("cuts", [(1,), (1, 2), (13, 14, 20)])
def test_streams_do_not_depend_on_chunks(pairing, cuts):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.where(rng.random(30) < 0.4, 1.0, -1.0)
    solver = PairwiseSGD(pairing, Constant(0.1))
    problem = Problem(LinearScore(), Hinge())
    whole = solver.start(problem, 4, rng=0).learn_many(X, y)
    parts = solver.start(problem, 4, rng=0)
    for begin, end in zip((0, *cuts), (*cuts, 30), strict=True):
        parts.learn_many(X[begin:end], y[begin:end])
    assert whole.n_steps == parts.n_steps == 29
    np.testing.assert_array_equal(whole.w, parts.w)


def test_offline_opposite_pairs_differ():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(50) < 0.2, 1.0, -1.0)
    source = PreviousOpposite().offline(50, rng, y)
    for n_steps in (300, 1, 40):
        plan = source.draw(n_steps)
        met = plan.left != plan.right
        assert (y[plan.left] != y[plan.right])[met].all()
    assert met.all()
    with pytest.raises(ValueError, match="pass y"):
        PreviousOpposite().offline(5, rng)


def test_frozen_offline():
    source = FrozenExample().offline(30, np.random.default_rng(0))
    rights = np.concatenate([source.draw(10).right, source.draw(5).right])
    assert len(np.unique(rights)) == 1
    assert len(np.unique(source.draw(200).left)) == 30


def test_random_earlier_is_uniform_over_the_path():
    """Chi-square: at the tenth step each of the ten earlier indices has the same chance."""
    rng = np.random.default_rng(0)
    counts = np.zeros(10)
    for _ in range(5000):
        # With a million examples the indices of a short path differ (up to 1 in 20,000).
        source = RandomEarlier().offline(1_000_000, rng)
        first = source.draw(4)
        second = source.draw(6)
        path = np.concatenate([first.right[:1], first.left, second.left])
        counts[np.flatnonzero(path[:10] == second.right[-1])[0]] += 1
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_a_shuffled_pass_visits_every_example_once():
    n, source = 7, PreviousExample("shuffled").offline(7, np.random.default_rng(3))
    plans = [source.draw(count) for count in (4, 1, 16, 13)]
    left = np.concatenate([plan.left for plan in plans])
    right = np.concatenate([plan.right for plan in plans])
    np.testing.assert_array_equal(left[:-1], right[1:])
    passes = np.concatenate([right[:1], left])[: 4 * n].reshape(4, n)
    assert (np.sort(passes, axis=1) == np.arange(n)).all()
    assert len({tuple(order) for order in passes.tolist()}) == 4
    whole = PreviousExample("shuffled").offline(7, np.random.default_rng(3)).draw(34)
    np.testing.assert_array_equal(whole.left, left)


def test_shuffled_passes_are_for_stored_examples():
    problem = Problem(LinearScore(), Hinge())
    with pytest.raises(ValueError, match="a stream has its own order"):
        PairwiseSGD(PreviousExample("shuffled")).start(problem, 2)
    with pytest.raises(ValueError, match="order must be"):
        PreviousExample("random")
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    found = AUCClassifier(
        solver=SGD(step_size=0.1, n_passes=3, pairing="shuffled"), scaling=None, random_state=0
    ).fit(X, y)
    solver = PairwiseSGD(PreviousExample("shuffled"), Constant(0.1))
    wanted = solver.solve(Problem(LinearScore(), found.loss_), X, y, n_passes=3, rng=0)
    np.testing.assert_allclose(found.coef_[0], wanted.average)


def test_random_earlier_has_no_stream():
    with pytest.raises(ValueError, match="all examples at once"):
        RandomEarlier().online(np.random.default_rng(0))


@pytest.mark.parametrize("most", [2**20, 1])
def test_random_pairs_are_uniform(most, monkeypatch):
    """Chi-square over all ordered pairs of distinct indices, by one number and by two."""
    from pairlearn.pairings import pairs

    monkeypatch.setattr(pairs, "_ONE_NUMBER", most)
    plan = RandomPair().offline(7, np.random.default_rng(0)).draw(42_000)
    assert (plan.left != plan.right).all()
    counts = np.bincount(7 * plan.left + plan.right, minlength=49).reshape(7, 7)
    assert stats.chisquare(counts[~np.eye(7, dtype=bool)]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("n", [2, 1000, 2**20])
def test_random_pairs_cover_the_range(n):
    """Chi-square over 20 equal parts of the range of each index and of their difference."""
    plan = RandomPair().offline(n, np.random.default_rng(1)).draw(40_000)
    assert plan.left.min() >= 0
    assert max(plan.left.max(), plan.right.max()) < n
    if n > 2:
        gaps = (plan.right.astype(np.int64) - plan.left) % n
        for values, low in ((plan.left, 0), (plan.right, 0), (gaps, 1)):
            edges = np.linspace(low, n, 21)
            sizes = np.diff(np.ceil(edges))
            counts = np.histogram(values, bins=np.ceil(edges) - 0.5)[0]
            expected = sizes / sizes.sum() * counts.sum()
            assert stats.chisquare(counts, expected).pvalue > FALSE_ALARM
