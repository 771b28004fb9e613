# SPDX-License-Identifier: BSD-3-Clause
"""Every estimator survives pickle and skops, fitted or not, and predicts the same afterwards.

An unfinished private stream refuses both: its state is as secret as the data.
"""

from __future__ import annotations

import pickle
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.naive_bayes import GaussianNB

import pairlearn as p

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] + RNG.normal(size=40) > 0).astype(int)
GRADES = np.arange(40) % 3
BOTH = np.column_stack([Y, 1 - Y])
SURVIVAL = np.column_stack([Y, np.exp(X[:, 1])])
MEMBERS = [("line", p.AUCClassifier(random_state=0)), ("bayes", GaussianNB())]
ISOTONIC = p.Threshold(calibration="isotonic")
PRIVATE = {"bounds": (-5.0, 5.0), "random_state": 0}

#: An estimator of each kind, and what it is fitted to.
ESTIMATORS = {
    "sgd": (lambda: p.AUCClassifier(solver="sgd", random_state=0), Y),
    "moments": (lambda: p.AUCClassifier(solver="moments", random_state=0), Y),
    "exact": (lambda: p.AUCClassifier(solver="exact", loss="logistic", random_state=0), Y),
    "curves": (lambda: p.AUCClassifier(features=p.Hats(n_knots=3), random_state=0), Y),
    "push": (lambda: p.AUCClassifier(objective="push", solver="sgd", random_state=0), Y),
    "isotonic": (lambda: p.AUCClassifier(decision=ISOTONIC, random_state=0), Y),
    "three classes": (lambda: p.AUCClassifier(random_state=0), GRADES),
    "multiclass": (lambda: p.MulticlassAUCClassifier(random_state=0), GRADES),
    "multilabel": (lambda: p.MultilabelAUCClassifier(random_state=0), BOTH),
    "ordinal": (lambda: p.OrdinalAUCClassifier(random_state=0), GRADES),
    "ranker": (lambda: p.PairwiseRanker(random_state=0), GRADES),
    "entropy": (lambda: p.EntropyRegressor(random_state=0), X[:, 2]),
    "metric": (lambda: p.MetricLearner(random_state=0), Y),
    "private": (lambda: p.PrivateAUCClassifier(**PRIVATE), Y),
    "private metric": (lambda: p.PrivateMetricLearner(**PRIVATE), Y),
    "private entropy": (
        lambda: p.PrivateEntropyRegressor(target_bounds=(-4, 4), **PRIVATE),
        X[:, 2],
    ),
    "survival": (lambda: p.SurvivalRanker(random_state=0), SURVIVAL),
    "stack": (lambda: p.AUCStack(MEMBERS, random_state=0), Y),
}
#: Estimators that are not fitted to rows and labels; each has a test of its own below.
OTHERS = {p.PairwiseRatings, p.PrivateAUCContinual, p.PrivateRatings, p.TableEncoder}
STREAMS = {
    "sgd": (lambda: p.AUCClassifier(solver="sgd", random_state=0), Y, {"classes": [0, 1]}),
    "moments": (lambda: p.AUCClassifier(solver="moments", random_state=0), Y, {"classes": [0, 1]}),
    "push": (lambda: p.AUCClassifier(objective="push", solver="sgd"), Y, {"classes": [0, 1]}),
    "classes": (lambda: p.AUCClassifier(random_state=0), GRADES, {"classes": [0, 1, 2]}),
    "ranker": (lambda: p.PairwiseRanker(solver="sgd", random_state=0), GRADES, {}),
}

pytestmark = pytest.mark.filterwarnings("ignore")


def _skops():
    """Return skops with the two functions of pickle; every type of ours is trusted."""
    if find_spec("skops") is None:
        pytest.skip("skops is not installed")
    from skops import io

    return SimpleNamespace(
        dumps=io.dumps, loads=lambda data: io.loads(data, io.get_untrusted_types(data=data))
    )


WAYS = {"pickle": lambda: pickle, "skops": _skops}


def answers(model):
    """Return what a fitted model says about the examples."""
    if hasattr(model, "transform"):
        return model.transform(X)
    return (model.decision_function if hasattr(model, "decision_function") else model.predict)(X)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_predicts_the_same(name, way):
    make, labels = ESTIMATORS[name]
    way = WAYS[way]()
    unfitted = way.loads(way.dumps(make()))
    assert repr(unfitted) == repr(make())
    model = make().fit(X, labels)
    again = way.loads(way.dumps(model))
    assert np.array_equal(answers(again), answers(model))
    assert np.array_equal(answers(unfitted.fit(X, labels)), answers(model))


def test_every_estimator_stands_above():
    public = {getattr(p, name) for name in p.__all__}
    known = {type(make()) for make, _ in ESTIMATORS.values()} | OTHERS
    assert {one for one in public if isinstance(one, type) and issubclass(one, BaseEstimator)} == (
        known
    )


@pytest.mark.parametrize("way", WAYS)
def test_ratings(way):
    store = WAYS[way]()
    model = p.PairwiseRatings().fit(["ann", "ann", "bob", "cid"], ["bob", "cid", "cid", "ann"])
    again = store.loads(store.dumps(model))
    assert repr(again) == repr(model)
    assert again.players_.tolist() == model.players_.tolist()
    assert np.array_equal(again.scores_, model.scores_)
    assert again.compare("ann", "cid") == model.compare("ann", "cid")


@pytest.mark.parametrize("way", WAYS)
def test_private_ratings(way):
    store = WAYS[way]()
    model = p.PrivateRatings(players=["ann", "bob"]).fit(["ann"] * 30, ["bob"] * 30)
    again = store.loads(store.dumps(model))
    assert repr(again) == repr(model)
    assert np.array_equal(again.scores_, model.scores_)
    assert again.compare("ann", "bob") == model.compare("ann", "bob")
    assert again.certificate_ == model.certificate_


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_goes_on(name, way):
    """Skops stores no cycles: it refuses some unfinished streams, and changes none."""
    make, labels, first = STREAMS[name]
    store = WAYS[way]()
    whole = make().partial_fit(X, labels, **first).partial_fit(X, labels)
    try:
        model = store.loads(store.dumps(make().partial_fit(X, labels, **first)))
    except (RecursionError, TypeError):
        assert way == "skops"
        return
    assert np.array_equal(answers(model.partial_fit(X, labels)), answers(whole))


@pytest.mark.parametrize("way", WAYS)
def test_an_unfinished_private_stream_refuses(way):
    way = WAYS[way]()
    for stream, why in ((p.PrivateAUCContinual(40, 3, **PRIVATE), "sums without noise"),):
        stream.partial_fit(X, Y)
        with pytest.raises(TypeError, match=why):
            way.dumps(stream)
