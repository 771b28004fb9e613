# SPDX-License-Identifier: BSD-3-Clause
"""Error entropy against the double sum of the paper."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pairlearn.metrics import error_entropy

ERRORS = arrays(np.float64, st.integers(1, 40), elements=st.floats(-50.0, 50.0))


def by_definition(errors, gamma, window):
    u = (errors[:, None] - errors) / gamma
    if window == "gaussian":
        G = np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
    else:
        G = 0.75 * np.maximum(1 - u**2, 0)
    return -np.log(G.sum() / (len(errors) ** 2 * gamma))


@pytest.mark.parametrize("window", ["gaussian", "epanechnikov"])
@given(errors=ERRORS, gamma=st.floats(0.05, 20.0))
def test_exact_is_the_double_sum(window, errors, gamma):
    expected = by_definition(errors, gamma, window)
    assert error_entropy(errors, gamma, window=window) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("window", ["gaussian", "epanechnikov"])
def test_binned_is_close_whatever_the_range(window):
    rng = np.random.default_rng(0)
    errors = np.concatenate([rng.normal(size=1200), 1e9 * rng.normal(size=200)])
    exact = error_entropy(errors, 0.3, window=window, method="exact")
    assert error_entropy(errors, 0.3, window=window, method="binned") == pytest.approx(
        exact, abs=1e-3
    )


@pytest.mark.parametrize("window", ["gaussian", "epanechnikov"])
def test_binned_where_bins_have_no_number_of_their_own(window):
    """From 2^53 bandwidths on, a place and the next one are the same number."""
    errors = np.concatenate([np.zeros(3), np.full(2, 1.0), np.full(4, 3e17), [5e17]])
    exact = error_entropy(errors, 1.0, window=window, method="exact")
    assert error_entropy(errors, 1.0, window=window, method="binned") == pytest.approx(exact)


def test_blocks_do_not_show():
    errors = np.random.default_rng(1).normal(size=3000)
    assert error_entropy(errors, 0.5, method="exact") == pytest.approx(
        by_definition(errors, 0.5, "gaussian"), abs=1e-10
    )


@given(errors=ERRORS, shift=st.floats(-10.0, 10.0))
def test_a_shift_changes_nothing(errors, shift):
    assert error_entropy(errors + shift, 1.0) == pytest.approx(error_entropy(errors, 1.0), abs=1e-9)


@given(errors=ERRORS)
def test_equal_errors_have_the_least_entropy(errors):
    least = error_entropy(np.zeros(len(errors)), 1.0)
    assert error_entropy(errors, 1.0) >= least - 1e-12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 1.0), "at least one"),
        (([1.0], 0.0), "bandwidth must be a positive number"),
        (([np.nan], 1.0), "NaN"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        error_entropy(*arguments)


def test_unknown_names():
    with pytest.raises(ValueError, match="window must be one of"):
        error_entropy([1.0], 1.0, window="box")
    with pytest.raises(ValueError, match="method must be"):
        error_entropy([1.0], 1.0, method="fast")


@pytest.mark.parametrize("far", [0.0, 50.0])
def test_bins_laid_out_with_gaps_have_the_sum_of_those_in_use(far):
    from pairlearn.kernels.entropy import share_among_bins, sum_near_bins, sum_near_places

    rng = np.random.default_rng(3)
    u = np.sort(np.concatenate([rng.exponential(40.0, 300), far + rng.exponential(3.0, 5)]))
    bins, counts = np.empty(2 * len(u)), np.empty(2 * len(u))
    n = share_among_bins(u, bins, counts)
    weights = np.exp(-0.01 * np.arange(30.0))
    n_places = int(bins[n - 1]) + 1
    places = np.zeros(n_places + len(weights))
    places[bins[:n].astype(int)] = counts[:n]
    wanted = sum_near_bins(bins[:n], counts[:n], weights)
    assert sum_near_places(places, weights, n_places) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("window", ["gaussian", "epanechnikov"])
@pytest.mark.parametrize("method", ["exact", "binned"])
def test_the_unit_of_errors_adds_its_logarithm(window, method):
    errors = np.array([0.0, 0.25, 0.25, 3.0])
    plain = error_entropy(errors, 1.0, window=window, method=method)
    for unit in (2.0**-1000, 2.0**1022):
        found = error_entropy(unit * errors, unit, window=window, method=method)
        assert found == pytest.approx(plain + np.log(unit), rel=1e-12)


@pytest.mark.parametrize("method", ["exact", "binned"])
def test_a_bandwidth_that_no_error_can_see_is_refused(method):
    for errors, bandwidth in (([0.0, 1e200, 2e200], 1e-200), ([0.0, 1.0], 1e-320)):
        with pytest.raises(ValueError, match="bandwidths apart, got bandwidth="):
            error_entropy(errors, bandwidth, method=method)
