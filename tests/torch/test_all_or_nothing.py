# SPDX-License-Identifier: BSD-3-Clause
"""A call that fails midway leaves the model as it was, to the last bit."""

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra torch: make test-torch")

from sklearn.datasets import make_moons

from pairlearn import DivergenceError
from pairlearn.torch import Adam, EmbeddingLearner, NeuralAUCClassifier, NeuralRanker
from pairlearn.torch.training import Learner


class Fragile(torch.nn.Module):
    """A line that breaks where the first feature is far out."""

    def __init__(self, d, n_outputs=1):
        super().__init__()
        self.last = torch.nn.Linear(d, n_outputs)

    def forward(self, x):
        broken = torch.where((x[:, :1] > 3.0), torch.nan, 1.0)
        return self.last(x) * broken


SMALL = {
    "solver": Adam(batch_size=20, max_epochs=2, n_networks=1),
    "random_state": 0,
    "device": "cpu",
}
MAKERS = {
    "classifier": lambda: NeuralAUCClassifier(network=Fragile, **SMALL),
    "ranker": lambda: NeuralRanker(network=Fragile, **SMALL),
    "embedder": lambda: EmbeddingLearner(
        2, network=lambda d: Fragile(d, 2), pairing="memory", **SMALL
    ),
}


def told(model, X):
    if isinstance(model, NeuralRanker):
        return model.predict(X)
    return model.transform(X) if isinstance(model, EmbeddingLearner) else model.predict_proba(X)


@pytest.fixture(scope="module")
def moons():
    return make_moons(100, noise=0.25, random_state=0)


def fails(error, match, call):
    with pytest.raises(error, match=match):
        call()


def failures(model, X, y, monkeypatch, teach):
    """Let `teach` fail in many ways; some of them in the third batch, after two were learned."""
    far = X.copy()
    far[45:49, 0] = 1e9
    fails(DivergenceError, "NaN or infinity", lambda: teach(far, y))
    bad = X.copy()
    bad[50, 1] = np.nan
    fails(ValueError, "NaN", lambda: teach(bad, y))
    fails(ValueError, "inconsistent numbers", lambda: teach(np.ones((100, 7)), y[:99]))
    step, count = Learner.step, []

    def interrupted(*args, **keywords):
        count.append(1)
        if len(count) == 3:
            raise KeyboardInterrupt("in the third batch")
        return step(*args, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(Learner, "step", interrupted)
        fails(KeyboardInterrupt, "in the third batch", lambda: teach(X, y))
    assert len(count) == 3


@pytest.mark.parametrize("kind", MAKERS)
def test_a_chunk_that_fails(kind, moons, monkeypatch):
    X, y = moons
    first = {} if kind == "ranker" else {"classes": [0, 1]}
    fresh = MAKERS[kind]()
    failures(fresh, X, y, monkeypatch, lambda X, y: fresh.partial_fit(X, y, **first))
    assert vars(fresh) == vars(MAKERS[kind]()) | {"network": fresh.network}
    model, other = fresh, MAKERS[kind]()
    for each in (model, other):
        each.partial_fit(X, y, **first)
    before = told(model, X)
    failures(model, X, y, monkeypatch, model.partial_fit)
    if kind == "classifier":
        fails(ValueError, "not in classes", lambda: model.partial_fit(X, y + 1))
    assert np.array_equal(told(model, X), before)
    assert model.n_examples_ == 100
    # Optimizer, memory and average are those of before, too.
    for each in (model, other):
        each.partial_fit(X[::-1], y[::-1])
    assert np.array_equal(told(model, X), told(other, X))
    assert [int(learner.loss.n_steps) for learner in model._learners] == [10]


@pytest.mark.parametrize("kind", MAKERS)
def test_a_fit_that_fails(kind, moons, monkeypatch):
    X, y = moons
    model = MAKERS[kind]().fit(X, y)
    before = told(model, X)
    failures(model, X, y, monkeypatch, model.fit)
    # Of another width: what scikit-learn notes first is taken back.
    wide = np.column_stack([np.full(100, 1.0), X])
    wide[40:, 0] = np.nan
    fails(ValueError, "NaN", lambda: model.fit(wide, y))
    wide[:, 0] = np.where(np.arange(100) < 4, 1e9, 0.0)
    fails(DivergenceError, "NaN or infinity", lambda: model.fit(wide, y))
    assert model.n_features_in_ == 2
    assert np.array_equal(told(model, X), before)
    other = pickle.loads(pickle.dumps(model)) if kind != "embedder" else MAKERS[kind]().fit(X, y)
    for each in (model, other):
        each.partial_fit(X, y)
    assert np.array_equal(told(model, X), told(other, X))
