# SPDX-License-Identifier: BSD-3-Clause
r"""The squared hinge over all opposite pairs by Newton's method, for few features.

With a_i and b_j the weights of positive and negative examples, each class's adding up to 1, the
objective is

    F(w) = sum_ij a_i b_j (margin - <w, x_i - x_j>)_+^2 + ridge ||w||^2.

Only pairs with u_i = <w, x_i> - margin < q_j = <w, x_j> count. Once these places are sorted, the
negatives that a positive meets stand above it, and so the value, the gradient and the Hessian

    2 sum over active pairs of a_i b_j (x_i - x_j)(x_i - x_j)' + 2 ridge I

come from cumulated sums in O(n log n + n d^2), without visiting n+ n- pairs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Mask, Places, Vector
from pairlearn.validation import DivergenceError

#: The limit on halvings of a step.
_MOST_HALVINGS = 30
#: A step must bring at least this share of the decrease that the slope predicts (Armijo).
_ENOUGH = 1e-4
#: The Hessian before a full step sees that the search has ended if it predicts less than this share
#: of what would be worth another step.
_CLEARLY = 0.5
#: Rows of a Hessian that are summed at a time.
_BLOCK = 2048


class SquaredHingeMean:
    """The mean of the squared hinge over opposite pairs, as a function of scores, from one sort."""

    def __init__(self, positive: Mask, margin: float, weight: Vector | None = None) -> None:
        w = np.ones(len(positive)) if weight is None else weight
        self._shift = margin * positive
        self._a, self._b = (
            np.where(of, w, 0.0) / float(w[of].sum()) for of in (positive, ~positive)
        )

    def __call__(self, scores: Vector) -> tuple[float, Vector]:
        """Return the mean loss and its derivatives by score."""
        return self.sums(scores)[:2]

    def sums(self, scores: Vector) -> tuple[float, Vector, Vector, Places]:
        """Return the mean loss, its derivatives, the weight of each one's active pairs, the order.

        The order is that of the places, from small to large.
        """
        places = scores - self._shift
        order = np.argsort(places)
        # Sums about the middle, so that large scores lose no precision.
        x = places[order] - places[order[len(order) // 2]]
        a, b = self._a[order], self._b[order]
        count, line = _above(b), _above(b * x)
        bowl = x * (x * count - 2.0 * line) + _above(b * x * x)
        below = np.cumsum(a)
        slopes, met = np.empty(len(x)), np.empty(len(x))
        slopes[order] = 2.0 * (b * (x * below - np.cumsum(a * x)) - a * (line - x * count))
        met[order] = a * count + b * below
        return max(float(a @ bowl), 0.0), slopes, met, order

    def hessian(self, X: NDArray[Any], met: Vector, order: Places) -> Vector:
        """Return the second derivatives by w for scores X w, from what `sums` returned."""
        d = X.shape[1]
        found, above = np.zeros((d, d)), np.zeros(d)
        for start in range(0, len(order), _BLOCK):
            part = order[::-1][start : start + _BLOCK]
            rows = X[part]
            sums = above + np.cumsum(rows * self._b[part, None], axis=0)
            above = sums[-1]
            found += rows.T @ (rows * (0.5 * met[part, None]) - sums * self._a[part, None])
        return 2.0 * (found + found.T)


@np.errstate(over="ignore", invalid="ignore")
def newton(
    X: NDArray[Any],
    positive: Mask,
    ridge: float,
    w_start: Vector | None = None,
    *,
    weight: Vector | None = None,
    margin: float = 1.0,
    tolerance: float = 1e-9,
    max_iterations: int = 50,
) -> tuple[Vector, int]:
    """Return the minimiser of the squared hinge plus a ridge, and the number of Newton steps.

    `X` is in double precision, and both classes are present. A pair weighs the product of the
    weights of both examples. The search starts at zero by default, with backtracking. It stops when
    an iteration predicts or brings less than the share `tolerance` of the objective.
    """
    mean = SquaredHingeMean(positive, margin, weight)
    d = X.shape[1]
    w = np.zeros(d) if w_start is None else np.array(w_start, dtype=np.float64)
    scores = X @ w
    value, slopes, met, order = mean.sums(scores)
    value += ridge * float(w @ w)
    before: Vector | None = None
    for iteration in range(max_iterations):
        gradient = slopes @ X + 2.0 * ridge * w
        if not gradient.any():
            return w, iteration
        if before is not None:
            # The next Hessian would say the same, and it is the dearest part of a step.
            left = gradient @ _solved(before, gradient)
            if left <= _CLEARLY * tolerance * value:
                return w, iteration
        hessian = mean.hessian(X, met, order)
        trace = float(np.trace(hessian))
        if not math.isfinite(trace):
            raise DivergenceError(
                "The squares of features overflow; scale the features (StandardScaler)."
            )
        # Directions without curvature have zero gradient; the term only keeps them finite.
        hessian.flat[:: d + 1] += 2.0 * ridge + 1e-10 * max(trace / d, 1e-300)
        step = -_solved(hessian, gradient)
        promise = float(gradient @ step)
        if not -promise > tolerance * value:
            return w, iteration
        moved, size = X @ step, 1.0
        for _ in range(_MOST_HALVINGS):
            w_new = w + size * step
            found = mean.sums(scores + size * moved)
            value_new = found[0] + ridge * float(w_new @ w_new)
            if value_new <= value + _ENOUGH * size * promise:
                break
            size *= 0.5
        else:
            return w, iteration
        gain, value = value - value_new, value_new
        w, scores = w_new, scores + size * moved
        _, slopes, met, order = found
        if gain < tolerance * value:
            return w, iteration + 1
        before = hessian if size == 1.0 else None
    return w, max_iterations


def _solved(matrix: Vector, right: Vector) -> Vector:
    """Return the solution of a positive definite system; `linalg.solve` costs ten times a few."""
    from scipy import linalg
    from scipy.linalg.lapack import dposv

    _, found, info = dposv(matrix, right)
    if info:
        found = linalg.solve(matrix, right, assume_a="pos", check_finite=False)
    return np.asarray(found)


def _above(values: Vector) -> Vector:
    """Return the sum from each position to the end."""
    return np.cumsum(values[::-1])[::-1]
