# SPDX-License-Identifier: BSD-3-Clause
r"""Private counts of votes between public players: what a model of ratings needs, with noise.

The likelihood of Bradley, Terry and Davidson depends on the votes through three things only: the
*leads* (wins minus losses of each player), the number of *ties*, and the *meetings* (the votes on
each pair of players). For k players they are k + 1 + k (k - 1) / 2 numbers, and the leads are sums
over all opponents with the noise of one number. So they are released, and not the larger table of
wins, whose noise would add up over the opponents.

The unit is one vote, or one judge. Of a judge the first votes count: at most `per_pair` on each
pair, and at most `most` in all. Lemma 23 in ``docs/privacy/lemmas.md`` proves the sensitivities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.mechanisms.base import relative_slack
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.release import release_vector
from pairlearn.typing import Mask, Vector

Places = NDArray[np.int64]

#: A usual mean of (p - 1/2)^2 over pairs, p the probability of a win: scores of spread 0.6.
#: It shares out the budget. A wrong value costs accuracy, never privacy.
USUAL_SQUARE = 1.0 / 30.0


@dataclass(frozen=True)
class VoteLimits:
    """The public facts about votes.

    Of a judge `most` votes count (1 if the unit is a vote), and at most `per_pair` of them on one
    pair. `ties` says whether the number of ties is released, and `removes` whether a judge is added
    or removed, not replaced.

    >>> VoteLimits(3, most=1, per_pair=1, ties=False).meeting_sensitivity == math.sqrt(2)
    True
    """

    n_players: int
    most: int
    per_pair: int
    ties: bool
    removes: bool = False

    @property
    def tie_weight(self) -> float:
        """The weight of the ties beside the leads: a judge of ties only moves them as far."""
        return math.sqrt((self.most + self.per_pair) / self.most)

    @property
    def lead_sensitivity(self) -> float:
        """How far one judge moves the leads and the weighted ties."""
        judges = 1.0 if self.removes else 2.0
        return judges * math.sqrt(self.most * (self.most + self.per_pair))

    @property
    def meeting_sensitivity(self) -> float:
        """How far one judge moves the meetings."""
        judges = 1.0 if self.removes else 2.0
        return math.sqrt(judges * self.most * self.per_pair)

    @property
    def lead_share(self) -> float:
        """The share of mu^2 of the leads.

        The equation of a score has noise of half a lead, and of k - 1 meetings times p - 1/2. With
        the variances A and B for a budget of 1, A / x + B / (1 - x) is least at this x.
        """
        lead = 0.5 * self.lead_sensitivity
        meetings = self.meeting_sensitivity * math.sqrt((self.n_players - 1) * USUAL_SQUARE)
        return lead / (lead + meetings)


@dataclass(frozen=True, eq=False)
class VoteCounts:
    """What a model of ratings needs of votes, exact or with noise.

    Parameters
    ----------
    leads : ndarray of shape (n_players,)
        Wins minus losses of each player.
    ties : float
        Number of ties.
    meetings : ndarray of shape (n_players * (n_players - 1) // 2,)
        Votes on each pair, in the order of ``np.triu_indices(n_players, 1)``.
    """

    leads: Vector
    ties: float
    meetings: Vector

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {"leads": self.leads.tolist(), "ties": self.ties, "meetings": self.meetings.tolist()}


def counted_votes(
    first: Places, second: Places, outcome: Places, persons: Places | None, limits: VoteLimits
) -> Mask:
    """Return which votes count.

    `first` and `second` are numbers of players, `outcome` is 0 for a win of the first, 1 for a tie
    and 2 for a win of the second; -1 stands for what is unknown. A vote with an unknown part, or of
    a player against itself, does not count. Whether a vote of a judge counts depends on earlier
    votes of this judge only.

    >>> a, b, won = np.array([0, 0, 1, 0]), np.array([1, 1, 2, -1]), np.zeros(4, dtype=int)
    >>> limits = VoteLimits(3, most=2, per_pair=1, ties=False)
    >>> counted_votes(a, b, won, np.zeros(4, dtype=int), limits).tolist()
    [True, False, True, False]
    """
    sound: Mask = (first >= 0) & (second >= 0) & (first != second) & (outcome >= 0)
    if persons is None:
        return sound
    rows = np.flatnonzero(sound)
    low, high = np.minimum(first, second)[rows], np.maximum(first, second)[rows]
    pair = low * limits.n_players + high
    rows = rows[_place(persons[rows], pair) < limits.per_pair]
    rows = rows[_place(persons[rows], np.zeros_like(rows)) < limits.most]
    kept: Mask = np.zeros(len(first), dtype=np.bool_)
    kept[rows] = True
    return kept


def _place(persons: Places, kind: Places) -> Places:
    """Return how many earlier rows have the same person and kind."""
    order = np.lexsort((kind, persons))  # stable: rows keep their order within a group
    pairs = np.stack([persons, kind])[:, order]
    new = np.r_[True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)][: len(order)]
    starts = np.flatnonzero(new)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order)) - starts[np.cumsum(new) - 1]
    return place


def exact_counts(
    first: Places, second: Places, outcome: Places, kept: Mask, n_players: int
) -> VoteCounts:
    """Return the counts of the votes that are kept, without noise.

    >>> a, b, won = np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([0, 2, 1])
    >>> found = exact_counts(a, b, won, np.ones(3, dtype=bool), 3)
    >>> found.leads.tolist(), found.ties, found.meetings.tolist()
    ([0.0, -1.0, 1.0], 1.0, [1.0, 1.0, 1.0])
    """
    a, b, won, k = first[kept], second[kept], outcome[kept], n_players
    lead = 1 - won  # 1 for a win of the first, 0 for a tie, -1 for a loss
    leads = np.bincount(a, lead, k) - np.bincount(b, lead, k)
    cells = np.bincount(np.minimum(a, b) * k + np.maximum(a, b), minlength=k * k)
    meetings = cells.reshape(k, k)[np.triu_indices(k, 1)].astype(np.float64)
    return VoteCounts(leads.astype(np.float64), float((won == 1).sum()), meetings)


def release_counts(
    counts: VoteCounts, limits: VoteLimits, *, mu: float, noise: NoiseSource
) -> tuple[VoteCounts, tuple[Release, Release]]:
    """Return the counts with noise, and the two releases; their mu^2 add up to mu^2."""
    vector, name = counts.leads, "wins minus losses of each player"
    if limits.ties:
        vector = np.append(vector, limits.tie_weight * counts.ties)
        name += ", and weighted ties"
    # Each part stays a little below its share, so that rounding cannot exceed the budget.
    part = mu * (1.0 - 1e-12)
    leads, first = release_vector(
        vector, name=name, sensitivity=limits.lead_sensitivity * relative_slack,
        mu=part * math.sqrt(limits.lead_share), noise=noise,
    )  # fmt: skip
    meetings, second = release_vector(
        counts.meetings, name="votes on each pair",
        sensitivity=limits.meeting_sensitivity * relative_slack,
        mu=part * math.sqrt(1.0 - limits.lead_share), noise=noise,
    )  # fmt: skip
    k = limits.n_players
    ties = float(leads[k]) / limits.tie_weight if limits.ties else 0.0
    return VoteCounts(leads[:k], ties, meetings), (first, second)


def described(limits: VoteLimits, *, persons: bool, names: Any) -> dict[str, str]:
    """Return the public facts for a certificate."""
    shown = ", ".join(map(str, names[:20])) + (", ..." if len(names) > 20 else "")
    facts = {
        "players": f"{limits.n_players}, given by the caller: {shown}",
        "outcomes": "a win of either player" + (", or a tie" if limits.ties else ""),
    }
    if persons:
        facts["votes of a judge that count"] = (
            f"the first {limits.most}, and the first {limits.per_pair} on each pair, given by "
            "the caller"
        )
    return facts
