# SPDX-License-Identifier: BSD-3-Clause
"""Pairwise SGD: the paper's Algorithm 1 on stored examples and Algorithm 2 on a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.averaging import Averaging, DelayedByStepSize
from pairlearn.domains import CoordinatewiseDomain, Domain, WholeSpace
from pairlearn.pairings import Pairing, Plan, PreviousExample, SlotPlan
from pairlearn.pairings.sound import sound_source
from pairlearn.problem import Problem
from pairlearn.schedules import Constant, Schedule
from pairlearn.scores import MahalanobisScore
from pairlearn.solvers.block_sizes import BLOCK
from pairlearn.solvers.descent.descent import Descent, Parts
from pairlearn.solvers.rows import NO_WEIGHTS, DenseRows, Rows, as_rows
from pairlearn.solvers.running import Callback, run_blocks
from pairlearn.solvers.solution import Solution
from pairlearn.solvers.support import averaging_for
from pairlearn.typing import Vector
from pairlearn.validation import (
    check_count,
    check_generator,
    check_labels,
    check_steps,
    check_weights,
)

if TYPE_CHECKING:
    from pairlearn.solvers.descent.stream import Stream
    from pairlearn.solvers.streams.running_scales import RunningScales

#: Number of pairs of a block from which the running risk is estimated.
_RISK_PAIRS = 1024


@dataclass(frozen=True)
class PairwiseSGD:
    r"""Stochastic gradient descent on pairs.

    At step t the iterate moves to
    w_t = Proj(w_{t-1} - eta_t grad f(w_{t-1}; z_{i_t}, z_{i_{t-1}})),
    and the output is a weighted average of the iterates.

    Parameters
    ----------
    pairing : Pairing, default=PreviousExample()
        How examples are paired.
    schedule : Schedule, default=Constant(0.1)
        The step sizes.
    domain : Domain, default=WholeSpace()
        Where the parameter may live: `WholeSpace`, `Ball` or a `CoordinatewiseDomain` (`Box`,
        `NonNegative`, `ElasticNet`, or your own); for a Mahalanobis score `PsdCone` or `PsdBall`.
    averaging : Averaging, default=DelayedByStepSize()
        Which average of the iterates is returned.

    References
    ----------
    Yang, Lei, Wang, Yang, Ying. Simple stochastic and online gradient descent algorithms for
    pairwise learning. NeurIPS 2021. Algorithms 1 and 2.

    Examples
    --------
    >>> import numpy as np
    >>> from pairlearn import Ball, Constant, Hinge, LinearScore, PairwiseSGD, Problem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = np.where(X[:, 0] > 0, 1.0, -1.0)
    >>> solver = PairwiseSGD(schedule=Constant(0.1), domain=Ball(10.0))
    >>> solution = solver.solve(Problem(LinearScore(), Hinge()), X, y, n_steps=2000, rng=0)
    >>> bool(solution.average[0] > 5 * abs(solution.average[1:]).max())
    True
    """

    pairing: Pairing = field(default_factory=PreviousExample)
    schedule: Schedule = field(default_factory=lambda: Constant(0.1))
    domain: Domain = field(default_factory=WholeSpace)
    averaging: Averaging = field(default_factory=DelayedByStepSize)

    def _parts(self, problem: Problem) -> Parts:
        averaging = averaging_for(self.averaging, self.pairing)
        return Parts(problem, self.schedule, self.domain, averaging)

    def solve(
        self,
        problem: Problem,
        X: Any,
        y: ArrayLike,
        *,
        n_steps: int | None = None,
        n_passes: float | None = None,
        rng: Any = None,
        w_start: ArrayLike | None = None,
        example_weight: ArrayLike | None = None,
        callbacks: Sequence[Callback] = (),
        pauses: Sequence[int] = (),
    ) -> Solution:
        """Run Algorithm 1 on stored examples.

        Parameters
        ----------
        problem : Problem
            Score and loss.
        X : array-like or sparse container of shape (n, d)
            Examples; float32 and float64 are used as they are.
        y : array-like of shape (n,)
            Labels, -1 and +1 for AUC, or those that the comparison of the problem reads.
        n_steps : int, optional
            The number T of steps.
        n_passes : float, optional
            The number of steps as a multiple of n. Give one of `n_steps` and `n_passes`.
        rng : int or numpy.random.Generator, optional
            Source of the indices.
        w_start : array-like of shape (d,), optional
            The starting point, zero by default; projected onto the domain.
        example_weight : array-like of shape (n,), optional
            The gradient of a pair is multiplied by the weights of both of its examples.
        callbacks : sequence of callable
            Each is called between blocks of steps with a `Running`: `step`, `seconds`,
            `n_gradients`, and on demand `risk`, `average` and `w`.
        pauses : sequence of int
            Steps at which callbacks are called, besides the end, instead of after every block. A
            block ends at each pause, so the random indices and the path differ.

        Returns
        -------
        Solution
            The average, the last iterate and the trace. Ctrl-C ends the run early, with a warning,
            and returns the result so far.
        """
        parts = self._parts(problem)
        rows = as_rows(X)
        y = check_labels(y, rows.shape[0])
        n = rows.shape[0]
        n_steps = check_steps(n, n_steps, n_passes)
        weight = NO_WEIGHTS if example_weight is None else check_weights(example_weight, n)
        generator = check_generator(rng)
        dtype = rows.dtype if isinstance(rows, DenseRows) else np.float64
        descent = _descent_for(parts, rows.shape[1], dtype=dtype, w_start=w_start, horizon=n_steps)
        source = sound_source(self.pairing, n, generator, y)
        plan: Plan | SlotPlan

        def advance(count: int) -> int:
            nonlocal plan
            plan = source.draw(count)
            descent.advance(rows, y, plan, weight)
            return plan.n_repeats

        trace = run_blocks(
            descent,
            advance,
            n_steps,
            block=BLOCK,
            callbacks=callbacks,
            pauses=pauses,
            risk=lambda: _running_risk(problem, rows, y, plan, descent.w),
        )
        return Solution(descent.average, descent.w.astype(np.float64), trace)

    def start(
        self,
        problem: Problem,
        n_features: int,
        *,
        rng: Any = None,
        dtype: Any = np.float64,
        w_start: ArrayLike | None = None,
        n_before: int = 0,
        scales: RunningScales | None = None,
    ) -> Stream:
        """Start Algorithm 2 on a stream of examples with `n_features` features.

        Parameters
        ----------
        problem : Problem
            Score and loss.
        n_features : int
            Number of features.
        rng : int or numpy.random.Generator, optional
            Source of randomness, for pairings that need one.
        dtype : dtype, default=float64
            Type of the iterate on dense chunks; sparse chunks need float64.
        w_start : array-like of shape (n_features,), optional
            The starting point, zero by default; projected onto the domain. With scales of
            ``start="given"`` it is in the units of the examples.
        n_before : int, default=0
            The number of examples that `w_start` was learned from. Step sizes and average
            continue as after `n_before` steps, so a few new examples do not undo `w_start`.
        scales : RunningScales, optional
            Estimates the scales of the columns while examples arrive. The parameter lives in
            scaled units; `w` and `average` are in the units of the examples. None is the
            paper's algorithm.

        Returns
        -------
        Stream
            An online learner with `learn_one` and `learn_many`.
        """
        from pairlearn.solvers.descent.stream import Stream

        parts, n_features = self._parts(problem), check_count("n_features", n_features)
        if scales is not None and scales.n_features != n_features:
            raise ValueError(
                f"the scales are of {scales.n_features} features, the stream has {n_features}."
            )
        if scales is not None and scales.start == "given" and w_start is not None:
            w_start = np.array(w_start, dtype=np.float64)
            w_start = problem.score.in_units(w_start, 1.0 / scales.unit)
        descent = _descent_for(parts, n_features, dtype=dtype, w_start=w_start)
        descent.stand_still(check_count("n_before", n_before, minimum=0))
        return Stream(self.pairing, descent, check_generator(rng), scales)


def _running_risk(
    problem: Problem, rows: Rows, y: Vector, plan: Plan | SlotPlan, w: NDArray[Any]
) -> float:
    """Return the mean pair loss at w over up to `_RISK_PAIRS` steps of a plan."""
    loss, value = problem.loss, problem.value
    current = plan.left[:_RISK_PAIRS]
    # For a buffer, one random earlier example stands for all examples in it.
    earlier = plan.left[np.maximum(np.arange(len(plan)) - 1, 0)]
    other = (earlier if isinstance(plan, SlotPlan) else plan.right)[: len(current)]
    scores = problem.score.of_pairs(
        w.astype(np.float64), rows.take(np.asarray(current)), rows.take(np.asarray(other))
    )
    total = 0.0
    for i, j, s in zip(current, other, scores, strict=True):
        labels = float(y[i]), float(y[j])
        if problem.counts(*labels):
            total += value(float(s), *labels, loss.parameter)
    return total / max(len(current), 1)


def _descent_for(parts: Parts, n_features: int, **keywords: Any) -> Descent:
    """Return the initial state for the score and the domain."""
    if isinstance(parts.problem.score, MahalanobisScore):
        from pairlearn.solvers.descent.mahalanobis import MahalanobisDescent

        return MahalanobisDescent(parts, n_features, **keywords)
    if isinstance(parts.domain, CoordinatewiseDomain):
        from pairlearn.solvers.descent.coordinatewise import CoordinatewiseDescent

        return CoordinatewiseDescent(parts, n_features, **keywords)
    return Descent(parts, n_features, **keywords)
