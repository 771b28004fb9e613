# SPDX-License-Identifier: BSD-3-Clause
"""Small networks as a scikit-learn classifier."""

import functools
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from sklearn.datasets import make_moons
from sklearn.utils.estimator_checks import estimator_checks_generator

from pairlearn import Costs, DivergenceError, ModelFileError, load_model
from pairlearn.metrics import roc_auc
from pairlearn.models import ModelRecord, write_model
from pairlearn.torch import MLP, Adam, NeuralAUCClassifier

SMALL = {
    "network": MLP((16,)),
    "solver": Adam(learning_rate=0.01, max_epochs=8, n_networks=1),
    "random_state": 0,
    "device": "cpu",
}

#: As for AUCClassifier: by default predict maximises the balanced accuracy, and predict_proba
#: estimates probabilities at the prevalence of the data.
EXPECTED_FAILURES = {"check_classifiers_train"}


def name_of(check):
    while isinstance(check, functools.partial):
        check = check.func
    return check.__name__


#: A repeated row changes how folds and batches are dealt; a weight multiplies the same pairs. Both
#: descend on the same risk along different random paths.
REPEATED = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
CHECKS = [check for _, check in estimator_checks_generator(NeuralAUCClassifier(**SMALL))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_scikit_learn(check):
    if name_of(check) in REPEATED:
        with pytest.raises(AssertionError, match="not equivalent to fitting with removed"):
            check(NeuralAUCClassifier(**SMALL))
        return
    more = {}
    if name_of(check) in EXPECTED_FAILURES:
        more = {"decision": "probability"}
    elif name_of(check) == "check_class_weight_classifiers":
        # The threshold rests on held-out scores: of one network those of a dozen examples.
        more = {"solver__n_networks": 5}
    check(NeuralAUCClassifier(**SMALL).set_params(**more))


def test_number_of_checks():
    assert len(CHECKS) >= 45


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(500, noise=0.25, random_state=0)
    return X[:300], y[:300], X[300:], y[300:]


@pytest.fixture(scope="module")
def fitted(moons):
    model = NeuralAUCClassifier(**SMALL)
    return model.set_params(solver__n_networks=2, network__hidden=(32, 32)).fit(*moons[:2])


def test_it_learns_what_no_plane_can(moons, fitted):
    from pairlearn import AUCClassifier

    X, y, X_test, y_test = moons
    plane = AUCClassifier(random_state=0).fit(X, y).score(X_test, y_test)
    assert fitted.score(X_test, y_test) > plane + 0.01
    assert abs(fitted.held_out_ - fitted.score(X_test, y_test)) < 0.05
    assert len(fitted.networks_) == len(fitted.history_) == 2
    assert fitted.device_ == "cpu"
    means = np.mean([told.held_out for told in fitted.history_], axis=0)
    for told in fitted.history_:
        assert means[told.best_epoch - 1] == means.max()


def test_probabilities_and_threshold_belong_to_the_scores(moons, fitted):
    _, _, X_test, y_test = moons
    p = fitted.predict_proba(X_test)[:, 1]
    s = fitted.decision_function(X_test)
    assert roc_auc(y_test, p) == pytest.approx(roc_auc(y_test, s), abs=1e-12)
    assert np.mean((p - y_test) ** 2) < 0.12
    assert abs(p.mean() - 0.5) < 0.08
    np.testing.assert_array_equal(fitted.predict(X_test), (s > 0).astype(int))
    assert fitted.threshold_ == -fitted.intercept_[0]


def test_costs_move_the_threshold(moons):
    X, y, X_test, _ = moons
    cheap, dear = (
        NeuralAUCClassifier(**SMALL, decision=Costs(*costs)).fit(X, y).predict(X_test).mean()
        for costs in ((20.0, 1.0), (1.0, 20.0))
    )
    assert cheap < 0.5 < dear


def test_a_seed_decides(moons):
    X, y, X_test, _ = moons
    state = torch.random.get_rng_state()
    one, same, other = (
        NeuralAUCClassifier(**SMALL)
        .set_params(solver__max_epochs=3, network__dropout=0.1, random_state=seed)
        .fit(X, y)
        .decision_function(X_test)
        for seed in (0, 0, 1)
    )
    assert np.array_equal(one, same)
    assert not np.allclose(one, other)
    assert torch.equal(state, torch.random.get_rng_state())


def test_units_do_not_matter(moons):
    X, y, X_test, _ = moons
    model = NeuralAUCClassifier(**SMALL).set_params(solver__max_epochs=3)
    plain = model.fit(X, y).decision_function(X_test)
    scale, shift = np.array([2.0**10, 2.0**-12]), np.array([0.0, 0.0])
    moved = model.fit(X * scale + shift, y).decision_function(X_test * scale + shift)
    np.testing.assert_allclose(plain, moved, rtol=1e-6, atol=1e-9)


def test_to_a_file_and_back(moons, fitted, tmp_path):
    X_test = moons[2]
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    for back in (NeuralAUCClassifier.load(path), load_model(path)):
        assert np.array_equal(back.predict_proba(X_test), fitted.predict_proba(X_test))
        assert (back.network, back.solver) == (fitted.network, fitted.solver)
        assert (back.held_out_, back.history_) == (fitted.held_out_, fitted.history_)
        assert (back.n_examples_, back.n_features_in_) == (300, 2)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.decision_function(X_test), fitted.decision_function(X_test))


