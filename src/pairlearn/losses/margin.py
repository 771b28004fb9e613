# SPDX-License-Identifier: BSD-3-Clause
"""Losses of the margin of a pair, for AUC and ranking."""

# The scalar functions below are compiled by numba and take (score, y, y_partner, parameter)
# instead of self.
# ruff: noqa: N805

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pairlearn.losses import sums
from pairlearn.losses.base import LOSSES, PairLoss
from pairlearn.scalars import scalar
from pairlearn.typing import Vector
from pairlearn.validation import check_positive


def _miss(margins: Vector) -> Vector:
    """Return 1 / (1 + exp(m)), with the exponent clipped to avoid overflow."""
    return np.asarray(1.0 / (1.0 + np.exp(np.minimum(margins, 700.0))))


@LOSSES.add("hinge")
@dataclass(frozen=True)
class Hinge(PairLoss):
    """Hinge loss, l(m) = (margin - m)_+.

    Parameters
    ----------
    margin : float, default=1.0
        The margin below which a pair costs something.
    one_sided : bool, default=False
        See `PairLoss`.

    Examples
    --------
    >>> Hinge().value(0.25, 1.0, -1.0, 1.0)
    0.75
    """

    never_increases: ClassVar[bool] = True

    margin: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("margin", self.margin)

    @property
    def parameter(self) -> float:
        """The margin."""
        return self.margin

    @scalar
    def value(score: float, y: float, y_partner: float, margin: float) -> float:
        """Return the loss of a pair."""
        m = score if y > y_partner else -score
        return margin - m if m < margin else 0.0

    @scalar
    def derivative(score: float, y: float, y_partner: float, margin: float) -> float:
        """Return the derivative of the loss with respect to the score."""
        if y > y_partner:
            return -1.0 if score < margin else 0.0
        return 1.0 if -score < margin else 0.0

    def values(self, margins: Vector) -> Vector:
        """Return the loss of each margin."""
        return np.maximum(self.margin - margins, 0.0)

    def slopes(self, margins: Vector) -> Vector:
        """Return the derivative at each margin."""
        return -(margins < self.margin).astype(np.float64)

    def sums(self, p: Vector, q: Vector, b: Vector) -> tuple[Vector, Vector]:
        """Return the sums of values and of slopes over the pairs with each of `p`."""
        return sums.hinge(p, q, b, self.parameter)

    def slope_bound(self, margin_bound: float) -> float:
        """Return 1."""
        return 1.0

    def curvature_bound(self, margin_bound: float) -> float:
        """Return infinity: the hinge has a kink."""
        return math.inf

    def value_bound(self, margin_bound: float) -> float:
        """Return margin + M."""
        return self.margin + margin_bound


@LOSSES.add("squared_hinge")
@dataclass(frozen=True)
class SquaredHinge(Hinge):
    """Squared hinge loss, l(m) = (margin - m)_+^2.

    Parameters
    ----------
    margin : float, default=1.0
        The margin below which a pair costs something.
    one_sided : bool, default=False
        See `PairLoss`.

    Examples
    --------
    >>> SquaredHinge().value(0.5, 1.0, -1.0, 1.0)
    0.25
    """

    never_increases: ClassVar[bool] = True

    @scalar
    def value(score: float, y: float, y_partner: float, margin: float) -> float:
        """Return the loss of a pair."""
        m = score if y > y_partner else -score
        gap = margin - m
        return gap * gap if gap > 0.0 else 0.0

    @scalar
    def derivative(score: float, y: float, y_partner: float, margin: float) -> float:
        """Return the derivative of the loss with respect to the score."""
        if y > y_partner:
            return -2.0 * (margin - score) if score < margin else 0.0
        return 2.0 * (margin + score) if -score < margin else 0.0

    def values(self, margins: Vector) -> Vector:
        """Return the loss of each margin."""
        return np.maximum(self.margin - margins, 0.0) ** 2

    def slopes(self, margins: Vector) -> Vector:
        """Return the derivative at each margin."""
        return -2.0 * np.maximum(self.margin - margins, 0.0)

    def sums(self, p: Vector, q: Vector, b: Vector) -> tuple[Vector, Vector]:
        """Return the sums of values and of slopes over the pairs with each of `p`."""
        return sums.squared_hinge(p, q, b, self.parameter)

    def slope_bound(self, margin_bound: float) -> float:
        """Return 2 (margin + M)."""
        return 2.0 * (self.margin + margin_bound)

    def curvature_bound(self, margin_bound: float) -> float:
        """Return 2."""
        return 2.0

    def curvature_floor(self, margin_bound: float) -> float:
        """Return 2 if no margin reaches that of the loss, else 0."""
        return 2.0 if margin_bound < self.margin else 0.0

    def value_bound(self, margin_bound: float) -> float:
        """Return (margin + M)^2."""
        # A product overflows to infinity, but a power raises.
        return (self.margin + margin_bound) * (self.margin + margin_bound)


