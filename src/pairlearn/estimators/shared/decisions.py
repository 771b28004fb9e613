# SPDX-License-Identifier: BSD-3-Clause
"""From scores to decisions: a threshold, labels and probabilities, all from training scores.

A pairwise loss fixes the order of the examples, not a cut and not a scale. Both are found
afterwards from scores and labels, and both are monotone in the score, so that they change neither
the order nor the AUC.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.examples import mapped_product, validate_data
from pairlearn.estimators.shared.published import published
from pairlearn.features import Identity
from pairlearn.folds import Keys
from pairlearn.metrics._inputs import ROUNDING, which_positive
from pairlearn.metrics.auc import roc_auc
from pairlearn.models.record import ArraySpec, ModelFileError
from pairlearn.register import Part, Register
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_names, check_positive

if TYPE_CHECKING:
    from pairlearn.solvers.closed_form.past import Window

THRESHOLDS = ("balanced_accuracy", "accuracy", "f1")
#: The most training scores of each class that threshold and calibration use.
SCORES_PER_CLASS = 2_500
#: A stream that continues a model keeps its decisions until it has this many of each class.
_ENOUGH = 30


def choose_threshold(
    scores: Vector,
    positive: Mask,
    weight: Vector,
    criterion: str,
    *,
    importance: tuple[float, float] = (1.0, 1.0),
) -> float:
    """Return the cut that is best by a criterion; scores above it are positive.

    It is the middle between two neighbouring scores. `importance` says how much the recall of the
    negative and of the positive class counts in the balanced accuracy.
    """
    order = np.argsort(scores, kind="stable")
    s = scores[order]
    hit = np.where(positive, weight, 0.0)[order]
    miss = np.where(positive, 0.0, weight)[order]
    # Cut k leaves the k smallest scores negative.
    false_negative = np.concatenate([[0.0], np.cumsum(hit)])
    true_negative = np.concatenate([[0.0], np.cumsum(miss)])
    n_positive, n_negative = float(hit.sum()), float(miss.sum())
    true_positive = n_positive - false_negative
    if criterion == "balanced_accuracy":
        value = importance[1] * true_positive / n_positive
        value = value + importance[0] * true_negative / n_negative
    elif criterion == "accuracy":
        value = true_positive + true_negative
    elif criterion == "f1":
        value = 2.0 * true_positive / (n_positive + true_positive + n_negative - true_negative)
    else:
        raise ValueError(f"a threshold is chosen by one of {THRESHOLDS}, got {criterion!r}.")
    possible = np.concatenate([[True], s[1:] > s[:-1], [True]])
    # the first of equals: what is better by rounding is not better
    best = int(np.argmax(possible & (value >= value[possible].max() * (1.0 - ROUNDING))))
    if best == 0:
        return float(np.nextafter(s[0], -math.inf))
    if best == len(s):
        return float(s[-1])
    middle = 0.5 * float(s[best - 1]) + 0.5 * float(s[best])  # their sum may overflow
    return middle if middle < s[best] else float(s[best - 1])


@dataclass(frozen=True)
class Sigmoid:
    """The probability 1 / (1 + exp(-(slope score + intercept))), with slope > 0."""

    slope: float
    intercept: float

    def __call__(self, scores: Vector) -> Vector:
        """Return probabilities of the positive class."""
        with np.errstate(over="ignore"):  # beyond what a probability can tell apart
            t = np.clip(self.slope * scores + self.intercept, -700.0, 700.0)
        return np.asarray(1.0 / (1.0 + np.exp(-t)))

    def moved(self, shift: float) -> Sigmoid:
        """Return the same for scores that a number is added to."""
        return Sigmoid(self.slope, self.intercept - self.slope * shift)

    def score_of_half(self) -> float:
        """Return the score of probability 1/2."""
        return -self.intercept / self.slope


def fit_sigmoid(scores: Vector, positive: Mask, weight: Vector) -> Sigmoid:
    """Fit a sigmoid by maximum likelihood with Platt's smoothed targets, by Newton's method.

    The slope is kept positive, so that probabilities are increasing in the score.
    """
    n_positive, n_negative = float(weight[positive].sum()), float(weight[~positive].sum())
    high, low = (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0)
    target = np.where(positive, high, low)
    # Scores whose squares would overflow are brought down first; a power of two changes no digit.
    shrink = 2.0**-600 if float(np.abs(scores).max()) > 1e150 else 1.0
    scores = scores * shrink
    spread = float(scores.std())
    # Scores that differ by rounding only count as equal and have no scale.
    unit = spread if spread > 1e-13 * float(np.abs(scores).max()) else 1.0
    centre = float(scores.mean())
    s = (scores - centre) / unit
    slope, intercept = 1.0, math.log((n_positive + 1.0) / (n_negative + 1.0))
    for _ in range(50):
        p = Sigmoid(slope, intercept)(s)
        gap = weight * (p - target)
        curvature = weight * p * (1.0 - p) + 1e-12
        gradient = np.array([gap @ s, gap.sum()])
        mixed = curvature @ s
        hessian = np.array([[curvature @ (s * s), mixed], [mixed, curvature.sum()]])
        hessian[0, 0] += 1e-9 * (1.0 + hessian[0, 0])
        step = np.linalg.solve(hessian, gradient)
        # Newton's step can overshoot where the sigmoid is flat.
        step *= min(1.0, 3.0 / (1e-12 + float(np.abs(step).max())))
        before, slope = slope, max(slope - float(step[0]), 1e-6)
        intercept -= float(step[1])
        # A slope at its bound does not move, however far it would like to.
        if max(abs(slope - before), abs(float(step[1]))) < 1e-10:
            break
    return Sigmoid(slope / unit * shrink, intercept - slope * centre / unit)


@dataclass(frozen=True)
class Isotonic:
    """A non-decreasing step function of the score, with linear pieces between its knots."""

    knots: Any
    values: Any

    def __call__(self, scores: Vector) -> Vector:
        """Return probabilities of the positive class."""
        # Just before a knot, a rounded line may come out above the value at the knot.
        after = np.searchsorted(self.knots, scores, side="right")
        ceiling = np.take(self.values, after, mode="clip")
        return np.asarray(np.minimum(np.interp(scores, self.knots, self.values), ceiling))

    def moved(self, shift: float) -> Isotonic:
        """Return the same for scores that a number is added to."""
        knots = self.knots + shift
        # Beside a large number, knots may be equal: the last one stays.
        last = np.append(knots[1:] > knots[:-1], True)
        return Isotonic(knots[last], self.values[last])

    def score_of_half(self) -> float:
        """Return the largest score whose probability is at most 1/2."""
        above = int(np.searchsorted(self.values, 0.5, side="right"))
        # Probabilities are constant beyond the first and the last knot.
        if above in (0, len(self.knots)):
            return float(np.finfo(np.float64).max if above else np.finfo(np.float64).min)
        low, high = self.values[above - 1], self.values[above]
        share = (0.5 - low) / (high - low)
        return float(self.knots[above - 1] + share * (self.knots[above] - self.knots[above - 1]))


def fit_isotonic(scores: Vector, positive: Mask, weight: Vector) -> Isotonic:
    """Fit a non-decreasing function of the score by weighted least squares."""
    from scipy.optimize import isotonic_regression

    knots, group = np.unique(scores, return_inverse=True)
    total = np.bincount(group, weight)
    mean = np.bincount(group, weight * positive) / total
    return Isotonic(knots, isotonic_regression(mean, weights=total).x)


#: A cut on the scores, and what turns scores into probabilities.
Decision = tuple[float, Sigmoid | Isotonic]
_CALIBRATIONS: dict[str, Callable[[Vector, Mask, Vector], Sigmoid | Isotonic]] = {
    "sigmoid": fit_sigmoid,
    "isotonic": fit_isotonic,
}
#: Threshold and calibration in a model file.
DECISION_ARRAYS: Mapping[str, ArraySpec] = {
    "threshold": ArraySpec(()),
    "sigmoid": ArraySpec((2,), required=False),
    "isotonic_scores": ArraySpec(("n_knots",), required=False, order="strictly rising"),
    "isotonic_values": ArraySpec(("n_knots",), required=False, low=0.0, high=1.0, order="rising"),
}


def pack_decision(decision: Decision) -> dict[str, NDArray[Any]]:
    """Return threshold and calibration as arrays."""
    threshold, calibrator = decision
    if isinstance(calibrator, Sigmoid):
        found = {"sigmoid": np.array([calibrator.slope, calibrator.intercept])}
    else:
        found = {"isotonic_scores": calibrator.knots, "isotonic_values": calibrator.values}
    return {"threshold": np.array(threshold), **found}


def unpack_decision(arrays: Mapping[str, NDArray[Any]]) -> Decision:
    """Return threshold and calibration from the arrays of a file or of a saved stream."""
    threshold = float(arrays["threshold"])
    if "sigmoid" in arrays and arrays["sigmoid"][0] >= 0.0:
        return threshold, Sigmoid(*arrays["sigmoid"].tolist())
    if "sigmoid" in arrays:
        raise ModelFileError("its probabilities would fall with the score; save the model again.")
    if len(arrays.get("isotonic_scores", ())) and "isotonic_values" in arrays:
        return threshold, Isotonic(arrays["isotonic_scores"], arrays["isotonic_values"])
    raise ModelFileError("it holds no calibration; save the fitted model again.")


@dataclass(frozen=True, eq=False)
class Scored:
    """Training scores with labels and weights; how much the recall of each class counts."""

    calibration: str
    scores: Vector
    positive: Mask
    weight: Vector
    importance: tuple[float, float]

    @cached_property
    def calibrator(self) -> Sigmoid | Isotonic:
        """What turns scores into probabilities."""
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
    #: Whether a number added to all scores is added to the cut, too.
    moves: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.calibration, str) or self.calibration not in _CALIBRATIONS:
            raise ValueError(
                f'calibration must be "sigmoid" or "isotonic", got {self.calibration!r}.'
            )

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
    def moves(self) -> bool:  # type: ignore[override]
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
    moves = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("false_positive", self.false_positive)
        check_positive("false_negative", self.false_negative)

    def cut(self, seen: Scored) -> float:
        """Return the cheapest cut."""
        from pairlearn.metrics.costs import cheapest_threshold

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


class Undecided:
    """Scores of a stream, from which threshold and calibration are found when they are needed.

    If they are few, `before` is kept: the decisions of the model that the stream continues. `shift`
    is added to all scores. Unless `weight` weighs classes, their weights multiply it here.
    """

    def __init__(
        self,
        scores: Vector,
        positive: Mask,
        weight: Vector,
        before: Decision | None = None,
        *,
        shift: float = 0.0,
        weighs_classes: bool = True,
    ) -> None:
        self._find: Callable[[], Window] = lambda: (scores, positive, weight)
        self._shift, self._weighs_classes = shift, weighs_classes
        few = min(np.count_nonzero(positive), np.count_nonzero(~positive)) < _ENOUGH
        self._before = before if few else None
        # What a rule sees, and its threshold once it is known; shared where only the shift differs.
        self._known: dict[Any, tuple[Scored, list[float]]] = {}

    @classmethod
    def later(cls, find: Callable[[], Window], shift: float) -> Self:
        """Return what finds its scores when they are needed, too; they do not weigh classes."""
        nothing = np.empty(0)
        made = cls(nothing, nothing > 0.0, nothing, shift=shift, weighs_classes=False)
        made._find = find
        return made

    def moved(self, shift: float) -> Self:
        """Return the same with another shift."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), _shift=shift)
        return twin

    def _seen(self, rule: DecisionRule, importance: tuple[float, float]) -> Any:
        if (rule, importance) not in self._known:
            scores, positive, weight = self._find()
            if not self._weighs_classes:
                weight = _by_class(weight, positive, importance)
            self._known.clear()
            scored = Scored(rule.calibration, scores, positive, weight, importance)
            self._known[rule, importance] = scored, []
        return self._known[rule, importance]

    def cut(self, rule: DecisionRule, importance: tuple[float, float]) -> float:
        """Return the threshold."""
        if self._before is not None:
            return self._before[0]
        seen, threshold = self._seen(rule, importance)
        if not (rule.moves and seen.knows_both):
            return rule.threshold(replace(seen, scores=seen.scores + self._shift))
        if not threshold:
            threshold.append(rule.threshold(seen))
        return float(threshold[0] + self._shift)

    def calibrator(self, rule: DecisionRule, importance: tuple[float, float]) -> Sigmoid | Isotonic:
        """Return what turns scores into probabilities."""
        if self._before is not None:
            return self._before[1]
        seen, _ = self._seen(rule, importance)
        found = rule.calibrator(seen)
        return found.moved(self._shift) if seen.knows_both else found

    def __getstate__(self) -> dict[str, Any]:
        # What finds the scores has all that a stream kept: a copy and a file have the scores.
        return {**vars(self), "_find": self._find(), "_known": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        window = state["_find"]
        vars(self).update({**state, "_find": lambda: window})


def _by_class(weight: Vector, positive: Mask, importance: tuple[float, float]) -> Vector:
    """Return weights times those of their classes; their sum stays."""
    if importance[0] == importance[1]:
        return weight
    weight = weight if len(weight) else np.ones(len(positive))
    found = weight * np.where(positive, importance[1], importance[0])
    total = float(found.sum())
    return np.asarray(found * (float(weight.sum()) / total)) if total > 0.0 else found


class ScoreDecisions:
    """A mixin: labels and probabilities from scores ``X @ coef_[0]``.

    `_decide_from` sets the decision after a fit; a stream sets an `Undecided` after each chunk.
    """

    decision: float | str | DecisionRule
    class_weight: Any
    coef_: Any
    classes_: Any
    _decision: Any

    def _decide_from(
        self, rows: Rows, signs: NDArray[np.int8], example_weight: Vector, keys: Keys
    ) -> None:
        """Set threshold and calibration from training scores; `signs` are the labels."""
        keep, weight = [], []
        for sign in (-1, 1):
            own = signs == sign
            count = int(np.count_nonzero(own))
            many = count > SCORES_PER_CLASS
            members = keys.first(own, SCORES_PER_CLASS) if many else np.flatnonzero(own)
            keep.append(members)
            weight.append(np.full(len(members), count / max(len(members), 1)))
        index, weights = np.concatenate(keep), np.concatenate(weight)
        if len(example_weight):
            weights = weights * example_weight[index] / example_weight.mean()
        part = rows.take(index)
        if isinstance(part, DenseRows):
            # In single precision, rounding would hide the scores of data far from zero.
            part = DenseRows(part.X.astype(np.float64, copy=False))
        model = published(self)
        features, coef = model.get("features_") or Identity(), model["coef_"][0]
        plain = isinstance(features, Identity)
        if plain:
            scores = part.scores(coef)
        else:
            from pairlearn.solvers.closed_form.mapped_moments import score_mapped

            scores = score_mapped(features, part, coef)
        self._decision = self._decide(scores, signs[index] > 0, weights)

    def _decide(self, scores: Vector, positive: Mask, weight: Vector) -> Decision:
        return as_rule(self.decision).decide(scores, positive, weight, self._importance())

    def _decided(self) -> Decision:
        return self.threshold_, self._calibrator

    @property
    def threshold_(self) -> float:
        """The cut on ``X @ coef_[0]``."""
        decision = _of_one_score(self._decision)
        if isinstance(decision, Undecided):  # found from scores alone: a cut needs no calibration
            return decision.cut(as_rule(self.decision), self._importance())
        return decision[0]

    @property
    def _calibrator(self) -> Sigmoid | Isotonic:
        decision = _of_one_score(self._decision)
        if isinstance(decision, Undecided):
            return decision.calibrator(as_rule(self.decision), self._importance())
        return decision[1]

    def _importance(self) -> tuple[float, float]:
        """How much the recall of each class counts in the balanced accuracy."""
        if not isinstance(self.class_weight, Mapping):
            return (1.0, 1.0)
        negative, positive = (float(self.class_weight.get(c, 1.0)) for c in self.classes_.tolist())
        return (negative, positive)

    @property
    def intercept_(self) -> Vector:
        """Minus the threshold."""
        return np.array([-self.threshold_])

    def _published(self) -> Mapping[str, Any]:
        """Return the fitted attributes; refuse a model that has none."""
        check_is_fitted(self, "coef_")
        return published(self)

    def _scores(self, X: Any) -> Vector:
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return mapped_product(getattr(self, "features_", None), X, self.coef_[0])

    def decision_function(self, X: Any) -> Vector:
        """Return scores minus the threshold, one for each of the n_samples rows of `X`.

        They are positive where `predict` says positive; the order is that of the scores.
        """
        self._published()
        return self._scores(X) - self.threshold_

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted labels of the rows of `X`."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(np.intp)])

    def predict_proba(self, X: Any) -> Vector:
        """Return calibrated probabilities of ``classes_``, of shape (n_samples, 2).

        They are increasing in the score.
        """
        self._published()
        positive = self._calibrator(self._scores(X))
        return np.column_stack([1.0 - positive, positive])

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the AUC, which is what the classifier maximises (not the accuracy).

        `y` holds both labels; `sample_weight` may weigh the examples.
        """
        decision = self.decision_function(X)
        check_names("y", y, "label")
        return roc_auc(which_positive(y, self.classes_), decision, sample_weight=sample_weight)


def _of_one_score(decision: Decision | Undecided | None) -> Decision | Undecided:
    if decision is None:
        raise AttributeError("more than two classes have no threshold or calibration of one score.")
    return decision
