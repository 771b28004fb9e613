# SPDX-License-Identifier: BSD-3-Clause
r"""The square loss by moments: closed form, from exact sums that merge and can be taken back.

The mean over opposite pairs of (m - <w, x - x'>)^2 is

    (m - <w, u>)^2 + w' C w,   u = mean_+ - mean_-,   C = cov_+ + cov_-,

so the loss depends on class means and covariances only, and the minimiser with ridge l ||w||^2
solves (C + u u' + l I) w = m u.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pairlearn.solvers.closed_form.exact_sums import (
    MOST_FEATURES,
    ExactSums,
    digest_of,
    packed_sums,
    unpacked_sums,
)
from pairlearn.solvers.closed_form.grid import FINE, Extents, Grid
from pairlearn.solvers.closed_form.moment_values import MomentValues, values_of
from pairlearn.solvers.rows import CsrRows, Rows
from pairlearn.solvers.two_classes import check_two_classes
from pairlearn.typing import Vector
from pairlearn.validation import DivergenceError, check_count, check_labels, check_weights


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
        if grid is not None and grid.n_features != d:
            raise ValueError(f"The grid has {grid.n_features} features, the moments have {d}.")
        self.n_features, self._given = d, grid is not None
        #: The exact sums of positives and negatives; None before the first row without a grid.
        self.sums: tuple[ExactSums, ExactSums] | None = None
        if grid is not None:
            self.sums = ExactSums.none(grid), ExactSums.none(grid)
        self._values: MomentValues | None = None

    @property
    def grid(self) -> Grid | None:
        """The grid; None before the first row, if none was given."""
        return None if self.sums is None else self.sums[0].grid

    def add(self, X: Any, y: ArrayLike, *, example_weight: ArrayLike | None = None) -> Self:
        """Add examples with labels -1 and +1; `example_weight` says how often each counts."""
        from pairlearn.solvers.rows import as_rows

        rows = as_rows(X)
        y = check_labels(y, rows.shape[0])
        if rows.shape[1] != self.n_features:
            raise ValueError(f"X has {rows.shape[1]} features, the moments have {self.n_features}.")
        if not (np.abs(y) == 1.0).all():
            raise ValueError("y must hold the labels -1 and +1.")
        weight = None if example_weight is None else check_weights(example_weight, len(y))
        if weight is not None and not weight.all():
            kept = np.flatnonzero(weight)
            rows, y, weight = rows.take(kept), y[kept], weight[kept]
        if not len(y):
            return self
        check_covariances(rows)
        positive, negative = self._sums_for(rows, weight)
        code = (y < 0).astype(np.intp)
        self.sums = tuple(add_classes((positive, negative), rows, code, weight))  # type: ignore[assignment]
        self._values = None
        return self

    def _sums_for(self, rows: Rows, weight: Vector | None) -> tuple[ExactSums, ExactSums]:
        """Return the sums on a grid for these rows and weights."""
        if self.sums is None:
            grid = Grid.of(Extents.of(rows, weight), bits=FINE)
            self.sums = ExactSums.none(grid), ExactSums.none(grid)
        elif weight is not None:
            self.sums = _for_weights(self.sums, rows, weight, given=self._given)
        return self.sums

    def merge(self, other: ClassMoments) -> Self:
        """Add the examples of other moments; on a common grid if theirs is another one."""
        # The common grid holds the points of both: nothing is rounded again.
        same_features(self.n_features, other.n_features)
        if other.sums is not None:
            ours, theirs = self.sums, other.sums
            self.sums = theirs if ours is None else _joined(ours, theirs, 1)
            self._values = None
        return self

    def without(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        example_weight: ArrayLike | None = None,
        checked: bool = True,
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
        checked : bool, default=True
            Whether examples that were never added are refused, where that shows. Copies of an
            example whose weights are added before they are rounded may seem to be such.

        Returns
        -------
        ClassMoments
            The moments of the other examples, on the same grid.
        """
        if isinstance(X, ClassMoments):
            gone = X
        elif y is None:
            raise ValueError("The rows that are taken back need their labels; pass y.")
        else:
            gone = ClassMoments(self.n_features, self.grid)
            gone.add(X, y, example_weight=example_weight)
        same_features(self.n_features, gone.n_features)
        rest = ClassMoments(self.n_features, self.grid)
        rest._given = self._given
        if gone.sums is None or not any(one.total for one in gone.sums):
            rest.sums = None if self.sums is None else self.sums
            return rest
        rest.sums = None if self.sums is None else _joined(self.sums, gone.sums, -1)
        if rest.sums is None or (checked and not all(one.is_possible() for one in rest.sums)):
            raise ValueError(
                "These examples are not all among those of the moments: without them a class would "
                "have fewer than no examples, or a negative variance. Take back only examples that "
                "were added, with their labels and weights."
            )
        return rest

    @property
    def values(self) -> MomentValues:
        """Counts, means and covariances as floats, each rounded once from whole numbers."""
        if self._values is None:
            if self.sums is None:
                d = self.n_features
                return MomentValues(np.zeros(2), np.zeros((2, d)), np.zeros((2, d, d)))
            self._values = values_of(self.sums)
        return self._values

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
        """Return the moments of features that are multiplied by weights.

        Parameters
        ----------
        weights : ndarray of shape (d,)
            The factor of each feature.

        Returns
        -------
        MomentValues
            The moments of the multiplied features.

        Examples
        --------
        >>> ClassMoments(1).add([[0.0], [2.0]], [-1, 1]).scaled(np.array([3.0])).means[:, 0]
        array([6., 0.])
        """
        return self.values.scaled(weights)

    def solve(self, *, ridge: float = 0.0, margin: float = 1.0) -> Vector:
        """Return the least-norm minimiser of the mean square loss of pairs plus ridge ||w||^2."""
        return self.values.solve(ridge=ridge, margin=margin)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `from_state` rebuilds the moments."""
        if self.sums is None:
            return {"n_features": np.array(self.n_features)}
        return packed_sums(self.sums)

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return the moments of a saved `state`."""
        if "n_features" in state:
            return cls(int(state["n_features"]))
        positive, negative = unpacked_sums(state, 2)
        made = cls(positive.grid.n_features, positive.grid)
        made.sums = positive, negative
        return made

    def digest(self) -> str:
        """Return a digest of the state: equal for equal sums on equal grids, and only for them."""
        return digest_of(self.state())


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


