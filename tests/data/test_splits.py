# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from pairlearn.data.splits import folds, prepare, random_split, repeated_folds


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


def test_repeated_folds_are_the_papers():
    parts = repeated_folds(100, 25, rng=0)
    for first in range(0, 25, 5):
        tests = np.concatenate([part.test for part in parts[first : first + 5]])
        np.testing.assert_array_equal(np.sort(tests), np.arange(100))


def test_too_small_a_class():
    with pytest.raises(ValueError, match="smallest class has 2"):
        folds(10, 5, y=[1] * 2 + [-1] * 8)


matrices = arrays(
    np.float64, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=st.integers(-50, 50)
)


@given(matrices)
def test_training_part_fills_the_interval(X):
    train, test = np.arange(len(X) - 1), np.array([len(X) - 1])
    scaled, _ = prepare(X, train, test)
    varies = np.ptp(X[train], axis=0) > 0
    np.testing.assert_allclose(scaled[:, varies].min(axis=0), -1, atol=1e-12)
    np.testing.assert_allclose(scaled[:, varies].max(axis=0), 1, atol=1e-12)
    assert (scaled[:, ~varies] == 0).all()


@given(matrices, st.integers(0, 2**32))
def test_test_part_does_not_touch_the_training_part(X, seed):
    train, test = np.arange(len(X) - 1), np.array([len(X) - 1])
    scaled, _ = prepare(X, train, test)
    changed = X.copy()
    changed[test] = np.random.default_rng(seed).normal(size=X.shape[1]) * 1e3
    np.testing.assert_array_equal(scaled, prepare(changed, train, test)[0])


def test_the_papers_way_agrees_with_scikit_learn():
    from sklearn.preprocessing import MinMaxScaler

    X = np.random.default_rng(0).normal(size=(30, 4))
    train, test = np.arange(20), np.arange(20, 30)
    expected = MinMaxScaler((-1, 1)).fit_transform(X)
    scaled = prepare(X, train, test, scaling="paper")
    np.testing.assert_allclose(np.vstack(scaled), expected, atol=1e-12)


def test_none_leaves_everything_and_keeps_sparse():
    X = sparse.csr_matrix(np.eye(4))
    train, test = prepare(X, np.array([0, 1]), np.array([2]), scaling="none")
    assert sparse.issparse(train)
    assert test.shape == (1, 4)


def test_sparse_is_filled_when_small_and_refused_when_large():
    small = sparse.csr_matrix(np.eye(4))
    dense = prepare(small, np.arange(3), np.array([3]))[0]
    np.testing.assert_array_equal(dense, prepare(np.eye(4), np.arange(3), np.array([3]))[0])
    large = sparse.csr_matrix((100_000, 100_000))
    with pytest.raises(ValueError, match="fill the zeros"):
        prepare(large, np.arange(3), np.array([3]))


def test_unknown_scaling():
    with pytest.raises(ValueError, match="train, paper, none"):
        prepare(np.eye(3), np.arange(2), np.array([2]), scaling="all")
