# SPDX-License-Identifier: BSD-3-Clause
"""Exact privacy accounting of Gaussian noise.

A randomised map M is *mu-Gaussian-DP* if telling M(S) from M(S') is never easier than telling
N(0, 1) from N(mu, 1) (Dong, Roth and Su, 2022). Noise of deviation s on a value with L2 sensitivity
D is (D / s)-Gaussian-DP. Lemmas 1 and 2 in ``docs/privacy/lemmas.md`` prove `gaussian_delta` and
`compose`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

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


def _largest(holds: Callable[[float], bool]) -> float:
    """Return where a rule that holds near 0 ends, from below, up to a relative 1e-15."""
    low = high = 1.0
    while holds(high):
        high *= 2.0
    while not holds(low):
        low /= 2.0
    while high - low > 1e-15 * high and low < (middle := math.sqrt(low * high)) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


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
    return _largest(lambda mu: gaussian_delta(mu, epsilon) <= delta) * (1.0 - _SAFETY)


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
    return _largest(lambda epsilon: gaussian_delta(mu, epsilon) > delta) * (1.0 + _SAFETY)


def compose(mus: Iterable[float]) -> float:
    """Return the mu of several releases together, adaptive or not: the root of the sum of squares.

    Examples
    --------
    >>> compose([3.0, 4.0])
    5.0
    """
    return math.hypot(*mus)
