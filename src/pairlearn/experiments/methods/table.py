# SPDX-License-Identifier: BSD-3-Clause
"""Every method that has a name: the paper's, its rivals, and pointwise learners beside them."""

from __future__ import annotations

from pairlearn.experiments.methods.base import EstimatorMethod, Method, powers
from pairlearn.experiments.methods.pairwise import OWN
from pairlearn.experiments.methods.rivals import RIVALS

__all__ = ["TABLE", "find_method", "method_names"]

#: Every method by name.
TABLE: dict[str, Method] = {
    method.name: method
    for method in (
        *OWN,
        *RIVALS,
        EstimatorMethod(
            name="logistic",
            path="sklearn.linear_model.LogisticRegression",
            grid={"C": powers(-3, 3)},
            fixed={"max_iter": 2000},
        ),
        EstimatorMethod(
            name="linear-svc",
            path="sklearn.svm.LinearSVC",
            grid={"C": powers(-3, 3)},
            fixed={"max_iter": 5000},
        ),
        EstimatorMethod(
            name="sgd",
            path="sklearn.linear_model.SGDClassifier",
            grid={"alpha": powers(-6, -1)},
            fixed={"average": True},
        ),
        EstimatorMethod(
            name="gradient-boosting",
            path="sklearn.ensemble.HistGradientBoostingClassifier",
            grid={"learning_rate": (0.03, 0.1), "max_leaf_nodes": (7, 31)},
        ),
    )
}


def method_names() -> list[str]:
    """Return the names of all methods.

    Examples
    --------
    >>> "logistic" in method_names()
    True
    """
    return list(TABLE)


def find_method(name: str) -> Method:
    """Return a method by its name.

    Examples
    --------
    >>> find_method("logistic").path
    'sklearn.linear_model.LogisticRegression'
    """
    if name not in TABLE:
        raise ValueError(
            f"no method is called {name!r}; the methods are {', '.join(TABLE)}. Any scikit-learn "
            "estimator joins by its import path."
        )
    return TABLE[name]
