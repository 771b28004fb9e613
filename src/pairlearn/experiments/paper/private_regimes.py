# SPDX-License-Identifier: BSD-3-Clause
"""Private learning on Gaussian models with a known best AUC.

``pairlearn reproduce private-regimes`` tested whether a rule on public quantities (n, d, epsilon,
delta) should choose among mechanisms; no such rule is used, see the documentation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.experiments.paper.outcome import Outcome, Settings, Shelf
from pairlearn.experiments.plain_text import paragraph, text_table
from pairlearn.experiments.report.page import Table, number
from pairlearn.privacy.expected import expected_auc, simulated_auc
from pairlearn.privacy.mechanisms.base import Mechanism, PublicSetting
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.mechanisms.gradient import AllPairsGradient
from pairlearn.privacy.mechanisms.single_pass import SinglePass
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.quartiles import PrivateBounds

CONTESTANTS: dict[str, Mechanism] = {
    "5 rounds": CentredStatistics(),
    "3 rounds": CentredStatistics(n_rounds=3),
    "2 rounds": CentredStatistics(n_rounds=2),
    "1 round": CentredStatistics(n_rounds=1),
    "all_pairs": AllPairsGradient(),
    "single_pass": SinglePass(),
}


@dataclass(frozen=True)
class Regime:
    """A Gaussian model: two classes with equal covariances.

    `positives` is the share of positive examples, `correlation` that of two features in a class.
    """

    n_examples: int
    n_features: int
    positives: float = 0.5
    correlation: float = 0.0


#: Balanced and typical; many features; five positives in 256; correlated features.
REGIMES = (
    Regime(256, 8),
    Regime(256, 24),
    Regime(256, 64),
    Regime(256, 200),
    Regime(256, 8, positives=0.02),
    Regime(256, 24, positives=0.02),
    Regime(1000, 24, positives=0.02),
    Regime(256, 24, correlation=0.5),
    Regime(1000, 64, correlation=0.5),
)


def regime_auc(
    regime: Regime,
    mechanism: Mechanism,
    *,
    epsilon: float,
    best_auc: float = 0.85,
    n_runs: int = 100,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the mean AUC of a mechanism and its standard error; delta is 1/n.

    The AUC of a direction w is Phi(w . g / sqrt(2 w' S w)) for a gap g between the class means and
    a covariance S. Features have a standard deviation of 0.75 standard units, means lie 0.5 units
    off the middle of their bounds, and the direction of the gap is random. The best linear score
    has `best_auc`. The data do not depend on the mechanism.
    """
    from scipy.special import ndtr, ndtri

    n, d = regime.n_examples, regime.n_features
    setting = PublicSetting.make(
        n, lower=np.full(d, -3.0), upper=np.full(d, 3.0), epsilon=epsilon, delta=1.0 / n
    )
    rho = regime.correlation
    found = np.empty(n_runs)
    for run in range(n_runs):
        rng = np.random.default_rng([seed, run])
        axis = rng.normal(size=d)
        # S^{-1} of S = (1 - rho) I + rho 1 1'.
        solved = (axis - rho * axis.sum() / (1.0 - rho + rho * d)) / (1.0 - rho)
        gap = axis * math.sqrt(2.0) * float(ndtri(best_auc)) / math.sqrt(float(axis @ solved))
        signs = np.where(rng.random(n) < regime.positives, 1.0, -1.0)
        Z = math.sqrt(1.0 - rho) * rng.normal(size=(n, d))
        Z += math.sqrt(rho) * rng.normal(size=(n, 1)) + np.outer(signs > 0, gap)
        Z = 0.75 * Z + 0.5 * np.sign(rng.normal(size=d))
        noise = NoiseSource(secure=False, seed=rng)
        fit = mechanism.fit(setting.to_standard(Z), signs, setting=setting, noise=noise)
        w = fit.direction
        spread = (1.0 - rho) * float(w @ w) + rho * float(w.sum()) ** 2
        found[run] = ndtr(float(w @ gap) / math.sqrt(2.0 * spread))
    error = found.std(ddof=1) / math.sqrt(n_runs) if n_runs > 1 else math.nan
    return float(found.mean()), float(error)


def private_regimes(name: str, settings: Settings, shelf: Shelf) -> Outcome:
    """Compare numbers of rounds of the default, and two pair mechanisms, in all regimes."""
    n_runs = settings.splits(100)
    rows, largest = [], 0.0
    for regime, epsilon in itertools.product(REGIMES, (0.2, 1.0)):
        found = [
            regime_auc(regime, mechanism, epsilon=epsilon, n_runs=n_runs, seed=settings.seed)
            for mechanism in CONTESTANTS.values()
        ]
        largest = max(largest, *(error for _, error in found))
        model = [regime.n_examples, regime.n_features, regime.positives, regime.correlation]
        rows.append([*model, epsilon, *(mean for mean, _ in found)])
    facts = ["n", "d", "positive", "correlation", "epsilon"]
    remark = (
        f"Mean AUC over {n_runs} data sets each, where the best linear score has .85; delta = 1/n. "
        + (
            f"Standard errors are at most {largest:.3f}."
            if n_runs > 1
            else "One has no standard error."
        )
    )
    title = "Private learning with many features and with few positives"
    return _outcome(name, title, remark, facts, [*CONTESTANTS], rows)


def private_planner(name: str, settings: Settings, shelf: Shelf) -> Outcome:
    """Simulate the default mechanism, and print the planner's predictions beside it."""
    n_runs = settings.splits(40)
    rows = []
    bounds = [(0.5, 8.0, False), (0.1, 8.0, False), (0.5, 40.0, False), (0.5, 40.0, True)]
    for n, d, epsilon, (positives, ratio, search) in itertools.product(
        (250, 1000, 4000), (5, 20, 60), (0.3, 1.0, 3.0), bounds
    ):
        facts: dict[str, Any] = {
            "epsilon": epsilon, "positives": positives, "range_over_spread": ratio
        }  # fmt: skip
        chosen = PrivateBounds(0.0, 1.0) if search else None
        predicted = expected_auc(n, d, search=chosen, **facts)
        simulated = simulated_auc(n, d, search=search, n_runs=n_runs, seed=settings.seed, **facts)
        rows.append([n, d, epsilon, positives, ratio, int(search), predicted, simulated])
    errors = np.array([row[-1] - row[-2] for row in rows])
    remark = (
        f"Means over {n_runs} data sets each. Root mean square error "
        f"{math.sqrt(float(np.mean(errors**2))):.3f}, largest {np.abs(errors).max():.3f}."
    )
    known = ["n", "d", "epsilon", "positive", "range/sd", "bounds found"]
    title = "The planner beside simulations"
    return _outcome(name, title, remark, known, ["predicted", "simulated"], rows)


def _outcome(
    name: str,
    title: str,
    remark: str,
    facts: list[str],
    aucs: list[str],
    rows: Sequence[Sequence[float]],
) -> Outcome:
    """Return an outcome with one table: columns of facts, then columns of AUCs."""
    formats = ["g"] * len(facts) + [".3f"] * len(aucs)
    cells = [[number(v, f) for v, f in zip(row, formats, strict=True)] for row in rows]
    table = Table(title="Mean AUC", name="auc", note=remark, columns=facts + aucs, rows=cells)
    grid = text_table(facts + aucs, [[cell.text for cell in row] for row in cells])
    return Outcome.shown(name, title, f"{grid}\n{paragraph(remark)}", [remark], [table])
