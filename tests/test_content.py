# SPDX-License-Identifier: BSD-3-Clause
"""Hashes of rows: equal for equal values however they are stored, different otherwise."""

import math
import struct

import numpy as np
import pytest
import scipy.sparse

from pairlearn.content import mixed, row_hashes, with_column

ALL = 2**64 - 1


def splitmix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & ALL
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & ALL
    return z ^ (z >> 31)


def hash_of(row):
    """Return the hash of a row in whole numbers of Python, from the definition."""
    total = 0
    for column, value in enumerate(row):
        bits = struct.unpack("<Q", struct.pack("<d", value if value else 0.0))[0]
        mark = splitmix((column + 1) * 0x9E3779B97F4A7C15 & ALL) | 1
        total += (bits ^ (bits >> 43)) * mark
    return total & ALL


def test_the_hash_is_that_of_its_definition(rng):
    X = rng.normal(size=(40, 5))
    X[rng.random(X.shape) < 0.3] = 0.0
    X[3] = [1e300, -1e300, 5e-324, math.inf, -0.0]
    assert row_hashes(X).tolist() == [hash_of(row) for row in X.tolist()]


def test_the_hash_does_not_depend_on_how_rows_are_stored(rng):
    X = rng.integers(-3, 4, size=(9_000, 7)).astype(np.float32)
    expected = row_hashes(X)
    wide = np.zeros((9_000, 14))
    wide[:, ::2] = X
    repeated = scipy.sparse.coo_array((np.full(4, 0.5), ([0, 0, 1, 1], [0, 0, 2, 2])), shape=(2, 7))
    repeated = scipy.sparse.csr_array(
        (repeated.data, repeated.coords[1], np.array([0, 2, 4])), shape=(2, 7)
    )
    for same in (X.astype(float), np.asfortranarray(X), wide[:, ::2], scipy.sparse.csr_array(X)):
        np.testing.assert_array_equal(row_hashes(same), expected)
    np.testing.assert_array_equal(row_hashes(repeated), row_hashes(repeated.toarray()))
    assert repeated.nnz == 4


def test_zeros_and_missing_numbers_have_one_form():
    quiet = np.array([0x7FF8000000000000, 0xFFF8000000000000], dtype=np.uint64).view(float)
    assert len(set(row_hashes(quiet[:, None]).tolist())) == 1
    assert row_hashes(np.array([[0.0], [-0.0]])).tolist() == [0, 0]
    assert row_hashes(np.full((2, 3), 1e308)).tolist() == [hash_of([1e308] * 3)] * 2


def test_different_rows_have_different_hashes():
    # Values of few bits, where products of whole numbers lose most: all 2^16 rows differ.
    grid = np.array(np.meshgrid(*[np.arange(16.0)] * 4)).reshape(4, -1).T
    assert len(np.unique(row_hashes(grid))) == 16**4
    assert len(np.unique(row_hashes(grid * 0.001))) == 16**4


def test_keys_of_rows_of_few_values_fall_evenly_into_folds():
    grid = np.array(np.meshgrid(*[np.arange(16.0)] * 4)).reshape(4, -1).T
    for n_folds in (2, 5, 7):
        sizes = np.bincount((mixed(row_hashes(grid)) % np.uint64(n_folds)).astype(int))
        # Six standard deviations of a binomial: a false alarm has chance 2e-8, and keys are fixed.
        limit = 6 * math.sqrt(len(grid) / n_folds)
        assert np.abs(sizes - len(grid) / n_folds).max() < limit


def test_a_further_column_adds_a_term_of_its_own():
    hashes = row_hashes(np.eye(3))
    one, two = (with_column(hashes, [1.0, 2.0, 0.0], number) for number in (1, 2))
    assert one[2] == two[2] == hashes[2]
    assert len({*one[:2].tolist(), *two[:2].tolist(), *hashes.tolist()}) == 7
    with pytest.raises(ValueError, match="operands could not be broadcast"):
        with_column(hashes, [1.0, 2.0], 1)
