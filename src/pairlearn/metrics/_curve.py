# SPDX-License-Identifier: BSD-3-Clause
"""The corners of a ROC curve: one for each distinct score, from the highest down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairlearn.typing import Mask, Places, Vector

#: What the order in which weights are added may change, relative to their sum.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Corners:
    """The weight accepted at each threshold.

    Examples of equal score form a step; step k leads from corner k to corner k + 1.

    `step` has the step of each example (0 for the highest scores), `thresholds` the score of each
    step, and the accepted weights go from 0 to the weight of the class.
    """

    step: Places
    thresholds: Vector
    accepted_positive: Vector
    accepted_negative: Vector

    @property
    def tpr(self) -> Vector:
        """The share of accepted positives at each corner."""
        return np.asarray(self.accepted_positive / self.accepted_positive[-1])

    @property
    def fpr(self) -> Vector:
        """The share of accepted negatives at each corner."""
        return np.asarray(self.accepted_negative / self.accepted_negative[-1])


def corners(positive: Mask, scores: Vector, weight: Vector) -> Corners:
    """Return the corners of the ROC curve of weighted examples."""
    negated, step = np.unique(-scores, return_inverse=True)
    accepted = [
        np.concatenate(([0.0], np.cumsum(np.bincount(step, np.where(members, weight, 0.0)))))
        for members in (positive, ~positive)
    ]
    return Corners(step, -negated, accepted[0], accepted[1])
