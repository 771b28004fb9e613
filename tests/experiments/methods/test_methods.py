# SPDX-License-Identifier: BSD-3-Clause
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

from pairlearn import AUCClassifier, AUCStack
from pairlearn.estimators.stack.choice import choose_model
from pairlearn.experiments import EstimatorMethod, Fitted, Method, find_method, method_names
from pairlearn.experiments.methods.base import auc_of, cross_validate, parse_estimator

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = np.where(X[:, 0] + RNG.normal(size=80) > 0, 1.0, -1.0)


class Column:
    """Ranks by one column."""

    def __init__(self, column):
        self.column = column

    def decision_function(self, X):
        return X[:, self.column]


@dataclass(frozen=True, kw_only=True)
class PickColumn(Method):
    name: str = "column"

    def fit(self, X, y, params, rng):
        return Fitted(model=Column(params["column"]), n_gradients=len(y))


@pytest.mark.parametrize("name", method_names())
def test_registered_methods_learn_and_travel(name):
    method = pickle.loads(pickle.dumps(find_method(name)))
    params = method.candidates()[0] if hasattr(method, "candidates") else {}
    model = method.fit(X, Y, params, np.random.default_rng(0)).model
    assert auc_of(model, X, Y) > 0.6
    assert method.settings() == find_method(name).settings()


def test_cross_validation_picks_the_informative_column():
    candidates = [{"column": 2}, {"column": 0}, {"column": 1}]
    assert cross_validate(PickColumn(), candidates, X, Y, RNG) == {"column": 0}


def test_single_candidate_is_not_fitted():
    assert cross_validate(PickColumn(), [{"column": 99}], X, Y, RNG) == {"column": 99}


def test_random_state_comes_from_the_generator():
    method = find_method("sgd")
    fit = [
        method.fit(X, Y, {"alpha": 1e-3}, np.random.default_rng(seed)).model.coef_
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(fit[0], fit[1])
    assert not np.array_equal(fit[0], fit[2])


def test_probabilities_serve_where_there_is_no_decision_function():
    method = EstimatorMethod(name="nb", path="sklearn.naive_bayes.GaussianNB")
    assert auc_of(method.fit(X, Y, {}, RNG).model, X, Y) > 0.6


def test_estimator_that_cannot_rank():
    with pytest.raises(TypeError, match="cannot rank"):
        auc_of(object(), X, Y)


def test_estimator_by_path():
    method = parse_estimator(
        'mine=sklearn.linear_model.RidgeClassifier {"alpha": [1, 10], "fit_intercept": false}'
    )
    assert method.name == "mine"
    assert method.candidates() == [{"alpha": 1}, {"alpha": 10}]
    assert method.fixed == {"fit_intercept": False}
    assert parse_estimator("sklearn.naive_bayes.GaussianNB").name == "GaussianNB"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sklearn.linear_model.Nothing", "cannot import"),
        ("no_such_package.Thing", "cannot import"),
        ("Thing", "cannot import"),
        ("sklearn.naive_bayes.GaussianNB {C: 1}", "not JSON"),
        ("sklearn.naive_bayes.GaussianNB [1]", "JSON object"),
        ('sklearn.svm.LinearSVC {"C": []}', "empty"),
    ],
)
def test_estimators_that_cannot_join(text, message):
    with pytest.raises(ValueError, match=message):
        parse_estimator(text)


def test_unknown_method_lists_the_known_ones():
    with pytest.raises(ValueError, match="logistic"):
        find_method("logit")


@pytest.mark.thorough
def test_auto_is_what_train_makes():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    auto = find_method("auto")
    found = auto.fit(X, y, {}, np.random.default_rng(5)).model
    seed = int(np.random.default_rng(5).integers(2**31 - 1))
    expected = choose_model(X, y, seed=seed)[1]
    assert isinstance(found, AUCStack)
    assert np.array_equal(found.decision_function(X), expected.decision_function(X))
    # Where train stays linear, so does the method: few rows of a class, sparse or many features.
    few = np.where(np.arange(120) < 9, 1.0, -1.0)
    wide = np.hstack([X, np.zeros((120, 300))])
    wide[:, 2:] = rng.normal(size=(120, 300))
    for rows, labels in ((X, few), (sparse.csr_matrix(X), y), (wide, y)):
        linear = auto.fit(rows, labels, {}, np.random.default_rng(5)).model
        assert isinstance(linear, AUCClassifier)
        assert linear.features == "linear"
