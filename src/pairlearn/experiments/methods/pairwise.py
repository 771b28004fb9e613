# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise SGD as methods of a comparison, tuned as the paper tunes them.

The paper's grids are step sizes eta and radii from 1e-3 to 1e3 each, chosen by 5-fold
cross-validation. All 49 candidates of a fold are trained on one sample path by `Sweep`. As in the
published code, the step is the constant eta / sqrt(T) over T = 10 n steps, so that the same eta
serves the shorter runs on folds and the final one.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.averaging import Averaging, DelayedByStepSize, Uniform
from pairlearn.data.splits import folds
from pairlearn.domains import ball_or_whole
from pairlearn.experiments.methods.base import (
    Checkpoint,
    EstimatorMethod,
    Fitted,
    Method,
    Params,
    powers,
)
from pairlearn.losses import get_loss
from pairlearn.metrics import roc_auc
from pairlearn.pairings import Pairing, PreviousExample, RandomPair
from pairlearn.problem import Problem
from pairlearn.schedules import Constant, InverseSqrt, InverseTime, Schedule
from pairlearn.scores import LinearScore
from pairlearn.solvers.descent import BLOCK, Descent, Parts
from pairlearn.solvers.rows import as_rows
from pairlearn.solvers.sweep import Sweep

__all__ = [
    "OWN",
    "AutoMethod",
    "LinearModel",
    "SweptMethod",
    "descend",
    "record_steps",
    "warm_up_examples",
]

_PAIRINGS: dict[str, type[Pairing]] = {"previous": PreviousExample, "random": RandomPair}
_AVERAGINGS: dict[str, type[Averaging]] = {"step_size": DelayedByStepSize, "uniform": Uniform}


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Coefficients as a model that scores."""

    coef: NDArray[np.float64]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores <w, x>."""
        return np.asarray(X @ self.coef, dtype=np.float64)


def record_steps(n_steps: int) -> list[int]:
    """Return the steps at which models are recorded: powers of sqrt(2) from 16 on, and the last.

    Examples
    --------
    >>> record_steps(100)
    [16, 22, 32, 45, 64, 90, 100]
    """
    # A record just before the last one would say the same twice.
    steps = itertools.takewhile(
        lambda step: step < 0.9 * n_steps + 1, (int(2.0 ** (k / 2)) for k in itertools.count(8))
    )
    return [*(step for step in steps if step < n_steps), n_steps]


@dataclass(frozen=True, kw_only=True)
class SweptMethod(Method):
    """Pairwise SGD with one pair at a step, step size and radius by cross-validation.

    Parameters
    ----------
    name : str
        The name in tables.
    pairing : {"previous", "random"}, default="previous"
        Each example meets the previous one (Algorithm 1), or pairs are uniform (SGD_pair).
    loss : str, default="hinge"
        A loss by name.
    schedule : {"constant", "inverse_sqrt", "inverse_time", "delayed"}, default="constant"
        Steps eta / sqrt(T), eta / sqrt(t), eta / t or eta / (t + T/10).
    averaging : {"step_size", "uniform"}, default="step_size"
        The paper's average, or the plain mean.
    n_passes : int, default=10
        Steps in units of the number of examples.
    step_sizes, radii : tuple of float
        The grids, every combination of which is a candidate; infinity means no ball.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> method = SweptMethod(name="small", step_sizes=(0.1, 1.0), radii=(1.0, 10.0))
    >>> sorted(method.tune(X, y, rng))
    ['radius', 'step_size']
    """

    pairing: str = "previous"
    loss: str = "hinge"
    schedule: str = "constant"
    averaging: str = "step_size"
    n_passes: int = 10
    step_sizes: tuple[float, ...] = powers(-3, 3)
    radii: tuple[float, ...] = powers(-3, 3)

    def __post_init__(self) -> None:
        for field, allowed in (
            ("pairing", tuple(_PAIRINGS)),
            ("schedule", ("constant", "inverse_sqrt", "inverse_time", "delayed")),
            ("averaging", tuple(_AVERAGINGS)),
        ):
            if getattr(self, field) not in allowed:
                raise ValueError(
                    f"{field} must be one of {', '.join(allowed)}, got {getattr(self, field)!r}."
                )

    def _problem(self) -> Problem:
        return Problem(LinearScore(), get_loss(self.loss))

    def _shape(self, n_steps: int) -> Schedule:
        if self.schedule == "constant":
            return Constant(1.0 / math.sqrt(n_steps))
        if self.schedule == "delayed":
            return InverseTime(1.0, offset=0.1 * n_steps)
        return InverseSqrt(1.0) if self.schedule == "inverse_sqrt" else InverseTime(1.0)

    def candidates(self) -> list[Params]:
        """Return every combination of the grids, the step size varying slowest."""
        return [
            {"step_size": step_size, "radius": radius}
            for step_size in self.step_sizes
            for radius in self.radii
        ]

    def warm_up(self) -> None:
        """Compile the kernels for few and for many features."""
        _compile(self)

    def tune(self, X: Any, y: NDArray[np.float64], rng: np.random.Generator) -> Params:
        """Return the candidate of the highest mean AUC over 5 stratified folds."""
        candidates = self.candidates()
        if len(candidates) == 1:
            return candidates[0]
        total = np.zeros(len(candidates))
        for part in folds(len(y), 5, y=y, rng=rng):
            n_steps = self.n_passes * len(part.train)
            sweep = Sweep(
                tuple(params["step_size"] for params in candidates),
                tuple(params["radius"] for params in candidates),
                _PAIRINGS[self.pairing](),
                self._shape(n_steps),
                _AVERAGINGS[self.averaging](),
            )
            solution = sweep.solve(
                self._problem(), X[part.train], y[part.train], n_steps=n_steps, rng=rng
            )
            held, signs = X[part.test], y[part.test]
            for index, coef in enumerate(solution.averages):
                values = held @ coef
                # A model that diverged ranks nothing.
                total[index] += roc_auc(signs, values) if np.isfinite(values).all() else 0.0
        return candidates[int(np.argmax(total))]

    def fit(
        self, X: Any, y: NDArray[np.float64], params: Mapping[str, Any], rng: np.random.Generator
    ) -> Fitted:
        """Return the average of the iterates, with earlier averages as checkpoints."""
        n_steps = self.n_passes * len(y)
        return descend(
            self._problem(),
            X,
            y,
            pairing=_PAIRINGS[self.pairing](),
            schedule=self._shape(n_steps).scaled(float(params["step_size"])),
            radius=float(params["radius"]),
            averaging=_AVERAGINGS[self.averaging](),
            records=record_steps(n_steps),
            rng=rng,
        )


