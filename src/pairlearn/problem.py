# SPDX-License-Identifier: BSD-3-Clause
"""A pairwise problem: a score and a loss, with the constants that theory needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from pairlearn.losses import PairLoss
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

    Examples
    --------
    >>> from pairlearn.losses import Hinge
    >>> from pairlearn.scores import LinearScore
    >>> Problem(LinearScore(), Hinge()).constants(norm_bound=1.0, radius=5.0)
    Constants(lipschitz=2.0, smoothness=inf, supremum=11.0)
    """

    score: Score
    loss: PairLoss

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
            linear score; for the Mahalanobis score 4 B^2 replaces 2 B.
        """
        pair_norm = self.score.pair_norm_bound(norm_bound)
        margin = pair_norm * radius
        return Constants(
            lipschitz=pair_norm * self.loss.slope_bound(margin),
            smoothness=pair_norm * pair_norm * self.loss.curvature_bound(margin),
            supremum=self.loss.value_bound(margin),
        )
