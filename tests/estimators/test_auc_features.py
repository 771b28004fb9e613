# SPDX-License-Identifier: BSD-3-Clause
"""`AUCClassifier(features=...)`: maps, the choice among them, moments, monotone functions."""

import pickle
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from pairlearn import SGD, AUCClassifier, Exact, Moments, roc_auc
from pairlearn.estimators.auc import composition
from pairlearn.estimators.shared import judged_maps
from pairlearn.estimators.shared.judged_maps import (
    JudgedMap,
    deal_held_out,
    judge_maps,
)
from pairlearn.features import FeatureMap, Hats, Identity, Nystroem, RandomFourier, Union
from pairlearn.folds import Keys
from pairlearn.solvers import ClassMoments
from pairlearn.solvers.closed_form.mapped_moments import MappedMoments, RidgeProblem, extents_of
from pairlearn.solvers.rows import as_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1200, 3))
#: A ring: no plane, but a sum of functions of one feature each.
RING = np.where((X[:, :2] ** 2).sum(axis=1) + 0.5 * RNG.normal(size=1200) > 1.4, 1, 0)
#: A checkerboard: no sum of functions of one feature each.
BOARD = np.where(X[:, 0] * X[:, 1] + 0.2 * RNG.normal(size=1200) > 0, 1, 0)
PLANE = np.where(X @ [1.0, -1.0, 0.5] + RNG.normal(size=1200) > 0, 1, 0)
TRAIN, TEST = slice(800), slice(800, None)


def fitted(labels, **parameters):
    return AUCClassifier(random_state=0, **parameters).fit(X[TRAIN], labels[TRAIN])


@pytest.mark.parametrize(
    ("labels", "name"), [(PLANE, "linear"), (RING, "hats"), (BOARD, "fourier")]
)
def test_auto_takes_the_simplest_that_is_good_enough(labels, name):
    model = fitted(labels, features="auto")
    assert model.choice_.features.name == name
    assert name in model.choice_.features.reason
    linear = fitted(labels)
    assert model.score(X[TEST], labels[TEST]) >= linear.score(X[TEST], labels[TEST]) - 0.002
    judged = {one.name: one for one in model.choice_.features.judged}
    assert list(judged) == ["linear", "hats", "fourier"]
    best = max(one.auc for one in judged.values())
    assert judged[name].auc >= best - judged[name].standard_error


@pytest.mark.parametrize("solver", ["auto", Moments()])
def test_a_linear_choice_is_the_linear_model_bit_for_bit(solver):
    auto, linear = (fitted(PLANE, features=own, solver=solver) for own in ("auto", "linear"))
    np.testing.assert_array_equal(auto.coef_, linear.coef_)
    assert isinstance(auto.features_, Identity)
    assert isinstance(linear.features_, Identity)


@pytest.mark.parametrize(
    ("labels", "names"),
    [(X @ [1.0, -1.0, 0.5] > 0.7, ["linear"]), (np.abs(X[:, 0]) > 0.9, ["linear", "hats"])],
)
def test_nothing_is_tried_after_an_auc_of_one(monkeypatch, labels, names):
    # A gap around the boundary, so that all held-out examples are ordered right.
    table = X + 0.5 * np.sign(X[:, :1]) * labels[:, np.newaxis] * [1.0, 0.0, 0.0]
    if names == ["linear"]:
        table = X + np.outer(labels, [1.0, -1.0, 0.5])
    model = AUCClassifier(features="auto", random_state=0).fit(table, labels)
    assert [one.name for one in model.choice_.features.judged] == names
    assert model.choice_.features.name == names[-1]
    assert model.held_out_auc_ == 1.0
    assert [one.auc for one in model.choice_.tried].count(1.0) == 1
    with_all = partial(judge_maps, to_end=True)
    monkeypatch.setattr(judged_maps, "judge_maps", lambda *a, to_end=True, **k: with_all(*a, **k))
    whole = AUCClassifier(features="auto", random_state=0).fit(table, labels)
    assert len(whole.choice_.features.judged) == 3
    assert whole.choice_.features.name == names[-1]
    np.testing.assert_array_equal(whole.coef_, model.coef_)


