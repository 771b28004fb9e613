# SPDX-License-Identifier: BSD-3-Clause
"""Statistics look at partitions block by block, whatever the order in which tables are stored."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import pairlearn
from pairlearn.distributed import (
    BinnedScores,
    FeatureScales,
    LabelMoments,
    RowSample,
    Scaled,
    ScoreHistogram,
    SlopeSums,
)
from pairlearn.distributed.statistics.chunk import ScaledTable, as_chunk
from pairlearn.estimators.shared.scaling import Scaling

W, EDGES = np.array([0.8, 0.4, -0.1]), np.linspace(-2.0, 2.0, 15)
SCALING = Scaling(np.ones(3), np.array([1.0, 0.0, -2.0]), np.array([0.5, 1.0, 3.0]))
SLOPES = np.linspace(-1.0, 1.0, 32).reshape(2, 16)

STATISTICS = {
    "scales": FeatureScales(),
    "moments": LabelMoments(),
    "sample": RowSample(20),
    "binned": Scaled(BinnedScores(W, EDGES, (0, 1)), SCALING),
    "histogram": Scaled(ScoreHistogram(W, EDGES, (0, 1)), SCALING),
    "slopes": Scaled(SlopeSums(W, EDGES, (0, 1), SLOPES, np.ones((2, 16))), SCALING),
}


@pytest.fixture
def table(rng):
    X = rng.normal(loc=[1.0, 0.0, -2.0], size=(300, 3))
    return X, (X[:, 0] > 1.5).astype(int), rng.integers(0, 3, size=300) * 1.0


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_tables_stored_by_columns_give_the_same_bits(name, weighted, table):
    X, y, weight = table
    statistic, sample_weight = STATISTICS[name], weight if weighted else None
    by_rows = statistic.partial_state(X, y, sample_weight)
    for other in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
        found = statistic.partial_state(other, y, sample_weight)
        assert found.keys() == by_rows.keys()
        for key in by_rows:
            np.testing.assert_array_equal(found[key], by_rows[key], err_msg=key)


@pytest.mark.parametrize("name", ["moments", "binned", "histogram", "slopes", "scales"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_many_blocks_say_what_one_says(name, order, table, monkeypatch):
    X, y, weight = table
    X = np.asarray(X, order=order)
    expected = STATISTICS[name].partial_state(X, y, weight)
    monkeypatch.setattr("pairlearn.distributed.statistics.chunk._NUMBERS", 24)
    monkeypatch.setattr("pairlearn.distributed.statistics.chunk._FEWEST_ROWS", 1)
    monkeypatch.setattr("pairlearn.distributed.statistics.binned._NUMBERS", 60)
    monkeypatch.setattr("pairlearn.distributed.statistics.moments._NUMBERS", 60)
    monkeypatch.setattr("pairlearn.distributed.statistics.scales._BLOCK", 7)
    monkeypatch.setattr("pairlearn.distributed.statistics.scales._TOGETHER", 2)
    found = STATISTICS[name].partial_state(X, y, weight)
    for key in expected:
        np.testing.assert_allclose(found[key], expected[key], rtol=1e-12, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("name", ["moments", "binned", "histogram", "slopes", "scales"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_every_order_refuses_what_is_not_finite(name, bad, table):
    X, y, _ = table
    X[299, 1] = bad
    for given in (X, np.asfortranarray(X), scipy.sparse.csr_array(X)):
        with pytest.raises(ValueError, match="X contains NaN or infinity"):
            STATISTICS[name].partial_state(given, y)


def test_a_scaled_table_is_an_array_for_those_who_ask(table):
    X = table[0].astype(np.float32)
    scaled = ScaledTable(np.asfortranarray(X), SCALING)
    expected = (X * SCALING.inverse - SCALING.centre) * SCALING.factor
    np.testing.assert_array_equal(np.asarray(scaled), expected)
    chunk = as_chunk(scaled, None, np.arange(300) % 2)
    np.testing.assert_array_equal(chunk.matrix, expected[1::2])
    for now, block in chunk.blocks(40):
        np.testing.assert_array_equal(block, expected[1::2][now])


def test_workers_load_no_scikit_learn():
    """It takes more than a second of each worker, and 50 MB."""
    code = """
