# SPDX-License-Identifier: BSD-3-Clause
"""Sparse rows: the model of dense ones, and never all of them dense at once."""

import tracemalloc

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from scipy.sparse import csr_array, csr_matrix, random_array

from pairlearn.torch import MLP, Adam, EmbeddingLearner, NeuralAUCClassifier, NeuralRanker

SMALL = {
    "network": MLP((4,)),
    "solver": Adam(max_epochs=1, n_networks=1),
    "random_state": 0,
    "device": "cpu",
}
MAKERS = {
    "classifier": lambda **more: NeuralAUCClassifier(**SMALL).set_params(**more),
    "ranker": lambda **more: NeuralRanker(**SMALL).set_params(**more),
    "embedder": lambda **more: EmbeddingLearner(2, **SMALL).set_params(**more),
}


def told(model, X):
    if isinstance(model, NeuralRanker):
        return model.predict(X)
    return model.transform(X) if isinstance(model, EmbeddingLearner) else model.predict_proba(X)


@pytest.mark.parametrize("kind", MAKERS)
def test_dense_and_sparse_rows_make_one_model(kind, rng):
    X = rng.normal(size=(160, 6)) * (rng.uniform(size=(160, 6)) < 0.4)
    y = (X.sum(axis=1) > 0).astype(int)
    more = {"solver__max_epochs": 3}
    dense = MAKERS[kind](**more).fit(X, y)
    for make in (csr_array, csr_matrix):
        sparse = MAKERS[kind](**more).fit(make(X), y)
        np.testing.assert_allclose(told(sparse, make(X)), told(dense, X), rtol=1e-3, atol=1e-4)
    # Either model takes either kind of rows.
    np.testing.assert_allclose(told(dense, csr_array(X)), told(dense, X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(told(sparse, X), told(sparse, csr_array(X)), rtol=1e-12, atol=1e-12)
    first = {} if kind == "ranker" else {"classes": [0, 1]}
    streams = []
    for kinds in ((np.asarray, np.asarray), (csr_array, csr_array), (csr_array, np.asarray)):
        stream = MAKERS[kind](**more)
        for make, part in zip(kinds, (slice(0, 80), slice(80, 160)), strict=True):
            stream.partial_fit(make(X[part]), y[part], **first)
        streams.append(told(stream, X))
    for other in streams[1:]:
        np.testing.assert_allclose(other, streams[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_wide_table_is_never_dense(kind, rng):
    n, d = 2000, 50_000
    X = random_array((n, d), density=2e-4, rng=rng, format="csr")
    y = np.arange(n) % 2
    tracemalloc.start()
    try:
        model = MAKERS[kind]()
        told(model.fit(X, y), X)
        told(model.partial_fit(X, y), X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # In single precision all rows are 400 MB; a batch of 512 has 102, a block of rows 17.
    assert peak < 0.4 * 4 * n * d


def test_damaged_sparse_rows_are_refused(rng):
    X = random_array((40, 5), density=0.5, rng=rng, format="csr")
    model = NeuralAUCClassifier(**SMALL).fit(X, np.arange(40) % 2)
    X.indices[0] = 77
    with pytest.raises(ValueError, match="index"):
        model.predict(X)
    bad = random_array((40, 5), density=0.5, rng=rng, format="csr")
    bad.data[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        NeuralAUCClassifier(**SMALL).fit(bad, np.arange(40) % 2)