@pytest.mark.parametrize("solver", ["sgd", "exact", "moments"])
@pytest.mark.parametrize("features", ["hats", Hats(n_knots=5), RandomFourier(64), Nystroem(50)])
def test_each_solver_takes_each_map(features, solver):
    model = fitted(RING, features=features, solver=solver)
    assert model.solver_ == solver
    assert model.coef_.shape == (1, model.features_.n_outputs)
    assert model.n_features_in_ == 3
    assert model.score(X[TEST], RING[TEST]) > 0.9


def test_moments_are_the_closed_form_on_mapped_rows():
    model = fitted(RING, features=Hats(n_knots=6), solver=Moments(ridge=0.1))
    Z = Hats(n_knots=6).fit(X[TRAIN]).transform(X[TRAIN])
    y = np.where(RING[TRAIN] == 1, 1.0, -1.0)
    typical = Z.var(axis=0).mean()
    expected = ClassMoments(Z.shape[1]).add(Z, y).solve(ridge=0.1 * typical)
    np.testing.assert_allclose(model.coef_[0], expected, rtol=1e-9)


def test_single_precision_of_wide_maps_changes_no_decision():
    y = np.where(BOARD[TRAIN] == 1, 1.0, -1.0)
    features = RandomFourier(1024).fit(X[TRAIN], rng=0)
    Z = features.transform(X[TRAIN])
    typical = Z.var(axis=0).mean()
    double = ClassMoments(1024).add(Z, y).solve(ridge=1e-2 * typical)
    moments = MappedMoments.none(features, extents_of(features, as_rows(X[TRAIN])))
    single = moments.plus(X[TRAIN], y).problem().solve(1e-2)
    scores = features.transform(X[TEST])
    np.testing.assert_allclose(scores @ single, scores @ double, atol=2e-4)


@pytest.mark.parametrize("features", ["hats", "fourier", "auto"])
def test_units_do_not_matter(features):
    scale, shift = np.array([1e-6, 3.0, 1e4]), np.array([1.0, -7.0, 1e5])
    first = fitted(RING, features=features)
    second = AUCClassifier(random_state=0, features=features)
    second.fit(X[TRAIN] * scale + shift, RING[TRAIN])
    a, b = first.decision_function(X[TEST]), second.decision_function(X[TEST] * scale + shift)
    # Other numbers make other folds, and pairs that show a Fourier map how far rows are apart.
    if features == "fourier":
        assert np.corrcoef(a, b)[0, 1] > 0.99
    else:
        np.testing.assert_allclose(a, b, atol=2e-3 * np.abs(a).max())


def test_units_do_not_matter_to_moments_of_raw_features():
    first = fitted(PLANE, solver=Moments(0.1))
    second = AUCClassifier(random_state=0, solver=Moments(0.1))
    second.fit(X[TRAIN] * [1e-6, 3.0, 1e4], PLANE[TRAIN])
    np.testing.assert_allclose(first.coef_, second.coef_ * [1e-6, 3.0, 1e4], rtol=1e-6)


@pytest.mark.parametrize("features", ["hats", "fourier"])
@pytest.mark.thorough
def test_sparse_rows(features):
    dense = X * (RNG.random(X.shape) < 0.6)
    labels = np.where((dense**2).sum(axis=1) > 1.5, 1, 0)
    models = [
        AUCClassifier(random_state=0, features=features, solver="moments").fit(A, labels)
        for A in (dense, scipy.sparse.csr_array(dense))
    ]
    scores = [m.decision_function(dense) for m in models]
    assert abs(roc_auc(labels, scores[0]) - roc_auc(labels, scores[1])) < 1e-3
    assert roc_auc(labels, models[1].decision_function(scipy.sparse.csr_array(dense))) > 0.95


def test_weights_are_repetitions():
    weight = RNG.integers(1, 4, size=800).astype(float)
    kept = Hats(n_knots=5).fit(X[TRAIN])
    model = AUCClassifier(features=kept, solver=Moments(ridge=0.1))
    weighted = clone(model).fit(X[TRAIN], RING[TRAIN], sample_weight=weight)
    repeated = np.repeat(np.arange(800), weight.astype(int))
    twice = clone(model).fit(X[repeated], RING[repeated])
    np.testing.assert_allclose(weighted.coef_, twice.coef_, rtol=1e-8)


