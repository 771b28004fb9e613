# SPDX-License-Identifier: BSD-3-Clause
"""The exact AUC by ranges, against one machine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn import roc_auc, roc_auc_interval
from pairlearn.distributed import deal, exact_auc, quantile_splits, range_state


def by_ranges(scores, y, n_parts, n_ranges, weight=None):
    parts = [np.arange(k, len(y), n_parts) for k in range(n_parts)]
    splits = quantile_splits([scores[part] for part in parts], n_ranges)
    none = np.empty(0)
    dealt = [
        deal((scores[p], y[p] == 1, none if weight is None else weight[p]), splits) for p in parts
    ]
    return exact_auc([range_state([d[k] for d in dealt]) for k in range(len(splits) + 1)])


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(4, 60),
    levels=st.sampled_from([2, 5, 1000]),
    n_parts=st.integers(1, 4),
    n_ranges=st.integers(1, 7),
)
def test_ranges_say_what_one_machine_says(seed, n, levels, n_parts, n_ranges):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, n) / 7.0
    y = rng.integers(0, 2, n)
    y[:2] = 0, 1
    found, expected = by_ranges(scores, y, n_parts, n_ranges), roc_auc_interval(y, scores)
    assert found.auc == expected.auc
    for name in ("standard_error", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9, nan_ok=True)
    weight = rng.integers(0, 3, n) * 1.0
    weight[:2] = 1.0
    weighted = by_ranges(scores, y, n_parts, n_ranges, weight)
    assert weighted.auc == pytest.approx(roc_auc(y, scores, sample_weight=weight), abs=1e-12)
    assert np.isnan(weighted.low)


def test_scores_without_weights_weigh_one_beside_others():
    rng = np.random.default_rng(0)
    scores, y, weight = rng.normal(size=40), np.arange(40) % 2, np.ones(40)
    scores[20:] += 9.0
    weight[20:] = 3.0 * rng.random(20)
    expected = roc_auc(y, scores, sample_weight=weight)
    parts = [(scores[:20], y[:20] == 1, np.empty(0)), (scores[20:], y[20:] == 1, weight[20:])]
    for states in ([range_state(parts)], [range_state([part]) for part in parts]):
        assert exact_auc(states).auc == pytest.approx(expected, abs=1e-12)


def test_one_class_has_no_auc():
    with pytest.raises(ValueError, match="0 positive and 3"):
        by_ranges(np.arange(3.0), np.zeros(3), 1, 1)
