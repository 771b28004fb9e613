# SPDX-License-Identifier: BSD-3-Clause
"""An example of weight zero is as good as absent, in a fit and in a stream."""

import numpy as np
import pytest

import pairlearn as pl

N = 600
RNG = np.random.default_rng(0)
WEIGHT = np.where(np.arange(N) < 3, 1.0, RNG.integers(0, 3, N))
N_WEIGHED = np.count_nonzero(WEIGHT)
#: Rows of weight zero are far from the others.
X = RNG.standard_normal((N, 3)) * np.where(WEIGHT > 0.0, 1.0, 50.0)[:, None]
TARGET = X[:, 0] + 0.5 * RNG.standard_normal(N)
CLASS = (TARGET > 0).astype(int)
GRADE = np.digitize(TARGET, [-0.5, 0.5])
QUERY = RNG.integers(0, 20, N)
TIMES = np.rec.fromarrays([RNG.random(N) < 0.7, 1.0 / (1.0 + TARGET**2)], names="event,time")


def auc(**given):
    return lambda: pl.AUCClassifier(random_state=0, **given)


#: The model, its labels and what else a chunk gives.
MODELS = {
    "auc": (auc(), CLASS, {"classes": [0, 1]}),
    "sgd": (auc(solver="sgd"), CLASS, {"classes": [0, 1]}),
    "sgd, no scales": (auc(solver="sgd", scaling=None), CLASS, {"classes": [0, 1]}),
    "sgd, reservoir": (auc(solver=pl.SGD(pairing="reservoir")), CLASS, {"classes": [0, 1]}),
    "moments": (auc(solver="moments"), CLASS, {"classes": [0, 1]}),
    "exact moments": (auc(solver=pl.Moments(ranges=(-300.0, 300.0))), CLASS, {"classes": [0, 1]}),
    "top": (auc(objective="partial_auc"), CLASS, {"classes": [0, 1]}),
    "three classes": (auc(), GRADE, {"classes": [0, 1, 2]}),
    "three classes, sgd": (auc(solver="sgd"), GRADE, {"classes": [0, 1, 2]}),
    "ranker": (lambda: pl.PairwiseRanker(random_state=0), GRADE, {"qid": QUERY}),
    "ranker, no queries": (lambda: pl.PairwiseRanker(random_state=0), GRADE, {}),
}


def rows_of(given, rows):
    return {k: v[rows] if isinstance(v, np.ndarray) else v for k, v in given.items()}


def facts(model):
    names = ("coef_", "components_", "intercept_", "threshold_", "step_size_")
    return [np.asarray(getattr(model, name, 0.0), dtype=float) for name in names]


def same(one, other):
    for a, b in zip(facts(one), facts(other), strict=True):
        np.testing.assert_array_equal(a, b)


def counted(models):
    """Whoever counts examples leaves out those without weight."""
    assert {getattr(one, "n_examples_", N_WEIGHED) for one in models} == {N_WEIGHED}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_in_a_stream(name):
    make, labels, given = MODELS[name]
    both = make(), make()
    for begin in range(0, N, 60):
        rows = np.arange(begin, begin + 60)
        for model, part in zip(both, (rows, rows[WEIGHT[rows] > 0.0]), strict=True):
            own = rows_of(given, part)
            model.partial_fit(X[part], labels[part], sample_weight=WEIGHT[part], **own)
    same(*both)
    counted(both)
    # A chunk without any weight changes nothing.
    part = np.flatnonzero(WEIGHT == 0.0)[:20]
    own = rows_of(given, part)
    both[0].partial_fit(X[part], labels[part], sample_weight=WEIGHT[part], **own)
    same(*both)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "three classes, sgd"])
@pytest.mark.filterwarnings("ignore")
def test_in_a_fit(name):
    make, labels, given = MODELS[name]
    found = []
    for part in (np.arange(N), np.flatnonzero(WEIGHT)):
        own = rows_of({k: v for k, v in given.items() if k == "qid"}, part)
        found.append(make().fit(X[part], labels[part], sample_weight=WEIGHT[part], **own))
    same(*found)
    counted(found)


@pytest.mark.parametrize("name", ["sgd", "top", "ranker"])
def test_a_stream_begins_with_some_weight(name):
    make, labels, given = MODELS[name]
    part = np.arange(60)
    with pytest.raises(ValueError, match="zero for all examples so far; a stream starts with"):
        make().partial_fit(
            X[part], labels[part], sample_weight=np.zeros(60), **rows_of(given, part)
        )
