# SPDX-License-Identifier: BSD-3-Clause
"""The base class of pair losses: two scalar functions of a score and two labels, and bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pairlearn.register import Part, Register
from pairlearn.scalars import Scalar
from pairlearn.typing import Vector
from pairlearn.validation import check_flag

#: What was known of scalar functions, and is forgotten where a subclass replaces them.
_FACTS = ("never_increases", "falls", "by_moments", "sums")


@dataclass(frozen=True)
class PairLoss(Part):
    r"""Base class of pair losses.

    Parameters
    ----------
    one_sided : bool, default=False
        Whether only pairs whose first example has the larger label count (the paper's indicator 1[y
        = 1, y' = -1]). By default a pair counts in either order.

    Notes
    -----
    A subclass defines two functions decorated with `scalar`, `value` and `derivative` (with respect
    to the score), each of ``(score, y, y_partner, parameter)``. It may define `slope_bound`,
    `curvature_bound` and `value_bound`, the suprema of \|l'\|, \|l''\| and l over \|m\| <= M, from
    which `Problem` derives Lipschitz and smoothness constants. One that is not convex says so by
    ``convex = False``; `check_loss` finds out. A function of the margin alone may
    also define `values` and `slopes` in NumPy, which make metrics faster. If it also
    defines `sums`, nothing visits all pairs any more.

    Examples
    --------
    >>> from pairlearn import scalar
    >>> class Linear(PairLoss):
    ...     @scalar
    ...     def value(score, y, y_partner, _):
    ...         return -score if y > y_partner else score
    ...
    ...     @scalar
    ...     def derivative(score, y, y_partner, _):
    ...         return -1.0 if y > y_partner else 1.0
    >>> Linear().value(0.25, 1.0, -1.0)
    -0.25
    """

    one_sided: bool = field(default=False, kw_only=True)

    #: The meaning of the score: a "margin", a squared "distance" (metric learning), or the
    #: "difference" of two predictions (error entropy).
    kind: ClassVar[str] = "margin"
    #: Whether a pair of equal labels costs nothing, whatever the score.
    opposite_labels_only: ClassVar[bool] = True
    #: Whether the loss is convex in the score.
    convex: ClassVar[bool] = True
    #: Whether the loss surely never increases with the margin, so that its slopes have one sign.
    never_increases: ClassVar[bool] = False
    #: Whether the loss is (`parameter` - m)^2, whose minimum follows from the class moments.
    by_moments: ClassVar[bool] = False

    value: ClassVar[Scalar]
    derivative: ClassVar[Scalar]

    def __post_init__(self) -> None:
        check_flag("one_sided", self.one_sided)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # New scalar functions must not inherit the array form of those that they replace.
        for one, many in (("value", "values"), ("derivative", "slopes")):
            if one in vars(cls) and many not in vars(cls):
                setattr(cls, many, getattr(PairLoss, many))
        # Nor what was known of them: a promise of privacy may rest on that.
        if "value" in vars(cls) or "derivative" in vars(cls):
            for fact in _FACTS:
                if fact not in vars(cls):
                    setattr(cls, fact, getattr(PairLoss, fact))

    @property
    def parameter(self) -> float:
        """The number that `value` and `derivative` get as their fourth argument."""
        return 0.0

    def values(self, margins: Vector) -> Vector:
        """Return l(m) for an array of margins: the array form of `value`."""
        return self.value.many(margins, 1.0, -1.0, self.parameter)

    def slopes(self, margins: Vector) -> Vector:
        """Return l'(m) for an array of margins: the array form of `derivative`."""
        return self.derivative.many(margins, 1.0, -1.0, self.parameter)

    @property
    def has_array_form(self) -> bool:
        """Whether `values` and `slopes` are defined, for a function of the margin alone."""
        own, base = type(self), PairLoss
        return own.values is not base.values and own.slopes is not base.slopes

    def falls(self, margin_bound: float = math.inf) -> bool:
        """Return whether the loss never increases over margins of at most `margin_bound`."""
        return self.never_increases

    @property
    def by_sorting(self) -> bool:
        """Whether the loss defines `sums`: it is summed over all pairs without visiting each."""
        return type(self).sums is not PairLoss.sums

    def sums(self, p: Vector, q: Vector, b: Vector) -> tuple[Vector, Vector]:
        """Return sum_j b_j l(p_i - q_j) and sum_j b_j l'(p_i - q_j) for each i, in O(n log n)."""
        raise ValueError(self._unknown("sums", "p, q, b"))

    def slope_bound(self, margin_bound: float) -> float:
        """Supremum of the absolute derivative over margins of at most `margin_bound`."""
        raise ValueError(self._unknown("slope_bound"))

    def curvature_bound(self, margin_bound: float) -> float:
        """Supremum of the absolute second derivative (infinite where there is a kink)."""
        raise ValueError(self._unknown("curvature_bound"))

    def curvature_floor(self, margin_bound: float) -> float:
        """Return a lower bound of the second derivative: 0 or more for a convex loss."""
        return 0.0 if self.convex else -self.curvature_bound(margin_bound)

    def value_bound(self, margin_bound: float) -> float:
        """Supremum of the loss over margins of at most `margin_bound`."""
        raise ValueError(self._unknown("value_bound"))

    def _unknown(self, method: str, takes: str = "margin_bound") -> str:
        name = type(self).__name__
        return f"{name} does not state its {method}; define {name}.{method}({takes})."


#: Losses of a margin, for AUC and ranking.
LOSSES: Register[PairLoss] = Register("loss", PairLoss, kind="margin")
#: Losses of a squared distance, for metric learning.
METRIC_LOSSES: Register[PairLoss] = Register("metric loss", PairLoss, kind="distance")
#: Losses of the difference of two errors, for entropy regression.
WINDOWS: Register[PairLoss] = Register("window", PairLoss, kind="difference")
