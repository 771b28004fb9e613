# SPDX-License-Identifier: BSD-3-Clause
"""The parameters of a metric learner as objects, `partial_fit`, and a state to go on from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets

from pairlearn.estimators.metric.descent import Before, MetricTask
from pairlearn.estimators.metric.mixin import check_pair_labels, check_pairs
from pairlearn.estimators.metric.solver import metric_solver
from pairlearn.estimators.metric.start import components_of
from pairlearn.estimators.shared.examples import validate_data
from pairlearn.estimators.shared.features_seen import see_features, seen_features
from pairlearn.estimators.shared.mapping import MapsFeatures
from pairlearn.estimators.shared.maps import is_linear
from pairlearn.estimators.shared.order import watch_order
from pairlearn.estimators.shared.scaling import is_scaled
from pairlearn.estimators.shared.solvers import Solver
from pairlearn.estimators.shared.weights import chunk_weights, weighing_examples
from pairlearn.features import FeatureMap, Identity
from pairlearn.losses import METRIC_LOSSES, PairLoss
from pairlearn.pairings.given import as_rows_of_pairs
from pairlearn.problem import Problem
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.blas_threads import with_one_thread
from pairlearn.solvers.rows import DenseRows, check_squares
from pairlearn.solvers.streams.settings import keep_settings
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction, check_one_type

#: What a stream is made of, so that it cannot change on the way.
_KEPT = ("loss", "solver", "scaling", "init", "parameterization", "rank")


class MetricStream(MapsFeatures):
    """The checked parameters of `MetricLearner`, its stream, and a state to go on from."""

    loss: str | PairLoss
    parameterization: str
    rank: int | None
    init: str | ArrayLike
    features: str | FeatureMap
    solver: str | Solver
    scaling: str | None
    n_neighbors: int
    validation_fraction: float
    random_state: Any
    n_features_in_: int
    #: The number of each label of a stream.
    _codes: dict[Any, float]
    step_size_: float | None
    held_out_score_: float | None
    n_steps_: int
    n_gradients_: int
    components_: Vector
    _n_features_out: int
    #: What learns the chunks; None before the first chunk and after a fit.
    _stream: Any = None

    def _task(self, paired: bool, scaling: Any = None) -> MetricTask:
        """Return what the solver is asked to do, with the scaling of the rows of a fit."""
        return MetricTask(
            Problem(self._score(), METRIC_LOSSES.make(self.loss)),
            self.init,
            paired,
            is_scaled(self.scaling),
            self.random_state,
            scaling,
            check_count("n_neighbors", self.n_neighbors),
            check_fraction("validation_fraction", self.validation_fraction),
        )

    def _score(self) -> MahalanobisScore:
        return MahalanobisScore(self.parameterization, self.rank)

    def _examples(
        self, X: Any, y: ArrayLike, *, reset: bool, minimum: int, coded: bool = True
    ) -> tuple[Vector, Vector, bool]:
        """Return rows, numbers as labels, and whether the rows are pairs."""
        if getattr(X, "ndim", None) == 3 or np.ndim(X[0] if isinstance(X, list) else 0) == 2:
            known = None if reset else self.n_features_in_
            pairs = check_pairs(X, known)
            signs = check_pair_labels(y, len(pairs))
            rows, y = as_rows_of_pairs(pairs, signs)
            validate_data(self, rows, y, reset=reset)
            return rows, y, True
        X, y = validate_data(
            self, X, y, dtype=np.float64, order="C", reset=reset, ensure_min_samples=minimum
        )
        check_classification_targets(y)
        names = np.asarray(y)
        if coded:
            return X, np.unique(names, return_inverse=True)[1].astype(np.float64), False
        if self._codes:
            check_one_type("y", names.tolist()[0], next(iter(self._codes)), "labels")
        codes = [self._codes.setdefault(name, float(len(self._codes))) for name in names.tolist()]
        return X, np.array(codes), False

    @one_at_a_time
    @with_one_thread
    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from the next chunk of a stream, in order (Algorithm 2).

        After `fit` the stream goes on from its metric, with the step sizes and the average that
        follow after as many steps.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_pairs, 2, n_features)
            Examples, or pairs; a stream has one kind.
        y : array-like of shape (n_samples,) or (n_pairs,)
            Labels, or +1 and -1.
        sample_weight : array-like of shape (n_samples,) or (n_pairs,), optional
            Weights, for every chunk or for none. A pair weighs the product of both, unscaled; a
            given pair has a weight of its own.

        Returns
        -------
        self
            The learner. The starting point and the step size come from the first chunk if they
            are not given.
        """
        if not is_linear(self.features):
            raise ValueError(
                f"a stream of metrics has no feature map, got features={self.features!r}; map the "
                "chunks yourself, or use fit."
            )
        stream = self._stream
        first = stream is None
        keep_settings(self, _KEPT, begun=not first)
        if first:
            self._codes = {}
        rows, y, paired = self._examples(
            X, y, reset=first and not hasattr(self, "components_"), minimum=1, coded=False
        )
        weight = chunk_weights(sample_weight, len(rows) // (2 if paired else 1))
        if paired:
            weight = np.repeat(np.sqrt(weight), 2)
        weight, rows, y = weighing_examples(weight, rows, y, begun=not first)
        if not len(y):
            return self
        self._map_chunk(DenseRows(rows))
        if self.scaling is None:
            check_squares(DenseRows(rows), whole=first)
        if first:
            solver = metric_solver(self.solver)
            stream = solver.stream(self._task(paired), rows.shape[1], self._known())
        elif paired != stream.task.paired:
            raise ValueError("A stream holds examples or pairs, not both.")
        learned = stream.learn(rows, y, weight)
        if first and learned is not None:
            self._forget_threshold()
        self._adopt(stream)
        if learned is not None and not paired:
            watch_order(self, DenseRows(learned[0]), learned[1], stream.stream.scales)
        return self

    def _known(self) -> Before | None:
        """Return the fitted metric as the score parameterises it, and its number of steps."""
        components: Vector | None = getattr(self, "components_", None)
        if components is None:
            return None
        score = self._score()
        if score.parameterization == "low_rank":
            # Directions without a part in the distance are left out of `components_`.
            factor = np.zeros((components.shape[1], score.rank or 0))
            factor[:, : len(components)] = components.T
            return factor, self.n_steps_
        if score.parameterization == "diagonal":
            return (components**2).sum(axis=0), self.n_steps_
        return components.T @ components, self.n_steps_

    def _adopt(self, stream: Any) -> None:
        """Take over what a stream has learned."""
        self._stream = stream
        found, scales = stream.stream, stream.stream.scales
        self.step_size_, self.held_out_score_ = stream.step_size, None
        self.n_steps_, self.n_gradients_ = found.n_steps, found.n_gradients
        # Taken apart in scaled units, in which eigenvalues are comparable.
        components = components_of(self._score(), found.scaled_average, self.n_features_in_)
        self._take(components if scales is None else components * scales.unit)

    def _take(self, components: Vector) -> None:
        self.components_, self._n_features_out = components, len(components)

    @one_at_a_time
    def stream_state(self) -> dict[str, Any]:
        """Return what the next chunk depends on, see `OnlineLearner`; empty before the first."""
        if self._stream is None:
            return {}
        return {**seen_features(self), "codes": self._codes.copy(), **self._stream.state()}

    @one_at_a_time
    def restore_stream(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `stream_state` of an estimator made alike returned."""
        if not state:
            return
        see_features(self, state)
        self._codes = _checked_codes(state["codes"])
        self.features_ = Identity.of(self.n_features_in_)
        keep_settings(self, _KEPT, begun=False)
        task = self._task(bool(state["paired"]))
        stream = metric_solver(self.solver).stream(task, self.n_features_in_)
        stream.restore(state)
        self._adopt(stream)

    def _forget_threshold(self) -> None:
        if hasattr(self, "threshold_"):
            del self.threshold_


def _checked_codes(saved: Any) -> dict[Any, float]:
    """Return the number of each label: 0, 1, 2 and so on, in the order of their arrival."""
    codes = dict(saved) if isinstance(saved, Mapping) else {}
    if codes != saved or list(codes.values()) != list(range(len(codes))):
        raise ValueError("the saved numbers of labels do not count them from 0.")
    return codes
