# SPDX-License-Identifier: BSD-3-Clause
"""Metrics from moments of partitions."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from pairlearn import Exact, MetricLearner, load_model
from pairlearn.cluster import OnDask, PairScatters, fit_on, metric_of, predict_on

#: A learner whose ridge is known.
GIVEN = MetricLearner(solver=Exact(0.1), random_state=0)


@pytest.fixture(scope="module")
def table():
    X, y = load_wine(return_X_y=True)
    return train_test_split(X, np.array(["a", "b", "c"])[y], random_state=0, stratify=y)


def engine(X, y, n_parts=4):
    parts = [slice(k, None, n_parts) for k in range(n_parts)]

    def run(statistic):
        return statistic.merge_all(statistic.partial_state(X[part], y[part]) for part in parts)

    return run


def test_the_metric_is_the_positive_part_of_the_ratio(rng):
    factors = rng.normal(size=(2, 3, 3))
    S, D = (factor @ factor.T + np.eye(3) for factor in factors)
    W = metric_of(PairScatters(S, D), 0.0)
    difference = np.linalg.inv(S) - np.linalg.inv(D)
    values = np.linalg.eigvalsh(W)
    assert values.min() > -1e-12
    # The projection on the cone leaves what is orthogonal to it, and negative.
    left = difference - W
    assert abs(np.trace(left @ W)) < 1e-10
    assert np.linalg.eigvalsh(left).max() < 1e-10


def test_neighbours_are_found_in_any_units_and_partitions(table):
    X, X_test, y, y_test = table
    found = fit_on(engine(X, y), MetricLearner(random_state=0))
    other = fit_on(engine(X * 1e3 ** np.arange(13).clip(0, 3), y, 1), GIVEN)
    same = fit_on(engine(X, y), GIVEN)
    np.testing.assert_allclose(
        np.abs(other.transform(X_test * 1e3 ** np.arange(13).clip(0, 3))),
        np.abs(same.transform(X_test)),
        atol=1e-6,
    )
    raw = KNeighborsClassifier(3).fit(X, y).score(X_test, y_test)
    learned = KNeighborsClassifier(3).fit(found.transform(X), y)
    assert learned.score(found.transform(X_test), y_test) > max(raw + 0.1, 0.9)
    assert found.held_out_score_ > 0.9


def test_the_learner_is_an_ordinary_one(table, tmp_path):
    X, X_test, y, _ = table
    model = fit_on(engine(X, y), GIVEN)
    model.save(tmp_path / "metric.safetensors")
    again = load_model(tmp_path / "metric.safetensors")
    np.testing.assert_array_equal(again.transform(X_test), model.transform(X_test))
    assert again.step_size_ is None


def test_what_holds_no_pairs_is_refused(table):
    X, _, y, _ = table
    with pytest.raises(ValueError, match="needs two labels"):
        fit_on(engine(X, np.full(len(y), "a")), GIVEN)
    with pytest.raises(ValueError, match="ridge"):
        fit_on(engine(X, y), MetricLearner(solver=Exact(-1.0)))
    with pytest.raises(ValueError, match="no use for rank=2"):
        fit_on(engine(X, y), MetricLearner(rank=2))


def test_on_dask_collections(table, client):
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    X, _, y, _ = table
    rows, labels = da.from_array(X, chunks=(50, -1)), da.from_array(y, chunks=50)
    model = fit_on(OnDask(rows, labels, client=client), MetricLearner(random_state=0))
    again = fit_on(OnDask(rows, labels), MetricLearner(random_state=0))
    np.testing.assert_array_equal(model.components_, again.components_)
    there = predict_on(model, rows, "transform")
    assert there.shape == X.shape
    np.testing.assert_allclose(there.compute(), model.transform(X), rtol=1e-12)