@LOSSES.add("square")
@dataclass(frozen=True)
class Square(SquaredHinge):
    """Square loss, l(m) = (margin - m)^2.

    Parameters
    ----------
    margin : float, default=1.0
        The margin at which a pair costs nothing.
    one_sided : bool, default=False
        See `PairLoss`.

    Examples
    --------
    >>> Square().value(2.0, 1.0, -1.0, 1.0)
    1.0
    """

    by_moments: ClassVar[bool] = True

    @scalar
    def value(score: float, y: float, y_partner: float, margin: float) -> float:
        """Return the loss of a pair."""
        m = score if y > y_partner else -score
        return (margin - m) * (margin - m)

    @scalar
    def derivative(score: float, y: float, y_partner: float, margin: float) -> float:
        """Return the derivative of the loss with respect to the score."""
        if y > y_partner:
            return -2.0 * (margin - score)
        return 2.0 * (margin + score)

    def values(self, margins: Vector) -> Vector:
        """Return the loss of each margin."""
        return (self.margin - margins) ** 2

    def falls(self, margin_bound: float = math.inf) -> bool:
        """Return whether no margin is beyond that of the loss."""
        return margin_bound <= self.margin

    def curvature_floor(self, margin_bound: float) -> float:
        """Return 2."""
        return 2.0

    def slopes(self, margins: Vector) -> Vector:
        """Return the derivative at each margin."""
        return -2.0 * (self.margin - margins)

    def sums(self, p: Vector, q: Vector, b: Vector) -> tuple[Vector, Vector]:
        """Return the sums of values and of slopes over the pairs with each of `p`."""
        return sums.square(p, q, b, self.parameter)


@LOSSES.add("logistic")
@dataclass(frozen=True)
class Logistic(PairLoss):
    """Logistic loss, l(m) = log(1 + exp(-m)).

    Parameters
    ----------
    one_sided : bool, default=False
        See `PairLoss`.

    Examples
    --------
    >>> round(Logistic().value(0.0, 1.0, -1.0), 4)
    0.6931
    """

    never_increases: ClassVar[bool] = True

    @scalar
    def value(score: float, y: float, y_partner: float, _: float) -> float:
        """Return the loss of a pair."""
        m = score if y > y_partner else -score
        if m > 0.0:
            return math.log1p(math.exp(-m))
        return math.log1p(math.exp(m)) - m

    @scalar
    def derivative(score: float, y: float, y_partner: float, _: float) -> float:
        """Return the derivative of the loss with respect to the score."""
        sign = 1.0 if y > y_partner else -1.0
        m = sign * score
        if m > 0.0:
            e = math.exp(-m)
            return -sign * e / (1.0 + e)
        return -sign / (1.0 + math.exp(m))

    def values(self, margins: Vector) -> Vector:
        """Return the loss of each margin."""
        return np.log1p(np.exp(-np.abs(margins))) + np.maximum(-margins, 0.0)

    def slopes(self, margins: Vector) -> Vector:
        """Return the derivative at each margin."""
        return -_miss(margins)

    def slope_bound(self, margin_bound: float) -> float:
        """Return sigmoid(M)."""
        return 1.0 / (1.0 + math.exp(-margin_bound))

    def curvature_bound(self, margin_bound: float) -> float:
        """Return 1/4."""
        return 0.25

    def curvature_floor(self, margin_bound: float) -> float:
        """Return p (1 - p) at the largest margin, where p is the sigmoid."""
        e = math.exp(-margin_bound)
        return e / (1.0 + e) ** 2

    def value_bound(self, margin_bound: float) -> float:
        """Return log(1 + exp(M))."""
        return margin_bound + math.log1p(math.exp(-margin_bound))


