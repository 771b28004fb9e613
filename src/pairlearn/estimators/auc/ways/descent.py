# SPDX-License-Identifier: BSD-3-Clause
"""AUC by stochastic gradient descent: Algorithm 1 on stored examples, Algorithm 2 on a stream."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from pairlearn.averaging import AVERAGINGS
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.auc.step_choice import (
    advice_for,
    choose,
    opposite_scale,
    relative_radii,
    relative_steps,
)
from pairlearn.estimators.auc.task import Before, Task
from pairlearn.estimators.auc.ways.grid import OnlineGrid, relative_to
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.examples import watch_order
from pairlearn.estimators.shared.maps import map_rows
from pairlearn.estimators.shared.solvers import SGD, Fitted, as_schedule, auto_steps
from pairlearn.estimators.shared.weights import kept_of_chunk
from pairlearn.features import Identity
from pairlearn.pairings import PAIRINGS, PreviousExample, RandomPair
from pairlearn.problem import Problem
from pairlearn.progress import Progress
from pairlearn.restored import check_as_saved
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.rows import DenseRows, Rows, as_rows, check_squares
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.streams.running_scales import STEP_SIZE, RunningScales
from pairlearn.typing import Vector

#: The cure for rows that are sorted by label only.
RESERVOIRS = ", or, if it is by label only, take solver=SGD(pairing=ClassReservoirs(64, 64))"
#: Steps of a fit with n_passes="auto" for balanced classes.
_AUTO_STEPS = 500_000
#: Fewer opposite pairs mean more steps, down to this share of what balanced classes have.
_RAREST = 0.1


class Descent:
    """How an AUC classifier trains by `SGD`."""

    def __init__(self, task: Task, solver: SGD) -> None:
        self.task, self.solver = task, solver

    def fit(self, rows: Rows, y: Vector, weight: Vector) -> Fitted:
        """Return the average of Algorithm 1, with the step size and radius that were chosen."""
        task, solver = self.task, self.solver
        problem = Problem(LinearScore(), task.loss)
        # Only opposite pairs change the model: if they are rare, more steps are taken.
        n_positive = int(np.count_nonzero(y > 0))
        share = 4.0 * (n_positive / len(y)) * ((len(y) - n_positive) / len(y))
        n_steps = auto_steps(solver.n_passes, len(y), budget=int(_AUTO_STEPS / max(share, _RAREST)))
        pairing = PAIRINGS.make(solver.pairing)
        averaging = AVERAGINGS.make(solver.averaging)
        shape = as_schedule(solver.schedule, default="constant")
        step_size, radius = solver.given_step, solver.given_radius
        choice = Choice(step_size, np.inf if radius is None else radius)
        advice = None
        if solver.step_size == "theory":
            weighted, warm = len(weight) > 0, task.start is not None
            parts = pairing, shape, averaging
            advice = advice_for(problem, rows, radius, n_steps, parts, weighted=weighted, warm=warm)
            choice = Choice(advice.step_size, choice.radius)
        elif step_size is None:
            assert task.keys is not None
            scale = opposite_scale(rows, y, task.keys, weight)
            swept = isinstance(pairing, PreviousExample | RandomPair)
            parts = pairing if swept else PreviousExample(), shape, averaging
            steps = relative_steps(scale)
            radii = relative_radii(scale) if radius is None else (radius,)
            choice = choose(task, problem, rows, y, weight, n_steps, parts, steps, radii)
        assert choice.step_size is not None
        descent = PairwiseSGD(
            pairing, shape.scaled(choice.step_size), ball_or_whole(choice.radius), averaging
        )
        with contextlib.ExitStack() as stack:
            callbacks = list(task.callbacks)
            if task.verbose:
                bar = stack.enter_context(Progress(n_steps, unit="steps", asked_for=True))
                told = "" if choice.evidence is None else f", {task.evidence(choice)}"
                callbacks.append(
                    lambda run: bar.update(run.step, note=f"pair risk {run.risk:.4g}{told}")
                )
            solution = descent.solve(
                problem,
                rows,
                y,
                n_steps=n_steps,
                rng=task.rng,
                w_start=task.start,
                example_weight=weight if len(weight) else None,
                callbacks=callbacks,
            )
        return Fitted(solution.average, "sgd", task.loss, choice, solution.trace, advice)

    def stream(self, n_features: int, before: Before | None = None) -> DescentStream:
        """Return what learns chunks by Algorithm 2."""
        if self.solver.step_size == "theory":
            raise ValueError(
                'step_size="theory" needs the number of examples beforehand; for a stream pass '
                "a number (pairlearn.theory.advise gives one) or step_size='auto'."
            )
        return DescentStream(self.task, self.solver, before)


class DescentStream:
    """A stream by descent: one step size with running scales, else the best of a grid."""

    kind = "sgd"
    loss = property(lambda self: self._task.loss)

    def __init__(self, task: Task, solver: SGD, before: Before | None) -> None:
        self._task, self._solver, self._before = task, solver, before
        self._grid: OnlineGrid | None = None

    @property
    def grid(self) -> OnlineGrid:
        """The streams of the step sizes that are still tried."""
        assert self._grid is not None
        return self._grid

    def _parts(self) -> dict[str, Any]:
        solver = self._solver
        return {
            "pairing": PAIRINGS.make(solver.pairing),
            "schedule": as_schedule(solver.schedule, default="inverse_sqrt"),
            "averaging": AVERAGINGS.make(solver.averaging),
            "rng": self._task.rng,
        }

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk; return the scores that it had before, NaN for examples without weight."""
        kept = kept_of_chunk(weight, begun=self._grid is not None)
        if kept is not None:
            scores = np.full(len(y), np.nan)
            self._latest = rows.take(kept), y[kept]
            if len(kept):
                scores[kept] = self.learn(*self._latest, weight[kept])
            return scores
        rows = mapped_chunk(self._task, rows, self._solver.max_memory)
        if not self._task.is_scaled:
            check_squares(rows, whole=self._grid is None and self._before is None)
        grid = self._grid or self._begun(rows, weight)
        scores = grid.learn(rows, y, weight)
        self._grid = grid
        self._latest = rows, y
        return scores

    def _begun(self, rows: Rows, weight: Vector) -> OnlineGrid:
        """Return the grid for a first chunk, which goes on from the model before."""
        task, solver, before = self._task, self._solver, self._before
        step_size, radius = solver.given_step, solver.given_radius
        scales = None
        if task.is_scaled:
            scales = _running_scales(rows.shape[1], before)
            step_sizes: tuple[float, ...] = (step_size or STEP_SIZE,)
        else:
            step_sizes = relative_to(rows, weight) if step_size is None else (step_size,)
        return OnlineGrid(
            Problem(LinearScore(), task.loss),
            rows.shape[1],
            dtype=rows.X.dtype if isinstance(rows, DenseRows) else np.float64,
            step_sizes=step_sizes,
            radius=np.inf if radius is None else radius,
            start=None if before is None else before.coef,
            n_before=0 if before is None else before.n_examples,
            decided=None if before is None else before.decision,
            origin=None if before is None else before.origin,
            scales=scales,
            **self._parts(),
        )

    def watch(self, model: Any) -> None:
        """Warn if the examples of the last chunk are not in random order."""
        rows, y = self._latest
        del self._latest
        watch_order(model, rows, y, self.grid.best.scales, cure=RESERVOIRS)

    def facts(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        grid, stream = self.grid, self.grid.best
        return {
            "step_size_": grid.step_size,
            "radius_": grid.radius,
            "held_out_auc_": grid.progressive_auc,
            "n_steps_": stream.n_steps,
            "n_gradients_": stream.n_gradients,
            "n_examples_": grid.n_before + stream.n_examples,
            "trace_": Trace(n_steps=stream.n_steps, n_gradients=stream.n_gradients),
        }

    def published(self) -> dict[str, Any]:
        """Return what predictions are made of."""
        coef, decision = self.grid.average[np.newaxis], self.grid.undecided()
        return {"coef_": coef, "_decision": decision, "features_": self._task.features}

    @property
    def scales(self) -> Any:
        """The running scales, from which a stream that starts anew goes on."""
        return self.grid.best.scales

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        return self.grid.state()

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        features, radius = self._task.features, self._solver.given_radius
        grid = OnlineGrid.from_state(
            state,
            Problem(LinearScore(), self._task.loss),
            n_features if features is None else features.n_outputs,
            is_scaled=self._task.is_scaled,
            **self._parts(),
        )
        check_as_saved("step_size", self._solver.given_step, grid.step_size)
        check_as_saved("radius", np.inf if radius is None else radius, grid.radius)
        self._grid = grid


def _running_scales(n_features: int, before: Before | None) -> RunningScales:
    """Return the scales of a new stream: those of the model before, if they are known."""
    if before is None:
        return RunningScales(n_features)
    known = before.scales
    if known is None:
        return RunningScales(n_features, start="given")
    return known.going_on() if isinstance(known, RunningScales) else RunningScales.known(known)


def mapped_chunk(task: Task, rows: Rows, max_memory: float) -> Rows:
    """Return the mapped rows of a chunk. Streams refuse an unfitted map before this."""
    if task.features is None or isinstance(task.features, Identity):
        return rows
    return as_rows(map_rows(task.features, rows, max_memory, "pass smaller chunks."))
