# SPDX-License-Identifier: BSD-3-Clause
"""Limits of shares that few examples made, and of the share of a class in a full top."""

import math

import numpy as np
import pytest
from scipy.stats import beta, norm, t

from pairlearn.metrics import AveragePrecision, EnrichmentFactor, PartialAUC, RecallAt
from pairlearn.metrics.limits import (
    Part,
    Spread,
    count_limit,
    logit_limits,
    recall_limits,
    score_limits,
)
from pairlearn.validation import AssumptionWarning


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(("x", "n"), [(1, 30), (1, 1000), (7, 20), (19, 20)])
def test_a_binomial_share_has_the_limit_of_jeffreys(x, n, confidence):
    share = x / n
    error = math.sqrt(share * (1.0 - share) / n)
    exact = beta.ppf(0.5 * (1.0 - confidence), x + 0.5, n - x + 0.5)
    assert count_limit(share, error, confidence, math.inf) == pytest.approx(exact, rel=1e-9)
    # with few degrees of freedom the share is worth fewer draws
    longer = t.ppf(0.5 + 0.5 * confidence, 4) / norm.ppf(0.5 + 0.5 * confidence)
    m = n / longer**2
    exact = beta.ppf(0.5 * (1.0 - confidence), m * share + 0.5, m * (1.0 - share) + 0.5)
    assert count_limit(share, error, confidence, 4.0) == pytest.approx(exact, rel=1e-9)


def test_limits_are_symmetric_on_the_logit_scale():
    low, high = logit_limits(0.8, 0.05)
    odds = np.log(np.array([low, 0.8, high]) / (1.0 - np.array([low, 0.8, high])))
    assert odds[2] - odds[1] == pytest.approx(odds[1] - odds[0])
    # the slope of the logit is 1 / (.8 * .2)
    assert odds[2] - odds[1] == pytest.approx(0.05 / 0.16)
    assert logit_limits(0.5, 1e6) == (0.0, 1.0)


def test_a_full_top_has_the_limit_of_a_ratio():
    share, error, z = 0.6, 0.1, norm.ppf(0.975)
    usual = logit_limits(share, z * error)
    empty = recall_limits(share, error, 0.0, 1000, 0.95, math.inf)
    counts = [count_limit(one, error, 0.95, math.inf) for one in (share, 1.0 - share)]
    assert empty == (min(usual[0], counts[0]), max(usual[1], 1.0 - counts[1]))
    # one of 20 missed
    error = math.sqrt(0.05 * 0.95 / 20)
    assert recall_limits(0.95, error, 0.0, 1000, 0.95, math.inf)[1] == pytest.approx(
        beta.ppf(0.975, 19.5, 1.5)
    )
    error = 0.1
    full = recall_limits(share, error, 1.0, 1000, 0.95, math.inf)
    assert full == pytest.approx((empty[0], share * math.exp(z * error / share)))
    half = recall_limits(share, error, 0.5, 1000, 0.95, math.inf)
    assert half[1] == pytest.approx(0.5 * (empty[1] + full[1]))
    assert recall_limits(0.9, 0.3, 1.0, 1000, 0.95, math.inf)[1] == 1.0
    # a tiny share with a huge error overflows nothing
    assert recall_limits(1e-6, 0.3, 1.0, 1000, 0.95, math.inf)[1] == 1.0


def test_an_error_is_no_smaller_than_that_of_so_many_members():
    # ten members, none crowded: the error of a binomial share of ten draws at least
    least = math.sqrt(0.1 * 0.9 / 10)
    small = recall_limits(0.1, 0.01, 0.0, 10, 0.95, math.inf)
    assert small == recall_limits(0.1, least, 0.0, 10, 0.95, math.inf)
    assert small != recall_limits(0.1, 1.1 * least, 0.0, 10, 0.95, math.inf)
    # half crowded, there is no such bound; a quarter, and it is half of the variance
    assert recall_limits(0.1, 0.01, 0.5, 10, 0.95, math.inf)[1] < 0.2
    quarter = recall_limits(0.1, 0.01, 0.25, 10, 0.95, math.inf)
    assert quarter == recall_limits(0.1, least * math.sqrt(0.5), 0.25, 10, 0.95, math.inf)


def test_the_share_of_positives_bounds_the_recall_of_a_full_top():
    # 40 of 400 are positive and stand first, and the top holds 20 of them: R = .05 / pi. Wilson's
    # lower limit of pi, .074, allows a recall of .675.
    y, scores = np.repeat([1, 0], [40, 360]), np.arange(400.0)[::-1]
    found = RecallAt(20).interval(y, scores)
    assert found.value == 0.5
    assert found.high == pytest.approx(0.675, abs=0.01)
    factor = EnrichmentFactor(0.05).interval(y, scores)
    np.testing.assert_allclose(
        [factor.low, factor.high], np.array([found.low, found.high]) / 0.05, rtol=1e-12
    )


