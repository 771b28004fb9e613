# SPDX-License-Identifier: BSD-3-Clause
"""`AUCClassifier` on more than two classes."""

import copy
import json
import pickle
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score

from pairlearn import (
    SGD,
    AUCClassifier,
    Exact,
    HandTill,
    Moments,
    MulticlassAUCClassifier,
    Threshold,
    bootstrap,
    explain,
    plot_shapes,
)
from pairlearn.cli.export import as_json, as_onnx
from pairlearn.features import Hats, RandomFourier
from pairlearn.models import load_model
from pairlearn.models.record import ModelFileError


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X, np.array(["red", "rose", "white"])[y]


def same(a, b, X):
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    np.testing.assert_array_equal(a.pair_scores(X), b.pair_scores(X))


@pytest.mark.parametrize("settings", [{}, {"loss": "squared_hinge", "solver": Exact(0.1)},
                                      {"scaling": None, "class_weight": "balanced"}])  # fmt: skip
def test_is_what_the_classifier_of_many_classes_is(wine, settings):
    X, y = wine
    weight = np.linspace(0.5, 1.5, len(y))
    ours = AUCClassifier(random_state=0, **settings).fit(X, y, weight)
    part = MulticlassAUCClassifier(random_state=0, **settings).fit(X, y, weight)
    same(ours, part, X)
    np.testing.assert_array_equal(ours.decision_function(X), part.decision_function(X))
    assert ours.score(X, y, weight) == part.score(X, y, weight)
    assert ours.score(X, y) == HandTill(pairs=True)(y, ours.pair_scores(X))
    assert ours.decision_function(X).shape == (len(y), 3)
    assert ours.ridge_ == part.ridge_
    assert ours.coef_.shape == (3, X.shape[1])
    assert ours.classes_.tolist() == ["red", "rose", "white"]
    assert 0.9 < ours.held_out_auc_ <= 1.0
    assert not hasattr(ours, "threshold_")
    assert not hasattr(ours, "intercept_")


def test_two_classes_are_as_they_were(wine):
    X, y = wine
    model = AUCClassifier(random_state=0).fit(X, y == "red")
    assert not hasattr(model, "pairs_")
    np.testing.assert_array_equal(
        model.pair_scores(X)[:, 0] - model.threshold_, model.decision_function(X)
    )
    # From many classes to two and back.
    again = AUCClassifier(random_state=0).fit(X, y).fit(X, y == "red")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    same(model.fit(X, y), MulticlassAUCClassifier(random_state=0).fit(X, y), X)


def test_weights_of_classes_move_probabilities_and_no_score(wine):
    X, y = wine
    plain = AUCClassifier(solver=Exact(ridge=1.0), random_state=0).fit(X[:, :3], y)
    heavy = AUCClassifier(
        solver=Exact(ridge=1.0), class_weight={"red": 1, "rose": 1, "white": 20}, random_state=0
    ).fit(X[:, :3], y)
    np.testing.assert_allclose(heavy.coef_, plain.coef_, rtol=1e-9)
    gain = heavy.predict_proba(X[:, :3])[:, 2] - plain.predict_proba(X[:, :3])[:, 2]
    assert gain.mean() > 0.05
    with pytest.raises(ValueError, match="class_weight is zero for every example of class 'red'"):
        AUCClassifier(class_weight={"red": 0, "rose": 1, "white": 1}).fit(X, y)


@pytest.mark.parametrize("features", ["linear", Hats(n_knots=4), RandomFourier(32)], ids=str)
def test_saved_pickled_cloned_and_exported(wine, features, tmp_path):
    X, y = wine
    model = AUCClassifier(features=features, solver=Exact(ridge=0.1), random_state=0).fit(
        X[:, :4], y
    )
    model.save(tmp_path / "m")
    for other in (
        AUCClassifier.load(tmp_path / "m"),
        load_model(tmp_path / "m"),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        clone(model).fit(X[:, :4], y),
    ):
        same(other, model, X[:, :4])
        assert other.n_features_in_ == 4
    plain = json.loads(json.dumps(as_json(model)))
    assert [one["classes"] for one in plain["pairs"]] == [
        ["red", "rose"], ["red", "white"], ["rose", "white"],
    ]  # fmt: skip
    if features == "linear":
        coef = np.array([list(one["coefficients"].values()) for one in plain["pairs"]])
        np.testing.assert_array_equal(coef, model.coef_)
    pytest.importorskip("onnx")
    with pytest.raises(Exception, match="has no operator that couples pairs"):
        as_onnx(model)


