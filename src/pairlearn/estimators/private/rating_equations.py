# SPDX-License-Identifier: BSD-3-Clause
r"""From noisy counts of votes to a likelihood, and how sure what maximises it is.

All of this comes after the release and costs no privacy.

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

from dataclasses import dataclass

import numpy as np

from pairlearn.estimators.ratings.likelihood import Likelihood
from pairlearn.privacy.votes import USUAL_SQUARE, VoteCounts
from pairlearn.typing import Places, Vector

#: A player counts as having met others at least once.
_FEWEST = 1.0
#: Steps of the fit of row sums; each halves the error.
_STEPS = 60
#: At most this share of votes are ties.
_MOST_TIES = 0.95


@dataclass(frozen=True, eq=False)
class Equations:
    """The likelihood of noisy counts, and the variance of the error of each meeting."""

    likelihood: Likelihood
    meeting_variance: Vector


def equations(counts: VoteCounts, scales: tuple[float, float], prior: float) -> Equations:
    """Return the likelihood of counts with noise of the standard deviations `scales`."""
    k = len(counts.leads)
    first, second = np.triu_indices(k, 1)
    meetings, variance = smoothed(counts.meetings, k, scales[1])
    met = _of_players(first, second, meetings, k)
    total = float(meetings.sum())
    ties = min(counts.ties, _MOST_TIES * total)
    share = ties / total if ties >= 1.0 else 0.0
    leads = possible_leads(counts.leads, (1.0 - share) * met, scales[0])
    decided, lead = (1.0 - share) * meetings, (leads[first] - leads[second]) / k
    cells = np.stack([0.5 * (decided + lead), share * meetings, 0.5 * (decided - lead)])
    noise = 0.25 * scales[0] ** 2 + USUAL_SQUARE * _of_players(first, second, variance, k)
    ridge = np.zeros(k + bool(share))
    ridge[:k] = 0.25 * prior * (1.0 + noise / np.maximum(0.25 * met, _FEWEST))
    likelihood = Likelihood(
        first.astype(np.int64), second.astype(np.int64), cells, np.empty((len(first), 0)), k,
        bool(share), False, ridge, None, None,
    )  # fmt: skip
    return Equations(likelihood, variance)


def _of_players(first: Places, second: Places, values: Vector, k: int) -> Vector:
    """Return the sum of the values of the pairs of each player."""
    both = np.bincount(first, values, k) + np.bincount(second, values, k)
    return both.astype(np.float64)


def smoothed(noisy: Vector, k: int, scale: float) -> tuple[Vector, Vector]:
    """Return the likely number of votes on each pair, and the variance of its error.

    >>> likely, variance = smoothed(np.array([100.0, 100.0, 100.0]), 3, 5.0)
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


def possible_leads(noisy: Vector, decided: Vector, scale: float) -> Vector:
    """Return leads near the noisy ones that sum to zero, none above what votes with a winner allow.

    A player who led in all n of them would have no finite score, and noise can feign that. With
    noise of the standard deviation `scale` a lead is at most n / (1 + scale / n). Projections on
    both conditions in turn find a point that has both, up to a last rounding of the sum.

    >>> possible_leads(np.array([12.0, -3.0, -3.0]), np.full(3, 9.0), 1.0).round(3).tolist()
    [8.1, -4.05, -4.05]
    """
    most = decided**2 / np.maximum(decided + scale, 1e-300)
    leads: Vector = noisy - noisy.mean()
    for _ in range(_STEPS):
        leads = np.clip(leads, -most, most)
        leads = leads - leads.mean()
    return leads


def further_covariance(
    found: Equations, theta: Vector, scales: tuple[float, float], prior: float
) -> Vector:
    """Return what noise adds to the covariance of the derivatives at theta.

    That of the leads, of the ties and of the meetings. The prior has its part in the information
    as `ridge`; the square of `ridge` over the prior precision is its part with noise.
    """
    likelihood, k = found.likelihood, found.likelihood.n_players
    shares = np.exp(likelihood.logs(theta))
    by_d, by_tau = 0.5 * (shares[0] - shares[2]), shares[1]
    first, second, variance = likelihood.first, likelihood.second, found.meeting_variance
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
