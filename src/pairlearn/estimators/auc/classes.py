# SPDX-License-Identifier: BSD-3-Clause
"""An AUC classifier on more than two classes: one score for each pair of them.

`MulticlassAUCClassifier` does the work, on mapped features if there is a map. It is a part of the
fitted model, and stands in the record beside the coefficients of the pairs. Of a stream, each pair
is learned as a stream of two classes.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.estimators.auc.pair_streams import PairStreams
from pairlearn.estimators.auc.stream import AUCStream, distinct
from pairlearn.estimators.classes.multiclass import MulticlassAUCClassifier
from pairlearn.estimators.shared.calibration import Sigmoid
from pairlearn.estimators.shared.choice import Choice
from pairlearn.estimators.shared.decisions import StoredDecisions
from pairlearn.estimators.shared.examples import mapped_product, validate_data
from pairlearn.estimators.shared.features_seen import see_features, seen_features
from pairlearn.estimators.shared.maps import as_map, fit_map, is_linear, map_rows
from pairlearn.estimators.shared.published import DEFERRED, publish
from pairlearn.estimators.shared.storage import Storable
from pairlearn.estimators.shared.weights import example_weights
from pairlearn.features import FeatureMap, Identity
from pairlearn.losses import PairLoss, Square, SquaredHinge, get_loss
from pairlearn.metrics import HandTill
from pairlearn.models.provenance import data_fingerprint
from pairlearn.models.record import ModelFileError, ModelRecord
from pairlearn.models.registry import ArraySpec
from pairlearn.restored import restored_count
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Vector
from pairlearn.validation import check_generator

if TYPE_CHECKING:
    from pairlearn.theory import Advice

__all__ = ["AUCClasses"]

#: Parameters that are about decisions between two classes, and their defaults.
_OF_TWO: Mapping[str, Any] = {
    "threshold": ("balanced_accuracy", "probability"),
    "calibrate": ("sigmoid",),
    "monotone": (None,),
}
#: Those that pairs in closed form do not have.
_NOT_CLOSED: Mapping[str, Any] = {"objective": ("auc",), "buffer_size": (1,)}
_DECIDED = "more are decided between by their probabilities"
_CLOSED = "with more, the score of each pair of classes is found in closed form"
_LOSSES: Mapping[type[PairLoss], str] = {Square: "square", SquaredHinge: "squared_hinge"}


class AUCClasses(AUCStream):
    """What `AUCClassifier` does with more than two classes; with two of them, nothing."""

    verbose: int
    n_jobs: int | None
    advice_: Advice | None
    _pair_streams: PairStreams | None

    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        **StoredDecisions._arrays,
        # A file has these of two classes, or those of the pairs.
        "coef": replace(StoredDecisions._arrays["coef"], required=False),
        "threshold": replace(StoredDecisions._arrays["threshold"], required=False),
        "pair_coef": ArraySpec(("n_pairs", "n_features"), required=False),
        "sigmoids": ArraySpec(("n_pairs", 2), required=False),
        "power": ArraySpec((), required=False, low=0.0),
    }

    # --------------------------------------------------------------------------- training

    def _fit_pairs(
        self,
        given: Rows,
        labels: NDArray[Any],
        classes: NDArray[Any],
        sample_weight: ArrayLike | None,
    ) -> Self:
        """Train one score for each pair of classes."""
        self._check_many(len(classes))
        features: FeatureMap = Identity().fit(np.zeros((1, given.shape[1])))
        source = given.checked()
        mapped = not is_linear(self.features)
        if mapped:
            features = self._map_for(given, labels, classes)
            cure = "use a map with fewer features, or a larger max_memory."
            source = as_rows(map_rows(features, given, self.max_memory, cure), finite=True)
        pairs = MulticlassAUCClassifier(**self._pair_parameters())
        pairs.fit_rows(source, labels, sample_weight, mapped=mapped)
        n = len(labels)
        self.loss_, self.advice_ = get_loss(pairs.loss_), None
        self.trace_ = Trace(n_steps=n, n_gradients=n)
        choice: Choice = pairs.choice_
        codes = np.searchsorted(classes, labels)
        self._record("exact", choice, n, data_fingerprint(given, codes))
        if self.verbose:
            found = choice.evidence
            assert found is not None
            print(
                f"{len(pairs.coef_)} pairs of classes, {type(self.loss_).__name__}, ridge "
                f"{choice.ridge:g}, held-out M {found.auc:.4f}",
                file=sys.stderr,
            )
        publish(
            self,
            coef_=pairs.coef_,
            classes_=pairs.classes_,
            features_=features,
            pairs_=pairs,
            _decision=None,
            **{DEFERRED: ()},
        )
        return self

    def _record(
        self, solver: str, choice: Choice, n_examples: int, fingerprint: str | None
    ) -> None:
        """Note how the coefficients of a fit were found."""
        self.solver_, self.choice_ = solver, choice
        self.step_size_: float | None = choice.step_size
        self.radius_, self.ridge_ = choice.radius, choice.ridge
        self.held_out_auc_ = choice.auc
        self.n_steps_, self.n_gradients_ = self.trace_.n_steps, self.trace_.n_gradients
        self.n_examples_ = n_examples
        self.data_fingerprint_: str | None = fingerprint
        self._online, self._restarted = None, False
        self._moments = None
        self._top = None
        self._pair_streams = None
        self._known_scales = None

    def _check_many(self, n_classes: int) -> None:
        """Refuse parameters that mean nothing for more than two classes in closed form."""
        self._check_allowed(n_classes, {**_OF_TWO, **_NOT_CLOSED})
        for name in self._asks_for_sgd():
            raise self._refused(n_classes, name, _CLOSED)
        if self.solver == "sgd":
            raise self._refused(n_classes, "solver", _CLOSED)
        if isinstance(self.features, str) and self.features == "auto":
            raise self._refused(n_classes, "features", _CLOSED)
        if self.loss != "auto" and _loss_name(self.loss) is None:
            raise self._refused(n_classes, "loss", _CLOSED)

    def _check_allowed(self, n_classes: int, allowed: Mapping[str, tuple[Any, ...]]) -> None:
        for name, values in allowed.items():
            value = getattr(self, name)
            if not any(value is one or value == one for one in values):
                why = _CLOSED if name in _NOT_CLOSED else _DECIDED
                raise self._refused(n_classes, name, why)

    def _refused(self, n_classes: int, name: str, why: str) -> ValueError:
        others = {
            "solver": 'Use solver="auto", "exact" or "moments"',
            "features": 'Use features="linear", "hats", "fourier" or a map',
            "loss": 'Use loss="auto", "square" or "squared_hinge"',
        }
        cure = others.get(name, f"Leave {name} at its default")
        return ValueError(
            f"y has {n_classes} classes, and {name}={getattr(self, name)!r} is for two: {why}. "
            f"{cure}, or train one such classifier for each pair, "
            "sklearn.multiclass.OneVsOneClassifier(AUCClassifier(...))."
        )

    def _pair_parameters(self) -> dict[str, Any]:
        loss = "auto" if self.loss == "auto" else _loss_name(self.loss)
        if loss == "auto" and self.solver == "moments":
            loss = "square"
        return {
            "loss": loss,
            "ridge": self.ridge,
            "scaling": self.scaling,
            "validation_fraction": self.validation_fraction,
            "class_weight": self.class_weight,
            "n_jobs": self.n_jobs,
            "random_state": self.random_state,
        }

    def _map_for(self, given: Rows, labels: NDArray[Any], classes: NDArray[Any]) -> FeatureMap:
        """Return the fitted map; its size goes by the rarest class."""
        counts = [int(np.count_nonzero(labels == one)) for one in classes]
        y = np.where(labels == classes[int(np.argmin(counts))], 1.0, -1.0)
        # Numbers of their own, so that folds are dealt as they are without a map.
        draws = check_generator(copy.deepcopy(self.random_state))
        features = fit_map(as_map(self.features, given, y), given, draws)
        # The moments of the classes, of all examples and of each fold.
        copies = len(classes) * (1 + max(round(1.0 / self.validation_fraction), 2))
        size = 8.0 * copies * features.n_outputs**2
        if size > self.max_memory:
            raise ValueError(
                f"The moments of {len(classes)} classes with {features.n_outputs} mapped features "
                f"take about {size / 2**30:.1f} GiB, max_memory={self.max_memory:g} bytes; use a "
                "map with fewer features, or a larger max_memory."
            )
        return features

    # ----------------------------------------------------------------------------- streams

    def _learn_chunk(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        *,
        first: bool,
        finite: bool,
    ) -> Vector:
        known = distinct(classes) if first else self.classes_
        if len(known) <= 2:
            return super()._learn_chunk(X, y, classes, sample_weight, first=first, finite=finite)
        self._check_parameters()
        self._check_allowed(len(known), _OF_TWO)
        if not is_linear(self.features) and not (
            isinstance(self.features, FeatureMap) and self.features.is_fitted
        ):
            raise ValueError(
                f"a stream of {len(known)} classes needs fitted features, got {self.features!r}; "
                "pass features=Hats().fit(X) of a sample X."
            )
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all labels at once; pass a dict to partial_fit."
            )
        rows, labels = self._examples(X, y, reset=first, minimum=1, finite=finite)
        if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), known):
            raise ValueError(
                f"classes={np.unique(np.asarray(classes)).tolist()} differ from those of the "
                f"model, {known.tolist()}."
            )
        unknown = np.setdiff1d(labels, known)
        if len(unknown):
            raise ValueError(
                f"y contains {unknown.tolist()}, which is not in classes={known.tolist()}."
            )
        weight = example_weights(sample_weight, self.class_weight, labels)
        streams = self.__dict__.get("_pair_streams")
        if streams is None:
            streams = PairStreams(self._new_pair, known, rows.shape[1])
            if not first:
                streams.start_from(self._hand_over, self.n_examples_)
        scores = streams.learn(rows, labels, weight)
        self._adopt_pairs(streams)
        return scores

    def _new_pair(self) -> Any:
        """Return a classifier of two classes like this one."""
        # Weights of classes are among those of the examples that it gets.
        return type(self)(**{**self.get_params(deep=False), "class_weight": None, "verbose": 0})  # type: ignore[attr-defined]

    def _hand_over(self, learner: Any, column: int, pair: NDArray[Any]) -> None:
        """Let the stream of a pair begin with the coefficients of `fit`."""
        features = self._published().get("features_")
        learner.adopt_solution(
            self.coef_[column],
            classes=pair,
            feature_names=None,
            loss=get_loss(self.loss_) if hasattr(self, "loss_") else self._loss_for("exact"),
            choice=Choice(ridge=self.ridge_),
            trace=Trace(),
            scores=(np.empty(0), np.empty(0, dtype=bool), np.empty(0)),
            # As many as a pair has of evenly shared classes.
            n_examples=2 * self.n_examples_ // len(self.classes_),
            fingerprint=None,
            features=None if isinstance(features, Identity) else features,
        )
        learner._take_sigmoid(Sigmoid(*self.pairs_.sigmoids_[column].tolist()))
        # A model from a file does not know its scales.
        learner._known_scales = getattr(self.pairs_, "scaling_", None)

    def _take_sigmoid(self, sigmoid: Sigmoid) -> None:
        """Let scores of a pair become probabilities by this, with the threshold at 0."""
        self._decision = 0.0, sigmoid

    def _sigmoid(self) -> Sigmoid:
        """Return how scores of a pair become probabilities."""
        found = self._calibrator
        assert isinstance(found, Sigmoid)
        return found

    def _adopt_pairs(self, streams: PairStreams) -> None:
        """Take over streams; their model is found when somebody asks for it."""
        self._online = self._moments = self._top = None
        self._pair_streams = streams
        self.step_size_, self.radius_, self.ridge_ = None, np.inf, None
        self.held_out_auc_, self.data_fingerprint_ = streams.auc, None
        self.n_steps_, self.n_gradients_ = streams.n_steps, streams.n_gradients
        self.n_examples_ = streams.n_examples
        self.trace_ = Trace(n_steps=streams.n_steps, n_gradients=streams.n_gradients)
        deferred = {DEFERRED: ("coef_", "features_", "pairs_")}
        publish(self, classes_=streams.classes, coef_=None, pairs_=None, _decision=None, **deferred)

    def finish_stream(self) -> None:
        """Find the model of a stream that leaves it for later, see `AUCStream`."""
        if self.__dict__.get("_pair_streams") is None:
            super().finish_stream()
        else:
            self._finish_pairs()

    @one_at_a_time
    def _finish_pairs(self) -> None:
        streams = self._pair_streams
        assert streams is not None
        features = self.features
        if not isinstance(features, FeatureMap) or isinstance(features, Identity):
            features = Identity().fit(np.zeros((1, self.n_features_in_)))
        coef, sigmoids = streams.finish(features.n_outputs, AUCClasses._sigmoid)
        pairs = MulticlassAUCClassifier(**self._pair_parameters())
        pairs.adopt_pairs(streams.classes, coef, sigmoids)
        publish(self, coef_=coef, features_=features, pairs_=pairs, **{DEFERRED: ()})

    def restart_stream(self) -> None:
        """Forget step sizes and average; the next chunk starts from the present coefficients."""
        streams = self.__dict__.get("_pair_streams")
        if streams is None:
            super().restart_stream()
        else:
            streams.restart()

    def stream_state(self) -> dict[str, Any]:
        """Return what the next chunk depends on, see `OnlineLearner`; empty before the first."""
        streams = self.__dict__.get("_pair_streams")
        if streams is None:
            return super().stream_state()
        return {**seen_features(self), "classes": streams.classes, **streams.state()}

    def restore_stream(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `stream_state` of an estimator made alike returned."""
        if "class_pairs" not in state:
            super().restore_stream(state)
            return
        see_features(self, state)
        classes = state["classes"]
        if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(classes) < 3:
            raise ValueError(f"the saved classes are {classes!r:.60}, not three or more labels.")
        self._check_parameters()
        streams = PairStreams(self._new_pair, classes, self.n_features_in_)
        streams.restore(restored_count(state, "n_examples"), state["class_pairs"])
        self._adopt_pairs(streams)

    # ------------------------------------------------------------------------- predictions

    @property
    def pairs_(self) -> MulticlassAUCClassifier:
        """The scores of the pairs of more than two classes, on mapped features if there are any."""
        pairs = _pairs_of(self._published())
        if pairs is None:
            raise AttributeError("pairs_ is for more than two classes; coef_ has the only score.")
        return pairs

    def pair_scores(self, X: Any) -> Vector:
        """Return the scores of the pairs of classes.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.

        Returns
        -------
        ndarray of shape (n_samples, n_pairs)
            Scores, larger for the later class of the pair (first with second, first with third,
            ...); `HandTill(pairs=True)` measures them. Two classes have one pair.
        """
        return self._pair_scores(X, self._published())

    def _pair_scores(self, X: Any, model: Mapping[str, Any]) -> Vector:
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return mapped_product(model.get("features_"), X, model["coef_"].T)

    def decision_function(self, X: Any) -> Vector:
        """Return what `predict` goes by.

        With two classes, the score minus the threshold for each row of `X`: positive where
        `predict` says positive, in the order of the scores. With more, the logarithms of the
        probabilities of ``classes_``, of shape (n_samples, n_classes); `pair_scores` has the scores
        of the pairs, by which classes are told apart best.
        """
        model = self._published()
        pairs = _pairs_of(model)
        if pairs is None:
            return self._over_threshold(X, model)
        return np.asarray(np.log(pairs.couple_scores(self._pair_scores(X, model))))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted labels of the rows of `X`; of many classes the most probable one."""
        model = self._published()
        pairs = _pairs_of(model)
        if pairs is None:
            return self._labels(X, model)
        likeliest = pairs.couple_scores(self._pair_scores(X, model)).argmax(axis=1)
        return np.asarray(model["classes_"][likeliest])

    def predict_proba(self, X: Any) -> Vector:
        """Return calibrated probabilities of ``classes_``, of shape (n_samples, n_classes).

        Those of two classes are increasing in the score; those of more are coupled from the
        probabilities of the pairs, see `MulticlassAUCClassifier`.
        """
        model = self._published()
        pairs = _pairs_of(model)
        if pairs is None:
            return self._probabilities(X, model)
        return pairs.couple_scores(self._pair_scores(X, model))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the AUC, which is what the classifier maximises (not the accuracy).

        With more than two classes it is Hand and Till's M, the mean over pairs of classes of the
        AUC of their score; a class that is missing in `y` is left out. `sample_weight` may weigh
        the examples.
        """
        model = self._published()
        if _pairs_of(model) is None:
            return self._auc(X, y, sample_weight, model)
        metric = HandTill(pairs=True, classes=tuple(model["classes_"].tolist()))
        return metric(y, self._pair_scores(X, model), sample_weight=sample_weight)

    @property
    def threshold_(self) -> float:
        """The cut on ``X @ coef_[0]``; more than two classes have none."""
        if _pairs_of(self._published()) is not None:
            raise AttributeError("more than two classes have no threshold_.")
        return super().threshold_

    # ----------------------------------------------------------------------------- storage

    def _pack(self) -> dict[str, NDArray[Any]]:
        pairs = _pairs_of(self._published())
        if pairs is None:
            return super()._pack()
        arrays = Storable._pack(self)
        del arrays["coef"]
        own = {"sigmoids": pairs.sigmoids_, "power": np.array(pairs.power_)}
        return {**arrays, "pair_coef": pairs.coef_, **own}

    def _unpack(self, record: ModelRecord) -> None:
        arrays = record.arrays
        many = record.classes is not None and len(record.classes) > 2
        needed = ("pair_coef", "sigmoids", "power") if many else ("coef", "threshold")
        for name in needed:
            if name not in arrays:
                raise ModelFileError(f"array {name!r} of {type(self).__name__} is missing.")
        if not many:
            super()._unpack(record)
            return
        self._unpack_facts(record)
        # A stream has no ridge.
        found = {name: arrays[name] for name in ("sigmoids", "power", "ridge") if name in arrays}
        pairs = MulticlassAUCClassifier.from_record(
            replace(
                record,
                estimator="MulticlassAUCClassifier",
                arrays={**found, "coef": arrays["pair_coef"]},
                parameters={k: v for k, v in record.parameters.items() if k == "classes_dtype"},
                feature_names=None,
            )
        ).set_params(**self._pair_parameters())
        publish(self, coef_=pairs.coef_, pairs_=pairs, _decision=None)


def _pairs_of(model: Mapping[str, Any]) -> MulticlassAUCClassifier | None:
    """Return the scores of pairs of a published model; None if it has two classes."""
    return model["pairs_"] if len(model["classes_"]) > 2 else None


def _loss_name(loss: str | PairLoss) -> str | None:
    """Return the name of a loss that pairs of classes have."""
    found = get_loss(loss)
    name = _LOSSES.get(type(found))
    return name if name is not None and found == get_loss(name) else None
