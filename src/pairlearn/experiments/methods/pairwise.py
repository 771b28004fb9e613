# SPDX-License-Identifier: BSD-3-Clause
"""Published pairwise methods, and this library's estimators, as methods of a comparison.

A published method is a recipe with grids and a way of tuning. The paper's grids are step sizes eta
and radii from 1e-3 to 1e3, chosen by 5-fold cross-validation. If a step takes one pair, all
candidates of a fold are trained on one sample path. A step of a buffer method costs up to 200
pairs, so buffer methods are tuned once for each data set, on at most 5,000 training examples.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.averaging import Averaging, DelayedByStepSize, Uniform
from pairlearn.data.splits import folds
from pairlearn.experiments.methods.base import (
    EstimatorMethod,
    Fitted,
    Method,
    Params,
    Waypoint,
    combinations,
    cross_validate,
    powers,
)
from pairlearn.metrics.auc import roc_auc
from pairlearn.recipes import RECIPES, Recipe
from pairlearn.solvers.running import Running
from pairlearn.solvers.two_classes import n_steps_of
from pairlearn.typing import Vector

_AVERAGINGS: dict[str, Averaging] = {"step_size": DelayedByStepSize(), "uniform": Uniform()}
_TUNINGS = ("sweep", "folds", "once")


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A model given by its coefficients."""

    coef: Vector

    def decision_function(self, X: Any) -> Vector:
        """Return the scores <w, x>."""
        return np.asarray(X @ self.coef, dtype=np.float64)


def record_steps(n_steps: int) -> list[int]:
    """Return the steps at which models are recorded: powers of sqrt(2) from 16 on, and the last."""
    # A record just before the last one would repeat it.
    steps = itertools.takewhile(
        lambda step: step < 0.9 * n_steps + 1, (int(2.0 ** (k / 2)) for k in itertools.count(8))
    )
    return [*(step for step in steps if step < n_steps), n_steps]


