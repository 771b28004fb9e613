# SPDX-License-Identifier: BSD-3-Clause
r"""The likelihood of counts, its maximum by Newton's method, and the variance of what it finds.

With scores s, order effect h and effects beta of the covariates x, let

    d = s_a - s_b + h + beta . x,

and let nu = exp(tau) be Davidson's parameter of ties. The probabilities of a win of a, a tie and a
win of b are

    (exp(d/2), nu, exp(-d/2)) / (exp(d/2) + nu + exp(-d/2)),

which without ties (nu = 0) is the model of Bradley and Terry. They are an exponential family in
(d, tau): the logarithm of the likelihood is concave, and its second derivatives do not depend on
the outcomes. The prior subtracts (prior / 8) (sum_i s_i^2 + h^2): a vote between equals has the
information 1/4, so a score is held at the mean as by `prior` votes between equals.

References
----------
R. Bradley and M. Terry, Rank analysis of incomplete block designs, Biometrika 39, 1952.
R. Davidson, On extending the Bradley-Terry model to accommodate ties in paired comparison
experiments, Journal of the American Statistical Association 65, 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components

from pairlearn.estimators.ratings.votes import Votes
from pairlearn.typing import Vector

#: Up to this many players, the matrix of second derivatives is stored whole.
DENSE_PLAYERS = 2000
#: Most players whose matrix is ever made whole: 800 MB.
MOST_WHOLE = 10_000
#: Up to this many right sides are solved without factors of a sparse matrix.
_FEW_SIDES = 16
#: Nobody has seen so many votes that a finite maximum would lie here.
_LARGEST_DIFFERENCE = 50.0
#: A covariate is collinear if this share of its information is its own.
_OWN_SHARE = 1e-10
_MOST_STEPS = 100


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The likelihood of counts with the order of parameters: scores, order, covariates, ties."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    counts: Vector
    extra: Vector
    n_players: int
    has_ties: bool
    has_covariates: bool
    ridge: Vector
    group: NDArray[np.int64] | None
    squares: Vector | None

    @classmethod
    def of(cls, votes: Votes, *, ties: str, home: bool, prior: float) -> Likelihood:
        """Return the likelihood of votes."""
        counts = np.ascontiguousarray(votes.counts.T)
        squares = None if votes.squares is None else votes.squares.T
        if ties == "half":
            wins, equal, losses = counts
            counts = np.stack([wins + 0.5 * equal, np.zeros(len(wins)), losses + 0.5 * equal])
        total = counts.sum(axis=1)
        if total[1] and not total[0] + total[2]:
            raise ValueError(
                "all votes are ties, so that nothing tells the players apart; add votes with a "
                "winner."
            )
        n, n_players = counts.shape[1], len(votes.players)
        columns = [np.ones((n, 1))] if home else []
        if votes.covariates is not None:
            columns.append(votes.covariates)
        extra = np.hstack(columns) if columns else np.empty((n, 0))
        has_ties = bool(total[1])
        ridge = np.zeros(n_players + extra.shape[1] + has_ties)
        ridge[: n_players + home] = prior / 4.0
        return cls(votes.first, votes.second, counts, extra, n_players, has_ties,
                   votes.covariates is not None, ridge, votes.group, squares)  # fmt: skip

    def collapsed(self) -> Likelihood:
        """Return the same likelihood with as few cells as it needs."""
        if self.has_covariates:
            return self
        first, second, counts = self.first, self.second, self.counts
        if not self.n_extra:  # The order does not matter.
            swap = first > second
            counts = np.where(swap, counts[::-1], counts)
            first, second = np.minimum(first, second), np.maximum(first, second)
        known, inverse = np.unique(first * self.n_players + second, return_inverse=True)
        counts = np.stack([np.bincount(inverse, row, minlength=len(known)) for row in counts])
        first, second = np.divmod(known, self.n_players)
        extra = np.ones((len(known), self.n_extra))
        return replace(self, first=first, second=second, counts=counts, extra=extra,
                       group=None, squares=None)  # fmt: skip

    @property
    def n_extra(self) -> int:
        """The number of effects of order and covariates."""
        return int(self.extra.shape[1])

    def differences(self, theta: Vector) -> Vector:
        """Return d of each cell."""
        k = self.n_players
        scores = theta[:k]
        found: Vector = scores[self.first] - scores[self.second]
        if self.n_extra:
            found = found + self.extra @ theta[k : k + self.n_extra]
        return found

    def logs(self, theta: Vector) -> Vector:
        """Return the logarithms of the three probabilities, a row for each outcome."""
        tau = float(theta[-1]) if self.has_ties else -np.inf
        return log_probabilities(self.differences(theta), tau)

    def value(self, theta: Vector, logs: Vector) -> float:
        """Return the logarithm of the likelihood with the prior."""
        inner = sum(float(self.counts[j] @ logs[j]) for j in range(3) if j != 1 or self.has_ties)
        return inner - 0.5 * float(self.ridge @ theta**2)

    def residuals(self, shares: Vector) -> tuple[Vector, Vector]:
        """Return the derivatives of each cell by d and by tau."""
        gap = self.counts - self.counts.sum(axis=0) * shares
        return 0.5 * (gap[0] - gap[2]), gap[1]

    def gradient(self, theta: Vector, shares: Vector) -> Vector:
        """Return the derivatives by the parameters."""
        by_d, by_tau = self.residuals(shares)
        k = self.n_players
        of_scores = np.bincount(self.first, by_d, k) - np.bincount(self.second, by_d, k)
        parts: list[Any] = [of_scores, self.extra.T @ by_d]
        if self.has_ties:
            parts.append(by_tau.sum(keepdims=True))
        found: Vector = np.concatenate(parts) - self.ridge * theta
        return found

    def information(self, shares: Vector, counts: Vector) -> Any:
        """Return the negative second derivatives, for any counts; sparse for many players."""
        total, lead = counts.sum(axis=0), shares[0] - shares[2]
        # The variance of the lead, without a difference of nearly equal numbers.
        by_d = total * (0.25 * (shares[0] + shares[2]) * shares[1] + shares[0] * shares[2])
        k, e = self.n_players, self.n_extra
        border = np.zeros((k, e + self.has_ties))
        corner = np.zeros((e + self.has_ties, e + self.has_ties))
        for j in range(e + self.has_ties):
            column = by_d * self.extra[:, j] if j < e else -0.5 * total * lead * shares[1]
            border[:, j] = np.bincount(self.first, column, k) - np.bincount(self.second, column, k)
            corner[:e, j] = corner[j, :e] = self.extra.T @ column
        if self.has_ties:
            corner[e, e] = (total * shares[1] * (1.0 - shares[1])).sum()
        met = sparse.coo_array((by_d, (self.first, self.second)), shape=(k, k)).tocsr()
        met = met + met.T
        laplacian = sparse.diags_array(np.asarray(met.sum(axis=1)).ravel()) - met
        parts = [[laplacian, sparse.csr_array(border)],
                 [sparse.csr_array(border.T), sparse.csr_array(corner)]]  # fmt: skip
        whole = sparse.block_array(parts) if border.shape[1] else laplacian
        whole = sparse.csr_array(whole + sparse.diags_array(self.ridge))
        return whole.toarray() if k <= DENSE_PLAYERS else whole

    def curvature(self, shares: Vector) -> Curvature:
        """Return the factors of the second derivatives for these probabilities."""
        matrix = self.information(shares, self.counts)
        return Curvature(matrix, self.n_players, is_free=not self.ridge.any())

    def group_scores(self, theta: Vector) -> sparse.csr_array:
        """Return the derivatives of the likelihood of each group, a row for each."""
        assert self.group is not None
        by_d, by_tau = self.residuals(np.exp(self.logs(theta)))
        k, rows = self.n_players, self.group
        entries = [(by_d, self.first), (-by_d, self.second)]
        for j in range(self.n_extra):
            entries.append((by_d * self.extra[:, j], np.full(len(rows), k + j)))
        if self.has_ties:
            entries.append((by_tau, np.full(len(rows), len(theta) - 1)))
        values = np.concatenate([value for value, _ in entries])
        columns = np.concatenate([column for _, column in entries])
        places = (np.tile(rows, len(entries)), columns)
        shape = (int(rows.max()) + 1, len(theta))
        return sparse.coo_array((values, places), shape=shape).tocsr()


def log_probabilities(differences: Vector, tau: float) -> Vector:
    """Return the logarithms of the probabilities of a win, a tie and a loss for each d.

    >>> np.exp(log_probabilities(np.array([0.0]), 0.0)).ravel().round(4).tolist()
    [0.3333, 0.3333, 0.3333]
    """
    half = 0.5 * differences
    norm = np.logaddexp(half, -half)
    if tau > -np.inf:
        norm = np.logaddexp(norm, tau)
    found: Vector = np.stack([half - norm, tau - norm, -half - norm])
    return found


class Curvature:
    """Solves with a matrix of second derivatives, scaled to a diagonal of ones.

    A dense matrix has Cholesky factors. With many players the matrix is sparse, but its factors
    would be nearly full, so conjugate gradients solve for a few right sides, and dense factors are
    made once for many of them.

    Without a prior (`is_free`), second derivatives do not change if all scores rise alike. Adding
    to one entry of the diagonal makes them regular, and changes no solution for a right side that
    sums to zero over the players; conjugate gradients do not need it.
    """

    def __init__(self, matrix: Any, n_players: int, *, is_free: bool) -> None:
        diagonal = matrix.diagonal()
        if not (np.isfinite(diagonal) & (diagonal > 0.0)).all():
            raise _collinear()
        self._n_players, self._is_free = n_players, is_free
        self._scale = 1.0 / np.sqrt(diagonal)
        self._factor: Any = None
        if sparse.issparse(matrix):
            scaling = sparse.diags_array(self._scale)
            self._sparse = sparse.csr_array(scaling @ matrix @ scaling)
        else:
            self._factorise(matrix * self._scale[:, None] * self._scale)

    def _factorise(self, scaled: Vector) -> None:
        if self._is_free:
            scaled[0, 0] += 1.0
        try:
            self._factor = linalg.cho_factor(scaled, lower=True, check_finite=False)
        except linalg.LinAlgError:
            raise _collinear() from None
        own = np.diag(self._factor[0])[self._n_players :] ** 2
        if (own < _OWN_SHARE).any():
            raise _collinear()

    def solve(self, right: Vector) -> Vector:
        """Return the solution for a vector or for columns."""
        scale = self._scale if right.ndim == 1 else self._scale[:, None]
        scaled = scale * right
        many = right.ndim == 2 and right.shape[1] > _FEW_SIDES
        if self._factor is None and many and len(right) <= MOST_WHOLE:
            self._factorise(self._sparse.toarray())
        if self._factor is not None:
            found = linalg.cho_solve(self._factor, scaled, check_finite=False)
        elif right.ndim == 1:
            found = self._descend(scaled)
        else:
            found = np.stack([self._descend(column) for column in scaled.T], axis=1)
        return np.asarray(scale * found)

    def _descend(self, right: Vector) -> Vector:
        from scipy.sparse.linalg import cg

        found, failed = cg(self._sparse, right, rtol=1e-13, atol=0.0)
        if failed:
            raise _collinear()
        return np.asarray(found)


def _collinear() -> ValueError:
    return ValueError(
        "the votes do not determine all effects: a covariate is constant, or a sum of other "
        "covariates, of the order effect or of scores; leave it out."
    )


def maximise(likelihood: Likelihood) -> Vector:
    """Return the parameters of largest likelihood, by Newton's method."""
    is_free = not likelihood.ridge.any()
    k, theta = likelihood.n_players, np.zeros(len(likelihood.ridge))
    if likelihood.has_ties:  # the best value if all players are equal
        wins, ties, losses = likelihood.counts.sum(axis=1)
        theta[-1] = np.log(2.0 * ties / (wins + losses))
    logs = likelihood.logs(theta)
    value = likelihood.value(theta, logs)
    for _ in range(_MOST_STEPS):
        shares = np.exp(logs)
        step = likelihood.curvature(shares).solve(likelihood.gradient(theta, shares))
        size = float(np.abs(likelihood.differences(step)).max())
        size = max(size, float(np.abs(step[-1])) if likelihood.has_ties else 0.0)
        share = 1.0
        while True:
            tried = theta + share * step
            logs = likelihood.logs(tried)
            new = likelihood.value(tried, logs)
            if new >= value - 1e-12 * abs(value) or share < 1e-6:
                break
            share *= 0.5
        theta, value = tried, new
        if is_free:
            theta[:k] -= theta[:k].mean()
        if float(np.abs(likelihood.differences(theta)).max()) > _LARGEST_DIFFERENCE:
            break
        if size * share <= 1e-9:  # a Newton step squares the error
            theta[:k] -= theta[:k].mean()
            return theta
    raise ValueError(
        "the votes determine no finite ratings: an effect of order or of a covariate predicts "
        "every vote; leave it out, or add votes."
    )


def components(votes: Votes, *, strongly: bool) -> tuple[int, NDArray[np.int64]]:
    """Return the number of groups of connected players, and the group of each.

    Strongly connected players have each beaten (or tied with) some other in a chain from any to any
    other one, which is when the likelihood has a finite maximum (Ford, 1957).
    """
    wins, ties, losses = votes.counts.T
    ahead, behind = wins + ties > 0.0, losses + ties > 0.0
    rows = np.concatenate([votes.first[ahead], votes.second[behind]])
    columns = np.concatenate([votes.second[ahead], votes.first[behind]])
    k = len(votes.players)
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(k, k)).tocsr()
    kind = "strong" if strongly else "weak"
    n, labels = connected_components(graph, directed=True, connection=kind)
    return int(n), labels.astype(np.int64)
