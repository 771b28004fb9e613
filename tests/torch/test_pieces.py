# SPDX-License-Identifier: BSD-3-Clause
"""Networks whose first layer sees features in pieces."""

from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from scipy.sparse import csr_array

from pairlearn import ModelFileError, load_model
from pairlearn.models import ModelRecord, write_model
from pairlearn.torch import (
    MLP,
    Adam,
    EmbeddingLearner,
    NeuralAUCClassifier,
    NeuralRanker,
    NoisyNetworkSGD,
)
from pairlearn.torch.networks import Broken, pieces_of


def waves(n=600):
    """Return a feature whose classes take turns along it, one of two levels, and a constant."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0.0, 50.0, n), rng.integers(0, 2, n), np.full(n, 7.0)])
    return X, (np.floor(X[:, 0] / 5.0) % 2).astype(int)


def small(pieces="auto", **settings):
    solver = Adam(**{"max_epochs": 4, "n_networks": 1, **settings})
    return {"network": MLP((8,), pieces=pieces), "solver": solver, "device": "cpu"}


def test_the_layer_is_a_sum_of_ramps():
    torch.manual_seed(0)
    layer = Broken(2, 3, 4).double()
    knots = [np.array([-1.0, 0.0, 0.5, 2.0]), np.array([0.0, 1.0])]
    layer.place(knots)
    x = np.random.default_rng(0).normal(size=(20, 2)) * 2.0
    expected = x @ layer.straight.weight.detach().numpy().T + layer.straight.bias.detach().numpy()
    weights = layer.broken.weight.detach().numpy().reshape(3, 2, 4)
    expected = expected + layer.broken.bias.detach().numpy()
    for k in range(3):
        begin, end = knots[0][k : k + 2]
        ramp = np.interp(x[:, 0], [begin, end], [-1.0, 1.0])
        expected += ramp[:, None] * weights[:, 0, k]
    # The second feature has one piece, which would be the feature again.
    found = layer(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_every_second_network_has_pieces():
    X, y = waves(200)
    model = NeuralAUCClassifier(**small(n_networks=5), random_state=0).fit(X, y)
    assert [pieces_of(network) for network in model.networks_] == [16, 0, 16, 0, 16]
    auto = MLP()
    assert [auto.pieces_for(d, 0) for d in (1, 8, 16, 22, 64, 65, 500)] == [16, 8, 4, 2, 2, 0, 0]
    # No hidden layer asks for a plane.
    assert MLP(()).pieces_for(4, 0) == 0
    assert [MLP(pieces=3).pieces_for(500, k) for k in (0, 1)] == [3, 3]


def test_knots_are_quantiles_in_standard_units():
    X, y = waves(501)
    model = NeuralAUCClassifier(**small(pieces=4), random_state=0).fit(X, y)
    first = model.networks_[0][0]
    ends = np.quantile(X[:, 0], [0.0, 0.25, 0.5, 0.75, 1.0])
    for k, (begin, end) in enumerate(pairwise(ends)):
        row = np.array([[begin, 0.0, 7.0], [end, 0.0, 7.0]])
        units = model.scaler_.transform(row)[:, 0]
        at = units * float(first.slope[0, k]) + float(first.shift[0, k])
        np.testing.assert_allclose(at, [-1.0, 1.0], atol=1e-4)
    # Two levels and a constant have no pieces.
    assert not first.slope[1:].any()
    assert not first.shift[1:].any()


def test_pieces_find_what_turns_often():
    X, y = waves()
    aucs = [
        NeuralAUCClassifier(**small(pieces=pieces, max_epochs=20), random_state=0)
        .fit(X[:400], y[:400])
        .score(X[400:], y[400:])
        for pieces in (0, 16)
    ]
    assert aucs[1] > 0.9 > aucs[0] + 0.1


def test_sparse_rows_have_the_same_knots():
    X, y = waves(150)
    models = [
        NeuralAUCClassifier(**small(pieces=5), random_state=0).fit(rows, y)
        for rows in (X, csr_array(X))
    ]
    for name in ("slope", "shift"):
        np.testing.assert_allclose(*(getattr(m.networks_[0][0], name) for m in models), rtol=1e-5)


def test_neighbours_that_are_almost_equal():
    rng = np.random.default_rng(0)
    X = np.concatenate([1e-30 * np.arange(1.0, 101.0), rng.normal(size=100)])[:, None]
    y = np.arange(200) % 2
    model = NeuralAUCClassifier(**small(pieces=8), random_state=0).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("count", [1, 3])
def test_to_a_file_and_back(tmp_path, count):
    X, y = waves(200)
    model = NeuralAUCClassifier(**small(n_networks=count), random_state=0).fit(X, y)
    model.save(tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    assert [pieces_of(network) for network in back.networks_] == [16, 0, 16][:count]
    np.testing.assert_allclose(
        back.decision_function(X), model.decision_function(X), rtol=1e-4, atol=1e-5
    )
    record = model.to_record()

    def load(pieces):
        arrays = {**record.arrays, "pieces": np.array(pieces, dtype=np.int64)}
        forged = ModelRecord(
            record.estimator, arrays, parameters=record.parameters, classes=record.classes
        )
        write_model(tmp_path / "forged.safetensors", forged)
        return load_model(tmp_path / "forged.safetensors")

    with pytest.raises(ModelFileError, match="networks of this shape"):
        load([2] * count)
    with pytest.raises(ModelFileError, match=f"pieces of {count + 1} networks, and has {count}"):
        load([16] * (count + 1))


def test_a_file_from_before_pieces(tmp_path):
    X, y = waves(200)
    model = NeuralAUCClassifier(**small(pieces=0), random_state=0).fit(X, y)
    record = model.to_record()
    arrays = {name: own for name, own in record.arrays.items() if name != "pieces"}
    old = ModelRecord(
        record.estimator, arrays, parameters=record.parameters, classes=record.classes
    )
    write_model(tmp_path / "old.safetensors", old)
    back = load_model(tmp_path / "old.safetensors")
    np.testing.assert_allclose(
        back.decision_function(X), model.decision_function(X), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    "changes", [{"activation": "relu"}, {"hidden": (9, 9)}, {"dropout": 0.5}], ids=str
)
def test_a_network_that_is_set_after_a_fit_is_not_stored(changes, tmp_path):
    """The numbers of one network and the shape of another would be a model that nobody trained."""
    X, y = waves(120)
    model = NeuralAUCClassifier(**small(), random_state=0).fit(X, y)
    before, scores = model.network, model.decision_function(X)
    model.set_params(**{f"network__{name}": value for name, value in changes.items()})
    with pytest.raises(ValueError, match=r"was set after the fit.*; set it back, or fit again"):
        model.save(tmp_path / "m.safetensors")
    model.set_params(network=before).save(tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(back.decision_function(X), scores)


@pytest.mark.parametrize("dropout", ["0.5", None, float("nan"), 1.0])
def test_what_is_no_dropout(dropout):
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\)"):
        MLP(dropout=dropout)


def test_others_take_pieces_by_number():
    X, y = waves(120)
    ranker = NeuralRanker(**small(pieces=4)).fit(X, y, qid=np.arange(120) // 6)
    learner = EmbeddingLearner(2, **small(pieces=4)).fit(X, y)
    assert [pieces_of(model.networks_[0]) for model in (ranker, learner)] == [4, 4]
    assert pieces_of(NeuralRanker(**small()).fit(X, y, qid=np.arange(120) // 6).networks_[0]) == 0


def test_streams_go_on_with_pieces_and_begin_without():
    X, y = waves(200)
    model = NeuralAUCClassifier(**small(), random_state=0).fit(X, y).partial_fit(X, y)
    assert pieces_of(model.networks_[0]) == 16
    stream = NeuralAUCClassifier(**small(), random_state=0).partial_fit(X, y, classes=[0, 1])
    assert pieces_of(stream.networks_[0]) == 0
    with pytest.raises(ValueError, match=r"pieces=4\) puts knots .* use fit first, or pieces=0"):
        NeuralAUCClassifier(**small(pieces=4)).partial_fit(X, y, classes=[0, 1])


def test_private_networks_have_no_pieces():
    with pytest.raises(ValueError, match=r"pieces=4\) puts knots where the examples lie"):
        NoisyNetworkSGD(network=MLP((4,), pieces=4))


@pytest.mark.parametrize("pieces", [-1, 1.5, "many", True])
def test_what_is_no_number_of_pieces(pieces):
    with pytest.raises((TypeError, ValueError), match="pieces must be"):
        MLP(pieces=pieces)
