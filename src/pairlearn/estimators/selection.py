# SPDX-License-Identifier: BSD-3-Clause
"""Step size and radius without tuning by hand.

A grid of models is trained on one sample path (`solvers.sweep`) on a part of the training data and
scored by AUC on the rest. The grid is relative to the data: with v the mean squared distance of two
examples of opposite labels, a step of c / v moves the score of a typical pair by about c, and a
ball of radius rho / sqrt(v) allows typical scores of about rho. So the choice does not depend on
the unit of the features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.averaging import Averaging
from pairlearn.metrics import roc_auc
from pairlearn.pairings import Pairing
from pairlearn.problem import Problem
from pairlearn.schedules import Schedule
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.sweep import Sweep

__all__ = ["Choice", "choose", "hold_out", "pair_scale", "relative_radii", "relative_steps"]

#: Relative step sizes c, half a decade apart.
_STEPS = tuple(10.0**exponent for exponent in np.arange(-3.0, 1.0, 0.5))
#: Relative radii rho.
_RADII = (3.0, 10.0, 30.0, np.inf)
#: At most so many examples of each class are used to train the grid, and so many to score it.
_TRAIN_CAP, _SCORE_CAP = 10_000, 1_000
#: At most so many active pairs are used to train the grid.
_PAIR_CAP = 25_000
#: With fewer held-out examples of the rarer class than this, the folds take turns.
_ENOUGH = 200


@dataclass(frozen=True)
class Choice:
    """A chosen step size and radius, and the AUC that chose them."""

    step_size: float
    radius: float
    auc: float


def pair_scale(rows: Rows, y: NDArray[np.float64], rng: np.random.Generator) -> float:
    """Return the mean squared distance of opposite examples, from at most 1000 of each class."""
    spreads = []
    for label in (-1.0, 1.0):
        members = np.flatnonzero(y == label)
        if len(members) > 1000:
            members = rng.choice(members, 1000, replace=False)
        spreads.append(rows.take(members).spread())
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
    problem: Problem,
    rows: Rows,
    y: NDArray[np.float64],
    *,
    n_steps: int,
    pairing: Pairing,
    schedule: Schedule,
    averaging: Averaging,
    step_sizes: tuple[float, ...],
    radii: tuple[float, ...],
    validation_fraction: float,
    example_weight: NDArray[np.float64],
    rng: np.random.Generator,
) -> Choice:
    """Return the best of a grid by held-out AUC.

    Parameters
    ----------
    problem : Problem
        Score and loss.
    rows : DenseRows or CsrRows
        Training examples.
    y : ndarray of shape (n,)
        Labels -1 and +1, both present.
    n_steps : int
        The number of steps of the final run. If the grid is trained with fewer active pairs, the
        chosen constant step size is divided by the square root of their ratio (the optimal
        constant step of Theorem 6a is proportional to 1/sqrt(T)).
    pairing, schedule, averaging : Pairing, Schedule, Averaging
        The other parts, as in the final run.
    step_sizes, radii : tuple of float
        The two sides of the grid.
    validation_fraction : float
        The share of each class that is held out.
    example_weight : ndarray of shape (n,) or (0,)
        Weights.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Choice
        The best model's step size and radius, and its held-out AUC.
    """
    grid = [(step, radius) for step in step_sizes for radius in radii]
    folds = hold_out(y, validation_fraction, rng)
    total = np.zeros(len(grid))
    n_active = n_steps * 2.0 * float(np.mean(y > 0)) * float(np.mean(y < 0))
    shrink = 1.0
    for train, held in folds:
        share = 2.0 * float(np.mean(y[train] > 0)) * float(np.mean(y[train] < 0))
        n_pairs = min(n_active, _PAIR_CAP)
        if schedule.is_constant:
            shrink = float(np.sqrt(n_pairs / n_active))
        sweep = Sweep(
            tuple(step / shrink for step, _ in grid),
            tuple(radius for _, radius in grid),
            pairing,
            schedule,
            averaging,
        )
        solution = sweep.solve(
            problem,
            rows.take(train),
            y[train],
            n_steps=max(int(n_pairs / share), 1),
            rng=rng,
            example_weight=example_weight[train] if len(example_weight) else example_weight,
        )
        scores = rows.take(held).scores(solution.averages)
        for model, model_scores in enumerate(scores):
            lost = solution.diverged[model] or not np.isfinite(model_scores).all()
            total[model] += 0.0 if lost else roc_auc(y[held], model_scores)
    best = int(np.argmax(total))
    step, radius = grid[best]
    return Choice(step, radius, float(total[best] / len(folds)))


def hold_out(
    y: NDArray[np.float64], fraction: float, rng: np.random.Generator
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return (train, held-out) index pairs: one, or all in turn when the rarer class is small."""
    members = [rng.permutation(np.flatnonzero(y == label)) for label in (-1.0, 1.0)]
    # Case-control sampling leaves the distribution of opposite pairs as it is.
    members = [m[: _TRAIN_CAP + _SCORE_CAP] for m in members]
    sizes = [min(max(round(fraction * len(m)), 1), _SCORE_CAP) for m in members]
    rarer = min(len(m) for m in members)
    n_folds = 1 if min(sizes) >= _ENOUGH else min(max(round(1.0 / fraction), 2), rarer)
    if rarer == 1:
        # A class of one example cannot be divided: it is both trained on and scored.
        everything = np.concatenate(members)
        return [(everything, everything)]
    folds = []
    for fold in range(n_folds):
        train, held = [], []
        for m, size in zip(members, sizes, strict=True):
            if n_folds == 1:
                out = np.zeros(len(m), dtype=bool)
                out[:size] = True
            else:
                out = np.arange(len(m)) % n_folds == fold
            held.append(m[out])
            train.append(m[~out])
        folds.append((np.concatenate(train), np.concatenate(held)))
    return folds
