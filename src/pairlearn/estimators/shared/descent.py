# SPDX-License-Identifier: BSD-3-Clause
"""Stochastic gradient descent over compared pairs: of grades within queries, of survival times."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from pairlearn.averaging import AVERAGINGS
from pairlearn.domains import ball_or_whole
from pairlearn.estimators.shared.evidence import Choice, best_of
from pairlearn.estimators.shared.solvers import (
    SGD,
    Fitted,
    as_schedule,
    auto_steps,
    step_and_radius,
)
from pairlearn.pairings import Pairing
from pairlearn.problem import Problem
from pairlearn.solvers.descent.pairwise_sgd import PairwiseSGD
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.solvers.solution import Solution
from pairlearn.typing import Places, Vector
from pairlearn.validation import DivergenceError

#: Relative step sizes: c over the mean squared distance of two examples of a pair.
_STEPS = tuple(10.0**exponent for exponent in np.arange(-3.0, 1.0, 0.5))
#: The most steps of the runs that choose.
_CHOICE_STEPS = 100_000
#: Up to this many rows, of more than twice as many columns, are written in a basis of their span.
_FEW_ROWS = 500
#: Steps of n_passes="auto".
_AUTO_STEPS = 500_000


def descend(
    problem: Problem,
    solver: SGD,
    rows: Rows,
    y: Vector,
    weight: Vector,
    rng: np.random.Generator,
    *,
    owner: str,
    pairing_of: Callable[[Places | None], Pairing],
    distance: Callable[[Rows], float],
    folds: Callable[[], Iterable[tuple[Places, Places]]],
    judge: Callable[[Places, Vector], float],
) -> Fitted:
    """Return the average of Algorithm 1 over compared pairs, and the step size that was chosen.

    `pairing_of` makes the pairing of some examples (None: all), `distance` is the mean squared
    distance of the examples of a pair, and `judge` the worth of scores of held-out examples, by
    which the best step size of a grid is chosen on `folds`.

    A step adds a difference of rows, so w stays in their span. An orthonormal basis of it changes
    no score, no norm and no step: few rows of many columns are trained in that basis.
    """
    n, d = rows.shape
    basis = None
    if isinstance(rows, DenseRows) and n <= _FEW_ROWS and d > 2 * n:
        basis, inside = np.linalg.qr(rows.X.astype(np.float64, copy=False).T)
        rows = DenseRows(np.ascontiguousarray(inside.T))
    step_size, radius = step_and_radius(solver, owner)
    n_steps = auto_steps(solver.n_passes, n, budget=_AUTO_STEPS)
    schedule = as_schedule(solver.schedule, default="constant")
    averaging, domain = AVERAGINGS.make(solver.averaging), ball_or_whole(radius)

    def run(step_size: float, n_steps: int, part: Places | None = None) -> Solution:
        train = slice(None) if part is None else part
        own = weight[train] if len(weight) else None
        return PairwiseSGD(pairing_of(part), schedule.scaled(step_size), domain, averaging).solve(
            problem,
            rows if part is None else rows.take(part),
            y[train],
            n_steps=n_steps,
            rng=rng if part is None else copy.deepcopy(rng),
            example_weight=own,
        )

    choice = Choice(step_size, radius)
    if step_size is None:
        if not pairing_of(None).one_pair_a_step:
            raise ValueError(
                f"pairing={solver.pairing!r} meets several examples at a step, and step sizes are "
                "chosen with one; give a step size, for example SGD(step_size=0.1, pairing=...)."
            )
        n_choice = min(n_steps, _CHOICE_STEPS)
        # The best constant step is proportional to 1/sqrt(T) (Theorem 6a).
        shrink = float(np.sqrt(n_choice / n_steps)) if schedule.is_constant else 1.0
        steps = [c / distance(rows) for c in _STEPS]
        worth: list[list[float]] = [[] for _ in steps]
        for train, test in folds():
            held_out = rows.take(test)
            for step, found in zip(steps, worth, strict=True):
                try:
                    scores = held_out.scores(run(step / shrink, n_choice, train).average)
                except DivergenceError:
                    found.append(0.0)
                    continue
                found.append(judge(test, scores) if np.isfinite(scores).all() else 0.0)
        best = best_of(
            ({"step_size": step}, step, found) for step, found in zip(steps, worth, strict=True)
        )
        choice = replace(choice, step_size=best.model, evidence=best.evidence, tried=best.tried)
    assert choice.step_size is not None
    solution = run(choice.step_size, n_steps)
    w = solution.average if basis is None else basis @ solution.average
    return Fitted(w, "sgd", problem.loss, choice, solution.trace)
