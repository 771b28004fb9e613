# SPDX-License-Identifier: BSD-3-Clause
"""All methods by name: the paper's, its rivals, and pointwise learners for comparison."""

from __future__ import annotations

from pairlearn.experiments.methods.base import EstimatorMethod, Method, powers
from pairlearn.experiments.methods.kinds import ModelMethod
from pairlearn.experiments.methods.pairwise import AutoMethod, RecipeMethod

#: Every method by name.
TABLE: dict[str, Method] = {
    method.name: method
    for method in (
        # The paper's method, its untuned form, its nearest rival, the minimisers over all pairs.
        RecipeMethod(name="ours", recipe="previous_example", tuning="sweep"),
        # The kinds of models that `train` makes; "auto" is the one that it takes by itself.
        AutoMethod(name="linear", path="pairlearn.AUCClassifier"),
        *(ModelMethod(name=kind, kind=kind) for kind in ("auto", "curves", "trees", "stack")),
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


#: Each method in one line, for readers who do not know the names.
_EXPLAINED = {
    "ours": "stochastic descent on pairs of an example and the previous one (the paper's Algorithm "
            "1); step size and radius chosen by cross-validation",
    "linear": "AUCClassifier() with its defaults: scales features, chooses its solver and settings "
              "itself; what pairlearn train --model linear makes",
    "auto": "what pairlearn train makes: linear, curves, trees or a stack, the simplest within a "
            "standard error of the best by held-out AUC",
    "curves": "AUCClassifier(features=\"hats\"): a curve for each feature",
    "trees": "boosted trees of scikit-learn with their defaults; what pairlearn train --model "
             "trees makes",
    "stack": "AUCStack(): a linear score, boosted trees and a forest, weighed by held-out pairs",
    "sgd-pair": "stochastic descent on pairs drawn anew at each step; tuned like ours",
    "exact": "AUCClassifier(solver=\"exact\"): the minimiser over all pairs, its ridge by "
             "cross-validation",
    "closed-form": "the minimiser of the square loss over all pairs, in closed form",
    "olp": "online descent against a buffer of 200 past examples (Kar et al., 2013)",
    "oam": "online AUC maximisation with two reservoirs of 100 examples (Zhao et al., 2011)",
    "olp-rs1": "OLP with a buffer of one example",
    "oam-rs1": "OAM with one example of each class",
    "spauc": "stochastic proximal AUC maximisation on class moments (Natole et al., 2018)",
    "solam": "stochastic saddle-point AUC maximisation (Ying et al., 2016)",
    "localized": "the paper's localized descent, in stages of halved length",
    "logistic": "logistic regression of scikit-learn, C by cross-validation",
    "linear-svc": "linear support vector machine of scikit-learn, C by cross-validation",
    "sgd": "averaged SGDClassifier of scikit-learn, alpha by cross-validation",
    "gradient-boosting": "boosted trees of scikit-learn (HistGradientBoostingClassifier), learning "
                         "rate and leaves by cross-validation; not linear",
}  # fmt: skip


def explain(name: str) -> str:
    """Return a method in one line; for an import path, say that it is an estimator.

    Examples
    --------
    >>> explain("olp-rs1")
    'OLP with a buffer of one example'
    """
    return _EXPLAINED.get(name, "an estimator given by its import path")


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
