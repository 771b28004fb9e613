# SPDX-License-Identifier: BSD-3-Clause
"""Weights of examples in the estimators: loss, scales, held-out AUC, threshold, probabilities."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from scipy.sparse import csr_array
from sklearn.datasets import make_moons

from pairlearn import load_model
from pairlearn.metrics import roc_auc
from pairlearn.torch import MLP, Adam, EmbeddingLearner, NeuralAUCClassifier, NeuralRanker
from pairlearn.torch.standardise import Standardiser

SMALL = {
    "network": MLP((8,)),
    "solver": Adam(learning_rate=0.01, max_epochs=3, n_networks=1),
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


@pytest.fixture(scope="module")
def moons():
    return make_moons(200, noise=0.25, random_state=0)


@pytest.mark.parametrize("kind", MAKERS)
def test_equal_weights_are_none_and_zero_is_absent(kind, moons):
    X, y = moons
    make = MAKERS[kind]
    plain = told(make().fit(X, y), X)
    assert np.array_equal(told(make().fit(X, y, sample_weight=np.full(200, 4.0)), X), plain)
    kept = np.arange(200) % 3 != 0
    fewer = make().fit(X[kept], y[kept])
    same = make().fit(X, y, sample_weight=2.0 * kept)
    assert np.array_equal(told(same, X), told(fewer, X))
    assert same.n_examples_ == kept.sum()
    assert not np.array_equal(told(same, X), plain)
    uneven = make().fit(X, y, sample_weight=np.where(kept, 3.0, 0.5))
    assert not np.allclose(told(uneven, X), plain)
    with pytest.raises(ValueError, match="zero"):
        make().fit(X, y, sample_weight=np.zeros(200))
    with pytest.raises(ValueError, match="at least 0"):
        make().fit(X, y, sample_weight=np.full(200, -1.0))


def test_queries_without_weight_are_absent(moons):
    X, y = moons
    query = np.arange(200) // 5
    kept = (query != 3) & (query != 39) & (np.arange(200) % 7 != 0)
    fewer = MAKERS["ranker"]().fit(X[kept], y[kept], query[kept])
    same = MAKERS["ranker"]().fit(X, y, query, sample_weight=1.0 * kept)
    assert np.array_equal(told(same, X), told(fewer, X))


@pytest.mark.parametrize("kind", MAKERS)
def test_streams(kind, moons):
    X, y = moons
    first = {} if kind == "ranker" else {"classes": [0, 1]}

    def stream(weights):
        model = MAKERS[kind](solver__batch_size=25)
        for begin in range(0, 200, 50):
            part = slice(begin, begin + 50)
            own = {} if weights is None else {"sample_weight": weights[part]}
            model.partial_fit(X[part], y[part], **(first if begin == 0 else {}), **own)
        return model

    plain = stream(None)
    np.testing.assert_allclose(told(stream(np.ones(200)), X), told(plain, X), rtol=1e-4)
    rng = np.random.default_rng(0)
    uneven = stream(rng.uniform(0.1, 3.0, size=200))
    assert not np.allclose(told(uneven, X), told(plain, X), rtol=1e-2)
    kept = rng.uniform(size=200) < 0.7
    assert stream(kept.astype(float)).n_examples_ == kept.sum()
    with pytest.raises(ValueError, match="zero for all"):
        plain.partial_fit(X[:5], y[:5], sample_weight=np.zeros(5))


def test_what_weighs_more_is_learned(moons):
    """Two parts of the plane contradict each other; the heavier one is right."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    odd = np.arange(400) % 2 == 1
    y = ((X[:, 0] > 0) ^ odd).astype(int)
    for heavy, sign in ((odd, -1.0), (~odd, 1.0)):
        weight = np.where(heavy, 1.0, 0.05)
        model = MAKERS["classifier"](solver__max_epochs=10)
        model.fit(X, y, sample_weight=weight)
        assert roc_auc(X[:, 0] > 0, sign * model.decision_function(X)) > 0.9
        # The held-out AUC counts pairs by their weight; unweighted it would be near one half.
        assert model.held_out_ > 0.85
        embedder = MAKERS["embedder"](solver__max_epochs=10).fit(X, y, weight)
        assert embedder.held_out_ > 0.8
        ranker = MAKERS["ranker"](solver__max_epochs=10).fit(X, y, sample_weight=weight)
        assert roc_auc(X[:, 0] > 0, sign * ranker.predict(X)) > 0.9


def test_weights_of_classes_move_threshold_and_probabilities(moons, tmp_path):
    X, y = moons
    y = np.array(["no", "yes"])[y]
    plain = MAKERS["classifier"](decision="probability").fit(X, y)
    heavy = MAKERS["classifier"](decision="probability", class_weight={"yes": 5.0}).fit(X, y)
    # The order is that of the same scores: all opposite pairs weigh the same.
    scores = [m.decision_function(X) + m.threshold_ for m in (plain, heavy)]
    np.testing.assert_allclose(*scores, rtol=1e-4, atol=1e-4)
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1
    assert np.mean(heavy.predict(X) == "yes") > np.mean(plain.predict(X) == "yes")
    importance = MAKERS["classifier"](class_weight={"yes": 20.0}).fit(X, y)
    assert importance.threshold_ < MAKERS["classifier"]().fit(X, y).threshold_
    heavy.save(tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    assert back.class_weight == {"yes": 5.0}
    assert np.array_equal(back.predict_proba(X), heavy.predict_proba(X))
    with pytest.raises(ValueError, match="one of the classes"):
        MAKERS["classifier"](class_weight={"yes": 0.0}).fit(X, y)
    rare = np.concatenate([np.flatnonzero(y == "no"), np.flatnonzero(y == "yes")[:20]])
    balanced = MAKERS["classifier"](class_weight="balanced").fit(X[rare], y[rare])
    probability = balanced.predict_proba(X[rare])[:, 1]
    assert probability.mean() > 20 / len(rare) + 0.1
    with pytest.raises(ValueError, match="pass a dict to partial_fit"):
        balanced.partial_fit(X, y)


def test_a_stream_with_weights_of_classes(moons):
    X, y = moons
    shares = []
    for class_weight in (None, {1: 5.0}):
        model = MAKERS["classifier"](class_weight=class_weight, solver__batch_size=20)
        for begin in range(0, 200, 50):
            model.partial_fit(X[begin : begin + 50], y[begin : begin + 50], classes=[0, 1])
        shares.append(model.predict_proba(X)[:, 1].mean())
    assert shares[1] > shares[0] + 0.05


@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_whole_numbers_are_repeated_rows_in_scales(make, rng):
    X = rng.normal(size=(30, 4)) * (rng.uniform(size=(30, 4)) < 0.5)
    X[:, 3] = 2.5
    weight = rng.integers(1, 4, size=30).astype(float)
    found, often = Standardiser.none(4), Standardiser.none(4)
    for part in (slice(0, 10), slice(10, 30)):
        found = found.seen_with(make(X[part]), weight[part])
        often = often.seen_with(np.repeat(X[part], weight[part].astype(int), axis=0))
    assert found.n_seen == often.n_seen == weight.sum()
    for name in ("centre", "squares", "low", "high", "factor"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(often, name), rtol=1e-10, atol=1e-12
        )
    assert found.factor[3] == 0.0
    np.testing.assert_allclose(found.transform(make(X)), often.transform(X), atol=1e-12)
