# SPDX-License-Identifier: BSD-3-Clause
"""What a classifier is to be good at: an objective by name, and the metric of its ridge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairlearn.losses import PairLoss
from pairlearn.metrics import AveragePrecision, Metric, PartialAUC
from pairlearn.solvers.exact.batch import PairObjective
from pairlearn.solvers.rows import Rows
from pairlearn.solvers.top.objectives import (
    PartialArea,
    Push,
    SmoothPrecision,
    TopObjective,
    TopOfList,
)
from pairlearn.typing import Vector
from pairlearn.validation import AssumptionWarning, warn_caller

__all__ = ["OBJECTIVES", "Objective", "as_objective", "of_data"]

OBJECTIVES = ("auc", "partial_auc", "average_precision", "push")

#: With fewer positives the average precision of a fold is noise.
_FEW_POSITIVES = 20
#: The other power to choose from. On the data sets that were looked at the better of 2 and 8 by
#: held-out average precision was ahead of either, and 4 as a third candidate added nothing.
_MILD = 2.0


@dataclass(frozen=True)
class Objective:
    """What is minimised on training data, and what is measured on held-out data.

    Parameters
    ----------
    top : TopOfList or None
        The objective for the top of the list; None for the mean over all pairs.
    metric : Metric
        What the ridge is chosen by.
    title : str
        The name of the metric, for a person.
    rivals : tuple of TopOfList
        What else is tried where the ridge is chosen, by the same metric on the same folds.
    """

    top: TopOfList | None
    metric: Metric
    title: str
    rivals: tuple[TopOfList, ...] = ()

    @property
    def anchored(self) -> bool:
        """Whether the ridge pulls towards the minimiser for all pairs, in place of zero."""
        return self.top is not None and not self.top.convex

    def check_data(self, y: Vector) -> None:
        """Warn where there are too few positives for what is asked."""
        n_positive = int(np.count_nonzero(y > 0))
        if isinstance(self.top, SmoothPrecision) and n_positive < _FEW_POSITIVES:
            warn_caller(
                f'objective="average_precision" has {n_positive} positives to go by; below '
                f'{_FEW_POSITIVES} it is often worse than objective="auc".',
                AssumptionWarning,
            )


def of_data(
    top: TopOfList | None,
    rows: Rows,
    y: Vector,
    loss: PairLoss,
    weight: Vector | None,
    anchor: Vector | None = None,
) -> PairObjective:
    """Return the objective on a data set; None is the mean over all pairs, without an anchor."""
    if top is None:
        return PairObjective(rows, y, loss, weight)
    return TopObjective(rows, y, loss, weight, top, anchor)


def as_objective(
    name: str, *, max_fpr: float | None, min_tpr: float | None, power: float | None
) -> Objective:
    """Return an objective by its name, refusing settings that it would ignore.

    Parameters
    ----------
    name : str
        One of `OBJECTIVES`.
    max_fpr, min_tpr : float or None
        For "partial_auc".
    power : float or None
        For "push"; if None, 8, with 2 as a rival.

    Returns
    -------
    Objective
        The objective and its metric.

    Examples
    --------
    >>> as_objective("push", max_fpr=None, min_tpr=None, power=4.0).top
    Push(power=4.0)
    """
    if name not in OBJECTIVES:
        raise ValueError(f"objective must be one of {OBJECTIVES}, got {name!r}.")
    settings = {"max_fpr": max_fpr, "min_tpr": min_tpr, "power": power}
    used = {"partial_auc": ("max_fpr", "min_tpr"), "push": ("power",)}.get(name, ())
    for setting, value in settings.items():
        if value is not None and setting not in used:
            home = "push" if setting == "power" else "partial_auc"
            raise ValueError(
                f'{setting}={value!r} is for objective="{home}", but objective="{name}" would '
                "ignore it; leave it at None."
            )
    if name == "partial_auc":
        if max_fpr is None:
            raise ValueError(
                'objective="partial_auc" needs max_fpr, the share of negatives that counts, for '
                "example max_fpr=0.05."
            )
        tpr = 0.0 if min_tpr is None else min_tpr
        return Objective(PartialArea(max_fpr, tpr), PartialAUC(max_fpr, tpr), "partial AUC")
    if name == "average_precision":
        return Objective(SmoothPrecision(), AveragePrecision(), "average precision")
    if name == "push":
        # The push has no metric of its own; the top of the list is what it is for.
        if power is not None:
            return Objective(Push(power), AveragePrecision(), "average precision")
        return Objective(Push(), AveragePrecision(), "average precision", (Push(_MILD),))
    return Objective(None, PartialAUC(), "AUC")
