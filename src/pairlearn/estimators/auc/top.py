# SPDX-License-Identifier: BSD-3-Clause
"""Stochastic gradient descent for the top of the list, as an AUC classifier uses it."""

from __future__ import annotations

import copy
import math

import numpy as np

from pairlearn.estimators.auc.objectives import Objective
from pairlearn.estimators.shared.choice import Choice, Tried
from pairlearn.estimators.shared.class_moments import deal_folds
from pairlearn.losses import PairLoss
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.top.stream import solve_top
from pairlearn.typing import Places, Vector

__all__ = ["TOP_STEP_SIZE", "fit_top"]

#: The step size of a stream, which cannot choose.
TOP_STEP_SIZE = 1.0
#: Step sizes to choose from.
_STEPS = (3.0, 1.0, 0.3, 0.1)
#: With so many positives held out, one fold is enough.
_ENOUGH = 100


def fit_top(
    rows: Rows,
    y: Vector,
    *,
    objective: Objective,
    loss: PairLoss,
    weight: Vector,
    step_size: float | None,
    radius: float | None,
    n_passes: float,
    is_scaled: bool,
    validation_fraction: float,
    rng: np.random.Generator,
) -> tuple[Vector, Choice, Trace]:
    """Return coefficients, how their step size was chosen, and what it took.

    Parameters
    ----------
    rows : DenseRows or CsrRows
        Examples.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    objective : Objective
        What is minimised, and the metric that the step size is chosen by.
    loss : PairLoss
        A loss that falls with the margin.
    weight : ndarray of shape (n,) or (0,)
        Weights of the examples.
    step_size : float or None
        The step size; by default the best on held-out examples.
    radius : float or None
        Radius of the ball; none by default.
    n_passes : float
        Examples to learn, in units of n.
    is_scaled : bool
        Whether features are divided by their deviation.
    validation_fraction : float
        The share of the examples that is held out.
    rng : Generator
        Source of randomness.

    Returns
    -------
    w : ndarray of shape (d,)
        Coefficients.
    choice : Choice
        The step size, and what was tried.
    trace : Trace
        Examples learned and pairs seen.
    """
    top = objective.top
    assert top is not None
    bound = math.inf if radius is None else radius

    def solve(index: Places, step: float, draws: np.random.Generator) -> tuple[Vector, Trace]:
        found = solve_top(
            top, loss, rows.take(index), y[index], n_passes=n_passes, step_size=step, radius=bound,
            weight=weight[index] if len(weight) else None, is_scaled=is_scaled, rng=draws,
        )  # fmt: skip
        return found.average, found.trace

    choice = Choice(step_size, bound)
    if step_size is None:
        shares = weight if len(weight) else np.ones(len(y))
        folds = deal_folds((y > 0).astype(np.intp), shares, validation_fraction, rng)
        if int(np.count_nonzero(y[folds[0][1]] > 0)) >= _ENOUGH:
            folds = folds[:1]
        draws = rng.spawn(1)[0]
        tried = []
        for step in _STEPS:
            values = []
            for train, test in folds:
                # Every step size sees the same path.
                w, _ = solve(train, step, copy.deepcopy(draws))
                scores = rows.take(test).scores(w)
                values.append(objective.metric(y[test] > 0, scores, sample_weight=shares[test]))
            tried.append(Tried.of({"step_size": step}, values))
        best = max(tried, key=lambda one: one.auc)
        choice = Choice(best.values["step_size"], bound, evidence=best, tried=tuple(tried))
    assert choice.step_size is not None
    w, trace = solve(np.arange(len(y)), choice.step_size, rng)
    return w, choice, trace
