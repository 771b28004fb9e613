# SPDX-License-Identifier: BSD-3-Clause
"""`PairwiseRatings`: ratings of players, models or products from votes between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.ratings.answers import RatedVotes
from pairlearn.estimators.ratings.likelihood import Likelihood, components, maximise
from pairlearn.estimators.ratings.votes import Votes
from pairlearn.estimators.shared.examples import forget_origin, forget_worth
from pairlearn.estimators.shared.storage import Storable, register_storable
from pairlearn.models.parts import decode
from pairlearn.models.record import ArraySpec, ModelRecord
from pairlearn.restored import check_sane, restored_count, restored_number
from pairlearn.typing import Vector
from pairlearn.validation import AssumptionWarning, check_flag, check_positive, warn_caller

_TIES = ("davidson", "half")
_LABELS = "_vote_labels"


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
    _facts: ClassVar[Mapping[str, type]] = {_LABELS: dict}

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
        a, b, outcome : array-like of shape (n,)
            As in `fit`.
        sample_weight : array-like of shape (n,), optional
            As in `fit`.
        groups : array-like of shape (n,), optional
            As in `fit`.
        covariates : array-like of shape (n,) or (n, m), optional
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
        """Return the share of votes that the player of a row won against that of a column.

        A tie is half a win. NaN stands where two players never met.

        Returns
        -------
        ndarray of shape (k, k)
            The shares, in the order of `players_`.
        """
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
        votes = self.votes_
        return {
            "players": votes.players.tolist(),
            "groups": None if votes.groups is None else votes.groups.tolist(),
            "n_votes": votes.n_votes,
            "ordered": votes.ordered,
            **({} if votes.total is None else {"total": votes.total}),
        }

    @_vote_labels.setter
    def _vote_labels(self, value: dict[str, Any]) -> None:
        """Do nothing: `_unpack` has made the counts of it."""

    def _pack(self) -> dict[str, NDArray[Any]]:
        names = ("first", "second", "counts", "squares", "group", "covariates")
        found = {name: getattr(self.votes_, name) for name in names}
        packed = {name: value for name, value in found.items() if value is not None}
        return {"parameters": self._found[1], **packed}

    def _unpack(self, record: ModelRecord) -> None:
        given = self.get_params()
        labels = decode(record.parameters["fitted"][_LABELS], "labels")
        votes = _restored(record.arrays, labels, given["half_life"])
        likelihood = Likelihood.of(votes, ties=given["ties"], home=bool(given["home"]),
                                   prior=float(given["prior"]))  # fmt: skip
        theta = record.arrays["parameters"].copy()
        if theta.shape != likelihood.ridge.shape:
            raise ValueError(f"{len(theta)} parameters do not fit {len(votes.players)} players")
        check_sane("parameters", theta)
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


def described(record: ModelRecord) -> dict[str, Any]:
    """Return what a file of ratings, public or private, says about players, best first.

    `players` are pairs of name and score. `votes` and `judges` are their numbers, None where the
    file does not say them.
    """
    given = record.parameters
    private = "players" in given
    facts = {} if private else decode(given["fitted"][_LABELS], "labels")
    names = _names(given["players"] if private else facts["players"], "players")
    scores = record.arrays["parameters"][: len(names)]
    if len(scores) < len(names):
        raise ValueError(f"{len(scores)} parameters do not fit {len(names)} players")
    groups = facts.get("groups")
    order = np.argsort(-scores, kind="stable").tolist()
    listed = names.tolist()
    return {
        "players": [(listed[k], float(scores[k])) for k in order],
        "votes": None if private else restored_count(facts, "n_votes"),
        "judges": None if groups is None else len(_names(groups, "groups")),
    }


def _restored(
    arrays: Mapping[str, NDArray[Any]], labels: Mapping[str, Any], half_life: float | None
) -> Votes:
    """Return counts from a file that anybody may have written."""
    players = _names(labels["players"], "players")
    groups = None if labels["groups"] is None else _names(labels["groups"], "groups")
    group, squares = arrays.get("group"), arrays.get("squares")
    first, second, counts = (arrays[name] for name in ("first", "second", "counts"))
    if (group is None) != (groups is None) or (squares is None) != (half_life is None):
        raise ValueError("groups or squares do not fit the other entries")
    if len(players) < 2 or not len(first) or max(first.max(), second.max()) >= len(players):
        raise ValueError("a vote names a player that is not there")
    if (first == second).any() or not counts.any(axis=1).all():
        raise ValueError("a cell has no votes, or one player only")
    if group is not None and groups is not None and group.max() >= len(groups):
        raise ValueError("a vote names a group that is not there")
    if not isinstance(labels["ordered"], bool):
        raise ValueError("ordered is neither true nor false")
    check_sane("counts", counts)
    check_sane("covariates", arrays.get("covariates", np.zeros(1)))
    # Files of earlier versions do not say it: a row made others older by one vote.
    total = restored_number(labels, "total", low=0.0) if "total" in labels else None
    return Votes(players, first, second, counts, restored_count(labels, "n_votes"),
                 labels["ordered"], group, groups, arrays.get("covariates"), squares,
                 half_life, total)  # fmt: skip


def _names(values: Any, what: str) -> NDArray[Any]:
    """Return names that are all texts or all whole numbers, and rise."""
    kinds = set(map(type, values)) if isinstance(values, list) else set()
    if kinds not in ({str}, {int}):
        raise ValueError(f"the {what} must be texts or whole numbers")
    if any(low >= high for low, high in pairwise(values)):
        raise ValueError(f"the {what} are not in order")
    return np.array(values, dtype=np.str_ if kinds == {str} else np.int64)


register_storable(PairwiseRatings)
