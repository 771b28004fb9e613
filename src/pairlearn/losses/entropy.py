# SPDX-License-Identifier: BSD-3-Clause
r"""Losses of the difference of two errors, for minimum error entropy.

With e = y - <w, x> the difference of two errors is r = e - e' = (y - y') - s for the score
s = <w, x - x'>. Renyi's quadratic entropy with a Parzen window G (section 2.1 of the paper),

    H = -log 1/(n^2 gamma) sum_{i,j} G((e_i - e_j)^2 / (2 gamma^2)),

is smallest where the mean over pairs of a constant minus G is smallest. The losses below are
gamma^2 times that mean, scaled so that each is r^2/2 near r = 0. So step sizes do not depend on the
bandwidth, and an infinite bandwidth gives least squares on differences.
"""

# ruff: noqa: N805

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from pairlearn.losses.base import WINDOWS, PairLoss
from pairlearn.scalars import scalar
from pairlearn.validation import check_positive


@WINDOWS.add("gaussian")
@dataclass(frozen=True)
class Welsch(PairLoss):
    """Gaussian window, l(r) = gamma^2 (1 - exp(-r^2 / (2 gamma^2))) with r = (y - y') - s.

    Parameters
    ----------
    bandwidth : float, default=1.0
        The bandwidth gamma. Errors further apart than about 3 gamma hardly attract each other.
    one_sided : bool, default=False
        Whether only pairs whose first example has the larger target count.

    Examples
    --------
    >>> round(Welsch().value(0.0, 1.0, 0.0, 1.0), 4)
    0.3935
    """

    bandwidth: float = 1.0
    kind: ClassVar[str] = "difference"
    opposite_labels_only: ClassVar[bool] = False
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("bandwidth", self.bandwidth)

    @property
    def parameter(self) -> float:
        """The bandwidth."""
        return self.bandwidth

    @scalar
    def value(score: float, y: float, y_partner: float, bandwidth: float) -> float:
        """Return the loss of a pair."""
        u = ((y - y_partner) - score) / bandwidth
        return -bandwidth * bandwidth * math.expm1(-0.5 * u * u)

    @scalar
    def derivative(score: float, y: float, y_partner: float, bandwidth: float) -> float:
        """Return the derivative of the loss with respect to the score."""
        r = (y - y_partner) - score
        u = r / bandwidth
        return -r * math.exp(-0.5 * u * u)

    def slope_bound(self, margin_bound: float) -> float:
        """Return gamma exp(-1/2), reached at r = gamma."""
        return self.bandwidth * math.exp(-0.5)

    def curvature_bound(self, margin_bound: float) -> float:
        """Return 1, reached at r = 0."""
        return 1.0

    def value_bound(self, margin_bound: float) -> float:
        """Return gamma^2."""
        return self.bandwidth**2


@WINDOWS.add("epanechnikov")
@dataclass(frozen=True)
class Epanechnikov(Welsch):
    """Parabolic window, l(r) = min(r^2, gamma^2) / 2 with r = (y - y') - s.

    Errors further apart than the bandwidth do not count.

    Parameters
    ----------
    bandwidth : float, default=1.0
        The bandwidth gamma.
    one_sided : bool, default=False
        Whether only pairs whose first example has the larger target count.

    Examples
    --------
    >>> Epanechnikov().value(0.0, 3.0, 0.0, 1.0)
    0.5
    """

    @scalar
    def value(score: float, y: float, y_partner: float, bandwidth: float) -> float:
        """Return the loss of a pair."""
        r = (y - y_partner) - score
        return 0.5 * min(r * r, bandwidth * bandwidth)

    @scalar
    def derivative(score: float, y: float, y_partner: float, bandwidth: float) -> float:
        """Return the derivative of the loss with respect to the score."""
        r = (y - y_partner) - score
        return -r if abs(r) < bandwidth else 0.0

    def slope_bound(self, margin_bound: float) -> float:
        """Return gamma."""
        return self.bandwidth

    def curvature_bound(self, margin_bound: float) -> float:
        """Return infinity: the loss has a kink at r = gamma."""
        return math.inf

    def value_bound(self, margin_bound: float) -> float:
        """Return gamma^2 / 2."""
        return 0.5 * self.bandwidth**2
