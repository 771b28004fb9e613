# SPDX-License-Identifier: BSD-3-Clause
r"""The square loss by moments: closed form, from exact sums that merge and can be taken back.

The mean over opposite pairs of (m - <w, x - x'>)^2 is

    (m - <w, u>)^2 + w' C w,   u = mean_+ - mean_-,   C = cov_+ + cov_-,

so the loss depends on class means and covariances only, and the minimiser with ridge l ||w||^2
solves (C + u u' + l I) w = m u.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.solvers.closed_form.grid import FINE, Extents, Grid
from pairlearn.solvers.closed_form.table import MomentValues, Table, digest_of
from pairlearn.solvers.rows import CsrRows, Rows, as_rows
from pairlearn.solvers.two_classes import check_two_classes
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, check_count, check_labels, check_weights

#: Covariances of more features than this are refused, since they would not fit in memory.
MOST_FEATURES = 10_000


class ClassMoments:
    """Counts, means and scatter matrices of the two classes, from chunks in any order.

    The moments are whole numbers on a `Grid`. With the same grid, the same rows in any order, in
    any chunks and after any merges give the same state, bit for bit, and rows that are taken back
    leave no trace.

    Parameters
    ----------
    n_features : int
        Number of features.
    grid : Grid, optional
        The grid that values are rounded to, once. By default that of the first chunk, which keeps
        thirteen digits of its largest values. Values more than 256 times as large are as exact, and
        slower.

    Notes
    -----
    A whole weight k gives the bits of k copies. Other weights are rounded once, to 40 binary digits
    of the largest weight of the grid.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [5.0]]), np.array([-1, -1, 1, 1])
    >>> moments = ClassMoments(1).add(X[:3], y[:3]).add(X[3:], y[3:])
    >>> moments.means[:, 0], moments.covariance
    (array([3.5, 0.5]), array([[2.5]]))
    >>> moments.without(X[:1], y[:1]).means[:, 0]
    array([3.5, 1. ])
    """

    def __init__(self, n_features: int, grid: Grid | None = None) -> None:
        d = check_count("n_features", n_features)
        if d > MOST_FEATURES:
            raise ValueError(
                f"Covariances of {d} features need {8 * d * d / 2**30:.0f} GiB; use pairwise SGD, "
                f"or OPAUC with a sketch, for more than {MOST_FEATURES}."
            )
        if grid is not None:
            same_features(grid.n_features, d)
        self.n_features, self._given = d, grid is not None
        #: The exact sums of positives and negatives; None before the first row without a grid.
        self.table = None if grid is None else Table.none(d, grid=grid)

    @property
    def grid(self) -> Grid | None:
        """The grid; None before the first row, if none was given."""
        return None if self.table is None else self.table.grid

    def add(self, X: Any, y: ArrayLike, *, example_weight: ArrayLike | None = None) -> Self:
        """Add examples with labels -1 and +1; `example_weight` says how often each counts."""
        rows = as_rows(X)
        if rows.shape[1] != self.n_features:
            raise ValueError(f"X has {rows.shape[1]} features, the moments have {self.n_features}.")
        rows, y, weight = signed(rows, y, example_weight)
        if len(y):
            check_covariances(rows)
            self.table = self._table_for(rows, weight).plus(rows.matrix, y < 0, weight)
        return self

    def _table_for(self, rows: Rows, weight: Vector | None) -> Table:
        """Return the sums on a grid for these rows and weights."""
        if self.table is None:
            first = Grid.of(Extents.of(rows, weight), bits=FINE)
            return Table.none(self.n_features, grid=first)
        grid = self.table.grid
        assert grid is not None
        if weight is None:
            return self.table
        if self._given:
            grid.check_weights(weight)
            return self.table
        finer = min(Grid.of(Extents.of(rows, weight)).weight_exponent, grid.weight_exponent)
        return self.table.on(Grid(grid.exponents, grid.origin, finer))

    def merge(self, other: ClassMoments) -> Self:
        """Add the examples of other moments; on a common grid if theirs is another one."""
        same_features(self.n_features, other.n_features)
        if other.table is not None:
            self.table = other.table if self.table is None else self.table + other.table
        return self

    def without(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        example_weight: ArrayLike | None = None,
    ) -> ClassMoments:
        """Return the moments without some examples, as if they had never come.

        Parameters
        ----------
        X : ClassMoments, or array-like or sparse container of shape (n, d)
            The moments of the examples, or the examples themselves.
        y : array-like of shape (n,), optional
            Labels -1 and +1 of the examples.
        example_weight : array-like of shape (n,), optional
            The weights with which they were added.

        Returns
        -------
        ClassMoments
            The moments of the other examples, on the same grid.
        """
        gone = X
        if not isinstance(X, ClassMoments):
            if y is None:
                raise ValueError("The rows that are taken back need their labels; pass y.")
            gone = ClassMoments(self.n_features, self.grid)
            gone.add(X, y, example_weight=example_weight)
        same_features(self.n_features, gone.n_features)
        rest = ClassMoments(self.n_features)
        rest.table, rest._given = self.table, self._given
        if gone.table is not None and gone.table.totals.any():
            rest.table = taken_away(self.table, gone.table)
        return rest

    @property
    def values(self) -> MomentValues:
        """Counts, means and covariances as floats, each rounded once from whole numbers."""
        if self.table is None:
            return Table.none(self.n_features).values()
        return self.table.values()

    @property
    def counts(self) -> Vector:
        """Counts of positives and negatives."""
        return self.values.counts

    @property
    def means(self) -> Vector:
        """Their means, in this order."""
        return self.values.means

    @property
    def scatters(self) -> Vector:
        """Their sums of (x - mean)(x - mean)'."""
        return self.values.scatters

    @property
    def difference(self) -> Vector:
        """The mean of the positives minus the mean of the negatives, u."""
        return self.values.difference

    @property
    def covariance(self) -> Vector:
        """The sum of the covariances of the classes, C (divided by N, not N - 1)."""
        return self.values.covariance

    @property
    def pair_scatter(self) -> Vector:
        """The mean of v v' over the differences v of opposite pairs, C + u u'."""
        return self.values.pair_scatter

    def scaled(self, weights: Vector) -> MomentValues:
        """Return the moments of features that are multiplied by weights."""
        return self.values.scaled(weights)

    def solve(self, *, ridge: float = 0.0, margin: float = 1.0) -> Vector:
        """Return the least-norm minimiser of the mean square loss of pairs plus ridge ||w||^2."""
        return self.values.solve(ridge=ridge, margin=margin)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `from_state` rebuilds the moments."""
        if self.table is None:
            return {"n_features": np.array(self.n_features)}
        return self.table.state()

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return the moments of a saved `state`."""
        if "n_features" in state:
            return cls(int(state["n_features"]))
        return cls.of(Table.from_state(state))

    @classmethod
    def of(cls, table: Table) -> Self:
        """Return the moments that an exact table of positives and negatives holds."""
        assert table.grid is not None
        if len(table.sums) != 2 or not table.is_possible():
            raise ValueError("the moments are not of two classes, or have a negative variance.")
        made = cls(table.grid.n_features, table.grid)
        made.table = table
        return made

    def digest(self) -> str:
        """Return a digest of the state: equal for equal sums on equal grids, and only for them."""
        return digest_of(self.state())


