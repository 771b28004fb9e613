# SPDX-License-Identifier: BSD-3-Clause
r"""Release one vector with Gaussian noise, in floating point or on a grid.

With a secure source the vector is rounded to the grid h Z^p before integer noise is added. The
released law then depends on the data through integers only. Two rounded vectors are at most
h sqrt(p) further apart than the vectors themselves (half a step for each of the two and each
coordinate). The discrete Gaussian with parameter s = 2^20 h or more has the same log-likelihood
ratio as the continuous one, linear in the output; see `privacy.mechanisms.sufficient_statistics`.

The grid does not cover rounding *inside* an iterative computation. `rounding_drift` bounds that
rounding, and mechanisms with many steps add it to their sensitivity.
"""

from __future__ import annotations

import math

import numpy as np

from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.noise import NoiseSource
from pairlearn.typing import Vector

#: With secure noise, the standard deviation is this many grid steps wide, or more.
GRID_STEPS = 1 << 20


def rounding_drift(n_steps: int, n_features: int, *, radius: float) -> float:
    r"""Bound how far rounding can drive apart two runs of projected gradient descent.

    A step computes a score, a slope, the new iterate and its length. With unit roundoff u = 2^-53
    the score of a vector of length r with d entries is off by at most d u r C, hence the new
    iterate by at most (eta C^2/4) d u r <= 2 d u r for a step within 8/C^2, and the other
    operations add less than 8 u r. Steps are non-expansive, so errors add up; there are two runs,
    and a factor of 2 covers products of errors: n_steps (8 d + 32) 2^-53 r in all.

    >>> rounding_drift(1000, 10, radius=1.0) < 2e-11
    True
    """
    return n_steps * (8.0 * n_features + 32.0) * 2.0**-53 * radius


def protect_on_grid(values: Vector, *, scale: float, step: float, noise: NoiseSource) -> Vector:
    """Return `values` rounded to multiples of `step`, plus discrete noise of at least `scale`.

    The standard deviation is rounded up to a multiple of `step`; the source must be secure.
    """
    whole = np.rint(values / step).astype(np.int64)
    noisy = noise.protect_integers(whole, math.ceil(scale / step))
    return noisy.astype(np.float64) * step


def release_vector(
    values: Vector, *, name: str, sensitivity: float, mu: float, noise: NoiseSource
) -> tuple[Vector, Release]:
    """Release a vector with Gaussian-DP parameter `mu`; return it and its certificate entry.

    Parameters
    ----------
    values : ndarray of shape (p,)
        The secret values.
    name : str
        Name in the certificate.
    sensitivity : float
        Bound on the L2 distance between neighbouring data sets.
    mu : float
        The budget of this release.
    noise : NoiseSource
        Floating-point Gaussian, or discrete if the source is secure; then rounding is added to
        the sensitivity.

    Examples
    --------
    >>> noisy, release = release_vector(np.zeros(3), name="zero", sensitivity=1.0, mu=0.5,
    ...                                 noise=NoiseSource(secure=False, seed=0))
    >>> release.noise_scale, release.mu
    (2.0, 0.5)
    """
    if not noise.secure:
        scale = sensitivity / mu
        return noise.protect(values, scale), Release(name, len(values), sensitivity, scale)
    step = sensitivity / (mu * GRID_STEPS)
    total = sensitivity + step * math.sqrt(len(values))
    # Round the scale up to an integer number of grid steps.
    scale = math.ceil(total / (mu * step)) * step
    noisy = protect_on_grid(values, scale=scale * (1.0 - 1e-15), step=step, noise=noise)
    return noisy, Release(name, len(values), total, scale)
