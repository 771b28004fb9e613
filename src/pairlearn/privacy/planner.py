# SPDX-License-Identifier: BSD-3-Clause
"""Predict the cost of privacy in AUC, before touching any private data.

The model: within each class the d features are Gaussian with equal variances, the best linear
score has AUC a, and a share p of the examples is positive. With g = sqrt(2) Phi^{-1}(a) the gap
between the class means in standard deviations, the default mechanism estimates
Cov(x, y) = 2 p (1 - p) g along one axis, with an error of variance

    v = 4 p (1 - p) / n  +  c^2 d (1 + |2p - 1|)^2 / (n mu)^2

in each direction: sampling, and noise of a release with radius c sqrt(d) / 2. The angle theta
between the estimated and the best direction gives the AUC Phi(Phi^{-1}(a) cos theta). The constant
c and the factors for wide bounds were fitted to `simulated_auc`; ``pairlearn reproduce
private-planner`` repeats the simulations beside the predictions. Correlated or skewed features,
wrong bounds and discrete codes change the result: read the plan as an order of magnitude.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.mechanisms.base import Mechanism, PublicSetting
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.quartiles import PrivateBounds, find_bounds
from pairlearn.validation import check_count, check_fraction, check_positive

# c of the module.
_NOISE_CONSTANT = 2.3
# Noise factor for each multiple by which the public bounds are too wide, fitted.
_WIDE_BOUNDS = 0.55
# Noise factor of bounds that the budget had to find, for many examples, fitted.
_SEARCHED_BOUNDS = 2.5
# Growth of that factor with the noise of the counts, fitted.
_COUNT_NOISE = 4.0
# The search for the smallest useful n stops here: no data set is larger.
_LARGEST_N = 1 << 40


@dataclass(frozen=True)
class PrivacyPlan:
    """The expected cost of privacy.

    Parameters
    ----------
    n_examples, n_features : int
        Size of the data.
    epsilon, delta : float
        The privacy parameters.
    best_auc : float
        AUC of the best linear score, assumed.
    positives : float
        Share of positive examples, assumed.
    private_auc : float
        Expected AUC of the private score.
    nonprivate_auc : float
        Expected AUC without noise, at the same n.
    smallest_n : int or None
        Smallest n at which privacy costs at most `tolerance`.
    tolerance : float
        The largest loss of AUC that is still useful.
    width : float, default=1.0
        How many times wider than necessary the public bounds are, assumed.
    searched_auc : float or None, default=None
        Expected AUC with bounds found with a part of the budget; None if `width` is 1.
    """

    n_examples: int
    n_features: int
    epsilon: float
    delta: float
    best_auc: float
    positives: float
    private_auc: float
    nonprivate_auc: float
    smallest_n: int | None
    tolerance: float
    width: float = 1.0
    searched_auc: float | None = None

    @property
    def private_bounds_pay(self) -> bool:
        """Whether the plan expects bounds found with a part of the budget to beat public ones."""
        return self.searched_auc is not None and self.searched_auc > self.private_auc

    @property
    def loss(self) -> float:
        """The expected loss of AUC through privacy."""
        return self.nonprivate_auc - self.private_auc

    def statement(self) -> str:
        """Return the plan as text."""
        enough = (
            f"A loss of at most {self.tolerance:g} needs about {self.smallest_n:,} examples."
            if self.smallest_n is not None
            else f"No realistic number of examples brings the loss below {self.tolerance:g}."
        )
        return (
            f"{self.n_examples:,} examples, {self.n_features} features, epsilon = "
            f"{self.epsilon:g}, delta = {self.delta:.3g}, one example replaced.\n"
            f"Assumed: best AUC {self.best_auc:g}, {100 * self.positives:g} % positive, Gaussian "
            "features inside the bounds.\n"
            f"Expected AUC: {self.private_auc:.3f} private, {self.nonprivate_auc:.3f} without "
            f"noise; loss {self.loss:.3f}.\n{self._about_bounds()}{enough}"
        )

    def _about_bounds(self) -> str:
        if self.searched_auc is None:
            return ""
        verdict = "that pays" if self.private_bounds_pay else "that does not pay"
        return (
            f"Assumed: bounds {self.width:g} times too wide. Finding better ones with a "
            f"part of the budget (PrivateBounds): expected AUC {self.searched_auc:.3f}; "
            f"{verdict}.\n"
        )


def expected_auc(
    n_examples: int,
    n_features: int,
    *,
    epsilon: float | None,
    delta: float | None = None,
    best_auc: float = 0.8,
    positives: float = 0.5,
    width: float = 1.0,
    search: PrivateBounds | None = None,
) -> float:
    """Return the expected AUC under the model of the module.

    Parameters
    ----------
    n_examples, n_features : int
        Size of the data.
    epsilon : float or None
        The privacy parameter; None for no noise at all.
    delta : float, optional
        The smaller of 1/(10 n) and n^(-3/2) by default.
    best_auc : float, default=0.8
        AUC of the best linear score.
    positives : float, default=0.5
        Share of positive examples.
    width : float, default=1.0
        How many times wider than necessary the public bounds are.
    search : PrivateBounds, optional
        How to find bounds with a part of the budget; by default the bounds are public.

    Returns
    -------
    float
        Between 0.5 and `best_auc`.

    Examples
    --------
    >>> round(expected_auc(10**9, 10, epsilon=1.0), 3)
    0.8
    >>> expected_auc(100, 50, epsilon=0.1) < 0.6
    True
    """
    from scipy.special import ndtr, ndtri

    n = check_count("n_examples", n_examples, minimum=2)
    d = check_count("n_features", n_features)
    p = check_fraction("positives", positives)
    if not 0.5 < best_auc < 1:
        raise ValueError(f"best_auc must lie between 0.5 and 1, got {best_auc!r}.")
    reach = float(ndtri(best_auc))
    signal = 2 * p * (1 - p) * math.sqrt(2) * reach
    variance = 4 * p * (1 - p) / n
    if epsilon is not None:
        mu = mu_of(epsilon, _default_delta(n) if delta is None else delta)
        factor = max(1.0, _WIDE_BOUNDS * check_positive("width", width))
        if search is not None:
            count_noise = math.sqrt(2 * d * search.levels / search.share) / (n * mu)
            factor = _SEARCHED_BOUNDS + _COUNT_NOISE * count_noise
        variance += (factor * _NOISE_CONSTANT * (1 + abs(2 * p - 1)) / (n * mu)) ** 2 * d
    deviation = math.sqrt(variance)
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    along = signal + deviation * nodes
    cosine = along / np.sqrt(along**2 + variance * (d - 1))
    return float(weights @ ndtr(reach * cosine) / weights.sum())


def _default_delta(n: int) -> float:
    return min(1.0 / (10.0 * n), 1.0 / (n * math.sqrt(n)))


def plan(
    n_examples: int,
    n_features: int,
    *,
    epsilon: float,
    delta: float | None = None,
    best_auc: float = 0.8,
    positives: float = 0.5,
    tolerance: float = 0.02,
    width: float = 1.0,
) -> PrivacyPlan:
    """Return what to expect from a private fit with the default mechanism.

    Parameters
    ----------
    n_examples, n_features : int
        Size of the data.
    epsilon : float
        The privacy parameter.
    delta : float, optional
        The smaller of 1/(10 n) and n^(-3/2) by default.
    best_auc : float, default=0.8
        AUC of the best linear score, a guess.
    positives : float, default=0.5
        Share of positive examples, a guess.
    tolerance : float, default=0.02
        The largest loss of AUC that is still useful.
    width : float, default=1.0
        How many times wider than necessary the public bounds are, a guess. Above 1 the plan also
        says whether finding bounds with a part of the budget pays.

    Returns
    -------
    PrivacyPlan
        Expected AUC and the smallest useful n.

    Examples
    --------
    >>> print(plan(20_000, 30, epsilon=1.0).statement())
    20,000 examples, 30 features, epsilon = 1, delta = 3.54e-07, one example replaced.
    ...
    """
    check_positive("tolerance", tolerance)
    if not width >= 1:
        raise ValueError(
            f"width must be 1 or more, got {width!r}: the plan does not model bounds that cut "
            "off data."
        )

    common: dict[str, Any] = {"best_auc": best_auc, "positives": positives}
    private = {"epsilon": epsilon, "delta": delta, **common}

    def loss(n: int) -> float:
        without_noise = expected_auc(n, n_features, epsilon=None, **common)
        return without_noise - expected_auc(n, n_features, width=width, **private)

    # Search from above: at very small n even the score without noise is useless, so the loss is
    # small for the wrong reason.
    smallest: int | None = None
    high = _LARGEST_N
    if loss(high) <= tolerance:
        while high > 4 and loss(high // 2) <= tolerance:
            high //= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if loss(middle) <= tolerance else (middle, high)
        smallest = high
    searched = None
    if width > 1:
        # The model uses share and levels of the search only, not its range.
        search = PrivateBounds(0.0, 1.0)
        searched = expected_auc(n_examples, n_features, search=search, **private)
    return PrivacyPlan(
        n_examples=n_examples,
        n_features=n_features,
        epsilon=check_positive("epsilon", epsilon),
        delta=_default_delta(n_examples) if delta is None else delta,
        best_auc=best_auc,
        positives=positives,
        private_auc=expected_auc(n_examples, n_features, width=width, **private),
        nonprivate_auc=expected_auc(n_examples, n_features, epsilon=None, **common),
        smallest_n=smallest,
        tolerance=tolerance,
        width=width,
        searched_auc=searched,
    )


def simulated_auc(
    n_examples: int,
    n_features: int,
    *,
    epsilon: float,
    delta: float | None = None,
    best_auc: float = 0.8,
    positives: float = 0.5,
    mechanism: Mechanism | None = None,
    width: float = 1.0,
    search: bool = False,
    n_runs: int = 40,
    seed: int = 0,
) -> float:
    """Return the mean AUC of a mechanism on data drawn from the model.

    Features have a standard deviation of 0.75 standard units and a mean of 0.5 units off the
    middle of their bounds; the AUC of a direction is known in closed form.

    Parameters
    ----------
    n_examples, n_features, epsilon, delta, best_auc, positives
        As in `expected_auc`.
    mechanism : Mechanism, optional
        The default mechanism if None.
    width : float, default=1.0
        How many times wider than necessary the public bounds are; they are not centred on the data.
    search : bool, default=False
        Whether to find narrower bounds with a part of the budget.
    n_runs : int, default=40
        Number of data sets.
    seed : int, default=0
        Seed of data and noise.

    Returns
    -------
    float
        Mean AUC.
    """
    from scipy.special import ndtr, ndtri

    n, d = n_examples, n_features
    learner = CentredStatistics() if mechanism is None else mechanism
    reach = float(ndtri(best_auc))
    total = 0.0
    facts: dict[str, Any] = {
        "epsilon": epsilon, "delta": _default_delta(n) if delta is None else delta
    }  # fmt: skip
    for run in range(n_runs):
        rng = np.random.default_rng([seed, run])
        signs = np.where(rng.random(n) < positives, 1.0, -1.0)
        axis = rng.normal(size=d)
        axis /= np.linalg.norm(axis)
        X = rng.normal(size=(n, d)) + np.outer(signs > 0, math.sqrt(2) * reach * axis)
        X = 0.75 * X + 0.5 * np.sign(rng.normal(size=d))
        noise = NoiseSource(seed=rng)
        lower, upper = np.full(d, -3.0), np.full(d, 3.0)
        if width > 1:
            off = 3.0 * (width - 1.0) * rng.uniform(-0.5, 0.5, d)
            lower, upper = off - 3.0 * width, off + 3.0 * width
        setting = PublicSetting.make(n, lower=lower, upper=upper, **facts)
        if search:
            bounds = PrivateBounds(lower, upper)
            mu = setting.mu
            lower, upper, _ = find_bounds(
                X, bounds, searched=np.ones(d, dtype=np.bool_), mu=mu * math.sqrt(bounds.share),
                neighbours="replace", noise=noise, n_examples=n,
            )  # fmt: skip
            setting = replace(
                PublicSetting.make(n, lower=lower, upper=upper, **facts),
                budget=mu * math.sqrt(1.0 - bounds.share),
            )
        fit = learner.fit(setting.to_standard(X), signs, setting=setting, noise=noise)
        w = fit.direction / setting.unit
        total += float(ndtr(reach * (w @ axis) / np.linalg.norm(w)))
    return total / n_runs
