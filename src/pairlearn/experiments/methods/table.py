# SPDX-License-Identifier: BSD-3-Clause
"""All methods by name: the paper's, its rivals, and pointwise learners for comparison."""

from __future__ import annotations

from pairlearn.experiments.methods.base import EstimatorMethod, Method, powers
from pairlearn.experiments.methods.pairwise import AutoMethod, ModelMethod, RecipeMethod

_OURS = "pairlearn.AUCClassifier"
_LOGISTIC = "sklearn.linear_model.LogisticRegression"
_C = {"C": powers(-3, 3)}
_TREES = {"learning_rate": (0.03, 0.1), "max_leaf_nodes": (7, 31)}

#: Every method, and what it is in one line.
_EXPLAINED: tuple[tuple[Method, str], ...] = (
    (RecipeMethod(name="ours", recipe="previous_example", tuning="sweep"),
     "stochastic descent on pairs of an example and the previous one (the paper's Algorithm 1); "
     "step size and radius chosen by cross-validation"),
    (AutoMethod(name="linear", path=_OURS),
     "AUCClassifier() with its defaults: scales features, chooses its solver and settings itself; "
     "what pairlearn train --model linear makes"),
    (ModelMethod(name="auto", kind="auto"),
     "what pairlearn train makes: linear, curves, trees or a stack, the simplest within a standard "
     "error of the best by held-out AUC"),
    (ModelMethod(name="curves", kind="curves"),
     "AUCClassifier(features=\"hats\"): a curve for each feature"),
    (ModelMethod(name="trees", kind="trees"),
     "boosted trees of scikit-learn with their defaults; what pairlearn train --model trees makes"),
    (ModelMethod(name="stack", kind="stack"),
     "AUCStack(): a linear score, boosted trees and a forest, weighed by held-out pairs"),
    (RecipeMethod(name="sgd-pair", recipe="sgd_pair", tuning="sweep"),
     "stochastic descent on pairs drawn anew at each step; tuned like ours"),
    (AutoMethod(name="exact", path=_OURS, fixed={"solver": "exact"}),
     "AUCClassifier(solver=\"exact\"): the minimiser over all pairs, its ridge by "
     "cross-validation"),
    (AutoMethod(name="closed-form", path=_OURS, fixed={"solver": "exact", "loss": "square"}),
     "the minimiser of the square loss over all pairs, in closed form"),
    (RecipeMethod(name="olp", recipe="olp", tuning="once"),
     "online descent against a buffer of 200 past examples (Kar et al., 2013)"),
    (RecipeMethod(name="oam", recipe="oam_gra", tuning="once"),
     "online AUC maximisation with two reservoirs of 100 examples (Zhao et al., 2011)"),
    (RecipeMethod(name="olp-rs1", recipe="olp_rs1", tuning="once"),
     "OLP with a buffer of one example"),
    (RecipeMethod(name="oam-rs1", recipe="oam_rs1", tuning="once"),
     "OAM with one example of each class"),
    (RecipeMethod(name="spauc", recipe="spauc", records=False),
     "stochastic proximal AUC maximisation on class moments (Natole et al., 2018)"),
    (RecipeMethod(name="solam", recipe="solam", records=False),
     "stochastic saddle-point AUC maximisation (Ying et al., 2016)"),
    (RecipeMethod(name="localized", recipe="localized", records=False),
     "the paper's localized descent, in stages of halved length"),
    (EstimatorMethod(name="logistic", path=_LOGISTIC, grid=_C, fixed={"max_iter": 2000}),
     "logistic regression of scikit-learn, C by cross-validation"),
    (EstimatorMethod(name="linear-svc", path="sklearn.svm.LinearSVC", grid=_C,
                     fixed={"max_iter": 5000}),
     "linear support vector machine of scikit-learn, C by cross-validation"),
    (EstimatorMethod(name="sgd", path="sklearn.linear_model.SGDClassifier",
                     grid={"alpha": powers(-6, -1)}, fixed={"average": True}),
     "averaged SGDClassifier of scikit-learn, alpha by cross-validation"),
    (EstimatorMethod(name="gradient-boosting",
                     path="sklearn.ensemble.HistGradientBoostingClassifier", grid=_TREES),
     "boosted trees of scikit-learn (HistGradientBoostingClassifier), learning rate and leaves by "
     "cross-validation; not linear"),
)  # fmt: skip

#: Every method by name.
TABLE: dict[str, Method] = {method.name: method for method, _ in _EXPLAINED}


def explain(name: str) -> str:
    """Return a method in one line; for an import path, say that it is an estimator.

    >>> explain("olp-rs1")
    'OLP with a buffer of one example'
    """
    lines = (line for method, line in _EXPLAINED if method.name == name)
    return next(lines, "an estimator given by its import path")


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
