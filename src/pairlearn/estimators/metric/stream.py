# SPDX-License-Identifier: BSD-3-Clause
"""How a metric is learned from a stream: some examples wait, then Algorithm 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.estimators.metric.parameters import MetricParameters
from pairlearn.estimators.metric.start import (
    components_of,
    sample_differences,
    start_from,
    unit_step,
)
from pairlearn.estimators.shared.by_name import as_averaging, as_schedule, is_scaled
from pairlearn.estimators.shared.features_seen import see_features, seen_features
from pairlearn.estimators.shared.maps import is_linear
from pairlearn.estimators.shared.order import watch_order
from pairlearn.estimators.shared.scaling import Scaling
from pairlearn.estimators.shared.weights import chunk_weights
from pairlearn.features import Identity
from pairlearn.pairings import Pairing
from pairlearn.restored import restored_array, restored_count
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.rows import DenseRows, check_squares
from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.solvers.turns import one_at_a_time
from pairlearn.typing import Vector
from pairlearn.validation import check_generator, check_positive

__all__ = ["MetricStream"]

#: Step size of a stream in units of `unit_step`, with steps c / sqrt(t).
_STREAM_STEP = 1.0
#: Rows that a scaled stream collects before it chooses a starting point and a step size.
_WARM_UP = 64


class MetricStream(MetricParameters):
    """The stream of `MetricLearner`: learning by chunks, and a state to go on from."""

    step_size_: float | None
    held_out_score_: float | None
    n_steps_: int
    n_gradients_: int
    components_: Vector
    _n_features_out: int
    _stream: Stream | None
    #: Rows, labels and weights that wait for a stream to begin.
    _waiting: list[tuple[Vector, Vector, Vector]]
    #: The metric that a stream goes on from, and how many steps it took.
    _known: tuple[Vector, int] | None = None

    @one_at_a_time
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
        self._problem()
        if not is_linear(self.features):
            raise ValueError(
                f"a stream of metrics has no feature map, got features={self.features!r}; map the "
                "chunks yourself, or use fit."
            )
        stream, waiting = getattr(self, "_stream", None), self._waiting_rows()
        first = stream is None and not waiting
        if first:
            self._codes: dict[Any, float] = {}
            self._known = self._fitted()
        rows, y, paired = self._examples(X, y, reset=first, minimum=1, coded=False)
        self._map_chunk(DenseRows(rows))
        if self.scaling is None:
            check_squares(DenseRows(rows), whole=first)
        weight = chunk_weights(sample_weight, len(rows) // (2 if paired else 1))
        if paired:
            weight = np.repeat(np.sqrt(weight), 2)
        if not first and paired != self._paired:
            raise ValueError("A stream holds examples or pairs, not both.")
        if self.step_size == "held_out":
            raise ValueError(
                'step_size="held_out" needs all examples at once; for partial_fit give a '
                'number or "auto".'
            )
        step_size = None if first else self.step_size_
        if stream is None:
            if waiting and bool(len(weight)) != bool(len(waiting[0][2])):
                raise ValueError("Give sample_weight for every chunk of a stream or for none.")
            parts = [*waiting, (rows, y, weight)]
            rows, y, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
            stream, step_size = self._begin(rows, paired)
            if self._waits() and len(rows) < _WARM_UP:
                self._adopt(stream, step_size, paired)
                self._stream, self._waiting = None, parts
                return self
        assert step_size is not None
        stream.learn_many(rows, y, example_weight=weight if len(weight) else None)
        if first:
            self._forget_threshold()
        self._waiting = []
        self._adopt(stream, step_size, paired)
        if not paired:
            watch_order(self, DenseRows(rows), y, stream.scales)
        return self

    def _waiting_rows(self) -> list[tuple[Vector, Vector, Vector]]:
        """Return the rows, labels and weights that wait for a stream to begin."""
        waiting: list[tuple[Vector, Vector, Vector]] = self.__dict__.get("_waiting", [])
        return waiting

    def _first_metric(self) -> Any:
        """Return what the stream starts from: the metric of a fit, or `init`."""
        return self.init if self._known is None else self._known[0]

    def _fitted(self) -> tuple[Vector, int] | None:
        """Return the metric that is known, as the score parameterises it, and its steps."""
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

    def _waits(self) -> bool:
        """Return whether a stream needs some examples before it can begin."""
        init = self._first_metric()
        is_found = self.step_size == "auto" or isinstance(init, str)
        return is_scaled(self.scaling) and is_found

    def _begin(self, rows: Vector, paired: bool) -> tuple[Stream, float]:
        """Return a stream that starts from what its first rows say, and its step size."""
        problem, score, init = self._problem(), self._score(), self._first_metric()
        rng, pairing = check_generator(self.random_state), self._stream_pairing(paired)
        scales = None
        if self._waits():
            # Whatever follows the warm-up has no part in the choices.
            rows = rows[:_WARM_UP]
        elif (self.step_size == "auto" or isinstance(init, str)) and len(rows) < 2:
            raise ValueError(
                f"The first chunk has n_samples={len(rows)}; the scale of the data needs "
                "2 examples, or give step_size and init."
            )
        if is_scaled(self.scaling):
            scales = RunningScales(
                rows.shape[1],
                start="scaled" if isinstance(init, str) else "given",
                together=2 if paired else 1,
            )
            if self._waits():
                known = DenseRows(rows)
                rows = scales.take(known).apply(known).X.copy()  # type: ignore[union-attr]
        differences = np.empty((0, rows.shape[1]))
        if len(rows) > 1:
            differences = sample_differences(rows, pairing, rng)
        start = start_from(score, problem.loss, init, rows, differences)
        step_size = self._given_step_size(
            _STREAM_STEP * unit_step(score, problem.loss, differences)
        )
        return self._start(rows.shape[1], step_size, pairing, rng, start, scales), step_size

    def _start(
        self,
        n_features: int,
        step_size: float,
        pairing: Pairing,
        rng: np.random.Generator,
        start: Vector,
        scales: RunningScales | None,
    ) -> Stream:
        schedule = as_schedule(self.schedule, default="inverse_sqrt").scaled(step_size)
        averaging = as_averaging("step_size" if self.averaging == "auto" else self.averaging)
        solver = PairwiseSGD(pairing, schedule, self._domain(stored=False), averaging)
        return solver.start(
            self._problem(),
            n_features,
            rng=rng,
            w_start=start,
            n_before=0 if self._known is None else self._known[1],
            scales=scales,
        )

    def _adopt(self, stream: Stream, step_size: float, paired: bool) -> None:
        """Take over what a stream has learned."""
        self._stream, self._paired = stream, paired
        self.step_size_, self.held_out_score_ = step_size, None
        self.n_steps_, self.n_gradients_ = stream.n_steps, stream.n_gradients
        self._finish(self._score(), stream.scaled_average)
        if stream.scales is not None:
            # Taken apart in scaled units, in which eigenvalues are comparable.
            self.components_ = self.components_ * stream.scales.unit

    @one_at_a_time
    def stream_state(self) -> dict[str, Any]:
        """Return what the next chunk depends on, see `OnlineLearner`; empty before the first."""
        stream, waiting = getattr(self, "_stream", None), self._waiting_rows()
        if stream is None and not waiting:
            return {}
        return {
            **seen_features(self),
            "step_size": self.step_size_,
            "paired": self._paired,
            "codes": self._codes.copy(),
            "waiting": [list(part) for part in waiting],
            "known": None if self._known is None else list(self._known),
            "stream": None if stream is None else stream.state(),
        }

    def _checked_known(self, saved: Any) -> tuple[Vector, int] | None:
        """Return the metric that a saved stream goes on from; older states go on from nothing."""
        if saved is None:
            return None
        score, d = self._score(), self.n_features_in_
        shape = {"full": (d, d), "diagonal": (d,), "low_rank": (d, score.rank)}
        entries = dict(zip(("metric", "n_steps"), saved, strict=True))
        metric = restored_array(entries, "metric", shape[score.parameterization])
        return metric, restored_count(entries, "n_steps")

    @one_at_a_time
    def restore_stream(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that `stream_state` of an estimator made alike returned."""
        if state:
            see_features(self, state)
            self._codes = _checked_codes(state["codes"])
            step_size = check_positive("the saved step_size", state["step_size"])
            paired = bool(state["paired"])
            self.features_ = Identity.of(self.n_features_in_)
            waiting = _checked_waiting(state["waiting"], self.n_features_in_)
            self._known = self._checked_known(state.get("known"))
            if state["stream"] is None:
                if not waiting:
                    raise ValueError("the saved stream has neither begun nor examples that wait.")
                rows = np.concatenate([part[0] for part in waiting])
                self._adopt(*self._begin(rows, paired), paired)
                self._stream, self._waiting = None, waiting
                return
            # As large as the file says, before an array of that size is made.
            w = restored_array(state["stream"]["descent"], "w", (None,))
            if len(w) % self.n_features_in_ or not len(w):
                raise ValueError(
                    f"the saved metric has {len(w)} entries for {self.n_features_in_} features."
                )
            stream = self._start(
                self.n_features_in_,
                step_size,
                self._stream_pairing(paired),
                check_generator(self.random_state),
                w,
                RunningScales(self.n_features_in_) if is_scaled(self.scaling) else None,
            )
            stream.restore(state["stream"])
            self._waiting = []
            self._adopt(stream, step_size, paired)

    def _finish(self, score: MahalanobisScore, w: Vector, scaling: Scaling | None = None) -> None:
        # Iterates between two projections may have left the cone, and their average with them:
        # `components_of` leaves the negative eigenvalues out, which projects it.
        components = components_of(score, w, self.features_.n_outputs)
        self.components_ = components if scaling is None else scaling.to_user(components)
        self._n_features_out = len(self.components_)

    def _forget_threshold(self) -> None:
        if hasattr(self, "threshold_"):
            del self.threshold_


