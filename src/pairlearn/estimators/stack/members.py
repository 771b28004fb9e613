# SPDX-License-Identifier: BSD-3-Clause
"""The members of a stack: which there are, what they are trained on, and their scores.

A member is any classifier of two classes with scikit-learn's interface. It sees labels 0 and 1. A
member that takes no missing values sees filled rows: the median of the feature, and an indicator
for each feature that had missing values in training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from pairlearn.estimators.auc.classifier import AUCClassifier
from pairlearn.estimators.stack.trees import TreeScores
from pairlearn.folds import Fold
from pairlearn.typing import Places, Vector

#: A member and its name.
Named = tuple[str, Any]
#: Rows as they are, and filled, for members that take no missing values.
Tables = tuple[NDArray[Any], NDArray[Any]]
#: The name of the stack among the held-out AUCs of its members.
STACK = "stack"
#: Trees of the forest among the usual members. More of them cost more than they bring.
_TREES = 60
#: Rows that a tree of the forest sees. Its nodes grow with them, and a model file with its nodes.
_FOREST_ROWS = 20_000
#: Up to this many numbers are learned by one thread of OpenMP: on a busy machine more of them wait
#: for each other most of the time.
_ALONE = 100_000


def nobody(name: str) -> None:
    """Be told that a member has been trained, and do nothing."""


def usual_members(rng: np.random.Generator, n: int) -> list[Named]:
    """Return the members of "auto" for n rows: a linear score, boosted trees and a forest."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

    seeds = [int(seed) for seed in rng.integers(2**31, size=3)]
    few = _FOREST_ROWS if n > _FOREST_ROWS else None
    drawn: dict[str, Any] = {"oob_score": True, "random_state": seeds[2]}
    return [
        # Its ridge is chosen on three folds: it is trained again for each fold.
        ("linear", AUCClassifier(validation_fraction=1 / 3, random_state=seeds[0])),
        ("boosting", HistGradientBoostingClassifier(random_state=seeds[1])),
        ("forest", RandomForestClassifier(_TREES, max_samples=few, **drawn)),
    ]


def check_members(members: Any, taken: Sequence[str]) -> list[Named]:
    """Return given members as a list; refuse what is no list of names and classifiers."""
    rule = 'members must be "auto" or a list of (name, classifier)'
    if isinstance(members, str) or not isinstance(members, Sequence) or not len(members):
        raise ValueError(f"{rule}, got {members!r}.")
    found: dict[str, Any] = {}
    for entry in members:
        if not (isinstance(entry, Sequence) and len(entry) == 2 and isinstance(entry[0], str)):
            raise ValueError(f"{rule}; {entry!r} is no pair of a name and a classifier.")
        name, member = entry
        if not name or "__" in name or name == STACK or name in taken:
            raise ValueError(
                f"the name {name!r} of a member is empty, contains '__', or means something else "
                f"here ({', '.join([STACK, *taken])}); choose another."
            )
        if name in found:
            raise ValueError(f"two members are named {name!r}; give each a name of its own.")
        scores = hasattr(member, "decision_function") or hasattr(member, "predict_proba")
        if isinstance(member, type) or not (hasattr(member, "fit") and scores):
            raise ValueError(
                f"member {name!r} is {member!r}; it needs fit, and decision_function or "
                "predict_proba: pass a classifier, an object and not a class."
            )
        if type(member).__name__ == "AUCStack":
            raise ValueError(f"member {name!r} is a stack; give its members to this stack instead.")
        found[name] = member
    return list(found.items())


def check_weighable(members: Sequence[Named]) -> None:
    """Refuse members that cannot be trained with weights."""
    for name, member in members:
        if not has_fit_parameter(member, "sample_weight"):
            raise ValueError(
                f"sample_weight was given, but the fit of member {name!r} "
                f"({type(member).__name__}) does not take it; leave the weights out, or take "
                "members that are trained with weights."
            )