def test_a_file_cannot_ask_for_absurd_layers(fitted, tmp_path):
    record = fitted.to_record()
    network = {"part": "MLP", "hidden": [10**9, 10**9], "dropout": 0.0}
    wide = {**record.parameters, "network": network}
    forged = ModelRecord(record.estimator, record.arrays, parameters=wide, classes=record.classes)
    write_model(tmp_path / "m.safetensors", forged)
    with pytest.raises(ModelFileError, match="networks of this shape"):
        load_model(tmp_path / "m.safetensors")


class Bumps(torch.nn.Module):
    """Bumps at learned centres: not a perceptron, and with a buffer in its state."""

    def __init__(self, d):
        super().__init__()
        self.centres = torch.nn.Parameter(torch.randn(40, d))
        self.norm = torch.nn.BatchNorm1d(40)
        self.last = torch.nn.Linear(40, 1)

    def forward(self, x):
        return self.last(self.norm(torch.exp(-(torch.cdist(x, self.centres) ** 2))))


def test_any_module(moons, tmp_path):
    X, y, X_test, y_test = moons
    torch.manual_seed(0)
    for network in (Bumps, Bumps(2)):
        model = NeuralAUCClassifier(**{**SMALL, "network": network}).fit(X, y)
        assert isinstance(model.networks_[0], Bumps)
        assert model.score(X_test, y_test) > 0.93
        model.save(tmp_path / "m.safetensors")
        with pytest.raises(ModelFileError, match=r"load\(path, network="):
            NeuralAUCClassifier.load(tmp_path / "m.safetensors")
        back = NeuralAUCClassifier.load(tmp_path / "m.safetensors", network=network)
        assert np.array_equal(back.decision_function(X_test), model.decision_function(X_test))
        with pytest.raises(ModelFileError, match="pass the network that it was trained with"):
            NeuralAUCClassifier.load(tmp_path / "m.safetensors", network=torch.nn.Linear(2, 1))


def test_a_module_in_half_precision_is_loaded_with_all_its_digits(moons, tmp_path):
    X, y, X_test, _ = moons
    network = torch.nn.Linear(2, 1).half()
    model = NeuralAUCClassifier(**{**SMALL, "network": network}).fit(X, y)
    model.save(tmp_path / "m.safetensors")
    back = NeuralAUCClassifier.load(tmp_path / "m.safetensors", network=network)
    assert np.array_equal(back.decision_function(X_test), model.decision_function(X_test))


