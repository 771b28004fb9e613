# SPDX-License-Identifier: BSD-3-Clause
"""Stochastic gradient descent over compared pairs, on stored examples and on a stream.

Rankers share it: of grades within queries, and of survival times. What differs is in their tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.averaging import AVERAGINGS
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.shared.evidence import Choice, best_of
from pairlearn.estimators.shared.solvers import (
    SGD,
    Fitted,
    as_schedule,
    auto_steps,
    step_and_radius,
)
from pairlearn.pairings import Pairing
from pairlearn.problem import Problem
from pairlearn.restored import check_as_saved, restored_array
from pairlearn.schedules import Schedule
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.descent.stream import Stream
from pairlearn.solvers.descent.sweep import Sweep
from pairlearn.solvers.rows import DenseRows, Rows, check_squares, mean_pair_distance
from pairlearn.solvers.streams.running_scales import STEP_SIZE, RunningScales
from pairlearn.typing import Places, Vector
from pairlearn.validation import check_positive

#: Relative step sizes: c over the mean squared distance of two examples of a pair.
_STEPS = tuple(10.0**exponent for exponent in np.arange(-3.0, 1.0, 0.5))
#: The most steps of the runs that choose.
_CHOICE_STEPS = 100_000
#: The relative step size of a stream without scales, with steps c / sqrt(t).
_STREAM_STEP = 1.0
#: Up to this many rows, of more than twice as many columns, are written in a basis of their span.
_FEW_ROWS = 500
#: Steps of n_passes="auto".
_AUTO_STEPS = 500_000


class DescentTask(Protocol):
    """What a ranker asks of a descent: everything about a fit but the examples."""

    @property
    def owner(self) -> str:
        """The name of the estimator."""

    @property
    def problem(self) -> Problem:
        """The score, the loss and the comparison."""

    @property
    def is_scaled(self) -> bool:
        """Whether rows are scaled."""

    @property
    def rng(self) -> np.random.Generator:
        """The source of pairs."""

    def pairing(self, given: str | Pairing, part: Places | None = None) -> Pairing:
        """Return the pairing that a solver names, among all examples or a part of them."""

    def pair_scale(self, rows: Rows, given: str | Pairing, weight: Vector) -> float:
        """Return the mean squared distance of the examples of a pair; `weight` may be empty."""

    def folds(self, y: Vector) -> list[tuple[Places, Places]]:
        """Return training and held-out examples that choose the step size."""

    def judge(self, y: Vector, scores: Vector, test: Places, weight: Vector) -> float:
        """Return how well finite scores order held-out examples; `weight` may be empty."""

    def judged(self, test: Places) -> Places:
        """Return those of the held-out examples that judge."""


class RankerDescent:
    """How a ranker trains by `SGD`."""

    def __init__(self, task: DescentTask, solver: SGD) -> None:
        self.task, self.solver = task, solver
        self.step_size, self.radius = step_and_radius(solver, task.owner)
        self.problem = task.problem
        self.averaging = AVERAGINGS.make(solver.averaging)

    def fit(self, rows: Rows, y: Vector, weight: Vector) -> Fitted:
        """Return the average of Algorithm 1 over compared pairs, and the step size that was chosen.

        A step adds a difference of rows, so w stays in their span. An orthonormal basis of it
        changes no score, no norm and no step: few rows of many columns are trained in that basis.
        """
        n, d = rows.shape
        if isinstance(rows, DenseRows) and n <= _FEW_ROWS and d > 2 * n:
            basis, inside = np.linalg.qr(rows.X.astype(np.float64, copy=False).T)
            fitted = self._fit(DenseRows(np.ascontiguousarray(inside.T)), y, weight)
            return replace(fitted, w=basis @ fitted.w)
        return self._fit(rows, y, weight)

    def _fit(self, rows: Rows, y: Vector, weight: Vector) -> Fitted:
        task, solver = self.task, self.solver
        n_steps = auto_steps(solver.n_passes, len(y), budget=_AUTO_STEPS)
        schedule = as_schedule(solver.schedule, default="constant")
        choice = Choice(self.step_size, self.radius)
        if self.step_size is None:
            choice = self._choose(rows, y, weight, n_steps, schedule)
        assert choice.step_size is not None
        solution = PairwiseSGD(
            task.pairing(solver.pairing),
            schedule.scaled(choice.step_size),
            ball_or_whole(self.radius),
            self.averaging,
        ).solve(
            self.problem,
            rows,
            y,
            n_steps=n_steps,
            rng=task.rng,
            example_weight=weight if len(weight) else None,
        )
        return Fitted(solution.average, "sgd", task.problem.loss, choice, solution.trace)

    def _choose(
        self, rows: Rows, y: Vector, weight: Vector, n_steps: int, schedule: Schedule
    ) -> Choice:
        """Return the best step size of a grid, and the held-out measure of all of them."""
        task, given = self.task, self.solver.pairing
        if not task.pairing(given).one_pair_a_step:
            raise ValueError(
                f"pairing={given!r} meets several examples at a step, and step sizes are chosen "
                "with one; give a step size, for example SGD(step_size=0.1, pairing=...)."
            )
        n_choice = min(n_steps, _CHOICE_STEPS)
        # The best constant step is proportional to 1/sqrt(T) (Theorem 6a).
        shrink = float(np.sqrt(n_choice / n_steps)) if schedule.is_constant else 1.0
        scale = task.pair_scale(rows, given, weight)
        steps = tuple(c / scale for c in _STEPS)
        tried, radii = tuple(step / shrink for step in steps), (self.radius,) * len(steps)
        worth: list[list[float]] = [[] for _ in steps]
        for train, test in task.folds(y):
            own = weight[train] if len(weight) else weight
            pairing = task.pairing(given, train)
            solution = Sweep(tried, radii, pairing, schedule, self.averaging).solve(
                self.problem,
                rows.take(train),
                y[train],
                n_steps=n_choice,
                rng=task.rng,
                example_weight=own,
            )
            judged = task.judged(test)
            held = weight[judged] if len(weight) else weight
            for found, s in zip(worth, rows.take(judged).scores(solution.averages), strict=True):
                sound = bool(np.isfinite(s).all())
                found.append(task.judge(y[judged], s, judged, held) if sound else 0.0)
        best = best_of(
            ({"step_size": step}, step, found) for step, found in zip(steps, worth, strict=True)
        )
        return Choice(best.model, self.radius, evidence=best.evidence, tried=best.tried)

    def stream(self, n_features: int, before: tuple[Vector, int] | None = None) -> RankerStream:
        """Return what learns chunks by Algorithm 2, from coefficients and steps taken before."""
        return RankerStream(self, n_features, before)

    def start(self, n_features: int, step_size: float, before: tuple[Vector, int] | None) -> Stream:
        """Return a stream with this step size that has learned nothing yet."""
        task, solver = self.task, self.solver
        schedule = as_schedule(solver.schedule, default="inverse_sqrt").scaled(step_size)
        w_start, n_before = before or (None, 0)
        scales = None
        if task.is_scaled:
            scales = RunningScales(n_features, start="zero" if before is None else "given")
        return PairwiseSGD(
            task.pairing(solver.pairing),
            schedule,
            ball_or_whole(self.radius),
            self.averaging,
        ).start(
            self.problem,
            n_features,
            rng=task.rng,
            w_start=w_start,
            n_before=n_before,
            scales=scales,
        )


class RankerStream:
    """A stream of examples that are compared."""

    def __init__(
        self, way: RankerDescent, n_features: int, before: tuple[Vector, int] | None = None
    ) -> None:
        self._way, self._n_features, self._before = way, n_features, before
        self._stream: Stream | None = None
        self._step_size: float | None = None

    @property
    def scales(self) -> RunningScales | None:
        """The scales of the features, once they are followed."""
        return None if self._stream is None else self._stream.scales

    def learn(self, rows: Rows, y: Vector, weight: Vector, qid: ArrayLike | None) -> None:
        """Learn a chunk; one that fails changes nothing."""
        stream, step_size = self._stream, self._step_size
        if isinstance(rows, DenseRows) and rows.X.dtype != np.float64:
            rows = DenseRows(rows.X.astype(np.float64))
        is_scaled = self._way.task.is_scaled
        if not is_scaled:
            check_squares(rows, whole=stream is None)
        if stream is None or step_size is None:
            step_size = self._way.step_size
            if step_size is None:
                step_size = (
                    STEP_SIZE if is_scaled else _STREAM_STEP / mean_pair_distance(rows, weight)
                )
            stream = self._way.start(self._n_features, step_size, self._before)
        stream.learn_rows(rows, y, weight, qid)
        self._stream, self._step_size = stream, step_size

    def facts(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        stream = self._stream
        assert stream is not None
        return {
            "coef_": stream.average,
            "step_size_": self._step_size,
            "n_forgotten_": getattr(stream.source, "n_forgotten", 0),
            "n_steps_": stream.n_steps,
            "n_gradients_": stream.n_gradients,
        }

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        assert self._stream is not None
        return {"step_size": self._step_size, "stream": self._stream.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to a state."""
        step_size = check_positive("the saved step_size", state["step_size"])
        check_as_saved("step_size", self._way.step_size, step_size)
        # Check the size that the file gives before an array of that size is made.
        restored_array(state["stream"]["descent"], "w", (self._n_features,))
        stream = self._way.start(self._n_features, step_size, None)
        stream.restore(state["stream"])
        self._stream, self._step_size = stream, step_size
