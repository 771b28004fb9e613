# SPDX-License-Identifier: BSD-3-Clause
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pairlearn.experiments.paper.figures import draw_pairs, sampling_seconds


@given(st.integers(2, 10), st.integers(0, 1000))
def test_pairs_are_distinct_and_in_range(n, seed):
    left, right = draw_pairs(n, 200, rng=np.random.default_rng(seed))
    assert (left != right).all()
    assert min(left.min(), right.min()) >= 0
    assert max(left.max(), right.max()) < n


def test_pairs_are_uniform():
    """Chi-square over the 20 ordered pairs of 5 indices; fixed seed, false-alarm rate 1e-4."""
    left, right = draw_pairs(5, 40_000, rng=np.random.default_rng(0))
    counts = np.bincount(5 * left + right, minlength=25).reshape(5, 5)
    assert (np.diag(counts) == 0).all()
    assert stats.chisquare(counts[~np.eye(5, dtype=bool)]).pvalue > 1e-4


def test_every_scheme_is_measured_at_every_size():
    found = sampling_seconds([10, 50], repeats=1, seed=0)
    assert all(len(seconds) == 2 and min(seconds) >= 0 for seconds in found.values())
    assert len(found) == 4
