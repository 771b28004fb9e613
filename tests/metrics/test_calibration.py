# SPDX-License-Identifier: BSD-3-Clause
"""The calibration curve beside scikit-learn's, and its limits."""

import numpy as np
import pytest
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
