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

import numpy as np

from pairlearn.losses import SquaredHinge
from pairlearn.solvers.exact.batch import ScoreLoss, pair_mean
from pairlearn.typing import Mask, Vector

#: L-BFGS-B stops when an iteration lowers the objective by less than this share.
_TOLERANCE = 1e-12


def stack_weights(Z: Vector, positive: Mask, weight: Vector, *, pull: float) -> Vector:
    """Return one weight for each column of `Z`; they are not negative and add up to 1.

    Parameters
    ----------
    Z : ndarray of shape (n, n_members)
        Held-out scores of the members, in comparable units.
    positive : ndarray of shape (n,)
        Which rows are positive; both classes are present.
    weight : ndarray of shape (n,)
        Weights of the rows; a pair weighs the product of both.
    pull : float
        The strength of the pull towards equal weights, as a number of examples.

    Returns
    -------
    ndarray of shape (n_members,)
        The weights. A member whose held-out scores do not vary gets none: nothing is known about
        it. If no member orders the pairs better than chance, the weights are equal.

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
    rarer = min(_effective(weight[positive]), _effective(weight[~positive]))
    found = _minimise(risk, Z, equal, equal, pull / rarer)
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
        options={"ftol": _TOLERANCE, "gtol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    return np.asarray(found.x)


def _effective(weight: Vector) -> float:
    """Return the number of equal weights that vary as much as these."""
    return float(weight.sum()) ** 2 / float(weight @ weight)
