# SPDX-License-Identifier: BSD-3-Clause
"""Every example is held out once, classes are spread evenly, and degenerate classes still split."""

import numpy as np
import pytest

from pairlearn.content import MANY
from pairlearn.folds import (
    Keys,
    Places,
    deal,
    members_of,
    n_folds_of,
    seed_of,
    splits_of,
    stratified,
)


@pytest.fixture
def keys(rng):
    return Keys.of(rng.normal(size=(100, 2)), seed=rng)


@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_every_example_is_held_out_once_and_classes_are_spread(rng, keys, n_folds):
    labels = rng.permutation(np.repeat([0, 1, 2], [40, 13, 6]))
    splits = stratified(members_of(labels), n_folds, keys)
    held = np.concatenate([test for _, test in splits])
    np.testing.assert_array_equal(np.sort(held), np.arange(len(labels)))
    for train, test in splits:
        np.testing.assert_array_equal(np.sort(np.append(train, test)), np.arange(len(labels)))
    for label in range(3):
        counts = [np.count_nonzero(labels[test] == label) for _, test in splits]
        assert max(counts) - min(counts) <= 1


def test_dealing_onward_evens_out_the_folds(rng):
    groups = [np.arange(k, k + 3) for k in range(0, 30, 3)]
    uneven = np.bincount(deal(groups, 30, rng, n_folds=4), minlength=4)
    even = np.bincount(deal(groups, 30, rng, n_folds=4, onward=True))
    assert uneven.tolist() == [10, 10, 10, 0]
    assert even.tolist() == [8, 8, 7, 7]


def test_repeats_held_folds_and_those_who_take_no_part(keys):
    groups = [np.arange(4), np.arange(6, 12)]
    splits = stratified(groups, 3, keys, n_held=2, n_repeats=3)
    assert len(splits) == 6
    assert len({tuple(test) for _, test in splits}) == 6
    for train, test in splits:
        assert not np.isin([4, 5], np.append(train, test)).any()
        assert len(train) + len(test) == 10


def test_a_single_example_is_trained_on_and_held_out(keys):
    assert n_folds_of(0.2, 1) == 1
    ((train, test),) = stratified([np.array([3]), np.array([0, 1])], 1, keys)
    assert train.tolist() == test.tolist() == [3, 0, 1]


def test_sizes_and_order_are_kept():
    order = np.array([5, 2, 4, 0])
    fold = deal([order], 6, sizes=[3])
    ((train, test),) = splits_of(fold, 1, order)
    assert (train.tolist(), test.tolist()) == ([0], [5, 2, 4])


def of_contents(X, fold):
    """Return the rows of each fold, sorted: what a fold holds, whatever the order of the rows."""
    return [sorted(map(tuple, X[fold == k].tolist())) for k in range(int(fold.max()) + 1)]


@pytest.mark.parametrize("n", [60, 11_000])
def test_folds_hold_the_same_rows_in_any_order(rng, n):
    # Rows of few values repeat, a large group is dealt by keys alone.
    X = rng.integers(0, 4, size=(n, 3)).astype(float)
    order = rng.permutation(n)
    first, second = (
        deal([np.arange(n)], n, Keys.of(rows, seed=5), n_folds=5) for rows in (X, X[order])
    )
    assert of_contents(X, first) == of_contents(X[order], second)
    other = deal([np.arange(n)], n, Keys.of(X, seed=6), n_folds=5)
    assert of_contents(X, first) != of_contents(X, other)


