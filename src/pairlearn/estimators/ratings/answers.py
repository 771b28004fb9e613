# SPDX-License-Identifier: BSD-3-Clause
r"""What fitted ratings answer: how sure the scores are, who is better, which votes to ask for.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.ratings.likelihood import MOST_WHOLE, Likelihood, log_probabilities
from pairlearn.metrics.limits import student_quantile
from pairlearn.metrics.metric import Comparison, Interval
from pairlearn.register import nearest
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_flag, check_fraction

#: Right sides that are solved at a time.
_BLOCK = 256


class Uncertainty:
    """The covariance of fitted parameters."""

    def __init__(
        self, likelihood: Likelihood, theta: Vector, further: Vector | None = None
    ) -> None:
        self._ridge = likelihood.ridge
        self._n_players = likelihood.n_players
        collapsed, shares = likelihood.collapsed(), np.exp(likelihood.logs(theta))
        self._curvature = collapsed.curvature(np.exp(collapsed.logs(theta)))
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
            self._middle = likelihood.information(shares, likelihood.squares)
        elif further is not None:
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
        left, solved = self._products(self._centred(np.arange(self._n_players)))
        found = left.T @ solved
        return np.asarray(0.5 * (found + found.T))

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


class RatedVotes:
    """The answers of ratings that were fitted to votes."""

    home: bool
    players_: NDArray[Any]
    scores_: Vector
    home_: float
    tie_: float
    covariate_effects_: Vector
    _found: tuple[Likelihood, Vector]
    _sure: Uncertainty | None
    #: The covariance of the derivatives of the likelihood beyond that of independent votes.
    _further: Vector | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: factors of a matrix are made again where they are needed."""
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore[call-overload]
        return {**state, "_sure": None} if "_sure" in state else state

    def _uncertainty(self) -> Uncertainty:
        check_is_fitted(self, "scores_")
        if self._sure is None:
            self._sure = Uncertainty(*self._found, self._further)
        return self._sure

    @property
    def covariance_(self) -> Vector:
        """The covariance of the scores, robust to dependent votes if they have groups."""
        sure = self._uncertainty()
        k = len(self.players_)
        if k > MOST_WHOLE:
            raise ValueError(
                f"the covariance of {k} players would take {8e-9 * k * k:.1f} GB (at most "
                f"{MOST_WHOLE} players); use intervals() and compare(a, b), which do not need it."
            )
        return sure.of_scores()

    def intervals(self, confidence: float = 0.95) -> dict[Any, Interval]:
        """Return the score of each player with Wald's interval by itself, the best player first."""
        confidence = check_fraction("confidence", confidence)
        sure = self._uncertainty()
        errors = np.sqrt(sure.variances_of_scores())
        limit, names = sure.limit(confidence), self.players_.tolist()
        return {
            names[k]: _interval(float(self.scores_[k]), float(errors[k]), limit, confidence)
            for k in self._order()
        }

    def effects(self, confidence: float = 0.95) -> dict[str, Interval]:
        """Return intervals of ``home``, ``covariate 0`` and so on, and ``tie``, as there are."""
        confidence = check_fraction("confidence", confidence)
        sure = self._uncertainty()
        theta, k = self._found[1], len(self.players_)
        names = ["home"] if self.home else []
        names += [f"covariate {j}" for j in range(len(self.covariate_effects_))]
        names += ["tie"] if self.tie_ else []
        right = np.zeros((len(theta), len(names)))
        right[np.arange(k, len(theta)), np.arange(len(names))] = 1.0
        errors, limit = np.sqrt(sure.variances(right)), sure.limit(confidence)
        found = {
            name: _interval(float(theta[k + j]), float(errors[j]), limit, confidence)
            for j, name in enumerate(names)
        }
        if "tie" in found:
            log, nu = found["tie"], self.tie_
            low, high = float(np.exp(log.low)), float(np.exp(log.high))
            found["tie"] = Interval(nu, low, high, nu * log.standard_error, confidence)
        return found

    def compare(self, a: Any, b: Any, *, confidence: float = 0.95) -> Comparison:
        """Compare two players chosen before the votes were seen.

        Parameters
        ----------
        a, b : str or int
            The players.
        confidence : float, default=0.95
            The level of the interval.

        Returns
        -------
        Comparison
            The difference s_a - s_b with its interval, and the p-value of equal scores.
        """
        confidence = check_fraction("confidence", confidence)
        sure = self._uncertainty()
        i, j = self._places([a])[0], self._places([b])[0]
        if i == j:
            raise ValueError(f"{a!r} cannot be compared with itself; name two players.")
        right = np.zeros((len(self._found[1]), 1))
        right[i], right[j] = 1.0, -1.0
        error = float(np.sqrt(sure.variances(right)[0]))
        gap = float(self.scores_[i] - self.scores_[j])
        z, limit = gap / error, sure.limit(confidence)
        return Comparison(
            float(self.scores_[i]), float(self.scores_[j]), gap, error, z,
            min(1.0, 2.0 * float(sure.tail(abs(z)))), gap - limit * error, gap + limit * error,
            confidence,
        )  # fmt: skip

    def rank_intervals(self, confidence: float = 0.95) -> dict[Any, tuple[int, int]]:
        """Return (best, worst) rank by player; all hold at once with this confidence (Holm)."""
        confidence = check_fraction("confidence", confidence)
        limits = rank_limits(self.scores_, self.covariance_, self._uncertainty(), confidence)
        names = self.players_.tolist()
        return {names[k]: (int(limits[k, 0]), int(limits[k, 1])) for k in self._order()}

    def suggest(self, n: int = 1) -> list[tuple[Any, Any]]:
        """Return pairs to vote on next: each most reduces the summed variance after the last."""
        n = check_count("n", n)
        gaps = self.scores_[:, None] - self.scores_
        names = self.players_.tolist()
        chosen = most_informative(self.covariance_, gaps, self.tie_, n)
        return [(names[i], names[j]) for i, j in chosen]

    def predict_proba(
        self, a: Any, b: Any, *, covariates: Any = None, neutral: bool = False
    ) -> Vector:
        """Return the probabilities that a wins, that they tie, and that b wins.

        Parameters
        ----------
        a, b : str, int or array-like of shape (n,)
            Players; a single one stands for all rows.
        covariates : array-like of shape (n,) or (n, m), optional
            Covariates of each vote; by default 0.
        neutral : bool, default=False
            Whether to leave out the advantage of the player named first.

        Returns
        -------
        ndarray of shape (n, 3)
            Probabilities of a win of a, a tie, and a win of b.
        """
        check_is_fitted(self, "scores_")
        first, second = np.broadcast_arrays(self._places(a), self._places(b))
        gaps = self.scores_[first] - self.scores_[second]
        if not check_flag("neutral", neutral):
            gaps = gaps + self.home_
        if covariates is not None:
            table = np.asarray(covariates, dtype=np.float64)
            m = len(self.covariate_effects_)
            table = table.reshape(-1, 1) if table.ndim < 2 else table
            if table.shape != (len(gaps), m) or not np.isfinite(table).all():
                raise ValueError(
                    f"covariates must be finite and of shape ({len(gaps)}, {m}), got shape "
                    f"{table.shape}."
                )
            gaps = gaps + table @ self.covariate_effects_
        tau = np.log(self.tie_) if self.tie_ else -np.inf
        return np.ascontiguousarray(np.exp(log_probabilities(gaps, float(tau))).T)

    def _order(self) -> list[int]:
        """Return the places of the players, the best first."""
        found: list[int] = np.argsort(-self.scores_, kind="stable").tolist()
        return found

    def _places(self, players: Any) -> NDArray[np.int64]:
        known = {name: place for place, name in enumerate(self.players_.tolist())}
        names = np.atleast_1d(np.asarray(players)).tolist()
        for name in names:
            if name not in known:
                alike = [one for one in known if str(one) == str(name)]
                close = nearest(str(name), [str(one) for one in known][:1000])
                if alike:
                    kind = "texts" if isinstance(alike[0], str) else "whole numbers"
                    close = f"; the players are {kind}: write {alike[0]!r}."
                raise ValueError(f"there are no votes on {name!r}{close}")
        return np.array([known[name] for name in names], dtype=np.int64)


