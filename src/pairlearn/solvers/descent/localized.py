# SPDX-License-Identifier: BSD-3-Clause
r"""Localized SGD (Algorithm 4): stages on disjoint data, each close to the result before it.

Stage k runs Algorithm 1 on its own examples and the objective
F_{S_k}(w) + ||w - c||^2 / (zeta_k n_k), c being the result of the stage before, with steps
zeta_k n_k / (j + 1) and the average that weighs w_{j-2} by j. A non-smooth loss then needs O(n)
gradients in all (Theorem 11) instead of O(n^2).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.averaging import DelayedLinear
from pairlearn.domains import Ball
from pairlearn.losses import PairLoss
from pairlearn.pairings import PreviousExample
from pairlearn.problem import Problem
from pairlearn.schedules import StronglyConvex
from pairlearn.solvers.iterates import iterate_weights
from pairlearn.solvers.rows import Rows, as_rows
from pairlearn.solvers.solution import Solution, Trace
from pairlearn.solvers.support import check_parts
from pairlearn.solvers.two_classes import check_finished
from pairlearn.typing import Vector
from pairlearn.validation import (
    DivergenceError,
    check_count,
    check_generator,
    check_labels,
    check_positive,
    check_vector,
)


@dataclass(frozen=True)
class LocalizedStage:
    """One stage of Algorithm 4 or 5.

    Parameters
    ----------
    n_examples : int
        n_k, the number of examples, used by no other stage.
    n_steps : int
        T_k, the number of steps.
    locality : float
        zeta_k; the smaller, the closer the result stays to that of the stage before.
    """

    n_examples: int
    n_steps: int
    locality: float

    def __post_init__(self) -> None:
        for name in ("n_examples", "n_steps"):
            object.__setattr__(self, name, check_count(name, getattr(self, name), minimum=0))
        object.__setattr__(self, "locality", check_positive("locality", self.locality))

    @property
    def strong_convexity(self) -> float:
        """alpha_k = 2 / (zeta_k n_k): the steps are 2 / (alpha_k (j + 1))."""
        return 2.0 / (self.locality * self.n_examples)


def stage_sizes(n: int) -> tuple[int, ...]:
    """Return floor(n / 2^k) for k = 1, 2, ... while at least 2; the first also gets the rest.

    >>> stage_sizes(20), stage_sizes(3), stage_sizes(1)
    ((13, 5, 2), (3,), ())
    """
    sizes = [n >> k for k in range(1, n.bit_length()) if n >> k >= 2]
    first = n - sum(sizes[1:])
    return (first, *sizes[1:]) if first >= 2 else ()


def localized_stages(
    n: int, *, locality: float, n_passes: float = 1.0
) -> tuple[LocalizedStage, ...]:
    """Return the stages for n >= 4 examples: n_k = floor(n / 2^k), zeta / 2^k, T_k = n_passes n_k.

    The paper's n / 2^k need not be whole, and its last stages have no pair. Here sizes are rounded
    down, stages of fewer than two examples are left out, and the first stage gets the remaining
    examples. Theorem 11 takes the locality zeta = D / (G sqrt(n)).
    """
    if check_count("n", n) < 4:
        raise ValueError(
            f"Localized SGD halves the data and needs at least 4 examples, got {n}; "
            "use PairwiseSGD for fewer."
        )
    check_positive("locality", locality)
    check_positive("n_passes", n_passes)
    return tuple(
        LocalizedStage(size, math.ceil(n_passes * size), locality / 2.0**k)
        for k, size in enumerate(stage_sizes(n), start=1)
    )


@dataclass(frozen=True)
class LocalizedSGD:
    """Algorithm 4 on a ball.

    Parameters
    ----------
    radius : float
        Radius of the ball; the paper's D is its diameter.
    locality : float, optional
        zeta. The default is D / (G sqrt(n)) of Theorem 11, with G from the loss, the radius and the
        largest norm of an example.
    n_passes : float, default=1.0
        Steps of a stage, as a multiple of its number of examples.

    Notes
    -----
    The examples are dealt to the stages at random. Each stage's centre is projected onto the ball.
    On sparse rows a step costs O(d), since the pull to the centre is dense.

    References
    ----------
    Yang, Lei, Wang, Yang, Ying. Simple stochastic and online gradient descent algorithms for
    pairwise learning. NeurIPS 2021. Algorithm 4, Theorem 11.

    Examples
    --------
    >>> from pairlearn import Hinge, LinearScore
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> solution = LocalizedSGD(5.0).solve(Problem(LinearScore(), Hinge()), X, y, rng=0)
    >>> bool(solution.average[0] > 3 * abs(solution.average[1:]).max())
    True
    """

    radius: float
    locality: float | None = None
    n_passes: float = 1.0

    def __post_init__(self) -> None:
        check_positive("radius", self.radius)
        check_positive("n_passes", self.n_passes)
        if self.locality is not None:
            check_positive("locality", self.locality)

    def stages(self, problem: Problem, rows: Rows) -> tuple[LocalizedStage, ...]:
        """Return the stages that `solve` runs on these examples."""
        locality = self.locality
        if locality is None:
            with np.errstate(over="ignore"):
                largest = rows.largest_norm()
            if math.isinf(largest):
                raise DivergenceError(
                    "The squared norm of an example overflows; scale the features (StandardScaler)."
                )
            bound = problem.constants(norm_bound=largest, radius=self.radius).lipschitz
            if not bound > 0.0:
                raise ValueError("All examples are zero; there is nothing to learn from.")
            locality = 2.0 * self.radius / (bound * math.sqrt(rows.shape[0]))
        return localized_stages(rows.shape[0], locality=locality, n_passes=self.n_passes)

    def solve(
        self,
        problem: Problem,
        X: Any,
        y: ArrayLike,
        *,
        rng: Any = None,
        w_start: ArrayLike | None = None,
    ) -> Solution:
        """Run all stages.

        Parameters
        ----------
        problem : Problem
            Score and loss.
        X : array-like or sparse container of shape (n, d)
            Examples.
        y : array-like of shape (n,)
            Labels.
        rng : int or numpy.random.Generator, optional
            Deals the examples to the stages and draws the indices.
        w_start : array-like of shape (d,), optional
            The first centre, zero by default; projected onto the ball.

        Returns
        -------
        Solution
            The average of the last stage, its last iterate, and the trace.
        """
        domain = Ball(self.radius)
        parts = {"loss": problem.loss, "comparison": problem.comparison, "domain": domain}
        check_parts("LocalizedSGD", score=problem.score, **parts)
        rows = as_rows(X)
        n, d = rows.shape
        y = check_labels(y, n)
        generator = check_generator(rng)
        stages = self.stages(problem, rows)
        start = np.zeros(d) if w_start is None else check_vector("w_start", w_start, d)
        centre = last = domain.project(start)
        order = generator.permutation(n)
        trace, begin = Trace(), time.perf_counter()
        for stage in stages:
            members, order = order[: stage.n_examples], order[stage.n_examples :]
            plan = PreviousExample().offline(stage.n_examples, generator).draw(stage.n_steps)
            pairs = (y, members[plan.left], members[plan.right])
            trace.n_repeats += plan.n_repeats
            average, last = _run_stage(problem.loss, rows, pairs, stage, centre, self.radius, trace)
            centre = domain.project(average)
        trace.seconds = time.perf_counter() - begin
        return Solution(centre, last, trace)


def _run_stage(
    loss: PairLoss,
    rows: Rows,
    pairs: tuple[Vector, NDArray[np.int64], NDArray[np.int64]],
    stage: LocalizedStage,
    centre: Vector,
    radius: float,
    trace: Trace,
) -> tuple[Vector, Vector]:
    """Return the average and the last iterate of a stage on pairs: labels, left, right."""
    from pairlearn.kernels.steps.every_step import descend_every

    y, left, right = pairs
    schedule = StronglyConvex.of(stage.strong_convexity)
    lengths = schedule.step_sizes(1, stage.n_steps)
    shares = iterate_weights(DelayedLinear(), schedule, stage.n_steps)
    active = np.ones(len(left), dtype=bool)
    if loss.opposite_labels_only:
        active = y[left] > y[right] if loss.one_sided else y[left] != y[right]
    anchor = centre.astype(rows.dtype)
    w, average = anchor.copy(), np.zeros_like(anchor)
    status = descend_every(
        rows.arrays, *pairs, lengths * active, np.add.accumulate(shares[:-1]), w, average,
        np.empty_like(w), radius, loss.derivative.address, loss.parameter,
        lengths * stage.strong_convexity, anchor, (lengths, 0, 0.0, 0.0),
    )  # fmt: skip
    check_finished(status, loss, first=trace.n_steps)
    trace.n_steps += stage.n_steps
    trace.n_gradients += int(np.count_nonzero(active))
    return (average + shares[-1] * w).astype(np.float64), w.astype(np.float64)
