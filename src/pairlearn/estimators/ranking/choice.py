# SPDX-License-Identifier: BSD-3-Clause
"""The step size of a ranker: a grid on one sample path, judged on queries that are put aside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.averaging import Averaging
from pairlearn.estimators.shared.evidence import best_of
from pairlearn.folds import deal, splits_of
from pairlearn.metrics.ranking import pair_accuracy
from pairlearn.pairings import Pairing, PreviousExample
from pairlearn.pairings.queries import PreviousOfQuery, has_pairs
from pairlearn.problem import Problem
from pairlearn.schedules import Schedule
from pairlearn.solvers.descent.sweep import Sweep
from pairlearn.solvers.rows import DenseRows, Rows
from pairlearn.typing import Vector

__all__ = ["RankedExamples", "choose_step_size", "pairing_of"]

Places = NDArray[np.int64]

#: Relative step sizes: c over the mean squared distance of two examples of a query.
_STEPS = tuple(10.0**exponent for exponent in np.arange(-3.0, 1.0, 0.5))
#: Steps of the runs that choose, at most.
_CHOICE_STEPS = 100_000
#: Examples that a choice is judged by, at most.
_JUDGED = 20_000
#: With fewer held-out examples than this, so many parts at most are held out in turn.
_ENOUGH, _MOST_FOLDS = 2_000, 5


@dataclass(frozen=True)
class RankedExamples:
    """Rows, grades, the number of the query of each, weights or none, and if there are queries."""

    rows: Rows
    y: Vector
    query: Places
    weight: Vector
    grouped: bool


def choose_step_size(
    problem: Problem,
    examples: RankedExamples,
    *,
    n_steps: int,
    schedule: Schedule,
    averaging: Averaging,
    radius: float,
    fraction: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return the best step size of a grid, and its held-out pair accuracy."""
    rows, y, query, weight = examples.rows, examples.y, examples.query, examples.weight
    n_choice = min(n_steps, _CHOICE_STEPS)
    # The best constant step is proportional to 1/sqrt(T) (Theorem 6a).
    shrink = float(np.sqrt(n_choice / n_steps)) if schedule.is_constant else 1.0
    scale = _pair_scale(rows, pairing_of(query, examples.grouped), rng)
    steps = tuple(c / scale for c in _STEPS)
    accuracy: list[list[float]] = [[] for _ in steps]
    folds = _folds(query, y, examples.grouped, fraction, rng)
    for train, test in folds:
        solution = Sweep(
            tuple(step / shrink for step in steps),
            (radius,) * len(steps),
            pairing_of(query[train], examples.grouped),
            schedule,
            averaging,
        ).solve(
            problem,
            rows.take(train),
            y[train],
            n_steps=n_choice,
            rng=rng,
            example_weight=weight[train] if len(weight) else weight,
        )
        judged = test if examples.grouped else test[:_JUDGED]
        for model, s in enumerate(rows.take(judged).scores(solution.averages)):
            is_sound = np.isfinite(s).all()
            accuracy[model].append(
                pair_accuracy(y[judged], s, qid=query[judged]) if is_sound else 0.0
            )
    best = best_of(({}, step, found) for step, found in zip(steps, accuracy, strict=True))
    return best.model, best.evidence.auc


def pairing_of(query: Places, grouped: bool) -> Pairing:
    """Return the pairing within queries, or of all examples where there are none."""
    return PreviousOfQuery(query) if grouped else PreviousExample()


def _folds(
    query: Places, y: Vector, grouped: bool, fraction: float, rng: np.random.Generator
) -> list[tuple[Places, Places]]:
    """Return (train, held-out) examples: whole queries, or examples where there are none.

    One part is held out, or several in turn where a part is small; where there is nothing to put
    aside, training examples are judged.
    """
    names, place = np.unique(query if grouped else np.arange(len(query)), return_inverse=True)
    count = round(fraction * len(names))
    size = max(count, 1)
    n_parts = 1 if fraction * len(query) >= _ENOUGH else min(len(names) // size, _MOST_FOLDS)
    fold = deal([np.arange(len(names))], len(names), rng, sizes=[size])[place]
    folds = [
        split
        for split in splits_of(fold, n_parts if count else 0)
        if all(has_pairs(query[part], y[part]) for part in split)
    ]
    everything = np.arange(len(query))
    return folds or [(everything, everything)]


def _pair_scale(rows: Rows, pairing: Pairing, rng: np.random.Generator) -> float:
    """Return the mean squared distance of the examples of a pair, from 2000 pairs."""
    plan = pairing.offline(rows.shape[0], rng).draw(2000)
    left, right = (rows.take(np.asarray(side)).matrix for side in (plan.left, plan.right))
    if isinstance(rows, DenseRows):
        total = float(((left - right).astype(np.float64) ** 2).sum())
    else:
        total = float((left - right).power(2).sum())
    n_distinct = max(int(np.count_nonzero(plan.left != plan.right)), 1)
    return total / n_distinct if total > 0 else 1.0
