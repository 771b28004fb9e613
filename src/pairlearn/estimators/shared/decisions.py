# SPDX-License-Identifier: BSD-3-Clause
"""From scores to decisions: threshold, labels, probabilities, and what a model file holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.calibration import (
    THRESHOLDS,
    Isotonic,
    Sigmoid,
    choose_threshold,
    fit_isotonic,
    fit_sigmoid,
)
from pairlearn.estimators.shared.examples import mapped_product, validate_data
from pairlearn.estimators.shared.published import Part, publish, published
from pairlearn.estimators.shared.storage import Storable
from pairlearn.features import Identity
from pairlearn.metrics import cheapest_threshold, roc_auc
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.restored import restored_array
from pairlearn.solvers.closed_form.mapped_moments import score_mapped
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.solvers.solution import Trace
from pairlearn.typing import Mask, Vector
from pairlearn.validation import check_positive

__all__ = [
    "DECISION_ARRAYS",
    "Decision",
    "ScoreDecisions",
    "StoredDecisions",
    "Undecided",
    "pack_decision",
    "restored_decision",
    "unpack_decision",
]

#: Threshold and calibration use at most so many training scores of each class.
_SCORES_PER_CLASS = 2_500
#: A stream that goes on from a model keeps its decisions until there are as many of each class.
_ENOUGH = 30


Decision = tuple[float, Sigmoid | Isotonic]

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
    """What a stream's threshold and calibration are found from, when somebody asks for them.

    Where that is little, `before` is kept: the decisions of the model that the stream goes on from.
    It belongs to one published model. Two threads that ask at once find the same. The scores are
    those given plus `shift`.
    """

    def __init__(
        self,
        scores: Vector,
        positive: Mask,
        weight: Vector,
        before: Decision | None = None,
        *,
        shift: float = 0.0,
    ) -> None:
        self._window, self._shift = (scores, positive, weight), shift
        self.found: Decision | None = None
        if before is not None:
            few = min(np.count_nonzero(positive), np.count_nonzero(~positive)) < _ENOUGH
            self.found = before if few else None

    @property
    def window(self) -> tuple[Vector, Mask, Vector]:
        """Scores, which of them are of positive examples, and their weights."""
        scores, positive, weight = self._window
        return scores + self._shift, positive, weight


class ScoreDecisions:
    """What a classifier says of scores ``X @ coef_[0]``, found from training scores.

    A mixin: the class that it is mixed into has the parameters `threshold`, `costs`, `calibrate`
    and `class_weight`, sets `coef_` and `classes_`, and calls `_decide_from` after a fit. After a
    chunk of a stream it calls `_publish_stream`, and decisions are found when they are needed.
    Coefficients, classes and decisions stand in one record, so that they belong together.
    """

    threshold: float | str
    costs: tuple[float, float] | None
    calibrate: str
    class_weight: Any
    coef_: Any = Part()
    classes_: Any = Part()
    _decision: Any = Part()

    def _check_decisions(self) -> None:
        """Refuse parameters that name no threshold and no calibration."""
        if self.calibrate not in ("sigmoid", "isotonic"):
            raise ValueError(f'calibrate must be "sigmoid" or "isotonic", got {self.calibrate!r}.')
        self._checked_costs()
        names = (*THRESHOLDS, "cost", "probability")
        if isinstance(self.threshold, str):
            if self.threshold not in names:
                raise ValueError(
                    f"threshold must be a number or one of {names}, got {self.threshold!r}."
                )
        elif not np.isfinite(float(self.threshold)):
            raise ValueError(f"threshold must be a finite number, got {self.threshold!r}.")

    def _checked_costs(self) -> tuple[float, float]:
        """Return the costs of a false positive and a false negative, if the threshold needs them.

        Costs without the threshold that they are for are refused, and the other way round.
        """
        if self.threshold != "cost":
            if self.costs is not None:
                raise ValueError(
                    f'costs={self.costs!r} are for threshold="cost", but threshold='
                    f"{self.threshold!r} would ignore them; leave costs at None."
                )
            return 1.0, 1.0
        if self.costs is None:
            raise ValueError(
                'threshold="cost" needs costs=(false_positive, false_negative), for example '
                "costs=(1.0, 20.0)."
            )
        if not isinstance(self.costs, (tuple, list)) or len(self.costs) != 2:
            raise ValueError(
                "costs must be two numbers, of a false positive and a false negative, got "
                f"{self.costs!r}."
            )
        first, second = self.costs
        return check_positive("costs[0]", first), check_positive("costs[1]", second)

    def _decide_from(self, rows: Rows, y: Vector, example_weight: Vector, rng: Any) -> None:
        """Set threshold and calibration from training scores."""
        keep, weight = [], []
        for sign in (-1.0, 1.0):
            members = np.flatnonzero(y == sign)
            count = len(members)
            if count > _SCORES_PER_CLASS:
                members = rng.choice(members, _SCORES_PER_CLASS, replace=False)
            keep.append(members)
            weight.append(np.full(len(members), count / max(len(members), 1)))
        index = np.concatenate(keep)
        weights = np.concatenate(weight)
        if len(example_weight):
            weights = weights * example_weight[index] / example_weight.mean()
        part = rows.take(index)
        if isinstance(part, DenseRows):
            # In single precision the scores of data far from zero would drown in rounding.
            part = DenseRows(part.X.astype(np.float64, copy=False))
        scores = self._scores_of(part, published(self))
        self._decision = self._decide(scores, y[index] > 0, weights)

    def _publish_stream(self, coef: Vector, classes: NDArray[Any], decision: Undecided) -> None:
        """Let the world see what a stream has learned, with its latest progressive scores."""
        publish(self, coef_=coef[np.newaxis], classes_=classes, _decision=decision)

    def _decide(self, scores: Vector, positive: Mask, weight: Vector) -> Decision:
        """Return threshold and calibration."""
        if not min(weight[positive].sum(), weight[~positive].sum()) > 0:
            # Only one class so far: the sign of the score is all there is.
            cut = 0.0 if isinstance(self.threshold, str) else float(self.threshold)
            return cut, Sigmoid(1.0, -cut)
        calibrator: Sigmoid | Isotonic
        if self.calibrate == "isotonic":
            calibrator = fit_isotonic(scores, positive, weight)
        else:
            calibrator = fit_sigmoid(scores, positive, weight)
        if self.threshold == "probability":
            return calibrator.score_of_half(), calibrator
        if self.threshold == "cost":
            false_positive, false_negative = self._checked_costs()
            cut = cheapest_threshold(
                positive,
                scores,
                false_positive=false_positive,
                false_negative=false_negative,
                sample_weight=weight,
            )
            return cut, calibrator
        if isinstance(self.threshold, str):
            cut = choose_threshold(
                scores, positive, weight, self.threshold, importance=self._importance()
            )
            return cut, calibrator
        return float(self.threshold), calibrator

    def _decided(self, model: Mapping[str, Any]) -> Decision:
        """Return threshold and calibration of a published model."""
        decision: Decision | Undecided = model["_decision"]
        if not isinstance(decision, Undecided):
            return decision
        if decision.found is None:
            decision.found = self._decide(*decision.window)
        return decision.found

    def _importance(self) -> tuple[float, float]:
        """How much the recall of each class counts in the balanced accuracy."""
        if not isinstance(self.class_weight, Mapping):
            return (1.0, 1.0)
        negative, positive = (float(self.class_weight.get(c, 1.0)) for c in self.classes_.tolist())
        return (negative, positive)

    @property
    def threshold_(self) -> float:
        """The cut on ``X @ coef_[0]``."""
        return self._decided(self._published())[0]

    @property
    def intercept_(self) -> Vector:
        """Minus the threshold, so that `decision_function` is positive where `predict` is."""
        return np.array([-self.threshold_])

    @property
    def _calibrator(self) -> Sigmoid | Isotonic:
        return self._decided(self._published())[1]

    def _published(self) -> Mapping[str, Any]:
        """Return the model of this moment; whoever needs more than one part of it asks once."""
        check_is_fitted(self, "coef_")
        return published(self)

    def decision_function(self, X: Any) -> Vector:
        """Return scores minus the threshold, one for each of the n_samples rows of `X`.

        They are positive where `predict` says positive; the order is that of the scores.
        """
        return self._over_threshold(X, self._published())

    def _over_threshold(self, X: Any, model: Mapping[str, Any]) -> Vector:
        return np.asarray(self._scores(X, model) - self._decided(model)[0])

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
        positive = self._decided(model)[1](self._scores(X, model))
        return np.column_stack([1.0 - positive, positive])

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the AUC, which is what the classifier maximises (not the accuracy).

        `y` holds both labels; `sample_weight` may weigh the examples.
        """
        return self._auc(X, y, sample_weight, self._published())

    def _auc(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        model: Mapping[str, Any],
    ) -> float:
        decision = self._over_threshold(X, model)
        return roc_auc(np.asarray(y) == model["classes_"][1], decision, sample_weight=sample_weight)

    def _scores(self, X: Any, model: Mapping[str, Any]) -> Vector:
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return mapped_product(model.get("features_"), X, model["coef_"][0])

    def _scores_of(self, rows: Rows, model: Mapping[str, Any]) -> Vector:
        """Return the scores of training rows."""
        features = model.get("features_")
        if features is None or isinstance(features, Identity):
            return rows.scores(model["coef_"][0])
        return score_mapped(features, rows, model["coef_"][0])


