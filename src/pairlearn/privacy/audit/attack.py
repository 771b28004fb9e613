# SPDX-License-Identifier: BSD-3-Clause
"""Attack a mechanism and bound its epsilon from below.

An auditor who knows everything but the noise runs a mechanism many times on two neighbouring data
sets S and S' and tries to tell the runs apart. If a test accepts runs on S with probability p and
runs on S' with probability p', then (epsilon, delta)-DP implies epsilon >= log((p - delta) / p'),
and mu-Gaussian-DP implies mu >= Phi^{-1}(p) - Phi^{-1}(p'). One half of the runs chooses the
threshold and the side of the test, and the other half bounds the two probabilities (Clopper and
Pearson). So the bound holds with the stated confidence for every mechanism.

The test statistic is the exact log-likelihood ratio of *all* releases. Each run is recorded and
then replayed on the other data set, with the recorded outputs in place of fresh noisy values. If
the mechanism also keeps its choice of examples secret, a ratio given that choice would be an unfair
attack; `_projections` is then the statistic. `NoiseCheck` measures the noise itself.

An audit can find a broken mechanism; it cannot prove one right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.accounting.gaussian import epsilon_of_mu
from pairlearn.privacy.audit.noise_check import NoiseCheck
from pairlearn.privacy.audit.replay import Neighbours, worst_case_neighbours
from pairlearn.privacy.audit.tape import Tape, recorded, replayed
from pairlearn.privacy.mechanisms.base import Mechanism, PrivateFit, PublicSetting
from pairlearn.privacy.noise import NoiseSource
from pairlearn.shown import Shown, Table, number
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction

#: Makes the noise source of run number i.
SourceMaker = Callable[[int], NoiseSource]


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
        Probability with which each bound on epsilon and mu holds; bounds on the noise are surer.
    noise_upper : float, default=inf
        Upper bound on the noise as a multiple of the stated noise.
    noise_correlation_lower : float, default=0.0
        Lower bound on the correlation of the noise of successive runs.

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
    noise_upper: float = math.inf
    noise_correlation_lower: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the claim survived and the noise is as stated."""
        return (
            self.epsilon_lower <= self.epsilon
            and (self.mu is None or self.mu_lower <= self.mu)
            and self.noise_upper >= 1.0
            and self.noise_correlation_lower <= 0.0
        )

    def shown_title(self) -> str:
        """Return the result in words."""
        return self.statement()

    def shown_table(self) -> Table:
        """Return what is claimed and what was found."""
        claims = [["epsilon", number(self.epsilon), number(self.epsilon_lower)]]
        if self.mu is not None:
            claims.append(["mu", number(self.mu), number(self.mu_lower)])
        return ("", "claimed", "at least"), claims

    def statement(self) -> str:
        """Return the result as text."""
        verdict = "not refuted" if self.passed else "REFUTED"
        text = (
            f"Claim ({self.epsilon:g}, {self.delta:g})-DP: {verdict}. With confidence "
            f"{self.confidence:g} and {self.n_runs} runs on each data set, epsilon is at least "
            f"{self.epsilon_lower:.3f}"
        )
        if self.mu is not None:
            text += (
                f", and the Gaussian-DP parameter at least {self.mu_lower:.4f} (claimed "
                f"{self.mu:.4f}, epsilon {epsilon_of_mu(max(self.mu_lower, 0.0), self.delta):.3f})"
            )
        text += "."
        if self.noise_upper < 1.0:
            text += f" The noise is at most {self.noise_upper:.3f} of what the mechanism states."
        if self.noise_correlation_lower > 0.0:
            text += (
                " The noise of successive runs is correlated (at least "
                f"{self.noise_correlation_lower:.3f}): a seed was reused."
            )
        return text


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
    for accepted, wrongly in (
        (above, other),
        (other, above),
        (n - above, n - other),
        (n - other, n - above),
    ):
        p, _ = _bounds(accepted, n, error / 2)
        _, q = _bounds(wrongly, n, error / 2)
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
        above = np.array([np.count_nonzero(mine[half:n_runs] >= thresholds[place])])
        other = np.array([np.count_nonzero(theirs[half:n_runs] >= thresholds[place])])
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


