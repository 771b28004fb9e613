# SPDX-License-Identifier: BSD-3-Clause
"""The step size that the bounds recommend, for ``AUCClassifier(step_size="theory")``.

Of the data only the number of examples and the largest norm of a row are read; the latter stands
for the bound B on the norm of an example, from which the constants of the loss follow.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pairlearn.averaging import DelayedByStepSize
from pairlearn.pairings import PreviousExample
from pairlearn.problem import Problem
from pairlearn.schedules import Constant
from pairlearn.solvers.rows import Rows

if TYPE_CHECKING:
    from pairlearn.theory import Advice

__all__ = ["advice_for"]


def advice_for(
    problem: Problem,
    rows: Rows,
    *,
    radius: float | None,
    n_steps: int,
    pairing: Any,
    schedule: Any,
    averaging: Any,
    weighted: bool,
    warm: bool,
) -> Advice:
    """Return what Theorem 1 or 2 recommends, refusing what the theorems do not cover.

    Parameters
    ----------
    problem : Problem
        The score and a convex loss.
    rows : DenseRows or CsrRows
        The training examples.
    radius : float or None
        Radius of the ball; it must be finite.
    n_steps : int
        The number of steps that will be taken.
    pairing, schedule, averaging : object
        They must be the previous example, a constant step and the paper's average.
    weighted : bool
        Whether pairs have weights, which the constants do not know of.
    warm : bool
        Whether the run starts elsewhere than at zero.

    Returns
    -------
    Advice
        The step size, and the bound on the expected excess risk.
    """
    from pairlearn.theory import advise_auc

    if radius is None or math.isinf(radius):
        raise ValueError(
            'step_size="theory" needs a finite radius (the bounds grow with it), got '
            f"radius={'auto' if radius is None else radius!r}; pass for example radius=1.0."
        )
    wrong = [
        text
        for is_wrong, text in (
            (not isinstance(pairing, PreviousExample), 'pairing="previous"'),
            (schedule != Constant(1.0), 'schedule="constant"'),
            (not isinstance(averaging, DelayedByStepSize), 'averaging="step_size"'),
            (weighted, "no sample_weight and no class_weight"),
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
