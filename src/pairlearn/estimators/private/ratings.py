# SPDX-License-Identifier: BSD-3-Clause
r"""`PrivateRatings`: ratings of public players from private votes.

What comes after the release of noisy counts costs no privacy.

*Meetings.* A noisy count m of votes on a pair has the variance s^2. A table of popularity,
E_ij = q_i q_j with the row sums of the noisy counts, says what to expect of it. True counts scatter
about E with a variance of t E, where t is found from the mean of (m - E)^2 - s^2. The mean of a
count given m is then E + w (m - E) with w = t E / (t E + s^2), and a count is never below 0. Its
error has the variance w s^2 given E. The noise of a row sum moves all E of a row, by the share
1 - w of it: in a sum over the row with weights g this adds at most (1 - w)^2 s^2 sum g^2, by
Jensen. So the error counts as one of the variance (w + (1 - w)^2) s^2.

*Leads.* The derivative of the likelihood by the score of i is half the lead of i, minus the sum
over j of N_ij (p_ij - 1/2) for the meetings N. A likelihood of cells needs a lead for each pair;
with (L_i - L_j) / k for k players those of i add up to L_i, as the leads sum to zero.

*Prior.* With information h and noise of variance v in the derivative x, normal scores of precision
pi have the mean x / (h + pi (1 + v/h)): the ridge of a score is pi (1 + v/h).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from pairlearn.estimators.private.base import CertifiedMixin, default_delta
from pairlearn.estimators.ratings.answers import RatedVotes
from pairlearn.estimators.ratings.likelihood import DENSE_PLAYERS, Likelihood, maximise
from pairlearn.estimators.ratings.votes import PUBLIC_OUTCOMES, name_codes, outcome_names
from pairlearn.estimators.shared.storage import register_storable
from pairlearn.models.record import ArraySpec, ModelRecord
from pairlearn.privacy.accounting.certificate import (
    Certificate,
    Release,
    check_kind,
)
from pairlearn.privacy.accounting.gaussian import check_epsilon, compose, mu_of
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.records import column_of, read_labels, read_persons
from pairlearn.privacy.votes import (
    USUAL_SQUARE,
    VoteCounts,
    VoteLimits,
    counted_votes,
    described,
    exact_counts,
    release_counts,
)
from pairlearn.restored import check_sane
from pairlearn.typing import Places, Vector
from pairlearn.validation import check_count, check_fraction, check_positive

_TIES = ("davidson", "half")
#: A player counts as having met others at least once.
_FEWEST = 1.0
#: Steps of the fit of row sums; each halves the error.
_STEPS = 60
#: At most this share of votes are ties.
_MOST_TIES = 0.95


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
    epsilon, delta : float
        The promise, as for `PrivateAUCClassifier`, for n votes or judges.
    players : sequence of str or of int
        All players, public. Required. A number equals its text.
    votes_per_judge : int, optional
        How many votes of a judge count, the first ones; public. Required with `groups`: noise grows
        with it.
    votes_per_pair : int, default=1
        How many votes of a judge on one pair count; public.
    neighbours, n_examples : str, int
        As for `PrivateAUCClassifier`, of votes or judges (with all votes).
    ties : {"davidson", "half"}, default="davidson"
        What a tie says, as for `PairwiseRatings`.
    prior : float, default=0.5
        How many votes between equals hold each score at the mean. Above 0, so that ratings exist
        whatever the noise is; where the noise is large beside the votes, it holds a score more.
    random_state, ledger : seed, PrivacyLedger
        As for `PrivateAUCClassifier`.

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
        epsilon = check_epsilon(self.epsilon)
        delta = default_delta(max(n_units, 1)) if self.delta is None else self.delta
        mu = mu_of(epsilon, delta := check_fraction("delta", delta))
        what = "votes" if unit == "example" else "persons"
        purpose = f"ratings of {len(names)} players, {what} = {n_units}"
        noise, stated = self._pay(purpose, n_units, delta, mu=mu, unit=unit)
        kept = counted_votes(first, second, places, persons, limits)
        exact = exact_counts(first, second, places, kept, limits.n_players)
        counts, releases = release_counts(exact, limits, mu=mu * (1.0 - 1e-12), noise=noise)
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
            accounting="two Gaussian releases, composed and converted exactly", **stated,
        )  # fmt: skip
        self._publish(certificate_=certificate, **self._rated(counts, releases))
        return self

    def meetings(self) -> Vector:
        """Return the released number of votes on each player: noise may make it negative."""
        k = len(self.players_)
        return _of_players(*np.triu_indices(k, 1), self.counts_.meetings, k)

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
        most, per_pair = self.votes_per_judge, check_count("votes_per_pair", self.votes_per_pair)
        if judged:
            if most is None:
                raise ValueError(
                    "groups needs votes_per_judge, the public number of votes of a judge that "
                    "count; a judge without a limit could need noise without one."
                )
            if per_pair > check_count("votes_per_judge", most):
                raise ValueError(
                    f"votes_per_pair must be at most votes_per_judge={most}, got {per_pair}."
                )
        elif most is not None or per_pair != 1:
            raise ValueError(
                f"votes_per_judge={most} and votes_per_pair={per_pair} are about judges; pass the "
                "judge of each vote as groups, or leave them out."
            )
        ties = tied and self.ties == "davidson"
        return VoteLimits(n_players, most=most or 1, per_pair=per_pair, ties=ties, removes=removes)

    def _rated(
        self, counts: VoteCounts, releases: tuple[Release, ...], theta: Vector | None = None
    ) -> dict[str, Any]:
        """Return the fitted attributes, which are functions of what was released."""
        names, prior = self._names(), float(self.prior)
        scales = (releases[0].noise_scale, releases[1].noise_scale)
        likelihood, variance = _likelihood(counts, scales, prior)
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
            "_further": _further_covariance(likelihood, theta, variance, scales, prior),
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


def _likelihood(
    counts: VoteCounts, scales: tuple[float, float], prior: float
) -> tuple[Likelihood, Vector]:
    """Return the likelihood of noisy counts, and the variance of the error of each meeting."""
    k = len(counts.leads)
    first, second = np.triu_indices(k, 1)
    meetings, variance = _smoothed(counts.meetings, k, scales[1])
    met = _of_players(first, second, meetings, k)
    total = float(meetings.sum())
    ties = min(counts.ties, _MOST_TIES * total)
    share = ties / total if ties >= 1.0 else 0.0
    leads = _possible_leads(counts.leads, (1.0 - share) * met, scales[0])
    decided, lead = (1.0 - share) * meetings, (leads[first] - leads[second]) / k
    cells = np.stack([0.5 * (decided + lead), share * meetings, 0.5 * (decided - lead)])
    noise = 0.25 * scales[0] ** 2 + USUAL_SQUARE * _of_players(first, second, variance, k)
    ridge = np.zeros(k + bool(share))
    ridge[:k] = 0.25 * prior * (1.0 + noise / np.maximum(0.25 * met, _FEWEST))
    likelihood = Likelihood(
        first.astype(np.int64), second.astype(np.int64), cells, np.empty((len(first), 0)), k,
        bool(share), False, ridge, None, None,
    )  # fmt: skip
    return likelihood, variance


def _of_players(first: Places, second: Places, values: Vector, k: int) -> Vector:
    """Return the sum of the values of the pairs of each player."""
    both = np.bincount(first, values, k) + np.bincount(second, values, k)
    return both.astype(np.float64)


def _smoothed(noisy: Vector, k: int, scale: float) -> tuple[Vector, Vector]:
    """Return the likely number of votes on each pair, and the variance of its error.

    >>> likely, variance = _smoothed(np.array([100.0, 100.0, 100.0]), 3, 5.0)
    >>> likely.round(6).tolist(), variance.tolist()
    ([100.0, 100.0, 100.0], [25.0, 25.0, 25.0])
    """
    first, second = np.triu_indices(k, 1)
    wanted = np.maximum(_of_players(first, second, noisy, k), _FEWEST)
    q = wanted / np.sqrt(wanted.sum())
    for _ in range(_STEPS):
        q = np.sqrt(q * wanted / np.maximum(q.sum() - q, 1e-9 * q.sum()))
    expected = q[first] * q[second]
    excess = float(((noisy - expected) ** 2).mean()) - scale**2
    # All scatter is noise if there is no excess.
    scatter = max(excess, 0.0) / float(expected.mean()) * expected
    weight = scatter / (scatter + scale**2)
    likely = np.maximum(expected + weight * (noisy - expected), 0.0)
    return likely, (weight + (1.0 - weight) ** 2) * scale**2


def _possible_leads(noisy: Vector, decided: Vector, scale: float) -> Vector:
    """Return leads near the noisy ones that sum to zero, none above what votes with a winner allow.

    A player who led in all n of them would have no finite score, and noise can feign that. With
    noise of the standard deviation `scale` a lead is at most n / (1 + scale / n). Projections on
    both conditions in turn find a point that has both, up to a last rounding of the sum.

    >>> _possible_leads(np.array([12.0, -3.0, -3.0]), np.full(3, 9.0), 1.0).round(3).tolist()
    [8.1, -4.05, -4.05]
    """
    most = decided**2 / np.maximum(decided + scale, 1e-300)
    leads: Vector = noisy - noisy.mean()
    for _ in range(_STEPS):
        leads = np.clip(leads, -most, most)
        leads = leads - leads.mean()
    return leads


def _further_covariance(
    likelihood: Likelihood, theta: Vector, variance: Vector, scales: tuple[float, float],
    prior: float,
) -> Vector:  # fmt: skip
    """Return what noise adds to the covariance of the derivatives at theta.

    That of the leads, of the ties and of the meetings. The prior has its part in the information
    as `ridge`; the square of `ridge` over the prior precision is its part with noise.
    """
    first, second, k = likelihood.first, likelihood.second, likelihood.n_players
    shares = np.exp(likelihood.logs(theta))
    by_d, by_tau = 0.5 * (shares[0] - shares[2]), shares[1]
    size = len(theta)
    whole = np.zeros((size, size))
    np.add.at(whole, (first, second), -variance * by_d**2)
    whole += whole.T
    places = np.arange(k)
    whole[places, places] = -whole[:k, :k].sum(axis=1) + 0.25 * scales[0] ** 2
    ridge = likelihood.ridge[:k]
    whole[places, places] += ridge**2 / (0.25 * prior) - ridge
    if likelihood.has_ties:
        cross = variance * by_d * by_tau
        whole[:k, k] = np.bincount(first, cross, k) - np.bincount(second, cross, k)
        whole[k, :k] = whole[:k, k]
        # The weight of the ties is at least 1, so their noise is at most that of a lead.
        whole[k, k] = float((variance * by_tau**2).sum()) + scales[0] ** 2
    return whole


register_storable(PrivateRatings)