def test_where_all_or_nothing_counts_the_limit_is_that_of_a_share():
    # Endless negatives, 30 positives that all win: Wilson's limit of 30 of 30, n / (n + z^2).
    parts = (Part(0.0, 0.0, 1e12), Part(0.0, 0.0, 30.0))
    low, high = score_limits(1.0, Spread(0.0, parts), (1.0, 1.0), 0.95, (0.0, 1.0))
    assert (low, high) == (pytest.approx(30 / (30 + norm.ppf(0.975) ** 2), abs=1e-3), 1.0)
    # The variance is larger than that of an area, and known: with few examples no Student.
    area, _ = score_limits(1.0, Spread(0.0, parts), (1.0, 1.0), 0.95)
    half, _ = score_limits(1.0, Spread(0.0, parts), (1.0, 1.0), 0.95, (0.0, 0.5))
    assert low < area
    assert half < area


def test_an_interval_says_that_its_part_holds_too_few_negatives():
    y = np.repeat([1, 0], [20, 35])
    scores = np.arange(55.0)
    with pytest.warns(AssumptionWarning, match="holds about 3.5 of 35 negatives; below 36"):
        PartialAUC(0.1).interval(y, scores)
    with pytest.warns(AssumptionWarning, match="below 36"):
        PartialAUC(0.1).compare(y, scores, -scores)
    # The value needs no more, nor do a larger part, one negative more, or the whole area.
    PartialAUC(0.1)(y, scores)
    PartialAUC(0.2).interval(y, scores)
    PartialAUC(0.1).interval(np.r_[y, 0], np.r_[scores, 1.5])
    PartialAUC().interval([0, 1], [0.0, 1.0])
    for max_fpr in (0.01, 0.05, 0.5):
        fewest = PartialAUC(max_fpr).fewest_negatives
        assert (1 - max_fpr) ** fewest <= 0.025 < (1 - max_fpr) ** (fewest - 1)


def test_one_example_in_a_part_is_a_count():
    # One of 30 positives stands above all negatives, the others below all: the share of the part
    # is 1/30, of one example.
    y = np.repeat([1, 0, 1], [1, 300, 29])
    scores = np.arange(330.0)[::-1]
    metric = PartialAUC(0.1, standardised=False)
    found = metric.interval(y, scores)
    assert found.value == pytest.approx(0.1 / 30)
    share, error = 1 / 30, found.standard_error / 0.1
    limit = count_limit(share, error, 0.95, math.inf)
    # faded by 1 - 2 / 30 towards the limit of the whole area, which is higher
    assert limit < found.low / 0.1 < 0.2 * share
    assert found.low / 0.1 - limit < 0.1 * limit


@pytest.mark.parametrize("max_fpr", [0.2, 0.4, 0.75])
def test_the_lower_limit_of_a_part_allows_for_its_bias(max_fpr):
    # Between the k-th and the next of 100 negatives stand two of 200 positives: R(t) = t, up to
    # the last step. The j-th negative stands at j / 101 on average and not at j / 100, so the area
    # is too high by max_fpr (1 - max_fpr) R' / (2 n-).
    y = np.tile([1, 1, 0], 100)
    found = PartialAUC(max_fpr, standardised=False).measure_classes(
        y == 1, np.arange(300.0)[::-1], np.ones(300)
    )
    bias = max_fpr * (1.0 - max_fpr) / 200
    assert found.value - found.cautious == pytest.approx(bias, rel=1e-9)
    # four times the weight on the same negatives makes no more of them
    weight = np.where(y == 1, 1.0, 4.0)
    heavy = PartialAUC(max_fpr, standardised=False).measure_classes(
        y == 1, np.arange(300.0)[::-1], weight
    )
    assert heavy.value - heavy.cautious == pytest.approx(bias, rel=1e-9)
    assert PartialAUC().measure_classes(y == 1, np.arange(300.0), np.ones(300)).cautious is None


def test_the_whole_area_has_mirrored_limits():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [40, 20])
    for shift in (0.0, 1.0, 2.5):
        scores = rng.normal(size=60) + shift * y
        up, down = (PartialAUC().interval(y, sign * scores) for sign in (1.0, -1.0))
        assert (up.low, up.high) == pytest.approx((1.0 - down.high, 1.0 - down.low))


def test_no_limit_jumps_where_the_area_passes_one_half():
    # move one score so that the share of the part passes 1/2 by a little
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [40, 40])
    lows, shares = [], []
    noise = rng.normal(size=80)
    for shift in np.linspace(0.0, 3.0, 400):
        found = PartialAUC(0.5, standardised=False).interval(y, noise + shift * y)
        shares.append(found.value / 0.5)
        lows.append(found.low / 0.5)
    shares, lows = np.array(shares), np.array(lows)
    steps = np.abs(np.diff(lows))
    near = np.abs(shares[1:] - 0.5) < 0.1
    assert near.any()
    assert steps[near].max() <= 4.0 * np.abs(np.diff(shares))[near].max()
    assert AveragePrecision().interval(y, noise).low >= 0.0
