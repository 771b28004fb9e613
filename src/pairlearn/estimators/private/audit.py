# SPDX-License-Identifier: BSD-3-Clause
r"""Audit a private estimator: attack its public output.

The audit fits the estimator on neighbouring tables (`private.neighbours`) and attacks in three
ways.

*Exactly.* A fit is recorded and replayed on the neighbour: the noise source returns the same noisy
values again. Everything public (fitted attributes, scores and probabilities of new examples, the
model file, the certificate) must then be the same to the last bit, since the estimator may know the
data through noisy values only. Protected values must stay within the stated sensitivity, and the
certificate must list all releases and add up. This needs no statistics: it surely finds every
violation that these neighbours expose. The pair with the largest distance is attacked further.

*By its public numbers.* The estimator is fitted many times with its own secret noise, as a user
would. Nobody must be able to tell the two tables apart by coefficients, intercept, scores and
probabilities better than the guarantee allows. The statistic is their projection on a direction
learned on half of the runs; the other half bounds epsilon from below (Clopper and Pearson).

*By its releases.* The same with the log-likelihood ratio of all noisy releases, unless secret draws
are part of the protection. This attack also measures the noise itself.

An audit can find a broken estimator; it cannot prove one right. `PublicAudit.power` is the smallest
violation that it would have found.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from pairlearn.estimators.private.auc import PrivateAUCClassifier
from pairlearn.estimators.private.metric import PrivateMetricLearner
from pairlearn.estimators.private.mixin import PrivacyWarning
from pairlearn.estimators.private.neighbours import (
    PublicNeighbours,
    observed,
    public_neighbours,
    public_numbers,
)
from pairlearn.privacy.accounting.gaussian import epsilon_of_mu, mu_of
from pairlearn.privacy.accounting.verify import accounting_problems
from pairlearn.privacy.audit.attack import (
    AuditResult,
    audit_statistics,
    log_likelihood_ratio,
    smallest_violation,
)
from pairlearn.privacy.audit.noise_check import NoiseCheck
from pairlearn.privacy.audit.replay import RecordingSource, ReplayingSource
from pairlearn.privacy.noise import NoiseSource
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction

PrivateEstimator = PrivateAUCClassifier | PrivateMetricLearner

#: Relative tolerance for rounding in a distance.
_ROUNDING = 1e-9
#: Share of the total error for each of the four bounds on epsilon and mu.
_EACH_BOUND = 0.24
#: Share of the total error for each of the two bounds on the noise, which shows by a wide margin.
_EACH_NOISE = 0.02
#: Number of runs on each table that measure the noise.
_MEASURED_RUNS = 200


@dataclass(frozen=True)
class PublicAudit:
    """The result of an audit of an estimator.

    Parameters
    ----------
    epsilon, delta : float
        The claim.
    findings : tuple of str
        Violations that the exact check found; any of them refutes the claim.
    n_pairs : int
        Number of pairs of tables in the exact check.
    worst : str
        The pair that was attacked.
    largest_share : float
        Its distance as a share of the distance that the claim allows.
    public : AuditResult
        The attack on public numbers.
    releases : AuditResult or None
        The attack on the releases; None if secret draws protect them too.
    noise_upper : float
        Upper bound on the noise as a multiple of the stated noise.
    noise_correlation_lower : float
        Lower bound on the correlation of the noise of successive runs.
    power : float or None
        The smallest epsilon, at `delta`, that the attacks would have refuted in nine of ten cases;
        None if there were too few runs to refute any.
    confidence : float
        A sound estimator passes with this probability or more.
    """

    epsilon: float
    delta: float
    findings: tuple[str, ...]
    n_pairs: int
    worst: str
    largest_share: float
    public: AuditResult
    releases: AuditResult | None
    noise_upper: float
    noise_correlation_lower: float
    power: float | None
    confidence: float

    @property
    def passed(self) -> bool:
        """Whether the audit found no violation."""
        return (
            not self.findings
            and self.public.passed
            and (self.releases is None or self.releases.passed)
            and self.noise_upper >= 1.0
            and self.noise_correlation_lower <= 0.0
        )

    def statement(self) -> str:
        """Return the result as text."""
        verdict = "not refuted" if self.passed else "REFUTED"
        n_runs = self.public.n_runs
        lines = [
            f"Claim ({self.epsilon:g}, {self.delta:g})-DP: {verdict}.",
            f"Exact check on {self.n_pairs} pairs of tables: "
            + ("nothing found." if not self.findings else ""),
            *(f"  - {finding}" for finding in self.findings),
            f"Attacked: {self.worst}, {self.largest_share:.3f} of the allowed distance.",
            f"Public numbers of {n_runs} fits on each table: epsilon is at least "
            f"{self.public.epsilon_lower:.3f}.",
        ]
        if self.releases is not None:
            lines.append(
                f"All releases of {self.releases.n_runs} fits: epsilon is at least "
                f"{self.releases.epsilon_lower:.3f}, mu at least {self.releases.mu_lower:.4f}."
            )
        lines.append(f"Noise: at most {self.noise_upper:.3f} of the stated noise.")
        if self.noise_correlation_lower > 0.0:
            lines.append("The noise of successive runs is correlated: it was reused.")
        power = "nothing, because there are too few runs"
        if self.power is not None:
            power = f"a true epsilon of {self.power:.3f} or more in nine of ten cases"
        lines.append(
            f"Power: the attacks would have refuted {power}; the exact check finds every violation "
            "that its tables expose."
        )
        lines.append(
            f"A sound estimator is refuted with probability {1 - self.confidence:.2g} or less."
        )
        return "\n".join(lines)


def audit_estimator(
    estimator: PrivateEstimator,
    *,
    n: int = 64,
    n_features: int = 4,
    n_runs: int = 2_000,
    confidence: float = 0.99,
) -> PublicAudit:
    """Audit a private estimator by attacks on its public output.

    Parameters
    ----------
    estimator : PrivateAUCClassifier, PrivateAUCStream or PrivateMetricLearner
        The estimator with its public arguments; `delta` must be given.
    n : int, default=64
        Number of examples of the tables.
    n_features : int, default=4
        Number of features, if `bounds` do not determine it.
    n_runs : int, default=2000
        Fits on each of two tables.
    confidence : float, default=0.99
        A sound estimator passes with this probability or more.

    Returns
    -------
    PublicAudit
        The result.

    Examples
    --------
    >>> model = PrivateAUCClassifier(epsilon=1.0, delta=1e-3, bounds=(-1.0, 1.0))
    >>> audit_estimator(model, n=16, n_features=1, n_runs=8).passed
    True
    """
    check_fraction("confidence", confidence)
    check_count("n_runs", n_runs, minimum=8)
    if estimator.delta is None:
        raise ValueError("an audit needs one claim, got delta=None; give delta.")
    with warnings.catch_warnings():
        # Recorded noise is not private and gives a warning in each fit.
        warnings.simplefilter("ignore", PrivacyWarning)
        exact = check_estimator_exactly(estimator, n=n, n_features=n_features)
        pair = exact.worst
        each = 1.0 - _EACH_BOUND * (1.0 - confidence)
        claim: dict[str, Any] = {
            "epsilon": estimator.epsilon,
            "delta": estimator.delta,
            "confidence": each,
        }
        mu = exact.mu
        public = audit_statistics(
            *_projected(_public_runs(estimator, pair, n_runs)), mu=mu, **claim
        )
        noise = NoiseCheck()
        ratios = _release_runs(estimator, pair, n_runs, noise)
    releases = None if ratios is None else audit_statistics(*ratios, mu=mu, **claim)
    sure = 1.0 - _EACH_NOISE * (1.0 - confidence)
    true_mu = smallest_violation(
        mu_of(estimator.epsilon, estimator.delta), estimator.delta, n_runs=n_runs, confidence=each
    )
    return PublicAudit(
        estimator.epsilon,
        estimator.delta,
        tuple(exact.findings),
        exact.n_pairs,
        pair.name,
        exact.share,
        public,
        releases,
        noise.level_upper(sure),
        max(0.0, noise.correlation_lower(sure)),
        None if math.isinf(true_mu) else epsilon_of_mu(true_mu, estimator.delta),
        confidence,
    )


@dataclass(frozen=True)
class ExactCheck:
    """The result of the exact check: findings, the pair with the largest distance, the claim."""

    findings: list[str]
    n_pairs: int
    worst: PublicNeighbours
    share: float
    mu: float | None


def check_estimator_exactly(
    estimator: PrivateEstimator, *, n: int = 64, n_features: int = 4
) -> ExactCheck:
    """Record fits and replay them on neighbouring tables; see the module."""
    lower, upper = estimator.public_bounds(estimator.public_width() or n_features)
    if estimator.n_examples is None and estimator.neighbours == "add_remove":
        estimator = clone(estimator).set_params(n_examples=n)
    pairs = public_neighbours(
        lower, upper, tuple(estimator.labels), n=n, neighbours=estimator.neighbours
    )
    findings: list[str] = []
    worst, share, mu = pairs[0], -1.0, None
    # New examples: their scores are public.
    probes = np.linspace(lower, upper, 5)
    for pair in pairs:
        try:
            found, distance, mu = _exact(estimator, pair, probes)
        except Exception as error:  # An error that depends on the data is a release.
            found, distance = [f"the data cause a {type(error).__name__}"], 0.0
        findings.extend(f"{pair.name}: {finding}." for finding in found)
        if distance > share:
            worst, share = pair, distance
    return ExactCheck(findings, len(pairs), worst, share, mu)


def _exact(
    estimator: PrivateEstimator, pair: PublicNeighbours, probes: Vector
) -> tuple[list[str], float, float | None]:
    """Return the findings, the distance as a share of the claim, and the claimed mu."""
    record = RecordingSource(NoiseSource(secure=estimator.secure, seed=0))
    model = _with_noise(estimator, record).fit(pair.X, pair.y)
    replay = ReplayingSource(record, pair.rows)
    try:
        other = _with_noise(estimator, replay).fit(pair.other, pair.other_y)
    except StopIteration:
        return ["more is released on the neighbour"], 0.0, None
    found = []
    ours, theirs = observed(model, probes), observed(other, probes)
    differ = [name for name in ours if ours[name] != theirs.get(name)]
    if differ:
        found.append(f"with the same noisy values {', '.join(differ)} differ on the neighbour")
    certificate = model.certificate_
    # Recorded noise can always be reproduced, so that problem does not count.
    problems = accounting_problems(certificate)
    found += [problem.rstrip(".") for problem in problems if "can be reproduced" not in problem]
    if [v.shape for v in record.values] != [v.shape for v in replay.values]:
        return [*found, "other numbers are released on the neighbour"], 0.0, certificate.mu
    stated = [release.dimension for release in certificate.releases]
    if stated != [value.size for value in record.values]:
        found.append(f"releases of {stated} numbers are listed, but others were made")
        return found, 0.0, certificate.mu
    distances = [
        float(np.linalg.norm(mine - others)) / scale
        for mine, others, scale in zip(record.values, replay.values, record.scales, strict=True)
    ]
    for distance, release in zip(distances, certificate.releases, strict=True):
        if not distance <= release.mu * (1.0 + _ROUNDING):
            found.append(
                f"{release.name} is {distance / release.mu:.4g} times its sensitivity away"
            )
    if certificate.mu is None:
        return (
            found,
            max(d / r.mu for d, r in zip(distances, certificate.releases, strict=True)),
            None,
        )
    total = math.hypot(0.0, *distances)
    allowed = mu_of(certificate.epsilon, certificate.delta)
    if not total <= allowed * (1.0 + _ROUNDING):
        found.append(f"all releases together are {total / allowed:.4g} times the budget away")
    return found, total / allowed, certificate.mu


def _with_noise(estimator: PrivateEstimator, noise: NoiseSource) -> Any:
    """Return an unfitted copy that uses the given noise source."""
    model = clone(estimator)
    model.random_state = noise
    model.ledger = None
    return model


def _public_runs(
    estimator: PrivateEstimator, pair: PublicNeighbours, n_runs: int
) -> tuple[Vector, Vector]:
    """Return the public numbers of many fits with the estimator's own noise, on each table."""
    model = clone(estimator)
    model.ledger = None
    width = model.fit(pair.X, pair.y).n_features_in_
    lower, upper = model.public_bounds(width)
    probes = np.linspace(lower, upper, 3)
    tables = []
    for X, y in ((pair.X, pair.y), (pair.other, pair.other_y)):
        tables.append(np.array([public_numbers(model.fit(X, y), probes) for _ in range(n_runs)]))
    return tables[0], tables[1]


