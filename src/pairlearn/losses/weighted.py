# SPDX-License-Identifier: BSD-3-Clause
"""A loss that weighs a pair by the difference of its grades."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from pairlearn.losses.base import LOSSES, PairLoss
from pairlearn.losses.margin import Hinge
from pairlearn.scalars import GapScalar, Scalar


@functools.lru_cache(maxsize=256)
def _weighted(inner: Scalar) -> GapScalar:
    return GapScalar(inner)


@LOSSES.add()
@dataclass(frozen=True)
class GapWeighted(PairLoss):
    r"""Another loss times \|y - y'\|, the difference of the labels of a pair.

    Parameters
    ----------
    base : PairLoss, default=Hinge()
        The loss to be weighted.
    one_sided : bool, default=False
        Ignored: the value of the base counts.

    Examples
    --------
    >>> loss = GapWeighted(base=Hinge())
    >>> loss.value(0.0, 3.0, 1.0, loss.parameter)
    2.0
    """

    base: PairLoss = field(default_factory=Hinge)

    def __post_init__(self) -> None:
        if not isinstance(self.base, PairLoss):
            raise TypeError(f"base must be a PairLoss, such as Hinge(), got {self.base!r}.")
        object.__setattr__(self, "one_sided", self.base.one_sided)

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The kind of the base."""
        return self.base.kind

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Whether the base is convex."""
        return self.base.convex

    @property
    def value(self) -> Scalar:  # type: ignore[override]
        """The weighted value."""
        return _weighted(self.base.value)

    @property
    def derivative(self) -> Scalar:  # type: ignore[override]
        """The weighted derivative."""
        return _weighted(self.base.derivative)

    @property
    def parameter(self) -> float:
        """The parameter of the base."""
        return self.base.parameter