class StoredDecisions(Storable, ScoreDecisions):
    """A linear scorer with its decisions, to and from arrays."""

    _online: Any
    step_size_: float | None
    ridge_: float | None
    radius_: float
    n_steps_: int
    n_gradients_: int

    _not_stored = ("callbacks", "random_state")
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "coef": ArraySpec(("n_features",)),
        "step_size": ArraySpec((), required=False, low=0.0),
        "radius": ArraySpec((), required=False, low=0.0),
        "ridge": ArraySpec((), required=False, low=0.0),
        "held_out_auc": ArraySpec((), required=False, low=0.0, high=1.0),
        "n_steps": ArraySpec((), ("int64",), low=0),
        "n_gradients": ArraySpec((), ("int64",), low=0),
        "n_examples": ArraySpec((), ("int64",), low=0),
        **DECISION_ARRAYS,
    }

    def _pack(self) -> dict[str, NDArray[Any]]:
        model = self._published()
        arrays = super()._pack()
        return {**arrays, "coef": model["coef_"][0], **pack_decision(self._decided(model))}

    def _unpack(self, record: ModelRecord) -> None:
        if record.classes is None or len(record.classes) != 2:
            raise ModelFileError(f"{type(self).__name__} has two classes.")
        self._unpack_facts(record)
        coef = record.arrays["coef"].copy()[np.newaxis]
        publish(self, coef_=coef, _decision=unpack_decision(record.arrays))

    def _unpack_facts(self, record: ModelRecord) -> None:
        """Restore what is known of the fit."""
        arrays = record.arrays
        for name in ("n_steps", "n_gradients", "n_examples"):
            setattr(self, f"{name}_", arrays[name].item())
        self.step_size_ = arrays["step_size"].item() if "step_size" in arrays else None
        self.ridge_ = arrays["ridge"].item() if "ridge" in arrays else None
        held_out = arrays.get("held_out_auc")
        self.held_out_auc_ = None if held_out is None else held_out.item()
        self.radius_ = arrays["radius"].item() if "radius" in arrays else np.inf
        self.trace_ = Trace(n_steps=self.n_steps_, n_gradients=self.n_gradients_)
        self.data_fingerprint_ = record.provenance.get("data_fingerprint")
        self._online = None
