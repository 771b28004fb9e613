# SPDX-License-Identifier: BSD-3-Clause
"""Every example is held out once, classes are spread evenly, and degenerate classes still split."""

import numpy as np
import pytest

from pairlearn.folds import (
    Keys,
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


def test_whole_groups_are_dealt(rng):
    X, group = rng.normal(size=(30, 2)), np.repeat(np.arange(10), 3)
    place, keys = Keys.of(X).of_groups(group)
    fold = deal([np.arange(10)], 10, keys, n_folds=2)[place]
    assert all(len(set(fold[group == name])) == 1 for name in range(10))


def test_the_first_are_those_of_the_whole_order(keys):
    group = np.arange(5, 95)
    for count in (1, 30, 89, 90, 500):
        expected = keys.permutation(group)[:count]
        np.testing.assert_array_equal(keys.first(group, count), expected)
        flags = np.isin(np.arange(100), group)
        np.testing.assert_array_equal(keys.first(flags, count), expected)


def test_keys_of_some_are_theirs_and_other_keys_are_others(keys):
    some = np.array([7, 3, 90])
    order = keys.take(some).permutation(np.arange(3))
    np.testing.assert_array_equal(some[order], keys.permutation(some))
    everything = np.arange(100)
    assert (keys.again(1).permutation(everything) != keys.permutation(everything)).any()


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_the_seed_of_a_generator_is_its_next_number_and_leaves_it_as_it_was(bits):
    rng, twin = (np.random.Generator(bits(5)) for _ in range(2))
    assert [seed_of(rng), seed_of(rng)] == 2 * [int(twin.integers(2**63))]
    assert rng.integers(2**63) == np.random.Generator(bits(5)).integers(2**63)
