# SPDX-License-Identifier: BSD-3-Clause
"""Rankings and embeddings by small networks."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from sklearn.datasets import make_moons
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import check_estimator

from pairlearn import ModelFileError, PairwiseRanker, load_model
from pairlearn.metrics import roc_auc
from pairlearn.torch import MLP, Adam, EmbeddingLearner, NeuralRanker
from pairlearn.torch.ranker import _packed

SMALL = {
    # So few units find a ring faster with kinks than without.
    "network": MLP((16,), activation="relu"),
    "solver": Adam(learning_rate=0.01, max_epochs=6),
    "random_state": 0,
}


@pytest.fixture(scope="module")
def queries():
    """What is relevant lies in a ring: no linear score finds it."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(600, 2)), np.repeat(np.arange(60), 10)
    y = np.digitize(-np.abs(np.linalg.norm(X, axis=1) - 1.2), [-0.6, -0.2])
    return X, y, qid


def test_ranker(queries, tmp_path):
    X, y, qid = queries
    new = qid >= 40
    ranker = NeuralRanker(**SMALL).set_params(network__hidden=(32, 32))
    ranker.fit(X[~new], y[~new], qid[~new])
    plane = PairwiseRanker(random_state=0).fit(X[~new], y[~new], qid[~new])
    assert ranker.score(X[new], y[new], qid[new]) > plane.score(X[new], y[new], qid[new]) + 0.1
    assert ranker.held_out_ == max(ranker.history_[0].held_out)
    ranker.save(tmp_path / "m.safetensors")
    for back in (
        NeuralRanker.load(tmp_path / "m.safetensors"),
        load_model(tmp_path / "m.safetensors"),
    ):
        assert np.array_equal(back.predict(X), ranker.predict(X))
        assert (back.network, back.solver) == (ranker.network, SMALL["solver"])
        assert (back.history_, back.device_) == (ranker.history_, ranker.device_)
    # Queries have no order of their own, and neither have their names.
    order = np.random.default_rng(1).permutation(len(y))
    assert ranker.score(X[order], y[order], qid[order]) == pytest.approx(ranker.score(X, y, qid))


def test_ranker_on_a_stream_and_without_queries(queries):
    X, y, qid = queries
    stream = NeuralRanker(**SMALL).set_params(solver__batch_size=20)
    for _ in range(4):
        for begin in range(0, 600, 100):
            part = slice(begin, begin + 100)
            stream.partial_fit(X[part], y[part], qid[part])
    assert stream.n_examples_ == 2400
    assert stream.score(X, y, qid) > PairwiseRanker(random_state=0).fit(X, y, qid).score(X, y, qid)
    whole = NeuralRanker(**SMALL).set_params(solver__max_epochs=15).fit(X, y)
    assert whole.score(X, y) > 0.7
    with pytest.raises(ValueError, match="No query has two different grades"):
        NeuralRanker(**SMALL).fit(X[:4], [1, 2, 3, 4], [0, 1, 2, 3])


def test_batches_hold_whole_queries():
    rng = np.random.default_rng(0)
    query = rng.integers(0, 30, size=200)
    for generator in (rng, None):
        batches = list(_packed(query, np.arange(200), 25, generator))
        assert sorted(np.concatenate(batches).tolist()) == list(range(200))
        for batch in batches:
            assert len(batch) <= 25
            for q in np.unique(query[batch]):
                assert np.count_nonzero(query[batch] == q) == np.count_nonzero(query == q)
    assert [len(b) for b in _packed(np.zeros(60, dtype=int), np.arange(60), 25, rng)] == [
        25,
        25,
        10,
    ]


