# SPDX-License-Identifier: BSD-3-Clause
r"""Pair losses: functions of one score and two labels.

A loss is a function of the *margin* m of a pair. For a score s = h_w(x) - h_w(x') it is m = s if y
> y' and m = -s otherwise. So the same loss serves AUC (labels -1 and +1) and ranking (any real
labels), and the order of a pair does not matter: the paper's f(w; z, z') = l(m) 1[y = 1, y' = -1]
becomes the symmetric f(w; z, z') + f(w; z', z). The empirical risk F_S doubles and the constants
stay. ``one_sided=True`` gives the paper's form.

Two more families use something other than a margin: `pairlearn.losses.entropy` (the difference of
two errors) and `pairlearn.losses.metric` (a squared distance).

To write your own, derive from `PairLoss` and decorate two functions::

    class Sigmoid(PairLoss):
        @scalar
        def value(score, y, y_partner, _):
            m = score if y > y_partner else -score
            return 1.0 / (1.0 + math.exp(m))

        @scalar
        def derivative(score, y, y_partner, _):
            sign = 1.0 if y > y_partner else -1.0
            p = 1.0 / (1.0 + math.exp(sign * score))
            return -sign * p * (1.0 - p)
"""

from __future__ import annotations

from pairlearn.losses.base import PairLoss
from pairlearn.losses.check import check_loss
from pairlearn.losses.entropy import Epanechnikov, Welsch
from pairlearn.losses.margin import (
    Exponential,
    Hinge,
    Logistic,
    LogLink,
    SmoothedHinge,
    Square,
    SquaredHinge,
)
from pairlearn.losses.metric import DistanceHinge, DistanceLogistic
from pairlearn.losses.weighted import GapWeighted
from pairlearn.scalars import scalar

__all__ = [
    "LOSSES",
    "DistanceHinge",
    "DistanceLogistic",
    "Epanechnikov",
    "Exponential",
    "GapWeighted",
    "Hinge",
    "LogLink",
    "Logistic",
    "PairLoss",
    "SmoothedHinge",
    "Square",
    "SquaredHinge",
    "Welsch",
    "check_loss",
    "get_loss",
    "scalar",
]

LOSSES: dict[str, type[PairLoss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "square": Square,
    "logistic": Logistic,
    "exponential": Exponential,
    "loglink": LogLink,
    "smoothed_hinge": SmoothedHinge,
}


def get_loss(loss: str | PairLoss) -> PairLoss:
    """Return a loss given by name, or the loss itself."""
    if isinstance(loss, PairLoss):
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]()
    names = ", ".join(repr(name) for name in LOSSES)
    raise ValueError(f"loss must be one of {names} or a PairLoss, got {loss!r}.")
