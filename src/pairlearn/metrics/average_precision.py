# SPDX-License-Identifier: BSD-3-Clause
r"""Average precision: the mean, over positives, of the precision at their score.

AP = sum over positives i of (v_i / V+) P(s_i), where P(s) is the share of positives in the weight
of the examples with scores of at least s. This is scikit-learn's step-wise sum, without
interpolation. Let t and f be the weights of positives and negatives with at least that score. Then
dP/dt = f / (t + f)^2 and dP/df = -t / (t + f)^2; sorted sums turn them into the influence of every
example.

Unlike the AUC it depends on the share of positives: the interval is for examples that are drawn
together, not for fixed class sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pairlearn.metrics._curve import corners
from pairlearn.metrics._inputs import Vector
from pairlearn.metrics.metric import Measured, TwoClassMetric
from pairlearn.typing import Mask

__all__ = ["AveragePrecision"]


@dataclass(frozen=True)
class AveragePrecision(TwoClassMetric):
    """The mean precision over the positives, as scikit-learn's `average_precision_score`.

    Examples
    --------
    >>> AveragePrecision()([0, 1, 0, 1], [0.1, 0.35, 0.4, 0.8])
    0.8333333333333333
    """

    def measure_classes(self, positive: Mask, scores: Vector, weight: Vector) -> Measured:
        """Return the average precision and its influences."""
        found = corners(positive, scores, weight)
        true, false = found.accepted_positive[1:], found.accepted_negative[1:]
        share = np.diff(found.accepted_positive) / true[-1]
        accepted = true + false
        precision = true / accepted
        value = float(share @ precision)
        # an example counts at its own score and below
        gain = _from_here(share * false / accepted**2)
        loss = _from_here(share * true / accepted**2)
        influence = np.where(
            positive,
            (precision[found.step] - value) / true[-1] + gain[found.step],
            -loss[found.step],
        )
        return Measured(min(value, 1.0), weight * influence, int(np.count_nonzero(positive)))


def _from_here(values: Vector) -> Vector:
    return np.cumsum(values[::-1])[::-1]
