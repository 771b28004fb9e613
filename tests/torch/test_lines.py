# SPDX-License-Identifier: BSD-3-Clause
"""Networks with a linear score beside them."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from scipy.sparse import csr_array
from sklearn.datasets import make_moons

from pairlearn import AUCClassifier, ModelFileError, load_model
from pairlearn.folds import deal, members_of
from pairlearn.metrics import roc_auc
from pairlearn.models import ModelRecord, write_model
from pairlearn.torch import MLP, Adam, NeuralAUCClassifier
from pairlearn.torch.networks import Beside, bare, outputs
from pairlearn.validation import check_generator


def plane(n=240, seed=0):
    """Return few examples whose classes differ in the difference of two like features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    X[:, 1] = X[:, 0] + 0.05 * X[:, 1]
    y = X[:, 1] - X[:, 0] + 0.03 * rng.normal(size=n) > 0
    return X * np.logspace(-3, 3, 8) + 5.0, y.astype(int)


def classifier(line=True, **settings):
    solver = Adam(**{"n_networks": 5, **settings})
    network = MLP((32, 32), pieces=0, line=line)
    return NeuralAUCClassifier(network=network, solver=solver, device="cpu", random_state=0)


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(*plane())


def test_a_plane_is_found(fitted):
    X, y = plane(4000, seed=1)
    alone = classifier(line=False).fit(*plane())
    assert fitted.line_ > 0.3
    assert alone.line_ == 0.0
    assert all(isinstance(network, Beside) for network in fitted.networks_)
    assert roc_auc(y, fitted.decision_function(X)) > roc_auc(y, alone.decision_function(X)) + 0.02
    assert fitted.held_out_ > alone.held_out_
    # The networks themselves are the same.
    a, b = (
        outputs([bare(network) for network in model.networks_], X, model.scaler_, "cpu")
        for model in (fitted, alone)
    )
    assert np.array_equal(a, b)


def test_the_line_is_that_of_a_linear_classifier_of_the_same_examples(fitted):
    X, y = plane()
    scaler, times = fitted.scaler_, fitted.line_ / (1.0 - fitted.line_)
    fold = deal(members_of(y == 1), len(y), check_generator(0), n_folds=5, onward=True)
    for k, network in enumerate(fitted.networks_):
        told = outputs((bare(network),), X, scaler, "cpu")[:, 0]
        beside = outputs((network,), X, scaler, "cpu")[:, 0] - told
        linear = AUCClassifier(random_state=0).fit(X[fold != k], y[fold != k])
        own = linear.decision_function(X)
        held = fold == k
        expected = times * told[held].std() / own[held].std() * (own - own.mean())
        np.testing.assert_allclose(beside - beside.mean(), expected, rtol=1e-4, atol=1e-4)


def test_no_line_where_it_does_not_help():
    X, y = make_moons(400, noise=0.15, random_state=0)
    assert classifier(max_epochs=12).fit(X, y).line_ == 0.0


def test_one_network_and_few_examples_have_no_line():
    X, y = plane()
    assert classifier(n_networks=1, max_epochs=2).fit(X, y).line_ == 0.0
    few = np.r_[np.flatnonzero(y == 1)[:3], np.flatnonzero(y == 0)]
    assert classifier(max_epochs=2).fit(X[few], y[few]).line_ == 0.0


def test_a_network_of_the_user_has_no_line():
    X, y = plane()
    model = classifier(max_epochs=2)
    model.set_params(network=lambda d: torch.nn.Sequential(torch.nn.Linear(d, 1)))
    assert model.fit(X, y).line_ == 0.0
    assert not any(isinstance(network, Beside) for network in model.networks_)


def test_sparse_rows_have_the_same_line(fitted):
    X, y = plane()
    sparse = classifier().fit(csr_array(X), y)
    assert sparse.line_ == fitted.line_
    np.testing.assert_allclose(
        sparse.decision_function(X), fitted.decision_function(X), rtol=1e-3, atol=1e-3
    )


def test_weights_reach_the_line(fitted):
    X, y = plane()
    Z, z = plane(seed=3)
    # Examples of weight zero, with all labels the other way, are as good as absent.
    weight = np.r_[np.full(len(y), 2.0), np.zeros(len(z))]
    model = classifier().fit(np.vstack([X, Z]), np.r_[y, 1 - z], sample_weight=weight)
    assert model.line_ == fitted.line_
    assert np.array_equal(model.decision_function(X), fitted.decision_function(X))


def test_to_a_file_and_back(fitted, tmp_path):
    X, _ = plane()
    path = tmp_path / "m.safetensors"
    fitted.save(path)
    back = load_model(path)
    assert back.line_ == fitted.line_
    assert np.array_equal(back.decision_function(X), fitted.decision_function(X))
    record = fitted.to_record()
    for lines in (record.arrays["lines"][:2], np.vstack([record.arrays["lines"]] * 2)):
        arrays = {**record.arrays, "lines": lines}
        forged = ModelRecord(
            record.estimator, arrays, parameters=record.parameters, classes=record.classes
        )
        write_model(path, forged)
        with pytest.raises(ModelFileError, match=f"{len(lines)} lines beside 5 networks"):
            load_model(path)


def test_a_stream_goes_on_beside_the_line(fitted, tmp_path):
    X, y = plane(seed=4)
    fitted.save(tmp_path / "m.safetensors")
    model = load_model(tmp_path / "m.safetensors")
    model.partial_fit(X, y)
    for before, after in zip(fitted.networks_, model.networks_, strict=True):
        assert torch.equal(before.line, after.line)
        weights = (next(bare(network).parameters()) for network in (before, after))
        assert not torch.equal(*weights)
    new = classifier().partial_fit(X, y, classes=[0, 1])
    assert new.line_ == 0.0
    new.save(tmp_path / "new.safetensors")
    assert load_model(tmp_path / "new.safetensors").line_ == 0.0


def test_the_flag_is_a_flag():
    with pytest.raises(ValueError, match="line must be True or False"):
        MLP(line="no")
