# SPDX-License-Identifier: BSD-3-Clause
"""`PairwiseRatings`: ratings of players, models or products from votes between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.ratings.answers import RatedVotes
from pairlearn.estimators.ratings.likelihood import Likelihood, components, maximise
from pairlearn.estimators.ratings.votes import Votes, name_codes
from pairlearn.estimators.shared.examples import forget_origin, forget_worth
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.models.parts import decode
from pairlearn.models.record import ArraySpec, ModelRecord
from pairlearn.restored import check_sane
from pairlearn.typing import Vector
from pairlearn.validation import AssumptionWarning, check_flag, check_positive, warn_caller

_TIES = ("davidson", "half")
_LABELS = ("players", "groups", "n_votes", "ordered", "total")


class PairwiseRatings(RatedVotes, Storable, BaseEstimator):  # type: ignore[misc]
    r"""Rate players by votes between two of them, with intervals of scores and of ranks.

    The model is that of Bradley and Terry: a wins against b with probability
    1 / (1 + exp(-(s_a - s_b))), where s are the scores. Ties have Davidson's parameter nu, the
    player named first may have an advantage h, and covariates x of a vote may have effects beta:

        P(a wins), P(tie), P(b wins)  are proportional to  exp(d/2), nu, exp(-d/2),
        d = s_a - s_b + h + beta . x.

    The scores maximise the likelihood of all votes at once, so the order of the votes does not
    matter, unlike in an Elo table. Votes are kept as counts (`votes_`), so more of them can be
    added at any time (`partial_fit`), and counts of several places merge exactly.

    Parameters
    ----------
    ties : {"davidson", "half"}, default="davidson"
        What a tie says. "half" counts it as half a win of each, and its intervals are somewhat too
        wide unless votes have groups.
    home : bool, default=False
        Whether the player named first may have an advantage; needs votes with an outcome.
    prior : float, default=0.5
        How many votes between equals hold each score (and the advantage `home_`) at the mean: the
        scores have a normal prior with the variance 4 / prior. It keeps the score of a player
        finite who won or lost every vote. 0 is plain maximum likelihood, which then may not exist.
    half_life : float, optional
        The number of later votes after which a vote counts half. By default all count alike.

    Attributes
    ----------
    players_ : ndarray of shape (n_players,)
        The players, sorted by name.
    scores_ : ndarray of shape (n_players,)
        Their scores; the mean is zero. `400 / log(10)` of them is the scale of Elo.
    home_ : float
        Advantage of the player named first; 0 unless `home`.
    tie_ : float
        Davidson's parameter: two equal players tie with probability ``tie_ / (2 + tie_)``.
    covariate_effects_ : ndarray of shape (n_covariates,)
        The effects of the covariates.
    votes_ : Votes
        The counts.

    References
    ----------
    R. Bradley and M. Terry, Rank analysis of incomplete block designs, Biometrika 39, 1952.
    R. Davidson, On extending the Bradley-Terry model to accommodate ties, JASA 65, 1970.

    Examples
    --------
    >>> from pairlearn import PairwiseRatings
    >>> winners = ["ann", "ann", "bob", "ann", "cid", "bob"]
    >>> losers = ["bob", "cid", "cid", "bob", "bob", "ann"]
    >>> model = PairwiseRatings().fit(winners, losers)
    >>> {str(p): round(float(s), 2) for p, s in zip(model.players_, model.scores_)}
    {'ann': 0.71, 'bob': -0.19, 'cid': -0.52}
    >>> model.compare("ann", "cid").p_value > 0.05
    True
    """

    def __init__(
        self,
        *,
        ties: str = "davidson",
        home: bool = False,
        prior: float = 0.5,
        half_life: float | None = None,
    ) -> None:
        self.ties = ties
        self.home = home
        self.prior = prior
        self.half_life = half_life

    votes_: Votes
    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "parameters": ArraySpec(("n_parameters",)),
        "first": ArraySpec(("n_cells",), ("int64",), low=0),
        "second": ArraySpec(("n_cells",), ("int64",), low=0),
        "counts": ArraySpec(("n_cells", 3), low=0.0),
        "squares": ArraySpec(("n_cells", 3), required=False, low=0.0),
        "group": ArraySpec(("n_cells",), ("int64",), required=False, low=0),
        "covariates": ArraySpec(("n_cells", "n_covariates"), required=False),
    }
    _facts: ClassVar[Mapping[str, type]] = {"_vote_labels": dict}

    def fit(
        self,
        a: Any,
        b: Any = None,
        outcome: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        groups: Any = None,
        covariates: Any = None,
    ) -> Self:
        """Rate the players of votes.

        Parameters
        ----------
        a : array-like of shape (n,), frame or Votes
            The winners, or with `outcome` the players named first. A frame (or a mapping of
            columns) has the columns ``winner`` and ``loser``, or ``a``, ``b`` and ``outcome``; a
            list may hold tuples of these.
            `Votes` are counts made before, by `Votes.count`.
        b : array-like of shape (n,), optional
            The losers, or with `outcome` the players named second.
        outcome : array-like of shape (n,), optional
            1 if the first player won, 0 if the second did, 0.5 for a tie; or the texts ``a``,
            ``b`` and ``tie``.
        sample_weight : array-like of shape (n,), optional
            The number of votes that a row stands for, one after another; a row of weight 0 is
            left out.
        groups : array-like of shape (n,), optional
            Who voted: a judge, a user. Votes of one group may depend on each other: intervals are
            then robust to it.
        covariates : array-like of shape (n,) or (n, m), optional
            What may sway a vote beside the players, as differences of the first player (or the
            winner) to the second, such as the difference of two lengths. Beside a frame,
            `sample_weight`, `groups` and `covariates` may be names of its columns.

        Returns
        -------
        PairwiseRatings
            This model.
        """
        given = {"sample_weight": sample_weight, "groups": groups, "covariates": covariates}
        counts = self._counted(a, b, outcome, given)
        forget_origin(self)
        return self._rate(counts)

    def partial_fit(
        self,
        a: Any,
        b: Any = None,
        outcome: Any = None,
        *,
        sample_weight: ArrayLike | None = None,
        groups: Any = None,
        covariates: Any = None,
    ) -> Self:
        """Add votes, and rate the players of all votes so far.

        The result is that of one `fit` on all votes, in one order of their counts: bit for bit
        without `half_life`, if weights are whole numbers.

        Parameters
        ----------
        a, b, outcome, sample_weight, groups, covariates : array-like
            As in `fit`.

        Returns
        -------
        PairwiseRatings
            This model.
        """
        given = {"sample_weight": sample_weight, "groups": groups, "covariates": covariates}
        votes = self._counted(a, b, outcome, given)
        forget_worth(self)
        known: Votes | None = getattr(self, "votes_", None)
        return self._rate(votes if known is None else known.merge(votes))

    def win_rates(self) -> Vector:
        """Return the share that a row's player won against a column's, or NaN without votes."""
        check_is_fitted(self, "scores_")
        k, votes = len(self.players_), self.votes_
        won, met = np.zeros((k, k)), np.zeros((k, k))
        wins, ties, losses = votes.counts.T
        for rows, columns, values in (
            (votes.first, votes.second, wins + 0.5 * ties),
            (votes.second, votes.first, losses + 0.5 * ties),
        ):
            np.add.at(won, (rows, columns), values)
            np.add.at(met, (rows, columns), wins + ties + losses)
        return np.asarray(np.divide(won, met, out=np.full((k, k), np.nan), where=met > 0.0))

    def _counted(self, a: Any, b: Any, outcome: Any, given: dict[str, Any]) -> Votes:
        if not isinstance(a, Votes):
            return Votes.count(a, b, outcome, **given, half_life=self.half_life)
        beside = {"b": b, "outcome": outcome, **given}
        odd = [name for name, value in beside.items() if value is not None]
        if odd:
            raise ValueError(f"Votes are counts already, {odd[0]} cannot be added; count with it.")
        if a.half_life != self.half_life:
            raise ValueError(
                f"the votes were counted with half_life={a.half_life}, the model has "
                f"half_life={self.half_life}; count them with that of the model."
            )
        return a

    def _rate(self, votes: Votes) -> Self:
        """Fit the model to counts; nothing changes if that fails."""
        if self.ties not in _TIES:
            raise ValueError(f"ties must be one of {', '.join(_TIES)}, got {self.ties!r}.")
        if self.prior != 0:
            check_positive("prior", self.prior)
        n_players = len(votes.players)
        if n_players < 2:
            raise ValueError(
                f"ratings need votes between at least 2 players, got {n_players} player(s)."
            )
        if check_flag("home", self.home) and not votes.ordered:
            raise ValueError(
                "home=True needs to know who was named first, and winners and losers do not tell; "
                "pass a, b and outcome."
            )
        _check_connected(votes, self.prior)
        likelihood = Likelihood.of(
            votes, ties=self.ties, home=bool(self.home), prior=float(self.prior)
        )
        theta = maximise(likelihood.collapsed())
        self.votes_ = votes
        self._publish(likelihood, theta)
        return self

    def _publish(self, likelihood: Likelihood, theta: Vector) -> None:
        k, at = len(self.votes_.players), len(self.votes_.players) + bool(self.home)
        self.players_ = self.votes_.players
        self.scores_ = theta[:k].copy()
        self.home_ = float(theta[k]) if self.home else 0.0
        self.covariate_effects_ = theta[at : at + self.votes_.n_covariates].copy()
        self.tie_ = float(np.exp(theta[-1])) if likelihood.has_ties else 0.0
        self._found = (likelihood, theta)
        self._sure = None

    @property
    def _vote_labels(self) -> dict[str, Any]:
        """What the file says about the counts beside arrays."""
        found = {name: getattr(self.votes_, name) for name in _LABELS}
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in found.items()}

    @_vote_labels.setter
    def _vote_labels(self, value: dict[str, Any]) -> None:
        pass  # `_unpack` has made the counts of it

    def _pack(self) -> dict[str, NDArray[Any]]:
        found = {name: getattr(self.votes_, name) for name in self._arrays if name != "parameters"}
        packed = {name: value for name, value in found.items() if value is not None}
        return {"parameters": self._found[1], **packed}

    def _unpack(self, record: ModelRecord) -> None:
        """Take over counts and scores from a file that anybody may have written."""
        given: Any = self.get_params()
        arrays = {name: value.copy() for name, value in record.arrays.items()}
        theta = arrays.pop("parameters")
        labels = decode(record.parameters["fitted"]["_vote_labels"], "labels")
        in_order = True
        for name in ("players", "groups"):
            if labels[name] is not None:
                labels[name], (codes,) = name_codes({name: labels[name]})
                in_order &= np.array_equal(codes, np.arange(len(labels[name])))
        votes = Votes(**{**labels, **arrays}, half_life=given.pop("half_life"))
        n_groups = 0 if votes.groups is None else len(votes.groups)
        if not (
            in_order
            and len(votes.first)
            and max(votes.first.max(), votes.second.max()) < len(votes.players)
            and (votes.first != votes.second).all()
            and votes.counts.any(axis=1).all()
            and (not n_groups if votes.group is None else votes.group.max() < n_groups)
            and (votes.squares is None) == (votes.total is None) == (votes.half_life is None)
            and (type(votes.n_votes), type(votes.ordered)) == (int, bool)
            and (votes.total is None or votes.total > 0.0)
        ):
            raise ValueError("its players, groups and votes do not fit each other")
        likelihood = Likelihood.of(votes, **given)
        if theta.shape != likelihood.ridge.shape:
            raise ValueError(f"{len(theta)} parameters do not fit {len(votes.players)} players")
        check_sane("parameters", theta)
        check_sane("counts", votes.counts)
        self.votes_ = votes
        self._publish(likelihood, theta)


def _check_connected(votes: Votes, prior: float) -> None:
    """Warn of players that were never compared, and refuse them without a prior."""
    n, labels = components(votes, strongly=not prior)
    if n == 1:
        return
    sizes = np.bincount(labels)
    small = np.flatnonzero(labels == int(np.argmin(sizes)))
    names = ", ".join(map(str, votes.players[small[:5]].tolist()))
    names += ", ..." if len(small) > 5 else ""
    if prior:
        warn_caller(
            f"the players fall into {n} groups that never met each other, one of them is {names}; "
            "differences between groups come from the prior alone. Add votes between them, or rate "
            "each group by itself.",
            AssumptionWarning,
        )
        return
    raise ValueError(
        f"with prior=0 the ratings are not finite: {names} won, or lost, every vote against the "
        "others, or never met them; pass prior=0.5, or add votes."
    )


register_storable(PairwiseRatings)
