# SPDX-License-Identifier: BSD-3-Clause
"""A stream shares no array with its caller: not those of a chunk, and not those of a state."""

import numpy as np
import pytest
import scipy.sparse

import pairlearn as pl

N, SIZE = 400, 20
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
TARGET = X[:, 0] + 0.5 * RNG.standard_normal(N)
CLASS = (TARGET > 0).astype(int)
#: The model, its labels and what else a chunk gives.
MODELS = {
    "auc": (pl.AUCClassifier, CLASS, {"classes": [0, 1]}),
    "sgd": (lambda: pl.AUCClassifier(solver="sgd"), CLASS, {"classes": [0, 1]}),
    "top": (lambda: pl.AUCClassifier("partial_auc", random_state=0), CLASS, {"classes": [0, 1]}),
    "ranker": (pl.PairwiseRanker, CLASS, {}),
}
FORMS = {"dense": np.array, "sparse": scipy.sparse.csr_array}


def learn(name, begin=0, stop=N, model=None, form=np.array, **weight):
    """Let a model learn chunks of arrays of their own."""
    make, labels, given = MODELS[name]
    model = model or make()
    for start in range(begin, stop, SIZE):
        part = slice(start, start + SIZE)
        model.partial_fit(form(X[part]), labels[part].copy(), **given, **weight)
    return model


def same(one, other):
    for name in ("coef_", "components_", "intercept_", "threshold_", "step_size_"):
        np.testing.assert_array_equal(getattr(one, name, None), getattr(other, name, None))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_the_arrays_of_a_chunk_can_be_used_again(name, form):
    make, labels, given = MODELS[name]
    model, y, weight = make(), labels[:SIZE].copy(), np.ones(SIZE)
    rows = FORMS[form](np.ones((SIZE, 3)))
    values = rows if form == "dense" else rows.data.reshape(SIZE, 3)
    for start in range(0, N, SIZE):
        part = slice(start, start + SIZE)
        values[:], y[:], weight[:] = X[part], labels[part], 1.0
        model.partial_fit(rows, y, sample_weight=weight, **given)
        values[:], y[:], weight[:] = 1e3, labels[0], 7.0
    same(model, learn(name, form=FORMS[form], sample_weight=np.ones(SIZE)))


@pytest.mark.parametrize("middle", [60, 300])
@pytest.mark.parametrize("name", MODELS)
def test_a_state_can_be_restored_twice(name, middle):
    model = learn(name, stop=middle)
    state = model.stream_state()
    learn(name, middle, model=model)
    for _ in range(2):
        other = MODELS[name][0]()
        other.restore_stream(state)
        same(model, learn(name, middle, model=other))
