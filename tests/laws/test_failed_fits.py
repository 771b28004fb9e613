# SPDX-License-Identifier: BSD-3-Clause
"""A fit that fails leaves the model as it was: it predicts the rows that it was fitted to."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from pairlearn import (
    AUCClassifier,
    AUCStack,
    EntropyRegressor,
    Exact,
    MetricLearner,
    MulticlassAUCClassifier,
    MultilabelAUCClassifier,
    OrdinalAUCClassifier,
    PairwiseRanker,
    SurvivalRanker,
)

N = 120
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
TABLE = pd.DataFrame(X, columns=["a", "b", "c"])
Y = (X[:, 0] + RNG.normal(size=N) > 0.3).astype(int)
GRADES = np.arange(N) % 3
BOTH = np.column_stack([Y, 1 - Y])
TIMES = np.column_stack([np.ones(N), np.exp(-X[:, 0])])
MEMBERS = [("one", LogisticRegression()), ("two", LogisticRegression(C=0.1))]

#: A model, and labels of its kind.
MODELS = {
    "two classes": (lambda: AUCClassifier(solver=Exact(ridge=0.1), random_state=0), Y),
    "descent": (lambda: AUCClassifier(solver="sgd", random_state=0), Y),
    "curves": (lambda: AUCClassifier(features="hats", random_state=0), Y),
    "three classes": (lambda: AUCClassifier(random_state=0), GRADES),
    "Multiclass": (MulticlassAUCClassifier, GRADES),
    "Ordinal": (OrdinalAUCClassifier, GRADES),
    "Multilabel": (MultilabelAUCClassifier, BOTH),
    "Stack": (lambda: AUCStack(MEMBERS, random_state=0), Y),
    "Ranker": (lambda: PairwiseRanker(random_state=0), GRADES),
    "Entropy": (lambda: EntropyRegressor(random_state=0), X[:, 0]),
    "Metric": (lambda: MetricLearner(random_state=0), Y),
    "Survival": (lambda: SurvivalRanker(random_state=0), TIMES),
}


def held(model):
    return {name: id(value) for name, value in vars(model).items()}


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_that_fails_changes_nothing(name):
    """It left the number of columns, after which the model refused its own rows."""
    make, y = MODELS[name]
    odd = np.full((N, 2), np.inf if name == "Stack" else np.nan)
    fails = {
        "values": lambda one: one.fit(odd, y),
        "names": lambda one: one.fit(pd.DataFrame(odd, columns=["p", "q"]), y),
        "lengths": lambda one: one.fit(X[:, :2], y[: N // 2]),
        "labels": lambda one: one.fit(X[:, :2], np.full(np.shape(y), np.nan)),
        "weights": lambda one: one.fit(X[:, :2], y, sample_weight=np.full(N, -1.0)),
    }
    if name == "Ranker":
        fails.pop("weights")
    model = make().fit(TABLE, y)
    answer = next(getattr(model, kind) for kind in ("predict", "transform") if hasattr(model, kind))
    before, expected = held(model), answer(TABLE)
    for fail in fails.values():
        with pytest.raises((ValueError, TypeError)):
            fail(model)
        assert held(model) == before
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(answer(TABLE), expected)
        # a first fit that fails leaves no fit
        fresh = make()
        with pytest.raises((ValueError, TypeError)):
            fail(fresh)
        assert held(fresh).keys() == held(make()).keys()
