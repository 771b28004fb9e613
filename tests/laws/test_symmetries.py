# SPDX-License-Identifier: BSD-3-Clause
"""What must not matter does not matter: labels, units, order and origin of the features."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlearn import (
    Ball,
    Constant,
    FifoBuffer,
    InverseSqrt,
    LinearScore,
    PairwiseSGD,
    PreviousExample,
    Problem,
    RandomPair,
    Uniform,
    WholeSpace,
)
from pairlearn.averaging import DelayedByStepSize, DelayedLinear
from pairlearn.losses import LOSSES

N, D, N_STEPS = 40, 7, 60

losses = st.sampled_from([make() for make in LOSSES.values()])
pairings = st.sampled_from([PreviousExample(), RandomPair(), FifoBuffer(3)])
schedules = st.sampled_from([Constant(0.1), InverseSqrt(0.3)])
averagings = st.sampled_from([DelayedByStepSize(), DelayedLinear(), Uniform()])
radii = st.sampled_from([0.2, 50.0, np.inf])
seeds = st.integers(0, 50)


def sample(seed):
    rng = np.random.default_rng(seed)
    X = 0.5 * rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.8)
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=N) > 0, 1.0, -1.0)


def domain(radius):
    return WholeSpace() if np.isinf(radius) else Ball(radius)


def run(loss, X, y, pairing, schedule, radius, averaging, **options):
    solver = PairwiseSGD(pairing, schedule, domain(radius), averaging)
    return solver.solve(
        Problem(LinearScore(), loss), X, y, n_steps=N_STEPS, rng=3, **options
    ).average


@settings(max_examples=60)
@given(losses, pairings, schedules, radii, averagings, seeds)
def test_flipped_labels_flip_the_parameter(loss, pairing, schedule, radius, averaging, seed):
    X, y = sample(seed)
    rest = (pairing, schedule, radius, averaging)
    assert np.array_equal(run(loss, X, -y, *rest), -run(loss, X, y, *rest))


@given(losses, schedules, radii, seeds)
def test_flipped_labels_flip_the_parameter_of_sparse_rows(loss, schedule, radius, seed):
    X, y = sample(seed)
    X = scipy.sparse.csr_array(X)
    rest = (PreviousExample(), schedule, radius, DelayedByStepSize())
    assert np.array_equal(run(loss, X, -y, *rest), -run(loss, X, y, *rest))


@settings(max_examples=60)
@given(losses, pairings, schedules, radii, averagings, seeds, st.permutations(range(D)))
def test_permuted_features_permute_the_parameter(
    loss, pairing, schedule, radius, averaging, seed, order
):
    X, y = sample(seed)
    rest = (pairing, schedule, radius, averaging)
    expected = run(loss, X, y, *rest)
    found = run(loss, X[:, order], y, *rest)
    assert np.abs(found - expected[order]).max() <= 1e-11 * np.abs(expected).max()


@settings(max_examples=60)
@given(losses, pairings, schedules, radii, averagings, seeds, st.sampled_from([2.0, 0.125, 1024.0]))
def test_units_of_the_features(loss, pairing, schedule, radius, averaging, seed, unit):
    """Features times c, steps over c^2 and radius over c: w over c. Powers of two do not round."""
    X, y = sample(seed)
    expected = run(loss, X, y, pairing, schedule, radius, averaging)
    found = run(loss, X * unit, y, pairing, schedule.scaled(unit**-2), radius / unit, averaging)
    assert np.allclose(found * unit, expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("sparse", [False, True])
@given(losses, schedules, radii, seeds)
def test_origin_of_the_features(sparse, loss, schedule, radius, seed):
    X, y = sample(seed)
    shifted = X + np.linspace(-1, 1, D)
    if sparse:
        X, shifted = scipy.sparse.csr_array(X), scipy.sparse.csr_array(shifted)
    rest = (RandomPair(), schedule, radius, DelayedByStepSize())
    expected = run(loss, X, y, *rest)
    found = run(loss, shifted, y, *rest)
    assert np.abs(found - expected).max() <= 1e-10 * np.abs(expected).max()


@given(losses, schedules, radii, seeds)
def test_only_the_order_of_two_labels_matters(loss, schedule, radius, seed):
    X, y = sample(seed)
    rest = (PreviousExample(), schedule, radius, DelayedByStepSize())
    assert np.array_equal(run(loss, X, 3.0 + 0.5 * y, *rest), run(loss, X, y, *rest))


@given(losses, pairings, schedules, radii, seeds, st.sampled_from([0.25, 2.0]))
def test_weights_scale_the_steps(loss, pairing, schedule, radius, seed, weight):
    X, y = sample(seed)
    expected = run(loss, X, y, pairing, schedule.scaled(weight**2), radius, Uniform())
    found = run(loss, X, y, pairing, schedule, radius, Uniform(), example_weight=np.full(N, weight))
    assert np.allclose(found, expected, rtol=1e-13, atol=0)


@given(losses, pairings, schedules, radii, seeds)
def test_an_example_without_weight_has_no_influence(loss, pairing, schedule, radius, seed):
    X, y = sample(seed)
    weight = np.ones(N)
    weight[:10] = 0.0
    changed = X.copy()
    changed[:10] = 1e3
    rest = (pairing, schedule, radius, DelayedByStepSize())
    expected = run(loss, X, y, *rest, example_weight=weight)
    found = run(loss, changed, y, *rest, example_weight=weight)
    assert np.allclose(found, expected, rtol=1e-12, atol=0)


@given(losses, schedules, radii, seeds)
def test_a_feature_that_never_varies_gets_no_weight(loss, schedule, radius, seed):
    X, y = sample(seed)
    X[:, 3] = 0.75
    found = run(loss, X, y, PreviousExample(), schedule, radius, DelayedByStepSize())
    assert found[3] == 0.0
