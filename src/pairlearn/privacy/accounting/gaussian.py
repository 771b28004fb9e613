# SPDX-License-Identifier: BSD-3-Clause
"""Exact privacy accounting of Gaussian noise.

A randomised map M is *mu-Gaussian-DP* if telling M(S) from M(S') is never easier than telling
N(0, 1) from N(mu, 1) (Dong, Roth and Su, 2022). Noise of deviation s on a value with L2 sensitivity
D is (D / s)-Gaussian-DP. Lemmas 1 to 3 in ``docs/privacy/lemmas.md`` prove `gaussian_delta`,
`compose` and `mixture_delta`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from pairlearn.typing import Vector
from pairlearn.validation import check_fraction, check_positive

# A computed budget shrinks by this relative amount, so that rounding errs on the safe side.
_SAFETY = 1e-12
# The largest epsilon of a release. It promises nothing and its noise is none, and on the grid of a
# larger one sums of many examples would overflow.
_LARGEST_EPSILON = 1e9


def check_epsilon(epsilon: float) -> float:
    """Return the epsilon of a release as a float; raise if it is not positive, or far too large.

    >>> check_epsilon(1)
    1.0
    """
    found = check_positive("epsilon", epsilon)
    if found > _LARGEST_EPSILON:
        raise ValueError(
            f"epsilon must be at most {_LARGEST_EPSILON:g}, got {epsilon!r}; that has no noise to "
            "speak of already."
        )
    return found


def gaussian_delta(mu: float, epsilon: float) -> float:
    r"""Return the smallest delta for which mu-Gaussian-DP implies (epsilon, delta)-DP.

    It is Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu).

    Parameters
    ----------
    mu : float
        Sensitivity divided by the standard deviation of the noise; 0 means nothing is learned.
    epsilon : float
        The privacy parameter, at least 0.

    Examples
    --------
    >>> round(gaussian_delta(0.46, 1.0), 6)
    0.003907
    """
    if epsilon < 0 or mu < 0 or math.isnan(mu) or math.isnan(epsilon):
        raise ValueError(f"mu and epsilon must be at least 0, got mu={mu!r}, epsilon={epsilon!r}.")
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    from scipy.special import log_ndtr

    first = float(log_ndtr(mu / 2 - epsilon / mu))
    # epsilon + log Phi(.) <= log Phi(first argument), so nothing overflows.
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # exp(first) - exp(second) without cancellation where the two are close.
    return max(0.0, -math.exp(first) * math.expm1(min(0.0, second - first)))


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return the ends of a tiny interval with holds(low) true and holds(high) false."""
    for _ in range(200):
        middle = math.sqrt(low * high) if low > 0 else high / 2
        if not low < middle < high:
            break
        if holds(middle):
            low = middle
        else:
            high = middle
        if high - low <= 1e-15 * high:
            break
    return low, high


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-Gaussian-DP implies (epsilon, delta)-DP.

    The result is rounded down, so that `gaussian_delta` of it never exceeds `delta`.

    Parameters
    ----------
    epsilon : float
        The privacy parameter, positive.
    delta : float
        The failure probability, strictly between 0 and 1.

    Examples
    --------
    >>> round(mu_of(1.0, 1 / 256), 4)
    0.46
    """
    return _mu_of(check_positive("epsilon", epsilon), check_fraction("delta", delta))


@lru_cache(maxsize=1024)
def _mu_of(epsilon: float, delta: float) -> float:
    high = 1.0
    while gaussian_delta(high, epsilon) <= delta:
        high *= 2.0
    low = high / 2
    while gaussian_delta(low, epsilon) > delta:
        low /= 2.0
    low, _ = _bisect(lambda mu: gaussian_delta(mu, epsilon) <= delta, low, high)
    return low * (1.0 - _SAFETY)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which mu-Gaussian-DP implies (epsilon, delta)-DP.

    The result is rounded up.

    Parameters
    ----------
    mu : float
        The Gaussian-DP parameter, at least 0.
    delta : float
        The failure probability, strictly between 0 and 1.

    Examples
    --------
    >>> round(epsilon_of_mu(0.46, 1 / 256), 3)
    1.0
    """
    delta = check_fraction("delta", delta)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if math.isinf(mu):
        return math.inf
    high = 1.0
    while gaussian_delta(mu, high) > delta:
        high *= 2.0
    _, high = _bisect(lambda epsilon: gaussian_delta(mu, epsilon) > delta, 0.0, high)
    return high * (1.0 + _SAFETY)