def _interval(value: float, error: float, limit: float, confidence: float) -> Interval:
    return Interval(value, value - limit * error, value + limit * error, error, confidence)


def plot_ratings(
    model: RatedVotes, *, confidence: float = 0.95, top: int | None = None, ax: Any = None
) -> Any:
    """Draw the score of each player with its interval, the best player on top.

    Parameters
    ----------
    model : PairwiseRatings or PrivateRatings
        A fitted model.
    confidence : float, default=0.95
        The level of each interval by itself.
    top : int, optional
        How many players to draw, the best ones; all by default.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> from pairlearn import PairwiseRatings
    >>> from pairlearn.estimators import plot_ratings
    >>> model = PairwiseRatings().fit(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> [text.get_text() for text in plot_ratings(model).get_yticklabels()]
    ['ann', 'bob', 'cid']
    """
    most = None if top is None else check_count("top", top)
    found = dict(list(model.intervals(confidence).items())[:most])
    if ax is None:
        from matplotlib.figure import Figure as Drawing

        size = (6.0, 1.0 + 0.25 * len(found))
        ax = Drawing(figsize=size, layout="constrained").subplots()
    values = np.array([[one.value, one.low, one.high] for one in found.values()])
    places = np.arange(len(found))
    ax.axvline(0.0, color="0.8", linewidth=0.8, zorder=0)
    ax.hlines(places, values[:, 1], values[:, 2], color="C0", linewidth=1.5)
    ax.plot(values[:, 0], places, "o", color="C0", markersize=4)
    ax.set_yticks(places, [str(player) for player in found])
    ax.set(xlabel=f"score, with its {100 * confidence:g} % interval", ylim=(len(found) - 0.5, -0.5))
    return ax
