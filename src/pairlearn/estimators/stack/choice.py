# SPDX-License-Identifier: BSD-3-Clause
"""The kind of model for a table: linear, curves, trees or a stack, chosen on held-out folds.

All kinds are scored on the same held-out examples. The simplest kind within one standard error of
the best is taken. It is the error of the difference of two AUCs on the same examples (DeLong). So
a linear model stays where nothing else is better by a standard error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.stack.blend import HeldOutScores
from pairlearn.estimators.stack.classifier import AUCStack
from pairlearn.estimators.stack.members import STACK, Filling, held_out_scores, nobody
from pairlearn.shown import Shown, Table, number
from pairlearn.typing import Places
from pairlearn.validation import warn_caller

#: The kinds, from the simplest on.
KINDS = ("linear", "curves", "trees", "stack")
#: The member of the stack that judges a kind; curves are judged by themselves.
_MEMBER = {"linear": "linear", "trees": "boosting", "stack": STACK}
#: Examples of each class that a choice looks at. More would hardly change it.
_MOST_OF_A_CLASS = 10_000
#: Fewer examples of a class than this tell nothing about models.
_FEWEST_OF_A_CLASS = 10
#: Trainings of a choice: three members on all rows, two of them and the curves on three folds.
N_TRAININGS = 3 + 3 * 3


def make_model(kind: str, seed: int | None, **settings: Any) -> Any:
    """Return a model of a kind, not fitted.

    Boosted trees are a stack of one member, which adds a threshold, probabilities, and a held-out
    AUC, and has a safe file.

    Examples
    --------
    >>> make_model("curves", 0)
    AUCClassifier(features='hats', random_state=0)
    """
    if kind not in KINDS:
        raise ValueError(f"a kind of model is one of {', '.join(KINDS)}; got {kind!r}.")
    if kind == "linear":
        return AUCClassifier(random_state=seed, **settings)
    if kind == "curves":
        return AUCClassifier(features="hats", random_state=seed, **settings)
    if kind == "stack":
        return AUCStack(random_state=seed, **settings)
    from sklearn.ensemble import HistGradientBoostingClassifier

    boosting = HistGradientBoostingClassifier(random_state=seed)
    return AUCStack([("boosting", boosting)], random_state=seed, **settings)


@dataclass(frozen=True)
class JudgedModel:
    """A kind of model, its held-out AUC, and the error of its difference from the best kind."""

    kind: str
    auc: float
    standard_error: float


@dataclass(frozen=True)
class ModelChoice(Shown):
    """The kind that a choice took, all kinds from the simplest on, and the rows looked at.

    Examples
    --------
    >>> judged = JudgedModel("linear", 0.77, 0.01), JudgedModel("stack", 0.812, 0.0)
    >>> print(ModelChoice("stack", judged, 500).line)
    linear .770, stack .812: stack
    """

    kind: str
    judged: tuple[JudgedModel, ...]
    n_rows: int

    @property
    def line(self) -> str:
        """The evidence in one line."""
        told = (f"{one.kind} {one.auc:.3f}".replace(" 0.", " .") for one in self.judged)
        return f"{', '.join(told)}: {self.kind}"

    @property
    def aucs(self) -> dict[str, float]:
        """The held-out AUC of each kind."""
        return {one.kind: one.auc for one in self.judged}

    def shown_table(self) -> Table:
        """Return all kinds with their held-out AUC."""
        body = [(one.kind, number(one.auc), number(one.standard_error)) for one in self.judged]
        return ("", "model", "held-out AUC", "error to the best"), [
            ("chosen" if line[0] == self.kind else "", *line) for line in body
        ]


def why_linear(X: Any, y: NDArray[Any]) -> str:
    """Return why nothing but a linear model suits examples; empty if kinds can be compared.

    Examples
    --------
    >>> why_linear(np.zeros((20, 1)), np.arange(20) < 3)
    '3 rows of a class are too few to compare models'
    """
    if hasattr(X, "nnz"):
        return f"the {X.shape[1]} features are sparse, and trees take dense ones"
    n_positive = int((y == y.max()).sum())
    rarer = min(n_positive, len(y) - n_positive)
    if rarer < _FEWEST_OF_A_CLASS:
        return f"{rarer} rows of a class are too few to compare models"
    return ""


def choose_model(
    X: NDArray[Any],
    y: NDArray[Any],
    *,
    seed: int | None,
    settings: Mapping[str, Any] | None = None,
    told: Callable[[str], object] = nobody,
) -> tuple[ModelChoice, Any]:
    """Return the kind of model that suits a table, with the evidence, and a model of it.

    `y` has two kinds of labels, to which `why_linear` must have no objection; `settings` are
    parameters that all kinds have, such as `decision`. The kinds are judged on at most 10,000
    examples of each class, and the model is fitted to all. `told` is called with the name of what
    was trained, `N_TRAININGS` times before the kind is known.
    """
    given = dict(settings or {})
    reason = why_linear(X, np.asarray(y))
    if reason:
        raise ValueError(f"{reason}; use AUCClassifier.")
    index = _sample(np.asarray(y) == np.max(y), seed)
    part, labels = (X, y) if len(index) == len(y) else (X[index], y[index])
    stack = make_model("stack", seed, **given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        members = stack.fit_told(part, labels, told=told)
        curves = _curves(part, members, make_model("curves", seed, **given), told)
    scores = {kind: members.scores.get(_MEMBER.get(kind, ""), curves) for kind in KINDS}
    choice = judge(HeldOutScores(members.positive, members.folds, scores))
    if choice.kind == "stack" and len(index) == len(y):
        # Any other model gives its own warnings.
        for one in caught:
            warn_caller(str(one.message), one.category)
        return choice, stack
    return choice, make_model(choice.kind, seed, **given).fit(X, y)


def judge(held_out: HeldOutScores) -> ModelChoice:
    """Return the simplest kind within a standard error of the best, by held-out scores.

    The scores are those of the kinds, from the simplest on.
    """
    aucs = {name: interval.auc for name, interval in held_out.intervals().items()}
    best = max(aucs, key=aucs.__getitem__)
    judged = tuple(
        JudgedModel(kind, auc, 0.0 if kind == best else held_out.error_of_difference(kind, best))
        for kind, auc in aucs.items()
    )
    chosen = next(one.kind for one in judged if one.auc >= aucs[best] - one.standard_error)
    return ModelChoice(chosen, judged, len(held_out.positive))


def _sample(positive: NDArray[np.bool_], seed: int | None) -> Places:
    """Return the examples that a choice looks at, sorted: all, or some of a large class."""
    rng = np.random.default_rng(seed)
    groups = [np.flatnonzero(own) for own in (positive, ~positive)]
    kept = [
        own if len(own) <= _MOST_OF_A_CLASS else rng.choice(own, _MOST_OF_A_CLASS, replace=False)
        for own in groups
    ]
    return np.sort(np.concatenate(kept))


def _curves(
    X: NDArray[Any], members: HeldOutScores, model: AUCClassifier, told: Callable[[str], object]
) -> NDArray[np.float64]:
    """Return scores of the folds of a stack by curves that had not seen them."""
    y = members.positive.astype(np.int64)
    tables = X, Filling.of(X).apply(X)
    found, everything = np.empty(len(y)), np.arange(len(y))
    for held in members.folds:
        split = np.delete(everything, held), held
        found[held] = held_out_scores(("curves", model), tables, y, np.empty(0), split, told)
    return found
