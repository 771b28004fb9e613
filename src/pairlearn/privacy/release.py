# SPDX-License-Identifier: BSD-3-Clause
"""Release one vector with Gaussian noise, in floating point or on a grid.

With a secure source the vector is rounded to a grid before integer noise is added, and the rounding
is added to the sensitivity. The grid does not cover rounding *inside* an iterative computation.
`rounding_drift` bounds that, and mechanisms with many steps add it. See lemma 9 in
``docs/privacy/lemmas.md``.
"""

from __future__ import annotations

import math

import numpy as np

from pairlearn.privacy.accounting.certificate import Release
from pairlearn.privacy.noise import LARGEST_SCALE, NoiseSource
from pairlearn.typing import Vector

#: With secure noise, the standard deviation is this many grid steps wide, or more.
GRID_STEPS = 1 << 20


def rounding_drift(n_steps: int, n_features: int, *, radius: float) -> float:
    r"""Bound how far rounding can drive apart two runs of projected gradient descent.

    The bound is n_steps (8 d + 32) 2^-53 r for steps in a ball of radius r; lemma 9 derives it.

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
    n_steps = math.ceil(total / (mu * step))
    if n_steps > LARGEST_SCALE:
        raise ValueError(
            f"the budget mu = {mu:g} of a release is too small for the grid of secure=True with "
            f"{len(values)} numbers; ask for a larger epsilon."
        )
    scale = n_steps * step
    noisy = protect_on_grid(values, scale=scale * (1.0 - 1e-15), step=step, noise=noise)
    return noisy, Release(name, len(values), total, scale)
