# SPDX-License-Identifier: BSD-3-Clause
"""Exact training for data in memory: the minimiser of an objective plus a ridge."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from pairlearn.estimators.auc.task import Task
from pairlearn.estimators.auc.ways.ridge import as_dense, choose_ridge, effort_for
from pairlearn.estimators.shared.evidence import Choice
from pairlearn.estimators.shared.solvers import Exact, Fitted
from pairlearn.solvers.closed_form.fisher import with_fisher
from pairlearn.solvers.exact.batch import ExactSolver
from pairlearn.solvers.rows import CsrRows, Rows
from pairlearn.solvers.solution import Trace
from pairlearn.solvers.top.objectives import AllPairs
from pairlearn.typing import Vector

#: Sparse rows of more columns stay sparse.
_NARROW = 100
#: Narrow sparse rows become dense if that takes at most this many times the stored numbers...
_MOST_FILLED = 10
#: ...plus this many numbers, which take less than a megabyte.
_FEW_NUMBERS = 100_000
_ALL = AllPairs()


class ByMinimising:
    """How an AUC classifier trains by `Exact`."""

    def __init__(self, task: Task, solver: Exact) -> None:
        self.task, self.solver = task, solver

    def fit(self, rows: Rows, y: Vector, weight: Vector) -> Fitted:
        """Return the minimiser; if the task is free, with a share of Fisher's discriminant."""
        task = self.task
        task.objective.check_data(y)
        fisher = None if task.free else 0.0
        fit = fit_exact(task, self.solver.given_ridge, rows, y, weight, fisher)
        choice = fit.choice
        top = "" if choice.top is None else f"{choice.top!r} of "
        chosen = f"exact solver, {top}{type(task.loss).__name__}, ridge {choice.ridge:g}"
        if choice.fisher:
            chosen += f", Fisher's discriminant by {choice.fisher:g}"
        task.tell(chosen, choice)
        return fit

    def stream(self, n_features: int, before: Any = None) -> NoReturn:
        """Refuse: the exact solver needs all examples at once."""
        raise ValueError(f'partial_fit needs solver="sgd" or "moments", got {self.solver!r}.')


def fit_exact(
    task: Task,
    ridge: float | None,
    rows: Rows,
    y: Vector,
    weight: Vector,
    fisher: float | None = 0.0,
) -> Fitted:
    """Minimise the objective of the task plus ridge times the squared norm.

    The rows are scaled, `y` holds -1 and +1, both present, and the loss is smooth and convex.
    Weights count in training; held-out pairs all count the same. A `validation_fraction` of 0.2
    makes five folds.

    Without a `ridge`, `choose_ridge` chooses it and tries the rivals of the objective. The ridge of
    an anchor is chosen either way. `fisher` is the share of Fisher's discriminant in the minimiser
    for all pairs, which is the model or its anchor. None chooses it on held-out training data if a
    class has few examples.
    """
    loss = task.loss
    ExactSolver(loss, 0.0 if ridge is None else ridge)
    if len(weight) and not weight.all():
        # Examples of weight zero are left out: a fold of them would have no pair.
        kept = np.flatnonzero(weight)
        rows, y, weight = rows.take(kept), y[kept], weight[kept]
        task = task.of_some(kept)
    rows = _ready(rows)
    start = None
    top = task.objective.candidates[0]
    choice = Choice(ridge=ridge, top=None if top.over_pairs else top, fisher=fisher or 0.0)
    if ridge is None or not top.convex:
        choice, start = choose_ridge(task, rows, y, weight, ridge, fisher)
    assert choice.ridge is not None
    weights, fine = weight if len(weight) else None, effort_for(rows).fine
    data = (rows, y, loss, weights)

    def with_share(w: Vector) -> Vector:
        return with_fisher(w, choice.fisher, as_dense(rows), y, weights) if choice.fisher else w

    anchor = None
    if choice.anchor_ridge is not None:
        anchor = with_share(_ALL.on(*data).minimise(choice.anchor_ridge, tolerance=fine)[0])
    on_all = (choice.top or _ALL).on(*data, anchor)
    w, n_evaluations = on_all.minimise(choice.ridge, start, tolerance=fine)
    if choice.top is None:
        w = with_share(w)
    n_positive = int(np.count_nonzero(y > 0))
    n_pairs = n_positive * (len(y) - n_positive)
    trace = Trace(n_evaluations, n_evaluations * n_pairs)
    return Fitted(w, "exact", loss, choice, trace)


def _ready(rows: Rows) -> Rows:
    """Return rows for many products: dense rows in float64, narrow sparse rows as dense ones.

    Weak ridges need Newton's method, which takes dense rows.
    """
    n, d = rows.shape
    most = _MOST_FILLED * len(rows.data) + _FEW_NUMBERS if isinstance(rows, CsrRows) else 0
    if isinstance(rows, CsrRows) and (d > _NARROW or n * d > most):
        return rows
    return as_dense(rows)
