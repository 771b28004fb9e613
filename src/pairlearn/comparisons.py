# SPDX-License-Identifier: BSD-3-Clause
r"""Which pairs count, and which example of a pair should be ahead.

A comparison is one scalar function of two labels, the *direction*

.. math:: c(y, y') > 0 \text{ (the first should be ahead)}, \quad
          c(y, y') < 0 \text{ (the second)}, \quad c(y, y') = 0 \text{ (the pair does not count)},

and its size is the weight of the pair. With a loss l of a margin, the pair costs

.. math:: f(w; z, z') = |c(y, y')| \; \ell(\mathrm{sign}(c(y, y')) \langle w, x - x' \rangle).

So a loss sees who should be ahead and no labels, and each loss of a margin works with each
comparison. Pairs that do not count are taken out when a plan is made, before a kernel runs.

`OppositeLabels` is what losses do by themselves: the kernels run as they did before there was a
choice. Grades within queries are this comparison with the pairing `PreviousOfQuery`.
"""

# The scalar functions below are compiled by numba and take two labels and two parameters.
# ruff: noqa: N805

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pairlearn.register import Part, Register
from pairlearn.scalars import Scalar, scalar
from pairlearn.typing import Vector

__all__ = [
    "COMPARISONS",
    "Comparison",
    "EarlierEvent",
    "FirstAhead",
    "GradeGap",
    "OppositeLabels",
    "signed_times",
]


@dataclass(frozen=True, repr=False)
class Comparison(Part):
    """Base class of comparisons.

    Notes
    -----
    A subclass defines one function decorated with `scalar`, `direction`, of ``(y, y_partner, first,
    second)``; the last two are its `parameters`. `check_comparison` checks one.

    Examples
    --------
    >>> from pairlearn import scalar
    >>> class FarApart(Comparison):
    ...     @scalar
    ...     def direction(y, y_partner, first, second):
    ...         return 0.0 if abs(y - y_partner) < 2.0 else math.copysign(1.0, y - y_partner)
    >>> FarApart().direction(5.0, 1.0, 0.0, 0.0), FarApart().direction(2.0, 1.0, 0.0, 0.0)
    (1.0, 0.0)
    """

    #: Whether the order of the two examples does not matter: c(y', y) = -c(y, y').
    symmetric: ClassVar[bool] = True

    direction: ClassVar[Scalar]

    @property
    def parameters(self) -> tuple[float, float]:
        """The two numbers that `direction` gets as its last arguments."""
        return (0.0, 0.0)

    @property
    def weight_bound(self) -> float:
        """The largest weight of a pair, which `Problem.constants` needs."""
        name = type(self).__name__
        raise ValueError(
            f"{name} does not state the largest weight of a pair; define {name}.weight_bound."
        )

    def directions(self, y: Vector, y_partner: Vector) -> Vector:
        """Return the direction of each pair of two arrays of labels."""
        first, second = self.parameters
        return self.direction.many(y, y_partner, first, second)


COMPARISONS: Register[Comparison] = Register("comparison", Comparison)


@COMPARISONS.add("opposite_labels")
@dataclass(frozen=True, repr=False)
class OppositeLabels(Comparison):
    """Examples with different labels; the one with the larger label should be ahead.

    For AUC with labels -1 and +1, and for grades.

    Examples
    --------
    >>> OppositeLabels().direction(1.0, -1.0, 0.0, 0.0)
    1.0
    """

    @property
    def weight_bound(self) -> float:
        """1."""
        return 1.0

    @scalar
    def direction(y: float, y_partner: float, _first: float, _second: float) -> float:
        """Return the sign of the difference of the labels."""
        if y > y_partner:
            return 1.0
        return -1.0 if y < y_partner else 0.0


@COMPARISONS.add("grade_gap")
@dataclass(frozen=True, repr=False)
class GradeGap(Comparison):
    r"""Like `OppositeLabels`, and a pair weighs the difference \|y - y'\| of its grades.

    Examples
    --------
    >>> GradeGap().direction(3.0, 1.0, 0.0, 0.0)
    2.0
    """

    @scalar
    def direction(y: float, y_partner: float, _first: float, _second: float) -> float:
        """Return the difference of the grades."""
        return y - y_partner


