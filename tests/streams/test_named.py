# SPDX-License-Identifier: BSD-3-Clause
"""Examples as dicts: the same model as from rows, with names that come and go; River's checks."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

from pairlearn import InverseSqrt, LinearScore, PairwiseSGD, Problem, roc_auc
from pairlearn.losses import LOSSES
from pairlearn.solvers.streams.running_scales import STEP_SIZE, RunningScales
from pairlearn.streams import named_parts
from pairlearn.streams.examples import RefusedExampleWarning
from pairlearn.streams.named import NamedLearner
from pairlearn.streams.state import pack, unpack


@pytest.fixture
def data(rng):
    X = rng.normal(size=(1500, 4))
    return X, X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=1500) > 0


def as_dicts(X, names="abcd"):
    return [dict(zip(names, row, strict=True)) for row in X.tolist()]


def learn(learner, rows, y):
    for x, label in zip(rows, y, strict=True):
        learner.learn_one(x, label)
    return learner


def reference(X, y, step, loss="hinge", scaling="auto"):
    solver = PairwiseSGD(schedule=InverseSqrt(step))
    scales = None if scaling is None else RunningScales(X.shape[1])
    stream = solver.start(Problem(LinearScore(), LOSSES.make(loss)), X.shape[1], scales=scales)
    return stream.learn_many(X, np.where(y, 1.0, -1.0)).average


@pytest.mark.parametrize("scaling", ["auto", None])
@pytest.mark.parametrize("n", [1, 2, 31, 33, 700, 1500])
def test_it_is_algorithm_two(n, scaling, data):
    X, y = data
    learner = NamedLearner(step_size=0.1, scaling=scaling)
    learn(learner, as_dicts(X[:n]), y[:n].tolist())
    found = np.array(list(learner.coefficients.values()))
    expected = reference(X[:n], y[:n], 0.1, scaling=scaling)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert learner.n_seen == n


@pytest.mark.parametrize("scaling", ["auto", None])
def test_the_automatic_step(data, scaling):
    X, y = data
    learner = learn(NamedLearner("hinge", scaling=scaling), as_dicts(X), y.tolist())
    scale = 2 * ((X[:32] - X[:32].mean(axis=0)) ** 2).sum() / 32
    found = np.array(list(learner.coefficients.values()))
    step = STEP_SIZE if scaling else 1 / scale
    np.testing.assert_allclose(found, reference(X, y, step, scaling=scaling), rtol=1e-12)
    scores = [learner.score_one(x) for x in as_dicts(X)]
    assert roc_auc(y, scores) > 0.9


@pytest.mark.parametrize("scaling", ["auto", None])
def test_names_that_come_and_go(data, rng, scaling):
    """A table with zeros where a name is absent gives the same coefficients."""
    X, y = data
    X = np.hstack([X, rng.normal(size=(1500, 30))])
    present = rng.random(X.shape) < 0.6
    present[:500, 10:] = False  # these emerge later
    present[800:, 2:6] = False  # these disappear
    names = [f"n{j}" for j in range(34)]
    rows = [
        {names[j]: float(X[i, j]) for j in rng.permutation(34) if present[i, j]}
        for i in range(1500)
    ]
    learner = learn(NamedLearner(step_size=0.05, scaling=scaling), rows, y.tolist())
    table = np.where(present, X, 0.0)
    expected = dict(zip(names, reference(table, y, 0.05, scaling=scaling), strict=True))
    assert set(learner.coefficients) == set(names)
    for name, value in learner.coefficients.items():
        assert value == pytest.approx(expected[name], rel=1e-10, abs=1e-13)


def test_many_names_are_sparse(data, rng, monkeypatch):
    X, y = data
    expected = None
    for limit in (10_000, 64, 2):
        monkeypatch.setattr(named_parts, "_DENSE_UP_TO", limit)
        chance = np.random.default_rng(5)
        rows = [{"a": float(x[0]), "b": float(x[1]), f"w{chance.integers(300)}": 1.0} for x in X]
        found = learn(NamedLearner(step_size=0.1, radius=0.8), rows, y.tolist()).coefficients
        if expected is None:
            expected = found
        assert list(found) == list(expected)
        np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=1e-9,
                                   atol=1e-12)  # fmt: skip


def test_asking_changes_nothing(data):
    X, y = data
    rows = as_dicts(X)
    quiet = learn(NamedLearner(), rows, y.tolist())
    asked = NamedLearner()
    scores = []
    for x, label in zip(rows, y.tolist(), strict=True):
        scores.append(asked.score_one(x))
        asked.predict_proba_one(x)
        asked.learn_one(x, label)
    assert asked.coefficients == quiet.coefficients
    assert asked.predict_proba_one(rows[0]) == quiet.predict_proba_one(rows[0])
    assert roc_auc(y[200:], scores[200:]) > 0.9


def test_probabilities_are_calibrated(rng):
    """Among 20,000 later examples 10 % bins are off by at most 0.06 (about 3 deviations)."""
    x = rng.normal(size=(40_000, 2))
    y = rng.random(40_000) < 1 / (1 + np.exp(1.5 - 2 * x[:, 0]))
    learner = NamedLearner()
    found = []
    for row, label in zip(as_dicts(x, "ab"), y.tolist(), strict=True):
        found.append(learner.predict_proba_one(row)[True])
        learner.learn_one(row, label)
    late, truth = np.array(found[20_000:]), y[20_000:]
    for low in np.arange(0, 1, 0.1):
        inside = (late >= low) & (late < low + 0.1)
        if inside.sum() > 500:
            assert abs(truth[inside].mean() - late[inside].mean()) < 0.06


def test_the_caller_keeps_its_dict(data):
    X, y = data
    learner = NamedLearner(step_size=0.1)
    x = {}
    for row, label in zip(X[:100].tolist(), y[:100].tolist(), strict=True):
        x.update(zip("abcd", row, strict=True))
        learner.learn_one(x, label)
    found = np.array(list(learner.coefficients.values()))
    np.testing.assert_allclose(found, reference(X[:100], y[:100], 0.1), rtol=1e-12)


@pytest.mark.parametrize("value", [None, "red", float("nan"), float("inf"), 10**400, [1]])
def test_bad_values_are_refused_one_by_one(value, data):
    X, y = data
    rows, labels = as_dicts(X[:40]), y[:40].tolist()
    learner = NamedLearner(step_size=0.1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k, (x, label) in enumerate(zip(rows, labels, strict=True)):
            if k == 20:
                learner.learn_one({**x, "b": value}, label)
            learner.learn_one(x, label)
        found = learner.coefficients
    assert learner.n_refused == 1
    assert [w.category for w in caught] == [RefusedExampleWarning]
    assert "not learned; first: feature 'b' is" in str(caught[0].message)
    expected = learn(NamedLearner(step_size=0.1), rows, labels).coefficients
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("x", "y", "message"), [({"a": 1.0}, 2, "the label must be"),
                                                 ({"a": 1.0}, [1], "the label must be"),
                                                 (3.0, True, "must be a dict")])  # fmt: skip
def test_wrong_calls(x, y, message):
    learner = NamedLearner()
    with pytest.raises(ValueError, match=message):
        learner.learn_one(x, y)
    assert learner.n_seen == 0
    for options in ({"step_size": -1.0}, {"radius": 0.0}, {"loss": "zero"}):
        with pytest.raises(ValueError, match=next(iter(options))):
            NamedLearner(**options)


@pytest.mark.parametrize("n", [0, 5, 100, 1111])
def test_copies_and_states_go_on_alike(n, data):
    X, y = data
    rows, labels = as_dicts(X), y.tolist()
    learner = learn(NamedLearner(), rows[:n], labels[:n])
    restored = NamedLearner()
    restored.restore(unpack(*pack(learner.state())))
    others = [copy.deepcopy(learner), pickle.loads(pickle.dumps(learner)), restored]
    learn(learner, rows[n:], labels[n:])
    for other in others:
        learn(other, rows[n:], labels[n:])
        assert other.coefficients == learner.coefficients
        assert other.predict_proba_one(rows[0]) == learner.predict_proba_one(rows[0])


def test_as_a_model(data, tmp_path):
    import pandas

    X, y = data
    learner = learn(NamedLearner(), as_dicts(X), y.tolist())
    model = learner.to_model(("no", "yes"))
    frame = pandas.DataFrame(X, columns=list("abcd"))
    coef = learner.coefficients
    scores = X @ np.array([coef[name] for name in "abcd"])
    np.testing.assert_allclose(model.decision_function(frame), scores - model.threshold_)
    model.save(tmp_path / "m")
    assert set(model.predict(frame)) == {"no", "yes"}
    assert ((model.predict(frame) == "yes") == y).mean() > 0.8
    assert ((model.predict_proba(frame)[:, 1] > 0.5) == (model.predict(frame) == "yes")).all()


@pytest.mark.thorough
def test_it_passes_rivers_checks():
    pytest.importorskip("river")
    from pairlearn.streams.river import RiverAUCClassifier
    from river import checks

    for options in RiverAUCClassifier._unit_test_params():
        checks.check_estimator(RiverAUCClassifier(**options))


def test_a_model_holds_nothing_of_the_compiler():
    """Else whoever measures its memory by walking over its objects measures the compiler."""
    import gc
    from types import FunctionType, ModuleType

    model = NamedLearner()
    model.learn_one({"a": 1.0}, True)
    model.learn_one({"a": 2.0}, False)
    seen, pending = {id(model)}, [model]
    while pending:
        one = pending.pop()
        assert not type(one).__module__.startswith(("numba", "llvmlite")), type(one)
        for other in gc.get_referents(one):
            if id(other) not in seen and not isinstance(other, type | ModuleType | FunctionType):
                seen.add(id(other))
                pending.append(other)
    assert len(seen) > 10


def test_a_feature_map_in_a_river_pipeline(rng):
    pytest.importorskip("river")
    from pairlearn.features import Hats, RandomFourier
    from pairlearn.streams.river import RiverAUCClassifier, RiverFeatures
    from river import metrics

    X = rng.uniform(-1.0, 1.0, size=(3_000, 2))
    y = np.abs(X[:, 0]) + 0.2 * rng.normal(size=3_000) > 0.5
    found = {}
    for name, model in (
        ("plane", RiverAUCClassifier()),
        ("curve", RiverFeatures(Hats(n_knots=8).fit(X[:500]), ["a", "b"]) | RiverAUCClassifier()),
    ):
        auc = metrics.ROCAUC()
        for row, label in zip(X, y.tolist(), strict=True):
            x = {"a": row[0], "b": row[1]}
            auc.update(label, model.predict_proba_one(x).get(True, 0.5))
            model.learn_one(x, label)
        found[name] = auc.get()
    assert found["curve"] > 0.85 > 0.6 > found["plane"]

    fourier = RandomFourier(16).fit(X, rng=0)
    one = RiverFeatures(fourier, ["a", "b"]).transform_one({"b": 0.5})
    np.testing.assert_allclose(list(one.values()), fourier.transform([[0.0, 0.5]])[0])
    with pytest.raises(ValueError, match="not fitted"):
        RiverFeatures(Hats(), ["a"])
    with pytest.raises(ValueError, match="2 different names"):
        RiverFeatures(fourier, ["a", "a"])
    with pytest.raises(ValueError, match="feature 'c' is not an input of the map"):
        RiverFeatures(fourier, ["a", "b"]).transform_one({"c": 1.0})


def test_in_a_river_pipeline():
    pytest.importorskip("river")
    from pairlearn.streams.river import RiverAUCClassifier
    from river import compose, datasets, evaluate, linear_model, metrics, preprocessing

    found = {}
    for name, model in (
        ("ours", RiverAUCClassifier()),
        ("river", linear_model.LogisticRegression()),
    ):
        pipeline = compose.Pipeline(preprocessing.StandardScaler(), model)
        metric = evaluate.progressive_val_score(datasets.Phishing(), pipeline, metrics.ROCAUC())
        found[name] = metric.get()
    assert found["ours"] > found["river"] - 0.02


# ------------------------------------------------------------------------ what is left at the end


def test_a_last_batch_that_diverges_does_not_cost_the_model():
    learner = NamedLearner("square", step_size=0.1, scaling=None)
    k = 0
    while k < 60 or learner.state()["labels"]:
        learner.learn_one({"a": float(k % 3)}, k % 2 == 0)
        k += 1
    before = dict(learner.coefficients)
    # Not yet a batch: they are learned when somebody asks for the coefficients.
    learner.learn_one({"a": 1e55}, True)
    learner.learn_one({"a": -1e55}, False)
    assert learner.n_seen == k + 2
    with pytest.warns(RefusedExampleWarning, match="not learned"):
        model = learner.to_model()
    assert np.isfinite(model.coef_).all()
    assert learner.n_refused >= 1
    assert before.keys() == learner.coefficients.keys()


def test_a_model_of_nothing_is_refused():
    learner = NamedLearner(scaling=None)
    learner.learn_one({"a": 1.0}, True)
    with pytest.raises(ValueError, match=r"nothing has been learned from 1 examples.*32 examples"):
        learner.to_model()


def test_names_that_are_one_as_texts_make_no_model():
    learner = NamedLearner(step_size=0.1)
    for k in range(8):
        learner.learn_one({1: float(k), "1": float(-k)}, k % 2 == 0)
    with pytest.raises(ValueError, match="two names of features are the same as texts, '1'"):
        learner.to_model()


def test_what_is_no_example_is_refused_when_it_is_scored():
    learner = NamedLearner(step_size=0.1)
    learner.learn_one({"a": 1.0}, True)
    with pytest.raises(ValueError, match="must be a dict of names and numbers, got list"):
        learner.score_one([("a", 1)])
    with pytest.raises(ValueError, match="must be a dict of names and numbers, got list"):
        learner.learn_one([("a", 1)], True)
    with pytest.raises(ValueError, match="feature 'a' is 'red'"):
        learner.predict_proba_one({"a": "red"})