@dataclass(frozen=True, kw_only=True)
class RecipeMethod(Method):
    """A published method as in `pairlearn.recipes`, or with some of its parts replaced.

    `loss`, `steps` (a key of `pairlearn.recipes.STEPS`), `averaging` (a key of `_AVERAGINGS`),
    `projects` (whether there is a ball) and `n_passes` replace those of the recipe. Every
    combination of `step_sizes` and `radii`, as far as the recipe has them, is a candidate. `tuning`
    is 5-fold cross-validation on every split, with all candidates on one sample path ("sweep") or
    each on its own ("folds"), or "once" for each data set on at most 5,000 examples. With
    `records`, intermediate models are kept.
    """

    recipe: str
    loss: str | None = None
    steps: str | None = None
    averaging: str | None = None
    projects: bool | None = None
    n_passes: float | None = None
    step_sizes: tuple[float, ...] = powers(-3, 3)
    radii: tuple[float, ...] = powers(-3, 3)
    tuning: str = "folds"
    records: bool = True

    def __post_init__(self) -> None:
        for field, allowed in (
            ("recipe", tuple(RECIPES)),
            ("averaging", (None, *_AVERAGINGS)),
            ("tuning", _TUNINGS),
        ):
            if getattr(self, field) not in allowed:
                names = ", ".join(name for name in allowed if name is not None)
                raise ValueError(f"{field} must be one of {names}, got {getattr(self, field)!r}.")
        self.published()

    @property
    def tuned_once(self) -> bool:
        """Whether parameters are chosen once per data set."""
        return self.tuning == "once"

    @property
    def max_tuning_examples(self) -> int | None:
        """The limit on examples for tuning; None for all."""
        return 5_000 if self.tuned_once else None

    def published(self) -> Recipe:
        """Return the recipe with the replaced parts."""
        parts = {
            "steps": self.steps,
            "averaging": None if self.averaging is None else _AVERAGINGS[self.averaging],
            "projects": self.projects,
        }
        given = {name: part for name, part in parts.items() if part is not None}
        return RECIPES[self.recipe].varied(**given)

    def warm_up(self, d: int) -> None:
        """Compile the kernels for `d` features, and load everything that loads on first use."""
        rng = np.random.default_rng(0)
        X, y = _warm_up_examples(100, d)
        sweeps = self.tuning == "sweep"
        self.fit(X, y, self.tune(X, y, rng) if sweeps else self.candidates()[0], rng)

    def candidates(self) -> list[Params]:
        """Return every combination of the recipe's parameters; the step size varies slowest."""
        recipe = self.published()
        grids: dict[str, tuple[float, ...]] = {}
        if recipe.tunes_step_size:
            grids["step_size"] = self.step_sizes
        if recipe.tunes_radius:
            grids["radius"] = self.radii
        return combinations(grids)

    def tune(self, X: Any, y: Vector, rng: np.random.Generator) -> Params:
        """Return the candidate with the highest mean AUC over 5 stratified folds."""
        candidates = self.candidates()
        if self.tuning != "sweep" or len(candidates) == 1:
            return cross_validate(self, candidates, X, y, rng)
        total = np.zeros(len(candidates))
        for part in folds(len(y), 5, y=y, rng=rng):
            solution = self.published().sweep(
                X[part.train],
                y[part.train],
                step_sizes=[params["step_size"] for params in candidates],
                radii=[params.get("radius", np.inf) for params in candidates],
                n_passes=self.n_passes,
                loss=self.loss,
                rng=rng,
            )
            held, signs = X[part.test], y[part.test]
            for index, coef in enumerate(solution.averages):
                values = held @ coef
                # A model that diverged has no ranking.
                total[index] += roc_auc(signs, values) if np.isfinite(values).all() else 0.0
        return candidates[int(np.argmax(total))]

    def fit(self, X: Any, y: Vector, params: Mapping[str, Any], rng: np.random.Generator) -> Fitted:
        """Return the model that the recipe finds, with intermediate models as waypoints."""
        recipe = self.published()
        waypoints: list[Waypoint] = []

        def record(running: Running) -> None:
            model = LinearModel(running.average)
            waypoints.append(Waypoint(model, running.cpu_seconds, running.n_gradients))

        watch: dict[str, Any] = {}
        if self.records:
            n_steps = n_steps_of(self.n_passes or recipe.n_passes, len(y))
            watch = {"callbacks": [record], "pauses": record_steps(n_steps)}
        solution = recipe.solve(
            X, y, loss=self.loss, n_passes=self.n_passes, rng=rng, **params, **watch
        )
        if solution.trace.interrupted:
            raise KeyboardInterrupt
        remembered = recipe.n_remembered
        return Fitted(
            model=waypoints[-1].model if waypoints else LinearModel(solution.average),
            n_gradients=solution.trace.n_gradients,
            # Iterate, previous iterate, two sums, and the remembered examples.
            state_bytes=None if remembered is None else 8 * X.shape[1] * (4 + remembered),
            waypoints=tuple(waypoints),
        )


@dataclass(frozen=True, kw_only=True)
class AutoMethod(EstimatorMethod):
    """An estimator of this library with its defaults, not tuned from outside."""

    def warm_up(self, d: int) -> None:
        """Compile the code that the estimator uses for few examples and for many."""
        for n in (100, 2_500):
            X, y = _warm_up_examples(n, d)
            self.fit(X, y, {}, np.random.default_rng(0))

    def fit(self, X: Any, y: Vector, params: Mapping[str, Any], rng: np.random.Generator) -> Fitted:
        """Return the fitted estimator and its count of gradients."""
        fitted = super().fit(X, y, params, rng)
        if fitted.model.trace_.interrupted:
            raise KeyboardInterrupt
        return Fitted(model=fitted.model, n_gradients=int(fitted.model.n_gradients_))


def _warm_up_examples(n: int, d: int) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)


@dataclass(frozen=True, kw_only=True)
class ModelMethod(Method):
    """A kind of model of `pairlearn train` by name, or with "auto" the kind that it takes."""

    kind: str

    def fit(self, X: Any, y: Vector, params: Mapping[str, Any], rng: np.random.Generator) -> Fitted:
        """Return the fitted model."""
        from pairlearn.estimators.stack.choice import choose_model, make_model, why_linear
        from pairlearn.tables.encoding import MOST_DENSE_FEATURES

        seed, kind = int(rng.integers(2**31 - 1)), self.kind
        # A table of more features stays sparse in `train`, and is dense here.
        if kind == "auto" and (why_linear(X, y) or X.shape[1] > MOST_DENSE_FEATURES):
            kind = "linear"
        if kind == "auto":
            return Fitted(model=choose_model(X, y, seed=seed)[1])
        return Fitted(model=make_model(kind, seed).fit(X, y))
