# SPDX-License-Identifier: BSD-3-Clause
r"""Attack a mechanism and bound its epsilon from below.

An auditor who knows everything but the noise runs a mechanism many times on two neighbouring data
sets S and S' and tries to tell the runs apart. If a test accepts runs on S with probability p and
runs on S' with probability p', then (epsilon, delta)-DP forces p <= e^epsilon p' + delta, so

    epsilon >= log((p - delta) / p'),

and mu-Gaussian-DP forces mu >= Phi^{-1}(p) - Phi^{-1}(p'). Threshold and side of the test are
chosen on one half of the runs and the two probabilities are bounded on the other half (Clopper
and Pearson), so the bound holds with the stated confidence, whatever the mechanism.

The test statistic is the exact log-likelihood ratio of *everything* that the mechanism released:
each run is recorded, and then the mechanism is run on the other data set with the recorded outputs
put in the place of its noisy values. This also shows the exact distance between the two data sets
at each release, which `release_distances` compares with the claimed sensitivity: a deterministic
check, stronger than any audit where it applies.

An audit can find a broken mechanism; it cannot prove one right.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.accounting import epsilon_of_mu
from pairlearn.privacy.mechanism import Mechanism, PrivateFit, PublicSetting
from pairlearn.privacy.noise import NoiseSource
from pairlearn.validation import check_count, check_fraction

__all__ = [
    "AuditResult",
    "Neighbours",
    "RecordingSource",
    "ReplayingSource",
    "audit",
    "audit_statistics",
    "main",
    "release_distances",
    "worst_case_neighbours",
]

Vector = NDArray[np.float64]

#: Makes the noise source of a run, given its number.
SourceMaker = Callable[[int], NoiseSource]


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring data sets in standard coordinates.

    Parameters
    ----------
    Z, signs : ndarray
        The first data set.
    other, other_signs : ndarray
        The second one.
    """

    Z: Vector
    signs: Vector
    other: Vector
    other_signs: Vector


def worst_case_neighbours(setting: PublicSetting) -> Neighbours:
    """Return neighbours that are as far apart as the public bounds allow.

    All examples are negative and in the middle of the bounds, except for a positive one in a
    corner. Replacement moves it to the opposite corner: every pair with it is active and turns
    round. For add or remove it is the one that is missing.

    Parameters
    ----------
    setting : PublicSetting
        What is public.

    Returns
    -------
    Neighbours
        The two data sets.

    Examples
    --------
    >>> setting = PublicSetting.make(4, lower=[0], upper=[1], epsilon=1, delta=0.01)
    >>> pair = worst_case_neighbours(setting)
    >>> pair.Z.ravel().tolist(), pair.other.ravel().tolist()
    ([0.0, 3.0, 0.0, 0.0], [0.0, -3.0, 0.0, 0.0])
    """
    n = setting.n_examples
    Z = np.zeros((n, setting.n_features))
    signs = -np.ones(n)
    # Not the first row: in a pass, it would have one neighbour only.
    place = min(1, n - 1)
    Z[place] = setting.to_standard(setting.upper[None, :])[0]
    signs[place] = 1.0
    if setting.neighbours == "add_remove":
        return Neighbours(Z, signs, np.delete(Z, place, axis=0), np.delete(signs, place))
    other = Z.copy()
    other[place] = setting.to_standard(setting.lower[None, :])[0]
    return Neighbours(Z, signs, other, signs.copy())


class RecordingSource(NoiseSource):
    """A source that writes down what it was asked to protect and what it gave out.

    Parameters
    ----------
    inner : NoiseSource
        Where the noise comes from.
    """

    def __init__(self, inner: NoiseSource) -> None:
        self.secure = inner.secure
        self.private = False
        self.values: list[Vector] = []
        self.outputs: list[Vector] = []
        self.scales: list[float] = []
        self._inner = inner

    def protect(self, values: Vector, scale: float) -> Vector:
        """Record values, scale and output of the inner source."""
        output = self._inner.protect(values, scale)
        self._note(values, output, scale)
        return output

    def protect_integers(self, values: NDArray[np.int64], scale: int) -> NDArray[np.int64]:
        """Record values, scale and output of the inner source."""
        output = self._inner.protect_integers(values, scale)
        self._note(values.astype(np.float64), output.astype(np.float64), float(scale))
        return output

    def _note(self, values: Vector, output: Vector, scale: float) -> None:
        self.values.append(np.array(values, dtype=np.float64))
        self.outputs.append(np.array(output, dtype=np.float64))
        self.scales.append(scale)


class ReplayingSource(NoiseSource):
    """A source that gives out the outputs of an earlier run.

    Parameters
    ----------
    record : RecordingSource
        The earlier run.
    """

    def __init__(self, record: RecordingSource) -> None:
        self.secure = record.secure
        self.private = False
        self.values: list[Vector] = []
        self._outputs = iter(record.outputs)

    def protect(self, values: Vector, scale: float) -> Vector:
        """Record the values and return the earlier output."""
        self.values.append(np.array(values, dtype=np.float64))
        return next(self._outputs)

    def protect_integers(self, values: NDArray[np.int64], scale: int) -> NDArray[np.int64]:
        """Record the values and return the earlier output."""
        self.values.append(values.astype(np.float64))
        return next(self._outputs).astype(np.int64)


