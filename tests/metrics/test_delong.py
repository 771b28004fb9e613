# SPDX-License-Identifier: BSD-3-Clause
"""DeLong's variance against the formula over all pairs, and intervals against simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from pairlearn.metrics import compare_auc, roc_auc, roc_auc_interval
from pairlearn.metrics.limits import Part, Spread, score_limits


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


def newcombe(t, p, q):
    """Return the parts of Newcombe's variance: of p examples that meet q, and of these."""
    c = (t / (2 - t) + 2 * t**2 / (1 + t)) / 2 - t**2
    return [(c * (n - 1) + t * (1 - t) / 2) / (p * q) for n in (q, p)]


def literal_limits(y, scores, confidence):
    """Return the limits by the formulas of `pairlearn.metrics.limits`, over all pairs."""
    up, down = scores[y == 1], scores[y == 0]
    wins = (up[:, None] > down) + 0.5 * (up[:, None] == down)
    a, p, q = wins.mean(), len(up), len(down)
    parts, numbers = [], []
    for x in (wins.mean(axis=1), wins.mean(axis=0)):
        parts.append(x.var(ddof=1) / len(x))
        ratios = [y.sum() ** 2 / (y**2).sum() for y in (x.max() - x, x - x.min()) if y.any()]
        numbers.append(min(ratios, default=0.0))
    return limits_by_formula(a, p, q, parts, numbers, confidence)


def limits_by_formula(a, p, q, parts, numbers, confidence, common=1.0):
    """Return the limits from the parts of the variance and their effective numbers."""
    centre = min(max(a, 0.5 / (p * q)), 1 - 0.5 / (p * q))
    prior = newcombe(centre, p, q)
    near = (4 * centre * (1 - centre)) ** 4
    ends = []
    for end, inner in ((0.0, a >= 0.5), (1.0, a < 0.5)):
        k = 3.0 if inner else 1 + 2 * near
        shrunk = [(e * v + k * n) / (e + k) for e, v, n in zip(numbers, parts, prior, strict=True)]
        below = sum(s**2 / (e + 3) for s, e in zip(shrunk, numbers, strict=True))
        student = stats.t.ppf(0.5 + confidence / 2, sum(shrunk) ** 2 / below)
        z = stats.norm.ppf(0.5 + confidence / 2)
        z += (1.0 if inner else near) * (student - z)

        ratio = (min(numbers) * common + k) / (min(numbers) + k)

        def outside(t, z=z, shrunk=shrunk, ratio=ratio):
            rest = zip(newcombe(t, p, q), shrunk, prior, strict=True)
            return (a - t) ** 2 - z**2 * ratio * sum(n * s / m for n, s, m in rest)

        ends.append(end if a == end else optimize.brentq(outside, centre, end, xtol=1e-14))
    return ends


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("shift", [-2.0, -0.5, 0.0, 0.3, 1.0, 2.0, 3.5, 9.0])
def test_limits_are_those_of_the_formulas(shift, confidence):
    rng = np.random.default_rng(1)
    for p, q in ((10, 200), (25, 40), (2, 3)):
        y = np.repeat([0, 1], [q, p])
        for scores in (rng.normal(size=p + q) + shift * y, rng.integers(0, 4, p + q) + shift * y):
            found = roc_auc_interval(y, scores, confidence=confidence)
            wanted = literal_limits(y, scores, confidence)
            assert (found.low, found.high) == pytest.approx(tuple(wanted), abs=1e-9)


@pytest.mark.parametrize("common", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_groups_of_both_classes_widen_or_narrow_the_limits(share, common):
    # The ratio of the whole variance to that of the classes is shrunk like the variances are.
    parts, numbers = (4e-4, 9e-4), (30.0, 8.0)
    spread = Spread(0.05, (Part(4e-4, 30.0, 60.0), Part(9e-4, 8.0, 20.0)), common)
    found = score_limits(share, spread, (1.0, 1.0), 0.9)
    wanted = limits_by_formula(share, 60, 20, parts, numbers, 0.9, common)
    assert found == pytest.approx(tuple(wanted), abs=1e-9)


def test_only_ranks_matter():
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1], [50, 12])
    scores = rng.normal(size=62) + y
    assert roc_auc_interval(y, np.exp(3.0 * scores)) == roc_auc_interval(y, scores)


def test_comparison_is_students_test():
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], [60, 30])
    a, b = rng.normal(size=90) + y, rng.normal(size=90) + 0.5 * y
    found = compare_auc(y, a, b)
    total = below = 0.0
    for ups in (True, False):
        mine, others = (y == 1, y == 0) if ups else (y == 0, y == 1)
        x = np.mean(a[mine][:, None] > a[others], axis=1)
        x -= np.mean(b[mine][:, None] > b[others], axis=1)
        e = min(d.sum() ** 2 / (d**2).sum() for d in (x.max() - x, x - x.min()))
        part = x.var(ddof=1) / len(x)
        total += part
        below += part**2 / e
    degrees = total**2 / below
    assert found.z == pytest.approx(found.difference / found.standard_error)
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(found.z), degrees))
    half = stats.t.ppf(0.975, degrees) * found.standard_error
    assert found.difference > 0.0
    assert found.difference - found.low == pytest.approx(half)
    one, two = roc_auc_interval(y, a), roc_auc_interval(y, b)
    skew = math.hypot(one.high - one.auc, two.auc - two.low) / math.hypot(
        one.standard_error, two.standard_error
    )
    far = max(half, found.standard_error * skew)
    assert found.high - found.difference == pytest.approx(far)


def test_the_end_of_an_interval_is_where_the_test_rejects():
    rng = np.random.default_rng(7)
    y = np.repeat([0, 1], [80, 15])
    for _ in range(40):
        common, a, b = rng.normal(size=(3, 95))
        found = compare_auc(y, common + a + 2.5 * y, common + b + y, confidence=0.9)
        assert (found.p_value < 0.1) == (not found.low <= 0.0 <= found.high)


class TestDegenerate:
    def test_perfect_separation_keeps_a_lower_limit(self):
        found = roc_auc_interval([0] * 5 + [1] * 8, range(13))
        assert (found.auc, found.high, found.standard_error) == (1.0, 1.0, 0.0)
        assert 0.4 < found.low < 0.8
        upside_down = roc_auc_interval([1] * 5 + [0] * 8, range(13))
        assert (upside_down.auc, upside_down.low) == (0.0, 0.0)
        assert upside_down.high == pytest.approx(1 - found.low)
        more = roc_auc_interval([0] * 50 + [1] * 80, range(130))
        assert found.low < more.low < 1.0

    def test_one_example_of_a_class_says_little(self):
        found = roc_auc_interval([1, 0, 0, 0], [2, 1, 3, 0])
        assert found.low < 0.15
        assert found.high > 0.95
        assert math.isnan(found.standard_error)
        both = compare_auc([1, 0, 0, 0], [2, 1, 3, 0], [3, 1, 2, 0])
        assert math.isnan(both.z)
        assert both.p_value == 1.0

    def test_constant_scores_get_newcombes_interval(self):
        found = roc_auc_interval(np.repeat([0, 1], 200), np.ones(400))
        assert (found.auc, found.standard_error) == (0.5, 0.0)
        z, t = stats.t.ppf(0.975, 6), found.low
        assert (0.5 - t) ** 2 == pytest.approx(z**2 * sum(newcombe(t, 200, 200)))
        assert found.high == pytest.approx(1.0 - t)

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
