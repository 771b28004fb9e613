# SPDX-License-Identifier: BSD-3-Clause
r"""How sure ratings are: variances, ranks, and which vote would tell most.

With H the negative second derivatives at the maximum, the covariance of the parameters is
H^-1 J H^-1. J is the covariance of the derivatives of the likelihood:

- without groups it is H itself, or with discounted votes the information of squared discounts;
- with groups (judges, users) it is G / (G - 1) times the sum over the G groups of the outer product
  of the derivatives of a group, which holds whatever the votes of one group have in common. Limits
  then come from Student's distribution with G - 1 degrees of freedom.

- with the noise of private counts it is H plus the covariance of that noise.

The prior is part of H and J: what only the prior determines has the variance of the prior.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pairlearn.estimators.ratings.likelihood import Likelihood
from pairlearn.metrics.limits import student_quantile
from pairlearn.typing import Vector

#: Right sides that are solved at a time.
_BLOCK = 256


class Uncertainty:
    """The covariance of fitted parameters."""

    def __init__(
        self, likelihood: Likelihood, theta: Vector, further: Vector | None = None
    ) -> None:
        self._ridge = likelihood.ridge
        self._n_players = likelihood.n_players
        self._curvature = likelihood.collapsed().curvature(theta)
        self._scores = self._middle = None
        self.degrees = math.inf
        if likelihood.group is not None:
            self._scores = likelihood.group_scores(theta)
            n_groups = self._scores.shape[0]
            if n_groups < 2:
                raise ValueError(
                    "all votes are of one group, which tells nothing about the differences "
                    "between groups; fit without groups, or add votes of others."
                )
            self.degrees = n_groups - 1.0
        elif likelihood.squares is not None:
            shares = np.exp(likelihood.logs(theta))
            self._middle = likelihood.information(shares, likelihood.squares)
        elif further is not None:
            shares = np.exp(likelihood.logs(theta))
            self._middle = likelihood.information(shares, likelihood.counts) + further

    def _products(self, right: Vector) -> tuple[Vector, Vector]:
        """Return two factors: the covariance of R'theta is the first transposed times the other."""
        solved = self._curvature.solve(right)
        if self._scores is not None:
            factor = math.sqrt((self.degrees + 1.0) / self.degrees)
            by_group = factor * (self._scores @ solved)
            whole = np.vstack([by_group, np.sqrt(self._ridge)[:, None] * solved])
            return whole, whole
        if self._middle is not None:
            return solved, np.asarray(self._middle @ solved)
        return right, solved

    def covariance(self, right: Vector) -> Vector:
        """Return the covariance of the combinations whose weights are the columns."""
        left, solved = self._products(right)
        found = left.T @ solved
        return np.asarray(0.5 * (found + found.T))

    def variances(self, right: Vector) -> Vector:
        """Return the variances of the combinations whose weights are the columns."""
        left, solved = self._products(right)
        found: Vector = np.einsum("ij,ij->j", left, solved)
        return np.maximum(found, 0.0)

    def _centred(self, columns: NDArray[np.int64]) -> Vector:
        """Return the weights of the scores, as differences to the mean score."""
        right = np.zeros((len(self._ridge), len(columns)))
        right[: self._n_players] = -1.0 / self._n_players
        right[columns, np.arange(len(columns))] += 1.0
        return right

    def of_scores(self) -> Vector:
        """Return the covariance of the scores, whose mean is zero."""
        return self.covariance(self._centred(np.arange(self._n_players)))

    def variances_of_scores(self) -> Vector:
        """Return the variances of the scores, some at a time."""
        blocks = np.split(np.arange(self._n_players), range(_BLOCK, self._n_players, _BLOCK))
        return np.concatenate([self.variances(self._centred(block)) for block in blocks])

    def limit(self, confidence: float) -> float:
        """Return how many standard errors lie on each side of an estimate."""
        return student_quantile(0.5 + 0.5 * confidence, self.degrees)

    def tail(self, z: Vector | float) -> Vector:
        """Return the probability of a value above z standard errors."""
        if math.isinf(self.degrees):
            return np.asarray(special.ndtr(-np.asarray(z)))
        return np.asarray(special.stdtr(self.degrees, -np.asarray(z)))


def rank_limits(
    scores: Vector, covariance: Vector, uncertainty: Uncertainty, confidence: float
) -> NDArray[np.int64]:
    """Return the best and the worst possible rank of each player, a row for each.

    For each ordered pair the hypothesis s_i <= s_j is tested on one side, and Holm's method rejects
    some of the k (k - 1) hypotheses: with probability `confidence` none of those is true. The rank
    of i is then at least 1 plus the number of players above i, and at most k minus the number below
    i, for all players at once.
    """
    k = len(scores)
    variance = np.diag(covariance)[:, None] + np.diag(covariance) - 2.0 * covariance
    gaps = scores[:, None] - scores
    with np.errstate(divide="ignore", invalid="ignore"):
        z = gaps / np.sqrt(np.maximum(variance, 0.0))
    z[np.isnan(z)] = 0.0
    np.fill_diagonal(z, -np.inf)
    order = np.argsort(-z, axis=None, kind="stable")[: k * (k - 1) // 2]
    tails = uncertainty.tail(z.ravel()[order])
    allowed = (1.0 - confidence) / (k * (k - 1) - np.arange(len(order)))
    failed = np.flatnonzero(tails > allowed)
    n_rejected = int(failed[0]) if len(failed) else len(order)
    above = np.zeros((k, k), dtype=np.bool_)
    above.ravel()[order[:n_rejected]] = True
    return np.stack([1 + above.sum(axis=0), k - above.sum(axis=1)], axis=1)


def most_informative(
    covariance: Vector, differences: Vector, tie: float, n: int
) -> list[tuple[int, int]]:
    """Return the pairs whose votes most reduce the summed variance of the scores, one by one.

    A vote between i and j has information q for s_i - s_j. With u = e_i - e_j it changes the
    covariance V to V - q V u u'V / (1 + q u'V u), so the trace falls by
    q |V u|^2 / (1 + q u'V u). The next pair is chosen as if the vote had been cast.
    """
    half = 0.5 * differences
    top = np.exp(half - np.abs(half)), np.exp(-half - np.abs(half)), tie * np.exp(-np.abs(half))
    total = top[0] + top[1] + top[2]
    win, loss = top[0] / total, top[1] / total
    information = 0.25 * (win + loss) * top[2] / total + win * loss
    V = covariance.copy()
    square = V @ V
    k, chosen = len(V), []
    for _ in range(n):
        spread = np.diag(V)[:, None] + np.diag(V) - 2.0 * V
        length = np.diag(square)[:, None] + np.diag(square) - 2.0 * square
        gain = information * length / (1.0 + information * spread)
        gain[np.tril_indices(k)] = -np.inf
        i, j = divmod(int(np.argmax(gain)), k)
        chosen.append((i, j))
        w = V[:, i] - V[:, j]
        share = information[i, j] / (1.0 + information[i, j] * (w[i] - w[j]))
        image = V @ w
        V -= share * np.outer(w, w)
        cross = np.outer(image, w)
        square += share**2 * float(w @ w) * np.outer(w, w) - share * (cross + cross.T)
    return chosen
