# SPDX-License-Identifier: BSD-3-Clause
"""Private classifiers that ``python -m benchmarks.private_rivals`` compares, and their budgets.

All of them promise the same: (epsilon, delta) for *one example replaced*, the number of examples
public. Each package states its own guarantee, so each budget is converted here:

- **pairlearn**: `PrivateAUCClassifier` with its default neighbours, "replace". Nothing to convert.
- **diffprivlib**: objective perturbation, proved for one example replaced, with delta = 0. It gets
  the whole epsilon and has no use for delta. Its formula bounds the second derivative of the loss
  of a row x by R/4 where R^2/4 is needed (R bounds the length of x), and it leaves the intercept
  without the regularisation that the proof asks for. Both are right for R = 1 and no intercept, so
  rows get a constant column and are divided by the root of d + 1, or by a fraction of it and then
  clipped to length 1 by the package.
- **DP-EBM** (interpret): Gaussian noise on histograms and on sums of residuals in leaves. One
  example added or removed changes a histogram by 1 and the sums by at most 1. One example replaced
  changes them by sqrt(2) and 2. All noise is Gaussian, so the total is Gaussian differential
  privacy with mu^2 = 2 mu_bins^2 + 4 mu_boosting^2, and its own epsilon is set such that this is
  the mu of (epsilon, delta). That is more than its documentation would give it, which adds the two
  epsilons.
- **Opacus**: DP-SGD with Poisson sampling, one example added or removed. An example is replaced by
  removing one and adding one: (e, f) for one change gives (2 e, (1 + exp(e)) f) for both, so it
  gets e = epsilon/2 and f = delta/(1 + exp(e)), with its tightest accountant ("prv"). Exact
  doubling for Gaussian noise would allow at most 2 % less noise.

No setting is tuned on the private data: each method has one fixed setting for all data sets, and
rivals also have a small grid, of which the table shows the best on *test* data. That is not
private; it is a bound on what private tuning could reach.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Score = Callable[[Vector], Vector]


@dataclass(frozen=True)
class Budget:
    """What every method may spend, for one example replaced."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Table:
    """Training examples with labels 0 and 1, and the public bounds of their features."""

    X: Vector
    y: NDArray[np.int64]
    lower: Vector
    upper: Vector

    def scaled(self, X: Vector) -> Vector:
        """Return rows with each feature mapped from its bounds to [-1, 1]."""
        inside = np.clip(X, self.lower, self.upper)
        return 2.0 * (inside - self.lower) / (self.upper - self.lower) - 1.0


