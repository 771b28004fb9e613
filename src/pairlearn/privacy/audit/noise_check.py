# SPDX-License-Identifier: BSD-3-Clause
"""Check that the noise of a mechanism is as strong as stated, and fresh in each run.

The residuals z = (output - value) / scale of recorded runs should be independent standard normal.
An attack on the outputs misses weak noise where a proof is far from tight, as with secret draws.
This check does not depend on the proof.
"""

from __future__ import annotations

import math

import numpy as np

from pairlearn.privacy.audit.replay import RecordingSource
from pairlearn.typing import Vector


class NoiseCheck:
    """Running sums of the residuals of many runs.

    >>> from pairlearn.privacy import NoiseSource
    >>> def check(seed_of):
    ...     noise = NoiseCheck()
    ...     for run in range(200):
    ...         record = RecordingSource(NoiseSource(secure=False, seed=seed_of(run)))
    ...         _ = record.protect(np.zeros(5), 2.0)
    ...         noise.add(record)
    ...     return noise
    >>> check(lambda run: run).correlation_lower(0.99) > 0
    False
    >>> check(lambda run: 7).correlation_lower(0.99) > 0.9
    True
    """

    def __init__(self) -> None:
        self._squares = self._products = 0.0
        self._count = self._n_products = 0
        self._last: Vector | None = None

    def add(self, record: RecordingSource) -> None:
        """Add the residuals of a run."""
        z = np.concatenate(
            [
                (output - value) / scale
                for output, value, scale in zip(
                    record.outputs, record.values, record.scales, strict=True
                )
            ]
        )
        self._squares += float(z @ z)
        self._count += len(z)
        if self._last is not None:
            shared = min(len(z), len(self._last))
            self._products += float(z[:shared] @ self._last[:shared])
            self._n_products += shared
        self._last = z

    def level_upper(self, confidence: float) -> float:
        """Return an upper bound on the noise in stated units, by the chi-square law."""
        from scipy.special import gammaincinv

        half = 0.5 * self._count
        return math.sqrt(self._squares / (2.0 * float(gammaincinv(half, 1.0 - confidence))))

    def correlation_lower(self, confidence: float) -> float:
        """Return a lower bound on the correlation of the noise of successive runs."""
        from scipy.special import ndtri

        if self._n_products == 0 or self._squares == 0.0:
            return 0.0
        variance = self._squares / self._count
        error = float(ndtri(confidence)) / math.sqrt(self._n_products)
        return self._products / (self._n_products * variance) - error
