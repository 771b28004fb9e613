# SPDX-License-Identifier: BSD-3-Clause
"""From scores to decisions: a threshold and probabilities, both from training scores.

A pairwise loss fixes the order of the examples, not a cut and not a scale. Both are found
afterwards from scores and labels, and both are monotone in the score, so that they change neither
the order nor the AUC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pairlearn.metrics._inputs import ROUNDING
from pairlearn.typing import Mask, Vector

THRESHOLDS = ("balanced_accuracy", "accuracy", "f1")


def choose_threshold(
    scores: Vector,
    positive: Mask,
    weight: Vector,
    criterion: str,
    *,
    importance: tuple[float, float] = (1.0, 1.0),
) -> float:
    """Return the cut that is best by a criterion; scores above it are positive.

    It is the middle between two neighbouring scores. `importance` says how much the recall of the
    negative and of the positive class counts in the balanced accuracy.
    """
    order = np.argsort(scores)
    s = scores[order]
    if not (s[1:] > s[:-1]).all():  # else there is only one order
        order = np.argsort(scores, kind="stable")
        s = scores[order]
    hit = np.where(positive, weight, 0.0)[order]
    miss = np.where(positive, 0.0, weight)[order]
    # Cut k leaves the k smallest scores negative.
    false_negative = np.concatenate([[0.0], np.cumsum(hit)])
    true_negative = np.concatenate([[0.0], np.cumsum(miss)])
    n_positive, n_negative = float(hit.sum()), float(miss.sum())
    true_positive = n_positive - false_negative
    if criterion == "balanced_accuracy":
        value = importance[1] * true_positive / n_positive
        value = value + importance[0] * true_negative / n_negative
    elif criterion == "accuracy":
        value = true_positive + true_negative
    elif criterion == "f1":
        value = 2.0 * true_positive / (n_positive + true_positive + n_negative - true_negative)
    else:
        raise ValueError(f"a threshold is chosen by one of {THRESHOLDS}, got {criterion!r}.")
    possible = np.concatenate([[True], s[1:] > s[:-1], [True]])
    # the first of equals: what is better by rounding is not better
    best = int(np.argmax(possible & (value >= value[possible].max() * (1.0 - ROUNDING))))
    if best == 0:
        return float(np.nextafter(s[0], -math.inf))
    if best == len(s):
        return float(s[-1])
    middle = 0.5 * float(s[best - 1]) + 0.5 * float(s[best])  # their sum may overflow
    return middle if middle < s[best] else float(s[best - 1])


@dataclass(frozen=True)
class Sigmoid:
    """The probability 1 / (1 + exp(-(slope score + intercept))), with slope > 0."""

    slope: float
    intercept: float

    def __call__(self, scores: Vector) -> Vector:
        """Return probabilities of the positive class."""
        with np.errstate(over="ignore"):  # beyond what a probability can tell apart
            t = np.clip(self.slope * scores + self.intercept, -700.0, 700.0)
        return np.asarray(1.0 / (1.0 + np.exp(-t)))

    def moved(self, shift: float) -> Sigmoid:
        """Return the same for scores that a number is added to."""
        return Sigmoid(self.slope, self.intercept - self.slope * shift)

    def score_of_half(self) -> float:
        """Return the score of probability 1/2."""
        return -self.intercept / self.slope


def fit_sigmoid(scores: Vector, positive: Mask, weight: Vector) -> Sigmoid:
    """Fit a sigmoid by maximum likelihood with Platt's smoothed targets, by Newton's method.

    The slope is kept positive, so that probabilities are increasing in the score.
    """
    n_positive, n_negative = float(weight[positive].sum()), float(weight[~positive].sum())
    high, low = (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0)
    target = np.where(positive, high, low)
    # Scores whose squares would overflow are brought down first; a power of two changes no digit.
    largest = float(np.abs(scores).max())
    shrink = 2.0**-600 if largest > 1e150 else 1.0
    scores = scores * shrink
    spread = float(scores.std())
    # Scores that differ by rounding only count as equal and have no scale.
    unit = spread if spread > 1e-13 * float(np.abs(scores).max()) else 1.0
    centre = float(scores.mean())
    s = (scores - centre) / unit
    squares = s * s
    slope, intercept = 1.0, math.log((n_positive + 1.0) / (n_negative + 1.0))
    for _ in range(50):
        p = Sigmoid(slope, intercept)(s)
        gap = weight * (p - target)
        curvature = weight * p * (1.0 - p) + 1e-12
        gradient = np.array([gap @ s, gap.sum()])
        mixed = curvature @ s
        hessian = np.array([[curvature @ squares, mixed], [mixed, curvature.sum()]])
        hessian[0, 0] += 1e-9 * (1.0 + hessian[0, 0])
        step = np.linalg.solve(hessian, gradient)
        # Newton's step can overshoot where the sigmoid is flat.
        step *= min(1.0, 3.0 / (1e-12 + float(np.abs(step).max())))
        before, slope = slope, max(slope - float(step[0]), 1e-6)
        intercept -= float(step[1])
        # A slope at its bound does not move, however far it would like to.
        if max(abs(slope - before), abs(float(step[1]))) < 1e-10:
            break
    return Sigmoid(slope / unit * shrink, intercept - slope * centre / unit)


@dataclass(frozen=True)
class Isotonic:
    """A non-decreasing step function of the score, with linear pieces between its knots."""

    knots: Any
    values: Any

    def __call__(self, scores: Vector) -> Vector:
        """Return probabilities of the positive class."""
        # Just before a knot, a rounded line may come out above the value at the knot.
        after = np.searchsorted(self.knots, scores, side="right")
        ceiling = np.take(self.values, after, mode="clip")
        return np.asarray(np.minimum(np.interp(scores, self.knots, self.values), ceiling))

    def moved(self, shift: float) -> Isotonic:
        """Return the same for scores that a number is added to."""
        knots = self.knots + shift
        # Beside a large number, knots may be equal: the last one stays.
        last = np.append(knots[1:] > knots[:-1], True)
        return Isotonic(knots[last], self.values[last])

    def score_of_half(self) -> float:
        """Return the largest score whose probability is at most 1/2."""
        above = int(np.searchsorted(self.values, 0.5, side="right"))
        # Probabilities are constant beyond the first and the last knot.
        if above == 0:
            return float(np.finfo(np.float64).min)
        if above == len(self.knots):
            return float(np.finfo(np.float64).max)
        low, high = self.values[above - 1], self.values[above]
        share = (0.5 - low) / (high - low)
        return float(self.knots[above - 1] + share * (self.knots[above] - self.knots[above - 1]))


def fit_isotonic(scores: Vector, positive: Mask, weight: Vector) -> Isotonic:
    """Fit a non-decreasing function of the score by weighted least squares."""
    from scipy.optimize import isotonic_regression

    knots, group = np.unique(scores, return_inverse=True)
    total = np.bincount(group, weight)
    mean = np.bincount(group, weight * positive) / total
    return Isotonic(knots, isotonic_regression(mean, weights=total).x)
