# SPDX-License-Identifier: BSD-3-Clause
"""Estimators that take a solver: its fields are parameters, and copies and displays are right."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import pairlearn
from pairlearn import (
    SGD,
    AUCClassifier,
    Constant,
    EntropyRegressor,
    Exact,
    MulticlassAUCClassifier,
    MultilabelAUCClassifier,
    OrdinalAUCClassifier,
    PairwiseRanker,
    PreviousOfQuery,
    SurvivalRanker,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
TARGET = X @ [1.0, -1.0, 0.5] + 0.3 * RNG.normal(size=90)
Y = {
    AUCClassifier: (TARGET > 0.0).astype(int),
    EntropyRegressor: TARGET,
    PairwiseRanker: np.digitize(TARGET, [-1.0, 1.0]),
}
KINDS = pytest.mark.parametrize("kind", Y)
#: Estimators in closed form. The tests of metrics have those of `MetricLearner`.
EXACT = (MulticlassAUCClassifier, MultilabelAUCClassifier, OrdinalAUCClassifier, SurvivalRanker)


def test_all_estimators_with_a_solver_are_here():
    found = {
        name for name in pairlearn.__all__
        if inspect.isclass(kind := getattr(pairlearn, name)) and hasattr(kind, "fit")
        and "solver" in inspect.signature(kind).parameters
    }  # fmt: skip
    assert found == {kind.__name__ for kind in (*Y, *EXACT)} | {"MetricLearner"}


@KINDS
def test_parameters_are_few_and_in_order_of_use(kind):
    names = list(inspect.signature(kind).parameters)
    assert len(names) <= 14
    used = [name for name in ("features", "solver", "scaling", "random_state") if name in names]
    assert used == sorted(used, key=names.index)


@pytest.mark.parametrize("kind", EXACT)
def test_a_solver_in_closed_form_is_a_part(kind):
    model = kind(solver="exact").set_params(solver__ridge=0.5)
    assert model.solver == clone(model).solver == Exact(0.5)
    assert model.get_params()["solver__ridge"] == 0.5
    assert repr(model) == f"{kind.__name__}(solver=Exact(ridge=0.5))"


@KINDS
def test_parameters_reach_inside(kind):
    model = kind(solver=SGD(step_size=0.1, schedule=Constant(2.0)))
    parameters = model.get_params()
    assert parameters["solver__step_size"] == 0.1
    assert parameters["solver__schedule__step_size"] == 2.0
    assert "solver__step_size" not in model.get_params(deep=False)
    before = model.solver
    model.set_params(solver__step_size=0.2, solver__schedule__step_size=3.0)
    assert model.solver == SGD(step_size=0.2, schedule=Constant(3.0))
    assert before == SGD(step_size=0.1, schedule=Constant(2.0))
    assert kind(solver="sgd").set_params(solver__n_passes=3).solver == SGD(n_passes=3)
    with pytest.raises(ValueError, match="SGD has no field 'stepsize'; did you mean 'step_size'"):
        model.set_params(solver__stepsize=1.0)


@KINDS
def test_copies_are_equal_and_apart(kind):
    model = kind(solver=SGD(step_size=0.1), random_state=0).fit(X, Y[kind])
    copied = clone(model)
    assert not hasattr(copied, "coef_")
    assert copied.get_params() == model.get_params()
    copied.set_params(solver__step_size=0.5)
    assert model.solver.step_size == 0.1
    again = clone(model).fit(X, Y[kind])
    np.testing.assert_array_equal(again.coef_, model.coef_)


@KINDS
def test_displays_show_what_is_not_a_default(kind):
    name = kind.__name__
    assert repr(kind()) == f"{name}()"
    assert repr(kind(solver=SGD(step_size=0.1))) == f"{name}(solver=SGD(step_size=0.1))"
    assert "SGD(step_size=0.1)" in kind(solver=SGD(step_size=0.1))._repr_html_()


@KINDS
def test_a_grid_search_sets_fields_of_the_solver(kind):
    model = kind(solver=SGD(n_passes=2), random_state=0)
    grid = {"solver__step_size": [1e-6, 0.1], "solver__averaging": ["step_size", "last"]}
    search = GridSearchCV(model, grid, cv=2).fit(X, Y[kind])
    assert set(search.best_params_) == set(grid)
    expected = SGD(n_passes=2).with_params(
        step_size=search.best_params_["solver__step_size"],
        averaging=search.best_params_["solver__averaging"],
    )
    assert search.best_estimator_.solver == expected
    assert model.solver == SGD(n_passes=2)


def test_the_pairing_of_a_ranker_is_a_part():
    model = PairwiseRanker(solver=SGD(pairing=PreviousOfQuery(max_open=7)))
    assert model.get_params()["solver__pairing__max_open"] == 7
    model.set_params(solver__pairing__max_open=9)
    assert clone(model).solver == SGD(pairing=PreviousOfQuery(max_open=9))
    assert repr(model) == "PairwiseRanker(solver=SGD(pairing=PreviousOfQuery(max_open=9)))"


@pytest.mark.parametrize(
    ("estimator", "params", "words"),
    [
        ("AUCClassifier", {"C": 1.0}, r"no parameter 'C'; .* as in solver=Exact\(ridge=...\)"),
        (
            "AUCClassifier",
            {"stepsize": 1.0},
            r"setting of a solver, as in solver=SGD\(step_size=...\)",
        ),
        ("AUCClassifier", {"seed": 1}, "here it is called 'random_state'"),
        ("AUCClassifier", {"objectiv": "auc"}, "did you mean 'objective'"),
        ("EntropyRegressor", {"max_iter": 9}, r"SGD\(n_passes=...\)"),
        ("PrivateAUCClassifier", {"eps": 1.0}, "did you mean 'epsilon'"),
        ("PairwiseRatings", {"elo": 1}, "there are ties, home, prior, half_life"),
    ],
)
def test_a_parameter_of_another_name_is_told_its_own(estimator, params, words):
    with pytest.raises(TypeError, match=words):
        getattr(pairlearn, estimator)(**params)


def test_an_own_estimator_may_take_any_parameters():
    class Own(pairlearn.AUCClassifier):
        def __init__(self, **anything):
            super().__init__()
            self.anything = anything

    assert Own(C=3).anything == {"C": 3}
