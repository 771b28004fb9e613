# SPDX-License-Identifier: BSD-3-Clause
"""Every method that has a name: the paper's, its rivals, and pointwise learners beside them."""

from __future__ import annotations

from pairlearn.experiments.methods.base import EstimatorMethod, Method, powers
from pairlearn.experiments.methods.pairwise import AutoMethod, RecipeMethod

__all__ = ["TABLE", "find_method", "method_names"]

#: Every method by name.
TABLE: dict[str, Method] = {
    method.name: method
    for method in (
        # The paper's method, its untuned form, its nearest rival, the minimisers over all pairs.
        RecipeMethod(name="ours", recipe="previous_example", tuning="sweep"),
        AutoMethod(name="ours-auto", path="pairlearn.AUCClassifier"),
        RecipeMethod(name="sgd-pair", recipe="sgd_pair", tuning="sweep"),
        AutoMethod(name="exact", path="pairlearn.AUCClassifier", fixed={"solver": "exact"}),
        AutoMethod(
            name="closed-form",
            path="pairlearn.AUCClassifier",
            fixed={"solver": "exact", "loss": "square"},
        ),
        # Rivals of the paper's tables, then others.
        RecipeMethod(name="olp", recipe="olp", tuning="once"),
        RecipeMethod(name="oam", recipe="oam_gra", tuning="once"),
        RecipeMethod(name="olp-rs1", recipe="olp_rs1", tuning="once"),
        RecipeMethod(name="oam-rs1", recipe="oam_rs1", tuning="once"),
        RecipeMethod(name="spauc", recipe="spauc", records=False),
        RecipeMethod(name="solam", recipe="solam", records=False),
        RecipeMethod(name="localized", recipe="localized", records=False),
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
