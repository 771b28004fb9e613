# SPDX-License-Identifier: BSD-3-Clause
"""The concordance index of partitions, against the metric in one memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pairlearn import ConcordanceIndex
from pairlearn.cluster import ConcordanceSketch, OnDask


def survival(rng, n, levels=None):
    risk = rng.normal(size=n)
    died, left = rng.exponential(np.exp(-risk)), rng.exponential(1.5, size=n)
    y = np.column_stack((died <= left, np.minimum(died, left)))
    score = risk + rng.normal(size=n)
    if levels is not None:
        score, y[:, 1] = np.round(score * levels) / levels, np.round(y[:, 1] * levels) / levels
    y[:2] = [(1, 0.0), (0, 9.0)]
    return y, score


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 80),
    levels=st.sampled_from([None, 1, 3]),
    n_edges=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    tau=st.sampled_from([None, 0.7]),
    weighted=st.booleans(),
)
def test_a_sketch_is_as_far_off_as_it_says(seed, n, levels, n_edges, tau, weighted):
    rng = np.random.default_rng(seed)
    y, score = survival(rng, n, levels)
    weight = rng.integers(0, 4, n) * 0.5 if weighted else np.ones(n)
    weight[:2] = 1.0
    metric = ConcordanceIndex(tau=tau)
    edges = [np.sort(rng.choice(v, m)) for v, m in zip((y[:, 1], score), n_edges, strict=True)]
    edges[0] = np.sort(np.append(edges[0], 8.0))  # a pair that is certain
    sketch = ConcordanceSketch(*edges, metric)
    states = [sketch.partial_state(score[k::3], y[k::3], weight[k::3]) for k in range(3)]
    found = sketch.finish(sketch.merge_all(states))
    truth = metric(y, score, sample_weight=weight)
    assert abs(found.value - truth) <= found.half_width
    assert found.n_examples == np.count_nonzero(weight)


def test_merging_in_any_order_changes_no_bit(rng):
    y, score = survival(rng, 3000)
    edges = (np.quantile(v, np.arange(1, 256) / 256) for v in (y[:, 1], score))
    sketch = ConcordanceSketch(*edges)
    whole = sketch.partial_state(score, y)
    order = rng.permutation(3000)
    states = [sketch.partial_state(score[p], y[p]) for p in np.array_split(order, 7)]
    states.append(sketch.partial_state(score[:0], y[:0]))
    merged = sketch.merge_all(states)
    assert all(np.array_equal(merged[name], whole[name]) for name in whole)
    found = sketch.finish(whole)
    # the share that the top of the module promises
    assert 0.2 < found.half_width / (0.5 * 9 / 256) < 2.0
    assert abs(found.value - ConcordanceIndex()(y, score)) < 0.1 * found.half_width


def test_values_of_many_rows_have_bins_of_their_own(rng):
    y, score = survival(rng, 20_000, levels=20)
    event, share = y[:, 0] == 1.0, np.arange(1, 1024) / 1024
    # whoever is seen until a time has outlived the events at that time
    placed = np.where(event, y[:, 1], np.nextafter(y[:, 1], np.inf))
    edges = (np.quantile(v, share, method="inverted_cdf") for v in (placed, score))
    sketch = ConcordanceSketch(*edges)
    found = sketch.finish(sketch.partial_state(score, y))
    assert sketch.n_tables == 10
    assert abs(found.value - ConcordanceIndex()(y, score)) <= found.half_width
    # of times and scores that are all different, 10 tables leave 0.5 * 11 / 1024 open
    assert found.half_width < 0.5 * (0.5 * 11 / 1024)


def test_what_a_sketch_refuses(rng):
    y, score = survival(rng, 20)
    with pytest.raises(ValueError, match="or gather the scores"):
        ConcordanceSketch([1.0], [0.0], ConcordanceIndex(ipcw=True))
    with pytest.raises(ValueError, match="must not fall"):
        ConcordanceSketch([1.0, 0.5], [0.0])
    sketch = ConcordanceSketch([100.0], [0.0])
    with pytest.raises(ValueError, match="give more time_edges"):
        sketch.finish(sketch.partial_state(score, y))
    with pytest.raises(ValueError, match="no example"):
        sketch.finish({})


def test_a_sketch_of_dask_collections(client, rng):
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    y, score = survival(rng, 2000)
    chunks = (700, 0, 900, 400)
    rows = da.from_array(score[:, None], chunks=(chunks, 1))
    times = da.from_array(y, chunks=(chunks, 1))
    share = np.arange(1, 512) / 512
    sketch = ConcordanceSketch(np.quantile(y[:, 1], share), np.quantile(score, share))
    found = sketch.finish(OnDask(rows, times, client=client).run(sketch))
    assert abs(found.value - ConcordanceIndex()(y, score)) <= found.half_width < 0.02
    assert found.n_examples == 2000
