# SPDX-License-Identifier: BSD-3-Clause
r"""Fisher's linear discriminant with a shrunken covariance.

The direction is C^{-1} (mean of the positives - mean of the negatives), with

    C = (1 - a) S + a (tr S / d) I,

S the covariance within the classes and a the share that minimises the expected error of C (Ledoit
and Wolf, *A well-conditioned estimator for large-dimensional covariance matrices*, 2004). Every
example has the same weight in S, so a rare class contributes little. A pair loss instead estimates
the spread from a handful of positives.
"""

from __future__ import annotations

import numpy as np

from pairlearn.solvers.rows import DenseRows
from pairlearn.typing import Vector

#: With fewer examples of the rarer class a default tries the discriminant.
FISHER_BELOW = 300


def fisher_direction(rows: DenseRows, y: Vector, weight: Vector | None = None) -> Vector:
    """Return the direction; zero for columns that do not vary within the classes.

    Labels are -1 and +1, both present. A factor of the weights of all examples of a class changes
    nothing.
    """
    share = np.ones(len(y)) if weight is None else weight.copy()
    Z = rows.X.astype(np.float64)
    rounding = 1e-20 * (Z**2).max(axis=0)
    means = []
    for sign in (-1.0, 1.0):
        members = y == sign
        share[members] /= share[members].sum()
        means.append(share[members] @ Z[members])
        Z[members] -= means[-1]
        share[members] *= np.count_nonzero(members) / len(y)
    covariance = (share[:, None] * Z).T @ Z
    varies = np.flatnonzero(np.diag(covariance) > rounding)
    found = np.zeros(rows.shape[1])
    if len(varies) == 0:
        return found
    Z, S = Z[:, varies], covariance[np.ix_(varies, varies)]
    d = len(varies)
    level = float(np.trace(S)) / d
    square = float((S * S).sum())
    norms = np.einsum("ij,ij->i", Z, Z)
    # The squared error of S, sum of p_i^2 |z_i z_i' - S|^2, and its squared distance to level I.
    error = float(share**2 @ (norms**2 - 2.0 * np.einsum("ij,ij->i", Z @ S, Z) + square))
    distance = square - d * level**2
    a = max(error, 0.0) / distance if distance > max(error, 0.0) else 1.0
    shrunken = (1.0 - a) * S
    shrunken[np.diag_indices(d)] += (a + 1e-10) * level
    found[varies] = np.linalg.solve(shrunken, (means[1] - means[0])[varies])
    return found


def with_fisher(
    w: Vector, share: float, rows: DenseRows, y: Vector, weight: Vector | None = None
) -> Vector:
    """Return (1 - share) w + share f, f Fisher's discriminant with scores as spread as those of w.

    The spread of scores is measured over the rows. Where w is zero, the result is zero too.
    """
    f = fisher_direction(rows, y, weight)
    spread, of_f = (float(np.std(rows.scores(one))) for one in (w, f))
    if spread == 0.0 or of_f == 0.0:
        return w
    return np.asarray((1.0 - share) * w + (share * spread / of_f) * f)
