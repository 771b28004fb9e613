# SPDX-License-Identifier: BSD-3-Clause
"""How an online learner drives rankers, metric learners and entropy regressors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.entropy import EntropyRegressor
from pairlearn.estimators.entropy_stream import EntropyStream
from pairlearn.estimators.metric import MetricLearner
from pairlearn.estimators.ranker import PairwiseRanker
from pairlearn.pairings import PreviousExample
from pairlearn.pairings.queries import PreviousOfQuery
from pairlearn.streams.driving import (
    Driver,
    parts_of,
    register_driver,
    restore_stream,
    start_like,
    stream_state,
)
from pairlearn.validation import check_generator

__all__ = ["EntropyDriver", "MetricDriver", "RankerDriver"]


class RankerDriver(Driver):
    """Drives a `PairwiseRanker`; chunks carry their queries."""

    def learn(self, X: Any, y: NDArray[Any], qid: NDArray[Any] | None) -> None:
        """Learn a chunk by `partial_fit`."""
        self.model.partial_fit(X, y, qid=qid)

    def state(self) -> dict[str, Any]:
        """Return the stream, with the open queries, and its parts."""
        stream = getattr(self.model, "_stream", None)
        if stream is None:
            return {}
        return {
            "n_features": self.model.n_features_in_,
            "step_size": self.model.step_size_,
            "grouped": stream._source is not None,
            "parts": parts_of(stream),
            "stream": stream_state(stream),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Start a stream with the same parts and put it into its state."""
        if not state:
            return
        model = self.model
        pairing = (
            PreviousOfQuery(max_open=model.max_open) if state["grouped"] else PreviousExample()
        )
        model.n_features_in_ = int(state["n_features"])
        rng = check_generator(model.random_state)
        stream = start_like(state["parts"], model.n_features_in_, pairing, rng)
        restore_stream(stream, state["stream"])
        model._stream, model.step_size_ = stream, state["step_size"]
        model.coef_, model.held_out_accuracy_ = stream.average, None
        model.n_queries_, model.n_single_, model.n_flat_ = None, 0, 0
        model.n_forgotten_ = getattr(stream._source, "n_forgotten", 0)
        model.n_steps_, model.n_gradients_ = stream.n_steps, stream.n_gradients


class MetricDriver(Driver):
    """Drives a `MetricLearner`."""

    def learn(self, X: Any, y: NDArray[Any], qid: NDArray[Any] | None) -> None:
        """Learn a chunk by `partial_fit`."""
        self.model.partial_fit(X, y)

    def state(self) -> dict[str, Any]:
        """Return the stream, its parts and the codes of the labels."""
        model = self.model
        stream = getattr(model, "_stream", None)
        if stream is None:
            return {}
        return {
            "n_features": model.n_features_in_,
            "step_size": model.step_size_,
            "paired": model._paired,
            "codes": [list(pair) for pair in model._codes.items()],
            "parts": parts_of(stream),
            "stream": stream_state(stream),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Start a stream with the same parts and put it into its state."""
        if not state:
            return
        model = self.model
        model.n_features_in_ = int(state["n_features"])
        model._paired = bool(state["paired"])
        model._codes = {label: code for label, code in state["codes"]}
        pairing = model._stream_pairing(model._paired)
        rng = check_generator(model.random_state)
        stream = start_like(state["parts"], model.n_features_in_, pairing, rng)
        restore_stream(stream, state["stream"])
        model._stream = stream
        model.step_size_, model.held_out_score_ = state["step_size"], None
        model.n_steps_, model.n_gradients_ = stream.n_steps, stream.n_gradients
        model._finish(model._problem().score, stream.average)


class EntropyDriver(Driver):
    """Drives an `EntropyRegressor`, from the first examples that it collects on."""

    def learn(self, X: Any, y: NDArray[Any], qid: NDArray[Any] | None) -> None:
        """Learn a chunk by `partial_fit`."""
        self.model.partial_fit(X, y)

    def state(self) -> dict[str, Any]:
        """Return what was collected, or the stream that corrects the starting point."""
        learner = getattr(self.model, "_stream", None)
        if learner is None:
            return {}
        found = {
            "n_features": learner._n_features,
            "rows": learner._rows,
            "targets": learner._targets,
            "weights": learner._weights,
            "start": learner._start,
            "errors": learner.errors,
            "error_weight": learner.error_weight,
            "bandwidth": learner.bandwidth,
            "step_size": learner.step_size,
            "stream": None,
        }
        if learner._stream is not None:
            found["parts"] = parts_of(learner._stream)
            found["stream"] = stream_state(learner._stream)
        return found

    def restore(self, state: dict[str, Any]) -> None:
        """Put a fresh stream into the saved state, then the model."""
        if not state:
            return
        model = self.model
        learner = EntropyStream(model, int(state["n_features"]))
        learner._rows, learner._targets = list(state["rows"]), list(state["targets"])
        learner._weights = list(state["weights"])
        learner._start, learner.errors = state["start"], state["errors"]
        learner.error_weight = state["error_weight"]
        learner.bandwidth, learner.step_size = state["bandwidth"], state["step_size"]
        if state["stream"] is not None:
            rng = check_generator(model.random_state)
            stream = start_like(state["parts"], learner._n_features, model._pairing(), rng)
            restore_stream(stream, state["stream"])
            learner._stream = stream
        model.n_features_in_ = learner._n_features
        model._stream, model.coef_ = learner, learner.coef
        model.bandwidth_, model.bandwidths_ = learner.bandwidth, [learner.bandwidth]
        model.step_size_, model.n_steps_ = learner.step_size, learner.n_steps
        model.intercept_ = learner.locate(model.intercept)
        model.entropy_ = model.entropy_start_ = float(np.nan)


register_driver(PairwiseRanker, RankerDriver)
register_driver(MetricLearner, MetricDriver)
register_driver(EntropyRegressor, EntropyDriver)