def _projected(tables: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
    """Project the runs on the direction that best separates the first halves."""
    half = len(tables[0]) // 2
    ours, theirs = (table[:half] for table in tables)
    centre = 0.5 * (ours.mean(axis=0) + theirs.mean(axis=0))
    spread = np.sqrt(0.5 * (ours.var(axis=0) + theirs.var(axis=0)))
    # Numbers without noise have no spread; the lower bound lets them separate the tables at once.
    unit = np.maximum(spread, 1e-9 * (1.0 + np.abs(centre)))
    ours, theirs = ((rows - centre) / unit for rows in (ours, theirs))
    covariance = 0.5 * (np.cov(ours.T) + np.cov(theirs.T))
    apart = ours.mean(axis=0) - theirs.mean(axis=0)
    ridge = 0.01 * np.eye(len(apart))
    direction = np.linalg.solve(np.atleast_2d(covariance) + ridge, apart) / unit
    return (tables[0] - centre) @ direction, (tables[1] - centre) @ direction


def _release_runs(
    estimator: PrivateEstimator, pair: PublicNeighbours, n_runs: int, noise: NoiseCheck
) -> tuple[Vector, Vector] | None:
    """Return the log-likelihood ratios of all releases, and measure the noise on the way."""
    data = (pair.X, pair.y), (pair.other, pair.other_y)
    secret = _has_secret_draws(estimator)
    back = None if pair.rows is None else np.argsort(pair.rows)
    ratios = np.empty((2, n_runs))
    model = _with_noise(estimator, NoiseSource())
    for world, rows in ((0, pair.rows), (1, back)):
        for run in range(n_runs):
            # The first runs measure the estimator's own noise. Later runs use floating-point noise
            # of the same law, which is as good for the ratio and faster.
            measured = run < _MEASURED_RUNS
            record = RecordingSource(NoiseSource(secure=estimator.secure and measured))
            model.random_state = record
            model.fit(*data[world])
            if measured:
                noise.add(record)
            if secret:
                continue
            model.random_state = replay = ReplayingSource(record, rows)
            model.fit(*data[1 - world])
            ratios[world, run] = (1.0, -1.0)[world] * log_likelihood_ratio(record, replay)
    return None if secret else (ratios[0], ratios[1])


def _has_secret_draws(estimator: PrivateEstimator) -> bool:
    from pairlearn.privacy.mechanisms.by_name import get_mechanism

    chosen: Any = getattr(estimator, "mechanism", None)
    return chosen is not None and get_mechanism(chosen).secret_draws
