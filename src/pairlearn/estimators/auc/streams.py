# SPDX-License-Identifier: BSD-3-Clause
"""How an AUC classifier learns a stream: chunk by chunk, by the stream of its solver.

The stream of a solver has `learn`, `facts` (fitted attributes), `published` (the parts that
predictions need), `state` and `restore`; a stream that finds its model later also has `finish`.
More than two classes have a classifier for each pair.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.estimators.auc.composition import Before, Composition, Task
from pairlearn.estimators.auc.many import check_decisions_between
from pairlearn.estimators.auc.pair_streams import PairStreams
from pairlearn.estimators.shared.decisions import ScoreDecisions, as_rule
from pairlearn.estimators.shared.examples import (
    check_known,
    known_classes,
    rows_and_labels,
    see_features,
    seen_features,
)
from pairlearn.estimators.shared.maps import (
    as_map,
    check_named,
    fit_map,
    is_linear,
)
from pairlearn.estimators.shared.published import all_or_nothing, publish
from pairlearn.estimators.shared.scaling import is_scaled
from pairlearn.estimators.shared.solvers import MAPPED_BYTES, Fitted, Moments, Solver
from pairlearn.estimators.shared.weights import chunk_weights, example_weights
from pairlearn.features import FeatureMap, Identity
from pairlearn.folds import Keys
from pairlearn.solvers.blas_threads import with_one_thread
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.streams.settings import check_map, keep_settings
from pairlearn.typing import Labels, Vector
from pairlearn.validation import check_fraction, check_generator

#: What a stream is made of, so that it cannot change on the way.
_KEPT = ("objective", "features", "loss", "solver", "scaling")
#: Decisions between two classes are made anew with each model.
_KEPT_OF_MANY = (*_KEPT, "decision")


class AUCStreams(ScoreDecisions):
    """The streams of `AUCClassifier`: learning by chunks, and a state to continue from."""

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
    trace_: Any
    choice_: Any
    ridge_: Any
    held_out_auc_: Any
    #: The fitted map, `Identity` for a linear score.
    features_: Any
    features: Any
    class_weight: Any
    scaling: str | None
    random_state: Any
    validation_fraction: float
    #: The stream of the solver; None after `fit` and before the first chunk.
    _stream: Any = None
    _known_scales: Any = None
    _known_origin: Vector | None = None
    #: What rows can be taken back from; None if it was not kept.
    _kept: Any = None
    #: Whether the next chunk begins anew from the present coefficients.
    _restarted = False

    @property
    def known_scales(self) -> Any:
        """The scales of the features in a fit or a stream, in which its settings are; or None."""
        return self._known_scales

    @known_scales.setter
    def known_scales(self, scales: Any) -> None:
        self._known_scales = scales

    def _composition(self) -> Composition:
        """Return the parts, checked alone and together."""
        as_rule(self.decision)
        is_scaled(self.scaling)
        check_fraction("validation_fraction", self.validation_fraction)
        check_named(self.features)
        return Composition.of(self)

    def _note(self, fitted: Fitted, n_examples: int, fingerprint: str | None) -> None:
        """Set the fitted attributes that tell how a fit was found; a stream starts anew."""
        choice, trace = fitted.choice, fitted.trace
        self.solver_, self.loss_, self.choice_ = fitted.solver, fitted.loss, choice
        self.trace_, self.advice_ = trace, fitted.advice
        self.step_size_, self.radius_ = choice.step_size, choice.radius
        self.ridge_, self.held_out_auc_ = choice.ridge, choice.auc
        self.half_life_ = np.inf
        self.n_steps_, self.n_gradients_ = trace.n_steps, trace.n_gradients
        self.n_examples_, self.data_fingerprint_ = n_examples, fingerprint
        self._stream, self._restarted = None, False
        self._known_scales = self._known_origin = None
        self._forget_nothing()

    def _forget_nothing(self) -> None:
        """Drop what rows could be taken back from, and the certificate of the last time."""
        self._kept = None
        self.__dict__.pop("forgetting_certificate_", None)

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next chunk of a stream, in order.

        By default class moments are kept with several half-lives, and the model is that of the
        longest memory that is about as good as the best on recent examples (`half_life_`). While a
        class has fewer than 300 examples, the model may be Fisher's discriminant;
        ``solver="moments"`` is the square loss alone. With more than 256 features, and with a loss
        other than the square, steps of descent pair each example with the latest of the other
        class; ``solver="sgd"`` is the paper's Algorithm 2.

        After `fit` the stream is one of descent. It goes on from the coefficients, with the step
        sizes and the average of a stream of as many examples; `threshold_` and probabilities stay
        those of the fit until 30 examples of each class have come. More than two classes have a
        stream for each pair of them.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), optional
            All labels, two or more; needed in the first call, unless the model is fitted.
        sample_weight : array-like of shape (n_samples,), optional
            Weights. A pair weighs the product of both, unscaled. Examples of a chunk without them
            weigh 1; descent over pairs (``solver="sgd"``) needs them for every chunk or for none.

        Returns
        -------
        self
            The classifier. A chunk that fails leaves it as it was.
        """
        self.score_and_learn(X, y, classes, sample_weight)
        return self

    @with_one_thread
    @all_or_nothing
    def score_and_learn(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        finite: bool = False,
    ) -> Vector:
        """Learn a chunk as `partial_fit` does; return the scores that it had before."""
        # Streams score differences from a row amid their examples, so that scores of several chunks
        # compare however far from zero features lie.
        stream, first = self._stream, not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        parts = self._composition() if stream is None else None
        known = known_classes(classes, None if first else self.classes_)
        many = len(known) > 2
        if parts is None:
            keep_settings(self, _KEPT_OF_MANY if many else _KEPT, begun=True)
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all labels at once; pass a dict to partial_fit."
            )
        if parts is not None and many:
            check_decisions_between(self, len(known), parts)
            parts.of_stream(self._n_outputs(0))
        rows, labels = rows_and_labels(self, X, y, reset=first, minimum=1, finite=finite)
        of_classes = self._weights_of(known)
        is_positive = labels == known[1]
        if many or np.count_nonzero(is_positive | (labels == known[0])) < len(labels):
            check_known(labels, known)
        if parts is not None:
            stream = self._new_stream(parts, rows.shape[1], known, first=first)
        weight = chunk_weights(sample_weight, len(labels))
        if getattr(stream, "weighs_classes", True):
            weight = example_weights(sample_weight, of_classes, labels)
            for factor in (of_classes or {}).values():
                # Those of the two classes have the product 1, or steps would be larger or smaller.
                weight = weight / (math.sqrt(factor) if 0.0 < factor < math.inf else 1.0)
        told = labels if many else np.where(is_positive, 1.0, -1.0)
        scores: Vector = stream.learn(rows, told, weight)
        self._adopt_stream(stream, known)
        if hasattr(stream, "watch"):
            stream.watch(self)
        return scores

    def _new_stream(
        self,
        parts: Composition,
        n_features: int,
        classes: Labels,
        *,
        first: bool,
        solver: Solver | None = None,
    ) -> Any:
        """Return the stream of the solver, which continues the model if there is one."""
        if len(classes) > 2:
            streams = PairStreams(self, classes, n_features)
            if not first:
                streams.start_from(self)
            return streams
        linear = is_linear(self.features)
        solver = solver or parts.of_stream(self._n_outputs(n_features), going_on=not first)
        if parts.monotone:
            raise ValueError(
                f"monotone={parts.monotone!r} is for fit: a stream cannot constrain "
                "functions; leave out monotone, or use fit."
            )
        given = self.features
        known: FeatureMap | None = None
        if linear:
            known = Identity.of(n_features)
        elif isinstance(given, FeatureMap) and given.is_fitted:
            known = given
        elif not solver.maps_rows:
            cure = "pass features=Hats().fit(X) of a sample X"
            if parts.objective.over_pairs:
                cure += ', or solver="moments", which fits the map to the first 4,096 examples'
            raise ValueError(
                f"stochastic gradient descent on a stream needs fitted features, got {given!r}; "
                f"{cure}."
            )
        before, memory = None, self._max_memory
        if not first:
            if known is not None:
                check_map(self._published().get("features_"), known)
            n_before = 0 if self._restarted else self.n_examples_
            decision = self._decided()
            seen = self.known_scales, self._known_origin
            before = Before(self.coef_[0], n_before, decision, *seen)
        task = Task(
            parts.objective,
            parts.loss_for(solver),
            known,
            parts.is_scaled,
            check_generator(self.random_state),
            self.validation_fraction,
            free=parts.is_free and is_linear(self.features),
            fit_map=partial(_fit_map, given, self.random_state, self.validation_fraction, memory),
        )
        return solver.stream(task, n_features, before)

    def _n_outputs(self, n_features: int) -> int | None:
        """Return the number of mapped features, None if the map is not fitted."""
        if is_linear(self.features):
            return n_features
        given = self.features
        return given.n_outputs if isinstance(given, FeatureMap) and given.is_fitted else None

    @property
    def _max_memory(self) -> float:
        """Bytes that mapped rows, or their moments, may take."""
        given = getattr(self, "solver", None)
        return float(getattr(given, "max_memory", MAPPED_BYTES))

    def _adopt_stream(self, stream: Any, classes: Labels) -> None:
        """Set the fitted attributes from a stream."""
        if stream is not self._stream:
            keep_settings(self, _KEPT if len(classes) == 2 else _KEPT_OF_MANY, begun=False)
        self._stream, self._restarted = stream, False
        self._forget_nothing()
        self.solver_ = "sgd" if stream.kind == "top" else stream.kind
        self.loss_, self.advice_, self.data_fingerprint_ = stream.loss, None, None
        publish(self, choice_=None, ridge_=None, held_out_auc_=None)
        self.half_life_ = np.inf
        for name, value in stream.facts().items():
            setattr(self, name, value)
        publish(self, classes_=classes, **stream.published())

    def finish_stream(self) -> None:
        """Find the model of a stream that leaves it for later, if examples came since.

        Reading the coefficients and predicting call it; call it yourself to choose the moment.
        """
        if hasattr(self._stream, "finish"):
            publish(self, **self._stream.finish(self))

    def restart_stream(self) -> None:
        """Forget the past: the next chunk starts from the present coefficients.

        Descent forgets step sizes and average, moments all but the weight of some 250 examples.
        """
        stream = self._stream
        if stream is not None and stream.kind == "top":
            raise ValueError(
                "a stream for the top of the list keeps a sample of all its past; use "
                'objective="auc" to forget the past.'
            )
        if hasattr(stream, "restart"):
            # The model is that of the whole past, until the next chunk comes.
            self.finish_stream()
            stream.restart()
            return
        if stream is not None:
            self.known_scales, self._known_origin = stream.scales, stream.grid.origin
        self._stream, self._restarted = None, True

    def stream_state(self) -> dict[str, Any]:
        """Return the state that the next chunk depends on; empty before the first chunk."""
        if self._stream is None:
            return {}
        return {**seen_features(self), "classes": self.classes_, **self._stream.state()}

    def restore_stream(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `stream_state` of an equal estimator returned."""
        if not state:
            return
        see_features(self, state)
        classes, n_features = state["classes"], self.n_features_in_
        parts, solver = self._composition(), None
        if len(classes) > 2:
            check_decisions_between(self, len(classes), parts)
        else:
            outputs = self._n_outputs(n_features)
            solver = parts.of_stream(outputs, going_on="moments" not in state)
            if ("moments" in state) != isinstance(solver, Moments) or (
                ("top" in state) == parts.objective.over_pairs
            ):
                raise ValueError(
                    "the saved stream was learned by another solver or objective; restore it with "
                    "an estimator that has the same parameters."
                )
        stream = self._new_stream(parts, n_features, classes, first=True, solver=solver)
        stream.restore(state, n_features)
        self._adopt_stream(stream, classes)

    def _weights_of(self, known: Labels) -> dict[Any, float] | None:
        """Return the weight of each class; a chunk may lack classes that have none of their own."""
        if not isinstance(self.class_weight, Mapping):
            return self.class_weight  # type: ignore[no-any-return]
        names = known.tolist()
        unknown = [label for label in self.class_weight if label not in names]
        if unknown:
            raise ValueError(f"class_weight names {unknown[0]!r}, the labels are {names}.")
        nothing = [label for label in names if self.class_weight.get(label, 1.0) == 0.0]
        if nothing:
            raise ValueError(
                f"class_weight of {nothing[0]!r} is 0, and both classes of a pair need a weight."
            )
        return {name: self.class_weight.get(name, 1.0) for name in names}


def _fit_map(
    features: Any, random_state: Any, fraction: float, memory: float, rows: Rows, y: Vector
) -> FeatureMap:
    """Return the map fitted to the first examples of a stream."""
    rng = check_generator(copy.deepcopy(random_state))
    if not isinstance(features, str) or features != "auto":
        return fit_map(as_map(features, rows, y), rows, rng)
    from pairlearn.estimators.auc.ways.moment_streams import FIRST
    from pairlearn.estimators.shared.judged_maps import choose_features

    # Too few examples to choose by: linear until the choice is final.
    if len(y) < FIRST or min(np.count_nonzero(y > 0), np.count_nonzero(y < 0)) < 2:
        return Identity.of(rows.shape[1])
    keys = Keys.of(rows, seed=rng)
    return choose_features(rows, y, np.empty(0), rng, keys, fraction, memory)[1]
