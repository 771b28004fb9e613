# SPDX-License-Identifier: BSD-3-Clause
"""Check a mixture over secret draws by counting: the stages of Algorithm 3.

`accounting.touches` computes the law of how often a stage touches one example in blocks, so that it
is fast for every size. Here the same law is counted step by step, for the small tables of an audit.
Given the recorded draws, lemma 7 also bounds how far the averages of two runs are apart; that bound
is much smaller than the one for the worst draw, which the certificate states.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pairlearn.privacy.accounting.certificate import Certificate
from pairlearn.solvers.descent.localized import stage_sizes
from pairlearn.typing import Vector

#: Relative tolerance for the noise, which is computed to this accuracy.
_ROUNDING = 1e-4
#: Above this number of steps counting takes too long.
_MOST_STEPS = 700


@lru_cache(maxsize=16)
def counted_law(n: int, n_steps: int) -> Vector:
    """Return the law of T H in steps of 1, where H is that of `accounting.touches`.

    >>> law = counted_law(3, 4)
    >>> round(float(law.sum()), 12), len(law)
    (1.0, 4)
    """
    weights = [max(n_steps - t - 1, 0) for t in range(1, n_steps + 1)]
    hit = 1.0 / n
    # Row 0: the last index is another example; row 1: it is the example.
    state = np.zeros((2, sum(weights) + 1))
    state[:, 0] = 1.0 - hit, hit
    for weight in weights:
        moved = np.zeros_like(state)
        moved[:, weight:] = state[:, : state.shape[1] - weight]
        # Nothing is touched only if neither this index nor the last one is the example.
        state = np.stack([(state[0] + moved[1]) * (1.0 - hit), (moved[0] + moved[1]) * hit])
    law: Vector = state.sum(axis=0)
    return law


def mixture_problems(
    certificate: Certificate,
    draws: list[NDArray[np.int64]],
    distances: list[float],
    place: int | None,
) -> list[str]:
    """Return the stages with too little noise, or with runs too far apart for their draws.

    `draws` are the order of the rows and then the indices of each stage; `distances` are those of
    the stages, in units of their noise; `place` is the row that was changed.
    """
    found = []
    start = 0
    passes = math.log(4.0 / certificate.delta)
    sizes = stage_sizes(certificate.n_examples)
    for k, (size, release) in enumerate(zip(sizes, certificate.releases, strict=True)):
        n_steps = math.ceil(size * passes)
        # The listed sensitivity is that of the worst draw, unit (T - 1) (T - 2) / (2 T).
        unit = release.sensitivity * 2.0 * n_steps / ((n_steps - 1) * (n_steps - 2))
        if n_steps <= _MOST_STEPS:
            law = counted_law(size, n_steps)
            apart: Vector = (
                unit
                * np.arange(len(law), dtype=np.float64)
                / (n_steps * release.noise_scale * (1 + _ROUNDING))
            )
            delta = float(law[1:] @ _deltas(apart[1:], certificate.epsilon))
            if delta > certificate.delta:
                found.append(
                    f"{release.name} has delta = {delta:.6g} by counting, above "
                    f"{certificate.delta:.6g}"
                )
        if place is not None and len(draws) == len(sizes) + 1:
            block = draws[0][start : start + size]
            mine = np.flatnonzero(block == place)
            touched = np.isin(draws[k + 1], mine)
            steps = np.arange(1, n_steps + 1)
            weights = np.maximum(n_steps - steps - 1, 0) * (touched[1:] | touched[:-1])
            allowed = unit * float(weights.sum()) / n_steps / release.noise_scale
            if not distances[k] <= allowed * (1.0 + 1e-9) + 1e-5:
                found.append(
                    f"{release.name} is {distances[k]:.4g} units of noise away, but its draws "
                    f"allow {allowed:.4g}"
                )
        start += size
    return found


def _deltas(mu: Vector, epsilon: float) -> Vector:
    """Return the delta at epsilon of each Gaussian-DP parameter, all above 0."""
    from scipy.special import log_ndtr, ndtr

    high = ndtr(0.5 * mu - epsilon / mu)
    low = np.exp(epsilon + log_ndtr(-0.5 * mu - epsilon / mu))
    return np.asarray(high - low)
