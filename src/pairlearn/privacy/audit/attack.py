# SPDX-License-Identifier: BSD-3-Clause
"""Bound epsilon from below by an attack with statistics.

An auditor who knows everything but the noise runs a private function many times on two neighbouring
tables and tries to tell the runs apart. If a test accepts runs on S with probability p and runs on
S' with probability p', then (epsilon, delta)-DP implies epsilon >= log((p - delta) / p'), and
mu-Gaussian-DP implies mu >= Phi^{-1}(p) - Phi^{-1}(p'). One half of the runs chooses the threshold
and the side of the test, and the other half bounds the two probabilities (Clopper and Pearson). So
the bound holds with the stated confidence for every function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.accounting.gaussian import epsilon_of_mu
from pairlearn.privacy.audit.tape import Tape
from pairlearn.shown import Shown, Table, number
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction


@dataclass(frozen=True)
class AuditResult(Shown):
    """The result of an audit.

    Parameters
    ----------
    epsilon, delta : float
        The claim.
    epsilon_lower : float
        Lower bound on the true epsilon at `delta`.
    mu : float or None
        The Gaussian-DP claim, if there is one.
    mu_lower : float
        Lower bound on the true Gaussian-DP parameter.
    n_runs : int
        Runs on each data set.
    confidence : float
        Probability with which each bound on epsilon and mu holds.

    Examples
    --------
    >>> AuditResult(1.0, 1e-3, 1.4, None, 0.5, 1000, 0.95).passed
    False
    """

    epsilon: float
    delta: float
    epsilon_lower: float
    mu: float | None
    mu_lower: float
    n_runs: int
    confidence: float

    @property
    def passed(self) -> bool:
        """Whether the claim survived."""
        return self.epsilon_lower <= self.epsilon and (self.mu is None or self.mu_lower <= self.mu)

    def shown_table(self) -> Table:
        """Return what is claimed and what was found."""
        claims = [["epsilon", number(self.epsilon), number(self.epsilon_lower)]]
        if self.mu is not None:
            claims.append(["mu", number(self.mu), number(self.mu_lower)])
        return ("", "claimed", "at least"), claims


def _bounds(count: NDArray[Any], n: int, error: float) -> tuple[Vector, Vector]:
    """Return lower and upper Clopper-Pearson bounds, each with the given error."""
    from scipy.special import betaincinv

    k = np.asarray(count, dtype=np.float64)
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, error), 0.0)
    upper = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - error), 1.0)
    return lower, upper


def _lower_bounds(
    above: NDArray[Any], other: NDArray[Any], n: int, *, delta: float, error: float
) -> tuple[Vector, Vector]:
    """Return bounds on epsilon and mu for the four sides of each threshold.

    `above` and `other` count the runs at or above a threshold on the two data sets, n runs each.
    The two Clopper-Pearson bounds of a pair of counts share `error`.
    """
    from scipy.special import ndtri

    epsilons, mus = [], []
    sides = (above, other), (other, above), (n - above, n - other), (n - other, n - above)
    for accepted, wrongly in sides:
        p, q = _bounds(accepted, n, error / 2)[0], _bounds(wrongly, n, error / 2)[1]
        epsilons.append(np.log(np.maximum(p - delta, 1e-300) / q))
        mus.append(ndtri(np.maximum(p, 1e-300)) - ndtri(np.minimum(q, 1 - 1e-16)))
    return np.array(epsilons), np.array(mus)


def _smooth_counts(values: Vector, thresholds: Vector) -> Vector:
    """Return the expected counts at or above the thresholds under a fitted normal law.

    Raw counts of one half would favour lucky extreme thresholds, which fail on the other half. The
    bound is valid for any choice that does not look at the other half.
    """
    from scipy.special import ndtr

    spread = max(float(values.std()), 1e-9 * (1.0 + abs(float(values.mean()))))
    counts: Vector = len(values) * ndtr((values.mean() - thresholds) / spread)
    return counts


def audit_statistics(
    mine: Vector,
    theirs: Vector,
    *,
    epsilon: float,
    delta: float,
    mu: float | None = None,
    confidence: float = 0.95,
) -> AuditResult:
    """Audit from the values of a test statistic in many runs on each of two data sets.

    Parameters
    ----------
    mine, theirs : ndarray of shape (n_runs,)
        The statistic in runs on the first and on the second data set.
    epsilon, delta : float
        The claim.
    mu : float, optional
        The Gaussian-DP claim.
    confidence : float, default=0.95
        Probability with which each bound holds.

    Returns
    -------
    AuditResult
        Lower bounds on epsilon and mu.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> honest = rng.normal(0.46, 1, 10000), rng.normal(0, 1, 10000)
    >>> audit_statistics(*honest, epsilon=1.0, delta=1 / 256).passed
    True
    >>> broken = rng.normal(1.38, 1, 10000), rng.normal(0, 1, 10000)
    >>> audit_statistics(*broken, epsilon=1.0, delta=1 / 256).passed
    False
    """
    check_fraction("confidence", confidence)
    n_runs = min(len(mine), len(theirs))
    half = check_count("n_runs", n_runs, minimum=4) // 2
    error = 1.0 - confidence
    pooled = np.concatenate([mine[:half], theirs[:half]])
    grid = np.unique(np.quantile(pooled, np.linspace(0.001, 0.999, 400)))
    thresholds = np.concatenate([grid, 0.5 * (grid[1:] + grid[:-1])])
    tables = _lower_bounds(
        _smooth_counts(mine[:half], thresholds),
        _smooth_counts(theirs[:half], thresholds),
        half,
        delta=delta,
        error=error,
    )
    found = []
    for choice, table in enumerate(tables):
        side, place = np.unravel_index(int(np.argmax(table)), table.shape)
        above, other = (
            np.array([np.count_nonzero(values[half:n_runs] >= thresholds[place])])
            for values in (mine, theirs)
        )
        held_out = _lower_bounds(above, other, n_runs - half, delta=delta, error=error)[choice]
        found.append(max(0.0, float(held_out[side, 0])))
    return AuditResult(epsilon, delta, found[0], mu, found[1], n_runs, confidence)


def smallest_violation(
    mu: float, delta: float, *, n_runs: int, confidence: float, chance: float = 0.9
) -> float:
    """Return the smallest true Gaussian-DP parameter at which an audit refutes the claim `mu`.

    The audit refutes with probability at least `chance`, given the best test statistic. The result
    is infinity if there are too few runs to refute any.

    Half of the runs on each data set choose the test. Each bound holds with probability
    `confidence`.
    """
    from scipy.special import ndtr, ndtri

    n = n_runs - n_runs // 2
    epsilon = epsilon_of_mu(mu, delta)
    # Both counts are at most this many standard deviations unlucky with probability `chance`.
    unlucky = float(ndtri(math.sqrt(chance)))

    def found(true_mu: float) -> bool:
        thresholds = np.linspace(-4.0, 4.0 + true_mu, 300)
        shares = ndtr(true_mu - thresholds), ndtr(-thresholds)
        spread = [np.sqrt(n * share * (1.0 - share)) for share in shares]
        above = np.clip(n * shares[0] - unlucky * spread[0], 0, n)
        other = np.clip(n * shares[1] + unlucky * spread[1], 0, n)
        epsilons, mus = _lower_bounds(above, other, n, delta=delta, error=1.0 - confidence)
        # By symmetry the fourth side sees the same as the first.
        return bool(epsilons[0].max() > epsilon or mus[0].max() > mu)

    low, high = mu, 2.0 * mu + 1.0
    while not found(high):
        high *= 2.0
        if high > 64.0:
            return math.inf
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


def log_likelihood_ratio(record: Tape, replay: Tape) -> float:
    """Return the log-likelihood ratio of a recorded run: its own data against the replay's.

    It sums over all releases, each a Gaussian around its protected value.
    """
    releases = zip(record.outputs, record.values, replay.values, record.scales, strict=True)
    return sum(
        float((mine - theirs) @ (output - 0.5 * (mine + theirs))) / (scale * scale)
        for output, mine, theirs, scale in releases
    )
