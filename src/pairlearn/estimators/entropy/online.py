# SPDX-License-Identifier: BSD-3-Clause
"""The stream of `EntropyRegressor.partial_fit`: collect first examples, then correct a start."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pairlearn.estimators.entropy.start import locate, start_from
from pairlearn.estimators.shared.weights import representatives
from pairlearn.losses import WINDOWS, PairLoss
from pairlearn.metrics.entropy import DENSITIES, error_entropy
from pairlearn.restored import (
    check_sane,
    restored_array,
    restored_count,
    restored_number,
    restored_weights,
)
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, check_positive

#: Examples that a stream collects before it chooses a bandwidth and a starting point.
_WARM_UP = 256
#: Errors of a stream that the intercept is found from.
_WINDOW = 4096
_LARGEST = np.finfo(np.float64).max


class Beginning(NamedTuple):
    """What the first examples give: a starting point and the stream that corrects it."""

    start: Vector
    stream: Stream
    bandwidth: float
    step_size: float


def scaled_start(
    rows: Rows, y: Vector, init: Any, weight: Vector, scales: RunningScales | None
) -> Vector:
    """Return coefficients to start from; a fit is made in scaled units."""
    if scales is None or not isinstance(init, str):
        return start_from(rows, y, init, weight)
    return start_from(scales.apply(rows), y, init, weight) * scales.unit


class OnlineCorrection:
    """Collects the first examples, then learns a correction of what they start it from."""

    def __init__(
        self, n_features: int, *, is_scaled: bool, known: tuple[Vector, float, int] | None = None
    ) -> None:
        self._is_scaled = is_scaled
        #: Coefficients, intercept and steps of a fit that the stream goes on from.
        self.known = known
        self._rows: list[Rows] = []
        self._targets: list[Vector] = []
        self._weights: list[Vector] = []
        self._start = np.zeros(n_features) if known is None else known[0]
        self._stream: Stream | None = None
        #: Errors are measured about this point. Otherwise small changes of coefficients would shift
        #: the errors of features far from zero.
        self._centre = np.zeros(n_features)
        self.errors = np.empty(0)
        #: Weights of these errors, empty if there are none.
        self.error_weight = np.empty(0)
        self.bandwidth = float("nan")
        self.step_size = float("nan")

    def state(self) -> dict[str, Any]:
        """Return what was collected, or the stream that corrects the starting point."""
        return {
            "rows": list(self._rows),
            "targets": list(self._targets),
            "weights": list(self._weights),
            "start": self._start,
            "known": None if self.known is None else list(self.known),
            "centre": self._centre,
            "errors": self.errors,
            "error_weight": self.error_weight,
            "bandwidth": self.bandwidth,
            "step_size": self.step_size,
            "stream": None if self._stream is None else self._stream.state(),
        }

    def restore(
        self, state: Mapping[str, Any], start: Callable[[float, float, int], Stream]
    ) -> None:
        """Go back to a state returned by `state`.

        `start` starts a stream with a bandwidth, a step size and a number of features.
        """
        d = len(self._start)
        begun = state["stream"] is not None
        rows, targets, weights = (list(state[name]) for name in ("rows", "targets", "weights"))
        _check_collected(rows, targets, weights, d, begun=begun)
        self._rows, self._targets, self._weights = rows, targets, weights
        self._start = restored_array(state, "start", (d,))
        # States of older versions go on from nothing.
        if state.get("known") is not None:
            coef, intercept, n_steps = state["known"]
            known = {"coef": coef, "intercept": intercept, "n_steps": n_steps}
            self.known = (
                restored_array(known, "coef", (d,)),
                restored_number(known, "intercept", low=-_LARGEST, high=_LARGEST),
                restored_count(known, "n_steps"),
            )
        self._centre = restored_array(state, "centre", (d,))
        self.errors = restored_array(state, "errors", (None,))
        n_errors = len(self.errors)
        self.error_weight = restored_weights(state, "error_weight", n_errors, optional=True)
        if not 0 < n_errors <= _WINDOW:
            raise ValueError(
                f"the saved window has {n_errors} errors, it must have 1 to {_WINDOW}."
            )
        self.bandwidth, self.step_size = float(state["bandwidth"]), float(state["step_size"])
        if begun:
            check_positive("the saved step_size", self.step_size)
            restored_array(state["stream"]["descent"], "w", (d,))
            self._stream = start(self.bandwidth, self.step_size, len(self._start))
            self._stream.restore(state["stream"])
        for name, values in (("coefficient", self.coef), ("error", self.errors)):
            check_sane(name, values)
        with np.errstate(over="ignore", invalid="ignore"):
            check_sane("score of the centre", self.coef @ self._centre)

    @property
    def coef(self) -> Vector:
        """Coefficients so far."""
        if self._stream is None:
            return self._start
        return self._start + self._stream.average

    @property
    def begun(self) -> bool:
        """Whether enough examples have come to begin."""
        return self._stream is not None

    @property
    def scales(self) -> RunningScales | None:
        """The scales of the features, once they are followed."""
        return None if self._stream is None else self._stream.scales

    @property
    def n_steps(self) -> int:
        """Steps taken."""
        return 0 if self._stream is None else self._stream.n_steps

    def locate(self, rule: str) -> float:
        """Return the intercept: the location of the latest errors."""
        if self.known is not None and self._stream is None:
            return self.known[1]
        # If all weights are zero, the errors count the same.
        weight = self.error_weight if self.error_weight.any() else np.empty(0)
        found = locate(self.errors[representatives(weight)], rule)
        return found - float(self.coef @ self._centre)

    def learn(
        self,
        rows: Rows,
        y: Vector,
        weight: Vector,
        begin: Callable[[Rows, Vector, Vector], Beginning],
    ) -> None:
        """Learn from a chunk, or put it aside until there are enough examples to `begin`."""
        if self._rows and type(self._rows[0]) is not type(rows):
            raise TypeError("A stream takes dense chunks or sparse chunks, not both.")
        if isinstance(rows, DenseRows) and rows.X.dtype != np.float64:
            rows = DenseRows(rows.X.astype(np.float64))
        if self._stream is not None:
            before = _errors(rows, y, self.coef, self._centre)
            self._stream.learn_many(
                rows, y - rows.scores(self._start), example_weight=weight if len(weight) else None
            )
            self._note(np.concatenate([self.errors, before]), [self.error_weight, weight])
            return
        if self._rows and bool(len(weight)) != bool(len(self._weights[0])):
            raise ValueError("Give sample_weight for every chunk of a stream or for none.")
        # Copies: the caller may write the next chunk into the same arrays.
        collected = functools.reduce(_followed_by, [*self._rows, rows.take(np.arange(len(y)))])
        targets, weights = (
            np.concatenate([*self._targets, y]),
            np.concatenate([*self._weights, weight]),
        )
        start, centre = self._start, self._centre
        if len(targets) < _WARM_UP:
            if self.known is None:
                scales = RunningScales(len(start)).take(collected) if self._is_scaled else None
                start = scaled_start(collected, targets, "least_squares", weights, scales)
            if self._is_scaled:
                centre = collected.spread()[0]
            self._note(_errors(collected, targets, start, centre), [weights])
            self._rows, self._targets, self._weights = [collected], [targets], [weights]
            self._start, self._centre = start, centre
            return
        # Examples after the 256th have no part in the choices.
        known = collected.take(np.arange(_WARM_UP))
        begun = begin(known, targets[:_WARM_UP], weights[:_WARM_UP])
        errors = targets - collected.scores(begun.start)
        begun.stream.learn_many(collected, errors, example_weight=weights if len(weights) else None)
        if self._is_scaled:
            self._centre = known.spread()[0]
        self._start, self._stream, self.bandwidth, self.step_size = begun
        self._note(errors + float(begun.start @ self._centre), [weights])
        # One row tells dense from sparse chunks.
        self._rows, self._targets, self._weights = [known.take(np.arange(1))], [], []

    def _note(self, errors: Vector, weights: list[Vector]) -> None:
        """Keep the latest errors and their weights, in which the intercept is located."""
        self.errors = errors[-_WINDOW:]
        self.error_weight = np.concatenate(weights)[-_WINDOW:]


def _followed_by(rows: Rows, others: Rows) -> Rows:
    return rows.followed_by(others)  # type: ignore[arg-type]


def _errors(rows: Rows, y: Vector, coef: Vector, centre: Vector) -> Vector:
    """Return the errors of predictions, measured about a centre."""
    with np.errstate(over="ignore", invalid="ignore"):
        errors = y - rows.scores(coef) + float(coef @ centre)
    if not np.isfinite(errors).all():
        raise DivergenceError(
            "The errors of the predictions are too large for numbers; give y and the features "
            "in larger units."
        )
    return np.asarray(errors)


def _check_collected(
    rows: list[Any], targets: list[Any], weights: list[Any], d: int, *, begun: bool
) -> None:
    """Check the examples that a checkpoint holds back until training starts.

    Once the stream has begun, one row without a target is left; it tells dense from sparse.
    """
    if not all(isinstance(part, Rows) and part.shape[1] == d for part in rows):
        raise ValueError(f"the saved examples are not rows of {d} features.")
    if len({type(part) for part in rows}) > 1:
        raise ValueError("the saved examples are dense and sparse.")
    if begun:
        good = len(rows) == 1 and not targets and not weights
    else:
        good = len(rows) == len(targets) == len(weights)
    for k, (part, y, weight) in enumerate(zip(rows, targets, weights, strict=False)):
        n = part.shape[0]
        check_sane("target", restored_array({f"target {k}": y}, f"target {k}", (n,)))
        given = restored_weights({f"weight {k}": weight}, f"weight {k}", n, optional=True)
        good = good and bool(len(given)) == bool(len(weights[0]))
    if not good or sum(part.shape[0] for part in rows) >= _WARM_UP:
        raise ValueError("the saved examples, targets and weights do not belong together.")


def pair_loss(loss: PairLoss, errors: Vector, seed: int) -> float:
    """Return a number that orders models as their mean pair loss does.

    For the windows of this package it is the entropy, which has a fast form; for any other the
    mean loss of 20,000 pairs, the same for every model.
    """
    kind = WINDOWS.name_of(loss)
    if kind in DENSITIES:
        return error_entropy(errors, loss.parameter, window=kind, method="binned")
    n, rng = len(errors), np.random.default_rng(seed)
    left = rng.integers(0, n, 20_000)
    right = (left + rng.integers(1, n, 20_000)) % n
    parameter = loss.parameter
    pairs = zip(errors[left].tolist(), errors[right].tolist(), strict=True)
    return float(np.mean([loss.value(0.0, e, other, parameter) for e, other in pairs]))
