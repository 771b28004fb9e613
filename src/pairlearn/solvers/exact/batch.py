# SPDX-License-Identifier: BSD-3-Clause
r"""Minimise the exact pair risk for data in memory, by closed form, L-BFGS or Newton's method.

All minimise the mean of l(<w, x+ - x->) over opposite pairs plus ridge ||w||^2. For a symmetric
loss, the mean over opposite pairs is the empirical risk F_S times n (n - 1) / (2 n+ n-). Gradients
are exact. For the squared and smoothed hinge they cost O(n log n), by sorting the scores.

The square loss has a closed form. Its matrix also preconditions L-BFGS for the other losses: a few
iterations suffice in the coordinates in which that matrix is the identity.

With fewer rows than features the minimiser lies in the span of the rows, and the search takes place
there: the scores, and so the risk, see nothing else of w.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.losses import LOSSES, PairLoss, SquaredHinge
from pairlearn.solvers.closed_form.grid import Extents, Grid
from pairlearn.solvers.closed_form.moments import ClassMoments, check_covariances
from pairlearn.solvers.closed_form.table import MomentValues, Table
from pairlearn.solvers.exact.newton import SquaredHingeMean, newton
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.solvers.solution import Solution, Trace
from pairlearn.solvers.support import check_parts
from pairlearn.solvers.two_classes import check_two_classes
from pairlearn.typing import Mask, Vector
from pairlearn.validation import (
    check_count,
    check_positive,
    check_vector,
    check_weights,
    warn_caller,
)

#: A function of the scores: the mean loss over opposite pairs, and its derivatives.
ScoreLoss = Callable[[Vector], tuple[float, Vector]]

#: With more features than this the closed form is not used as a preconditioner.
_MOST_PRECONDITIONED = 1_000
#: With at most this many features, Newton's method minimises the squared hinge: one Newton
#: iteration then costs as much as a few of L-BFGS.
_NEWTON = 32

#: Up to so many dense rows have a span, if features are at least `_WIDER` times as many.
_FEW = 1_000
_WIDER = 2
#: Sparse rows have a span if there are more features than this.
_MANY = 1_000
#: So few sparse rows have a span. Its basis is dense, and takes at most as many times their memory.
_FEW_SPARSE = 32


@dataclass(frozen=True, eq=False)
class Span:
    """X' = Q R with Q' Q = I, where X has as many columns as are not all zero.

    With w = Q v the scores X w are R' v, and ||w|| = ||v||. So what depends on scores and on ||w||
    is a function of v, on the rows of R', which are as many as they are long.
    """

    #: The columns that are not zero.
    columns: slice | NDArray[np.int64]
    Q: Vector
    #: R', the rows in these coordinates.
    rows: DenseRows
    n_features: int

    @classmethod
    def of(cls, rows: Rows) -> Span | None:
        """Return the span of few rows with many features, None for other rows."""
        n, d = rows.shape
        columns: slice | NDArray[np.int64] = slice(None)
        if isinstance(rows, DenseRows):
            if not (n <= _FEW and _WIDER * n <= d):
                return None
            X = rows.X.astype(np.float64, copy=False)
        else:
            if n > _FEW_SPARSE or d <= _MANY:
                return None
            # A mask is linear in d; np.unique hashes, which costs more for each the more there are.
            found = np.zeros(d, dtype=np.bool_)
            found[rows.indices] = True
            columns = np.flatnonzero(found)
            X = rows.matrix[:, columns].toarray().astype(np.float64, copy=False)
        Q, R = np.linalg.qr(X.T)
        return cls(columns, Q, DenseRows(np.ascontiguousarray(R.T)), d)

    def inside(self, w: Vector) -> Vector:
        """Return the coordinates of the part of w that lies in the span."""
        return np.asarray(w[self.columns] @ self.Q)

    def outside(self, w: Vector) -> Vector:
        """Return the part of w that is orthogonal to all rows."""
        return w - self.to_w(self.inside(w))

    def to_w(self, v: Vector) -> Vector:
        """Return Q v."""
        w = np.zeros(self.n_features)
        w[self.columns] = self.Q @ v
        return w


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
        Stop when an iteration lowers the objective by less than this share.
    max_iterations : int, default=200
        The limit on iterations.

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
        loss = LOSSES.make(self.loss)
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

    def solve(
        self,
        X: Any,
        y: ArrayLike,
        *,
        w_start: ArrayLike | None = None,
        example_weight: ArrayLike | None = None,
    ) -> Solution:
        """Return the minimiser.

        Parameters
        ----------
        X : array-like or sparse container of shape (n, d)
            Examples.
        y : array-like of shape (n,)
            Labels -1 and +1.
        w_start : array-like of shape (d,), optional
            Start of the search; the minimiser for the square loss by default. The square loss
            needs no search, so it has no effect there.
        example_weight : array-like of shape (n,), optional
            A pair weighs the product of the weights of its two examples.

        Returns
        -------
        Solution
            The minimiser, as both average and last iterate. The trace counts an evaluation of the
            risk as a step, and every opposite pair in it as a gradient.
        """
        begin = time.perf_counter()
        rows, y = check_two_classes(X, y)
        weight = None if example_weight is None else check_weights(example_weight, len(y))
        objective = PairObjective(rows, y, LOSSES.make(self.loss), weight)
        w, n_evaluations = objective.minimise(
            self.ridge,
            None if w_start is None else check_vector("w_start", w_start, rows.shape[1]),
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
        )
        n_positive = int(np.count_nonzero(y > 0))
        n_gradients = n_evaluations * n_positive * (len(y) - n_positive)
        trace = Trace(n_evaluations, n_gradients, seconds=time.perf_counter() - begin)
        return Solution(w, w, trace)


class PairObjective:
    """The mean loss over opposite pairs of one data set, which is minimised for any ridge.

    The loss is smooth and convex. Labels are -1 and +1, both present.
    """

    #: Where the ridge pulls to, zero if there is none.
    anchor: Vector | None = None

    def __init__(self, rows: Rows, y: Vector, loss: PairLoss, weight: Vector | None = None) -> None:
        self._rows, self._y, self._loss, self._weight = rows, y, loss, weight

    @cached_property
    def _moments(self) -> MomentValues | None:
        d, rows, weight = self._rows.shape[1], self._rows, self._weight
        if not self._loss.by_moments and d > _MOST_PRECONDITIONED:
            return None
        # A preconditioner needs few digits: sums of floats, and those of sparse rows, which are not
        # centred, on the grid of few digits.
        if not self._loss.by_moments and isinstance(rows, DenseRows):
            check_covariances(rows)
            origin = rows.X.mean(axis=0, dtype=np.float64)
            table = Table.none(d).plus(rows.X - origin, self._y < 0, weight)
            return table.values(origin)
        grid = None if self._loss.by_moments else Grid.of(Extents.of(rows, weight))
        return ClassMoments(d, grid).add(rows, self._y, example_weight=weight).values

    @cached_property
    def _scatter(self) -> Vector | None:
        return None if self._moments is None else self._moments.pair_scatter

    @property
    def _by_newton(self) -> bool:
        is_dense = isinstance(self._rows, DenseRows)
        return type(self._loss) is SquaredHinge and is_dense and self._rows.shape[1] <= _NEWTON

    @cached_property
    def _matrix(self) -> Any:
        rows = self._rows
        return rows.matrix if isinstance(rows, CsrRows) else rows.X.astype(np.float64, copy=False)

    @cached_property
    def _transposed(self) -> Any:
        return self._matrix.T  # SciPy would build it for every product

    @cached_property
    def _mean(self) -> ScoreLoss:
        return pair_mean(self._loss, self._y > 0, self._weight)

    @cached_property
    def _in_span(self) -> tuple[Span, PairObjective] | None:
        """The span of few wide rows, and the objective in it."""
        span = Span.of(self._rows)
        return None if span is None else (span, self._within(span))

    def _within(self, span: Span) -> PairObjective:
        """Return this objective as one of the coordinates of a span."""
        return PairObjective(span.rows, self._y, self._loss, self._weight)

    def minimise(
        self,
        ridge: float,
        w_start: Vector | None = None,
        *,
        tolerance: float = 1e-9,
        max_iterations: int = 200,
    ) -> tuple[Vector, int]:
        """Return the minimiser of the mean loss plus ridge ||w||^2, and the number of evaluations.

        The search starts at the minimiser for the square loss by default. It stops when an
        iteration lowers the objective by less than the share `tolerance`.
        """
        settings: Any = {"tolerance": tolerance, "max_iterations": max_iterations}
        if self._loss.by_moments:
            assert self._moments is not None
            return self._moments.solve(ridge=ridge, margin=self._loss.parameter), 1
        if self._in_span is not None:
            span, inner = self._in_span
            v_start = None if w_start is None else span.inside(w_start)
            v, n_evaluations = inner.minimise(ridge, v_start, **settings)
            # What is orthogonal to the rows is for the ridge alone to say, or stays as it was.
            beyond = self.anchor if ridge > 0.0 else w_start
            return span.to_w(v) + (0.0 if beyond is None else span.outside(beyond)), n_evaluations
        if self._by_newton:
            X, positive = self._matrix, self._y > 0
            settings |= {"weight": self._weight, "margin": self._loss.parameter}
            w, n_evaluations = newton(X, positive, ridge, w_start, **settings)
            stopped = n_evaluations == max_iterations
        else:
            moments = self._moments
            if w_start is None:
                d = self._rows.shape[1]
                w_start = np.zeros(d) if moments is None else moments.solve(ridge=ridge)
            risk = partial(self._risk, ridge=ridge)
            w, n_evaluations, stopped = descend(
                risk, w_start, self._scatter, ridge=ridge, **settings
            )
        if stopped:
            warn_caller(
                f"The search stopped after {max_iterations} iterations; raise max_iterations.",
                RuntimeWarning,
            )
        return w, n_evaluations

    def _risk(self, w: Vector, ridge: float) -> tuple[float, Vector]:
        """Return the objective without ridge ||w||^2, and its gradient."""
        value, slopes = self._mean(np.asarray(self._matrix @ w, dtype=np.float64))
        return value, np.asarray(self._transposed @ slopes, dtype=np.float64)


def descend(
    risk: Callable[[Vector], tuple[float, Vector]],
    w_start: Vector,
    scatter: Vector | None,
    *,
    ridge: float,
    tolerance: float,
    max_iterations: int,
) -> tuple[Vector, int, bool]:
    """Run L-BFGS in the coordinates in which the square loss has the identity as Hessian.

    `risk` goes from w to the mean loss over opposite pairs and its gradient. `scatter` is the mean
    of v v' over differences v of pairs, half the Hessian of the square loss; without it the search
    is in the coordinates of w. It stops when an iteration lowers the objective by less than the
    share `tolerance`. Returns the minimiser, the number of evaluations, and whether the search
    reached `max_iterations`.
    """
    from scipy.linalg.lapack import dtrtrs
    from scipy.optimize import minimize

    lower = None if scatter is None else _lower(scatter, ridge)

    def of_w(w: Vector) -> Vector:
        return w if lower is None else np.asarray(w @ lower)

    def to_w(v: Vector, *, transposed: bool = True) -> Vector:
        if lower is None:
            return v
        return np.asarray(dtrtrs(lower, v, lower=1, trans=int(transposed))[0])

    n_evaluations = 0
    # SciPy asks for the value and then for the gradient, each at its own copy of the point.
    # ``jac=True`` would copy the point once more.
    latest: tuple[Vector, Vector] = (w_start, w_start)

    def objective(v: Vector) -> float:
        nonlocal n_evaluations, latest
        n_evaluations += 1
        w = to_w(v)
        value, slope = risk(w)
        latest = v, to_w(slope + (2.0 * ridge) * w, transposed=False)
        return value + ridge * float(w @ w)

    def gradient(v: Vector) -> Vector:
        if v is not latest[0] and not np.array_equal(v, latest[0]):
            objective(v)
        return latest[1]

    options = {"maxiter": max_iterations, "ftol": tolerance, "gtol": 1e-12, "maxcor": 10}
    found = minimize(objective, of_w(w_start), jac=gradient, method="L-BFGS-B", options=options)
    return to_w(found.x), n_evaluations, found.status == 1


def pair_mean(loss: PairLoss, positive: Mask, weight: Vector | None = None) -> ScoreLoss:
    """Return a function of scores: the mean loss over opposite pairs, and its derivatives.

    A pair weighs the product of the weights of both examples.
    """
    if (loss.value, loss.derivative) == (SquaredHinge.value, SquaredHinge.derivative):
        return SquaredHingeMean(positive, loss.parameter, weight)
    y = np.where(positive, 1.0, -1.0)
    w = np.ones(len(y)) if weight is None else weight
    w = w / w.sum()
    orders = 1.0 if loss.one_sided else 2.0
    # From the mean over all ordered pairs to the mean over opposite ones.
    factor = (1.0 - float(w @ w)) / (orders * float(w[positive].sum()) * float(w[~positive].sum()))

    def evaluate(scores: Vector) -> tuple[float, Vector]:
        from pairlearn.metrics.risk import pair_risk, pair_risk_gradient

        value = factor * pair_risk(loss, scores, y, sample_weight=weight)
        return value, factor * pair_risk_gradient(loss, scores, y, sample_weight=weight)

    return evaluate


def _lower(scatter: Vector, ridge: float) -> Vector:
    """Return L with L L' = A for the matrix A of the square loss (regularised if singular)."""
    from scipy import linalg

    d = len(scatter)
    # Directions without variance have zero gradient; the term only keeps them finite.
    floor = 1e-10 * max(float(np.trace(scatter)) / d, float(np.finfo(float).tiny))
    matrix = scatter.copy()
    matrix.flat[:: d + 1] += ridge + floor
    return np.asarray(linalg.cholesky(matrix, lower=True, check_finite=False))