def test_rows_that_do_not_fit_are_mapped_in_blocks(monkeypatch):
    assert fitted(RING, features="hats").solver_ == "exact"
    with pytest.raises(ValueError, match=r'use solver="moments".* or a larger max_memory'):
        fitted(RING, features="hats", solver=SGD(max_memory=200_000))
    with pytest.raises(ValueError, match="a map with fewer features"):
        fitted(RING, features=RandomFourier(1024), solver=Moments(max_memory=1_000_000))
    monkeypatch.setattr(composition, "MAPPED_BYTES", 200_000)
    assert fitted(RING, features="hats").solver_ == "moments"


def test_monotone_functions():
    model = fitted(RING, features=Hats(monotone={0: 1, 1: -1}))
    hats = model.features_
    steps = [np.diff(hats.shape_of(k, model.coef_[0])) for k in range(3)]
    assert (steps[0] >= 0).all()
    assert (steps[1] <= 0).all()
    assert steps[2].min() < 0 < steps[2].max()
    free = fitted(RING, features="hats", solver="moments")
    assert free.score(X[TRAIN], RING[TRAIN]) > model.score(X[TRAIN], RING[TRAIN])


def test_a_constraint_that_does_not_bind_changes_nothing():
    free = fitted(PLANE, features=Hats(n_knots=4), solver=Moments(0.1))
    hats = Hats(n_knots=4, monotone={0: 1, 1: -1})
    bound = fitted(PLANE, features=hats, solver=Moments(0.1))
    assert (np.diff(free.features_.shape_of(0, free.coef_[0])) > 0).all()
    assert (np.diff(free.features_.shape_of(1, free.coef_[0])) < 0).all()
    np.testing.assert_allclose(bound.coef_, free.coef_, atol=1e-9)


@dataclass(frozen=True)
class Squares(FeatureMap):
    def mapped(self, X):
        return np.hstack([X, X * X])


@pytest.mark.parametrize(("name", "solver"), [("auto", Exact(0.01)), ("moments", Moments(0.01))])
def test_a_map_of_ones_own(name, solver):
    assert fitted(RING, features=Squares(), solver=name).score(X[TEST], RING[TEST]) > 0.93
    # With a given ridge, which folds would choose otherwise, units do not matter.
    model = fitted(RING, features=Squares(), solver=solver)
    again = AUCClassifier(random_state=0, features=Squares(), solver=solver)
    again.fit(1e3 * X[TRAIN], RING[TRAIN])
    np.testing.assert_allclose(
        model.decision_function(X[TEST]), again.decision_function(1e3 * X[TEST]), atol=1e-6
    )


@pytest.mark.parametrize("features", ["hats", "fourier", Union(Identity(), Hats(n_knots=4))])
def test_pickles_and_clones(features):
    model = fitted(RING, features=features)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert repr(clone(model).features) == repr(features)


def test_a_fitted_map_stays_as_it_is():
    hats = Hats(n_knots=4).fit(X)
    assert fitted(RING, features=hats).features_ is hats
    with pytest.raises(ValueError, match="features were fitted to 3 features, X has 2"):
        AUCClassifier(features=hats).fit(X[:, :2], RING)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"features": "quadratic"}, "must be one of 'auto', 'linear', 'hats', 'fourier'"),
        ({"features": 3}, "must be one of 'auto', 'linear', 'hats', 'fourier'"),
        ({"solver": "moments", "loss": "hinge"}, "suffice for the square loss only"),
        ({"solver": "moments", "warm_start": True}, r"Moments\(\) would ignore warm_start"),
        ({"features": Hats(monotone={0: 1}), "solver": "sgd"}, 'solver="moments"'),
        ({"features": Hats(monotone={9: 1})}, "X has features 0 to 2"),
        ({"features": Hats(monotone={"age": 1})}, "which X does not have"),
        ({"features": Union(Identity(), Hats(monotone={0: 1}))}, "with these hats alone"),
    ],
)
def test_what_means_nothing_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        fitted(RING, **parameters)