@pytest.mark.parametrize(
    "options", [{}, {"loss": "hinge"}, {"loss": "logistic", "pairing": "previous"},
                {"pairing": "memory", "memory": 8}]
)  # fmt: skip
def test_embeddings_tell_classes_apart(options, tmp_path):
    X, y = make_moons(300, noise=0.2, random_state=0)
    X = np.column_stack([X, 3 * np.random.default_rng(0).normal(size=(300, 2))])
    y = np.array(["near", "far"])[y]
    learner = EmbeddingLearner(3, **SMALL, **options).fit(X[:200], y[:200])
    Z = learner.transform(X)
    assert Z.shape == (300, 3)
    before = KNeighborsClassifier(5).fit(X[:200], y[:200]).score(X[200:], y[200:])
    after = KNeighborsClassifier(5).fit(Z[:200], y[:200]).score(Z[200:], y[200:])
    assert after > before
    pairs = np.stack([X[200:250], X[250:300]], axis=1)
    distances = learner.pair_distance(pairs)
    np.testing.assert_allclose(distances, np.linalg.norm(Z[200:250] - Z[250:300], axis=1))
    assert roc_auc(y[200:250] == y[250:300], learner.pair_score(pairs)) > 0.7
    learner.save(tmp_path / "m.safetensors")
    assert np.array_equal(load_model(tmp_path / "m.safetensors").transform(X), Z)
    learner.partial_fit(X[200:], y[200:])
    assert learner.n_examples_ == 300


def test_embeddings_from_a_stream():
    X, y = make_moons(300, noise=0.2, random_state=0)
    learner = EmbeddingLearner(2, **SMALL)
    for _ in range(6):
        for begin in range(0, 300, 50):
            learner.partial_fit(X[begin : begin + 50], y[begin : begin + 50], classes=[0, 1])
    pairs = np.stack([X[:150], X[150:]], axis=1)
    assert roc_auc(y[:150] == y[150:], learner.pair_score(pairs)) > 0.75
    with pytest.raises(ValueError, match="not in classes"):
        learner.partial_fit(X[:2], [0, 5], classes=[0, 1])
    assert learner.partial_fit(X[:4], [0, 5, 1, 5]).classes_.tolist() == [0, 1, 5]
    memory = EmbeddingLearner(2, **SMALL, pairing="memory")
    with pytest.raises(ValueError, match="each class has its place"):
        memory.partial_fit(X, y)
    with pytest.raises(ValueError, match="not in classes"):
        memory.partial_fit(X, y, classes=[0, 1]).partial_fit(X[:2], [0, 5])
    plain = EmbeddingLearner(2, **SMALL).partial_fit(X, y)
    # "0" and 0 would be two classes, and all of them texts.
    with pytest.raises(ValueError, match=r"y holds '.' in this chunk and held 0 in one before"):
        plain.partial_fit(X, np.where(y == 0, "0", "1"))
    assert plain.classes_.tolist() == [0, 1]


# scikit-learn of today says it, older ones do not
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_what_is_refused(tmp_path):
    X, y = make_moons(40, random_state=0)
    for options, message in [
        ({"loss": "triplet"}, 'loss must be "contrastive"'),
        ({"memory": 3}, "would ignore memory=3"),
        ({"n_components": 0}, "n_components must be at least 1"),
        ({"network": lambda d: torch.nn.Linear(d, 5), "n_components": 2},
         "the network has 5 outputs"),
        ({"solver__n_networks": 2}, "EmbeddingLearner trains one network, got n_networks=2"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            EmbeddingLearner(**SMALL).set_params(solver__max_epochs=1, **options).fit(X, y)
    with pytest.raises(ValueError, match="y has one class"):
        EmbeddingLearner(**SMALL).fit(X, np.zeros(40))
    with pytest.raises(ValueError, match="40 labels for as many examples"):
        EmbeddingLearner(**SMALL).fit(X, np.arange(40))
    learner = EmbeddingLearner(2, **SMALL).set_params(solver__max_epochs=1).fit(X, y)
    learner.save(tmp_path / "m.safetensors")
    with pytest.raises(ModelFileError, match="not of 'NeuralRanker'"):
        NeuralRanker.load(tmp_path / "m.safetensors")


#: A repeated row changes how folds and batches are dealt; a weight multiplies the same pairs.
REPEATED = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "the same risk along different random paths",
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [NeuralRanker, EmbeddingLearner])
def test_scikit_learn(make):
    model = make(**SMALL).set_params(solver__max_epochs=2)
    results = check_estimator(model, expected_failed_checks=REPEATED, on_fail=None, on_skip=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
    assert sum(r["status"] == "passed" for r in results) >= 40
