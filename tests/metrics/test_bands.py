# SPDX-License-Identifier: BSD-3-Clause
"""Curves are scikit-learn's, and bands hold them."""

import numpy as np
import pytest
from sklearn import metrics as sk

from pairlearn.metrics import precision_recall_band, roc_band


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [60, 30])
    return y, np.round(rng.normal(size=90) + y, 1)


def test_curves_are_those_of_scikit_learn(sample):
    y, scores = sample
    band = roc_band(y, scores, n_resamples=20)
    fpr, tpr, thresholds = sk.roc_curve(y, scores, drop_intermediate=False)
    np.testing.assert_allclose(band.fpr, fpr)
    np.testing.assert_allclose(band.tpr, tpr)
    np.testing.assert_array_equal(band.thresholds, thresholds)
    other = precision_recall_band(y, scores, n_resamples=20)
    precision, recall, _ = sk.precision_recall_curve(y, scores)
    np.testing.assert_allclose(other.precision, precision[:-1][::-1])
    np.testing.assert_allclose(other.recall, recall[:-1][::-1])


def test_bands_enclose_their_curves_and_widen_with_confidence(sample):
    y, scores = sample
    narrow = roc_band(y, scores, confidence=0.5, n_resamples=100)
    wide = roc_band(y, scores, confidence=0.99, n_resamples=100)
    assert ((wide.low <= narrow.low) & (narrow.low <= narrow.tpr)).all()
    assert ((wide.high >= narrow.high) & (narrow.high >= narrow.tpr)).all()
    assert (np.diff(wide.high) >= -1e-12).all()
    assert (np.diff(wide.low) >= -1e-12).all()
    band = precision_recall_band(y, scores, n_resamples=100)
    assert ((band.low <= band.precision) & (band.precision <= band.high)).all()


def test_precision_follows_the_prevalence(sample):
    y, scores = sample
    band = precision_recall_band(y, scores, prevalence=0.01, n_resamples=50)
    assert band.prevalence == 0.01
    # All accepted: precision is the prevalence.
    assert band.precision[-1] == pytest.approx(0.01)


def test_bad_input():
    with pytest.raises(ValueError, match="n_resamples must be at least 20, got 3"):
        roc_band([0, 1], [0, 1], n_resamples=3)
    with pytest.raises(ValueError, match="prevalence must lie strictly between"):
        precision_recall_band([0, 1], [0, 1], prevalence=1.0)
    with pytest.raises(ValueError, match="exactly two classes, got 1"):
        roc_band([1, 1], [0, 1])


def curve(step, weight, y):
    """Rates after each step, from the highest threshold down."""
    masses = [np.bincount(step[y == c], weight[y == c], step.max() + 1) for c in (0, 1)]
    return [np.concatenate([[0.0], np.cumsum(m) / m.sum()]) for m in masses]


def upper(at, fpr, tpr, wide, tall):
    """Height of a curve that is moved to the left and up."""
    return np.interp(at, fpr - wide, tpr + tall)


