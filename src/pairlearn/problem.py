# SPDX-License-Identifier: BSD-3-Clause
"""A pairwise problem: a score, a loss and a comparison, with the constants that theory needs."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import NamedTuple

from pairlearn.comparisons import Comparison, OppositeLabels
from pairlearn.losses import GapWeighted, PairLoss
from pairlearn.scalars import ComparedScalar, Scalar
from pairlearn.scores import Score

__all__ = ["Constants", "Problem"]


class Constants(NamedTuple):
    """Constants of f(.; z, z') over a ball, for examples of bounded norm."""

    #: G, a bound on the norm of the gradient.
    lipschitz: float
    #: L, a Lipschitz constant of the gradient (infinite for a loss with a kink).
    smoothness: float
    #: A bound on the loss itself.
    supremum: float


@dataclass(frozen=True)
class Problem:
    r"""The pair loss f(w; z, z') = l(h_w(x) - h_w(x'); y, y').

    Parameters
    ----------
    score : LinearScore or MahalanobisScore
        The score of a pair.
    loss : PairLoss
        The loss of a pair.
    comparison : Comparison, default=OppositeLabels()
        Which pairs count and who should be ahead (`pairlearn.comparisons`), for losses of a margin.

    Examples
    --------
    >>> from pairlearn.losses import Hinge
    >>> from pairlearn.scores import LinearScore
    >>> Problem(LinearScore(), Hinge()).constants(norm_bound=1.0, radius=5.0)
    Constants(lipschitz=2.0, smoothness=inf, supremum=11.0)
    """

    score: Score
    loss: PairLoss
    comparison: Comparison = field(default_factory=OppositeLabels)

    def __post_init__(self) -> None:
        if not isinstance(self.comparison, Comparison):
            raise TypeError(
                f"comparison must be a Comparison (an instance), got {self.comparison!r}; see "
                "pairlearn.comparisons."
            )
        if self.by_labels:
            return
        if self.loss.kind != "margin" or not self.loss.opposite_labels_only:
            raise ValueError(
                f"{self.comparison!r} says who should be ahead, which {self.loss!r} does not ask; "
                "use a loss of a margin, such as Hinge()."
            )
        if isinstance(self.loss, GapWeighted):
            raise ValueError(
                f"{self.loss!r} weighs a pair by its labels, which {self.comparison!r} replaces; "
                f"use {self.loss.base!r} with a comparison whose directions are the weights, such "
                "as GradeGap()."
            )

    @property
    def by_labels(self) -> bool:
        """Whether the labels are compared as losses do by themselves."""
        return type(self.comparison) is OppositeLabels

    def check_by_labels(self, owner: str) -> None:
        """Refuse a comparison other than that of labels, for what is about AUC only."""
        if not self.by_labels:
            raise ValueError(
                f"{owner} is about pairs of opposite labels, got {self.comparison!r}; leave out "
                "the comparison."
            )

    @property
    def value(self) -> Scalar:
        """The cost of a pair by its score and its labels."""
        return self.loss.value if self.by_labels else self._compared(self.loss.value)

    @property
    def derivative(self) -> Scalar:
        """The derivative of `value` by the score."""
        return self.loss.derivative if self.by_labels else self._compared(self.loss.derivative)

    def _compared(self, inner: Scalar) -> Scalar:
        first, second = self.comparison.parameters
        return _joined(self.comparison.direction, first, second, inner, self.loss.one_sided)

    def counts(self, y: float, y_partner: float) -> bool:
        """Return whether a pair of these labels counts."""
        if self.by_labels and not self.loss.opposite_labels_only:
            return True
        ahead = self.comparison.direction(y, y_partner, *self.comparison.parameters)
        return ahead > 0.0 if self.loss.one_sided else ahead != 0.0

    def constants(self, *, norm_bound: float, radius: float = math.inf) -> Constants:
        r"""Return G, L and sup f for \|x\| <= norm_bound and \|w\| <= radius.

        Parameters
        ----------
        norm_bound : float
            A public bound B on the norm of an example.
        radius : float, default=inf
            The radius R of the ball that w lives in. Margins are then at most 2 B R.

        Returns
        -------
        Constants
            Lipschitz constant 2 B sup \|l'\|, smoothness 4 B^2 sup \|l''\| and sup l for the
            linear score; for the Mahalanobis score 4 B^2 replaces 2 B. All are multiplied by the
            largest weight that the comparison gives to a pair.
        """
        pair_norm = self.score.pair_norm_bound(norm_bound)
        margin, weight = pair_norm * radius, self.comparison.weight_bound
        return Constants(
            lipschitz=weight * pair_norm * self.loss.slope_bound(margin),
            smoothness=weight * pair_norm * pair_norm * self.loss.curvature_bound(margin),
            supremum=weight * self.loss.value_bound(margin),
        )


@functools.lru_cache(maxsize=256)
def _joined(
    direction: Scalar, first: float, second: float, inner: Scalar, one_sided: bool
) -> Scalar:
    return ComparedScalar(direction, first, second, inner, one_sided)