def test_a_file_whose_pairs_do_not_fit_its_classes_is_refused(wine):
    X, y = wine
    record = AUCClassifier(solver=Exact(ridge=0.1)).fit(X, y).to_record()
    for change, match in (
        ({"sigmoids": None}, "'sigmoids' of AUCClassifier is missing"),
        ({"pair_coef": record.arrays["pair_coef"][:2]}, "3 classes do not have 2 pairs"),
        ({"sigmoids": -np.abs(record.arrays["sigmoids"])}, "would fall with its score"),
    ):
        arrays = {k: v for k, v in {**record.arrays, **change}.items() if v is not None}
        broken = copy.copy(record)
        object.__setattr__(broken, "arrays", arrays)
        with pytest.raises(ModelFileError, match=match):
            AUCClassifier.from_record(broken)


@pytest.mark.parametrize(("settings", "match"), [
    ({"objective": "push"}, r"objective='push' is for two: .* closed form. Leave objective"),
    ({"decision": 0.5}, "decision=0.5 is for two: more are decided between by"),
    ({"decision": "f1"}, "decision='f1' is for two"),
    ({"decision": Threshold(calibration="isotonic")}, r"calibration='isotonic'\) is for two"),
    ({"solver": "sgd"}, 'Use solver="auto", "exact" or "moments"'),
    ({"solver": SGD(step_size=0.1)}, r"SGD\(step_size=0.1\) is for two"),
    ({"warm_start": True}, "warm_start=True is for two"),
    ({"features": "auto"}, 'Use features="linear", "hats"'),
    ({"loss": "hinge"}, 'Use loss="auto", "square" or "squared_hinge"'),
    ({"features": Hats(monotone={0: 1})}, "is for two"),
    ({"features": "hats", "solver": Exact(max_memory=1e4)},
     "moments of 3 classes with .* max_memory=10000"),
])  # fmt: skip
def test_parameters_of_two_classes_are_refused(wine, settings, match):
    with pytest.raises(ValueError, match=match):
        AUCClassifier(**settings).fit(*wine)


def test_solvers_that_are_meant(wine):
    X, y = wine
    moments = AUCClassifier(solver=Moments(ridge=1.0), random_state=0).fit(X, y)
    square = MulticlassAUCClassifier(loss="square", solver=Exact(ridge=1.0), random_state=0).fit(
        X, y
    )
    same(moments, square, X)
    same(
        AUCClassifier(decision="probability", random_state=0).fit(X, y),
        AUCClassifier(random_state=0, n_jobs=2).fit(X, y),
        X,
    )


