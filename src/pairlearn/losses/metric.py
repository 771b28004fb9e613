# SPDX-License-Identifier: BSD-3-Clause
r"""Losses of a squared distance h = (x - x')' W (x - x'), for metric learning.

Examples of one label should be near, and examples of different labels far. With tau = 1 for equal
labels and -1 for different ones, the paper writes the loss in two forms: section 1 has (1 + tau
h)_+, and section 2.1 has l(-tau (h - 1)) with l(t) = (1 - t)_+, that is (1 + tau (h - 1))_+. Both
are (1 + tau (h - b))_+ with a bias b of 0 or 1, the distance that separates near from far. With b =
0, pairs of equal labels attract at any distance.
"""

# ruff: noqa: N805

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from pairlearn.losses.base import METRIC_LOSSES, PairLoss
from pairlearn.scalars import scalar


@METRIC_LOSSES.add("hinge_no_bias", make=lambda: DistanceHinge(bias=0.0))
@METRIC_LOSSES.add("hinge")
@dataclass(frozen=True)
class DistanceHinge(PairLoss):
    """Hinge loss of a squared distance, (1 + tau (h - b))_+.

    Parameters
    ----------
    bias : float, default=1.0
        The bias b >= 0: 0 for the form of section 1 of the paper, 1 for that of section 2.1.
    one_sided : bool, default=False
        Whether only pairs whose first example has the larger label count.

    Examples
    --------
    >>> DistanceHinge().value(0.5, 1.0, 1.0, 1.0), DistanceHinge().value(0.5, 1.0, 2.0, 1.0)
    (0.5, 1.5)
    """

    bias: float = 1.0
    kind: ClassVar[str] = "distance"
    opposite_labels_only: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.bias) and self.bias >= 0.0):
            raise ValueError(f"bias must be a number of at least 0, got {self.bias!r}.")

    @property
    def parameter(self) -> float:
        """The bias."""
        return self.bias

    @scalar
    def value(score: float, y: float, y_partner: float, bias: float) -> float:
        """Return the loss of a pair."""
        tau = 1.0 if y == y_partner else -1.0
        return max(1.0 + tau * (score - bias), 0.0)

    @scalar
    def derivative(score: float, y: float, y_partner: float, bias: float) -> float:
        """Return the derivative of the loss with respect to the squared distance."""
        tau = 1.0 if y == y_partner else -1.0
        return tau if 1.0 + tau * (score - bias) > 0.0 else 0.0

    def slope_bound(self, margin_bound: float) -> float:
        """Return 1."""
        return 1.0

    def curvature_bound(self, margin_bound: float) -> float:
        """Return infinity: the hinge has a kink."""
        return math.inf

    def value_bound(self, margin_bound: float) -> float:
        """Return the larger of 1 + b (different, at distance 0) and 1 + M - b (equal)."""
        return max(1.0 + self.bias, 1.0 + margin_bound - self.bias)


@METRIC_LOSSES.add("logistic")
@dataclass(frozen=True)
class DistanceLogistic(DistanceHinge):
    """Logistic loss of a squared distance, log(1 + exp(tau (h - b))).

    Parameters
    ----------
    bias : float, default=1.0
        The bias b >= 0.
    one_sided : bool, default=False
        Whether only pairs whose first example has the larger label count.

    Examples
    --------
    >>> round(DistanceLogistic().value(1.0, 1.0, 2.0, 1.0), 4)
    0.6931
    """

    @scalar
    def value(score: float, y: float, y_partner: float, bias: float) -> float:
        """Return the loss of a pair."""
        t = score - bias if y == y_partner else bias - score
        if t > 0.0:
            return t + math.log1p(math.exp(-t))
        return math.log1p(math.exp(t))

    @scalar
    def derivative(score: float, y: float, y_partner: float, bias: float) -> float:
        """Return the derivative of the loss with respect to the squared distance."""
        tau = 1.0 if y == y_partner else -1.0
        t = tau * (score - bias)
        if t > 0.0:
            return tau / (1.0 + math.exp(-t))
        e = math.exp(t)
        return tau * e / (1.0 + e)

    def curvature_bound(self, margin_bound: float) -> float:
        """Return 1/4."""
        return 0.25

    def value_bound(self, margin_bound: float) -> float:
        """Return log(1 + exp(t)) at the largest t, which is b or M - b."""
        t = max(self.bias, margin_bound - self.bias)
        return t + math.log1p(math.exp(-t))
