# SPDX-License-Identifier: BSD-3-Clause
"""Neural estimators are composed of objects: parameters, copies, names and files."""

import functools
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV

from pairlearn import ModelFileError, Threshold, load_model
from pairlearn.models import write_model
from pairlearn.torch import MLP, Adam, EmbeddingLearner, NeuralAUCClassifier, NeuralRanker

MAKERS = (NeuralAUCClassifier, NeuralRanker, EmbeddingLearner)


@pytest.mark.parametrize("make", MAKERS)
def test_parameters_reach_inside(make):
    model = make(network=MLP((8,), dropout=0.5), solver=Adam(max_epochs=3))
    found = model.get_params()
    assert (found["network__hidden"], found["solver__max_epochs"]) == ((8,), 3)
    assert "network=MLP(hidden=(8,), dropout=0.5), solver=Adam(max_epochs=3)" in " ".join(
        repr(model).split()
    )
    copy = clone(model).set_params(network__dropout=0.0, solver__patience=2)
    assert (copy.network, copy.solver) == (MLP((8,)), Adam(max_epochs=3, patience=2))
    assert (model.network.dropout, model.solver.patience) == (0.5, None)
    # A name stands for the object with its defaults.
    named = make().set_params(network__hidden=[4], solver__max_epochs=1)
    assert (named.network, named.solver) == (MLP((4,)), Adam(max_epochs=1))
    assert len(make().get_params(deep=False)) <= 14


@pytest.mark.parametrize(("network", "solver"), [("mlp", "adam"), (MLP((8,)), Adam(patience=3))])
def test_names_and_objects_go_through_the_file(network, solver, tmp_path):
    X, y = make_moons(60, noise=0.2, random_state=0)
    model = NeuralAUCClassifier(
        network=network, solver=solver, decision=Threshold("f1"), random_state=0
    )
    model.partial_fit(X, y, classes=[0, 1]).save(tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    assert (back.network, back.solver, back.decision) == (network, solver, Threshold("f1"))
    assert back.history_ == []
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ModelFileError, match="leave out network="):
        NeuralAUCClassifier.load(tmp_path / "m.safetensors", network=torch.nn.Linear(2, 1))


def test_a_search_changes_fields():
    X, y = make_moons(80, noise=0.2, random_state=0)
    model = NeuralAUCClassifier(solver=Adam(max_epochs=1, n_networks=1), random_state=0)
    search = GridSearchCV(
        model,
        {"network__hidden": [(2,), (16,)], "solver__learning_rate": [1e-9, 0.05]},
        cv=2,
    ).fit(X, y)
    assert search.best_params_["solver__learning_rate"] == 0.05
    best = search.best_estimator_
    assert best.network == MLP(search.best_params_["network__hidden"])
    assert best.networks_[0][-1].in_features == best.network.hidden[0]


def test_what_is_no_network():
    with pytest.raises(TypeError, match=r"network must be .* got 3"):
        NeuralRanker(network=3).fit(np.eye(4), np.arange(4))
    with pytest.raises(TypeError, match="hidden must be a sequence"):
        MLP(hidden=3)
    with pytest.raises(ValueError, match="has no field 'depth'"):
        NeuralRanker().set_params(network__depth=3)


class _Tuple(torch.nn.Linear):
    def forward(self, rows):
        return super().forward(rows), rows


class _Single(torch.nn.Linear):
    def forward(self, rows):
        return super().forward(rows.float())


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (torch.nn.Linear(2, 2), "has 2 outputs for each row, and needs 1"),
        (torch.nn.Linear(3, 1), "cannot take rows of 2 features"),
        (_Single(2, 1), "in double precision"),
        (_Tuple(2, 1), "as many rows as it was given, 2, got tuple"),
        (torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0, 1)), None),
        (torch.nn.Linear(2, 1).requires_grad_(False), "no parameters to learn"),
    ],
)
def test_a_network_is_tried_before_it_learns(network, message):
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = (X[:, 0] > 0).astype(int)
    for make in (NeuralAUCClassifier, NeuralRanker, functools.partial(EmbeddingLearner, 1)):
        for learn in ("fit", "partial_fit"):
            model = make(network=network, solver=Adam(max_epochs=1))
            more = {"classes": [0, 1]} if isinstance(model, NeuralAUCClassifier) else {}
            more = more if learn == "partial_fit" else {}
            if message is None:
                getattr(model, learn)(X, y, **more)
                continue
            with pytest.raises(ValueError, match=message):
                getattr(model, learn)(X, y, **more)


def test_a_function_that_returns_one_module_makes_several_networks():
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = (X[:, 0] > 0).astype(int)
    own = torch.nn.Linear(2, 1)
    before = own.weight.detach().clone()
    solver = Adam(max_epochs=1, n_networks=2)
    models = [
        NeuralAUCClassifier(network=network, solver=solver, random_state=0).fit(X, y)
        for network in (own, lambda d: own)
    ]
    assert np.array_equal(*(model.decision_function(X) for model in models))
    assert torch.equal(own.weight, before)


@pytest.mark.filterwarnings("ignore:step 1. the batch holds one class")
@pytest.mark.parametrize("make", MAKERS)
def test_a_stream_refuses_settings_that_it_would_ignore(make):
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = (X[:, 0] > 0).astype(int)
    model = make(network=MLP((4,)), solver=Adam(max_epochs=1))
    classes = {"classes": [0, 1]} if make is NeuralAUCClassifier else {}
    model.partial_fit(X, y, **classes)
    others = {"loss": "logistic" if make is EmbeddingLearner else "hinge",
              "network": MLP((5,)), "solver": Adam(0.1)}  # fmt: skip
    if make is EmbeddingLearner:
        others["n_components"] = 3
    if make is not NeuralRanker:
        others["pairing"] = "previous"
    for name, other in others.items():
        before, scores = model.get_params(deep=False)[name], model.networks_[0](torch.eye(2))
        model.set_params(**{name: other})
        with pytest.raises(ValueError, match=f"would ignore {name}="):
            model.partial_fit(X, y)
        model.set_params(**{name: before})
        assert torch.equal(scores, model.networks_[0](torch.eye(2)))
    # After a fit a stream begins, with any settings but those of the networks that it goes on with.
    model.fit(X, y).set_params(solver=Adam(0.1)).partial_fit(X, y)
    model.fit(X, y).set_params(network=MLP((5,)))
    with pytest.raises(ValueError, match="was set after the fit"):
        model.partial_fit(X, y)


def test_a_file_from_before_layers_had_a_choice_is_read_as_it_was_written(tmp_path):
    X, y = make_moons(60, noise=0.2, random_state=0)
    model = NeuralAUCClassifier(network=MLP((8,), activation="relu"), random_state=0).fit(X, y)
    record = model.to_record()
    old = {k: v for k, v in record.parameters["network"].items() if k != "activation"}
    write_model(
        tmp_path / "m.safetensors",
        replace(record, parameters={**record.parameters, "network": old}),
    )
    back = load_model(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(back.decision_function(X), model.decision_function(X))
