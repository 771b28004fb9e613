# SPDX-License-Identifier: BSD-3-Clause
"""The constant mu of the Polyak-Lojasiewicz condition, for linear scores on given examples."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.losses import LogLink
from pairlearn.problem import Problem
from pairlearn.scores import LinearScore
from pairlearn.solvers.closed_form.moments import ClassMoments
from pairlearn.solvers.rows import DenseRows
from pairlearn.solvers.two_classes import check_two_classes
from pairlearn.theory.glossary import documented
from pairlearn.typing import Vector
from pairlearn.validation import check_positive, check_vector

#: Rows whose distances are computed at once.
_BLOCK = 512


@documented
def pl_constant(
    problem: Problem,
    X: ArrayLike,
    y: ArrayLike,
    *,
    radius: float,
    direction: ArrayLike | None = None,
) -> float:
    r"""Return a mu > 0 with 2 mu (F_S(w) - min F_S) <= \|grad F_S(w)\|^2 for \|w\| <= radius.

    It is the `pl_constant` of `pl_gap`, `pl_stability` and `pl_excess` for AUC with a linear score;
    the minimum is over the ball. The larger of two proved numbers is returned (derivations, section
    13). M is the radius times the largest distance of opposite examples, so no margin exceeds it.

    1. mu = k lambda: k is the least second derivative of the loss on [-M, M], lambda the smallest
       positive eigenvalue of the mean of v v' over all ordered pairs, v the difference of an
       opposite pair and 0 otherwise. It needs k > 0, which the log-link loss has for M < log 2.
    2. The log-link loss where a unit vector u ranks all opposite pairs right, by gamma or more:
       mu = 8 a gamma^2 (p (1 - p))^3 with p = 1 / (1 + e^M), and a the share of the pairs that the
       loss counts.

    Parameters
    ----------
    problem : Problem
        A linear score and a loss of margins.
    X : array of shape (n, d)
        Examples.
    y : array of shape (n,)
        Labels, -1 and 1.
    radius : float
        Radius of the ball.
    direction : array of shape (d,), optional
        The vector u of 2, of any length; the minimiser of the square loss by default.

    Returns
    -------
    float
        mu. It falls exponentially with M, so scale the features and take a small ball.

    Notes
    -----
    The bounds are for steps without projection whose iterates stay in the ball; a run with
    `Ball(radius)` that never reaches the sphere is such a run. Eigenvalues below the rounding error
    of the largest count as zero.

    Examples
    --------
    >>> from pairlearn.losses import Logistic
    >>> X, y = [[0.5, 0.0], [-0.5, 0.0], [0.0, 0.5]], [1, -1, -1]
    >>> round(pl_constant(Problem(LinearScore(), Logistic()), X, y, radius=1.0), 4)
    0.0125
    >>> round(pl_constant(Problem(LinearScore(), LogLink()), X, y, radius=1.0), 4)
    0.0203
    """
    loss = problem.loss
    if type(problem.score) is not LinearScore or loss.kind != "margin":
        raise ValueError(
            f"pl_constant is for a linear score and a loss of margins, got {problem!r}."
        )
    problem.check_by_labels("pl_constant")
    check_positive("radius", radius)
    if direction is not None and not isinstance(loss, LogLink):
        raise ValueError(f"direction is for the log-link loss, got {loss!r}; leave it out.")
    rows, labels = check_two_classes(X, y)
    if not isinstance(rows, DenseRows):
        raise ValueError("pl_constant needs dense rows; pass X.toarray().")
    points = np.asarray(rows.X, dtype=np.float64)
    n, n_positive = len(labels), int(np.count_nonzero(labels > 0))
    share = n_positive * (n - n_positive) / (n * (n - 1.0)) * (1.0 if loss.one_sided else 2.0)
    margin = radius * _largest_distance(points[labels > 0], points[labels < 0])
    moments = ClassMoments(points.shape[1]).add(DenseRows(points), labels)
    values = np.linalg.eigvalsh(moments.pair_scatter)
    positive = values[values > values[-1] * len(values) * np.finfo(np.float64).eps]
    found = [loss.curvature_floor(margin) * share * float(positive[0]) if len(positive) else 0.0]
    if isinstance(loss, LogLink):
        if direction is None:
            u = moments.solve(ridge=1e-9 * float(np.trace(moments.pair_scatter)))
        else:
            u = check_vector("direction", direction, points.shape[1])
        found.append(_when_ranked(points, labels, u, margin, share))
    best = max(found)
    if not best > 0.0:
        why = f"{type(loss).__name__} has no positive curvature on margins up to {margin:.3g}"
        if isinstance(loss, LogLink):
            limit = radius * math.log(2.0) / margin if margin > 0.0 else math.inf
            why += f" (its limit is log 2: a radius below {limit:.3g}), and the direction does not "
            why += "rank all pairs right"
        raise ValueError(f"no PL constant is proved here: {why}; take a smaller radius.")
    return best


def _largest_distance(positive: Vector, negative: Vector) -> float:
    """Return (a bound within rounding on) the largest distance of two opposite examples."""
    centre = positive.mean(axis=0)
    positive, negative = positive - centre, negative - centre
    squares = np.einsum("nd,nd->n", negative, negative)
    largest = 0.0
    for begin in range(0, len(positive), _BLOCK):
        block = positive[begin : begin + _BLOCK]
        far = np.einsum("nd,nd->n", block, block)[:, None] + squares - 2.0 * block @ negative.T
        largest = max(largest, float(far.max()))
    return math.sqrt(largest) * (1.0 + 1e-9)


def _when_ranked(points: Vector, labels: Vector, u: Vector, margin: float, share: float) -> float:
    """Return the second constant of `pl_constant`; 0 unless u ranks all pairs right."""
    length = float(np.linalg.norm(u))
    if not length > 0.0:
        return 0.0
    scores = points @ (u / length)
    gamma = float(scores[labels > 0].min() - scores[labels < 0].max()) * (1.0 - 1e-9)
    if not gamma > 0.0:
        return 0.0
    p = 1.0 / (1.0 + math.exp(min(margin, 700.0)))
    return 8.0 * share * gamma**2 * (p * (1.0 - p)) ** 3