def epsilon_curve(mu: float, deltas: ArrayLike) -> Vector:
    """Return epsilon(delta) of a mu-Gaussian-DP release for each of `deltas`.

    Parameters
    ----------
    mu : float
        The Gaussian-DP parameter.
    deltas : array-like
        Failure probabilities, each strictly between 0 and 1.

    Examples
    --------
    >>> epsilon_curve(0.46, [1e-2, 1e-5]).round(3)
    array([0.823, 1.816])
    """
    return np.array([epsilon_of_mu(mu, float(delta)) for delta in np.atleast_1d(deltas)])


def compose(mus: Iterable[float]) -> float:
    """Return the mu of several releases together, adaptive or not: the root of the sum of squares.

    Examples
    --------
    >>> compose([3.0, 4.0])
    5.0
    """
    return math.hypot(*mus)


def noise_scale_for(sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the standard deviation of the analytic Gaussian mechanism, sensitivity / mu.

    Parameters
    ----------
    sensitivity : float
        Bound on the L2 distance of the statistic between neighbouring data sets.
    epsilon, delta : float
        The promise to keep.

    Examples
    --------
    >>> round(noise_scale_for(1.0, 1.0, 1e-5), 3)
    3.731
    """
    return check_positive("sensitivity", sensitivity) / mu_of(epsilon, delta)


def mixture_delta(
    epsilon: float, sensitivities: ArrayLike, probabilities: ArrayLike, *, noise_scale: float
) -> float:
    """Return delta(epsilon) of Gaussian noise when the sensitivity is itself random.

    Mixture lemma (lemma 3): a secret draw i that does not depend on the data has the sensitivity
    D_i, which may be infinite. The result is the mean of `gaussian_delta` over the draws; no part
    of delta is reserved for a large D_i.
    """
    scale = check_positive("noise_scale", noise_scale)
    distances = np.asarray(sensitivities, dtype=np.float64)
    chances = np.asarray(probabilities, dtype=np.float64)
    if distances.shape != chances.shape:
        raise ValueError(
            f"sensitivities and probabilities must have one shape, got {distances.shape} "
            f"and {chances.shape}."
        )
    from scipy.special import log_ndtr

    seen = (distances > 0) & (chances > 0)
    mu = distances[seen] / scale
    first = log_ndtr(mu / 2 - epsilon / mu)
    second = epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    each = -np.exp(first) * np.expm1(np.minimum(0.0, second - first))
    return float(np.dot(np.maximum(each, 0.0), chances[seen]))


def mixture_noise_scale(
    sensitivities: ArrayLike, probabilities: ArrayLike, *, epsilon: float, delta: float
) -> float:
    """Return the standard deviation for which a random sensitivity keeps (epsilon, delta)-DP.

    Solves E delta_{D_i / s}(epsilon) = delta for s (see `mixture_delta`), rounded up.
    """
    epsilon = check_positive("epsilon", epsilon)
    delta = check_fraction("delta", delta)
    distances = np.asarray(sensitivities, dtype=np.float64)
    chances = np.asarray(probabilities, dtype=np.float64)
    unbounded = float(chances[np.isinf(distances)].sum())
    if unbounded >= delta:
        raise ValueError(
            f"an unbounded sensitivity has probability {unbounded:g}, which must be below delta "
            f"= {delta:g}."
        )
    finite = distances[np.isfinite(distances) & (chances > 0)]
    if not len(finite) or finite.max() <= 0:
        return 0.0

    def too_little(scale: float) -> bool:
        return mixture_delta(epsilon, distances, chances, noise_scale=scale) > delta

    high = float(finite.max()) / mu_of(epsilon, delta)
    while too_little(high):
        high *= 2.0
    low = high
    while not too_little(low):
        low /= 2.0
        if low < high * 1e-9:
            return low
    _, high = _bisect(too_little, low, high)
    return high * (1.0 + _SAFETY)
