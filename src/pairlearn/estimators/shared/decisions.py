# SPDX-License-Identifier: BSD-3-Clause
"""From scores to decisions: threshold, labels, probabilities, and their storage."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.calibration import Isotonic, Sigmoid
from pairlearn.estimators.shared.examples import mapped_product, validate_data
from pairlearn.estimators.shared.published import published
from pairlearn.estimators.shared.rules import Decision, DecisionRule, Scored, as_rule
from pairlearn.features import Identity
from pairlearn.folds import Keys
from pairlearn.metrics._inputs import which_positive
from pairlearn.metrics.auc import roc_auc
from pairlearn.models.record import ModelFileError
from pairlearn.models.registry import ArraySpec
from pairlearn.restored import restored_array
from pairlearn.solvers.closed_form.mapped_moments import score_mapped
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_names

if TYPE_CHECKING:
    from pairlearn.solvers.closed_form.stream import Window

#: The most training scores of each class that threshold and calibration use.
SCORES_PER_CLASS = 2_500
#: A stream that continues a model keeps its decisions until it has this many of each class.
_ENOUGH = 30


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


def restored_decision(state: Mapping[str, Any]) -> Decision:
    """Return threshold and calibration from the state of a stream."""
    arrays = {"threshold": restored_array(state, "threshold", ())}
    for name, size in (("sigmoid", 2), ("isotonic_scores", None), ("isotonic_values", None)):
        if name in state:
            arrays[name] = restored_array(state, name, (size,))
    knots, values = (arrays.get(f"isotonic_{name}", np.empty(0)) for name in ("scores", "values"))
    rises = (np.diff(knots) > 0.0).all() and (np.diff(values) >= 0.0).all()
    if len(knots) != len(values) or not rises or not ((values >= 0.0) & (values <= 1.0)).all():
        raise ValueError("the saved calibration is no rising function into [0, 1].")
    return unpack_decision(arrays)


def unpack_decision(arrays: Mapping[str, NDArray[Any]]) -> Decision:
    """Return threshold and calibration from arrays of a file."""
    if "sigmoid" in arrays:
        slope, intercept = arrays["sigmoid"].tolist()
        if slope < 0:
            raise ModelFileError(
                f"its probabilities would fall with the score (slope {slope:g}); save the "
                "fitted model again."
            )
        calibrator: Sigmoid | Isotonic = Sigmoid(slope, intercept)
    elif len(arrays.get("isotonic_scores", ())) and "isotonic_values" in arrays:
        calibrator = Isotonic(arrays["isotonic_scores"], arrays["isotonic_values"])
    else:
        raise ModelFileError("it holds no calibration; save the fitted model again.")
    return float(arrays["threshold"]), calibrator


class Undecided:
    """Scores of a stream, from which threshold and calibration are found when they are needed.

    If the scores are few, `before` is kept: the decisions of the model that the stream continues.
    An object belongs to one published model. Two threads that ask at once find the same. `shift`
    is added to all scores. Unless the weights of classes are in `weight` (`weighs_classes`), they
    multiply it here.
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
        self._seen = _Seen((scores, positive, weight), weighs_classes=weighs_classes)
        self._shift = shift
        self._before: Decision | None = None
        if before is not None:
            few = min(np.count_nonzero(positive), np.count_nonzero(~positive)) < _ENOUGH
            self._before = before if few else None

    @classmethod
    def later(cls, find: Callable[[], Window], shift: float) -> Self:
        """Return what finds its scores when they are needed, too; they do not weigh classes."""
        made = cls(np.empty(0), np.empty(0, dtype=bool), np.empty(0), shift=shift)
        made._seen = _Seen(None, find, weighs_classes=False)
        return made

    def moved(self, shift: float) -> Self:
        """Return the same with another shift; what is found of one is found of both."""
        twin = copy.copy(self)
        twin._shift = shift
        return twin

    def cut(self, rule: DecisionRule, importance: tuple[float, float]) -> float:
        """Return the threshold."""
        if self._before is not None:
            return self._before[0]
        scored, found = self._seen.by(rule, importance)
        if not (rule.moves and scored.knows_both):
            return rule.threshold(replace(scored, scores=scored.scores + self._shift))
        if not found:
            found.append(rule.threshold(scored))
        return found[0] + self._shift

    def calibrator(self, rule: DecisionRule, importance: tuple[float, float]) -> Sigmoid | Isotonic:
        """Return what turns scores into probabilities."""
        if self._before is not None:
            return self._before[1]
        scored, _ = self._seen.by(rule, importance)
        found = rule.calibrator(scored)
        return found.moved(self._shift) if scored.knows_both else found


class _Seen:
    """Scores that several models of a stream share, and what a rule found in them."""

    def __init__(
        self,
        window: Window | None,
        find: Callable[[], Window] | None = None,
        *,
        weighs_classes: bool,
    ) -> None:
        self._window, self._find, self._weighs_classes = window, find, weighs_classes
        # A rule, the importance of recalls, its view of the scores, and the threshold in a list if
        # it is known.
        self._known: tuple[DecisionRule, tuple[float, float], Scored, list[float]] | None = None

    def window(self) -> Window:
        """Return the scores, which of them are of positive examples, and their weights."""
        if self._window is None:
            assert self._find is not None
            self._window = self._find()
        return self._window

    def by(self, rule: DecisionRule, importance: tuple[float, float]) -> tuple[Scored, list[float]]:
        """Return what a rule sees, and its threshold in a list, which is empty at first."""
        known = self._known
        if known is None or known[0] != rule or known[1] != importance:
            scores, positive, weight = self.window()
            if not self._weighs_classes:
                weight = _by_class(weight, positive, importance)
            scored = Scored(rule.calibration, scores, positive, weight, importance)
            self._known = known = rule, importance, scored, []
        return known[2], known[3]

    def __getstate__(self) -> dict[str, Any]:
        # What finds the scores has all that a stream kept: a copy and a file have the scores.
        return {**vars(self), "_window": self.window(), "_find": None, "_known": None}


