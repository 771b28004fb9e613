# SPDX-License-Identifier: BSD-3-Clause
"""Sum over all pairs, one block of rows at a time, for losses that sorting does not help.

A block is evaluated by the array form of a loss of the margin alone, or by the compiled scalar
functions of any other loss. No other metric visits single pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pairlearn.losses import PairLoss
from pairlearn.metrics._inputs import Vector

__all__ = ["all_pairs_gradient", "all_pairs_risk", "blocked_sums"]

#: Pairs in a block; they fit into the second-level cache.
BLOCK = 1 << 15


def blocked_sums(function: Callable[[Vector], Vector], p: Vector, q: Vector, b: Vector) -> Vector:
    """Return sum_j b_j function(p_i - q_j) for every i."""
    sums = np.empty(len(p))
    height = max(1, BLOCK // len(q))
    for start in range(0, len(p), height):
        block = slice(start, start + height)
        sums[block] = function(p[block, None] - q) @ b
    return sums


def all_pairs_risk(loss: PairLoss, scores: Vector, y: Vector, weight: Vector) -> float:
    """Return the sum of w_i w_j f over ordered pairs i != j."""
    blocks = _blocks(loss, scores, y, slopes=False)
    return sum(float(weight[block] @ (values @ weight)) for block, values in blocks)


def all_pairs_gradient(loss: PairLoss, scores: Vector, y: Vector, weight: Vector) -> Vector:
    """Return the derivative of `all_pairs_risk` with respect to the scores."""
    gradient = np.zeros(len(y))
    for block, slopes in _blocks(loss, scores, y, slopes=True):
        # the score of a pair is s_i - s_j
        gradient[block] += weight[block] * (slopes @ weight)
        gradient -= weight * (weight[block] @ slopes)
    return gradient


def _blocks(
    loss: PairLoss, scores: Vector, y: Vector, *, slopes: bool
) -> Iterator[tuple[slice, Vector]]:
    """Yield the values or slopes of all pairs of a block of rows, 0 for pairs that do not count."""
    n = len(y)
    height = max(1, BLOCK // n)
    for start in range(0, n, height):
        block = slice(start, min(start + height, n))
        differences, first = scores[block, None] - scores, y[block, None]
        larger = first > y
        if loss.opposite_labels_only and loss.has_array_form:
            # Both orders of a pair give the same: visit it once, from the larger label. Other pairs
            # get margin 0, which never overflows, and are masked afterwards.
            form = loss.slopes if slopes else loss.values
            counted = np.where(larger, 1.0 if loss.one_sided else 2.0, 0.0)
            yield block, form(np.where(larger, differences, 0.0)) * counted
            continue
        if loss.one_sided:
            meets = larger
        elif loss.opposite_labels_only:
            meets = first != y
        else:
            meets = np.arange(block.start, block.stop)[:, None] != np.arange(n)
        function = loss.derivative if slopes else loss.value
        left, right = np.nonzero(meets)
        result = np.zeros(differences.shape)
        result[left, right] = function.many(
            differences[left, right], y[start + left], y[right], loss.parameter
        )
        yield block, result
