# SPDX-License-Identifier: BSD-3-Clause
"""Probabilities of a running model: the scores of each class by number, mean and common variance.

The logarithm of the odds of two normal classes of one variance is linear in the score.
"""

from __future__ import annotations

import math

import numpy as np

from pairlearn.typing import Vector

__all__ = ["log_odds_line", "sums_by_class"]


def sums_by_class(scores: Vector, y: Vector) -> Vector:
    """Return number, sum and sum of squares of the scores of each class, negative first."""
    positive = y > 0
    classes = (scores[~positive], scores[positive])
    return np.array([(len(some), some.sum(), some @ some) for some in classes])


def log_odds_line(sums: Vector) -> tuple[float, float]:
    """Return slope and intercept of the logarithm of the odds, by the score.

    >>> log_odds_line(np.array([[2.0, -2.0, 2.5], [2.0, 2.0, 2.5]]))
    (8.0, 0.0)
    """
    (n0, s0, q0), (n1, s1, q1) = sums.tolist()
    prior = math.log((n1 + 1.0) / (n0 + 1.0))
    if n0 <= 0 or n1 <= 0:
        return 0.0, prior
    low, high = s0 / n0, s1 / n1
    # a product that overflows is infinite, where a power would raise
    variance = max(q0 - n0 * (low * low) + q1 - n1 * (high * high), 0.0) / (n0 + n1)
    gap = high - low
    if gap <= 0:
        return 0.0, prior
    # With hardly any spread the odds would be infinite.
    spread = max(variance, 1e-3 * gap * gap)
    slope = gap / spread if spread > 0 else math.inf
    intercept = prior - slope * (high + low) / 2
    # scores so small that their squares are nothing tell nothing
    return (slope, intercept) if math.isfinite(slope + intercept) else (0.0, prior)
