# SPDX-License-Identifier: BSD-3-Clause
"""Every example is held out once, classes are spread evenly, and degenerate classes still split."""

import numpy as np
import pytest

from pairlearn.folds import deal, members_of, n_folds_of, splits_of, stratified


@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_every_example_is_held_out_once_and_classes_are_spread(rng, n_folds):
    labels = rng.permutation(np.repeat([0, 1, 2], [40, 13, 6]))
    splits = stratified(members_of(labels), n_folds, rng)
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


def test_repeats_held_folds_and_those_who_take_no_part(rng):
    groups = [np.arange(4), np.arange(6, 12)]
    splits = stratified(groups, 3, rng, n_held=2, n_repeats=3)
    assert len(splits) == 6
    for train, test in splits:
        assert not np.isin([4, 5], np.append(train, test)).any()
        assert len(train) + len(test) == 10


def test_a_single_example_is_trained_on_and_held_out(rng):
    assert n_folds_of(0.2, 1) == 1
    ((train, test),) = stratified([np.array([3]), np.array([0, 1])], 1, rng)
    assert train.tolist() == test.tolist() == [3, 0, 1]


def test_sizes_and_order_are_kept():
    order = np.array([5, 2, 4, 0])
    fold = deal([order], 6, sizes=[3])
    ((train, test),) = splits_of(fold, 1, order)
    assert (train.tolist(), test.tolist()) == ([0], [5, 2, 4])
