# SPDX-License-Identifier: BSD-3-Clause
r"""Which AUC a private fit will have, before any private data are touched.

The model: within each class the d features are Gaussian with equal variances, the best linear
score has AUC a, and a share p of the examples is positive. With g = sqrt(2) Phi^{-1}(a) the gap
between the class means in standard deviations, the signal is Cov(x, y) = 2 p (1 - p) g along one
axis u. A fit with the default mechanism finds, in standard deviations of the features,

    x_j = (2 p (1 - p) g u_j + s E_j) (2 Phi(3 r_j) - 1) + c l r_j N_j,   s^2 = 4 p (1 - p) / n,

with E and N normal: the chance of the sample, and the noise of the release. Here r_j is the width
of the bounds of feature j over 6 of its standard deviations, so that 2 Phi(3 r_j) - 1 is the share
of the examples that they do not clip. The length of a record in standard units over sqrt(d) is l,
with l^2 = mean(1 / r_j^2) + .45^2 since the mechanism takes no record for much shorter, and c
follows from radius, weights and budget of the last round (`pairlearn.privacy.mechanisms.centred`).

The direction is w_j = x_j / (r_j^2 (lambda + t / d + k (S_j - t / d))), as `_solver` there
computes it: S_j is the variance of feature j in units of the last radius, t their sum, k in (0, 1)
the trust in their differences, lambda the ridge. If all r_j are equal, w is a multiple of x. If
they are not, and the noise is too large to see it (small k), the direction turns by an angle
that a stronger signal does not make smaller: narrow bounds get too much weight. The AUC is
Phi(Phi^{-1}(a) cos(w, u)), and its law is that of 400 drawn fits, with stratified errors.

*Where the widths come from.* Public bounds are narrowed as a fit narrows them
(`pairlearn.privacy.narrowing`), by the noisy counts of normal features whose means lie in several
places: widths differ from feature to feature because counts are noisy and places differ. Bounds
that a part of the budget finds have widths 1.1 + 2.8 q, times exp(4 q Z_j) with Z normal, where q
is the noise of the counts.

The constants .45, 1.1 and 2.8 were fitted to half of 800 simulations: 100 to 20,000 examples, 1 to
64 features, epsilon from .1 to 4, 3 to 50 % positive, ranges of 3 to 400 standard deviations; 4 was
chosen among 2, 3, 4 and 6 on 27 of their kind. Nothing else was fitted.
``pairlearn reproduce private-planner`` repeats simulations beside the predictions. Correlated or
skewed features, wrong bounds and discrete codes change the result.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.accounting.gaussian import mu_of
from pairlearn.privacy.mechanisms.base import STANDARD_RANGE, Mechanism, PublicSetting
from pairlearn.privacy.mechanisms.centred import (
    LAST_RADIUS,
    SMALLEST_SIGNAL,
    CentredStatistics,
    last_round,
)
from pairlearn.privacy.mechanisms.sufficient_statistics import Weights
from pairlearn.privacy.narrowing import Bins, NoisyCounts, ask_table, narrowed
from pairlearn.privacy.noise import NoiseSource
from pairlearn.privacy.quartiles import PrivateBounds, find_bounds
from pairlearn.typing import Vector
from pairlearn.validation import check_count, check_fraction

#: The range of a feature over its standard deviation if nothing is known. From the smallest to the
#: largest value the ratio is about 6 on real data, and public ranges are wider.
USUAL_RANGE = 8.0
# The least length of a record, over sqrt(d) standard units, for which noise is added.
_SHORTEST = 0.45
# Most of the trace of v v^T: records that are longer than the radius are clipped to it.
_LARGEST_TRACE = 0.9
# Where the means of features lie between their bounds, for the narrowing of wide ones.
_PLACES = (np.arange(8) + 3.5) / 14
# Draws of the noise of counts, for each place.
_COUNT_DRAWS = 32
# Width of bounds that the budget had to find, for many examples, in standard units.
_SEARCHED_BOUNDS = 1.1
# Growth of that width with the noise of the counts.
_COUNT_NOISE = 2.8
# Standard deviation of the logarithm of that width, over the noise of the counts.
_WRONG_SCALES = 4.0
# Drawn fits, and the most features of one: each then stands for several.
_FITS, _MOST_DRAWN = 400, 64
# No data set is larger, in examples or in features.
_LARGEST = 1 << 40
# No feature has a wider range, in standard deviations.
_WIDEST_RANGE = 1e12


@dataclass(frozen=True)
class FitModel:
    """The model of the module, with everything but n and the budget."""

    n_features: int
    best_auc: float
    positives: float
    range_over_spread: float

    def __post_init__(self) -> None:
        check_size("n_features", self.n_features, 1)
        check_fraction("positives", self.positives)
        if not 0.5 < self.best_auc < 1:
            raise ValueError(
                f"best_auc must lie between 0.5 and 1, got {self.best_auc!r}: it is the AUC "
                "that you expect without privacy."
            )
        if not 2 <= self.range_over_spread <= _WIDEST_RANGE:
            raise ValueError(
                f"range_over_spread must lie between 2 and {_WIDEST_RANGE:g}, got "
                f"{self.range_over_spread!r}: values within a range have a standard deviation of "
                "at most half of it."
            )

    def aucs(
        self, n: int, mu: float | None, search: PrivateBounds | None = None, noise: float = 1.0
    ) -> Vector:
        """Return equally likely AUCs of fits; the noise of a mu of None is 0.

        `noise` is a factor on the noise of the release and on the errors of the widths.
        """
        from scipy.special import ndtr, ndtri

        p = self.positives
        drawn = _draws(self.n_features)
        reach = float(ndtri(self.best_auc))
        found = 2 * p * (1 - p) * math.sqrt(2) * reach * drawn.axis
        found = found + math.sqrt(4 * p * (1 - p) / n) * drawn.sample
        if mu is not None:
            found = self._direction(found, n, mu, search, noise)
        along = np.einsum("ij,ij->i", found, drawn.axis)
        aucs: Vector = ndtr(reach * along / np.sqrt(np.einsum("ij,ij->i", found, found)))
        return aucs

    def _direction(
        self, found: Vector, n: int, mu: float, search: PrivateBounds | None, noise: float
    ) -> Vector:
        """Return the directions w of the module, from the signal and the chance of the sample."""
        from scipy.special import ndtr

        d, drawn = self.n_features, _draws(self.n_features)
        if search is None:
            ranges, mu = self.narrowed(n, mu)
            # Errors of the widths are larger by `noise`, about their geometric mean.
            middle = math.exp(float(np.log(ranges).mean()))
            widths = (middle * (ranges / middle) ** noise / STANDARD_RANGE)[drawn.feature]
        else:
            counts = math.sqrt(2 * d * search.levels / search.share) / (n * mu)
            mu *= math.sqrt(1.0 - search.share)
            off = np.clip(noise * _WRONG_SCALES * counts * drawn.width, -9, 9)
            widths = (_SEARCHED_BOUNDS + _COUNT_NOISE * counts) * np.exp(off)
        # What the bounds cut off of a normal feature is lost to the signal.
        found = found * (2.0 * ndtr(0.5 * STANDARD_RANGE * widths) - 1.0)
        label = abs(2 * self.positives - 1)
        share, weight = last_round(label)
        weights = Weights.free(weight)
        deviation = noise * weights.sensitivity("replace") / (n * mu * math.sqrt(share))
        both = deviation**2 * (1 + (label / weight) ** 2)
        variances = widths**-2.0
        mean = variances.mean(axis=1, keepdims=True)
        # The squared radius, over d.
        radius = LAST_RADIUS**2 * (mean + _SHORTEST**2)
        found = found + np.sqrt(both * radius * (d + 1)) * widths * drawn.noise
        trace = np.minimum(mean / radius, _LARGEST_TRACE)
        unequal = trace / d * (variances / mean - 1.0)
        second = deviation / math.sqrt(weights.second)
        blur = second**2 * d * (d + 1) / 2
        # Drawn features stand for d, and the sample adds to the differences that are seen.
        seen = d * np.mean(unequal**2, axis=1, keepdims=True) + blur + trace**2 / n
        signal = np.sum((found / widths) ** 2, axis=1, keepdims=True) / (radius * d)
        signal = np.maximum(signal - d * both, SMALLEST_SIGNAL * d * both)
        ridge = both * trace / signal + second * math.sqrt(d)
        direction: Vector = found * variances
        direction /= ridge + trace / d + (1.0 - blur / seen) * unequal
        return direction

    def narrowed(self, n: int, mu: float) -> tuple[Vector, float]:
        """Return ranges over spread and the budget after the default has narrowed public bounds.

        The looks are those of a fit, at normal features with means in several places, with fixed
        draws of the noise. So many features with this part of mu have the noise of each of d
        features.
        """
        from scipy.special import ndtr

        places = np.repeat(_PLACES, _COUNT_DRAWS)
        part = math.sqrt(len(places) / self.n_features)
        lower, upper = -places * self.range_over_spread, (1 - places) * self.range_over_spread
        given = PublicSetting(
            n, lower, upper, np.zeros(len(places), np.int64), 0.0, 0.0, budget=part * mu
        )
        rng = np.random.default_rng(0)

        def ask(bins: Bins, *, neighbours: str, mu: float, name: str) -> NoisyCounts:
            below = ndtr(bins.inner_edges())
            counts = n * np.diff(below, axis=1, prepend=0.0, append=1.0).ravel()
            release = bins.grid(neighbours, mu=mu).release(name, len(counts))
            counts += release.noise_scale * rng.standard_normal(len(counts))
            return NoisyCounts(counts, release.noise_scale, release)

        after, _ = narrowed(given, ask)
        return after.upper - after.lower, after.mu / part

    def best(self, n: int, mu: float) -> tuple[float, float]:
        """Return the expected AUC with public bounds, and with found ones."""
        found = self.aucs(n, mu, PrivateBounds(0.0, 1.0))
        return float(self.aucs(n, mu).mean()), float(found.mean())

    def loss(self, n: int, mu: float) -> float:
        """Return the expected loss, with the better kind of bounds."""
        return float(self.aucs(n, None).mean()) - max(self.best(n, mu))


@dataclass(frozen=True, eq=False)
class _Draws:
    """What differs from fit to fit: a row of each table is a fit, a column a feature.

    `axis` holds the best directions, of length 1; `sample` and `noise` standard normal errors;
    `width` standard normal errors of widths; `feature` numbers of the pool of narrowed features.
    """

    axis: Vector
    sample: Vector
    noise: Vector
    width: Vector
    feature: NDArray[np.int64]


@functools.lru_cache(maxsize=8)
def _draws(d: int) -> _Draws:
    """Return fixed draws; the parts of an error along the axis and across it are stratified."""
    from scipy.special import gammaincinv, ndtri

    rng = np.random.default_rng(0)
    shape = (_FITS, min(d, _MOST_DRAWN))
    strata = (np.arange(_FITS) + 0.5) / _FITS
    axis = rng.standard_normal(shape)
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)

    def error() -> Vector:
        along: Vector = ndtri(rng.permutation(strata))[:, None] * axis
        across = rng.standard_normal(shape)
        across -= np.sum(across * axis, axis=1, keepdims=True) * axis
        if d == 1:
            return along
        length = np.sqrt(2 * gammaincinv((d - 1) / 2, rng.permutation(strata)))[:, None]
        both: Vector = along + across * (length / np.linalg.norm(across, axis=1, keepdims=True))
        return both

    pool = len(_PLACES) * _COUNT_DRAWS
    return _Draws(axis, error(), error(), rng.standard_normal(shape), rng.integers(0, pool, shape))


def check_size(name: str, value: int, minimum: int) -> int:
    """Return a number of examples or features if it is one."""
    if check_count(name, value, minimum=minimum) > _LARGEST:
        raise ValueError(f"{name} must be at most {_LARGEST:,}, got {value}; no data are larger.")
    return int(value)


def budget(n: int, epsilon: float, delta: float | None) -> float:
    """Return the Gaussian-DP budget of n examples; see `default_delta`."""
    return mu_of(epsilon, default_delta(n) if delta is None else delta)


def default_delta(n: int) -> float:
    """Return the smaller of 1/(10 n) and n^(-3/2)."""
    return min(1.0 / (10.0 * n), 1.0 / (n * math.sqrt(n)))


def expected_auc(
    n_examples: int,
    n_features: int,
    *,
    epsilon: float | None,
    delta: float | None = None,
    best_auc: float = 0.8,
    positives: float = 0.5,
    range_over_spread: float = USUAL_RANGE,
    search: PrivateBounds | None = None,
) -> float:
    """Return the expected AUC under the model of the module.

    Parameters
    ----------
    n_examples, n_features : int
        Size of the data; the number of persons where one person with all rows is protected.
    epsilon : float or None
        The privacy parameter; None for no noise at all.
    delta : float, optional
        The smaller of 1/(10 n) and n^(-3/2) by default.
    best_auc, positives, range_over_spread : float
        What is assumed; see `plan`.
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
    model = FitModel(n_features, best_auc, positives, range_over_spread)
    n = check_size("n_examples", n_examples, 2)
    mu = None if epsilon is None else budget(n, epsilon, delta)
    return float(model.aucs(n, mu, search).mean())


