# SPDX-License-Identifier: BSD-3-Clause
"""`PrivateRatings`: ratings of public players from private votes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from pairlearn.estimators.private.base import CertifiedMixin, default_delta
from pairlearn.estimators.private.rating_equations import equations, further_covariance
from pairlearn.estimators.ratings.answers import RatedVotes
from pairlearn.estimators.ratings.likelihood import DENSE_PLAYERS, maximise
from pairlearn.estimators.ratings.votes import PUBLIC_OUTCOMES, name_codes, outcome_names
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.models.record import ArraySpec, ModelRecord
from pairlearn.privacy.accounting.certificate import (
    Certificate,
    Release,
    cautions_about,
    check_kind,
)
from pairlearn.privacy.accounting.gaussian import check_epsilon, compose, mu_of
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.records import column_of, read_labels, read_persons
from pairlearn.privacy.release import paid_noise
from pairlearn.privacy.votes import (
    VoteCounts,
    VoteLimits,
    counted_votes,
    described,
    exact_counts,
    release_counts,
)
from pairlearn.restored import check_sane
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction, check_positive

_TIES = ("davidson", "half")


class PrivateRatings(
    RatedVotes,
    CertifiedMixin,
    BaseEstimator,  # type: ignore[misc]
):
    r"""Rate players by private votes, with (epsilon, delta)-differential privacy.

    The model is that of `PairwiseRatings`. Wins minus losses of each player, the number of ties
    and the number of votes on each pair are released with noise, and everything else is made of
    them (lemma 23 in ``docs/privacy/lemmas.md``). Intervals and ranks allow for the noise. They
    take the votes as independent, also those of one judge.

    Who the players are is public. A vote that names anybody else, or has another outcome than a
    public one, is left out without a word: a message would tell of a vote.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy parameter.
    delta : float, optional
        The failure probability; the smaller of 1/(10 n) and n^(-3/2) by default, for n votes or
        judges.
    players : sequence of str or of int
        All players, public. Required. A number equals its text.
    votes_per_judge : int, optional
        How many votes of a judge count, the first ones; public. Required with `groups`: noise grows
        with it.
    votes_per_pair : int, default=1
        How many votes of a judge on one pair count; public.
    neighbours : {"replace", "add_remove"}, default="replace"
        Whether votes are neighbours if one (or a judge with all votes) is replaced, or added or
        removed.
    n_examples : int, optional
        With neighbours="add_remove" the number of votes, or of judges, is secret, so give an upper
        bound on it; the guarantee covers at most so many. With "replace" it is their number.
    ties : {"davidson", "half"}, default="davidson"
        What a tie says, as for `PairwiseRatings`.
    prior : float, default=0.5
        How many votes between equals hold each score at the mean. Above 0, so that ratings exist
        whatever the noise is; where the noise is large beside the votes, it holds a score more.
    random_state : int, optional
        Makes the noise reproducible: for simulations only. The certificate then says that the
        model is not private, and a warning is given.
    ledger : PrivacyLedger, optional
        A budget shared with other releases; it records the fit before the votes are read.

    Attributes
    ----------
    players_ : ndarray of shape (n_players,)
        The players, sorted by name.
    scores_ : ndarray of shape (n_players,)
        Their scores; the mean is zero.
    tie_ : float
        Davidson's parameter of ties.
    counts_ : VoteCounts
        The released counts, with noise.
    certificate_ : Certificate
        The guarantee and the facts behind it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.integers(0, 5, (2, 20_000))
    >>> won = rng.random(20_000) < 1 / (1 + np.exp(b - a))   # player 4 is the strongest
    >>> model = PrivateRatings(1.0, 1e-6, players=range(5)).fit(a, b, won)
    >>> list(model.intervals())
    [4, 3, 2, 1, 0]
    >>> model.certificate_.unit
    'example'
    """

    #: Private votes have no order effect and no covariates.
    home = False
    home_ = 0.0
    covariate_effects_ = np.empty(0)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        *,
        players: Any = None,
        votes_per_judge: int | None = None,
        votes_per_pair: int = 1,
        neighbours: str = "replace",
        n_examples: int | None = None,
        ties: str = "davidson",
        prior: float = 0.5,
        random_state: Any = None,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        self.epsilon, self.delta, self.players = epsilon, delta, players
        self.votes_per_judge, self.votes_per_pair = votes_per_judge, votes_per_pair
        self.neighbours, self.n_examples = neighbours, n_examples
        self.ties, self.prior = ties, prior
        self.random_state, self.ledger = random_state, ledger

    _arrays: ClassVar[Mapping[str, ArraySpec]] = {
        "parameters": ArraySpec(("n_parameters",)),
        "leads": ArraySpec(("n_players",)),
        "ties": ArraySpec(()),
        "meetings": ArraySpec(("n_pairs",)),
    }

    def fit(self, a: Any, b: Any, outcome: Any = None, *, groups: Any = None) -> Self:
        """Rate the public players by votes.

        Parameters
        ----------
        a, b : array-like of shape (n,)
            The winners and the losers, or with `outcome` the players named first and second.
        outcome : array-like of shape (n,), optional
            1 if the first player won, 0 if the second did, 0.5 for a tie; or the texts ``a``,
            ``b`` and ``tie``, unless a player has such a name.
        groups : array-like of shape (n,), optional
            The judge of each vote. The guarantee then protects a judge with all votes; else it
            protects one vote. The number of judges, or of votes, is public, unless `neighbours`
            is "add_remove".

        Returns
        -------
        PrivateRatings
            This model.
        """
        names = self._names()
        limits = self._limits(len(names), judged=groups is not None, tied=outcome is not None)
        public = names.tolist()
        first = read_labels(a, public, name="a")
        n = len(first)
        second = read_labels(b, public, n, name="b")
        places = np.zeros(n, dtype=np.int64)
        if outcome is not None:
            _check_words(public, outcome)
            found = read_labels(outcome, list(PUBLIC_OUTCOMES), n, name="outcome")
            # The last place is for -1, an unknown outcome.
            places = np.array([*PUBLIC_OUTCOMES.values(), -1])[found]
        persons, unit, n_units = None, "example", n
        if groups is not None:
            persons, unit = read_persons(groups, n), "person"
            # Votes without a judge count nowhere.
            places = np.where(persons < 0, -1, places)
            n_units = int(persons.max(initial=-1)) + 1
        n_units = self._public_number(n_units)
        epsilon, delta = self._claim(n_units)
        mu = mu_of(epsilon, delta) * (1.0 - 1e-12)
        seeded = self.random_state is not None
        cautions = cautions_about(delta, max(n_units, 1), seeded=seeded)
        what = "votes" if unit == "example" else "persons"
        noise = paid_noise(
            self.ledger, f"ratings of {len(names)} players, {what} = {n_units}",
            seed=self.random_state, cautions=cautions, mu=mu_of(epsilon, delta),
            neighbours=self.neighbours, unit=unit,
        )  # fmt: skip
        kept = counted_votes(first, second, places, persons, limits)
        exact = exact_counts(first, second, places, kept, limits.n_players)
        counts, releases = release_counts(exact, limits, mu=mu, noise=noise)
        number = f"{n_units}, as in the data"
        if limits.removes:
            number = f"at most {n_units}, given by the caller"
        certificate = Certificate(
            mechanism="votes", neighbours=self.neighbours, epsilon=epsilon, delta=delta,
            n_examples=n_units, n_features=len(names), releases=releases,
            generator=noise.description, private=noise.private,
            mu=compose([one.mu for one in releases]),
            public={f"number of {unit}s": number}
            | described(limits, persons=groups is not None, names=public),
            accounting="two Gaussian releases, composed and converted exactly",
            warnings=cautions, unit=unit,
        )  # fmt: skip
        self._publish(certificate_=certificate, **self._rated(counts, releases))
        return self

    def meetings(self) -> Vector:
        """Return the released number of votes on each player: noise may make it negative."""
        k = len(self.players_)
        first, second = np.triu_indices(k, 1)
        cells = self.counts_.meetings
        both = np.bincount(first, cells, k) + np.bincount(second, cells, k)
        return both.astype(np.float64)

    def _names(self) -> NDArray[Any]:
        """Return the public players, sorted."""
        if self.players is None or isinstance(self.players, str):
            raise ValueError(
                f"players must list all players, got {self.players!r}; they are public and cannot "
                "be read from private votes."
            )
        listed = list(self.players)
        names, _ = name_codes({"players": listed})
        if len(names) < len(listed) or not 2 <= len(names) <= DENSE_PLAYERS:
            raise ValueError(
                f"players must be 2 to {DENSE_PLAYERS} different names, got {len(listed)} of which "
                f"{len(names)} differ."
            )
        return names

    def _limits(self, n_players: int, *, judged: bool, tied: bool) -> VoteLimits:
        """Return the public facts about votes, checked."""
        if self.ties not in _TIES:
            raise ValueError(f"ties must be one of {', '.join(_TIES)}, got {self.ties!r}.")
        check_positive("prior", self.prior)
        removes = check_kind(self.neighbours) == "add_remove"
        per_pair = check_count("votes_per_pair", self.votes_per_pair)
        counts_ties = tied and self.ties == "davidson"
        if not judged:
            if self.votes_per_judge is not None or per_pair != 1:
                raise ValueError(
                    f"votes_per_judge={self.votes_per_judge} and votes_per_pair={per_pair} are "
                    "about judges; pass the judge of each vote as groups, or leave them out."
                )
            return VoteLimits(n_players, most=1, per_pair=1, ties=counts_ties, removes=removes)
        if self.votes_per_judge is None:
            raise ValueError(
                "groups needs votes_per_judge, the public number of votes of a judge that count; "
                "a judge without a limit could need noise without one."
            )
        most = check_count("votes_per_judge", self.votes_per_judge)
        if per_pair > most:
            raise ValueError(
                f"votes_per_pair must be at most votes_per_judge={most}, got {per_pair}."
            )
        return VoteLimits(
            n_players, most=most, per_pair=per_pair, ties=counts_ties, removes=removes
        )

    def _claim(self, n: int) -> tuple[float, float]:
        epsilon = check_epsilon(self.epsilon)
        if self.delta is not None:
            return epsilon, check_fraction("delta", self.delta)
        return epsilon, default_delta(max(n, 1))

    def _rated(
        self, counts: VoteCounts, releases: tuple[Release, ...], theta: Vector | None = None
    ) -> dict[str, Any]:
        """Return the fitted attributes, which are functions of what was released."""
        names = self._names()
        scales = (releases[0].noise_scale, releases[1].noise_scale)
        found = equations(counts, scales, float(self.prior))
        likelihood = found.likelihood
        if theta is None:
            theta = maximise(likelihood)
        elif theta.shape != likelihood.ridge.shape:
            raise ValueError(f"{len(theta)} parameters do not fit {len(names)} players")
        return {
            "players_": names,
            "counts_": counts,
            "scores_": theta[: len(names)].copy(),
            "tie_": float(np.exp(theta[-1])) if likelihood.has_ties else 0.0,
            "_found": (likelihood, theta),
            "_further": further_covariance(found, theta, scales, float(self.prior)),
            "_sure": None,
        }

    def _public_arguments(self) -> dict[str, Any]:
        return {**super()._public_arguments(), "players": self._names().tolist()}

    def _pack(self) -> dict[str, NDArray[Any]]:
        counts = self.counts_
        return {
            "parameters": self._found[1],
            "leads": counts.leads,
            "ties": np.array(counts.ties),
            "meetings": counts.meetings,
        }

    def _unpack(self, record: ModelRecord) -> None:
        arrays = record.arrays
        self.certificate_ = self._certificate_of(record)
        k, releases = len(self._names()), self.certificate_.releases
        if len(arrays["leads"]) != k or len(arrays["meetings"]) != k * (k - 1) // 2:
            raise ValueError(f"the counts do not fit {k} players")
        if len(releases) != 2:
            raise ValueError(f"the certificate lists {len(releases)} releases, where 2 were made")
        for name in self._arrays:
            check_sane(name, arrays[name])
        counts = VoteCounts(
            arrays["leads"].copy(), float(arrays["ties"]), arrays["meetings"].copy()
        )
        self.__dict__.update(self._rated(counts, releases, arrays["parameters"].copy()))


def _check_words(players: list[Any], outcome: Any) -> None:
    """Refuse words as outcomes where one may mean the first player, or the player of that name."""
    both = outcome_names(players)
    if both and not column_of("outcome", outcome).is_numeric:
        raise ValueError(
            f"the player {both[0]!r} has the name of an outcome, which may mean the first player "
            "or that one; give outcomes as an array of the numbers 1, 0.5 and 0, or winners and "
            "losers, or another name."
        )


register_storable(PrivateRatings)
