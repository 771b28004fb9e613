# SPDX-License-Identifier: BSD-3-Clause
r"""Audit a private function: attack what its user gets.

The audit calls the function on neighbouring tables and attacks in four ways.

*Exactly.* A run is recorded and played back on the neighbour (`privacy.audit.exact`). The pair with
the largest distance is attacked further.

*By its public numbers.* The function runs many times with its own secret noise, as for a user.
Nobody must be able to tell the two tables apart by coefficients, scores, rates and so on better
than the guarantee allows. The statistic is their projection on a direction learned on half of the
runs; the other half bounds epsilon from below (Clopper and Pearson).

*By its releases.* The same with the log-likelihood ratio of all noisy releases of a run.

*By its noise.* All noise of all runs must be as strong as stated, normal and independent: within a
vector, between the releases of one run, between runs and objects (`privacy.audit.noise_check`).
If a choice is released, its frequencies must follow its law.

An audit can find a broken function; it cannot prove one right. `PublicAudit.power` is the smallest
violation that the attacks would have found.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.privacy.accounting.gaussian import epsilon_of_mu, mu_of
from pairlearn.privacy.audit.attack import (
    AuditResult,
    audit_statistics,
    log_likelihood_ratio,
    smallest_violation,
)
from pairlearn.privacy.audit.exact import Entry, ExactCheck, check_entry, same_noise
from pairlearn.privacy.audit.noise_check import NoiseCheck
from pairlearn.privacy.audit.tape import Tape, recorded, replayed
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction

#: Share of the total error for each of the four bounds on epsilon and mu.
_EACH_BOUND = 0.24
#: Share of the total error for the level of the noise, for the correlation of successive runs, and
#: for everything else about the noise.
_EACH_NOISE = 0.01


@dataclass(frozen=True)
class PublicAudit:
    """The result of an audit.

    Parameters
    ----------
    epsilon, delta : float
        The claim.
    findings : tuple of str
        Violations that the exact check and the checks of the noise found; any of them refutes the
        claim.
    n_pairs : int
        Number of pairs of tables in the exact check.
    worst : str
        The pair that was attacked.
    largest_share : float
        Its distance as a share of the distance that the claim allows.
    public : AuditResult
        The attack on public numbers.
    releases : AuditResult or None
        The attack on the releases; None if there are none.
    noise_upper : float
        Upper bound on the noise as a multiple of the stated noise.
    noise_correlation_lower : float
        Lower bound on the correlation of the noise of successive runs.
    power : float or None
        The smallest epsilon, at `delta`, that the attacks would have refuted in nine of ten cases;
        None if there were too few runs to refute any.
    confidence : float
        A sound function passes with this probability or more.
    name : str, default="the function"
        What was audited.
    seconds : float, default=0.0
        Processor time of the audit.
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
    name: str = "the function"
    seconds: float = 0.0

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
            f"Claim ({self.epsilon:g}, {self.delta:g})-DP of {self.name}: {verdict}.",
            f"Exact check on {self.n_pairs} pairs of tables, and checks of the noise: "
            + ("nothing found." if not self.findings else ""),
            *(f"  - {finding}" for finding in self.findings),
            f"Attacked: {self.worst}, {self.largest_share:.3f} of the allowed distance.",
            f"Public numbers of {n_runs} runs on each table: epsilon is at least "
            f"{self.public.epsilon_lower:.3f}.",
        ]
        if self.releases is not None:
            lines.append(
                f"All releases of {self.releases.n_runs} runs: epsilon is at least "
                f"{self.releases.epsilon_lower:.3f}, mu at least {self.releases.mu_lower:.4f}."
            )
        if math.isfinite(self.noise_upper):
            lines.append(f"Noise: at most {self.noise_upper:.3f} of the stated noise.")
        if self.noise_correlation_lower > 0.0:
            lines.append("The noise of successive runs is correlated: it was reused.")
        if self.power is not None:
            power = (
                f"the attacks would have refuted a true epsilon of {self.power:.3f} or more in "
                "nine of ten cases"
            )
        elif self.delta == 0.0:
            power = "the law of the outcome is known and was compared exactly"
        else:
            power = "the attacks would have refuted nothing, because there are too few runs"
        lines.append(
            f"Power: {power}; the exact check finds every violation that its tables expose."
        )
        lines.append(
            f"A sound function is refuted with probability {1 - self.confidence:.2g} or less. "
            f"This took {self.seconds:.1f} seconds of processor time."
        )
        return "\n".join(lines)