def _by_class(weight: Vector, positive: Mask, importance: tuple[float, float]) -> Vector:
    """Return weights times those of their classes; their sum stays."""
    if importance[0] == importance[1]:
        return weight
    found = (weight if len(weight) else np.ones(len(positive))) * np.where(
        positive, importance[1], importance[0]
    )
    total = float(found.sum())
    size = float(weight.sum()) if len(weight) else float(len(positive))
    return np.asarray(found * (size / total)) if total > 0.0 else found


class ScoreDecisions:
    """Labels and probabilities from scores ``X @ coef_[0]``.

    A mixin: the class that it is mixed into has the parameters `decision` and `class_weight`, sets
    `coef_` and `classes_`, and calls `_decide_from` after a fit. After a chunk of a stream it
    publishes an `Undecided`, and decisions are found when they are needed. Coefficients, classes
    and decisions stand in one record, so that they always fit together.
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
        index = np.concatenate(keep)
        weights = np.concatenate(weight)
        if len(example_weight):
            weights = weights * example_weight[index] / example_weight.mean()
        part = rows.take(index)
        if isinstance(part, DenseRows):
            # In single precision, rounding would hide the scores of data far from zero.
            part = DenseRows(part.X.astype(np.float64, copy=False))
        scores = self._scores_of(part, published(self))
        self._decision = self._decide(scores, signs[index] > 0, weights)

    def _decide(self, scores: Vector, positive: Mask, weight: Vector) -> Decision:
        """Return threshold and calibration."""
        return as_rule(self.decision).decide(scores, positive, weight, self._importance())

    def _decided(self, model: Mapping[str, Any]) -> Decision:
        """Return threshold and calibration of a published model."""
        return self._cut(model), self._calibration(model)

    def _cut(self, model: Mapping[str, Any]) -> float:
        """Return the threshold of a published model: a score needs no calibration."""
        decision: Decision | Undecided | None = model["_decision"]
        if decision is None:
            raise AttributeError("more than two classes have no threshold of one score.")
        if not isinstance(decision, Undecided):
            return decision[0]
        return decision.cut(as_rule(self.decision), self._importance())

    def _calibration(self, model: Mapping[str, Any]) -> Sigmoid | Isotonic:
        """Return what turns the scores of a published model into probabilities."""
        decision: Decision | Undecided | None = model["_decision"]
        if decision is None:
            raise AttributeError("more than two classes have no calibration of one score.")
        if not isinstance(decision, Undecided):
            return decision[1]
        return decision.calibrator(as_rule(self.decision), self._importance())

    def _importance(self) -> tuple[float, float]:
        """How much the recall of each class counts in the balanced accuracy."""
        if not isinstance(self.class_weight, Mapping):
            return (1.0, 1.0)
        negative, positive = (float(self.class_weight.get(c, 1.0)) for c in self.classes_.tolist())
        return (negative, positive)

    @property
    def threshold_(self) -> float:
        """The cut on ``X @ coef_[0]``."""
        return self._cut(self._published())

    @property
    def intercept_(self) -> Vector:
        """Minus the threshold, so that `decision_function` is positive where `predict` is."""
        return np.array([-self.threshold_])

    @property
    def _calibrator(self) -> Sigmoid | Isotonic:
        return self._calibration(self._published())

    def _published(self) -> Mapping[str, Any]:
        """Return the current model. Ask once if you need several of its parts."""
        check_is_fitted(self, "coef_")
        return published(self)

    def decision_function(self, X: Any) -> Vector:
        """Return scores minus the threshold, one for each of the n_samples rows of `X`.

        They are positive where `predict` says positive; the order is that of the scores.
        """
        return self._over_threshold(X, self._published())

    def _over_threshold(self, X: Any, model: Mapping[str, Any]) -> Vector:
        return np.asarray(self._scores(X, model) - self._cut(model))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted labels of the rows of `X`."""
        return self._labels(X, self._published())

    def _labels(self, X: Any, model: Mapping[str, Any]) -> NDArray[Any]:
        decision = self._over_threshold(X, model)
        return np.asarray(model["classes_"][(decision > 0).astype(np.intp)])

    def predict_proba(self, X: Any) -> Vector:
        """Return calibrated probabilities of ``classes_``, of shape (n_samples, 2).

        They are increasing in the score.
        """
        return self._probabilities(X, self._published())

    def _probabilities(self, X: Any, model: Mapping[str, Any]) -> Vector:
        positive = self._calibration(model)(self._scores(X, model))
        return np.column_stack([1.0 - positive, positive])

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the AUC, which is what the classifier maximises (not the accuracy).

        `y` holds both labels; `sample_weight` may weigh the examples.
        """
        return self._auc(X, y, sample_weight, self._published())

    def _auc(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, model: Mapping[str, Any]
    ) -> float:
        decision = self._over_threshold(X, model)
        check_names("y", y, "label")
        positive = which_positive(y, model["classes_"])
        return roc_auc(positive, decision, sample_weight=sample_weight)

    def _scores(self, X: Any, model: Mapping[str, Any]) -> Vector:
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return mapped_product(model.get("features_"), X, model["coef_"][0])

    def _scores_of(self, rows: Rows, model: Mapping[str, Any]) -> Vector:
        """Return the scores of training rows."""
        features = model.get("features_")
        if features is None or isinstance(features, Identity):
            return rows.scores(model["coef_"][0])
        return score_mapped(features, rows, model["coef_"][0])