@dataclass(frozen=True, eq=False)
class Filling:
    """Medians for missing values, and the features whose gaps become columns of their own."""

    medians: Vector
    flagged: Places

    @classmethod
    def of(cls, X: NDArray[Any]) -> Filling:
        """Return the filling of training rows; a feature without any value is filled with 0."""
        missing = np.isnan(X)
        medians = np.zeros(X.shape[1])
        known = ~missing.all(axis=0)
        medians[known] = np.nanmedian(X[:, known].astype(np.float64, copy=False), axis=0)
        return cls(medians, np.flatnonzero(missing.any(axis=0)))

    def apply(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return rows without gaps, followed by the indicators."""
        missing = np.isnan(X)
        if not len(self.flagged) and not missing.any():
            return X
        filled = np.where(missing, self.medians.astype(X.dtype), X)
        return np.ascontiguousarray(np.hstack([filled, missing[:, self.flagged].astype(X.dtype)]))


def takes_gaps(member: Any) -> bool:
    """Tell whether a classifier says that it takes missing values itself."""
    if isinstance(member, TreeScores):
        return member.takes_gaps
    if isinstance(member, Pipeline):  # a pipeline does not say it; the first step that matters does
        for _, step in member.steps:
            # A scaler takes gaps and leaves them to the next step.
            if step is None or step == "passthrough":
                continue
            if not (isinstance(step, OneToOneFeatureMixin) and takes_gaps(step)):
                return takes_gaps(step)
        return False
    return bool(get_tags(member).input_tags.allow_nan)


def fit_member(
    named: Named,
    tables: Tables,
    y: NDArray[np.int64],
    weight: Vector,
    told: Callable[[str], object] = nobody,
    index: Any = slice(None),
) -> Any:
    """Return a copy of a member that is trained on all rows, or on some; tell its name then."""
    name, member = named
    X = tables[0] if takes_gaps(member) else tables[1]
    given = {"sample_weight": weight[index]} if len(weight) else {}
    with _inside(name, X):
        fitted = clone(member).fit(X[index], y[index], **given)
    told(name)
    return fitted


def member_scores(named: Named, tables: Tables, index: Any = slice(None)) -> Vector:
    """Return the scores of a fitted member: its decision function, or else its probabilities."""
    name, member = named
    X = (tables[0] if takes_gaps(member) else tables[1])[index]
    with _inside(name, X):
        if hasattr(member, "decision_function"):
            scores = np.asarray(member.decision_function(X), dtype=np.float64)
        else:
            scores = np.asarray(member.predict_proba(X), dtype=np.float64)
            scores = scores[:, 1] if scores.ndim == 2 and scores.shape[1] == 2 else scores
    if scores.shape != (len(X),) or not np.isfinite(scores).all():
        raise ValueError(
            f"member {name!r} gave scores of shape {scores.shape} for {len(X)} rows, or scores "
            "that are not finite; a stack needs one finite score for each row."
        )
    return scores


def held_out_scores(
    named: Named,
    tables: Tables,
    y: NDArray[np.int64],
    weight: Vector,
    split: Fold,
    told: Callable[[str], object] = nobody,
) -> Vector:
    """Return scores of held-out rows by a member, in units of its training scores."""
    rest, held = split
    fitted = named[0], fit_member(named, tables, y, weight, told, rest)
    centre, spread = unit_of(member_scores(fitted, tables, rest))
    if spread == 0.0:  # The member has learned nothing; rounding must not look like a score.
        return np.zeros(len(held))
    return np.asarray((member_scores(fitted, tables, held) - centre) / spread)


def unit_of(scores: Vector) -> tuple[float, float]:
    """Return mean and standard deviation; 0 for scores that differ by rounding only."""
    centre, spread = float(scores.mean()), float(scores.std())
    return centre, spread if spread > 1e-13 * float(np.abs(scores).max()) else 0.0


def out_of_bag(member: Any) -> Vector | None:
    """Return the scores of training rows by the trees that did not see them, if all rows have one.

    Where every tree has seen some row, the trees are so few that the scores of other rows come from
    a handful of them, and are far worse than those of the whole forest.
    """
    scores = np.asarray(getattr(member, "oob_decision_function_", None), dtype=np.float64)
    if scores.ndim != 2 or scores.shape[1] != 2:
        return None
    # Of a row that every tree has seen a forest says 0 for both classes, bagging NaN.
    known = np.isfinite(scores).all(axis=1) & scores.any(axis=1)
    return scores[:, 1] if known.all() else None


@contextmanager
def _inside(name: str, X: NDArray[Any]) -> Iterator[None]:
    """Let one thread work on a small table; add the name of the member to errors."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    try:
        with threadpool_limits(1, user_api="openmp") if X.size <= _ALONE else nullcontext():
            yield
    except Exception as error:
        error.add_note(f"This is about member {name!r} of the stack.")
        raise
