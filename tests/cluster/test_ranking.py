# SPDX-License-Identifier: BSD-3-Clause
"""Ranking on partitions of whole queries, against sums over all pairs."""

import numpy as np
import pytest
import scipy.sparse

from pairlearn import SGD, PairwiseRanker, SquaredHinge, load_model
from pairlearn.cluster import OnDask, QueryGradient, QueryMoments, fit_on, predict_on
from pairlearn.metrics.ranking import ndcg


def ranker(loss="squared_hinge"):
    return PairwiseRanker(loss, random_state=0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    qid = np.repeat(np.arange(60), rng.integers(1, 12, 60))
    n = len(qid)
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 1.0] + 100.0 * rng.normal(size=60)[qid][:, None]
    centre = np.array([X[qid == query].mean(axis=0) for query in range(60)])
    y = np.clip(np.round((X - centre[qid])[:, 0] + 1 + 0.5 * rng.normal(size=n)), 0, 3)
    return X, y, qid, rng.integers(1, 3, n) * 1.0


def pairs_of(X, y, qid, weight, by_grade):
    """Return differences of all pairs of unequal grade within queries, and their weights."""
    rows, weights = [], []
    for q in np.unique(qid):
        members = np.flatnonzero(qid == q)
        for i in members:
            for j in members:
                if y[i] > y[j]:
                    gap = y[i] - y[j] if by_grade else 1.0
                    rows.append(X[i] - X[j])
                    weights.append(weight[i] * weight[j] * gap / weight[members].sum())
    return np.array(rows), np.array(weights) / sum(weights)


def run_on(parts):
    def run(statistic):
        return statistic.merge_all(
            statistic.partial_state(*part[:3], qid=part[3] if len(part) > 3 else None)
            for part in parts
        )

    return run


def by_query(table, n_parts=4):
    X, y, qid, weight = table
    return [(X[k], y[k], weight[k], qid[k]) for k in (qid % n_parts == p for p in range(n_parts))]


@pytest.mark.parametrize("by_grade", [False, True])
def test_moments_and_gradients_are_sums_over_pairs(table, by_grade):
    X, y, qid, weight = table
    V, shares = pairs_of(X, y, qid, weight, by_grade)
    moments = QueryMoments(by_grade)
    found = moments.finish(run_on(by_query(table))(moments))
    np.testing.assert_allclose(found.difference, shares @ V, rtol=1e-10)
    np.testing.assert_allclose(found.scatter, (V * shares[:, None]).T @ V, rtol=1e-9)
    assert found.n_pairs == len(V)
    w, units = np.array([0.3, 0.01, -0.2]), np.array([1.0, 2.0, 0.5])
    gradient = QueryGradient(w, SquaredHinge(), units, by_grade=by_grade)
    value, slope = gradient.finish(run_on(by_query(table))(gradient))
    loss, margins = SquaredHinge(), V * units @ w
    assert value == pytest.approx(loss.values(margins) @ shares, rel=1e-10)
    np.testing.assert_allclose(slope, (loss.slopes(margins) * shares) @ (V * units), rtol=1e-8)


def test_queries_are_counted_as_in_memory(table):
    X, y, qid, _ = table
    alone = PairwiseRanker(solver=SGD(step_size=0.1, n_passes=1), random_state=0).fit(X, y, qid=qid)
    found = fit_on(run_on(by_query(table)), ranker())
    for name in ("n_queries_", "n_single_", "n_flat_"):
        assert getattr(found, name) == getattr(alone, name)


def test_partitions_make_no_difference(table):
    whole = fit_on(run_on([(table[0], table[1], table[3], table[2])]), ranker())
    parts = fit_on(run_on(by_query(table)), ranker())
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-5)
    sparse = [(scipy.sparse.csr_array(X), *rest) for X, *rest in by_query(table)]
    np.testing.assert_allclose(fit_on(run_on(sparse), ranker()).coef_, whole.coef_, rtol=1e-5)


@pytest.mark.parametrize("loss", ["square", "squared_hinge", "logistic", "hinge"])
def test_the_ranker_is_an_ordinary_one_and_ranks(table, loss, tmp_path):
    X, y, qid, _ = table
    model = fit_on(run_on(by_query(table)), ranker(loss))
    assert ndcg(y, X @ model.coef_, qid=qid, k=10) > 0.9
    model.save(tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.step_size_ is None


def test_split_queries_and_queries_without_pairs_are_refused(table):
    X, y, qid, weight = table
    half = len(y) // 2
    while qid[half] != qid[half - 1]:
        half += 1
    parts = [(X[k], y[k], weight[k], qid[k]) for k in (slice(half), slice(half, None))]
    with pytest.raises(ValueError, match="1 queries are split across partitions"):
        fit_on(run_on(parts), ranker())
    texts = (*parts[1][:3], parts[1][3].astype(str))
    with pytest.raises(ValueError, match="Queries are texts in one partition"):
        fit_on(run_on([parts[0], texts]), ranker())
    with pytest.raises(ValueError, match="No query has two different grades"):
        fit_on(run_on([(X, np.ones(len(y)), weight, qid)]), ranker())
    with pytest.raises(ValueError, match="needs queries"):
        fit_on(run_on([(X, y, weight)]), ranker())
    with pytest.raises(ValueError, match="convex loss of opposite pairs"):
        fit_on(run_on(by_query(table)), ranker("loglink"))


def test_on_dask_collections(table, client):
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    X, y, qid, _ = table
    cut = int(np.flatnonzero(qid == 30)[0])
    chunks = (cut, len(y) - cut)
    rows = da.from_array(X, chunks=(chunks, -1))
    grades, queries = (da.from_array(values, chunks=(chunks,)) for values in (y, qid))
    model = fit_on(OnDask(rows, grades, qid=queries, client=client), ranker())
    parts = [(X[k], y[k], None, qid[k]) for k in (slice(cut), slice(cut, None))]
    np.testing.assert_array_equal(model.coef_, fit_on(run_on(parts), ranker()).coef_)
    np.testing.assert_array_equal(predict_on(model, rows).compute(), model.predict(X))
