# SPDX-License-Identifier: BSD-3-Clause
r"""The squared hinge over all opposite pairs by Newton's method, for few features.

With a_i and b_j the weights of positive and negative examples, each class's adding up to 1, the
objective is

    F(w) = sum_ij a_i b_j (margin - <w, x_i - x_j>)_+^2 + ridge ||w||^2.

Only pairs with u_i = <w, x_i> - margin < q_j = <w, x_j> count. Once the scores are sorted, the
negatives that a positive meets are a suffix, and so the value, the gradient and the Hessian

    2 sum over active pairs of a_i b_j (x_i - x_j)(x_i - x_j)' + 2 ridge I

come from suffix sums in O(n log n + n d^2), without visiting n+ n- pairs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Mask, Vector
from pairlearn.validation import DivergenceError

#: The limit on halvings of a step.
_MOST_HALVINGS = 30
#: A step must bring at least this share of the decrease that the slope predicts (Armijo).
_ENOUGH = 1e-4


class SquaredHingeNewton:
    """Minimises the squared hinge plus a ridge on one data set, for any number of ridges.

    `X` is in double precision, and both classes are present. A pair weighs the product of the
    weights of both examples.
    """

    def __init__(
        self, X: NDArray[Any], positive: Mask, *, weight: Vector | None = None, margin: float = 1.0
    ) -> None:
        self._P, self._N, self._margin = X[positive], X[~positive], margin
        n_positive, n_negative = len(self._P), len(self._N)
        if weight is None:
            self._a = np.full(n_positive, 1.0 / n_positive)
            self._b = np.full(n_negative, 1.0 / n_negative)
        else:
            self._a = weight[positive] / weight[positive].sum()
            self._b = weight[~positive] / weight[~positive].sum()

    def minimise(
        self,
        ridge: float,
        w_start: Vector | None = None,
        *,
        tolerance: float = 1e-9,
        max_iterations: int = 50,
    ) -> tuple[Vector, int]:
        """Return the minimiser and the number of iterations.

        The search starts at zero by default. It stops when an iteration predicts or brings less
        than the share `tolerance` of the objective.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._minimise(ridge, w_start, tolerance, max_iterations)

    def _minimise(
        self, ridge: float, w_start: Vector | None, tolerance: float, max_iterations: int
    ) -> tuple[Vector, int]:
        """Return the minimiser and the number of Newton steps, with a backtracking line search."""
        from scipy import linalg

        d = self._P.shape[1]
        w = np.zeros(d) if w_start is None else np.array(w_start, dtype=np.float64)
        p, q = self._P @ w, self._N @ w
        value, slopes, ranks = self._evaluate(p, q)
        value += ridge * float(w @ w)
        for iteration in range(max_iterations):
            gradient = slopes[0] @ self._P + slopes[1] @ self._N + 2.0 * ridge * w
            if not gradient.any():
                return w, iteration
            hessian = self._hessian(*ranks)
            trace = float(np.trace(hessian))
            if not math.isfinite(trace):
                raise DivergenceError(
                    "The squares of features overflow; scale the features (StandardScaler)."
                )
            # Directions without curvature have zero gradient; the term only keeps them finite.
            hessian.flat[:: d + 1] += 2.0 * ridge + 1e-10 * max(trace / d, 1e-300)
            step = -linalg.solve(hessian, gradient, assume_a="pos", check_finite=False)
            promise = float(gradient @ step)
            if not -promise > tolerance * value:
                return w, iteration
            dp, dq, size = self._P @ step, self._N @ step, 1.0
            for _ in range(_MOST_HALVINGS):
                w_new = w + size * step
                found = self._evaluate(p + size * dp, q + size * dq)
                value_new = found[0] + ridge * float(w_new @ w_new)
                if value_new <= value + _ENOUGH * size * promise:
                    break
                size *= 0.5
            else:
                return w, iteration
            gain, value = value - value_new, value_new
            w, p, q = w_new, p + size * dp, q + size * dq
            _, slopes, ranks = found
            if gain < tolerance * value:
                return w, iteration + 1
        return w, max_iterations

    def _evaluate(
        self, p: Vector, q: Vector
    ) -> tuple[float, tuple[Vector, Vector], tuple[Any, Any, Any]]:
        """Return the mean loss, its derivatives by score, and the positions of the active pairs."""
        a, b, u = self._a, self._b, p - self._margin
        order = np.argsort(q)
        sorted_q, sorted_b = q[order], b[order]
        first = np.searchsorted(sorted_q, u, side="right")
        count = _suffix(sorted_b)[first]
        # Sums about the middle of the scores, so that large scores lose no precision.
        middle = float(sorted_q[len(q) // 2])
        centred, gap = sorted_q - middle, middle - u
        ramp = count * gap + _suffix(sorted_b * centred)[first]
        bowl = gap * (count * gap + 2.0 * _suffix(sorted_b * centred)[first])
        bowl += _suffix(sorted_b * centred**2)[first]
        by_u = np.argsort(u)
        sorted_u, sorted_a = u[by_u], a[by_u]
        until = np.searchsorted(sorted_u, q, side="left")
        met = _prefix(sorted_a)[until]
        pull = (q - middle) * met - _prefix(sorted_a * (sorted_u - middle))[until]
        slopes = (-2.0 * a * ramp, 2.0 * b * pull)
        return float(a @ bowl), slopes, (order, first, (a * count, b * met))

    def _hessian(self, order: Any, first: Any, met: tuple[Vector, Vector]) -> Vector:
        P, N = self._P, self._N
        sums = np.zeros((len(N) + 1, N.shape[1]))
        np.cumsum((N[order] * self._b[order, None])[::-1], axis=0, out=sums[-2::-1])
        cross = (P * self._a[:, None]).T @ sums[first]
        hessian = (P * met[0][:, None]).T @ P + (N * met[1][:, None]).T @ N - cross - cross.T
        return np.asarray(2.0 * hessian)


def _suffix(values: Vector) -> Vector:
    """Return the sums from each position to the end, followed by 0."""
    sums = np.zeros(len(values) + 1)
    np.cumsum(values[::-1], out=sums[-2::-1])
    return sums


def _prefix(values: Vector) -> Vector:
    """Return 0 followed by the sums from the start to each position."""
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    return sums
