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
