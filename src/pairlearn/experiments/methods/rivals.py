# SPDX-License-Identifier: BSD-3-Clause
"""The methods that the paper compares with, and some that it does not, with published settings.

A step of a buffer method costs up to 200 pairs, so these are tuned once for each data set, on at
most 5,000 training examples. All others are tuned on every split.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pairlearn.averaging import Uniform
from pairlearn.domains import WholeSpace
from pairlearn.experiments.methods.base import (
    Checkpoint,
    Fitted,
    Method,
    Params,
    cross_validate,
    powers,
)
from pairlearn.experiments.methods.pairwise import (
    LinearModel,
    descend,
    record_steps,
    warm_up_examples,
)
from pairlearn.losses import get_loss
from pairlearn.pairings import ClassReservoirs, Pairing, ReservoirBuffer
from pairlearn.problem import Problem
from pairlearn.recipes import RECIPES, Recipe
from pairlearn.schedules import Constant, InverseSqrt, Schedule
from pairlearn.scores import LinearScore
from pairlearn.solvers.saddle import SPAUC

__all__ = ["RIVALS", "BufferMethod", "RecipeMethod", "SaddleMethod"]

_BUFFERS: dict[str, Pairing] = {
    "olp": ReservoirBuffer(200),
    "olp-rs1": ReservoirBuffer(1),
    "oam": ClassReservoirs(100, 100, weighting="oam"),
    "oam-rs1": ClassReservoirs(1, 1, weighting="oam"),
}


@dataclass(frozen=True, kw_only=True)
class BufferMethod(Method):
    """Pairwise SGD against a buffer of examples.

    Parameters
    ----------
    name : str
        The name in tables.
    buffer : {"olp", "olp-rs1", "oam", "oam-rs1"}
        Reservoirs of 200 or 1 examples, or of 100 or 1 of each class.
    loss : str, default="hinge"
        A loss by name.
    schedule : {"inverse_sqrt", "fixed", "constant"}, default="inverse_sqrt"
        Steps eta / sqrt(t), eta or eta / sqrt(T).
    factor : float, default=1.0
        Multiplies the steps; 1/2 in the published form of OAM.
    n_passes : int, default=3
        Steps in units of the number of examples.
    step_sizes, radii : tuple of float
        The grids; infinity means no ball.
    """

    buffer: str
    loss: str = "hinge"
    schedule: str = "inverse_sqrt"
    factor: float = 1.0
    n_passes: int = 3
    step_sizes: tuple[float, ...] = powers(-3, 3)
    radii: tuple[float, ...] = powers(-3, 3)

    tuned_once: ClassVar[bool] = True
    max_tuning_examples: ClassVar[int | None] = 5_000

    def warm_up(self) -> None:
        """Compile the kernel."""
        X, y = warm_up_examples(3)
        params = {"step_size": self.step_sizes[0], "radius": self.radii[0]}
        self.fit(X, y, params, np.random.default_rng(0))

    def candidates(self) -> list[Params]:
        """Return every combination of the grids, the step size varying slowest."""
        grid = itertools.product(self.step_sizes, self.radii)
        return [{"step_size": step_size, "radius": radius} for step_size, radius in grid]

    def tune(self, X: Any, y: NDArray[np.float64], rng: np.random.Generator) -> Params:
        """Return the best candidate by 5-fold cross-validation."""
        return cross_validate(self, self.candidates(), X, y, rng)

    def _shape(self, n_steps: int) -> Schedule:
        if self.schedule == "inverse_sqrt":
            return InverseSqrt(self.factor)
        return Constant(self.factor / (math.sqrt(n_steps) if self.schedule == "constant" else 1.0))

    def fit(
        self, X: Any, y: NDArray[np.float64], params: Mapping[str, Any], rng: np.random.Generator
    ) -> Fitted:
        """Return the mean of the iterates, with earlier means as checkpoints."""
        n_steps = self.n_passes * len(y)
        pairing = _BUFFERS[self.buffer]
        fitted = descend(
            Problem(LinearScore(), get_loss(self.loss)),
            X,
            y,
            pairing=pairing,
            schedule=self._shape(n_steps).scaled(float(params["step_size"])),
            radius=float(params["radius"]),
            averaging=Uniform(),
            records=record_steps(n_steps),
            rng=rng,
        )
        remembered = {"olp": 200, "olp-rs1": 1, "oam": 200, "oam-rs1": 2}[self.buffer]
        return Fitted(
            model=fitted.model,
            n_gradients=fitted.n_gradients,
            state_bytes=(fitted.state_bytes or 0) + 8 * X.shape[1] * (remembered - 1),
            checkpoints=fitted.checkpoints,
        )


@dataclass(frozen=True, kw_only=True)
class RecipeMethod(Method):
    """A published method as `pairlearn.recipes` has it, tuned by 5-fold cross-validation.

    Parameters
    ----------
    name : str
        The name in tables.
    recipe : str
        A key of `RECIPES`.
    step_sizes, radii : tuple of float
        The grids, of which a recipe uses what it has.
    """

    recipe: str
    step_sizes: tuple[float, ...] = powers(-3, 3)
    radii: tuple[float, ...] = powers(-3, 3)

    def _recipe(self) -> Recipe:
        return RECIPES[self.recipe]

    def warm_up(self) -> None:
        """Compile the kernels."""
        _compile_recipe(self.recipe)

    def candidates(self) -> list[Params]:
        """Return every combination of the parameters that the recipe has."""
        recipe = self._recipe()
        grids: dict[str, tuple[float, ...]] = {}
        if recipe.tunes_step_size:
            grids["step_size"] = self.step_sizes
        if recipe.tunes_radius:
            grids["radius"] = self.radii
        return [
            dict(zip(grids, values, strict=True)) for values in itertools.product(*grids.values())
        ]

    def tune(self, X: Any, y: NDArray[np.float64], rng: np.random.Generator) -> Params:
        """Return the best candidate by 5-fold cross-validation."""
        return cross_validate(self, self.candidates(), X, y, rng)

    def fit(
        self, X: Any, y: NDArray[np.float64], params: Mapping[str, Any], rng: np.random.Generator
    ) -> Fitted:
        """Return the model that the recipe finds."""
        solution = self._recipe().solve(X, y, rng=rng, **params)
        return Fitted(model=LinearModel(solution.average), n_gradients=solution.trace.n_gradients)


@dataclass(frozen=True, kw_only=True)
class SaddleMethod(Method):
    """SPAUC with constant steps eta / sqrt(T) and records on the way, for figures.

    SPAUC runs to its end in one piece. Steps are known beforehand and the path is drawn step by
    step, so a record is what a run of that length finds; each is timed as a run of its own.

    Parameters
    ----------
    name : str
        The name in tables.
    n_passes : int, default=20
        Steps in units of the number of examples.
    step_sizes : tuple of float
        The grid.
    """

    n_passes: int = 20
    step_sizes: tuple[float, ...] = powers(-3, 3)

    def warm_up(self) -> None:
        """Compile the kernel."""
        _compile_recipe("spauc")

    def tune(self, X: Any, y: NDArray[np.float64], rng: np.random.Generator) -> Params:
        """Return the best step size by 5-fold cross-validation."""
        candidates = [{"step_size": step_size} for step_size in self.step_sizes]
        return cross_validate(_LastRecord(method=self, name=self.name), candidates, X, y, rng)

    def fit(
        self, X: Any, y: NDArray[np.float64], params: Mapping[str, Any], rng: np.random.Generator
    ) -> Fitted:
        """Return the last mean of the iterates, with those of shorter runs as checkpoints."""
        n_steps, seed = self.n_passes * len(y), int(rng.integers(2**63))
        checkpoints: list[Checkpoint] = []
        for upto in record_steps(n_steps):
            # Below one pass in a hundred a run is mostly its overhead.
            if 100 * upto >= len(y):
                point = self.run(X, y, float(params["step_size"]), upto, seed)
                # A longer run costs no less than a shorter one, whatever the clock says.
                least = checkpoints[-1].cpu_seconds if checkpoints else 0.0
                checkpoints.append(replace(point, cpu_seconds=max(point.cpu_seconds, least)))
        last = checkpoints[-1]
        return Fitted(
            model=last.model, n_gradients=last.n_gradients, checkpoints=tuple(checkpoints)
        )

    def run(
        self, X: Any, y: NDArray[np.float64], step_size: float, n_steps: int, seed: int
    ) -> Checkpoint:
        """Return what a run of `n_steps` of the `n_passes` finds, and what it costs."""
        eta = step_size / math.sqrt(self.n_passes * len(y))
        begin = time.process_time()
        solver = SPAUC(Constant(eta), WholeSpace(), Uniform(), "online")
        # The number of steps is rounded up from the passes.
        solution = solver.solve(X, y, n_passes=(n_steps - 0.5) / len(y), rng=seed)
        seconds = time.process_time() - begin
        return Checkpoint(LinearModel(solution.average), seconds, solution.trace.n_gradients)


@dataclass(frozen=True, kw_only=True)
class _LastRecord(Method):
    """SPAUC without its records, which tuning does not need."""

    method: SaddleMethod

    def fit(
        self, X: Any, y: NDArray[np.float64], params: Mapping[str, Any], rng: np.random.Generator
    ) -> Fitted:
        n_steps = self.method.n_passes * len(y)
        seed = int(rng.integers(2**63))
        return Fitted(model=self.method.run(X, y, params["step_size"], n_steps, seed).model)


@functools.cache
def _compile_recipe(name: str) -> None:
    X, y = warm_up_examples(3)
    RECIPES[name].solve(X, y, step_size=0.1, radius=1.0, rng=0)


#: Rivals of the paper's tables, then others.
RIVALS: tuple[Method, ...] = (
    BufferMethod(name="olp", buffer="olp"),
    BufferMethod(
        name="oam", buffer="oam", schedule="fixed", factor=0.5, n_passes=5, radii=(math.inf,)
    ),
    BufferMethod(name="olp-rs1", buffer="olp-rs1", n_passes=30),
    BufferMethod(
        name="oam-rs1",
        buffer="oam-rs1",
        schedule="fixed",
        factor=0.5,
        n_passes=30,
        radii=(math.inf,),
    ),
    RecipeMethod(name="spauc", recipe="spauc"),
    RecipeMethod(name="solam", recipe="solam"),
    RecipeMethod(name="localized", recipe="localized"),
)
