# SPDX-License-Identifier: BSD-3-Clause
r"""Closed forms for several classes: the scores that minimise the square loss over pairs.

For classes a and b with means m_a, m_b and covariances C_a, C_b, the mean over pairs of
(margin - <w, x_b - x_a>)^2 plus ridge ||w||^2 has the minimiser

    w_ab = margin (C_a + C_b + d d' + ridge I)^(-1) d,    d = m_b - m_a.

One score for all pairs of ordered classes adds the systems up, each with the share of its pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pairlearn.estimators.shared.examples import product, validate_data
from pairlearn.estimators.shared.scaling import Scaling, is_scaled, scaled_rows
from pairlearn.estimators.shared.solvers import SOLVERS, Exact, Solver
from pairlearn.estimators.shared.storage import Storable
from pairlearn.folds import Fold, n_folds_of
from pairlearn.solvers.closed_form.table import Table
from pairlearn.solvers.rows import CsrRows, DenseRows, Rows
from pairlearn.typing import Places, Vector
from pairlearn.validation import check_fraction

#: Ridges to choose from, from strong to weak, for rows of mean variance 1.
RIDGES = tuple(10.0**exponent for exponent in range(2, -7, -1))
#: The most features of a closed form: a covariance matrix of them takes 200 MB.
MOST_FEATURES = 5_000
#: Systems of at most this number of unknowns are solved together.
_SMALL_SYSTEM = 32
#: Types of features that are not converted.
FLOATS = [np.float64, np.float32]


@dataclass(frozen=True)
class ClassSystems:
    """The linear systems of any number of classes, from their means, covariances and weights."""

    means: Vector
    covariances: Vector
    masses: Vector

    @classmethod
    def of(cls, rows: Rows, codes: Places, n_classes: int, weight: Vector) -> ClassSystems:
        """Return the moments of rows whose class has a code; every class has weight."""
        X = rows.matrix
        # Far from zero squares would cancel; sparse rows are not moved.
        origin = 0.0 if isinstance(rows, CsrRows) else weight @ X / weight.sum()
        codes = np.where(weight > 0.0, codes, -1)
        table = Table.none(X.shape[1], n_classes)
        table = table.plus(X - origin if np.any(origin) else X, codes, weight)
        values = table.values(origin)
        return cls(values.means, values.covariances, values.counts)

    def solve_pairs(self, ridge: float) -> Vector:
        """Return the coefficients of all pairs, of shape (n_pairs, n_features)."""
        k, d = self.means.shape
        found = np.empty((k * (k - 1) // 2, d))
        at = 0
        for first in range(k - 1):
            # Small systems together, as each call costs more than the system; large ones alone.
            size = k if d <= _SMALL_SYSTEM else 1
            for begin in range(first + 1, k, size):
                later = slice(begin, min(begin + size, k))
                steps = self.means[later] - self.means[first]
                outer = steps[:, :, np.newaxis] * steps[:, np.newaxis, :]
                matrices = self.covariances[first] + self.covariances[later] + outer
                found[at : at + len(steps)] = _solve_each(matrices, steps, ridge)
                at += len(steps)
        return found

    def solve_order(self, ridge: float) -> Vector:
        """Return the coefficients of one score, with margin b - a for a pair of classes a < b.

        The sum over pairs needs no pair. With shares p_a of the classes, means m_a and numbers a
        taken from their mean over all examples, the sum of p_a p_b (C_a + C_b + d d') over pairs
        is that of p_a (1 - p_a) C_a + p_a m_a m_a' over classes, and the sum of
        p_a p_b (b - a) d is that of p_a a m_a.
        """
        p = self.masses / self.masses.sum()
        means = self.means - p @ self.means
        numbers = np.arange(len(p)) - p @ np.arange(len(p))
        matrix = np.tensordot(p * (1.0 - p), self.covariances, 1) + (means.T * p) @ means
        total = 0.5 * (1.0 - float(p @ p))
        right = (p * numbers) @ means
        return np.asarray(
            _solve_each(matrix[np.newaxis] / total, right[np.newaxis] / total, ridge)[0]
        )


def _solve_each(matrices: Vector, rights: Vector, ridge: float) -> Vector:
    """Return the solution of each system, with the ridge in its diagonal."""
    from scipy import linalg

    # In a direction without variance both sides are zero; the share of the trace keeps it regular.
    traces = np.trace(matrices, axis1=1, axis2=2)
    diagonal = np.arange(matrices.shape[1])
    regular = ridge + 1e-12 * np.maximum(traces, 1e-300)
    matrices[:, diagonal, diagonal] += regular[:, np.newaxis]
    if len(matrices) == 1:
        solved = linalg.solve(matrices[0], rights[0], assume_a="pos", check_finite=False)
        return np.asarray(solved)[np.newaxis]
    return np.asarray(np.linalg.solve(matrices, rights[:, :, np.newaxis])[:, :, 0])


def class_folds(
    codes: Places, weight: Vector, validation_fraction: float, rng: np.random.Generator
) -> list[Fold]:
    """Return (train, held-out) rows of stratified folds, both with weight in every class.

    A class of one example has no other fold: all examples train, and are judged.
    """
    from sklearn.model_selection import StratifiedKFold

    kept = np.flatnonzero(weight > 0.0)
    n_folds = n_folds_of(validation_fraction, int(np.bincount(codes[kept]).min()))
    if n_folds < 2:
        return [(kept, kept)]
    splits = StratifiedKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
    return [(kept[a], kept[b]) for a, b in splits.split(kept[:, None], codes[kept])]


def ridges_of(solver: str | Solver, owner: str) -> tuple[float, ...]:
    """Return the ridges to try by the solver that an estimator is given."""
    exact = SOLVERS.make(solver)
    if type(exact) is not Exact:
        raise ValueError(
            f'{owner} has no way to train by {exact!r}; use solver="exact" or Exact(ridge).'
        )
    ridge = exact.given_ridge
    return RIDGES if ridge is None else (ridge,)


def scores_of(rows: Rows, coef: Vector) -> Vector:
    """Return the scores of the rows, with a column for each row of the coefficients."""
    return np.asarray(rows.matrix @ coef.T, dtype=np.float64)


def n_unknowns(rows: Rows) -> int:
    """Return the number of coefficients per score after `compact`."""
    n, d = rows.shape
    return d if isinstance(rows, CsrRows) else min(n, d)


def compact(rows: Rows) -> tuple[Rows, Vector | None]:
    """Return rows in float64 with at most as many columns as rows, and their basis.

    With a ridge all coefficients lie in the space that the rows span. An orthonormal basis of it
    keeps lengths and scores, and reduces d columns to n: coefficients are ``w @ basis.T``. Sparse
    rows stay as they are. The basis is None for sparse rows and for rows that are not wide.
    """
    if isinstance(rows, CsrRows):
        return rows, None
    X = rows.X.astype(np.float64, copy=False)
    if X.shape[1] <= X.shape[0]:
        return DenseRows(X), None
    basis, coordinates = np.linalg.qr(X.T)
    return DenseRows(np.ascontiguousarray(coordinates.T)), basis


@dataclass(frozen=True)
class CompactRows:
    """Scaled rows in a `compact` basis, and the way back to the units of the user.

    `middle` is the mean of rows that are not centred: sparse ones, and those without scaling.
    """

    given: Rows
    scaling: Scaling | None
    rows: Rows
    basis: Vector | None
    middle: Vector

    def scores(self, index: Places, coef: Vector) -> Vector:
        """Return the scores of some rows, with a column for each row of the coefficients.

        They are relative to `middle`, so that those of several folds compare: far from zero, small
        changes of coefficients would shift all scores of a fold.
        """
        return scores_of(self.rows.take(index), coef) - coef @ self.middle

    def to_user(self, coef: Vector) -> tuple[Vector, Vector]:
        """Return coefficients in the units of the user, and the shift of their scores.

        The shift is the scores of the user's rows less those of `scores`, one number for each row
        of `coef`.
        """
        spread = coef if self.basis is None else coef @ self.basis.T
        if self.scaling is None:
            return spread, coef @ self.middle
        user = np.array([self.scaling.to_user(w) for w in spread])
        first = np.arange(1)
        return user, scores_of(self.given.take(first), user)[0] - self.scores(first, coef)[0]


class ClosedForm(Storable):
    """Base class of linear estimators of classes, grades or labels that are solved directly."""

    solver: str | Exact
    scaling: str | None
    validation_fraction: float
    coef_: Vector

    _not_stored = ("random_state",)
    _takes_sparse = True

    def _ridges(self) -> tuple[float, ...]:
        """Return the ridges to try, after checks of the parameters that all estimators share."""
        is_scaled(self.scaling)
        check_fraction("validation_fraction", self.validation_fraction)
        return ridges_of(self.solver, type(self).__name__)

    def _checked(self, X: Any, *y: Any) -> Any:
        return validate_data(
            self, X, *y, accept_sparse="csr", dtype=FLOATS, order="C", ensure_min_samples=2
        )

    def _compact(
        self, given: Rows, counts: Vector, what: str, *, cure: str, mapped: bool = False
    ) -> CompactRows:
        """Return scaled and compact rows; refuse too many features for a closed form."""
        if n_unknowns(given) > MOST_FEATURES:
            raise ValueError(
                f"X has {given.shape[1]} features, more than {MOST_FEATURES}, for which {what} in "
                f"closed form; use {cure}."
            )
        scaling, rows = scaled_rows(self.scaling, given, counts, mapped=mapped)
        rows, basis = compact(rows)
        n, d = rows.shape
        middle = np.zeros(d)
        if scaling is None or isinstance(rows, CsrRows):
            share = counts / counts.sum() if len(counts) else np.full(n, 1.0 / n)
            middle = np.asarray(share @ rows.matrix, dtype=np.float64)
        return CompactRows(given, scaling, rows, basis, middle)

    def _products(self, X: Any) -> Vector:
        """Return the products of new examples with the coefficients."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        return product(X, self.coef_.T)