@COMPARISONS.add("earlier_event")
@dataclass(frozen=True, repr=False)
class EarlierEvent(Comparison):
    """Survival times: the example with the earlier time should be ahead, if it had its event.

    Labels are signed times (`signed_times`): the time of an event, or minus the time at which an
    example was last seen. An example that is censored at the time of an event has outlived it. Two
    events at one time are not compared, nor are two censored examples.

    Parameters
    ----------
    tau : float, optional
        Only events before this time count.
    weighed : bool, default=False
        Whether a pair weighs the time of its earlier example instead of 1. With times that are
        weights which grow with time, such as those of Uno's index, labels give both the order and
        the weights.

    Examples
    --------
    >>> comparison = EarlierEvent()
    >>> comparison.direction(2.0, -5.0, *comparison.parameters)     # event at 2, seen until 5
    1.0
    >>> comparison.direction(-2.0, 5.0, *comparison.parameters)     # seen until 2 only
    0.0
    """

    tau: float | None = None
    weighed: bool = False

    def __post_init__(self) -> None:
        if self.tau is not None and not (isinstance(self.tau, int | float) and self.tau < math.inf):
            raise ValueError(f"tau must be a finite time or None, got {self.tau!r}.")

    @property
    def parameters(self) -> tuple[float, float]:
        """The time before which events count, and whether pairs are weighed."""
        return (math.inf if self.tau is None else float(self.tau), float(self.weighed))

    @property
    def weight_bound(self) -> float:
        """1; of weighed pairs it is not known."""
        return super().weight_bound if self.weighed else 1.0

    @scalar
    def direction(y: float, y_partner: float, tau: float, weighed: float) -> float:
        """Return 1 if the first had its event and the second outlived it, -1 the other way."""
        time, other = abs(y), abs(y_partner)
        # the sign of zero tells an event at time 0 from an example last seen then
        seen = math.copysign(1.0, y) > 0.0
        other_seen = math.copysign(1.0, y_partner) > 0.0
        if seen and time < tau and (time < other or (time == other and not other_seen)):
            return time if weighed > 0.0 else 1.0
        if other_seen and other < tau and (other < time or (other == time and not seen)):
            return -other if weighed > 0.0 else -1.0
        return 0.0


@COMPARISONS.add("first_ahead")
@dataclass(frozen=True, repr=False)
class FirstAhead(Comparison):
    """The first example of each pair should be ahead, whatever the labels.

    For pairs that are given in order (`GivenPairs`, `ListedPairs`): votes, choices, matches.

    Examples
    --------
    >>> FirstAhead().direction(0.0, 0.0, 0.0, 0.0)
    1.0
    """

    symmetric: ClassVar[bool] = False

    @property
    def weight_bound(self) -> float:
        """1."""
        return 1.0

    @scalar
    def direction(_y: float, _y_partner: float, _first: float, _second: float) -> float:
        """Return 1."""
        return 1.0


def signed_times(event: Any, time: Any) -> Vector:
    """Return the labels of `EarlierEvent`: t for an event at t, -t for an example last seen at t.

    Parameters
    ----------
    event : array-like of shape (n,)
        Whether each time is that of an event.
    time : array-like of shape (n,)
        Times, at least 0.

    Returns
    -------
    ndarray of shape (n,)
        Signed times.

    Examples
    --------
    >>> signed_times([True, False], [2.5, 4.0])
    array([ 2.5, -4. ])
    """
    times, seen = np.asarray(time, dtype=np.float64), np.asarray(event, dtype=np.bool_)
    if times.ndim != 1 or times.shape != seen.shape:
        raise ValueError(
            f"signed_times needs one event for each time, got shapes {seen.shape} and "
            f"{times.shape}."
        )
    wrong = times[~((times >= 0.0) & np.isfinite(times))]
    if len(wrong):
        raise ValueError(
            f"times must be finite and at least 0 to carry a sign, got {wrong[0]:g}; add a "
            "constant to all times, which changes no order."
        )
    return np.where(seen, np.abs(times), -np.abs(times))