def audit(
    mechanism: Mechanism,
    setting: PublicSetting,
    *,
    n_runs: int = 10_000,
    confidence: float = 0.95,
    neighbours: Neighbours | None = None,
    make_source: SourceMaker | None = None,
) -> AuditResult:
    """Audit a mechanism by the likelihood ratio of all its releases.

    By default the data sets are `worst_case_neighbours`, and each run has a fresh secret source of
    noise; tests pass broken ones by `make_source`, which takes the number of the run.
    """
    pair = neighbours or worst_case_neighbours(setting, label_is_worst=mechanism.label_is_worst)
    maker: SourceMaker = make_source or (lambda _: NoiseSource(secure=False))
    attack = _projections if mechanism.secret_draws else _log_ratios
    runs = _Runs(mechanism, pair, setting, n_runs, maker)
    values = attack(runs)
    result = audit_statistics(
        *values, epsilon=setting.epsilon, delta=setting.delta,
        mu=None if runs.claimed is None else setting.mu, confidence=confidence,
    )  # fmt: skip
    # Broken noise shows by a wide margin. At the confidence of the attack these two bounds alone
    # would refute one sound audit in ten.
    sure = 1.0 - 0.01 * (1.0 - confidence)
    return replace(
        result,
        noise_upper=runs.noise.level_upper(sure),
        noise_correlation_lower=max(0.0, runs.noise.correlation_lower(sure)),
    )


@dataclass
class _Runs:
    """Runs of a mechanism on two data sets, the check of their noise, and the claimed mu."""

    mechanism: Mechanism
    pair: Neighbours
    setting: PublicSetting
    n_runs: int
    maker: SourceMaker
    noise: NoiseCheck = field(default_factory=NoiseCheck)
    claimed: float | None = None

    def fit(self, world: int, noise: NoiseSource) -> PrivateFit:
        pair = self.pair
        data = (pair.other, pair.other_signs) if world else (pair.Z, pair.signs)
        return self.mechanism.fit(*data, setting=self.setting, noise=noise)

    def recorded(self, world: int) -> Iterator[tuple[Tape, NoiseSource]]:
        """Yield the record of each run on a data set, and its source of noise."""
        for i in range(self.n_runs):
            noise = self.maker(world * self.n_runs + i)
            with recorded() as record:
                self.claimed = self.fit(world, noise).mu
            self.noise.add(record)
            yield record, noise


def _log_ratios(runs: _Runs) -> Vector:
    """Return the log-likelihood ratios of all releases of each run."""
    values = np.empty((2, runs.n_runs))
    there = runs.pair.moved
    back = None if there is None else np.argsort(there)
    for world, (sign, rows) in enumerate(((1.0, there), (-1.0, back))):
        for i, (record, noise) in enumerate(runs.recorded(world)):
            with replayed(record.outputs, record.draws, rows=rows) as replay:
                runs.fit(1 - world, noise)
            values[world, i] = sign * log_likelihood_ratio(record, replay)
    return values


def _projections(runs: _Runs) -> Vector:
    """Return a test statistic that does not use secret draws.

    It is the projection of one release on the difference of its means over the two data sets. The
    first half of the runs chooses the release and the direction, as it chooses thresholds.
    """
    outputs: list[list[Vector]] = [[], []]
    scales: list[float] = []
    for world, found in enumerate(outputs):
        for record, _ in runs.recorded(world):
            found.append(np.concatenate(record.outputs))
            scales = record.scales
            sizes = [len(output) for output in record.outputs]
    both = [np.array(rows) for rows in outputs]
    half = runs.n_runs // 2
    apart = both[0][:half].mean(axis=0) - both[1][:half].mean(axis=0)
    edges = np.cumsum([0, *sizes])
    shown = [
        float(np.linalg.norm(apart[a:b])) / scale
        for a, b, scale in zip(edges[:-1], edges[1:], scales, strict=True)
    ]
    best = int(np.argmax(shown))
    part = slice(int(edges[best]), int(edges[best + 1]))
    return np.array([rows[:, part] @ apart[part] for rows in both])


def log_likelihood_ratio(record: Tape, replay: Tape) -> float:
    """Return the log-likelihood ratio of a recorded run: its own data against the replay's.

    It sums over all releases, each a Gaussian around its protected value.
    """
    releases = zip(record.outputs, record.values, replay.values, record.scales, strict=True)
    return sum(
        float((mine - theirs) @ (output - 0.5 * (mine + theirs))) / (scale * scale)
        for output, mine, theirs, scale in releases
    )
