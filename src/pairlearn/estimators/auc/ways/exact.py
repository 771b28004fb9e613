# SPDX-License-Identifier: BSD-3-Clause
"""AUC, or the top of the list, by the exact minimiser of the objective."""

from __future__ import annotations

from typing import Any, NoReturn

from pairlearn.estimators.auc.task import Task
from pairlearn.estimators.auc.ways.ridge import fit_exact
from pairlearn.estimators.shared.solvers import Exact, Fitted
from pairlearn.solvers.rows import Rows
from pairlearn.typing import Vector

__all__ = ["ByMinimising"]


class ByMinimising:
    """How an AUC classifier trains by `Exact`."""

    def __init__(self, task: Task, solver: Exact) -> None:
        self.task, self.solver = task, solver

    def fit(self, rows: Rows, y: Vector, weight: Vector) -> Fitted:
        """Return the minimiser; if the task is free, with a share of Fisher's discriminant."""
        task = self.task
        task.objective.check_data(y)
        fit = fit_exact(
            rows,
            y,
            loss=task.loss,
            ridge=self.solver.given_ridge,
            weight=weight,
            validation_fraction=task.validation_fraction,
            n_jobs=task.n_jobs,
            rng=task.rng,
            objective=task.objective,
            fisher=None if task.free else 0.0,
        )
        choice = fit.choice
        top = "" if choice.top is None else f"{choice.top!r} of "
        chosen = f"exact solver, {top}{type(task.loss).__name__}, ridge {choice.ridge:g}"
        if choice.fisher:
            chosen += f", Fisher's discriminant by {choice.fisher:g}"
        task.tell(chosen, choice)
        return Fitted(fit.w, "exact", task.loss, choice, fit.trace)

    def stream(self, n_features: int, before: Any = None) -> NoReturn:
        """Refuse: the exact solver needs all examples at once."""
        raise ValueError(f'partial_fit needs solver="sgd" or "moments", got {self.solver!r}.')
