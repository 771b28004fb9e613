# SPDX-License-Identifier: BSD-3-Clause
r"""Momentum and variance reduction for pairwise SGD; the paper's theorems do not cover them.

Momentum adds a share of the last move to the next one. Variance reduction (SVRG) replaces the
gradient of a pair by its difference from the pair's gradient at a snapshot, plus the exact gradient
of the pair risk at the snapshot. The exact gradient costs O(n log n) for most losses. The noise
vanishes as w approaches the snapshot. `python -m benchmarks --only rivals` compares the solvers.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.averaging import Averaging, DelayedByStepSize, LastIterate
from pairlearn.domains import Ball, WholeSpace
from pairlearn.metrics import pair_risk_gradient
from pairlearn.pairings import Pairing, Plan, PreviousExample, RandomPair
from pairlearn.pairings.sound import sound_source
from pairlearn.problem import Problem
from pairlearn.schedules import Constant, Schedule
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.iterates import iterate_weights
from pairlearn.solvers.solution import Solution, Trace
from pairlearn.solvers.support import check_parts
from pairlearn.solvers.two_classes import check_finished, dense_two_classes, n_steps_of
from pairlearn.validation import check_flag, check_generator, check_positive


class _Accelerated:
    """The loop of both solvers: periods of steps, each around a snapshot if there are snapshots."""

    pairing: Pairing = RandomPair()
    schedule: Schedule
    domain: WholeSpace | Ball
    averaging: Averaging
    momentum: float = 0.0
    nesterov: bool = False
    epoch_passes: float | None = None

    def solve(
        self, problem: Problem, X: Any, y: ArrayLike, *, n_passes: float = 10.0, rng: Any = None
    ) -> Solution:
        """Run on stored examples with labels -1 and +1, for `n_passes` times n steps.

        With snapshots, the steps are rounded up to whole epochs, the average is over the last
        epoch, and an active pair counts as two gradients. Exact gradients are not counted.
        """
        from pairlearn.kernels.steps.accelerated import descend_accelerated

        name, loss, begin = type(self).__name__, problem.loss, time.perf_counter()
        parts = {"loss": loss, "comparison": problem.comparison, "domain": self.domain}
        check_parts(name, score=problem.score, **parts)
        rows, y = dense_two_classes(X, y, name)
        n, d = rows.shape
        pairs = (loss.one_sided, not loss.opposite_labels_only)
        rule = (loss.derivative.address, loss.parameter, *pairs)
        n_steps = epoch = n_steps_of(n_passes, n)
        block = BLOCK
        if self.epoch_passes is not None:
            block = epoch = n_steps_of(self.epoch_passes, n)
            n_steps = math.ceil(n_steps / epoch) * epoch
        source = sound_source(self.pairing, n, check_generator(rng), y)
        shares = iterate_weights(self.averaging, self.schedule, epoch)
        w, velocity, average, gradient = np.zeros((4, d))
        scores, counts, trace = np.empty(0), np.zeros(1, dtype=np.int64), Trace(n_steps)
        for first in range(0, n_steps, block):
            plan = source.draw(min(block, n_steps - first))
            if not isinstance(plan, Plan):
                raise ValueError(
                    f"{name} takes one pair a step, but {self.pairing!r} gives a SlotPlan; let it "
                    "give a Plan."
                )
            trace.n_repeats += plan.n_repeats
            if self.epoch_passes is not None:
                scores, average = rows.scores(w), np.zeros(d)
                gradient = rows.X.T @ pair_risk_gradient(loss, scores, y)
            at = first % epoch
            sizes = self.schedule.step_sizes(at + 1, len(plan))
            steps = (plan.left, plan.right, sizes, shares[at : at + len(plan)])
            moves = (w, velocity, average, self.momentum, self.momentum if self.nesterov else 0.0)
            snapshot = (scores, gradient, self.domain.radius)
            status = descend_accelerated(rows.flat, y, *steps, *moves, *snapshot, *rule, counts)
            check_finished(status, loss)
        trace.n_gradients, trace.seconds = int(counts[0]), time.perf_counter() - begin
        return Solution(average + shares[-1] * w, w, trace)


@dataclass(frozen=True)
class MomentumSGD(_Accelerated):
    """Pairwise SGD with momentum.

    Parameters
    ----------
    momentum : float, default=0.9
        The share m of the last move, at least 0 and less than 1. A step size eta then acts about
        as eta / (1 - m) does without momentum.
    nesterov : bool, default=False
        Whether the gradient is taken where momentum leads (Nesterov) or here (heavy ball).
    pairing : Pairing, default=PreviousExample()
        How examples are paired, one pair a step.
    schedule : Schedule, default=Constant(0.01)
        The step sizes.
    domain : WholeSpace or Ball, default=WholeSpace()
        Where the parameter may live.
    averaging : Averaging, default=DelayedByStepSize()
        Which average of the iterates is returned.

    Examples
    --------
    >>> from pairlearn import Hinge, LinearScore
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> problem = Problem(LinearScore(), Hinge())
    >>> w = MomentumSGD(nesterov=True).solve(problem, X, y, n_passes=20, rng=0).average
    >>> bool(w[0] > 5 * abs(w[1:]).max())
    True
    """

    momentum: float = 0.9
    nesterov: bool = False
    pairing: Pairing = field(default_factory=PreviousExample)
    schedule: Schedule = field(default_factory=lambda: Constant(0.01))
    domain: WholeSpace | Ball = field(default_factory=WholeSpace)
    averaging: Averaging = field(default_factory=DelayedByStepSize)

    def __post_init__(self) -> None:
        check_flag("nesterov", self.nesterov)
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"momentum must be at least 0 and below 1, got {self.momentum!r}.")
        if not self.pairing.one_pair_a_step:
            raise ValueError(f"Momentum takes one pair a step; {self.pairing!r} has a buffer.")


@dataclass(frozen=True)
class VarianceReducedSGD(_Accelerated):
    """Pairwise SGD around snapshots with exact gradients (SVRG).

    Parameters
    ----------
    step_size : float, default=0.01
        The constant step size.
    epoch_passes : float, default=1.0
        Steps between two snapshots, in units of n.
    domain : WholeSpace or Ball, default=WholeSpace()
        Where the parameter may live.
    averaging : Averaging, default=LastIterate()
        Which average over the last epoch is returned.

    Notes
    -----
    Pairs are drawn uniformly among distinct examples, so the mean of the pair gradient at the
    snapshot is the exact gradient.

    References
    ----------
    Johnson, Zhang. Accelerating stochastic gradient descent using predictive variance reduction.
    NeurIPS 2013.

    Examples
    --------
    >>> from pairlearn import LinearScore, SquaredHinge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> problem = Problem(LinearScore(), SquaredHinge())
    >>> w = VarianceReducedSGD(0.02).solve(problem, X, y, n_passes=20, rng=0).average
    >>> bool(w[0] > 5 * abs(w[1:]).max())
    True
    """

    step_size: float = 0.01
    epoch_passes: float = 1.0
    domain: WholeSpace | Ball = field(default_factory=WholeSpace)
    averaging: Averaging = field(default_factory=LastIterate)

    def __post_init__(self) -> None:
        check_positive("step_size", self.step_size)
        check_positive("epoch_passes", self.epoch_passes)

    @property
    def schedule(self) -> Schedule:  # type: ignore[override]
        """The constant step size."""
        return Constant(self.step_size)
