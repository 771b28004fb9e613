# SPDX-License-Identifier: BSD-3-Clause
"""Every pair, one block of rows at a time: the sums for which no sort helps.

Two evaluators of a block: NumPy formulas for the losses that have one, and calls of the scalar
functions for a user's own loss. Nothing else in the metrics looks at single pairs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pairlearn.losses import PairLoss
from pairlearn.metrics._inputs import Vector
from pairlearn.metrics._margins import FORMS, Form

__all__ = ["Sums", "all_pairs", "blocked_sums"]

#: Thresholds p, points q, weights b of the points, parameter -> sum_j b_j l(p_i - q_j) and
#: sum_j b_j l'(p_i - q_j) for every i.
Sums = Callable[[Vector, Vector, Vector, float], tuple[Vector, Vector]]

#: Pairs in one block: small enough for the second-level cache.
BLOCK = 1 << 15

Evaluator = Callable[[slice], tuple[Vector, Vector]]


def blocked_sums(form: Form) -> Sums:
    """Return the sums of a loss given by its values and slopes on an array of margins."""

    def sums(p: Vector, q: Vector, b: Vector, parameter: float) -> tuple[Vector, Vector]:
        values, slopes = np.empty(len(p)), np.empty(len(p))
        rows = max(1, BLOCK // len(q))
        for start in range(0, len(p), rows):
            block = slice(start, start + rows)
            value, slope = form(p[block, None] - q, parameter)
            values[block], slopes[block] = value @ b, slope @ b
        return values, slopes

    return sums


def all_pairs(loss: PairLoss, scores: Vector, y: Vector, weight: Vector) -> tuple[float, Vector]:
    """Return the sum of w_i w_j f over ordered pairs i != j and its derivative in the scores."""
    form = FORMS.get((loss.value, loss.derivative)) if loss.opposite_labels_only else None
    evaluate = _calls(loss, scores, y) if form is None else _formula(form, loss, scores, y)
    risk = 0.0
    gradient = np.zeros(len(y))
    rows = max(1, BLOCK // len(y))
    for start in range(0, len(y), rows):
        block = slice(start, min(start + rows, len(y)))
        values, slopes = evaluate(block)
        left = weight[block]
        risk += float(left @ (values @ weight))
        # The score of a pair is s_i - s_j.
        gradient[block] += left * (slopes @ weight)
        gradient -= weight * (left @ slopes)
    return risk, gradient


def _formula(form: Form, loss: PairLoss, scores: Vector, y: Vector) -> Evaluator:
    # A built-in loss is the same in either order of a pair: visit it once, from the larger label.
    factor = 1.0 if loss.one_sided else 2.0

    def evaluate(block: slice) -> tuple[Vector, Vector]:
        larger = y[block, None] > y
        # Other pairs get margin 0, where no formula overflows, and are masked afterwards.
        margins = np.where(larger, scores[block, None] - scores, 0.0)
        values, slopes = form(margins, loss.parameter)
        counted = np.where(larger, factor, 0.0)
        return values * counted, slopes * counted

    return evaluate


def _calls(loss: PairLoss, scores: Vector, y: Vector) -> Evaluator:
    n = len(y)
    parameter = loss.parameter
    label, score = y.tolist(), scores.tolist()

    def evaluate(block: slice) -> tuple[Vector, Vector]:
        values = np.zeros((block.stop - block.start, n))
        slopes = np.zeros_like(values)
        for row, i in enumerate(range(block.start, block.stop)):
            for j in range(n):
                if i == j or (loss.opposite_labels_only and label[i] == label[j]):
                    continue
                if loss.one_sided and not label[i] > label[j]:
                    continue
                pair = (score[i] - score[j], label[i], label[j], parameter)
                values[row, j] = loss.value(*pair)
                slopes[row, j] = loss.derivative(*pair)
        return values, slopes

    return evaluate
