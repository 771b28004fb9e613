# SPDX-License-Identifier: BSD-3-Clause
r"""The weights of a stack: non-negative, pulled towards equal ones, and best over all pairs.

Column k of Z holds the held-out scores of member k, in units of that member. The weights minimise

.. math:: \frac{1}{n_+ n_-} \sum_{i \in +,\, j \in -}
          \left(1 - \langle w, z_i - z_j \rangle\right)_+^2
          + \rho \, \lVert w - s \mathbf 1 \rVert^2, \qquad w \ge 0,

where s is the best common weight: the minimiser of the first term on the line w = s 1. So few
examples give nearly equal weights, and many give the weights that the data want. The pull
:math:`\rho` is a number of examples over the number of examples of the rarer class: the risk is a
mean whose error is that of the rarer class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pairlearn.losses import SquaredHinge
from pairlearn.metrics.delong import AUCInterval, compare_auc, mean_auc_interval, roc_auc_interval
from pairlearn.solvers.exact.batch import ScoreLoss, pair_mean
from pairlearn.typing import Mask, Places, Vector


def stack_weights(Z: Vector, positive: Mask, weight: Vector, *, pull: float) -> Vector:
    """Return one weight for each column of `Z`; they are not negative and add up to 1.

    A pair weighs the product of the weights of its rows; `pull` is a number of examples. A member
    whose held-out scores do not vary gets no weight. If no member orders the pairs better than
    chance, the weights are equal.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> positive = rng.random(400) < 0.5
    >>> good, noise = positive + 0.5 * rng.normal(size=400), rng.normal(size=400)
    >>> w = stack_weights(np.column_stack([good, noise]), positive, np.ones(400), pull=1.0)
    >>> bool(w[0] > 0.9), round(float(w.sum()), 12)
    (True, 1.0)
    """
    varies = Z.max(axis=0) > Z.min(axis=0)
    if not varies.all():
        found = np.zeros(len(varies))
        if varies.any():
            found[varies] = stack_weights(Z[:, varies], positive, weight, pull=pull)
        return found if varies.any() else found + 1.0 / len(varies)
    m = Z.shape[1]
    risk = pair_mean(SquaredHinge(), positive, weight)
    common = _minimise(risk, Z.sum(axis=1)[:, None], np.zeros(1), np.ones(1) / m, 0.0)
    equal = np.full(m, common[0])
    # Numbers of equal weights that vary as much as these.
    sizes = [
        float(own.sum()) ** 2 / float(own @ own) for own in (weight[positive], weight[~positive])
    ]
    found = _minimise(risk, Z, equal, equal, pull / min(sizes))
    total = float(found.sum())
    return found / total if total > 0.0 else np.full(m, 1.0 / m)


def _minimise(risk: ScoreLoss, Z: Vector, centre: Vector, start: Vector, ridge: float) -> Vector:
    """Return the non-negative minimiser of the risk plus a ridge around a centre."""
    from scipy.optimize import minimize

    def objective(w: Vector) -> tuple[float, Vector]:
        value, slopes = risk(Z @ w)
        away = w - centre
        return value + ridge * float(away @ away), slopes @ Z + 2.0 * ridge * away

    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(start),
        options={"ftol": 1e-12, "gtol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    return np.asarray(found.x)


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of the same examples by several models by name, each of which had not seen them.

    Scores of two folds come from two models, so they are never compared.
    """

    positive: Mask
    folds: Sequence[Places]
    scores: Mapping[str, Vector]

    def intervals(self) -> dict[str, AUCInterval]:
        """Return the mean AUC over the folds of each model, with its interval."""
        sizes = [np.count_nonzero(self.positive[held]) for held in self.folds]
        fewest = min(min(k, len(held) - k) for k, held in zip(sizes, self.folds, strict=True))
        if fewest < 2:  # A fold with a single positive has no standard error.
            return {name: roc_auc_interval(self.positive, s) for name, s in self.scores.items()}
        return {
            name: mean_auc_interval(
                [roc_auc_interval(self.positive[held], s[held]) for held in self.folds]
            )
            for name, s in self.scores.items()
        }

    def error_of_difference(self, one: str, other: str) -> float:
        """Return the standard error of the difference of two AUCs; infinite if it is not known.

        It is DeLong's in each fold; folds hold different examples, so their variances add up.
        """
        a, b = self.scores[one], self.scores[other]
        errors = [
            compare_auc(self.positive[held], a[held], b[held]).standard_error for held in self.folds
        ]
        found = math.sqrt(math.fsum(error**2 for error in errors)) / len(errors)
        return found if np.isfinite(found) else math.inf