def release_distances(
    mechanism: Mechanism,
    neighbours: Neighbours,
    *,
    setting: PublicSetting,
    noise: NoiseSource,
) -> list[tuple[float, float]]:
    """Return, for each release of one run, the distance between neighbours and its bound.

    Both are in units of the noise: distance / scale, and sensitivity / scale as claimed in the
    fit's releases. The first must never exceed the second.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    neighbours : Neighbours
        Two data sets.
    setting : PublicSetting
        What is public.
    noise : NoiseSource
        The noise of the run.

    Returns
    -------
    list of (float, float)
        Distance and bound of each release.
    """
    record = RecordingSource(noise)
    fit = mechanism.fit(neighbours.Z, neighbours.signs, setting=setting, noise=record)
    replay = ReplayingSource(record)
    mechanism.fit(neighbours.other, neighbours.other_signs, setting=setting, noise=replay)
    return [
        (float(np.linalg.norm(mine - theirs)) / scale, release.mu)
        for mine, theirs, scale, release in zip(
            record.values, replay.values, record.scales, fit.releases, strict=True
        )
    ]


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

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
        Probability with which each of the two bounds holds.

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

    def statement(self) -> str:
        """Return the result as text.

        Returns
        -------
        str
            A sentence or two.
        """
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
        return text + "."


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

    `above` and `other` count, out of n, the runs at or above a threshold on the two data sets; the
    two Clopper-Pearson bounds of a pair of counts share `error`.
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

    Choosing a threshold by the raw counts of one half would favour lucky extremes, which fail on
    the other half. The bound is valid for any choice that does not look at the other half.
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

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism.
    setting : PublicSetting
        What is public, and the claim.
    n_runs : int, default=10000
        Runs on each data set.
    confidence : float, default=0.95
        Probability with which each bound holds.
    neighbours : Neighbours, optional
        The two data sets; `worst_case_neighbours` by default.
    make_source : callable, optional
        Makes the noise source of run number i; fresh secret sources by default. Tests put broken
        sources here.

    Returns
    -------
    AuditResult
        Lower bounds on epsilon and mu.
    """
    pair = worst_case_neighbours(setting) if neighbours is None else neighbours
    maker: SourceMaker = make_source or (lambda _: NoiseSource())
    values = np.empty((2, n_runs))
    claimed: float | None = None
    for world in range(2):
        own = (pair.Z, pair.signs), (pair.other, pair.other_signs)
        here, there = own[world], own[1 - world]
        sign = 1.0 if world == 0 else -1.0
        for i in range(n_runs):
            record = RecordingSource(maker(world * n_runs + i))
            fit: PrivateFit = mechanism.fit(*here, setting=setting, noise=record)
            replay = ReplayingSource(record)
            mechanism.fit(*there, setting=setting, noise=replay)
            values[world, i] = sign * sum(
                _log_ratio(*release)
                for release in zip(
                    record.outputs, record.values, replay.values, record.scales, strict=True
                )
            )
            claimed = fit.mu
    return audit_statistics(
        values[0],
        values[1],
        epsilon=setting.epsilon,
        delta=setting.delta,
        mu=None if claimed is None else setting.mu,
        confidence=confidence,
    )


def _log_ratio(output: Vector, mine: Vector, theirs: Vector, scale: float) -> float:
    """Return the log-likelihood ratio of a Gaussian output around `mine` and around `theirs`."""
    apart = mine - theirs
    return float(apart @ (output - 0.5 * (mine + theirs))) / (scale * scale)


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit a mechanism by name and print the result.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command line; that of the process by default.

    Returns
    -------
    int
        0 if the claim survived, 1 if it was refuted.
    """
    # Imported here because the registry imports the mechanisms, and they need nothing of this.
    from pairlearn.privacy.mechanisms import get_mechanism

    parser = argparse.ArgumentParser(prog="python -m pairlearn.privacy.audit")
    parser.add_argument("--mechanism", default="statistics")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-3)
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--d", type=int, default=4)
    parser.add_argument("--neighbours", default="replace")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--confidence", type=float, default=0.95)
    options = parser.parse_args(arguments)
    setting = PublicSetting.make(
        options.n,
        lower=np.full(options.d, -1.0),
        upper=np.full(options.d, 1.0),
        epsilon=options.epsilon,
        delta=options.delta,
        neighbours=options.neighbours,
    )
    result = audit(
        get_mechanism(options.mechanism),
        setting,
        n_runs=options.runs,
        confidence=options.confidence,
    )
    print(result.statement())
    return 0 if result.passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
