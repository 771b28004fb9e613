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


def test_copies_in_groups_leave_the_band_alone(sample):
    y, scores = sample
    plain = roc_band(y, scores, groups=np.arange(90), n_resamples=300)
    copies = roc_band(
        np.repeat(y, 4), np.repeat(scores, 4), groups=np.repeat(np.arange(90), 4), n_resamples=300
    )
    ignored = roc_band(np.repeat(y, 4), np.repeat(scores, 4), n_resamples=300)
    width, same, narrower = (float((b.high - b.low).mean()) for b in (plain, copies, ignored))
    assert same == pytest.approx(width, rel=1e-9)
    assert narrower < 0.7 * width


def test_bad_input():
    with pytest.raises(ValueError, match="n_resamples must be at least 20, got 3"):
        roc_band([0, 1], [0, 1], n_resamples=3)
    with pytest.raises(ValueError, match="prevalence must lie strictly between"):
        precision_recall_band([0, 1], [0, 1], prevalence=1.0)
    with pytest.raises(ValueError, match="exactly two classes, got 1"):
        roc_band([1, 1], [0, 1])
