# SPDX-License-Identifier: BSD-3-Clause
"""DeLong's variance against the formula over all pairs, and intervals against simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn.metrics import compare_auc, roc_auc, roc_auc_interval


def literal_variance(y, *scores):
    """Return AUCs and their covariance matrix, equations (4) to (6) of DeLong et al. (1988)."""
    y = np.asarray(y)
    ups, downs = [], []
    for s in scores:
        s = np.asarray(s, dtype=float)
        up, down = s[y == 1], s[y == 0]
        wins = (up[:, None] > down) + 0.5 * (up[:, None] == down)
        ups.append(wins.mean(axis=1))
        downs.append(wins.mean(axis=0))
    aucs = np.array([up.mean() for up in ups])
    covariance = np.atleast_2d(np.cov(ups)) / len(ups[0]) + np.atleast_2d(np.cov(downs)) / len(
        downs[0]
    )
    return aucs, covariance


@st.composite
def two_scores(draw):
    n = draw(st.integers(0, 25))
    y = [0, 0, 1, 1, *draw(st.lists(st.sampled_from([0, 1]), min_size=n, max_size=n))]
    column = st.lists(st.integers(-5, 5), min_size=n + 4, max_size=n + 4)
    return np.array(y), np.array(draw(column)), np.array(draw(column))


@given(two_scores())
def test_standard_errors_are_those_of_the_literal_formula(sample):
    y, a, b = sample
    aucs, covariance = literal_variance(y, a, b)
    found = roc_auc_interval(y, a)
    assert found.auc == roc_auc(y, a)
    assert found.standard_error == pytest.approx(math.sqrt(covariance[0, 0]), abs=1e-9)
    both = compare_auc(y, a, b)
    variance = max(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1], 0.0)
    assert both.difference == pytest.approx(aucs[0] - aucs[1], abs=1e-14)
    # The literal variance subtracts, hence the root of its rounding error.
    assert both.standard_error == pytest.approx(math.sqrt(variance), abs=1e-7)


@given(two_scores(), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_intervals_are_ordered_and_inside_the_range(sample, confidence):
    y, a, b = sample
    found = roc_auc_interval(y, a, confidence=confidence)
    assert 0.0 <= found.low <= found.auc <= found.high <= 1.0
    both = compare_auc(y, a, b, confidence=confidence)
    assert -1.0 <= both.low <= both.difference <= both.high <= 1.0
    assert 0.0 <= both.p_value <= 1.0


@given(two_scores())
def test_interval_and_comparison_mirror(sample):
    y, a, b = sample
    found, mirrored = roc_auc_interval(y, a), roc_auc_interval(1 - y, a)
    assert mirrored.auc == pytest.approx(1.0 - found.auc, abs=1e-14)
    assert mirrored.low == pytest.approx(1.0 - found.high, abs=1e-12)
    there, back = compare_auc(y, a, b), compare_auc(y, b, a)
    assert back.difference == -there.difference
    assert back.p_value == there.p_value
    assert back.low == -there.high


def test_logit_interval_is_the_formula():
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [40, 25])
    scores = rng.normal(size=65) + y
    (auc,), ((variance,),) = literal_variance(y, scores)
    found = roc_auc_interval(y, scores, confidence=0.9)
    half = 1.6448536269514722 * math.sqrt(variance) / (auc * (1 - auc))
    logit = math.log(auc / (1 - auc))
    assert found.low == pytest.approx(1 / (1 + math.exp(half - logit)), abs=1e-12)
    assert found.high == pytest.approx(1 / (1 + math.exp(-half - logit)), abs=1e-12)


def test_comparison_is_the_normal_test():
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], [60, 30])
    a, b = rng.normal(size=90) + y, rng.normal(size=90) + 0.5 * y
    found = compare_auc(y, a, b)
    assert found.z == pytest.approx(found.difference / found.standard_error)
    assert found.p_value == pytest.approx(math.erfc(abs(found.z) / math.sqrt(2)))
    assert found.high - found.low == pytest.approx(2 * 1.959963984540054 * found.standard_error)


class TestDegenerate:
    def test_perfect_separation_keeps_a_lower_limit(self):
        found = roc_auc_interval([0] * 5 + [1] * 8, range(13))
        assert (found.auc, found.high, found.standard_error) == (1.0, 1.0, 0.0)
        assert found.low == pytest.approx(0.025**0.2)
        upside_down = roc_auc_interval([1] * 5 + [0] * 8, range(13))
        assert (upside_down.auc, upside_down.low) == (0.0, 0.0)
        assert upside_down.high == pytest.approx(1 - 0.025**0.2)

    def test_one_example_of_a_class_says_nothing(self):
        found = roc_auc_interval([1, 0, 0, 0], [2, 1, 3, 0])
        assert (found.low, found.high) == (0.0, 1.0)
        assert math.isnan(found.standard_error)
        both = compare_auc([1, 0, 0, 0], [2, 1, 3, 0], [3, 1, 2, 0])
        assert math.isnan(both.z)
        assert both.p_value == 1.0

    def test_constant_scores_get_hoeffdings_interval(self):
        found = roc_auc_interval(np.repeat([0, 1], 200), np.ones(400))
        half = math.sqrt(math.log(40) / 400)
        assert (found.auc, found.standard_error) == (0.5, 0.0)
        assert (found.low, found.high) == pytest.approx((0.5 - half, 0.5 + half))

    def test_equal_rankings_do_not_differ(self):
        y, a = np.repeat([0, 1], 10), np.arange(20) % 7
        found = compare_auc(y, a, 2.0 * a + 1.0)
        assert (found.difference, found.standard_error, found.p_value) == (0.0, 0.0, 1.0)
        assert found.low < 0.0 < found.high

    def test_opposite_perfect_rankings_differ(self):
        y = np.repeat([0, 1], 50)
        found = compare_auc(y, np.arange(100), -np.arange(100))
        assert (found.difference, found.standard_error) == (1.0, 0.0)
        assert found.p_value == pytest.approx(2 * math.exp(-25))

    def test_bad_confidence(self):
        with pytest.raises(ValueError, match=r"strictly between 0 and 1, got 1\.0"):
            roc_auc_interval([0, 1], [0, 1], confidence=1.0)


# With coverage exactly p, N independent intervals cover Binomial(N, p) times. The bounds below are
# p - 0.012 and p + 0.02 (logit intervals err on the wide side), at least 3.5 standard deviations of
# that count away from p: a correct interval fails with probability below 1e-3.
@pytest.mark.thorough
def test_interval_covers_the_true_auc_as_often_as_it_says():
    rng = np.random.default_rng(3)
    shift, n_trials = 1.0, 4000
    truth = 0.5 * math.erfc(-shift / 2.0)
    y = np.repeat([0, 1], [60, 40])
    covered = 0
    for scores in rng.normal(size=(n_trials, 100)) + shift * y:
        found = roc_auc_interval(y, scores)
        covered += found.low <= truth <= found.high
    assert 0.938 <= covered / n_trials <= 0.97


@pytest.mark.thorough
def test_comparison_rejects_equal_aucs_as_rarely_as_it_says():
    rng = np.random.default_rng(4)
    n_trials = 4000
    y = np.repeat([0, 1], [60, 40])
    common = rng.normal(size=(n_trials, 100)) + 1.5 * y
    noise_a, noise_b = rng.normal(size=(2, n_trials, 100))
    rejected = sum(
        compare_auc(y, a, b).p_value < 0.05
        for a, b in zip(common + noise_a, common + noise_b, strict=True)
    )
    # 0.05 +- 0.012: 3 standard deviations and a small-sample error of about 0.001.
    assert abs(rejected / n_trials - 0.05) < 0.012


@pytest.mark.thorough
def test_degenerate_bound_covers_a_nearly_perfect_score():
    # [(a/2)^(1/k), 1] may miss at most 2.5 % of the time. The count of 4000 trials exceeds
    # 2.5 % + 1 % by chance with probability below 1e-4.
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1], 6)
    missed = separated = 0
    for shift in (2.0, 3.0):
        truth = 0.5 * math.erfc(-shift / 2.0)
        for scores in rng.normal(size=(2000, 12)) + shift * y:
            found = roc_auc_interval(y, scores)
            separated += found.auc == 1.0
            missed += found.auc == 1.0 and found.low > truth
    assert separated > 500
    assert missed / 4000 <= 0.035
