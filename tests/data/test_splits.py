# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.data import folds, random_split, repeated_folds


@given(st.integers(2, 400), st.integers(0, 1000))
def test_random_split_is_a_partition(n, seed):
    split = random_split(n, rng=seed)
    assert len(split.train) == 4 * n // 5
    np.testing.assert_array_equal(np.sort(np.concatenate(split)), np.arange(n))


@given(st.integers(5, 200), st.integers(2, 5), st.integers(0, 1000))
def test_every_example_tests_once(n, n_folds, seed):
    parts = folds(n, n_folds, rng=seed)
    tests = np.concatenate([part.test for part in parts])
    np.testing.assert_array_equal(np.sort(tests), np.arange(n))
    sizes = [len(part.test) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    for part in parts:
        np.testing.assert_array_equal(np.sort(np.concatenate(part)), np.arange(n))


@given(st.integers(5, 40), st.integers(5, 40), st.integers(0, 1000))
def test_with_labels_each_class_is_dealt_out(n_positive, n_negative, seed):
    y = np.r_[np.ones(n_positive), -np.ones(n_negative)]
    for part in folds(len(y), 5, y=y, rng=seed):
        assert abs((y[part.test] > 0).sum() - n_positive / 5) < 1
        assert abs((y[part.test] < 0).sum() - n_negative / 5) < 1


def test_same_seed_same_split():
    np.testing.assert_array_equal(random_split(50, rng=3).test, random_split(50, rng=3).test)
    assert not np.array_equal(random_split(50, rng=3).test, random_split(50, rng=4).test)


def test_repeated_folds_are_the_papers():
    parts = repeated_folds(100, 25, rng=0)
    for first in range(0, 25, 5):
        tests = np.concatenate([part.test for part in parts[first : first + 5]])
        np.testing.assert_array_equal(np.sort(tests), np.arange(100))


def test_too_small_a_class():
    with pytest.raises(ValueError, match="smallest class has 2"):
        folds(10, 5, y=[1] * 2 + [-1] * 8)


def test_empty_part():
    with pytest.raises(ValueError, match="empty"):
        random_split(3, test_fraction=0.9)