def simulated_auc(
    n_examples: int,
    n_features: int,
    *,
    epsilon: float,
    delta: float | None = None,
    best_auc: float = 0.8,
    positives: float = 0.5,
    mechanism: Mechanism | None = None,
    range_over_spread: float = USUAL_RANGE,
    search: bool = False,
    n_runs: int = 40,
    seed: int = 0,
) -> float:
    """Return the mean AUC of a mechanism on data drawn from the model.

    The mean of a feature lies off the middle of its bounds, the more the wider they are; the AUC
    of a direction is known in closed form.

    Parameters
    ----------
    n_examples, n_features, epsilon, delta, best_auc, positives, range_over_spread
        As in `expected_auc`.
    mechanism : Mechanism, optional
        The default mechanism if None.
    search : bool, default=False
        Whether to find bounds with a part of the budget (`PrivateBounds`). Else the default
        mechanism narrows them as a fit does.
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
        "epsilon": epsilon, "delta": default_delta(n) if delta is None else delta
    }  # fmt: skip
    for run in range(n_runs):
        rng = np.random.default_rng([seed, run])
        signs = np.where(rng.random(n) < positives, 1.0, -1.0)
        axis = rng.normal(size=d)
        axis /= np.linalg.norm(axis)
        X = rng.normal(size=(n, d)) + np.outer(signs > 0, math.sqrt(2) * reach * axis)
        # In units of a standard unit at the usual range: the bounds are [-3, 3] there.
        width = range_over_spread / USUAL_RANGE
        X = 0.75 * X + 0.5 * min(1.0, max(0.0, 2 * width - 1)) * np.sign(rng.normal(size=d))
        noise = NoiseSource(seed=rng)
        off = np.zeros(d) if width <= 1 else 3.0 * (width - 1.0) * rng.uniform(-0.5, 0.5, d)
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
        elif learner.narrows:
            setting, _ = narrowed(setting, ask_table(X, noise))
        fit = learner.fit(setting.to_standard(X), signs, setting=setting, noise=noise)
        w = fit.direction / setting.unit
        total += float(ndtr(reach * (w @ axis) / np.linalg.norm(w)))
    return total / n_runs
