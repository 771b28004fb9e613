# SPDX-License-Identifier: BSD-3-Clause
"""The top of the list by stochastic gradient descent, on stored examples and on a stream."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from pairlearn.estimators.auc.composition import Before, Task
from pairlearn.estimators.auc.ways.descent import mapped_chunk
from pairlearn.estimators.auc.ways.grid import check_width
from pairlearn.estimators.shared.class_moments import class_folds
from pairlearn.estimators.shared.decisions import Undecided
from pairlearn.estimators.shared.evidence import Choice, best_of
from pairlearn.estimators.shared.solvers import SGD, Fitted, auto_steps
from pairlearn.estimators.shared.weights import kept_of_chunk
from pairlearn.restored import restored_array, restored_count
from pairlearn.solvers.rows import Rows, check_squares
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.top.stream import TopStream, solve_top
from pairlearn.typing import Places, Vector

#: Examples that a fit with n_passes="auto" learns; each meets about a thousand others.
_AUTO_STEPS = 100_000
#: The most passes of a fit with n_passes="auto", for few examples.
_MOST_PASSES = 20
#: The step size of a stream, which has no held-out examples to choose by; steps adapt themselves.
_STREAM_STEP = 1.0
#: Step sizes to choose from, half a decade apart.
_STEPS = (3.0, 1.0, 0.3, 0.1)
#: With at least this many positives held out, one fold is enough.
_ENOUGH = 100


def solve_top_by_descent(task: Task, solver: SGD, rows: Rows, y: Vector, weight: Vector) -> Fitted:
    """Train by batches with a sample of the past; return the model and the chosen step size."""
    _check_settings(task, solver)
    task.objective.check_data(y)
    top, radius = task.objective.candidates[0], solver.given_radius
    bound = math.inf if radius is None else radius
    n_steps = auto_steps(solver.n_passes, len(y), budget=_AUTO_STEPS, most_passes=_MOST_PASSES)

    def solve(index: Places, step: float, draws: np.random.Generator) -> tuple[Vector, Trace]:
        found = solve_top(
            top, task.loss, rows.take(index), y[index], n_passes=n_steps / len(y),
            step_size=step, radius=bound, is_scaled=task.is_scaled, rng=draws,
            weight=weight[index] if len(weight) else None,
        )  # fmt: skip
        return found.average, found.trace

    choice = Choice(solver.given_step, bound)
    if choice.step_size is None:
        shares = weight if len(weight) else np.ones(len(y))
        folds = class_folds((y > 0).astype(np.intp), shares, task.validation_fraction, task.rng)
        if int(np.count_nonzero(y[folds[0][1]] > 0)) >= _ENOUGH:
            folds = folds[:1]
        draws = task.rng.spawn(1)[0]

        def worth(step: float) -> list[float]:
            values = []
            for train, test in folds:
                # Every step size sees the same path.
                scores = rows.take(test).scores(solve(train, step, copy.deepcopy(draws))[0])
                metric = task.objective.metric
                values.append(metric(y[test] > 0, scores, sample_weight=shares[test]))
            return values

        best = best_of(({"step_size": step}, step, worth(step)) for step in _STEPS)
        choice = Choice(best.model, bound, evidence=best.evidence, tried=best.tried)
    assert choice.step_size is not None
    w, trace = solve(np.arange(len(y)), choice.step_size, task.rng)
    task.tell(f"batches, step size {choice.step_size:g}", choice)
    return Fitted(w, "sgd", task.loss, choice, trace)


def _check_settings(task: Task, solver: SGD) -> None:
    # Examples meet a sample of the past here, not each other, and steps adapt by themselves.
    for name in solver.changed("schedule", "averaging", "pairing"):
        raise ValueError(
            f"{task.objective!r} would ignore {name}={getattr(solver, name)!r}, which is about "
            'pairs of examples; leave it at its default, or use objective="auc".'
        )
    if solver.step_size == "theory":
        raise ValueError(
            f'step_size="theory" is about the mean over pairs, {task.objective!r} is none; '
            'pass a number or "auto".'
        )


class TopDescentStream:
    """A stream for the top of the list."""

    kind = "top"
    scales = None

    def __init__(
        self, task: Task, solver: SGD, n_features: int, before: Before | None = None
    ) -> None:
        _check_settings(task, solver)
        if before is not None:
            raise ValueError(
                f"a stream of {task.objective!r} cannot go on from fit, which does not keep a "
                "sample of its examples; teach a new model by partial_fit alone."
            )
        self._task, self._solver, self.loss = task, solver, task.loss
        self._seed = int(copy.deepcopy(task.rng).integers(2**31))
        self._width = n_features if task.features is None else task.features.n_outputs

    @cached_property
    def _stream(self) -> TopStream:
        radius = self._solver.given_radius
        return TopStream(
            self._task.objective.candidates[0],
            self.loss,
            self._width,
            step_size=self._solver.given_step or _STREAM_STEP,
            radius=math.inf if radius is None else radius,
            is_scaled=self._task.is_scaled,
            seed=self._seed,
        )

    def learn(self, rows: Rows, y: Vector, weight: Vector) -> Vector:
        """Learn a chunk; return the scores that it had before, NaN for examples without weight."""
        kept = kept_of_chunk(weight, begun=self._stream.n_examples > 0)
        if kept is not None:
            scores = np.full(len(y), np.nan)
            if len(kept):
                scores[kept] = self.learn(rows.take(kept), y[kept], weight[kept])
            return scores
        rows = mapped_chunk(self._task, rows, self._solver.max_memory)
        if not self._task.is_scaled:
            check_squares(rows, whole=not self._stream.n_examples)
        return self._stream.learn(rows, y, weight)

    def facts(self) -> dict[str, Any]:
        """Return the fitted attributes."""
        stream = self._stream
        return {
            "step_size_": stream.step_size,
            "radius_": stream.radius,
            "ridge_": None,
            "held_out_auc_": None,
            "n_steps_": stream.n_examples,
            "n_examples_": stream.n_examples,
            "n_gradients_": stream.n_pairs,
            "trace_": Trace(n_steps=stream.n_examples, n_gradients=stream.n_pairs),
        }

    def published(self) -> dict[str, Any]:
        """Return what predictions are made of."""
        coef, decision = self._stream.average[np.newaxis], Undecided(*self._stream.window())
        return {"coef_": coef, "_decision": decision, "features_": self._task.features}

    def state(self) -> dict[str, Any]:
        """Return everything that the next chunk depends on."""
        stream = self._stream
        return {"top": stream.state(), "seed": stream.seed, "width": stream.n_features}

    def restore(self, state: Mapping[str, Any], n_features: int) -> None:
        """Go back to a state."""
        self._seed = restored_count(state, "seed")
        check_width(state, self._width)
        # The arrays are as large as the file says before others of that size are made.
        restored_array(state["top"], "average", (self._width,))
        self._stream.restore(state["top"])