@LOSSES.add("exponential")
@dataclass(frozen=True)
class Exponential(PairLoss):
    """Exponential loss, l(m) = exp(-m), with the exponent clipped at 700 to stay finite.

    Parameters
    ----------
    one_sided : bool, default=False
        See `PairLoss`.

    Examples
    --------
    >>> Exponential().value(0.0, 1.0, -1.0)
    1.0
    """

    never_increases: ClassVar[bool] = True

    @scalar
    def value(score: float, y: float, y_partner: float, _: float) -> float:
        """Return the loss of a pair."""
        m = score if y > y_partner else -score
        return math.exp(min(-m, 700.0))

    @scalar
    def derivative(score: float, y: float, y_partner: float, _: float) -> float:
        """Return the derivative of the loss with respect to the score."""
        sign = 1.0 if y > y_partner else -1.0
        return -sign * math.exp(min(-sign * score, 700.0))

    def values(self, margins: Vector) -> Vector:
        """Return the loss of each margin."""
        return np.exp(np.minimum(-margins, 700.0))

    def slopes(self, margins: Vector) -> Vector:
        """Return the derivative at each margin."""
        return -self.values(margins)

    def sums(self, p: Vector, q: Vector, b: Vector) -> tuple[Vector, Vector]:
        """Return the sums of values and of slopes over the pairs with each of `p`."""
        return sums.exponential(p, q, b, self.parameter)

    def slope_bound(self, margin_bound: float) -> float:
        """Return exp(M)."""
        return math.exp(min(margin_bound, 700.0))

    curvature_bound = value_bound = slope_bound

    def curvature_floor(self, margin_bound: float) -> float:
        """Return exp(-M)."""
        return math.exp(-margin_bound)


@LOSSES.add("loglink")
@dataclass(frozen=True)
class LogLink(PairLoss):
    """The paper's non-convex loss of a generalised linear model, l(m) = (1 - sigmoid(m))^2.

    Parameters
    ----------
    one_sided : bool, default=False
        See `PairLoss`.

    Examples
    --------
    >>> LogLink().value(0.0, 1.0, -1.0)
    0.25
    """

    convex: ClassVar[bool] = False
    never_increases: ClassVar[bool] = True

    @scalar
    def value(score: float, y: float, y_partner: float, _: float) -> float:
        """Return the loss of a pair."""
        m = score if y > y_partner else -score
        if m > 0.0:
            e = math.exp(-m)
            miss = e / (1.0 + e)
        else:
            miss = 1.0 / (1.0 + math.exp(m))
        return miss * miss

    @scalar
    def derivative(score: float, y: float, y_partner: float, _: float) -> float:
        """Return the derivative of the loss with respect to the score."""
        sign = 1.0 if y > y_partner else -1.0
        m = sign * score
        if m > 0.0:
            e = math.exp(-m)
            miss = e / (1.0 + e)
            hit = 1.0 / (1.0 + e)
        else:
            e = math.exp(m)
            miss = 1.0 / (1.0 + e)
            hit = e / (1.0 + e)
        return -2.0 * sign * miss * miss * hit

    def values(self, margins: Vector) -> Vector:
        """Return the loss of each margin."""
        return _miss(margins) ** 2

    def slopes(self, margins: Vector) -> Vector:
        """Return the derivative at each margin."""
        return -2.0 * _miss(margins) ** 2 * _miss(-margins)

    def slope_bound(self, margin_bound: float) -> float:
        """Return 8/27, the maximum of 2 p^2 (1 - p), at p = 2/3."""
        return 8.0 / 27.0

    def curvature_bound(self, margin_bound: float) -> float:
        r"""Return the maximum of \|l''\| = 2 p^2 (1 - p) \|2 - 3 p\| over p in [0, 1]."""
        # d/dp of p^2 (1-p)(2-3p) = p (4 - 15 p + 12 p^2): the larger of its two inner extrema.
        return max(
            2.0 * p * p * (1.0 - p) * abs(2.0 - 3.0 * p)
            for p in ((15.0 - math.sqrt(33.0)) / 24.0, (15.0 + math.sqrt(33.0)) / 24.0)
        )

    def curvature_floor(self, margin_bound: float) -> float:
        """Return the least l'' = 2 p^2 (1 - p) (2 - 3 p); it is below 0 beyond the margin log 2."""
        # With p = sigmoid(-m), l'' rises from p = 0 to an inner extremum and falls to the next one,
        # which is negative. So the least value lies at an end of the margins or at that extremum.
        e = math.exp(-margin_bound)
        low, lowest = e / (1.0 + e), (15.0 + math.sqrt(33.0)) / 24.0
        places = (low, min(1.0 - low, lowest))
        return min(2.0 * p * p * (1.0 - p) * (2.0 - 3.0 * p) for p in places)

    def value_bound(self, margin_bound: float) -> float:
        """Return 1."""
        return 1.0


