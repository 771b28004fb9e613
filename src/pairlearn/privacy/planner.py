# SPDX-License-Identifier: BSD-3-Clause
r"""What privacy will cost, before any private data are touched.

The model: within each class the d features are Gaussian with equal variances, the best linear
score has AUC a, and a share p of the examples is positive. With g = sqrt(2) Phi^{-1}(a) the gap
between the class means in standard deviations, the default mechanism estimates
Cov(x, y) = 2 p (1 - p) g along one axis, with an error of variance

    v = 4 p (1 - p) / n  +  c^2 d (1 + |2p - 1|)^2 / (n mu)^2

in each direction: sampling, and noise of a release with radius c sqrt(d) / 2. The angle theta
between the estimated and the best direction gives the AUC Phi(Phi^{-1}(a) cos theta). Its
expectation is integrated numerically. The one constant c was fitted to simulations of the
mechanism itself; ``pairlearn reproduce private-planner`` repeats them beside the predictions.

Correlated or skewed features, wrong bounds and discrete codes make things better or worse: read
the plan as an order of magnitude, not as a promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.mechanisms.base import Mechanism, PublicSetting
from pairlearn.privacy.mechanisms.centred import CentredStatistics
from pairlearn.privacy.noise import NoiseSource
from pairlearn.validation import check_count, check_fraction, check_positive

__all__ = ["PrivacyPlan", "expected_auc", "plan", "simulated_auc"]

# Fitted to `simulated_auc` over the grid of `pairlearn reproduce private-planner`.
_NOISE_CONSTANT = 2.3
_LARGEST_N = 1 << 40


@dataclass(frozen=True)
class PrivacyPlan:
    """The expected cost of privacy.

    Parameters
    ----------
    n_examples, n_features : int
        Size of the data.
    epsilon, delta : float
        The promise.
    best_auc : float
        AUC of the best linear score, assumed.
    positives : float
        Share of positive examples, assumed.
    private_auc : float
        Expected AUC of the private score.
    nonprivate_auc : float
        Expected AUC without noise, at the same n.
    smallest_n : int or None
        Smallest n at which the loss through privacy is at most `tolerance`.
    tolerance : float
        The loss of AUC that counts as useful.
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

    @property
    def loss(self) -> float:
        """The expected loss of AUC through privacy."""
        return self.nonprivate_auc - self.private_auc

    def statement(self) -> str:
        """Return the plan as text.

        Returns
        -------
        str
            A few lines.
        """
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
            f"noise; loss {self.loss:.3f}.\n{enough}"
        )


def expected_auc(
    n_examples: int,
    n_features: int,
    *,
    epsilon: float | None,
    delta: float | None = None,
    best_auc: float = 0.8,
    positives: float = 0.5,
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
        variance += (_NOISE_CONSTANT * (1 + abs(2 * p - 1)) / (n * mu)) ** 2 * d
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
        The loss of AUC that counts as useful.

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

    def loss(n: int) -> float:
        given = {"best_auc": best_auc, "positives": positives}
        return expected_auc(n, n_features, epsilon=None, **given) - expected_auc(
            n, n_features, epsilon=epsilon, delta=delta, **given
        )

    # From above: at very small n even the score without noise is useless, and the loss is small
    # again for the wrong reason.
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
    common = {"best_auc": best_auc, "positives": positives}
    return PrivacyPlan(
        n_examples=n_examples,
        n_features=n_features,
        epsilon=check_positive("epsilon", epsilon),
        delta=_default_delta(n_examples) if delta is None else delta,
        best_auc=best_auc,
        positives=positives,
        private_auc=expected_auc(n_examples, n_features, epsilon=epsilon, delta=delta, **common),
        nonprivate_auc=expected_auc(n_examples, n_features, epsilon=None, **common),
        smallest_n=smallest,
        tolerance=tolerance,
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
    n_runs: int = 40,
    seed: int = 0,
) -> float:
    """Return the mean AUC of a mechanism on data drawn from the model.

    Features have a standard deviation of 0.75 standard units and a mean of 0.5 units off the
    middle of their bounds; the AUC of a direction is known in closed form.

    Parameters
    ----------
    n_examples, n_features : int
        Size of the data.
    epsilon : float
        The privacy parameter.
    delta : float, optional
        The failure probability, by default as in `plan`.
    best_auc, positives : float
        The model.
    mechanism : Mechanism, optional
        The default mechanism if not given.
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
    setting = PublicSetting.make(
        n,
        lower=np.full(d, -3.0),
        upper=np.full(d, 3.0),
        epsilon=epsilon,
        delta=_default_delta(n) if delta is None else delta,
    )
    for run in range(n_runs):
        rng = np.random.default_rng([seed, run])
        signs = np.where(rng.random(n) < positives, 1.0, -1.0)
        axis = rng.normal(size=d)
        axis /= np.linalg.norm(axis)
        Z = rng.normal(size=(n, d)) + np.outer(signs > 0, math.sqrt(2) * reach * axis)
        Z = 0.75 * Z + 0.5 * np.sign(rng.normal(size=d))
        fit = learner.fit(
            setting.to_standard(Z), signs, setting=setting, noise=NoiseSource(seed=rng)
        )
        w = fit.direction
        total += float(ndtr(reach * (w @ axis) / np.linalg.norm(w)))
    return total / n_runs
