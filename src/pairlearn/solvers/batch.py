# SPDX-License-Identifier: BSD-3-Clause
r"""Exact minimisers of the pair risk for data in memory: closed form, and L-BFGS.

All minimise the mean of l(<w, x+ - x->) over opposite pairs plus ridge ||w||^2. The mean over
opposite pairs is the empirical risk F_S times n (n - 1) / (2 n+ n-) for a symmetric loss. Gradients
are exact and, for the squared and smoothed hinge, O(n log n) by sorting the scores.

The square loss has a closed form. Its matrix also preconditions L-BFGS for the other losses: in
the coordinates in which it is the identity a few iterations are enough.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.losses import PairLoss, Square, SquaredHinge, get_loss
from pairlearn.metrics import pair_risk, pair_risk_gradient
from pairlearn.solvers.moments import ClassMoments
from pairlearn.solvers.rows import CsrRows, Rows
from pairlearn.solvers.solution import Solution, Trace
from pairlearn.solvers.support import check_parts
from pairlearn.solvers.two_classes import check_two_classes
from pairlearn.validation import check_count, check_positive

__all__ = ["ExactSolver", "pair_mean"]

Vector = NDArray[np.float64]
#: A function of the scores: the mean loss over opposite pairs, and its derivatives.
ScoreLoss = Callable[[Vector], tuple[float, Vector]]

#: With more features than this the closed form is not used as a preconditioner.
_MOST_PRECONDITIONED = 1_000
#: A bucket of more places than this is left to a general sort.
_LONGEST_BUCKET = 64


@dataclass(frozen=True)
class ExactSolver:
    """Minimise the exact pair risk of a smooth loss.

    Parameters
    ----------
    loss : str or PairLoss, default="squared_hinge"
        A convex loss of margins: "squared_hinge", "square", "smoothed_hinge", "logistic",
        "exponential". The logistic loss visits all pairs at each evaluation. The hinge has kinks:
        use "smoothed_hinge".
    ridge : float, default=0.0
        The weight of ||w||^2.
    tolerance : float, default=1e-9
        Stop when an iteration lowers the objective by less than this share of it.
    max_iterations : int, default=200
        Most iterations.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = np.where(X[:, 0] + rng.normal(size=200) > 0, 1.0, -1.0)
    >>> w = ExactSolver("squared_hinge").solve(X, y).w
    >>> bool(w[0] > 3 * abs(w[1]))
    True
    """

    loss: str | PairLoss = "squared_hinge"
    ridge: float = 0.0
    tolerance: float = 1e-9
    max_iterations: int = 200

    def __post_init__(self) -> None:
        if not self.ridge >= 0.0:
            raise ValueError(f"ridge must be at least 0, got {self.ridge!r}.")
        check_positive("tolerance", self.tolerance)
        check_count("max_iterations", self.max_iterations)
        loss = get_loss(self.loss)
        check_parts("ExactSolver", loss=loss)
        if not (loss.convex and loss.opposite_labels_only):
            raise ValueError(
                f"The exact solver needs a convex loss of opposite pairs, got {loss!r}; "
                "use pairwise SGD."
            )
        if loss.curvature_bound(1.0) == np.inf:
            raise ValueError(
                f"{type(loss).__name__} has a kink, which L-BFGS does not get past; use "
                '"smoothed_hinge" or "squared_hinge", or pairwise SGD.'
            )

    def solve(self, X: Any, y: ArrayLike, *, w_start: ArrayLike | None = None) -> Solution:
        """Return the minimiser.

        Parameters
        ----------
        X : array-like or sparse container of shape (n, d)
            Examples.
        y : array-like of shape (n,)
            Labels -1 and +1.
        w_start : array-like of shape (d,), optional
            Where L-BFGS starts; by default at the minimiser for the square loss.

        Returns
        -------
        Solution
            The minimiser, as both average and last iterate. The trace counts evaluations of the
            risk as steps and all opposite pairs of each as gradients.
        """
        rows, y = check_two_classes(X, y)
        loss, begin = get_loss(self.loss), time.perf_counter()
        positive = y > 0
        n_pairs = int(np.count_nonzero(positive)) * int(np.count_nonzero(~positive))
        d = rows.shape[1]
        moments = None
        if type(loss) is Square or d <= _MOST_PRECONDITIONED:
            moments = ClassMoments(d).add(rows, y)
        if type(loss) is Square:
            assert moments is not None
            w = moments.solve(ridge=self.ridge, margin=loss.margin)
            trace = Trace(1, n_pairs, seconds=time.perf_counter() - begin)
            return Solution(w, w, trace)
        return self._descend(rows, loss, positive, moments, w_start, n_pairs, begin)

    def _descend(
        self,
        rows: Rows,
        loss: PairLoss,
        positive: NDArray[np.bool_],
        moments: ClassMoments | None,
        w_start: ArrayLike | None,
        n_pairs: int,
        begin: float,
    ) -> Solution:
        from scipy.optimize import minimize

        d = rows.shape[1]
        evaluate, products = pair_mean(loss, positive), _Products(rows)
        root = None if moments is None else _root(moments, self.ridge)
        start = np.zeros(d)
        if w_start is not None:
            start = np.asarray(w_start, dtype=np.float64)
        elif moments is not None:
            start = moments.solve(ridge=self.ridge)
        n_evaluations = 0

        def objective(v: Vector) -> tuple[float, Vector]:
            nonlocal n_evaluations
            n_evaluations += 1
            w = v if root is None else root @ v
            value, slopes = evaluate(products.scores(w))
            gradient = products.combine(slopes) + (2.0 * self.ridge) * w
            value += self.ridge * float(w @ w)
            return value, gradient if root is None else root.T @ gradient

        v_start = start if root is None else np.linalg.lstsq(root, start, rcond=None)[0]
        found = minimize(
            objective,
            v_start,
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": self.max_iterations,
                "ftol": self.tolerance,
                "gtol": 1e-12,
                "maxcor": 20,
            },
        )
        if found.status == 1:
            warnings.warn(
                f"L-BFGS stopped after {self.max_iterations} iterations; raise max_iterations.",
                RuntimeWarning,
                stacklevel=3,
            )
        w = found.x if root is None else root @ found.x
        trace = Trace(n_evaluations, n_evaluations * n_pairs, seconds=time.perf_counter() - begin)
        return Solution(w, w, trace)


def pair_mean(loss: PairLoss, positive: NDArray[np.bool_]) -> ScoreLoss:
    """Return a function of scores: the mean loss over opposite pairs, and its derivatives.

    Parameters
    ----------
    loss : PairLoss
        A loss of opposite pairs.
    positive : ndarray of bool of shape (n,)
        Which examples are positive.

    Returns
    -------
    callable
        From scores to (value, derivatives by score).

    Examples
    --------
    >>> mean = pair_mean(SquaredHinge(), np.array([True, False]))
    >>> mean(np.array([0.5, 0.0]))
    (0.25, array([-1.,  1.]))
    """
    if (loss.value, loss.derivative) == (SquaredHinge.value, SquaredHinge.derivative):
        return _SquaredHingeMean(positive, loss.parameter)
    n, n_positive = len(positive), int(np.count_nonzero(positive))
    y = np.where(positive, 1.0, -1.0)
    orders = 1.0 if loss.one_sided else 2.0
    # From the mean over all ordered pairs to the mean over opposite ones.
    factor = n * (n - 1) / (orders * n_positive * (n - n_positive))

    def evaluate(scores: Vector) -> tuple[float, Vector]:
        value = factor * pair_risk(loss, scores, y)
        return value, factor * pair_risk_gradient(loss, scores, y)

    return evaluate


class _SquaredHingeMean:
    """The squared hinge by one sort and two walks."""

    def __init__(self, positive: NDArray[np.bool_], margin: float) -> None:
        n = len(positive)
        self._positive, self._margin = positive, margin * positive
        n_positive = int(np.count_nonzero(positive))
        self._scale = 1.0 / (n_positive * (n - n_positive))
        self._order = np.empty(n, dtype=np.int64)
        self._begins = np.empty(2 * n + 2, dtype=np.int64)

    def __call__(self, scores: Vector) -> tuple[float, Vector]:
        from pairlearn.kernels.risk import order_by_buckets, squared_hinge_walk

        places, order = scores - self._margin, self._order
        if not order_by_buckets(places, order, self._begins, _LONGEST_BUCKET):
            order = np.argsort(places)
        gradient = np.empty(len(scores))
        value = squared_hinge_walk(places, order, self._positive, gradient)
        gradient *= self._scale
        return self._scale * float(value), gradient


class _Products:
    """X w and X' g, for dense and sparse rows."""

    def __init__(self, rows: Rows) -> None:
        if isinstance(rows, CsrRows):
            import scipy.sparse

            self._X: Any = scipy.sparse.csr_array(
                (rows.data, rows.indices, rows.indptr), shape=rows.shape
            )
        else:
            self._X = rows.X.astype(np.float64, copy=False)

    def scores(self, w: Vector) -> Vector:
        return np.asarray(self._X @ w, dtype=np.float64)

    def combine(self, slopes: Vector) -> Vector:
        return np.asarray(slopes @ self._X, dtype=np.float64)


def _root(moments: ClassMoments, ridge: float) -> Vector:
    """Return R with R' A R = I for the matrix A of the square loss (regularised if singular)."""
    from scipy import linalg

    u, matrix = moments.difference, moments.covariance
    matrix += np.outer(u, u)
    # Directions without variance have no gradient either; they only must not blow up.
    floor = 1e-10 * max(float(np.trace(matrix)) / len(u), float(np.finfo(float).tiny))
    matrix.flat[:: len(u) + 1] += ridge + floor
    lower = linalg.cholesky(matrix, lower=True, check_finite=False)
    inverse = linalg.solve_triangular(lower, np.eye(len(u)), lower=True, check_finite=False)
    return np.asarray(inverse.T)