def _checked_codes(saved: Any) -> dict[Any, float]:
    """Return the number of each label: 0, 1, 2 and so on, in the order of their arrival."""
    codes = dict(saved) if isinstance(saved, Mapping) else {}
    if codes != saved or list(codes.values()) != list(range(len(codes))):
        raise ValueError("the saved numbers of labels do not count them from 0.")
    return codes


def _checked_waiting(saved: Any, d: int) -> list[tuple[Vector, Vector, Vector]]:
    """Return the rows, labels and weights of a saved state that wait for the stream to begin."""
    if not isinstance(saved, list) or not all(isinstance(part, list) for part in saved):
        raise ValueError("the saved examples that wait are not a list of lists.")
    waiting = []
    for part in saved:
        if len(part) != 3:
            raise ValueError("the saved examples that wait are not rows, labels and weights.")
        named = dict(zip(("rows", "labels", "weights"), part, strict=True))
        rows = restored_array(named, "rows", (None, d))
        labels = restored_array(named, "labels", (len(rows),))
        weights = restored_array(named, "weights", (None,))
        if len(weights) not in (0, len(rows)) or (weights < 0).any():
            raise ValueError(f"the saved weights are not one for each of {len(rows)} examples.")
        waiting.append((rows, labels, weights))
    if sum(len(part[0]) for part in waiting) >= _WARM_UP:
        raise ValueError("the saved examples that wait are too many; the stream has begun.")
    return waiting
