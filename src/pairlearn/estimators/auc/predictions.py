# SPDX-License-Identifier: BSD-3-Clause
"""Predictions of a fitted AUC classifier, and its storage in a model file.

Two classes have one score, a threshold and a calibration. More classes have one score for each pair
of classes; `MulticlassAUCClassifier`, a part of the published model, couples them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.auc.many import pair_parameters
from pairlearn.estimators.shared.decisions import (
    DECISION_ARRAYS,
    ScoreDecisions,
    pack_decision,
    unpack_decision,
)
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.examples import mapped_product, validate_data
from pairlearn.estimators.shared.published import found_later, publish
from pairlearn.estimators.shared.storage import Storable
from pairlearn.features import FeatureMap, Identity
from pairlearn.losses import PairLoss
from pairlearn.models.record import ArraySpec, ModelFileError, ModelRecord
from pairlearn.register import Record
from pairlearn.solvers.solution import Trace
from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier


class AUCPredictions(Storable, ScoreDecisions):
    """Predictions and storage of `AUCClassifier`."""

    n_features_in_: int
    #: Facts about the fit.
    solver_: str | None
    loss_: Any
    advice_: Any
    step_size_: float | None
    radius_: float
    half_life_: float
    n_steps_: int
    n_gradients_: int
    n_examples_: int
    data_fingerprint_: str | None
    trace_: Trace
    choice_: Any
    ridge_: Any
    held_out_auc_: Any
    #: The fitted map, `Identity` for a linear score.
    features_: Any
    __getattr__ = found_later

    _not_stored = ("callbacks", "random_state")
    _takes_sparse = True
    _facts: ClassVar[Mapping[str, type]] = {
        "solver_": str,
        "loss_": PairLoss,
        "choice_": Choice,
        "advice_": Record,
    }
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "step_size": ArraySpec((), required=False, low=0.0),
        "radius": ArraySpec((), required=False, low=0.0),
        "ridge": ArraySpec((), required=False, low=0.0),
        "half_life": ArraySpec((), required=False, low=0.0),
        "held_out_auc": ArraySpec((), required=False, low=0.0, high=1.0),
        "n_steps": ArraySpec((), ("int64",), low=0),
        "n_gradients": ArraySpec((), ("int64",), low=0),
        "n_examples": ArraySpec((), ("int64",), low=0),
        # A file holds the arrays of two classes, or those of the pairs.
        **DECISION_ARRAYS,
        "coef": ArraySpec(("n_features",), required=False),
        "threshold": replace(DECISION_ARRAYS["threshold"], required=False),
        "pair_coef": ArraySpec(("n_pairs", "n_features"), required=False),
        "sigmoids": ArraySpec(("n_pairs", 2), required=False),
        "power": ArraySpec((), required=False, low=0.0),
    }

    @property
    def pairs_(self) -> MulticlassAUCClassifier:
        """The scores of the pairs of more than two classes, on mapped features if there are any."""
        pairs = pairs_of(self._published())
        if pairs is None:
            raise AttributeError("pairs_ is for more than two classes; coef_ has the only score.")
        return pairs

    @property
    def threshold_(self) -> float:
        """The cut on ``X @ coef_[0]``; more than two classes have none."""
        if pairs_of(self._published()) is not None:
            raise AttributeError("more than two classes have no threshold_.")
        return super().threshold_

    def pair_scores(self, X: Any) -> Vector:
        """Return the scores of the pairs of classes, of shape (n_samples, n_pairs).

        They are larger for the later class of the pair (first with second, first with third, ...);
        `HandTill(pairs=True)` measures them. Two classes have one pair.
        """
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return mapped_product(self.features_, X, self.coef_.T)

    def decision_function(self, X: Any) -> Vector:
        """Return the values that `predict` decides by.

        With two classes, the score minus the threshold for each row of `X`: positive where
        `predict` says positive, in the order of the scores. With more, the logarithms of the
        probabilities of ``classes_``, of shape (n_samples, n_classes); `pair_scores` has the scores
        of the pairs, which tell classes apart best.
        """
        pairs = pairs_of(self._published())
        if pairs is None:
            return super().decision_function(X)
        return np.asarray(np.log(pairs.couple_scores(self.pair_scores(X))))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted labels of the rows of `X`; of many classes the most probable one.

        Of two classes, `decision` has set the threshold: by default it maximises the balanced
        accuracy, and the more probable class by `predict_proba` may be another. With
        ``decision="probability"`` both agree.
        """
        pairs = pairs_of(self._published())
        if pairs is None:
            return super().predict(X)
        likeliest = pairs.couple_scores(self.pair_scores(X)).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def predict_proba(self, X: Any) -> Vector:
        """Return calibrated probabilities of ``classes_``, of shape (n_samples, n_classes).

        Those of two classes increase with the score; those of more are coupled from the
        probabilities of the pairs, see `MulticlassAUCClassifier`.
        """
        pairs = pairs_of(self._published())
        if pairs is None:
            return super().predict_proba(X)
        return pairs.couple_scores(self.pair_scores(X))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the AUC, which is what the classifier maximises (not the accuracy).

        With more than two classes it is Hand and Till's M, the mean over pairs of classes of the
        AUC of their score; a class that is missing in `y` is left out. `sample_weight` may weigh
        the examples.
        """
        if pairs_of(self._published()) is None:
            return super().score(X, y, sample_weight)
        from pairlearn.metrics.hand_till import HandTill

        metric = HandTill(pairs=True, classes=tuple(self.classes_.tolist()))
        return metric(y, self.pair_scores(X), sample_weight=sample_weight)

    def _restore_map(self, features: FeatureMap) -> None:
        publish(self, features_=features)

    def _pack(self) -> dict[str, NDArray[Any]]:
        model = self._published()
        pairs = pairs_of(model)
        arrays = super()._pack()
        if pairs is None:
            return {**arrays, "coef": model["coef_"][0], **pack_decision(self._decided(model))}
        del arrays["coef"]
        own = {"sigmoids": pairs.sigmoids_, "power": np.array(pairs.power_)}
        return {**arrays, "pair_coef": pairs.coef_, **own}

    def _unpack(self, record: ModelRecord) -> None:
        """Set the fitted attributes from a record of two classes, or of the pairs of more."""
        arrays, classes = record.arrays, record.classes
        if classes is None or len(classes) < 2:
            raise ModelFileError(f"{type(self).__name__} has two classes or more.")
        many = len(classes) > 2
        for name in ("pair_coef", "sigmoids", "power") if many else ("coef", "threshold"):
            if name not in arrays:
                raise ModelFileError(f"array {name!r} of {type(self).__name__} is missing.")
        for name in ("n_steps", "n_gradients", "n_examples"):
            setattr(self, f"{name}_", arrays[name].item())
        for name in ("step_size", "ridge", "held_out_auc"):
            setattr(self, f"{name}_", arrays[name].item() if name in arrays else None)
        for name in ("radius", "half_life"):
            setattr(self, f"{name}_", arrays[name].item() if name in arrays else np.inf)
        self.trace_ = Trace(n_steps=self.n_steps_, n_gradients=self.n_gradients_)
        self.data_fingerprint_ = record.provenance.get("data_fingerprint")
        if not many:
            coef = arrays["coef"].copy()[np.newaxis]
            linear = Identity.of(coef.shape[1])
            publish(self, coef_=coef, features_=linear, _decision=unpack_decision(arrays))
            return
        # A stream has no ridge.
        found = {name: arrays[name] for name in ("sigmoids", "power", "ridge") if name in arrays}
        from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier

        pairs = MulticlassAUCClassifier.from_record(
            replace(
                record,
                estimator="MulticlassAUCClassifier",
                arrays={**found, "coef": arrays["pair_coef"]},
                parameters={k: v for k, v in record.parameters.items() if k == "classes_dtype"},
                feature_names=None,
            )
        ).set_params(**pair_parameters(self))
        linear = Identity.of(pairs.coef_.shape[1])
        publish(self, coef_=pairs.coef_, features_=linear, pairs_=pairs, _decision=None)


def pairs_of(model: Mapping[str, Any]) -> MulticlassAUCClassifier | None:
    """Return the scores of pairs of a published model; None if it has two classes."""
    return model["pairs_"] if len(model["classes_"]) > 2 else None