def signed(
    rows: Rows, y: ArrayLike, weight: ArrayLike | None
) -> tuple[Rows, Vector, Vector | None]:
    """Return rows of weight other than 0 with labels, which must be -1 and +1, and weights."""
    y = check_labels(y, rows.shape[0])
    if not (np.abs(y) == 1.0).all():
        raise ValueError("y must hold the labels -1 and +1.")
    if weight is None:
        return rows, y, None
    weight = check_weights(weight, len(y))
    kept = np.flatnonzero(weight)
    return (rows, y, weight) if len(kept) == len(y) else (rows.take(kept), y[kept], weight[kept])


def taken_away(table: Table | None, gone: Table) -> Table:
    """Return exact sums without those of some rows, which must be among them."""
    if table is None or not (rest := table - gone).is_possible():
        raise ValueError(
            "These examples are not all among those of the moments: without them a class would "
            "have fewer than no examples, or a negative variance. Take back only examples that "
            "were added, with their labels and weights."
        )
    return rest


def check_covariances(rows: Rows) -> None:
    """Refuse rows whose covariances would overflow, before they are added.

    The largest value alone decides, in any chunk; the sum of squares is a faster look. Scatters of
    pairs are up to six times its square.
    """
    values = (rows.data if isinstance(rows, CsrRows) else rows.X).reshape(-1)
    with np.errstate(over="ignore"):
        if values.dtype == np.float32 or np.isfinite(8.0 * values.dot(values)):
            return
    largest = float(max(values.max(), -values.min()))
    if math.isfinite(8.0 * largest * largest):
        return
    raise DivergenceError(
        f"The squares of features overflow (the largest is {largest:.3g}); "
        "scale the features (StandardScaler)."
    )


def same_features(ours: int, theirs: int) -> None:
    """Refuse moments of different numbers of features."""
    if ours != theirs:
        raise ValueError(f"Moments of {ours} features and of {theirs} do not add up.")


def solve_square_auc(X: Any, y: ArrayLike, *, ridge: float = 0.0, margin: float = 1.0) -> Vector:
    r"""Return the minimiser of the square loss over opposite pairs, in closed form.

    Minimises 1/(n+ n-) sum over opposite pairs of (m - <w, x+ - x->)^2 + ridge ||w||^2 in O(n d^2)
    operations, without visiting pairs.

    Parameters
    ----------
    X : array-like or sparse container of shape (n, d)
        Examples.
    y : array-like of shape (n,)
        Labels -1 and +1.
    ridge, margin : float
        The weight of ||w||^2, and the margin m.

    Returns
    -------
    ndarray of shape (d,)
        The minimiser.

    Examples
    --------
    >>> solve_square_auc([[0.0], [1.0], [2.0], [3.0]], [-1, -1, 1, 1]).round(4)
    array([0.4444])
    """
    rows, y = check_two_classes(X, y)
    return ClassMoments(rows.shape[1]).add(rows, y).solve(ridge=ridge, margin=margin)
