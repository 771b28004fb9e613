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
        convex = False

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

from pairlearn.losses.base import LOSSES, METRIC_LOSSES, WINDOWS, PairLoss
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
    "METRIC_LOSSES",
    "WINDOWS",
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
    "scalar",
]
