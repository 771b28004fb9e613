# SPDX-License-Identifier: BSD-3-Clause
"""Decision rules: the threshold on the scores of a classifier, and their calibration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from pairlearn.estimators.shared.calibration import (
    THRESHOLDS,
    Isotonic,
    Sigmoid,
    choose_threshold,
    fit_isotonic,
    fit_sigmoid,
)
from pairlearn.metrics.costs import cheapest_threshold
from pairlearn.register import Part, Register
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_positive

#: A cut on the scores, and what turns scores into probabilities.
Decision = tuple[float, Sigmoid | Isotonic]
_CALIBRATIONS: dict[str, Callable[[Vector, Mask, Vector], Sigmoid | Isotonic]] = {
    "sigmoid": fit_sigmoid,
    "isotonic": fit_isotonic,
}


@dataclass(frozen=True, eq=False)
class Scored:
    """Training scores with labels and weights, their calibration, and the importance of recalls."""

    calibration: str
    scores: Vector
    positive: Mask
    weight: Vector
    importance: tuple[float, float]

    @cached_property
    def calibrator(self) -> Sigmoid | Isotonic:
        """What turns scores into probabilities, found when it is asked for: most cuts need none."""
        return _CALIBRATIONS[self.calibration](self.scores, self.positive, self.weight)

    @cached_property
    def knows_both(self) -> bool:
        """Whether both classes have a weight."""
        return bool(min(self.weight[self.positive].sum(), self.weight[~self.positive].sum()) > 0)


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
        if not isinstance(self.calibration, str) or self.calibration not in _CALIBRATIONS:
            raise ValueError(
                f'calibration must be "sigmoid" or "isotonic", got {self.calibration!r}.'
            )

    @property
    def moves(self) -> bool:
        """Whether a number added to all scores is added to the cut, too."""
        return False

    @abstractmethod
    def cut(self, seen: Scored) -> float:
        """Return the threshold; scores above it are predicted positive."""

    def threshold(self, seen: Scored) -> float:
        """Return the cut; where only one class is known, labels go by the sign of the score."""
        return self.cut(seen) if seen.knows_both else self.default_cut

    def calibrator(self, seen: Scored) -> Sigmoid | Isotonic:
        """Return what turns scores into probabilities; see `threshold` for a single class."""
        return seen.calibrator if seen.knows_both else Sigmoid(1.0, -self.default_cut)

    def decide(
        self, scores: Vector, positive: Mask, weight: Vector, importance: tuple[float, float]
    ) -> Decision:
        """Return threshold and calibration; `importance` weighs the recalls of both classes."""
        seen = Scored(self.calibration, scores, positive, weight, importance)
        return self.threshold(seen), self.calibrator(seen)


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
        elif isinstance(self.at, (bool, np.bool_)) or not isinstance(self.at, Real):
            raise TypeError(f"a threshold is a number or one of {names}, got {self.at!r}.")
        elif not np.isfinite(float(self.at)):
            raise ValueError(f"a threshold must be a finite number, got {self.at!r}.")

    @property
    def default_cut(self) -> float:  # type: ignore[override]
        """The given cut, else 0."""
        return 0.0 if isinstance(self.at, str) else float(self.at)

    @property
    def moves(self) -> bool:
        """Whether the cut is not a given number."""
        return isinstance(self.at, str)

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

    @property
    def moves(self) -> bool:
        """The cheapest cut lies among the scores."""
        return True

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