import sys
import subprocess
import sys
from pathlib import Path

import numpy as np
from pairlearn.distributed import FeatureScales, LabelMoments, RowSample, ScoreHistogram
X, y = np.random.default_rng(0).normal(size=(3_000, 2)), np.arange(3_000) % 2
asked = FeatureScales(), LabelMoments(), RowSample(50), ScoreHistogram([1.0, 1.0], [0.0], (0, 1))
for statistic in asked:
    statistic.partial_state(X, y)
print(sorted({"sklearn", "scipy.stats"} & set(sys.modules)))
"""
    environment = {"PYTHONPATH": str(Path(pairlearn.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "labels",
    [[1, 0, 1], [0, 0, 0], [2.5, -1.0, 2.5], ["b", "a", "b"], [True, False, True], [3, 1, 2, 1]],
)
@pytest.mark.parametrize("kind", [None, object])
def test_labels_are_coded_as_sorting_codes_them(labels, kind):
    given = np.array(labels, dtype=kind)
    classes, code = as_chunk(np.zeros((len(given), 1)), given).coded
    expected = np.unique(given, return_inverse=True)
    np.testing.assert_array_equal(classes, expected[0])
    np.testing.assert_array_equal(code, expected[1])
    assert (classes.dtype, code.dtype) == (expected[0].dtype, expected[1].dtype)


@pytest.mark.parametrize("n_edges", [1, 2, 6, 4_095])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scaled", [False, True])
def test_many_scores_fall_into_the_bins_that_sorting_finds(n_edges, dtype, scaled):
    rng = np.random.default_rng(n_edges)
    X, y = rng.normal(size=(2_001, 3)).astype(dtype), rng.random(2_001) < 0.3
    weight = rng.integers(1, 4, len(X)) * 0.25
    edges = np.sort(rng.normal(size=n_edges))
    edges[0], edges[-1] = max(edges[0], -1.0), min(edges[-1], 1.0)
    edges = np.sort(edges)
    statistic = ScoreHistogram(W, edges, (False, True))
    statistic = Scaled(statistic, SCALING) if scaled else statistic
    values = (X.astype(float) - SCALING.centre) * SCALING.factor if scaled else X.astype(float)
    scores = values @ W
    place = (edges[:, None] <= scores).sum(axis=0)
    states = [
        statistic.partial_state(np.asarray(X, order=order), y, weight) for order in ("C", "F")
    ]
    for key in states[0]:
        np.testing.assert_array_equal(states[0][key], states[1][key], err_msg=key)
    bins = statistic.finish(states[0]).bins
    for kind, cell in zip(*np.nonzero(bins.weight), strict=True):
        own = (y == kind) & (place == cell)
        mean = np.average(scores[own], weights=weight[own])
        spread = np.average((scores[own] - mean) ** 2, weights=weight[own])
        assert bins.weight[kind, cell] == weight[own].sum()
        found = [bins.mean, bins.variance, bins.low, bins.high]
        expected = mean, spread, scores[own].min(), scores[own].max()
        np.testing.assert_allclose([v[kind, cell] for v in found], expected, rtol=1e-9, atol=1e-12)
    assert bins.weight.sum() == weight.sum()


@pytest.mark.parametrize("order", ["C", "F"])
def test_many_scores_beyond_the_range_of_floats_are_in_the_last_bins(order):
    X = np.zeros((2_000, 3), order=order)
    X[:1_000, 0], X[1_000:, 1] = 1e308, -1e308
    y = np.arange(2_000) % 2
    with np.errstate(over="ignore", invalid="ignore"):
        state = ScoreHistogram([10.0, 10.0, 0.0], [0.0], (0, 1)).partial_state(X, y)
    assert state["cells"].tolist() == [0, 1, 2, 3]
    assert state["weight"].tolist() == [500] * 4
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="X contains NaN or infinity"):
        ScoreHistogram([10.0, 10.0, 0.0], [0.0], (0, 1)).partial_state(X, y)