def lower(at, fpr, tpr, wide, tall):
    """Height of a curve that is moved to the right and down."""
    return np.interp(at, fpr + wide, tpr - tall)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_band_is_the_curve_moved_as_far_as_resampled_curves_go(sample, grouped):
    y, scores = sample
    rng = np.random.default_rng(5)
    weight = rng.uniform(0.5, 2.0, 90)
    groups = rng.permutation(90) // 3 if grouped else None
    given = dict(sample_weight=weight, groups=groups, confidence=0.8, n_resamples=40)
    band = roc_band(y, scores, **given, random_state=3)
    step = np.unique(-scores, return_inverse=True)[1]
    fpr, tpr = curve(step, weight, y)
    units = [np.sqrt((weight[y == c] ** 2).sum()) / weight[y == c].sum() for c in (0, 1)]

    # The least multiple of the units that holds each resampled curve, by bisection.
    draws, needed = np.random.default_rng(3), []
    while len(needed) < 40:
        counts = np.zeros(90)
        if grouped:
            counts = np.bincount(draws.integers(30, size=30), minlength=30)[groups]
        else:
            for c in (1, 0):
                n = int((y == c).sum())
                counts[y == c] = np.bincount(draws.integers(n, size=n), minlength=n)
        other = curve(step, weight * counts, y)
        low, high = 0.0, 20.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            wide, tall = middle * units[0], middle * units[1]
            inside = all(
                (b <= upper(a, *one, wide, tall) + 1e-12).all()
                and (b >= lower(a, *one, wide, tall) - 1e-12).all()
                for one, (a, b) in (((fpr, tpr), other), (other, (fpr, tpr)))
            )
            low, high = (low, middle) if inside else (middle, high)
        needed.append(high)
    width = sorted(needed)[32]  # 80 % of the steps between 40 values, rounded up
    wide, tall = width * units[0], width * units[1]
    assert band.high == pytest.approx(np.minimum(upper(fpr, fpr, tpr, wide, tall), 1.0), abs=1e-8)
    held = np.where(fpr < wide, 0.0, np.maximum(lower(fpr, fpr, tpr, wide, tall), 0.0))
    steep = np.isclose(fpr, wide, atol=1e-6)
    # Where the curve is vertical its foot counts.
    assert (band.low[~steep] <= held[~steep] + 1e-8).all()
    assert band.low[~np.isin(fpr, fpr[:-1][np.diff(fpr) == 0.0])] == pytest.approx(
        held[~np.isin(fpr, fpr[:-1][np.diff(fpr) == 0.0])], abs=1e-8
    )

    # The precision belongs to the least and the largest rate with this recall on moved curves.
    other = precision_recall_band(y, scores, **given, random_state=3)
    at = np.linspace(-1.0, 2.0, 300_001)
    raised = upper(at, fpr, tpr, wide, tall) * (at >= fpr[0] - wide)
    sunk = np.where(at <= fpr[-1] + wide, lower(at, fpr, tpr, wide, tall), np.inf)
    share = float(weight[y == 1].sum() / weight.sum())
    for recall, rate, best, worst in zip(other.recall, fpr[1:], other.high, other.low, strict=True):
        least = float(np.clip(at[np.argmax(raised >= recall)], 0.0, rate))
        most = float(np.clip(at[np.nonzero(sunk <= recall)[0][-1]], rate, 1.0))
        caught = share * recall
        if recall > 0.0:
            assert best == pytest.approx(caught / (caught + (1 - share) * least), abs=2e-3)
            assert worst == pytest.approx(caught / (caught + (1 - share) * most), abs=2e-3)
    assert (other.high > other.precision).any()


@pytest.mark.parametrize(
    ("y", "scores", "groups"),
    [
        (np.repeat([0, 1], 20), np.arange(40.0), None),
        (np.repeat([0, 1], 20), np.zeros(40), None),
        (np.repeat([0, 1], [39, 1]), np.arange(40.0) % 7, None),
        (np.tile([0, 1], 20), np.arange(40.0) % 7, np.zeros(40)),
        (np.repeat([0, 1], 20), np.arange(40.0) % 7, np.repeat([0, 1, 2], [20, 19, 1]).clip(0, 1)),
    ],
    ids=["perfect", "constant", "one positive", "one group", "a group for each class"],
)
def test_a_band_without_variation_is_that_of_an_inequality(y, scores, groups):
    band = roc_band(y, scores, groups=groups, n_resamples=20)
    n = [
        len(np.unique(np.arange(40)[y == c] if groups is None else groups[y == c])) for c in (0, 1)
    ]
    wide, tall = (np.sqrt(np.log(4.0 / 0.05) / (2 * one)) for one in n)
    assert band.high == pytest.approx(
        np.clip(upper(band.fpr, band.fpr, band.tpr, wide, tall), band.tpr, 1.0)
    )
    held = np.where(band.fpr < wide, 0.0, lower(band.fpr, band.fpr, band.tpr, wide, tall))
    assert band.low == pytest.approx(np.clip(held, 0.0, band.tpr))
