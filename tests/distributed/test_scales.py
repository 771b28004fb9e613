# SPDX-License-Identifier: BSD-3-Clause
"""Scales of columns that are hard: extreme values, text, mixed storage."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn.distributed import FeatureScales, MajorityCounts
from pairlearn.estimators.shared.scaling import fit_scaling
from pairlearn.solvers.rows import as_rows


def of_parts(parts):
    statistic = FeatureScales()
    return statistic.finish(statistic.merge_all(statistic.partial_state(X) for X in parts))


def test_extreme_columns_keep_their_digits(rng):
    X = rng.normal(size=(60, 3)) * [1e200, 1e-200, 1.0]
    X[:20] = 0.0
    found = of_parts(np.array_split(X, 3)).scaling()
    expected = fit_scaling(as_rows(X))
    np.testing.assert_array_equal(found.inverse, expected.inverse)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-12)


def test_text_needs_a_second_pass_and_then_has_the_scales_of_one_machine(rng):
    # Words have units, but rows have no lengths, which a cluster leaves out.
    X = scipy.sparse.random_array((400, 50), density=0.01, random_state=rng, format="csr")
    X.data = np.exp(X.indices / 10.0)
    parts = [X[:100], X[100:250], X[250:]]
    scales = of_parts(parts)
    assert scales.needs_counts
    with pytest.raises(ValueError, match="second pass"):
        scales.scaling()
    counting = MajorityCounts(scales)
    counts = counting.finish(counting.merge_all(counting.partial_state(part) for part in parts))
    expected = fit_scaling(as_rows(X))
    np.testing.assert_allclose(scales.scaling(counts).factor, expected.factor, rtol=1e-12)


def test_zeros_that_are_stored_are_zeros(rng):
    values = (rng.random((400, 50)) < 0.04) * 1.0
    X = scipy.sparse.csr_array(values)
    Z = scipy.sparse.csr_array(np.where(rng.random(values.shape) < 0.02, 1.0, values))
    Z.data[:] = values[np.repeat(np.arange(400), np.diff(Z.indptr)), Z.indices]
    assert Z.nnz > X.nnz
    found, expected = (of_parts([rows[:150], rows[150:]]) for rows in (Z, X))
    counts = [MajorityCounts(found).partial_state(rows)["counts"] for rows in (Z, X)]
    np.testing.assert_array_equal(*counts)
    scalings = found.scaling(counts[0]), expected.scaling(counts[1]), fit_scaling(as_rows(X))
    for one in (*scalings, fit_scaling(as_rows(Z))):
        np.testing.assert_allclose(one.factor, scalings[0].factor, rtol=1e-12)


def test_a_majority_that_no_partition_sees_first_is_found():
    # Each partition begins with another value; zero has 60 of 90 examples.
    parts = [np.concatenate([np.full(10, k), np.zeros(20)])[:, None] for k in (1.0, 2.0, 3.0)]
    assert of_parts(parts).atom.tolist() == [0.0]


def test_one_sparse_partition_leaves_all_rows_uncentred(rng):
    X = rng.normal(size=(40, 2)) + 5.0
    mixed = of_parts([X[:20], scipy.sparse.csr_array(X[20:])]).scaling()
    assert not mixed.centre.any()
    dense = of_parts([X[:20], X[20:]]).scaling()
    np.testing.assert_allclose(mixed.factor, dense.factor, rtol=1e-12)


def test_single_precision_is_remembered(rng):
    X = np.full((50, 2), 1e4, dtype=np.float32)
    X[:, 1] += rng.normal(size=50)
    X[0, 0] = np.nextafter(np.float32(1e4), np.float32(2e4))
    found = of_parts([X[:25], X[25:].astype(np.float64)]).scaling()
    assert (found.factor == 0.0).tolist() == [True, False]


def test_partitions_of_different_widths_are_refused():
    with pytest.raises(ValueError, match="One partition has 2 features, another 3"):
        of_parts([np.ones((2, 2)), np.ones((2, 3))])
