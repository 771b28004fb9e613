# SPDX-License-Identifier: BSD-3-Clause
"""NDCG and pair accuracy against scikit-learn, SciPy and the definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from pairlearn.metrics import ndcg, pair_accuracy, roc_auc
from pairlearn.metrics import ranking as module


@given(seed=st.integers(0, 10**6), n=st.integers(2, 30), k=st.integers(1, 30), ties=st.booleans())
def test_ndcg_is_that_of_scikit_learn(seed, n, k, ties):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n).astype(float)
    s = rng.integers(0, 3, n).astype(float) if ties else rng.normal(size=n)
    if y.max() == 0:
        y[0] = 1.0
    assert ndcg(y, s, k=k, gain="linear") == pytest.approx(ndcg_score([y], [s], k=k))
    assert ndcg(y, s, k=k) == pytest.approx(ndcg_score([2**y - 1], [s], k=k))


@pytest.mark.parametrize("gain", ["exponential", "linear"])
def test_ndcg_of_large_grades_is_finite(gain):
    """Exponential gains of clicks were out of range, and `evaluate` ended there."""
    y, s = np.array([1500.0, 1499.0, 3.0]), np.array([2.0, 3.0, 1.0])
    found, discount = ndcg(y, s, gain=gain), 1.0 / np.log2([2.0, 3.0, 4.0])
    # the third document gains nothing beside 2^1499, and the logarithms are exact enough
    gains = np.array([1.0, 0.5, 0.0]) if gain == "exponential" else y
    assert found == pytest.approx(gains[[1, 0, 2]] @ discount / (gains @ discount), rel=1e-14)
    assert ndcg([1e308, 0.0, 1e308], [1.0, 2.0, 3.0], gain=gain) < 1.0
    # each query has a factor of its own
    both = ndcg(np.concatenate([y, [1, 0]]), [*s, 0, 1], qid=[0, 0, 0, 1, 1], gain=gain)
    assert both == pytest.approx((found + ndcg([1, 0], [0, 1], gain=gain)) / 2, rel=1e-14)


def test_ndcg_is_a_mean_over_queries():
    y, s = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]), np.array([2.0, 1.0, 2.0, 1.0, 0.0, 1.0])
    # Two queries, interleaved, and a third without a relevant document, which does not count.
    qid = np.array([5, 5, 3, 3, 9, 9])
    assert ndcg(y, s, qid=qid) == pytest.approx((1.0 + 1.0 / np.log2(3.0)) / 2)


@given(seed=st.integers(0, 10**6), n=st.integers(4, 60))
def test_sorting_and_visiting_pairs_agree(seed, n):
    rng = np.random.default_rng(seed)
    y, s = rng.integers(0, 4, n).astype(float), rng.integers(0, 6, n).astype(float)
    if y.max() == y.min():
        y[0] += 1.0
    expected = module._share_in_order(y, s)
    many, module._MANY = module._MANY, 1
    try:
        assert module._share_in_order(y, s) == pytest.approx(expected, abs=1e-12)
    finally:
        module._MANY = many


def test_two_grades_give_the_auc():
    rng = np.random.default_rng(0)
    y, s = rng.integers(0, 2, 200), rng.normal(size=200)
    assert pair_accuracy(y, s) == pytest.approx(roc_auc(y, s))


@given(seed=st.integers(0, 10**6))
def test_a_monotone_change_of_grades_changes_no_pair(seed):
    rng = np.random.default_rng(seed)
    y, s = rng.integers(0, 5, 40), rng.normal(size=40)
    assert pair_accuracy(np.exp(y), s) == pair_accuracy(y, s)


@pytest.mark.parametrize(
    ("function", "arguments", "keywords", "message"),
    [
        (ndcg, ([-1, 1], [0, 1]), {}, "at least 0"),
        (ndcg, ([0, 0], [0, 1]), {}, "positive gain"),
        (ndcg, ([0, 1], [0, 1]), {"gain": "log"}, "gain must be"),
        (ndcg, ([0, 1], [0, 1]), {"k": 0}, "k must be at least 1"),
        (ndcg, ([0, 1], [0, 1]), {"qid": [1]}, "one query for each"),
        (pair_accuracy, ([1, 1], [0, 1]), {}, "two different grades"),
        (pair_accuracy, ([1, 1], [0]), {}, "y must hold one number"),
    ],
)
def test_bad_input(function, arguments, keywords, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments, **keywords)


@pytest.mark.parametrize("measure", [ndcg, pair_accuracy])
@pytest.mark.parametrize("qid", [[np.nan, np.nan, 1.0, 1.0], [None, None, "a", "a"]])
def test_a_missing_query_is_refused(measure, qid):
    with pytest.raises(ValueError, match="qid has no query in row 0"):
        measure([1, 0, 1, 0], [1.0, 2.0, 3.0, 4.0], qid=qid)


def test_the_unit_of_linear_gains_does_not_matter():
    y, scores = np.array([3.0, 0.0, 1.0, 2.0]), [1.0, 2.0, 3.0, 4.0]
    expected = ndcg(y, scores, gain="linear")
    for unit in (1e-300, 7.0, 5e307):
        assert ndcg(unit * y, scores, gain="linear") == pytest.approx(expected)
    # rounding leads nowhere above the best order
    assert max(ndcg(np.full(n, 1000), np.arange(n)) for n in range(1, 400)) == 1.0
