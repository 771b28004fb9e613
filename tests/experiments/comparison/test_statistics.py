# SPDX-License-Identifier: BSD-3-Clause
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pairlearn.experiments.comparison.statistics import holm, resampled_mean

values = st.lists(st.floats(0, 1), min_size=2, max_size=30)


def test_without_overlap_it_is_the_t_interval():
    x = np.random.default_rng(0).normal(0.8, 0.05, size=10)
    # A vanishing test share takes the correction away.
    interval = resampled_mean(x, n_train=10**12, n_test=1)
    low, high = stats.t.interval(0.95, 9, loc=x.mean(), scale=stats.sem(x))
    assert interval.low == pytest.approx(low, rel=1e-6)
    assert interval.high == pytest.approx(high, rel=1e-6)
    zero = resampled_mean(x - 0.79, n_train=10**12, n_test=1)
    assert zero.p_value == pytest.approx(stats.ttest_1samp(x - 0.79, 0).pvalue, rel=1e-5)


@given(values)
def test_correction_widens_by_its_formula(x):
    interval = resampled_mean(x, n_train=80, n_test=20)
    half = stats.t.ppf(0.975, len(x) - 1) * np.std(x, ddof=1) * math.sqrt(1 / len(x) + 0.25)
    assert interval.high - interval.mean == pytest.approx(half, abs=1e-9)


@given(values)
def test_p_value_and_interval_agree(x):
    shifted = np.asarray(x) - 0.5
    interval = resampled_mean(shifted, n_train=80, n_test=20)
    if interval.sd > 1e-9 and abs(interval.p_value - 0.05) > 1e-6:
        assert (interval.p_value < 0.05) == (interval.low > 0 or interval.high < 0)


@pytest.mark.thorough
def test_coverage_on_overlapping_splits():
    """The interval for the mean of a fixed rule covers the truth as often as it says.

    For a fixed rule the correction is exact: the test means of random 20-subsets of 100 values
    have total variance (1/J + 20/80) s^2. 1,000 repetitions, fixed seed; the bounds are four
    binomial standard deviations from 0.95, a false-alarm rate below 1e-4. The uncorrected interval
    covers about two thirds of the time.
    """
    rng = np.random.default_rng(1)
    covered = naive = 0
    for _ in range(1000):
        x = rng.normal(size=100)
        means = [rng.permutation(x)[80:].mean() for _ in range(15)]
        interval = resampled_mean(means, n_train=80, n_test=20)
        covered += interval.low <= 0 <= interval.high
        naive += abs(interval.mean) <= 2.14 * interval.sd / math.sqrt(15)
    assert 0.922 <= covered / 1000 <= 0.978
    assert naive / 1000 < 0.8


def test_single_value_has_no_interval():
    interval = resampled_mean([0.8], n_train=80, n_test=20)
    assert interval.mean == 0.8
    assert math.isnan(interval.sd)
    assert math.isnan(interval.low)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_monotone_and_at_least_the_raw_value(p):
    adjusted = holm(p)
    assert all(a >= raw for a, raw in zip(adjusted, p, strict=True))
    assert max(adjusted) <= 1
    order = np.argsort(p, kind="stable")
    assert (np.diff(np.array(adjusted)[order]) >= 0).all()
    assert min(adjusted) == pytest.approx(min(1.0, len(p) * min(p)))
