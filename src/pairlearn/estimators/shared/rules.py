# SPDX-License-Identifier: BSD-3-Clause
"""Decision rules: the threshold on the scores of a classifier, and their calibration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pairlearn.estimators.shared.calibration import (
    THRESHOLDS,
    Isotonic,
    Sigmoid,
    choose_threshold,
    fit_isotonic,
    fit_sigmoid,
)
from pairlearn.metrics import cheapest_threshold
from pairlearn.register import Part, Register
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_positive

#: A cut on the scores, and what turns scores into probabilities.
Decision = tuple[float, Sigmoid | Isotonic]
_CALIBRATIONS: dict[str, Callable[[Vector, Mask, Vector], Sigmoid | Isotonic]] = {
    "sigmoid": fit_sigmoid,
    "isotonic": fit_isotonic,
}


class Scored(NamedTuple):
    """Training scores with labels and weights, their calibration, and the importance of recalls."""

    calibrator: Sigmoid | Isotonic
    scores: Vector
    positive: Mask
    weight: Vector
    importance: tuple[float, float]


class DecisionRule(Part, ABC):
    """How scores become labels and probabilities, found from training scores.

    Examples
    --------
    >>> scores, positive = np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, False, True, True])
    >>> Threshold("accuracy").decide(scores, positive, np.ones(4), (1.0, 1.0))[0]
    1.5
    """

    calibration: str
    #: The cut where only one class is known so far.
    default_cut: float = 0.0

    def __post_init__(self) -> None:
        if self.calibration not in _CALIBRATIONS:
            raise ValueError(
                f'calibration must be "sigmoid" or "isotonic", got {self.calibration!r}.'
            )

    @abstractmethod
    def cut(self, seen: Scored) -> float:
        """Return the threshold; scores above it are predicted positive."""

    def decide(
        self, scores: Vector, positive: Mask, weight: Vector, importance: tuple[float, float]
    ) -> Decision:
        """Return threshold and calibration; `importance` weighs the recalls of both classes."""
        if not min(weight[positive].sum(), weight[~positive].sum()) > 0:
            # Only one class so far: decide by the sign of the score.
            return self.default_cut, Sigmoid(1.0, -self.default_cut)
        calibrator = _CALIBRATIONS[self.calibration](scores, positive, weight)
        return self.cut(Scored(calibrator, scores, positive, weight, importance)), calibrator


DECISIONS: Register[DecisionRule] = Register("decision", DecisionRule)


@DECISIONS.add("balanced_accuracy")
@dataclass(frozen=True, repr=False)
class Threshold(DecisionRule):
    """A cut that is best by a criterion on training scores, or a given one.

    Parameters
    ----------
    at : float or str, default="balanced_accuracy"
        "balanced_accuracy", "accuracy" or "f1" is maximised on training scores; "probability" cuts
        where `predict_proba` crosses 1/2; a number is the cut itself.
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        How `predict_proba` maps scores to probabilities: monotone, fitted on training scores.

    Examples
    --------
    >>> Threshold("f1")
    Threshold(at='f1')
    """

    at: float | str = "balanced_accuracy"
    calibration: str = "sigmoid"

    def __post_init__(self) -> None:
        super().__post_init__()
        names = (*THRESHOLDS, "probability")
        if isinstance(self.at, str):
            if self.at not in names:
                raise ValueError(f"a threshold is a number or one of {names}, got {self.at!r}.")
        elif not np.isfinite(float(self.at)):
            raise ValueError(f"a threshold must be a finite number, got {self.at!r}.")

    @property
    def default_cut(self) -> float:  # type: ignore[override]
        """The given cut, else 0."""
        return 0.0 if isinstance(self.at, str) else float(self.at)

    def cut(self, seen: Scored) -> float:
        """Return the best cut by the criterion, or the given one."""
        if not isinstance(self.at, str):
            return float(self.at)
        if self.at == "probability":
            return seen.calibrator.score_of_half()
        return choose_threshold(
            seen.scores, seen.positive, seen.weight, self.at, importance=seen.importance
        )


for _name in ("accuracy", "f1", "probability"):
    DECISIONS.add(_name, lambda _name=_name: Threshold(_name))(Threshold)


@DECISIONS.add()
@dataclass(frozen=True, repr=False)
class Costs(DecisionRule):
    """The cut with the lowest total cost on training scores.

    Parameters
    ----------
    false_positive, false_negative : float
        Cost of each mistake. Weights of examples multiply the costs.
    calibration : {"sigmoid", "isotonic"}, default="sigmoid"
        As of `Threshold`.

    Examples
    --------
    >>> Costs(false_positive=1.0, false_negative=20.0)
    Costs(false_positive=1.0, false_negative=20.0)
    """

    false_positive: float
    false_negative: float
    calibration: str = "sigmoid"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("false_positive", self.false_positive)
        check_positive("false_negative", self.false_negative)

    def cut(self, seen: Scored) -> float:
        """Return the cheapest cut."""
        return cheapest_threshold(
            seen.positive,
            seen.scores,
            false_positive=float(self.false_positive),
            false_negative=float(self.false_negative),
            sample_weight=seen.weight,
        )


def as_rule(decision: Any) -> DecisionRule:
    """Return the rule that a parameter names, or the given one; a number is a cut."""
    if isinstance(decision, (int, float, np.number)) and not isinstance(decision, bool):
        return Threshold(float(decision))
    return DECISIONS.make(decision)
