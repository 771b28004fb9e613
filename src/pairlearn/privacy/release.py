# SPDX-License-Identifier: BSD-3-Clause
"""The one door to noise: it is paid for, and then one vector leaves with Gaussian noise on a grid.

`paid_noise` is the only place where a source of noise is made for a user: the ledger records the
cost first. `release_vector` rounds a vector to a grid, adds integer noise, and counts the rounding
as sensitivity. The grid does not cover rounding *inside* an iterative computation.
`rounding_drift` bounds that, and mechanisms with many steps add it. See lemma 9 in
``docs/privacy/lemmas.md``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pairlearn.privacy.accounting.certificate import PrivacyWarning, Release
from pairlearn.privacy.accounting.ledger import PrivacyLedger
from pairlearn.privacy.noise import LARGEST_SCALE, NoiseSource
from pairlearn.typing import Vector
from pairlearn.validation import warn_caller

#: The standard deviation of the noise is this many grid steps wide, or more.
GRID_STEPS = 1 << 20


def paid_noise(
    ledger: PrivacyLedger | None, purpose: str, *, seed: Any = None,
    cautions: tuple[str, ...] = (), **cost: Any,
) -> NoiseSource:  # fmt: skip
    """Warn, pay, and only then return a source of noise.

    A warning that is an error ends the call before anything is paid, and a ledger is paid before
    the data are read, so that a failing run is paid for as well.

    The ledger notes `purpose`; `cautions` are warnings for the user, and `cost` the arguments of
    `PrivacyLedger.spend`. With a `seed`, for simulations, the noise is not private.
    """
    source = NoiseSource.made_from(seed)
    for caution in cautions:
        warn_caller(caution, PrivacyWarning)
    if ledger is not None:
        ledger.spend(purpose, **cost)
    return source


def rounding_drift(n_steps: int, n_features: int, *, radius: float) -> float:
    r"""Bound how far rounding can drive apart two runs of projected gradient descent.

    The bound is n_steps (8 d + 32) 2^-53 r for steps in a ball of radius r; lemma 9 derives it.

    >>> rounding_drift(1000, 10, radius=1.0) < 2e-11
    True
    """
    return n_steps * (8.0 * n_features + 32.0) * 2.0**-53 * radius


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
        Bound on the L2 distance between neighbouring data sets; rounding is added to it.
    mu : float
        The budget of this release.
    noise : NoiseSource
        The noise.

    Examples
    --------
    >>> noisy, release = release_vector(np.zeros(3), name="zero", sensitivity=1.0, mu=0.5,
    ...                                 noise=NoiseSource(seed=0))
    >>> round(release.noise_scale, 4), round(release.mu, 4)
    (2.0, 0.5)
    """
    step = sensitivity / (mu * GRID_STEPS)
    total = sensitivity + step * math.sqrt(len(values))
    # Round the scale up to an integer number of grid steps.
    n_steps = math.ceil(total / (mu * step))
    if n_steps > LARGEST_SCALE:
        raise ValueError(
            f"the budget mu = {mu:g} of a release is too small for the grid of the noise with "
            f"{len(values)} numbers; ask for a larger epsilon."
        )
    whole = np.rint(values / step).astype(np.int64)
    noisy = noise.protect_integers(whole, n_steps).astype(np.float64) * step
    return noisy, Release(name, len(values), total, n_steps * step)