def descend(
    problem: Problem,
    X: Any,
    y: NDArray[np.float64],
    *,
    pairing: Pairing,
    schedule: Schedule,
    radius: float,
    averaging: Averaging,
    records: Sequence[int],
    rng: np.random.Generator,
) -> Fitted:
    """Run pairwise SGD and keep the average at each of the recorded steps, the last one included.

    Parameters
    ----------
    problem : Problem
        Score and loss.
    X, y : arrays
        Training examples.
    pairing, schedule, radius, averaging
        The parts; an infinite radius means no ball.
    records : sequence of int
        Steps, increasing; the run ends with the last one.
    rng : Generator
        Source of the indices.

    Returns
    -------
    Fitted
        The last average, with all of them as checkpoints.
    """
    rows = as_rows(X)
    n, d = rows.shape
    domain = ball_or_whole(radius)
    parts = Parts(problem, schedule, domain, averaging)
    descent = Descent(parts, d, horizon=records[-1])
    source = pairing.offline(n, rng, y=y)
    checkpoints = []
    begin = time.process_time()
    for upto in records:
        for count in _pieces(upto - descent.n_steps):
            descent.advance(rows, y, source.draw(count))
        model = LinearModel(descent.average)
        checkpoints.append(Checkpoint(model, time.process_time() - begin, descent.n_gradients))
    kept = (descent.w, descent.weighted_sum, descent.left_iterate, descent.total)
    return Fitted(
        model=checkpoints[-1].model,
        n_gradients=descent.n_gradients,
        # The arrays of the descent and one remembered example.
        state_bytes=sum(array.nbytes for array in kept) + 8 * d,
        checkpoints=tuple(checkpoints),
    )


def _pieces(count: int) -> Iterator[int]:
    """Yield the sizes of plans that make up `count` steps, those that `PairwiseSGD` takes."""
    while count > 0:
        piece = min(count, BLOCK)
        yield piece
        count -= piece


def warm_up_examples(d: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a few examples of both classes, to compile with."""
    X = np.random.default_rng(0).normal(size=(100, d))
    return X, np.where(X[:, 0] > 0, 1.0, -1.0)


@functools.cache
def _compile(method: Method) -> None:
    rng = np.random.default_rng(0)
    for d in (3, 70):
        X, y = warm_up_examples(d)
        method.fit(X, y, method.tune(X, y, rng), rng)


@dataclass(frozen=True, kw_only=True)
class AutoMethod(EstimatorMethod):
    """An estimator of this library as it comes, without tuning from outside."""

    def warm_up(self) -> None:
        """Compile what the estimator uses."""
        _compile_estimator(self)

    def fit(
        self, X: Any, y: NDArray[np.float64], params: Mapping[str, Any], rng: np.random.Generator
    ) -> Fitted:
        """Return the fitted estimator and its count of gradients."""
        fitted = super().fit(X, y, params, rng)
        return Fitted(model=fitted.model, n_gradients=int(fitted.model.n_gradients_))


def _compile_estimator(method: AutoMethod) -> None:
    for d in (3, 70):
        X, y = warm_up_examples(d)
        method.fit(X, y, {}, np.random.default_rng(0))


#: The paper's method, its untuned form, its nearest rival, and the minimisers over all pairs.
OWN: tuple[Method, ...] = (
    SweptMethod(name="ours"),
    AutoMethod(name="ours-auto", path="pairlearn.AUCClassifier"),
    SweptMethod(name="sgd-pair", pairing="random"),
    AutoMethod(name="exact", path="pairlearn.AUCClassifier", fixed={"solver": "exact"}),
    AutoMethod(
        name="closed-form",
        path="pairlearn.AUCClassifier",
        fixed={"solver": "exact", "loss": "square"},
    ),
)
