# SPDX-License-Identifier: BSD-3-Clause
"""Exact training for data in memory: the minimiser of the pair risk, its ridge by held-out AUC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pairlearn.estimators.auc_choice import hold_out
from pairlearn.losses import Hinge, PairLoss, Square, SquaredHinge
from pairlearn.metrics import roc_auc
from pairlearn.solvers.batch import ExactSolver
from pairlearn.solvers.moments import ClassMoments
from pairlearn.solvers.rows import CsrRows, Rows
from pairlearn.solvers.solution import Trace

__all__ = ["ExactFit", "fit_exact", "smooth_relative"]

#: Ridges of the grid, relative to the mean variance of a feature.
_RIDGES = tuple(10.0**exponent for exponent in range(-7, 3))
#: Losses whose risk needs all pairs are tried on so many examples of each class at most.
_ALL_PAIRS_CAP = 500


@dataclass(frozen=True)
class ExactFit:
    """A trained model, the ridge used, the held-out AUC that chose it, and the trace."""

    w: NDArray[np.float64]
    ridge: float
    auc: float | None
    trace: Trace


def smooth_relative(loss: PairLoss) -> PairLoss:
    """Return the loss, or the squared hinge for the hinge, which has no exact solver here.

    Examples
    --------
    >>> smooth_relative(Hinge(margin=2.0))
    SquaredHinge(one_sided=False, margin=2.0)
    """
    if type(loss) is Hinge:
        return SquaredHinge(loss.margin, one_sided=loss.one_sided)
    return loss


def fit_exact(
    rows: Rows,
    y: NDArray[np.float64],
    *,
    loss: PairLoss,
    ridge: float | None,
    validation_fraction: float,
    rng: np.random.Generator,
) -> ExactFit:
    """Minimise the mean loss over opposite pairs plus ridge times the squared norm.

    Parameters
    ----------
    rows : DenseRows or CsrRows
        Training examples.
    y : ndarray of shape (n,)
        Labels -1 and +1, both present.
    loss : PairLoss
        A smooth convex loss.
    ridge : float, optional
        The ridge; by default the best of a grid by AUC on held-out training data. Of equals, the
        largest.
    validation_fraction : float
        The share of each class that is held out.
    rng : numpy.random.Generator
        Deals the held-out data.

    Returns
    -------
    ExactFit
        The model trained on all examples.
    """
    auc = None
    if ridge is None:
        ridge, auc = _choose_ridge(rows, y, loss, validation_fraction, rng)
    solution = ExactSolver(loss, ridge=ridge).solve(rows, y)
    return ExactFit(solution.w, ridge, auc, solution.trace)


def _choose_ridge(
    rows: Rows,
    y: NDArray[np.float64],
    loss: PairLoss,
    validation_fraction: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return the ridge with the best held-out AUC, and that AUC."""
    _, spread = rows.spread()
    scale = spread / rows.shape[1]
    ridges = [relative * scale if scale > 0 else relative for relative in reversed(_RIDGES)]
    folds = hold_out(y, validation_fraction, rng)
    totals = np.zeros(len(ridges))
    for train, held in folds:
        if not isinstance(loss, SquaredHinge):
            train = _first_of_each(train, y, _ALL_PAIRS_CAP)
        part, part_y = _float64(rows.take(train)), y[train]
        held_rows, w = rows.take(held), None
        moments = None
        if type(loss) is Square:
            moments = ClassMoments(rows.shape[1]).add(part, part_y)
        for index, ridge in enumerate(ridges):
            if moments is not None:
                w = moments.solve(ridge=ridge)
            else:
                # From strong to weak: the last model is a good start for the next.
                solver = ExactSolver(loss, ridge=ridge, tolerance=1e-4)
                w = solver.solve(part, part_y, w_start=w).w
            totals[index] += roc_auc(y[held], held_rows.scores(w)) / len(folds)
    best = int(np.argmax(totals))
    return ridges[best], float(totals[best])


def _first_of_each(
    index: NDArray[np.int64], y: NDArray[np.float64], count: int
) -> NDArray[np.int64]:
    return np.concatenate([index[y[index] == sign][:count] for sign in (-1.0, 1.0)])


def _float64(rows: Rows) -> Rows:
    """Return the rows as they are, dense ones in float64: they are multiplied many times."""
    if isinstance(rows, CsrRows):
        return rows
    return type(rows)(rows.X.astype(np.float64, copy=False))