def add_classes(
    sums: Sequence[ExactSums], rows: Rows, code: NDArray[np.intp], weight: Vector | None
) -> list[ExactSums]:
    """Return the sums with rows, each added to those of its class; `code` is the class of a row."""
    grid = sums[0].grid
    if weight is None and grid.weight_exponent:
        weight = np.ones(rows.shape[0])
    own = None if weight is None else grid.weights(weight)
    if own is not None and (own == 1.0).all():
        own = None
    places = [np.flatnonzero(code == kind) for kind in range(len(sums))]
    return [
        one.plus(rows.take(index), None if own is None else own[index]) if len(index) else one
        for one, index in zip(sums, places, strict=True)
    ]


def _for_weights(
    sums: tuple[ExactSums, ExactSums], rows: Rows, weight: Vector, *, given: bool
) -> tuple[ExactSums, ExactSums]:
    """Return the sums on a grid whose quantum of weights suits these weights."""
    grid = sums[0].grid
    if given:
        grid.check_weights(weight)
        return sums
    wanted = Grid.of(Extents.of(rows, weight)).weight_exponent
    if wanted >= grid.weight_exponent:
        return sums
    finer = Grid(grid.exponents, grid.origin, wanted)
    return sums[0].on(finer), sums[1].on(finer)


def _joined(
    ours: tuple[ExactSums, ExactSums], theirs: tuple[ExactSums, ExactSums], sign: int
) -> tuple[ExactSums, ExactSums]:
    return ours[0].joined(theirs[0], sign), ours[1].joined(theirs[1], sign)


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
    ridge : float, default=0.0
        The weight of ||w||^2.
    margin : float, default=1.0
        The margin m.

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
