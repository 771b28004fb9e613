# SPDX-License-Identifier: BSD-3-Clause
"""Turn the scores of a running model into probabilities.

The scores of each class are modelled as normal with a common variance, so the log odds are linear
in the score.
"""

from __future__ import annotations

import math

import numpy as np

from pairlearn.typing import Vector

__all__ = ["log_odds_line", "sums_by_class"]


def sums_by_class(scores: Vector, y: Vector) -> Vector:
    """Return count, sum and sum of squares of the scores of each class, negative first."""
    positive = y > 0
    classes = (scores[~positive], scores[positive])
    return np.array([(len(some), some.sum(), some @ some) for some in classes])


def log_odds_line(sums: Vector) -> tuple[float, float]:
    """Return slope and intercept of the log odds as a function of the score.

    >>> log_odds_line(np.array([[2.0, -2.0, 2.5], [2.0, 2.0, 2.5]]))
    (8.0, 0.0)
    """
    (n0, s0, q0), (n1, s1, q1) = sums.tolist()
    prior = math.log((n1 + 1.0) / (n0 + 1.0))
    if n0 <= 0 or n1 <= 0:
        return 0.0, prior
    low, high = s0 / n0, s1 / n1
    # a product overflows to infinity, a power would raise
    variance = max(q0 - n0 * (low * low) + q1 - n1 * (high * high), 0.0) / (n0 + n1)
    gap = high - low
    if gap <= 0:
        return 0.0, prior
    # a floor on the spread keeps the odds finite
    spread = max(variance, 1e-3 * gap * gap)
    slope = gap / spread if spread > 0 else math.inf
    intercept = prior - slope * (high + low) / 2
    # tiny scores, whose squares underflow, leave the prior
    return (slope, intercept) if math.isfinite(slope + intercept) else (0.0, prior)
