# SPDX-License-Identifier: BSD-3-Clause
r"""The squared hinge over all opposite pairs by Newton's method, for few features.

With a_i and b_j the weights of positive and negative examples, each class's adding up to 1, the
objective is

    F(w) = sum_ij a_i b_j (margin - <w, x_i - x_j>)_+^2 + ridge ||w||^2.

Only pairs with u_i = <w, x_i> - margin < q_j = <w, x_j> count. Once the scores are sorted, the
negatives that a positive meets are a suffix, and so the value, the gradient and the Hessian

    2 sum over active pairs of a_i b_j (x_i - x_j)(x_i - x_j)' + 2 ridge I

come from suffix sums in O(n log n + n d^2), without visiting n+ n- pairs. Many examples take
compiled walks over the sorted scores; for few, NumPy finishes before a kernel would be loaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pairlearn.typing import Mask, Vector
from pairlearn.validation import DivergenceError

#: The limit on halvings of a step.
_MOST_HALVINGS = 30
#: A step must bring at least this share of the decrease that the slope predicts (Armijo).
_ENOUGH = 1e-4
#: The Hessian before a full step sees that the search has ended if it predicts less than this share
#: of what would be worth another step.
_CLEARLY = 0.5
#: From this many numbers on, kernels are faster than NumPy even if they have to be loaded.
_MANY = 500_000
#: Buckets with more entries than this are sorted by a general sort.
_LONGEST_BUCKET = 64


class SquaredHingeNewton:
    """Minimises the squared hinge plus a ridge on one data set, for any number of ridges.

    `X` is in double precision, and both classes are present. A pair weighs the product of the
    weights of both examples.
    """

    def __init__(
        self, X: NDArray[Any], positive: Mask, *, weight: Vector | None = None, margin: float = 1.0
    ) -> None:
        many = X.size > _MANY
        self._pairs: Any = (_Walked if many else _Sorted)(X, positive, weight, margin)
        self._n_features = X.shape[1]

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
        d, pairs = self._n_features, self._pairs
        w = np.zeros(d) if w_start is None else np.array(w_start, dtype=np.float64)
        scores = pairs.scores(w)
        value, slopes, state = pairs.evaluate(scores)
        value += ridge * float(w @ w)
        before: Vector | None = None
        for iteration in range(max_iterations):
            gradient = pairs.combine(slopes) + 2.0 * ridge * w
            if not gradient.any():
                return w, iteration
            if before is not None:
                # The next Hessian would say the same, and it is the dearest part of a step.
                left = gradient @ _solved(before, gradient)
                if left <= _CLEARLY * tolerance * value:
                    return w, iteration
            hessian = pairs.hessian(state)
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
            moved, size = pairs.scores(step), 1.0
            for _ in range(_MOST_HALVINGS):
                w_new = w + size * step
                found = pairs.evaluate(scores + size * moved)
                value_new = found[0] + ridge * float(w_new @ w_new)
                if value_new <= value + _ENOUGH * size * promise:
                    break
                size *= 0.5
            else:
                return w, iteration
            gain, value = value - value_new, value_new
            w, scores = w_new, scores + size * moved
            _, slopes, state = found
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


def scatter_of_pairs(met: Sequence[tuple[Vector, Vector]], first: Vector, sums: Vector) -> Vector:
    """Return the weighted sum of (x_i - x_j)(x_i - x_j)' over pairs, without a loop over them.

    It is the sum of m_k x_k x_k' over examples, less C + C' with C the sum of x_i y_i'. `met` holds
    rows x_k and the weights m_k of all their pairs, `first` the weighted rows of the first of each
    pair, and `sums` for each of these the weighted sum y_i of the second ones.
    """
    cross = first.T @ sums
    own = sum((rows * weight[:, None]).T @ rows for rows, weight in met)
    return np.asarray(own - cross - cross.T)


class _Sorted:
    """Sums over active pairs by NumPy: the scores of positives, followed by those of negatives."""

    def __init__(
        self, X: NDArray[Any], positive: Mask, weight: Vector | None, margin: float
    ) -> None:
        self._P, self._N, self._margin = X[positive], X[~positive], margin
        n_positive, n_negative = len(self._P), len(self._N)
        if weight is None:
            self._a = np.full(n_positive, 1.0 / n_positive)
            self._b = np.full(n_negative, 1.0 / n_negative)
        else:
            self._a = weight[positive] / weight[positive].sum()
            self._b = weight[~positive] / weight[~positive].sum()

    def scores(self, w: Vector) -> Vector:
        """Return the scores of all examples."""
        return np.concatenate([self._P @ w, self._N @ w])

    def combine(self, slopes: tuple[Vector, Vector]) -> Vector:
        """Return the derivative by w from those by score."""
        return np.asarray(slopes[0] @ self._P + slopes[1] @ self._N)

    def evaluate(self, scores: Vector) -> tuple[float, tuple[Vector, Vector], tuple[Any, Any, Any]]:
        """Return the mean loss, its derivatives by score, and the positions of the active pairs."""
        p, q = scores[: len(self._P)], scores[len(self._P) :]
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

    def hessian(self, state: tuple[Any, Any, tuple[Vector, Vector]]) -> Vector:
        """Return the Hessian of the mean loss."""
        (order, first, met), P, N = state, self._P, self._N
        sums = np.zeros((len(N) + 1, N.shape[1]))
        np.cumsum((N[order] * self._b[order, None])[::-1], axis=0, out=sums[-2::-1])
        return 2.0 * scatter_of_pairs([(P, met[0]), (N, met[1])], P * self._a[:, None], sums[first])


class SquaredHingeWalk:
    """The mean of the squared hinge as a function of scores, in one sort and two walks."""

    def __init__(self, positive: Mask, margin: float, weight: Vector | None) -> None:
        n = len(positive)
        self.positive, self._margin = positive, margin * positive
        self.weight = np.empty(0) if weight is None else weight
        w = np.ones(n) if weight is None else weight
        #: One over the total weight of all pairs.
        self.scale = 1.0 / (float(w[positive].sum()) * float(w[~positive].sum()))
        self._order = np.empty(n, dtype=np.int64)
        self._begins = np.empty(2 * n + 2, dtype=np.int64)

    def __call__(self, scores: Vector) -> tuple[float, Vector]:
        """Return the mean loss and its derivatives by score."""
        return self.walk(scores, np.empty(0))[:2]

    def walk(self, scores: Vector, met: Vector) -> tuple[float, Vector, NDArray[np.int64]]:
        """Return the mean loss, its derivatives and the order of the walk.

        `met`, unless it is empty, receives the weight of the active pairs of each example. The
        order is written over by the next walk.
        """
        from pairlearn.kernels.risk import order_by_buckets, squared_hinge_walk

        places, order = scores - self._margin, self._order
        if not order_by_buckets(places, order, self._begins, _LONGEST_BUCKET):
            order = np.argsort(places)
        gradient = np.empty(len(scores))
        value = squared_hinge_walk(places, order, self.positive, self.weight, gradient, met)
        gradient *= self.scale
        return self.scale * float(value), gradient, order


class _Walked:
    """Sums over active pairs by kernels: the scores of the examples in their order."""

    def __init__(
        self, X: NDArray[Any], positive: Mask, weight: Vector | None, margin: float
    ) -> None:
        self._X, self._loss = np.ascontiguousarray(X), SquaredHingeWalk(positive, margin, weight)

    def scores(self, w: Vector) -> Vector:
        """Return the scores of all examples."""
        return np.asarray(self._X @ w)

    def combine(self, slopes: Vector) -> Vector:
        """Return the derivative by w from those by score."""
        return np.asarray(slopes @ self._X)

    def evaluate(self, scores: Vector) -> tuple[float, Vector, tuple[Any, Any]]:
        """Return the mean loss, its derivatives by score, and what the Hessian needs."""
        met = np.empty(len(scores))
        value, slopes, order = self._loss.walk(scores, met)
        return value, slopes, (order, met)

    def hessian(self, state: tuple[Any, Any]) -> Vector:
        """Return the Hessian of the mean loss where it was evaluated last."""
        from pairlearn.kernels.risk import active_scatter

        (order, met), loss, d = state, self._loss, self._X.shape[1]
        wide = d + -d % 4
        rooms = (np.zeros(d), np.zeros((4, d)), np.zeros((4, wide)), np.zeros((d, wide)))
        flat = self._X.reshape(-1)
        flat.flags.writeable = False  # one type of array for kernels
        active_scatter(flat, order, loss.positive, loss.weight, met, *rooms)
        half = rooms[-1][:, :d]
        return np.asarray(2.0 * loss.scale * (half + half.T))


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