@dataclass(frozen=True)
class Contestant:
    """A method: `fit(table, noise, seed, **setting)`, where `account` gives the noise."""

    name: str
    fit: Callable[..., Score]
    account: Callable[..., Any]
    setting: Mapping[str, Any]
    grid: tuple[Mapping[str, Any], ...] = ()
    needs: Mapping[str, str] = field(default_factory=dict)

    def problem(self) -> str:
        """Return why the method cannot take part, or nothing: a small fit shows it."""
        absent = [
            package
            for module, package in self.needs.items()
            if importlib.util.find_spec(module) is None
        ]
        if absent:
            return f"not installed ({', '.join(absent)})"
        try:
            self.warm_up()
        except Exception as error:
            return f"does not run ({type(error).__name__}: {error})"
        return ""

    def warm_up(self) -> None:
        """Fit a small table, so that everything is loaded and compiled."""
        X = np.random.default_rng(0).uniform(size=(100, 3))
        small = Table(X, (X[:, 0] > 0.5).astype(np.int64), np.zeros(3), np.ones(3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.run(small, Budget(1.0, 0.001), 0, self.setting)

    def run(
        self, table: Table, budget: Budget, seed: int, setting: Mapping[str, Any]
    ) -> tuple[Score, float]:
        """Return the score and the CPU seconds of the fit; finding the noise scale is free."""
        noise = self.account(budget, len(table.y), **setting)
        begin = time.process_time()
        score = self.fit(table, noise, seed, **setting)
        return score, time.process_time() - begin


def _same(budget: Budget, n: int, **setting: Any) -> Budget:
    return budget


def ours(table: Table, noise: Budget, seed: int, *, features: str) -> Score:
    """Fit `PrivateAUCClassifier`; everything that is not a public fact is its default."""
    from pairlearn import PrivateAUCClassifier

    model = PrivateAUCClassifier(
        noise.epsilon, noise.delta, bounds=(table.lower, table.upper), features=features,
        random_state=seed,
    ).fit(table.X, table.y)  # fmt: skip
    return lambda X: np.asarray(model.decision_function(X))


def objective_perturbation(
    table: Table, noise: Budget, seed: int, *, C: float, length: float
) -> Score:
    """Fit diffprivlib's logistic regression to rows clipped to `length` times the longest."""
    from diffprivlib.models import LogisticRegression

    def rows(X: Vector) -> Vector:
        Z = table.scaled(X)
        return np.column_stack([Z, np.ones(len(Z))]) / (length * np.sqrt(Z.shape[1] + 1.0))

    model = LogisticRegression(
        epsilon=noise.epsilon, data_norm=1.0, C=C, fit_intercept=False, random_state=seed
    )
    coef = model.fit(rows(table.X), table.y).coef_[0]
    return lambda X: np.asarray(rows(X) @ coef)


#: The share of epsilon that DP-EBM spends on histograms, its default.
BIN_SHARE = 0.1


@functools.cache
def boosting_epsilon(epsilon: float, delta: float) -> float:
    """Return the epsilon that DP-EBM may be given for (epsilon, delta), one example replaced."""
    from scipy.optimize import brentq

    from pairlearn.privacy import mu_of

    goal = mu_of(epsilon, delta)

    def excess(own: float) -> float:
        bins, boosting = (mu_of(p * own, delta / 2.0) for p in (BIN_SHARE, 1.0 - BIN_SHARE))
        return float(np.sqrt(2.0 * bins**2 + 4.0 * boosting**2) - goal)

    return float(brentq(excess, 0.01 * epsilon, 2.0 * epsilon))


def _boosting_budget(budget: Budget, n: int, **setting: Any) -> Budget:
    return Budget(boosting_epsilon(budget.epsilon, budget.delta), budget.delta)


def boosting(table: Table, noise: Budget, seed: int, **setting: Any) -> Score:
    """Fit DP-EBM; all features are continuous, with the public bounds."""
    from interpret.privacy import DPExplainableBoostingClassifier

    model = DPExplainableBoostingClassifier(
        epsilon=noise.epsilon, delta=noise.delta, bin_budget_frac=BIN_SHARE,
        feature_types=["continuous"] * table.X.shape[1],
        privacy_bounds=np.column_stack([table.lower, table.upper]),
        random_state=seed, n_jobs=1, **setting,
    ).fit(table.X, table.y)  # fmt: skip
    return lambda X: np.asarray(model.decision_function(X))


@functools.cache
def noise_multiplier(epsilon: float, delta: float, rate: float, n_steps: int) -> float:
    """Return the noise of Opacus in units of the clipping norm, one example replaced."""
    from opacus.accountants import PRVAccountant

    from pairlearn.privacy import mu_of

    goal = epsilon / 2.0
    own_delta = delta / (1.0 + math.exp(goal))
    # Epsilon falls almost as 1 / scale: a few steps find it, and the last one has checked it.
    scale = rate * math.sqrt(n_steps) / mu_of(goal, own_delta)
    for _ in range(30):
        accountant = PRVAccountant()
        accountant.history = [(scale, rate, n_steps)]
        found = accountant.get_epsilon(own_delta, eps_error=0.01 * goal)
        if 0.98 * goal <= found <= goal:
            return scale
        scale *= found / (0.99 * goal)
    raise RuntimeError(f"no noise scale gives epsilon {epsilon} in {n_steps} steps, rate {rate}.")


def batches(n: int, n_epochs: float) -> tuple[float, int]:
    """Return the sampling rate and the number of steps: 128 rows a step at n = 256.

    Batches grow with the root of n, and so does the number of steps; both are functions of n alone.
    """
    rate = min(1.0, 0.5 * math.sqrt(256 / n))
    return rate, round(n_epochs / rate)


def _descent_noise(budget: Budget, n: int, *, n_epochs: float, **setting: Any) -> float:
    return noise_multiplier(budget.epsilon, budget.delta, *batches(n, n_epochs))


def descent(
    table: Table, noise: float, seed: int, *, n_epochs: float, step_size: float, n_hidden: int = 0
) -> Score:
    """Fit a logistic model, or a network with one hidden layer, by the DP-SGD of Opacus."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    torch.manual_seed(seed)
    d, n = table.X.shape[1], len(table.y)
    rate, n_steps = batches(n, n_epochs)
    X = torch.tensor(table.scaled(table.X), dtype=torch.float32)
    y = torch.tensor(table.y, dtype=torch.float32)
    if n_hidden:
        plain: Any = torch.nn.Sequential(
            torch.nn.Linear(d, n_hidden), torch.nn.Tanh(), torch.nn.Linear(n_hidden, 1)
        )
    else:
        plain = torch.nn.Linear(d, 1)
        torch.nn.init.zeros_(plain.weight)
        torch.nn.init.zeros_(plain.bias)
    model = GradSampleModule(plain)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=step_size),
        noise_multiplier=noise, max_grad_norm=1.0, expected_batch_size=rate * n,
    )  # fmt: skip
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    # The sampler draws a Poisson batch for each step; `steps` is how many.
    for batch in UniformWithReplacementSampler(num_samples=n, sample_rate=rate, steps=n_steps):
        optimizer.zero_grad()
        loss(model(X[batch])[:, 0], y[batch]).backward()
        optimizer.step()

    def score(Z: Vector) -> Vector:
        with torch.no_grad():
            rows = torch.tensor(table.scaled(Z), dtype=torch.float32)
            return np.asarray(plain(rows)[:, 0].numpy(), dtype=np.float64)

    return score


_TORCH = {"torch": "torch", "opacus": "opacus"}
_STEPS = {"n_epochs": 15, "step_size": 3.0}

#: In the order of the columns; the first is the one that the others are compared with.
CONTESTANTS = (
    Contestant("ours", ours, _same, {"features": "linear", }),
    Contestant("ours, hats", ours, _same, {"features": "hats", }),
    Contestant(
        "DP-EBM", boosting, _boosting_budget, {},
        grid=(
            {"max_rounds": 10, "learning_rate": 0.3, "max_bins": 8},
            {"max_rounds": 30, "learning_rate": 0.1, "max_bins": 8},
            {"max_rounds": 50, "learning_rate": 0.2, "max_bins": 32},
        ),
        needs={"interpret": "interpret-core"},
    ),
    Contestant(
        "diffprivlib", objective_perturbation, _same, {"C": 0.1, "length": 0.5},
        grid=tuple({"C": C, "length": 0.5} for C in (0.01, 1.0, 10.0)),
        needs={"diffprivlib": "diffprivlib"},
    ),
    Contestant(
        "Opacus linear", descent, _descent_noise, _STEPS,
        grid=(
            {"n_epochs": 3, "step_size": 0.3},
            {"n_epochs": 15, "step_size": 0.3},
            {"n_epochs": 45, "step_size": 3.0},
        ),
        needs=_TORCH,
    ),
    Contestant(
        "Opacus network", descent, _descent_noise, {**_STEPS, "n_hidden": 16},
        grid=({"n_epochs": 45, "step_size": 3.0, "n_hidden": 16},),
        needs=_TORCH,
    ),
)  # fmt: skip
