# SPDX-License-Identifier: BSD-3-Clause
"""The AUC by ranks against the definition and against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pairlearn.metrics import roc_auc


def by_definition(y, scores, weight=None):
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=float)
    y, scores = np.asarray(y), np.asarray(scores, dtype=float)
    up, down = y == y.max(), y != y.max()
    wins = (scores[up, None] > scores[down]) + 0.5 * (scores[up, None] == scores[down])
    pairs = weight[up, None] * weight[down]
    return float((wins * pairs).sum() / pairs.sum())


@st.composite
def ranked(draw, *, labels=(0, 1)):
    """Return labels of both classes and scores with many ties."""
    n = draw(st.integers(2, 30))
    y = [labels[0], labels[1], *draw(st.lists(st.sampled_from(labels), min_size=n, max_size=n))]
    scores = draw(st.lists(st.integers(-4, 4), min_size=n + 2, max_size=n + 2))
    weight = draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    return np.array(y), np.array(scores) / 4, np.array([1, 1, *weight], dtype=float)


@given(ranked())
def test_auc_is_the_share_of_ordered_pairs(sample):
    y, scores, _ = sample
    assert roc_auc(y, scores) == pytest.approx(by_definition(y, scores), abs=1e-15)


@given(ranked(labels=(-1, 1)))
def test_weighted_auc_weighs_pairs_by_products(sample):
    y, scores, weight = sample
    expected = by_definition(y, scores, weight)
    assert roc_auc(y, scores, sample_weight=weight) == pytest.approx(expected, abs=1e-14)


@given(ranked())
def test_whole_weights_are_repetitions(sample):
    y, scores, weight = sample
    times = weight.astype(int)
    repeated = roc_auc(np.repeat(y, times), np.repeat(scores, times))
    assert roc_auc(y, scores, sample_weight=weight) == pytest.approx(repeated, abs=1e-14)


@given(ranked())
def test_reversing_scores_or_labels_mirrors_the_auc(sample):
    y, scores, _ = sample
    assert roc_auc(y, -scores) == pytest.approx(1.0 - roc_auc(y, scores), abs=1e-15)
    assert roc_auc(1 - y, scores) == pytest.approx(1.0 - roc_auc(y, scores), abs=1e-15)


@pytest.mark.parametrize("digits", [1, 2, 17])
def test_auc_agrees_with_scikit_learn(digits):
    rng = np.random.default_rng(0)
    y = rng.random(5000) < 0.1
    scores = np.round(rng.normal(size=5000) + y, digits)
    weight = rng.exponential(size=5000)
    assert roc_auc(y, scores) == pytest.approx(roc_auc_score(y, scores), abs=1e-13)
    assert roc_auc(y, scores, sample_weight=weight) == pytest.approx(
        roc_auc_score(y, scores, sample_weight=weight), abs=1e-13
    )


def test_labels_may_be_any_two_values():
    scores = [0.1, 0.4, 0.4, 0.8]
    for y in (
        [0, 0, 1, 1],
        [-1, -1, 1, 1],
        [False, False, True, True],
        ["ham", "ham", "spam", "spam"],
    ):
        assert roc_auc(y, scores) == 0.875


@pytest.mark.parametrize(
    ("y", "scores", "weight", "message"),
    [
        ([1, 1], [0.0, 1.0], None, r"exactly two classes, got 1 \(1\)"),
        ([], [], None, "exactly two classes, got 0"),
        ([0, 1, 2], [0.0, 1.0, 2.0], None, r"got 3 \(0, 1, 2\)"),
        ([0, 1], [0.0, np.nan], None, "NaN or infinity"),
        ([0, 1], [0.0], None, "1 numbers for 2 labels"),
        ([0, 1], [[0.0, 1.0]], None, r"shape \(1, 2\)"),
        ([[0, 1]], [0.0, 1.0], None, r"vector of labels, got shape \(1, 2\)"),
        (
            [0, 1],
            [0.0, 1.0],
            [1.0, -1.0],
            "sample_weight must hold finite numbers of at least 0, got -1.0",
        ),
        ([0, 1], [0.0, 1.0], [1.0, 0.0], "exactly two classes, got 1"),
    ],
)
def test_bad_input_is_refused(y, scores, weight, message):
    with pytest.raises(ValueError, match=message):
        roc_auc(y, scores, sample_weight=weight)
