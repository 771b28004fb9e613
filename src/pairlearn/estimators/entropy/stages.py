# SPDX-License-Identifier: BSD-3-Clause
"""The stages of an entropy regressor: the window of each, and descent on stages and streams."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pairlearn.averaging import AVERAGINGS
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.entropy.online import pair_loss
from pairlearn.estimators.entropy.start import pair_quartile
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.solvers import (
    SGD,
    Fitted,
    as_schedule,
    auto_steps,
    step_and_radius,
    way_of,
)
from pairlearn.estimators.shared.weights import representatives
from pairlearn.losses import WINDOWS, PairLoss
from pairlearn.pairings import PAIRINGS
from pairlearn.problem import Problem
from pairlearn.restored import check_as_saved
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.descent.sweep import Sweep
from pairlearn.solvers.rows import Rows, mean_pair_distance
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.running_scales import RunningScales
from pairlearn.typing import Vector
from pairlearn.validation import check_positive

#: Bandwidths of bandwidth="auto" in units of the final one, widest first.
_STAGES = (8.0, 4.0, 2.0, 1.0)
#: The relative step size of a stream, with steps c / sqrt(t).
_STREAM_STEP = 1.0
#: Steps of n_passes="auto", all stages together.
_AUTO_STEPS = 130_000
#: Relative step sizes: c over the mean squared distance of two examples.
_STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
#: The most steps of the runs that choose the step size of a stage.
_CHOICE_STEPS = 3_000
#: The most errors that a candidate's entropy is computed from.
_JUDGED = 20_000


@dataclass(frozen=True)
class Windows:
    """The windows of the stages: the parameters `window` and `bandwidth`, checked."""

    window: str | PairLoss
    bandwidth: float | Sequence[float] | str | None

    @property
    def stages(self) -> tuple[float | None, ...]:
        """Bandwidths: numbers as they are, factors for "auto", None for a fixed window."""
        if self.bandwidth is None:
            return (None,)
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "auto":
                raise ValueError(
                    'bandwidth must be a number, a decreasing sequence of numbers or "auto", '
                    f"got {self.bandwidth!r}."
                )
            return _STAGES
        values = np.atleast_1d(np.asarray(self.bandwidth, dtype=np.float64))
        if values.ndim != 1 or len(values) == 0:
            raise ValueError("bandwidth must hold at least one number.")
        for value in values:
            check_positive("bandwidth", float(value))
        if (np.diff(values) >= 0).any():
            raise ValueError(
                f"A schedule of bandwidths must decrease, got {values.tolist()}; start with the "
                "widest."
            )
        return tuple(values.tolist())

    def check(self) -> None:
        """Refuse a wrong window or bandwidth."""
        if self.stages[0] is None:
            self._plain()
        else:
            self.of_bandwidth(1.0)

    def loss(self, stage: float | None, errors: Vector, rng: np.random.Generator) -> PairLoss:
        """Return the loss of a stage; with "auto" the bandwidth comes from the errors."""
        if stage is None:
            return self._plain()
        if isinstance(self.bandwidth, str):
            scale = pair_quartile(errors, rng)
            if scale == 0.0:
                # A quarter of the pairs agree exactly, so the window only has to see the others.
                spread = float(np.abs(errors - np.median(errors)).mean())
                scale = spread if spread > 0.0 else 1.0
            stage = stage * 1.06 * scale * len(errors) ** -0.2
        return self.of_bandwidth(stage)

    def of_bandwidth(self, bandwidth: float) -> PairLoss:
        """Return the loss of this bandwidth; NaN stands for a window without one."""
        loss = self._plain()
        if np.isnan(bandwidth):
            return loss
        if not any(field.name == "bandwidth" for field in dataclasses.fields(loss)):
            raise ValueError(
                f"{type(loss).__name__} has no field named bandwidth; set bandwidth=None."
            )
        return dataclasses.replace(loss, bandwidth=bandwidth)  # type: ignore[call-arg]

    def of_saved(self, bandwidth: float) -> PairLoss:
        """Return the loss of a saved stream; refuse another bandwidth than the given one."""
        if isinstance(self.bandwidth, int | float):
            check_as_saved("bandwidth", self.bandwidth, bandwidth)
        return self.of_bandwidth(bandwidth)

    def _plain(self) -> PairLoss:
        loss = WINDOWS.make(self.window)
        if loss.opposite_labels_only:
            raise ValueError(
                f"{type(loss).__name__} counts pairs of unequal labels by their order; a "
                "window is a PairLoss of (y - y_partner) - score with opposite_labels_only = False."
            )
        return loss


def stage_lengths(n_steps: int, n_stages: int) -> list[int]:
    """Return the steps of each stage. The stages before the last prepare it and share one half.

    >>> stage_lengths(90, 4), stage_lengths(90, 1)
    ([15, 15, 15, 45], [90])
    """
    early = n_steps // (2 * (n_stages - 1)) if n_stages > 1 else 0
    return [max(early, 1)] * (n_stages - 1) + [max(n_steps - early * (n_stages - 1), 1)]


@dataclass(frozen=True)
class EntropyTask:
    """Everything about one stage of a fit, or about a stream, but the examples.

    `start` is where the first stage began, `latest` where the stage before ended, `stage` the
    number of this stage from 0.
    """

    loss: PairLoss
    rng: np.random.Generator
    start: Vector
    latest: Vector
    stage: int = 0
    n_stages: int = 1

    def way(self, solver: Any) -> Any:
        """Return how an entropy regressor trains by a solver."""
        return way_of(solver, {SGD: Descent}, "EntropyRegressor")(self, solver)


class Known(NamedTuple):
    """What a stream knows when it begins: first examples, or the step size of a saved stream."""

    rows: Rows | None = None
    scales: RunningScales | None = None
    n_before: int = 0
    step_size: float | None = None


class Descent:
    """How an entropy regressor trains by `SGD`.

    The loss sees only the difference of two errors. So starting from w means learning a correction,
    from zero, of the errors that w leaves.
    """

    def __init__(self, task: EntropyTask, solver: SGD) -> None:
        self.task, self.solver = task, solver
        self.step_size, self.radius = step_and_radius(solver, "EntropyRegressor")
        self.pairing = PAIRINGS.make(solver.pairing)
        self.averaging = AVERAGINGS.make(solver.averaging)
        self.problem = Problem(LinearScore(), task.loss)

    def fit(self, rows: Rows, y: Vector, weight: Vector) -> Fitted:
        """Return the best model of one stage, with its step size."""
        task = self.task
        n_steps = auto_steps(self.solver.n_passes, len(y), budget=_AUTO_STEPS)
        length = stage_lengths(n_steps, task.n_stages)[task.stage]
        # A ball is around the first starting point: learn from there, all the way.
        w = task.start if np.isfinite(self.radius) else task.latest
        change, step_size = self._correction(rows, y - rows.scores(w), weight, length)
        found = w + change if step_size else w
        choice = Choice(step_size, self.radius)
        return Fitted(found, "sgd", task.loss, choice, Trace(n_steps=length))

    def stream(self, n_features: int, before: Known | None = None) -> tuple[Stream, float]:
        """Return a stream of errors that learns a correction, and its step size."""
        known = before or Known()
        if known.step_size is not None:
            check_as_saved("step_size", self.step_size, known.step_size)
        step_size = known.step_size or self.step_size
        if step_size is None:
            assert known.rows is not None
            # Scaled examples are at a mean squared distance of 2.
            step_size = _STREAM_STEP / (2.0 if known.scales else mean_pair_distance(known.rows))
        schedule = as_schedule(self.solver.schedule, default="inverse_sqrt").scaled(step_size)
        descent = PairwiseSGD(self.pairing, schedule, ball_or_whole(self.radius), self.averaging)
        stream = descent.start(
            self.problem,
            n_features,
            rng=self.task.rng,
            n_before=known.n_before,
            scales=known.scales,
        )
        return stream, step_size

    def _correction(
        self, rows: Rows, errors: Vector, weight: Vector, n_steps: int
    ) -> tuple[Vector, float]:
        """Return the correction of errors with the best step size of a grid; zero if none helps."""
        loss, rng = self.task.loss, self.task.rng
        shape = as_schedule(self.solver.schedule, default="constant")

        def run(step_size: float) -> Vector:
            schedule, domain = shape.scaled(step_size), ball_or_whole(self.radius)
            weights = weight if len(weight) else None
            return (
                PairwiseSGD(self.pairing, schedule, domain, self.averaging)
                .solve(self.problem, rows, errors, n_steps=n_steps, rng=rng, example_weight=weights)
                .average
            )

        if self.step_size is not None:
            return run(self.step_size), self.step_size
        n_choice = min(n_steps, _CHOICE_STEPS)
        # The best constant step is proportional to 1/sqrt(T) (Theorem 6a).
        shrink = float(np.sqrt(n_choice / n_steps)) if shape.is_constant else 1.0
        unit = 1.0 / (shrink * mean_pair_distance(rows, weight))
        steps = tuple(c * unit for c in _STEPS)
        radii = (self.radius,) * len(steps)
        models = Sweep(steps, radii, self.pairing, shape, self.averaging).solve(
            self.problem, rows, errors, n_steps=n_choice, rng=rng, example_weight=weight
        )
        part, kept = rows, errors
        if len(weight) or len(errors) > _JUDGED:
            judged = np.arange(len(errors))[representatives(weight)]
            if len(judged) > _JUDGED:
                judged = rng.choice(judged, _JUDGED, replace=False)
            part, kept = rows.take(judged), errors[judged]
        seed = int(rng.integers(2**63))

        def risk(change: Vector) -> float:
            left = kept - part.scores(change)
            return pair_loss(loss, left, seed) if np.isfinite(left).all() else np.inf

        found = [
            (np.inf if lost else risk(change), change)
            for change, lost in zip(models.averages, models.diverged, strict=True)
        ]
        best = int(np.argmin([value for value, _ in found]))
        step_size = shrink * steps[best]
        if n_choice < n_steps and found[best][0] < np.inf:
            longer = run(step_size)
            found.append((risk(longer), longer))
        least, change = min(found, key=lambda one: one[0])
        none = np.zeros(rows.shape[1])
        return (change, step_size) if least < risk(none) else (none, 0.0)
