# SPDX-License-Identifier: BSD-3-Clause
"""Train many models on one sample path: a grid of step sizes and radii."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.averaging import Averaging, DelayedByStepSize
from pairlearn.domains import ball_or_whole
from pairlearn.pairings import Pairing, PreviousExample, SlotPlan
from pairlearn.pairings.sound import sound_source
from pairlearn.problem import Problem
from pairlearn.schedules import Constant, Schedule
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.descent.descent import Descent, Parts
from pairlearn.solvers.rows import NO_WEIGHTS, DenseRows, as_rows
from pairlearn.solvers.support import averaging_for, check_parts
from pairlearn.typing import Mask, Vector
from pairlearn.validation import (
    DivergenceError,
    check_count,
    check_generator,
    check_labels,
    check_positive,
    check_weights,
)


@dataclass(frozen=True)
class SweepSolution:
    """The models of a sweep, in the order of the given step sizes and radii."""

    #: Averages, shape (n_models, n_features); NaN for a model that diverged.
    averages: Vector
    #: Last iterates, shape (n_models, n_features).
    w: Vector
    #: Whether each model stopped being finite.
    diverged: Mask
    n_gradients: int


@dataclass(frozen=True)
class Sweep:
    """Pairwise SGD for several step sizes and radii at once.

    All models see the same examples in the same order, so they differ by their hyper-parameters
    alone. Each equals the model that `PairwiseSGD` finds on that path.

    Parameters
    ----------
    step_sizes : sequence of float
        One per model: the factor of the schedule.
    radii : sequence of float
        One per step size: the radius of the model's ball, infinity for none.
    pairing : Pairing, default=PreviousExample()
        How examples are paired, one pair at a step.
    schedule : Schedule, default=Constant(1.0)
        The shape of the step sizes; its own scale is multiplied by each of `step_sizes`.
    averaging : Averaging, default=DelayedByStepSize()
        Which average of the iterates is returned.

    Examples
    --------
    >>> from pairlearn import Hinge, LinearScore, Problem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> sweep = Sweep((0.01, 0.1, 1.0), (np.inf, np.inf, 1.0))
    >>> solution = sweep.solve(Problem(LinearScore(), Hinge()), X, y, n_steps=500, rng=0)
    >>> solution.averages.shape
    (3, 3)
    """

    step_sizes: tuple[float, ...]
    radii: tuple[float, ...]
    pairing: Pairing = field(default_factory=PreviousExample)
    schedule: Schedule = field(default_factory=lambda: Constant(1.0))
    averaging: Averaging = field(default_factory=DelayedByStepSize)

    def __post_init__(self) -> None:
        # A frozen dataclass changes its own fields by `object.__setattr__`.
        for name, what in (("step_sizes", "step_size"), ("radii", "radius")):
            given = np.atleast_1d(np.asarray(getattr(self, name), dtype=object)).tolist()
            inf = what == "radius"
            found = tuple(check_positive(what, one, allow_infinite=inf) for one in given)
            object.__setattr__(self, name, found)
        if len(self.step_sizes) != len(self.radii) or not self.step_sizes:
            raise ValueError(
                f"Give as many radii as step sizes, at least one: got {len(self.step_sizes)} step "
                f"sizes and {len(self.radii)} radii."
            )
        object.__setattr__(self, "averaging", averaging_for(self.averaging, self.pairing))

    def solve(
        self,
        problem: Problem,
        X: Any,
        y: ArrayLike,
        *,
        n_steps: int,
        rng: Any = None,
        example_weight: ArrayLike | None = None,
    ) -> SweepSolution:
        """Train all models.

        Parameters
        ----------
        problem : Problem
            Score and loss.
        X : array-like or sparse container of shape (n, d)
            Examples.
        y : array-like of shape (n,)
            Labels.
        n_steps : int
            The number T of steps.
        rng : int or numpy.random.Generator, optional
            Source of the indices, the same path for every model.
        example_weight : ndarray of shape (n,), optional
            A pair weighs the product of its examples' weights.

        Returns
        -------
        SweepSolution
            Averages and last iterates.
        """
        check_parts("Sweep", score=problem.score, loss=problem.loss, comparison=problem.comparison)
        rows = as_rows(X)
        y = check_labels(y, rows.shape[0])
        n_steps = check_count("n_steps", n_steps)
        if rows.shape[0] < 2:
            raise ValueError(f"Pairs need at least 2 examples, got {rows.shape[0]}.")
        weight = NO_WEIGHTS
        if example_weight is not None and np.size(example_weight):
            weight = check_weights(example_weight, rows.shape[0])
        source = sound_source(self.pairing, rows.shape[0], check_generator(rng), y)
        dtype = rows.dtype if isinstance(rows, DenseRows) else np.float64
        models = [
            Descent(
                Parts(problem, self.schedule.scaled(step), ball_or_whole(radius), self.averaging),
                rows.shape[1],
                dtype=dtype,
                horizon=n_steps,
            )
            for step, radius in zip(self.step_sizes, self.radii, strict=True)
        ]
        diverged = np.zeros(len(models), dtype=bool)
        for begin in range(0, n_steps, BLOCK):
            plan = source.draw(min(BLOCK, n_steps - begin))
            if isinstance(plan, SlotPlan):
                raise ValueError("A sweep takes one pair at a step; use PreviousExample().")
            for m in np.flatnonzero(~diverged):
                try:
                    models[m].advance(rows, y, plan, weight)
                except DivergenceError:
                    diverged[m] = True
        averages = np.array([model.average for model in models])
        averages[diverged | ~np.isfinite(averages).all(axis=1)] = math.nan
        w = np.array([model.w for model in models], dtype=np.float64)
        n_gradients = max(model.n_gradients for model in models)
        return SweepSolution(averages, w, np.isnan(averages).any(axis=1), n_gradients)