def audit_entry(entry: Entry, *, n_runs: int = 2_000, confidence: float = 0.99) -> PublicAudit:
    """Audit a private function by attacks on what its user gets.

    Parameters
    ----------
    entry : Entry
        How the function is called, and what it makes public.
    n_runs : int, default=2000
        Runs on each of two tables; a slow function makes its share of them.
    confidence : float, default=0.99
        A sound function passes with this probability or more.

    Returns
    -------
    PublicAudit
        The result.

    Examples
    --------
    The entry of a function of your own is shown at `Entry`; these are those of this library:

    >>> from pairlearn.estimators import audit_entries
    >>> audit_entry(audit_entries(n=12)["evaluation"], n_runs=8).passed
    True
    """
    check_fraction("confidence", confidence)
    check_count("n_runs", n_runs, minimum=8)
    n_runs = max(8, round(n_runs * entry.share_of_runs))
    began = time.process_time()
    exact = check_entry(entry)
    noise = NoiseCheck()
    numbers, ratios = _runs(entry, exact, n_runs, noise)
    each = 1.0 - _EACH_BOUND * (1.0 - confidence)
    error = _EACH_NOISE * (1.0 - confidence)
    findings = [*exact.findings, *noise.findings(error, adaptive=entry.adaptive)]
    laws = entry.law(exact.worst.first), entry.law(exact.worst.second)
    if laws[0] is None or laws[1] is None:
        statistics = _projected(numbers)
    else:
        findings += _frequencies(numbers, (laws[0], laws[1]), error)
        # The best test of a choice: by its likelihood ratio, which must not be infinite.
        gain = np.log(np.maximum(laws[0], 1e-300)) - np.log(np.maximum(laws[1], 1e-300))
        chosen = [np.clip(rows[:, 0], 0, len(gain) - 1).astype(int) for rows in numbers]
        statistics = gain[chosen[0]], gain[chosen[1]]
    power = None
    if entry.delta > 0.0:
        budget = mu_of(entry.epsilon, entry.delta)
        true_mu = smallest_violation(budget, entry.delta, n_runs=n_runs, confidence=each)
        power = None if math.isinf(true_mu) else epsilon_of_mu(true_mu, entry.delta)

    def attacked(mine: Vector, theirs: Vector) -> AuditResult:
        return audit_statistics(
            mine, theirs, epsilon=entry.epsilon, delta=entry.delta, mu=exact.mu, confidence=each
        )

    return PublicAudit(
        epsilon=entry.epsilon,
        delta=entry.delta,
        findings=tuple(findings),
        n_pairs=exact.n_pairs,
        worst=exact.worst.name,
        largest_share=exact.share,
        public=attacked(*statistics),
        releases=None if ratios is None else attacked(*ratios),
        noise_upper=noise.level_upper(1.0 - error),
        noise_correlation_lower=max(0.0, noise.correlation_lower(1.0 - error)),
        power=power,
        confidence=confidence,
        name=entry.name,
        seconds=time.process_time() - began,
    )


def _runs(
    entry: Entry, exact: ExactCheck, n_runs: int, noise: NoiseCheck
) -> tuple[tuple[Vector, Vector], tuple[Vector, Vector] | None]:
    """Return public numbers and log-likelihood ratios of many runs; note the noise on the way.

    Each run has the function's own secret noise, as for a user.
    """
    pair = exact.worst
    there = pair.moved
    back = None if there is None else np.argsort(there)
    worlds = (pair.first, pair.second, there, 1.0), (pair.second, pair.first, back, -1.0)
    tables, ratios, comparable = [], np.zeros((2, n_runs)), True
    for world, (table, other, rows, sign) in enumerate(worlds):
        seen = []
        for run in range(n_runs):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with recorded() as tape:
                    seen.append(entry.numbers(entry.run(table)))
                noise.add(tape)
                replay = _replayed(entry, other, tape, rows) if comparable else None
            comparable = replay is not None
            if replay is not None:
                ratios[world, run] = sign * log_likelihood_ratio(tape, replay)
        tables.append(np.array(seen))
    return (tables[0], tables[1]), (ratios[0], ratios[1]) if comparable else None


def _replayed(entry: Entry, table: Any, tape: Tape, rows: Any) -> Tape | None:
    """Play a tape on the neighbour; None if that fails, which the exact check has reported."""
    try:
        with replayed(tape.outputs, tape.draws, rows=rows) as replay:
            entry.run(table)
    except Exception:
        return None
    return replay if tape.values and same_noise(tape, replay) else None


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


def _frequencies(
    numbers: tuple[Vector, Vector], laws: tuple[Vector, Vector], error: float
) -> list[str]:
    """Compare the frequencies of a choice with its law by chi-square."""
    from scipy.stats import chisquare

    found = []
    for chosen, law in zip(numbers, laws, strict=True):
        counts = np.bincount(chosen[:, 0].astype(int), minlength=len(law))
        kept = law > 0.0
        if len(counts) > len(law) or counts[~kept].any():
            found.append("a choice was made that has no chance by its law")
        elif kept.sum() > 1 and (
            chisquare(counts[kept], len(chosen) * law[kept] / law.sum()).pvalue < error / 2.0
        ):
            found.append("choices do not have the frequencies of their law")
    return found