def test_constraints_that_mean_nothing_are_refused_at_once():
    with pytest.raises(ValueError, match="must be 1, -1 or 0"):
        Hats(monotone={0: 2})
    with pytest.raises(ValueError, match="cumulative=True"):
        Hats(cumulative=False, monotone={0: 1})


def test_a_handful_of_examples():
    labels = np.array([0, 1, 0, 0, 1, 0, 0, 0])
    model = AUCClassifier(features="auto", random_state=0).fit(X[:8], labels)
    assert np.isfinite(model.decision_function(X)).all()
    single = AUCClassifier(features="auto", random_state=0).fit(X[:5], [1, 0, 0, 0, 0])
    assert np.isfinite(single.decision_function(X)).all()


def test_a_kept_state_makes_the_coefficients_exact():
    model = fitted(BOARD, features="auto", solver=Moments(keep_state=True))
    plain = fitted(BOARD, features="auto", solver=Moments())
    exact = AUCClassifier(features=model.features_, solver=Moments(ridge=model.ridge_))
    exact.fit(X[TRAIN], BOARD[TRAIN])
    assert model.choice_.tried == plain.choice_.tried
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-4, atol=1e-6)
    scores = plain.decision_function(X), exact.decision_function(X)
    np.testing.assert_allclose(*scores, atol=1e-6)


@pytest.mark.parametrize("n_features", [64, 1024])
def test_a_ridge_below_the_rounding_of_the_products_is_left_out(monkeypatch, n_features):
    features = RandomFourier(n_features)
    usual = RidgeProblem.solve

    def rough(self, ridge, **ways):
        if ridge < 0.05:
            raise ValueError("The ridge is too small for the rounding of the moments.")
        return usual(self, ridge, **ways)

    def judged():
        rows, weight = as_rows(X), np.empty(0)
        fold = np.arange(len(X)) % 5
        return JudgedMap(features.fit(X, rng=0), rows, 2.0 * BOARD - 1.0, weight, fold, 1, start=1)

    monkeypatch.setattr(RidgeProblem, "solve", rough)
    found = judged()
    assert [one.values["ridge"] for one in found.tried] == [1.0, 0.1]
    assert found.ridge == max(found.tried, key=lambda one: one.auc).values["ridge"]
    monkeypatch.setattr(RidgeProblem, "solve", lambda self, ridge, **ways: rough(self, 1e-9))
    with pytest.raises(ValueError, match="as large as every ridge"):
        judged()


@pytest.mark.parametrize(("sign", "heavy"), [(-1.0, 1e3)])
def test_maps_are_judged_as_by_exact_sums_beside_a_heavy_example(sign, heavy):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(700, 2))
    score = X[:, 0] ** 2 + np.sin(2.0 * X[:, 1]) + 0.5 * rng.normal(size=700)
    y, weight = np.where(score > np.quantile(score, 0.9), 1.0, -1.0), np.ones(700)
    weight[np.flatnonzero(y == sign)[0]] = heavy
    features, rows = RandomFourier(640).fit(X, rng=0), as_rows(X)
    keys = Keys.of(X)
    fold, n_held = deal_held_out(y, weight, 0.2, keys)
    assert n_held > 1
    everything = MappedMoments.none(features, extents_of(features, rows, weight))
    everything = everything.plus(rows, y, weight)
    exact = JudgedMap(features, rows, y, weight, fold, n_held, everything=everything)
    judged = JudgedMap(features, rows, y, weight, fold, n_held)
    known = {one.values["ridge"]: one.auc for one in exact.tried}
    for one in judged.tried:
        assert one.auc == pytest.approx(known[one.values["ridge"]], abs=2e-3)
    model = AUCClassifier(features=RandomFourier(640), solver=Moments(), random_state=0)
    chosen = AUCClassifier(features="auto", solver=Moments(), random_state=0)
    for one in (model, chosen):
        assert np.isfinite(one.fit(X, y, sample_weight=weight).decision_function(X)).all()
