# SPDX-License-Identifier: BSD-3-Clause
"""The step size and the radius of stochastic gradient descent, by held-out AUC or by theory.

A grid of models is trained on one sample path (`solvers.sweep`) on a part of the training data and
scored by AUC on the rest. The grid is relative to the data: with v the mean squared distance of two
examples of opposite labels, a step of c / v moves the score of a typical pair by about c, and a
ball of radius rho / sqrt(v) allows typical scores of about rho. So the choice does not depend on
the unit of the features. ``step_size="theory"`` uses only the number of examples and the largest
norm of a row, which stands for the bound B of the theorems.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pairlearn.averaging import Averaging, DelayedByStepSize
from pairlearn.estimators.shared.evidence import Choice, best_of
from pairlearn.estimators.shared.weights import judged_auc, weighed_flags
from pairlearn.folds import Fold, Keys, deal, n_folds_of, splits_of
from pairlearn.metrics.auc import auc_of_classes
from pairlearn.pairings import Pairing, PreviousExample
from pairlearn.problem import Problem
from pairlearn.schedules import Constant, Schedule
from pairlearn.solvers.descent.sweep import Sweep
from pairlearn.solvers.rows import NO_WEIGHTS, Rows
from pairlearn.typing import Vector

if TYPE_CHECKING:
    from pairlearn.estimators.auc.task import Task
    from pairlearn.theory import Advice

#: How a descent pairs examples, how long its steps are, and how it averages.
Parts = tuple[Pairing, Schedule, Averaging]
#: Relative step sizes c, half a decade apart; a step of c moves the score of a typical pair by c.
_STEPS = tuple(10.0**exponent for exponent in np.arange(-3.0, 1.0, 0.5))
#: Relative radii rho: typical scores of a pair may reach rho, from three margins on.
_RADII = (3.0, 10.0, 30.0, np.inf)
#: The most examples of a class that train the grid.
_TRAIN_CAP = 10_000
#: The most examples of a class that score the grid: the error of an AUC is then about 0.01.
_SCORE_CAP = 1_000
#: The most opposite pairs that train the grid; the final run may take more.
_PAIR_CAP = 25_000
#: The most examples of a class that a grid reads.
_MOST = _TRAIN_CAP + _SCORE_CAP
#: With fewer held-out examples of the rarer class, all folds are held out in turn.
_ENOUGH = 200
#: The most examples of a class that measure the distance of opposite examples.
_SCALE_SAMPLE = 1_000


def opposite_scale(rows: Rows, y: Vector, keys: Keys, weight: Vector = NO_WEIGHTS) -> float:
    """Return the mean squared distance of opposite examples, by a sample of each class.

    A pair weighs the product of the weights of its examples, if there are any.
    """
    spreads = []
    for label in (-1.0, 1.0):
        own = y == label
        if np.count_nonzero(own) > _SCALE_SAMPLE:
            # As many as the grid will need are drawn at once.
            members = keys.first(own, _MOST)[:_SCALE_SAMPLE]
        else:
            members = np.flatnonzero(own)
        own_weight = weight[members] if len(weight) else weight
        spreads.append(rows.take(members).spread(own_weight))
    (mean_a, spread_a), (mean_b, spread_b) = spreads
    scale = spread_a + spread_b + float(((mean_a - mean_b) ** 2).sum())
    return max(scale, float(np.finfo(float).tiny))


def relative_steps(scale: float) -> tuple[float, ...]:
    """Return the step sizes of the grid for data of pair scale `scale`."""
    return tuple(float(step / scale) for step in _STEPS)


def relative_radii(scale: float) -> tuple[float, ...]:
    """Return the radii of the grid for data of pair scale `scale`."""
    return tuple(float(radius / np.sqrt(scale)) for radius in _RADII)


def choose(
    task: Task,
    problem: Problem,
    rows: Rows,
    y: Vector,
    weight: Vector,
    n_steps: int,
    parts: Parts,
    step_sizes: tuple[float, ...],
    radii: tuple[float, ...],
) -> Choice:
    """Return the best of a grid by held-out AUC, with the weights of the examples.

    `n_steps` is the number of steps of the final run. If the grid is trained with fewer active
    pairs, the chosen constant step size is divided by the square root of their ratio: the optimal
    constant step of Theorem 6a is proportional to 1/sqrt(T).
    """
    grid = [(step, radius) for step in step_sizes for radius in radii]
    rng, schedule = task.rng, parts[1]
    assert task.keys is not None
    folds = _hold_out(y, weight, task.validation_fraction, task.keys)
    aucs: list[list[float]] = [[] for _ in grid]
    n_active = n_steps * _opposite_share(y)
    shrink = 1.0
    for train, held in folds:
        share = _opposite_share(y[train])
        n_pairs = min(n_active, _PAIR_CAP)
        if schedule.is_constant:
            shrink = float(np.sqrt(n_pairs / n_active))
        steps, bounds = zip(*((step / shrink, radius) for step, radius in grid), strict=True)
        solution = Sweep(steps, bounds, *parts).solve(
            problem,
            rows.take(train),
            y[train],
            n_steps=max(int(n_pairs / share), 1),
            rng=rng,
            example_weight=weight[train] if len(weight) else weight,
        )
        scores = rows.take(held).scores(solution.averages)
        held_y, positive = y[held], y[held] > 0
        winners, losers = scores[:, positive], scores[:, ~positive]
        lost = solution.diverged | ~np.isfinite(scores).all(axis=1)
        known: dict[bytes, float] = {}
        for model, model_scores in enumerate(scores):
            # A ball that was never reached leaves the model of a larger one.
            same = solution.averages[model].tobytes()
            if same not in known:
                if lost[model]:
                    known[same] = 0.0
                elif len(weight):
                    known[same] = judged_auc(held_y, model_scores, weight[held])
                else:
                    known[same] = auc_of_classes(winners[model], losers[model])
            aucs[model].append(known[same])
    best = best_of(
        ({"step_size": step, "radius": radius}, (step, radius), found)
        for (step, radius), found in zip(grid, aucs, strict=True)
    )
    return Choice(*best.model, evidence=best.evidence, tried=best.tried)


def _opposite_share(y: Vector) -> float:
    """Return the share of opposite pairs among pairs of examples that are drawn one by one."""
    return 2.0 * (np.count_nonzero(y > 0) / len(y)) * (np.count_nonzero(y < 0) / len(y))


def _hold_out(y: Vector, weight: Vector, fraction: float, keys: Keys) -> list[Fold]:
    """Return (train, held-out) index pairs: one, or all in turn when the rarer class is small."""
    # A sample within each class does not change the distribution of opposite pairs.
    members = [keys.first(own, _MOST) for own in weighed_flags(y, weight)]
    sizes = [min(max(round(fraction * len(m)), 1), _SCORE_CAP) for m in members]
    everything = np.concatenate(members)
    if min(sizes) >= _ENOUGH:
        return splits_of(deal(members, len(y), sizes=sizes), 1, everything)
    n_folds = n_folds_of(fraction, min(map(len, members)))
    return splits_of(deal(members, len(y), n_folds=n_folds), among=everything)


def advice_for(
    problem: Problem,
    rows: Rows,
    radius: float | None,
    n_steps: int,
    parts: Parts,
    *,
    weighted: bool,
    warm: bool,
) -> Advice:
    """Return what Theorem 1 or 2 recommends, refusing what the theorems do not cover.

    The theorems need a convex loss, a finite radius, the previous example as partner, a constant
    step, the paper's average, no weights, and a run that starts at zero (not `warm`).
    """
    from pairlearn.theory import advise_auc

    if radius is None or math.isinf(radius):
        raise ValueError(
            'step_size="theory" needs a finite radius (the bounds grow with it), got '
            f"radius={'auto' if radius is None else radius!r}; pass for example radius=1.0."
        )
    pairing, schedule, averaging = parts
    wrong = [
        text
        for is_wrong, text in (
            (pairing != PreviousExample(), 'pairing="previous"'),
            (schedule != Constant(1.0), 'schedule="constant"'),
            (not isinstance(averaging, DelayedByStepSize), 'averaging="step_size"'),
            (weighted, "no sample_weight"),
            (warm, "warm_start=False"),
        )
        if is_wrong
    ]
    if wrong:
        raise ValueError(f'step_size="theory" is for Algorithm 1: use {", ".join(wrong)}.')
    norm = rows.largest_norm()
    if norm == 0.0:
        raise ValueError('step_size="theory" needs an example that is not zero.')
    return advise_auc(problem, rows.shape[0], norm_bound=norm, radius=radius, n_steps=n_steps)