@LOSSES.add("smoothed_hinge")
@dataclass(frozen=True)
class SmoothedHinge(PairLoss):
    """Huberised hinge loss: quadratic over a width h below the margin 1, linear further down.

    Parameters
    ----------
    width : float, default=0.5
        The width h of the quadratic part. The loss is 1/h-smooth and differs from the hinge by at
        most h/2.
    one_sided : bool, default=False
        See `PairLoss`.

    Examples
    --------
    >>> SmoothedHinge(width=0.5).value(0.0, 1.0, -1.0, 0.5)
    0.75
    """

    never_increases: ClassVar[bool] = True

    width: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("width", self.width)

    @property
    def parameter(self) -> float:
        """The width."""
        return self.width

    @scalar
    def value(score: float, y: float, y_partner: float, width: float) -> float:
        """Return the loss of a pair."""
        gap = 1.0 - (score if y > y_partner else -score)
        if gap <= 0.0:
            return 0.0
        if gap < width:
            return gap * gap / (2.0 * width)
        return gap - 0.5 * width

    @scalar
    def derivative(score: float, y: float, y_partner: float, width: float) -> float:
        """Return the derivative of the loss with respect to the score."""
        sign = 1.0 if y > y_partner else -1.0
        gap = 1.0 - sign * score
        if gap <= 0.0:
            return 0.0
        return -sign * min(gap / width, 1.0)

    def values(self, margins: Vector) -> Vector:
        """Return the loss of each margin."""
        gap = np.maximum(1.0 - margins, 0.0)
        near = np.minimum(gap, self.width)
        return np.asarray(near * near / (2.0 * self.width) + (gap - near))

    def slopes(self, margins: Vector) -> Vector:
        """Return the derivative at each margin."""
        return -np.clip((1.0 - margins) / self.width, 0.0, 1.0)

    def sums(self, p: Vector, q: Vector, b: Vector) -> tuple[Vector, Vector]:
        """Return the sums of values and of slopes over the pairs with each of `p`."""
        return sums.smoothed_hinge(p, q, b, self.parameter)

    def slope_bound(self, margin_bound: float) -> float:
        """Return 1."""
        return 1.0

    def curvature_bound(self, margin_bound: float) -> float:
        """Return 1/h."""
        return 1.0 / self.width

    def value_bound(self, margin_bound: float) -> float:
        """Return 1 + M."""
        return 1.0 + margin_bound
