# SPDX-License-Identifier: BSD-3-Clause
"""The calibration curve beside scikit-learn's, and its limits."""

import numpy as np
import pytest
from scipy import stats
from sklearn import calibration as sk

from pairlearn.metrics import CalibrationError, calibration_curve


def outcomes(n, seed=0):
    rng = np.random.default_rng(seed)
    probabilities = rng.beta(1.0, 2.0, n)
    return (rng.random(n) < probabilities).astype(int), probabilities


def test_curve_is_scikit_learns():
    y, p = outcomes(500)
    for strategy in ("uniform", "quantile"):
        found = calibration_curve(y, p, n_bins=5, strategy=strategy)
        observed, predicted = sk.calibration_curve(y, p, n_bins=5, strategy=strategy)
        np.testing.assert_allclose(found.observed, observed, atol=0.011)
        np.testing.assert_allclose(found.predicted, predicted, atol=0.005)
    assert found.weight.sum() == pytest.approx(1.0)
    assert found.error == CalibrationError(5)(y, p)


def test_limits_are_wilsons_in_each_bin():
    from scipy.stats import binomtest

    y, p = outcomes(300)
    found = calibration_curve(y, p, n_bins=4, strategy="uniform", confidence=0.9)
    place = np.searchsorted([0.25, 0.5, 0.75], p)
    for k in range(4):
        inside = y[place == k]
        exact = binomtest(int(inside.sum()), len(inside)).proportion_ci(1 - 0.1 / 4, "wilson")
        assert (found.low[k], found.high[k]) == pytest.approx((exact.low, exact.high))


def test_groups_and_weights_widen_the_limits():
    y, p = outcomes(200)
    plain = calibration_curve(y, p)
    copies = calibration_curve(np.repeat(y, 3), np.repeat(p, 3), groups=np.repeat(range(200), 3))
    np.testing.assert_allclose(copies.high - copies.low, plain.high - plain.low, rtol=1e-9)
    uneven = calibration_curve(y, p, sample_weight=np.where(np.arange(200) % 2, 1.0, 0.05))
    assert (uneven.high - uneven.low).mean() > (plain.high - plain.low).mean()


def test_equal_probabilities_stay_together():
    found = calibration_curve([0, 1, 0, 1], [0.5] * 4)
    assert len(found.observed) == 1
    assert found.error == 0.0


def test_limits_are_wilsons_for_the_number_of_independent_examples():
    # In the first bin both outcomes; in the second only positives, where groups alone are known.
    y = np.array([0, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1])
    p = np.array([0.2] * 6 + [0.8] * 5)
    weight = np.array([1.0, 2.0, 1.0, 0.5, 1.5, 1.0, 1.0, 1.0, 3.0, 1.0, 2.0])
    groups = np.array([0, 0, 1, 1, 2, 3, 4, 4, 5, 5, 6])
    found = calibration_curve(y, p, n_bins=2, sample_weight=weight, groups=groups, confidence=0.9)
    z = stats.norm.ppf(1 - 0.1 / 4)  # two bins share the error
    for k, rows in enumerate((slice(0, 6), slice(6, 11))):
        v, out, place = weight[rows], y[rows], groups[rows]
        share = (v * out).sum() / v.sum()
        sums = [(v * (out - share))[place == g].sum() for g in set(place)]
        masses = [v[place == g].sum() for g in set(place)]
        # the design effect, from the outcomes and from three groups of equal examples
        design = most = np.square(masses).sum() / np.square(v).sum()
        if 0.0 < share < 1.0:
            own = np.square(sums).sum() / np.square(v * (out - share)).sum()
            kinds = [[v[(place == g) & (out == o)].sum() for g in set(place)] for o in (0, 1)]
            shown = min(np.sum(kind) ** 2 / np.square(kind).sum() for kind in kinds)
            design = (shown * np.clip(own, 1.0, most) + 3.0 * most) / (shown + 3.0)
        size = v.sum() ** 2 / np.square(v).sum() / design
        ends = np.roots([1 + z**2 / size, -2 * share - z**2 / size, share**2])
        assert (found.low[k], found.high[k]) == pytest.approx((ends.min(), ends.max()), abs=1e-12)
        assert found.observed[k] == pytest.approx(share)


def test_limits_hold_with_uneven_weights():
    # Right probabilities: all limits hold in .95 of samples. The false-alarm rate is below 1e-5.
    rng, n_missed = np.random.default_rng(0), 0
    for _ in range(300):
        p = 0.1 + 0.8 * rng.random(100)
        weight = rng.choice([1.0, 1.0, 1.0, 10.0], 100)
        found = calibration_curve(rng.random(100) < p, p, n_bins=5, sample_weight=weight)
        n_missed += bool(((found.predicted < found.low) | (found.predicted > found.high)).any())
    assert n_missed <= stats.binom.isf(1e-5, 300, 0.055)


@pytest.mark.parametrize("n_bins", [3, 10, 49])
def test_rounding_does_not_choose_the_bin(n_bins):
    # The middle of each example but the ends is the edge of two bins, in any unit of the weights.
    weight = np.repeat([1.0, 2.0, 1.0], [1, n_bins - 1, 1])
    p = np.linspace(0.05, 0.95, n_bins + 1)
    for unit in (1.0, 0.1, 0.3, 0.7, 1.1, 7.3):
        found = CalibrationError(n_bins).bins(p, unit * weight)
        assert found.tolist() == [*range(n_bins), n_bins - 1]
