# SPDX-License-Identifier: BSD-3-Clause
"""How an AUC classifier learns a stream: by Algorithm 2, by class moments, or for the top."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.estimators.auc.moments import FIRST, MomentStream
from pairlearn.estimators.auc.online import OnlineGrid, relative_to
from pairlearn.estimators.auc.parameters import AUCParameters
from pairlearn.estimators.auc.top import TOP_STEP_SIZE
from pairlearn.estimators.shared.by_name import as_averaging, as_pairing, as_schedule
from pairlearn.estimators.shared.decisions import Undecided
from pairlearn.estimators.shared.features_seen import see_features, seen_features
from pairlearn.estimators.shared.maps import as_map, choose_features, fit_map, is_linear, map_rows
from pairlearn.estimators.shared.order import RESERVOIRS, watch_order
from pairlearn.estimators.shared.published import DEFERRED, publish
from pairlearn.estimators.shared.scaling import Scaling
from pairlearn.estimators.shared.weights import example_weights
from pairlearn.features import FeatureMap, Identity
from pairlearn.problem import Problem
from pairlearn.restored import restored_count
from pairlearn.scores import LinearScore
from pairlearn.solvers.rows import DenseRows, Rows, as_rows, check_squares
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.running_scales import STEP_SIZE, RunningScales
from pairlearn.solvers.top.stream import TopStream
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Vector
from pairlearn.validation import check_generator, check_positive

__all__ = ["AUCStream", "distinct"]


class AUCStream(AUCParameters):
    """The streams of `AUCClassifier`: learning by chunks, and a state to go on from."""

    n_features_in_: int
    _online: OnlineGrid | None
    _moments: MomentStream | None
    _top: TopStream | None
    _known_scales: Scaling | RunningScales | None
    #: Whether the next chunk begins anew from the present coefficients.
    _restarted = False

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from the next chunk of a stream, in order (Algorithm 2).

        After `fit` the stream goes on from its coefficients, with the step sizes and the average
        of a stream of as many examples; `threshold_` and probabilities stay those of the fit until
        30 examples of each class have come. More than two classes have a stream for each pair of
        them.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Examples.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), optional
            All labels, two or more; needed in the first call, unless the model is fitted.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, for every chunk or for none. A pair weighs the product of both, unscaled.

        Returns
        -------
        self
            The classifier. A chunk that fails leaves it as it was.
        """
        self.score_and_learn(X, y, classes, sample_weight)
        return self

    @one_at_a_time
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
        # Dense scaled streams score differences from their first example, so that scores of several
        # chunks compare however far from zero features lie.
        first = not hasattr(self, "classes_")
        if self.solver == "exact":
            raise ValueError('partial_fit needs solver="sgd", "moments" or "auto", got "exact".')
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        try:
            return self._learn_chunk(X, y, classes, sample_weight, first=first, finite=finite)
        except BaseException:
            if first:
                # Validation has noted the features of a chunk that was not learned.
                for name in ("n_features_in_", "feature_names_in_"):
                    self.__dict__.pop(name, None)
            raise

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
        self._check_parameters()
        rows, labels = self._examples(X, y, reset=first, minimum=1, finite=finite)
        before = None if first else self.classes_
        if before is None or (classes is not None and not _are(classes, before)):
            known = distinct(classes)
            if len(known) < 2:
                raise ValueError(f"classes must hold two labels, got {known.tolist()}.")
            if before is not None and not np.array_equal(known, before):
                raise ValueError(
                    f"classes={known.tolist()} differ from those of the model, {before.tolist()}."
                )
        else:
            known = before
        is_positive, is_negative = labels == known[1], labels == known[0]
        if np.count_nonzero(is_positive) + np.count_nonzero(is_negative) < len(labels):
            unknown = np.unique(labels[~(is_positive | is_negative)])
            raise ValueError(
                f"y contains {unknown.tolist()}, which is not in classes={known.tolist()}."
            )
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all labels at once; pass a dict to partial_fit."
            )
        y = np.where(is_positive, 1.0, -1.0)
        weight = example_weights(sample_weight, self.class_weight, labels)
        if self._learns_moments():
            return self._learn_moments(rows, y, weight, known, first=first)
        rows = self._mapped_chunk(rows)
        if self.scaling is None:
            check_squares(rows, whole=first)
        if self.objective != "auc":
            return self._learn_top(rows, y, weight, known, first=first)
        online = self.__dict__.get("_online")
        if online is None:
            if self.step_size == "theory":
                raise ValueError(
                    'step_size="theory" needs the number of examples beforehand; for a stream pass '
                    "a number (pairlearn.theory.advise gives one) or step_size='auto'."
                )
            step_size, radius = self._given_step_size(), self._given_radius()
            scales = None
            if self.scaling is not None:
                scales = self._running_scales(rows.shape[1], first=first)
                step_sizes: tuple[float, ...] = (step_size or STEP_SIZE,)
            else:
                step_sizes = relative_to(rows) if step_size is None else (step_size,)
            online = OnlineGrid(
                self._online_problem(),
                rows.shape[1],
                dtype=rows.X.dtype if isinstance(rows, DenseRows) else np.float64,
                step_sizes=step_sizes,
                radius=np.inf if radius is None else radius,
                start=None if first else self.coef_[0],
                n_before=0 if first or self._restarted else self.n_examples_,
                decided=None if first else self._decided(self._published()),
                scales=scales,
                **self._online_parts(),
            )
        scores = online.learn(rows, y, weight)
        self._adopt(online, known)
        watch_order(self, rows, y, online.best.scales, cure=RESERVOIRS)
        return scores

    def _running_scales(self, n_features: int, *, first: bool) -> RunningScales:
        """Return the scales of a new stream, those of what was learned before if they are known."""
        if first:
            return RunningScales(n_features)
        known = self.__dict__.get("_known_scales")
        if known is None:
            return RunningScales(n_features, start="given")
        return known.going_on() if isinstance(known, RunningScales) else RunningScales.known(known)

    def _mapped_chunk(self, rows: Rows) -> Rows:
        """Return a chunk as stochastic gradient descent sees it."""
        features = self.features
        if is_linear(features):
            return rows
        if not isinstance(features, FeatureMap) or not features.is_fitted:
            cure = "pass features=Hats().fit(X) of a sample X"
            if self.objective == "auc":
                cure += ', or solver="moments", which fits the map to the first 4,096 examples'
            raise ValueError(
                f"stochastic gradient descent on a stream needs fitted features, got {features!r}; "
                f"{cure}."
            )
        publish(self, features_=features)
        return as_rows(map_rows(features, rows, self.max_memory, "pass smaller chunks."))

    def _adopt(self, online: OnlineGrid, classes: NDArray[Any]) -> None:
        """Take over what the streams have learned."""
        self._online = online
        self._restarted = False
        stream = online.best
        self.step_size_, self.radius_ = online.step_size, online.radius
        self.held_out_auc_ = online.progressive_auc
        self.n_steps_, self.n_gradients_ = stream.n_steps, stream.n_gradients
        self.n_examples_, self.data_fingerprint_ = online.n_before + stream.n_examples, None
        self.trace_ = Trace(n_steps=stream.n_steps, n_gradients=stream.n_gradients)
        self._publish_stream(online.average, classes, online.undecided())

    def _online_parts(self) -> dict[str, Any]:
        return {
            "pairing": as_pairing(self.pairing, self.buffer_size),
            "schedule": as_schedule(self.schedule, default="inverse_sqrt"),
            "averaging": as_averaging(self.averaging),
            "rng": check_generator(self.random_state),
        }

    def _online_problem(self) -> Problem:
        self._check_parameters()
        return Problem(LinearScore(), self._loss_for("sgd"))

    @one_at_a_time
    def restart_stream(self) -> None:
        """Forget step sizes and average; the next chunk starts from the present coefficients."""
        if self.__dict__.get("_moments") is not None:
            raise ValueError(
                'a stream by moments has no step sizes to start anew; use solver="sgd" to forget '
                "the past."
            )
        if self.__dict__.get("_top") is not None:
            raise ValueError(
                f'a stream of objective="{self.objective}" keeps a sample of all its past; forget '
                'is for objective="auc".'
            )
        online = self.__dict__.get("_online")
        if online is not None:
            self._known_scales = online.best.scales
        self._online, self._restarted = None, True

    def _learns_moments(self) -> bool:
        """Whether a stream is learned by moments: if asked to, and by default if rows are mapped.

        Stochastic gradient descent in one pass is weak on mapped rows.
        """
        mapped = not is_linear(self.features)
        return self.solver == "moments" or (mapped and self._suits_moments())

    def _learn_moments(
        self,
        rows: Rows,
        y: Vector,
        weight: Vector,
        classes: NDArray[Any],
        *,
        first: bool,
    ) -> Vector:
        stream = self.__dict__.get("_moments")
        if stream is None:
            if not first:
                raise ValueError(
                    "a stream by moments cannot go on from fit, which does not keep them; teach a "
                    "new model by partial_fit alone."
                )
            stream = self._new_moments(rows.shape[1])
        scores: Vector = stream.learn(rows, y, weight)
        self._adopt_moments(stream, classes)
        return scores

    def _learn_top(
        self,
        rows: Rows,
        y: Vector,
        weight: Vector,
        classes: NDArray[Any],
        *,
        first: bool,
    ) -> Vector:
        """Learn a chunk for the top of the list."""
        stream: TopStream | None = self.__dict__.get("_top")
        if stream is None:
            if not first:
                raise ValueError(
                    f'a stream of objective="{self.objective}" cannot go on from fit, which does '
                    "not keep a sample of its examples; teach a new model by partial_fit alone."
                )
            stream = self._new_top(rows.shape[1])
        scores = stream.learn(rows, y, weight)
        self._adopt_top(stream, classes)
        return scores

    def _new_top(self, n_features: int) -> TopStream:
        top = self._objective().top
        assert top is not None
        radius = self._given_radius()
        draws = check_generator(copy.deepcopy(self.random_state))
        return TopStream(
            top,
            self._loss_for("sgd"),
            n_features,
            step_size=self._given_step_size() or TOP_STEP_SIZE,
            radius=np.inf if radius is None else radius,
            is_scaled=self.scaling is not None,
            seed=int(draws.integers(2**31)),
        )

    def _adopt_top(self, stream: TopStream, classes: NDArray[Any]) -> None:
        """Take over a stream for the top of the list."""
        self._top, self.solver_, self.loss_ = stream, "sgd", stream.loss
        self.step_size_, self.radius_ = stream.step_size, stream.radius
        self.ridge_, self.held_out_auc_, self.data_fingerprint_ = None, None, None
        self.n_steps_ = self.n_examples_ = stream.n_examples
        self.n_gradients_ = stream.n_pairs
        self.trace_ = Trace(n_steps=stream.n_examples, n_gradients=stream.n_pairs)
        self._publish_stream(stream.average, classes, Undecided(*stream.window()))

    def _new_moments(self, n_features: int) -> MomentStream:
        if self.monotone:
            raise ValueError("monotone functions are for fit; a stream does not constrain them.")
        given = self.features
        known = given if isinstance(given, FeatureMap) and given.is_fitted else None
        if is_linear(given):
            known = Identity().fit(np.zeros((1, n_features)))
        if known is not None and known.n_inputs != n_features:
            raise ValueError(
                f"features were fitted to {known.n_inputs} features, X has {n_features}."
            )
        loss = self._loss_for("moments")
        return MomentStream(
            self._map_of_stream,
            features=known,
            ridge=None if self.ridge == "auto" else check_positive("ridge", self.ridge),  # type: ignore[arg-type]
            margin=loss.parameter,
            scaled=self.scaling is not None,
        )

    def _map_of_stream(self, rows: Rows, y: Vector) -> FeatureMap:
        """Return the map fitted to the first examples of a stream."""
        rng = check_generator(copy.deepcopy(self.random_state))
        if isinstance(self.features, str) and self.features == "auto":
            # Too few to choose by: linear, until the choice is made for good.
            if len(y) < FIRST or min(np.count_nonzero(y > 0), np.count_nonzero(y < 0)) < 2:
                return Identity().fit(np.zeros((1, rows.shape[1])))
            return choose_features(
                rows,
                y,
                weight=np.empty(0),
                validation_fraction=self.validation_fraction,
                max_memory=self.max_memory,
                rng=rng,
            )[1]
        return fit_map(as_map(self.features, rows, y), rows, rng)

    def _adopt_moments(self, stream: MomentStream, classes: NDArray[Any]) -> None:
        """Take over a stream; its model is found when somebody asks for it."""
        self._moments, self.solver_ = stream, "moments"
        self.loss_ = self._loss_for("moments")
        self.step_size_, self.radius_ = None, np.inf
        self.n_steps_ = self.n_gradients_ = self.n_examples_ = stream.n_examples
        self.data_fingerprint_ = None
        self.trace_ = Trace(n_steps=stream.n_examples, n_gradients=stream.n_examples)
        deferred = {DEFERRED: ("coef_", "features_", "_decision")}
        publish(self, classes_=classes, coef_=None, _decision=None, **deferred)

    @one_at_a_time
    def finish_stream(self) -> None:
        """Find the coefficients of a stream by moments, if examples came since the last time.

        Whoever reads them, or predicts, does so; call it to choose the moment.
        """
        stream: MomentStream | None = self.__dict__.get("_moments")
        if stream is None:
            return
        model = stream.finish()
        if model is None:
            features: FeatureMap = Identity().fit(np.zeros((1, self.n_features_in_)))
            coef = np.zeros(self.n_features_in_)
            self.ridge_, self.held_out_auc_ = None, None
        else:
            features, coef = model.features, model.coef
            self.ridge_, self.held_out_auc_ = model.ridge, model.auc
        publish(
            self,
            coef_=coef[np.newaxis],
            features_=features,
            _decision=Undecided(*stream.window()),
            **{DEFERRED: ()},
        )

    @one_at_a_time
    def stream_state(self) -> dict[str, Any]:
        """Return what the next chunk depends on, see `OnlineLearner`; empty before the first."""
        online, moments = self.__dict__.get("_online"), self.__dict__.get("_moments")
        if moments is not None:
            return {**seen_features(self), "classes": self.classes_, "moments": moments.state()}
        top = self.__dict__.get("_top")
        if top is not None:
            found = {"top": top.state(), "seed": top.seed, "width": top.n_features}
            return {**seen_features(self), "classes": self.classes_, **found}
        if online is None:
            return {}
        return {**seen_features(self), "classes": self.classes_, **online.state()}

    @one_at_a_time
    def restore_stream(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `stream_state` of an estimator made alike returned."""
        if state:
            see_features(self, state)
            classes = state["classes"]
            if not isinstance(classes, np.ndarray) or classes.shape != (2,):
                raise ValueError(f"the saved classes are {classes!r:.60}, not two labels.")
            self._check_parameters()
            if ("moments" in state) != self._learns_moments() or (
                ("top" in state) != (self.objective != "auc")
            ):
                raise ValueError(
                    "the saved stream was learned by another solver; make the model alike."
                )
            if "moments" in state:
                stream = self._new_moments(self.n_features_in_)
                stream.restore(state["moments"], self.n_features_in_)
                self._adopt_moments(stream, classes)
                return
            if "top" in state:
                learned = self._new_top(restored_count(state, "width", minimum=1))
                learned.seed = restored_count(state, "seed")
                learned.restore(state["top"])
                if isinstance(self.features, FeatureMap) and self.features.is_fitted:
                    publish(self, features_=self.features)
                self._adopt_top(learned, classes)
                return
            online = OnlineGrid.from_state(
                state,
                self._online_problem(),
                is_scaled=self.scaling is not None,
                **self._online_parts(),
            )
            if isinstance(self.features, FeatureMap) and self.features.is_fitted:
                publish(self, features_=self.features)
            self._adopt(online, classes)


def distinct(classes: Any) -> NDArray[Any]:
    """Return different labels in their order.

    >>> distinct(["b", "a", "b"]).tolist()
    ['a', 'b']
    """
    labels = np.asarray(classes)
    if labels.shape == (2,) and labels.dtype.kind in "iufU" and labels[0] < labels[1]:
        return labels.copy()  # as they come from most callers; NumPy would take long to see it
    return np.unique(labels)


def _are(classes: Any, known: NDArray[Any]) -> bool:
    """Tell whether classes are the known ones in their order."""
    if type(classes) is list:
        # A stream is told its classes with every chunk: no array is made of them each time.
        return bool(classes == known.tolist())
    return np.array_equal(classes, known)
