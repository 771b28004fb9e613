# SPDX-License-Identifier: BSD-3-Clause
"""Averages for solvers that move at every step and know their number of steps beforehand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pairlearn.averaging import Averaging
from pairlearn.schedules import Schedule

__all__ = ["iterate_weights"]


def iterate_weights(averaging: Averaging, schedule: Schedule, n_steps: int) -> NDArray[np.float64]:
    """Return the weights of w_0, ..., w_T in the average; they add up to 1.

    Parameters
    ----------
    averaging : Averaging
        The rule.
    schedule : Schedule
        The step sizes, which some rules weigh by.
    n_steps : int
        The number T of steps.

    Returns
    -------
    ndarray of shape (T + 1,)
        The weights.

    Examples
    --------
    >>> from pairlearn.averaging import DelayedLinear
    >>> from pairlearn.schedules import Constant
    >>> iterate_weights(DelayedLinear(), Constant(1.0), 3) * 6
    array([3., 3., 0., 0.])
    """
    weights = np.zeros(n_steps + 1)
    if n_steps:
        weights[:-1] = averaging.owed(schedule, 1, n_steps, horizon=n_steps)
        weights[0] += averaging.at_start(schedule)
        weights[-2] -= averaging.paid_early(schedule, n_steps)
    weights[-1] = averaging.owed_to_last(n_steps)
    total = weights.sum()
    if total > 0.0:
        return np.asarray(weights / total)
    weights[-1] = 1.0
    return weights