def test_searches_storage_and_frames(wine):
    X, y = wine
    found = GridSearchCV(
        AUCClassifier(solver="exact", random_state=0), {"solver__ridge": [0.01, 1.0]}, cv=3
    ).fit(X, y)
    assert found.best_score_ > 0.98
    assert (
        cross_val_score(AUCClassifier(solver=Exact(ridge=1.0)), X, y, scoring="accuracy").mean()
        > 0.95
    )
    X, y = load_iris(return_X_y=True)
    dense = AUCClassifier(loss="square", solver=Exact(ridge=0.1), scaling=None, random_state=0).fit(
        X, y
    )
    sparse = clone(dense).fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-8)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    named = clone(dense).fit(frame, y)
    assert named.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(named.predict(frame), dense.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        named.predict(frame[list("dcba")])


def test_what_is_about_one_score_is_refused(wine):
    X, y = wine
    model = AUCClassifier(solver=Exact(ridge=1.0)).fit(X, y)
    with pytest.raises(ValueError, match="has 3 scores, one for each pair of classes"):
        explain(model, X[0])
    with pytest.raises(ValueError, match="has 3 scores"):
        model.explain(X[0])
    with pytest.raises(ValueError, match="has 3 scores"):
        plot_shapes(model, X)
    with pytest.raises(ValueError, match="y has 3 classes"):
        bootstrap(AUCClassifier(), X, y)


def test_labels_that_are_no_classes(wine):
    X, _ = wine
    with pytest.raises(ValueError, match="Unknown label type"):
        AUCClassifier().fit(X, np.linspace(0.0, 1.0, len(X)))
    with pytest.raises(ValueError, match="one class"):
        AUCClassifier().fit(X, np.zeros(len(X)))


# ------------------------------------------------------------------------------------ streams


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def chunks(n, size):
    return [slice(k, k + size) for k in range(0, n, size)]


@pytest.mark.parametrize("settings", [{}, {"solver": "moments"}, {"objective": "push"}])
def test_a_stream_is_a_stream_of_each_pair(digits, settings, tmp_path):
    X, y = digits
    A, a, B, b = X[:500], y[:500], X[500:], y[500:]
    model = AUCClassifier(random_state=0, **settings)
    for part in chunks(500, 125):
        model.partial_fit(A[part], a[part], classes=np.arange(4))
    for column, pair in enumerate(combinations(range(4), 2)):
        of_both = np.isin(a, pair)
        alone = AUCClassifier(random_state=0, **settings)
        parts = [np.flatnonzero(of_both[part]) + part.start for part in chunks(500, 125)]
        for index in parts:
            alone.partial_fit(A[index], a[index], classes=pair)
        np.testing.assert_array_equal(model.coef_[column], alone.coef_[0])
        np.testing.assert_allclose(model.pair_scores(B)[:, column],
                                   alone.decision_function(B) + alone.threshold_,
                                   atol=1e-9)  # fmt: skip
    assert model.score(B, b) > 0.99
    assert (model.predict(B) == b).mean() > 0.9
    np.testing.assert_allclose(model.predict_proba(B).sum(axis=1), 1.0)
    model.save(tmp_path / "m")
    same(AUCClassifier.load(tmp_path / "m"), model, B)
    restored = AUCClassifier(random_state=0, **settings)
    restored.restore_stream(model.stream_state())
    same(restored, model, B)
    same(restored.partial_fit(B, b), model.partial_fit(B, b), B)


def test_a_stream_goes_on_from_fit_and_from_a_file(digits, tmp_path):
    X, y = digits
    model = AUCClassifier(random_state=0).fit(X[:300], y[:300])
    model.save(tmp_path / "m")
    for one in (model, AUCClassifier.load(tmp_path / "m")):
        before = one.coef_.copy()
        scores = one.score_and_learn(X[300:400], y[300:400])
        of_both = np.isin(y[300:400], (0, 1))
        assert np.isnan(scores[~of_both, 0]).all()
        assert np.isfinite(scores[of_both, 0]).all()
        assert not np.array_equal(one.coef_, before)
        assert one.score(X[400:], y[400:]) > 0.9
        one.restart_stream()
        one.partial_fit(X[400:], y[400:])


def test_a_chunk_that_fails_is_learned_by_no_pair(digits):
    X, y = digits
    model = AUCClassifier(random_state=0).partial_fit(X[:200], y[:200], classes=np.arange(4))
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=r"y contains \[7\]"):
        model.partial_fit(X[200:300], np.where(y[200:300] == 3, 7, y[200:300]))
    with pytest.raises(ValueError, match="differ from those of the model"):
        model.partial_fit(X[200:300], y[200:300], classes=[0, 1, 2])
    with pytest.raises(ValueError, match="weight"):
        model.partial_fit(X[200:300], y[200:300], sample_weight=-np.ones(100))
    np.testing.assert_array_equal(model.coef_, before)
    with pytest.raises(ValueError, match="needs fitted features, got 'hats'"):
        AUCClassifier(features="hats").partial_fit(X, y, classes=np.arange(4))
    with pytest.raises(ValueError, match=r"calibration='isotonic'\) is for two"):
        AUCClassifier(decision=Threshold(calibration="isotonic")).partial_fit(
            X, y, classes=np.arange(4)
        )


def test_streams_of_classes_that_come_late_and_of_mapped_rows(digits):
    X, y = digits
    X = X[:, 20:30]
    order = np.argsort(y == 3, kind="stable")
    model = AUCClassifier(random_state=0, features=Hats(n_knots=4).fit(X))
    first = order[:100]
    model.partial_fit(X[first], y[first], classes=np.arange(4))
    # Nothing is known of the last class.
    assert (model.coef_[[2, 4, 5]] == 0.0).all()
    assert (model.coef_[[0, 1, 3]] != 0.0).any(axis=1).all()
    rest = np.random.default_rng(1).permutation(order[100:])
    model.partial_fit(X[rest], y[rest])
    assert model.score(X, y) > 0.95
