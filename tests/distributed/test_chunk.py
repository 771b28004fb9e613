# SPDX-License-Identifier: BSD-3-Clause
"""Statistics look at partitions block by block, whatever the order in which tables are stored."""

import numpy as np
import pytest
import scipy.sparse

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
