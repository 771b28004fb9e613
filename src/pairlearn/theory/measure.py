# SPDX-License-Identifier: BSD-3-Clause
"""Measure stability and excess risk in simulated runs, and compare them with the bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pairlearn import reference
from pairlearn.averaging import DelayedByStepSize, LastIterate
from pairlearn.pairings import Plan
from pairlearn.problem import Problem
from pairlearn.schedules import Constant
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent.descent import Descent, Parts
from pairlearn.solvers.rows import as_rows
from pairlearn.theory.advice import advise
from pairlearn.theory.conventions import AverageRule
from pairlearn.theory.finite_problems import FiniteProblem
from pairlearn.theory.glossary import documented
from pairlearn.theory.stability import realized_stability, stability_nonsmooth, stability_smooth
from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import check_count, check_generator, check_positive

#: Models and risks here are of the order of 1, so a difference below this is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class StabilityMeasurement:
    """Distances of neighbouring models, and the bounds on them.

    Parameters
    ----------
    steps : ndarray of shape (k,)
        The numbers of steps at which the distance was measured.
    distances : ndarray of shape (n_runs, k)
        Distance of the two models in each run.
    realized : ndarray of shape (n_runs, k)
        The bound of `realized_stability` for the index path of the run; it holds surely.
    expected : ndarray of shape (k,)
        The corrected bound on the mean over index paths.
    paper : ndarray of shape (k,)
        The paper's bound on the same.
    """

    steps: Places
    distances: Vector
    realized: Vector
    expected: Vector
    paper: Vector

    @property
    def mean(self) -> Vector:
        """Mean distance over the runs."""
        return np.asarray(self.distances.mean(axis=0))

    @property
    def n_runs_above(self) -> int:
        """Number of runs above the bound of their own path, by more than rounding."""
        return int(_above(self.distances, self.realized).any(axis=1).sum())


@dataclass(frozen=True, eq=False)
class ExcessMeasurement:
    """Excess risks for several numbers of examples, and the bounds on them.

    Parameters
    ----------
    sizes : ndarray of shape (k,)
        The numbers of examples.
    excess : ndarray of shape (n_runs, k)
        F(average) - F(w*) in each run.
    bounds : ndarray of shape (k,)
        The corrected bound on the mean.
    paper : ndarray of shape (k,)
        The bound with the paper's constants, at the step size that they recommend.
    """

    sizes: Places
    excess: Vector
    bounds: Vector
    paper: Vector

    @property
    def mean(self) -> Vector:
        """Mean excess risk over the runs."""
        return np.asarray(self.excess.mean(axis=0))

    @property
    def n_sizes_above(self) -> int:
        """Number of sizes whose mean is above the corrected bound, by more than rounding."""
        return int(_above(self.mean, self.bounds).sum())


def _above(measured: Vector, bound: Vector) -> Mask:
    return np.asarray(measured > bound * (1.0 + _ROUNDING) + _ROUNDING)


def fitted_slope(x: Sequence[float] | Vector, y: Sequence[float] | Vector) -> float:
    """Return the slope of the least-squares line through (log x, log y).

    Examples
    --------
    >>> round(fitted_slope([1.0, 10.0, 100.0], [5.0, 0.5, 0.05]), 6)
    -1.0
    """
    horizontal = np.log(np.asarray(x, dtype=np.float64))
    vertical = np.log(np.asarray(y, dtype=np.float64))
    return float(np.polyfit(horizontal, vertical, 1)[0])


def run_path(
    problem: FiniteProblem, sample: Places, indices: Places, step_sizes: Vector
) -> list[Vector]:
    """Return all iterates of Algorithm 1 from w_0 = 0 for a given sample and index path.

    This is the plain reference. `measure_stability` and `measure_excess` need the models at a few
    steps only and use the compiled solver, which agrees with it.

    Parameters
    ----------
    problem : FiniteProblem
        The problem.
    sample : ndarray of shape (n,)
        The examples, as positions in ``problem.points``.
    indices : ndarray of shape (T + 1,)
        The path i_0, ..., i_T; 0, 1, ..., n - 1 is Algorithm 2.
    step_sizes : ndarray of shape (T,)
        The step sizes.

    Returns
    -------
    list of ndarray
        w_0, ..., w_T.

    Examples
    --------
    >>> from pairlearn.theory import hinge_problem
    >>> run_path(hinge_problem(), np.array([0, 2]), np.array([0, 1]), np.array([0.1]))
    [array([0.]), array([0.2])]
    """
    X, y = problem.examples(sample)
    current, previous = indices[1:].tolist(), indices[:-1].tolist()
    return reference.pairwise_sgd(
        problem.loss,
        X,
        y,
        partners=[(now, [before]) for now, before in zip(current, previous, strict=True)],
        step_sizes=step_sizes,
        project=problem.domain.project,
        w_start=np.zeros(problem.n_features),
    )


def _models(
    problem: FiniteProblem,
    sample: Places,
    indices: Places,
    step_size: float,
    steps: Places,
    averaging: Literal["step_size", "last"],
) -> Vector:
    """Return the model after each of the given numbers of steps, for a given index path."""
    X, y = problem.examples(sample)
    parts = Parts(
        Problem(LinearScore(), problem.loss),
        Constant(step_size),
        problem.domain,
        DelayedByStepSize() if averaging == "step_size" else LastIterate(),
    )
    descent = Descent(parts, problem.n_features)
    rows = as_rows(X)
    path = indices.astype(np.int32)
    models = np.empty((len(steps), problem.n_features))
    done = 0
    for row, until in enumerate(steps.tolist()):
        descent.advance(rows, y, Plan(path[done + 1 : until + 1], path[done:until]))
        models[row] = descent.average
        done = until
    return models


@documented
def measure_stability(
    problem: FiniteProblem,
    n: int,
    *,
    n_steps: int,
    step_size: float,
    averaging: Literal["step_size", "last"] = "step_size",
    n_runs: int = 20,
    n_points: int = 12,
    rng: int | np.random.Generator | None = None,
) -> StabilityMeasurement:
    """Train on neighbouring data sets with the same indices and return the models' distance.

    Each run draws a data set and an index path, replaces one example of the data set by a different
    draw, and trains on both data sets along the same path.

    Parameters
    ----------
    step_size : float
        The constant step size; when it is at most 2 / L the smooth bounds are used.
    averaging : {"step_size", "last"}, default="step_size"
        Whether to compare the paper's averages or the last iterates.
    n_runs : int, default=20
        Number of pairs of runs.
    n_points : int, default=12
        Number of steps at which the distance is measured, evenly spaced on a logarithmic scale.

    Examples
    --------
    >>> from pairlearn.theory import hinge_problem
    >>> measured = measure_stability(hinge_problem(), 50, n_steps=100, step_size=0.01, rng=0)
    >>> bool(np.all(measured.distances <= measured.realized))
    True
    """
    rng = check_generator(rng)
    check_count("n", n, minimum=2)
    check_count("n_steps", n_steps, minimum=3)
    check_positive("step_size", step_size)
    if averaging not in ("step_size", "last"):
        raise ValueError(f"averaging must be 'step_size' or 'last', got {averaging!r}.")
    if not problem.loss.convex:
        raise ValueError("the stability bounds are for convex losses.")
    lipschitz, smoothness, _ = problem.constants
    smooth = step_size * smoothness <= 2.0
    steps = np.unique(np.geomspace(3, n_steps, n_points).round().astype(np.intp))
    etas = np.full(n_steps, float(step_size))
    distances, realized = [], []
    for _ in range(check_count("n_runs", n_runs)):
        sample = problem.draw(n, rng)
        indices = rng.integers(n, size=n_steps + 1)
        replaced = int(rng.integers(n))
        neighbour = sample.copy()
        while neighbour[replaced] == sample[replaced]:
            neighbour[replaced] = problem.draw(1, rng)[0]
        models = [
            _models(problem, data, indices, step_size, steps, averaging)
            for data in (sample, neighbour)
        ]
        distances.append(np.linalg.norm(models[0] - models[1], axis=1))
        realized.append(
            [
                realized_stability(
                    indices[: t + 1],
                    etas[:t],
                    n=n,
                    lipschitz=lipschitz,
                    smoothness=smoothness if smooth else np.inf,
                    averaging=averaging,
                )[replaced]
                for t in steps.tolist()
            ]
        )
    return StabilityMeasurement(
        steps=steps,
        distances=np.asarray(distances),
        realized=np.asarray(realized),
        expected=_stability_bounds(problem, n, steps, step_size, averaging, "corrected"),
        paper=_stability_bounds(problem, n, steps, step_size, averaging, "paper"),
    )


def _stability_bounds(
    problem: FiniteProblem,
    n: int,
    steps: Places,
    step_size: float,
    averaging: AverageRule,
    constants: Literal["paper", "corrected"],
) -> Vector:
    """Return the stability bound after each of the given numbers of steps."""
    lipschitz, smoothness, _ = problem.constants
    values = []
    for t in steps.tolist():
        given: dict[str, Any] = {"averaging": averaging, "constants": constants}
        given |= {"lipschitz": lipschitz, "step_size": step_size}
        if step_size * smoothness <= 2.0:
            values.append(stability_smooth(n, t, smoothness=smoothness, **given))
        else:
            values.append(stability_nonsmooth(n, t, **given))
    return np.asarray(values)


@documented
def measure_excess(
    problem: FiniteProblem,
    sizes: Sequence[int],
    *,
    setting: Literal["offline", "online"] = "online",
    n_runs: int = 20,
    rng: int | np.random.Generator | None = None,
) -> ExcessMeasurement:
    """Train with the recommended step size and return the excess risk for several sizes.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of examples.
    setting : {"online", "offline"}, default="online"
        See `advise`. Offline, a loss with a kink takes n^2 steps.
    n_runs : int, default=20
        Number of runs for each size.

    Examples
    --------
    >>> from pairlearn.theory import hinge_problem
    >>> measured = measure_excess(hinge_problem(), [50, 100], n_runs=5, rng=0)
    >>> bool(np.all(measured.mean <= measured.bounds))
    True
    """
    rng = check_generator(rng)
    check_count("n_runs", n_runs)
    lipschitz, smoothness, _ = problem.constants
    diameter = problem.domain.diameter
    excess = np.empty((n_runs, len(sizes)))
    bounds, paper = [], []
    for column, n in enumerate(sizes):
        options: dict[str, Any] = {
            "lipschitz": lipschitz,
            "diameter": diameter,
            "distance": diameter / 2.0,  # w_0 = 0 is the centre of the ball
            "smoothness": smoothness,
        }
        advice = advise(n, setting=setting, **options)
        bounds.append(advice.bound)
        paper.append(advise(n, setting=setting, constants="paper", **options).bound)
        end = np.array([advice.n_steps])
        for run in range(n_runs):
            sample = problem.draw(n, rng)
            if setting == "online":
                indices = np.arange(n)
            else:
                indices = rng.integers(n, size=advice.n_steps + 1)
            models = _models(problem, sample, indices, advice.step_size, end, "step_size")
            excess[run, column] = problem.excess_risk(models[0])
    return ExcessMeasurement(
        sizes=np.asarray(sizes, dtype=np.intp),
        excess=excess,
        bounds=np.asarray(bounds),
        paper=np.asarray(paper),
    )