def test_a_load_draws_nothing(fitted, tmp_path):
    fitted.save(tmp_path / "m.safetensors")
    state = torch.random.get_rng_state()
    NeuralAUCClassifier.load(tmp_path / "m.safetensors")
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_stream(moons):
    X, y, X_test, y_test = moons
    model = NeuralAUCClassifier(**SMALL).set_params(solver__batch_size=32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(8):
            for begin in range(0, 300, 50):
                model.partial_fit(X[begin : begin + 50], y[begin : begin + 50], classes=[0, 1])
    assert model.n_examples_ == 2400
    assert model.score(X_test, y_test) > 0.93
    assert np.mean(model.predict(X_test) == y_test) > 0.8
    with pytest.raises(ValueError, match="not in classes"):
        model.partial_fit(X[:2], [0, 7])
    with pytest.raises(ValueError, match="differ from those of the model"):
        model.partial_fit(X[:2], y[:2], classes=[0, 2])


def test_a_stream_goes_on_from_a_fit(moons, fitted):
    X, y, X_test, y_test = moons
    model = pickle.loads(pickle.dumps(fitted))
    before = model.score(X_test, y_test)
    model.partial_fit(X, y)
    assert len(model.networks_) == 2
    assert model.score(X_test, y_test) > before - 0.02
    assert model.n_examples_ == 600


def test_a_last_step_that_leaves_no_numbers_is_refused(moons):
    X, y, X_test, _ = moons
    few = np.concatenate([np.flatnonzero(y == label)[:3] for label in (0, 1)])
    model = NeuralAUCClassifier(**SMALL).set_params(solver__max_epochs=1).fit(X, y)
    before = model.decision_function(X_test)
    left = 0

    def loss(margins):
        nonlocal left
        left -= 1
        value = torch.relu(1.0 - margins)
        # The gradient of the root of 0 is NaN, its value is not.
        return value + torch.sqrt(0.0 * margins) if left < 0 else value

    for learn, left in (("fit", 15), ("partial_fit", 0)):  # noqa: B007 - the loss counts it down
        with pytest.raises(DivergenceError, match="got NaN or infinity at step"):
            getattr(model.set_params(loss=loss), learn)(X[few], y[few])
        assert np.array_equal(model.decision_function(X_test), before)


@pytest.mark.filterwarnings("ignore:step 1. the batch holds one class")
def test_a_stream_keeps_what_the_fit_decided_until_it_has_seen_enough(moons, fitted, tmp_path):
    X, y, X_test, _ = moons
    fitted.save(tmp_path / "m.safetensors")
    for begin in (lambda: pickle.loads(pickle.dumps(fitted)),
                  lambda: NeuralAUCClassifier.load(tmp_path / "m.safetensors")):  # fmt: skip
        model = begin().partial_fit(X[:1], y[:1]).partial_fit(X[1:2], y[1:2])
        assert model.threshold_ == fitted.threshold_
        moved = np.abs(model.predict_proba(X_test) - fitted.predict_proba(X_test))
        assert moved.mean() < 0.03
        assert model.partial_fit(X, y).threshold_ != fitted.threshold_


def test_what_is_set_after_a_fit_changes_no_decision(moons, fitted):
    X_test = moons[2]
    model = pickle.loads(pickle.dumps(fitted))
    model.set_params(decision=1.5, class_weight={0: 1.0, 1: 9.0})
    assert model.threshold_ == fitted.threshold_
    assert np.array_equal(model.predict_proba(X_test), fitted.predict_proba(X_test))


def test_chunks_of_one_class_need_the_memory(moons):
    X, y, _, _ = moons
    # Decay would move the weights without a pair, too.
    model = NeuralAUCClassifier(**SMALL).set_params(solver__weight_decay=0.0)
    with pytest.warns(UserWarning, match="one class only"):
        model.partial_fit(X[y == 0][:40], y[y == 0][:40], classes=[0, 1])
    before = [p.clone() for p in model.networks_[0].parameters()]
    model.partial_fit(X[y == 1][:40], y[y == 1][:40])
    after = model.networks_[0].parameters()
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    alone = NeuralAUCClassifier(**SMALL, pairing="batch").set_params(solver__weight_decay=0.0)
    with pytest.warns(UserWarning, match="one class only"):
        alone.partial_fit(X[y == 0][:40], y[y == 0][:40], classes=[0, 1])
    before = [p.clone() for p in alone.networks_[0].parameters()]
    alone.partial_fit(X[y == 1][:40], y[y == 1][:40])
    after = alone.networks_[0].parameters()
    assert all(torch.allclose(a, b) for a, b in zip(before, after, strict=True))


def test_few_examples_hold_none_out():
    X = np.arange(6.0)[:, np.newaxis]
    model = NeuralAUCClassifier(**SMALL).fit(X, [0, 0, 0, 1, 1, 1])
    assert model.held_out_ is None
    assert model.score(X, [0, 0, 0, 1, 1, 1]) == 1.0


def test_verbose(moons, capsys):
    X, y, _, _ = moons
    NeuralAUCClassifier(**SMALL).set_params(solver__max_epochs=2, verbose=1).fit(X, y)
    told = capsys.readouterr().err
    assert "1 network on cpu" in told
    assert "held-out AUC" in told


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(moons):
    X, y, _, _ = moons
    with pytest.raises(ValueError, match='"cuda" needs a CUDA device, this machine has none'):
        NeuralAUCClassifier(device="cuda").fit(X, y)
    model = NeuralAUCClassifier(**SMALL).set_params(solver__max_epochs=1, device="auto").fit(X, y)
    assert model.device_ == "cpu"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network__hidden": (0,)}, "hidden must be at least 1"),
        ({"network__dropout": 1.0}, "dropout must lie in"),
        ({"network": "mpl"}, "did you mean 'mlp'"),
        ({"pairing": "batch", "memory": 3}, "would ignore memory=3"),
        ({"memory": 3}, 'pairing="auto" would ignore memory=3'),
        ({"pairing": "all"}, "pairing must be one of"),
        ({"solver__learning_rate": 0.0}, "learning_rate must be a positive number"),
        ({"solver__n_networks": 0}, "n_networks must be at least 1"),
        ({"solver": "sgd"}, r'takes solver="adam" or an Adam, got SGD\(\)'),
        ({"decision": "best"}, "decision must be one of"),
        ({"loss": "cubic"}, "loss must be one of"),
        ({"device": "gpu"}, "device must be"),
        ({"share": 0.0}, "share must lie strictly between"),
    ],
)
def test_parameters_that_mean_nothing(options, message, moons):
    with pytest.raises(ValueError, match=message):
        NeuralAUCClassifier().set_params(**options).fit(*moons[:2])


def test_scores_that_are_no_numbers_name_the_step(moons):
    class Broken(torch.nn.Module):
        def __init__(self, d):
            super().__init__()
            self.last = torch.nn.Linear(d, 1)

        def forward(self, x):
            return self.last(x) * float("nan")

    with pytest.raises(DivergenceError, match="NaN or infinity at step 1"):
        NeuralAUCClassifier(network=Broken).fit(*moons[:2])