def test_copies_of_a_row_are_spread_over_folds():
    X = np.ones((20_000, 2))
    for n, spare in ((1_000, 0), (20_000, 400)):
        sizes = np.bincount(deal([np.arange(n)], n, Keys.of(X[:n]), n_folds=4), minlength=4)
        # 400 is 6.5 standard deviations of a size of 5,000; the keys are fixed.
        assert np.abs(sizes - n // 4).max() <= spare


def test_weights_order_copies_and_another_column_counts(rng):
    X, places = rng.normal(size=(50, 2)), np.arange(50)
    X[25:] = X[:25]
    weight = rng.permutation(50) + 1.0
    plain = Keys.of(X, weight=weight).permutation(places)
    np.testing.assert_array_equal(plain, Keys.of(X, weight=3.0 * weight).permutation(places))
    order = rng.permutation(50)
    shuffled = order[Keys.of(X[order], weight=weight[order]).permutation(places)]
    np.testing.assert_array_equal(plain, shuffled)
    for other in (Keys.of(X, np.ones(50)), Keys.of(X, seed=1)):
        assert (plain != other.permutation(places)).any()


def test_whole_groups_are_dealt_by_what_they_hold(rng):
    X, group = rng.normal(size=(30, 2)), np.repeat(np.arange(10), 3)
    order = rng.permutation(30)
    renamed = 9 - group[order]
    for rows, names in ((X, group), (X[order], renamed)):
        place, keys = Keys.of(rows).of_groups(names)
        fold = deal([np.arange(10)], 10, keys, n_folds=2)[place]
        assert all(len(set(fold[names == name])) == 1 for name in range(10))
        found = of_contents(rows, fold)
        if rows is X:
            expected = found
    assert found == expected


@pytest.mark.parametrize("repeated", [False, True])
def test_the_first_are_those_of_the_whole_order(rng, repeated):
    X = rng.normal(size=(200, 2))
    if repeated:
        X[100:] = X[:100]
    keys, group = Keys.of(X), np.arange(5, 195)
    for count in (1, 30, 190, 500):
        expected = keys.permutation(group)[:count]
        np.testing.assert_array_equal(keys.first(group, count), expected)


def test_what_was_found_of_a_group_serves_smaller_counts(rng):
    X = rng.normal(size=(5_000, 2))
    group = rng.random(5_000) < 0.6
    keys = Keys.of(X, seed=4)
    many = keys.first(group, 900)
    for flags in (group, ~group):
        for count in (300, 900, 1_200, 5_000):
            fresh = Keys.of(X, seed=4).first(np.flatnonzero(flags), count)
            np.testing.assert_array_equal(keys.first(flags, count), fresh)
    np.testing.assert_array_equal(many, keys.first(group, 900))


@pytest.mark.parametrize("share", [0.2, 0.9, 1.0])
def test_places_are_drawn_evenly_from_a_group(rng, share):
    """Each member is drawn with the same probability, whichever way they are drawn.

    Of 400 draws of a quarter, a member is in 100 on average, with a deviation of 8.7. The largest
    of 1,000 deviations is above six of them in one of 500,000 sets of draws.
    """
    group = rng.permutation(np.arange(1_000) < 1_000 * share)
    size = int(group.sum())
    seen = np.zeros(1_000)
    for seed in range(400):
        drawn = Places(seed).first(group, size // 4)
        assert len(set(drawn.tolist())) == len(drawn) == size // 4
        seen[drawn] += 1.0
    assert not seen[~group].any()
    assert np.abs(seen[group] - 100.0).max() < 6.0 * 8.7
    np.testing.assert_array_equal(Places(3).first(group, 50), Places(3).first(group, 50))
    for count in (size, 2 * size):
        np.testing.assert_array_equal(Places().first(group, count), np.flatnonzero(group))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.6, 1.0])
def test_few_of_many_examples_are_drawn_as_from_a_list_of_the_group(share):
    rng = np.random.default_rng(3)
    flags = rng.random(MANY + 7) < share
    members = np.flatnonzero(flags)
    keys = Keys(rng.integers(0, 2**64, len(flags), dtype=np.uint64), seed=4)
    for count in (50, 2 * len(flags)):
        np.testing.assert_array_equal(keys.first(flags, count), keys.first(members, count))
    drawn = Places(seed=1).first(flags, 50)
    assert len(np.unique(drawn)) == len(drawn) == min(50, len(members))
    assert flags[drawn].all()
    np.testing.assert_array_equal(Places(seed=1).first(flags, len(flags)), members)


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_the_seed_of_a_generator_is_its_next_number_and_leaves_it_as_it_was(bits):
    rng, twin = (np.random.Generator(bits(5)) for _ in range(2))
    assert [seed_of(rng), seed_of(rng)] == 2 * [int(twin.integers(2**63))]
    assert rng.integers(2**63) == np.random.Generator(bits(5)).integers(2**63)
